/**
 * The items of a chunk with a change in it: what is stored, read and written over, or the change alone.
 *
 * Knows reading; must not know how chunks are encoded or where they go.
 */

import { allocate } from "../../bytes/allocate.ts";
import { at } from "../../bytes/at.ts";
import { copyItems, type ItemView, repeatItem } from "../../values/copy-items.ts";
import { elementsOf, stridesOf } from "../../values/selection.ts";
import type { Segment } from "../document/chunk-grid.ts";
import type { ArrayModel } from "../document/model.ts";
import type { ChunkReading } from "../read/reading.ts";

/** A part of the array: of a chunk, or of an inner chunk. One entry for each dimension of the array. */
export interface Region {
  readonly start: readonly number[];
  readonly shape: readonly number[];
}

/** Merges changes into chunks of one array. */
export class RegionMerge {
  readonly #model: ArrayModel;
  readonly #reading: ChunkReading;
  /** In stored byte order. */
  readonly #fill: Uint8Array;
  readonly #path: string;

  constructor(model: ArrayModel, reading: ChunkReading, fill: Uint8Array, path: string) {
    this.#model = model;
    this.#reading = reading;
    this.#fill = fill;
    this.#path = path;
  }

  /** True where everything of a region that lies in the array is written. */
  coversAll(extents: readonly Segment[], { start, shape }: Region): boolean {
    return extents.every((extent, d) => {
      const length = Math.min(at(shape, d), at(this.#model.shape, d) - at(start, d));
      return extent.start === 0 && extent.count === length && (extent.step === 1 || length === 1);
    });
  }

  /**
   * The items of a region with the change in it, in C order. They may be the caller's own bytes: not to be written to.
   */
  merge(
    extents: readonly Segment[],
    change: ItemView,
    region: Region,
    signal?: AbortSignal,
  ): Promise<Uint8Array> {
    return this.#merge(extents, change, region, stridesOf(region.shape), signal);
  }

  /**
   * The same for an inner chunk of the shard at `shardStart`, in the order in which dimensions are stored there.
   * `parts`, `change` and `chunkShape` have their dimensions in that order.
   */
  mergeInner(
    parts: readonly Segment[],
    change: ItemView,
    shardStart: readonly number[],
    chunkShape: readonly number[],
    signal?: AbortSignal,
  ): Promise<Uint8Array> {
    const { order } = this.#model.chain;
    const start = [...shardStart];
    const shape = [...shardStart];
    const extents: Segment[] = [];
    const strides = [...shardStart];
    const own = [...shardStart];
    const stored = stridesOf(chunkShape);
    parts.forEach((part, d) => {
      const dimension = order?.[d] ?? d;
      start[dimension] = at(shardStart, dimension) + part.chunk * at(chunkShape, d);
      shape[dimension] = at(chunkShape, d);
      extents[dimension] = part;
      strides[dimension] = at(change.strides, d);
      own[dimension] = at(stored, d);
    });
    return this.#merge(extents, { ...change, strides }, { start, shape }, own, signal);
  }

  /** `strides` say in which order the items are wanted. */
  async #merge(
    extents: readonly Segment[],
    change: ItemView,
    region: Region,
    strides: readonly number[],
    signal: AbortSignal | undefined,
  ): Promise<Uint8Array> {
    const { start, shape } = region;
    const { itemSize } = this.#model.dtype;
    const length = elementsOf(shape) * itemSize;
    const whole = this.coversAll(extents, region);
    const isPadded = shape.some((n, d) => at(start, d) + n > at(this.#model.shape, d));
    if (whole && !isPadded && shape.every((n, d) => n === 1 || change.strides[d] === strides[d])) {
      return change.bytes.subarray(change.offset * itemSize, change.offset * itemSize + length);
    }
    const bytes = allocate(length, { path: this.#path });
    if (!whole || isPadded) repeatItem(this.#fill, bytes);
    if (!whole) {
      const present = shape.map((n, d) => ({
        start: at(start, d),
        count: Math.max(0, Math.min(n, at(this.#model.shape, d) - at(start, d))),
        step: 1,
      }));
      await this.#reading.read(present, { bytes, offset: 0, strides }, signal);
    }
    let offset = 0;
    extents.forEach((extent, d) => {
      offset += extent.start * at(strides, d);
    });
    const target = { bytes, offset, strides: extents.map(({ step }, d) => step * at(strides, d)) };
    copyItems(
      change,
      target,
      extents.map(({ count }) => count),
      itemSize,
    );
    return bytes;
  }
}
