/**
 * Fill values of array documents as item bytes.
 *
 * Knows the JSON forms of Zarr v2 and v3; must not know chunks.
 * @see https://zarr-specs.readthedocs.io/en/latest/v3/data-types/index.html
 */

import { joinBytes } from "../../bytes/join.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import type { DType, JsonValue } from "../../format/types.ts";
import { encodeItem } from "../../values/item-bytes.ts";
import { badMember, type FieldPlace, isObject } from "./metadata-fields.ts";

/** Bytes of an item at most: the fill value is one, made on the word of a document. */
const MAX_ITEM = 64 << 20;

/**
 * One item with the fill value, in the byte order of the dtype. null (Zarr v2's "undefined") gives zero bytes.
 * Throws `BAD_FIELD` for a value that the dtype does not have, `LIMIT` for items of more than 64 MiB.
 */
export function parseFillValue(dtype: DType, value: JsonValue, place: FieldPlace): Uint8Array {
  if (dtype.itemSize > MAX_ITEM) {
    throw new SuperchunkError(
      "LIMIT",
      `the data type has items of ${dtype.itemSize} bytes; superchunk reads Zarr arrays with items of at most ${MAX_ITEM}`,
      { path: place.path, field: "dtype", expected: `at most ${MAX_ITEM}`, found: dtype.itemSize },
    );
  }
  try {
    return value === null ? new Uint8Array(dtype.itemSize) : itemOf(dtype, value, place);
  } catch (error) {
    if (!isSuperchunkError(error, "BAD_ARGUMENT")) throw error;
    throw badMember(place, `a value of the data type ${dtype.kind} (${error.summary})`, value);
  }
}

function itemOf(dtype: DType, value: JsonValue, place: FieldPlace): Uint8Array {
  switch (dtype.kind) {
    case "float":
      return floatItem(dtype, value, place);
    case "complex": {
      const parts = Array.isArray(value) ? (value as readonly JsonValue[]) : [value, 0];
      if (parts.length !== 2) throw badMember(place, "[re, im]", value);
      const half = { ...dtype, kind: "float" as const, itemSize: dtype.itemSize / 2 };
      return joinBytes(parts.map((part) => floatItem(half, part, place)));
    }
    case "bytes":
    case "void":
      return padded(bytesOf(value, place), dtype.itemSize, value, place);
    case "struct": {
      if (isObject(value)) {
        const item = new Uint8Array(dtype.itemSize);
        for (const field of dtype.fields) {
          const member = Object.hasOwn(value, field.name) ? value[field.name] : undefined;
          if (member === undefined) throw badMember(place, `an object with the field "${field.name}"`, value);
          if (field.shape.length > 0) throw badMember(place, "no value for a field that is an array", value);
          item.set(itemOf(field.dtype, member, place), field.offset);
        }
        return item;
      }
      // zarr-python writes 0 for a struct of zeros in version 2, and base64 of the item otherwise.
      if (value === 0) return new Uint8Array(dtype.itemSize);
      return padded(bytesOf(value, place), dtype.itemSize, value, place);
    }
    case "unicode":
      // Zarr v2 arrays of strings have 0 for the empty one.
      return encodeItem(dtype, value === 0 ? "" : value);
    case "bool":
      return encodeItem(dtype, value);
    default:
      // zarr-python writes whole numbers of version 2 arrays as floats at times: 0.0 is parsed as 0 anyway.
      return encodeItem(dtype, value);
  }
}

/** A number, its name, or its bits in hexadecimal, most significant first. */
function floatItem(
  dtype: Extract<DType, { kind: "int" | "uint" | "float" | "complex" }>,
  value: JsonValue,
  place: FieldPlace,
): Uint8Array {
  if (typeof value !== "string" || !value.startsWith("0x")) {
    return encodeItem(dtype, typeof value === "bigint" ? Number(value) : value);
  }
  const digits = value.slice(2);
  if (digits.length !== dtype.itemSize * 2 || !/^[0-9a-fA-F]+$/.test(digits)) {
    throw badMember(place, `${dtype.itemSize * 2} hexadecimal digits`, value);
  }
  const item = new Uint8Array(dtype.itemSize);
  for (let i = 0; i < item.length; i++) item[i] = Number.parseInt(digits.slice(2 * i, 2 * i + 2), 16);
  return dtype.byteOrder === "big" ? item : item.reverse();
}

/** base64 (zarr-python), or a list of bytes (the specification's raw types). Zarr v2 has 0 for zeros. */
function bytesOf(value: JsonValue, place: FieldPlace): Uint8Array {
  if (value === 0) return new Uint8Array(0);
  if (Array.isArray(value)) {
    return Uint8Array.from(value as readonly JsonValue[], (byte) => {
      if (typeof byte === "number" && Number.isInteger(byte) && byte >= 0 && byte <= 255) return byte;
      throw badMember(place, "a list of bytes", value);
    });
  }
  if (typeof value === "string" && /^[A-Za-z0-9+/]*={0,2}$/.test(value) && value.length % 4 === 0) {
    return Uint8Array.from(atob(value), (character) => character.charCodeAt(0));
  }
  throw badMember(place, "bytes in base64", value);
}

function padded(bytes: Uint8Array, length: number, value: JsonValue, place: FieldPlace): Uint8Array {
  if (bytes.length > length) throw badMember(place, `at most ${length} bytes`, value);
  const item = new Uint8Array(length);
  item.set(bytes);
  return item;
}
