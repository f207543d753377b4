/**
 * Replaces some of a chunk's data. Encodes only the blocks that hold them, and of a block in streams only the
 * changed streams; copies all other compressed bytes.
 *
 * Knows which blocks are touched.
 * @see FORMAT.md [FB]
 */
import { addTo, at } from "../../bytes/arrays.ts";
import { SuperchunkError } from "../../errors.ts";
import { decodeSync } from "../decode/decode.ts";
import {
  type BlockDecoder,
  badStream,
  badStreamLength,
  type DecodeKernel,
  decodeBlock,
  makeBlockDecoder,
  NEED_ALL,
  withKernel,
} from "../decode/decode-kernel.ts";
import { encodeInto, encodeSync, placeFor } from "../encode/encode.ts";
import {
  type EncodeKernel,
  type EncodeLayout,
  FULL,
  filterBlock,
  type KernelTarget,
  putStreams,
  type StreamEncoder,
  streamEncoder,
  withEncodeKernel,
} from "../encode/encode-kernel.ts";
import { type EncodeSettings, settleEncode } from "../encode/encode-settings.ts";
import {
  type BlockTable,
  blockLength,
  checkExpansion,
  HEADER_LENGTH,
  headLength,
  readBlockTable,
  readChunkHeader,
} from "../header.ts";
import { SLACK } from "../kernel-module.ts";
import type { ByteEdit, ChunkHeader, EncodeOptions } from "../types.ts";

// Rewrites one block of a chunk. A byte of a shuffled block is in one of its streams. A stored stream is changed in
// place, a compressed one is decoded, changed and encoded, and all others are copied. Must not know headers.

/**
 * If at least one byte in this many is replaced, the whole block, or stream, is encoded again instead of
 * looking for single bytes.
 */
const SHARE = 4;

/** Replacement of `length` bytes from `at` on: the bytes of `bytes` from `from` on, repeated. */
interface Patch {
  readonly at: number;
  readonly length: number;
  readonly bytes: Uint8Array;
  readonly from: number;
}

/** Writes a piece into decoded data, which start at `base` of `target`. */
function putPiece({ at, length, bytes, from }: Patch, target: Uint8Array, base: number): void {
  let skip = from;
  for (let done = 0; done < length; skip = 0) {
    const part = bytes.subarray(skip, skip + Math.min(length - done, bytes.length - skip));
    target.set(part, base + at + done);
    done += part.length;
  }
}

/** A block of `length` decoded bytes in `nstreams` streams, and the pieces to write into it. */
interface ChangedBlock {
  readonly block: number;
  readonly length: number;
  readonly nstreams: number;
  readonly pieces: readonly Patch[];
}

/** A chunk that is rewritten, and the settings for encoding its blocks. */
interface ParsedChunk {
  readonly chunk: Uint8Array;
  readonly header: ChunkHeader;
  readonly table: BlockTable;
  readonly settings: EncodeSettings;
}

/** One stream of a block: its place in the chunk, and its state. */
interface Stream {
  readonly start: number;
  readonly length: number;
  readonly isStored: boolean;
  /** Number of replaced bytes. */
  changes: number;
  /** True if it is decoded in the encoder's memory. */
  isLoaded: boolean;
  /** Its offset in the new chunk. */
  to: number;
}

class BlockRewriter {
  readonly #chunk: Uint8Array;
  readonly #header: ChunkHeader;
  readonly #table: BlockTable;
  readonly #settings: EncodeSettings;
  readonly #decoder: BlockDecoder;
  readonly #encoder: EncodeKernel;
  readonly #layout: EncodeLayout;
  readonly #encodeStream: StreamEncoder;

  /** @param longest decoded bytes of the longest block to rewrite, already checked against its compressed bytes */
  constructor(
    { chunk, header, table, settings }: ParsedChunk,
    kernel: DecodeKernel,
    encoder: EncodeKernel,
    longest: number,
  ) {
    this.#chunk = chunk;
    this.#header = header;
    this.#table = table;
    this.#settings = settings;
    this.#encoder = encoder;
    this.#decoder = makeBlockDecoder(kernel, header, kernel.base);
    // Room for one block: its streams, each after its length.
    this.#layout = encoder.layOut(longest, longest + 4 * header.typesize);
    this.#encodeStream = streamEncoder(settings, encoder, this.#layout);
  }

  /**
   * Writes the block of `length` decoded bytes, with `pieces` written into it, to `target`. The caller has checked that its
   * compressed bytes can expand to `length`. Returns the offset after the block, or undefined if the block does not fit.
   *
   * @throws BAD_CHUNK, BAD_FIELD if the block is damaged
   */
  rewrite(block: number, length: number, pieces: readonly Patch[], target: KernelTarget): number | undefined {
    const { shuffle, typesize, split, blocksize } = this.#header;
    const nstreams = split && length === blocksize ? typesize : 1;
    const changes = pieces.reduce((sum, piece) => sum + piece.length, 0);
    // With bit shuffle, the bits of one element are spread over the whole block.
    if (changes * SHARE >= length || (shuffle === "bitshuffle" && length >= typesize))
      return this.#encodeBlock({ block, length, nstreams, pieces }, target);
    return this.#replaceInStreams({ block, length, nstreams, pieces }, target);
  }

  #encodeBlock({ block, length, nstreams, pieces }: ChangedBlock, target: KernelTarget): number | undefined {
    const { bytes } = this.#encoder.memory;
    const layout = this.#layout;
    if (!pieces.some((piece) => piece.length === length))
      bytes.set(this.#decode(block, length), layout.block);
    for (const piece of pieces) putPiece(piece, bytes, layout.block);
    const source = filterBlock(length, this.#settings, this.#encoder, layout);
    const streams = { source, length: length / nstreams, count: nstreams };
    const stop = putStreams(streams, target, this.#encodeStream, this.#encoder, layout);
    return stop === FULL ? undefined : stop;
  }

  /** The decoded block: a view of the decoder's memory. */
  #decode(block: number, length: number): Uint8Array {
    const { kernel } = this.#decoder;
    const start = at(this.#table.starts, block);
    const size = at(this.#table.ends, block) - start;
    const target = kernel.base + length + SLACK;
    const input = target + length + SLACK;
    kernel.memory.reserve(input + size + SLACK);
    kernel.memory.bytes.set(this.#chunk.subarray(start, start + size), input);
    const placed = { block, src: input, end: input + size, offset: start };
    decodeBlock(this.#decoder, placed, target);
    return kernel.memory.bytes.subarray(target, target + length);
  }

  #replaceInStreams(
    { block, length, nstreams, pieces }: ChangedBlock,
    { out, at: start, end }: KernelTarget,
  ): number | undefined {
    const streamLength = length / nstreams;
    const streams = this.#readStreams(block, nstreams, streamLength);
    const { bytes } = this.#encoder.memory;
    const { filtered } = this.#layout;
    const each = this.#walk(length, streamLength, streams);
    each(pieces, (stream) => {
      stream.changes++;
    });
    for (const [i, stream] of streams.entries()) {
      if (stream.changes === 0 || (stream.isStored && stream.changes * SHARE < streamLength)) continue;
      bytes.set(this.#decodeStream(block, i, stream, streamLength), filtered + i * streamLength);
      stream.isLoaded = true;
    }
    each(pieces, (stream, index, inStream, value) => {
      if (stream.isLoaded) bytes[filtered + index * streamLength + inStream] = value;
    });
    let at = start;
    for (const [i, stream] of streams.entries()) {
      stream.to = at + 4;
      if (stream.isLoaded) {
        const one = { source: filtered + i * streamLength, length: streamLength, count: 1 };
        at = putStreams(one, { out, at, end }, this.#encodeStream, this.#encoder, this.#layout);
        if (at === FULL) return undefined;
      } else {
        const encoded = this.#chunk.subarray(stream.start - 4, stream.start + stream.length);
        if (at + encoded.length > end) return undefined;
        out.set(encoded, at);
        at += encoded.length;
      }
    }
    each(pieces, (stream, _, inStream, value) => {
      if (!stream.isLoaded) out[stream.to + inStream] = value;
    });
    return at;
  }

  /**
   * Returns a function that visits each new byte in order, with its stream, the stream's index, the offset in
   * it, and the value.
   */
  #walk(length: number, streamLength: number, streams: readonly Stream[]) {
    const { shuffle, typesize } = this.#header;
    // Bytes after the last whole element of a block are not shuffled.
    const elements = shuffle === "shuffle" ? Math.floor(length / typesize) : 0;
    const shuffled = elements * typesize;
    return (
      pieces: readonly Patch[],
      use: (stream: Stream, index: number, inStream: number, value: number) => void,
    ): void => {
      for (const piece of pieces) {
        for (let i = 0; i < piece.length; i++) {
          const p = piece.at + i;
          const q = p < shuffled ? (p % typesize) * elements + Math.floor(p / typesize) : p;
          const index = Math.floor(q / streamLength);
          const stream = streams[index];
          const value = piece.bytes[(piece.from + i) % piece.bytes.length];
          if (stream !== undefined && value !== undefined)
            use(stream, index, q - index * streamLength, value);
        }
      }
    };
  }

  #readStreams(block: number, nstreams: number, streamLength: number): Stream[] {
    const chunk = this.#chunk;
    const view = new DataView(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    const end = at(this.#table.ends, block);
    const streams: Stream[] = [];
    let start = at(this.#table.starts, block);
    for (let i = 0; i < nstreams; i++) {
      const room = end - start - 4;
      const length = room < 0 ? undefined : view.getInt32(start, true);
      if (length === undefined || length < 0 || length > room)
        throw badStreamLength({ block, stream: i, offset: start }, room, length);
      start += 4;
      const isStored = length === streamLength;
      streams.push({ start, length, isStored, changes: 0, isLoaded: false, to: 0 });
      start += length;
    }
    return streams;
  }

  /** A decoded stream: a view of the chunk or the decoder's memory. */
  #decodeStream(block: number, index: number, stream: Stream, streamLength: number): Uint8Array {
    const { kernel, decodeStream } = this.#decoder;
    const compressed = this.#chunk.subarray(stream.start, stream.start + stream.length);
    if (stream.isStored) return compressed;
    const input = kernel.base + streamLength + SLACK;
    kernel.memory.reserve(input + stream.length + SLACK);
    kernel.memory.bytes.set(compressed, input);
    const written = decodeStream(input, stream.length, kernel.base, streamLength, NEED_ALL);
    if (written !== streamLength)
      throw badStream(this.#header, { block, stream: index, offset: stream.start }, streamLength, written);
    return kernel.memory.bytes.subarray(kernel.base, kernel.base + streamLength);
  }
}

/** If at least one byte in this many of a stored chunk is replaced, the chunk is encoded again: it may compress now. */
const STORED_SHARE = 4;

/**
 * Replaces some of a chunk's decoded bytes, in the order of `edits`. Blocks keep the chunk's filter and block size. The chunk is encoded
 * again if another compressor is requested, or if it would not be smaller than its data.
 *
 * Needs the preparation of encoding and decoding with the compressor: {@link prepareEncode}, {@link prepare}.
 *
 * @param options for encoding again; default: the chunk's own compressor, filter and typesize, level 5
 * @param out memory for the chunk; 16 bytes more than the data always suffice; must not overlap `chunk`. Default: a new array
 * @returns the beginning of `out`
 * @throws BAD_ARGUMENT (bytes outside the chunk, an option out of range), LIMIT (`out` too short); TRUNCATED, BAD_FIELD, BAD_CHUNK if
 * damaged bytes must be decoded; UNSUPPORTED
 */
export function replaceBytes(
  chunk: Uint8Array,
  edits: readonly ByteEdit[],
  options: EncodeOptions = {},
  out?: Uint8Array,
): Uint8Array {
  const header = readChunkHeader(chunk);
  const pieces = edits.map((edit) => checkEdit(edit, header));
  const { compressor, shuffle, typesize, nbytes } = header;
  const wanted = { cname: compressor, shuffle, typesize, ...options };
  const settings = settleEncode(nbytes, wanted);
  return (
    (header.memcpyed
      ? replaceStored(chunk, header, pieces, settings, out)
      : replaceEncoded(chunk, header, pieces, settings, out)) ?? replaceAll(chunk, pieces, wanted, out)
  );
}

function replaceAll(
  chunk: Uint8Array,
  pieces: readonly Patch[],
  options: EncodeOptions,
  out: Uint8Array | undefined,
): Uint8Array {
  const data = decodeSync(chunk);
  for (const piece of pieces) putPiece(piece, data, 0);
  return out === undefined ? encodeSync(data, options) : encodeInto(data, out, options);
}

/** Changes stored data in place, unless they may compress now. */
function replaceStored(
  chunk: Uint8Array,
  { nbytes, ctbytes }: ChunkHeader,
  pieces: readonly Patch[],
  settings: EncodeSettings,
  out: Uint8Array | undefined,
): Uint8Array | undefined {
  const changed = pieces.reduce((sum, { length }) => sum + length, 0);
  if (!settings.stored && changed * STORED_SHARE >= nbytes) return undefined;
  const place = out === undefined ? new Uint8Array(ctbytes) : placeFor(ctbytes, out);
  place.set(chunk.subarray(0, ctbytes));
  for (const piece of pieces) putPiece(piece, place, HEADER_LENGTH);
  return place;
}

/** Copies the blocks that no piece touches, and rewrites the others. Returns undefined if all data must be encoded again. */
function replaceEncoded(
  chunk: Uint8Array,
  header: ChunkHeader,
  pieces: readonly Patch[],
  asked: EncodeSettings,
  given: Uint8Array | undefined,
): Uint8Array | undefined {
  const { compressor, nblocks, nbytes } = header;
  const cname = asked.cname === "lz4hc" ? "lz4" : asked.cname;
  if (asked.stored || cname !== compressor) return undefined;
  // All blocks of a chunk have the same filter and split.
  const { shuffle, typesize, blocksize, split } = header;
  const settings: EncodeSettings = { ...asked, shuffle, typesize, blocksize, nblocks, split };
  const table = readBlockTable(chunk, header);
  const byBlock = cutPatches(pieces, blocksize);
  const touched = [...byBlock.keys()];
  for (const block of touched) checkExpansion(header, table, block, block + 1);
  const out = given ?? new Uint8Array(roomFor(header, touched));
  const end = Math.min(out.length, HEADER_LENGTH + nbytes);
  const first = headLength(header);
  if (first > end) return undefined;
  out.set(chunk.subarray(0, HEADER_LENGTH));
  const view = new DataView(out.buffer, out.byteOffset, out.byteLength);
  return withKernel((kernel) => {
    return withEncodeKernel((encoder) => {
      const longest = touched.reduce((most, block) => Math.max(most, blockLength(header, block)), 0);
      const rewriter = new BlockRewriter({ chunk, header, table, settings }, kernel, encoder, longest);
      let at = first;
      for (let block = 0; block < nblocks; block++) {
        view.setUint32(HEADER_LENGTH + 4 * block, at, true);
        const inBlock = byBlock.get(block);
        const next =
          inBlock === undefined
            ? copyBlock(chunk, table, block, { out, at, end })
            : rewriter.rewrite(block, blockLength(header, block), inBlock, { out, at, end });
        if (next === undefined) return undefined;
        at = next;
      }
      // Like the encoder: a chunk that is not shorter than a stored one is stored.
      if (at >= HEADER_LENGTH + nbytes) return undefined;
      view.setUint32(12, at, true);
      return out.subarray(0, at);
    });
  });
}

/**
 * Most bytes of the new chunk: those of the old one, plus each rewritten block stored in streams. Block lengths count
 * only after checking that the blocks' bytes can expand to them, because a header may claim anything.
 */
function roomFor(header: ChunkHeader, touched: readonly number[]): number {
  const { ctbytes, nbytes, typesize } = header;
  const most = touched.reduce((sum, block) => sum + blockLength(header, block) + 4 * typesize, ctbytes);
  return Math.min(most, HEADER_LENGTH + nbytes);
}

/** Copies a block. Returns the offset after it; undefined if it does not fit. */
function copyBlock(
  chunk: Uint8Array,
  { starts, ends }: BlockTable,
  block: number,
  { out, at: target, end }: KernelTarget,
): number | undefined {
  const bytes = chunk.subarray(at(starts, block), at(ends, block));
  if (target + bytes.length > end) return undefined;
  out.set(bytes, target);
  return target + bytes.length;
}

/** Cuts the pieces at block ends. Returns them by block, in their order. */
function cutPatches(pieces: readonly Patch[], blocksize: number): Map<number, Patch[]> {
  const byBlock = new Map<number, Patch[]>();
  for (const { at, length, bytes } of pieces) {
    for (let done = 0; done < length; ) {
      const block = Math.floor((at + done) / blocksize);
      const inBlock = at + done - block * blocksize;
      const part = Math.min(length - done, blocksize - inBlock);
      const cut = { at: inBlock, length: part, bytes, from: done % bytes.length };
      addTo(byBlock, block, cut);
      done += part;
    }
  }
  return byBlock;
}

function checkEdit({ at, bytes, length = bytes.length }: ByteEdit, { nbytes }: ChunkHeader): Patch {
  const isRange = Number.isSafeInteger(at) && Number.isSafeInteger(length) && at >= 0 && length >= 0;
  if (isRange && at + length <= nbytes && (bytes.length > 0 || length === 0))
    return { at, length, bytes, from: 0 };
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    `${length} bytes from byte ${at} on are to be replaced by ${bytes.length}, but the chunk decodes to ${nbytes} bytes`,
    { field: "edits", expected: nbytes, found: at + length },
  );
}
