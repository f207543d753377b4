/** Which chunks of an array exist, and where, without reading any: listing costs a question for each object and its index. */
import type { AbsentChunk } from "../../archive/kinds/types.ts";
import { at } from "../../bytes/at.ts";
import type { ReadableStore } from "../../store/types.ts";
import { type Chain, innerGrid, permute, type ShardingSerializer } from "../codecs/chain.ts";
import { shapeAt, startAt } from "../document/chunk-grid.ts";
import type { ArrayModel } from "../document/model.ts";
import type { ShardCache } from "./shard-cache.ts";
import { assertAbsent, type ChunkPlace, type ShardEntries } from "./shard-index.ts";
import { gridPositions, positionsOf, storedPositions } from "./stored-positions.ts";

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
  /** Of the object, when its size or index was read. */
  readonly version: string;
}

/** A chunk of the grid that is not stored. */
type MissingChunk = Omit<AbsentChunk, "index">;

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
  const walk: Walk = { store, model, cache, signal };
  for await (const position of storedPositions(store, model, signal)) {
    for await (const slot of slotsAt(walk, position)) if ("version" in slot) yield slot;
  }
}

/** The chunks of an array's grid that are not stored, in the same order, but for those that lie outside of the array. */
export async function* listMissingChunks(
  store: ReadableStore,
  model: ArrayModel,
  cache: ShardCache,
  signal?: AbortSignal,
): AsyncGenerator<MissingChunk> {
  const walk: Walk = { store, model, cache, signal };
  for await (const { position, isStored } of gridPositions(store, model, signal)) {
    for await (const slot of slotsAt(walk, position, isStored)) {
      const isOutside = slot.start.some((start, d) => start >= at(model.shape, d));
      if (!("version" in slot) && !isOutside) yield slot;
    }
  }
}

/** What every step of a walk needs. */
interface Walk {
  readonly store: ReadableStore;
  readonly model: ArrayModel;
  readonly cache: ShardCache;
  readonly signal: AbortSignal | undefined;
}

/** A chunk or shard: where it lies in the array, and how it is cut on. */
interface Piece {
  readonly chain: Chain;
  /** First item, by dimension of the array. */
  readonly start: readonly number[];
  /** In the order in which the chain is given the dimensions, which a shard outside may have turned. */
  readonly shape: readonly number[];
  /** Dimension of the array that each of these is. */
  readonly dimensions: readonly number[];
}

/** The chunks at one position of the grid, those of a shard each by itself. */
async function* slotsAt(
  { store, model, cache, signal }: Walk,
  position: readonly number[],
  isStored = true,
): AsyncGenerator<StoredChunk | MissingChunk> {
  signal?.throwIfAborted();
  const { axes, chain } = model;
  const key = model.chunkKey(position);
  const start = startAt(axes, position);
  const shape = shapeAt(axes, position);
  const piece: Piece = { chain, start, shape, dimensions: shape.map((_, d) => d) };
  const { serializer, stages } = chain;
  if (serializer.kind === "bytes" || stages.length > 0) {
    const info = isStored ? await store.stat(key, { signal }) : undefined;
    const { size: nbytes, version } = info ?? {};
    if (nbytes === undefined || version === undefined) {
      if (isStored) await assertAbsent(store, key, signal);
      yield* missingIn(piece, key, undefined, model.shape);
    } else yield { start, shape, key, offset: 0, nbytes, slot: undefined, version };
    return;
  }
  const grid = innerGrid(serializer, permute(shape, chain.order));
  const shard = isStored ? await cache.open(key, grid, serializer.index) : undefined;
  if (shard === undefined) {
    if (isStored) await assertAbsent(store, key, signal);
    yield* missingIn(piece, key, undefined, model.shape);
    return;
  }
  const { size: nbytes, version, entries } = shard;
  const place: ChunkPlace = {
    key,
    path: store.describe(key),
    offset: 0,
    nbytes,
    slot: undefined,
    memory: undefined,
  };
  yield* listInner({ ...piece, serializer, place, version, entries, extent: model.shape }, cache, signal);
}

interface ListedShard extends Piece {
  readonly serializer: ShardingSerializer;
  readonly place: ChunkPlace;
  readonly version: string;
  readonly entries: ShardEntries;
  /** Shape of the array. */
  readonly extent: readonly number[];
}

async function* listInner(
  shard: ListedShard,
  cache: ShardCache,
  signal: AbortSignal | undefined,
): AsyncGenerator<StoredChunk | MissingChunk> {
  const { place, version, entries, extent } = shard;
  for (const { piece, slot } of innerPieces(shard, shard.serializer)) {
    const entry = entries[slot];
    if (entry === undefined) {
      yield* missingIn(piece, place.key, slot, extent);
      continue;
    }
    const at = { ...place, offset: place.offset + entry.offset, nbytes: entry.nbytes, slot };
    const { chain, start, shape } = piece;
    const { serializer } = chain;
    if (serializer.kind === "sharding" && chain.stages.length === 0) {
      const grid = innerGrid(serializer, permute(shape, chain.order));
      const nested = await cache.openNested(at, version, grid, serializer.index, signal);
      yield* listInner({ ...piece, serializer, place: at, version, entries: nested, extent }, cache, signal);
      continue;
    }
    const own = { start, shape: shapeInArray(piece) };
    yield { ...own, key: place.key, offset: at.offset, nbytes: entry.nbytes, slot, version };
  }
}

/** The innermost chunks of what is not stored, as far as the array goes: a shard may be larger than the array. */
function* missingIn(
  piece: Piece,
  key: string,
  slot: number | undefined,
  extent: readonly number[],
): Generator<MissingChunk> {
  const { serializer, stages } = piece.chain;
  if (serializer.kind === "bytes" || stages.length > 0) {
    yield { start: piece.start, shape: shapeInArray(piece), key, slot };
    return;
  }
  for (const inner of innerPieces(piece, serializer, extent))
    yield* missingIn(inner.piece, key, inner.slot, extent);
}

/** Shape of a piece by dimension of the array. */
function shapeInArray({ shape, dimensions }: Piece): readonly number[] {
  const turned = [...shape];
  dimensions.forEach((dimension, d) => {
    turned[dimension] = at(shape, d);
  });
  return turned;
}

/** The inner chunks of a shard in the order of its index; with an `extent` those that have a part in it. */
function* innerPieces(
  { chain, start, shape, dimensions: given }: Piece,
  { chunkShape, inner }: ShardingSerializer,
  extent?: readonly number[],
): Generator<{ readonly piece: Piece; readonly slot: number }> {
  const dimensions = permute(given, chain.order);
  const grid = permute(shape, chain.order).map((n, d) => Math.ceil(n / at(chunkShape, d)));
  const counts = grid.map((count, d) => {
    const dimension = dimensions[d] ?? d;
    const room = (extent?.[dimension] ?? Number.POSITIVE_INFINITY) - at(start, dimension);
    return Math.max(0, Math.min(count, Math.ceil(room / at(chunkShape, d))));
  });
  for (const position of positionsOf(counts)) {
    const first = [...start];
    let slot = 0;
    position.forEach((chunk, d) => {
      const dimension = dimensions[d] ?? d;
      slot = slot * at(grid, d) + chunk;
      first[dimension] = at(start, dimension) + chunk * at(chunkShape, d);
    });
    yield { piece: { chain: inner, start: first, shape: chunkShape, dimensions }, slot };
  }
}
