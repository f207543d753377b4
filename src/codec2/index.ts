/**
 * Chunks of Blosc1 and Blosc2 by one set of calls. What Blosc2 needs is loaded when the first of its chunks comes, so that who decodes
 * chunks of Blosc1 does not load it.
 */
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
import { STREAM_ENCODER } from "./encode-stream.ts";
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
 * The header of a whole chunk, checked: of Blosc1, or of Blosc2 (`format` is 2 then).
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
 * @param chunk the chunk, from its header on; bytes behind it are ignored
 * @returns the decoded bytes: the beginning of `options.out`, or a new array. A chunk of one value can be very much longer than its bytes:
 * give `maxNbytes` where chunks come from others
 * @throws TRUNCATED, BAD_FIELD, BAD_CHUNK, UNSUPPORTED, LIMIT (`maxNbytes`), BAD_ARGUMENT (`out` too short)
 */
export async function decode(chunk: Uint8Array, options: DecodeOptions = {}): Promise<Uint8Array> {
  return isBlosc2(chunk) ? (await load()).decode(chunk, options) : decode1(chunk, options);
}

/** As {@link decode}, at once; for chunks of Blosc2, await `prepare("blosc2")` before. @throws as decode */
export function decodeSync(chunk: Uint8Array, options: DecodeOptions = {}): Uint8Array {
  return isBlosc2(chunk) ? loaded().decodeSync(chunk, options) : decode1Sync(chunk, options);
}

/**
 * Decodes `length` bytes of a chunk from byte `start` of the decoded chunk on, touching only the blocks that hold them.
 *
 * @returns the beginning of `options.out`, or a new array
 * @throws as {@link decode}, and BAD_ARGUMENT where the chunk has no such bytes
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

/** As {@link decodeRange}, at once; for chunks of Blosc2, await `prepare("blosc2")` before. @throws as decodeRange */
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
 * Compiles what decoding the compressor's chunks needs; done once, cheap afterwards. With "blosc2", loads the decoder of Blosc2 chunks too,
 * and zstd itself, which dictionaries take.
 *
 * Synchronous calls compile by themselves where they must, which the main thread of some browsers refuses.
 */
export async function prepare(name: CompressorName | "blosc2"): Promise<void> {
  if (name !== "blosc2") return prepare1(name);
  await Promise.all([load().then((module) => module.prepareDictionaries()), prepare1("lz4")]);
}

/**
 * Encodes `data` as one chunk, in a buffer of its own: of Blosc1, or with `format: 2` of Blosc2, as c-blosc2 reads it.
 *
 * Incompressible data are stored: a chunk is at most 16 bytes longer than its data, and 32 in Blosc2.
 *
 * @throws BAD_ARGUMENT (an option out of its range; snappy in Blosc2), LIMIT (more than 2^31 - 17 bytes, or no memory)
 */
export async function encode(
  data: Uint8Array,
  options: Encode2Options = {},
): Promise<Uint8Array<ArrayBuffer>> {
  if (options.format !== 2) return encode1(data, options);
  await prepareEncode(options.cname);
  return encode2Sync(data, options);
}

/** As {@link encode}, at once; `zstd` needs {@link prepareEncode} before. @throws as encode, and UNSUPPORTED */
export function encodeSync(data: Uint8Array, options: Encode2Options = {}): Uint8Array<ArrayBuffer> {
  return options.format === 2 ? encode2Sync(data, options) : encode1Sync(data, options);
}

/**
 * A chunk as a chunk of Blosc1: the streams of a Blosc2 chunk are copied where Blosc1 has its filter and cuts its blocks alike; else it is
 * decoded, and encoded in the same codec. A chunk of Blosc1 comes back as it is.
 *
 * @throws as {@link decode}
 */
export async function toBlosc1(chunk: Uint8Array, options: DecodeOptions = {}): Promise<Uint8Array> {
  return isBlosc2(chunk) ? (await import("./restream.ts")).toBlosc1(chunk, STREAM_ENCODER, options) : chunk;
}

/**
 * A chunk as a chunk of Blosc2 with the same streams; snappy, which Blosc2 does not have, becomes lz4. A chunk of Blosc2 comes back as it is.
 *
 * @throws as {@link decode}
 */
export async function toBlosc2(chunk: Uint8Array): Promise<Uint8Array> {
  return isBlosc2(chunk) ? chunk : asBlosc2(chunk);
}
