/** `open`: any archive from any store, told apart by content. */
import { SuperchunkError } from "../errors.ts";
import { asReadable, type ForeignStore } from "../store/foreign.ts";
import { checkKey, joinKey } from "../store/key.ts";
import type { ReadableStore } from "../store/types.ts";
import { openArrayFolder } from "./open-array-folder.ts";
import { openFile } from "./open-file.ts";
import { openTable } from "./open-table.ts";
import type { Archive, OpenOptions } from "./types.ts";

const MAGIC = [0x62, 0x6c, 0x70, 0x6b]; // "blpk"

/**
 * Opens the archive at a key of a store: a Bloscpack file, or the root folder of an array or a table.
 *
 * `store` is one of this library's, or any store of zarrita's that has `getRange`. Throws `NOT_FOUND` where there is
 * nothing, `UNSUPPORTED` where there is something else, and the codes of damage.
 */
export async function open(
  store: ReadableStore | ForeignStore,
  path = "",
  options: OpenOptions = {},
): Promise<Archive> {
  const source = asReadable(store);
  if (path !== "") checkKey(path);
  const file =
    path === "" ? undefined : await source.getRange(path, { offset: 0, length: MAGIC.length }, options);
  if (file !== undefined && MAGIC.every((byte, i) => file[i] === byte))
    return openFile(source, path, options);
  const folder = await openFolder(source, path, options);
  if (folder !== undefined) return folder;
  // Not "blpk": says what is wrong with the file, if there is one.
  if (file !== undefined) return openFile(source, path, options);
  throw await nothingThere(source, path, options);
}

async function openFolder(
  store: ReadableStore,
  path: string,
  options: OpenOptions,
): Promise<Archive | undefined> {
  const get = (name: string): Promise<Uint8Array | undefined> => store.get(joinKey(path, name), options);
  const [rootdirs, sizes, storage] = await Promise.all([
    get("__rootdirs__"),
    get("meta/sizes"),
    get("meta/storage"),
  ]);
  if (rootdirs !== undefined) return openTable(store, path, rootdirs, options);
  if (sizes !== undefined || storage !== undefined)
    return openArrayFolder(store, path, { sizes, storage }, options);
  return undefined;
}

async function nothingThere(
  store: ReadableStore,
  path: string,
  options: OpenOptions,
): Promise<SuperchunkError> {
  const where = { path: store.describe(path) };
  if (await hasEntries(store, path, options)) {
    return new SuperchunkError(
      "UNSUPPORTED",
      'the folder is not an archive: it has neither __rootdirs__ nor meta/sizes and meta/storage. "superchunk ls" lists the archives inside a folder',
      { ...where, expected: "__rootdirs__, or meta/sizes and meta/storage", found: "neither" },
    );
  }
  return new SuperchunkError("NOT_FOUND", "there is no such file or folder", where);
}

async function hasEntries(store: ReadableStore, path: string, options: OpenOptions): Promise<boolean> {
  try {
    for await (const _ of store.list(path, options)) return true;
  } catch (error) {
    // Stores that cannot list cannot tell an empty place from a folder of other things.
    if (!(error instanceof SuperchunkError && error.code === "UNSUPPORTED")) throw error;
  }
  return false;
}
