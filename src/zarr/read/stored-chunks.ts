/**
 * Finds which positions of an array's grid have an object, or may have one, and which chunks exist, and where, without reading
 * any. Listing chunks costs a request for each object and one for its index.
 */

import type { AbsentChunk } from "../../archive/kinds/types.ts";
import { at, positionsOf } from "../../bytes/arrays.ts";
import { isSuperchunkError } from "../../errors.ts";
import { joinKey } from "../../store/key.ts";
import { mapAhead } from "../../store/pool.ts";
import { isGenerating, type ReadableStore } from "../../store/types.ts";
import { type Chain, permute, type ShardingSerializer, shardIndexOf, unpermute } from "../codecs/chain.ts";
import { countPositions, shapeAt, startAt } from "../document/chunk-grid.ts";
import type { ArrayModel } from "../document/model.ts";
import { assertAbsent, type EncodedPlace, type ShardCache } from "./shard-cache.ts";
import type { ShardEntries } from "./shard-index.ts";

/** For more positions, the store is listed: a document can promise more objects than anybody stores. */
const MOST_ASKED = 4096;
/** Objects of one chunk that are requested at a time over a network. */
const ASKED_AHEAD = 16;

/** Positions in grid order; for large grids only those that have an object, if the store can list. */
export async function* storedPositions(
  store: ReadableStore,
  model: ArrayModel,
  signal?: AbortSignal,
): AsyncGenerator<readonly number[]> {
  const listed = await listIfMany(store, model, signal);
  if (listed === undefined) yield* allPositions(model);
  else yield* listed;
}

/** Every position of the grid, and whether it has an object; undefined if that must be looked up. */
async function* gridPositions(
  store: ReadableStore,
  model: ArrayModel,
  signal?: AbortSignal,
): AsyncGenerator<{ readonly position: readonly number[]; readonly isStored: boolean | undefined }> {
  const listed = await listIfMany(store, model, signal);
  let next = 0;
  for (const position of allPositions(model)) {
    // Both are in grid order.
    const stored = listed?.[next];
    const isStored = stored === undefined ? false : comparePositions(stored, position) === 0;
    if (isStored) next++;
    yield { position, isStored: listed === undefined ? undefined : isStored };
  }
}

function allPositions({ axes }: ArrayModel): Generator<readonly number[]> {
  return positionsOf(axes.map(({ count }) => count));
}

/** The positions that have an object; undefined if they are few enough to look up, or a list is of no use or not to be had. */
async function listIfMany(
  store: ReadableStore,
  model: ArrayModel,
  signal: AbortSignal | undefined,
): Promise<readonly (readonly number[])[] | undefined> {
  const isFull = isGenerating(store) && store.hasAllChunks === true;
  if (isFull || countPositions(model.axes) <= MOST_ASKED) return undefined;
  const found: (readonly number[])[] = [];
  try {
    for await (const { key, kind } of walk(store, model.dataFolder, signal)) {
      // All key encodings have the numbers in order, and no other digits after the folder.
      const position = (key.slice(model.dataFolder.length).match(/\d+/g) ?? []).map(Number);
      const isOne =
        position.length === model.axes.length &&
        position.every((index, d) => index < (model.axes[d]?.count ?? 0)) &&
        model.chunkKey(position) === key;
      if (!isOne) {
        // A dead link in the place of a folder of chunks is found only by following it.
        if (kind === "object" && hasChunksBelow(model, key, position)) await store.stat(key, { signal });
        continue;
      }
      // Reading reports a folder in the place of an object; in an object store, it only means keys below that one.
      if (kind === "object" || (await store.isFolder?.(key, { signal })) === true) found.push(position);
    }
  } catch (error) {
    if (isSuperchunkError(error, "UNSUPPORTED")) return undefined;
    throw error;
  }
  return found.sort(comparePositions);
}

/** True if keys of chunks begin with this key, as with that of a folder. */
function hasChunksBelow({ axes, chunkKey }: ArrayModel, key: string, start: readonly number[]): boolean {
  if (start.length >= axes.length) return false;
  const first = [...start, ...new Array<number>(axes.length - start.length).fill(0)];
  return chunkKey(first).startsWith(`${key}/`);
}

function comparePositions(a: readonly number[], b: readonly number[]): number {
  for (let d = 0; d < a.length; d++) {
    const difference = at(a, d) - at(b, d);
    if (difference !== 0) return difference;
  }
  return 0;
}

async function* walk(
  store: ReadableStore,
  folder: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<{ readonly key: string; readonly kind: "object" | "folder" }> {
  for await (const { name, kind } of store.list(folder, { signal })) {
    const key = joinKey(folder, name);
    yield { key, kind };
    if (kind === "folder") yield* walk(store, key, signal);
  }
}

/** A stored chunk. */
export interface ListedChunk {
  /** First item of the chunk in the array, by dimension. */
  readonly start: readonly number[];
  readonly shape: readonly number[];
  /** Key of the object that holds it. */
  readonly key: string;
  /** Bytes from the object's start; 0 for a separate object. */
  readonly offset: number;
  /** Stored bytes. */
  readonly nbytes: number;
  /** Slot in the index of the innermost shard that was read; undefined if the chunk is an object by itself. */
  readonly slot: number | undefined;
  /** Version of the object when its size or index was read. */
  readonly version: string;
}

/** A chunk of the grid that is not stored. */
type MissingChunk = Omit<AbsentChunk, "index">;
type GridEntry = ListedChunk | MissingChunk;

/**
 * The stored chunks of an array in grid order, including the inner chunks of shards one by one. A shard compressed as a whole
 * counts as one chunk. Throws errors of reading an index.
 */
export async function* listStoredChunks(
  store: ReadableStore,
  model: ArrayModel,
  cache: ShardCache,
  signal?: AbortSignal,
): AsyncGenerator<ListedChunk> {
  const walk: Walk = { store, model, cache, signal };
  const { serializer, stages } = model.chain;
  if (store.getHead !== undefined && (serializer.kind === "bytes" || stages.length > 0)) {
    // Each object is one chunk, and on a network no request waits for the one before.
    const positions = (await listIfMany(store, model, signal)) ?? allPositions(model);
    const ask = (position: readonly number[], own: AbortSignal): Promise<IteratorResult<GridEntry>> =>
      slotsAt({ ...walk, signal: own }, position).next();
    for await (const { value } of mapAhead(positions, ASKED_AHEAD, ask, signal))
      if (value !== undefined && "version" in value) yield value;
    return;
  }
  for await (const position of storedPositions(store, model, signal))
    for await (const slot of slotsAt(walk, position)) if ("version" in slot) yield slot;
}

/** The chunks of an array's grid that are not stored, in the same order, except those outside the array. */
export async function* listMissingChunks(
  store: ReadableStore,
  model: ArrayModel,
  cache: ShardCache,
  signal?: AbortSignal,
): AsyncGenerator<MissingChunk> {
  const walk: Walk = { store, model, cache, signal };
  for await (const { position, isStored } of gridPositions(store, model, signal))
    for await (const slot of slotsAt(walk, position, isStored)) {
      const isOutside = slot.start.some((start, d) => start >= at(model.shape, d));
      if (!("version" in slot) && !isOutside) yield slot;
    }
}

interface Walk {
  readonly store: ReadableStore;
  readonly model: ArrayModel;
  readonly cache: ShardCache;
  readonly signal: AbortSignal | undefined;
}

/** A chunk or shard: its place in the array, and its chain. */
interface GridPiece {
  readonly chain: Chain;
  /** First item, by dimension of the array. */
  readonly start: readonly number[];
  /** In the dimension order that the chain gets, which an outer shard may have permuted. */
  readonly shape: readonly number[];
  /** The array dimension of each of these. */
  readonly dimensions: readonly number[];
}

/** The chunks at one position of the grid; those of a shard one by one. */
async function* slotsAt(
  { store, model, cache, signal }: Walk,
  position: readonly number[],
  isStored = true,
): AsyncGenerator<GridEntry> {
  signal?.throwIfAborted();
  const { axes, chain } = model;
  const key = model.chunkKey(position);
  const start = startAt(axes, position);
  const shape = shapeAt(axes, position);
  const piece: GridPiece = { chain, start, shape, dimensions: shape.map((_, d) => d) };
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
  const shard = isStored ? await cache.open(key, shardIndexOf(chain, serializer, shape)) : undefined;
  if (shard === undefined) {
    if (isStored) await assertAbsent(store, key, signal);
    yield* missingIn(piece, key, undefined, model.shape);
    return;
  }
  const { size: nbytes, version, entries } = shard;
  const place = { key, path: store.describe(key), offset: 0, nbytes };
  yield* listInner({ ...piece, serializer, place, version, entries, extent: model.shape }, cache, signal);
}

interface ListedShard extends GridPiece {
  readonly serializer: ShardingSerializer;
  readonly place: EncodedPlace;
  readonly version: string;
  readonly entries: ShardEntries;
  /** Shape of the array. */
  readonly extent: readonly number[];
}

async function* listInner(
  shard: ListedShard,
  cache: ShardCache,
  signal: AbortSignal | undefined,
): AsyncGenerator<GridEntry> {
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
      const nested = await cache.openNested(at, version, shardIndexOf(chain, serializer, shape), signal);
      yield* listInner({ ...piece, serializer, place: at, version, entries: nested, extent }, cache, signal);
      continue;
    }
    const own = { start, shape: shapeInArray(piece) };
    yield { ...own, key: place.key, offset: at.offset, nbytes: entry.nbytes, slot, version };
  }
}

/** The innermost chunks of what is not stored, within the array: a shard may be larger than the array. */
function* missingIn(
  piece: GridPiece,
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

/** Shape of a piece in array dimension order. */
function shapeInArray({ shape, dimensions }: GridPiece): readonly number[] {
  return unpermute(shape, dimensions);
}

/** The inner chunks of a shard in index order; with an `extent`, only those that overlap it. */
function* innerPieces(
  { chain, start, shape, dimensions: given }: GridPiece,
  { chunkShape, inner }: ShardingSerializer,
  extent?: readonly number[],
): Generator<{ readonly piece: GridPiece; readonly slot: number }> {
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

/** Keys of the documents, chunks and shards of an array. */
export async function* storedKeys(
  store: ReadableStore,
  model: ArrayModel,
  signal: AbortSignal | undefined,
): AsyncGenerator<string> {
  yield* model.metadataKeys;
  for await (const position of storedPositions(store, model, signal)) yield model.chunkKey(position);
}
