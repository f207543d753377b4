/** Dates and time spans as numpy prints them. Knows datetime64's units; must not know archives. */

const NOT_A_TIME = -(2n ** 63n);

/** Units below a day: how many make a day, and digits behind the second's point. */
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

/** ISO 8601 to the precision of the unit, `2020-01-31T09:30:00.000000000`; `NaT`; the count where there is no unit. */
export function formatDatetime(stored: bigint, unit: TimeUnit, scale: number): string {
  if (stored === NOT_A_TIME) return "NaT";
  const count = stored * BigInt(scale);
  if (unit === "generic") return count.toString();
  if (unit === "Y") return formatYear(1970n + count);
  if (unit === "M") {
    const year = 1970n + floorDivide(count, 12n);
    return `${formatYear(year)}-${pad(modulo(count, 12n) + 1n)}`;
  }
  if (unit === "W") return formatDays(count * 7n);
  const part = PARTS[unit];
  if (part === undefined) return formatDays(count);
  const time = modulo(count, part.perDay);
  return `${formatDays(floorDivide(count, part.perDay))}T${formatTime(time, part.digits)}`;
}

/** The count and its unit in words, `5 nanoseconds`; `NaT`. */
export function formatTimedelta(stored: bigint, unit: TimeUnit, scale: number): string {
  return stored === NOT_A_TIME ? "NaT" : `${stored * BigInt(scale)} ${NAMES[unit]}`;
}

function formatTime(time: bigint, digits: number): string {
  if (digits === -2) return pad(time);
  if (digits === -1) return `${pad(time / 60n)}:${pad(time % 60n)}`;
  const second = 10n ** BigInt(digits);
  const seconds = time / second;
  const clock = `${pad(seconds / 3600n)}:${pad((seconds / 60n) % 60n)}:${pad(seconds % 60n)}`;
  return digits === 0 ? clock : `${clock}.${pad(time % second, digits)}`;
}

/** The proleptic Gregorian date of a day counted from 1970-01-01, by eras of 400 years that start in March. */
function formatDays(day: bigint): string {
  const shifted = day + 719_468n;
  const era = floorDivide(shifted, 146_097n);
  const ofEra = shifted - era * 146_097n;
  const yearOfEra = (ofEra - ofEra / 1460n + ofEra / 36_524n - ofEra / 146_096n) / 365n;
  const ofYear = ofEra - (365n * yearOfEra + yearOfEra / 4n - yearOfEra / 100n);
  const march = (5n * ofYear + 2n) / 153n;
  const dayOfMonth = ofYear - (153n * march + 2n) / 5n + 1n;
  const month = march < 10n ? march + 3n : march - 9n;
  const year = yearOfEra + era * 400n + (month <= 2n ? 1n : 0n);
  return `${formatYear(year)}-${pad(month)}-${pad(dayOfMonth)}`;
}

function formatYear(year: bigint): string {
  return year < 0n ? `-${pad(-year, 4)}` : pad(year, 4);
}

function pad(value: bigint, width = 2): string {
  return value.toString().padStart(width, "0");
}

function floorDivide(a: bigint, b: bigint): bigint {
  const quotient = a / b;
  return a % b < 0n ? quotient - 1n : quotient;
}

function modulo(a: bigint, b: bigint): bigint {
  return a - floorDivide(a, b) * b;
}

import type { TimeUnit } from "../../src/index.ts";
