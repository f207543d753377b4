/**
 * The Zarr documents of a live view: an array, or for columns a group of arrays. They depend on the settings, the attributes
 * and the rows, and on nothing that is stored, so that they are the same for every length but for the shape. And what
 * documents that are there say of their shards. @see FORMAT.md [FY-01]
 */

import { addAttributes, describeValues } from "../convert/plan/zarr-attributes.ts";
import { isSuperchunkError, SuperchunkError } from "../errors.ts";
import { digestLength } from "../format/checksums.ts";
import { parseJson } from "../format/json.ts";
import { stringifyJson } from "../format/json-text.ts";
import type { DType, JsonObject, JsonValue } from "../format/types.ts";
import { joinKey } from "../store/key.ts";
import type { ReadableStore } from "../store/types.ts";
import type { ColumnLayout } from "../write/layout/columns.ts";
import type { ArraySettings } from "../write/layout/settings.ts";
import { nameNodes } from "../zarr/document/node-names.ts";
import { mapDType, type ZarrType } from "../zarr/document/zarr-dtype.ts";
import { arrayDocument, encodeNodes, groupDocument } from "../zarr/document/zarr-metadata.ts";
import type { LiveColumn } from "./column-shards.ts";
import { isNodePath } from "./state.ts";
import type { ShardForm } from "./types.ts";

/** A column with all that its document says. */
interface Node {
  readonly column: LiveColumn;
  /** Name of the column where the node has another one. */
  readonly name: string | undefined;
  readonly type: ZarrType;
  /** After the rows. */
  readonly tail: readonly number[];
  readonly itemSize: number;
}

/** An array's archive, as far as its documents need it. */
export interface LiveArchive {
  readonly store: ReadableStore;
  readonly path: string;
}

export class LiveDocuments {
  readonly #archive: LiveArchive;
  readonly #settings: ArraySettings;
  readonly #nodes: readonly Node[];

  /** Throws `UNSUPPORTED` for values that Zarr cannot hold as they are stored, saying why. */
  constructor(archive: LiveArchive, settings: ArraySettings, columns: readonly ColumnLayout[]) {
    this.#archive = archive;
    this.#settings = settings;
    const names = nameNodes(columns.flatMap(({ name }) => (name === undefined ? [] : [name])));
    this.#nodes = columns.map((column, index) => this.#node(column, index, names));
  }

  get columns(): readonly LiveColumn[] {
    return this.#nodes.map(({ column }) => column);
  }

  /** How the shards are read that the documents describe. */
  get forms(): readonly ShardForm[] {
    return this.#nodes.map((node) => {
      const { node: path, dimensions, facts } = node.column;
      const { capacity, chunkBytes } = facts;
      return {
        node: path,
        dimensions,
        capacity,
        chunkBytes,
        item: itemOf(this.#document(node, 0, {})) ?? "",
      };
    });
  }

  /** Keys and bytes for so many rows, in the order in which they are published: the root's last. */
  list(rows: number, attrs: JsonObject): (readonly [key: string, bytes: Uint8Array])[] {
    const isGroup = this.#settings.hasColumns;
    const arrays = new Map(
      this.#nodes.map((node) => [node.column.node, this.#document(node, rows, isGroup ? {} : attrs)]),
    );
    const { attributes } = addAttributes(attrs, { column_order: [...arrays.keys()] });
    const groups = new Map(isGroup ? [["", groupDocument(attributes)]] : []);
    return encodeNodes(groups, arrays).map(([key, bytes]) => [joinKey(this.#archive.path, key), bytes]);
  }

  #node(layout: ColumnLayout, index: number, names: ReadonlyMap<string, string>): Node {
    const { dtype, rowShape, dflt, chunklen, superchunklen, checksum } = this.#settings;
    const { store, path } = this.#archive;
    const { name } = layout;
    const field = name === undefined || dtype.kind !== "struct" ? undefined : dtype.fields[index];
    const own: DType = field?.dtype ?? dtype;
    const fill: JsonValue = field === undefined ? dflt : ((Array.isArray(dflt) ? dflt[index] : null) ?? null);
    const where = store.describe(path);
    const type = mapDType(own, { fillValue: fill, path: where });
    if (type.transform !== undefined) throw unsupported(where, type.transform.reason);
    const tail = [...rowShape, ...(field?.shape ?? [])];
    if (layout.rowBytes === 0)
      throw unsupported(where, "its rows have no bytes, and Zarr has no such chunks");
    const node = name === undefined ? "" : (names.get(name) ?? name);
    if (!isNodePath(node))
      throw unsupported(
        where,
        `the column "${node}" would become the folder ${node}, which is the archive's own`,
      );
    return {
      column: {
        index,
        folder: layout.folder,
        node,
        dimensions: tail.length + type.itemShape.length,
        facts: {
          capacity: superchunklen,
          chunkBytes: chunklen * layout.rowBytes,
          digestLength: digestLength(checksum),
        },
        fill: type.fill.item,
      },
      name: name === node ? undefined : name,
      type,
      tail: [...tail, ...type.itemShape],
      itemSize: layout.itemSize,
    };
  }

  #document({ type, tail, name, itemSize }: Node, rows: number, attrs: JsonObject): JsonObject {
    const { chunklen, superchunklen, cname, clevel, shuffle } = this.#settings;
    const shape = [rows, ...tail];
    const { attributes, dimensionNames } = describeValues(
      { attrs, shape: shape.slice(0, shape.length - type.itemShape.length), archive: this.#archive },
      type,
      undefined,
      name,
    );
    return arrayDocument({
      shape,
      dataType: type.dataType,
      fillValue: type.fill.json,
      bytesCodec: type.bytesCodec,
      blosc: {
        cname,
        clevel,
        shuffle,
        typesize: itemSize > 255 ? 1 : itemSize,
      },
      chunkShape: [chunklen, ...tail],
      shardShape: [chunklen * superchunklen, ...tail],
      transpose: undefined,
      attributes,
      dimensionNames,
    });
  }
}

function unsupported(path: string, reason: string): SuperchunkError {
  return new SuperchunkError(
    "UNSUPPORTED",
    `it cannot be a Zarr array as well: ${reason}. Make it without, and let "superchunk convert" make a Zarr copy`,
    { path, field: "zarr" },
  );
}

/** JSON of what two documents must have in common so that both read chunks alike; undefined for a document that is not ours. */
function itemOf(document: JsonValue | undefined): string | undefined {
  const [sharding] = listAt(document, "codecs");
  const inner = memberOf(sharding, "configuration");
  const [bytes] = listAt(inner, "codecs");
  const facts = [memberOf(document, "data_type"), memberOf(inner, "chunk_shape"), bytes];
  return facts.includes(undefined) ? undefined : stringifyJson(facts as JsonValue[]);
}

/** True for the document of an array whose shards have this form, compressed as those of a live view. */
export function isOfForm(document: JsonValue | undefined, form: ShardForm): boolean {
  const [sharding] = listAt(document, "codecs");
  const inner = memberOf(sharding, "configuration");
  const [, compressor] = listAt(inner, "codecs");
  const [rows] = listAt(inner, "chunk_shape");
  const grid = memberOf(memberOf(document, "chunk_grid"), "configuration");
  const [shardRows] = listAt(grid, "chunk_shape");
  return (
    itemOf(document) === form.item &&
    memberOf(compressor, "name") === "blosc" &&
    listAt(document, "shape").length === form.dimensions + 1 &&
    typeof rows === "number" &&
    shardRows === rows * form.capacity
  );
}

/** True where two documents describe the same chunks in the same shards. */
export function isAlike(a: JsonValue | undefined, b: JsonValue | undefined): boolean {
  const [one, other] = [a, b].map((document) => {
    const grid = memberOf(memberOf(document, "chunk_grid"), "configuration");
    return [itemOf(document), stringifyJson(memberOf(grid, "chunk_shape") ?? null)];
  });
  return one?.[0] !== undefined && one[0] === other?.[0] && one[1] === other?.[1];
}

/** A member of an object; undefined where there is none, or where the value is not an object. */
export function memberOf(value: JsonValue | undefined, name: string): JsonValue | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  return (value as JsonObject)[name];
}

function listAt(value: JsonValue | undefined, name: string): readonly JsonValue[] {
  const list = memberOf(value, name);
  return Array.isArray(list) ? (list as readonly JsonValue[]) : [];
}

/** A document that is there: undefined, in an object, where it is damaged. */
export async function readDocument(
  store: ReadableStore,
  key: string,
): Promise<{ readonly document: JsonValue | undefined } | undefined> {
  const bytes = await store.get(key);
  if (bytes === undefined) return undefined;
  try {
    return { document: parseJson(bytes, store.describe(key)) };
  } catch (error) {
    if (isSuperchunkError(error) && error.isDamage) return { document: undefined };
    throw error;
  }
}
