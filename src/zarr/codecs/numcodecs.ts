/**
 * Filters of numcodecs: the `filters` of Zarr v2, and `numcodecs.…` in Zarr v3. Array-to-array filters come before `bytes`;
 * bytes-to-bytes filters are `shuffle`, `lz4`, and four-byte checksums, which are always checked.
 *
 * Examples: `{"id":"delta","dtype":"<i4"}`, `{"id":"fixedscaleoffset","offset":0,"scale":10,"dtype":"<f8","astype":"<i2"}`; in
 * Zarr v3 `{"name":"numcodecs.shuffle","configuration":{"elementsize":4}}`. They are read with numpy's casts and roundings;
 * only `shuffle` can be written. Compatible with numcodecs 0.17.
 * @see https://numcodecs.readthedocs.io/en/stable/index.html
 */

import { joinBytes } from "../../bytes/arrays.ts";
import { digest } from "../../bytes/checksum.ts";
import { decodeStream } from "../../codec/stream.ts";
import { SuperchunkError } from "../../errors.ts";
import { parseDType } from "../../format/dtype.ts";
import type { DType, JsonObject } from "../../format/types.ts";
import { fromHalf, toHalf } from "../../values/item-bytes.ts";
import {
  asInteger,
  asObject,
  badMember,
  below,
  type FieldPlace,
  unsupportedMember,
} from "../document/metadata-fields.ts";
import { readOnlyStage, type Stage } from "./stage.ts";

// Numbers in bytes, read and cast like numpy. Integers of 8 bytes are bigint, all others are numbers. Knows dtypes of numbers;
// must not know filters.

export type NumberType = Extract<DType, { kind: "int" | "uint" | "float" | "complex" }>;

/** True for integers, and for floats of 4 and 8 bytes, or from `smallest` bytes on. */
export function isNumberType(dtype: DType, smallest = 4): dtype is NumberType {
  if (dtype.kind === "int" || dtype.kind === "uint") return true;
  return dtype.kind === "float" && dtype.itemSize >= smallest && dtype.itemSize <= 8;
}

export class NumberBytes {
  readonly dtype: NumberType;
  readonly bytes: Uint8Array;
  readonly #view: DataView;
  readonly #little: boolean;

  constructor(dtype: NumberType, bytes: Uint8Array) {
    this.dtype = dtype;
    this.bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#little = dtype.byteOrder !== "big";
  }

  get length(): number {
    return this.bytes.length / this.dtype.itemSize;
  }

  get(index: number): number | bigint {
    const { kind, itemSize } = this.dtype;
    const at = index * itemSize;
    const little = this.#little;
    const view = this.#view;
    if (kind === "float") {
      if (itemSize === 2) return fromHalf(view.getUint16(at, little));
      return itemSize === 8 ? view.getFloat64(at, little) : view.getFloat32(at, little);
    }
    const signed = kind === "int";
    if (itemSize === 8) return signed ? view.getBigInt64(at, little) : view.getBigUint64(at, little);
    if (itemSize === 4) return signed ? view.getInt32(at, little) : view.getUint32(at, little);
    if (itemSize === 2) return signed ? view.getInt16(at, little) : view.getUint16(at, little);
    return signed ? view.getInt8(at) : view.getUint8(at);
  }

  /** Wraps integers and truncates fractions. Throws `BAD_CHUNK` for a float far outside the dtype's integers. */
  set(index: number, value: number | bigint): void {
    const { kind, itemSize } = this.dtype;
    const at = index * itemSize;
    const little = this.#little;
    const view = this.#view;
    if (kind === "float") {
      if (itemSize === 8) view.setFloat64(at, Number(value), little);
      else if (itemSize === 2) view.setUint16(at, toHalf(Number(value)), little);
      else view.setFloat32(at, typeof value === "bigint" ? toSingle(value) : value, little);
      return;
    }
    const whole = typeof value === "bigint" ? value : this.#cutOff(value);
    if (itemSize === 8) view.setBigInt64(at, BigInt.asIntN(64, BigInt(whole)), little);
    else {
      const low = typeof whole === "bigint" ? Number(BigInt.asIntN(32, whole)) : whole;
      if (itemSize === 4) view.setInt32(at, low, little);
      else if (itemSize === 2) view.setInt16(at, low, little);
      else view.setInt8(at, low);
    }
  }

  #cutOff(value: number): number {
    const { kind, itemSize } = this.dtype;
    const whole = Math.trunc(value);
    // Sums of integers wrap. A value beyond all such sums came from a float, for which casts have no defined result.
    if (Math.abs(whole) <= 2 ** 33 || (itemSize === 8 && Math.abs(whole) < 2 ** (kind === "int" ? 63 : 64)))
      return whole;
    throw new SuperchunkError(
      "BAD_CHUNK",
      `a filter gives ${value}, which no integer of ${itemSize} bytes is near; the chunk or the metadata are damaged`,
      { field: "filters", expected: `${kind}${itemSize * 8}`, found: value },
    );
  }
}

/** Converts a large integer to float32 with a single rounding: truncated bits set the lowest bit. */
function toSingle(value: bigint): number {
  const size = value < 0n ? -value : value;
  const high = size >> 11n;
  const marked = size % 2048n === 0n ? high : high | 1n;
  const single = size < 2n ** 53n ? Number(size) : Number(marked) * 2048;
  return Math.fround(value < 0n ? -single : single);
}

/** A configured filter, and the dtype that it stores. */
export interface ArrayFilter {
  readonly stage: Stage;
  readonly encoded: DType;
}

/** How a filter's dtypes are determined. */
export interface FilterContext {
  /** Dtype of the items that it is given. */
  readonly dtype: DType;
  /** Byte order of all items, regardless of the configuration's dtypes; absent: as they say. */
  readonly byteOrder?: "little" | "big" | undefined;
}

/**
 * The filter with this name; undefined if there is none. Throws `BAD_FIELD`, and `UNSUPPORTED` for dtypes that are not implemented.
 */
export function arrayFilterOf(
  name: string,
  configuration: JsonObject,
  context: FilterContext,
  place: FieldPlace,
): ArrayFilter | undefined {
  const typeAt = (field: string, otherwise: DType): DType =>
    configuredType(configuration, field, otherwise, context, place);
  const numberAt = (field: string, otherwise: DType): NumberType => {
    const dtype = typeAt(field, otherwise);
    if (isNumberType(dtype, 2)) return dtype;
    throw unsupportedMember(
      below(place, field),
      `is ${dtype.kind} of ${dtype.itemSize} bytes, for which superchunk does not have the filter "${name}"; it has it for integers and floats of 2, 4 and 8 bytes`,
      configuration[field] ?? null,
    );
  };
  switch (name) {
    case "delta":
    case "quantize":
    case "astype": {
      const isCast = name === "astype";
      const decoded = numberAt(isCast ? "decode_dtype" : "dtype", context.dtype);
      const encoded = numberAt(isCast ? "encode_dtype" : "astype", decoded);
      return { stage: castStage(name, decoded, encoded, name === "delta" ? sumUp : castAll), encoded };
    }
    case "bitround":
      return {
        stage: { ...sizedStage(name, (n) => n), decode: async (bytes) => bytes },
        encoded: context.dtype,
      };
    case "fixedscaleoffset": {
      const decoded = numberAt("dtype", context.dtype);
      const encoded = numberAt("astype", decoded);
      const scale = finite(configuration, "scale", place);
      const offset = finite(configuration, "offset", place);
      const decode = (from: NumberBytes, to: NumberBytes): void => unscale(from, to, scale, offset);
      return { stage: castStage(name, decoded, encoded, decode), encoded };
    }
    case "packbits":
      return {
        stage: {
          ...sizedStage(name, (n) => 1 + Math.ceil(n / 8)),
          decode: async (bytes, limit) => unpackBits(bytes, limit),
        },
        encoded: { kind: "uint", itemSize: 1, byteOrder: "none" },
      };
    default:
      return undefined;
  }
}

function configuredType(
  configuration: JsonObject,
  field: string,
  otherwise: DType,
  { byteOrder }: FilterContext,
  place: FieldPlace,
): DType {
  const stored = configuration[field];
  const dtype = stored === undefined || stored === null ? otherwise : parseDType(stored, place.path);
  if (byteOrder === undefined || dtype.kind === "struct" || dtype.byteOrder === "none") return dtype;
  return { ...dtype, byteOrder };
}

function finite(configuration: JsonObject, field: string, place: FieldPlace): number {
  const value = asObject(configuration, place)[field];
  if (typeof value === "number" && Number.isFinite(value)) return value;
  throw badMember(below(place, field), "a number", value);
}

/** A read-only stage whose encoded length follows from the decoded one. */
function sizedStage(name: string, encodedLength: (nbytes: number) => number): Omit<Stage, "decode"> {
  return readOnlyStage("filter", name, { fixedOverhead: undefined, encodedLength });
}

export function castStage(
  name: string,
  decoded: NumberType,
  encoded: NumberType,
  decode: (from: NumberBytes, to: NumberBytes) => void,
): Stage {
  return {
    ...sizedStage(name, (nbytes) => (nbytes / decoded.itemSize) * encoded.itemSize),
    decode: async (bytes, limit) => {
      const count = bytes.length / encoded.itemSize;
      const nbytes = count * decoded.itemSize;
      if (!Number.isInteger(count) || nbytes > limit) throw wrongLength(name, encoded.itemSize, bytes.length);
      const out = new NumberBytes(decoded, new Uint8Array(nbytes));
      decode(new NumberBytes(encoded, bytes), out);
      return out.bytes;
    },
  };
}

function castAll(from: NumberBytes, to: NumberBytes): void {
  for (let i = 0; i < from.length; i++) to.set(i, from.get(i));
}

/** Running sums in the output dtype, like numpy's `cumsum(enc, out=dec)`. */
function sumUp(from: NumberBytes, to: NumberBytes): void {
  if (from.length === 0) return;
  to.set(0, from.get(0));
  for (let i = 1; i < from.length; i++) {
    const sum = to.get(i - 1);
    to.set(i, from.get(i)); // cast before it is added
    const step = to.get(i);
    to.set(i, typeof sum === "bigint" ? sum + BigInt(step) : sum + Number(step));
  }
}

/** How floats of a size are rounded. */
const ROUNDINGS: Readonly<Record<number, (value: number) => number>> = {
  2: (value) => fromHalf(toHalf(value)),
  4: Math.fround,
};

/** `enc / scale + offset`: in float16 or float32 if that is stored, else in float64. */
export function unscale(from: NumberBytes, to: NumberBytes, scale: number, offset: number): void {
  const { kind, itemSize } = from.dtype;
  const round = ROUNDINGS[kind === "float" ? itemSize : 8] ?? Number;
  const [by, plus] = [round(scale), round(offset)];
  for (let i = 0; i < from.length; i++) to.set(i, round(round(Number(from.get(i)) / by) + plus));
}

/** Unpacks bits, the highest first, after a byte with the number of padding bits in the last byte. */
function unpackBits(bytes: Uint8Array, limit: number): Uint8Array {
  const [padding] = bytes;
  const count = padding === undefined ? -1 : (bytes.length - 1) * 8 - padding;
  if (padding === undefined || padding > 7 || count < 0 || count > limit)
    throw wrongLength("packbits", 1, bytes.length);
  return Uint8Array.from({ length: count }, (_, i) => ((bytes[1 + (i >> 3)] as number) >> (7 - (i & 7))) & 1);
}

function wrongLength(name: string, itemSize: number, found: number): SuperchunkError {
  return new SuperchunkError(
    "BAD_CHUNK",
    `the filter "${name}" gets ${found} bytes, which are not its items of ${itemSize} bytes, or more of them than the chunk has; the chunk is damaged`,
    { field: "filters", expected: itemSize, found },
  );
}

const SUM = 4;
/** Words whose sum fits into 32 bits before it is folded. */
const WORDS_AT_ONCE = 360;

/** The codec with this name; undefined if there is none. Throws `BAD_FIELD`. */
export function byteFilterOf(name: string, configuration: JsonObject, place: FieldPlace): Stage | undefined {
  switch (name) {
    case "shuffle":
      return shuffleStage(asInteger(configuration["elementsize"] ?? 4, 1, below(place, "elementsize")));
    case "lz4":
      return { ...readOnlyStage("codec", "lz4", { fixedOverhead: undefined }), decode: decodeLz4 };
    case "crc32":
    case "adler32":
      return sumStage(name, isAtStart(configuration, place), async (bytes) => {
        const sum = await digest(name, bytes);
        return new DataView(sum.buffer, sum.byteOffset, SUM).getUint32(0, true);
      });
    case "fletcher32":
      return sumStage(name, false, async (bytes) => fletcher32(bytes));
    default:
      return undefined;
  }
}

function isAtStart(configuration: JsonObject, place: FieldPlace): boolean {
  const location = configuration["location"] ?? "start";
  if (location === "start" || location === "end") return location === "start";
  throw badMember(below(place, "location"), '"start" or "end"', location);
}

/** Stores the first bytes of all elements, then the second ones, and so on. Bytes after the last whole element stay there, as in HDF5. */
function shuffleStage(size: number): Stage {
  const turn = (bytes: Uint8Array, isBack: boolean): Uint8Array => {
    const out = bytes.slice();
    const count = Math.floor(bytes.length / size);
    const [step, rows, columns] = isBack ? [count, count, size] : [size, size, count];
    let at = 0;
    for (let row = 0; row < rows; row++)
      for (let column = 0; column < columns; column++) out[at++] = bytes[row + column * step] as number;
    return out;
  };
  return {
    name: "shuffle",
    v3: undefined,
    fixedOverhead: 0,
    decode: async (bytes) => turn(bytes, true),
    encode: async (bytes) => {
      if (bytes.length % size === 0) return turn(bytes, false);
      throw new SuperchunkError(
        "UNSUPPORTED",
        `the codec "shuffle" gets ${bytes.length} bytes, which elements of ${size} bytes do not divide; numcodecs would refuse to read the chunk`,
        { field: "elementsize", expected: size, found: bytes.length },
      );
    },
  };
}

/** Decodes an lz4 block after its decoded size. */
async function decodeLz4(bytes: Uint8Array, limit: number): Promise<Uint8Array> {
  const size = bytes.length < SUM ? -1 : new DataView(bytes.buffer, bytes.byteOffset, SUM).getUint32(0, true);
  if (size < 0 || size > limit)
    throw new SuperchunkError(
      "BAD_CHUNK",
      `the lz4 chunk promises ${size < 0 ? "nothing" : `${size} bytes`}, but may have at most ${limit}; the chunk is damaged`,
      { offset: 0, field: "lz4", expected: limit, found: size },
    );
  const decoded = await decodeStream("lz4", bytes.subarray(SUM), size);
  if (decoded.length === size) return decoded;
  throw new SuperchunkError(
    "BAD_CHUNK",
    `the lz4 chunk promises ${size} bytes at byte 0, but decodes to ${decoded.length}; the chunk is damaged`,
    { offset: 0, field: "lz4", expected: size, found: decoded.length },
  );
}

function sumStage(name: string, atStart: boolean, sumOf: (bytes: Uint8Array) => Promise<number>): Stage {
  return {
    ...readOnlyStage("codec", name, { fixedOverhead: SUM }),
    // Only for chunks of HDF5 that lack another filter: they are presented with all filters.
    encode: async (bytes) => {
      const sum = new Uint8Array(SUM);
      new DataView(sum.buffer).setUint32(0, await sumOf(bytes), true);
      return joinBytes(atStart ? [sum, bytes] : [bytes, sum]);
    },
    decode: async (bytes) => {
      if (bytes.length < SUM)
        throw new SuperchunkError(
          "TRUNCATED",
          `a ${name} takes ${SUM} bytes, but only ${bytes.length} are there`,
          { field: name, expected: SUM, found: bytes.length },
        );
      const at = atStart ? 0 : bytes.length - SUM;
      const data = atStart ? bytes.subarray(SUM) : bytes.subarray(0, at);
      const stored = new DataView(bytes.buffer, bytes.byteOffset + at, SUM).getUint32(0, true);
      const computed = await sumOf(data);
      if (stored === computed) return data;
      throw new SuperchunkError(
        "CHECKSUM_MISMATCH",
        `the stored ${name} at byte ${at} is ${stored}, but the ${data.length} bytes beside it give ${computed}; the bytes are damaged`,
        { offset: at, field: name, expected: stored, found: computed },
      );
    },
  };
}

/** HDF5's Fletcher sum: words of two bytes, the high one first. */
function fletcher32(bytes: Uint8Array): number {
  let low = 0;
  let high = 0;
  const fold = (sum: number): number => (sum & 0xffff) + (sum >>> 16);
  const words = Math.ceil(bytes.length / 2);
  for (let word = 0; word < words; word++) {
    low += ((bytes[2 * word] as number) << 8) | (bytes[2 * word + 1] as number);
    high += low;
    if ((word + 1) % WORDS_AT_ONCE === 0) {
      low = fold(low);
      high = fold(high);
    }
  }
  low = fold(fold(low));
  high = fold(fold(high));
  return ((high << 16) | low) >>> 0;
}
