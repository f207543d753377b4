/**
 * Maps a linear run of chunks to a regular grid: cells (Zarr's inner chunks), and shards of whole cells.
 *
 * Pure. Every archive stores one linear sequence of items, cut into chunks of a fixed number of items. If the cuts are cell borders
 * of a grid in C order, cell `k` is chunk `k` and its bytes can be copied. Knows shapes only; must not know dtypes, codecs or stores.
 */
import { at, elementsOf, unravel } from "../../bytes/arrays.ts";
import { badArgument, SuperchunkError } from "../../errors.ts";
import { type LengthRun, UnequalCells } from "../../zarr/document/chunk-grid.ts";

/** Default for the uncompressed bytes of a shard: 128 MiB. */
const DEFAULT_SHARD_SIZE: number = 128 * 1024 * 1024;
/** Uncompressed bytes of a recoded chunk: 1 MiB. */
export const RECODED_CHUNK_SIZE: number = 1024 * 1024;
/** Most chunks in a shard. This limits its index, which readers fetch before the first value, to 1 MiB. */
const MAX_CHUNKS_PER_SHARD = 65_536;
/** Most bytes of one Blosc chunk. */
const MAX_CHUNK_BYTES = 2_147_483_647 - 16;

/** Cells of `[1, …, 1, length, all, …, all]` items; the last one along the axis may be short. */
export interface CellGrid {
  /** Shape of the array, in stored axis order. */
  readonly shape: readonly number[];
  /** The axis that is cut. */
  readonly axis: number;
  /** Items of a cell along that axis; of the longest, if cells are unequal. */
  readonly length: number;
  /** Number of cells along that axis. */
  readonly along: number;
  /** Items of one step along that axis. */
  readonly inner: number;
  /** Number of all cells, which are in C order. */
  readonly count: number;
  /** Present if cells have unequal lengths. The cut axis is then the first. */
  readonly unequal?: UnequalCells;
}

/** A grid of shards, each a contiguous run of cells. */
export interface ShardGrid {
  /** Shard shape in items. */
  readonly shape: readonly number[];
  /** Cells of a shard along each axis. */
  readonly cells: readonly number[];
  /** Number of shards along each axis. */
  readonly grid: readonly number[];
  /** Entries of a shard's index: its cells, absent ones included. */
  readonly capacity: number;
  /** Number of all shards, which are in C order. */
  readonly count: number;
  /** Shards along the axis that is cut into shards, and cells of the last one there. */
  readonly along: number;
  readonly lastCount: number;
}

/** Cells `cell`, `cell` + 1, … that are the chunks `chunk`, `chunk` + 1, … of the source. */
export interface CellCopies {
  readonly cell: number;
  readonly chunk: number;
  readonly times: number;
}

/** Cells of one shard: `[first, end)`. */
export interface CellRange {
  readonly first: number;
  readonly end: number;
}

function makeGrid(shape: readonly number[], axis: number, length: number): CellGrid {
  const along = Math.ceil(at(shape, axis) / length);
  const inner = elementsOf(shape.slice(axis + 1));
  return { shape, axis, length, along, inner, count: elementsOf(shape.slice(0, axis)) * along };
}

/** Shape of a cell in items. */
export function cellShape(cells: CellGrid): number[] {
  return cells.shape.map((n, i) => (i < cells.axis ? 1 : i === cells.axis ? cells.length : n));
}

/** Items of cell `index` that are inside the array. */
export function cellItems(cells: CellGrid, index: number): number {
  const { axis, length, along, inner, shape, unequal } = cells;
  if (unequal !== undefined) return unequal.lengthOf(index) * inner;
  const isLast = (index + 1) % along === 0;
  return (isLast ? at(shape, axis) - (along - 1) * length : length) * inner;
}

/** Items before cell `index`. */
export function cellStart(cells: CellGrid, index: number): number {
  const { axis, length, along, inner, shape, unequal } = cells;
  if (unequal !== undefined) return unequal.startOf(index) * inner;
  const row = Math.floor(index / along);
  return (row * at(shape, axis) + (index % along) * length) * inner;
}

/** Items of the last cell along the axis that is cut. */
export function lastLength({ shape, axis, length, along, unequal }: CellGrid): number {
  return unequal?.lengthOf(along - 1) ?? at(shape, axis) - (along - 1) * length;
}

/** The grid with cells of these lengths along the first axis, which add up to its extent. */
export function unequalCells(shape: readonly number[], runs: Iterable<LengthRun>): CellGrid {
  const unequal = new UnequalCells(runs);
  const { count, longest } = unequal;
  return { shape, axis: 0, length: longest, along: count, inner: elementsOf(shape.slice(1)), count, unequal };
}

/** Items of a whole cell. */
export function fullCellItems(cells: CellGrid): number {
  return cells.length * cells.inner;
}

/**
 * The grid whose cells are runs of `chunkItems` items of an array with at least one dimension and one item; undefined if the
 * cuts are not cell borders of a regular grid. A single run becomes one cell as long as the array, so that it needs no padding.
 */
export function matchCells(shape: readonly number[], chunkItems: number): CellGrid | undefined {
  if (!Number.isSafeInteger(chunkItems) || chunkItems < 1) return undefined;
  if (chunkItems >= elementsOf(shape)) return makeGrid(shape, 0, at(shape, 0));
  let inner = elementsOf(shape);
  for (let axis = 0; axis < shape.length; axis++) {
    const extent = at(shape, axis);
    inner /= extent;
    if (inner > chunkItems) continue;
    const length = chunkItems / inner;
    if (!Number.isInteger(length)) return undefined;
    // On a later axis, a short cell would be in the middle of the run, where no chunk is short.
    return axis === 0 || extent % length === 0 ? makeGrid(shape, axis, length) : undefined;
  }
  return undefined;
}

/**
 * The grid for recoded chunks: cells of about `target` bytes, with whole rows if a row is not larger. `shape` has at least one
 * dimension and one item.
 */
export function chooseCells(shape: readonly number[], itemSize: number, target: number): CellGrid {
  let inner = elementsOf(shape) * itemSize;
  let axis = 0;
  for (; axis < shape.length - 1; axis++) {
    inner /= at(shape, axis);
    if (inner <= target) break;
  }
  if (axis === shape.length - 1) inner = itemSize;
  const length = Math.min(at(shape, axis), Math.max(1, Math.floor(target / inner)));
  return makeGrid(shape, axis, length);
}

export interface ShardSizing {
  /** Most uncompressed bytes of a shard, always whole chunks (default 128 MiB); of a Parquet file with `partition: "rows"` (default 512 MiB). */
  readonly shardSize?: number | undefined;
  /** Most chunks in a shard; overrides `shardSize`. */
  readonly chunksPerShard?: number | undefined;
}

/**
 * Groups cells into shards so that the cells of each shard are a contiguous run. Throws `BAD_ARGUMENT` for sizes that are not
 * positive integers, `LIMIT` for cells too large for Blosc.
 */
export function chooseShards(cells: CellGrid, itemSize: number, sizing: ShardSizing = {}): ShardGrid {
  const cellBytes = fullCellItems(cells) * itemSize;
  if (cellBytes > MAX_CHUNK_BYTES)
    throw new SuperchunkError("LIMIT", `a chunk of ${cellBytes} bytes is more than a Blosc chunk holds`, {
      field: "chunk_shape",
      expected: `at most ${MAX_CHUNK_BYTES}`,
      found: cellBytes,
    });
  const wanted = wantedChunks(cellBytes, sizing);
  const counts = cellCounts(cells);
  let axis = 0;
  let below = cells.count;
  for (; axis <= cells.axis; axis++) {
    below /= at(counts, axis);
    if (below <= wanted) break;
  }
  const extent = at(counts, axis);
  const step = Math.min(extent, Math.max(1, Math.floor(wanted / below)));
  const along = Math.ceil(extent / step);
  const cell = cellShape(cells);
  const perAxis = counts.map((n, i) => (i < axis ? 1 : i === axis ? step : n));
  return {
    shape: cell.map((n, i) => n * at(perAxis, i)),
    cells: perAxis,
    grid: counts.map((n, i) => (i < axis ? n : i === axis ? along : 1)),
    capacity: step * below,
    count: elementsOf(counts.slice(0, axis)) * along,
    along,
    lastCount: (extent - (along - 1) * step) * below,
  };
}

export function shardCells(shards: ShardGrid, index: number): CellRange {
  const { along, capacity, lastCount } = shards;
  const outer = Math.floor(index / along);
  const position = index % along;
  const first = outer * ((along - 1) * capacity + lastCount) + position * capacity;
  return { first, end: first + (position === along - 1 ? lastCount : capacity) };
}

export function shardPosition(shards: ShardGrid, index: number): number[] {
  return unravel(index, shards.grid);
}

/** Position of cell `index` in the grid of cells, in stored axis order. */
export function cellPosition(cells: CellGrid, index: number): number[] {
  return unravel(index, cellCounts(cells));
}

/**
 * The index slot of a shard's `k`-th cell. Slots count cells in C order of the array's axes. For an array stored in Fortran
 * order (`reversed`), that is not the order of the cells.
 */
export function indexSlot(shards: ShardGrid, k: number, reversed: boolean): number {
  if (!reversed) return k;
  const position = unravel(k, shards.cells);
  let slot = 0;
  for (let axis = position.length - 1; axis >= 0; axis--)
    slot = slot * at(shards.cells, axis) + at(position, axis);
  return slot;
}

/** Number of cells along each axis, in stored axis order. */
function cellCounts(cells: CellGrid): number[] {
  return cells.shape.map((n, i) => (i < cells.axis ? n : i === cells.axis ? cells.along : 1));
}

/** Chunks of a shard. Throws `BAD_ARGUMENT` for sizes that are not positive integers, `LIMIT` for too many chunks. */
export function wantedChunks(cellBytes: number, { chunksPerShard, shardSize }: ShardSizing): number {
  for (const [field, value] of [
    ["chunksPerShard", chunksPerShard] as const,
    ["shardSize", shardSize] as const,
  ])
    if (value !== undefined && !(Number.isSafeInteger(value) && value >= 1))
      throw badArgument(field, value, "a positive integer");
  if (chunksPerShard !== undefined) {
    if (chunksPerShard > MAX_CHUNKS_PER_SHARD)
      throw new SuperchunkError(
        "LIMIT",
        `chunksPerShard is ${chunksPerShard}, but a shard holds at most ${MAX_CHUNKS_PER_SHARD} chunks`,
        { field: "chunksPerShard", expected: `at most ${MAX_CHUNKS_PER_SHARD}`, found: chunksPerShard },
      );
    return chunksPerShard;
  }
  const chunks = Math.floor((shardSize ?? DEFAULT_SHARD_SIZE) / Math.max(1, cellBytes));
  return Math.min(MAX_CHUNKS_PER_SHARD, Math.max(1, chunks));
}
