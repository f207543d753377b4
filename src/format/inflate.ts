/** Unpacks the zlib streams (RFC 1950) of metadata sections with fflate; their length is known in advance. */

import { Unzlib, unzlibSync } from "fflate";
import { isEqual, joinBytes } from "../bytes/arrays.ts";
import { digest } from "../bytes/checksum.ts";
import { ByteReader } from "../bytes/fields.ts";
import { SuperchunkError } from "../errors.ts";

/** Input bytes given to fflate at a time. A byte of input gives at most 1032 bytes, so at most 1 MB results. */
const STEP = 1024;
/** Texts up to this size are unpacked in one call: a stream has buffers that cost more than most metadata. */
const AT_ONCE = 64 << 10;
/** zlib's own header and checksum. */
const SMALLEST_STREAM = 8;

/**
 * Unpacks a zlib stream that must give exactly `length` bytes; stops when it gives more. `at` is its place in the file. Throws
 * `BAD_FIELD`, and `TRUNCATED` for a stream shorter than zlib's header and checksum.
 */
export async function inflateZlib(
  stream: Uint8Array,
  length: number,
  path: string,
  at: number,
): Promise<Uint8Array> {
  const text = inflateUnchecked(stream, length, path, at);
  // zlib stores the checksum big-endian.
  if (!isEqual(await digest("adler32", text), stream.slice(-4).reverse()))
    throw wrong(path, at, "bytes of another adler32 than zlib's own", "zlib's own adler32");
  return text;
}

/** The same synchronously, without checking zlib's checksum: for streams that never left memory. */
export function inflateUnchecked(stream: Uint8Array, length: number, path: string, at: number): Uint8Array {
  new ByteReader(stream, path, at).need(0, SMALLEST_STREAM, "the zlib stream");
  const more = `more than meta-size ${length} bytes`;
  let text: Uint8Array;
  try {
    text =
      Math.max(length, stream.length) <= AT_ONCE
        ? inflateAtOnce(stream, length)
        : inflateInSteps(stream, length);
  } catch (cause) {
    if (cause instanceof TooLong) throw wrong(path, at, more, `${length} bytes`);
    throw wrong(
      path,
      at,
      `what is not zlib (${cause instanceof Error ? cause.message : String(cause)})`,
      `${length} bytes`,
      cause,
    );
  }
  if (text.length !== length) throw wrong(path, at, `${text.length} bytes`, `meta-size ${length} bytes`);
  return text;
}

/** Thrown when the stream gives more than was stated. */
class TooLong extends Error {}

function inflateAtOnce(stream: Uint8Array, length: number): Uint8Array {
  let text: Uint8Array;
  try {
    // One byte more than allowed, to detect a stream that gives more.
    text = unzlibSync(stream, { out: new Uint8Array(length + 1) });
  } catch (error) {
    throw error instanceof RangeError ? new TooLong() : error;
  }
  if (text.length > length) throw new TooLong();
  return text;
}

function inflateInSteps(stream: Uint8Array, length: number): Uint8Array {
  const parts: Uint8Array[] = [];
  let total = 0;
  const unzlib = new Unzlib((part) => {
    total += part.length;
    if (total > length) throw new TooLong();
    parts.push(part);
  });
  for (let from = 0; from < stream.length; from += STEP)
    unzlib.push(stream.slice(from, from + STEP), from + STEP >= stream.length);
  return joinBytes(parts);
}

function wrong(
  path: string,
  offset: number,
  found: string,
  expected: string,
  cause?: unknown,
): SuperchunkError {
  return new SuperchunkError(
    "BAD_FIELD",
    `the zlib stream at byte ${offset} gives ${found}; expected ${expected}. The metadata are damaged; look for another copy`,
    { path, offset, field: "metadata", expected, found, ...(cause === undefined ? {} : { cause }) },
  );
}
