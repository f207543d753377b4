/**
 * The compressors of Blosc1: how a header names them, and how far each can expand. Knows no chunk.
 */
import type { Compressor } from "./types.ts";

/** What a header says about a compressor. */
export interface CompressorFormat {
  readonly name: Compressor;
  /** Bits 5 to 7 of the flags. `lz4hc` has no number of its own: it writes what lz4 reads. */
  readonly id: number;
  /** Byte 1 of the header: the version of the compressor's format. */
  readonly versionlz: number;
  /**
   * Decoded bytes that one compressed byte can stand for, at most. A header that promises more is wrong, which is known
   * before anything is allocated.
   */
  readonly maxRatio: number;
}

/** By the number in the flags. @see c-blosc, README_CHUNK_FORMAT.rst */
export const COMPRESSOR_FORMATS: readonly CompressorFormat[] = [
  // A length byte of 255 adds 255 bytes to a match.
  { name: "blosclz", id: 0, versionlz: 1, maxRatio: 256 },
  { name: "lz4", id: 1, versionlz: 1, maxRatio: 256 },
  // A copy of 64 bytes takes 3.
  { name: "snappy", id: 2, versionlz: 1, maxRatio: 32 },
  // 258 bytes for two bits.
  { name: "zlib", id: 3, versionlz: 1, maxRatio: 1032 },
  // A block of 128 KiB that repeats one byte takes 4.
  { name: "zstd", id: 4, versionlz: 1, maxRatio: 32_768 },
];

/** {@link CompressorFormat.maxRatio} of a compressor. */
export function maxRatioOf(compressor: Compressor): number {
  return COMPRESSOR_FORMATS.find(({ name }) => name === compressor)?.maxRatio ?? 0;
}
