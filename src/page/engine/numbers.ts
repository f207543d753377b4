/** Numbers of columns: envelopes for plots, planes for pictures, statistics. */
import type { ReadableArray } from "../../archive/kinds/types.ts";
import { elementsOf } from "../../bytes/arrays.ts";
import { SuperchunkError } from "../../errors.ts";
import type { DType } from "../../format/types.ts";
import { slice } from "../../values/selection.ts";
import { isSecond, isTimeName, secondsOf } from "./cells.ts";
import type { Envelope, Picture, PlotData, PlotRequest, Statistics, Watch } from "./protocol.ts";
import { eachPart } from "./rows.ts";

/** Most decoded bytes of a column to read for a plot; of more, one in n parts is read. */
const MOST_BYTES = 192 << 20;
/** Bytes that are read together if chunks do not decide it. */
const SLICE_BYTES = 1 << 20;
/** Milliseconds between reports. */
const REPORT_MS = 120;
const MOST_SIDE = 1024;
/** Most bytes to decode for one picture. */
const MOST_PICTURE = 512 << 20;
const BINS = 48;

/** True for a data type whose values can be drawn. */
export function isNumeric({ kind, itemSize }: DType): boolean {
  return (
    ["int", "uint", "bool", "datetime", "timedelta"].includes(kind) || (kind === "float" && itemSize <= 8)
  );
}

/** Numbers of a run of rows. Dates are seconds since 1970. */
async function numbersOf(
  array: ReadableArray,
  first: number,
  end: number,
  signal: AbortSignal | undefined,
): Promise<ArrayLike<number>> {
  const { data } = (await array.get([slice(first, end)], { signal })) as {
    readonly data: ArrayLike<unknown> | (Iterable<unknown> & { readonly length: number });
  };
  const { dtype } = array;
  if (data instanceof BigInt64Array || data instanceof BigUint64Array) {
    if (dtype.kind === "datetime")
      return Float64Array.from(data, (value) => secondsOf(value as bigint, dtype));
    return Float64Array.from(data, Number);
  }
  if (ArrayBuffer.isView(data)) return data as unknown as ArrayLike<number>;
  return Float64Array.from(data as Iterable<unknown>, Number);
}

/** Rows that could not be read, and the reason for the first. */
class Lost {
  rows = 0;
  why: string | undefined;
  readonly add = (why: string, rows: number): void => {
    this.rows += rows;
    this.why ??= why;
  };
}

/** The runs of rows to read in `[first, end)`: whole chunks, or one in n if all are too much. */
function planRuns(
  array: ReadableArray,
  first: number,
  end: number,
): { readonly runs: (readonly [number, number])[]; readonly every: number } {
  const { dtype, chunkLength } = array;
  const rowBytes = Math.max(1, elementsOf(array.shape.slice(1)) * dtype.itemSize);
  const rows = Math.max(chunkLength ?? 0, Math.ceil(SLICE_BYTES / rowBytes));
  const step =
    chunkLength === undefined || chunkLength === 0
      ? rows
      : Math.floor(rows / chunkLength) * chunkLength || chunkLength;
  const every = Math.max(1, Math.ceil(((end - first) * rowBytes) / MOST_BYTES));
  const runs: (readonly [number, number])[] = [];
  for (let at = Math.floor(first / step) * step, i = 0; at < end; at += step, i++)
    if (i % every === 0) runs.push([Math.max(first, at), Math.min(end, at + step)]);
  return { runs, every };
}

class Buckets implements Envelope {
  readonly name: string;
  readonly min: Float64Array;
  readonly max: Float64Array;
  readonly first: Float64Array;
  readonly last: Float64Array;

  constructor(name: string, count: number) {
    this.name = name;
    [this.min, this.max, this.first, this.last] = [0, 0, 0, 0].map(() =>
      new Float64Array(count).fill(Number.NaN),
    ) as [Float64Array, Float64Array, Float64Array, Float64Array];
  }

  add(values: ArrayLike<number>, at: number, first: number, width: number): void {
    const { min, max, first: begin, last } = this;
    for (let i = 0; i < values.length; i++) {
      const value = values[i] as number;
      if (!Number.isFinite(value)) continue;
      const bucket = Math.min(min.length - 1, Math.floor((at + i - first) / width));
      if (Number.isNaN(min[bucket] as number)) {
        min[bucket] = max[bucket] = begin[bucket] = value;
      } else if (value < (min[bucket] as number)) min[bucket] = value;
      else if (value > (max[bucket] as number)) max[bucket] = value;
      last[bucket] = value;
    }
  }
}

/** Reads the data of a plot, and reports progress. */
export async function plotColumns(
  arrays: ReadonlyMap<string, ReadableArray>,
  { columns, x: xName, first, end, buckets }: PlotRequest,
  { signal, onProgress }: Watch<PlotData>,
): Promise<PlotData> {
  const rows = Math.max(0, end - first);
  const count = Math.max(1, Math.min(buckets, rows));
  const width = Math.max(1, rows / count);
  const isExact = rows <= buckets;
  const names = [...new Set(xName === undefined ? columns : [...columns, xName])];
  const series = new Map(names.map((name) => [name, new Buckets(name, count)]));
  const plans = names.map((name) => {
    const array = arrays.get(name);
    if (array === undefined || !isNumeric(array.dtype) || array.shape.length !== 1)
      throw new SuperchunkError("BAD_ARGUMENT", `the values of "${name}" are not numbers in a row`, {
        field: name,
      });
    return { array, buckets: series.get(name) as Buckets, ...planRuns(array, first, end) };
  });
  const total = plans.reduce((sum, { runs }) => sum + runs.length, 0);
  const every = Math.max(1, ...plans.map((plan) => plan.every));
  let done = 0;
  let reportedAt = performance.now();
  const lost = new Lost();
  const report = (): PlotData => ({
    ...axisOf(xName, arrays, series, first, width, count),
    series: columns.flatMap((name) => series.get(name) ?? []),
    isExact,
    every,
    lost: lost.why,
    done,
    total,
  });
  const longest = Math.max(0, ...plans.map(({ runs }) => runs.length));
  for (let i = 0; i < longest; i++) {
    await Promise.all(
      plans.map(async ({ array, buckets: into, runs }) => {
        const run = runs[i];
        if (run === undefined) return;
        const read = async (from: number, to: number): Promise<void> =>
          into.add(await numbersOf(array, from, to, signal), from, first, width);
        await eachPart(run, array.chunkLength, read, lost.add);
        done++;
      }),
    );
    if (performance.now() - reportedAt < REPORT_MS) continue;
    reportedAt = performance.now();
    onProgress?.(report());
  }
  return report();
}

/** The horizontal axis: row numbers, or the requested column if it never decreases. */
function axisOf(
  name: string | undefined,
  arrays: ReadonlyMap<string, ReadableArray>,
  series: ReadonlyMap<string, Buckets>,
  first: number,
  width: number,
  count: number,
): Pick<PlotData, "x" | "xKind" | "xNote"> {
  const rows = Float64Array.from({ length: count }, (_, i) => first + Math.floor(i * width));
  const values = name === undefined ? undefined : series.get(name)?.first;
  if (name === undefined || values === undefined) return { x: rows, xKind: "rows" };
  const known = values.filter((value) => !Number.isNaN(value));
  const goesBack = known.some((value, i) => i > 0 && value < (known[i - 1] as number));
  const xNote = `"${name}" goes back within these rows, so they are numbered`;
  if (known.length < values.length) return { x: rows, xKind: "rows" };
  if (goesBack) return { x: rows, xKind: "rows", xNote };
  const [least, greatest] = [known.find((value) => value !== 0) ?? 0, known.at(-1) ?? 0];
  return { x: values, xKind: isTime(name, arrays.get(name)?.dtype, least, greatest) ? "time" : "values" };
}

/** True for dates, and for a column with the name of a date whose least and greatest numbers are seconds of our time. */
function isTime(name: string, dtype: DType | undefined, least: number, greatest: number): boolean {
  if (dtype?.kind === "datetime") return true;
  return isTimeName(name) && isSecond(least) && isSecond(greatest);
}

/** A plane of an array of numbers, reduced to a screen's size. */
export async function readPicture(
  array: ReadableArray,
  fixed: readonly number[],
  signal: AbortSignal | undefined,
): Promise<Picture> {
  const { shape, dtype } = array;
  const [height = 0, width = 0] = shape.slice(-2);
  const [stepY = 1, stepX = 1] = [height, width].map((side) => Math.max(1, Math.ceil(side / MOST_SIDE)));
  if (Math.ceil(height / stepY) * width * dtype.itemSize > MOST_PICTURE)
    throw new SuperchunkError("LIMIT", "this plane is too large to be shown as a picture", {
      path: array.path,
    });
  const [h, w] = [Math.ceil(height / stepY), Math.ceil(width / stepX)];
  const values = new Float64Array(h * w).fill(Number.NaN);
  let [min, max] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  const read = async (from: number, to: number): Promise<void> => {
    const top = Math.ceil(from / stepY);
    if (top * stepY >= to) return;
    const plane = (await array.get(
      [
        ...fixed.slice(0, shape.length - 2),
        { start: top * stepY, stop: to, step: stepY },
        { start: 0, stop: width, step: stepX },
      ],
      { signal },
    )) as {
      readonly data: Iterable<unknown> & { readonly length: number };
      readonly stride: readonly number[];
      readonly shape: readonly number[];
    };
    const flat = Float64Array.from(plane.data, Number);
    const [[rows = 0], [down = w, aside = 1]] = [plane.shape, plane.stride];
    for (let y = 0; y < rows; y++) {
      for (let x = 0; x < w; x++) {
        const value = flat[y * down + x * aside] as number;
        values[(top + y) * w + x] = value;
        if (!Number.isFinite(value)) continue;
        if (value < min) min = value;
        if (value > max) max = value;
      }
    }
  };
  const lost = new Lost();
  await eachPart([0, height], shape.length === 2 ? array.chunkLength : undefined, read, lost.add);
  return { width: w, height: h, stepX, stepY, values, min, max, lost: lost.why };
}

/** Facts of all values, or of a sample of chunks. */
export async function statisticsOf(
  array: ReadableArray,
  name: string,
  { signal, onProgress }: Watch<Statistics>,
): Promise<Statistics> {
  const rows = array.shape.at(0) ?? 0;
  const { runs, every } = planRuns(array, 0, rows);
  const sum = new Moments(array.dtype);
  const lost = new Lost();
  const report = (): Statistics => {
    const found = sum.statistics();
    const dated = isTime(name, array.dtype, found.min, found.max);
    return { ...found, isTime: dated, every, lostRows: lost.rows, lost: lost.why };
  };
  let reportedAt = performance.now();
  for (const run of runs) {
    const read = async (from: number, to: number): Promise<void> =>
      sum.add(await numbersOf(array, from, to, signal));
    await eachPart(run, array.chunkLength, read, lost.add);
    if (performance.now() - reportedAt < 4 * REPORT_MS) continue;
    reportedAt = performance.now();
    onProgress?.(report());
  }
  return report();
}

/** Bounds, mean, deviation, and a histogram whose bins grow with the bounds. */
class Moments {
  #count = 0;
  #missing = 0;
  #min = Number.POSITIVE_INFINITY;
  #max = Number.NEGATIVE_INFINITY;
  #mean = 0;
  #square = 0;
  /** A sample for the histogram: every n-th value. */
  #kept: number[] = [];
  #each = 1;
  readonly #isWhole: boolean;

  constructor({ kind }: DType) {
    this.#isWhole = /int|bool/.test(kind);
  }

  add(values: ArrayLike<number>): void {
    for (let i = 0; i < values.length; i++) {
      const value = values[i] as number;
      if (!Number.isFinite(value)) {
        this.#missing++;
        continue;
      }
      this.#count++;
      const step = value - this.#mean;
      this.#mean += step / this.#count;
      this.#square += step * (value - this.#mean);
      if (value < this.#min) this.#min = value;
      if (value > this.#max) this.#max = value;
      if (this.#count % this.#each === 0) this.#kept.push(value);
    }
    while (this.#kept.length > 200_000) {
      this.#kept = this.#kept.filter((_, i) => i % 2 === 0);
      this.#each *= 2;
    }
  }

  statistics(): Omit<Statistics, "every" | "lost" | "lostRows" | "isTime"> {
    // Bins of integers hold equally many of them.
    const span = this.#count === 0 ? 0 : this.#max - this.#min + Number(this.#isWhole);
    const binWidth = this.#isWhole ? Math.ceil(span / BINS) : span / BINS;
    const bins = binWidth > 0 ? Math.min(BINS, Math.ceil(span / binWidth)) : 1;
    const histogram = new Array<number>(bins).fill(0);
    for (const value of this.#kept) {
      const bin = Math.min(bins - 1, Math.floor((value - this.#min) / binWidth) || 0);
      histogram[bin] = (histogram[bin] as number) + 1;
    }
    return {
      count: this.#count,
      missing: this.#missing,
      min: this.#min,
      max: this.#max,
      mean: this.#count === 0 ? Number.NaN : this.#mean,
      deviation: this.#count === 0 ? Number.NaN : Math.sqrt(this.#square / this.#count),
      histogram,
      binWidth,
      isWhole: this.#isWhole,
    };
  }
}
