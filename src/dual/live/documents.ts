/**
 * The Zarr documents of an array that is mirrored: an array, or for columns a group of arrays. They depend on the settings,
 * the attributes and the rows, and on nothing that is stored, so that they are the same for every length but for the shape.
 * @see FORMAT.md [FY-01]
 */

import { addAttributes, describeValues } from "../../convert/plan/zarr-attributes.ts";
import { SuperchunkError } from "../../errors.ts";
import { digestLength } from "../../format/checksums.ts";
import type { DType, JsonObject, JsonValue } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore } from "../../store/types.ts";
import type { ColumnLayout } from "../../write/layout/columns.ts";
import type { ArraySettings } from "../../write/layout/settings.ts";
import { nameNodes } from "../../zarr/document/node-names.ts";
import { mapDType, type ZarrType } from "../../zarr/document/zarr-dtype.ts";
import {
  arrayDocument,
  consolidate,
  encodeDocument,
  groupDocument,
} from "../../zarr/document/zarr-metadata.ts";
import type { MirroredColumn } from "./column-shards.ts";
import { isNodePath, itemOf, type ShardForm } from "./forms.ts";

/** A column with all that its document says. */
interface Node {
  readonly column: MirroredColumn;
  /** Name of the column where the node has another one. */
  readonly name: string | undefined;
  readonly type: ZarrType;
  /** Behind the rows. */
  readonly tail: readonly number[];
  readonly itemSize: number;
}

/** An array's archive, as far as its documents need it. */
export interface MirroredArchive {
  readonly store: ReadableStore;
  readonly path: string;
}

export class MirrorDocuments {
  readonly #archive: MirroredArchive;
  readonly #settings: ArraySettings;
  readonly #nodes: readonly Node[];

  /** Throws `UNSUPPORTED` for values that Zarr cannot hold as they are stored, saying why. */
  constructor(archive: MirroredArchive, settings: ArraySettings, columns: readonly ColumnLayout[]) {
    this.#archive = archive;
    this.#settings = settings;
    const names = nameNodes(columns.flatMap(({ name }) => (name === undefined ? [] : [name])));
    this.#nodes = columns.map((column, index) => this.#node(column, index, names));
  }

  get columns(): readonly MirroredColumn[] {
    return this.#nodes.map(({ column }) => column);
  }

  /** How the shards are read that the documents tell of. */
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
    const documents = this.#nodes.map((node) => this.#document(node, rows, isGroup ? {} : attrs));
    const keys = this.#nodes.map(({ column }) => joinKey(this.#archive.path, column.node, "zarr.json"));
    const listed = documents.map((document, i) => [keys[i] ?? "", encodeDocument(document)] as const);
    if (!isGroup) return listed;
    const order = this.#nodes.map(({ column }) => column.node);
    const { attributes } = addAttributes(attrs, { column_order: order });
    const below = order.map((node, i) => [node, documents[i] ?? {}] as const);
    const root = consolidate(groupDocument(attributes), below);
    return [...listed, [joinKey(this.#archive.path, "zarr.json"), encodeDocument(root)]];
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
