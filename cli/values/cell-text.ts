/**
 * One value as a cell of `cat --format text` and `csv`, and the cells that a row of an array has.
 *
 * Knows dtypes and text; must not know archives or streams.
 */
import type { DType } from "../../src/index.ts";
import { formatDatetime, formatTimedelta } from "./time-text.ts";

/** One cell: the name of its column, and whether it is a number (printed flush right). */
export interface CellColumn {
  readonly name: string;
  readonly numeric: boolean;
}

/**
 * The cells of an item of `dtype` with the dimensions `shape`: one for each element, and of a struct one for each
 * field. Names are joined with dots: `v.0`, `leg.price`.
 */
export function cellColumns(prefix: string, dtype: DType, shape: readonly number[]): CellColumn[] {
  const [length, ...rest] = shape;
  if (length !== undefined) {
    return Array.from({ length }, (_, i) => cellColumns(joinName(prefix, String(i)), dtype, rest)).flat();
  }
  if (dtype.kind === "struct") {
    return dtype.fields.flatMap((field) =>
      cellColumns(joinName(prefix, field.name), field.dtype, field.shape),
    );
  }
  return [{ name: prefix, numeric: isNumeric(dtype) }];
}

function joinName(prefix: string, part: string): string {
  return prefix === "" ? part : `${prefix}.${part}`;
}

function isNumeric(dtype: DType): boolean {
  return dtype.kind !== "bytes" && dtype.kind !== "unicode" && dtype.kind !== "void";
}

/** Adds the cells of one value, as values are read (nested lists for sub-arrays, objects for structs). */
export function pushCells(value: unknown, dtype: DType, shape: readonly number[], cells: string[]): void {
  if (shape.length > 0) {
    for (const part of value as readonly unknown[]) pushCells(part, dtype, shape.slice(1), cells);
  } else if (dtype.kind === "struct") {
    const struct = value as Readonly<Record<string, unknown>>;
    for (const field of dtype.fields) pushCells(struct[field.name], field.dtype, field.shape, cells);
  } else cells.push(formatValue(value, dtype));
}

/** One plain value as text: numbers in their shortest exact form, dates as ISO 8601, raw bytes in hexadecimal. */
export function formatValue(value: unknown, dtype: DType): string {
  if (typeof value === "number")
    return dtype.kind === "float" ? formatFloat(value, dtype.itemSize) : String(value);
  if (typeof value === "bigint") {
    if (dtype.kind === "datetime") return formatDatetime(value, dtype.unit, dtype.scale);
    if (dtype.kind === "timedelta") return formatTimedelta(value, dtype.unit, dtype.scale);
    return value.toString();
  }
  if (value instanceof Uint8Array)
    return Array.from(value, (byte) => byte.toString(16).padStart(2, "0")).join("");
  if (Array.isArray(value) && dtype.kind === "complex") {
    const [real, imaginary] = value.map((part) => formatFloat(Number(part), dtype.itemSize / 2));
    return `${real}${imaginary?.startsWith("-") === true ? "" : "+"}${imaginary}j`;
  }
  return String(value);
}

/** The shortest decimal that reads back as the same value at its own precision; `nan`, `inf`, `-inf`. */
export function formatFloat(value: number, itemSize: number): string {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  if (Object.is(value, -0)) return "-0";
  if (itemSize !== 4) return String(value);
  for (let digits = 6; digits < 9; digits++) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === value) return String(short);
  }
  return String(Number(value.toPrecision(9)));
}

/**
 * Text with control characters as escapes, so that no stored string can steer a terminal, break a line, or turn the direction
 * of what follows.
 */
export function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g, (character) => {
    if (character === "\n") return "\\n";
    if (character === "\t") return "\\t";
    const code = character.charCodeAt(0);
    return code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16)}`;
  });
}

/** A line of RFC 4180: cells with commas, quotes or line breaks are quoted. Without the line's end. */
export function csvLine(cells: readonly string[]): string {
  return cells.map((cell) => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell)).join(",");
}
