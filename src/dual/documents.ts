/**
 * The Zarr documents of a live view: an array, or for columns a group of arrays. They depend only on settings,
 * attributes and rows, never on stored data, so apart from the shape they are the same for every length.
 *
 * Also decides what readers with an older document take the shards for, which forms may therefore follow under the same
 * keys, and what is removed once the view no longer shows it. Such a reader expects an index of the old length. If the
 * new index has another length, its checksum fails; if it has the same length, the chunks must be what the old document
 * says. Must not know commits. @see FORMAT.md [FY-01] [FY-09]
 */

import { at } from "../bytes/arrays.ts";
import { DIGEST_LENGTHS } from "../bytes/checksum.ts";
import { typesizeFor } from "../codec/header.ts";
import { addAttributes, describeValues, nameDimensions } from "../convert/sources/source-array.ts";
import { SuperchunkError, valueOr } from "../errors.ts";
import { isObject, parseJson, stringifyJson } from "../format/json.ts";
import type { DType, JsonObject, JsonValue } from "../format/types.ts";
import { isTaken, joinKey } from "../store/key.ts";
import type { ReadableStore, WritableStore } from "../store/types.ts";
import { type ColumnLayout, layOutColumns } from "../write/layout/columns.ts";
import type { ArraySettings } from "../write/layout/settings.ts";
import { arrayDocument, encodeNodes, groupDocument } from "../zarr/document/make-v3.ts";
import { nameNodes } from "../zarr/document/node-names.ts";
import { mapDType, type ZarrType } from "../zarr/document/zarr-dtype.ts";
import { ColumnView, type LiveColumn, type ViewPlace } from "./column-shards.ts";
import { isNodePath } from "./state.ts";
import type { ShardForm } from "./types.ts";

/** A column and what its document says. */
interface ColumnNode {
  readonly column: LiveColumn;
  /** Name of the column, if the node's name differs. */
  readonly name: string | undefined;
  readonly type: ZarrType;
  /** Dimensions after the rows. */
  readonly tail: readonly number[];
  readonly itemSize: number;
}

/** The part of an array's archive that its documents need. */
interface LiveArchive {
  readonly store: ReadableStore;
  readonly path: string;
}

export class LiveDocuments {
  readonly #archive: LiveArchive;
  readonly #settings: ArraySettings;
  readonly #nodes: readonly ColumnNode[];

  /** Throws `UNSUPPORTED` for values that Zarr cannot represent as stored, with the reason. */
  constructor(archive: LiveArchive, settings: ArraySettings, columns: readonly ColumnLayout[]) {
    this.#archive = archive;
    this.#settings = settings;
    const names = nameNodes(columns.flatMap(({ name }) => (name === undefined ? [] : [name])));
    this.#nodes = columns.map((column, index) => this.#node(column, index, names));
  }

  get columns(): readonly LiveColumn[] {
    return this.#nodes.map(({ column }) => column);
  }

  /** How readers of these documents read the shards. */
  get forms(): readonly ShardForm[] {
    return this.#nodes.map((node) => {
      const { node: path, dimensions, facts } = node.column;
      const { capacity, chunkBytes } = facts;
      return {
        node: path,
        dimensions,
        capacity,
        chunkBytes,
        item: itemFormatOf(this.#document(node, 0, {})) ?? "",
      };
    });
  }

  /** Keys and bytes of the documents for this number of rows, in publication order: the root's is last. */
  list(rows: number, attrs: JsonObject): (readonly [key: string, bytes: Uint8Array])[] {
    const isGroup = this.#settings.hasColumns;
    const documents = this.#nodes.map((node) => this.#document(node, rows, isGroup ? {} : attrs));
    const named = nameDimensions(documents.map((document) => ({ document, isColumn: isGroup })));
    const arrays = new Map(this.#nodes.map(({ column }, i) => [column.node, at(named, i)]));
    const { attributes } = addAttributes(attrs, { column_order: [...arrays.keys()] });
    const groups = new Map(isGroup ? [["", groupDocument(attributes)]] : []);
    return encodeNodes(groups, arrays).map(([key, bytes]) => [joinKey(this.#archive.path, key), bytes]);
  }

  #node(layout: ColumnLayout, index: number, names: ReadonlyMap<string, string>): ColumnNode {
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
      throw unsupported(where, "its rows have no bytes, and Zarr does not have such chunks");
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
          digestLength: DIGEST_LENGTHS[checksum],
        },
        fill: type.fill.item,
      },
      name: name === node ? undefined : name,
      type,
      tail: [...tail, ...type.itemShape],
      itemSize: layout.itemSize,
    };
  }

  #document({ type, tail, name, itemSize }: ColumnNode, rows: number, attrs: JsonObject): JsonObject {
    const { chunklen, superchunklen, cname, clevel, shuffle } = this.#settings;
    const shape = [rows, ...tail];
    const { attributes, dimensionNames } = describeValues(
      { attrs, shape: shape.slice(0, shape.length - type.itemShape.length) },
      type,
      undefined,
      name,
    );
    return arrayDocument({
      shape,
      dataType: type.dataType,
      fillValue: type.fill.json,
      bytesCodec: type.bytesCodec,
      blosc: { cname, clevel, shuffle, typesize: typesizeFor(itemSize) },
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
    `it cannot be a Zarr array as well: ${reason}. Create it without, and make a Zarr copy with "superchunk convert"`,
    { path, field: "zarr" },
  );
}

/** JSON of what two documents must share so that readers of both decode chunks alike; undefined for a foreign document. */
function itemFormatOf(document: JsonValue | undefined): string | undefined {
  const [sharding] = listAt(document, "codecs");
  const inner = memberOf(sharding, "configuration");
  const [bytes] = listAt(inner, "codecs");
  const facts = [memberOf(document, "data_type"), memberOf(inner, "chunk_shape"), bytes];
  return facts.includes(undefined) ? undefined : stringifyJson(facts as JsonValue[]);
}

/** True for the document of an array whose shards have this form and are compressed like those of a live view. */
function isOfForm(document: JsonValue | undefined, form: ShardForm): boolean {
  const [sharding] = listAt(document, "codecs");
  const inner = memberOf(sharding, "configuration");
  const [, compressor] = listAt(inner, "codecs");
  const [rows] = listAt(inner, "chunk_shape");
  const grid = memberOf(memberOf(document, "chunk_grid"), "configuration");
  const [shardRows] = listAt(grid, "chunk_shape");
  return (
    itemFormatOf(document) === form.item &&
    memberOf(compressor, "name") === "blosc" &&
    listAt(document, "shape").length === form.dimensions + 1 &&
    typeof rows === "number" &&
    shardRows === rows * form.capacity
  );
}

/** True if two documents describe the same chunks in the same shards. */
function isAlike(a: JsonValue | undefined, b: JsonValue | undefined): boolean {
  const [one, other] = [a, b].map((document) => {
    const grid = memberOf(memberOf(document, "chunk_grid"), "configuration");
    return [itemFormatOf(document), stringifyJson(memberOf(grid, "chunk_shape") ?? null)];
  });
  return one?.[0] !== undefined && one[0] === other?.[0] && one[1] === other?.[1];
}

/** A member of an object; undefined if it is absent, or the value is not an object. */
export function memberOf(value: JsonValue | undefined, name: string): JsonValue | undefined {
  return isObject(value) ? value[name] : undefined;
}

function listAt(value: JsonValue | undefined, name: string): readonly JsonValue[] {
  const list = memberOf(value, name);
  return Array.isArray(list) ? (list as readonly JsonValue[]) : [];
}

/** Reads a document. Returns undefined if there is none, and `document: undefined` if it is damaged. */
export async function readDocumentAt(
  store: ReadableStore,
  key: string,
): Promise<{ readonly document: JsonValue | undefined } | undefined> {
  const bytes = await store.get(key);
  if (bytes === undefined) return undefined;
  return { document: valueOr(undefined, "damage", () => parseJson(bytes, store.describe(key))) };
}

const MAX_TRIES = 1000;

/** Forms that are published now, and those published earlier. */
interface KnownForms {
  readonly published: readonly ShardForm[];
  readonly old: readonly ShardForm[];
  /** True if another superchunk length may be chosen. */
  readonly isFree: boolean;
}

/**
 * Settings that a live array can have, and every form that its shards may then have had.
 * @throws UNSUPPORTED for what Zarr cannot represent as stored, and for shards that readers of old documents would
 * misread; CONFLICT if another object is in the way
 */
export async function admitForms(
  place: { readonly store: WritableStore; readonly path: string },
  settings: ArraySettings,
  { published, old, isFree }: KnownForms,
): Promise<{ readonly settings: ArraySettings; readonly forms: readonly ShardForm[] }> {
  const known = joinForms(old, published);
  const { store, path } = place;
  for (let tries = 0; ; tries++) {
    const chosen = { ...settings, superchunklen: settings.superchunklen + tries };
    const { forms } = new LiveDocuments(place, chosen, layOutColumns(path, chosen));
    const clash = forms
      .map((form) => ({ form, other: findMistaken(form, known) }))
      .find(({ other }) => other !== undefined);
    if (clash?.other === undefined) {
      for (const { node } of forms) {
        if (published.some((each) => each.node === node)) continue;
        const isKnown = known.some((each) => each.node === node);
        if (!isKnown || (await isForeign(store, path, node, known)))
          await assertNodeFree(store, joinKey(path, node));
      }
      return { settings: chosen, forms: joinForms(known, forms) };
    }
    if (!isFree || tries >= MAX_TRIES)
      throw mistakenShards(store.describe(joinKey(path, clash.form.node)), clash.form, clash.other);
  }
}

function mistakenShards(path: string, form: ShardForm, other: ShardForm): SuperchunkError {
  const { node, capacity, item } = form;
  const way =
    node === ""
      ? `Choose another superchunklen than ${capacity}`
      : "Choose another superchunklen, or another name for the column";
  return new SuperchunkError(
    "UNSUPPORTED",
    `Zarr readers may still hold a zarr.json that says ${other.capacity} chunks of another kind for each of these shards, and would take the new ones for them. ${way}; or, once there are no readers, "superchunk unlink", change it, and "superchunk link --live"`,
    { path, field: node === "" ? "superchunklen" : "columns", expected: other.item, found: item },
  );
}

/** An earlier form under the same keys whose readers would misread this one. */
function findMistaken(form: ShardForm, known: readonly ShardForm[]): ShardForm | undefined {
  return known.find(
    ({ node, dimensions, capacity, item }) =>
      node === form.node &&
      (dimensions !== form.dimensions || (capacity === form.capacity && item !== form.item)),
  );
}

/** All forms of two lists, without duplicates. */
function joinForms(a: readonly ShardForm[], b: readonly ShardForm[]): readonly ShardForm[] {
  const isSame = (one: ShardForm, other: ShardForm): boolean =>
    one.node === other.node && one.capacity === other.capacity && one.item === other.item;
  return [...a, ...b.filter((form) => !a.some((other) => isSame(form, other)))];
}

/** Throws `CONFLICT` if a Zarr array or another object is in the way, and passes on errors of the store. */
export async function assertNodeFree(store: WritableStore, path: string): Promise<void> {
  for (const name of ["zarr.json", "c"]) {
    const key = joinKey(path, name);
    if (!(await isTaken(store, key))) continue;
    throw new SuperchunkError(
      "CONFLICT",
      "it exists already; the folder seems to be a separate Zarr array. Choose another place, or remove it",
      { path: store.describe(key), field: "zarr" },
    );
  }
}

/**
 * Removes the documents, the root's first, if one of them describes other chunks than `documents` (whose last is the root's). A
 * reader that opens the array while its shards change gets an error, and a crash leaves no half-correct document.
 */
export async function removeUnlikeDocuments(
  { store }: Pick<ViewPlace, "store">,
  documents: readonly (readonly [key: string, bytes: Uint8Array])[],
): Promise<void> {
  const unlike: string[] = [];
  for (const [key, bytes] of documents) {
    const stored = await readDocumentAt(store, key);
    const own = parseJson(bytes, key);
    const isGroup = key === documents.at(-1)?.[0] && documents.length > 1;
    if (stored !== undefined && !isGroup && !isAlike(stored.document, own)) unlike.push(key);
  }
  const root = documents.at(-1)?.[0];
  if (unlike.length === 0 || root === undefined) return;
  await store.delete(root);
  await store.sync?.([]);
  for (const key of unlike) await store.delete(key);
  await store.sync?.([]);
}

/** Documents of Zarr v2, which a live view never writes. */
const OTHER_DOCUMENTS: readonly string[] = [".zarray", ".zgroup"];

/**
 * True if another program stored an array or a group at the node of an old column: the document there matches none of
 * the forms that the live view's shards had.
 */
export async function isForeign(
  store: ReadableStore,
  path: string,
  node: string,
  forms: readonly ShardForm[],
): Promise<boolean> {
  for (const name of OTHER_DOCUMENTS)
    if ((await store.stat(joinKey(path, node, name))) !== undefined) return true;
  const stored = await readDocumentAt(store, joinKey(path, node, "zarr.json"));
  return stored !== undefined && !forms.some((form) => form.node === node && isOfForm(stored.document, form));
}

/**
 * Removes the documents of nodes that no column has any longer, and replaces their shards by notes. Leaves alone what
 * other programs put there.
 */
export async function removeOldNodes(
  place: ViewPlace,
  forms: readonly ShardForm[],
  columns: readonly LiveColumn[],
): Promise<void> {
  const { store, path } = place;
  const current = new Set(columns.map(({ node }) => node));
  for (const { node, dimensions, capacity, chunkBytes } of forms) {
    if (current.has(node) || (await isForeign(store, path, node, forms))) continue;
    await store.delete(joinKey(path, node, "zarr.json"));
    await store.sync?.([]);
    const facts = { capacity, chunkBytes, digestLength: 0 };
    const column = { index: -1, folder: "", node, dimensions, facts, fill: new Uint8Array(0) };
    const view = new ColumnView(place, column);
    for (const shard of await view.list()) await view.remove(shard);
  }
}
