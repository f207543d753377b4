/**
 * Whether what stands behind a data file is what a link added to it: an index that leads to the chunks of that very file.
 *
 * A record alone proves nothing: whoever made it may have chosen any file. Must not write. @see FORMAT.md [FL-05]
 */
import { openBlpkFile } from "../../archive/places/blpk-file.ts";
import { decodeHeader } from "../../codec/index.ts";
import { isSuperchunkError } from "../../errors.ts";
import type { ReadableStore } from "../../store/types.ts";
import { decodeShardIndex, type ShardEntry, shardIndexLength } from "../../zarr/read/shard-index.ts";

const ENTRY = shardIndexLength(1) - shardIndexLength(0);
const CHUNK_HEADER = 16;

/** What stands behind the first `size` bytes of a file, to its end. */
export interface FoundTail {
  readonly size: number;
  readonly bytes: Uint8Array;
}

/** True where a tail is a whole index, perhaps behind one chunk: the padded copy of a short last one. */
export async function isIndexTail(tail: FoundTail, path: string): Promise<boolean> {
  return (await readEntries(tail, path)) !== undefined;
}

/**
 * True where it is such an index, all of whose entries lead to chunks of the file, or to the copy, and the file says that all of its chunks
 * begin before. Throws what reading throws, but for damage: what cannot be read proves nothing.
 */
export async function isIndexOfFile(store: ReadableStore, key: string, tail: FoundTail): Promise<boolean> {
  const entries = await readEntries(tail, store.describe(key));
  if (entries === undefined) return false;
  const { size, bytes } = tail;
  try {
    const { starts } = await openBlpkFile(store, key, size + bytes.length, Number.POSITIVE_INFINITY);
    const own = new Set(starts);
    return (
      starts.length > 0 &&
      starts.every((start) => start < size) &&
      entries.every(({ offset, nbytes }) => offset === size || (own.has(offset) && offset + nbytes <= size))
    );
  } catch (error) {
    if (isSuperchunkError(error) && error.isDamage) return false;
    throw error;
  }
}

/** The chunks that the index of a tail names: those in front of it, and the copy if there is one, which fills what is between. */
async function readEntries(tail: FoundTail, path: string): Promise<readonly ShardEntry[] | undefined> {
  const { size, bytes } = tail;
  for (const copy of [0, copyLength(bytes)]) {
    const capacity = (bytes.length - copy - shardIndexLength(0)) / ENTRY;
    if (!Number.isInteger(capacity) || capacity < 1) continue;
    try {
      const all = await decodeShardIndex(bytes.subarray(copy), {
        path,
        size: size + bytes.length,
        grid: [capacity],
      });
      const entries = all.filter((entry) => entry !== undefined);
      const behind = entries.filter(({ offset, nbytes }) => offset + nbytes > size);
      const isRight =
        copy === 0
          ? behind.length === 0
          : behind.length === 1 && behind.every((each) => each.offset === size && each.nbytes === copy);
      if (entries.length > 0 && isRight) return entries;
    } catch (error) {
      if (!isSuperchunkError(error) || !error.isDamage) throw error;
    }
  }
  return undefined;
}

/** Bytes of the chunk at the start of a tail; 0 where there is none. */
function copyLength(bytes: Uint8Array): number {
  if (bytes.length < CHUNK_HEADER) return 0;
  try {
    return decodeHeader(bytes.subarray(0, CHUNK_HEADER), bytes.length).ctbytes;
  } catch (error) {
    if (isSuperchunkError(error)) return 0;
    throw error;
  }
}
