/**
 * Maps numpy data types to Zarr v3 data types, as zarr-python 3.4 writes them, or in a form that every reader accepts. Also
 * maps fill values: an archive's stored default value becomes JSON of Zarr v3 metadata, and item bytes.
 *
 * Knows names, configurations and byte orders; must not know chunks or stores. A dtype without a Zarr data type is refused with
 * the reason, never guessed. @see FORMAT.md [FZ]
 */

import { SuperchunkError } from "../../errors.ts";
import { formatDType, safeText } from "../../format/dtype.ts";
import type { DType, Field, JsonObject, JsonValue } from "../../format/types.ts";
import { type ItemTransform, packFields, swapParts } from "../../values/copy-items.ts";
import { NOT_A_TIME } from "../../values/values.ts";

/** How an array of a dtype is described in Zarr. */
export interface ZarrType {
  readonly dataType: JsonValue;
  readonly fill: Fill;
  /** The `bytes` codec, with its endianness if items have one. */
  readonly bytesCodec: JsonObject;
  /** Dimensions that an item becomes, after those of the array; empty if an item stays a value. */
  readonly itemShape: readonly number[];
  /** Bytes of an item in Zarr: the stored ones, unless items are transformed. */
  readonly itemSize: number;
  /** Set if stored items must be changed, with the reason: chunks cannot be copied then. */
  readonly transform: ItemTransform | undefined;
  /** The numpy spelling, if the Zarr data type does not express it. */
  readonly original: JsonValue | undefined;
  /** Attributes that tell other tools what the values mean. */
  readonly attributes: JsonObject;
  /** What could not be preserved, as text. */
  readonly notes: readonly string[];
}

interface TypeOptions {
  /** True: only data types that every Zarr v3 reader accepts: numbers, with extra dimensions for strings and structs. */
  readonly portable?: boolean | undefined;
  /** Default value as stored in the archive. */
  readonly fillValue?: JsonValue | undefined;
  /** Name in messages. */
  readonly path: string;
}

/**
 * Maps a dtype to Zarr. Throws `UNSUPPORTED` for Python objects, for items of no bytes, and, unless `portable`, for long
 * doubles and fields that are sub-arrays.
 */
export function mapDType(dtype: DType, options: TypeOptions): ZarrType {
  refuseObjects(dtype, options.path);
  if (dtype.itemSize === 0)
    throw unsupported(options.path, dtype, "has items of 0 bytes, which Zarr does not have");
  return options.portable === true ? mapPortable(dtype, options) : mapExact(dtype, options);
}

function mapExact(dtype: DType, options: TypeOptions): ZarrType {
  const dataType = nameOf(dtype, options.path);
  const transform = transformOf(dtype);
  const target = transform?.target ?? dtype;
  return {
    dataType,
    ...chooseFill(target, options),
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
      const { fill, notes } = chooseFill(dtype, options);
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
  }
  if (!["bytes", "void", "struct"].includes(dtype.kind) && !isLongDouble(dtype))
    return mapExact(dtype, options);
  const { fill, notes } = zeroFill(dtype, options);
  return { ...common, dataType: "uint8", fill, notes, bytesCodec: BYTES, itemShape: [dtype.itemSize] };
}

function chooseFill(dtype: DType, { fillValue }: TypeOptions): { fill: Fill; notes: string[] } {
  const fill = fillValue === undefined || fillValue === null ? undefined : fillFrom(dtype, fillValue);
  if (fill !== undefined || fillValue === undefined || fillValue === null)
    return { fill: fill ?? defaultFill(dtype), notes: [] };
  const kept = defaultFill(dtype);
  return { fill: kept, notes: [fillNote(fillValue, kept)] };
}

/** Items that become several numbers have a single fill value for each of them: zero. */
function zeroFill(dtype: DType, { fillValue }: TypeOptions): { fill: Fill; notes: string[] } {
  const fill: Fill = { json: 0, item: new Uint8Array(dtype.itemSize) };
  const isZero = fillValue === undefined || fillValue === null || fillValue === "";
  return { fill, notes: isZero ? [] : [fillNote(fillValue, fill)] };
}

function fillNote(stored: JsonValue, fill: Fill): string {
  return `the default value ${safeText(stored)} cannot be a fill value of this data type; the fill value is ${safeText(fill.json)}`;
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

/** `mixed` if there are fields of both orders. */
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
  // zarrs 0.2 swaps real and imaginary parts of big-endian complex numbers when it reads only a part of a chunk.
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
      if (isLongDouble(dtype))
        throw unsupported(
          path,
          dtype,
          `has items of ${dtype.itemSize} bytes, which no Zarr data type has; portable gives those of archives as bytes; store others as float64`,
        );
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

export function isLongDouble(dtype: DType): boolean {
  return (
    (dtype.kind === "float" && ![2, 4, 8].includes(dtype.itemSize)) ||
    (dtype.kind === "complex" && ![8, 16].includes(dtype.itemSize))
  );
}

/** CF units, which xarray converts back to dates; units that CF does not have are left out. */
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
  if (dtype.kind === "object")
    throw unsupported(
      path,
      dtype,
      "holds Python pickles, which can run code; superchunk never reads them. Convert them with the program that wrote them",
    );
}

function unsupported(path: string, dtype: DType, reason: string): SuperchunkError {
  return new SuperchunkError("UNSUPPORTED", `dtype ${dtype.kind} ${reason}`, {
    path,
    field: "dtype",
    found: dtype.kind,
  });
}

/** What decides how a number is stored in an item. */
type Word = { readonly itemSize: number; readonly byteOrder: "little" | "big" | "none" };

/** A fill value in both forms. */
interface Fill {
  /** As `fill_value` of an array document. */
  readonly json: JsonValue;
  /** One item, in the byte order of the dtype. */
  readonly item: Uint8Array;
}

/** The fill value for a stored default; undefined if the data type cannot represent it. */
function fillFrom(dtype: DType, stored: JsonValue): Fill | undefined {
  if (dtype.kind === "complex") return complexFill(dtype, stored);
  if (dtype.kind === "struct") return structFill(dtype, stored);
  const scalar = uniform(stored);
  if (scalar === undefined) return undefined;
  switch (dtype.kind) {
    case "bool":
      if (scalar === true || scalar === 1) return boolFill(true);
      return scalar === false || scalar === 0 ? boolFill(false) : undefined;
    case "int":
    case "uint":
      return integerFill({ ...dtype, kind: dtype.kind }, scalar);
    case "datetime":
    case "timedelta":
      return scalar === "NaT" ? defaultFill(dtype) : integerFill({ ...dtype, kind: "int" }, scalar);
    case "float":
      return floatFill(dtype, scalar);
    case "bytes":
      return typeof scalar === "string" ? bytesFill(dtype.itemSize, scalar) : undefined;
    case "void": {
      const fill = typeof scalar === "string" ? bytesFill(dtype.itemSize, scalar) : undefined;
      return fill && { json: base64(fill.item), item: fill.item };
    }
    case "unicode":
      return typeof scalar === "string" ? unicodeFill(dtype, scalar) : undefined;
    default:
      return undefined;
  }
}

/** zarr-python 3.4's value if no default is known: zero, empty, NaT. */
function defaultFill(dtype: DType): Fill {
  const item = new Uint8Array(dtype.itemSize);
  switch (dtype.kind) {
    case "bool":
      return boolFill(false);
    case "complex":
      return { json: [0, 0], item };
    case "datetime":
    case "timedelta":
      item[dtype.byteOrder === "big" ? 0 : 7] = 0x80;
      return { json: NOT_A_TIME, item };
    case "bytes":
    case "unicode":
      return { json: "", item };
    case "void":
      return { json: base64(item), item };
    case "struct":
      return {
        json: Object.fromEntries(dtype.fields.map((each) => [each.name, fieldDefault(each.dtype).json])),
        item,
      };
    default:
      return { json: 0, item };
  }
}

/** In zarr-python, dates inside a struct start from zero, not from NaT. */
function fieldDefault(dtype: DType): Fill {
  if (dtype.kind !== "datetime" && dtype.kind !== "timedelta") return defaultFill(dtype);
  return { json: 0, item: new Uint8Array(dtype.itemSize) };
}

/** A nested list of one repeated value stands for that value: blz 0.6 stores a whole row as `dflt`. */
function uniform(stored: JsonValue): JsonValue | undefined {
  if (!Array.isArray(stored)) return stored;
  let found: JsonValue | undefined;
  for (const each of stored as readonly JsonValue[]) {
    const value = uniform(each);
    if (value === undefined || (found !== undefined && !Object.is(found, value))) return undefined;
    found = value;
  }
  return found;
}

function boolFill(value: boolean): Fill {
  return { json: value, item: Uint8Array.of(value ? 1 : 0) };
}

function integerFill(dtype: Word & { kind: "int" | "uint" }, value: JsonValue): Fill | undefined {
  const whole = typeof value === "number" && Number.isInteger(value) ? BigInt(value) : value;
  const bits = dtype.itemSize * 8;
  if (typeof whole !== "bigint") return undefined;
  if ((dtype.kind === "int" ? BigInt.asIntN : BigInt.asUintN)(bits, whole) !== whole) return undefined;
  const item = Uint8Array.from({ length: dtype.itemSize }, (_, i) =>
    Number((whole >> BigInt(8 * i)) & 0xffn),
  );
  const json = Number.isSafeInteger(Number(whole)) ? Number(whole) : whole;
  return { json, item: dtype.byteOrder === "big" ? item.reverse() : item };
}

/** Numbers that JSON spells as strings. */
const SPECIAL: readonly JsonValue[] = ["NaN", "Infinity", "-Infinity"];

function floatFill({ itemSize, byteOrder }: Word, value: JsonValue): Fill | undefined {
  if (typeof value !== "bigint" && typeof value !== "number" && !SPECIAL.includes(value)) return undefined;
  const number = Number(value);
  // The item would be infinity.
  if (itemSize === 4 && Number.isFinite(number) && !Number.isFinite(Math.fround(number))) return undefined;
  const item = new Uint8Array(itemSize);
  const [view, little] = [new DataView(item.buffer), byteOrder !== "big"];
  const half = itemSize === 2 ? halfBits(number) : undefined;
  if (itemSize === 8) view.setFloat64(0, number, little);
  else if (itemSize === 4) view.setFloat32(0, number, little);
  else if (half === undefined) return undefined;
  else view.setUint16(0, half, little);
  // JavaScript's JSON loses the sign of minus zero, but Zarr accepts its bits in hexadecimal.
  const json = Object.is(number, -0) ? `0x80${"00".repeat(itemSize - 1)}` : number;
  return { json: Number.isFinite(number) ? json : String(number), item };
}

/** float16 bits of a value that float16 represents exactly, else undefined. */
function halfBits(value: number): number | undefined {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  if (Number.isNaN(value)) return 0x7e00;
  if (!Number.isFinite(value)) return sign | 0x7c00;
  const magnitude = Math.abs(value);
  if (magnitude === 0) return sign;
  const exponent = Math.max(-14, Math.floor(Math.log2(magnitude)));
  const scaled = magnitude / 2 ** (exponent - 10);
  if (!Number.isInteger(scaled) || scaled >= 2048 || exponent > 15) return undefined;
  return sign | (scaled < 1024 ? scaled : ((exponent + 15) << 10) | (scaled - 1024));
}

/** A pair of numbers; a single number is the real part. */
function complexFill({ itemSize, byteOrder }: Word, stored: JsonValue): Fill | undefined {
  const pair: readonly JsonValue[] = Array.isArray(stored) ? stored : [stored, 0];
  const [re, im] = pair.map((part) =>
    Array.isArray(part) ? undefined : floatFill({ itemSize: itemSize / 2, byteOrder }, part),
  );
  if (pair.length !== 2 || re === undefined || im === undefined) return undefined;
  const item = new Uint8Array(itemSize);
  item.set(re.item);
  item.set(im.item, itemSize / 2);
  return { json: [re.json, im.json], item };
}

/** A value for each field, in order; null for a field's own default. */
function structFill(dtype: Extract<DType, { kind: "struct" }>, stored: JsonValue): Fill | undefined {
  if (!Array.isArray(stored) || stored.length !== dtype.fields.length) return undefined;
  const json: [string, JsonValue][] = [];
  const item = new Uint8Array(dtype.itemSize);
  for (const [i, { name, dtype: type, shape, offset }] of dtype.fields.entries()) {
    const value = (stored as readonly JsonValue[])[i] ?? null;
    const fill = value === null ? fieldDefault(type) : fillFrom(type, value);
    if (fill === undefined || shape.length > 0) return undefined;
    json.push([name, fill.json]);
    item.set(fill.item, offset);
  }
  return { json: Object.fromEntries(json), item };
}

function bytesFill(size: number, text: string): Fill | undefined {
  const item = new Uint8Array(size);
  if (text.length > size) return undefined;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code > 0xff) return undefined;
    item[i] = code;
  }
  return { json: base64(item.subarray(0, text.length)), item };
}

function unicodeFill(dtype: Word, text: string): Fill | undefined {
  const item = new Uint8Array(dtype.itemSize);
  const points = [...text];
  if (points.length * 4 > item.length) return undefined;
  const view = new DataView(item.buffer);
  points.forEach((point, i) => {
    view.setUint32(i * 4, point.codePointAt(0) ?? 0, dtype.byteOrder !== "big");
  });
  return { json: text, item };
}

/** A multiple of three, so that pieces need no padding between them; they fit on the stack. */
const BASE64_PIECE = 3 * 8192;

export function base64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += BASE64_PIECE)
    text += btoa(String.fromCharCode(...bytes.subarray(at, at + BASE64_PIECE)));
  return text;
}
