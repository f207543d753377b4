/** Shapes and positions of blocks in a chunk of several dimensions. Must not know frames. */
import { at, elementsOf } from "../bytes/arrays.ts";
import { copyItems, type ItemView } from "../values/copy-items.ts";
import { stridesOf } from "../values/selection.ts";

interface Items {
  readonly bytes: Uint8Array;
  readonly shape: readonly number[];
}

/** The part of a block that is inside a larger box, as items of both. `origin` is the block's first item in the box. */
function shared(
  block: Items & { readonly origin: readonly number[] },
  box: Items,
): { readonly inBlock: ItemView; readonly inBox: ItemView; readonly counts: readonly number[] } {
  const { origin, shape } = block;
  const strides = stridesOf(box.shape);
  return {
    inBlock: { bytes: block.bytes, offset: 0, strides: stridesOf(shape) },
    inBox: { bytes: box.bytes, offset: origin.reduce((sum, n, d) => sum + n * at(strides, d), 0), strides },
    counts: shape.map((n, d) => Math.max(0, Math.min(n, at(box.shape, d) - at(origin, d)))),
  };
}

/** [BZ-03] The shape of a block of `items` consecutive items of a chunk, if such runs are boxes of the chunk in C order; else undefined. */
export function blockShape(chunk: readonly number[], items: number): readonly number[] | undefined {
  if (!Number.isInteger(items) || items <= 0) return undefined;
  const blocks = chunk.map(() => 1);
  let left = items;
  for (let d = chunk.length - 1; d >= 0; d--) {
    const length = at(chunk, d);
    if (left >= length && left % length === 0) {
      blocks[d] = length;
      left /= length;
      continue;
    }
    if (left > length) return undefined;
    // Only the first dimension with more than one position may be cut unevenly.
    if (length % left !== 0 && chunk.slice(0, d).some((before) => before > 1)) return undefined;
    blocks[d] = left;
    left = 1;
  }
  return left === 1 ? blocks : undefined;
}

/** Copies the part of a block that is inside a box into the box. */
export function putBlock(
  block: Items & { readonly origin: readonly number[] },
  box: Items,
  itemSize: number,
): void {
  const { inBlock, inBox, counts } = shared(block, box);
  copyItems(inBlock, inBox, counts, itemSize);
}

/** The part of a box that is inside a block, padded with zeros. */
export function cutBlock(
  box: Items,
  { shape, origin }: { readonly shape: readonly number[]; readonly origin: readonly number[] },
  itemSize: number,
): Uint8Array {
  const bytes = new Uint8Array(elementsOf(shape) * itemSize);
  const { inBlock, inBox, counts } = shared({ bytes, shape, origin }, box);
  copyItems(inBox, inBlock, counts, itemSize);
  return bytes;
}
