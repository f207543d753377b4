/**
 * Checks the filters of callers against the columns.
 *
 * Must not know chunks or tables. @see docs/questions.md
 */

import { SuperchunkError } from "../errors.ts";
import type { DType } from "../format/types.ts";
import { storedTimes } from "../values/item-bytes.ts";
import { NOT_A_TIME } from "../values/values.ts";
import { type Comparable, type Domain, orderOf, type Predicate } from "./predicate.ts";

/** A value to compare a column with. Dates are ISO 8601 text, a `Date`, or the stored count. */
export type FilterValue = number | bigint | boolean | string | Date;

/** Comparisons of one column. All must hold. */
export interface FilterCondition {
  readonly gt?: FilterValue | undefined;
  readonly gte?: FilterValue | undefined;
  readonly lt?: FilterValue | undefined;
  readonly lte?: FilterValue | undefined;
  readonly eq?: FilterValue | undefined;
  readonly ne?: FilterValue | undefined;
  /** Equal to one of these values. */
  readonly in?: readonly FilterValue[] | undefined;
  /** Equal to none of these values, and not null. */
  readonly nin?: readonly FilterValue[] | undefined;
  /** From the first to the second, both included. */
  readonly between?: readonly [FilterValue, FilterValue] | undefined;
  /** True: NaN and NaT alone. False: all but these. */
  readonly null?: boolean | undefined;
}

/** Conditions by column name, one or several. All must hold. */
export type ScanFilter = Readonly<Record<string, FilterCondition | readonly FilterCondition[]>>;

const OPERATORS: readonly string[] = "gt gte lt lte eq ne in nin between null".split(" ");

export interface FilteredColumn {
  readonly name: string;
  readonly dtype: DType;
  /** True if its integers are seconds since 1970, which filters may give as dates. */
  readonly isSeconds: boolean;
}

/**
 * Checks a condition against a column.
 *
 * @throws BAD_ARGUMENT for an unknown operator, none at all, and values that the dtype cannot be compared with
 */
export function compileCondition(
  column: FilteredColumn,
  condition: FilterCondition,
  domain: Domain,
): Predicate {
  if (typeof condition !== "object" || condition === null || Array.isArray(condition))
    throw badFilter(column, "is not an object", condition, "for example { gt: 100 }");
  const names = Object.keys(condition).filter(
    (name) => condition[name as keyof FilterCondition] !== undefined,
  );
  const unknown = names.find((name) => !OPERATORS.includes(name));
  if (unknown !== undefined)
    throw badFilter(column, `has "${unknown}"`, unknown, `one of ${OPERATORS.join(", ")}`);
  if (names.length === 0)
    throw badFilter(column, "compares nothing", condition, `one of ${OPERATORS.join(", ")}`);
  const value = (name: string, given: unknown): Comparable => comparableOf(column, domain, name, given);
  const list = (name: "in" | "nin"): Comparable[] | undefined => {
    const given: unknown = condition[name];
    if (given === undefined) return undefined;
    if (!Array.isArray(given))
      throw badFilter(column, `has "${name}" without a list`, given, "a list of values");
    return given.map((each) => value(name, each));
  };
  const interval = new Interval(domain, column.dtype.kind !== "float");
  if (condition.gt !== undefined) interval.from(value("gt", condition.gt), true);
  if (condition.gte !== undefined) interval.from(value("gte", condition.gte));
  if (condition.lt !== undefined) interval.to(value("lt", condition.lt), true);
  if (condition.lte !== undefined) interval.to(value("lte", condition.lte));
  if (condition.eq !== undefined) interval.only([value("eq", condition.eq)]);
  if (condition.between !== undefined) {
    const between: readonly unknown[] = condition.between;
    if (!Array.isArray(between) || between.length !== 2)
      throw badFilter(column, 'has "between" without two values', between, "the first value and the last");
    interval.from(value("between", between[0]));
    interval.to(value("between", between[1]));
  }
  const among = list("in");
  if (among !== undefined) interval.only(among);
  const without = [...interval.without, ...(list("nin") ?? [])];
  if (condition.ne !== undefined) without.push(value("ne", condition.ne));
  if (condition.null !== undefined && typeof condition.null !== "boolean")
    throw badFilter(column, 'has a "null" that is not a boolean', condition.null, "true or false");
  const onlyNull = condition.null === true;
  return {
    domain,
    least: interval.least,
    greatest: interval.greatest,
    among: among === undefined ? undefined : new Set(among),
    without: new Set(without),
    onlyNull,
    isImpossible: onlyNull ? names.length > 1 : interval.isEmpty,
  };
}

/** A closed interval that is narrowed step by step. For integers and dates, its ends are values of the column. */
class Interval {
  least: Comparable | undefined;
  greatest: Comparable | undefined;
  /** Excluded ends, for text, which has no next value. */
  readonly without: Comparable[] = [];
  readonly #domain: Domain;
  readonly #isWhole: boolean;
  #isNone = false;

  constructor(domain: Domain, isWhole: boolean) {
    this.#domain = domain;
    this.#isWhole = isWhole;
  }

  get isEmpty(): boolean {
    const { least, greatest } = this;
    return this.#isNone || (least !== undefined && greatest !== undefined && orderOf(least, greatest) > 0);
  }

  from(value: Comparable, isOpen = false): void {
    const end = this.#end(value, isOpen, 1);
    if (end !== undefined && (this.least === undefined || orderOf(end, this.least) > 0)) this.least = end;
  }

  to(value: Comparable, isOpen = false): void {
    const end = this.#end(value, isOpen, -1);
    if (end !== undefined && (this.greatest === undefined || orderOf(end, this.greatest) < 0))
      this.greatest = end;
  }

  /** Narrows to the range of the given values. */
  only(values: readonly Comparable[]): void {
    const [first, ...others] = values;
    if (first === undefined) {
      this.#isNone = true;
      return;
    }
    this.from(others.reduce((least, each) => (orderOf(each, least) < 0 ? each : least), first));
    this.to(others.reduce((most, each) => (orderOf(each, most) > 0 ? each : most), first));
  }

  /** The first or last value of the interval; undefined if it has no end. */
  #end(value: Comparable, isOpen: boolean, inward: 1 | -1): Comparable | undefined {
    if (typeof value === "string") {
      if (isOpen) this.without.push(value);
      return value;
    }
    if (typeof value === "bigint") return isOpen ? value + BigInt(inward) : value;
    if (!this.#isWhole) {
      if (isOpen && value === inward * Number.POSITIVE_INFINITY) this.#isNone = true;
      return isOpen ? nextFloat(value, inward) : value;
    }
    if (!Number.isFinite(value)) {
      if (value > 0 === inward > 0) this.#isNone = true;
      return undefined;
    }
    // A number between two integers, or an integer.
    const rounded = inward === 1 ? Math.ceil(value) : Math.floor(value);
    const end = isOpen && rounded === value ? value + inward : rounded;
    return this.#domain === "number" ? end : BigInt(end);
  }
}

const FLOAT = new DataView(new ArrayBuffer(8));

/** The next double in a direction; the last one stays. */
function nextFloat(value: number, direction: 1 | -1): number {
  if (value === 0) return direction * Number.MIN_VALUE;
  if (value === direction * Number.POSITIVE_INFINITY) return value;
  FLOAT.setFloat64(0, value);
  const bits = FLOAT.getBigInt64(0);
  FLOAT.setBigInt64(0, bits + (value > 0 === direction > 0 ? 1n : -1n));
  return FLOAT.getFloat64(0);
}

const SECONDS: DType = { kind: "datetime", itemSize: 8, byteOrder: "little", unit: "s", scale: 1 };

/** Converts a filter's value for comparison with the column's values. */
function comparableOf(column: FilteredColumn, domain: Domain, operator: string, given: unknown): Comparable {
  const { dtype } = column;
  const value = given instanceof Date && !Number.isNaN(given.getTime()) ? given.toISOString() : given;
  if (value === "NaT" || Number.isNaN(value) || (value === NOT_A_TIME && domain === "time"))
    throw badFilter(
      column,
      `has "${operator}" with ${String(value)}, which no value equals`,
      given,
      "null: true",
    );
  const wrong = (expected: string): SuperchunkError =>
    badFilter(column, `has "${operator}" with ${shown(given)}`, given, expected);
  if (domain === "text") {
    if (typeof value === "string" && !(given instanceof Date)) return value;
    throw wrong("text");
  }
  if (domain === "bool") {
    if (typeof value === "boolean" || value === 0 || value === 1) return Number(value);
    throw wrong("true or false");
  }
  if (typeof value === "string" && (dtype.kind === "datetime" || column.isSeconds)) {
    const count = storedTimes(column.isSeconds ? SECONDS : dtype, value);
    if (typeof count === "bigint") return domain === "number" ? Number(count) : count;
  }
  if (typeof value === "number")
    return domain !== "number" && Number.isInteger(value) ? BigInt(value) : value;
  if (typeof value === "bigint") {
    if (domain !== "number") return value;
    // Numbers beyond 2^53 are out of the range of these integers anyway.
    if (dtype.kind !== "float" || BigInt(Number(value)) === value) return Number(value);
    throw wrong("a number that a float can have");
  }
  if (domain === "time" && dtype.kind === "timedelta") throw wrong("the stored count");
  throw wrong(
    domain === "time" || column.isSeconds ? "a date (2020-01-31), or the stored count" : "a number",
  );
}

function shown(value: unknown): string {
  return typeof value === "bigint" ? `${value}` : (JSON.stringify(value) ?? String(value)).slice(0, 80);
}

function badFilter(
  { name }: Pick<FilteredColumn, "name">,
  what: string,
  found: unknown,
  expected: string,
): SuperchunkError {
  const message = `the filter of column "${name}" ${what}; expected ${expected}`;
  return new SuperchunkError("BAD_ARGUMENT", message, { field: `filter.${name}`, expected, found });
}
