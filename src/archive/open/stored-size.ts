/** What objects take in their store. */
import type { ObjectHead, ObjectInfo, ReadableStore, StoreOptions } from "../../store/types.ts";

/** Questions under way at a time. */
const AT_ONCE = 32;

/** The sizes of all objects that exist, added up, in bytes. */
export async function sizeOfObjects(
  store: ReadableStore,
  keys: Iterable<string> | AsyncIterable<string>,
  signal: AbortSignal | undefined,
): Promise<number> {
  let total = 0;
  let batch: Promise<number>[] = [];
  const size = async (key: string): Promise<number> => (await store.stat(key, { signal }))?.size ?? 0;
  const settle = async (): Promise<void> => {
    for (const each of await Promise.all(batch)) total += each;
    batch = [];
  };
  for await (const key of keys) {
    batch.push(size(key));
    if (batch.length === AT_ONCE) await settle();
  }
  await settle();
  return total;
}

/** Bytes of a file's beginning that are asked for with its size. */
const HEAD = 4096;

/** What `stat` tells of a file that is about to be read: over a network its beginning brings that along. */
export async function statFile(
  store: ReadableStore,
  key: string,
  options: StoreOptions = {},
): Promise<ObjectInfo | undefined> {
  if (store.getHead === undefined) return store.stat(key, options);
  const head = await store.getHead(key, HEAD, options);
  return head === undefined ? undefined : (head.info ?? store.stat(key, options));
}

/** The first bytes of a file, and over a network what `stat` tells with them. */
export async function readBeginning(
  store: ReadableStore,
  key: string,
  length: number,
  options: StoreOptions = {},
): Promise<ObjectHead | undefined> {
  if (store.getHead !== undefined) return store.getHead(key, length, options);
  const bytes = await store.getRange(key, { offset: 0, length }, options);
  return bytes && { bytes, info: undefined };
}
