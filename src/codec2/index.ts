/** Chunks of Blosc1 and Blosc2 behind one set of functions. The code for Blosc2 is loaded with the first Blosc2 chunk. */
import {
  decode as decode1,
  decodeSync as decode1Sync,
  decodeRange as decodeRange1,
  decodeRangeSync as decodeRange1Sync,
  info as info1,
} from "../codec/decode/decode.ts";
import { prepare as prepare1 } from "../codec/decode/decode-kernel.ts";
import { encode as encode1, encodeSync as encode1Sync, prepareEncode } from "../codec/encode/encode.ts";
import type { ChunkHeader, CompressorName, DecodeOptions } from "../codec/types.ts";
import { SuperchunkError } from "../errors.ts";
import { toBlosc2 as asBlosc2, type Encode2Options, encode2Sync } from "./as-blosc2.ts";
import { type Blosc2Header, fieldsOf, HEADER2_LENGTH, isBlosc2 } from "./fields.ts";

type Decoder = typeof import("./decode.ts");
let decoder: Decoder | undefined;

async function load(): Promise<Decoder> {
  decoder ??= await import("./decode.ts");
  return decoder;
}

function loaded(): Decoder {
  if (decoder !== undefined) return decoder;
  throw new SuperchunkError(
    "UNSUPPORTED",
    'the decoder of Blosc2 chunks is not loaded; await prepare("blosc2") before decodeSync, or use decode.',
    { field: "version" },
  );
}

/**
 * Returns the checked header of a whole Blosc1 or Blosc2 chunk (`format` is 2 for Blosc2).
 *
 * @throws TRUNCATED, BAD_FIELD, UNSUPPORTED
 */
export function info(chunk: Uint8Array): ChunkHeader | Blosc2Header {
  if (!isBlosc2(chunk)) return info1(chunk);
  const header = chunk.length < HEADER2_LENGTH ? undefined : fieldsOf(chunk);
  if (chunk.length < HEADER2_LENGTH || (header?.ctbytes ?? 0) > chunk.length)
    throw new SuperchunkError("TRUNCATED", `the Blosc2 chunk is cut short at ${chunk.length} bytes`, {
      expected: header?.ctbytes ?? HEADER2_LENGTH,
      found: chunk.length,
    });
  if (header === undefined)
    throw new SuperchunkError(
      "UNSUPPORTED",
      `the Blosc2 chunk has the codec ${chunk[22]} of a plugin; read it with python-blosc2`,
      { field: "codec", found: chunk[22] },
    );
  const { nbytes, ctbytes, typesize, nblocks } = header;
  if (nbytes >= 0 && ctbytes >= HEADER2_LENGTH && typesize > 0 && nblocks >= 0 && nblocks <= nbytes)
    return header;
  throw new SuperchunkError(
    "BAD_FIELD",
    "a size in the header of the Blosc2 chunk is not possible; it is damaged",
    { field: "nbytes", found: nbytes },
  );
}

/**
 * Decodes a whole chunk of Blosc1 or Blosc2 without blocking while kernels compile.
 *
 * @param chunk the chunk, from its header on; bytes after it are ignored
 * @returns the decoded bytes: the beginning of `options.out`, or a new array. A chunk of one repeated value can decode to far more bytes
 * than it has: set `maxNbytes` for chunks from untrusted sources
 * @throws TRUNCATED, BAD_FIELD, BAD_CHUNK, UNSUPPORTED, LIMIT (`maxNbytes`), BAD_ARGUMENT (`out` too short)
 */
export async function decode(chunk: Uint8Array, options: DecodeOptions = {}): Promise<Uint8Array> {
  return isBlosc2(chunk) ? (await load()).decode(chunk, options) : decode1(chunk, options);
}

/** Synchronous {@link decode}; for Blosc2 chunks, await `prepare("blosc2")` first. @throws as decode */
export function decodeSync(chunk: Uint8Array, options: DecodeOptions = {}): Uint8Array {
  return isBlosc2(chunk) ? loaded().decodeSync(chunk, options) : decode1Sync(chunk, options);
}

/**
 * Decodes `length` bytes of a chunk from byte `start` of the decoded chunk. Touches only the blocks that hold them.
 *
 * @returns the beginning of `options.out`, or a new array
 * @throws as {@link decode}, and BAD_ARGUMENT if the chunk has no such bytes
 */
export async function decodeRange(
  chunk: Uint8Array,
  start: number,
  length: number,
  options: DecodeOptions = {},
): Promise<Uint8Array> {
  return isBlosc2(chunk)
    ? (await load()).decodeRange(chunk, start, length, options)
    : decodeRange1(chunk, start, length, options);
}

/** Synchronous {@link decodeRange}; for Blosc2 chunks, await `prepare("blosc2")` first. @throws as decodeRange */
export function decodeRangeSync(
  chunk: Uint8Array,
  start: number,
  length: number,
  options: DecodeOptions = {},
): Uint8Array {
  return isBlosc2(chunk)
    ? loaded().decodeRangeSync(chunk, start, length, options)
    : decodeRange1Sync(chunk, start, length, options);
}

/**
 * Compiles the kernels that decode the compressor's chunks. Later calls are cheap. "blosc2" also loads the decoder of Blosc2 chunks, and
 * zstd itself, which dictionaries need.
 *
 * Synchronous calls compile by themselves when they must; the main thread of some browsers refuses that.
 */
export async function prepare(name: CompressorName | "blosc2"): Promise<void> {
  if (name !== "blosc2") return prepare1(name);
  await Promise.all([load().then((module) => module.prepareDictionaries()), prepare1("lz4")]);
}

/**
 * Encodes `data` as one chunk in a new buffer: Blosc1, or with `format: 2` Blosc2, as c-blosc2 reads it.
 *
 * Incompressible data are stored: a chunk is at most 16 bytes longer than its data (Blosc2: 32 bytes).
 *
 * @throws BAD_ARGUMENT (an option out of range; snappy in Blosc2), LIMIT (more than 2^31 - 17 bytes, or no memory)
 */
export async function encode(
  data: Uint8Array,
  options: Encode2Options = {},
): Promise<Uint8Array<ArrayBuffer>> {
  if (options.format !== 2) return encode1(data, options);
  await prepareEncode(options.cname);
  return encode2Sync(data, options);
}

/** Synchronous {@link encode}; `zstd` needs {@link prepareEncode} first. @throws as encode, and UNSUPPORTED */
export function encodeSync(data: Uint8Array, options: Encode2Options = {}): Uint8Array<ArrayBuffer> {
  return options.format === 2 ? encode2Sync(data, options) : encode1Sync(data, options);
}

/**
 * Returns a chunk as a Blosc1 chunk. Streams of a Blosc2 chunk are copied if Blosc1 has its filter and splits its blocks alike; else the
 * chunk is decoded and encoded with the same codec. A Blosc1 chunk is returned unchanged.
 *
 * @throws as {@link decode}
 */
export async function toBlosc1(chunk: Uint8Array, options: DecodeOptions = {}): Promise<Uint8Array> {
  return isBlosc2(chunk) ? (await import("./restream.ts")).toBlosc1(chunk, options) : chunk;
}

/**
 * Returns a chunk as a Blosc2 chunk with the same streams; snappy, which Blosc2 lacks, becomes lz4. A Blosc2 chunk is returned unchanged.
 *
 * @throws as {@link decode}
 */
export async function toBlosc2(chunk: Uint8Array): Promise<Uint8Array> {
  return isBlosc2(chunk) ? chunk : asBlosc2(chunk);
}
