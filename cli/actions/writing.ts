/** Changing archives at paths: with a lock, and a store that can write. */

import { join } from "node:path";
import { SuperchunkError, type WritableStore } from "../../src/index.ts";
import { acquireLock } from "../../src/node/fs/lock.ts";
import { locate } from "../../src/node/index.ts";
import { isWritable } from "../../src/store/types.ts";
import { isS3Address } from "../input/units.ts";

/** Where the lock of an array's folder lies. */
export function carrayLock(path: string): string {
  return join(checkLockable(path), "meta", "lock");
}

/** Where the lock of a table's folder lies. */
export function tableLock(path: string): string {
  return join(checkLockable(path), ".lock");
}

/** Where the lock of a Bloscpack file lies. */
export function fileLock(path: string): string {
  return `${checkLockable(path)}.lock`;
}

/** Refuses S3, which has no locks: formats of other programs have nothing else to tell two writers apart. */
function checkLockable(path: string): string {
  checkWritable(path);
  if (!isS3Address(path)) return path;
  throw new SuperchunkError(
    "UNSUPPORTED",
    'in S3 only arrays of superchunks are changed: there are no locks, and the formats of other programs have nothing else to tell two writers apart. Change a copy on disk, or "superchunk convert --to blz" it into the bucket',
    { path },
  );
}

/** Refuses the addresses where nothing can be written. Throws `READ_ONLY`. */
export function checkWritable(path: string): void {
  if (/^https?:\/\//i.test(path))
    throw new SuperchunkError("READ_ONLY", "nothing can be written to http(s):// addresses", { path });
}

/** Works while a lock is held. Throws `CONFLICT` where another process holds it, unless `breakLock`. */
export async function withLock<T>(
  path: string,
  breakLock: boolean | undefined,
  work: () => Promise<T>,
): Promise<T> {
  const lock = await acquireLock(path, { breakLock });
  try {
    return await work();
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
