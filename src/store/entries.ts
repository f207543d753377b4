/** Looks into folders of stores. Must not know what lies there. */
import { isSuperchunkError } from "../errors.ts";
import type { ReadableStore, StoreOptions } from "./types.ts";

/** True where a folder holds something; false for a store that cannot list, which cannot tell. */
export async function hasEntries(
  store: ReadableStore,
  folder: string,
  options?: StoreOptions,
): Promise<boolean> {
  try {
    for await (const _ of store.list(folder, options)) return true;
  } catch (error) {
    if (!isSuperchunkError(error, "UNSUPPORTED")) throw error;
  }
  return false;
}

/** True where there is an object at a key, or a folder that holds something (`""`: the root, a folder). */
export async function isTaken(store: ReadableStore, key: string, options?: StoreOptions): Promise<boolean> {
  if (key !== "" && (await store.stat(key, options)) !== undefined) return true;
  return hasEntries(store, key, options);
}
