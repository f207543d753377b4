/**
 * The sharding storage transformer of the Zarr v3 draft, as a store around another: callers see chunks, and the inner store
 * holds shards. Also creates hierarchies of that version, like zarr 2.18.
 *
 * Keys of chunks below a prefix are translated to keys of shards and slots; all other keys pass through. The calls are those of
 * the draft's abstract store interface. @see FORMAT.md [FK]
 * @see https://zarr-specs.readthedocs.io/en/latest/v3/storage-transformers/sharding/v1.0.html
 */

import { addTo, allocate, at, elementsOf, unravel } from "../bytes/arrays.ts";
import { badArgument, SuperchunkError } from "../errors.ts";
import { jsonBytes, parseJson } from "../format/json.ts";
import type { JsonObject, JsonValue } from "../format/types.ts";
import { joinKey, resolveRange } from "../store/key.ts";
import type { ByteRange, ReadableStore, WritableStore } from "../store/types.ts";
import {
  documentKey,
  ENTRY_DOCUMENT,
  parseTransformerArray,
  SHARDING_URI,
  TRANSFORMER_INDEX,
} from "./document/metadata-transformer.ts";
import { isEntryDocument } from "./document/metadata-v3.ts";
import { type KnownShard, ShardCache } from "./read/shard-cache.ts";
import { emptyEntries } from "./read/shard-index.ts";
import {
  applyPlan,
  checkVersion,
  planShardWrite,
  putConditionOf,
  retryRaced,
  type ShardUpdates,
  withObjectLock,
} from "./write/shard-apply.ts";
import { WritableZarrArray } from "./write/writable-array.ts";
import { checkCapacity, type WriteSettings } from "./write/write-settings.ts";

/** A part of a value to read: `undefined` for all of it. */
export type PartialRequest = readonly [key: string, range: ByteRange | undefined];
/** Bytes to be written into a value from an offset on. */
export type PartialWrite = readonly [key: string, start: number, bytes: Uint8Array];

/** A store of chunks that keeps them in shards. */
export class ShardingTransformer {
  readonly #store: WritableStore;
  readonly #settings: TransformerSettings;
  readonly #keys: ReturnType<typeof transformerKeys>;
  readonly #cache: ShardCache;

  /** Throws `BAD_ARGUMENT` for settings that contradict each other, `LIMIT` for shards of too many chunks. */
  constructor(store: WritableStore, settings: TransformerSettings) {
    this.#store = store;
    this.#settings = settings;
    this.#keys = transformerKeys(settings);
    this.#cache = new ShardCache(store);
  }

  /** Reads the value of a key; undefined if there is none. A chunk costs two requests: its shard's index, then its range. */
  async get(key: string): Promise<Uint8Array | undefined> {
    const place = this.#keys.placeOf(key);
    return place === undefined ? this.#store.get(key) : this.#read(key, place, undefined);
  }

  /** Reads parts of values, in the order of the requests; undefined for missing values. */
  getPartialValues(requests: readonly PartialRequest[]): Promise<(Uint8Array | undefined)[]> {
    return Promise.all(
      requests.map(([key, range]) => {
        const place = this.#keys.placeOf(key);
        if (place !== undefined) return this.#read(key, place, range);
        return range === undefined ? this.#store.get(key) : this.#store.getRange(key, range);
      }),
    );
  }

  /** Stores a value. */
  async set(key: string, value: Uint8Array): Promise<void> {
    const place = this.#keys.placeOf(key);
    if (place === undefined) await this.#store.put(key, value);
    else await this.#update(place.shardKey, async () => new Map([[place.slot, value]]));
  }

  /**
   * Writes into values. Missing or short values grow with zero bytes. Writes to one shard are combined.
   * @throws BAD_ARGUMENT for a start that is not a whole number of bytes, before anything is written
   */
  async setPartialValues(writes: readonly PartialWrite[]): Promise<void> {
    for (const [key, start] of writes) {
      if (Number.isSafeInteger(start) && start >= 0) continue;
      throw new SuperchunkError(
        "BAD_ARGUMENT",
        `start is ${start}, and must be a whole number of bytes, 0 or more`,
        {
          path: this.#nameOf(key),
          field: "start",
          expected: "a whole number, 0 or more",
          found: start,
        },
      );
    }
    const shards = new Map<string, (readonly [number, PartialWrite])[]>();
    for (const write of writes) {
      const place = this.#keys.placeOf(write[0]);
      if (place === undefined) await this.#overwriteValue(write);
      else addTo(shards, place.shardKey, [place.slot, write] as const);
    }
    for (const [shardKey, parts] of shards)
      await this.#update(shardKey, async () => {
        const updates = new Map<number, Uint8Array>();
        for (const [slot, [key, start, bytes]] of parts) {
          const old = updates.get(slot) ?? (await this.#read(key, { shardKey, slot }, undefined));
          updates.set(slot, this.#overwrite(key, old, start, bytes));
        }
        return updates;
      });
  }

  /** Removes a value, if it exists. Removing the last chunk of a shard removes the shard. */
  async erase(key: string): Promise<void> {
    await this.eraseValues([key]);
  }

  /** Removes values; those in one shard together. */
  async eraseValues(keys: readonly string[]): Promise<void> {
    const shards = new Map<string, number[]>();
    for (const key of keys) {
      const place = this.#keys.placeOf(key);
      if (place === undefined) await this.#store.delete(key);
      else addTo(shards, place.shardKey, place.slot);
    }
    for (const [shardKey, slots] of shards)
      await this.#update(shardKey, async () => new Map(slots.map((slot) => [slot, undefined])));
  }

  /** Removes all values whose keys begin with a prefix. */
  async erasePrefix(prefix: string): Promise<void> {
    const keys: string[] = [];
    for await (const key of this.listPrefix(prefix)) keys.push(key);
    await this.eraseValues(keys);
  }

  /** Yields all keys. */
  list(): AsyncGenerator<string> {
    return this.listPrefix("");
  }

  /** Yields the keys that begin with a prefix, with chunks instead of shards. A prefix can end anywhere, not only at a `/`. */
  async *listPrefix(prefix: string): AsyncGenerator<string> {
    const folder = prefix.slice(0, Math.max(0, prefix.lastIndexOf("/")));
    // Keys of chunks and shards differ below the chunks' prefix, so everything below it is listed from there.
    const base = this.#settings.prefix;
    const from = folder === base || folder.startsWith(`${base}/`) ? base : folder;
    for await (const key of walk(this.#store, from)) {
      const shard = this.#keys.positionOf(key);
      if (shard === undefined) {
        if (key.startsWith(prefix)) yield key;
        continue;
      }
      const entries = (await retryRaced(() => this.#open(key)))?.entries ?? [];
      for (const [slot, entry] of entries.entries()) {
        if (entry === undefined) continue;
        const chunk = this.#keys.keyOf(shard, slot);
        if (chunk?.startsWith(prefix)) yield chunk;
      }
    }
  }

  /** Lists the keys directly below a folder (`""`, or one that ends with `/`), and the prefixes of deeper ones. */
  async listDir(folder: string): Promise<{ readonly keys: string[]; readonly prefixes: string[] }> {
    if (folder !== "" && !folder.endsWith("/"))
      throw new SuperchunkError("BAD_ARGUMENT", 'a folder\'s prefix ends with "/"', {
        field: "prefix",
        found: folder,
      });
    const keys: string[] = [];
    const prefixes = new Set<string>();
    for await (const key of this.listPrefix(folder)) {
      const slash = key.indexOf("/", folder.length);
      if (slash < 0) keys.push(key);
      else prefixes.add(key.slice(0, slash + 1));
    }
    return { keys: keys.sort(), prefixes: [...prefixes].sort() };
  }

  /** The object that holds a value, for messages: chunks are in shards, and not stored under their keys. */
  #nameOf(key: string): string {
    return this.#store.describe(this.#keys.placeOf(key)?.shardKey ?? key);
  }

  /** Other writers are not detected, so an index is only cached within one call. */
  #open(shardKey: string): Promise<KnownShard | undefined> {
    this.#cache.forget(shardKey);
    return this.#cache.open(shardKey, { grid: this.#settings.chunksPerShard, layout: TRANSFORMER_INDEX });
  }

  /** Reads a part of a chunk, with the index of the same version of its shard. */
  async #read(
    key: string,
    { shardKey, slot }: ChunkSlot,
    range: ByteRange | undefined,
  ): Promise<Uint8Array | undefined> {
    return retryRaced(async () => {
      const shard = await this.#open(shardKey);
      const entry = shard?.entries[slot];
      if (shard === undefined || entry === undefined) return undefined;
      const whole = { offset: 0, length: entry.nbytes };
      const path = this.#store.describe(shardKey);
      const { offset, length } = range === undefined ? whole : resolveRange(range, entry.nbytes, path);
      if (length === 0) return new Uint8Array(0);
      const at = entry.offset + offset;
      const bytes = await this.#store.getRange(shardKey, { offset: at, length });
      if (this.#store.pinsVersions !== true)
        await checkVersion(this.#store, { key: shardKey, version: shard.version });
      if (bytes?.length === length) return bytes;
      const found = bytes?.length ?? 0;
      throw new SuperchunkError(
        "TRUNCATED",
        `chunk ${key} has ${length} bytes, but only ${found} are there`,
        { path: this.#store.describe(shardKey), chunk: slot, offset: at, expected: length, found },
      );
    });
  }

  /** Rewrites a shard with every change, like zarr 2.18. */
  async #update(shardKey: string, make: () => Promise<ShardUpdates>): Promise<void> {
    const grid = this.#settings.chunksPerShard;
    const write = async (): Promise<void> => {
      const known = await this.#open(shardKey);
      const state = known ?? { size: 0, entries: emptyEntries(elementsOf(grid)) };
      const plan = planShardWrite(state, await make(), TRANSFORMER_INDEX, "rewrite", 0);
      if (plan.kind === "delete" && known === undefined) return;
      const shard = { key: shardKey, grid, layout: TRANSFORMER_INDEX, version: known?.version };
      await applyPlan(this.#store, { ...shard, chunkOrder: "row-major" }, plan);
      this.#cache.forget(shardKey);
    };
    await withObjectLock(this.#store, shardKey, () => retryRaced(write));
  }

  /** Writes into a value that is not a chunk. */
  async #overwriteValue([key, start, bytes]: PartialWrite): Promise<void> {
    const write = async (): Promise<void> => {
      const version = (await this.#store.stat(key))?.version;
      const old = version === undefined ? undefined : await this.#store.get(key);
      await this.#store.put(key, this.#overwrite(key, old, start, bytes), putConditionOf({ version }));
    };
    await withObjectLock(this.#store, key, () => retryRaced(write));
  }

  #overwrite(key: string, old: Uint8Array | undefined, start: number, bytes: Uint8Array): Uint8Array {
    const value = allocate(Math.max(old?.length ?? 0, start + bytes.length), {
      path: this.#nameOf(key),
    });
    if (old !== undefined) value.set(old);
    value.set(bytes, start);
    return value;
  }
}

/** All keys below a folder, in the order in which the store lists them. */
async function* walk(store: WritableStore, folder: string): AsyncGenerator<string> {
  for await (const { name, kind } of store.list(folder)) {
    const key = joinKey(folder, name);
    if (kind === "object") yield key;
    else yield* walk(store, key);
  }
}

/** What is sharded, and how. */
export interface TransformerSettings {
  /** Key prefix of an array's chunks: `data/root/path`. */
  readonly prefix: string;
  /** Chunks of a shard along each dimension; `[1]` for an array without dimensions. */
  readonly chunksPerShard: readonly number[];
  /** Chunks of the array along each dimension; `listing` stops there. */
  readonly chunkCounts: readonly number[];
  readonly separator?: "/" | "." | undefined;
}

interface ChunkSlot {
  readonly shardKey: string;
  readonly slot: number;
}

/** Translates the keys of one array. Throws `BAD_ARGUMENT` for settings that contradict each other, `LIMIT` for shards of too many chunks. */
function transformerKeys(settings: TransformerSettings) {
  checkSettings(settings);
  const { prefix, chunksPerShard, chunkCounts, separator = "/" } = settings;
  const numbers = chunksPerShard.map(() => "(0|[1-9]\\d*)").join(separator === "." ? "\\." : "/");
  const pattern = new RegExp(`^c${numbers}$`);
  const keyAt = (position: readonly number[]): string => joinKey(prefix, `c${position.join(separator)}`);

  /** Position of a chunk, or of a shard, by its key; undefined for any other key. */
  function positionOf(key: string): readonly number[] | undefined {
    if (!key.startsWith(`${prefix}/`)) return undefined;
    const position = pattern
      .exec(key.slice(prefix.length + 1))
      ?.slice(1)
      .map(Number);
    // Larger numbers are not exact, so several keys would be the same chunk; no array has such keys.
    return position?.every(Number.isSafeInteger) === true ? position : undefined;
  }

  return {
    positionOf,
    /** Shard and slot of a chunk's key; undefined for any other key. */
    placeOf(key: string): ChunkSlot | undefined {
      const position = positionOf(key);
      if (position === undefined) return undefined;
      let slot = 0;
      const shard = position.map((index, d) => {
        const per = at(chunksPerShard, d);
        slot = slot * per + (index % per);
        return Math.floor(index / per);
      });
      return { shardKey: keyAt(shard), slot };
    },
    /** Key of the chunk in a slot; undefined past the array's end. */
    keyOf(shard: readonly number[], slot: number): string | undefined {
      const inShard = unravel(slot, chunksPerShard);
      const position = shard.map((index, d) => index * at(chunksPerShard, d) + at(inShard, d));
      return position.some((index, d) => index >= at(chunkCounts, d)) ? undefined : keyAt(position);
    },
  };
}

function checkSettings({ prefix, chunksPerShard, chunkCounts, separator = "/" }: TransformerSettings): void {
  if (prefix === "")
    throw badArgument("prefix", "empty", "the prefix of an array's chunks, such as data/root/name");
  joinKey(prefix);
  if (separator !== "/" && separator !== ".") throw badArgument("separator", separator, "/ or .");
  checkCounts("chunksPerShard", chunksPerShard, 1);
  checkCounts("chunkCounts", chunkCounts, 0);
  if (chunksPerShard.length === 0)
    throw badArgument("chunksPerShard", "empty", "a number for each dimension, and [1] for an array without");
  if (chunksPerShard.length !== chunkCounts.length)
    throw badArgument("chunkCounts", chunkCounts, `${chunksPerShard.length} numbers, as chunksPerShard`);
  checkCapacity(elementsOf(chunksPerShard), { field: "chunksPerShard" });
}

function checkCounts(field: string, counts: readonly number[], least: number): void {
  if (!counts.every((n) => Number.isSafeInteger(n) && n >= least))
    throw badArgument(field, counts, `whole numbers of at least ${least}`);
}

/** A new array, described as in the transformer's version of Zarr. */
export interface TransformerSpecification {
  readonly shape: readonly number[];
  /** numpy's type string. */
  readonly dataType: string;
  readonly chunkShape: readonly number[];
  /** Chunks of a shard along each dimension. */
  readonly chunksPerShard: readonly number[];
  /** In the form of version 2 without `id`: `{"codec": "blosc", "configuration": {…}}`; null for none. */
  readonly compressor?: {
    readonly codec: "blosc" | "gzip" | "zlib" | "zstd";
    readonly configuration: JsonObject;
  } | null;
  readonly fillValue?: JsonValue;
  readonly separator?: "/" | ".";
  readonly order?: "C" | "F";
  readonly attributes?: JsonObject;
}

/** The document of an array as zarr 2.18 writes it. */
export function transformerDocument(spec: TransformerSpecification): JsonObject {
  const separator = spec.separator ?? "/";
  const compressor = spec.compressor ?? null;
  return {
    attributes: spec.attributes ?? {},
    chunk_grid: { chunk_shape: spec.chunkShape, separator, type: "regular" },
    chunk_memory_layout: spec.order ?? "C",
    ...(compressor === null
      ? {}
      : {
          compressor: {
            codec: `https://purl.org/zarr/spec/codec/${compressor.codec}/1.0`,
            configuration: compressor.configuration,
          },
        }),
    data_type: spec.dataType,
    // zarr 2.18 assumes "/" if the member is missing, and refuses other places for it.
    ...(separator === "." ? { dimension_separator: "." } : {}),
    extensions: [],
    fill_value: spec.fillValue ?? 0,
    shape: spec.shape,
    storage_transformers: [
      {
        configuration: { chunks_per_shard: spec.chunksPerShard.length === 0 ? [1] : spec.chunksPerShard },
        extension: SHARDING_URI,
        type: "indexed",
      },
    ],
  };
}

/** Refuses attributes that zarr 2.18 would mistake for filters of the array. Throws `UNSUPPORTED`. [FK-05] */
export function refuseFilters(attributes: JsonObject, path: string): void {
  if (!Object.hasOwn(attributes, "filters")) return;
  throw new SuperchunkError(
    "UNSUPPORTED",
    'the array has an attribute "filters", which zarr 2.18 would undo as filters of its chunks; give it another name',
    { path, field: "attributes.filters", found: attributes["filters"] },
  );
}

/** True if a hierarchy is at `base`. Throws `CONFLICT` for another kind of Zarr node. */
export async function hasEntryDocument(store: ReadableStore, base: string): Promise<boolean> {
  const key = joinKey(base, "zarr.json");
  const entry = await store.get(key);
  if (entry === undefined) return false;
  const path = store.describe(key);
  if (isEntryDocument(parseJson(entry, path))) return true;
  throw new SuperchunkError("CONFLICT", "another kind of Zarr node is there; choose another folder", {
    path,
  });
}

/** Implements the exported `createTransformerArray`. */
export async function createTransformerArray(
  store: WritableStore,
  base: string,
  path: string,
  spec: TransformerSpecification,
  settings: WriteSettings = {},
): Promise<WritableZarrArray> {
  // The node: its document does not exist yet.
  const name = store.describe(joinKey(base, path));
  refuseFilters(spec.attributes ?? {}, name);
  if (!(await hasEntryDocument(store, base)))
    await store.put(joinKey(base, "zarr.json"), encodeTransformerJson(ENTRY_DOCUMENT), { ifAbsent: true });
  const key = joinKey(base, documentKey(path, "array"));
  const document = transformerDocument(spec);
  const model = parseTransformerArray(document, base, path, key, { name });
  await store.put(key, encodeTransformerJson(document), { ifAbsent: true });
  return new WritableZarrArray(store, model, settings);
}

/** The bytes of a document as zarr 2.18 writes it. */
export function encodeTransformerJson(document: JsonObject): Uint8Array {
  return jsonBytes(document, { indent: 4 });
}
