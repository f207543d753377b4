/** Dates as a caller gives them: ISO 8601 and `Date` become the count that is stored. */
import { SuperchunkError } from "../errors.ts";
import type { DType, JsonValue, TimeUnit } from "../format/types.ts";

/** Attoseconds of a unit; years and months have no fixed number of them. */
const ATTOSECONDS: Partial<Record<TimeUnit, bigint>> = {
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

/** The same value with dates as counts, also in fields. Throws `BAD_ARGUMENT` for text that is not a date of the dtype's unit. */
export function storedTimes(dtype: DType, value: JsonValue): JsonValue {
  if (dtype.kind === "struct" && Array.isArray(value))
    return value.map((part: JsonValue, i) => {
      const field = dtype.fields[i];
      return field === undefined ? part : storedTimes(field.dtype, part);
    });
  if (dtype.kind !== "datetime") return value;
  if (Array.isArray(value)) return value.map((part: JsonValue) => storedTimes(dtype, part));
  return typeof value === "string" && value !== "NaT" ? dateCount(dtype, value) : value;
}

/** The count of a date: text of ISO 8601, or a `Date`. Throws `BAD_ARGUMENT` for what is not a date of the dtype's unit. */
export function dateCount(
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

/** The count of a date, UTC; undefined for what is none, or lies between two counts. */
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
