/** The formats of `cat`: lines for people, CSV and JSON. Knows layout; must not know archives. */
import { type LongOptions, type PlainJson, toJsonValue } from "../../src/index.ts";
import { wrongUse } from "../failure.ts";
import { formatCount } from "../input/units.ts";
import type { Output } from "../output/output.ts";
import { padEnd, padStart, widestOf } from "../output/text-width.ts";
import { type CellColumn, cellColumns, csvCell, csvLine, printable, pushCells } from "./cell-text.ts";
import { type RowBatch, readBatches, rowsOf, type ValueList, type ValueSource } from "./value-source.ts";

// `cat --format text`: lines for people. Knows layout; must not know archives.

/** Rows at each end of an excerpt on a terminal, and the most rows that are printed completely. */
const EXCERPT = { edge: 20, whole: 100 } as const;

/** Options of {@link printText}. */
interface TextOptions extends LongOptions {
  /** Print only the first and last rows, if there are many. */
  readonly excerpt: boolean;
  /** Print the names of the columns first. */
  readonly header: boolean;
}

/** Prints one line per row. The first rows decide the column widths. More than two dimensions are printed as blocks of lines. */
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
  const rows = rowsOf(sources);
  const names = columns.map((column) => printable(column.name));
  let widths: number[] | undefined;
  await eachRange(out, rows, options, async (from, to) => {
    for await (const batch of readBatches(sources, from, to, options))
      for (const lines of rowCells(batch, sources, printable)) {
        if (widths === undefined) {
          widths = measure(columns, lines, options.header);
          if (options.header) await out.line(align(names, columns, widths));
        }
        for (const cells of lines) {
          const waiting = out.line(align(cells, columns, widths));
          if (waiting !== undefined) await waiting;
        }
      }
  });
  if (widths === undefined && options.header)
    await out.line(align(names, columns, measure(columns, [], true)));
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

/** Rows whose cells are in memory at a time; a batch of narrow rows has a million. */
const ROWS_AT_ONCE = 4096;

/** The cells of each row of a batch, some rows at a time. `quote` applies to those that are not numbers. */
function* rowCells(
  { first, end, lists }: RowBatch,
  sources: readonly ValueSource[],
  quote: (cell: string) => string,
  most = ROWS_AT_ONCE,
): Generator<string[][]> {
  const rows = end - first;
  for (let at = 0; at < rows; at += most) {
    const length = Math.min(most, rows - at);
    const lines = Array.from({ length }, (): string[] => []);
    for (const [s, { dtype }] of sources.entries()) {
      const list = lists[s];
      const each = list === undefined ? 0 : list.length / rows;
      for (const [i, cells] of lines.entries())
        for (let v = (at + i) * each; v < (at + i + 1) * each; v++) {
          const value = list?.at(v);
          let c = cells.length;
          pushCells(value, dtype, [], cells);
          if (typeof value === "number" || typeof value === "bigint") continue;
          for (; c < cells.length; c++) cells[c] = quote(cells[c] as string);
        }
    }
    yield lines;
  }
}

function measure(columns: readonly CellColumn[], lines: readonly string[][], header: boolean): number[] {
  return widestOf([columns.map(({ name }) => (header ? printable(name) : "")), ...lines]);
}

function align(cells: readonly string[], columns: readonly CellColumn[], widths: readonly number[]): string {
  const padded = cells.map((cell, c) => {
    const width = widths[c] ?? 0;
    return (columns[c]?.numeric === true ? padStart : padEnd)(cell, width);
  });
  return padded.join("  ").trimEnd();
}

/** Prints a line for each row of the last dimension, and an empty line after each plane. */
async function printBlocks(out: Output, source: ValueSource, options: TextOptions): Promise<void> {
  const width = (source.shape.at(-1) ?? 0) * cellColumns("", source.dtype, []).length;
  const plane = source.shape.at(-2) ?? 1;
  await eachRange(out, source.rows, options, async (from, to) => {
    for await (const batch of readBatches([source], from, to, options))
      for (const rows of rowCells(batch, [source], printable))
        for (const cells of rows) await printPlanes(out, cells, width, plane);
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

// `cat --format csv`: RFC 4180 quoting, a header, lines that end with a line feed.

/**
 * Prints one line per row under a header. Columns have their names; an array without one has the column `value`, or the
 * indices of its second dimension. Throws `BAD_ARGUMENT` for an array of more than two dimensions.
 */
export async function printCsv(
  out: Output,
  sources: readonly ValueSource[],
  options: LongOptions,
): Promise<void> {
  const [first] = sources;
  if (first !== undefined && sources.length === 1 && first.shape.length > 2)
    throw wrongUse(
      "format",
      `csv has rows and columns, the values have ${first.shape.length} dimensions; choose two of them with --slice, or use --format json or npy`,
      { expected: "at most 2 dimensions", found: first.shape.length },
    );
  await out.line(csvLine(sources.flatMap(headerOf).map(csvCell)));
  const rows = rowsOf(sources);
  // Few rows, which the garbage collector need not copy.
  for await (const batch of readBatches(sources, 0, rows, options))
    for (const lines of rowCells(batch, sources, csvCell, 256))
      for (const cells of lines) {
        const waiting = out.line(csvLine(cells));
        if (waiting !== undefined) await waiting;
      }
}

function headerOf(source: ValueSource): string[] {
  const names = cellColumns(source.name, source.dtype, source.rowShape).map((column) => column.name);
  return names.map((name) => (name === "" ? "value" : name));
}

// `cat --format json`: one array, streamed, one row per line.

/** Prints the values of an array as nested lists of its shape; a scalar as a plain value. */
export async function printJson(out: Output, source: ValueSource, options: LongOptions): Promise<void> {
  if (source.shape.length === 0) {
    const list = await source.read(0, 1, options);
    await out.line(jsonText(toJsonValue(list.at(0), source.dtype)));
    return;
  }
  await printRows(out, [source], { ...options, ...ARRAY }, rowOf([source]));
}

/** Prints rows as JSON Lines: of a table as objects (`records`), of an array as values. A scalar is one line. */
export async function printNdjson(
  out: Output,
  sources: readonly ValueSource[],
  { records, ...options }: LongOptions & { readonly records: boolean },
): Promise<void> {
  const [first] = sources;
  if (first?.shape.length === 0) return printJson(out, first, options);
  const toText = records ? recordOf(sources) : rowOf(sources);
  await printRows(out, sources, { ...options, ...LINES }, toText);
}

/** Prints the rows of a table as objects, `{"column": value}`, in column order (which JavaScript objects do not keep). */
export async function printJsonRecords(
  out: Output,
  sources: readonly ValueSource[],
  options: LongOptions,
): Promise<void> {
  await printRows(out, sources, { ...options, ...ARRAY }, recordOf(sources));
}

type RowText = (lists: readonly ValueList[], row: number, count: number) => string;

function rowOf([source]: readonly ValueSource[]): RowText {
  return (lists, row, count) => (source === undefined ? "" : rowText(lists[0], source, row, count));
}

function recordOf(sources: readonly ValueSource[]): RowText {
  const names = sources.map((source) => JSON.stringify(source.name));
  return (lists, row, count) => {
    const members = sources.map((source, s) => `${names[s]}:${rowText(lists[s], source, row, count)}`);
    return `{${members.join(",")}}`;
  };
}

function rowText(list: ValueList | undefined, source: ValueSource, row: number, count: number): string {
  if (list === undefined) return "null";
  if (source.rowShape.length === 0) return jsonText(toJsonValue(list.at(row), source.dtype));
  const each = list.length / count;
  const flat = Array.from({ length: each }, (_, i) => toJsonValue(list.at(row * each + i), source.dtype));
  return jsonText(nest(flat, source.rowShape));
}

/** A flat list as nested lists of a shape. */
function nest(flat: readonly PlainJson[], [length, ...shape]: readonly number[]): PlainJson {
  if (length === undefined) return flat[0] ?? null;
  const step = flat.length / Math.max(1, length);
  return Array.from({ length }, (_, i) => nest(flat.slice(i * step, (i + 1) * step), shape));
}

/** JSON on one line. `JSON.stringify` would drop the sign of -0. */
function jsonText(value: PlainJson): string {
  if (typeof value === "number") return Object.is(value, -0) ? "-0.0" : String(value);
  if (Array.isArray(value)) return `[${value.map(jsonText).join(",")}]`;
  return JSON.stringify(value);
}

/** The text around rows. */
interface Frame {
  readonly begin: string;
  readonly between: string;
  readonly end: string;
  /** The whole text if there are no rows. */
  readonly empty: string;
}

const ARRAY: Frame = { begin: "[\n", between: ",\n", end: "\n]\n", empty: "[]\n" };
const LINES: Frame = { begin: "", between: "\n", end: "\n", empty: "" };

async function printRows(
  out: Output,
  sources: readonly ValueSource[],
  options: LongOptions & Frame,
  toText: RowText,
): Promise<void> {
  const rows = rowsOf(sources);
  let begun = false;
  for await (const batch of readBatches(sources, 0, rows, options)) {
    const count = batch.end - batch.first;
    for (let row = 0; row < count; row++) {
      const waiting = out.text((begun ? options.between : options.begin) + toText(batch.lists, row, count));
      if (waiting !== undefined) await waiting;
      begun = true;
    }
  }
  await out.text(begun ? options.end : options.empty);
}
