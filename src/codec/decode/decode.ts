/**
 * Decodes chunks, or ranges of them, from and into the caller's buffers. Knows the order of work;
 * decode-block.ts decodes the blocks.
 *
 * Only one block at a time is in a kernel's memory. This keeps it small (and in the processor's cache)
 * however large a chunk is.
 */
import { at } from "../../bytes/at.ts";
import { SuperchunkError } from "../../errors.ts";
import { blockLength, decodeHeader, HEADER_LENGTH } from "../header.ts";
import { align, SLACK } from "../kernel-module.ts";
import type { BlockRange, ChunkHeader, DecodeOptions } from "../types.ts";
import {
  type BlockTable,
  blocksOf,
  bytesInMemory,
  checkExpansion,
  checkRange,
  findBlockRange,
  readBlockTable,
} from "./block-table.ts";
import { decodeBlockInto, makeBlockDecoder } from "./decode-block.ts";
import { giveBackKernel, prepare, takeKernel } from "./decode-kernel.ts";
import { decodePart } from "./decode-part.ts";

/** Reads a chunk's header and checks it against the chunk's actual length. @throws as {@link decodeHeader} */
export function readChunkHeader(chunk: Uint8Array, options: DecodeOptions = {}): ChunkHeader {
  const header = decodeHeader(chunk);
  checkExpectations(header, options);
  return header;
}

/**
 * Decodes a whole chunk synchronously.
 *
 * @param chunk the chunk, from its header on; bytes after its ctbytes are ignored
 * @returns the decoded bytes: the beginning of `options.out`, or a new array
 * @throws TRUNCATED, BAD_FIELD, BAD_CHUNK, UNSUPPORTED, LIMIT (`maxNbytes`), BAD_ARGUMENT (`out` too short)
 */
export function decodeSync(chunk: Uint8Array, options: DecodeOptions = {}): Uint8Array {
  const header = readChunkHeader(chunk, options);
  return decodeChecked(chunk, header, 0, header.nbytes, options.out);
}

/**
 * Decodes `length` bytes of a chunk from byte `start` of the decoded chunk. Touches only the blocks that hold them.
 *
 * @returns the beginning of `options.out`, or a new array
 * @throws as {@link decodeSync}, and BAD_ARGUMENT if the chunk has no such bytes
 */
export function decodeRangeSync(
  chunk: Uint8Array,
  start: number,
  length: number,
  options: DecodeOptions = {},
): Uint8Array {
  const header = readChunkHeader(chunk, options);
  checkRange(header, start, length);
  return decodeChecked(chunk, header, start, length, options.out);
}

/** Some bytes of a chunk, and the offset of the first one in it. */
export interface ChunkPart {
  readonly bytes: Uint8Array;
  readonly offset: number;
}

interface Span {
  readonly start: number;
  readonly length: number;
}

/**
 * Decodes a range from the part of a chunk that {@link findBlockRange} named.
 *
 * @param head header and block starts
 * @param part the bytes of that part
 * @throws as {@link decodeRangeSync}
 */
export function decodeBlocks(
  head: Uint8Array,
  part: ChunkPart,
  start: number,
  length: number,
  options: DecodeOptions = {},
): Uint8Array {
  const header = decodeHeader(head, Number.MAX_SAFE_INTEGER);
  checkExpectations(header, options);
  const table = header.memcpyed ? undefined : readBlockTable(head, header);
  const needed = checkGiven(
    head,
    header,
    { offset: part.offset, length: part.bytes.length },
    { start, length },
    table,
  );
  if (table !== undefined) checkExpansion(header, table, ...blocksOf(header, start, length));
  const out = outputOf(options.out, length);
  if (table === undefined) {
    const from = needed.offset - part.offset;
    out.set(part.bytes.subarray(from, from + length));
  } else if (length > 0) {
    decodeInto(part, header, table, start, out);
  }
  return out;
}

/** Returns the part of the chunk that is needed. @throws TRUNCATED if the given bytes do not hold all of it */
export function checkGiven(
  head: Uint8Array,
  header: ChunkHeader,
  given: Pick<BlockRange, "offset" | "length">,
  { start, length }: Span,
  table?: BlockTable,
): BlockRange {
  const needed = findBlockRange(head, header, start, length, table);
  const end = given.offset + given.length;
  if (needed.offset < given.offset || needed.offset + needed.length > end) {
    throw new SuperchunkError(
      "TRUNCATED",
      `bytes ${needed.offset} to ${needed.offset + needed.length} of the chunk are needed, but ${given.offset} to ${end} are there`,
      { offset: needed.offset, expected: needed.length, found: given.length },
    );
  }
  return needed;
}

/**
 * Like {@link decodeBlocks}, for a part of one large block whose bytes are read as they are needed.
 *
 * @param read returns at least `least` bytes of the chunk from an offset on: a view that is valid until the next call
 * @returns false if all bytes of the block are needed, or more than one block; `out` may then hold anything
 */
export function decodeSparsely(
  head: Uint8Array,
  start: number,
  out: Uint8Array,
  read: (offset: number, least: number) => Uint8Array,
): boolean {
  const header = decodeHeader(head, Number.MAX_SAFE_INTEGER);
  if (header.memcpyed) return false;
  const table = readBlockTable(head, header);
  const [first, end] = blocksOf(header, start, out.length);
  if (end - first !== 1) return false;
  checkExpansion(header, table, first, end);
  const offset = at(table.starts, first);
  const block = {
    length: at(table.ends, first) - offset,
    read: (from: number, least: number) => read(offset + from, least),
  };
  const from = start - first * header.blocksize;
  const kernel = takeKernel();
  try {
    return decodePart(kernel, header, block, { block: first, from, to: from + out.length }, out);
  } finally {
    giveBackKernel(kernel);
  }
}

function decodeChecked(
  chunk: Uint8Array,
  header: ChunkHeader,
  start: number,
  length: number,
  given: Uint8Array | undefined,
): Uint8Array {
  if (header.memcpyed) {
    const out = outputOf(given, length);
    out.set(chunk.subarray(HEADER_LENGTH + start, HEADER_LENGTH + start + length));
    return out;
  }
  const table = readBlockTable(chunk, header);
  checkExpansion(header, table, ...blocksOf(header, start, length));
  const out = outputOf(given, length);
  if (length > 0) decodeInto({ bytes: chunk, offset: 0 }, header, table, start, out);
  return out;
}

/** Fills `out` with the decoded bytes from `start` on. {@link checkExpansion} must have passed. */
function decodeInto(
  { bytes, offset: base }: ChunkPart,
  header: ChunkHeader,
  table: BlockTable,
  start: number,
  out: Uint8Array,
): void {
  const { starts, ends } = table;
  const { length } = out;
  const [first, end] = blocksOf(header, start, length);
  let longest = 0;
  for (let i = first; i < end; i++) longest = Math.max(longest, at(ends, i) - at(starts, i));
  const room = align(blockLength(header, first) + SLACK);
  const kernel = takeKernel();
  try {
    if (end - first === 1) {
      const offset = at(starts, first) - base;
      const from = start - first * header.blocksize;
      const part = { block: first, from, to: from + length };
      if (decodePart(kernel, header, bytesInMemory(bytes.subarray(offset, offset + longest)), part, out))
        return;
    }
    const scratch = kernel.base;
    const target = scratch + room;
    const input = target + room;
    kernel.memory.reserve(input + longest + SLACK);
    const decoder = makeBlockDecoder(kernel, header, scratch);
    const { bytes: memory } = kernel.memory;
    for (let i = first; i < end; i++) {
      const offset = at(starts, i);
      const size = at(ends, i) - offset;
      memory.set(bytes.subarray(offset - base, offset - base + size), input);
      const blockStart = i * header.blocksize;
      const from = Math.max(start - blockStart, 0);
      const to = Math.min(start + length - blockStart, blockLength(header, i));
      const placed = { block: i, src: input, end: input + size, offset };
      decodeBlockInto(decoder, placed, target, { from, to }, out.subarray(blockStart + from - start));
    }
  } finally {
    giveBackKernel(kernel);
  }
}

/** @throws BAD_FIELD, LIMIT if the header contradicts the caller's expectations */
export function checkExpectations(
  { nbytes }: ChunkHeader,
  { expectedNbytes, maxNbytes }: DecodeOptions,
): void {
  if (expectedNbytes !== undefined && nbytes !== expectedNbytes) {
    throw new SuperchunkError(
      "BAD_FIELD",
      `the Blosc header's nbytes at byte 4 is ${nbytes}, but the chunk must decode to ${expectedNbytes} bytes`,
      { offset: 4, field: "nbytes", expected: expectedNbytes, found: nbytes },
    );
  }
  if (maxNbytes !== undefined && nbytes > maxNbytes) {
    throw new SuperchunkError(
      "LIMIT",
      `the chunk decodes to ${nbytes} bytes, more than the limit maxNbytes of ${maxNbytes}`,
      { offset: 4, field: "nbytes", expected: maxNbytes, found: nbytes },
    );
  }
}

/** The beginning of the caller's `out`, or a new array. @throws BAD_ARGUMENT if `out` is too short */
export function outputOf(given: Uint8Array | undefined, length: number): Uint8Array {
  if (given === undefined) return new Uint8Array(length);
  if (given.length < length) {
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `out has ${given.length} bytes, but ${length} are to be decoded to it`,
      { field: "out", expected: length, found: given.length },
    );
  }
  return given.subarray(0, length);
}

/** Returns the checked header of a whole chunk. @throws TRUNCATED, BAD_FIELD, UNSUPPORTED */
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
