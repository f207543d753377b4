/**
 * A few values of a column, for the small lines of `info`: some chunks from the first to the last, and never more.
 *
 * Knows how much is read; must not know how it is printed.
 */
import type { LongOptions, ReadableArray } from "../../src/index.ts";
import { canDraw, Envelope, numberOf } from "./plot.ts";
import { arraySource } from "./value-source.ts";

/** Chunks that are read of a column, and rows of all of them: of more, each so many. */
const CHUNKS = 8;
const ROWS = 1 << 16;
/** Bytes that are decoded of a column, and of all columns of an archive. */
const COLUMN_BYTES = 8 << 20;
const ALL_BYTES = 64 << 20;
/** Numbers of a sample. */
const POINTS = 16;

/** What was read of a column. */
export interface Sample {
  /** Means of parts of what was read, in the order of the rows; NaN for a part without a number. */
  readonly means: readonly number[];
  /** Of what was read; undefined if no number was read. */
  readonly least: number | bigint | undefined;
  readonly greatest: number | bigint | undefined;
  readonly rows: number;
  readonly isAll: boolean;
  readonly chunks: number;
}

/** Takes samples of columns, until as much was read as may be of one archive. */
export class Sampler {
  #left = ALL_BYTES;

  /** A sample of a column of numbers; undefined for others, and where it would read too much. */
  async take(column: ReadableArray, options: LongOptions): Promise<Sample | undefined> {
    const { shape, nchunks, chunkLength, chunkBytes } = column;
    if (shape.length !== 1 || column.columnNames.length > 0) return undefined;
    const source = arraySource("", column, []);
    if (!canDraw(source) || chunkLength === undefined || chunkLength === 0 || source.rows === 0)
      return undefined;
    const most = Math.floor(Math.min(COLUMN_BYTES, this.#left) / Math.max(1, chunkBytes));
    // Powers of two, so that each chunk gives as many numbers as the others.
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

/** The means of so many equal parts; of fewer values, each. */
function meansOf(values: readonly (number | bigint)[], parts: number): number[] {
  const count = Math.min(parts, values.length);
  return Array.from({ length: count }, (_, part) => {
    const [from, to] = [(part * values.length) / count, ((part + 1) * values.length) / count].map(Math.floor);
    const known = values.slice(from, to).map(Number).filter(Number.isFinite);
    return known.length === 0 ? Number.NaN : known.reduce((sum, value) => sum + value, 0) / known.length;
  });
}
