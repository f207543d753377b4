/**
 * One value as a cell of `cat --format text` and `csv`, and the cells of a row.
 *
 * Knows dtypes and text; must not know archives or streams.
 */
import { type DType, type TimeUnit, toJsonValue } from "../../src/index.ts";

// Dates and time spans in numpy's format. Knows datetime64's units; must not know archives.

export const NOT_A_TIME: bigint = -(2n ** 63n);

/** Units below a day: number per day, and decimals of the second. */
const PARTS: Partial<Record<TimeUnit, { readonly perDay: bigint; readonly digits: number }>> = {
  h: { perDay: 24n, digits: -2 },
  m: { perDay: 1440n, digits: -1 },
  s: { perDay: 86_400n, digits: 0 },
  ms: { perDay: 86_400n * 10n ** 3n, digits: 3 },
  us: { perDay: 86_400n * 10n ** 6n, digits: 6 },
  ns: { perDay: 86_400n * 10n ** 9n, digits: 9 },
  ps: { perDay: 86_400n * 10n ** 12n, digits: 12 },
  fs: { perDay: 86_400n * 10n ** 15n, digits: 15 },
  as: { perDay: 86_400n * 10n ** 18n, digits: 18 },
};

const NAMES: Readonly<Record<TimeUnit, string>> = {
  Y: "years",
  M: "months",
  W: "weeks",
  D: "days",
  h: "hours",
  m: "minutes",
  s: "seconds",
  ms: "milliseconds",
  us: "microseconds",
  ns: "nanoseconds",
  ps: "picoseconds",
  fs: "femtoseconds",
  as: "attoseconds",
  generic: "generic time units",
};

/** ISO 8601 in the precision of the unit, `2020-01-31T09:30:00.000000000`; `NaT`; the plain count for the generic unit. */
export function formatDatetime(stored: bigint, unit: TimeUnit, scale: number): string {
  if (stored === NOT_A_TIME) return "NaT";
  const count = stored * BigInt(scale);
  if (unit === "generic") return count.toString();
  if (unit === "Y") return formatYear(1970n + count);
  if (unit === "M") {
    const year = 1970n + floorDivide(count, 12n);
    return `${formatYear(year)}-${pad(count - (year - 1970n) * 12n + 1n)}`;
  }
  if (unit === "W") return formatDays(count * 7n);
  const part = PARTS[unit];
  if (part === undefined) return formatDays(count);
  const days = floorDivide(count, part.perDay);
  return `${formatDays(days)}T${formatTime(count - days * part.perDay, part.digits)}`;
}

/** The count and the name of its unit, `5 nanoseconds`; `NaT`. */
export function formatTimedelta(stored: bigint, unit: TimeUnit, scale: number): string {
  return stored === NOT_A_TIME ? "NaT" : `${stored * BigInt(scale)} ${NAMES[unit]}`;
}

function formatTime(time: bigint, digits: number): string {
  if (digits === -2) return pad(time);
  if (digits === -1) return `${pad(time / 60n)}:${pad(time % 60n)}`;
  const second = 10n ** BigInt(digits);
  const seconds = Number(time / second);
  const minutes = Math.floor(seconds / 60);
  const clock = `${pad(Math.floor(minutes / 60))}:${pad(minutes % 60)}:${pad(seconds % 60)}`;
  return digits === 0 ? clock : `${clock}.${pad(time % second, digits)}`;
}

/** The proleptic Gregorian date of a day counted from 1970-01-01. It repeats every 400 years, and `Date` has only some of them. */
function formatDays(day: bigint): string {
  const cycles = floorDivide(day, 146_097n);
  const date = new Date(Number(day - cycles * 146_097n) * 86_400_000);
  const year = formatYear(BigInt(date.getUTCFullYear()) + 400n * cycles);
  return `${year}-${pad(date.getUTCMonth() + 1)}-${pad(date.getUTCDate())}`;
}

function formatYear(year: bigint): string {
  return year < 0n ? `-${pad(-year, 4)}` : pad(year, 4);
}

function pad(value: number | bigint, width = 2): string {
  return value.toString().padStart(width, "0");
}

function floorDivide(a: bigint, b: bigint): bigint {
  const quotient = a / b;
  return quotient * b > a ? quotient - 1n : quotient;
}

/** One cell: the name of its column, and whether it is a number (printed flush right). */
export interface CellColumn {
  readonly name: string;
  readonly numeric: boolean;
}

/**
 * The cells of an item of `dtype` with the dimensions `shape`: one for each element, and for a struct one for each field.
 * Names are joined with dots: `v.0`, `leg.price`.
 */
export function cellColumns(prefix: string, dtype: DType, shape: readonly number[]): CellColumn[] {
  const [length, ...rest] = shape;
  if (length !== undefined)
    return Array.from({ length }, (_, i) => cellColumns(joinName(prefix, String(i)), dtype, rest)).flat();
  if (dtype.kind === "struct")
    return dtype.fields.flatMap((field) =>
      cellColumns(joinName(prefix, field.name), field.dtype, field.shape),
    );
  return [{ name: prefix, numeric: isNumeric(dtype) }];
}

function joinName(prefix: string, part: string): string {
  return prefix === "" ? part : `${prefix}.${part}`;
}

function isNumeric(dtype: DType): boolean {
  return dtype.kind !== "bytes" && dtype.kind !== "unicode" && dtype.kind !== "void";
}

/** Adds the cells of one value (nested lists for sub-arrays, objects for structs). */
export function pushCells(value: unknown, dtype: DType, shape: readonly number[], cells: string[]): void {
  if (shape.length > 0) {
    for (const part of value as readonly unknown[]) pushCells(part, dtype, shape.slice(1), cells);
  } else if (dtype.kind === "struct") {
    const struct = value as Readonly<Record<string, unknown>>;
    for (const field of dtype.fields) pushCells(struct[field.name], field.dtype, field.shape, cells);
  } else cells.push(formatValue(value, dtype));
}

/** A plain value as text: numbers in their shortest exact form, dates as ISO 8601, raw bytes in hexadecimal. */
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
  return String(typeof value === "string" ? toJsonValue(value, dtype, "utf8") : value);
}

/** A text for a column of `S`, whose bytes the library takes as characters of Latin-1: those of UTF-8. */
export function utf8InLatin(text: string): string {
  return Buffer.from(text).toString("latin1");
}

/** The shortest decimal that reads back as the same value in its own precision; `nan`, `inf`, `-inf`. */
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

/** Quotes a path for a shell. */
export function quoted(path: string): string {
  return /^[\w./:+@%=,-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}

/**
 * Escapes control characters, so that no stored string can control a terminal, break a line, or change the direction of the
 * following text.
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

/** A cell of RFC 4180: quoted if it has commas, quotes or line breaks. */
export function csvCell(cell: string): string {
  return /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
}

/** A line of quoted cells, without the line's end. An empty cell that is alone is quoted, because it would be an empty line. */
export function csvLine(cells: readonly string[]): string {
  return cells.length === 1 && cells[0] === "" ? '""' : cells.join(",");
}
