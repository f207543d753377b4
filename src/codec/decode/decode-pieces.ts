/**
 * Decodes a block out of a kernel's memory into the caller's. Knows that what goes through the processor's cache in small
 * pieces is written and copied in half the time; streams and filters are decode-block.ts's.
 */
import { type BlockDecoder, decodeStreams, type PlacedBlock } from "./decode-block.ts";

/** Bytes of a shuffled block that are put together before they are copied. */
const PIECE = 1 << 17;
/** Pieces are multiples of so many elements, so that all of them begin at a cache line. */
const ELEMENTS = 64;

/**
 * Decodes bytes `from` to `to` of a block to the beginning of `out`.
 *
 * @param target an address with room for the block and slack
 * @throws BAD_CHUNK; `out` is then as it was
 */
export function decodeBlockInto(
  decoder: BlockDecoder,
  placed: PlacedBlock,
  target: number,
  from: number,
  to: number,
  out: Uint8Array,
): void {
  const { kernel, header } = decoder;
  const { calls, memory } = kernel;
  const { typesize } = header;
  const streams = decodeStreams(decoder, placed, target);
  if (streams.filter !== calls.unshuffleStreams) {
    streams.filter?.(streams.from, target, streams.length, typesize);
    out.set(memory.bytes.subarray(target + from, target + to));
    return;
  }
  const count = streams.length / typesize;
  const step = Math.max(1, Math.floor(PIECE / typesize / ELEMENTS)) * ELEMENTS;
  for (let first = Math.floor(from / typesize); first * typesize < to; first += step) {
    const start = first * typesize;
    const n = Math.min(step, count - first);
    calls.unshufflePart(streams.from, first, n, target, typesize);
    const a = Math.max(from, start);
    const b = Math.min(to, start + n * typesize);
    out.set(memory.bytes.subarray(target + a - start, target + b - start), a - from);
  }
}
