/** What objects take in their store. */
import type { ReadableStore } from "../store/types.ts";

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
