/** Positions of blocks in a chunk of several dimensions. Must not know frames. */
import { at, elementsOf, unravel } from "../bytes/arrays.ts";

/** All positions of a grid, in C order. */
export function positions(counts: readonly number[]): number[][] {
  return Array.from({ length: elementsOf(counts) }, (_, index) => unravel(index, counts));
}

interface Placed {
  readonly bytes: Uint8Array;
  readonly shape: readonly number[];
}

/** Copies the part of a block that is inside the chunk, one run of the last dimension at a time. */
export function copyBlock(
  { bytes, shape, origin }: Placed & { readonly origin: readonly number[] },
  target: Placed,
  itemSize: number,
): void {
  const last = shape.length - 1;
  const run = Math.min(at(shape, last), at(target.shape, last) - at(origin, last)) * itemSize;
  for (const [row, position] of positions(shape.slice(0, last)).entries()) {
    let to = 0;
    let isInside = true;
    for (let d = 0; d < last; d++) {
      const index = at(origin, d) + at(position, d);
      isInside &&= index < at(target.shape, d);
      to = (to + index) * at(target.shape, d + 1);
    }
    if (!isInside) continue;
    const from = row * at(shape, last) * itemSize;
    target.bytes.set(bytes.subarray(from, from + run), (to + at(origin, last)) * itemSize);
  }
}
