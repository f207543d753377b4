/** What other layers may ask of the Blosc codec. Knows chunks and blocks; must not know any file format. */

/** Compressors that a Blosc1 header can name. `lz4hc` is `lz4` in a header. @see FORMAT.md [FB] */
export type Compressor = "blosclz" | "lz4" | "snappy" | "zlib" | "zstd";

/** Compressors that {@link EncodeOptions} can request. */
export type CompressorName = Compressor | "lz4hc";

/** The filter applied before compression. */
export type Shuffle = "noshuffle" | "shuffle" | "bitshuffle";

/** A decoded and checked Blosc1 chunk header. All sizes in bytes. */
export interface ChunkHeader {
  readonly version: number;
  readonly versionlz: number;
  readonly flags: number;
  readonly typesize: number;
  /** Uncompressed size of the chunk. */
  readonly nbytes: number;
  readonly blocksize: number;
  /** Size of the whole chunk, header included. */
  readonly ctbytes: number;
  readonly compressor: Compressor;
  readonly shuffle: Shuffle;
  /** Stored, not compressed. */
  readonly memcpyed: boolean;
  /** Blocks are split in `typesize` streams (never the short last block). */
  readonly split: boolean;
  readonly nblocks: number;
}

/** A range of bytes of a chunk that a partial decode must fetch. */
export interface BlockRange {
  /** Index of the first block of the range, and of the block after the last. */
  readonly firstBlock: number;
  readonly endBlock: number;
  /** Offset of its compressed bytes from the start of the chunk. */
  readonly offset: number;
  readonly length: number;
}

/** Settings of {@link encode}. Defaults: lz4, 5, shuffle, 1, automatic. */
export interface EncodeOptions {
  readonly cname?: CompressorName;
  /** 0 to 9. */
  readonly clevel?: number;
  readonly shuffle?: Shuffle;
  /** Bytes of an element, 1 to 255. */
  readonly typesize?: number;
  /** Bytes; if 0 or absent, chosen from clevel, typesize and length like c-blosc. */
  readonly blocksize?: number;
}

/** New decoded bytes of a chunk from byte `at`: `bytes`, repeated until `length` bytes are replaced. */
export interface ByteEdit {
  readonly at: number;
  readonly bytes: Uint8Array;
  /** Default: as many as `bytes`. */
  readonly length?: number;
}

/** Encodes chunks, in the calling thread or elsewhere. */
export interface ChunkEncoder {
  /** Number of chunks worth requesting at a time. */
  readonly parallel: number;
  /** The same for one compressor, if that is less than `parallel`: waiting chunks push one another out of the cache. */
  parallelOf?(cname: CompressorName | undefined): number;
  /**
   * Encodes one chunk, in a new buffer. `data` may change once the promise resolves.
   *
   * @param room memory for the result, at least 16 bytes longer than `data`, for an encoder that can use it
   * @throws as `encode`
   */
  encode(data: Uint8Array, options: EncodeOptions, room?: Uint8Array<ArrayBuffer>): Promise<Uint8Array>;
  /**
   * A helper for a compressor whose `parallelOf` is 1; undefined if there is none. `isLimit`: encoding has
   * taken nearly all of the calling thread's time.
   */
  helperOf?(cname: CompressorName | undefined, isLimit: boolean): EncodeHelper | undefined;
}

/**
 * Encodes beside the calling thread, for a compressor that is faster than handing over chunks one by one. The
 * helper takes many chunks at a time, while the calling thread encodes the others.
 */
export interface EncodeHelper {
  /**
   * Takes a copy of `data`, which may change at once. Undefined if enough is under way: the caller then
   * encodes. `place` returns memory for the chunk once its length is known.
   */
  offer(
    data: Uint8Array,
    options: EncodeOptions,
    place: (length: number) => Uint8Array,
  ): Promise<Uint8Array> | undefined;
}

/** Settings of every decoding call. */
export interface DecodeOptions {
  /** Memory for the result, at least as long as the result. Default: a new array. */
  readonly out?: Uint8Array | undefined;
  /** Decoded bytes of the chunk according to its archive; `BAD_FIELD` if the header differs. */
  readonly expectedNbytes?: number | undefined;
  /** Most decoded bytes that the chunk may have; `LIMIT` if the header says more. */
  readonly maxNbytes?: number | undefined;
}

// The compressors of Blosc1: their numbers in a header, and how far each can expand. Knows no chunk.

/** A compressor in the header. */
export interface CompressorFormat {
  readonly name: Compressor;
  /** Bits 5 to 7 of the flags. `lz4hc` has no number of its own, because its streams are lz4 streams. */
  readonly id: number;
  /** Byte 1 of the header: the version of the compressor's format. */
  readonly versionlz: number;
  /**
   * Most decoded bytes that one compressed byte can stand for. A header that claims more is wrong, which is
   * detected before memory is allocated.
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
