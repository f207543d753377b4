/** How an array is cut to be read from its first value to its last with flat memory. Pure arithmetic. */

import { at } from "../../bytes/at.ts";
import type { Selection } from "../../values/selection.ts";
import { elementsOf } from "../../values/selection.ts";

/** Bytes that are read at a time, about: whole chunks of rows, as many as fit. */
const SLAB_BYTES = 16 << 20;
/** Above this, rows are read before their chunks end, and chunks therefore more than once. */
const MOST_BYTES = 128 << 20;

/** What is cut. */
export interface SlabbedArray {
  readonly shape: readonly number[];
  readonly chunkShape: readonly number[];
  readonly itemSize: number;
}

/** A part of an array, and how many of its values are read with it. */
export interface Slab {
  readonly selection: Selection;
  readonly items: number;
}

/** Parts that follow one another in C order and have all values: rows of whole chunks where these fit into memory. */
export function* slabsOf(array: SlabbedArray): Generator<Slab> {
  if (elementsOf(array.shape) > 0) yield* slabsBelow(array, []);
}

/** The slabs of one entry of the dimensions in front. */
function* slabsBelow(array: SlabbedArray, front: readonly number[]): Generator<Slab> {
  const { shape, chunkShape, itemSize } = array;
  const d = front.length;
  const length = shape[d];
  const fixed = front.map((start) => ({ start, stop: start + 1, step: 1 }));
  if (length === undefined) {
    yield { selection: fixed, items: 1 };
    return;
  }
  const rowItems = elementsOf(shape.slice(d + 1));
  const rowBytes = Math.max(1, rowItems * itemSize);
  if (rowBytes > MOST_BYTES && d + 1 < shape.length) {
    for (let i = 0; i < length; i++) yield* slabsBelow(array, [...front, i]);
    return;
  }
  const step = rowsAtOnce(rowBytes, at(chunkShape, d));
  for (let start = 0; start < length; start += step) {
    const stop = Math.min(length, start + step);
    yield { selection: [...fixed, { start, stop, step: 1 }], items: (stop - start) * rowItems };
  }
}

function rowsAtOnce(rowBytes: number, chunkRows: number): number {
  if (rowBytes * chunkRows > MOST_BYTES) return Math.max(1, Math.floor(MOST_BYTES / rowBytes));
  return Math.max(1, Math.floor(SLAB_BYTES / rowBytes / chunkRows)) * chunkRows;
}
