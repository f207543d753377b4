/**
 * The JavaScript type of each dtype's values, and the conversion of stored bytes.
 *
 * Numbers are typed arrays in native byte order. Types without a typed array get a small container with `length`, `get(i)`
 * and iteration over the bytes. @see FORMAT.md [FD]
 */

import { elementsOf, IS_LITTLE_ENDIAN } from "../bytes/arrays.ts";
import { notNamed, SuperchunkError } from "../errors.ts";
import { whyUnreadable } from "../format/dtype.ts";
import type { DType, Field } from "../format/types.ts";

/** Values of a slice: a typed array, or a container over bytes. */
export type TypedValues =
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array
  | Float32Array
  | Float64Array
  | ValueContainer<Scalar>;

/** One value: a complex number is `[re, im]`, raw bytes are a view, a struct has its fields by name. */
export type Scalar =
  | number
  | bigint
  | boolean
  | string
  | readonly [number, number]
  | Uint8Array
  | StructValue;

/** Values that no typed array can hold. */
export interface ValueContainer<T> extends Iterable<T> {
  readonly length: number;
  /** Bytes of all values, items without gaps. */
  readonly bytes: Uint8Array;
  get(index: number): T;
}

/** A struct value: the fields by name, in order. */
export type StructValue = { readonly [field: string]: unknown };

abstract class Container<T> implements ValueContainer<T> {
  readonly bytes: Uint8Array;
  readonly itemSize: number;
  readonly length: number;

  constructor(bytes: Uint8Array, itemSize: number, length?: number) {
    this.bytes = bytes;
    this.itemSize = itemSize;
    this.length = length ?? (itemSize === 0 ? 0 : bytes.length / itemSize);
  }

  abstract get(index: number): T;

  *[Symbol.iterator](): Iterator<T> {
    for (let i = 0; i < this.length; i++) yield this.get(i);
  }

  protected item(index: number): Uint8Array {
    if (!(index >= 0 && index < this.length))
      throw new SuperchunkError("BAD_ARGUMENT", `index ${index} is outside of ${this.length} values`, {
        field: "index",
        expected: `0 to ${this.length - 1}`,
        found: index,
      });
    return this.bytes.subarray(index * this.itemSize, (index + 1) * this.itemSize);
  }
}

/** `bool`: true and false, one byte each. */
export class BoolArray extends Container<boolean> {
  constructor(bytes: Uint8Array) {
    super(bytes, 1);
  }

  get(index: number): boolean {
    return this.item(index)[0] !== 0;
  }
}

/** `complex64` and `complex128`: `[re, im]`; `parts` has both interleaved. */
export class ComplexArray extends Container<readonly [number, number]> {
  readonly parts: Float32Array | Float64Array;

  constructor(parts: Float32Array | Float64Array) {
    super(new Uint8Array(parts.buffer, parts.byteOffset, parts.byteLength), parts.BYTES_PER_ELEMENT * 2);
    this.parts = parts;
  }

  get(index: number): readonly [number, number] {
    this.item(index);
    return [this.parts[2 * index] ?? Number.NaN, this.parts[2 * index + 1] ?? Number.NaN];
  }
}

/** `S`: Latin-1 strings without the zero bytes at their end. */
export class ByteStringArray extends Container<string> {
  get(index: number): string {
    const item = this.item(index);
    let end = item.length;
    while (end > 0 && item[end - 1] === 0) end--;
    let text = "";
    for (let i = 0; i < end; i++) text += String.fromCharCode(item[i] as number);
    return text;
  }
}

/** `U`: strings without their trailing zero characters. Code points above Unicode's last are an error. */
export class UnicodeStringArray extends Container<string> {
  readonly #littleEndian: boolean;

  constructor(bytes: Uint8Array, itemSize: number, littleEndian: boolean, length?: number) {
    super(bytes, itemSize, length);
    this.#littleEndian = littleEndian;
  }

  get(index: number): string {
    const { buffer, byteOffset, length } = this.item(index);
    const view = new DataView(buffer, byteOffset, length);
    let end = length - (length % 4);
    while (end > 0 && view.getUint32(end - 4) === 0) end -= 4;
    let text = "";
    for (let at = 0; at < end; at += 4) {
      const point = view.getUint32(at, this.#littleEndian);
      if (point > 0x10ffff)
        throw new SuperchunkError(
          "BAD_FIELD",
          `value ${index} has the character ${point}, which Unicode does not have`,
          { field: "character", expected: "at most 0x10ffff", found: point },
        );
      text += String.fromCodePoint(point);
    }
    return text;
  }
}

/** `V`: the raw bytes of each value, a view. */
export class RawArray extends Container<Uint8Array> {
  get(index: number): Uint8Array {
    return this.item(index);
  }
}

/** Structured values, by field name; a sub-array field is a nested list. */
export class StructArray extends Container<StructValue> {
  readonly fields: readonly Field[];

  constructor(bytes: Uint8Array, itemSize: number, fields: readonly Field[], length?: number) {
    super(bytes, itemSize, length);
    this.fields = fields;
  }

  get(index: number): StructValue {
    const item = this.item(index);
    const value: Record<string, unknown> = Object.create(null);
    for (const field of this.fields) value[field.name] = fieldValue(item, field);
    return value;
  }

  /** Copies all values of one field. */
  field(name: string): TypedValues {
    const field = this.fields.find((each) => each.name === name);
    if (field === undefined) {
      const names = this.fields.map((each) => each.name);
      throw notNamed("field", name, names);
    }
    const size = fieldSize(field);
    const out = new Uint8Array(size * this.length);
    for (let i = 0; i < this.length; i++) {
      const at = i * this.itemSize + field.offset;
      out.set(this.bytes.subarray(at, at + size), i * size);
    }
    return toValues(out, field.dtype);
  }
}

/** Bytes of a field in its item, including the sub-array. */
export function fieldSize(field: Field): number {
  return elementsOf(field.shape) * field.dtype.itemSize;
}

function fieldValue(item: Uint8Array, field: Field): unknown {
  const bytes = item.slice(field.offset, field.offset + fieldSize(field));
  return nest([...toValues(bytes, field.dtype)], field.shape);
}

/** A flat list as nested lists of the given shape; the value itself if the shape is empty. */
export function nest(flat: readonly unknown[], shape: readonly number[]): unknown {
  if (shape.length === 0) return flat[0];
  const [first = 0, ...rest] = shape;
  const step = elementsOf(rest);
  return Array.from({ length: first }, (_, i) => nest(flat.slice(i * step, (i + 1) * step), rest));
}

/**
 * Values of stored items. Takes over `bytes`: the result is a view of them if their alignment allows it, and they are
 * converted to native byte order in place. Throws `UNSUPPORTED` for Python objects and long doubles.
 */
export function toValues(bytes: Uint8Array, dtype: DType, length?: number): TypedValues {
  const little = !("byteOrder" in dtype) || dtype.byteOrder !== "big";
  switch (dtype.kind) {
    case "bool":
      return new BoolArray(bytes);
    case "int":
    case "uint":
    case "float":
      return numbers(swapToNative(bytes, dtype.itemSize, little), dtype.kind, dtype.itemSize);
    case "datetime":
    case "timedelta":
      return numbers(swapToNative(bytes, 8, little), "int", 8);
    case "complex": {
      const parts = numbers(swapToNative(bytes, dtype.itemSize / 2, little), "float", dtype.itemSize / 2);
      if (parts instanceof Float32Array || parts instanceof Float64Array) return new ComplexArray(parts);
      throw unsupported(dtype);
    }
    case "bytes":
      return new ByteStringArray(bytes, dtype.itemSize, length);
    case "unicode":
      return new UnicodeStringArray(bytes, dtype.itemSize, little, length);
    case "void":
      return new RawArray(bytes, dtype.itemSize, length);
    case "struct":
      return new StructArray(bytes, dtype.itemSize, dtype.fields, length);
    case "object":
      throw unsupported(dtype);
  }
}

/** Refuses dtypes whose values this library cannot read. Throws `UNSUPPORTED`. */
export function assertReadable(dtype: DType, path: string): void {
  const message = whyUnreadable(dtype);
  if (message !== undefined)
    throw new SuperchunkError("UNSUPPORTED", message, { path, field: "dtype", found: dtype.kind });
}

function unsupported(dtype: DType): SuperchunkError {
  const reason = whyUnreadable(dtype) ?? noNumber(dtype.kind, dtype.itemSize);
  return new SuperchunkError("UNSUPPORTED", reason, { field: "dtype", found: dtype.kind });
}

function noNumber(kind: string, size: number): string {
  return `JavaScript has no number for a ${kind} of ${size} bytes (long double); read its bytes, with getBytes or in the format raw or npy`;
}

function swapToNative(bytes: Uint8Array, width: number, little: boolean): Uint8Array {
  if (little !== IS_LITTLE_ENDIAN && width > 1) swapBytes(bytes, width);
  return bytes;
}

/** Reverses each group of `width` bytes in place. */
export function swapBytes(bytes: Uint8Array, width: number): void {
  const half = width >> 1;
  for (let at = 0; at + width <= bytes.length; at += width)
    for (let i = 0; i < half; i++) {
      const other = at + width - 1 - i;
      const byte = bytes[at + i] as number;
      bytes[at + i] = bytes[other] as number;
      bytes[other] = byte;
    }
}

function numbers(bytes: Uint8Array, kind: "int" | "uint" | "float", size: number): TypedValues {
  const aligned = bytes.byteOffset % size === 0 ? bytes : bytes.slice();
  const at = [aligned.buffer, aligned.byteOffset, aligned.byteLength / size] as const;
  if (kind === "float" && size === 2) return widenHalf(new Uint16Array(...at));
  const Numbers = NUMBER_ARRAYS[`${kind}${size}`];
  if (Numbers === undefined)
    throw new SuperchunkError("UNSUPPORTED", noNumber(kind, size), { field: "dtype" });
  return new Numbers(...at);
}

/** The typed arrays of numbers, by kind and bytes. */
export const NUMBER_ARRAYS: {
  readonly [type: string]: new (buffer: ArrayBufferLike, offset: number, length: number) => TypedValues;
} = {
  ...{ int1: Int8Array, int2: Int16Array, int4: Int32Array, int8: BigInt64Array },
  ...{ uint1: Uint8Array, uint2: Uint16Array, uint4: Uint32Array, uint8: BigUint64Array },
  ...{ float4: Float32Array, float8: Float64Array },
};

/** Converts float16 to float32, exactly. */
function widenHalf(halves: Uint16Array): Float32Array {
  const bits = new Uint32Array(halves.length);
  for (let i = 0; i < halves.length; i++) {
    const half = halves[i] as number;
    const sign = (half & 0x8000) << 16;
    const exponent = (half >> 10) & 0x1f;
    const fraction = half & 0x3ff;
    if (exponent === 0x1f) bits[i] = sign | 0x7f800000 | (fraction << 13);
    else if (exponent !== 0) bits[i] = sign | ((exponent + 112) << 23) | (fraction << 13);
    else if (fraction !== 0) {
      const shift = Math.clz32(fraction) - 21;
      bits[i] = sign | ((113 - shift) << 23) | (((fraction << shift) & 0x3ff) << 13);
    } else bits[i] = sign;
  }
  return new Float32Array(bits.buffer);
}

// Values as JSON: the rules of FORMAT.md [FD], which the command's `cat --format json` follows.

/** A JSON value without bigint, as {@link toJsonValue} returns it. */
export type PlainJson = null | boolean | number | string | readonly PlainJson[];

/** The count that stands for no date or time span (NaT). */
export const NOT_A_TIME: bigint = -(2n ** 63n);

/**
 * The JSON value of a value as `get` returns a scalar: integers beyond 2^53 are decimal strings; NaN and the infinities are "NaN",
 * "Infinity", "-Infinity"; dates and time spans are decimal strings of the stored count or "NaT"; complex numbers are [re, im]; raw values
 * are lists of bytes; structured values are lists. S values are strings with one character per byte (Latin-1), from which programs get
 * the bytes back. With `text: "utf8"`, for people, they are the text that valid UTF-8 stands for.
 */
export function toJsonValue(value: unknown, dtype: DType, text: "latin1" | "utf8" = "latin1"): PlainJson {
  if (typeof value === "number") return Number.isFinite(value) ? value : String(value);
  if (typeof value === "bigint") {
    if (dtype.kind !== "datetime" && dtype.kind !== "timedelta") return integer(value);
    return value === NOT_A_TIME ? "NaT" : value.toString();
  }
  if (typeof value === "string" && dtype.kind === "bytes" && text === "utf8") return textOfBytes(value);
  if (typeof value === "boolean" || typeof value === "string") return value;
  if (value instanceof Uint8Array) return [...value];
  if (Array.isArray(value)) return value.map((part) => toJsonValue(part, dtype, text));
  if (dtype.kind === "struct" && typeof value === "object" && value !== null)
    return dtype.fields.map((field) =>
      toJsonValue((value as Record<string, unknown>)[field.name], field.dtype, text),
    );
  return null;
}

/** The text that a writer meant by bytes, which {@link ByteStringArray} returns as Latin-1: UTF-8, unless they are not valid UTF-8. */
function textOfBytes(latin: string): string {
  if (!/[\x80-\xff]/.test(latin)) return latin;
  try {
    const bytes = Uint8Array.from(latin, (letter) => letter.charCodeAt(0));
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return latin;
  }
}

function integer(value: bigint): PlainJson {
  const safe = value >= BigInt(Number.MIN_SAFE_INTEGER) && value <= BigInt(Number.MAX_SAFE_INTEGER);
  return safe ? Number(value) : value.toString();
}
