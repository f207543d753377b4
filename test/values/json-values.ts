import type { DType } from "../../src/format/types.ts";
import { type PlainJson, type TypedValues, toJsonValue } from "../../src/values/values.ts";

/** One JSON value for each value, as `cat --format json` writes them: by the rules of FORMAT.md [FD]. */
export function toJsonValues(data: TypedValues, dtype: DType): PlainJson[] {
  return Array.from(data as Iterable<unknown>, (value) => toJsonValue(value, dtype));
}
