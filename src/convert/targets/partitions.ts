/**
 * Partitions tables: a file for each run of rows; of zipline's also for each asset, or for each year, in folders that DuckDB, Polars and
 * Spark read as a column.
 *
 * Knows which rows belong together; must not know files. The asset is `id` (zipline's sid), because the table has no symbols.
 */
import { at, elementsOf, stepsOf } from "../../bytes/arrays.ts";
import { SuperchunkError } from "../../errors.ts";
import { joinKey } from "../../store/key.ts";
import { toValues } from "../../values/values.ts";
import type { ConvertOptions } from "../pipeline.ts";
import { wantedChunks } from "../plan/grid.ts";
import { type Column, describeColumn } from "../sources/columns.ts";
import type { Piece } from "./column-target.ts";

/** Approximate bytes of the spans that rows are gathered from. */
const SPAN_BYTES = 8 << 20;
const FILE = "data.parquet";
/** Default for the bytes of values in a file of rows. */
const PART_BYTES = 512 << 20;
/** Paths of parts in their folder. */
export const PARTS: RegExp = /^(?:(?:id|year)=\d+\/data|data|part-\d{5,})\.parquet$/;

/** Rows of a table that belong together: runs `[starts[i], ends[i])`, in order. */
interface Runs {
  readonly starts: number[];
  readonly ends: number[];
}

/** The pieces of an array or a table: whole row groups, or, if its rows are long, a part of one, in whole chunks. */
export function rowPartsOf(
  piece: Piece,
  { rows, chunkRows, groupRows }: Readonly<Record<"rows" | "chunkRows" | "groupRows", number>>,
  { shardSize = PART_BYTES }: ConvertOptions,
): Piece[] {
  const nbytes = piece.columns.reduce((sum, column) => sum + column.nbytes, 0);
  const most = wantedChunks((chunkRows * nbytes) / Math.max(1, rows), { shardSize }) * chunkRows;
  const step = most < groupRows ? most : Math.floor(most / groupRows) * groupRows;
  return Array.from({ length: Math.max(1, Math.ceil(rows / step)) }, (_, part) => {
    const runs = { starts: [part * step], ends: [Math.min(rows, (part + 1) * step)] };
    const key = joinKey(piece.key, `part-${String(part).padStart(5, "0")}.parquet`);
    return { ...piece, key, columns: piece.columns.map((column) => columnOf(column, runs)) };
  });
}

/** The pieces of a zipline table: one for each asset or year, in ascending order. */
export async function partitionsOf(piece: Piece, { parquet, signal }: ConvertOptions): Promise<Piece[]> {
  const by = parquet?.partition === "year" ? "day" : "id";
  const key = piece.table?.names.includes(by) ? await describeColumn(by, piece.table.column(by)) : undefined;
  if (key?.shape.length !== 1 || key.dtype.kind !== "uint" || key.dtype.itemSize !== 4)
    throw new SuperchunkError(
      "UNSUPPORTED",
      "only daily bars of zipline, with their columns day and id, are cut by asset or year; cut it by rows",
      { path: piece.columns[0]?.path ?? piece.key, field: "partition" },
    );
  const found = await groupRuns(key, by === "day" ? yearOf() : (id) => id, signal);
  if (found.size === 0) return [{ ...piece, key: joinKey(piece.key, FILE) }];
  // The folder's name replaces the column.
  const columns = by === "day" ? piece.columns : piece.columns.filter(({ name: own }) => own !== by);
  const name = by === "day" ? "year" : by;
  return [...found]
    .sort(([a], [b]) => a - b)
    .map(([value, runs]) => ({
      ...piece,
      key: joinKey(piece.key, `${name}=${value}/${FILE}`),
      columns: columns.map((column) => columnOf(column, runs)),
    }));
}

/** The year of a day in seconds since 1970. */
function yearOf(): (seconds: number) => number {
  const known = new Map<number, number>();
  return (seconds) => {
    const year = known.get(seconds) ?? new Date(seconds * 1000).getUTCFullYear();
    known.set(seconds, year);
    return year;
  };
}

async function groupRuns(
  column: Column,
  groupOf: (item: number) => number,
  signal: AbortSignal | undefined,
): Promise<Map<number, Runs>> {
  const found = new Map<number, Runs>();
  let [row, start] = [0, 0];
  let value: number | undefined;
  const end = (): void => {
    if (value === undefined) return;
    const runs = found.get(value) ?? { starts: [], ends: [] };
    runs.starts.push(start);
    runs.ends.push(row);
    found.set(value, runs);
  };
  for await (const bytes of column.stream({ signal }))
    for (const item of toValues(bytes.slice(), column.dtype) as Uint32Array) {
      const own = groupOf(item);
      if (own !== value) {
        end();
        [value, start] = [own, row];
      }
      row++;
    }
  end();
  return found;
}

/** The rows of some runs as a column. A single run keeps its chunks, so that their streams can be copied. */
function columnOf(column: Column, runs: Runs): Column {
  const [, ...rowShape] = column.shape;
  const rowBytes = elementsOf(rowShape) * column.dtype.itemSize;
  const ends: number[] = [];
  for (const [i, start] of runs.starts.entries()) ends.push((ends.at(-1) ?? 0) + at(runs.ends, i) - start);
  const rows = ends.at(-1) ?? 0;
  const isOne = ends.length === 1;
  const own: Pick<Column, "rows" | "stream"> = {
    rows: (start, stop, signal) => gather({ column, runs, ends, rowBytes }, [start, stop], signal),
    async *stream({ signal } = {}) {
      const step = Math.max(1, Math.floor(SPAN_BYTES / rowBytes));
      for (const [start, end] of stepsOf(0, rows, step)) yield own.rows(start, end, signal);
    },
  };
  return {
    ...column,
    ...own,
    shape: [rows, ...rowShape],
    nbytes: rows * rowBytes,
    chunks: undefined,
    archive: undefined,
    stored: isOne ? column.stored : undefined,
    skip: at(runs.starts, 0),
  };
}

interface Gathered {
  readonly column: Column;
  readonly runs: Runs;
  readonly ends: readonly number[];
  readonly rowBytes: number;
}

/** Rows `[first, last)` of the runs. Runs close together are read together. */
async function gather(
  { column, runs, ends, rowBytes }: Gathered,
  [first, last]: readonly [number, number],
  signal: AbortSignal | undefined,
): Promise<Uint8Array> {
  const out = new Uint8Array((last - first) * rowBytes);
  const span = Math.max(1, Math.floor(SPAN_BYTES / rowBytes));
  let read: { readonly start: number; readonly bytes: Uint8Array } | undefined;
  let run = ends.findIndex((end) => end > first);
  for (let row = first; row < last; run++) {
    const from = at(runs.ends, run) - (at(ends, run) - row);
    const to = Math.min(at(runs.ends, run), from + last - row);
    for (let start = from; start < to; ) {
      if (read === undefined || start >= read.start + read.bytes.length / rowBytes) {
        let stop = Math.min(to, start + span);
        for (let next = run + 1; next < ends.length && at(runs.ends, next) <= start + span; next++) {
          if (at(ends, next) > last) break;
          stop = at(runs.ends, next);
        }
        read = { start, bytes: await column.rows(start, stop, signal) };
      }
      const end = Math.min(to, read.start + read.bytes.length / rowBytes);
      out.set(
        read.bytes.subarray((start - read.start) * rowBytes, (end - read.start) * rowBytes),
        (row - first) * rowBytes,
      );
      row += end - start;
      start = end;
    }
  }
  return out;
}
