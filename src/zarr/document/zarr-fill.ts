/**
 * Fill values: what an archive stores as its default value, as Zarr v3 metadata spells it and as item bytes.
 *
 * Knows the JSON forms of fill values by data type; must not know codecs, chunks or stores.
 * @see https://zarr-specs.readthedocs.io/en/latest/v3/data-types/index.html
 */
import type { DType, JsonValue } from "../../format/types.ts";

/** NaT, the count that numpy uses for "no date". */
export const NOT_A_TIME: bigint = -(2n ** 63n);

/** A fill value in both forms. */
export interface Fill {
  /** As `fill_value` of an array document. */
  readonly json: JsonValue;
  /** One item, in the byte order of the dtype. */
  readonly item: Uint8Array;
}

/** The fill value for a stored default, or undefined where the data type cannot hold it. */
export function fillFrom(dtype: DType, stored: JsonValue): Fill | undefined {
  if (dtype.kind === "complex") return complexFill(dtype, stored);
  if (dtype.kind === "struct") return structFill(dtype, stored);
  const scalar = uniform(stored);
  if (scalar === undefined) return undefined;
  switch (dtype.kind) {
    case "bool":
      return scalar === true || scalar === 1
        ? boolFill(true)
        : scalar === false || scalar === 0
          ? boolFill(false)
          : undefined;
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

/** What zarr-python 3.4 takes where no default is known: zero, empty, NaT. */
export function defaultFill(dtype: DType): Fill {
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
        json: Object.fromEntries(
          dtype.fields.map(({ name, dtype: type }) => [name, fieldDefault(type).json]),
        ),
        item,
      };
    default:
      return { json: 0, item };
  }
}

/** Dates inside of a struct start from zero there, not from NaT. */
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

function integerFill(
  dtype: { kind: "int" | "uint"; itemSize: number; byteOrder: string },
  value: JsonValue,
): Fill | undefined {
  const whole =
    typeof value === "bigint" ? value : Number.isInteger(value) ? BigInt(value as number) : undefined;
  if (whole === undefined) return undefined;
  const bits = dtype.itemSize * 8;
  const wrapped = dtype.kind === "int" ? BigInt.asIntN(bits, whole) : BigInt.asUintN(bits, whole);
  if (wrapped !== whole) return undefined;
  const json = whole >= Number.MIN_SAFE_INTEGER && whole <= Number.MAX_SAFE_INTEGER ? Number(whole) : whole;
  return { json, item: itemOf(BigInt.asUintN(bits, whole), dtype) };
}

function floatFill(dtype: { itemSize: number; byteOrder: string }, value: JsonValue): Fill | undefined {
  const number =
    typeof value === "bigint" ? Number(value) : typeof value === "number" ? value : SPECIAL[String(value)];
  if (number === undefined) return undefined;
  const bits = floatBits(number, dtype.itemSize);
  if (bits === undefined) return undefined;
  return { json: floatJson(number, bits, dtype.itemSize), item: itemOf(bits, dtype) };
}

/** A pair of numbers; one alone is the real part. */
function complexFill(
  { itemSize, byteOrder }: { itemSize: number; byteOrder: string },
  stored: JsonValue,
): Fill | undefined {
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

const SPECIAL: Readonly<Record<string, number>> = {
  NaN: Number.NaN,
  Infinity: Number.POSITIVE_INFINITY,
  "-Infinity": Number.NEGATIVE_INFINITY,
};

/** JSON has no minus zero in JavaScript's writing of it, but Zarr takes the bits in hexadecimal. */
function floatJson(value: number, bits: bigint, size: number): JsonValue {
  if (Object.is(value, -0)) return `0x${bits.toString(16).padStart(size * 2, "0")}`;
  return Number.isFinite(value) ? value : String(value);
}

function floatBits(value: number, size: number): bigint | undefined {
  const view = new DataView(new ArrayBuffer(8));
  if (size === 8) {
    view.setFloat64(0, value);
    return view.getBigUint64(0);
  }
  view.setFloat32(0, value);
  if (size === 4) return BigInt(view.getUint32(0));
  return size === 2 ? halfBits(value, view.getUint32(0)) : undefined;
}

/** float16 of a value that float16 holds exactly, else undefined. */
function halfBits(value: number, single: number): bigint | undefined {
  const sign = (single >>> 16) & 0x8000;
  if (Number.isNaN(value)) return 0x7e00n;
  if (!Number.isFinite(value)) return BigInt(sign | 0x7c00);
  const magnitude = Math.abs(value);
  if (magnitude === 0) return BigInt(sign);
  const exponent = Math.max(-14, Math.floor(Math.log2(magnitude)));
  const scaled = magnitude / 2 ** (exponent - 10);
  if (!Number.isInteger(scaled) || scaled >= 2048 || exponent > 15) return undefined;
  return BigInt(sign | (scaled < 1024 ? scaled : ((exponent + 15) << 10) | (scaled - 1024)));
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

function unicodeFill(dtype: { itemSize: number; byteOrder: string }, text: string): Fill | undefined {
  const item = new Uint8Array(dtype.itemSize);
  const points = [...text];
  if (points.length * 4 > item.length) return undefined;
  const view = new DataView(item.buffer);
  points.forEach((point, i) => {
    view.setUint32(i * 4, point.codePointAt(0) ?? 0, dtype.byteOrder !== "big");
  });
  return { json: text, item };
}

function itemOf(bits: bigint, { itemSize, byteOrder }: { itemSize: number; byteOrder: string }): Uint8Array {
  const item = new Uint8Array(itemSize);
  for (let i = 0; i < itemSize; i++) item[i] = Number((bits >> BigInt(8 * i)) & 0xffn);
  return byteOrder === "big" ? item.reverse() : item;
}

function base64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes));
}
