/**
 * Numbers drawn with characters: `cat --plot`, and the small lines of `info`.
 *
 * Knows numbers and characters; must not know archives.
 */

import type { DType, LongOptions } from "../../src/index.ts";
import { wrongUse } from "../failure.ts";
import { formatCount, formatPlural } from "../input/units.ts";
import type { Output } from "../output/output.ts";
import { padStart } from "../output/text-width.ts";
import { formatValue, NOT_A_TIME, printable } from "./cell-text.ts";
import { readBatches, rowsOf, type ValueSource } from "./value-source.ts";

/** Most runs of values to keep; when there are as many, pairs are merged. */
const MOST_RUNS = 4096;
/** Width of a plot and its labels in characters if the output is not a terminal, and the largest width; the least of the plot alone. */
const [USUAL_WIDTH, MOST_WIDTH, LEAST_WIDTH] = [80, 200, 8];
/** A Braille character has two columns of four dots: their bits, by column, upwards. */
const DOTS: readonly (readonly number[])[] = [
  [0x40, 0x04, 0x02, 0x01],
  [0x80, 0x20, 0x10, 0x08],
];
const BARS = "▁▂▃▄▅▆▇█";

/** True for values that can be drawn. */
export function canDraw({ dtype, rowShape }: Pick<ValueSource, "dtype" | "rowShape">): boolean {
  const { kind, itemSize } = dtype;
  const isNumber = ["int", "uint", "bool", "datetime", "timedelta"].includes(kind) || kind === "float";
  return isNumber && itemSize <= 8 && rowShape.length === 0;
}

/** The least and the greatest value of each run of consecutive values, for any number of values. */
export class Envelope {
  readonly #low = new Float64Array(MOST_RUNS);
  readonly #high = new Float64Array(MOST_RUNS);
  #perRun = 1;
  /** Number of values, and of those that are not finite. */
  count = 0;
  missing = 0;
  /** Unconverted; undefined if no value is finite. */
  least: number | bigint | undefined;
  greatest: number | bigint | undefined;

  add(value: number | bigint): void {
    let run = Math.floor(this.count / this.#perRun);
    if (run === MOST_RUNS) {
      this.#halve();
      run = MOST_RUNS / 2;
    }
    if (this.count % this.#perRun === 0) {
      this.#low[run] = Number.POSITIVE_INFINITY;
      this.#high[run] = Number.NEGATIVE_INFINITY;
    }
    this.count++;
    const number = Number(value);
    if (!Number.isFinite(number)) {
      this.missing++;
      return;
    }
    if (this.least === undefined || value < this.least) this.least = value;
    if (this.greatest === undefined || value > this.greatest) this.greatest = value;
    if (number < (this.#low[run] as number)) this.#low[run] = number;
    if (number > (this.#high[run] as number)) this.#high[run] = number;
  }

  #halve(): void {
    for (let run = 0; run < MOST_RUNS / 2; run++) {
      const [a, b] = [2 * run, 2 * run + 1];
      this.#low[run] = Math.min(this.#low[a] as number, this.#low[b] as number);
      this.#high[run] = Math.max(this.#high[a] as number, this.#high[b] as number);
    }
    this.#perRun *= 2;
  }

  /** The envelope as `width` columns of dots, from left to right; undefined for columns without a value. Few values are joined by lines. */
  columns(width: number): (readonly [low: number, high: number] | undefined)[] {
    const runs = Math.ceil(this.count / this.#perRun);
    if (runs < width) return this.#joined(runs, width);
    return Array.from({ length: width }, (_, column) => {
      let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
      const end = Math.ceil(((column + 1) * runs) / width);
      for (let run = Math.floor((column * runs) / width); run < end; run++) {
        low = Math.min(low, this.#low[run] as number);
        high = Math.max(high, this.#high[run] as number);
      }
      return low <= high ? [low, high] : undefined;
    });
  }

  #joined(runs: number, width: number): (readonly [number, number] | undefined)[] {
    const valueAt = (run: number): number => {
      const value = this.#low[Math.min(runs - 1, run)] as number;
      return Number.isFinite(value) ? value : Number.NaN;
    };
    return Array.from({ length: width }, (_, column) => {
      const at = width < 2 ? 0 : (column * (runs - 1)) / (width - 1);
      const [before, after] = [valueAt(Math.floor(at)), valueAt(Math.ceil(at))];
      const value = before * (1 - (at % 1)) + after * (at % 1);
      return Number.isNaN(value) ? undefined : [value, value];
    });
  }
}

/** Level of dots of a single value. */
const middleOf = (height: number): number => Math.floor((4 * height - 1) / 2);

/** Lines of Braille: the range of each column of dots, joined from column to column. */
export function drawEnvelope(envelope: Envelope, width: number, height: number): string[] {
  const [least, greatest] = [Number(envelope.least), Number(envelope.greatest)];
  const top = 4 * height - 1;
  const levelOf = (value: number): number =>
    greatest > least ? Math.round(top * shareOf(value, least, greatest)) : middleOf(height);
  const cells = Array.from({ length: height }, () => new Uint8Array(width));
  let before: readonly [number, number] | undefined;
  for (const [x, range] of envelope.columns(2 * width).entries()) {
    if (range === undefined) {
      before = undefined;
      continue;
    }
    const [low, high] = [levelOf(range[0]), levelOf(range[1])];
    const from = before === undefined ? low : Math.min(low, before[1] + 1);
    const to = before === undefined ? high : Math.max(high, before[0] - 1);
    for (let y = from; y <= to; y++) {
      const row = cells[height - 1 - Math.floor(y / 4)];
      const bit = DOTS[x % 2]?.[y % 4];
      if (row !== undefined && bit !== undefined) row[x >> 1] = (row[x >> 1] as number) | bit;
    }
    before = [low, high];
  }
  return cells.map((row) =>
    // Some fonts show rings for the character without dots.
    Array.from(row, (bits) => (bits === 0 ? " " : String.fromCharCode(0x2800 + bits))).join(""),
  );
}

/** Values as bars in steps of an eighth of a line; a blank for a missing value. */
export function sparkline(values: readonly number[]): string {
  const known = values.filter(Number.isFinite);
  const [least, greatest] = [Math.min(...known), Math.max(...known)];
  const levelOf = (value: number): number =>
    greatest > least ? Math.round((BARS.length - 1) * shareOf(value, least, greatest)) : 3;
  return values.map((value) => (Number.isFinite(value) ? BARS[levelOf(value)] : " ")).join("");
}

/** Where a value is between two others, from 0 to 1. Of halves, because the difference of two large numbers can be infinite. */
function shareOf(value: number, least: number, greatest: number): number {
  return (value / 2 - least / 2) / (greatest / 2 - least / 2);
}

/** A value for people: whole numbers with separators, fractions with six digits, dates. */
function scaleText(value: number | bigint, dtype: DType, digits: number): string {
  if (dtype.kind === "datetime" || dtype.kind === "timedelta")
    return formatValue(value, dtype).replace(/\.0+$/, "");
  if (typeof value === "bigint" || Number.isSafeInteger(value)) return formatCount(value);
  const isLong = digits === 6 && Math.abs(value) >= 1e5 && Math.abs(value) < Number.MAX_SAFE_INTEGER;
  return isLong ? formatCount(Math.round(value)) : String(Number(value.toPrecision(digits)));
}

/** Two values for people, with all digits if they look the same otherwise. */
export function scaleTexts(dtype: DType, a: number | bigint, b: number | bigint): readonly [string, string] {
  const [first, second] = [scaleText(a, dtype, 6), scaleText(b, dtype, 6)];
  return first !== second || a === b ? [first, second] : [scaleText(a, dtype, 17), scaleText(b, dtype, 17)];
}

/** Prints a plot of each source, one below the other, as wide as the terminal. Throws `BAD_ARGUMENT` if there are no numbers. */
export async function printPlots(
  out: Output,
  sources: readonly ValueSource[],
  options: LongOptions,
): Promise<void> {
  const envelopes = sources.map(() => new Envelope());
  const length = rowsOf(sources);
  for await (const { first, end, lists } of readBatches(sources, 0, length, options))
    for (const [s, list] of lists.entries()) {
      const envelope = envelopes[s];
      for (let i = 0; i < end - first; i++) envelope?.add(numberOf(list.at(i)));
    }
  const plots = envelopes.map((envelope, s) => plotOf(sources[s] as ValueSource, envelope));
  const height = plots.length === 1 ? 12 : plots.length < 5 ? 6 : 3;
  const margin = Math.max(...plots.map((plot) => plot.margin));
  const width = Math.max(LEAST_WIDTH, Math.min(MOST_WIDTH, out.columns ?? USUAL_WIDTH) - margin - 2);
  for (const plot of plots) await out.drawing(plot.lines(margin, width, height));
  const [{ count } = { count: 0 }] = envelopes;
  if (plots.some((plot) => plot.margin > 0))
    await out.drawing(
      axisLines(count, sources[0]?.origin, width).map((line) => `${" ".repeat(margin)} ${line}`),
    );
}

/** The plot of one column. */
function plotOf({ name, dtype }: ValueSource, envelope: Envelope) {
  let [top, bottom] = ["", ""];
  const { count, missing, least, greatest } = envelope;
  if (least !== undefined && greatest !== undefined) [bottom, top] = scaleTexts(dtype, least, greatest);
  if (least === greatest) bottom = "";
  const gaps =
    missing > 0 ? `${formatCount(missing)} of ${formatPlural(count, "row")} without a finite value` : "";
  const head = [printable(name), count === 0 ? "no rows" : gaps].filter((part) => part !== "").join("  ");

  function lines(margin: number, width: number, height: number): string[] {
    const heads = head === "" ? [] : [head];
    if (top === "") return heads;
    // A single value is a line half-way up.
    const topAt = bottom === "" ? height - 1 - Math.floor(middleOf(height) / 4) : 0;
    const rows = drawEnvelope(envelope, width, height).map((line, i) => {
      const label = i === topAt ? top : i === height - 1 ? bottom : "";
      return `${padStart(label, margin)} ${label === "" ? "│" : "┤"}${line}`.trimEnd();
    });
    return [...heads, ...rows];
  }
  /** Width of the labels in characters. */
  const margin = Math.max(top.length, bottom.length);
  return { margin, lines };
}

/** The range of rows, below all plots. */
function axisLines(count: number, origin: ValueSource["origin"], width: number): string[] {
  const { first, step } = origin ?? { first: 0, step: 1 };
  const [left, right] = [formatCount(first), formatCount(first + step * (count - 1))];
  const per = Math.ceil(count / (2 * width));
  const what = origin === undefined ? "rows that were found" : "rows";
  const more = per > 1 ? `, ${formatCount(per)} to a column` : "";
  return [
    `└${"─".repeat(width)}`,
    ` ${count === 1 ? left : left + padStart(right, width - left.length)}`,
    ` ${what}${more}`,
  ];
}

/** A value as a comparable number; NaN for NaT. */
export function numberOf(value: unknown): number | bigint {
  if (typeof value === "bigint") return value === NOT_A_TIME ? Number.NaN : value;
  return Number(value);
}

/** The sources that can be drawn. Throws `BAD_ARGUMENT` for a named column that cannot, and if none can. */
export function drawable(sources: readonly ValueSource[], path: string, isNamed: boolean): ValueSource[] {
  const found = sources.filter(canDraw);
  const [first] = isNamed ? sources.filter((source) => !canDraw(source)) : found.length === 0 ? sources : [];
  if (first === undefined && found.length > 0) return found;
  const what = first === undefined || first.name === "" ? "the values" : `"${printable(first.name)}"`;
  const part =
    first?.dtype.kind === "struct" ? "are not numbers; choose a column with --column" : "are not numbers";
  const is =
    (first?.rowShape.length ?? 0) > 0 ? "have more than one dimension; choose one with --slice" : part;
  throw wrongUse("plot", `--plot draws rows of numbers: ${what} ${is}`, { path });
}
