/**
 * Compares a converted Zarr array with its source: all values, or, where few objects are stored, those that either has.
 *
 * What neither has is the fill value, which is compared once: an array can promise more than anybody reads. Must not write.
 */

import { at } from "../../bytes/at.ts";
import { SuperchunkError } from "../../errors.ts";
import { swapItems } from "../../values/copy-items.ts";
import type { ItemTransform } from "../../values/item-transform.ts";
import { resolveSelection } from "../../values/selection.ts";
import { countPositions, shapeAt, startAt } from "../../zarr/document/chunk-grid.ts";
import type { ZarrArray } from "../../zarr/read/array.ts";
import { slabsOf } from "../../zarr/read/slabs.ts";
import { storedPositions } from "../../zarr/read/stored-positions.ts";
import { firstDifference } from "./compare.ts";

/** The source's items become those of the copy by `transform`. */
export interface ZarrComparison {
  readonly transform?: ItemTransform | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Throws `BAD_FIELD` where values of the copy, or its fill value, are others; and the codes of damage. */
export async function compareZarr(
  source: ZarrArray,
  copy: ZarrArray,
  { transform, signal }: ZarrComparison,
): Promise<void> {
  const path = copy.store.describe(copy.path);
  const compareBox = async (box: Box, where: string): Promise<void> => {
    const at = await firstDifference(
      valuesIn(source, box, signal, transform),
      valuesIn(copy, box, signal, undefined),
    );
    if (at !== undefined) throw differs(path, at, where);
  };
  const boxes = await storedBoxes([source, copy], signal);
  if (boxes === undefined)
    return compareBox({ start: source.shape.map(() => 0), shape: source.shape }, "of the values");
  const fill = inOrder(source, source.model.fillItem.slice(), transform);
  const other = inOrder(copy, copy.model.fillItem.slice(), undefined);
  const odd = fill.findIndex((byte, i) => byte !== other[i]);
  if (odd >= 0 || fill.length !== other.length) throw differs(path, Math.max(0, odd), "of the fill value");
  for (const box of boxes) await compareBox(box, `of the chunk or shard at item ${box.start.join(", ")}`);
}

/** A part of an array. */
interface Box {
  readonly start: readonly number[];
  readonly shape: readonly number[];
}

/** What is stored of either array, as far as they reach; undefined where that is half of the grid or more. */
async function storedBoxes(
  arrays: readonly ZarrArray[],
  signal: AbortSignal | undefined,
): Promise<readonly Box[] | undefined> {
  const boxes = new Map<string, Box>();
  for (const { store, model, shape } of arrays) {
    const most = countPositions(model.axes) / 2;
    for await (const position of storedPositions(store, model, signal)) {
      if ((await store.stat(model.chunkKey(position), { signal })) === undefined) continue;
      const start = startAt(model.axes, position);
      const reach = shapeAt(model.axes, position).map((length, d) =>
        Math.min(length, at(shape, d) - at(start, d)),
      );
      boxes.set([...start, ...reach].join(), { start, shape: reach });
      if (boxes.size >= most) return undefined;
    }
  }
  return [...boxes.values()];
}

/** The values of a part in C order, as version 3 has them in memory, with flat memory. */
async function* valuesIn(
  array: ZarrArray,
  { start, shape }: Box,
  signal: AbortSignal | undefined,
  transform: ItemTransform | undefined,
): AsyncGenerator<Uint8Array> {
  const { chunkShape, dtype } = array;
  for (const { selection } of slabsOf({ shape, chunkShape, itemSize: dtype.itemSize })) {
    const extents = resolveSelection(selection, shape);
    const moved = extents.map((extent, d) => {
      const first = at(start, d) + extent.start;
      return { start: first, stop: first + extent.count, step: 1 };
    });
    yield inOrder(array, await array.getBytes(moved, { signal }), transform);
  }
}

/** In version 2 items are in memory as they are stored. */
function inOrder({ dtype }: ZarrArray, items: Uint8Array, transform: ItemTransform | undefined): Uint8Array {
  if (transform !== undefined) return transform.apply(items);
  return dtype.byteOrder === "big" ? swapItems(items, dtype) : items;
}

function differs(path: string, offset: number, where: string): SuperchunkError {
  return new SuperchunkError(
    "BAD_FIELD",
    `the values differ from those of the source from byte ${offset} ${where} on. Report it; the source is unchanged`,
    { path, offset, field: "values" },
  );
}
