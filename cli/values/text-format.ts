/** `cat --format text`: lines for people. Knows layout; must not know archives. */
import type { DType, LongOptions } from "../../src/index.ts";
import { formatCount } from "../input/units.ts";
import type { Output } from "../output/output.ts";
import { padEnd, padStart, textWidth } from "../output/text-width.ts";
import { type CellColumn, cellColumns, printable, pushCells } from "./cell-text.ts";
import { type RowBatch, readBatches, type ValueSource } from "./value-source.ts";

/** Rows at the head and at the tail where a terminal gets an excerpt, and the number of rows that is printed whole. */
const EXCERPT = { edge: 20, whole: 100 } as const;

/** Options of {@link printText}. */
export interface TextOptions extends LongOptions {
  /** Print the first and last rows only, where there are many. */
  readonly excerpt: boolean;
  /** Print the names of the columns first. */
  readonly header: boolean;
}

/** One line a row, columns aligned as far as the first rows tell; more than two dimensions as blocks of lines. */
export async function printText(
  out: Output,
  sources: readonly ValueSource[],
  options: TextOptions,
): Promise<void> {
  const [first] = sources;
  if (first === undefined) return;
  if (sources.length === 1 && first.shape.length > 2) return printBlocks(out, first, options);
  const columns = sources.flatMap((source) =>
    cellColumns(options.header ? source.name : "", source.dtype, source.rowShape),
  );
  const rows = Math.min(...sources.map((source) => source.rows));
  const names = columns.map((column) => printable(column.name));
  let widths: number[] | undefined;
  await eachRange(out, rows, options, async (from, to) => {
    for await (const batch of readBatches(sources, from, to, options)) {
      for (const lines of rowCells(batch, sources)) {
        if (widths === undefined) {
          widths = measure(columns, lines, options.header);
          if (options.header) await out.line(align(names, columns, widths));
        }
        for (const cells of lines) {
          const waiting = out.line(align(cells, columns, widths));
          if (waiting !== undefined) await waiting;
        }
      }
    }
  });
  if (widths === undefined && options.header) {
    await out.line(align(names, columns, measure(columns, [], true)));
  }
}

async function eachRange(
  out: Output,
  rows: number,
  options: TextOptions,
  print: (first: number, end: number) => Promise<void>,
): Promise<void> {
  if (!options.excerpt || rows <= EXCERPT.whole) return print(0, rows);
  await print(0, EXCERPT.edge);
  const left = rows - 2 * EXCERPT.edge;
  await out.line(`... ${formatCount(left)} rows left out: --all prints them, --slice chooses`);
  await print(rows - EXCERPT.edge, rows);
}

/** Rows whose cells are in memory at a time: of narrow rows a batch has a million. */
const ROWS_AT_ONCE = 4096;

/** The cells of each row of a batch, some thousand rows at a time. */
function* rowCells(batch: RowBatch, sources: readonly ValueSource[]): Generator<string[][]> {
  const rows = batch.end - batch.first;
  for (let at = 0; at < rows; at += ROWS_AT_ONCE) {
    const length = Math.min(ROWS_AT_ONCE, rows - at);
    yield Array.from({ length }, (_, i) => cellsOfRow(batch, sources, at + i, rows));
  }
}

function cellsOfRow(batch: RowBatch, sources: readonly ValueSource[], row: number, rows: number): string[] {
  const cells: string[] = [];
  sources.forEach((source, s) => {
    const list = batch.lists[s];
    const each = list === undefined ? 0 : list.length / rows;
    for (let i = row * each; i < (row + 1) * each; i++) pushPrintable(list?.at(i), source.dtype, cells);
  });
  return cells;
}

function pushPrintable(value: unknown, dtype: DType, cells: string[]): void {
  const first = cells.length;
  pushCells(value, dtype, [], cells);
  if (typeof value === "number" || typeof value === "bigint") return;
  for (let c = first; c < cells.length; c++) cells[c] = printable(cells[c] ?? "");
}

function measure(columns: readonly CellColumn[], lines: readonly string[][], header: boolean): number[] {
  const widths = columns.map((column) => (header ? textWidth(printable(column.name)) : 0));
  for (const cells of lines) {
    cells.forEach((cell, c) => {
      widths[c] = Math.max(widths[c] ?? 0, textWidth(cell));
    });
  }
  return widths;
}

function align(cells: readonly string[], columns: readonly CellColumn[], widths: readonly number[]): string {
  const padded = cells.map((cell, c) => {
    const width = widths[c] ?? 0;
    return (columns[c]?.numeric === true ? padStart : padEnd)(cell, width);
  });
  return padded.join("  ").trimEnd();
}

/** A line for each row of the last dimension, and an empty line after each plane. */
async function printBlocks(out: Output, source: ValueSource, options: TextOptions): Promise<void> {
  const width = (source.shape.at(-1) ?? 0) * cellColumns("", source.dtype, []).length;
  const plane = source.shape.at(-2) ?? 1;
  await eachRange(out, source.rows, options, async (from, to) => {
    for await (const batch of readBatches([source], from, to, options)) {
      for (const rows of rowCells(batch, [source])) {
        for (const cells of rows) await printPlanes(out, cells, width, plane);
      }
    }
  });
}

async function printPlanes(
  out: Output,
  cells: readonly string[],
  width: number,
  plane: number,
): Promise<void> {
  for (let line = 1, at = 0; at < cells.length; at += width, line++) {
    await out.line(cells.slice(at, at + width).join("  "));
    if (line % plane === 0) await out.line("");
  }
}
