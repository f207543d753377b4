/** Undoes the Blosc2 filters that have no kernel, in place [BC-05, BC-06]. Knows the bytes of one block; must not know chunks. */
import { at } from "../bytes/arrays.ts";

/** Bytes that c-blosc2 sums at a time. */
const STEP = 16;

/** Undoes bytedelta: `width` streams, one after the other. In the old form the sums restart if fewer than 16 bytes remain. */
export function undoBytedelta(bytes: Uint8Array, width: number, isOld: boolean): void {
  const count = Math.floor(bytes.length / width);
  const again = isOld ? count - (count % STEP) : -1;
  for (let stream = 0; stream < width; stream++) {
    const start = stream * count;
    let sum = 0;
    for (let i = 0; i < count; i++) {
      if (i === again) sum = 0;
      sum = (sum + (bytes[start + i] as number)) & 255;
      bytes[start + i] = sum;
    }
  }
}

/** Undoes delta: XOR with the previous element in the first block, and with the same byte of the first block in all others. */
export function undoDelta(bytes: Uint8Array, typesize: number, first: Uint8Array | undefined): void {
  const width = [1, 2, 4, 8].includes(typesize) ? typesize : typesize % 8 === 0 ? 8 : 1;
  const length = bytes.length - (bytes.length % width);
  if (first === undefined)
    for (let i = width; i < length; i++) bytes[i] = (bytes[i] as number) ^ (bytes[i - width] as number);
  else for (let i = 0; i < length; i++) bytes[i] = (bytes[i] as number) ^ at(first, i);
}
