/** Writes little-endian fields into a buffer of fixed size. Knows no format. Pages that only read do not load it. */
import { SuperchunkError } from "../errors.ts";

/** A buffer of known length, filled field by field; all other bytes are zero. */
export class ByteWriter {
  readonly bytes: Uint8Array;
  readonly #view: DataView;

  constructor(length: number) {
    this.bytes = new Uint8Array(length);
    this.#view = new DataView(this.bytes.buffer);
  }

  uint8(at: number, value: number, field = "byte"): void {
    this.#check(value, 0, 0xff, field);
    this.#view.setUint8(at, value);
  }

  int32(at: number, value: number, field = "int32"): void {
    this.#check(value, -0x8000_0000, 0x7fff_ffff, field);
    this.#view.setInt32(at, value, true);
  }

  uint32(at: number, value: number, field = "uint32"): void {
    this.#check(value, 0, 0xffff_ffff, field);
    this.#view.setUint32(at, value, true);
  }

  /** Writes a safe integer as int64. */
  int64(at: number, value: number, field = "int64"): void {
    this.#check(value, Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER, field);
    this.#view.setBigInt64(at, BigInt(value), true);
  }

  put(at: number, bytes: Uint8Array): void {
    this.bytes.set(bytes, at);
  }

  #check(value: number, least: number, most: number, field: string): void {
    if (Number.isInteger(value) && value >= least && value <= most) return;
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `${field} ${value} cannot be stored: it must be an integer from ${least} to ${most}`,
      { field, expected: `${least} to ${most}`, found: value },
    );
  }
}
