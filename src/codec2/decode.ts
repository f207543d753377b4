/**
 * Decodes Blosc2 chunks, or ranges of them. The Blosc1 kernels decode streams and undo the common filters. Knows blocks, runs,
 * dictionaries and special chunks [BC-07 to BC-12]; must not know frames.
 */
import { at, countLeading } from "../bytes/arrays.ts";
import { outputOf } from "../codec/decode/decode.ts";
import {
  badStream,
  copyDecoded,
  type DecodedStreams,
  type DecodeKernel,
  NEED_ALL,
  prepare,
  type StreamKernel,
  streamKernelOf,
  withKernel,
} from "../codec/decode/decode-kernel.ts";
import { checkDecodedRange, maxRatioOf } from "../codec/header.ts";
import { align, SLACK } from "../codec/kernel-module.ts";
import { decodeStreamSync } from "../codec/stream.ts";
import type { DecodeOptions } from "../codec/types.ts";
import { SuperchunkError } from "../errors.ts";
import { type Blosc2Header, FILTER, HEADER2_LENGTH } from "./fields.ts";
import { undoBytedelta, undoDelta } from "./filters.ts";
import { badField, checkExpected, dictionaryOf, readBlosc2Header, stepsOf } from "./header.ts";
import type { DecompressWith } from "./zstd-dictionary.ts";

/** If a result has more bytes than this and is this many times as long as its chunk, all blocks are checked before memory is allocated. */
const LARGE = 16 << 20;
const MANY_TIMES = 256;
/** The streams of one block in the chunk. The object is reused for every block. */
export interface BlockStreams {
  count: number;
  /** Offset of each stream from the chunk's start, after its length. */
  readonly at: Int32Array;
  /** Bytes; 0 or less means a run of the byte whose value is the negated number. */
  readonly length: Int32Array;
  /** Offset after the last byte of the block. */
  end: number;
}

/** The blocks of a chunk that is neither stored nor special. */
export class Blosc2Blocks {
  readonly chunk: Uint8Array;
  readonly header: Blosc2Header;
  readonly dictionary: Uint8Array | undefined;
  readonly streams: BlockStreams;
  readonly #view: DataView;
  /** Offsets of blocks of variable length in the decoded chunk, then the chunk's end. */
  readonly #offsets: Int32Array | undefined;
  readonly #maxRatio: number;

  /** @throws BAD_FIELD, BAD_CHUNK */
  constructor(chunk: Uint8Array, header: Blosc2Header) {
    this.chunk = chunk;
    this.header = header;
    // No longer than needed: the engine has arrays of 64 bytes and less in its heap, and allocates longer ones elsewhere.
    const { typesize } = header;
    this.streams = { count: 0, at: new Int32Array(typesize), length: new Int32Array(typesize), end: 0 };
    this.#view = new DataView(chunk.buffer, chunk.byteOffset, header.ctbytes);
    this.#maxRatio = maxRatioOf(header.compressor);
    this.dictionary = header.hasDictionary ? dictionaryOf(chunk, header) : undefined;
    this.#offsets = header.isVariable ? this.#variableOffsets() : undefined;
  }

  /** Offset of a block in the decoded chunk; for the number of blocks, the chunk's end. */
  offsetOf(block: number): number {
    const { blocksize, nbytes } = this.header;
    return this.#offsets === undefined ? Math.min(block * blocksize, nbytes) : at(this.#offsets, block);
  }

  /** The block that has a byte of the decoded chunk. */
  blockAt(offset: number): number {
    if (this.#offsets === undefined) return Math.floor(offset / this.header.blocksize);
    const offsets = this.#offsets;
    return countLeading(this.header.nblocks, (i) => at(offsets, i) <= offset) - 1;
  }

  /** Decoded bytes of a block. */
  lengthOf(block: number): number {
    return this.offsetOf(block + 1) - this.offsetOf(block);
  }

  /** Offset of a block's first stream from the chunk's start. */
  startOf(block: number): number {
    return this.#view.getInt32(HEADER2_LENGTH + 4 * block, true);
  }

  /** Finds the streams of a block. Checks each against its room, and against the most that its bytes can expand to. @throws BAD_CHUNK */
  find(block: number): BlockStreams {
    const { header, streams } = this;
    const { ctbytes, typesize, blocksize } = header;
    const length = this.lengthOf(block);
    const count = header.split && length === blocksize ? typesize : 1;
    const streamLength = length / count;
    let next = this.startOf(block);
    streams.count = count;
    if (header.isVariable) {
      // The word before the stream is the decoded length. The stream ends at the next block, or at the chunk's end.
      const end = block + 1 < header.nblocks ? this.startOf(block + 1) : ctbytes;
      streams.at[0] = next + 4;
      streams.length[0] = end - next - 4;
      if (length > (end - next - 4) * this.#maxRatio)
        throw this.#bad(block, next, "is too short for its block");
      streams.end = end;
      return streams;
    }
    for (let i = 0; i < count; i++) {
      if (next < HEADER2_LENGTH || next + 4 > ctbytes)
        throw this.#bad(block, next, `begins outside of the chunk's ${ctbytes} bytes`);
      const stored = this.#view.getInt32(next, true);
      next += 4;
      streams.at[i] = next;
      streams.length[i] = stored;
      if (stored > 0) {
        if (stored > ctbytes - next)
          throw this.#bad(block, next, `of ${stored} bytes reaches over the chunk's ${ctbytes}`);
        if (streamLength > stored * this.#maxRatio)
          throw this.#bad(block, next, `of ${stored} bytes cannot stand for ${streamLength}`);
        next += stored;
      } else if (stored < 0) {
        const token = next < ctbytes ? this.#view.getUint8(next) : 0;
        if ((token & 1) === 0 || stored < -255)
          throw this.#bad(block, next, `of length ${stored} has the token ${token}, which no run has`);
        next++;
      }
    }
    streams.end = next;
    return streams;
  }

  #variableOffsets(): Int32Array {
    const { nblocks, nbytes, ctbytes } = this.header;
    const offsets = new Int32Array(nblocks + 1);
    let before = HEADER2_LENGTH + 4 * nblocks - 1;
    let sum = 0;
    for (let i = 0; i < nblocks; i++) {
      const start = this.startOf(i);
      if (start <= before || start + 4 >= ctbytes)
        throw badField("start of a block", HEADER2_LENGTH + 4 * i, `${before + 1} to ${ctbytes - 5}`, start);
      const length = this.#view.getInt32(start, true);
      offsets[i] = sum;
      sum += length;
      if (length <= 0 || sum > nbytes) throw badField("length of a block", start, "within nbytes", length);
      before = start + 4;
    }
    if (sum !== nbytes) throw badField("nbytes", 4, `${sum}, the sum of its blocks`, nbytes);
    offsets[nblocks] = sum;
    return offsets;
  }

  #bad(block: number, offset: number, what: string): SuperchunkError {
    return new SuperchunkError(
      "BAD_CHUNK",
      `a stream of block ${block} at byte ${offset} of the Blosc2 chunk ${what}; the chunk is damaged`,
      { offset, field: "stream length" },
    );
  }
}

/** Loads what decoding the chunk needs: the kernels, and the zstd library for a dictionary. */
async function prepareBlosc2(header: Blosc2Header): Promise<void> {
  await prepare(header.compressor);
  if (header.hasDictionary && header.compressor === "zstd") await prepareDictionaries();
}

let decompressWith: DecompressWith | undefined;

/** Loads the zstd library, which decodes streams with a dictionary. */
export async function prepareDictionaries(): Promise<void> {
  decompressWith ??= await (await import("./zstd-dictionary.ts")).loadDictionaryDecoder();
}

/** Decodes a whole chunk. Throws as {@link decodeRangeSync}. */
export async function decode(chunk: Uint8Array, options: DecodeOptions = {}): Promise<Uint8Array> {
  const header = readBlosc2Header(chunk);
  checkExpected(header, options);
  await prepareBlosc2(header);
  return decodeSpan(chunk, header, 0, header.nbytes, options.out);
}

/** The same synchronously. */
export function decodeSync(chunk: Uint8Array, options: DecodeOptions = {}): Uint8Array {
  const header = readBlosc2Header(chunk);
  checkExpected(header, options);
  return decodeSpan(chunk, header, 0, header.nbytes, options.out);
}

/** {@link decodeRangeSync}, after loading what it needs. */
export async function decodeRange(
  chunk: Uint8Array,
  start: number,
  length: number,
  options: DecodeOptions = {},
): Promise<Uint8Array> {
  await prepareBlosc2(readBlosc2Header(chunk));
  return decodeRangeSync(chunk, start, length, options);
}

/**
 * Decodes `length` bytes from byte `start` of the decoded chunk on. Reads only the blocks that hold them, and the first block if the
 * delta filter refers to it.
 *
 * @throws TRUNCATED, BAD_FIELD, BAD_CHUNK, UNSUPPORTED, LIMIT (`maxNbytes`), BAD_ARGUMENT (no such bytes; `out` too short)
 */
export function decodeRangeSync(
  chunk: Uint8Array,
  start: number,
  length: number,
  options: DecodeOptions = {},
): Uint8Array {
  const header = readBlosc2Header(chunk);
  checkExpected(header, options);
  checkDecodedRange(header, start, length);
  return decodeSpan(chunk, header, start, length, options.out);
}

function decodeSpan(
  chunk: Uint8Array,
  header: Blosc2Header,
  start: number,
  length: number,
  given: Uint8Array | undefined,
): Uint8Array {
  if (header.special !== undefined) return fillSpecial(chunk, header, start, outputOf(given, length));
  if (header.memcpyed) {
    const out = outputOf(given, length);
    out.set(chunk.subarray(HEADER2_LENGTH + start, HEADER2_LENGTH + start + length));
    return out;
  }
  if (length === 0) return outputOf(given, 0);
  const blocks = new Blosc2Blocks(chunk, header);
  const [first, last] = [blocks.blockAt(start), blocks.blockAt(start + length - 1)];
  if (length > LARGE && length > header.ctbytes * MANY_TIMES)
    for (let block = first; block <= last; block++) blocks.find(block);
  const out = outputOf(given, length);
  withKernel((kernel) => {
    const decoder = new BlockDecoder(kernel, blocks);
    const isDelta = stepsOf(header).at(-1)?.id === FILTER.delta;
    if (isDelta && first > 0) decoder.reference();
    for (let block = first; block <= last; block++) {
      const begin = blocks.offsetOf(block);
      const from = Math.max(start - begin, 0);
      const to = Math.min(start + length - begin, blocks.lengthOf(block));
      decoder.decode(block, { from, to }, out.subarray(begin + from - start));
      if (isDelta && block === 0 && last > 0) decoder.reference();
    }
  });
  return out;
}

class BlockDecoder {
  readonly #kernel: DecodeKernel;
  readonly #blocks: Blosc2Blocks;
  readonly #decodeStream: StreamKernel;
  #reference: Uint8Array | undefined;

  constructor(kernel: DecodeKernel, blocks: Blosc2Blocks) {
    this.#kernel = kernel;
    this.#blocks = blocks;
    this.#decodeStream = streamKernelOf(kernel, blocks.header.compressor);
  }

  /** Keeps the first block, which the delta filter refers to. */
  reference(): void {
    const length = this.#blocks.lengthOf(0);
    const bytes = new Uint8Array(length);
    this.#reference = undefined;
    this.decode(0, { from: 0, to: length }, bytes);
    this.#reference = bytes;
  }

  /** Decodes bytes `from` to `to` of a block to the beginning of `out`. @throws BAD_CHUNK */
  decode(block: number, range: { readonly from: number; readonly to: number }, out: Uint8Array): void {
    const { header, chunk } = this.#blocks;
    const length = this.#blocks.lengthOf(block);
    const found = this.#blocks.find(block);
    const { memory, base } = this.#kernel;
    const start = at(found.at, 0) - 4;
    const target = base + align(length + SLACK);
    const input = target + align(length + SLACK);
    memory.reserve(input + found.end - start + SLACK);
    memory.bytes.set(chunk.subarray(start, found.end), input);
    const steps = stepsOf(header);
    const [only] = steps;
    const isKernels = steps.length <= 1 && (only === undefined || this.#isKernels(only, length));
    const { id } = only ?? { id: FILTER.none };
    const { calls } = this.#kernel;
    const several = found.count > 1;
    const filter =
      !isKernels || id === FILTER.none
        ? undefined
        : id === FILTER.shuffle
          ? several
            ? calls.unshuffleStreams
            : calls.unshuffle
          : several
            ? calls.bitunshuffleStreams
            : calls.bitunshuffle;
    const streams = this.#decodeStreams(
      { block, length, input, filter },
      filter === undefined ? target : base,
    );
    if (isKernels) {
      copyDecoded({ kernel: this.#kernel, header }, streams, target, range, out);
      return;
    }
    const place = this.#undo(target, base, length, block);
    out.set(memory.bytes.subarray(place + range.from, place + range.to));
  }

  /** True if the Blosc1 kernels undo the filter as Blosc2 defines it. */
  #isKernels({ id, meta }: { readonly id: number; readonly meta: number }, length: number): boolean {
    const { typesize } = this.#blocks.header;
    if (id === FILTER.shuffle) return typesize > 1 && (meta === 0 || meta === typesize);
    // Blosc1's bit shuffle skips a block whose element count is not a multiple of eight.
    return id === FILTER.bitshuffle && length >= typesize && Math.floor(length / typesize) % 8 === 0;
  }

  #decodeStreams(
    encoded: Pick<DecodedStreams, "length" | "filter"> & { block: number; input: number },
    dst: number,
  ): DecodedStreams {
    const { block, length, input, filter } = encoded;
    const { header, streams, dictionary } = this.#blocks;
    const { memory, streams: table } = this.#kernel;
    const streamLength = length / streams.count;
    const first = at(streams.at, 0) - 4;
    let to = dst;
    let from = to;
    for (let i = 0; i < streams.count; i++) {
      const stored = at(streams.length, i);
      const src = input + at(streams.at, i) - first;
      from = to;
      if (stored === streamLength) {
        if (filter === undefined) memory.bytes.copyWithin(to, src, src + stored);
        // The filter reads a stored stream in place.
        else from = src;
      } else if (stored <= 0 && !header.isVariable) {
        memory.bytes.fill(-stored, to, to + streamLength);
      } else {
        const place = { block, stream: i, offset: at(streams.at, i) };
        const written =
          dictionary === undefined
            ? this.#decodeStream(src, stored, to, streamLength, NEED_ALL)
            : this.#decodeWith(dictionary, memory.bytes.slice(src, src + stored), to, streamLength);
        if (written !== streamLength) throw badStream(header, place, streamLength, written);
      }
      if (streams.count > 1) memory.view.setUint32(table + 4 * i, from, true);
      if (from === to) to += streamLength;
    }
    return { length, filter, from: streams.count > 1 ? table : from };
  }

  #decodeWith(dictionary: Uint8Array, stream: Uint8Array, to: number, length: number): number {
    const { memory } = this.#kernel;
    const { compressor } = this.#blocks.header;
    if (compressor === "zstd" && decompressWith !== undefined)
      return decompressWith(stream, memory.bytes.subarray(to, to + length), dictionary);
    if (compressor !== "lz4")
      throw new SuperchunkError(
        "UNSUPPORTED",
        compressor === "zstd"
          ? 'zstd is not loaded, but a dictionary needs it; await prepare("blosc2") before decodeSync, or use decode.'
          : `the Blosc2 chunk has a dictionary of ${compressor}, which superchunk does not read; read it with python-blosc2`,
        { found: compressor },
      );
    const decoded = decodeStreamSync("lz4", withLiterals(dictionary, stream), dictionary.length + length);
    memory.bytes.set(decoded.subarray(dictionary.length), to);
    return decoded.length - dictionary.length;
  }

  /** Undoes the filters one by one. Returns the address of the result, `source` or `other`. */
  #undo(source: number, other: number, length: number, block: number): number {
    const { typesize } = this.#blocks.header;
    const { calls, memory } = this.#kernel;
    let [from, to] = [source, other];
    for (const { id, meta } of stepsOf(this.#blocks.header)) {
      const bytes = memory.bytes.subarray(from, from + length);
      const width = meta === 0 ? typesize : meta;
      if (id === FILTER.delta) undoDelta(bytes, typesize, block === 0 ? undefined : this.#reference);
      else if (id === FILTER.bytedelta || id === FILTER.oldBytedelta)
        undoBytedelta(bytes, width, id === FILTER.oldBytedelta);
      else {
        if (id === FILTER.shuffle) calls.unshuffle(from, to, length, width);
        else {
          const count = Math.floor(length / typesize);
          const whole = (count - (count % 8)) * typesize;
          if (whole > 0) calls.bitunshuffle(from, to, whole, typesize);
          memory.bytes.copyWithin(to + whole, from + whole, from + length);
        }
        [from, to] = [to, from];
      }
    }
    return from;
  }
}

/**
 * An lz4 block that begins with the dictionary as literals. They are put before the literals of the first sequence, so that all
 * distances still refer to the same bytes.
 */
function withLiterals(dictionary: Uint8Array, stream: Uint8Array): Uint8Array {
  let next = 1;
  const byte = (i: number): number => (i < stream.length ? at(stream, i) : 0);
  const token = byte(0);
  let literals = token >> 4;
  if (literals === 15)
    for (let more = 255; more === 255; ) {
      more = byte(next++);
      literals += more;
    }
  const length = literals + dictionary.length;
  const head = [(Math.min(length, 15) << 4) | (token & 15)];
  if (length >= 15)
    for (let rest = length - 15; ; rest -= 255) {
      head.push(Math.min(rest, 255));
      if (rest < 255) break;
    }
  const out = new Uint8Array(head.length + dictionary.length + Math.max(0, stream.length - next));
  out.set(head);
  out.set(dictionary, head.length);
  out.set(stream.subarray(next), head.length + dictionary.length);
  return out;
}

function fillSpecial(
  chunk: Uint8Array,
  { special, typesize, ctbytes }: Blosc2Header,
  start: number,
  out: Uint8Array,
): Uint8Array {
  if (special === "zeros" || special === "none") return out.fill(0);
  const value = special === "value" ? chunk.subarray(HEADER2_LENGTH, ctbytes) : nanOf(typesize);
  for (let i = 0; i < Math.min(value.length, out.length); i++) out[i] = at(value, (start + i) % value.length);
  // Each copy doubles the filled part.
  for (let there = value.length; there < out.length; there *= 2) out.copyWithin(there, 0, there);
  return out;
}

/** NaN as a float of `size` bytes. */
export function nanOf(size: number): Uint8Array {
  const bytes = new Uint8Array(size);
  if (size === 4) new DataView(bytes.buffer).setFloat32(0, Number.NaN, true);
  else if (size === 8) new DataView(bytes.buffer).setFloat64(0, Number.NaN, true);
  return bytes;
}
