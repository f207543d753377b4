/**
 * Blosc as a codec with the interface of the `numcodecs` package, which zarrita expects of its codecs.
 *
 * Knows configurations of Zarr v2 (`shuffle` a number) and v3 (a name, and `typesize`); must not know arrays.
 *
 * @see https://zarr-specs.readthedocs.io/en/latest/v3/codecs/blosc/index.html
 * @example import { registry } from "zarrita"; import { Blosc } from "superchunk/blosc";
 * registry.set("blosc", async () => Blosc);
 */
import { badArgument } from "../errors.ts";
import { decodeSync } from "./decode/decode.ts";
import { isReady, prepare } from "./decode/decode-kernel.ts";
import { encodeSync, prepareEncode } from "./encode/encode.ts";
import { SHUFFLES, settleEncode } from "./encode/encode-settings.ts";
import type { CompressorName, EncodeOptions, Shuffle } from "./types.ts";

/** Configuration of the codec in array metadata. Absent members have the defaults of numcodecs: lz4, 5, shuffle, automatic blocks. */
export interface BloscConfig {
  readonly cname?: string;
  /** 0 to 9. */
  readonly clevel?: number;
  /** v3: a name; v2: 0, 1, 2, or -1 (bitshuffle for single bytes, else shuffle). */
  readonly shuffle?: string | number;
  /** Bytes of an element, from 1. If absent in v2: those of the array's data type, if known. */
  readonly typesize?: number;
  readonly blocksize?: number;
}

/** The part of zarrita's array metadata that the codec uses. */
export interface BloscContext {
  readonly dataType?: unknown;
}

const ITEM_SIZES: Readonly<Record<string, number>> = { bool: 1, "v2:object": 8 };

/** The codec `blosc`. Decodes chunks of any settings; the configuration applies to encoding. */
export class Blosc {
  static readonly codecId = "blosc";
  readonly kind = "bytes_to_bytes";
  readonly #options: EncodeOptions;

  /** Throws `BAD_ARGUMENT` for settings that Blosc does not have. */
  constructor(options: EncodeOptions) {
    settleEncode(0, options);
    this.#options = options;
  }

  /** Creates the codec from its configuration in array metadata, a {@link BloscConfig}. Throws `BAD_ARGUMENT`. */
  static fromConfig(config?: unknown, context?: BloscContext): Blosc {
    return new Blosc(readConfig(config, context));
  }

  /** Encodes one chunk, in a new buffer. Throws as `encode`. */
  async encode(data: Uint8Array): Promise<Uint8Array<ArrayBuffer>> {
    await prepareEncode(this.#options.cname);
    return encodeSync(data, this.#options);
  }

  /** Decodes into the beginning of `out`, or a new array. Throws as `decode`. */
  async decode(chunk: Uint8Array, out?: Uint8Array): Promise<Uint8Array> {
    if (!isReady("lz4")) await prepare("lz4"); // one module decodes them all
    return decodeSync(chunk, { out });
  }
}

/** Converts a {@link BloscConfig} to encoding options; the constructor of {@link Blosc} checks them. */
export function readConfig(config?: unknown, context?: BloscContext): EncodeOptions {
  const given: BloscConfig = typeof config === "object" && config !== null ? config : {};
  const { cname = "lz4", clevel = 5, shuffle = 1, blocksize = 0 } = given;
  // zarr-python writes 0 for chunks that are not shuffled.
  const typesize = given.typesize || itemSizeOf(context?.dataType) || 1;
  return {
    cname: cname as CompressorName,
    clevel,
    shuffle: readShuffle(shuffle, typesize),
    typesize,
    blocksize,
  };
}

function readShuffle(shuffle: string | number, typesize: number): Shuffle {
  if (shuffle === -1) return typesize === 1 ? "bitshuffle" : "shuffle";
  const found = typeof shuffle === "number" ? SHUFFLES[shuffle] : SHUFFLES.find((name) => name === shuffle);
  if (found !== undefined) return found;
  throw badArgument("shuffle", shuffle, `one of ${SHUFFLES.join(", ")}, or 0, 1, 2, -1`);
}

/** Bytes of an item of a data type in zarrita's notation: `float64`, `v2:U10`. */
function itemSizeOf(dataType: unknown): number | undefined {
  if (typeof dataType !== "string") return undefined;
  const text = /^v2:([US])(\d+)$/.exec(dataType);
  if (text !== null) return Number(text[2]) * (text[1] === "U" ? 4 : 1);
  const bits = /^(?:u?int|float)(\d+)$/.exec(dataType)?.[1];
  return bits === undefined ? ITEM_SIZES[dataType] : Number(bits) / 8;
}
