/** Bytes of tests as annotated hex, and the error of a failing call. */
import { isSuperchunkError, type SuperchunkError } from "../../src/errors.ts";

/** Bytes written as hexadecimal pairs; white space and `# comments` are ignored. */
export function hex(text: string): Uint8Array {
  const digits = text.replace(/#.*$/gm, "").replace(/\s+/g, "");
  if (!/^(?:[\da-f]{2})*$/i.test(digits)) throw new Error(`not hexadecimal: ${digits}`);
  return Uint8Array.from(digits.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}

/** Bytes as hexadecimal digits. */
export function toHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** UTF-8 bytes. */
export function utf8(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

/** The error of this library that `call` throws; fails if it throws nothing, or anything else. */
export function errorOf(call: () => unknown): SuperchunkError {
  let result: unknown;
  try {
    result = call();
  } catch (error) {
    if (isSuperchunkError(error)) return error;
    throw error;
  }
  throw new Error(`nothing was thrown, but ${String(result)} returned`);
}

/** The same for a promise. */
export async function rejectionOf(promise: Promise<unknown>): Promise<SuperchunkError> {
  const outcome = await promise.then(
    (value) => () => value,
    (error: unknown) => () => {
      throw error;
    },
  );
  return errorOf(outcome);
}
