/** Prepares a place for a new array: empty, or emptied on request. Knows which files archives have; touches no others. */
import { resultOr, SuperchunkError } from "../../errors.ts";
import { hasEntries, joinKey } from "../../store/key.ts";
import { removeTree } from "../../store/tree.ts";
import type { ReadableStore, WritableStore } from "../../store/types.ts";
import { readTable } from "../bcolz/bcolz-create.ts";

/** Files that mark an archive. */
const MARKS = ["meta/sizes", "meta/storage", "__rootdirs__"] as const;
/** The files of an archive besides its data; those that make it an archive are removed first. */
const FILES = ["meta/sizes", "__rootdirs__", "meta/storage", "meta/attributes", "__attrs__"] as const;

/** Entries of a folder that an interrupted creation may have left. */
const LEFT: readonly string[] = ["data", "meta", "__attrs__"];

/**
 * Makes sure that nothing is in the way. With `overwrite`, removes an existing archive, or a table with its columns. If this is
 * interrupted, what is left cannot be opened as an archive.
 * @param own names of entries besides those of every archive that a new one may find; if given, a folder with others is refused
 * @throws CONFLICT if there is one, or a part of one, without `overwrite`; undefined if the caller never replaces one
 */
export async function clearPlace(
  store: WritableStore,
  path: string,
  overwrite: boolean | undefined,
  own?: readonly string[],
): Promise<void> {
  const data = joinKey(path, "data");
  const isTaken = (await hasSome(store, path)) || (await hasEntries(store, data));
  if (!isTaken) return own && refuseForeign(store, path, [...LEFT, ...own]);
  if (!overwrite)
    throw new SuperchunkError(
      "CONFLICT",
      `an archive, or a part of one, exists here; choose another path, or ${overwrite === undefined ? "remove it first" : "replace it with {overwrite: true}"}`,
      { path: store.describe(path) },
    );
  const columns = await columnsOf(store, path);
  await removeFiles(store, path);
  await removeTree(store, data);
  for (const folder of columns) {
    await removeFiles(store, folder);
    await removeTree(store, joinKey(folder, "data"));
    for (const name of ["data", "meta"]) await store.delete(joinKey(folder, name));
    await store.delete(folder);
  }
}

/** Refuses a folder with files that are not those of an archive, such as a folder of many archives. Hidden ones do not count. */
async function refuseForeign(store: ReadableStore, path: string, own: readonly string[]): Promise<void> {
  const isForeign = (name: string): boolean => !name.startsWith(".") && !own.includes(name);
  // Some stores cannot list.
  const foreign = await resultOr(undefined, "UNSUPPORTED", async () => {
    for await (const { name } of store.list(path)) if (isForeign(name)) return name;
    return undefined;
  });
  if (foreign === undefined) return;
  throw new SuperchunkError(
    "CONFLICT",
    `the folder is not empty: it has ${JSON.stringify(foreign)}, which is not of an array; name a new or an empty folder, such as one in it`,
    { path: store.describe(path), found: foreign },
  );
}

/** Folders of a table's columns; empty without a table, or with an unreadable one. */
async function columnsOf(store: WritableStore, path: string): Promise<readonly string[]> {
  if ((await store.stat(joinKey(path, "__rootdirs__"))) === undefined) return [];
  return resultOr([], "damage", async () =>
    (await readTable(store, path)).columns.map(({ folder }) => folder),
  );
}

async function removeFiles(store: WritableStore, folder: string): Promise<void> {
  for (const name of FILES) await store.delete(joinKey(folder, name));
  await store.sync?.([]);
}

async function hasSome(store: ReadableStore, path: string): Promise<boolean> {
  for (const name of MARKS) if ((await store.stat(joinKey(path, name))) !== undefined) return true;
  return false;
}
