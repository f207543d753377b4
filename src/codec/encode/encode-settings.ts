/**
 * The settings of an encode call, checked and completed.
 *
 * Knows what c-blosc accepts; must not know how anything is compressed.
 */
import { checkOptionNames } from "../../bytes/arrays.ts";
import { badArgument, SuperchunkError } from "../../errors.ts";
import { MAX_BLOCKSIZE, MAX_NBYTES, MAX_SPLITS, MIN_SPLIT_LENGTH, typesizeFor } from "../header.ts";
import type { CompressorName, EncodeOptions, Shuffle } from "../types.ts";

// How c-blosc 1.21 cuts a buffer into blocks, and blocks into streams. Must not know how anything is compressed.
// @see https://github.com/Blosc/c-blosc/blob/main/blosc/blosc.c

/** Shorter buffers are stored, and shorter block sizes are raised to this. Bytes. */
const MIN_BUFFER = 128 as const;

const L1_CACHE = 32 * 1024;
const MAX_SPLIT_UNIT = 256 * 1024;
const MIN_SPLIT_BLOCK = 64 * 1024;
const MAX_SPLIT_BLOCK = 1024 * 1024;
/** By clevel, in units of the L1 cache. */
const LEVEL_FACTOR = [0.25, 0.5, 1, 2, 4, 4, 8, 8, 8, 8] as const;

const HIGH_RATIO: ReadonlySet<CompressorName> = new Set<CompressorName>(["lz4hc", "zlib", "zstd"]);

/**
 * True if the whole blocks of a chunk are cut into `typesize` streams, by c-blosc's default "forward
 * compatible" rule. A shorter last block is never split.
 */
export function splitsBlocks(cname: CompressorName, typesize: number, blocksize: number): boolean {
  return cname !== "zstd" && typesize <= MAX_SPLITS && Math.floor(blocksize / typesize) >= MIN_SPLIT_LENGTH;
}

/** What {@link chooseBlocksize} depends on; sizes in bytes. */
export interface BlocksizeRequest {
  readonly cname: CompressorName;
  readonly clevel: number;
  readonly typesize: number;
  /** Length of the buffer. */
  readonly nbytes: number;
  /** In a request the caller's choice, limited and adjusted as c-blosc does; 0: automatic. */
  readonly blocksize: number;
}

/** The block size of a chunk, in bytes: a multiple of the typesize unless the buffer is shorter than that. At least 1. */
export function chooseBlocksize({ cname, clevel, typesize, nbytes, blocksize }: BlocksizeRequest): number {
  if (nbytes < typesize) return 1;
  let size =
    blocksize > 0 ? clamp(blocksize, MIN_BUFFER, MAX_BLOCKSIZE) : automaticBlocksize(cname, clevel, nbytes);
  // c-blosc enlarges a requested block size as well.
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

/** All choices of an encode call, made. Sizes in bytes. */
export interface EncodeSettings extends BlocksizeRequest {
  readonly shuffle: Shuffle;
  readonly nblocks: number;
  /** Whole blocks are cut into `typesize` streams. */
  readonly split: boolean;
  /** The data are stored without trying to compress them. */
  readonly stored: boolean;
}

/** Names of compressors and filters that can be asked for. Filters are in the order of their numbers. */
export const COMPRESSORS: readonly string[] = ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"];
export const SHUFFLES: readonly Shuffle[] = ["noshuffle", "shuffle", "bitshuffle"];

/**
 * The settings for a buffer of `nbytes` bytes.
 *
 * Throws BAD_ARGUMENT for an option out of its range, LIMIT for more than 2^31 - 17 bytes.
 */
export function settleEncode(nbytes: number, options: EncodeOptions): EncodeSettings {
  const withFormat: EncodeOptions & { readonly format?: unknown } = options; // of chunks of Blosc2, and of those who choose
  checkOptionNames(withFormat, "cname clevel shuffle typesize blocksize format");
  if (nbytes > MAX_NBYTES) {
    throw new SuperchunkError(
      "LIMIT",
      `a Blosc chunk holds at most ${MAX_NBYTES} bytes, but ${nbytes} were given; cut them into several chunks.`,
      { field: "nbytes", expected: MAX_NBYTES, found: nbytes },
    );
  }
  const cname = oneOf("cname", options.cname ?? "lz4", COMPRESSORS);
  const shuffle = oneOf("shuffle", options.shuffle ?? "shuffle", SHUFFLES);
  const clevel = integerFrom("clevel", options.clevel ?? 5, 0, 9);
  const typesize = typesizeFor(integerFrom("typesize", options.typesize ?? 1, 1, Number.MAX_SAFE_INTEGER));
  const wish = integerFrom("blocksize", options.blocksize ?? 0, 0, Number.MAX_SAFE_INTEGER);
  const blocksize = chooseBlocksize({ cname, clevel, typesize, nbytes, blocksize: wish });
  return {
    cname,
    clevel,
    shuffle,
    typesize,
    nbytes,
    blocksize,
    nblocks: Math.ceil(nbytes / blocksize),
    split: splitsBlocks(cname, typesize, blocksize),
    stored: clevel === 0 || nbytes < MIN_BUFFER,
  };
}

function oneOf<T extends string>(field: string, value: T, allowed: readonly string[]): T {
  if (allowed.includes(value)) return value;
  throw badArgument(field, value, `one of ${allowed.join(", ")}`);
}

/** Never minus zero, which JSON of Python writes as -0.0. */
function integerFrom(field: string, value: number, low: number, high: number): number {
  if (Number.isSafeInteger(value) && value >= low && value <= high) return value + 0;
  const range = high === Number.MAX_SAFE_INTEGER ? `${low} or more` : `${low} to ${high}`;
  throw badArgument(field, value, `an integer, ${range}`);
}
