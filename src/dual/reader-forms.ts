/**
 * What readers that hold an older document take the shards for: which forms may follow under the same keys, and what goes
 * once a live view does not show it any more.
 *
 * Such a reader looks for an index of the old length. Where the new one has another length its checksum fails; where it has
 * the same, the chunks must be what the old document says. Must not know commits. @see FORMAT.md [FY-09]
 */
import { SuperchunkError } from "../errors.ts";
import { parseJson } from "../format/json.ts";
import { isTaken } from "../store/entries.ts";
import { joinKey } from "../store/key.ts";
import type { ReadableStore, WritableStore } from "../store/types.ts";
import { layOutColumns } from "../write/layout/columns.ts";
import type { ArraySettings } from "../write/layout/settings.ts";
import { ColumnView, type LiveColumn, type ViewPlace } from "./column-shards.ts";
import { isAlike, isOfForm, LiveDocuments, readDocument } from "./documents.ts";
import type { ShardForm } from "./types.ts";

/** Superchunk lengths that are tried, one after the other. */
const MAX_TRIES = 1000;

/** Forms that are published, and were. */
export interface KnownForms {
  readonly published: readonly ShardForm[];
  readonly old: readonly ShardForm[];
  /** The superchunk length may be another one. */
  readonly isFree: boolean;
}

/**
 * The settings that a live array can have, and every form that its shards may have then.
 *
 * @throws UNSUPPORTED for what Zarr cannot hold as it is stored, and for shards that readers of old documents would take for others;
 * CONFLICT where something is in the way
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
          await assertFree(store, joinKey(path, node));
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

/** A form that was published under the same keys, and would be taken for this one. */
function findMistaken(form: ShardForm, known: readonly ShardForm[]): ShardForm | undefined {
  return known.find(
    ({ node, dimensions, capacity, item }) =>
      node === form.node &&
      (dimensions !== form.dimensions || (capacity === form.capacity && item !== form.item)),
  );
}

/** All forms of two lists, each once. */
function joinForms(a: readonly ShardForm[], b: readonly ShardForm[]): readonly ShardForm[] {
  const isSame = (one: ShardForm, other: ShardForm): boolean =>
    one.node === other.node && one.capacity === other.capacity && one.item === other.item;
  return [...a, ...b.filter((form) => !a.some((other) => isSame(form, other)))];
}

/** Throws `CONFLICT` where a Zarr array, or something else, is in the way; what looking throws, where that fails. */
export async function assertFree(store: WritableStore, path: string): Promise<void> {
  for (const name of ["zarr.json", "c"]) {
    const key = joinKey(path, name);
    if (!(await isTaken(store, key))) continue;
    throw new SuperchunkError(
      "CONFLICT",
      "it is there already; the folder seems to be a Zarr array of its own. Choose another place, or remove it",
      { path: store.describe(key), field: "zarr" },
    );
  }
}

/**
 * Removes the documents, the root's first, where one of them describes other chunks than `documents`, whose last one is the
 * root's: a reader that opens the array while its shards change gets an error, and a crash leaves none that is half right.
 */
export async function removeUnlikeDocuments(
  { store }: Pick<ViewPlace, "store">,
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

/** Documents of other versions of Zarr, which a live view never writes. */
const OTHER_DOCUMENTS: readonly string[] = [".zarray", ".zgroup"];

/**
 * True where another program put an array or a group at the place of an old column: what lies there says other than any of
 * these forms, which the shards of a live view had.
 */
export async function isForeign(
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
 * Removes the documents of nodes that no column has any more, and leaves notes in the place of their shards. What other
 * programs put there stays as it is.
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
