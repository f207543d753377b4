/**
 * Takes away what a mirrored array does not show any more: documents of other chunks, and columns that went.
 *
 * Knows keys and documents; must not know commits. @see FORMAT.md [FY-09]
 */
import { isSuperchunkError } from "../../errors.ts";
import { parseJson } from "../../format/json.ts";
import type { JsonValue } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore } from "../../store/types.ts";
import { ColumnMirror, type MirrorPlace } from "./column-mirror.ts";
import type { MirroredColumn } from "./column-shards.ts";
import { isAlike, isOfForm, type ShardForm } from "./forms.ts";

/**
 * Removes the documents, the root's first, where one of them tells of other chunks than `documents`, whose last one is the
 * root's: whoever opens the array while its shards change gets an error, and a crash leaves none that is half right.
 */
export async function removeUnlikeDocuments(
  { store }: Pick<MirrorPlace, "store">,
  documents: readonly (readonly [key: string, bytes: Uint8Array])[],
): Promise<void> {
  const unlike: string[] = [];
  for (const [key, bytes] of documents) {
    const stored = await readDocument(store, key);
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

/** Documents of other versions of Zarr, which a mirror never writes. */
const OTHER_DOCUMENTS: readonly string[] = [".zarray", ".zgroup"];

/**
 * True where somebody else put an array or a group at the place of a former column: what lies there says other than any of
 * these forms, which the shards of a mirror had.
 */
export async function isOthers(
  store: ReadableStore,
  path: string,
  node: string,
  forms: readonly ShardForm[],
): Promise<boolean> {
  for (const name of OTHER_DOCUMENTS)
    if ((await store.stat(joinKey(path, node, name))) !== undefined) return true;
  const stored = await readDocument(store, joinKey(path, node, "zarr.json"));
  return stored !== undefined && !forms.some((form) => form.node === node && isOfForm(stored.document, form));
}

/**
 * Removes the documents of nodes that no column has any more, and leaves notes in the place of their shards. What others put
 * there stays as it is.
 */
export async function removeFormerNodes(
  place: MirrorPlace,
  forms: readonly ShardForm[],
  columns: readonly MirroredColumn[],
): Promise<void> {
  const { store, path } = place;
  const current = new Set(columns.map(({ node }) => node));
  for (const { node, dimensions, capacity, chunkBytes } of forms) {
    if (current.has(node) || (await isOthers(store, path, node, forms))) continue;
    await store.delete(joinKey(path, node, "zarr.json"));
    await store.sync?.([]);
    const facts = { capacity, chunkBytes, digestLength: 0 };
    const column = { index: -1, folder: "", node, dimensions, facts, fill: new Uint8Array(0) };
    const mirror = new ColumnMirror(place, column);
    for (const shard of await mirror.shards.list()) await mirror.remove(shard);
  }
}
