/** Reads little-endian fields of stored bytes with bounds checks. Knows no format. */
import { type ErrorDetails, SuperchunkError } from "../errors.ts";

/** A window on bytes of a file. Positions count from the window's start; `base` is the file offset of that. */
export class ByteReader {
  readonly bytes: Uint8Array;
  /** Key or path of the file, for messages. */
  readonly path: string;
  /** Offset of the first byte in the file, for messages. */
  readonly base: number;
  readonly #view: DataView;

  constructor(bytes: Uint8Array, path: string, base = 0) {
    this.bytes = bytes;
    this.path = path;
    this.base = base;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  get length(): number {
    return this.bytes.length;
  }

  uint8(at: number, field = "byte"): number {
    this.need(at, 1, field);
    return this.#view.getUint8(at);
  }

  int32(at: number, field = "int32"): number {
    this.need(at, 4, field);
    return this.#view.getInt32(at, true);
  }

  uint32(at: number, field = "uint32"): number {
    this.need(at, 4, field);
    return this.#view.getUint32(at, true);
  }

  int64(at: number, field = "int64"): bigint {
    this.need(at, 8, field);
    return this.#view.getBigInt64(at, true);
  }

  /** The same as a number. Throws `BAD_FIELD` if it is not exact. */
  safeInt64(at: number, field = "int64"): number {
    return toSafeNumber(this.int64(at, field), { path: this.path, offset: at, field });
  }

  view(at: number, length: number, field = "bytes"): Uint8Array {
    this.need(at, length, field);
    return this.bytes.subarray(at, at + length);
  }

  /** Throws `TRUNCATED` unless there are `length` bytes from `at` on. */
  need(at: number, length: number, field: string): void {
    if (at >= 0 && length >= 0 && length <= this.length - at) return;
    const offset = this.base + at;
    const found = Math.max(0, this.length - at);
    throw new SuperchunkError(
      "TRUNCATED",
      offset + found === 0
        ? "the file is empty; look for a complete copy"
        : `${field} needs ${length} bytes at byte ${offset}, but there are only ${found}. The file is truncated; look for a complete copy`,
      { path: this.path, offset, field, expected: length, found },
    );
  }
}

// 64-bit integers as JavaScript numbers: the only place where a bigint of a file becomes a number.

const WORD = 0x1_0000_0000;

/**
 * A stored 64-bit integer as a number. Throws `BAD_FIELD` outside ±(2^53 - 1): no object is that large, so the field must be
 * wrong. `details` name the file and the field.
 */
export function toSafeNumber(value: bigint, details: ErrorDetails): number {
  const number = Number(value);
  if (Number.isSafeInteger(number)) return number;
  throw unsafeInteger(value, details);
}

/**
 * The same from the two halves of a stored integer, `low` unsigned and `high` signed, for tables where a bigint for each
 * entry would be slow.
 */
export function joinSafeNumber(low: number, high: number, details: () => ErrorDetails): number {
  const number = high * WORD + low;
  if (Number.isSafeInteger(number)) return number;
  throw unsafeInteger(BigInt(high) * BigInt(WORD) + BigInt(low), details());
}

function unsafeInteger(value: bigint, details: ErrorDetails): SuperchunkError {
  const where = details.offset === undefined ? "" : ` at byte ${details.offset}`;
  return new SuperchunkError(
    "BAD_FIELD",
    `${details.field ?? "a 64-bit integer"}${where} is ${value}, which is beyond the size of any file. The file is damaged; look for another copy`,
    { expected: "within ±(2^53 - 1)", found: value, ...details },
  );
}
