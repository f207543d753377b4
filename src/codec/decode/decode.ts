/**
 * Decodes chunks, or ranges of them, from and into the caller's buffers. Knows the order of work;
 * decode-kernel.ts decodes the blocks.
 *
 * Only one block at a time is in a kernel's memory. This keeps it small (and in the processor's cache)
 * however large a chunk is.
 */
import { at, checkBytes } from "../../bytes/arrays.ts";
import { SuperchunkError } from "../../errors.ts";
import {
  type BlockBytes,
  type BlockTable,
  blockLength,
  blocksOf,
  bytesInMemory,
  checkDecodedRange,
  checkExpansion,
  checkExpectations,
  decodeHeader,
  findBlockRange,
  HEADER_LENGTH,
  readBlockTable,
  readChunkHeader,
} from "../header.ts";
import { align, SLACK } from "../kernel-module.ts";
import type { BlockRange, ChunkHeader, DecodeOptions } from "../types.ts";
import {
  type DecodeKernel,
  decodeBlockInto,
  makeBlockDecoder,
  prepare,
  streamKernelOf,
  withKernel,
} from "./decode-kernel.ts";

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
  checkDecodedRange(header, start, length);
  return decodeChecked(chunk, header, start, length, options.out);
}

/** Some bytes of a chunk, and the offset of the first one in it. */
export interface ChunkPart {
  readonly bytes: Uint8Array;
  readonly offset: number;
}

interface ByteSpan {
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
function checkGiven(
  head: Uint8Array,
  header: ChunkHeader,
  given: Pick<BlockRange, "offset" | "length">,
  { start, length }: ByteSpan,
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
  return withKernel((kernel) => {
    return decodePart(kernel, header, block, { block: first, from, to: from + out.length }, out);
  });
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
  withKernel((kernel) => {
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
  });
}

/** The beginning of the caller's `out`, or a new array. @throws BAD_ARGUMENT if `out` is too short */
export function outputOf(given: Uint8Array | undefined, length: number): Uint8Array {
  if (given === undefined) return new Uint8Array(length);
  if (checkBytes("out", given).length < length) {
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

// Decodes a small part of one large block. c-blosc's automatic blocks hold up to 2 MiB, but a reader of
// single elements wants a few bytes. Decodes each stream only up to the last byte wanted, and unfilters only
// the bytes wanted. Must not judge: if anything is unusual, the caller decodes the whole block.

// Finds single bytes of an lz4 stream without decoding it: walks its sequences without copying, and follows a byte of a
// match back to its literal. A stream that hardly compresses has few sequences, and most of the bytes before the wanted
// one need not even be read. Must not judge: if anything is unusual or the walk gets long, the kernel decodes instead.
// @see FORMAT.md [FB]

/** Most sequences to walk; decoding is faster than a longer walk. */
const MAX_SEQUENCES = 64;
/** After this many sequences, the length of the whole walk is estimated. */
const FEW_SEQUENCES = 8;
/** Bytes requested around a sequence: its token, and run lengths of up to 64 kB. */
const WINDOW = 320;

const outStarts = new Uint32Array(MAX_SEQUENCES + 1);
const literalStarts = new Uint32Array(MAX_SEQUENCES + 1);
const literalLengths = new Uint32Array(MAX_SEQUENCES + 1);
const distances = new Uint32Array(MAX_SEQUENCES + 1);

/**
 * Writes decoded bytes `from` to `from + out.length` of the stream to `out`. The stream has `length` bytes
 * and begins at `start` of the block.
 *
 * @returns false if the kernel should decode instead; `out` may then hold anything
 */
function lookUpLz4(block: BlockBytes, start: number, length: number, from: number, out: Uint8Array): boolean {
  const end = start + length;
  const count = walk(block, start, end, from + out.length);
  if (count === 0) return false;
  let bytes: Uint8Array = NOTHING;
  let base = 0;
  for (let i = 0; i < out.length; i++) {
    const at = sourceOf(from + i, count);
    if (at >= end) return false;
    if (at < base || at >= base + bytes.length) {
      bytes = block.read(at, Math.min(out.length, end - at));
      base = at;
    }
    out[i] = bytes[at - base] as number;
  }
  return true;
}

const NOTHING = new Uint8Array(0);
/** Stands for a byte after the stream: a length that leads out of the stream. (An integer, so that all sums stay integers.) */
const BEYOND = 1 << 28;

/**
 * Notes the sequences until `need` bytes would be decoded. Returns their number, or 0 to give up.
 *
 * One loop over local variables: a call for each byte would cost more than the kernel's decoding.
 */
function walk(block: BlockBytes, start: number, end: number, need: number): number {
  let bytes: Uint8Array = NOTHING;
  let base = start;
  let at = start;
  let decoded = 0;
  for (let i = 0; i < MAX_SEQUENCES; i++) {
    if (at + WINDOW > base + bytes.length && base + bytes.length < end) {
      if (at >= end) return 0;
      bytes = block.read(at, Math.min(WINDOW, end - at));
      base = at;
    }
    const token = bytes[at++ - base] ?? BEYOND;
    let literals = token >>> 4;
    if (literals === 15) {
      let byte = 255;
      while (byte === 255) {
        byte = bytes[at++ - base] ?? BEYOND;
        literals += byte;
      }
    }
    outStarts[i] = decoded;
    literalStarts[i] = at;
    literalLengths[i] = literals;
    decoded += literals;
    at += literals;
    if (!(at <= end)) return 0;
    if (decoded >= need) return i + 1;
    if (at + WINDOW > base + bytes.length && base + bytes.length < end) {
      bytes = block.read(at, Math.min(WINDOW, end - at));
      base = at;
    }
    const distance = (bytes[at - base] as number) | ((bytes[at + 1 - base] as number) << 8);
    at += 2;
    if (distance === 0 || distance > decoded) return 0;
    distances[i] = distance;
    let match = token & 15;
    if (match === 15) {
      let byte = 255;
      while (byte === 255) {
        byte = bytes[at++ - base] ?? BEYOND;
        match += byte;
      }
    }
    decoded += match + 4;
    if (!(at <= end)) return 0;
    if (decoded >= need) return i + 1;
    // At this rate the walk would reach its limit first.
    if (i === FEW_SEQUENCES && decoded * (MAX_SEQUENCES / FEW_SEQUENCES) < need) return 0;
  }
  return 0;
}

/** Offset in the block of the literal that decoded byte `index` is a copy of. */
function sourceOf(index: number, count: number): number {
  let wanted = index;
  for (let i = count - 1; ; i--) {
    while ((outStarts[i] as number) > wanted) i--;
    const inSequence = wanted - (outStarts[i] as number);
    const literals = literalLengths[i] as number;
    if (inSequence < literals) return (literalStarts[i] as number) + inSequence;
    const distance = distances[i] as number;
    // A match may overlap itself; its bytes then repeat every `distance`.
    wanted = (outStarts[i] as number) + literals - distance + ((inSequence - literals) % distance);
    if (wanted >= (outStarts[i] as number)) i++;
  }
}

/** Smaller blocks are decoded whole. Bytes. */
const MIN_BLOCK = 1024;

/** Most bytes of a stream to look up one by one; more are decoded. */
const MAX_LOOKED_UP = 64;

interface BlockPart {
  readonly block: number;
  /** First byte wanted and one past the last, in the decoded block. */
  readonly from: number;
  readonly to: number;
}

/**
 * Decodes the part to `out` from `bytes`, the compressed block.
 *
 * @returns false if this is not possible or not faster; `out` is then unchanged
 */
function decodePart(
  kernel: DecodeKernel,
  header: ChunkHeader,
  bytes: BlockBytes,
  part: BlockPart,
  out: Uint8Array,
): boolean {
  const layout = layOut(header, part);
  if (layout === undefined) return false;
  const { nsplits, need, pitch } = layout;
  const streamLength = blockLength(header, part.block) / nsplits;
  const { memory, calls } = kernel;
  // The beginnings of the streams, one after the other, then the unshuffled bytes, then the compressed bytes of one stream.
  const target = kernel.base + nsplits * pitch + streamLength + SLACK;
  const input = target + (part.to - part.from) + 2 * header.typesize + SLACK;
  memory.reserve(input + Math.min(bytes.length, maxInput(need)) + SLACK);
  const decodeStream = streamKernelOf(kernel, header.compressor);
  const first = Math.floor(part.from / nsplits);
  const looksUp = header.compressor === "lz4" && need - first <= MAX_LOOKED_UP;
  let at = 0;
  for (let i = 0; i < nsplits; i++) {
    const room = bytes.length - at - 4;
    const compressed = room < 0 ? -1 : readLength(bytes, at);
    if (compressed < 0 || compressed > room) return false;
    at += 4;
    const to = kernel.base + i * pitch;
    const wanted = memory.bytes.subarray(to + first, to + need);
    if (compressed === streamLength) {
      // Of a stored stream only the wanted bytes are read.
      wanted.set(bytes.read(at + first, wanted.length).subarray(0, wanted.length));
    } else if (!looksUp || !lookUpLz4(bytes, at, compressed, first, wanted)) {
      const length = Math.min(compressed, maxInput(need));
      memory.bytes.set(bytes.read(at, length).subarray(0, length), input);
      if (decodeStream(input, length, to, streamLength, need) < need) return false;
    }
    at += compressed;
  }
  if (nsplits === 1) {
    const start = kernel.base + part.from;
    out.set(memory.bytes.subarray(start, start + part.to - part.from));
    return true;
  }
  calls.unshuffleRows(kernel.base + first, pitch, need - first, target, header.typesize);
  const start = target + part.from - first * header.typesize;
  out.set(memory.bytes.subarray(start, start + part.to - part.from));
  return true;
}

function readLength(bytes: BlockBytes, at: number): number {
  const word = bytes.read(at, 4);
  return new DataView(word.buffer, word.byteOffset, 4).getInt32(0, true);
}

/** The number of streams in the block, the bytes needed of each, and the distance between their places. */
function layOut(
  header: ChunkHeader,
  { block, from, to }: BlockPart,
): { readonly nsplits: number; readonly need: number; readonly pitch: number } | undefined {
  const { compressor, shuffle, typesize, split } = header;
  const length = blockLength(header, block);
  if (length < MIN_BLOCK || to - from > length >> 1) return undefined;
  // The other kernels do not stop early.
  if (compressor !== "lz4" && compressor !== "blosclz" && compressor !== "snappy") return undefined;
  const isSplit = split && length === header.blocksize && typesize > 1;
  const shuffled = shuffle === "shuffle" && typesize > 1;
  if (!isSplit && (shuffle === "noshuffle" || (shuffle === "shuffle" && typesize === 1))) {
    return { nsplits: 1, need: to, pitch: length };
  }
  if (!isSplit || !shuffled) return undefined;
  // Kernels write up to the slack past what is needed, into the place of the next stream.
  return { nsplits: typesize, need: Math.ceil(to / typesize), pitch: length / typesize };
}

/**
 * Most compressed bytes that encoders write for `need` decoded ones: they add one control byte per 16 bytes
 * at most. If a stream has more, the kernel sees a truncated stream.
 */
function maxInput(need: number): number {
  return need + (need >> 4) + 1024;
}
