/** Keeps what a repair replaces, under `lost+found` in the array's root. @see FORMAT.md [FZ-10] */
import { isSuperchunkError } from "../../errors.ts";
import { joinKey } from "../../store/key.ts";
import type { WritableStore } from "../../store/types.ts";

/** Folder in the root of an array for what repairs set aside. Readers do not look at it. */
export const LOST_AND_FOUND = "lost+found";

/** Bytes of an object that are copied at a time. */
const PIECE = 8 << 20;

/**
 * Gives objects of the array at `root` a second name, or copies them where the store has no second names, before anything
 * replaces them. Durable when resolved. Resolves with the folder's key; undefined where there was nothing to keep.
 */
export async function setAside(
  store: WritableStore,
  root: string,
  keys: readonly string[],
): Promise<string | undefined> {
  const folder = await newFolder(store, root);
  const kept: string[] = [];
  for (const key of keys) {
    if ((await store.stat(key)) === undefined) continue;
    const target = joinKey(folder, root === "" ? key : key.slice(root.length + 1));
    await keep(store, key, target);
    kept.push(target);
  }
  if (kept.length === 0) return undefined;
  await store.sync?.(kept);
  return folder;
}

/** A folder named by the time, in which nothing is. */
async function newFolder(store: WritableStore, root: string): Promise<string> {
  const time = new Date()
    .toISOString()
    .replace(/\.\d+Z$/, "Z")
    .replaceAll(":", "");
  for (let i = 0; ; i++) {
    const folder = joinKey(root, LOST_AND_FOUND, i === 0 ? time : `${time}-${i}`);
    let isTaken = false;
    for await (const _ of store.list(folder)) isTaken = true;
    if (!isTaken) return folder;
  }
}

async function keep(store: WritableStore, key: string, target: string): Promise<void> {
  try {
    if (store.link !== undefined) return await store.link(key, target, "hard");
  } catch (error) {
    // Some file systems have no hard links.
    if (!isSuperchunkError(error, "UNSUPPORTED") && !isSuperchunkError(error, "IO")) throw error;
  }
  const size = (await store.stat(key))?.size ?? 0;
  async function* pieces(): AsyncGenerator<Uint8Array> {
    for (let offset = 0; offset < size; offset += PIECE) {
      const bytes = await store.getRange(key, { offset, length: Math.min(PIECE, size - offset) });
      if (bytes !== undefined) yield bytes;
    }
  }
  await store.put(target, pieces(), { durable: true });
}

/** Removes what was set aside: all objects below the folder, and its folders. */
export async function discardAside(store: WritableStore, folder: string): Promise<void> {
  for await (const { name, kind } of store.list(folder)) {
    const key = joinKey(folder, name);
    if (kind === "folder") await discardAside(store, key);
    else await store.delete(key);
  }
  await store.delete(folder);
}
