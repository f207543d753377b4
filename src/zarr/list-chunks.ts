/** Which chunks of an array exist, and where, without reading any: listing costs a question for each object and its index. */
import type { ReadableStore } from "../store/types.ts";
import { type Chain, innerGrid, permute, type ShardingSerializer } from "./chain.ts";
import { combine, regularAxis } from "./chunk-grid.ts";
import type { ArrayModel } from "./model.ts";
import type { ChunkPlace } from "./place.ts";
import type { ShardCache } from "./shard-cache.ts";
import type { ShardEntries } from "./shard-index.ts";
import { storedPositions } from "./stored-positions.ts";

/** A chunk that is stored. */
export interface StoredChunk {
  /** First item of the chunk in the array, by dimension. */
  readonly start: readonly number[];
  readonly shape: readonly number[];
  /** Key of the object that holds it. */
  readonly key: string;
  /** Bytes from the object's start; 0 for an object of its own. */
  readonly offset: number;
  /** Stored bytes. */
  readonly nbytes: number;
  /** Slot in the index of the innermost shard that was looked into; undefined for an object of its own. */
  readonly slot: number | undefined;
}

/**
 * The stored chunks of an array in the order of the grid, inner chunks of shards each by itself. Shards whose bytes
 * are compressed as a whole count as one chunk. Throws what reading an index throws.
 */
export async function* listStoredChunks(
  store: ReadableStore,
  model: ArrayModel,
  cache: ShardCache,
  signal?: AbortSignal,
): AsyncGenerator<StoredChunk> {
  const { axes, chain } = model;
  for await (const position of storedPositions(store, model, signal)) {
    signal?.throwIfAborted();
    const key = model.chunkKey(position);
    const start = axes.map((axis, d) => axis.startOf(position[d] ?? 0));
    const shape = axes.map((axis, d) => axis.lengthOf(position[d] ?? 0));
    const { serializer, stages } = chain;
    if (serializer.kind === "bytes" || stages.length > 0) {
      const info = await store.stat(key, { signal });
      if (info !== undefined) yield { start, shape, key, offset: 0, nbytes: info.size, slot: undefined };
      continue;
    }
    const shard = await cache.open(key, innerGrid(serializer, permute(shape, chain.order)), serializer.index);
    if (shard === undefined) continue;
    const place = {
      key,
      path: store.describe(key),
      offset: 0,
      nbytes: shard.size,
      slot: undefined,
      memory: undefined,
    };
    yield* listInner(
      chain,
      serializer,
      { place, version: shard.version, start, shape },
      shard.entries,
      cache,
      signal,
    );
  }
}

interface ListedShard {
  readonly place: ChunkPlace;
  readonly version: string;
  readonly start: readonly number[];
  readonly shape: readonly number[];
}

async function* listInner(
  chain: Chain,
  serializer: ShardingSerializer,
  { place, version, start, shape }: ListedShard,
  entries: ShardEntries,
  cache: ShardCache,
  signal: AbortSignal | undefined,
): AsyncGenerator<StoredChunk> {
  const stored = permute(shape, chain.order);
  const { chunkShape, inner } = serializer;
  const axes = stored.map((n, d) => regularAxis(n, chunkShape[d] ?? 1));
  let slot = -1;
  for (const position of combine(axes.map(({ count }) => Array.from({ length: count }, (_, i) => i)))) {
    slot++;
    const entry = entries[slot];
    if (entry === undefined) continue;
    const first = [...start];
    const size = [...shape];
    position.forEach((chunk, d) => {
      const dimension = chain.order?.[d] ?? d;
      first[dimension] = (start[dimension] ?? 0) + chunk * (chunkShape[d] ?? 1);
      size[dimension] = chunkShape[d] ?? 1;
    });
    const at = { ...place, offset: place.offset + entry.offset, nbytes: entry.nbytes, slot };
    if (inner.serializer.kind === "sharding" && inner.stages.length === 0) {
      const innermost = innerGrid(inner.serializer, permute(size, inner.order));
      const nested = await cache.openNested(at, version, innermost, inner.serializer.index, signal);
      yield* listInner(
        inner,
        inner.serializer,
        { place: at, version, start: first, shape: size },
        nested,
        cache,
        signal,
      );
      continue;
    }
    yield { start: first, shape: size, key: place.key, offset: at.offset, nbytes: entry.nbytes, slot };
  }
}
