/** Where the blocks of a chunk are: the table of block starts after the header. Must not know what blocks contain. */
import { at } from "../../bytes/at.ts";
import { SuperchunkError } from "../../errors.ts";
import { blockLength, decodeHeader, HEADER_LENGTH, headLength, maxRatioOf } from "../header.ts";
import type { BlockRange, ChunkHeader } from "../types.ts";

/** The compressed bytes of one block, in memory or fetched on request. */
export interface BlockBytes {
  readonly length: number;
  /** Returns at least `least` bytes from `at` on, up to the end of the block: a view that is valid until the next call. */
  read(at: number, least: number): Uint8Array;
}

export function bytesInMemory(bytes: Uint8Array): BlockBytes {
  return { length: bytes.length, read: (at) => bytes.subarray(at) };
}

/** Start and end of each block, in bytes from the chunk's start. */
export interface BlockTable {
  readonly starts: Uint32Array;
  /** The next start in the chunk, or the chunk's end: block i has no byte at or after `ends[i]`. */
  readonly ends: Uint32Array;
}

/**
 * Reads and checks the block starts of a chunk that is not stored.
 *
 * c-blosc's threads write blocks in the order in which they finish, so starts need not ascend. They must be
 * distinct, be after the table, and leave room for a stream length.
 *
 * @param head at least the first {@link headLength} bytes of the chunk
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
 * Finds the bytes of the chunk that are needed to decode `length` bytes from `start` on.
 *
 * @param head at least the first {@link headLength} bytes of the chunk
 * @param table the result of {@link readBlockTable}, if already known
 * @throws BAD_ARGUMENT if the chunk has no such bytes; TRUNCATED, BAD_FIELD
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
    // A stored chunk can be read from any byte, not only from the start of a block.
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

/** The first block with a byte of the range, and one past the last. */
export function blocksOf(header: ChunkHeader, start: number, length: number): readonly [number, number] {
  if (length === 0) return [0, 0];
  return [Math.floor(start / header.blocksize), Math.floor((start + length - 1) / header.blocksize) + 1];
}

/**
 * Compares the decoded lengths of blocks with the most that their bytes can expand to, before memory is allocated.
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

/** @throws BAD_ARGUMENT if the range is not inside the decoded chunk */
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

/** Fills in the ends of blocks that are stored in any order. */
function findEnds(starts: Uint32Array, ends: Uint32Array, ctbytes: number): void {
  const order = Uint32Array.from(starts.keys()).sort((a, b) => at(starts, a) - at(starts, b));
  for (let k = 0; k < order.length; k++) {
    const block = at(order, k);
    const next = order[k + 1];
    const end = next === undefined ? ctbytes : at(starts, next);
    if (end === starts[block])
      throw badStart(Math.max(block, next ?? 0), "a start that no other block has", end);
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
 * The bytes of a chunk to fetch in order to decode `length` bytes from byte `start` of the decoded chunk.
 *
 * @param head header and block starts: at least the first {@link headLength} bytes of the chunk
 * @throws BAD_ARGUMENT if the chunk has no such bytes; TRUNCATED, BAD_FIELD, UNSUPPORTED
 */
export function blockRanges(head: Uint8Array, start: number, length: number): BlockRange {
  return findBlockRange(head, decodeHeader(head, Number.MAX_SAFE_INTEGER), start, length);
}
