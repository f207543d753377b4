/** Values as JSON: the rules of FORMAT.md [FD], which the command's `cat --format json` follows. */
import type { DType } from "../format/types.ts";
import type { TypedValues } from "./values.ts";

/** A JSON value without bigint: what {@link toJsonValues} gives. */
export type PlainJson = null | boolean | number | string | readonly PlainJson[];

const NOT_A_TIME = -(2n ** 63n);

/**
 * One JSON value for each value: integers beyond 2^53 are decimal strings; NaN and the infinities are "NaN",
 * "Infinity", "-Infinity"; dates and time spans are decimal strings of the stored count or "NaT"; complex numbers
 * are [re, im]; S values are Latin-1 strings; raw values are lists of bytes; structured values are lists.
 */
export function toJsonValues(data: TypedValues, dtype: DType): PlainJson[] {
  return Array.from(data as Iterable<unknown>, (value) => toJsonValue(value, dtype));
}

/** The same for one value, as `get` returns a scalar. */
export function toJsonValue(value: unknown, dtype: DType): PlainJson {
  if (typeof value === "number") return finiteOrName(value);
  if (typeof value === "bigint") {
    if (dtype.kind !== "datetime" && dtype.kind !== "timedelta") return integer(value);
    return value === NOT_A_TIME ? "NaT" : value.toString();
  }
  if (typeof value === "boolean" || typeof value === "string") return value;
  if (value instanceof Uint8Array) return [...value];
  if (Array.isArray(value)) return value.map((part) => toJsonValue(part, dtype));
  if (dtype.kind === "struct" && typeof value === "object" && value !== null) {
    return dtype.fields.map((field) =>
      toJsonValue((value as Record<string, unknown>)[field.name], field.dtype),
    );
  }
  return null;
}

function finiteOrName(value: number): PlainJson {
  return Number.isFinite(value) ? value : String(value);
}

function integer(value: bigint): PlainJson {
  const safe = value >= BigInt(Number.MIN_SAFE_INTEGER) && value <= BigInt(Number.MAX_SAFE_INTEGER);
  return safe ? Number(value) : value.toString();
}
