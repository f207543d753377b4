/**
 * Blosc1 chunks, without a C library: what other rooms, and the entry `superchunk/blosc`, use of the codec. Knows chunks and blocks; must not know any file format.
 *
 * It only names things. Rooms that only decode import the files themselves: a bundler that splits code puts all that is named
 * here into one piece.
 */

export { isSuperchunkError } from "../errors.ts";
export { blockRanges } from "./decode/block-table.ts";
export { decode, decodeBlocks, decodeRange, decodeRangeSync, decodeSync, info } from "./decode/decode.ts";
export { isReady, prepare } from "./decode/decode-kernel.ts";
export { leaseDecoder } from "./decode/lease.ts";
export { encode, encodeAhead, encodeHere, encodeInto, encodeSync, prepareEncode } from "./encode/encode.ts";
export { registerDeflater } from "./encode/encode-block.ts";
export { encodeZstdStream } from "./encode/zstd-library.ts";
export { decodeHeader, HEADER_LENGTH, headLength } from "./header.ts";
export { Blosc, type BloscConfig, type BloscContext } from "./numcodecs.ts";
export { extendChunk } from "./replace/extend.ts";
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
