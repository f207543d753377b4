/** Joins pieces in a new array, or in memory that `take` returns for their length. */
export function joinBytes(pieces: readonly Uint8Array[]): Uint8Array<ArrayBuffer>;
export function joinBytes(pieces: readonly Uint8Array[], take: (length: number) => Uint8Array): Uint8Array;
export function joinBytes(
  pieces: readonly Uint8Array[],
  take: (length: number) => Uint8Array = (length) => new Uint8Array(length),
): Uint8Array {
  const whole = take(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

export function toHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Compares bytes. */

/** True if both have the same bytes; false if the first is undefined. */
export function isEqual(a: Uint8Array | undefined, b: Uint8Array): boolean {
  if (a === undefined || a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

/** True if the machine is little-endian, as typed arrays show. */
export const IS_LITTLE_ENDIAN: boolean = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

/** Decodes the text in `src/kernels/generated`. */
export function fromHex(text: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(text.length / 2);
  for (let i = 0; i < bytes.length; i++) bytes[i] = Number.parseInt(text.slice(2 * i, 2 * i + 2), 16);
  return bytes;
}
