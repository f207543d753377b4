/**
 * The fields of the 32-byte header of every Blosc2 chunk, unchecked; header.ts checks them.
 *
 * The first 16 bytes are those of Blosc1, with both shuffle bits set. Then follow 6 filters, the codec of a plugin, its parameter, a
 * parameter of each filter, and two bytes of flags. This file is small, because every page that decodes Blosc loads it.
 *
 * @see docs/blosc2-format.md [BC-01 to BC-03], https://github.com/Blosc/c-blosc2/blob/main/README_CHUNK_FORMAT.rst
 */
import { at, checkBytes } from "../bytes/arrays.ts";
import type { ChunkHeader, Compressor } from "../codec/types.ts";

export const HEADER2_LENGTH = 32;

const CODECS: readonly (Compressor | undefined)[] = ["blosclz", "lz4", undefined, "zlib", "zstd"];

/** Numbers of the filters that are undone here. */
export const FILTER = {
  none: 0,
  shuffle: 1,
  bitshuffle: 2,
  delta: 3,
  /** As early c-blosc2 2.x wrote it: the sums restart if fewer than 16 bytes of a stream remain. */
  oldBytedelta: 34,
  bytedelta: 35,
} as const;

/** What a chunk holds instead of blocks. `none`: values that were never set, which read as zeros. */
export type Special = "zeros" | "nan" | "value" | "none";
const SPECIALS: readonly (Special | undefined)[] = [undefined, "zeros", "nan", "value", "none"];

/** A filter, as the encoder applied it. */
export interface Filter {
  /** Number of the filter: 1 shuffle, 2 bitshuffle, 3 delta, 4 trunc_prec, 35 bytedelta; plugins have others. */
  readonly id: number;
  /** Parameter of the filter; 0 if it has none. */
  readonly meta: number;
}

/** The header of a Blosc2 chunk. All sizes in bytes. */
export interface Blosc2Header extends ChunkHeader {
  /** 2: a chunk of Blosc2. */
  readonly format: 2;
  /** In the order of encoding. */
  readonly filters: readonly Filter[];
  /** The one value of the whole chunk. */
  readonly special: Special | undefined;
  /** True if streams refer to a dictionary stored before them. */
  readonly hasDictionary: boolean;
  /** Blocks have lengths of their own, and `blocksize` is 0. */
  readonly isVariable: boolean;
}

/** True if the bytes begin like a Blosc2 chunk: version 3 or later, and both shuffle bits set. */
export function isBlosc2(chunk: Uint8Array): boolean {
  return checkBytes("the chunk", chunk).length > 2 && at(chunk, 0) > 2 && (at(chunk, 2) & 5) === 5;
}

/** Reads the fields of a header without checks; undefined if its codec is not one of Blosc2's own. `chunk` has at least 32 bytes. */
export function fieldsOf(chunk: Uint8Array): Blosc2Header | undefined {
  const view = new DataView(chunk.buffer, chunk.byteOffset);
  const byte = (i: number): number => view.getUint8(i);
  const [nbytes, size, flags, last] = [view.getInt32(4, true), view.getInt32(8, true), byte(2), byte(31)];
  const isVariable = (byte(30) & 1) !== 0;
  const memcpyed = (flags & 2) !== 0;
  const special = SPECIALS[(last >> 4) & 7];
  const hasBlocks = !memcpyed && special === undefined;
  const blocksize = isVariable ? 0 : Math.min(size, nbytes);
  // Programs of version 3 had five filters, and left the sixth slot uninitialized.
  const filters = [0, 1, 2, 3, 4, 5]
    .slice(0, byte(0) > 3 ? 6 : 5)
    .map((i) => ({ id: byte(16 + i), meta: byte(24 + i) }))
    .filter(({ id }) => id > 0);
  const shuffle = filters.filter(({ id }) => id === 1 || id === 2).at(-1)?.id;
  const compressor = CODECS[flags >> 5] ?? (hasBlocks ? undefined : "lz4");
  return (
    compressor && {
      format: 2,
      version: byte(0),
      versionlz: byte(1),
      flags,
      typesize: byte(3),
      nbytes,
      blocksize,
      ctbytes: view.getInt32(12, true),
      compressor,
      shuffle: shuffle === 1 ? "shuffle" : shuffle === 2 ? "bitshuffle" : "noshuffle",
      memcpyed,
      split: hasBlocks && !isVariable && (flags & 16) === 0,
      nblocks: nbytes <= 0 ? 0 : isVariable ? size : Math.ceil(nbytes / blocksize),
      filters,
      special,
      hasDictionary: hasBlocks && (last & 1) !== 0,
      isVariable,
    }
  );
}
