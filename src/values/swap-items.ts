/** Turns items round between byte orders. Knows dtypes; must not know chunks. */

import type { DType } from "../format/types.ts";
import { fieldSize, swapBytes } from "./values.ts";

interface Lane {
  readonly at: number;
  readonly width: number;
  readonly length: number;
}

/** Reverses the bytes of every number of every item in place: a little-endian item becomes a big-endian one and back. */
export function swapItems(bytes: Uint8Array, dtype: DType): Uint8Array {
  if (dtype.kind !== "struct") {
    swapBytes(bytes, widthOf(dtype));
    return bytes;
  }
  const lanes = lanesOf(dtype, 0);
  for (let item = 0; item < bytes.length; item += dtype.itemSize) {
    for (const { at, width, length } of lanes) {
      swapBytes(bytes.subarray(item + at, item + at + length), width);
    }
  }
  return bytes;
}

/** Bytes of a number; 1 where the order means nothing. */
function widthOf(dtype: DType): number {
  if (dtype.kind === "struct" || dtype.byteOrder === "none") return 1;
  if (dtype.kind === "complex") return dtype.itemSize / 2;
  return dtype.kind === "unicode" ? 4 : dtype.itemSize;
}

function lanesOf(dtype: DType, base: number): Lane[] {
  if (dtype.kind !== "struct") {
    const width = widthOf(dtype);
    return width > 1 ? [{ at: base, width, length: dtype.itemSize }] : [];
  }
  return dtype.fields.flatMap((field) => {
    const count = fieldSize(field) / Math.max(1, field.dtype.itemSize);
    return Array.from({ length: count }, (_, i) =>
      lanesOf(field.dtype, base + field.offset + i * field.dtype.itemSize),
    ).flat();
  });
}
