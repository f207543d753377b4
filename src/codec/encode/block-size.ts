/**
 * How c-blosc 1.21 cuts a buffer into blocks, and blocks into streams.
 *
 * Knows the rules alone; must not know how anything is compressed.
 * @see https://github.com/Blosc/c-blosc/blob/main/blosc/blosc.c
 */
import { MAX_BLOCKSIZE, MAX_SPLITS, MIN_SPLIT_LENGTH } from "../header.ts";
import type { CompressorName } from "../types.ts";

/** Shorter buffers are stored, and shorter block sizes are not accepted. Bytes. */
export const MIN_BUFFER = 128 as const;

const L1_CACHE = 32 * 1024;
const MAX_SPLIT_UNIT = 256 * 1024;
const MIN_SPLIT_BLOCK = 64 * 1024;
const MAX_SPLIT_BLOCK = 1024 * 1024;
/** By clevel, in units of the L1 cache. */
const LEVEL_FACTOR = [0.25, 0.5, 1, 2, 4, 4, 8, 8, 8, 8] as const;

const HIGH_RATIO: ReadonlySet<CompressorName> = new Set<CompressorName>(["lz4hc", "zlib", "zstd"]);

/**
 * Whether the whole blocks of a chunk are cut into `typesize` streams, by c-blosc's default "forward compatible" rule.
 * A shorter last block never is.
 */
export function splitsBlocks(cname: CompressorName, typesize: number, blocksize: number): boolean {
  return cname !== "zstd" && typesize <= MAX_SPLITS && Math.floor(blocksize / typesize) >= MIN_SPLIT_LENGTH;
}

/** What {@link chooseBlocksize} depends on. */
export interface BlocksizeRequest {
  readonly cname: CompressorName;
  readonly clevel: number;
  readonly typesize: number;
  /** Length of the buffer, bytes. */
  readonly nbytes: number;
  /** What the caller wishes; 0: choose. A wish is cut to what c-blosc allows, and then treated as it treats it. */
  readonly blocksize: number;
}

/** The block size of a chunk, in bytes: a multiple of the typesize unless the buffer is shorter than that. At least 1. */
export function chooseBlocksize({ cname, clevel, typesize, nbytes, blocksize }: BlocksizeRequest): number {
  if (nbytes < typesize) return 1;
  let size =
    blocksize > 0 ? clamp(blocksize, MIN_BUFFER, MAX_BLOCKSIZE) : automaticBlocksize(cname, clevel, nbytes);
  // c-blosc enlarges a given block size as well.
  if (clevel > 0 && splitsBlocks(cname, typesize, size)) {
    size = clamp(Math.min(size, MAX_SPLIT_UNIT) * typesize, MIN_SPLIT_BLOCK, MAX_SPLIT_BLOCK);
  }
  size = Math.min(size, nbytes);
  return size > typesize ? size - (size % typesize) : size;
}

function automaticBlocksize(cname: CompressorName, clevel: number, nbytes: number): number {
  if (nbytes < L1_CACHE) return nbytes;
  const factor = LEVEL_FACTOR[clevel] ?? 4;
  const highRatio = HIGH_RATIO.has(cname);
  return L1_CACHE * factor * (highRatio ? 2 : 1) * (highRatio && clevel === 9 ? 2 : 1);
}

function clamp(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), high);
}
