/**
 * Ranges of bytes against the size of an object.
 *
 * Knows the rule "cut off at the end"; must not know any store.
 */
import { SuperchunkError } from "../errors.ts";
import type { ByteRange } from "./types.ts";

export interface ResolvedRange {
  readonly offset: number;
  readonly length: number;
}

/**
 * Refuses a range that no object can have.
 *
 * @throws BAD_ARGUMENT for a negative, fractional or unsafe number
 */
export function checkRange(range: ByteRange, path: string): void {
  if ("suffixLength" in range) checkCount(range.suffixLength, "suffixLength", path);
  else {
    checkCount(range.offset, "offset", path);
    checkCount(range.length, "length", path);
  }
}

/**
 * Cuts a range off at the end of an object of `size` bytes.
 *
 * @throws BAD_ARGUMENT as {@link checkRange}
 */
export function resolveRange(range: ByteRange, size: number, path: string): ResolvedRange {
  checkRange(range, path);
  if ("suffixLength" in range) {
    const length = Math.min(range.suffixLength, size);
    return { offset: size - length, length };
  }
  const offset = Math.min(range.offset, size);
  return { offset, length: Math.min(range.length, size - offset) };
}

/**
 * Refuses what is not a count of bytes.
 *
 * @throws BAD_ARGUMENT for a negative, fractional or unsafe number
 */
export function checkCount(value: number, field: string, path: string): void {
  if (!Number.isSafeInteger(value) || value < 0) {
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `${field} must be a whole number of bytes from 0, not ${value}`,
      { path, field, expected: "a safe integer from 0", found: value },
    );
  }
}
