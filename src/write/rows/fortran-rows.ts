/**
 * Rows of values that lie in Fortran order, where a row is spread over all of them: read slab by slab, with flat memory.
 * Knows shapes, and what values can be read from; must not know what the rows are for.
 */

import { ArrayReading, type Gather } from "../../archive/kinds/array-reading.ts";
import { breathe } from "../../archive/read/breather.ts";
import { joinBytes } from "../../bytes/join.ts";
import { SuperchunkError } from "../../errors.ts";
import type { NpyHeader } from "../../format/npy.ts";
import type { DType } from "../../format/types.ts";
import type { ReadableStore } from "../../store/types.ts";
import { elementsOf } from "../../values/selection.ts";
import type { Scratch } from "../bloscpack/chunk-spool.ts";

/** Fills a buffer with what lies from a byte of the values on. */
export type ReadValues = (offset: number, target: Uint8Array) => void;

/** Bytes of a slab: it is there twice while it is turned. */
const SLAB_BYTES = 32 << 20;
/** Bytes of a stream that are turned in memory. */
const KEPT_BYTES = 32 << 20;

/** The rows in C order, in pieces that end on rows. Throws what `read` throws. */
export async function* rowsOfFortran(
  read: ReadValues,
  { dtype, shape }: { readonly dtype: DType; readonly shape: readonly number[] },
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const { itemSize } = dtype;
  const gather: Gather = async (batches, out, options) => {
    for (const { source, target, length, count } of batches) {
      options.signal?.throwIfAborted();
      for (let i = 0; i < count; i++) {
        const at = (target[i] ?? 0) * itemSize;
        read((source[i] ?? 0) * itemSize, out.subarray(at, at + length * itemSize));
      }
      await breathe();
    }
  };
  const rowBytes = elementsOf(shape.slice(1)) * itemSize;
  const rows = Math.max(1, Math.floor(SLAB_BYTES / Math.max(1, rowBytes)));
  const reading = new ArrayReading({ dtype, shape, order: "F" }, gather);
  yield* reading.slabBytes(rows, { signal });
}

/** True where a row lies spread over the whole file. */
export function isSpread({ order, shape }: Pick<NpyHeader, "order" | "shape">): boolean {
  return order === "F" && shape.length > 1;
}

/** The rows of values in Fortran order that come as a stream: from memory, or from the scratch object. */
export async function* rowsOfFortranStream(
  values: AsyncIterable<Uint8Array>,
  header: NpyHeader,
  { store, key }: Scratch,
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const size = elementsOf(header.shape) * header.dtype.itemSize;
  if (size <= KEPT_BYTES) {
    const pieces: Uint8Array[] = [];
    for await (const piece of values) pieces.push(piece.slice());
    yield* rowsOfFortran(fromBytes(joinBytes(pieces)), header, signal);
    return;
  }
  if (store.readIntoSync === undefined) {
    throw new SuperchunkError(
      "UNSUPPORTED",
      "the .npy file is in Fortran order, and too large to be turned in memory, and this store cannot read many small parts; save it in C order (numpy.ascontiguousarray)",
      { path: store.describe(key), field: "fortran_order", expected: "False", found: "True" },
    );
  }
  try {
    await store.put(key, values, { durable: false, temporary: true, signal });
    yield* rowsOfFortran(fromObject(store, key), header, signal);
  } finally {
    await store.delete(key);
  }
}

/** Reads values that are in memory. */
export function fromBytes(bytes: Uint8Array): ReadValues {
  return (offset, target) => target.set(bytes.subarray(offset, offset + target.length));
}

/** Reads parts of an object of a store that can do so at once. They throw `STALE` where it has become shorter. */
export function fromObject(store: ReadableStore, key: string, start = 0): ReadValues {
  return (offset, target) => {
    if (store.readIntoSync?.(key, start + offset, target) === target.length) return;
    throw new SuperchunkError("STALE", "the file changed while it was read", { path: store.describe(key) });
  };
}
