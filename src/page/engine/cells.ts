/** Values as text for people. Knows data types; must not know archives. */

import { toHex } from "../../bytes/arrays.ts";
import { stringifyJson } from "../../format/json.ts";
import type { DType, TimeUnit } from "../../format/types.ts";
import { NOT_A_TIME, toJsonValue } from "../../values/values.ts";

/** Seconds of a unit. */
const SECONDS: Partial<Record<TimeUnit, number>> = { W: 604_800, D: 86_400, h: 3600, m: 60, s: 1 };
/** Decimals of a second in a unit. */
const DIGITS: Partial<Record<TimeUnit, number>> = { ms: 3, us: 6, ns: 9, ps: 12, fs: 15, as: 18 };
const WORDS: Partial<Record<TimeUnit, string>> = {
  Y: "years",
  M: "months",
  W: "weeks",
  D: "days",
  h: "hours",
  m: "minutes",
  s: "seconds",
  us: "µs",
  generic: "steps",
};
/** Last date of JavaScript, in seconds from 1970. */
const LAST_DATE = 8.64e12;
/** Most bytes or characters of a cell to show; what is copied is whole. */
const MOST_LETTERS = 200;

export function cellText(value: unknown, dtype: DType, most: number = MOST_LETTERS): string {
  if (typeof value === "bigint") return integerText(value, dtype);
  if (typeof value === "number") return numberText(value, dtype);
  if (typeof value === "string") return shorten(String(toJsonValue(value, dtype, "utf8")), most);
  if (typeof value === "boolean") return String(value);
  if (value instanceof Uint8Array) return shorten(toHex(value.subarray(0, most)), most);
  if (dtype.kind === "complex" && Array.isArray(value)) {
    const [re = 0, im = 0] = value as number[];
    return `${numberText(re, dtype)}${im < 0 || Object.is(im, -0) ? "-" : "+"}${numberText(Math.abs(im), dtype)}j`;
  }
  if (Array.isArray(value))
    return shorten(`[${value.map((each) => cellText(each, dtype, most)).join(", ")}]`, most);
  if (dtype.kind === "struct" && typeof value === "object" && value !== null) {
    const struct = value as Record<string, unknown>;
    return shorten(
      dtype.fields.map(({ name, dtype: of }) => `${name}: ${cellText(struct[name], of, most)}`).join(", "),
      most,
    );
  }
  return String(value);
}

/** One value as JSON, by the rules of `cat --format json`. */
export function cellJson(value: unknown, dtype: DType): string {
  return stringifyJson(toJsonValue(value, dtype));
}

function integerText(value: bigint, dtype: DType): string {
  if (dtype.kind === "datetime")
    return value === NOT_A_TIME ? "NaT" : dateText(value * BigInt(dtype.scale), dtype.unit);
  if (dtype.kind === "timedelta")
    return value === NOT_A_TIME ? "NaT" : `${value * BigInt(dtype.scale)} ${WORDS[dtype.unit] ?? dtype.unit}`;
  return value.toString();
}

function numberText(value: number, dtype: DType): string {
  if (Object.is(value, -0)) return "-0";
  if ((dtype.kind !== "float" && dtype.kind !== "complex") || !Number.isFinite(value)) return String(value);
  const half = dtype.kind === "complex" ? dtype.itemSize / 2 : dtype.itemSize;
  if (half >= 8) return String(value);
  // The fewest digits that give the same number of this width.
  for (let digits = half === 4 ? 6 : 3; digits <= 9; digits++) {
    const text = Number(value.toPrecision(digits));
    if (Math.fround(text) === value) return String(text);
  }
  return String(value);
}

/** A date as ISO 8601, in the precision of its unit, but without a fraction of zeros. */
function dateText(count: bigint, unit: TimeUnit): string {
  if (unit === "Y") return String(1970n + count);
  if (unit === "M") {
    const year = floorDivide(count, 12n);
    return `${1970n + year}-${String(count - year * 12n + 1n).padStart(2, "0")}`;
  }
  if (!isFixed(unit)) return `${count} ${WORDS[unit] ?? unit}`;
  const [{ [unit]: each = 1 }, { [unit]: digits = 0 }] = [SECONDS, DIGITS];
  const parts = 10n ** BigInt(digits);
  const seconds = floorDivide(count * BigInt(each), parts);
  if (Math.abs(Number(seconds)) > LAST_DATE) return `${count} ${WORDS[unit] ?? unit} from 1970`;
  const iso = new Date(1000 * Number(seconds)).toISOString();
  const at = iso.indexOf("T");
  if (unit === "D" || unit === "W") return iso.slice(0, at);
  if (unit === "h" || unit === "m") return iso.slice(0, at + 6);
  const below = count - seconds * parts;
  return `${iso.slice(0, at + 9)}${below === 0n ? "" : `.${below.toString().padStart(digits, "0")}`}`;
}

/** Seconds from 1970 of a stored time; NaN for NaT. */
export function secondsOf(
  value: bigint,
  { unit, scale }: { readonly unit: TimeUnit; readonly scale: number },
): number {
  if (value === NOT_A_TIME || !isFixed(unit)) return Number.NaN;
  const [{ [unit]: each = 1 }, { [unit]: digits = 0 }] = [SECONDS, DIGITS];
  return (Number(value) * scale * each) / 10 ** digits;
}

/** False for months, years and steps, which are not a number of seconds. */
const isFixed = (unit: TimeUnit): boolean => unit in SECONDS || unit in DIGITS;

function floorDivide(a: bigint, b: bigint): bigint {
  const quotient = a / b;
  return a % b < 0n ? quotient - 1n : quotient;
}

function shorten(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most)}…` : text;
}

/** True for names of integer columns that hold seconds since 1970, as in daily and minute bars. */
export function isTimeName(name: string): boolean {
  return /(?:^|\/)(?:day|date|time|timestamp|ts|datetime|minute)$/i.test(name);
}

/** True for seconds of 1973 to 2096: such numbers are taken for times. */
export function isSecond(seconds: number): boolean {
  return seconds > 1e8 && seconds < 4e9;
}
