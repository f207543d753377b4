/**
 * The settings of an encode call, checked and completed.
 *
 * Knows what c-blosc accepts; must not know how anything is compressed.
 */
import { SuperchunkError } from "../../errors.ts";
import { MAX_NBYTES } from "../header.ts";
import type { CompressorName, EncodeOptions, Shuffle } from "../types.ts";
import { chooseBlocksize, MIN_BUFFER, splitsBlocks } from "./block-size.ts";

/** A typesize is one byte in the header. */
const MAX_TYPESIZE = 255;

/** What the encoder goes by: every choice made. Sizes in bytes. */
export interface EncodeSettings {
  readonly cname: CompressorName;
  readonly clevel: number;
  readonly shuffle: Shuffle;
  readonly typesize: number;
  readonly nbytes: number;
  readonly blocksize: number;
  readonly nblocks: number;
  /** Whole blocks are cut into `typesize` streams. */
  readonly split: boolean;
  /** The data are stored without a try to compress them. */
  readonly stored: boolean;
}

const COMPRESSORS: readonly string[] = ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"];
const SHUFFLES: readonly string[] = ["noshuffle", "shuffle", "bitshuffle"];

/**
 * The settings for a buffer of `nbytes` bytes.
 *
 * Throws BAD_ARGUMENT for an option out of its range, LIMIT for more than 2^31 - 17 bytes.
 */
export function settleEncode(nbytes: number, options: EncodeOptions): EncodeSettings {
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
  const given = integerFrom("typesize", options.typesize ?? 1, 1, Number.MAX_SAFE_INTEGER);
  const wish = integerFrom("blocksize", options.blocksize ?? 0, 0, Number.MAX_SAFE_INTEGER);
  // As c-blosc: larger elements are treated as a stream of bytes.
  const typesize = given > MAX_TYPESIZE ? 1 : given;
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
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    `${field} is ${JSON.stringify(value)}, but must be one of ${allowed.join(", ")}.`,
    { field, expected: allowed, found: value },
  );
}

function integerFrom(field: string, value: number, low: number, high: number): number {
  if (Number.isSafeInteger(value) && value >= low && value <= high) return value;
  const range = high === Number.MAX_SAFE_INTEGER ? `${low} or more` : `${low} to ${high}`;
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    `${field} is ${String(value)}, but must be an integer, ${range}.`,
    {
      field,
      expected: range,
      found: value,
    },
  );
}
