/** Cuts a stream of bytes, or the decoded bytes of an archive, into pieces of one size. Knows nothing of formats. */

import type { ChunkedArchive } from "../../archive/kinds/types.ts";
import { encodeAhead, encodeHere } from "../../codec/index.ts";
import type { ChunkEncoder, EncodeOptions } from "../../codec/types.ts";
import { pauseIfDue } from "../../store/pool.ts";
import { readPieces } from "../../store/source.ts";
import type { PutSource, StoreOptions } from "../../store/types.ts";

/** The first buffer. It grows with the bytes that arrive, never because of a stated size. */
const FIRST_BUFFER = 1 << 16;

/**
 * Pieces of `size` bytes; the last one may be shorter, and an empty source gives none. The bytes of `start` precede the
 * source's. A piece is valid until the next one is requested.
 */
export async function* cutPieces(
  source: PutSource,
  size: number,
  signal?: AbortSignal,
  start: Uint8Array = new Uint8Array(0),
): AsyncGenerator<Uint8Array> {
  let buffer = new Uint8Array(Math.max(start.length, Math.min(size, FIRST_BUFFER)));
  buffer.set(start);
  let filled = start.length;
  for await (const piece of readPieces(source, signal)) {
    let at = 0;
    while (at < piece.length) {
      if (filled === size) {
        yield buffer.subarray(0, size);
        filled = 0;
      }
      if (filled === 0 && piece.length - at >= size) {
        // Many small pieces of a long one must not keep an abort, or other work, waiting.
        await pauseIfDue();
        signal?.throwIfAborted();
        yield piece.subarray(at, at + size);
        at += size;
        continue;
      }
      const taken = Math.min(size - filled, piece.length - at);
      buffer = grown(buffer, filled, filled + taken, size);
      buffer.set(piece.subarray(at, at + taken), filled);
      filled += taken;
      at += taken;
    }
  }
  if (filled > 0) yield buffer.subarray(0, filled);
}

function grown(
  buffer: Uint8Array<ArrayBuffer>,
  filled: number,
  needed: number,
  most: number,
): Uint8Array<ArrayBuffer> {
  if (needed <= buffer.length) return buffer;
  const larger = new Uint8Array(Math.min(most, Math.max(needed, buffer.length * 2)));
  larger.set(buffer.subarray(0, filled));
  return larger;
}

/** Bytes read at once when rows move. */
export const READ_BYTES: number = 4 << 20;

/** The decoded bytes `[start, end)` of an archive, in pieces. */
export async function* readInPieces(
  { archive }: { readonly archive: Pick<ChunkedArchive, "readBytes"> },
  start: number,
  end: number,
  { signal }: StoreOptions,
): AsyncGenerator<Uint8Array> {
  for (let at = start; at < end; at += READ_BYTES) {
    signal?.throwIfAborted();
    yield await archive.readBytes(at, Math.min(end, at + READ_BYTES), { signal });
  }
}

// Encodes pieces of bytes as Blosc chunks, in order: one after the other in this thread, or several at a time elsewhere.

/** A chunk, and the size of the bytes it was made from. */
interface EncodedPiece {
  readonly chunk: Uint8Array;
  readonly nbytes: number;
}

/** Encodes each piece. A piece's memory may be reused once the next is requested. */
export async function* encodePieces(
  pieces: AsyncIterable<Uint8Array>,
  options: EncodeOptions,
  encoder: ChunkEncoder = encodeHere,
): AsyncGenerator<EncodedPiece> {
  const parallel = encoder.parallelOf?.(options.cname) ?? encoder.parallel;
  const lengths: number[] = [];
  async function* kept(): AsyncGenerator<Uint8Array> {
    for await (const piece of pieces) {
      lengths.push(piece.length);
      yield parallel < 2 ? piece : piece.slice();
    }
  }
  const encode: ChunkEncoder["encode"] = (data, settings) => encoder.encode(data, settings);
  for await (const chunk of encodeAhead(kept(), options, { parallel, encode }))
    yield { chunk, nbytes: lengths.shift() ?? 0 };
}
