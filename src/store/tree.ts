/** Everything below a folder of a store: lists it, or removes it. Must not know what objects hold. */

import { SuperchunkError } from "../errors.ts";
import { joinKey } from "./key.ts";
import type { ReadableStore, StoreOptions, WritableStore } from "./types.ts";

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

/** Objects removed before a folder is listed again. */
const BATCH = 1000;

/**
 * Removes every object below a folder except `keep`, then the empty folders there, but not the folder itself. Holds at most a
 * batch of names, and removes nothing during a listing, because some file systems would then omit names. Resolves with the number of objects.
 * @throws IO if a removed object is still listed
 */
export async function removeTree(
  store: WritableStore,
  folder: string,
  { keep, signal }: StoreOptions & { readonly keep?: string } = {},
): Promise<number> {
  const folders = [folder];
  const seen: string[] = [];
  let removed = 0;
  for (let next = folders.pop(); next !== undefined; next = folders.pop()) {
    seen.push(next);
    await store.removeLeftovers?.(next, { signal }); // listings hide them, and the folder would stay for them
    const below = new Set<string>();
    let [keys, last]: [string[], string | undefined] = [[], undefined];
    do {
      last = keys[0];
      keys = [];
      for await (const { name, kind } of store.list(next, { signal })) {
        const key = joinKey(next, name);
        if (kind === "folder") below.add(key);
        else if (key !== keep) keys.push(key);
        if (keys.length === BATCH) break;
      }
      if (last !== undefined && keys[0] === last)
        throw new SuperchunkError(
          "IO",
          "the object was deleted, but is still listed; delete the folder yourself",
          { path: store.describe(last) },
        );
      for (const key of keys) await store.delete(key, { signal });
      removed += keys.length;
    } while (keys.length === BATCH);
    for (const key of below) folders.push(key);
  }
  // Inner folders come after outer ones in `seen`. A folder with entries is kept.
  if (store.isFolder !== undefined)
    for (const key of seen.slice(1).reverse()) await store.delete(key, { signal });
  return removed;
}

/** The same, and then the folder itself if it is empty. */
export async function deleteTree(
  store: WritableStore,
  folder: string,
  options: StoreOptions & { readonly keep?: string } = {},
): Promise<void> {
  await removeTree(store, folder, options);
  if (store.isFolder !== undefined && folder !== "") await store.delete(folder, { signal: options.signal });
}
