/**
 * Options of making a Bloscpack file, and the defaults of bloscpack 0.16. Knows the options; must not know any store.
 * @see FORMAT.md [F1.3-07]
 */

import type { LongOptions } from "../../archive/kinds/types.ts";
import type { ChunkEncoder, CompressorName, EncodeOptions, Shuffle } from "../../codec/types.ts";
import { badArgument, SuperchunkError } from "../../errors.ts";
import { type BlpkHeader, CHECKSUM_NAMES } from "../../format/header.ts";
import type { ChecksumName, DType, JsonInput } from "../../format/types.ts";
import type { Reserve } from "../layout/settings.ts";

/** A count, or a multiple of another count: `10x`. */
export type CountOrFactor = number | `${number}x`;

/** Compression of chunks. Defaults are those of bloscpack 0.16. */
export interface BloscpackCompression {
  /** Bytes of an element, 1 to 255 (default 8; for an array its item size). */
  readonly typesize?: number | undefined;
  /** 0 to 9 (default 7). */
  readonly clevel?: number | undefined;
  /** Default blosclz. */
  readonly cname?: CompressorName | undefined;
  /** Default `shuffle`. */
  readonly shuffle?: Shuffle | undefined;
  /** Encodes chunks (default: the calling thread). */
  readonly encoder?: ChunkEncoder | undefined;
}

/** Options of the metadata section. Defaults are those of bloscpack 0.16. */
export interface BloscpackMetadataOptions {
  /** Default adler32. */
  readonly checksum?: ChecksumName | undefined;
  /** Default zlib; not used if it makes the text longer. */
  readonly codec?: "none" | "zlib" | undefined;
  /** 0 to 9 (default 6). */
  readonly level?: number | undefined;
  /** Room for the stored text: bytes, or a multiple of its length (default `10x`). */
  readonly maxMetaSize?: CountOrFactor | undefined;
}

/** Options of `compressBytes` and `packBytes`. */
export interface BloscpackOptions extends BloscpackCompression, LongOptions {
  /** Marks the bytes as the values of an array, in this memory order (default C) and the byte order of the dtype. */
  readonly array?:
    | { readonly dtype: DType; readonly shape: readonly number[]; readonly order?: "C" | "F" | undefined }
    | undefined;
  /** Uncompressed bytes of a chunk (default 1 MiB), or `max`: as many as Blosc holds. */
  readonly chunkSize?: number | "max" | undefined;
  /** Checksum of each chunk (default adler32). */
  readonly checksum?: ChecksumName | undefined;
  /** Adds a table of chunk offsets (default true). Bloscpack cannot append to a file without it. */
  readonly offsets?: boolean | undefined;
  /**
   * Room after each chunk, so that `setChunk` finds a slot for a larger one (default none): bytes, or a share of the chunk such as `10%`.
   * Makes a version 4 file, which bloscpack refuses. Needs offsets.
   */
  readonly reserve?: Reserve | undefined;
  /**
   * Yields each chunk as soon as it is encoded (default false): without offsets, and without `size` with -1 for the number of chunks and
   * the length of the last one. For pipes; bloscpack 0.16 reads a file with -1 as empty.
   */
  readonly stream?: boolean | undefined;
  /** Room for future chunks in the table: a count, or a multiple of the current count (default `10x`). */
  readonly maxAppChunks?: CountOrFactor | undefined;
  /** Any JSON value; for an array an object, whose members are added to the array's own. */
  readonly metadata?: JsonInput | undefined;
  readonly metadataOptions?: BloscpackMetadataOptions | undefined;
  /** Bytes of the source, if known. A file without offsets is then written as the bytes arrive. */
  readonly size?: number | undefined;
  /** Replaces the object at the key (default false: `CONFLICT`). */
  readonly force?: boolean | undefined;
}

/** The names of {@link BloscpackOptions}. */
export const OPTIONS =
  "array checksum chunkSize clevel cname encoder force maxAppChunks metadata metadataOptions offsets onProgress reserve shuffle signal size stream typesize";
/** The names of {@link BloscpackMetadataOptions}. */
export const METADATA_OPTIONS = "checksum codec level maxMetaSize";

/** Default chunk size of bloscpack, `1M`. */
const DEFAULT_CHUNK_SIZE: number = 1 << 20;
/** Largest input of Blosc. */
const MAX_CHUNK_SIZE = 0x7fff_ffff - 16;
const DEFAULT_FACTOR = "10x";

/** How a file is cut. Sizes in bytes; nchunks and lastChunk are -1 if they are not known yet. */
export interface Chunking {
  readonly nchunks: number;
  readonly chunkSize: number;
  readonly lastChunk: number;
}

/** The cut of `nbytes` bytes: a single chunk gives its own length as chunk-size, and no bytes make one empty chunk. */
export function cutBytes(nbytes: number, chunkSize: number): Chunking {
  if (nbytes === 0) return { nchunks: 1, chunkSize: 0, lastChunk: 0 };
  if (nbytes <= chunkSize) return { nchunks: 1, chunkSize: nbytes, lastChunk: nbytes };
  const nchunks = Math.ceil(nbytes / chunkSize);
  return { nchunks, chunkSize, lastChunk: nbytes - (nchunks - 1) * chunkSize };
}

/** The chunk size to use. With `itemSize`, chunks hold whole items. Throws `BAD_ARGUMENT`. */
export function settleChunkSize(wish: number | "max" | undefined, itemSize = 1): number {
  const whole = (size: number): number => Math.max(itemSize, Math.floor(size / itemSize) * itemSize);
  if (itemSize > MAX_CHUNK_SIZE)
    throw new SuperchunkError(
      "LIMIT",
      `an item has ${itemSize} bytes, but Blosc holds at most ${MAX_CHUNK_SIZE}`,
      { field: "dtype", expected: MAX_CHUNK_SIZE, found: itemSize },
    );
  if (wish === undefined) return whole(DEFAULT_CHUNK_SIZE);
  if (wish === "max") return whole(MAX_CHUNK_SIZE);
  checkWhole("chunk-size", wish, 1, MAX_CHUNK_SIZE);
  if (wish % itemSize !== 0)
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `chunk-size ${wish} is not a multiple of the item's ${itemSize} bytes, which bloscpack requires; take ${whole(wish)}`,
      { field: "chunk-size", expected: `a multiple of ${itemSize}`, found: wish },
    );
  return wish;
}

/** A count, or a multiple such as `10x` of `base`. Throws `BAD_ARGUMENT`. */
export function settleCount(field: string, wish: CountOrFactor | undefined, base: number): number {
  const given = wish ?? DEFAULT_FACTOR;
  if (typeof given === "number") return checkWhole(field, given, 0, Number.MAX_SAFE_INTEGER);
  const factor = /^(\d+)x$/.exec(given)?.[1];
  if (factor === undefined) throw badArgument(field, given, 'a count, or a factor such as "10x"');
  return checkWhole(field, Number(factor) * base, 0, Number.MAX_SAFE_INTEGER);
}

/** The integer, if it is in the range, and never minus zero, which would be stored as -0.0. Throws `BAD_ARGUMENT`. */
export function checkWhole(field: string, value: number, least: number, most: number): number {
  if (Number.isSafeInteger(value) && value >= least && value <= most) return value + 0;
  throw badArgument(field, value, `an integer from ${least} to ${most}`);
}

/** Checks a checksum's name. Throws `BAD_ARGUMENT`. */
export function checkChecksum(field: string, name: ChecksumName): ChecksumName {
  if (CHECKSUM_NAMES.includes(name)) return name;
  throw badArgument(field, name, `one of ${CHECKSUM_NAMES.join(", ")}`);
}

/** Encoding options, completed with bloscpack's defaults. */
export function settleCompression(
  options: BloscpackCompression,
  itemSize: number | undefined,
): Required<EncodeOptions> {
  // Blosc treats items of more than 255 bytes as single bytes.
  const own = itemSize === undefined ? 8 : itemSize >= 1 && itemSize <= 255 ? itemSize : 1;
  return {
    typesize: checkWhole("typesize", options.typesize ?? own, 1, 255),
    clevel: checkWhole("clevel", options.clevel ?? 7, 0, 9),
    cname: options.cname ?? "blosclz",
    shuffle: options.shuffle ?? "shuffle",
    blocksize: 0,
  };
}

/** A header of version 3, or of the given version. */
export function bloscpackHeader(
  cut: Chunking,
  facts: Pick<BlpkHeader, "offsets" | "metadata" | "checksum" | "typesize" | "maxAppChunks"> & {
    readonly version?: 3 | 4;
  },
): BlpkHeader {
  return { version: 3, headerLength: 32, ...facts, ...cut, metaSize: facts.maxAppChunks };
}
