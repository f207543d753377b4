/**
 * Zarr v3 data types as numpy dtypes: names, and configurations as zarr-python 3.4 writes them. Fill values of Zarr v2 and v3
 * as the bytes of an item.
 *
 * Values in memory are little-endian; the stored byte order is that of the `bytes` codec.
 * @see https://zarr-specs.readthedocs.io/en/latest/v3/data-types/index.html
 */

import { fromHex, joinBytes } from "../../bytes/arrays.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { isTimeUnit } from "../../format/dtype.ts";
import { isObject } from "../../format/json.ts";
import type { DType, Field, JsonObject, JsonValue } from "../../format/types.ts";
import { encodeItem } from "../../values/item-bytes.ts";
import {
  asExtension,
  asInteger,
  asList,
  asText,
  badMember,
  below,
  type FieldPlace,
  showJson,
  unsupportedMember,
} from "./metadata-fields.ts";

const NUMBERS: ReadonlyMap<string, DType> = new Map<string, DType>([
  ["bool", { kind: "bool", itemSize: 1, byteOrder: "none" }],
  ...["int", "uint"].flatMap((kind) =>
    [8, 16, 32, 64].map((bits) => [`${kind}${bits}`, numberType(kind as "int" | "uint", bits)] as const),
  ),
  ...[16, 32, 64].map((bits) => [`float${bits}`, numberType("float", bits)] as const),
  ...[64, 128].map((bits) => [`complex${bits}`, numberType("complex", bits)] as const),
]);

/** Maximum nesting of structs. */
const MAX_DEPTH = 32;
/** Most bytes of an item. */
const MAX_ITEM = 2 ** 31 - 1;

/** The dtype of a `data_type`, little-endian. Throws `BAD_FIELD`, and `UNSUPPORTED` for unknown types. */
export function parseDataType(value: JsonValue | undefined, place: FieldPlace, depth = 0): DType {
  const { name, configuration } = asExtension(value, place);
  const number = NUMBERS.get(name);
  if (number !== undefined) return number;
  const raw = /^r([1-9]\d{0,9})$/.exec(name)?.[1];
  if (raw !== undefined) {
    if (Number(raw) % 8 !== 0) throw badMember(place, "raw bits in whole bytes", value);
    return { kind: "void", itemSize: Number(raw) / 8, byteOrder: "none" };
  }
  const inside = below(place, "configuration");
  switch (name) {
    case "raw_bytes":
      return { kind: "void", itemSize: lengthOf(configuration, inside), byteOrder: "none" };
    case "null_terminated_bytes":
      return { kind: "bytes", itemSize: lengthOf(configuration, inside), byteOrder: "none" };
    case "fixed_length_utf32": {
      const itemSize = lengthOf(configuration, inside);
      if (itemSize % 4 !== 0) throw badMember(below(inside, "length_bytes"), "a multiple of 4", itemSize);
      return { kind: "unicode", itemSize, byteOrder: "little" };
    }
    case "numpy.datetime64":
    case "numpy.timedelta64": {
      const unit = asText(configuration["unit"], below(inside, "unit"));
      if (!isTimeUnit(unit)) throw badMember(below(inside, "unit"), "a time unit of numpy", unit);
      const scale = asInteger(configuration["scale_factor"] ?? 1, 1, below(inside, "scale_factor"));
      const kind = name === "numpy.datetime64" ? "datetime" : "timedelta";
      return { kind, itemSize: 8, byteOrder: "little", unit, scale };
    }
    case "struct":
    case "structured": // zarr-python 3.1 and earlier
      return structType(configuration, inside, depth);
    default:
      throw unsupportedMember(
        place,
        `is ${showJson(name)}, a data type that superchunk does not read; numbers, bool, text, bytes, dates and structs are; read it with zarr-python`,
        value,
      );
  }
}

/** The same dtype with all its parts in another byte order. */
export function withByteOrder(dtype: DType, byteOrder: "little" | "big"): DType {
  if (dtype.kind === "struct")
    return {
      ...dtype,
      fields: dtype.fields.map((field) => ({ ...field, dtype: withByteOrder(field.dtype, byteOrder) })),
    };
  if (dtype.byteOrder === "none") return dtype;
  return { ...dtype, byteOrder };
}

/** True if the byte order of an item matters. */
export function hasByteOrder(dtype: DType): boolean {
  if (dtype.kind === "struct") return dtype.fields.some((field) => hasByteOrder(field.dtype));
  return dtype.byteOrder !== "none" && dtype.itemSize > 1;
}

function numberType(kind: "int" | "uint" | "float" | "complex", bits: number): DType {
  return { kind, itemSize: bits / 8, byteOrder: bits === 8 ? "none" : "little" };
}

function lengthOf(configuration: JsonObject, place: FieldPlace): number {
  const length = asInteger(configuration["length_bytes"], 0, below(place, "length_bytes"));
  if (length > MAX_ITEM) throw badMember(below(place, "length_bytes"), `at most ${MAX_ITEM}`, length);
  return length;
}

function structType(configuration: JsonObject, place: FieldPlace, depth: number): DType {
  if (depth >= MAX_DEPTH) throw unsupportedMember(place, `has more than ${MAX_DEPTH} levels`, depth);
  const inside = below(place, "fields");
  let offset = 0;
  const fields = asList(configuration["fields"], inside).map((entry, i): Field => {
    const at = below(inside, String(i));
    // zarr-python 3.1 and earlier: [name, data_type].
    const pair = Array.isArray(entry) ? { name: entry[0] ?? null, data_type: entry[1] ?? null } : entry;
    if (!isObject(pair)) throw badMember(at, "a field with name and data_type", entry);
    const name = asText(pair["name"], below(at, "name"));
    const dtype = parseDataType(pair["data_type"], below(at, "data_type"), depth + 1);
    const field: Field = { name, dtype, shape: [], offset };
    offset += dtype.itemSize;
    return field;
  });
  if (new Set(fields.map(({ name }) => name)).size !== fields.length)
    throw badMember(
      inside,
      "fields of different names",
      fields.map(({ name }) => name),
    );
  if (offset > MAX_ITEM) throw badMember(inside, `items of at most ${MAX_ITEM} bytes`, offset);
  return { kind: "struct", itemSize: offset, byteOrder: "none", fields };
}

/** Most bytes of an item: the fill value is allocated because of a document. */
const MAX_FILL = 64 << 20;

/**
 * One item with the fill value, in the byte order of the dtype. null (Zarr v2's "undefined") gives zero, empty or NaT. Throws
 * `BAD_FIELD` for a value that the dtype does not have, `LIMIT` for items of more than 64 MiB.
 */
export function parseFillValue(dtype: DType, value: JsonValue, place: FieldPlace): Uint8Array {
  if (dtype.itemSize > MAX_FILL)
    throw new SuperchunkError(
      "LIMIT",
      `the data type has items of ${dtype.itemSize} bytes; superchunk reads Zarr arrays with items of at most ${MAX_FILL}`,
      { path: place.path, field: "dtype", expected: `at most ${MAX_FILL}`, found: dtype.itemSize },
    );
  try {
    // Zero would be a date, 1970.
    const isTime = dtype.kind === "datetime" || dtype.kind === "timedelta";
    if (value === null) return isTime ? encodeItem(dtype, "NaT") : new Uint8Array(dtype.itemSize);
    return itemFromFill(dtype, value, place);
  } catch (error) {
    if (!isSuperchunkError(error, "BAD_ARGUMENT")) throw error;
    throw badMember(place, `a value of the data type ${dtype.kind} (${error.summary})`, value);
  }
}

function itemFromFill(dtype: DType, value: JsonValue, place: FieldPlace): Uint8Array {
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
          item.set(itemFromFill(field.dtype, member, place), field.offset);
        }
        return item;
      }
      // In version 2, zarr-python writes 0 for a struct of zeros, and base64 of the item otherwise.
      if (value === 0) return new Uint8Array(dtype.itemSize);
      return padded(bytesOf(value, place), dtype.itemSize, value, place);
    }
    case "unicode":
      // Zarr v2 arrays of strings use 0 for the empty string.
      return encodeItem(dtype, value === 0 ? "" : value);
    default:
      // zarr-python sometimes writes whole numbers of version 2 arrays as floats; 0.0 is parsed as 0 anyway.
      return encodeItem(dtype, value);
  }
}

/** A number, its name, or its bits in hexadecimal, most significant first. */
function floatItem(
  dtype: Extract<DType, { kind: "int" | "uint" | "float" | "complex" }>,
  value: JsonValue,
  place: FieldPlace,
): Uint8Array {
  if (typeof value !== "string" || !value.startsWith("0x"))
    return encodeItem(dtype, typeof value === "bigint" ? Number(value) : value);
  const digits = value.slice(2);
  if (digits.length !== dtype.itemSize * 2 || !/^[0-9a-fA-F]+$/.test(digits))
    throw badMember(place, `${dtype.itemSize * 2} hexadecimal digits`, value);
  const item = fromHex(digits);
  return dtype.byteOrder === "big" ? item : item.reverse();
}

/** base64 (zarr-python), or a list of bytes (the specification's raw types). Zarr v2 uses 0 for zeros. */
function bytesOf(value: JsonValue, place: FieldPlace): Uint8Array {
  if (value === 0) return new Uint8Array(0);
  if (Array.isArray(value))
    return Uint8Array.from(value as readonly JsonValue[], (byte) => {
      if (typeof byte === "number" && Number.isInteger(byte) && byte >= 0 && byte <= 255) return byte;
      throw badMember(place, "a list of bytes", value);
    });
  if (typeof value === "string" && /^[A-Za-z0-9+/]*={0,2}$/.test(value) && value.length % 4 === 0)
    return Uint8Array.from(atob(value), (character) => character.charCodeAt(0));
  throw badMember(place, "bytes in base64", value);
}

function padded(bytes: Uint8Array, length: number, value: JsonValue, place: FieldPlace): Uint8Array {
  if (bytes.length > length) throw badMember(place, `at most ${length} bytes`, value);
  const item = new Uint8Array(length);
  item.set(bytes);
  return item;
}
