/**
 * A chunk sequence: one run of decoded bytes, cut into chunks that lie somewhere in a store.
 *
 * Every dialect becomes one of these; reading, verifying and exporting know nothing else of a dialect.
 */

import type { BlpkHeader } from "../../format/header.ts";
import type { ChecksumName } from "../../format/types.ts";
import type { ReadableStore } from "../../store/types.ts";

/** Where a chunk lies. */
export interface ChunkPlace {
  /** Index in the array, from 0. */
  readonly index: number;
  /** Key of the object in the archive's store. */
  readonly key: string;
  /** Byte offset of the Blosc header in the object. */
  readonly offset: number;
  /** Uncompressed bytes that the archive's metadata promises. */
  readonly nbytes: number;
  /** Compressed bytes if known without reading the chunk's header, else undefined. */
  readonly ctbytes: number | undefined;
  /** Bytes of the object that chunk, digest and reserve may take at most; Infinity where its size is not known. */
  readonly available: number;
  /** Header of the object, where that is a `blpk` file or superchunk. */
  readonly header?: BlpkHeader;
}

/** A chunk's place with what reading it needs besides. */
export interface PlacedChunk extends ChunkPlace {
  readonly checksum: ChecksumName;
  /** Bytes of a file header right in front of the chunk, to be checked with it (`carray` files); else 0. */
  readonly prologue: number;
  /** No other chunk follows in the object: `available` ends where the object does (default: not known). */
  readonly endsObject?: boolean;
}

export interface ChunkSequence {
  readonly store: ReadableStore;
  /** Decoded bytes of the whole sequence. */
  readonly nbytes: number;
  /** Decoded bytes of every chunk but the last, which may be shorter; 0 where there is nothing. */
  readonly chunkBytes: number;
  readonly nchunks: number;
  /**
   * Where chunks are of unequal lengths: the first decoded byte of each, and the end. `chunkBytes` is the longest one's then.
   * Absent where all but the last are as long as one another.
   */
  readonly starts?: Float64Array | undefined;
  /** Places of the chunks `[first, end)`, in order. Throws where the tables that tell them are damaged or missing. */
  places(first: number, end: number, signal?: AbortSignal): Promise<readonly PlacedChunk[]>;
  /** The place of one chunk, if it is known without reading. */
  placeNow(index: number): PlacedChunk | undefined;
  /** The dialect knows chunk checksums (a file may still have none). */
  readonly hasChecksums: boolean;
  /**
   * Each chunk lies at the beginning of an object of its own, behind nothing but its prologue, and no digest follows
   * it (default: not so).
   */
  readonly hasObjectForEach?: boolean;
  /** What is read first from an object counts only after one more question (default: not so). */
  readonly isConfirmed?: boolean;
  /** Keys of all objects that hold the sequence. */
  keys(signal?: AbortSignal): AsyncIterable<string>;
  /** Objects that lie beside the sequence's own and do not count, in words (for `verify`). */
  leftovers(signal?: AbortSignal): Promise<readonly string[]>;
}

/**
 * Chunks whose decoded sizes only their own headers tell: Python objects, one pickle a chunk. They are checked and listed, and
 * never read. [FD-05]
 */
export class PickleSequence implements ChunkSequence {
  readonly store: ReadableStore;
  readonly nbytes: number;
  readonly chunkBytes: number;
  readonly nchunks: number;
  readonly hasChecksums: boolean;
  readonly #places: ChunkSequence;

  /** `places` finds the chunks; what it says of their decoded sizes does not count. */
  constructor(places: ChunkSequence) {
    this.store = places.store;
    this.nbytes = places.nbytes;
    this.chunkBytes = places.chunkBytes;
    this.nchunks = places.nchunks;
    this.hasChecksums = places.hasChecksums;
    this.#places = places;
  }

  async places(first: number, end: number, signal?: AbortSignal): Promise<readonly PlacedChunk[]> {
    const found: PlacedChunk[] = [];
    for (const place of await this.#places.places(first, end, signal)) {
      const { key, offset } = place;
      const head = await this.store.getRange(key, { offset, length: 16 }, { signal });
      // What is missing or cut off is reported where the chunk is read.
      const view = head?.length === 16 ? new DataView(head.buffer, head.byteOffset, 16) : undefined;
      found.push(view === undefined ? place : { ...place, nbytes: view.getUint32(4, true) });
    }
    return found;
  }

  placeNow(): undefined {
    return undefined;
  }

  keys(signal?: AbortSignal): AsyncIterable<string> {
    return this.#places.keys(signal);
  }

  leftovers(signal?: AbortSignal): Promise<readonly string[]> {
    return this.#places.leftovers(signal);
  }
}

/** Decoded bytes of chunk `index` in a run of `nbytes` bytes cut every `chunkBytes`. */
export function nbytesOfChunk(index: number, nbytes: number, chunkBytes: number): number {
  return Math.max(0, Math.min(chunkBytes, nbytes - index * chunkBytes));
}

/** The chunk of a sequence that holds decoded byte `at`, which is below `nbytes`. */
export function chunkAt(
  { starts, chunkBytes }: Pick<ChunkSequence, "starts" | "chunkBytes">,
  at: number,
): number {
  if (starts === undefined) return Math.floor(at / chunkBytes);
  let low = 0;
  let high = starts.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >>> 1;
    if ((starts[middle] as number) <= at) low = middle;
    else high = middle;
  }
  return low;
}

/** Where chunk `index` of a sequence starts in its decoded bytes. */
export function startOfChunk(
  { starts, chunkBytes }: Pick<ChunkSequence, "starts" | "chunkBytes">,
  index: number,
): number {
  return starts === undefined ? index * chunkBytes : (starts[index] as number);
}
