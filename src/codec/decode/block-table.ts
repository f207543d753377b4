/**
 * Where the blocks of a chunk lie. Knows the table of block starts behind the header; must not know what blocks contain.
 */
import { at } from "../../bytes/at.ts";
import { SuperchunkError } from "../../errors.ts";
import { blockLength, decodeHeader, HEADER_LENGTH, headLength, maxRatioOf } from "../header.ts";
import type { BlockRange, ChunkHeader } from "../types.ts";

/** The compressed bytes of one block, in memory or elsewhere: fetched as they are asked for. */
export interface BlockBytes {
  /** Compressed bytes of the block. */
  readonly length: number;
  /**
   * At least `least` bytes from `at` on, as far as the block goes: a view that is valid until the next call.
   * The caller asks for nothing beyond the block.
   */
  read(at: number, least: number): Uint8Array;
}

/** A block that is in memory. */
export function bytesInMemory(bytes: Uint8Array): BlockBytes {
  return { length: bytes.length, read: (at) => bytes.subarray(at) };
}

/** Starts and ends of all blocks, in bytes from the chunk's start. */
export interface BlockTable {
  readonly starts: Uint32Array;
  /** The next start in the chunk, or the chunk's end: block i uses no byte from `ends[i]` on. */
  readonly ends: Uint32Array;
}

/**
 * Reads and checks the block starts of a chunk that is not stored.
 *
 * Threads of c-blosc write blocks in the order in which they finish, so starts need not ascend; but they are distinct,
 * lie behind the table, and leave room for a stream length.
 *
 * @param head the first {@link headLength} bytes of the chunk, at least
 * @throws TRUNCATED, BAD_FIELD
 */
export function readBlockTable(head: Uint8Array, header: ChunkHeader): BlockTable {
  const { nblocks, ctbytes } = header;
  const first = headLength(header);
  if (head.length < first) {
    throw new SuperchunkError(
      "TRUNCATED",
      `header and ${nblocks} block starts take ${first} bytes, but only ${head.length} are there`,
      { field: "bstarts", expected: first, found: head.length },
    );
  }
  const view = new DataView(head.buffer, head.byteOffset, first);
  const starts = new Uint32Array(nblocks);
  const ends = new Uint32Array(nblocks);
  let ascending = true;
  let previous = 0;
  for (let i = 0; i < nblocks; i++) {
    const start = view.getUint32(HEADER_LENGTH + 4 * i, true);
    if (start < first || start > ctbytes - 4) throw badStart(i, `${first} to ${ctbytes - 4}`, start);
    if (start <= previous) ascending = false;
    if (i > 0) ends[i - 1] = start;
    starts[i] = start;
    previous = start;
  }
  if (nblocks > 0) ends[nblocks - 1] = ctbytes;
  if (!ascending) findEnds(starts, ends, ctbytes);
  return { starts, ends };
}

/**
 * The bytes that are needed to decode `length` bytes of a chunk from `start` on.
 *
 * @param head the first {@link headLength} bytes of the chunk, at least
 * @param table what {@link readBlockTable} made of them, where it is known already
 * @throws BAD_ARGUMENT where the chunk has no such bytes; TRUNCATED, BAD_FIELD
 */
export function findBlockRange(
  head: Uint8Array,
  header: ChunkHeader,
  start: number,
  length: number,
  table?: BlockTable,
): BlockRange {
  checkRange(header, start, length);
  if (header.memcpyed) {
    // Stored bytes need no whole blocks.
    const [firstBlock, endBlock] = blocksOf(header, start, length);
    return { firstBlock, endBlock, offset: HEADER_LENGTH + start, length };
  }
  const [firstBlock, endBlock] = blocksOf(header, start, length);
  if (firstBlock === endBlock) return { firstBlock, endBlock, offset: headLength(header), length: 0 };
  const { starts, ends } = table ?? readBlockTable(head, header);
  let from = header.ctbytes;
  let to = 0;
  for (let i = firstBlock; i < endBlock; i++) {
    from = Math.min(from, at(starts, i));
    to = Math.max(to, at(ends, i));
  }
  return { firstBlock, endBlock, offset: from, length: to - from };
}

/** The first block that has a byte of the range, and one past the last. */
export function blocksOf(header: ChunkHeader, start: number, length: number): readonly [number, number] {
  if (length === 0) return [0, 0];
  return [Math.floor(start / header.blocksize), Math.floor((start + length - 1) / header.blocksize) + 1];
}

/**
 * Compares the decoded lengths of blocks with what their bytes can stand for, before room is made for them.
 *
 * @throws BAD_FIELD
 */
export function checkExpansion(
  header: ChunkHeader,
  { starts, ends }: BlockTable,
  first: number,
  end: number,
): void {
  const ratio = maxRatioOf(header.compressor);
  for (let i = first; i < end; i++) {
    const start = at(starts, i);
    const size = at(ends, i) - start;
    const length = blockLength(header, i);
    if (length > size * ratio) {
      throw new SuperchunkError(
        "BAD_FIELD",
        `block ${i} at byte ${start} has ${size} bytes, which no ${header.compressor} stream decodes to ${length}; the chunk is damaged`,
        { offset: start, field: "blocksize", expected: size * ratio, found: length },
      );
    }
  }
}

/** @throws BAD_ARGUMENT where the chunk has not the bytes of the range */
export function checkRange(header: ChunkHeader, start: number, length: number): void {
  if (
    !Number.isSafeInteger(start) ||
    !Number.isSafeInteger(length) ||
    start < 0 ||
    length < 0 ||
    start + length > header.nbytes
  ) {
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `bytes ${start} to ${start + length} were requested, but the chunk decodes to ${header.nbytes} bytes`,
      { expected: header.nbytes, found: start + length },
    );
  }
}

/** Ends of blocks that lie in any order. */
function findEnds(starts: Uint32Array, ends: Uint32Array, ctbytes: number): void {
  const order = Uint32Array.from(starts.keys()).sort((a, b) => at(starts, a) - at(starts, b));
  for (let k = 0; k < order.length; k++) {
    const block = at(order, k);
    const next = order[k + 1];
    const end = next === undefined ? ctbytes : at(starts, next);
    if (end === starts[block]) throw badStart(Math.max(block, next ?? 0), "a start of its own", end);
    ends[block] = end;
  }
}

function badStart(block: number, expected: string, found: number): SuperchunkError {
  const offset = HEADER_LENGTH + 4 * block;
  return new SuperchunkError(
    "BAD_FIELD",
    `the start of block ${block} at byte ${offset} is ${found}, expected ${expected}; the chunk is damaged`,
    { offset, field: "bstarts", expected, found },
  );
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
