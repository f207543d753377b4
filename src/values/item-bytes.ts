/** Converts values to stored items: the reverse of `values.ts`. Knows dtypes; must not know arrays. @see FORMAT.md [FD] */

import { elementsOf } from "../bytes/arrays.ts";
import { SuperchunkError } from "../errors.ts";
import type { DType, Field, JsonValue, TimeUnit } from "../format/types.ts";
import { fieldSize, NOT_A_TIME } from "./values.ts";

/** Writes one value as an item of the dtype, at `at`. Throws `BAD_ARGUMENT` for a value that the dtype cannot hold. */
export function putItem(view: DataView, at: number, dtype: DType, value: unknown): void {
  const little = !("byteOrder" in dtype) || dtype.byteOrder !== "big";
  switch (dtype.kind) {
    case "bool":
      if (typeof value !== "boolean" && value !== 0 && value !== 1) throw unfit(value, "true or false");
      view.setUint8(at, value ? 1 : 0);
      return;
    case "int":
    case "uint":
      putInteger(view, at, dtype, little, value);
      return;
    case "datetime":
    case "timedelta":
      putInteger(view, at, TIME_COUNT, little, timeCount(dtype, value));
      return;
    case "float":
      putFloat(view, at, dtype.itemSize, little, value);
      return;
    case "complex": {
      const half = dtype.itemSize / 2;
      const [re, im] = typeof value === "number" ? [value, 0] : listOf(value, 2, "a pair [re, im]");
      putFloat(view, at, half, little, re);
      putFloat(view, at + half, half, little, im);
      return;
    }
    case "bytes":
    case "void":
      putBytes(view, at, dtype.itemSize, value);
      return;
    case "unicode":
      putText(view, at, dtype.itemSize, little, value);
      return;
    case "struct":
      putFields(view, at, dtype.fields, value);
      return;
    case "object":
      throw new SuperchunkError("UNSUPPORTED", "Python objects are never written", { field: "dtype" });
  }
}

/** How times are stored. */
const TIME_COUNT = { kind: "int", itemSize: 8 };

/** The count of a time. ISO 8601 text and `Date` are accepted for dates, but not for time spans. */
function timeCount(dtype: Extract<DType, { kind: "datetime" | "timedelta" }>, value: unknown): unknown {
  if (value === "NaT" || value === null) return NOT_A_TIME;
  const isDate = dtype.kind === "datetime" && (typeof value === "string" || value instanceof Date);
  return isDate ? dateCount(dtype, value) : value;
}

/** One item as bytes. `value` is a default value as stored in metadata; nothing means zeros, and NaT. Throws `BAD_ARGUMENT`. */
export function encodeItem(dtype: DType, value: unknown): Uint8Array {
  const bytes = new Uint8Array(dtype.itemSize);
  const view = new DataView(bytes.buffer);
  if (value === null || value === undefined) putTimes(view, 0, dtype);
  else putItem(view, 0, dtype, value);
  return bytes;
}

/** Writes NaT where an item has a date or a time span, in fields too. */
function putTimes(view: DataView, at: number, dtype: DType): void {
  if (dtype.kind === "datetime" || dtype.kind === "timedelta") putItem(view, at, dtype, "NaT");
  if (dtype.kind !== "struct") return;
  for (const { offset, shape, dtype: field } of dtype.fields)
    for (let i = 0; i < elementsOf(shape); i++) putTimes(view, at + offset + i * field.itemSize, field);
}

/** Writes one row: an item, or nested lists of `shape` items. */
export function putRow(
  view: DataView,
  at: number,
  dtype: DType,
  shape: readonly number[],
  value: unknown,
): void {
  if (shape.length === 0) {
    putItem(view, at, dtype, value);
    return;
  }
  const [length = 0, ...rest] = shape;
  const step = elementsOf(rest) * dtype.itemSize;
  const parts = listOf(value, length, `a list of ${length}`);
  for (let i = 0; i < length; i++) putRow(view, at + i * step, dtype, rest, parts[i]);
}

/** How many integers of 1, 2, 4 and 8 bytes there are, by their size. */
const COUNTS: readonly number[] = Array.from({ length: 9 }, (_, size) => 2 ** (8 * size));

function putInteger(
  view: DataView,
  at: number,
  { kind, itemSize: size }: { readonly kind: string; readonly itemSize: number },
  little: boolean,
  value: unknown,
): void {
  const count = COUNTS[size] as number;
  const least = kind === "int" ? -count / 2 : 0;
  const isBig = typeof value === "bigint";
  if (isBig && size === 8 && (kind === "int" ? BigInt.asIntN : BigInt.asUintN)(64, value) === value) {
    view.setBigUint64(at, BigInt.asUintN(64, value), little);
    return;
  }
  const number = isBig ? Number(value) : value;
  const isInteger = typeof number === "number" && Number.isSafeInteger(number);
  if (!isInteger || number < least || number >= least + count) {
    const range = `an integer from ${BigInt(least)} to ${BigInt(least) + BigInt(count) - 1n}`;
    const isInexact = size === 8 && Number.isInteger(number) && !isBig;
    throw unfit(value, isInexact ? `${range}, as a bigint beyond 2^53, where numbers are not exact` : range);
  }
  // The setters take the number modulo the room.
  if (size === 8) {
    view.setUint32(at + (little ? 0 : 4), number, little);
    view.setUint32(at + (little ? 4 : 0), Math.floor(number / 2 ** 32), little);
  } else if (size === 4) view.setUint32(at, number, little);
  else if (size === 2) view.setUint16(at, number, little);
  else view.setUint8(at, number);
}

/** Values of at least this size round to infinity. */
const LARGEST_SINGLE = 2 ** 128 - 2 ** 103;
const LARGEST_HALF = 65520;

function putFloat(view: DataView, at: number, size: number, little: boolean, value: unknown): void {
  const number = numberOf(value);
  // Infinity is allowed as a value, but a finite number must not become infinity.
  const largest = size === 4 ? LARGEST_SINGLE : size === 2 ? LARGEST_HALF : Number.POSITIVE_INFINITY;
  if (Math.abs(number) >= largest && Number.isFinite(number))
    throw unfit(value, `a number that a float of ${size} bytes has, below ${largest} in size`);
  if (size === 8) view.setFloat64(at, number, little);
  else if (size === 4) view.setFloat32(at, number, little);
  else if (size === 2) view.setUint16(at, toHalf(number), little);
  else
    throw new SuperchunkError(
      "UNSUPPORTED",
      `float of ${size} bytes has no JavaScript number; give raw bytes`,
      { field: "dtype" },
    );
}

/** A number from a number, a large integer (the nearest one), or JSON's name for NaN or an infinity. */
function numberOf(value: unknown): number {
  if (typeof value === "number") return value;
  if (typeof value === "bigint") return Number(value);
  if (value === "NaN") return Number.NaN;
  if (value === "Infinity") return Number.POSITIVE_INFINITY;
  if (value === "-Infinity") return Number.NEGATIVE_INFINITY;
  throw unfit(value, "a number");
}

const SINGLE = new DataView(new ArrayBuffer(8));

/** Decodes a 16-bit float. */
export function fromHalf(bits: number): number {
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  const sign = bits >> 15 === 1 ? -1 : 1;
  if (exponent === 31) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25));
}

/** Encodes a number as a 16-bit float, rounded to the nearest, ties to even. */
export function toHalf(value: number): number {
  SINGLE.setFloat64(0, value);
  const sign = (SINGLE.getUint8(0) & 0x80) << 8;
  if (Number.isNaN(value)) return sign | 0x7e00;
  const size = Math.abs(value);
  if (size >= 65520) return sign | 0x7c00;
  // Steps of a float16: 2^-24 below 2^-14, then 2^-10 of the next lower power of two.
  const exponent = Math.max(-14, Math.floor(Math.log2(size)));
  const power = size > 0 && 2 ** (exponent + 1) <= size ? exponent + 1 : exponent;
  const step = 2 ** (Math.max(-14, power) - 10);
  const steps = roundEven(size / step);
  if (steps === 0) return sign;
  const rounded = steps * step;
  if (rounded >= 65536) return sign | 0x7c00;
  if (rounded < 2 ** -14) return sign | steps;
  const final = rounded >= 2 ** (power + 1) ? power + 1 : power;
  return sign | ((final + 15) << 10) | ((rounded / 2 ** final - 1) * 1024);
}

function roundEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  if (rest > 0.5 || (rest === 0.5 && floor % 2 === 1)) return floor + 1;
  return floor;
}

function putBytes(view: DataView, at: number, size: number, value: unknown): void {
  const target = new Uint8Array(view.buffer, view.byteOffset + at, size);
  target.fill(0);
  let source: ArrayLike<number>;
  if (value instanceof Uint8Array) source = value;
  else if (typeof value === "string")
    source = Array.from(value, (character) => character.codePointAt(0) ?? 0);
  else source = listOf(value, undefined, "a string or bytes") as number[];
  if (
    source.length > size ||
    Array.from(source).some((byte) => !(Number.isInteger(byte) && byte >= 0 && byte < 256))
  )
    throw unfit(value, `at most ${size} characters of Latin-1, or bytes`);
  target.set(source);
}

/** Value of the padding after a text. */
const PADDING = 0;

function putText(view: DataView, at: number, size: number, little: boolean, value: unknown): void {
  if (typeof value !== "string") throw unfit(value, "a string");
  const isLong = value.length * 4 > size && [...value].length * 4 > size;
  if (isLong) throw unfit(value, `at most ${size / 4} characters`);
  for (let [i, place] = [0, at]; place < at + size; place += 4) {
    const point = value.codePointAt(i) ?? PADDING;
    view.setUint32(place, point, little);
    i += point > 0xffff ? 2 : 1;
  }
}

/** Fields by name, or a list of them in order. */
function putFields(view: DataView, at: number, fields: readonly Field[], value: unknown): void {
  const list = Array.isArray(value) ? listOf(value, fields.length, `a list of ${fields.length}`) : undefined;
  if (list === undefined && (typeof value !== "object" || value === null))
    throw unfit(value, "an object, or a list of the fields");
  const names = fields.map(({ name }) => name);
  const unknown =
    list === undefined ? Object.keys(value as object).find((name) => !names.includes(name)) : undefined;
  if (unknown !== undefined)
    throw wrongField(unknown, `unknown field "${unknown}"; expected one of ${names.join(", ")}`);
  fields.forEach((field, i) => {
    const part = list === undefined ? (value as Record<string, unknown>)[field.name] : list[i];
    if (part === undefined) throw wrongField(field.name, `no value for the field "${field.name}"`);
    const isOne = field.shape.length > 0 && !Array.isArray(part) && !ArrayBuffer.isView(part);
    if (part === null || isOne) putSame(view, at + field.offset, field, part);
    else putRow(view, at + field.offset, field.dtype, field.shape, part);
  });
}

function wrongField(field: string, summary: string): SuperchunkError {
  return new SuperchunkError("BAD_ARGUMENT", summary, { field });
}

/** Writes one value, or the default, to all places of a sub-array, as numpy broadcasts it. */
function putSame(view: DataView, at: number, field: Field, value: unknown): void {
  const item = encodeItem(field.dtype, value);
  const target = new Uint8Array(view.buffer, view.byteOffset + at, fieldSize(field));
  for (let from = 0; from < target.length; from += item.length) target.set(item, from);
}

function listOf(value: unknown, length: number | undefined, expected: string): readonly unknown[] {
  const list = Array.isArray(value)
    ? value
    : ArrayBuffer.isView(value)
      ? Array.from(value as Uint8Array)
      : undefined;
  if (list === undefined || (length !== undefined && list.length !== length)) throw unfit(value, expected);
  return list;
}

function unfit(value: unknown, expected: string): SuperchunkError {
  const isPlain = typeof value === "object" && value !== null && !Array.isArray(value);
  const shown =
    typeof value === "string"
      ? JSON.stringify(value.slice(0, 40))
      : (value instanceof Date
          ? `new Date(${value.getTime()})`
          : isPlain
            ? "{...}"
            : Array.isArray(value)
              ? `[${value}]`
              : String(value)
        ).slice(0, 40);
  return new SuperchunkError(
    "BAD_ARGUMENT",
    `the value ${shown} does not fit the dtype: expected ${expected}`,
    { field: "value", expected, found: value },
  );
}

// Converts a caller's dates (ISO 8601 and `Date`) to the stored count.

/** Attoseconds of a unit; years and months have no fixed number of them. */
export const ATTOSECONDS: Partial<Record<TimeUnit, bigint>> = {
  W: 7n * 86_400n * 10n ** 18n,
  D: 86_400n * 10n ** 18n,
  h: 3600n * 10n ** 18n,
  m: 60n * 10n ** 18n,
  s: 10n ** 18n,
  ms: 10n ** 15n,
  us: 10n ** 12n,
  ns: 10n ** 9n,
  ps: 10n ** 6n,
  fs: 10n ** 3n,
  as: 1n,
};

const ISO =
  /^(?<year>[+-]?\d{4,6})(?:-(?<month>\d\d)(?:-(?<day>\d\d)(?:[T ](?<hour>\d\d)(?::(?<minute>\d\d)(?::(?<second>\d\d)(?:\.(?<part>\d{1,18}))?)?)?Z?)?)?)?$/;

/** The same value with dates as counts, and no minus zero for integers, also in fields. Throws `BAD_ARGUMENT` for text that is not a date of the dtype's unit. */
export function storedTimes(dtype: DType, value: JsonValue): JsonValue {
  if (dtype.kind === "struct" && Array.isArray(value))
    return value.map((part: JsonValue, i) => {
      const field = dtype.fields[i];
      return field === undefined ? part : storedTimes(field.dtype, part);
    });
  // It would be stored as -0.0.
  if (value === 0 && /^u?int$/.test(dtype.kind)) return 0;
  if (dtype.kind !== "datetime") return value;
  if (Array.isArray(value)) return value.map((part: JsonValue) => storedTimes(dtype, part));
  return typeof value === "string" && value !== "NaT" ? dateCount(dtype, value) : value;
}

/** The count of a date: ISO 8601 text or a `Date`. Throws `BAD_ARGUMENT` for what is not a date of the dtype's unit. */
function dateCount(
  { unit, scale }: Extract<DType, { kind: "datetime" | "timedelta" }>,
  value: string | Date,
): bigint {
  const isDate = value instanceof Date;
  const text = !isDate ? value : Number.isNaN(value.getTime()) ? "Invalid Date" : value.toISOString();
  const count = parseDate(text, unit, BigInt(scale));
  if (count !== undefined) return count;
  const shown = scale === 1 ? unit : `${scale}${unit}`;
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    `${JSON.stringify(text)} is not a date in units of ${shown}: give one as 2020-01-31T09:30:00, which is not more exact than the unit, NaT, or a count since 1970`,
    { field: "value", expected: `a date in units of ${shown}`, found: text },
  );
}

/** The count of a UTC date; undefined for text that is not a date, or falls between two counts. */
function parseDate(text: string, unit: TimeUnit, scale: bigint): bigint | undefined {
  const groups = ISO.exec(text)?.groups;
  if (groups === undefined) return undefined;
  const number = (name: string, absent: number): number => Number(groups[name] ?? absent);
  const [year, month, day] = [number("year", 1970), number("month", 1), number("day", 1)];
  const [hour, minute, second] = [number("hour", 0), number("minute", 0), number("second", 0)];
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  const isDay = date.getUTCMonth() === month - 1 && date.getUTCDate() === day;
  if (!isDay || hour > 23 || minute > 59 || second > 59) return undefined;
  const days = BigInt(date.getTime() / 86_400_000);
  const seconds = days * 86_400n + BigInt(hour * 3600 + minute * 60 + second);
  const time = seconds * 10n ** 18n + BigInt((groups["part"] ?? "").padEnd(18, "0"));
  const months = BigInt((year - 1970) * 12 + month - 1);
  const isMonth = day === 1 && hour + minute + second === 0 && !/[1-9]/.test(groups["part"] ?? "");
  if (unit === "Y") return isMonth ? exactly(months, 12n * scale) : undefined;
  if (unit === "M") return isMonth ? exactly(months, scale) : undefined;
  const length = ATTOSECONDS[unit];
  return length === undefined ? undefined : exactly(time, length * scale);
}

function exactly(count: bigint, unit: bigint): bigint | undefined {
  return count % unit === 0n ? count / unit : undefined;
}
