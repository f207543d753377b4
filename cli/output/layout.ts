/** Lines for people: aligned blocks, dtypes, shapes. Knows text; must not know its source. */

import { type DType, formatDType, type JsonValue, type ReadableArray } from "../../src/index.ts";
import { formatCount } from "../input/units.ts";
import { printable } from "../values/cell-text.ts";
import { padEnd, padStart, textWidth, widestOf } from "./text-width.ts";

/** Columns for names in a table that is too wide for its terminal; longer names go on a separate line. */
const SHORT_NAME = 12;

/** Most columns to name, and notes to print. */
export const MOST_NAMES = 20;

/** The first five paths of a list in a sentence, and how many there are. */
export function firstNames(paths: readonly string[]): string {
  const names = paths.slice(0, 5).map(printable).join(", ");
  return paths.length > 5 ? `${names}, … (${formatCount(paths.length)} in all)` : names;
}

/** The notes; those that say the same of many columns are joined. */
export function joinNotes(notes: readonly string[]): readonly string[] {
  const reasonOf = (note: string): string => note.replace(/^.*?: /s, "");
  const alike = new Map(notes.map((note) => [reasonOf(note), note]));
  if (notes.length - alike.size < 2) return notes;
  return [...alike].map(([reason, note]) => {
    const others = notes.filter((each) => reasonOf(each) === reason).length - 1;
    return others === 0 ? note : `${note}; the same for ${formatCount(others)} more`;
  });
}

/**
 * Aligns rows of cells; every column is as wide as its widest cell, and those in `right` are flush right. If the lines would be
 * wider than `columns`, a long first cell goes on a separate line above the others.
 */
export function alignRows(
  rows: readonly (readonly string[])[],
  right: ReadonlySet<number> = new Set(),
  columns: number = Number.POSITIVE_INFINITY,
): string[] {
  const widths = widestOf(rows);
  const [first = 0, ...others] = widths;
  const rest = others.reduce((sum, width) => sum + 2 + width, 0);
  if (first + rest > columns) widths[0] = Math.min(first, Math.max(SHORT_NAME, columns - rest));
  return rows.flatMap((row) => {
    const [name = ""] = row;
    const isLong = textWidth(name) > (widths[0] ?? 0);
    const line = (isLong ? ["", ...row.slice(1)] : row)
      .map((cell, c) => (right.has(c) ? padStart : padEnd)(cell, widths[c] ?? 0))
      .join("  ")
      .trimEnd();
    return isLong ? [name, line] : [line];
  });
}

/** Joins two parts of a line. If they are wider than `columns`, the second goes on the next line, indented by `indent`. */
export function foldLine(
  first: string,
  second: string,
  indent: number,
  columns: number = Number.POSITIVE_INFINITY,
): string[] {
  const whole = `${first}  ${second}`;
  return textWidth(whole) > columns ? [first, `${" ".repeat(indent)}${second}`] : [whole];
}

/** A dtype in numpy's notation; a struct as its fields, `{id: <u4, v: <f4 x 3}`. */
function dtypeText(dtype: DType): string {
  if (dtype.kind !== "struct") return String(formatDType(dtype));
  const fields = dtype.fields.map(({ name, dtype: inner, shape }) => {
    const dimensions = shape.map((length) => ` x ${length}`).join("");
    return `${printable(name)}: ${dtypeText(inner)}${dimensions}`;
  });
  return `{${fields.join(", ")}}`;
}

/** A dtype for a narrow column: a struct as its number of fields. */
export function shortDType(dtype: DType): string {
  return dtype.kind === "struct" ? `struct(${dtype.fields.length})` : dtypeText(dtype);
}

/** Name of the values of an array that have variable length; undefined for other arrays. */
export function variableName({ variable }: ReadableArray): "string" | "bytes" | undefined {
  return variable === "text" ? "string" : variable;
}

/** The dtype of an array for JSON: numpy's string, or the list of fields. */
export function jsonDType(array: ReadableArray): JsonValue {
  return variableName(array) ?? formatDType(array.dtype);
}

/** Uncompressed bytes for JSON: null for values of variable length, whose bytes as items are not known. */
export function knownBytes(nbytes: number): number | null {
  return Number.isNaN(nbytes) ? null : nbytes;
}

/** `60 x 25`; `scalar` for no dimensions. */
export function shapeText(shape: readonly number[]): string {
  return shape.length === 0 ? "scalar" : shape.join(" x ");
}
