/** Rows to write into an array: a `.npy` file or stdin, or raw bytes of a dtype that is told. */
import { SuperchunkError } from "../src/errors.ts";
import { decodeNpyHeader, NPY_START, npyHeaderLength } from "../src/format/npy-header.ts";
import type { Context } from "./context.ts";
import { type Input, openInput } from "./input.ts";
import { startProgress } from "./progress.ts";

/**
 * Opens a file, or stdin for `-`. Stdin is a `.npy` file, and a file is where its name ends so, unless `asBytes`.
 * Throws `NOT_FOUND` and damage.
 */
export async function openRows(name: string, asBytes: boolean, context: Context): Promise<Input> {
  if (name !== "-" || asBytes) return openInput(name, asBytes, context);
  return openNpyStream(context.io.stdin, "stdin");
}

/** Reads the header of a `.npy` file that comes as a stream; its values can be read once. Throws damage. */
async function openNpyStream(stream: AsyncIterable<Uint8Array>, name: string): Promise<Input> {
  const pieces = stream[Symbol.asyncIterator]();
  let head = new Uint8Array(0);
  let length = NPY_START;
  while (head.length < length) {
    const next = await pieces.next();
    if (next.done === true) break;
    const joined = new Uint8Array(head.length + next.value.length);
    joined.set(head);
    joined.set(next.value, head.length);
    head = joined;
    if (head.length >= NPY_START) length = npyHeaderLength(head.subarray(0, NPY_START), name);
  }
  // Of a stream that ended too soon these say what is wrong.
  length = npyHeaderLength(head.subarray(0, NPY_START), name);
  const npy = decodeNpyHeader(head.subarray(0, length), name);
  const size = npy.shape.reduce((product, n) => product * n, npy.dtype.itemSize);
  async function* values(): AsyncGenerator<Uint8Array> {
    let found = 0;
    let piece: Uint8Array | undefined = head.subarray(length);
    while (piece !== undefined) {
      found += piece.length;
      if (found > size) break;
      yield piece;
      const next: IteratorResult<Uint8Array> = await pieces.next();
      piece = next.done === true ? undefined : next.value;
    }
    if (found === size) return;
    throw new SuperchunkError(
      "TRUNCATED",
      `the header promises ${size} bytes of values, but there are ${found > size ? "more" : found}. What was sent is not whole; send it again`,
      { path: name, offset: npy.dataAt, field: "shape", expected: size, found },
    );
  }
  return { name, npy, size, pieces: values };
}

/** The values' bytes, with a progress bar where their number is known, until the command is interrupted. */
export async function* drawnPieces(input: Input, verb: string, context: Context): AsyncGenerator<Uint8Array> {
  const bar = startProgress(context.io, verb);
  const total = input.size;
  let done = 0;
  try {
    for await (const piece of input.pieces()) {
      context.signal.throwIfAborted();
      yield piece;
      done += piece.length;
      if (total !== undefined) bar.onProgress?.({ done, total });
    }
  } finally {
    bar.finish();
  }
}

/** Refuses values in Fortran order, whose rows do not come one after the other. Throws `BAD_ARGUMENT`. */
export function refuseFortran({ name, npy }: Input): void {
  if (npy === undefined || npy.order === "C" || npy.shape.length < 2) return;
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    "the rows are in Fortran order, where they cannot be read one after the other; save them in C order (numpy.ascontiguousarray)",
    { path: name, field: "fortran_order", expected: "False", found: "True" },
  );
}
