/**
 * Decodes chunks, or ranges of them, out of and into the caller's buffers. Knows the order of work; blocks are decoded in
 * decode-block.ts.
 *
 * One block at a time goes through a kernel's memory, so that this stays small (and in the processor's cache) however
 * large a chunk is.
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
import { makeBlockDecoder } from "./decode-block.ts";
import { giveBackKernel, takeKernel } from "./decode-kernel.ts";
import { decodePart } from "./decode-part.ts";
import { decodeBlockInto } from "./decode-pieces.ts";

/** Reads a chunk's header and checks it against the chunk's real length. @throws as {@link decodeHeader} */
export function readChunkHeader(chunk: Uint8Array, options: DecodeOptions = {}): ChunkHeader {
  const header = decodeHeader(chunk);
  checkExpectations(header, options);
  return header;
}

/**
 * Decodes a whole chunk at once.
 *
 * @param chunk the chunk, from its header on; bytes behind its ctbytes are ignored
 * @returns the decoded bytes: the beginning of `options.out`, or a new array
 * @throws TRUNCATED, BAD_FIELD, BAD_CHUNK, UNSUPPORTED, LIMIT (`maxNbytes`), BAD_ARGUMENT (`out` too short)
 */
export function decodeSync(chunk: Uint8Array, options: DecodeOptions = {}): Uint8Array {
  const header = readChunkHeader(chunk, options);
  return decodeChecked(chunk, header, 0, header.nbytes, options.out);
}

/**
 * Decodes `length` bytes of a chunk from byte `start` of the decoded chunk on, touching only the blocks that hold them.
 *
 * @returns the beginning of `options.out`, or a new array
 * @throws as {@link decodeSync}, and BAD_ARGUMENT where the chunk has no such bytes
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

/**
 * Decodes a range from the parts of a chunk that {@link findBlockRange} named.
 *
 * @param head header and block starts
 * @param bytes what lies at `range.offset` of the chunk, `range.length` bytes
 * @throws as {@link decodeRangeSync}
 */
export function decodeBlocks(
  head: Uint8Array,
  bytes: Uint8Array,
  range: BlockRange,
  start: number,
  length: number,
  options: DecodeOptions = {},
): Uint8Array {
  const header = decodeHeader(head, Number.MAX_SAFE_INTEGER);
  checkExpectations(header, options);
  const table = header.memcpyed ? undefined : readBlockTable(head, header);
  const needed = checkGiven(head, header, range, bytes.length, start, length, table);
  if (table !== undefined) checkExpansion(header, table, ...blocksOf(header, start, length));
  const out = outputOf(options.out, length);
  if (table === undefined) {
    const from = needed.offset - range.offset;
    out.set(bytes.subarray(from, from + length));
  } else if (length > 0) {
    decodeInto(bytes, range.offset, header, table, start, length, out);
  }
  return out;
}

/** The part of the chunk that is needed. @throws TRUNCATED where it is not all in what is there */
export function checkGiven(
  head: Uint8Array,
  header: ChunkHeader,
  range: Pick<BlockRange, "offset">,
  available: number,
  start: number,
  length: number,
  table?: BlockTable,
): BlockRange {
  const needed = findBlockRange(head, header, start, length, table);
  const end = range.offset + available;
  if (needed.offset < range.offset || needed.offset + needed.length > end) {
    throw new SuperchunkError(
      "TRUNCATED",
      `bytes ${needed.offset} to ${needed.offset + needed.length} of the chunk are needed, but ${range.offset} to ${end} are there`,
      { offset: needed.offset, expected: needed.length, found: available },
    );
  }
  return needed;
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
  if (length > 0) decodeInto(chunk, 0, header, table, start, length, out);
  return out;
}

/** Decodes blocks that {@link checkExpansion} let pass to `out`, from `bytes`, whose first byte is byte `base` of the chunk. */
function decodeInto(
  bytes: Uint8Array,
  base: number,
  header: ChunkHeader,
  table: BlockTable,
  start: number,
  length: number,
  out: Uint8Array,
): void {
  const { starts, ends } = table;
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
      decodeBlockInto(decoder, placed, target, from, to, out.subarray(blockStart + from - start));
    }
  } finally {
    giveBackKernel(kernel);
  }
}

/** @throws BAD_FIELD, LIMIT where the header promises what the caller does not expect */
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
      {
        offset: 4,
        field: "nbytes",
        expected: maxNbytes,
        found: nbytes,
      },
    );
  }
}

/** The beginning of the caller's `out`, or a new array. @throws BAD_ARGUMENT where it is too short */
export function outputOf(given: Uint8Array | undefined, length: number): Uint8Array {
  if (given === undefined) return new Uint8Array(length);
  if (given.length < length) {
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `out has ${given.length} bytes, but ${length} are to be decoded to it`,
      {
        field: "out",
        expected: length,
        found: given.length,
      },
    );
  }
  return given.subarray(0, length);
}
