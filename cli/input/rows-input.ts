/**
 * Rows to write into an array: a `.npy` file or stdin, or raw bytes of a dtype that is told. Always in C order: values in
 * Fortran order are turned as they are read.
 */

import { tmpdir } from "node:os";
import { joinBytes } from "../../src/bytes/join.ts";
import { decodeNpyHeader, isNpy, NPY_START, npyHeaderLength } from "../../src/format/npy.ts";
import { type NpyHeader, SuperchunkError } from "../../src/index.ts";
import { FileStore, locate } from "../../src/node/index.ts";
import { scratchBeside } from "../../src/write/bloscpack/chunk-spool.ts";
import {
  fromObject,
  isSpread,
  rowsOfFortran,
  rowsOfFortranStream,
} from "../../src/write/rows/fortran-rows.ts";
import type { Context } from "../context.ts";
import { startProgress } from "../output/progress.ts";
import { type Input, openInput, readStart } from "./input.ts";

/**
 * Opens a file, or stdin for `-`. Stdin is a `.npy` file, and a file is where its name ends so, unless `asBytes`; one that
 * begins so under another name is refused, whose header would become rows. Throws `NOT_FOUND`, `BAD_ARGUMENT` and damage.
 */
export async function openRows(name: string, asBytes: boolean, context: Context): Promise<Input> {
  if (name !== "-" || asBytes) {
    const input = await openInput(name, asBytes, context);
    if (name !== "-" && !asBytes && input.npy === undefined)
      refuseNpy(await readStart(name), name, "but its name does not end in .npy; rename it, or give --bytes");
    return inRowOrder(input, context);
  }
  return inRowOrder(await openNpyStream(await readHead(context.io.stdin), "stdin"), context);
}

/** The same, but stdin is a `.npy` file only where it begins as one, and else raw rows. */
export async function openAppendedRows(name: string, asBytes: boolean, context: Context): Promise<Input> {
  if (name !== "-" || asBytes) return openRows(name, asBytes, context);
  const stream = await readHead(context.io.stdin);
  if (isNpy(stream.head)) return inRowOrder(await openNpyStream(stream, "stdin"), context);
  return { name: "stdin", npy: undefined, size: undefined, pieces: () => stream.rest(stream.head) };
}

/**
 * The same for raw rows of a dtype that was told: what begins as a `.npy` file is refused, whose header would become rows.
 * Throws `NOT_FOUND` and `BAD_ARGUMENT`.
 */
export async function openRawRows(name: string, context: Context): Promise<Input> {
  if (name === "-") {
    const stream = await readHead(context.io.stdin);
    refuseNpy(stream.head, "stdin", TOLD_DTYPE);
    return { name: "stdin", npy: undefined, size: undefined, pieces: () => stream.rest(stream.head) };
  }
  const input = await openInput(name, true, context);
  refuseNpy(await readStart(name), name, TOLD_DTYPE);
  return input;
}

const TOLD_DTYPE = "which says its dtype itself, but --dtype is for raw bytes; leave --dtype out";

function refuseNpy(head: Uint8Array, path: string, why: string): void {
  if (!isNpy(head)) return;
  throw new SuperchunkError("BAD_ARGUMENT", `it is a .npy file, ${why}`, {
    path,
    field: "input",
    expected: "raw bytes",
    found: "a .npy file",
  });
}

/** A stream of which the first bytes have been read. */
interface BegunStream {
  /** As many bytes as a `.npy` header needs to tell its length; fewer where there are no more. */
  readonly head: Uint8Array;
  /** What comes next; undefined at the end. */
  next(): Promise<Uint8Array | undefined>;
  /** `before`, and all that comes behind the head. */
  rest(before: Uint8Array): AsyncGenerator<Uint8Array>;
}

async function readHead(stream: AsyncIterable<Uint8Array>): Promise<BegunStream> {
  const pieces = stream[Symbol.asyncIterator]();
  const next = async (): Promise<Uint8Array | undefined> => {
    const result = await pieces.next();
    return result.done === true ? undefined : result.value;
  };
  const head = await readAtLeast(new Uint8Array(0), NPY_START, next);
  async function* rest(before: Uint8Array): AsyncGenerator<Uint8Array> {
    for (let piece: Uint8Array | undefined = before; piece !== undefined; piece = await next()) yield piece;
  }
  return { head, next, rest };
}

/** Bytes and what comes behind them, until there are `length` or no more. */
async function readAtLeast(
  bytes: Uint8Array,
  length: number,
  next: () => Promise<Uint8Array | undefined>,
): Promise<Uint8Array> {
  let head = bytes;
  while (head.length < length) {
    const piece = await next();
    if (piece === undefined) break;
    head = joinBytes([head, piece]);
  }
  return head;
}

/** Reads the header of a `.npy` file that comes as a stream; its values can be read once. Throws damage. */
async function openNpyStream(stream: BegunStream, name: string): Promise<Input> {
  const length = npyHeaderLength(stream.head.subarray(0, NPY_START), name);
  const head = await readAtLeast(stream.head, length, stream.next);
  const npy = decodeNpyHeader(head.subarray(0, length), name);
  const size = npy.shape.reduce((product, n) => product * n, npy.dtype.itemSize);
  async function* values(): AsyncGenerator<Uint8Array> {
    let found = 0;
    for await (const piece of stream.rest(head.subarray(length))) {
      found += piece.length;
      if (found > size) break;
      yield piece;
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

/** The same input with its values in C order. */
function inRowOrder(input: Input, context: Context): Input {
  const { npy } = input;
  if (npy === undefined || !isSpread(npy)) return input;
  return { ...input, npy: { ...npy, order: "C" }, pieces: () => turned(input, npy, context) };
}

async function* turned(input: Input, npy: NpyHeader, { signal }: Context): AsyncGenerator<Uint8Array> {
  if (input.name === "stdin") {
    const store = new FileStore(tmpdir());
    try {
      yield* rowsOfFortranStream(input.pieces(), npy, scratchBeside(store, "superchunk"), signal);
    } finally {
      await store.close();
    }
    return;
  }
  const { store, path } = await locate(input.name);
  try {
    yield* rowsOfFortran(fromObject(store, path, npy.dataAt), npy, signal);
  } finally {
    await store.close?.();
  }
}

/** Where rows go, for messages and progress. */
export interface RowsTarget {
  readonly rowBytes: number;
  /** What the bar says. */
  readonly verb: string;
  readonly name?: string;
  /** What has become of it all where the rows are not whole: "nothing was appended". */
  readonly outcome: string;
}

/**
 * The bytes of whole rows, with a progress bar where their number is known, until the command is interrupted.
 *
 * @throws BAD_ARGUMENT where the bytes end inside a row: at once where their number is known
 */
export function drawnRows(input: Input, target: RowsTarget, context: Context): AsyncGenerator<Uint8Array> {
  checkWhole(input, input.size ?? 0, target);
  return drawRows(input, target, context);
}

async function* drawRows(input: Input, target: RowsTarget, context: Context): AsyncGenerator<Uint8Array> {
  const bar = startProgress(context.io, target.verb, target.name === undefined ? {} : { name: target.name });
  const total = input.size;
  let done = 0;
  try {
    for await (const piece of input.pieces()) {
      context.signal.throwIfAborted();
      yield piece;
      done += piece.length;
      if (total !== undefined) bar.onProgress?.({ done, total });
    }
    checkWhole(input, done, target);
  } finally {
    bar.finish();
  }
}

function checkWhole({ name }: Input, bytes: number, { rowBytes, outcome }: RowsTarget): void {
  const left = rowBytes === 0 ? bytes : bytes % rowBytes;
  if (left === 0) return;
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    `the bytes end inside a row: ${left} are left over, but a row has ${rowBytes}; ${outcome}`,
    { path: name, field: "rows", expected: `a multiple of ${rowBytes} bytes`, found: bytes },
  );
}
