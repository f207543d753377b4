/**
 * Whole streams of zlib, zstd and lz4 without a Blosc chunk around them, as other formats store them.
 *
 * Knows the kernels' calls; must not know chunks.
 */
import { SuperchunkError } from "../errors.ts";
import {
  type DecodeKernel,
  NEED_ALL,
  prepare,
  streamFailure,
  streamKernelOf,
  withKernel,
} from "./decode/decode-kernel.ts";
import { maxRatioOf } from "./header.ts";
import { SLACK } from "./kernel-module.ts";

// Deflate streams whose end is found by decoding them, as in gzip. Knows the kernel's calls; must not know
// the bytes around the streams.

interface Inflated {
  /** A new buffer, or the start of the given one. */
  readonly bytes: Uint8Array;
  /** Length of the compressed stream in bytes. */
  readonly consumed: number;
}

/**
 * Decodes the deflate stream (RFC 1951) at the start of `stream`; bytes after it are ignored.
 *
 * @param limit most decoded bytes
 * @param out memory for the result, at least `limit` bytes
 * @throws BAD_CHUNK if the stream is damaged or decodes to more, LIMIT if there is not enough memory
 */
export async function inflate(stream: Uint8Array, limit: number, out?: Uint8Array): Promise<Inflated> {
  await prepare("zlib");
  const decode: StreamDecoder = ({ calls }, ...numbers) => calls.decodeDeflate(...numbers);
  return decodeHere(
    { stream, limit, compressor: "zlib", name: "deflate" },
    decode,
    (decoded, kernel, input) => {
      const bytes = out === undefined ? decoded.slice() : out.subarray(0, decoded.length);
      if (out !== undefined) bytes.set(decoded);
      return { bytes, consumed: kernel.calls.deflateEnd() - input };
    },
  );
}

/** Decodes `length` bytes at `input` to `out`, at most `room` bytes. Returns their number, or a negative code. */
type StreamDecoder = (
  kernel: DecodeKernel,
  input: number,
  length: number,
  out: number,
  room: number,
) => number;

/** A stream that decodes to at most `limit` bytes; `name` is for messages. */
interface EncodedStream {
  readonly stream: Uint8Array;
  readonly limit: number;
  readonly compressor: "zlib" | "zstd" | "lz4";
  readonly name?: string;
}

/** Decodes a stream in the memory of a kernel. `take` gets the decoded bytes, which are valid until it returns. */
function decodeHere<T>(
  { stream, limit, compressor, name = compressor }: EncodedStream,
  decode: StreamDecoder,
  take: (decoded: Uint8Array<ArrayBuffer>, kernel: DecodeKernel, input: number) => T,
): T {
  // The limit comes from metadata, which may be wrong: no more memory is allocated than the stream can expand to.
  const room = Math.min(limit, stream.length * maxRatioOf(compressor));
  return withKernel((kernel) => {
    const input = kernel.base + room + SLACK;
    kernel.memory.reserve(input + stream.length + SLACK);
    kernel.memory.bytes.set(stream, input);
    const written = decode(kernel, input, stream.length, kernel.base, room);
    if (written >= 0)
      return take(kernel.memory.bytes.subarray(kernel.base, kernel.base + written), kernel, input);
    throw new SuperchunkError(
      "BAD_CHUNK",
      `the ${name} stream does not decode to at most ${limit} bytes: ${streamFailure(written)}; the chunk is damaged`,
      { field: "stream", expected: limit, found: written },
    );
  });
}

/**
 * Decodes a zlib stream (RFC 1950) or zstd frames (RFC 8878), including their own checksums, or a block of lz4.
 *
 * @param limit most decoded bytes
 * @returns the decoded bytes in a new buffer
 * @throws BAD_CHUNK if the stream is damaged or decodes to more, LIMIT if there is not enough memory
 */
export async function decodeStream(
  compressor: "zlib" | "zstd" | "lz4",
  stream: Uint8Array,
  limit: number,
): Promise<Uint8Array<ArrayBuffer>> {
  await prepare(compressor);
  return decodeStreamSync(compressor, stream, limit);
}

/** The same synchronously, after awaiting `prepare` for the `compressor`. */
export function decodeStreamSync(
  compressor: "zlib" | "zstd" | "lz4",
  stream: Uint8Array,
  limit: number,
): Uint8Array<ArrayBuffer> {
  const decode: StreamDecoder = (kernel, ...numbers) =>
    streamKernelOf(kernel, compressor)(...numbers, NEED_ALL);
  return decodeHere({ stream, limit, compressor }, decode, (decoded) => decoded.slice());
}
