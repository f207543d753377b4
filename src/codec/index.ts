/**
 * Blosc1 chunks without a C library: the parts of the codec that other rooms and the entry `superchunk/blosc`
 * use. Knows chunks and blocks; must not know any file format.
 *
 * This file only re-exports. Rooms that only decode import the files directly: a bundler that splits code
 * would put everything exported here into one piece.
 */

export { isSuperchunkError } from "../errors.ts";
export { decode, decodeBlocks, decodeRange, decodeRangeSync, decodeSync, info } from "./decode/decode.ts";
export { isReady, prepare } from "./decode/decode-kernel.ts";
export { leaseDecoder } from "./decode/lease.ts";
export {
  encode,
  encodeAhead,
  encodeHere,
  encodeInto,
  encodeSync,
  extendChunk,
  prepareEncode,
} from "./encode/encode.ts";
export { encodeZstdStream } from "./encode/zstd-library.ts";
export { blockRanges, decodeHeader, HEADER_LENGTH, headLength } from "./header.ts";
export { Blosc, type BloscConfig, type BloscContext } from "./numcodecs.ts";
export { replaceBytes } from "./replace/replace.ts";
export { decodeStream, decodeStreamSync } from "./stream.ts";
export type {
  BlockRange,
  ByteEdit,
  ChunkHeader,
  Compressor,
  CompressorName,
  DecodeOptions,
  EncodeOptions,
  Shuffle,
} from "./types.ts";
