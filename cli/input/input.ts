/** What a command is given to write into an archive: a file or stdin, bytes or a `.npy` file. */

import { closeSync, createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { decodeNpyHeader, NPY_START, npyHeaderLength } from "../../src/format/npy.ts";
import { type NpyHeader, SuperchunkError } from "../../src/index.ts";
import { openPlain } from "../../src/node/fs/fs-open.ts";
import { readFullySync } from "../../src/node/fs/fs-read.ts";
import { refuseEmptyPath } from "../../src/node/locate.ts";
import type { Context } from "../context.ts";

/** An input that can be read. */
export interface Input {
  /** As messages name it. */
  readonly name: string;
  /** What a `.npy` file says of its values; undefined for plain bytes. */
  readonly npy: NpyHeader | undefined;
  /** Bytes of the values, where they are known. */
  readonly size: number | undefined;
  /** The values' bytes; of a file as often as they are asked for. */
  pieces(): AsyncIterable<Uint8Array>;
}

const READ_BYTES = 1 << 20;

/** Opens a file, or stdin for `-`. A name that ends in `.npy` is an array, unless `asBytes`. Throws `NOT_FOUND`, `BAD_ARGUMENT` for what is not a file, and damage. */
export async function openInput(name: string, asBytes: boolean, context: Context): Promise<Input> {
  if (name === "-") return { name: "stdin", npy: undefined, size: undefined, pieces: () => context.io.stdin };
  refuseEmptyPath(name);
  let size: number;
  try {
    const info = await stat(name);
    if (info.isDirectory())
      throw new SuperchunkError("BAD_ARGUMENT", "the input is a folder; give a file", { path: name });
    // A pipe has no length, and can be read only once, from its beginning.
    if (!info.isFile())
      throw new SuperchunkError(
        "BAD_ARGUMENT",
        "this is a pipe or a device, not a file; send it to stdin, and give - in its place",
        {
          path: name,
          field: "input",
        },
      );
    size = info.size;
  } catch (cause) {
    if (cause instanceof SuperchunkError) throw cause;
    throw new SuperchunkError("NOT_FOUND", "there is no such file", { path: name, cause });
  }
  const isArray = !asBytes && /\.npy$/i.test(name);
  const npy = isArray ? await readNpyHeader(name) : undefined;
  const dataAt = npy?.dataAt ?? 0;
  if (npy !== undefined) checkLength(name, npy, size - dataAt);
  return {
    name,
    npy,
    size: size - dataAt,
    pieces: () =>
      createReadStream(name, {
        fd: openPlain(name, { follows: true }),
        start: dataAt,
        highWaterMark: READ_BYTES,
      }),
  };
}

/** The bytes that tell whether a file is a `.npy` file; fewer where it is shorter. */
export async function readStart(name: string): Promise<Uint8Array> {
  const file = openPlain(name, { follows: true });
  try {
    return readAt(file, NPY_START);
  } finally {
    closeSync(file);
  }
}

async function readNpyHeader(name: string): Promise<NpyHeader> {
  const file = openPlain(name, { follows: true });
  try {
    return decodeNpyHeader(readAt(file, npyHeaderLength(readAt(file, NPY_START), name)), name);
  } finally {
    closeSync(file);
  }
}

/** The first bytes of an open file; fewer where it is shorter. */
function readAt(file: number, length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  return bytes.subarray(0, readFullySync(file, 0, bytes));
}

function checkLength(path: string, { dtype, shape, dataAt }: NpyHeader, found: number): void {
  const expected = shape.reduce((product, length) => product * length, dtype.itemSize);
  if (expected === found) return;
  throw new SuperchunkError(
    "TRUNCATED",
    `the header promises ${expected} bytes of values behind byte ${dataAt}, but there are ${found}. The file is not whole; look for another copy`,
    { path, offset: dataAt, field: "shape", expected, found },
  );
}
