/**
 * The sharding storage transformer of the Zarr v3 draft, as a store around another: chunks inside, shards outside.
 *
 * Keys of chunks below a prefix are translated to keys of shards and slots; all other keys pass through. The calls are
 * those of the draft's abstract store interface. @see FORMAT.md [FK]
 * @see https://zarr-specs.readthedocs.io/en/latest/v3/storage-transformers/sharding/v1.0.html
 */
import { SuperchunkError } from "../errors.ts";
import { joinKey } from "../store/key.ts";
import type { ByteRange, WritableStore } from "../store/types.ts";
import { TRANSFORMER_INDEX } from "./metadata-transformer.ts";
import { ShardCache } from "./shard-cache.ts";
import type { ShardEntry } from "./shard-index.ts";
import { applyPlan, withObjectLock } from "./write/shard-apply.ts";
import { planShardWrite, type ShardUpdates } from "./write/shard-plan.ts";

/** What is sharded, and how. */
export interface TransformerSettings {
  /** Key prefix of an array's chunks: `data/root/path`. */
  readonly prefix: string;
  /** Chunks of a shard along each dimension. */
  readonly chunksPerShard: readonly number[];
  /** Chunks of the array along each dimension: `listing` goes no further. */
  readonly chunkCounts: readonly number[];
  readonly separator?: "/" | "." | undefined;
}

/** A part of a value to be read: `undefined` for all of it. */
export type PartialRequest = readonly [key: string, range: ByteRange | undefined];
/** Bytes to be written into a value from an offset on. */
export type PartialWrite = readonly [key: string, start: number, bytes: Uint8Array];

interface ChunkSlot {
  readonly shardKey: string;
  readonly slot: number;
}

/** How often a write is begun again because another writer was faster. */
const MAX_ATTEMPTS = 16;

/** A store of chunks that keeps them in shards. */
export class ShardingTransformer {
  readonly #store: WritableStore;
  readonly #settings: TransformerSettings;
  readonly #separator: "/" | ".";
  readonly #pattern: RegExp;
  readonly #cache: ShardCache;

  constructor(store: WritableStore, settings: TransformerSettings) {
    this.#store = store;
    this.#settings = settings;
    this.#separator = settings.separator ?? "/";
    const numbers = settings.chunksPerShard
      .map(() => "(0|[1-9]\\d*)")
      .join(this.#separator === "." ? "\\." : "/");
    this.#pattern = new RegExp(`^c${numbers}$`);
    this.#cache = new ShardCache(store);
  }

  /** The value of a key; undefined where there is none. A chunk costs two requests: its shard's index, then its range. */
  async get(key: string): Promise<Uint8Array | undefined> {
    const place = this.#placeOf(key);
    return place === undefined ? this.#store.get(key) : this.#read(key, place, undefined);
  }

  /** Parts of values, in the order of the requests; undefined for those that are not there. */
  getPartialValues(requests: readonly PartialRequest[]): Promise<(Uint8Array | undefined)[]> {
    return Promise.all(
      requests.map(([key, range]) => {
        const place = this.#placeOf(key);
        if (place !== undefined) return this.#read(key, place, range);
        return range === undefined ? this.#store.get(key) : this.#store.getRange(key, range);
      }),
    );
  }

  /** Stores a value. */
  async set(key: string, value: Uint8Array): Promise<void> {
    const place = this.#placeOf(key);
    if (place === undefined) await this.#store.put(key, value);
    else await this.#update(place.shardKey, async () => new Map([[place.slot, value]]));
  }

  /**
   * Writes into values; those that are not there, or too short, grow with zero bytes. Writes to one shard are one.
   *
   * @throws BAD_ARGUMENT for a start that is no whole number of bytes, before anything is written
   */
  async setPartialValues(writes: readonly PartialWrite[]): Promise<void> {
    for (const [key, start] of writes) {
      if (Number.isSafeInteger(start) && start >= 0) continue;
      throw new SuperchunkError(
        "BAD_ARGUMENT",
        `start is ${start}, and must be a whole number of bytes, 0 or more`,
        {
          ...{
            path: this.#store.describe(key),
            field: "start",
            expected: "a whole number, 0 or more",
            found: start,
          },
        },
      );
    }
    const shards = new Map<string, (readonly [number, PartialWrite])[]>();
    for (const write of writes) {
      const place = this.#placeOf(write[0]);
      if (place === undefined) {
        const [key, start, bytes] = write;
        await this.#store.put(key, overwrite(await this.#store.get(key), start, bytes));
      } else shards.set(place.shardKey, [...(shards.get(place.shardKey) ?? []), [place.slot, write]]);
    }
    for (const [shardKey, parts] of shards) {
      await this.#update(shardKey, async () => {
        const updates = new Map<number, Uint8Array>();
        for (const [slot, [key, start, bytes]] of parts) {
          const old = updates.get(slot) ?? (await this.#read(key, { shardKey, slot }, undefined));
          updates.set(slot, overwrite(old, start, bytes));
        }
        return updates;
      });
    }
  }

  /** Removes a value; nothing where there is none. The last chunk of a shard takes the shard with it. */
  async erase(key: string): Promise<void> {
    await this.eraseValues([key]);
  }

  /** Removes values; those in one shard at once. */
  async eraseValues(keys: readonly string[]): Promise<void> {
    const shards = new Map<string, number[]>();
    for (const key of keys) {
      const place = this.#placeOf(key);
      if (place === undefined) await this.#store.delete(key);
      else shards.set(place.shardKey, [...(shards.get(place.shardKey) ?? []), place.slot]);
    }
    for (const [shardKey, slots] of shards) {
      await this.#update(shardKey, async () => new Map(slots.map((slot) => [slot, undefined])));
    }
  }

  /** Removes all values whose keys begin with a prefix. */
  async erasePrefix(prefix: string): Promise<void> {
    const keys: string[] = [];
    for await (const key of this.listPrefix(prefix)) keys.push(key);
    await this.eraseValues(keys);
  }

  /** All keys. */
  list(): AsyncGenerator<string> {
    return this.listPrefix("");
  }

  /** The keys that begin with a prefix, of chunks in place of shards. A prefix ends anywhere, not only at a `/`. */
  async *listPrefix(prefix: string): AsyncGenerator<string> {
    const folder = prefix.slice(0, Math.max(0, prefix.lastIndexOf("/")));
    // A chunk's key and its shard's differ from the prefix of the chunks on: what is below is listed from there.
    const base = this.#settings.prefix;
    const from = folder === base || folder.startsWith(`${base}/`) ? base : folder;
    for await (const key of walk(this.#store, from)) {
      const shard = this.#shardOf(key);
      if (shard === undefined) {
        if (key.startsWith(prefix)) yield key;
        continue;
      }
      const entries = await this.#entriesOf(key);
      for (const [slot, entry] of (entries ?? []).entries()) {
        if (entry === undefined) continue;
        const chunk = this.#keyOf(shard, slot);
        if (chunk?.startsWith(prefix)) yield chunk;
      }
    }
  }

  /** Keys directly below a folder (`""`, or one that ends with `/`), and the prefixes of what is further below. */
  async listDir(folder: string): Promise<{ readonly keys: string[]; readonly prefixes: string[] }> {
    if (folder !== "" && !folder.endsWith("/")) {
      throw new SuperchunkError("BAD_ARGUMENT", 'a folder\'s prefix ends with "/"', {
        field: "prefix",
        found: folder,
      });
    }
    const keys: string[] = [];
    const prefixes = new Set<string>();
    for await (const key of this.listPrefix(folder)) {
      const slash = key.indexOf("/", folder.length);
      if (slash < 0) keys.push(key);
      else prefixes.add(key.slice(0, slash + 1));
    }
    return { keys: keys.sort(), prefixes: [...prefixes].sort() };
  }

  /** Shard and slot of a chunk's key; undefined for any other key. */
  #placeOf(key: string): ChunkSlot | undefined {
    const position = this.#positionOf(key);
    if (position === undefined) return undefined;
    const { chunksPerShard } = this.#settings;
    let slot = 0;
    const shard = position.map((index, d) => {
      const per = chunksPerShard[d] ?? 1;
      slot = slot * per + (index % per);
      return Math.floor(index / per);
    });
    return { shardKey: this.#join(shard), slot };
  }

  /** Position of a shard by its key; undefined for any other key. */
  #shardOf(key: string): readonly number[] | undefined {
    return this.#positionOf(key);
  }

  #positionOf(key: string): readonly number[] | undefined {
    const { prefix } = this.#settings;
    if (!key.startsWith(`${prefix}/`)) return undefined;
    const found = this.#pattern.exec(key.slice(prefix.length + 1));
    return found === null ? undefined : found.slice(1).map(Number);
  }

  /** Key of the chunk in a slot; undefined behind the array's end. */
  #keyOf(shard: readonly number[], slot: number): string | undefined {
    const { chunksPerShard, chunkCounts } = this.#settings;
    const position = [...shard];
    let rest = slot;
    for (let d = position.length - 1; d >= 0; d--) {
      const per = chunksPerShard[d] ?? 1;
      position[d] = (shard[d] ?? 0) * per + (rest % per);
      rest = Math.floor(rest / per);
      if ((position[d] ?? 0) >= (chunkCounts[d] ?? 0)) return undefined;
    }
    return this.#join(position);
  }

  #join(position: readonly number[]): string {
    return joinKey(this.#settings.prefix, `c${position.join(this.#separator)}`);
  }

  async #entriesOf(shardKey: string): Promise<readonly (ShardEntry | undefined)[] | undefined> {
    // Other writers are not told of: an index is only kept within one call.
    this.#cache.forget(shardKey);
    return (await this.#cache.open(shardKey, this.#settings.chunksPerShard, TRANSFORMER_INDEX))?.entries;
  }

  async #read(
    key: string,
    { shardKey, slot }: ChunkSlot,
    range: ByteRange | undefined,
  ): Promise<Uint8Array | undefined> {
    const entry = (await this.#entriesOf(shardKey))?.[slot];
    if (entry === undefined) return undefined;
    const wanted = range ?? { offset: 0, length: entry.nbytes };
    const start =
      "offset" in wanted
        ? Math.min(wanted.offset, entry.nbytes)
        : Math.max(0, entry.nbytes - wanted.suffixLength);
    const length = "offset" in wanted ? Math.min(wanted.length, entry.nbytes - start) : entry.nbytes - start;
    if (length === 0) return new Uint8Array(0);
    const bytes = await this.#store.getRange(shardKey, { offset: entry.offset + start, length });
    if (bytes?.length === length) return bytes;
    throw new SuperchunkError(
      "TRUNCATED",
      `chunk ${key} has ${length} bytes, but only ${bytes?.length ?? 0} are there`,
      {
        path: this.#store.describe(shardKey),
        chunk: slot,
        offset: entry.offset + start,
        expected: length,
        found: bytes?.length ?? 0,
      },
    );
  }

  /** A shard is written anew with every change, as zarr 2.18 does. */
  async #update(shardKey: string, make: () => Promise<ShardUpdates>): Promise<void> {
    const grid = this.#settings.chunksPerShard;
    const capacity = grid.reduce((product, n) => product * n, 1);
    await withObjectLock(this.#store, shardKey, async () => {
      for (let attempt = 1; ; attempt++) {
        this.#cache.forget(shardKey);
        const known = await this.#cache.open(shardKey, grid, TRANSFORMER_INDEX);
        const state = known ?? { size: 0, entries: new Array<undefined>(capacity).fill(undefined) };
        const plan = planShardWrite(state, await make(), TRANSFORMER_INDEX, "rewrite", 0);
        if (plan.kind === "delete" && known === undefined) return;
        const target = {
          key: shardKey,
          grid,
          layout: TRANSFORMER_INDEX,
          chunkOrder: "row-major",
          version: known?.version,
        } as const;
        try {
          await applyPlan(this.#store, target, plan);
          this.#cache.forget(shardKey);
          return;
        } catch (error) {
          if (!(error instanceof SuperchunkError) || error.code !== "CONFLICT" || attempt === MAX_ATTEMPTS)
            throw error;
        }
      }
    });
  }
}

function overwrite(old: Uint8Array | undefined, start: number, bytes: Uint8Array): Uint8Array {
  const value = new Uint8Array(Math.max(old?.length ?? 0, start + bytes.length));
  if (old !== undefined) value.set(old);
  value.set(bytes, start);
  return value;
}

/** All keys below a folder. */
async function* walk(store: WritableStore, folder: string): AsyncGenerator<string> {
  for await (const { name, kind } of store.list(folder)) {
    const key = joinKey(folder, name);
    if (kind === "object") yield key;
    else yield* walk(store, key);
  }
}
