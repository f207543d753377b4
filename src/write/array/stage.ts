/**
 * Makes an array in parts: tasks publish its superchunks, in any order and more than once, and one commit names them all. Knows which
 * superchunk has which rows; must not know where the rows come from.
 */
import { encodeJson } from "../../archive/places/layout-files.ts";
import { EMPTY_LAYOUT, type StoredLayout } from "../../format/layout.ts";
import { joinKey } from "../../store/key.ts";
import type { WritableStore } from "../../store/types.ts";
import { assertColumnsApart, layOutColumns } from "../layout/columns.ts";
import { type ArraySettings, storageOf } from "../layout/settings.ts";
import { readRows } from "../rows/rows.ts";
import { ArrayWriter } from "./array-writer.ts";
import { commitStorage } from "./changes.ts";
import type { ArrayOptions, WriteOptions } from "./create.ts";
import { ArrayRoot, type Committed, newArrayId } from "./root.ts";

/** A new array. */
interface StagedArray {
  readonly store: WritableStore;
  readonly path: string;
  readonly settings: ArraySettings;
}

/**
 * Publishes the rows from `first` on, where a superchunk begins. Superchunks get the numbers of their positions, and replace what is there.
 * Resolves with the row after the last one. Throws `CONFLICT` for columns that the file system does not tell apart.
 */
export async function stageSuperchunks(
  { store, path, settings }: StagedArray,
  first: number,
  data: AsyncIterable<Uint8Array>,
  options: Pick<WriteOptions, "encoder" | "signal">,
): Promise<number> {
  await assertColumnsApart(store, path, settings);
  const root = new ArrayRoot(store, path, undefined, { replaces: true });
  const before = { layout: plainLayout(settings, first), rows: first, cbytes: 0 };
  const writer = new ArrayWriter(root, settings, before, options);
  try {
    await writer.prepare();
    for await (const items of readRows(data, settings)) {
      options.signal?.throwIfAborted();
      await writer.append(items);
    }
    await writer.stage();
    return writer.rows;
  } catch (error) {
    await writer.rollBack();
    throw error;
  }
}

/** Makes published superchunks an array; `cbytes` are their stored bytes. With `replaces`, there may be an array already. */
export async function commitSuperchunks(
  { store, path, settings }: StagedArray,
  { rows, cbytes }: Pick<Committed, "rows" | "cbytes">,
  { attrs = {}, replaces = false }: Pick<ArrayOptions, "attrs"> & { readonly replaces?: boolean },
): Promise<void> {
  await assertColumnsApart(store, path, settings);
  await store.put(joinKey(path, "meta/attributes"), encodeJson(attrs), { durable: true });
  const layout = { ...plainLayout(settings, rows), id: newArrayId() };
  const root = new ArrayRoot(store, path, undefined, { replaces });
  const writer = new ArrayWriter(root, settings, { layout, rows, cbytes });
  await writer.recommit({ storage: storageOf(settings) });
  await commitStorage(writer);
}

/** The layout of the first rows of an array, each superchunk at its position. */
function plainLayout({ chunklen, superchunklen, ...settings }: ArraySettings, rows: number): StoredLayout {
  const [{ rowBytes } = { rowBytes: 0 }] = layOutColumns("", settings);
  const chunks = rowBytes === 0 ? 0 : Math.ceil(rows / chunklen);
  const full = Math.floor(chunks / superchunklen);
  const rest = chunks - full * superchunklen;
  const runs = [
    { first: 1, count: full, chunks: superchunklen },
    { first: full + 1, count: 1, chunks: rest },
  ];
  return {
    ...EMPTY_LAYOUT,
    id: "",
    plain: Math.ceil(chunks / superchunklen),
    runs: runs.filter((run) => run.count * run.chunks > 0),
  };
}
