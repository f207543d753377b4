/** Values that a caller gives, as items in stored byte order. Knows dtypes; must not know chunks. */

import { IS_LITTLE_ENDIAN } from "../../bytes/arrays.ts";
import { SuperchunkError } from "../../errors.ts";
import type { DType } from "../../format/types.ts";
import { type ItemView, swapItems } from "../../values/copy-items.ts";
import { putItem } from "../../values/item-bytes.ts";
import { stridesOf } from "../../values/selection.ts";

/**
 * Values of a selection in C order: a typed array, a list, a container as `get` gives it; or one value for all, of
 * structs an object with the fields.
 */
export type ValueSource =
  | ArrayLike<unknown>
  | Iterable<unknown>
  | Readonly<Record<string, unknown>>
  | number
  | bigint
  | boolean
  | string;

/** A view of the items, with strides of 0 where one value stands for all. Throws `BAD_ARGUMENT` for another number of values. */
export function viewValues(values: ValueSource, dtype: DType, counts: readonly number[]): ItemView {
  const count = counts.reduce((product, n) => product * n, 1);
  const { itemSize } = dtype;
  if (isSingle(values)) return repeatValue(values, dtype, counts);
  const raw = rawItems(values, dtype);
  if (raw !== undefined) {
    checkCount(raw.length / itemSize, count);
    return { bytes: raw, offset: 0, strides: stridesOf(counts) };
  }
  const list = Array.from(values as Iterable<unknown>);
  // A pair of parts, or the bytes of one raw item, where it cannot be one value for each item.
  if (list.length !== count && (dtype.kind === "complex" || dtype.kind === "void")) {
    return repeatValue(values, dtype, counts);
  }
  checkCount(list.length, count);
  const bytes = new Uint8Array(count * itemSize);
  const view = new DataView(bytes.buffer);
  list.forEach((value, i) => {
    putItem(view, i * itemSize, dtype, value);
  });
  return { bytes, offset: 0, strides: stridesOf(counts) };
}

/** A view of items that are bytes already, in the byte order of `dtype`. Throws `BAD_ARGUMENT` for another length. */
export function viewBytes(bytes: Uint8Array, dtype: DType, counts: readonly number[]): ItemView {
  checkCount(
    bytes.length / dtype.itemSize,
    counts.reduce((product, n) => product * n, 1),
  );
  return { bytes, offset: 0, strides: stridesOf(counts) };
}

function repeatValue(value: unknown, dtype: DType, counts: readonly number[]): ItemView {
  const item = new Uint8Array(dtype.itemSize);
  putItem(new DataView(item.buffer), 0, dtype, value);
  return { bytes: item, offset: 0, strides: counts.map(() => 0) };
}

/** True for what is not a list of any kind. */
function isSingle(values: ValueSource): boolean {
  return typeof values !== "object" || !(Symbol.iterator in values || "length" in values);
}

/** The items of a typed array of the very type, without looking at each. */
function rawItems(values: ValueSource, dtype: DType): Uint8Array | undefined {
  if (!ArrayBuffer.isView(values)) return undefined;
  const { buffer, byteOffset, byteLength } = values as Uint8Array;
  if (values.constructor.name !== ARRAYS[`${dtype.kind}${dtype.itemSize}`]) return undefined;
  const bytes = new Uint8Array(buffer, byteOffset, byteLength);
  const little = dtype.byteOrder !== "big";
  return little === IS_LITTLE_ENDIAN || dtype.itemSize === 1 ? bytes : swapItems(bytes.slice(), dtype);
}

const ARRAYS: Readonly<Record<string, string>> = {
  int1: "Int8Array",
  int2: "Int16Array",
  int4: "Int32Array",
  int8: "BigInt64Array",
  uint1: "Uint8Array",
  uint2: "Uint16Array",
  uint4: "Uint32Array",
  uint8: "BigUint64Array",
  float4: "Float32Array",
  float8: "Float64Array",
  datetime8: "BigInt64Array",
  timedelta8: "BigInt64Array",
};

function checkCount(found: number, expected: number): void {
  if (found === expected) return;
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    `the selection has ${expected} items, but ${found} values are given`,
    {
      field: "values",
      expected,
      found,
    },
  );
}
