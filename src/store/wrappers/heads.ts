/**
 * A store that reads the beginning of each object once, for media where a request costs far more than some extra bytes.
 *
 * Readers request headers, tables and small chunks one by one; the first of these reads fetches all of them. Must not
 * know what the beginnings hold.
 */
import { runPooled } from "../pool.ts";
import type {
  ByteRange,
  ListOptions,
  ObjectHead,
  ObjectInfo,
  ReadableStore,
  StoreOptions,
} from "../types.ts";

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
  return new HeadStore(store);
}

class HeadStore implements ReadableStore {
  readonly #store: ReadableStore;
  readonly #heads = new Map<string, Promise<ObjectHead | undefined>>();

  constructor(store: ReadableStore) {
    this.#store = store;
  }

  get pinsVersions(): boolean {
    return this.#store.pinsVersions === true;
  }

  describe(key: string): string {
    return this.#store.describe(key);
  }

  explainAbsence(): string | undefined {
    return this.#store.explainAbsence?.();
  }

  async get(key: string, options?: StoreOptions): Promise<Uint8Array | undefined> {
    this.#heads.delete(key); // this answer is newer than the kept beginning
    return this.#store.get(key, options);
  }

  async getRange(key: string, range: ByteRange, options?: StoreOptions): Promise<Uint8Array | undefined> {
    const isSound =
      "offset" in range &&
      Number.isSafeInteger(range.offset) &&
      Number.isSafeInteger(range.length) &&
      range.offset >= 0 &&
      range.length > 0;
    if (!isSound || range.offset >= HEAD) return this.#store.getRange(key, range, options);
    options?.signal?.throwIfAborted();
    const end = range.offset + range.length;
    const known = this.#heads.get(key);
    const head = await (known ?? (end <= HEAD ? this.#read(key, options) : undefined));
    // If the object is shorter than a beginning, all of it is known.
    const isThere =
      end <= HEAD || (head !== undefined && range.offset < head.bytes.length && head.bytes.length < HEAD);
    return isThere ? head?.bytes.slice(range.offset, end) : this.#store.getRange(key, range, options);
  }

  async getHead(key: string, length: number, options?: StoreOptions): Promise<ObjectHead | undefined> {
    if (!(length <= HEAD)) return this.#store.getHead?.(key, length, options);
    const head = await this.#read(key, options);
    return head && { bytes: head.bytes.slice(0, length), info: head.info };
  }

  /** Reads many beginnings, each of the requested length, and keeps none: callers need nothing else of these objects. */
  async getHeads(
    keys: readonly string[],
    length: number,
    options?: StoreOptions,
  ): Promise<readonly (ObjectHead | undefined)[]> {
    const heads = new Array<ObjectHead | undefined>(keys.length);
    const read = async ([i, key]: [number, string], signal: AbortSignal): Promise<void> => {
      heads[i] = await this.#readOnce(key, length, { signal });
    };
    await runPooled(keys.entries(), HEADS_AT_ONCE, read, options?.signal);
    return heads;
  }

  stat(key: string, options?: StoreOptions): Promise<ObjectInfo | undefined> {
    return this.#store.stat(key, options);
  }

  list(folder: string, options?: ListOptions): ReturnType<ReadableStore["list"]> {
    return this.#store.list(folder, options);
  }

  async close(): Promise<void> {
    this.#heads.clear();
    await this.#store.close?.();
  }

  async #readOnce(key: string, length: number, options: StoreOptions): Promise<ObjectHead | undefined> {
    const { getHead } = this.#store;
    if (getHead !== undefined && length > 0) return getHead.call(this.#store, key, length, options);
    const info = await this.#store.stat(key, options);
    if (info === undefined || length === 0) return info && { bytes: new Uint8Array(0), info };
    const bytes = await this.#store.getRange(key, { offset: 0, length }, options);
    return bytes && { bytes, info: undefined };
  }

  #read(key: string, options: StoreOptions | undefined): Promise<ObjectHead | undefined> {
    const head = this.#fetch(key, options);
    this.#heads.delete(key);
    this.#heads.set(key, head);
    const forget = (): void => {
      if (this.#heads.get(key) === head) this.#heads.delete(key);
    };
    // A missing object may appear, and a failed read may succeed next time.
    head.then((found) => found === undefined && forget(), forget);
    for (const oldest of this.#heads.keys()) {
      if (this.#heads.size <= KEPT_HEADS) break;
      this.#heads.delete(oldest);
    }
    return head;
  }

  async #fetch(key: string, options: StoreOptions | undefined): Promise<ObjectHead | undefined> {
    const { getHead } = this.#store;
    if (getHead !== undefined) return getHead.call(this.#store, key, HEAD, options);
    const bytes = await this.#store.getRange(key, { offset: 0, length: HEAD }, options);
    return bytes && { bytes, info: undefined };
  }
}
