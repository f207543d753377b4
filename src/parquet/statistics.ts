/**
 * The least and the greatest value of pages and column chunks, which readers use to skip pages.
 *
 * NaN is ignored, and zeros count as -0 for the least and +0 for the greatest value, as the specification says. Strings
 * longer than 64 bytes have no statistics. Knows values; must not know pages. @see docs/parquet-format.md [PX]
 */
import { at } from "../bytes/arrays.ts";
import type { Leaf, ValueKind } from "./schema.ts";
import { elementsOf, type LeafValues } from "./values.ts";

/** A value that can be compared: 64-bit integers as bigint, the bytes of strings. */
type Bound = number | bigint | Uint8Array;

/** The facts of some values. */
export interface ValueStatistics {
  readonly nulls: number;
  /** True if a value is too long to be kept; the other members are then meaningless. */
  readonly isOpen: boolean;
  /** Undefined if there are no values other than NaN, or one is too long. */
  readonly least: Bound | undefined;
  readonly greatest: Bound | undefined;
  /** True if no value is less than the previous one, and none is null. */
  readonly isAscending: boolean;
}

/** Longest string to keep, in bytes. */
const LONGEST = 64;

/** Statistics of values. `raw` has the items, which are needed for booleans because their values are packed. */
export function statisticsOf({ kind, width }: Leaf, values: LeafValues, raw: Uint8Array): ValueStatistics {
  const { bytes, count, present, texts } = values;
  const nulls = present === undefined ? 0 : present.length - count;
  const bounds = boundsOf(kind, width ?? 1, texts ?? (kind === "bool" ? raw : bytes));
  return { nulls, ...bounds, isAscending: bounds.isAscending && nulls === 0 };
}

type Bounds = Omit<ValueStatistics, "nulls">;

const NOTHING: Bounds = { isOpen: false, least: undefined, greatest: undefined, isAscending: true };

function boundsOf(kind: ValueKind, width: number, values: Uint8Array | readonly Uint8Array[]): Bounds {
  if (values.length === 0) return NOTHING;
  if (!(values instanceof Uint8Array)) return boundsOfTexts(values, values.length);
  switch (kind) {
    case "int32":
      return boundsOfNumbers(new Int32Array(...elementsOf(values, 4)));
    case "uint32":
      return boundsOfNumbers(new Uint32Array(...elementsOf(values, 4)));
    case "int64":
    case "uint64":
      return boundsOfLongs(new Uint32Array(...elementsOf(values, 4)), kind === "int64");
    case "float":
      return boundsOfFloats(new Float32Array(...elementsOf(values, 4)));
    case "double":
      return boundsOfFloats(new Float64Array(...elementsOf(values, 8)));
    case "half":
      return boundsOfFloats(Float32Array.from(new Uint16Array(...elementsOf(values, 2)), fromHalf));
    case "bool":
      return boundsOfNumbers(values.map((flag) => (flag === 0 ? 0 : 1)));
    default:
      return boundsOfTexts(
        { at: (i) => values.subarray(i * width, (i + 1) * width) },
        Math.floor(values.length / width),
      );
  }
}

function boundsOfNumbers(values: Int32Array | Uint32Array | Uint8Array): Bounds {
  const rising = risingNumbers(values);
  let least = at(values, 0);
  let greatest = at(values, rising - 1);
  for (let i = rising; i < values.length; i++) {
    const value = values[i] as number;
    if (value < least) least = value;
    else if (value > greatest) greatest = value;
  }
  return { isOpen: false, least, greatest, isAscending: rising === values.length };
}

/** Number of leading values that do not decrease. Testing the rest would be slow, because its branches cannot be predicted. */
function risingNumbers(values: Int32Array | Uint32Array | Uint8Array): number {
  let before = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < values.length; i++) {
    const value = values[i] as number;
    if (value < before) return i;
    before = value;
  }
  return values.length;
}

function boundsOfFloats(values: Float32Array | Float64Array): Bounds {
  const rising = risingFloats(values);
  let least = rising === 0 ? Number.POSITIVE_INFINITY : at(values, 0);
  let greatest = rising === 0 ? Number.NEGATIVE_INFINITY : at(values, rising - 1);
  for (let i = rising; i < values.length; i++) {
    const value = values[i] as number;
    // Most values are between the bounds. NaN is neither between them nor less nor greater.
    if (value >= least && value <= greatest) continue;
    if (value < least) least = value;
    if (value > greatest) greatest = value;
  }
  const isAscending = rising === values.length;
  if (least > greatest) return { ...NOTHING, isAscending };
  return {
    isOpen: false,
    least: least === 0 ? -0 : least,
    greatest: greatest === 0 ? 0 : greatest,
    isAscending,
  };
}

/** Number of leading values that do not decrease and are not NaN. */
function risingFloats(values: Float32Array | Float64Array): number {
  let before = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < values.length; i++) {
    const value = values[i] as number;
    // Every comparison with NaN is false.
    if (!(value >= before)) return i;
    before = value;
  }
  return values.length;
}

/** 64-bit integers by halves, because bigint is slow. */
function boundsOfLongs(halves: Uint32Array, signed: boolean): Bounds {
  // With the sign bit flipped, signed halves compare like unsigned ones.
  const sign = signed ? 0x8000_0000 : 0;
  const rising = risingLongs(halves, sign);
  let [leastHigh, leastLow] = [(at(halves, 1) ^ sign) >>> 0, at(halves, 0)];
  let [greatestHigh, greatestLow] = [(at(halves, rising - 1) ^ sign) >>> 0, at(halves, rising - 2)];
  for (let i = rising; i < halves.length; i += 2) {
    const low = halves[i] as number;
    const high = ((halves[i + 1] as number) ^ sign) >>> 0;
    if (high < leastHigh || (high === leastHigh && low < leastLow)) {
      leastHigh = high;
      leastLow = low;
    }
    if (high > greatestHigh || (high === greatestHigh && low > greatestLow)) {
      greatestHigh = high;
      greatestLow = low;
    }
  }
  const join = (high: number, low: number): bigint => {
    const value = (BigInt((high ^ sign) >>> 0) << 32n) | BigInt(low);
    return signed ? BigInt.asIntN(64, value) : value;
  };
  return {
    isOpen: false,
    least: join(leastHigh, leastLow),
    greatest: join(greatestHigh, greatestLow),
    isAscending: rising === halves.length,
  };
}

/** Number of halves of the leading values that do not decrease. */
function risingLongs(halves: Uint32Array, sign: number): number {
  let [beforeHigh, beforeLow] = [0, 0];
  for (let i = 0; i < halves.length; i += 2) {
    const low = halves[i] as number;
    const high = ((halves[i + 1] as number) ^ sign) >>> 0;
    if (high < beforeHigh || (high === beforeHigh && low < beforeLow)) return i;
    beforeHigh = high;
    beforeLow = low;
  }
  return halves.length;
}

function boundsOfTexts(values: { at(index: number): Uint8Array | undefined }, count: number): Bounds {
  let [least, greatest, isAscending, isLong] = [values.at(0), values.at(0), true, false];
  let before = least;
  for (let i = 0; i < count; i++) {
    const value = values.at(i);
    if (value === undefined || before === undefined || least === undefined || greatest === undefined)
      continue;
    if (value.length > LONGEST) isLong = true;
    if (compareBytes(value, before) < 0) isAscending = false;
    if (compareBytes(value, least) < 0) least = value;
    if (compareBytes(value, greatest) > 0) greatest = value;
    before = value;
  }
  if (isLong) return { ...NOTHING, isOpen: true, isAscending };
  return { isOpen: false, least: least?.slice(), greatest: greatest?.slice(), isAscending };
}

function compareBytes(a: Uint8Array, b: Uint8Array): number {
  const end = Math.min(a.length, b.length);
  for (let i = 0; i < end; i++) {
    const order = (a[i] as number) - (b[i] as number);
    if (order !== 0) return order;
  }
  return a.length - b.length;
}

/** Negative, 0 or positive, in the order of the leaf's values. -0 is less than 0. */
export function compareBounds(a: Bound, b: Bound): number {
  if (a instanceof Uint8Array && b instanceof Uint8Array) return compareBytes(a, b);
  if (a < b) return -1;
  if (a > b) return 1;
  return Object.is(a, -0) && Object.is(b, 0) ? -1 : Object.is(a, 0) && Object.is(b, -0) ? 1 : 0;
}

/** Merges the statistics of all pages of a column chunk. */
export function mergeStatistics(pages: readonly ValueStatistics[]): ValueStatistics {
  let [nulls, isAscending, isOpen] = [0, true, false];
  let least: Bound | undefined;
  let greatest: Bound | undefined;
  for (const page of pages) {
    nulls += page.nulls;
    isAscending &&= page.isAscending;
    isOpen ||= page.isOpen;
    if (page.least === undefined || page.greatest === undefined) continue;
    if (greatest !== undefined && compareBounds(page.least, greatest) < 0) isAscending = false;
    if (least === undefined || compareBounds(page.least, least) < 0) least = page.least;
    if (greatest === undefined || compareBounds(page.greatest, greatest) > 0) greatest = page.greatest;
  }
  return isOpen
    ? { ...NOTHING, nulls, isOpen, isAscending }
    : { nulls, isOpen, least, greatest, isAscending };
}

/** Encodes a bound in the plain encoding. */
export function encodeBound({ kind, width }: Leaf, bound: Bound): Uint8Array {
  if (bound instanceof Uint8Array) return bound;
  if (kind === "bool") return Uint8Array.of(Number(bound));
  const out = new Uint8Array(width ?? 0);
  const view = new DataView(out.buffer);
  if (typeof bound === "bigint") view.setBigInt64(0, bound, true);
  else if (kind === "double") view.setFloat64(0, bound, true);
  else if (kind === "float") view.setFloat32(0, bound, true);
  else if (kind === "half") view.setUint16(0, toHalf(bound), true);
  else view.setUint32(0, bound, true);
  return out;
}

/** Decodes a 16-bit float. */
export function fromHalf(bits: number): number {
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  const sign = bits >> 15 === 1 ? -1 : 1;
  if (exponent === 31) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25));
}

/** Encodes a 16-bit float that {@link fromHalf} decoded. */
function toHalf(value: number): number {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const size = Math.abs(value);
  if (size === Number.POSITIVE_INFINITY) return sign | 0x7c00;
  if (size < 2 ** -14) return sign | (size * 2 ** 24);
  const exponent = Math.floor(Math.log2(size));
  return sign | ((exponent + 15) << 10) | (size / 2 ** (exponent - 10) - 1024);
}
