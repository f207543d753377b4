/**
 * A few values of a column for the small lines of `info`: some chunks from the first to the last, with a fixed limit.
 *
 * Knows how much is read; must not know how it is printed.
 */
import type { LongOptions, ReadableArray } from "../../src/index.ts";
import { canDraw, Envelope, numberOf } from "./plot.ts";
import { arraySource } from "./value-source.ts";

/** Chunks to read of a column, and rows to use in all; of more, every n-th is used. */
const CHUNKS = 8;
const ROWS = 1 << 16;
/** Most bytes to decode of a column, and of all columns of an archive. */
const COLUMN_BYTES = 8 << 20;
const ALL_BYTES = 64 << 20;
const POINTS = 16;

export interface Sample {
  /** Means of the parts of the sample, in row order; NaN for a part without numbers. */
  readonly means: readonly number[];
  /** Of the sample; undefined if it has no numbers. */
  readonly least: number | bigint | undefined;
  readonly greatest: number | bigint | undefined;
  readonly rows: number;
  readonly isAll: boolean;
  readonly chunks: number;
}

/** Takes samples of columns until the limit for one archive is reached. */
export class Sampler {
  #left = ALL_BYTES;

  /** A sample of a numeric column; undefined for others, or if it would exceed the limit. */
  async take(column: ReadableArray, options: LongOptions): Promise<Sample | undefined> {
    const { shape, nchunks, chunkLength, chunkBytes } = column;
    if (shape.length !== 1 || column.columnNames.length > 0) return undefined;
    const source = arraySource("", column, []);
    if (!canDraw(source) || chunkLength === undefined || chunkLength === 0 || source.rows === 0)
      return undefined;
    const most = Math.floor(Math.min(COLUMN_BYTES, this.#left) / Math.max(1, chunkBytes));
    // Powers of two, so that each chunk contributes the same number of values.
    const chunks = [CHUNKS, 4, 2, 1].find((count) => count <= Math.min(most, nchunks));
    if (chunks === undefined) return undefined;
    this.#left -= chunks * chunkBytes;
    const all = new Envelope();
    const means: number[] = [];
    for (let i = 0; i < chunks; i++) {
      const first = chunkLength * (chunks === 1 ? 0 : Math.round((i * (nchunks - 1)) / (chunks - 1)));
      const stop = Math.min(source.rows, first + chunkLength);
      const step = Math.max(1, Math.ceil((stop - first) / (ROWS / chunks)));
      const part = arraySource("", column, [{ start: first, stop, step }]);
      const list = await part.read(0, part.rows, options);
      const values = Array.from({ length: part.rows }, (_, row) => numberOf(list.at(row)));
      for (const value of values) all.add(value);
      means.push(...meansOf(values, POINTS / chunks));
    }
    return {
      means,
      least: all.least,
      greatest: all.greatest,
      rows: all.count,
      isAll: all.count === source.rows,
      chunks,
    };
  }
}

/** The means of `parts` equal parts; if there are fewer values, the values themselves. */
function meansOf(values: readonly (number | bigint)[], parts: number): number[] {
  const count = Math.min(parts, values.length);
  return Array.from({ length: count }, (_, part) => {
    const [from, to] = [(part * values.length) / count, ((part + 1) * values.length) / count].map(Math.floor);
    const known = values.slice(from, to).map(Number).filter(Number.isFinite);
    // The sum of large numbers could be infinite, and the mean of equal ones is rounded.
    const mean = known.reduce((sum, value) => sum + value / known.length, 0);
    return known.length === 0 ? Number.NaN : Math.max(Math.min(...known), Math.min(Math.max(...known), mean));
  });
}
