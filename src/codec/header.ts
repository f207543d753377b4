/**
 * The 16-byte header of every Blosc1 chunk, and the block starts after it. Knows their fields and how they depend on one another;
 * must not know what blocks contain.
 *
 * Byte 0 version, 1 versionlz, 2 flags, 3 typesize, then nbytes, blocksize and ctbytes as little-endian uint32.
 * @see FORMAT.md [FB]
 */

import { at, checkOptionNames, DECODE_OPTIONS } from "../bytes/arrays.ts";
import { SuperchunkError } from "../errors.ts";
import {
  type BlockRange,
  type ChunkHeader,
  COMPRESSOR_FORMATS,
  type Compressor,
  type CompressorFormat,
  type DecodeOptions,
  type Shuffle,
} from "./types.ts";

export const HEADER_LENGTH = 16 as const;
/** The only version that is read and written: c-blosc has written 2 since 0.9.4 of 2010. */
const BLOSC_VERSION = 2 as const;
/** Most decoded bytes of a chunk: c-blosc counts in int32, header included. */
export const MAX_NBYTES = 0x7fff_ffef as const;
/** Most bytes of a block: c-blosc allocates three blocks, and 255 stream lengths, with an int32 size. */
export const MAX_BLOCKSIZE = 715_827_542 as const;
/** Blocks of elements wider than this are not split. */
export const MAX_SPLITS = 16 as const;
/** Blocks of fewer elements than this are not split. */
export const MIN_SPLIT_LENGTH = 128 as const;

/** The typesize for items of `itemSize` bytes: one byte stores it, and larger items count as single bytes, as in c-blosc. */
export function typesizeFor(itemSize: number): number {
  return itemSize <= 255 ? itemSize : 1;
}

/** Bits of the flags; bits 5 to 7 name the compressor. */
export const FLAG = {
  shuffle: 0x01,
  memcpyed: 0x02,
  bitshuffle: 0x04,
  future: 0x08,
  notSplit: 0x10,
} as const;

/**
 * Decodes and checks a chunk's header.
 *
 * @param chunk at least the first 16 bytes of a chunk
 * @param available bytes available of the whole chunk, if `chunk` is only its beginning
 * @throws TRUNCATED (fewer bytes than the header or than its ctbytes), BAD_FIELD, UNSUPPORTED (a version or
 * compressor that Blosc1 does not have)
 * @see FORMAT.md [FB]
 */
export function decodeHeader(chunk: Uint8Array, available: number = chunk.length): ChunkHeader {
  if (chunk.length < HEADER_LENGTH) {
    throw new SuperchunkError(
      "TRUNCATED",
      `a Blosc chunk starts with ${HEADER_LENGTH} bytes of header, but only ${chunk.length} are there`,
      { field: "header", expected: HEADER_LENGTH, found: chunk.length },
    );
  }
  return decodeHeaderAt(new DataView(chunk.buffer, chunk.byteOffset, HEADER_LENGTH), 0, available);
}

/** The same for one of many headers in a buffer. The view must have {@link HEADER_LENGTH} bytes from `at` on. */
export function decodeHeaderAt(view: DataView, at: number, available: number): ChunkHeader {
  const version = view.getUint8(at);
  const versionlz = view.getUint8(at + 1);
  const flags = view.getUint8(at + 2);
  const typesize = view.getUint8(at + 3);
  const nbytes = view.getUint32(at + 4, true);
  const blocksize = view.getUint32(at + 8, true);
  const ctbytes = view.getUint32(at + 12, true);

  if (version !== BLOSC_VERSION)
    throw unsupported("version", 0, "Blosc format version", BLOSC_VERSION, version);
  const memcpyed = (flags & FLAG.memcpyed) !== 0;
  const format = compressorOf(flags);
  // Stored chunks have no stream whose format could matter; c-blosc does not check it either.
  if (!memcpyed && versionlz !== format.versionlz) {
    throw unsupported("versionlz", 1, `format version of ${format.name}`, format.versionlz, versionlz);
  }
  if (typesize === 0) throw badField("typesize", 3, "1 to 255", typesize);
  if (nbytes > MAX_NBYTES) throw badField("nbytes", 4, `at most ${MAX_NBYTES}`, nbytes);
  // Bloscpack writes blocksize 1 for an empty chunk, which has no blocks.
  if (nbytes > 0 && (blocksize === 0 || blocksize > nbytes || blocksize > MAX_BLOCKSIZE)) {
    throw badField(
      "blocksize",
      8,
      `1 to ${Math.min(nbytes, MAX_BLOCKSIZE)} (nbytes is ${nbytes})`,
      blocksize,
    );
  }
  const nblocks = nbytes === 0 ? 0 : Math.ceil(nbytes / blocksize);
  checkSize(format, memcpyed, nbytes, nblocks, ctbytes);
  if (ctbytes > available) {
    throw new SuperchunkError(
      "TRUNCATED",
      `the Blosc header's ctbytes at byte 12 is ${ctbytes}, but only ${available} bytes are there`,
      { offset: 12, field: "ctbytes", expected: ctbytes, found: available },
    );
  }
  const split =
    !memcpyed &&
    (flags & FLAG.notSplit) === 0 &&
    typesize <= MAX_SPLITS &&
    Math.floor(blocksize / typesize) >= MIN_SPLIT_LENGTH;
  // c-blosc requires blocks of whole elements; with any other block size it decodes fewer bytes than nbytes.
  if (split && nbytes > 0 && blocksize % typesize !== 0) {
    throw badField("blocksize", 8, `a multiple of the typesize ${typesize} (blocks are split)`, blocksize);
  }
  return {
    version,
    versionlz,
    flags,
    typesize,
    nbytes,
    blocksize,
    ctbytes,
    compressor: format.name,
    shuffle: shuffleOf(flags, typesize),
    memcpyed,
    split,
    nblocks,
  };
}

/** Reads a chunk's header and checks it against the chunk's actual length. @throws as {@link decodeHeader} */
export function readChunkHeader(chunk: Uint8Array, options: DecodeOptions = {}): ChunkHeader {
  checkOptionNames(options, DECODE_OPTIONS);
  const header = decodeHeader(chunk);
  checkExpectations(header, options);
  return header;
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

/** Arguments of {@link encodeHeader}; the default of `versionlz` is right for all compressors but snappy. */
export interface HeaderFields
  extends Pick<ChunkHeader, "flags" | "typesize" | "nbytes" | "blocksize" | "ctbytes"> {
  readonly versionlz?: number;
}

/** Encodes a chunk's header without checks. */
export function encodeHeader(fields: HeaderFields): Uint8Array {
  const { versionlz = 1, flags, typesize, nbytes, blocksize, ctbytes } = fields;
  const header = new Uint8Array(HEADER_LENGTH);
  header.set([BLOSC_VERSION, versionlz, flags, typesize]);
  const view = new DataView(header.buffer);
  view.setUint32(4, nbytes, true);
  view.setUint32(8, blocksize, true);
  view.setUint32(12, ctbytes, true);
  return header;
}

/** Length of the header and the block table, in bytes. */
export function headLength(header: ChunkHeader): number {
  return header.memcpyed ? HEADER_LENGTH : HEADER_LENGTH + 4 * header.nblocks;
}

/** Decoded bytes of a block. Only the last can be shorter than `blocksize`. */
export function blockLength(header: ChunkHeader, block: number): number {
  return Math.min(header.blocksize, header.nbytes - block * header.blocksize);
}

function compressorOf(flags: number): CompressorFormat {
  if ((flags & FLAG.future) !== 0) {
    throw unsupported("flags", 2, "flag bit 3 (compressors of the future)", 0, 1);
  }
  const format = COMPRESSOR_FORMATS[flags >> 5];
  if (format === undefined)
    throw unsupported("flags", 2, "compressor (flag bits 5 to 7)", "0 to 4", flags >> 5);
  return format;
}

/** If both bits are set, c-blosc uses the byte shuffle, except for one-byte elements, where that has no effect. */
function shuffleOf(flags: number, typesize: number): Shuffle {
  const bitshuffle = (flags & FLAG.bitshuffle) !== 0;
  if ((flags & FLAG.shuffle) !== 0 && (typesize > 1 || !bitshuffle)) return "shuffle";
  return bitshuffle ? "bitshuffle" : "noshuffle";
}

function checkSize(
  format: CompressorFormat,
  memcpyed: boolean,
  nbytes: number,
  nblocks: number,
  ctbytes: number,
): void {
  if (memcpyed) {
    const stored = nbytes + HEADER_LENGTH;
    if (ctbytes !== stored)
      throw badField("ctbytes", 12, `${stored} (nbytes + 16: the chunk is stored)`, ctbytes);
    return;
  }
  const head = HEADER_LENGTH + 4 * nblocks;
  if (ctbytes < head)
    throw badField("ctbytes", 12, `at least ${head} (header and ${nblocks} block starts)`, ctbytes);
  const most = (ctbytes - head) * format.maxRatio;
  if (nbytes > most) {
    throw badField(
      "nbytes",
      4,
      `at most ${most} (what ${ctbytes - head} bytes of ${format.name} can stand for)`,
      nbytes,
    );
  }
}

function badField(field: string, offset: number, expected: string, found: number): SuperchunkError {
  return new SuperchunkError(
    "BAD_FIELD",
    `the Blosc header's ${field} at byte ${offset} is ${found}, expected ${expected}; the chunk is damaged`,
    { offset, field, expected, found },
  );
}

function unsupported(
  field: string,
  offset: number,
  what: string,
  expected: number | string,
  found: number,
): SuperchunkError {
  return new SuperchunkError(
    "UNSUPPORTED",
    `the Blosc header's ${field} at byte ${offset} has ${what} ${found}, but only ${expected} is supported`,
    { offset, field, expected, found },
  );
}

export function maxRatioOf(compressor: Compressor): number {
  return COMPRESSOR_FORMATS.find(({ name }) => name === compressor)?.maxRatio ?? 0;
}

// Where the blocks of a chunk are: the table of block starts after the header.

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
  checkDecodedRange(header, start, length);
  const [firstBlock, endBlock] = blocksOf(header, start, length);
  // A stored chunk can be read from any byte, not only from the start of a block.
  if (header.memcpyed) return { firstBlock, endBlock, offset: HEADER_LENGTH + start, length };
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
export function checkDecodedRange(
  { nbytes }: Pick<ChunkHeader, "nbytes">,
  start: number,
  length: number,
): void {
  if (
    !Number.isSafeInteger(start) ||
    !Number.isSafeInteger(length) ||
    start < 0 ||
    length < 0 ||
    start + length > nbytes
  ) {
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `bytes ${start} to ${start + length} were requested, but the chunk decodes to ${nbytes} bytes`,
      { expected: nbytes, found: start + length },
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
