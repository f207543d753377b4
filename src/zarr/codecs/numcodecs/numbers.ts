/**
 * Numbers in bytes, read and cast as numpy casts them. Integers of 8 bytes are bigint, all others are numbers.
 *
 * Knows dtypes of numbers; must not know filters.
 */
import { SuperchunkError } from "../../../errors.ts";
import type { DType } from "../../../format/types.ts";

/** A dtype of numbers. */
export type NumberType = Extract<DType, { kind: "int" | "uint" | "float" | "complex" }>;

/** True for integers, and floats of 4 and 8 bytes. */
export function isNumberType(dtype: DType): dtype is NumberType {
  if (dtype.kind === "int" || dtype.kind === "uint") return true;
  return dtype.kind === "float" && (dtype.itemSize === 4 || dtype.itemSize === 8);
}

/** Items of a dtype as numbers. */
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
    if (kind === "float") return itemSize === 8 ? view.getFloat64(at, little) : view.getFloat32(at, little);
    const signed = kind === "int";
    if (itemSize === 8) return signed ? view.getBigInt64(at, little) : view.getBigUint64(at, little);
    if (itemSize === 4) return signed ? view.getInt32(at, little) : view.getUint32(at, little);
    if (itemSize === 2) return signed ? view.getInt16(at, little) : view.getUint16(at, little);
    return signed ? view.getInt8(at) : view.getUint8(at);
  }

  /** Integers are wrapped, fractions cut off. Throws `BAD_CHUNK` for a float that no integer of the dtype is near. */
  set(index: number, value: number | bigint): void {
    const { kind, itemSize } = this.dtype;
    const at = index * itemSize;
    const little = this.#little;
    const view = this.#view;
    if (kind === "float") {
      if (itemSize === 8) view.setFloat64(at, Number(value), little);
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
    // Sums of integers are wrapped; what is beyond all of them came from a float, where casts have no one result.
    if (Math.abs(whole) <= 2 ** 33 || (itemSize === 8 && Math.abs(whole) < 2 ** (kind === "int" ? 63 : 64)))
      return whole;
    throw new SuperchunkError(
      "BAD_CHUNK",
      `a filter gives ${value}, which no integer of ${itemSize} bytes is near; the chunk or the metadata are damaged`,
      { field: "filters", expected: `${kind}${itemSize * 8}`, found: value },
    );
  }
}

/** A large integer as float32, rounded once: what is cut off leaves its mark in the lowest bit. */
function toSingle(value: bigint): number {
  const size = value < 0n ? -value : value;
  const high = size >> 11n;
  const marked = size % 2048n === 0n ? high : high | 1n;
  const single = size < 2n ** 53n ? Number(size) : Number(marked) * 2048;
  return Math.fround(value < 0n ? -single : single);
}
