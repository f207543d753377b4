/**
 * The fill value of a Zarr array in the words of archives: what `meta/storage` says as `dflt`.
 *
 * Zarr's documents spell values by version and data type (base64, hexadecimal bits, objects); what counts is the item that
 * they come down to. @see FORMAT.md [FD]
 */

import { isEqual } from "../../bytes/equal.ts";
import type { DType, JsonValue } from "../../format/types.ts";
import { encodeItem } from "../../values/item-bytes.ts";
import { toValues } from "../../values/values.ts";
import type { ZarrArray } from "../../zarr/read/array.ts";

/** The default value of an archive with the array's values; null where the array has none (Zarr v2's null). */
export function storedDefault({ model: { fillItem, fillValue, dtype } }: ZarrArray): JsonValue {
  if (fillValue === null) return null;
  const values = toValues(fillItem.slice(), dtype, 1);
  return wordsOf("get" in values ? values.get(0) : values[0], dtype);
}

/** False where the words stand for another item than the array's: JSON has one NaN, without a sign and a payload. */
export function isDefaultExact(array: ZarrArray): boolean {
  const words = storedDefault(array);
  const { dtype, fillItem } = array.model;
  return words === null || isEqual(encodeItem(dtype, words), fillItem);
}

function wordsOf(value: unknown, dtype: DType): JsonValue {
  if (typeof value === "number") return Number.isFinite(value) ? value : String(value);
  if (typeof value === "bigint") {
    const number = Number(value);
    return Number.isSafeInteger(number) ? number : value;
  }
  if (typeof value === "boolean" || typeof value === "string") return value;
  // Raw bytes are characters of Latin-1, as those of S are.
  if (value instanceof Uint8Array) return Array.from(value, (byte) => String.fromCharCode(byte)).join("");
  if (dtype.kind === "struct" && !Array.isArray(value)) {
    const fields = value as Readonly<Record<string, unknown>>;
    return dtype.fields.map((field) => wordsOf(fields[field.name], field.dtype));
  }
  return (value as readonly unknown[]).map((part) => wordsOf(part, dtype));
}
