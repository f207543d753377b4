/**
 * Selections of an array whose values lie in one linear run of bytes, in C or F order. Knows shapes and orders;
 * the bytes come from a function that copies runs.
 */

import { type Allocation, fillResult } from "../../bytes/allocate.ts";
import { at } from "../../bytes/at.ts";
import type { DType } from "../../format/types.ts";
import {
  type ArraySlice,
  type Extent,
  elementsOf,
  firstOf,
  fortranToC,
  type RunBatch,
  resolveSelection,
  runsOf,
  type Selected,
  type Selection,
  selectedOf,
  stridesOf,
} from "../../values/selection.ts";
import { type Scalar, toValues } from "../../values/values.ts";
import type { LongOptions, ReadOptions } from "./types.ts";

export interface ArrayFacts {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly order: "C" | "F";
}

/** Copies runs of items (in stored order) into a buffer. */
export type Gather = (batches: Iterable<RunBatch>, out: Uint8Array, options: LongOptions) => Promise<void>;

/** Bytes of a slab where chunks do not tell it. */
const SLAB_BYTES = 16 << 20;

/** What memory for results is made with: `path` is the archive, for errors; `prepare` is its decoder's. */
export type ResultPlace = Pick<Allocation, "path" | "prepare">;

export class ArrayReading {
  readonly #facts: ArrayFacts;
  readonly #gather: Gather;
  readonly #place: ResultPlace;

  constructor(facts: ArrayFacts, gather: Gather, place: ResultPlace = {}) {
    this.#facts = facts;
    this.#gather = gather;
    this.#place = place;
  }

  /** How many bytes a selection gives, and behind which stored byte its last value ends. */
  measure(selection: Selection | null | undefined): { length: number; end: number } {
    const { shape, dtype } = this.#facts;
    const extents = resolveSelection(selection, shape);
    const length = elementsOf(extents.map((extent) => extent.count)) * dtype.itemSize;
    if (length === 0) return { length, end: 0 };
    const strides = stridesOf(this.#storedShape());
    let last = 0;
    this.#storedExtents(extents).forEach((extent, d) => {
      last += (extent.start + (extent.count - 1) * extent.step) * at(strides, d);
    });
    return { length, end: (last + 1) * dtype.itemSize };
  }

  /** Byte offset of the one item that a selection of integers names; undefined for any other, and for wrong ones. */
  offsetOf(selection: Selection): number | undefined {
    const { shape, dtype, order } = this.#facts;
    if (selection.length !== shape.length || shape.length === 0) return undefined;
    let index = 0;
    for (let i = 0; i < shape.length; i++) {
      const d = order === "F" ? shape.length - 1 - i : i;
      const entry = selection[d];
      const length = at(shape, d);
      if (typeof entry !== "number" || !Number.isInteger(entry) || entry < 0 || entry >= length)
        return undefined;
      index = index * length + entry;
    }
    return index * dtype.itemSize;
  }

  /** The one value of an item's bytes. */
  valueOf(bytes: Uint8Array): Scalar {
    return firstOf(toValues(bytes, this.#facts.dtype, 1));
  }

  /** Whole rows as a slice; takes the bytes over. */
  sliceOf(bytes: Uint8Array, rowShape: readonly number[]): ArraySlice {
    const { dtype, shape } = this.#facts;
    const row = elementsOf(rowShape);
    // Rows of nothing cannot be counted by their bytes; such an array has no chunks.
    const [length = 0] = shape;
    const rows = row * dtype.itemSize === 0 ? length : bytes.length / (row * dtype.itemSize);
    const sliced = [rows, ...rowShape];
    return { data: toValues(bytes, dtype, rows * row), shape: sliced, stride: stridesOf(sliced) };
  }

  /** The selected values; a scalar where every entry is an integer. Copies; throws `BAD_ARGUMENT`. */
  async get<const S extends Selection | null | undefined>(
    selection: S,
    options: ReadOptions,
  ): Promise<Selected<S>> {
    const extents = resolveSelection(selection, this.#facts.shape);
    const bytes = await this.#read(extents, options);
    const count = elementsOf(extents.map((extent) => extent.count));
    return selectedOf<S>(toValues(bytes, this.#facts.dtype, count), extents);
  }

  /** The selected items as bytes: C order, stored byte order. */
  getBytes(selection: Selection | null | undefined, options: ReadOptions): Promise<Uint8Array> {
    return this.#read(resolveSelection(selection, this.#facts.shape), options);
  }

  /** Slices of `rows` along the first dimension, in order; without `rows`, of about 16 MiB. */
  async *slabs(rows: number | undefined, options: LongOptions): AsyncGenerator<ArraySlice> {
    for (const extents of this.#slabExtents(rows)) {
      options.signal?.throwIfAborted();
      const shape = extents.map((extent) => extent.count);
      const data = toValues(
        await this.#read(extents, { signal: options.signal }),
        this.#facts.dtype,
        elementsOf(shape),
      );
      yield { data, shape, stride: stridesOf(shape) };
      this.#report(extents, options);
    }
  }

  /** The same as bytes: C order, stored byte order. */
  async *slabBytes(rows: number | undefined, options: LongOptions): AsyncGenerator<Uint8Array> {
    for (const extents of this.#slabExtents(rows)) {
      options.signal?.throwIfAborted();
      yield await this.#read(extents, { signal: options.signal });
      this.#report(extents, options);
    }
  }

  #report(extents: readonly Extent[], { onProgress }: LongOptions): void {
    const { shape, dtype } = this.#facts;
    const [first] = extents;
    const row = elementsOf(shape.slice(1)) * dtype.itemSize;
    if (first !== undefined)
      onProgress?.({ done: (first.start + first.count) * row, total: elementsOf(shape) * dtype.itemSize });
  }

  *#slabExtents(rows: number | undefined): Generator<Extent[]> {
    const { shape, dtype } = this.#facts;
    const all = resolveSelection(null, shape);
    const [length, ...rest] = shape;
    if (length === undefined) {
      yield all;
      return;
    }
    const rowBytes = Math.max(1, elementsOf(rest) * dtype.itemSize);
    const step = rows ?? Math.max(1, Math.floor(SLAB_BYTES / rowBytes));
    for (let start = 0; start < length; start += step) {
      yield all.map((extent, d) =>
        d === 0 ? { ...extent, start, count: Math.min(step, length - start) } : extent,
      );
    }
  }

  async #read(extents: readonly Extent[], options: ReadOptions): Promise<Uint8Array> {
    const { dtype } = this.#facts;
    const counts = extents.map((extent) => extent.count);
    const length = elementsOf(counts) * dtype.itemSize;
    const bytes = await fillResult(length, { ...this.#place, shared: options.shared }, async (out) => {
      if (length === 0) return;
      await this.#gather(runsOf(this.#storedExtents(extents), this.#storedShape()), out, options);
    });
    return this.#facts.order === "F" ? fortranToC(bytes, counts, dtype.itemSize) : bytes;
  }

  /** F order is C order of the dimensions turned round. */
  #storedShape(): readonly number[] {
    const { shape, order } = this.#facts;
    return order === "F" ? [...shape].reverse() : shape;
  }

  #storedExtents(extents: readonly Extent[]): readonly Extent[] {
    return this.#facts.order === "F" ? [...extents].reverse() : extents;
  }
}
