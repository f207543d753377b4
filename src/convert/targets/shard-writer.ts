/**
 * Encoded chunks as the bytes of one Zarr v3 shard: the chunks back to back, then the index.
 *
 * Streams with flat memory: large chunks go through as they are, small ones are gathered. Must not know where
 * the chunks come from or where the shard goes.
 */
import { emptyEntries, encodeShardIndex } from "../../zarr/read/shard-index.ts";

/** Small chunks are gathered up to this many bytes, so that a piece costs few promises and system calls. */
const GATHER = 512 * 1024;
const SMALL = 16 * 1024;

/**
 * The pieces of a shard. Chunks are taken in the order of their bytes; `slotOf(k)` is the index slot of the
 * k-th. A chunk may be reused by its maker once the next one is asked for; so may a piece.
 */
export async function* shardPieces(
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  capacity: number,
  slotOf: (k: number) => number = (k) => k,
): AsyncGenerator<Uint8Array> {
  const entries = emptyEntries(capacity);
  let gathered = new Uint8Array(SMALL);
  let filled = 0;
  let offset = 0;
  let k = 0;
  for await (const chunk of chunks) {
    entries[slotOf(k++)] = { offset, nbytes: chunk.length };
    offset += chunk.length;
    if (filled + chunk.length > GATHER && filled > 0) {
      yield gathered.subarray(0, filled);
      filled = 0;
    }
    if (chunk.length >= GATHER) {
      yield chunk;
      continue;
    }
    if (filled + chunk.length > gathered.length) gathered = grow(gathered, filled);
    gathered.set(chunk, filled);
    filled += chunk.length;
  }
  if (filled > 0) yield gathered.subarray(0, filled);
  yield await encodeShardIndex(entries);
}

/** Goes from the small buffer, which is enough for most small arrays, to the large one in one step. */
function grow(gathered: Uint8Array, filled: number): Uint8Array<ArrayBuffer> {
  const large = new Uint8Array(GATHER);
  large.set(gathered.subarray(0, filled));
  return large;
}
