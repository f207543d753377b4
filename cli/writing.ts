/** Changing archives at paths: with a lock, and a store that can write. */
import { join } from "node:path";
import { SuperchunkError } from "../src/errors.ts";
import { locate } from "../src/node/index.ts";
import { acquireLock } from "../src/node/lock.ts";
import { isWritable, type WritableStore } from "../src/store/types.ts";

/** Where the lock of an array's folder lies. */
export function carrayLock(path: string): string {
  return join(path, "meta", "lock");
}

/** Where the lock of a table's folder lies. */
export function tableLock(path: string): string {
  return join(path, ".lock");
}

/** Works while a lock is held. Throws `CONFLICT` where another process holds it, unless `breakLock`. */
export async function withLock(
  path: string,
  breakLock: boolean | undefined,
  work: () => Promise<void>,
): Promise<void> {
  const lock = await acquireLock(path, { breakLock });
  try {
    await work();
  } finally {
    await lock.release();
  }
}

/** Works with the store of a path that exists. Throws `NOT_FOUND`, `READ_ONLY`. */
export async function withStore<T>(
  path: string,
  work: (store: WritableStore, key: string) => Promise<T>,
): Promise<T> {
  const { store, path: key } = await locate(path);
  try {
    if (!isWritable(store)) throw new SuperchunkError("READ_ONLY", "nothing is written there", { path });
    return await work(store, key);
  } finally {
    await store.close?.();
  }
}
