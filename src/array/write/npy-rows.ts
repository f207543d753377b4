/** The rows of a `.npy` file, read as it comes. Must not know where the rows go. */
import { SuperchunkError } from "../../errors.ts";
import { formatDType } from "../../format/dtype.ts";
import { decodeNpyHeader, NPY_START, npyHeaderLength } from "../../format/npy-header.ts";
import type { DType } from "../../format/types.ts";
import { elementsOf } from "../selection.ts";
import { type RowFacts, readRows } from "./rows.ts";

/** A `.npy` file: its bytes, or pieces of them. */
export type NpySource =
  | Uint8Array
  | AsyncIterable<Uint8Array>
  | Iterable<Uint8Array>
  | ReadableStream<Uint8Array>;

/**
 * The items of a `.npy` file, piece by piece.
 *
 * @throws BAD_ARGUMENT where its rows are others than the array's, in Fortran order, or fewer than its header counts;
 * BAD_MAGIC, TRUNCATED, BAD_FIELD, UNSUPPORTED, LIMIT where its header cannot be read
 */
export async function* readNpyRows(source: NpySource, facts: RowFacts): AsyncGenerator<Uint8Array> {
  const path = ".npy";
  let head = new Uint8Array(0);
  let length = NPY_START;
  let left: number | undefined;
  // Bytes of one each are rows of any length.
  for await (const piece of readRows(source, { dtype: BYTE, rowShape: [] })) {
    let part = piece;
    if (left === undefined) {
      head = joinTwo(head, piece);
      if (head.length >= NPY_START) length = npyHeaderLength(head.subarray(0, NPY_START), path);
      if (head.length < NPY_START || head.length < length) continue;
      const { dtype, shape, order } = decodeNpyHeader(head.subarray(0, length), path);
      checkRows(dtype, shape, order, facts);
      left = elementsOf(shape) * dtype.itemSize;
      part = head.subarray(length);
    }
    if (part.length > left) throw wrongLength(left, part.length);
    left -= part.length;
    if (part.length > 0) yield part;
  }
  if (left === undefined) {
    // Says what is wrong with so short a file.
    npyHeaderLength(head, path);
    decodeNpyHeader(head, path);
  }
  if (left !== 0) throw wrongLength(left ?? 0, 0);
}

const BYTE: DType = { kind: "void", itemSize: 1, byteOrder: "none" };

function checkRows(dtype: DType, shape: readonly number[], order: "C" | "F", facts: RowFacts): void {
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
  if (order === "C" || shape.length < 2) return;
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    "the .npy file is in Fortran order, where rows cannot be read one after the other; save it in C order",
    { field: "fortran_order", expected: "False", found: "True" },
  );
}

function describe(dtype: DType, rowShape: readonly number[]): string {
  const text = JSON.stringify(formatDType(dtype));
  return rowShape.length === 0 ? text : `${text} in [${rowShape.join(", ")}]`;
}

function wrongLength(expected: number, found: number): SuperchunkError {
  return new SuperchunkError(
    "BAD_ARGUMENT",
    found > expected
      ? "the .npy file has more bytes than its header counts"
      : `the .npy file ends ${expected} bytes too soon; the rows before were taken`,
    { field: "source", expected, found },
  );
}

function joinTwo(a: Uint8Array, b: Uint8Array): Uint8Array<ArrayBuffer> {
  const joined = new Uint8Array(a.length + b.length);
  joined.set(a);
  joined.set(b, a.length);
  return joined;
}
