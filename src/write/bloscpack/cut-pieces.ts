/** Cuts a stream of bytes into pieces of one size. Knows nothing of formats. */
import type { PutSource } from "../../store/types.ts";

/** The first buffer; it grows with the bytes that really come, never on the word of a size. */
const FIRST_BUFFER = 1 << 16;

/** A source as pieces, whatever form it has. */
export async function* piecesOf(source: PutSource, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
  signal?.throwIfAborted();
  if (source instanceof Uint8Array) {
    yield source;
    return;
  }
  for await (const piece of source) {
    signal?.throwIfAborted();
    yield piece;
  }
}

/**
 * Pieces of `size` bytes, the last one shorter where the source ends so; none of an empty source. `start` are bytes
 * in front of the source's own. A piece is valid until the next one is asked for.
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
  for await (const piece of piecesOf(source, signal)) {
    let at = 0;
    while (at < piece.length) {
      if (filled === size) {
        yield buffer.subarray(0, size);
        filled = 0;
      }
      if (filled === 0 && piece.length - at >= size) {
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
