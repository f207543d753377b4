/** The rows of a `.npy` file, read as it comes. Must not know where the rows go. */
import { joinBytes } from "../../bytes/join.ts";
import { SuperchunkError } from "../../errors.ts";
import { formatDType } from "../../format/dtype.ts";
import { decodeNpyHeader, NPY_START, type NpyHeader, npyHeaderLength } from "../../format/npy.ts";
import type { DType } from "../../format/types.ts";
import { elementsOf } from "../../values/selection.ts";
import type { Scratch } from "../bloscpack/chunk-spool.ts";
import { fromBytes, isSpread, rowsOfFortran, rowsOfFortranStream } from "./fortran-rows.ts";
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
