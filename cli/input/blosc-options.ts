/** Options of commands that compress, with the same letters as in `blpk`. */

import { InvalidArgumentError, Option } from "commander";
import type { ChecksumName, CompressorName, CountOrFactor, Reserve, Shuffle } from "../../src/index.ts";
import type { Command } from "../context.ts";
import { parseSize } from "./units.ts";

/** The options; a member is absent if the user did not set it. */
export interface BloscFlags {
  readonly typesize?: number;
  readonly clevel?: number;
  readonly codec?: CompressorName;
  /** False for `--no-shuffle`. */
  readonly shuffle?: Shuffle | boolean;
}

const CODECS = ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"] as const;
export const CHECKSUMS: readonly ChecksumName[] = [
  "None",
  "adler32",
  "crc32",
  "md5",
  "sha1",
  "sha224",
  "sha256",
  "sha384",
  "sha512",
];
const SHUFFLES = ["noshuffle", "shuffle", "bitshuffle"] as const;

/** Defaults that `--help` shows. */
export interface CompressionDefaults {
  readonly clevel: string;
  readonly codec?: string;
  readonly shuffle?: string;
}

export function addBloscOptions(command: Command, typesize: string): Command {
  const help = `bytes per element, 1 to 255 (default: ${typesize})`;
  return addCompression(command.option("-t, --typesize <bytes>", help, integerOf(1, 255)), { clevel: "7" });
}

/** Adds the options of level, compressor and filter. */
export function addCompression(command: Command, { clevel, codec, shuffle }: CompressionDefaults): Command {
  const shown = (value: string | undefined): string => (value === undefined ? "" : ` (default: ${value})`);
  return command
    .option("-l, --clevel <level>", `compression level, 0 to 9${shown(clevel)}`, integerOf(0, 9))
    .addOption(new Option("-c, --codec <name>", `compressor${shown(codec)}`).choices(CODECS))
    .addOption(new Option("--shuffle <name>", `filter${shown(shuffle)}`).choices(SHUFFLES))
    .addOption(new Option("-s, --no-shuffle", "use no filter"));
}

/** The same as library settings. */
export function bloscSettings({ typesize, clevel, codec, shuffle }: BloscFlags): {
  readonly typesize: number | undefined;
  readonly clevel: number | undefined;
  readonly cname: CompressorName | undefined;
  readonly shuffle: Shuffle | undefined;
} {
  const filter = shuffle === false ? "noshuffle" : shuffle === true ? undefined : shuffle;
  return { typesize, clevel, cname: codec, shuffle: filter };
}

/** A count, or a factor such as `10x`. Throws commander's `InvalidArgumentError`. */
export function parseCountOrFactor(text: string): CountOrFactor {
  const factor = /^\d+x$/i.test(text) ? (text.toLowerCase() as `${number}x`) : undefined;
  if (factor !== undefined) return factor;
  if (/^\d+$/.test(text) && Number.isSafeInteger(Number(text))) return Number(text);
  throw new InvalidArgumentError('Expected a count such as 100, or a factor such as "10x".');
}

/** A chunk size such as `1M`, or `max`. Throws commander's `InvalidArgumentError`. */
export function parseChunkSize(text: string): number | "max" {
  return text === "max" ? "max" : parseSize(/^\d+$/.test(text) ? `${text}b` : text);
}

/** A reserve: a size such as `4K`, or a share such as `10%`. Throws commander's `InvalidArgumentError`. */
export function parseReserve(text: string): Reserve {
  if (/^\d+(\.\d+)?%$/.test(text)) return text as Reserve;
  try {
    return parseSize(text);
  } catch {
    throw new InvalidArgumentError('Expected a size such as 4K, or a share of each chunk such as "10%".');
  }
}

/** Parses an integer from a range. */
export function integerOf(least: number, most: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= least && value <= most) return value;
    throw new InvalidArgumentError(`Expected a whole number from ${least} to ${most}.`);
  };
}
