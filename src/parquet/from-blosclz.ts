/** Converts streams of blosclz to lz4 with the same matches. Must not know chunks. @see docs/parquet-format.md [PS-06] */

import { at } from "../bytes/arrays.ts";
import { streamFailure } from "../codec/decode/decode-kernel.ts";
import { withEncodeKernel } from "../codec/encode/encode-kernel.ts";
import { align, HOST_BASE, SLACK } from "../codec/kernel-module.ts";
import { SuperchunkError } from "../errors.ts";
import type { StreamPiece, TakeRoom } from "./join-streams.ts";

/** Most bytes of an lz4 stream. */
const mostOf = (length: number): number => length + Math.ceil(length / 255) + 16;

/**
 * Returns lz4 streams with the data of the blosclz streams, in memory from `take`.
 *
 * @throws BAD_CHUNK for a stream that does not decode to its length
 */
export function blosclzToLz4(
  streams: readonly Pick<StreamPiece, "bytes" | "length">[],
  take: TakeRoom,
): readonly Uint8Array[] {
  const input = streams.reduce((most, { bytes }) => Math.max(most, bytes.length), 0);
  const longest = streams.reduce((most, { length }) => Math.max(most, length), 0);
  const total = streams.reduce((sum, { length }) => sum + mostOf(length), 0);
  return withEncodeKernel(({ calls, memory }) => {
    const plain = align(HOST_BASE + input + SLACK);
    const first = align(plain + longest + SLACK);
    memory.reserve(first + total + SLACK);
    let to = first;
    const ends = streams.map(({ bytes, length }) => {
      memory.bytes.set(bytes, HOST_BASE);
      const written = calls.blosclzToLz4(HOST_BASE, bytes.length, to, mostOf(length), plain, length);
      if (written < 0)
        throw new SuperchunkError(
          "BAD_CHUNK",
          `a blosclz stream of ${bytes.length} bytes does not decode to ${length} bytes: ${streamFailure(written)}; the chunk is damaged`,
          { field: "stream", expected: length, found: written },
        );
      to += written;
      return to - first;
    });
    const out = take(to - first);
    out.set(memory.bytes.subarray(first, to));
    return ends.map((end, i) => out.subarray(i === 0 ? 0 : at(ends, i - 1), end));
  });
}
