/**
 * A store that reads the beginning of each object once, for media where a request costs far more than some extra bytes.
 *
 * Readers request headers, tables and small chunks one by one; the first of these reads fetches all of them. Must not
 * know what the beginnings hold.
 */
import { keepLast } from "../../bytes/arrays.ts";
import { readBeginning } from "../key.ts";
import { runPooled } from "../pool.ts";
import type { ObjectHead, ReadableStore, StoreOptions } from "../types.ts";

/** Bytes of a beginning. */
const HEAD = 64 << 10;
/** Beginnings requested at a time, if many are needed. */
const HEADS_AT_ONCE = 16;
/** Beginnings kept. */
const KEPT_HEADS = 64;
/**
 * Answers ranges within the first 64 KiB of an object from one request. For reading only: a beginning is kept
 * until it is requested again with `getHead`, or the whole object with `get`.
 */
export function withHeads(store: ReadableStore): ReadableStore {
  const heads = new Map<string, Promise<ObjectHead | undefined>>();

  function read(key: string, options: StoreOptions | undefined): Promise<ObjectHead | undefined> {
    const head = readBeginning(store, key, HEAD, options);
    keepLast(heads, key, head, KEPT_HEADS);
    const forget = (): void => {
      if (heads.get(key) === head) heads.delete(key);
    };
    // A missing object may appear, and a failed read may succeed next time.
    head.then((found) => found === undefined && forget(), forget);
    return head;
  }

  return {
    get pinsVersions() {
      return store.pinsVersions === true;
    },
    readsToStat: store.readsToStat === true,
    describe: (key) => store.describe(key),
    explainAbsence: () => store.explainAbsence?.(),
    renew: () => withHeads(store.renew?.() ?? store),
    async get(key, options) {
      heads.delete(key); // this answer is newer than the kept beginning
      return store.get(key, options);
    },
    async getRange(key, range, options) {
      const isSound =
        "offset" in range &&
        Number.isSafeInteger(range.offset) &&
        Number.isSafeInteger(range.length) &&
        range.offset >= 0 &&
        range.length > 0;
      if (!isSound || range.offset >= HEAD) return store.getRange(key, range, options);
      options?.signal?.throwIfAborted();
      const end = range.offset + range.length;
      // The read of another caller may fail only because that caller was aborted.
      const known = await heads.get(key)?.catch(() => undefined);
      const head = known ?? (end <= HEAD ? await read(key, options) : undefined);
      // If the object is shorter than a beginning, all of it is known.
      const isThere =
        end <= HEAD || (head !== undefined && range.offset < head.bytes.length && head.bytes.length < HEAD);
      return isThere ? head?.bytes.slice(range.offset, end) : store.getRange(key, range, options);
    },
    async getHead(key, length, options) {
      if (!(length <= HEAD)) return store.getHead?.(key, length, options);
      const head = await read(key, options);
      return head && { bytes: head.bytes.slice(0, length), info: head.info };
    },
    /** Reads many beginnings, each of the requested length, and keeps none: callers need nothing else of these objects. */
    async getHeads(keys, length, options) {
      const found = new Array<ObjectHead | undefined>(keys.length);
      const readEach = async ([i, key]: [number, string], signal: AbortSignal): Promise<void> => {
        if (length > 0) {
          found[i] = await readBeginning(store, key, length, { signal });
          return;
        }
        const info = await store.stat(key, { signal });
        found[i] = info && { bytes: new Uint8Array(0), info };
      };
      await runPooled(keys.entries(), HEADS_AT_ONCE, readEach, options?.signal);
      return found;
    },
    stat: (key, options) => store.stat(key, options),
    list: (folder, options) => store.list(folder, options),
    async close() {
      heads.clear();
      await store.close?.();
    },
  };
}
