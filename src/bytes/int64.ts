/** 64-bit integers as JavaScript numbers: the one place where a bigint of a file becomes a number. */
import { type ErrorDetails, SuperchunkError } from "../errors.ts";

const WORD = 0x1_0000_0000;

/**
 * A stored 64-bit integer as a number. Throws `BAD_FIELD` outside ±(2^53 - 1): no object is that large, so the
 * field cannot be true. `details` say which file and field.
 */
export function toSafeNumber(value: bigint, details: ErrorDetails): number {
  const number = Number(value);
  if (Number.isSafeInteger(number)) return number;
  throw unsafeInteger(value, details);
}

/**
 * The same from the two halves of a stored integer, for tables where a bigint for each entry would cost too
 * much: `low` unsigned, `high` signed.
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
