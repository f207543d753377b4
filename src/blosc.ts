/** `superchunk/blosc`: chunks of Blosc1 and Blosc2, without a C library. */

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
  prepareEncode,
  replaceBytes,
  type Shuffle,
} from "./codec/index.ts";
export type { Encode2Options as EncodeOptions } from "./codec2/as-blosc2.ts";
export type { Blosc2Header, Filter, Special } from "./codec2/fields.ts";
export {
  decode,
  decodeRange,
  decodeRangeSync,
  decodeSync,
  encode,
  encodeSync,
  info,
  prepare,
  toBlosc1,
  toBlosc2,
} from "./codec2/index.ts";
export { type ErrorCode, type ErrorDetails, isSuperchunkError, SuperchunkError } from "./errors.ts";
export type { PoolWorker } from "./pool/crew.ts";
export {
  type BloscPool,
  createPool,
  type PoolCallOptions,
  type PoolCodec,
  type PoolOptions,
} from "./pool/pool.ts";
