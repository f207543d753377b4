/**
 * Chunk grids: where an array is cut, and the keys of its chunks. Regular, or with chunks of different lengths along an axis ("rectilinear").
 *
 * Pure. Knows shapes; must not know codecs or stores.
 * @see https://github.com/zarr-developers/zarr-extensions/tree/main/chunk-grids/rectilinear
 */
import { at, countLeading } from "../../bytes/arrays.ts";
import type { JsonValue } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { ItemView } from "../../values/copy-items.ts";
import type { Extent } from "../../values/selection.ts";
import {
  asExtension,
  asInteger,
  asIntegers,
  asList,
  badMember,
  below,
  type FieldPlace,
  showJson,
  unsupportedMember,
} from "./metadata-fields.ts";

/** Chunks along one axis. Lengths are in items; the last chunk may extend past the array's end. */
export interface GridAxis {
  /** Items of the array. */
  readonly extent: number;
  readonly count: number;
  /** First item of a chunk. */
  startOf(chunk: number): number;
  lengthOf(chunk: number): number;
  /** The chunk that contains the item. */
  chunkOf(item: number): number;
  /** All lengths that occur. */
  readonly lengths: readonly number[];
}

/** First item of the chunk at a position of the grid. */
export function startAt(axes: readonly GridAxis[], position: readonly number[]): number[] {
  return axes.map((axis, d) => axis.startOf(at(position, d)));
}

/** Shape of the chunk at a position of the grid, including what extends past the array's end. */
export function shapeAt(axes: readonly GridAxis[], position: readonly number[]): number[] {
  return axes.map((axis, d) => axis.lengthOf(at(position, d)));
}

export function countPositions(axes: readonly GridAxis[]): number {
  return axes.reduce((product, { count }) => product * count, 1);
}

/** Most chunks along all axes: a short run-length list can ask for more than memory holds. */
const MAX_IRREGULAR = 10_000_000;

export function regularAxis(extent: number, length: number): GridAxis {
  return {
    extent,
    count: Math.ceil(extent / length),
    startOf: (chunk) => chunk * length,
    lengthOf: () => length,
    chunkOf: (item) => Math.floor(item / length),
    lengths: [length],
  };
}

/** Chunks of these lengths, which together are at least as long as the array. */
export function irregularAxis(extent: number, lengths: readonly number[]): GridAxis {
  const starts = new Float64Array(lengths.length + 1);
  let count = 0;
  lengths.forEach((length, i) => {
    starts[i + 1] = at(starts, i) + length;
    if (at(starts, i) < extent) count = i + 1;
  });
  const chunkOf = (item: number): number =>
    Math.max(0, countLeading(count, (i) => at(starts, i) <= item) - 1);
  return {
    extent,
    count,
    startOf: (chunk) => at(starts, chunk),
    lengthOf: (chunk) => at(lengths, chunk),
    chunkOf,
    lengths: [...new Set(lengths)],
  };
}

/** The axes of a `chunk_grid`. Throws `BAD_FIELD`, `UNSUPPORTED`. */
export function parseChunkGrid(
  value: JsonValue | undefined,
  shape: readonly number[],
  place: FieldPlace,
): GridAxis[] {
  const { name, configuration } = asExtension(value, place);
  const inside = below(place, "configuration");
  if (name === "regular") {
    const lengths = asIntegers(configuration["chunk_shape"], 1, below(inside, "chunk_shape"), shape.length);
    return shape.map((extent, d) => regularAxis(extent, at(lengths, d)));
  }
  if (name !== "rectilinear")
    throw unsupportedMember(
      place,
      `is ${showJson(name)}; superchunk reads the grids "regular" and "rectilinear"`,
      value,
    );
  const kind = configuration["kind"] ?? "inline";
  if (kind !== "inline") throw unsupportedMember(below(inside, "kind"), 'is not "inline"', kind);
  const shapes = below(inside, "chunk_shapes");
  const axes = asList(configuration["chunk_shapes"], shapes);
  if (axes.length !== shape.length)
    throw badMember(shapes, `a list of ${shape.length}, one for each dimension`, axes);
  let room = MAX_IRREGULAR;
  return axes.map((axis, d) => {
    const here = below(shapes, String(d));
    if (!Array.isArray(axis)) return regularAxis(at(shape, d), asInteger(axis, 1, here));
    const lengths = parseLengths(axis as readonly JsonValue[], at(shape, d), room, here);
    room -= lengths.length;
    return irregularAxis(at(shape, d), lengths);
  });
}

/** The lengths of an axis; at most `room` are allowed. */
function parseLengths(
  value: readonly JsonValue[],
  extent: number,
  room: number,
  place: FieldPlace,
): readonly number[] {
  const lengths: number[] = [];
  let total = 0;
  value.forEach((entry, i) => {
    const at = below(place, String(i));
    const [length = 0, count = 1] = Array.isArray(entry)
      ? asIntegers(entry as JsonValue, 1, at, 2)
      : [asInteger(entry, 1, at)];
    if (lengths.length + count > room)
      throw unsupportedMember(place, `has more than ${MAX_IRREGULAR} chunks`, lengths.length + count);
    for (let k = 0; k < count; k++) lengths.push(length);
    total += length * count;
  });
  if (total < extent) throw badMember(place, `lengths of together at least ${extent}`, total);
  return lengths;
}

/** A part of one dimension of an array or a chunk. */
export type ChunkExtent = Omit<Extent, "dropped">;

/** The part of an extent that is in one chunk: its position in the chunk and in the result. */
export interface AxisSegment {
  readonly chunk: number;
  /** Relative to the chunk. */
  readonly start: number;
  readonly count: number;
  readonly step: number;
  /** Index of its first item in the result. */
  readonly target: number;
}

export function* segmentsOf(axis: GridAxis, extent: ChunkExtent): Generator<AxisSegment> {
  const { start, count, step } = extent;
  for (let done = 0; done < count; ) {
    const item = start + done * step;
    const chunk = axis.chunkOf(item);
    const first = axis.startOf(chunk);
    const inChunk = Math.min(count - done, Math.ceil((first + axis.lengthOf(chunk) - item) / step));
    yield { chunk, start: item - first, count: inChunk, step, target: done };
    done += inChunk;
  }
}

/** The part of a view that corresponds to segments of its dimensions. */
export function partOfView(view: ItemView, segments: readonly AxisSegment[]): ItemView {
  let { offset } = view;
  segments.forEach(({ target }, d) => {
    offset += target * at(view.strides, d);
  });
  return { ...view, offset };
}

/** Consecutive cells of one length along an axis, in items. */
export interface LengthRun {
  readonly length: number;
  readonly times: number;
}

/** Joins runs of the same length, and drops empty runs. */
export function mergeRuns(runs: Iterable<LengthRun>): readonly LengthRun[] {
  const merged: { length: number; times: number }[] = [];
  for (const { length, times } of runs) {
    const last = merged.at(-1);
    if (last?.length === length) last.times += times;
    else if (times > 0) merged.push({ length, times });
  }
  return merged;
}

/** Where cells of unequal lengths begin and end. */
export class UnequalCells {
  readonly runs: readonly LengthRun[];
  /** Number of cells. */
  readonly count: number;
  /** Items of the longest cell along the axis. */
  readonly longest: number;
  /** For each run, its first cell and the items before it. */
  readonly #starts: readonly { readonly cell: number; readonly item: number }[];

  constructor(runs: Iterable<LengthRun>) {
    this.runs = mergeRuns(runs);
    let cell = 0;
    let item = 0;
    let longest = 1;
    this.#starts = this.runs.map(({ length, times }) => {
      const start = { cell, item };
      cell += times;
      item += times * length;
      longest = Math.max(longest, length);
      return start;
    });
    this.count = cell;
    this.longest = longest;
  }

  /** Items of a cell along the axis. */
  lengthOf(cell: number): number {
    return at(this.runs, this.#runOf(cell)).length;
  }

  /** Items before a cell along the axis. */
  startOf(cell: number): number {
    const run = this.#runOf(cell);
    const { cell: first, item } = at(this.#starts, run);
    return item + (cell - first) * at(this.runs, run).length;
  }

  #runOf(cell: number): number {
    return Math.max(0, countLeading(this.#starts.length, (i) => at(this.#starts, i).cell <= cell) - 1);
  }
}

/** Keys of chunks under the array's `path`: `c/0/1` or `c.0.1` by default, `0.1` or `0/1` as in version 2. */
export function parseKeyEncoding(
  path: string,
  value: JsonValue | undefined,
  place: FieldPlace,
): (position: readonly number[]) => string {
  const { name, configuration } = asExtension(value, place);
  if (name !== "default" && name !== "v2")
    throw unsupportedMember(place, `is ${showJson(name)}; superchunk knows "default" and "v2"`, value);
  const separator = configuration["separator"] ?? (name === "default" ? "/" : ".");
  if (separator !== "/" && separator !== ".")
    throw badMember(below(place, "configuration.separator"), '"/" or "."', separator);
  return name === "default"
    ? (position) => joinKey(path, ["c", ...position].join(separator))
    : (position) => joinKey(path, position.length === 0 ? "0" : position.join(separator));
}
