/** `superchunk/blosc`: Blosc1 chunks, without a C library. */

export {
  type BlockRange,
  Blosc,
  type BloscConfig,
  type BloscContext,
  type ByteEdit,
  type ChunkHeader,
  type Compressor,
  type CompressorName,
  type DecodeOptions,
  decode,
  decodeRange,
  decodeRangeSync,
  decodeSync,
  type EncodeOptions,
  encode,
  encodeSync,
  info,
  prepare,
  prepareEncode,
  replaceBytes,
  type Shuffle,
} from "./codec/index.ts";
export { type ErrorCode, type ErrorDetails, isSuperchunkError, SuperchunkError } from "./errors.ts";
