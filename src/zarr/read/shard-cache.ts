/**
 * Places of chunks in objects, and the shard indexes that were read, each once, with a bound on how many are kept.
 *
 * Knows where an index is in its shard; must not know what is read through it.
 */
import { elementsOf } from "../../bytes/arrays.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { hashBytes } from "../../store/foreign.ts";
import type { ReadableStore } from "../../store/types.ts";
import { decodeShardIndex, type ShardEntries, type ShardIndex, shardIndexLength } from "./shard-index.ts";

/** Where an encoded chunk is. */
export interface EncodedPlace {
  readonly key: string;
  /** Name in messages. */
  readonly path: string;
  /** Byte of the object where the chunk starts; of `memory`, if that is set. */
  readonly offset: number;
  /** Bytes of the chunk; undefined means the whole object, whatever its size. */
  readonly nbytes: number | undefined;
  /** Slot in the innermost shard's index; absent for a separate object. */
  readonly slot?: number;
  /** Set if the bytes are in memory; `offset` and `nbytes` select a part of it. */
  readonly memory?: Uint8Array;
}

/** The details of errors about a place. */
export function placeDetails({ path, slot, offset }: EncodedPlace): {
  path: string;
  chunk?: number;
  offset: number;
} {
  return slot === undefined ? { path, offset } : { path, chunk: slot, offset };
}

/**
 * Refuses a folder in the place of a chunk or shard: only a missing object has the fill value. [FH-03]
 * @throws INCOMPLETE
 */
export async function assertAbsent(store: ReadableStore, key: string, signal?: AbortSignal): Promise<void> {
  if ((await store.isFolder?.(key, { signal })) !== true) return;
  throw new SuperchunkError(
    "INCOMPLETE",
    "a folder is at the path of the chunk or shard, so its values are unknown; look for a complete copy, or remove the folder if the chunk should be missing",
    { path: store.describe(key), expected: "a file, or nothing", found: "a folder" },
  );
}

/** Bytes `[start, start + length)` of a place. Throws `TRUNCATED`, `INCOMPLETE` if the object is gone. */
export async function readPlace(
  store: ReadableStore,
  place: EncodedPlace,
  start: number,
  length: number,
  signal?: AbortSignal,
): Promise<Uint8Array> {
  const offset = place.offset + start;
  if (place.memory !== undefined)
    return checkLength(place.memory.subarray(offset, offset + length), length, place, offset);
  return checkLength(await store.getRange(place.key, { offset, length }, { signal }), length, place, offset);
}

/** The bytes, if they are complete. Throws `TRUNCATED`, `INCOMPLETE`. */
export function checkLength(
  bytes: Uint8Array | undefined,
  length: number,
  place: EncodedPlace,
  offset: number,
): Uint8Array {
  if (bytes?.length === length) return bytes;
  if (bytes === undefined)
    throw new SuperchunkError("INCOMPLETE", "the object was removed while it was read. Read again", {
      ...placeDetails(place),
      offset,
    });
  throw new SuperchunkError(
    "TRUNCATED",
    `${length} bytes are needed from byte ${offset}, but only ${bytes.length} are there. The file is truncated; look for a complete copy`,
    { ...placeDetails(place), offset, expected: length, found: bytes.length },
  );
}

/** Default number of cached entries, over all shards: some 32 MB. */
const MOST_ENTRIES = 500_000;
/** Most shards: each takes as much as eight entries besides its own, and can have only one. */
const MOST_SHARDS = 8_192;

/** A shard object as it was when its index was read. */
export interface KnownShard {
  /** Bytes; `Number.MAX_SAFE_INTEGER` if the store does not know. */
  readonly size: number;
  readonly version: string;
  readonly entries: ShardEntries;
}

/** Indexes by shard; the least recently used are dropped first. */
export class ShardCache {
  readonly #store: ReadableStore;
  readonly #most: number;
  readonly #known = new Map<string, KnownShard>();
  readonly #loading = new Map<string, Promise<KnownShard | undefined>>();
  #count = 0;

  constructor(store: ReadableStore, most: number = MOST_ENTRIES) {
    this.#store = store;
    this.#most = most;
  }

  /**
   * The index of a shard that is an object; undefined if there is none. It cannot be aborted, because other callers may wait
   * for the same index.
   */
  async open(key: string, index: ShardIndex): Promise<KnownShard | undefined> {
    const known = this.#find(key);
    if (known !== undefined) return known;
    const running = this.#loading.get(key);
    if (running !== undefined) return running;
    const mine = this.#load(key, index);
    this.#loading.set(key, mine);
    const isCurrent = (): boolean => this.#loading.get(key) === mine;
    try {
      const shard = await mine;
      if (shard !== undefined && isCurrent()) this.#keep(key, shard);
      return shard;
    } finally {
      if (isCurrent()) this.#loading.delete(key);
    }
  }

  /** The index of a shard that is a chunk of another one. `version` is that of the object. */
  async openNested(
    place: EncodedPlace & { readonly nbytes: number },
    version: string,
    { grid, layout }: ShardIndex,
    signal?: AbortSignal,
  ): Promise<ShardEntries> {
    // The first chunk of a shard starts where the shard does, and may be a shard too. It is shorter, because it does not
    // include the outer index.
    const name = `${place.key}\0${place.offset}+${place.nbytes}`;
    const known = place.memory === undefined ? this.#find(name) : undefined;
    if (known !== undefined && known.version === version) return known.entries;
    const size = place.nbytes;
    const length = Math.min(size, shardIndexLength(elementsOf(grid), layout));
    const at = layout.location === "start" ? 0 : size - length;
    const bytes = await readPlace(this.#store, place, at, length, signal);
    try {
      const entries = await decodeShardIndex(bytes, {
        path: place.path,
        start: place.offset,
        size,
        grid,
        layout,
      });
      if (place.memory === undefined) this.#keep(name, { size, version, entries });
      return entries;
    } catch (error) {
      throw isSuperchunkError(error) ? error.at(placeDetails(place)) : error;
    }
  }

  /**
   * Forgets what is known of an object, here and in the store. An index being loaded is not kept, and not given to later callers.
   */
  forget(key: string): void {
    this.#store.unpin?.(key);
    this.#loading.delete(key);
    for (const name of [...this.#known.keys()])
      if (name === key || name.startsWith(`${key}\0`)) this.#drop(name);
  }

  async #load(key: string, index: ShardIndex): Promise<KnownShard | undefined> {
    const path = this.#store.describe(key);
    if (this.#store.readsToStat === true) {
      // Asking for the size would read the whole object. Entries beyond its end show up when they are read.
      const bytes = await this.#readIndex(key, index);
      if (bytes === undefined) return undefined;
      const size = Number.MAX_SAFE_INTEGER;
      return {
        size,
        version: hashBytes(bytes),
        entries: await decodeShardIndex(bytes, { path, size, ...index }),
      };
    }
    const info = await this.#store.stat(key);
    if (info === undefined) return undefined;
    const { size, version } = info;
    // The metadata give the size of the index, so it is read only as far as the object goes.
    const length = Math.min(size, shardIndexLength(elementsOf(index.grid), index.layout));
    const offset = index.layout.location === "start" ? 0 : size - length;
    const bytes = await this.#store.getRange(key, { offset, length });
    if (bytes === undefined) return undefined;
    try {
      return { size, version, entries: await decodeShardIndex(bytes, { path, size, ...index }) };
    } catch (error) {
      // If the object was replaced between two requests, the bytes mean nothing; an unchanged object is damaged.
      const isDamage = isSuperchunkError(error) && error.isDamage;
      if (!isDamage || (await this.#store.stat(key))?.version === version) throw error;
      throw new SuperchunkError("STALE", "the shard was replaced while its index was read; read again", {
        path,
        cause: error,
      });
    }
  }

  #readIndex(key: string, { grid, layout }: ShardIndex): Promise<Uint8Array | undefined> {
    const length = shardIndexLength(elementsOf(grid), layout);
    const range = layout.location === "start" ? { offset: 0, length } : { suffixLength: length };
    return this.#store.getRange(key, range);
  }

  /** The current `version` of a known shard; undefined if the object does not exist. */
  async versionOf(key: string, index: ShardIndex): Promise<string | undefined> {
    if (this.#store.readsToStat !== true) return (await this.#store.stat(key))?.version;
    const bytes = await this.#readIndex(key, index);
    return bytes && hashBytes(bytes);
  }

  #find(name: string): KnownShard | undefined {
    const known = this.#known.get(name);
    if (known === undefined) return undefined;
    this.#known.delete(name);
    this.#known.set(name, known);
    return known;
  }

  #keep(name: string, shard: KnownShard): void {
    this.#drop(name);
    this.#known.set(name, shard);
    this.#count += shard.entries.length;
    for (const oldest of this.#known.keys()) {
      if ((this.#count <= this.#most && this.#known.size <= MOST_SHARDS) || oldest === name) break;
      this.#drop(oldest);
    }
  }

  #drop(name: string): void {
    this.#count -= this.#known.get(name)?.entries.length ?? 0;
    this.#known.delete(name);
  }
}
