/**
 * Atomic changes of chunks in the middle of a carray, or of all columns of a table.
 *
 * The new chunk files wait in the folder `__redo__`; putting `__redo__/commit` is the commit. Then the files are copied to
 * their places, and the next writer completes what an interruption leaves undone. bcolz does not know the folder. While rows
 * move, `meta/sizes` counts only the rows before them, so bcolz reads fewer rows, but never wrong ones.
 * @see docs/writing.md [FA-12]
 */

import { REDO_COMMIT } from "../../archive/kinds/verify.ts";
import { copyOf } from "../../archive/places/journal.ts";
import { pushAll } from "../../bytes/arrays.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { parseSizes, parseStorage } from "../../format/folder.ts";
import { parseJson, stringifyJson } from "../../format/json.ts";
import { parseCarrayChunkName } from "../../format/naming.ts";
import type { JsonObject } from "../../format/types.ts";
import { joinKey, splitKey } from "../../store/key.ts";
import type { StoreOptions, WritableStore } from "../../store/types.ts";

const { folder: FOLDER } = splitKey(REDO_COMMIT);
const VERSION = 1;

/** The change of one carray: the texts that its `meta/sizes` has in sequence. */
export interface RedoColumn {
  /** Folder of the carray, below that of the table; `""` for a carray alone. */
  readonly folder: string;
  readonly before: string;
  /** While chunks are put in place; the same as `before` if no row moves. */
  readonly meanwhile: string;
  readonly after: string;
}

/** Key of a staged chunk file, for chunk `index` of the column at this position. */
export function stagedKey(path: string, column: number, index: number): string {
  return joinKey(path, FOLDER, String(column), `__${index}.blp`);
}

/** Commits the staged chunks of a carray or a table, and puts them in place. The chunks need not be durable yet. */
export async function commitRedo(
  store: WritableStore,
  path: string,
  columns: readonly RedoColumn[],
): Promise<void> {
  const keys: string[] = [];
  for (const i of columns.keys()) pushAll(keys, await stagedKeys(store, path, i));
  await store.sync?.(keys);
  const text = stringifyJson({ version: VERSION, columns: columns.map((column) => ({ ...column })) });
  await store.put(joinKey(path, REDO_COMMIT), utf8(text), { durable: true });
  await finishRedo(store, path);
}

/**
 * Finishes what a commit began, in this session or an interrupted one, and removes staged chunks without a commit. Idempotent.
 * @throws CONFLICT if another program has changed the array since: then nothing is changed or removed
 */
export async function finishRedo(
  store: WritableStore,
  path: string,
  options: StoreOptions = {},
): Promise<void> {
  const key = joinKey(path, REDO_COMMIT);
  const bytes = await store.get(key, options);
  if (bytes === undefined) {
    await dropStaged(store, path);
    return;
  }
  const columns = parseRedo(bytes, store.describe(key));
  for (const column of columns) await assertOurs(store, path, column);
  // The first column's rows are the table's: it is cut first and grows last.
  for (const { folder, before, meanwhile } of columns)
    if ((await sizesOf(store, path, folder)) === before) await putSizes(store, path, folder, meanwhile);
  for (const [i, { folder }] of columns.entries()) await place(store, path, i, folder);
  for (const { folder, after } of [...columns].reverse()) await putSizes(store, path, folder, after);
  for (const { folder, after } of columns) await removeAfter(store, joinKey(path, folder), after);
  await store.sync?.([]);
  await store.delete(key);
  await dropStaged(store, path);
}

/** Copies the staged chunks of a column to their places. They are kept until the commit is removed, so any step can be repeated. */
async function place(store: WritableStore, path: string, column: number, folder: string): Promise<void> {
  for (const from of await stagedKeys(store, path, column)) {
    const to = joinKey(path, folder, "data", from.slice(from.lastIndexOf("/") + 1));
    await store.put(to, copyOf(store, from), { durable: true });
  }
}

async function stagedKeys(store: WritableStore, path: string, column: number): Promise<string[]> {
  const folder = joinKey(path, FOLDER, String(column));
  const keys: string[] = [];
  for await (const { name, kind } of store.list(folder))
    if (kind === "object" && parseCarrayChunkName(name) !== undefined) keys.push(joinKey(folder, name));
  return keys;
}

/** Removes staged chunks without a commit. */
export async function dropStaged(store: WritableStore, path: string): Promise<void> {
  const folders: string[] = [];
  for await (const { name, kind } of store.list(joinKey(path, FOLDER)))
    if (kind === "folder") folders.push(name);
  for (const name of folders) {
    const folder = joinKey(path, FOLDER, name);
    await store.removeLeftovers?.(folder);
    for (const key of await stagedKeys(store, path, Number(name))) await store.delete(key);
    await store.delete(folder);
  }
  if (folders.length > 0) await store.delete(joinKey(path, FOLDER));
}

/** Removes the chunk files that `sizes` no longer counts. */
async function removeAfter(store: WritableStore, folder: string, sizes: string): Promise<void> {
  const storageKey = joinKey(folder, "meta/storage");
  const storage = await store.get(storageKey);
  if (storage === undefined) return;
  const { chunklen } = parseStorage(storage, store.describe(storageKey));
  const [rows = 0] = parseSizes(utf8(sizes), store.describe(joinKey(folder, "meta/sizes"))).shape;
  for (const index of await chunksFrom(store, folder, Math.ceil(rows / chunklen)))
    await store.delete(joinKey(folder, "data", `__${index}.blp`));
}

/** Numbers of a carray's existing chunk files from `first` on, in descending order. */
export async function chunksFrom(store: WritableStore, folder: string, first: number): Promise<number[]> {
  const found: number[] = [];
  for await (const { name } of store.list(joinKey(folder, "data"))) {
    const index = parseCarrayChunkName(name);
    if (index !== undefined && index >= first) found.push(index);
  }
  return found.sort((a, b) => b - a);
}

async function putSizes(store: WritableStore, path: string, folder: string, sizes: string): Promise<void> {
  if ((await sizesOf(store, path, folder)) === sizes) return;
  await store.put(joinKey(path, folder, "meta/sizes"), utf8(sizes), { durable: true });
}

async function sizesOf(store: WritableStore, path: string, folder: string): Promise<string> {
  const bytes = await store.get(joinKey(path, folder, "meta/sizes"));
  return new TextDecoder().decode(bytes);
}

async function assertOurs(store: WritableStore, path: string, column: RedoColumn): Promise<void> {
  const { folder, before, meanwhile, after } = column;
  const found = await sizesOf(store, path, folder);
  if ([before, meanwhile, after].includes(found)) return;
  throw new SuperchunkError(
    "CONFLICT",
    `a change was interrupted, and another program has written to the array since: the change cannot be finished. Its chunks are in the folder ${FOLDER}; keep the folder elsewhere if you need them, and remove it from here`,
    {
      path: store.describe(joinKey(path, folder, "meta/sizes")),
      field: "shape",
      expected: [before, meanwhile, after],
      found,
    },
  );
}

function parseRedo(bytes: Uint8Array, path: string): readonly RedoColumn[] {
  const bad = (found: unknown): SuperchunkError =>
    new SuperchunkError("BAD_FIELD", "the record of an interrupted change cannot be read", { path, found });
  let record: JsonObject;
  try {
    record = parseJson(bytes, path) as JsonObject;
  } catch (error) {
    throw isSuperchunkError(error) ? bad(error.message) : error;
  }
  if (record["version"] !== VERSION) throw bad(record["version"]);
  const columns = record["columns"];
  if (!Array.isArray(columns)) throw bad(columns);
  return (columns as JsonObject[]).map((column) => {
    const [folder, before, meanwhile, after] = ["folder", "before", "meanwhile", "after"].map((name) => {
      const value = column[name];
      if (typeof value === "string") return value;
      throw bad(column);
    });
    return { folder: folder ?? "", before: before ?? "", meanwhile: meanwhile ?? "", after: after ?? "" };
  });
}

export function utf8(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}
