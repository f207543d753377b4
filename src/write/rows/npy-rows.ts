/** The rows of a `.npy` file, read as it comes. Must not know where the rows go. */

import { ArrayReading, type Gather } from "../../archive/kinds/array-reading.ts";
import { breathe } from "../../archive/read/breather.ts";
import { joinBytes } from "../../bytes/arrays.ts";
import { SuperchunkError } from "../../errors.ts";
import { formatDType } from "../../format/dtype.ts";
import { decodeNpyHeader, NPY_START, type NpyHeader, npyHeaderLength } from "../../format/npy.ts";
import type { DType } from "../../format/types.ts";
import type { ReadableStore } from "../../store/types.ts";
import { elementsOf } from "../../values/selection.ts";
import type { Scratch } from "../bloscpack/chunk-spool.ts";
import { type RowFacts, readRows } from "./rows.ts";

/** A `.npy` file: its bytes, or pieces of them. */
export type NpySource =
  | Uint8Array
  | AsyncIterable<Uint8Array>
  | Iterable<Uint8Array>
  | ReadableStream<Uint8Array>;

/**
 * The items of a `.npy` file, piece by piece, in C order. A file in Fortran order that comes as a stream waits in the
 * scratch object until it is whole.
 *
 * @throws BAD_ARGUMENT where its rows are others than the array's, or fewer than its header counts; BAD_MAGIC, TRUNCATED,
 * BAD_FIELD, UNSUPPORTED, LIMIT where its header cannot be read; UNSUPPORTED for a stream in Fortran order where the store
 * cannot read small parts at once
 */
export async function* readNpyRows(
  source: NpySource,
  facts: RowFacts,
  scratch: Scratch,
): AsyncGenerator<Uint8Array> {
  let header: NpyHeader | undefined;
  const values = readNpyValues(source, (found) => {
    checkRows(found, facts);
    header = found;
  });
  // The header has been read when the first piece comes, which is empty.
  await values.next();
  if (header === undefined || !isSpread(header)) {
    yield* values;
    return;
  }
  if (source instanceof Uint8Array) {
    for await (const _ of values); // says whether they are all there
    yield* rowsOfFortran(fromBytes(source.subarray(header.dataAt)), header);
  } else yield* rowsOfFortranStream(values, header, scratch);
}

/**
 * The rows of a `.npy` file whose rows have no bytes.
 *
 * @throws as {@link readNpyRows}
 */
export async function countNpyRows(source: NpySource, facts: RowFacts): Promise<number> {
  let rows = 0;
  const values = readNpyValues(source, (found) => {
    checkRows(found, facts);
    rows = found.shape[0] ?? 0;
  });
  for await (const _ of values); // says whether there is more than the header counts
  return rows;
}

/** The values' bytes as they come, behind an empty piece; `onHeader` may refuse them. */
async function* readNpyValues(
  source: NpySource,
  onHeader: (header: NpyHeader) => void,
): AsyncGenerator<Uint8Array> {
  const path = ".npy";
  let head = new Uint8Array(0);
  let length = NPY_START;
  let left: number | undefined;
  let areTaken = true;
  // Bytes of one each are rows of any length.
  for await (const piece of readRows(source, { dtype: BYTE, rowShape: [] })) {
    let part = piece;
    if (left === undefined) {
      head = joinBytes([head, piece]);
      if (head.length >= NPY_START) length = npyHeaderLength(head.subarray(0, NPY_START), path);
      if (head.length < NPY_START || head.length < length) continue;
      const found = decodeNpyHeader(head.subarray(0, length), path);
      onHeader(found);
      areTaken = !isSpread(found);
      left = elementsOf(found.shape) * found.dtype.itemSize;
      yield new Uint8Array(0);
      part = head.subarray(length);
    }
    if (part.length > left) throw wrongLength(left, part.length, areTaken);
    left -= part.length;
    if (part.length > 0) yield part;
  }
  if (left === undefined) {
    // Says what is wrong with so short a file.
    npyHeaderLength(head, path);
    decodeNpyHeader(head, path);
  }
  if (left !== 0) throw wrongLength(left ?? 0, 0, areTaken);
}

const BYTE: DType = { kind: "void", itemSize: 1, byteOrder: "none" };

function checkRows({ dtype, shape }: NpyHeader, facts: RowFacts): void {
  const own = describe(facts.dtype, facts.rowShape);
  const found = describe(dtype, shape.slice(1));
  if (own !== found || shape.length === 0) {
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `the .npy file has rows of ${found}, the array has rows of ${own}`,
      {
        field: "dtype",
        expected: own,
        found,
      },
    );
  }
}

function describe(dtype: DType, rowShape: readonly number[]): string {
  const text = JSON.stringify(formatDType(dtype));
  return rowShape.length === 0 ? text : `${text} in [${rowShape.join(", ")}]`;
}

function wrongLength(expected: number, found: number, areTaken: boolean): SuperchunkError {
  return new SuperchunkError(
    "BAD_ARGUMENT",
    found > expected
      ? "the .npy file has more bytes than its header counts"
      : `the .npy file ends ${expected} bytes too soon; ${areTaken ? "the rows before were taken" : "nothing was taken"}`,
    { field: "source", expected, found },
  );
}

// Rows of values that lie in Fortran order, where a row is spread over all of them: read slab by slab, with flat memory.
// Knows shapes, and what values can be read from; must not know what the rows are for.

/** Fills a buffer with what lies from a byte of the values on. */
type ReadValues = (offset: number, target: Uint8Array) => void;

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
function fromBytes(bytes: Uint8Array): ReadValues {
  return (offset, target) => target.set(bytes.subarray(offset, offset + target.length));
}

/** Reads parts of an object of a store that can do so at once. They throw `STALE` where it has become shorter. */
export function fromObject(store: ReadableStore, key: string, start = 0): ReadValues {
  return (offset, target) => {
    if (store.readIntoSync?.(key, start + offset, target) === target.length) return;
    throw new SuperchunkError("STALE", "the file changed while it was read", { path: store.describe(key) });
  };
}
