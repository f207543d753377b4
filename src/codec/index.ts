/**
 * Blosc1 chunks, without a C library: what other rooms, and the entry `superchunk/blosc`, use of the codec. Knows chunks and blocks; must not know any file format.
 */
import { findBlockRange } from "./decode/block-table.ts";
import { decodeBlocks, decodeRangeSync, decodeSync, readChunkHeader } from "./decode/decode.ts";
import { decodeHeader } from "./header.ts";
import { prepare } from "./prepare.ts";
import type { BlockRange, ChunkHeader, DecodeOptions } from "./types.ts";

export { isSuperchunkError } from "../errors.ts";
export { leaseDecoder } from "./decode/lease.ts";
export { encode, encodeAhead, encodeHere, encodeInto, encodeSync, prepareEncode } from "./encode/encode.ts";
export { registerDeflater } from "./encode/encode-block.ts";
export { decodeHeader, HEADER_LENGTH, headLength } from "./header.ts";
export { Blosc, type BloscConfig, type BloscContext } from "./numcodecs.ts";
export { isReady, prepare } from "./prepare.ts";
export { extendChunk } from "./replace/extend.ts";
export { replaceBytes } from "./replace/replace.ts";
export { decodeStream, decodeStreamSync, encodeZstdStream } from "./stream.ts";
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
export { decodeBlocks, decodeRangeSync, decodeSync };

/** The header of a whole chunk, checked. @throws TRUNCATED, BAD_FIELD, UNSUPPORTED */
export function info(chunk: Uint8Array): ChunkHeader {
  return decodeHeader(chunk);
}

/** {@link decodeSync}, after compiling the kernels without blocking. */
export async function decode(chunk: Uint8Array, options: DecodeOptions = {}): Promise<Uint8Array> {
  await prepare(readChunkHeader(chunk, options).compressor);
  return decodeSync(chunk, options);
}

/** {@link decodeRangeSync}, after compiling the kernels without blocking. */
export async function decodeRange(
  chunk: Uint8Array,
  start: number,
  length: number,
  options: DecodeOptions = {},
): Promise<Uint8Array> {
  await prepare(readChunkHeader(chunk, options).compressor);
  return decodeRangeSync(chunk, start, length, options);
}

/**
 * The bytes of a chunk to fetch, to decode `length` bytes from byte `start` of the decoded chunk on.
 *
 * @param head header and block starts: the first {@link headLength} bytes of the chunk, at least
 * @throws BAD_ARGUMENT where the chunk has no such bytes; TRUNCATED, BAD_FIELD, UNSUPPORTED
 */
export function blockRanges(head: Uint8Array, start: number, length: number): BlockRange {
  return findBlockRange(head, decodeHeader(head, Number.MAX_SAFE_INTEGER), start, length);
}
