/**
 * Which values match a condition, and which chunks can have such values, judged by their bounds.
 *
 * NaN and NaT are null: no comparison matches them, not even `ne` and `nin`; `null: true` matches only them. Zeros of both signs
 * are equal. Knows values of one column; must not know chunks or tables. @see FORMAT.md [FI]
 */

import type { DType } from "../format/types.ts";
import { NOT_A_TIME, type TypedValues } from "../values/values.ts";

/** A value for comparison: 64-bit integers and dates as bigint, booleans as 0 and 1. */
export type Comparable = number | bigint | string;

/** How the values of a column compare. */
export type Domain = "number" | "bool" | "long" | "time" | "text";

/** A condition, checked against the column's dtype: a closed interval, and values in it that match or do not. */
export interface Predicate {
  readonly domain: Domain;
  /** Undefined: no bound. */
  readonly least: Comparable | undefined;
  readonly greatest: Comparable | undefined;
  /** If defined, only these values match. */
  readonly among: ReadonlySet<Comparable> | undefined;
  readonly without: ReadonlySet<Comparable>;
  /** Matches only null. */
  readonly onlyNull: boolean;
  /** No value matches. */
  readonly isImpossible: boolean;
}

/** The known facts of a chunk's values. */
export interface Bounds {
  readonly rows: number;
  /** Number of NaN or NaT among them. */
  readonly nulls: number;
  /** Of the values that are not null; undefined if there are none, or the bounds are unknown (`isOpen`). */
  readonly least: Comparable | undefined;
  readonly greatest: Comparable | undefined;
  /** True if some values have unknown bounds. */
  readonly isOpen: boolean;
}

/** How the values of a dtype compare; undefined if they do not. */
export function domainOf(dtype: DType): Domain | undefined {
  switch (dtype.kind) {
    case "bool":
      return "bool";
    case "int":
    case "uint":
      return dtype.itemSize === 8 ? "long" : "number";
    case "float":
      return dtype.itemSize <= 8 ? "number" : undefined;
    case "datetime":
    case "timedelta":
      return "time";
    case "bytes":
    case "unicode":
      return dtype.itemSize > 0 ? "text" : undefined;
    default:
      return undefined;
  }
}

/** Negative, 0 or positive. Text compares by code points, as in numpy. */
export function orderOf(a: Comparable, b: Comparable): number {
  if (typeof a === "string" && typeof b === "string") return compareTexts(a, b);
  return a < b ? -1 : a > b ? 1 : 0;
}

function compareTexts(a: string, b: string): number {
  const end = Math.min(a.length, b.length);
  for (let i = 0; i < end; i++) {
    const [one, other] = [a.charCodeAt(i), b.charCodeAt(i)];
    if (one === other) continue;
    // A character beyond U+FFFF begins with a code unit below U+E000.
    const [isPair, isOtherPair] = [isSurrogate(one), isSurrogate(other)];
    return isPair === isOtherPair ? one - other : isPair ? 1 : -1;
  }
  return a.length - b.length;
}

function isSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdfff;
}

/** Which rows of a chunk match: none, possibly some, or all. */
export type Verdict = "none" | "some" | "all";

/** Judges a condition by the bounds of a chunk. */
export function judge(predicate: Predicate, bounds: Bounds): Verdict {
  if (predicate.isImpossible || bounds.rows === 0) return "none";
  if (predicate.onlyNull) return bounds.nulls === 0 ? "none" : bounds.nulls === bounds.rows ? "all" : "some";
  if (bounds.nulls === bounds.rows) return "none";
  const { least, greatest, isOpen } = bounds;
  if (isOpen || least === undefined || greatest === undefined) return "some";
  const { among, without } = predicate;
  if (predicate.least !== undefined && orderOf(greatest, predicate.least) < 0) return "none";
  if (predicate.greatest !== undefined && orderOf(least, predicate.greatest) > 0) return "none";
  const isWithin = (value: Comparable): boolean =>
    orderOf(value, least) >= 0 && orderOf(value, greatest) <= 0;
  if (among !== undefined && ![...among].some(isWithin)) return "none";
  const isOne = orderOf(least, greatest) === 0;
  if (isOne && without.has(least)) return "none";
  const isInside =
    (predicate.least === undefined || orderOf(least, predicate.least) >= 0) &&
    (predicate.greatest === undefined || orderOf(greatest, predicate.greatest) <= 0);
  const isFree = ![...without].some(isWithin) && (among === undefined || (isOne && among.has(least)));
  return isInside && isFree && bounds.nulls === 0 ? "all" : "some";
}

/** Indices of the matching values: among those of `from`, or among all `count`. */
export function selectRows(
  predicate: Predicate,
  values: TypedValues,
  count: number,
  from: Uint32Array | undefined,
): Uint32Array {
  const takes = predicate.isImpossible ? () => false : tester(predicate, values);
  const found = new Uint32Array(from?.length ?? count);
  let length = 0;
  if (from === undefined) {
    for (let i = 0; i < count; i++) if (takes(i)) found[length++] = i;
  } else for (const i of from) if (takes(i)) found[length++] = i;
  return found.subarray(0, length);
}

type Tester = (index: number) => boolean;

function tester(predicate: Predicate, values: TypedValues): Tester {
  const { among, without, onlyNull } = predicate;
  const valueAt = comparableAt(values, predicate.domain);
  if (onlyNull) return (i) => valueAt(i) === undefined;
  const isInside = intervalTester(predicate, values, valueAt);
  if (among === undefined && without.size === 0) return isInside;
  return (i) => {
    if (!isInside(i)) return false;
    const value = valueAt(i);
    return value !== undefined && (among === undefined || among.has(value)) && !without.has(value);
  };
}

function intervalTester(predicate: Predicate, values: TypedValues, valueAt: ValueAt): Tester {
  const { least, greatest } = predicate;
  if (values instanceof BigInt64Array || values instanceof BigUint64Array)
    return longTester(predicate, values);
  if (!("get" in values) && typeof least !== "string" && typeof greatest !== "string") {
    const from = Number(least ?? Number.NEGATIVE_INFINITY);
    const to = Number(greatest ?? Number.POSITIVE_INFINITY);
    // Every comparison with NaN is false.
    return (i) => (values[i] as number) >= from && (values[i] as number) <= to;
  }
  return (i) => {
    const value = valueAt(i);
    if (value === undefined) return false;
    return (
      (least === undefined || orderOf(value, least) >= 0) &&
      (greatest === undefined || orderOf(value, greatest) <= 0)
    );
  };
}

/** 64-bit integers by halves, because bigint is slow. */
function longTester({ least, greatest, domain }: Predicate, values: BigInt64Array | BigUint64Array): Tester {
  const isSigned = values instanceof BigInt64Array;
  // NaT is the smallest integer.
  const first = domain === "time" ? NOT_A_TIME + 1n : NOT_A_TIME;
  const [lowest, highest] = isSigned ? [first, -NOT_A_TIME - 1n] : [0n, 2n ** 64n - 1n];
  const from = typeof least === "bigint" && least > lowest ? least : lowest;
  const to = typeof greatest === "bigint" && greatest < highest ? greatest : highest;
  if (from > highest || to < lowest) return () => false;
  const words = new Uint32Array(values.buffer, values.byteOffset, 2 * values.length);
  // With the sign bit flipped, signed halves compare like unsigned ones.
  const sign = isSigned ? 0x8000_0000 : 0;
  const high = (value: bigint): number => (Number((value >> 32n) & 0xffff_ffffn) ^ sign) >>> 0;
  const low = (value: bigint): number => Number(value & 0xffff_ffffn);
  const [fromHigh, fromLow, toHigh, toLow] = [high(from), low(from), high(to), low(to)];
  return (i) => {
    const upper = ((words[2 * i + 1] as number) ^ sign) >>> 0;
    const lower = words[2 * i] as number;
    return (
      (upper > fromHigh || (upper === fromHigh && lower >= fromLow)) &&
      (upper < toHigh || (upper === toHigh && lower <= toLow))
    );
  };
}

type ValueAt = (index: number) => Comparable | undefined;

/** The value at an index for comparison; undefined for null. */
function comparableAt(values: TypedValues, domain: Domain): ValueAt {
  if (values instanceof BigInt64Array || values instanceof BigUint64Array)
    return (i) => {
      const value = values[i] as bigint;
      return value === NOT_A_TIME && domain === "time" ? undefined : value;
    };
  if (domain === "bool" && "bytes" in values) return (i) => (values.bytes[i] === 0 ? 0 : 1);
  if ("get" in values) return (i) => values.get(i) as string;
  return (i) => {
    const value = values[i] as number;
    return Number.isNaN(value) ? undefined : value;
  };
}

/** Longest text to keep as a bound. */
const LONGEST = 64;

export function boundsOf(values: TypedValues, domain: Domain): Bounds {
  const rows = values.length;
  if (values instanceof BigInt64Array || values instanceof BigUint64Array)
    return boundsOfLongs(values, domain);
  if (!("get" in values)) return boundsOfNumbers(values);
  const valueAt = comparableAt(values, domain);
  let least: Comparable | undefined;
  let greatest: Comparable | undefined;
  for (let i = 0; i < rows; i++) {
    const value = valueAt(i);
    if (value === undefined) continue;
    if (typeof value === "string" && value.length > LONGEST) return { ...UNKNOWN, rows };
    if (least === undefined || orderOf(value, least) < 0) least = value;
    if (greatest === undefined || orderOf(value, greatest) > 0) greatest = value;
  }
  return { rows, nulls: 0, least, greatest, isOpen: false };
}

const UNKNOWN: Bounds = { rows: 0, nulls: 0, least: undefined, greatest: undefined, isOpen: true };

function boundsOfNumbers(
  values: Exclude<TypedValues, { get: unknown } | BigInt64Array | BigUint64Array>,
): Bounds {
  let [least, greatest, nulls] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0];
  for (let i = 0; i < values.length; i++) {
    const value = values[i] as number;
    // Every comparison with NaN is false.
    if (value >= least && value <= greatest) continue;
    if (Number.isNaN(value)) nulls++;
    else {
      if (value < least) least = value;
      if (value > greatest) greatest = value;
    }
  }
  return closed(values.length, nulls, least, greatest);
}

/** Bounds of values of which all but the nulls were compared. */
function closed(rows: number, nulls: number, least: Comparable, greatest: Comparable): Bounds {
  const bounds = nulls < rows ? { least, greatest } : { least: undefined, greatest: undefined };
  return { rows, nulls, ...bounds, isOpen: false };
}

function boundsOfLongs(values: BigInt64Array | BigUint64Array, domain: Domain): Bounds {
  const isSigned = values instanceof BigInt64Array;
  const words = new Uint32Array(values.buffer, values.byteOffset, 2 * values.length);
  const sign = isSigned ? 0x8000_0000 : 0;
  let [leastHigh, leastLow, greatestHigh, greatestLow, nulls] = [0xffff_ffff, 0xffff_ffff, 0, 0, 0];
  for (let i = 0; i < words.length; i += 2) {
    const low = words[i] as number;
    const high = ((words[i + 1] as number) ^ sign) >>> 0;
    // With the sign bit flipped, NaT is 0.
    if (domain === "time" && low === 0 && high === 0) {
      nulls++;
      continue;
    }
    if (high < leastHigh || (high === leastHigh && low < leastLow)) [leastHigh, leastLow] = [high, low];
    if (high > greatestHigh || (high === greatestHigh && low > greatestLow))
      [greatestHigh, greatestLow] = [high, low];
  }
  const join = (high: number, low: number): bigint => {
    const value = (BigInt((high ^ sign) >>> 0) << 32n) | BigInt(low);
    return isSigned ? BigInt.asIntN(64, value) : value;
  };
  return closed(values.length, nulls, join(leastHigh, leastLow), join(greatestHigh, greatestLow));
}
