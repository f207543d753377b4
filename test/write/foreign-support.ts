/** What the tests of this folder share. */
import { type ErrorCode, SuperchunkError } from "../../src/errors.ts";

/** Bytes that tell their places: no two thousand in a row are alike. */
export function numbered(length: number, from = 0): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => ((i + from) * 7 + ((i + from) >> 8)) & 0xff);
}

/** All pieces in one. */
export async function collect(pieces: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  for await (const piece of pieces) parts.push(piece.slice());
  return new Uint8Array(Buffer.concat(parts));
}

/** The error of a promise that must fail with one of ours. */
export async function rejectionOf(
  promise: Promise<unknown>,
): Promise<SuperchunkError & { readonly code: ErrorCode }> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof SuperchunkError) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
}
