/** Everything below a folder of a store: lists it, or removes it. Must not know what objects hold. */

import { joinKey } from "./key.ts";
import type { ListEntry, ReadableStore, StoreOptions, WritableStore } from "./types.ts";

/** Keys of all objects below a folder. */
export async function* walkKeys(
  store: ReadableStore,
  folder: string,
  signal?: AbortSignal,
): AsyncGenerator<string> {
  const folders = [folder];
  for (let next = folders.pop(); next !== undefined; next = folders.pop())
    for await (const { name, kind } of store.list(next, { signal })) {
      const key = joinKey(next, name);
      if (kind === "folder") folders.push(key);
      else yield key;
    }
}

/** Removes everything below a folder, but not the folder. Resolves with the number of objects. */
export async function removeTree(
  store: WritableStore,
  folder: string,
  { signal }: StoreOptions = {},
): Promise<number> {
  // Nothing is removed during a listing, because some file systems would then omit names.
  const entries: ListEntry[] = [];
  for await (const entry of store.list(folder, { signal })) entries.push(entry);
  let removed = 0;
  for (const { name, kind } of entries) {
    signal?.throwIfAborted();
    const key = joinKey(folder, name);
    removed += kind === "folder" ? await removeTree(store, key, { signal }) : 1;
    await store.delete(key);
  }
  return removed;
}
