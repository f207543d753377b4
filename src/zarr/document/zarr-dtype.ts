/**
 * numpy data types as Zarr v3 data types, as zarr-python 3.4 writes them, and as every reader takes them.
 *
 * Knows names, configurations and byte orders; must not know chunks or stores. What has no Zarr data type is
 * refused with the reason, never guessed. @see FORMAT.md [FZ]
 */

import { SuperchunkError } from "../../errors.ts";
import { formatDType } from "../../format/dtype.ts";
import type { DType, Field, JsonObject, JsonValue } from "../../format/types.ts";
import { type ItemTransform, packFields, swapParts } from "../../values/item-transform.ts";
import { defaultFill, type Fill, fillFrom } from "./zarr-fill.ts";

/** How an array of some dtype is described in Zarr. */
export interface ZarrType {
  readonly dataType: JsonValue;
  readonly fill: Fill;
  /** The `bytes` codec, with its endianness where items have one. */
  readonly bytesCodec: JsonObject;
  /** Dimensions that an item becomes, after those of the array; empty where an item stays a value. */
  readonly itemShape: readonly number[];
  /** Bytes of an item in Zarr: the stored ones, unless items are transformed. */
  readonly itemSize: number;
  /** Set where stored items must be changed, so that chunks cannot be copied; with the reason. */
  readonly transform: ItemTransform | undefined;
  /** The numpy spelling, where the Zarr data type does not say it. */
  readonly original: JsonValue | undefined;
  /** Attributes that let other tools see what the values mean. */
  readonly attributes: JsonObject;
  /** What could not be carried over, in words. */
  readonly notes: readonly string[];
}

export interface TypeOptions {
  /** Only data types that every Zarr v3 reader takes: numbers, with extra dimensions for strings and structs. */
  readonly portable?: boolean | undefined;
  /** Default value as stored in the archive. */
  readonly fillValue?: JsonValue | undefined;
  /** How messages name the archive. */
  readonly path: string;
}

/**
 * Maps a dtype to Zarr. Throws `UNSUPPORTED` for Python objects, for items of no bytes, and, unless `portable`,
 * for long doubles and fields that are sub-arrays.
 */
export function mapDType(dtype: DType, options: TypeOptions): ZarrType {
  refuseObjects(dtype, options.path);
  if (dtype.itemSize === 0) {
    throw unsupported(options.path, dtype, "has items of 0 bytes, which Zarr does not have");
  }
  return options.portable === true ? mapPortable(dtype, options) : mapExact(dtype, options);
}

function mapExact(dtype: DType, options: TypeOptions): ZarrType {
  const dataType = nameOf(dtype, options.path);
  const transform = transformOf(dtype);
  const target = transform?.target ?? dtype;
  return {
    dataType,
    ...fillOf(target, options),
    bytesCodec: bytesCodec(target),
    itemShape: [],
    itemSize: target.itemSize,
    transform,
    original: undefined,
    attributes: {},
  };
}

function mapPortable(dtype: DType, options: TypeOptions): ZarrType {
  const original = formatDType(dtype);
  const common = { original, attributes: {}, itemSize: dtype.itemSize, transform: undefined };
  switch (dtype.kind) {
    case "datetime":
    case "timedelta": {
      const target: DType = { kind: "int", itemSize: 8, byteOrder: dtype.byteOrder };
      const { fill, notes } = fillOf(dtype, options);
      return {
        ...common,
        dataType: "int64",
        fill,
        notes,
        bytesCodec: bytesCodec(target),
        itemShape: [],
        attributes: timeAttributes(dtype),
      };
    }
    case "unicode": {
      const target: DType = { kind: "uint", itemSize: 4, byteOrder: dtype.byteOrder };
      return {
        ...common,
        dataType: "uint32",
        ...zeroFill(dtype, options),
        bytesCodec: bytesCodec(target),
        itemShape: [dtype.itemSize / 4],
      };
    }
    case "bytes":
    case "void":
    case "struct":
      return {
        ...common,
        dataType: "uint8",
        ...zeroFill(dtype, options),
        bytesCodec: { name: "bytes" },
        itemShape: [dtype.itemSize],
      };
    default:
      return isLongDouble(dtype)
        ? {
            ...common,
            dataType: "uint8",
            ...zeroFill(dtype, options),
            bytesCodec: { name: "bytes" },
            itemShape: [dtype.itemSize],
          }
        : mapExact(dtype, options);
  }
}

function fillOf(dtype: DType, { fillValue }: TypeOptions): { fill: Fill; notes: string[] } {
  const fill = fillValue === undefined || fillValue === null ? undefined : fillFrom(dtype, fillValue);
  if (fill !== undefined || fillValue === undefined || fillValue === null) {
    return { fill: fill ?? defaultFill(dtype), notes: [] };
  }
  const kept = defaultFill(dtype);
  return { fill: kept, notes: [fillNote(fillValue, kept)] };
}

/** Items that become several numbers have one fill value for each of them: zero. */
function zeroFill(dtype: DType, { fillValue }: TypeOptions): { fill: Fill; notes: string[] } {
  const fill: Fill = { json: 0, item: new Uint8Array(dtype.itemSize) };
  const isZero = fillValue === undefined || fillValue === null || fillValue === "";
  return { fill, notes: isZero ? [] : [fillNote(fillValue, fill)] };
}

function fillNote(stored: JsonValue, fill: Fill): string {
  const text = (value: JsonValue): string =>
    JSON.stringify(value, (_, each) => (typeof each === "bigint" ? String(each) : each));
  return `the default value ${text(stored)} cannot be a fill value of this data type; the fill value is ${text(fill.json)}`;
}

const BYTES: JsonObject = { name: "bytes" };

function bytesCodec(dtype: DType): JsonObject {
  const order = dtype.kind === "struct" ? structOrder(dtype.fields) : dtype.byteOrder;
  if (dtype.kind === "struct")
    return { name: "bytes", configuration: { endian: order === "big" ? "big" : "little" } };
  return order === "none" || dtype.itemSize === 1
    ? BYTES
    : { name: "bytes", configuration: { endian: order } };
}

/** `mixed` where fields of both orders stand side by side. */
function structOrder(fields: readonly Field[]): "little" | "big" | "none" | "mixed" {
  let found: "little" | "big" | "none" | "mixed" = "none";
  for (const { dtype } of fields) {
    const order =
      dtype.kind === "struct" ? structOrder(dtype.fields) : dtype.itemSize === 1 ? "none" : dtype.byteOrder;
    if (order === "none") continue;
    found = found === "none" || found === order ? order : "mixed";
  }
  return found;
}

function transformOf(dtype: DType): ItemTransform | undefined {
  // zarrs 0.2 swaps real and imaginary parts of big-endian complex numbers where it reads a part of a chunk, not all of it.
  if (dtype.kind === "complex" && dtype.byteOrder === "big") return swapParts({ ...dtype, kind: dtype.kind });
  if (dtype.kind !== "struct") return undefined;
  const order = structOrder(dtype.fields);
  const packed = isPacked(dtype);
  if (packed && (order === "none" || order === "little" || (order === "big" && !hasComplex(dtype))))
    return undefined;
  const why = packed
    ? "its fields differ in byte order, which a Zarr struct cannot express"
    : "a Zarr struct has no padding between its fields";
  return packFields(dtype, order !== "little" && order !== "none", why);
}

function isPacked(dtype: DType): boolean {
  if (dtype.kind !== "struct") return true;
  let at = 0;
  for (const field of dtype.fields) {
    if (field.offset !== at || !isPacked(field.dtype)) return false;
    at += field.dtype.itemSize;
  }
  return at === dtype.itemSize;
}

function hasComplex(dtype: DType): boolean {
  return dtype.kind === "struct"
    ? dtype.fields.some((field) => hasComplex(field.dtype))
    : dtype.kind === "complex";
}

function nameOf(dtype: DType, path: string): JsonValue {
  switch (dtype.kind) {
    case "bool":
      return "bool";
    case "int":
    case "uint":
      return `${dtype.kind}${dtype.itemSize * 8}`;
    case "float":
    case "complex":
      if (isLongDouble(dtype)) {
        throw unsupported(
          path,
          dtype,
          `has items of ${dtype.itemSize} bytes, which no Zarr data type has; portable gives them as bytes`,
        );
      }
      return `${dtype.kind}${dtype.itemSize * 8}`;
    case "datetime":
    case "timedelta":
      return {
        name: `numpy.${dtype.kind}64`,
        configuration: { unit: dtype.unit, scale_factor: dtype.scale },
      };
    case "bytes":
      return sized("null_terminated_bytes", dtype.itemSize);
    case "unicode":
      return sized("fixed_length_utf32", dtype.itemSize);
    case "void":
      return sized("raw_bytes", dtype.itemSize);
    case "struct":
      return { name: "struct", configuration: { fields: dtype.fields.map((field) => fieldOf(field, path)) } };
    case "object":
      throw unsupported(path, dtype, "holds Python objects");
  }
}

function fieldOf(field: Field, path: string): JsonObject {
  if (field.shape.length > 0 || field.dtype.itemSize === 0) {
    const what = field.shape.length > 0 ? `a sub-array of shape [${field.shape}]` : "of 0 bytes";
    throw unsupported(
      path,
      field.dtype,
      `is ${what} in field "${field.name}", which a Zarr struct does not have; portable gives the items as bytes`,
    );
  }
  return { name: field.name, data_type: nameOf(field.dtype, path) };
}

function sized(name: string, bytes: number): JsonObject {
  return { name, configuration: { length_bytes: bytes } };
}

function isLongDouble(dtype: DType): boolean {
  return (
    (dtype.kind === "float" && ![2, 4, 8].includes(dtype.itemSize)) ||
    (dtype.kind === "complex" && ![8, 16].includes(dtype.itemSize))
  );
}

/** CF's words, which xarray turns back into dates; units that CF does not have get none. */
const CF_UNITS: Readonly<Record<string, string>> = {
  D: "days",
  h: "hours",
  m: "minutes",
  s: "seconds",
  ms: "milliseconds",
  us: "microseconds",
  ns: "nanoseconds",
};

function timeAttributes(dtype: { kind: "datetime" | "timedelta"; unit: string; scale: number }): JsonObject {
  const unit = CF_UNITS[dtype.unit];
  if (unit === undefined || dtype.scale !== 1) return {};
  return dtype.kind === "timedelta"
    ? { units: unit }
    : { units: `${unit} since 1970-01-01`, calendar: "proleptic_gregorian" };
}

function refuseObjects(dtype: DType, path: string): void {
  if (dtype.kind === "struct") for (const field of dtype.fields) refuseObjects(field.dtype, path);
  if (dtype.kind === "object") {
    throw unsupported(
      path,
      dtype,
      "holds Python pickles, which can run code when they are read; they are never read. Convert them with the program that wrote them",
    );
  }
}

function unsupported(path: string, dtype: DType, reason: string): SuperchunkError {
  return new SuperchunkError("UNSUPPORTED", `dtype ${dtype.kind} ${reason}`, {
    path,
    field: "dtype",
    found: dtype.kind,
  });
}
