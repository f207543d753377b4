/**
 * Deflate streams whose end nobody knows before, as gzip has them.
 *
 * Knows the kernel's calls; must not know what is around the streams.
 */
import { SuperchunkError } from "../../errors.ts";
import { maxRatioOf } from "../compressors.ts";
import { SLACK } from "../kernel-module.ts";
import { prepare } from "../prepare.ts";
import { streamFailure } from "./decode-block.ts";
import { giveBackKernel, takeKernel } from "./decode-kernel.ts";

/** What a deflate stream decoded to. */
export interface Inflated {
  /** A buffer of its own, or the start of the one that was given. */
  readonly bytes: Uint8Array;
  /** Bytes that the stream takes. */
  readonly consumed: number;
}

/**
 * Decodes the deflate stream (RFC 1951) at the start of `stream`; what follows it is left alone.
 *
 * @param limit the most bytes that it may decode to
 * @param out where the result goes, at least `limit` bytes
 * @throws BAD_CHUNK where it is damaged or decodes to more, LIMIT where there is no memory for it
 */
export async function inflate(stream: Uint8Array, limit: number, out?: Uint8Array): Promise<Inflated> {
  await prepare("zlib");
  // What the caller expects is a word of metadata: memory is taken for what the stream can hold.
  const room = Math.min(limit, stream.length * maxRatioOf("zlib"));
  const kernel = takeKernel();
  try {
    const input = kernel.base + room + SLACK;
    kernel.memory.reserve(input + stream.length + SLACK);
    kernel.memory.bytes.set(stream, input);
    const written = kernel.calls.decodeDeflate(input, stream.length, kernel.base, room);
    if (written < 0) {
      throw new SuperchunkError(
        "BAD_CHUNK",
        `the deflate stream does not decode to at most ${limit} bytes: ${streamFailure(written)}; the chunk is damaged`,
        { field: "stream", expected: limit, found: written },
      );
    }
    const decoded = kernel.memory.bytes.subarray(kernel.base, kernel.base + written);
    const bytes = out === undefined ? decoded.slice() : out.subarray(0, written);
    if (out !== undefined) bytes.set(decoded);
    return { bytes, consumed: kernel.calls.deflateEnd() - input };
  } finally {
    giveBackKernel(kernel);
  }
}
