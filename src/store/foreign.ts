/**
 * Adapts stores of other libraries.
 *
 * Knows the contract of zarrita's stores; must not know any of its implementations.
 */
import { isSuperchunkError, SuperchunkError } from "../errors.ts";
import { checkFolder, checkKey, checkRange, lengthOf, partOf, resolveRange } from "./key.ts";
import type { ByteRange, ListEntry, ObjectInfo, ReadableStore, StoreOptions } from "./types.ts";

/** A zarrita store: keys begin with `/`, a missing object is undefined. A `Map` from keys to bytes works too. */
export interface ForeignStore {
  get(
    key: `/${string}`,
    options?: { signal?: AbortSignal },
  ): Uint8Array | undefined | Promise<Uint8Array | undefined>;
  getRange?(
    key: `/${string}`,
    range: ByteRange,
    options?: { signal?: AbortSignal },
  ): Uint8Array | undefined | Promise<Uint8Array | undefined>;
  /** Entries directly under a folder, without a leading slash; zarrita's stores have no such method. */
  list?(folder: string): AsyncIterable<ListEntry>;
  /** Size of an object, without reading it; zarrita's stores have no such method. */
  sizeOf?(key: string, options?: StoreOptions): Promise<number | undefined>;
  close?(): Promise<void>;
}

/** An offset past the end of any object: bytes returned for it were made up. */
const BEYOND = 2 ** 46;
/** Object sizes remembered for stores that pad ranges. */
const MAX_SIZES = 100_000;

/** The store itself if it is one of this library, else {@link fromZarrita} of it; `name` is what messages call it. */
export function asReadable(store: ReadableStore | ForeignStore, name = ""): ReadableStore {
  if (isReadable(store)) return store;
  if (typeof store === "object" && store !== null && typeof store.get === "function")
    return fromZarrita(store, name);
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    "a store has get, getRange, stat and list, or zarrita's get and getRange",
    { found: typeof store },
  );
}

/**
 * Adapts a zarrita store for reading here; `name` is what messages call it.
 *
 * Such a store does not report sizes: `stat` reads the whole object, and its version is a hash of the bytes. Zarr shards need no `stat`:
 * their index is read from the object's end, and again after a read, to detect a change. The store cannot list (`UNSUPPORTED`). Some stores
 * (zarrita's FileSystemStore 0.2) fill ranges that pass the object's end with zeros. The first answer that is as long as the range and ends
 * with a zero is therefore followed by one request for a byte that no object has; if that is answered with a byte, the size of each object
 * is found by reading it whole once. A store without `getRange` is read whole each time.
 */
export function fromZarrita(store: ForeignStore, name = ""): ReadableStore {
  /** True if ranges end at the object's end; undefined until this was tried. */
  let isHonest: Promise<boolean> | undefined;
  const sizes = new Map<string, number>();
  const describe = (key: string): string => (key === "" && name !== "" ? name : `${name}/${key}`);

  async function get(key: string, options?: StoreOptions): Promise<Uint8Array | undefined> {
    checkKey(key);
    options?.signal?.throwIfAborted();
    const bytes = await ask(key, () => store.get(`/${key}`, passSignal(options)));
    if (bytes === undefined) return undefined;
    if (sizes.size >= MAX_SIZES) sizes.clear();
    sizes.set(key, bytes.length);
    return new Uint8Array(bytes); // a Map returns its own bytes, Node stores a Buffer
  }

  async function cut(key: string, range: ByteRange, options?: StoreOptions): Promise<Uint8Array | undefined> {
    const whole = await get(key, options);
    if (whole === undefined) return undefined;
    return partOf(whole, range, describe(key)).slice();
  }

  async function getPart(
    key: string,
    range: ByteRange,
    options?: StoreOptions,
  ): Promise<Uint8Array | undefined> {
    const bytes = await ask(key, () => store.getRange?.(`/${key}`, range, passSignal(options)));
    const asked = lengthOf(range);
    if (bytes === undefined || bytes.length <= asked) return bytes && new Uint8Array(bytes);
    throw new SuperchunkError("IO", `the store answered a range of ${asked} bytes with ${bytes.length}`, {
      path: describe(key),
      expected: asked,
      found: bytes.length,
    });
  }

  /** Does not use the caller's signal, because other callers wait for the outcome too. */
  async function tryHonesty(key: string): Promise<boolean> {
    try {
      const bytes = await ask(key, () => store.getRange?.(`/${key}`, { offset: BEYOND, length: 1 }));
      if (bytes === undefined) isHonest = undefined; // no such object: the next key is tried
      return bytes === undefined || bytes.length === 0;
    } catch (error) {
      if (isRangeRefusal(error)) return true; // nothing made up
      isHonest = undefined;
      throw error;
    }
  }

  async function ask<T>(key: string, act: () => T | Promise<T>): Promise<T | undefined> {
    try {
      return await act();
    } catch (error) {
      if (isSuperchunkError(error) || (error instanceof Error && error.name === "AbortError")) throw error;
      if (isAbsence(error)) return undefined;
      const reason = error instanceof Error ? error.message : String(error);
      throw new SuperchunkError("IO", `the store failed (${reason})`, { path: describe(key), cause: error });
    }
  }

  async function getRange(
    key: string,
    range: ByteRange,
    options?: StoreOptions,
  ): Promise<Uint8Array | undefined> {
    checkKey(key);
    checkRange(range, describe(key));
    options?.signal?.throwIfAborted();
    const asked = lengthOf(range);
    if (store.getRange === undefined || asked === 0) return cut(key, range, options);
    const isTried = isHonest !== undefined;
    if (!isTried || (await isHonest)) {
      const bytes = await getPart(key, range, options).catch((error: unknown) => {
        // zarrita's FetchStore throws for a range that begins after the end; the object's size shows if that is the cause.
        if (!isRangeRefusal(error)) throw error;
        return cut(key, range, options);
      });
      if (isTried || bytes?.length !== asked || bytes.at(-1) !== 0) return bytes;
      isHonest ??= tryHonesty(key);
      if (await isHonest) return bytes;
    }
    const size = sizes.get(key);
    if (size === undefined) return cut(key, range, options);
    const part = resolveRange(range, size, describe(key));
    return part.length === 0 ? new Uint8Array(0) : getPart(key, part, options);
  }

  const close = async (): Promise<void> => store.close?.();
  return {
    ...{ readsToStat: true, describe, get, getRange, close, [Symbol.asyncDispose]: close },
    ...(store.sizeOf === undefined ? {} : { sizeOf: store.sizeOf.bind(store) }),
    async getHead(key, length, options) {
      const bytes = await getRange(key, { offset: 0, length }, options);
      return bytes && { bytes, info: bytes.length < length ? infoOf(bytes) : undefined };
    },
    async stat(key, options) {
      const bytes = await get(key, options);
      return bytes && infoOf(bytes);
    },
    async *list(folder) {
      checkFolder(folder);
      if (store.list !== undefined) return yield* store.list(folder);
      throw new SuperchunkError(
        "UNSUPPORTED",
        "a store made for zarrita cannot list folders; open the archive itself",
        { path: describe(folder) },
      );
    },
  };
}

function isReadable(store: ReadableStore | ForeignStore): store is ReadableStore {
  const candidate = store as Partial<ReadableStore> | null | undefined;
  return [candidate?.get, candidate?.getRange, candidate?.stat, candidate?.list, candidate?.describe].every(
    (method) => typeof method === "function",
  );
}

function passSignal(options?: StoreOptions): { signal?: AbortSignal } {
  return options?.signal === undefined ? {} : { signal: options.signal };
}

/** zarrita's FileSystemStore handles only ENOENT. A folder, or a path below a file, is not an object either. */
function isAbsence(error: unknown): boolean {
  const code: unknown = error instanceof Error && "code" in error ? error.code : undefined;
  return code === "ENOENT" || code === "ENOTDIR" || code === "EISDIR";
}

/** True for an error that means "no such range". Stores have no code for it, so the message is searched. */
function isRangeRefusal(error: unknown): boolean {
  const cause = isSuperchunkError(error) ? error.details.cause : error;
  return cause instanceof Error && /\b416\b|range|bounds|satisf/i.test(`${cause.name} ${cause.message}`);
}

function infoOf(whole: Uint8Array): ObjectInfo {
  return { size: whole.length, version: `${whole.length}-${hashBytes(whole)}` };
}

/** 64 bits of FNV-1a, as two 32-bit hashes with different starts. Detects changes, not attacks. */
export function hashBytes(bytes: Uint8Array): string {
  let a = 0x811c9dc5;
  let b = 0x050c5d1f;
  for (const byte of bytes) {
    a = Math.imul(a ^ byte, 0x01000193);
    b = Math.imul(b ^ byte, 0x01000193) + (a >>> 15);
  }
  return ((a >>> 0).toString(16) + (b >>> 0).toString(16)).padStart(16, "0");
}
