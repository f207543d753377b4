/**
 * Builds Blosc1 chunks: header, block starts, and blocks of one or several streams.
 *
 * Uses the same blocks, splits and flags as c-blosc 1.21 with the same settings, in ascending order. Knows
 * the container; must not know how streams are compressed.
 * @see FORMAT.md [FB]
 */
import { at, checkBytes } from "../../bytes/arrays.ts";
import { SuperchunkError } from "../../errors.ts";
import { decodeRangeSync } from "../decode/decode.ts";
import { prepare } from "../decode/decode-kernel.ts";
import { encodeHeader, FLAG, HEADER_LENGTH, readBlockTable, readChunkHeader } from "../header.ts";
import {
  type ChunkEncoder,
  type ChunkHeader,
  COMPRESSOR_FORMATS,
  type CompressorFormat,
  type CompressorName,
  type EncodeOptions,
} from "../types.ts";
import {
  type EncodeKernel,
  type EncodeLayout,
  FULL,
  loadBlock,
  prepareEncodeKernels,
  putStreams,
  putUint32,
  streamEncoder,
  withKernelAt,
} from "./encode-kernel.ts";
import { type EncodeSettings, settleEncode } from "./encode-settings.ts";
import { loadZstd } from "./zstd-library.ts";

// Encodes many chunks: here by default, or with an encoder that works on several at a time. Must not know threads.

/** Encodes in the calling thread, one chunk at a time. */
export const encodeHere: ChunkEncoder = {
  parallel: 1,
  encode: async (data, options, room) => {
    if (room === undefined || room.byteLength < data.length + HEADER_LENGTH) return encode(data, options);
    await prepareEncode(options.cname);
    return encodeInto(data, room, options);
  },
};

/**
 * Yields the chunks of the data in order. Works on as many at a time as the encoder can. Data must not change until
 * their chunk is yielded. An error of the source or the encoder is thrown after the chunks before it have been yielded.
 */
export async function* encodeAhead(
  source: AsyncIterable<Uint8Array>,
  options: EncodeOptions,
  encoder: ChunkEncoder,
): AsyncGenerator<Uint8Array> {
  const under: Promise<Uint8Array>[] = [];
  let failure: { readonly error: unknown } | undefined;
  async function* started(): AsyncGenerator<void> {
    try {
      for await (const data of source) {
        const chunk = encoder.encode(data, options);
        chunk.catch(() => undefined); // thrown when its turn comes
        under.push(chunk);
        yield;
      }
    } catch (error) {
      failure = { error };
    }
  }
  try {
    for await (const _ of started()) {
      const first = under.length >= encoder.parallel ? under.shift() : undefined;
      if (first !== undefined) yield await first;
    }
    for (let first = under.shift(); first !== undefined; first = under.shift()) yield await first;
    if (failure !== undefined) throw failure.error;
  } finally {
    await Promise.allSettled(under);
  }
}

const EMPTY: EncodeOptions = {};

/**
 * Encodes `data` as one Blosc1 chunk, in a new buffer.
 *
 * Incompressible data are stored: a chunk is at most 16 bytes longer than its data.
 *
 * @throws BAD_ARGUMENT (an option out of its range), LIMIT (more than 2^31 - 17 bytes, or no memory)
 */
export async function encode(
  data: Uint8Array,
  options: EncodeOptions = EMPTY,
): Promise<Uint8Array<ArrayBuffer>> {
  await prepareEncode(options.cname);
  return encodeSync(data, options);
}

/** Synchronous {@link encode}; `zstd` needs {@link prepareEncode} first. @throws as encode, and UNSUPPORTED */
export function encodeSync(data: Uint8Array, options: EncodeOptions = EMPTY): Uint8Array<ArrayBuffer> {
  const settings = settleEncode(checkBytes("the data", data).length, options);
  const chunk = encodeSettled(data, settings, (bytes) => bytes.slice());
  return chunk ?? storeChunk(data, settings, new Uint8Array(HEADER_LENGTH + data.length));
}

/**
 * Like {@link encodeSync}, into the caller's buffer. Returns the part of it that is the chunk.
 *
 * @param out 16 bytes more than the data are always enough; bytes after the chunk are not touched, unless it
 * is memory of {@link encodeIntoPlaces}; must not overlap `data`
 * @throws as encodeSync, and LIMIT if `out` is too short
 */
export function encodeInto(data: Uint8Array, out: Uint8Array, options: EncodeOptions = EMPTY): Uint8Array {
  const settings = settleEncode(data.length, options);
  const take = (bytes: Uint8Array): Uint8Array => {
    const place = placeFor(bytes.length, out);
    if (bytes.buffer !== place.buffer) place.set(bytes);
    return place;
  };
  const chunk = encodeSettled(data, settings, take, out);
  return chunk ?? storeChunk(data, settings, placeFor(HEADER_LENGTH + data.length, out));
}

export function placeFor(length: number, out: Uint8Array): Uint8Array {
  if (length > out.length) {
    throw new SuperchunkError(
      "LIMIT",
      `the chunk has ${length} bytes, but the buffer for it has ${out.length}.`,
      { field: "out", expected: length, found: out.length },
    );
  }
  return out.subarray(0, length);
}

function storeChunk<T extends Uint8Array>(data: Uint8Array, settings: EncodeSettings, out: T): T {
  out.set(data, HEADER_LENGTH);
  putHeader(out, settings, true);
  return out;
}

/**
 * Calls `take` with the compressed chunk; returns undefined if it would not be smaller than the stored one. The chunk
 * is already in `out` if that has room for a stored chunk. Otherwise it is in a kernel's memory, and must be copied.
 */
function encodeSettled<T>(
  data: Uint8Array,
  settings: EncodeSettings,
  take: (chunk: Uint8Array) => T,
  out?: Uint8Array,
): T | undefined {
  if (settings.stored) return undefined;
  const most = HEADER_LENGTH + data.length;
  return withKernelAt(out, most, settings.blocksize, (kernel, at) => {
    const layout = kernel.layOut(settings.blocksize, most, at);
    // Engines copy into shared memory fast only between places with the same alignment, so a chunk is copied there as a whole.
    const room =
      out !== undefined && out.length >= most && out.buffer instanceof ArrayBuffer
        ? out
        : kernel.memory.bytes.subarray(layout.chunk, layout.chunk + most);
    const length = putBlocks(data, settings, kernel, layout, room);
    if (length === undefined) return undefined;
    const chunk = room.subarray(0, length);
    putHeader(chunk, settings, false);
    return take(chunk);
  });
}

/**
 * Writes block starts and blocks after the room for the header. Returns the chunk's length, or undefined if
 * the stored chunk is shorter.
 */
function putBlocks(
  data: Uint8Array,
  settings: EncodeSettings,
  kernel: EncodeKernel,
  layout: EncodeLayout,
  out: Uint8Array,
): number | undefined {
  const { nbytes, nblocks, blocksize, typesize } = settings;
  const encodeStream = streamEncoder(settings, kernel, layout);
  const end = HEADER_LENGTH + nbytes;
  let at = HEADER_LENGTH + 4 * nblocks;
  for (let block = 0; block < nblocks; block++) {
    const start = block * blocksize;
    const length = Math.min(blocksize, nbytes - start);
    putUint32(out, HEADER_LENGTH + 4 * block, at);
    const source = loadBlock(data.subarray(start, start + length), settings, kernel, layout);
    // A shorter last block is never split.
    const nstreams = settings.split && length === blocksize ? typesize : 1;
    const streams = { source, length: length / nstreams, count: nstreams };
    at = putStreams(streams, { out, at, end }, encodeStream, kernel, layout);
    if (at === FULL) return undefined;
  }
  return at;
}

function putHeader(chunk: Uint8Array, settings: EncodeSettings, stored: boolean): void {
  const { id, versionlz } = formatOf(settings.cname);
  // Stored chunks keep the other flags, as in c-blosc.
  const filter =
    settings.shuffle === "shuffle" ? FLAG.shuffle : settings.shuffle === "bitshuffle" ? FLAG.bitshuffle : 0;
  const flags = filter | (stored ? FLAG.memcpyed : 0) | (settings.split ? 0 : FLAG.notSplit) | (id << 5);
  const { typesize, nbytes, blocksize } = settings;
  chunk.set(encodeHeader({ versionlz, flags, typesize, nbytes, blocksize, ctbytes: chunk.length }));
}

function formatOf(cname: CompressorName): CompressorFormat {
  const name = cname === "lz4hc" ? "lz4" : cname;
  const format = COMPRESSOR_FORMATS.find((known) => known.name === name);
  if (format === undefined)
    throw new SuperchunkError("UNSUPPORTED", `no header names ${cname}.`, { field: "cname", found: cname });
  return format;
}

// Loads what a compressor needs before chunks are encoded.

/**
 * Compiles the kernels and loads the library that encoding with `cname` needs. Later calls are cheap.
 *
 * Needed before synchronous calls with `zstd`, and on the main thread of a browser.
 */
export async function prepareEncode(cname: CompressorName = "lz4"): Promise<void> {
  await prepareEncodeKernels();
  if (cname === "zstd") await loadZstd();
}

// Extends a chunk: copies its whole blocks, and encodes only the data after them.
//
// Knows the container; must not know what is added, nor why.
// @see FORMAT.md [FB]

/**
 * The chunk's blocks may be this many times smaller than an encoder would make them; still smaller ones would
 * slow down readers.
 */
const SHORTER = 4;

/**
 * Returns the chunk with `added` after its data. Blocks keep the chunk's own filter and size.
 *
 * @param options for the encoded part; default: the chunk's own compressor, filter and typesize, level 5
 * @returns undefined if all data must be encoded again: the options name another compressor or filter, the
 * blocks are too small for this much data, or the added data do not compress
 * @throws TRUNCATED, BAD_FIELD, BAD_CHUNK if the chunk is damaged, as far as it is read; UNSUPPORTED for
 * other versions of Blosc; BAD_ARGUMENT, LIMIT
 */
export async function extendChunk(
  chunk: Uint8Array,
  added: Uint8Array,
  options: EncodeOptions = {},
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const header = readChunkHeader(chunk);
  const { compressor, shuffle, typesize, blocksize, nbytes, split } = header;
  const wanted = { cname: compressor, shuffle, typesize, ...options };
  const asked = settleEncode(nbytes + added.length, wanted);
  if (nbytes === 0 || header.memcpyed || !isAlike(header, asked)) return undefined;
  await prepareEncode(wanted.cname);
  const count = Math.floor(nbytes / blocksize);
  const rest = await joinRest(chunk, header, count * blocksize, added);
  const nblocks = Math.ceil(rest.length / blocksize);
  return encodeSettled(rest, { ...asked, nbytes: rest.length, blocksize, nblocks, split }, (encoded) =>
    joinBlocks(
      [
        { chunk, header, count },
        { chunk: encoded, header: { ...header, nblocks, ctbytes: encoded.length }, count: nblocks },
      ],
      nbytes + added.length,
    ),
  );
}

/** True if the chunk's blocks fit the requested settings. */
function isAlike({ compressor, shuffle, typesize, blocksize }: ChunkHeader, asked: EncodeSettings): boolean {
  const { cname } = asked;
  return (
    !asked.stored &&
    (cname === "lz4hc" ? "lz4" : cname) === compressor &&
    shuffle === asked.shuffle &&
    typesize === asked.typesize &&
    blocksize % typesize === 0 &&
    blocksize * SHORTER >= asked.blocksize
  );
}

/** The data after the whole blocks: those of a shorter last block, then `added`. */
async function joinRest(
  chunk: Uint8Array,
  { nbytes, compressor }: ChunkHeader,
  from: number,
  added: Uint8Array,
): Promise<Uint8Array> {
  if (from === nbytes) return added;
  await prepare(compressor);
  const rest = new Uint8Array(nbytes - from + added.length);
  decodeRangeSync(chunk, from, nbytes - from, { out: rest });
  rest.set(added, nbytes - from);
  return rest;
}

/** The first `count` blocks of a chunk. */
interface Blocks {
  readonly chunk: Uint8Array;
  readonly header: ChunkHeader;
  readonly count: number;
}

/** A chunk of the blocks of all parts, with the header of the first and `nbytes` decoded bytes. */
function joinBlocks(parts: readonly Blocks[], nbytes: number): Uint8Array<ArrayBuffer> {
  const blocks = parts.flatMap(({ chunk, header, count }) => {
    const { starts, ends } = readBlockTable(chunk, header);
    return Array.from({ length: count }, (_, i) => chunk.subarray(at(starts, i), at(ends, i)));
  });
  let end = HEADER_LENGTH + 4 * blocks.length;
  const out = new Uint8Array(blocks.reduce((length, block) => length + block.length, end));
  const view = new DataView(out.buffer);
  out.set(parts[0]?.chunk.subarray(0, HEADER_LENGTH) ?? []);
  view.setUint32(4, nbytes, true);
  view.setUint32(12, out.length, true);
  for (const [i, block] of blocks.entries()) {
    view.setUint32(HEADER_LENGTH + 4 * i, end, true);
    out.set(block, end);
    end += block.length;
  }
  return out;
}
