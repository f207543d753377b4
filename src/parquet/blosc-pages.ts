/**
 * A Blosc block can be a Parquet data page: the byte shuffle of one block is BYTE_STREAM_SPLIT, and the joined compressed
 * streams of the block are the page's body; those of blosclz become lz4 with the same matches. Knows blocks and pages; must not know values, schemas or files.
 *
 * @see docs/parquet-format.md [PB]
 */
import { at } from "../bytes/arrays.ts";
import { badStreamLength, streamFailure } from "../codec/decode/decode-kernel.ts";
import { withEncodeKernel } from "../codec/encode/encode-kernel.ts";
import { chooseBlocksize } from "../codec/encode/encode-settings.ts";
import { blockLength, decodeHeader, HEADER_LENGTH, readBlockTable } from "../codec/header.ts";
import { align, HOST_BASE, SLACK } from "../codec/kernel-module.ts";
import type { ChunkEncoder, ChunkHeader, Compressor } from "../codec/types.ts";
import { SuperchunkError } from "../errors.ts";
import { type JoinableCodec, joinStreams, type StreamPiece, type TakeRoom, takeNew } from "./join-streams.ts";

/** The encoding of a page's values. */
export type PageEncoding = "plain" | "split";

/** A part of a chunk that becomes one page. */
export interface BloscPage {
  /** First byte of the part in the decoded chunk, and its length. */
  readonly start: number;
  readonly length: number;
  readonly encoding: PageEncoding;
  readonly pieces: readonly StreamPiece[];
}

/** Blocks without a filter are joined to one page of about this many bytes. */
const PLAIN_PAGE = 65_536;
/** Bytes of a page cut from a stored chunk with small blocks. */
const STORED_PAGE = 262_144;

/** The Parquet codec for a chunk's streams; undefined if Parquet has none. blosclz streams become lz4 with the same matches. */
export function joinableCodec(compressor: Compressor): JoinableCodec | undefined {
  if (compressor === "blosclz") return "lz4";
  return compressor === "lz4" || compressor === "zstd" || compressor === "snappy" ? compressor : undefined;
}

/** What decides whether the blocks of a chunk can be pages. */
export type PageHeader = Pick<
  ChunkHeader,
  "nbytes" | "blocksize" | "typesize" | "compressor" | "shuffle" | "memcpyed"
>;

/** Why the blocks of a chunk cannot be pages of `width`-byte values; undefined if they can. A stored chunk fits any codec. */
export function whyNotPages(header: PageHeader, width: number, codec: JoinableCodec): string | undefined {
  if (header.nbytes % width !== 0) return `its ${header.nbytes} bytes are not whole values of ${width} bytes`;
  if (header.memcpyed) return undefined;
  const own = joinableCodec(header.compressor);
  if (own !== codec)
    return own === undefined
      ? `Parquet has no codec ${header.compressor}; pages are ${codec}`
      : `the column is ${codec}, and chunks are ${header.compressor}`;
  if (header.shuffle === "bitshuffle") return "Parquet has no bitshuffle";
  if (header.blocksize % width !== 0) return `blocks of ${header.blocksize} bytes do not end on values`;
  if (header.shuffle === "shuffle" && header.typesize !== width && header.typesize > 1)
    return `bytes are shuffled in elements of ${header.typesize} bytes, and values have ${width}`;
  return undefined;
}

/**
 * Yields the pages of a chunk that passed {@link whyNotPages}, in order. Stored chunks are cut at rows of `rowBytes`. Encoders
 * must be prepared for chunks of blosclz.
 *
 * @param take returns memory for rewritten streams, valid until the next page is requested; default: new memory
 * @throws TRUNCATED, BAD_FIELD, BAD_CHUNK
 */
export function* pagesOfChunk(
  chunk: Uint8Array,
  header: ChunkHeader,
  rowBytes: number,
  take: TakeRoom = takeNew,
): Generator<BloscPage> {
  if (header.memcpyed) {
    const most = Math.max(1, Math.floor(STORED_PAGE / rowBytes)) * rowBytes;
    for (let start = 0; start < header.nbytes; start += most) {
      const length = Math.min(most, header.nbytes - start);
      const bytes = chunk.subarray(HEADER_LENGTH + start, HEADER_LENGTH + start + length);
      yield { start, length, encoding: "plain", pieces: [{ bytes, stored: true, length }] };
    }
    return;
  }
  const { starts, ends } = readBlockTable(chunk, header);
  const isSplit = header.shuffle === "shuffle" && header.typesize > 1;
  let [from, length, pieces]: [number, number, StreamPiece[]] = [0, 0, []];
  for (let block = 0; block < header.nblocks; block++) {
    const own = blockLength(header, block);
    pieces.push(...streamsOf(chunk.subarray(0, at(ends, block)), at(starts, block), header, block));
    length += own;
    const isWhole = isSplit || (length >= PLAIN_PAGE && length % rowBytes === 0);
    if (!isWhole && block < header.nblocks - 1) continue;
    if (header.compressor === "blosclz") pieces = asLz4(pieces, take);
    yield { start: from, length, encoding: isSplit ? "split" : "plain", pieces };
    [from, length, pieces] = [from + length, 0, []];
  }
}

/** The body of a page: the uncompressed prefix of the values, and the streams. @see joinStreams */
export function joinPage(
  codec: JoinableCodec,
  prefix: Uint8Array,
  pieces: readonly StreamPiece[],
  take?: TakeRoom,
  lastSequences?: Iterator<number>,
): Uint8Array {
  const levels = prefix.length === 0 ? [] : [{ bytes: prefix, stored: true, length: prefix.length }];
  return joinStreams(codec, [...levels, ...pieces], take, lastSequences);
}

/** The encoding and the body of a page of values: they become a Blosc chunk of one block, whose streams are used. */
export async function encodePage(
  prefix: Uint8Array,
  bytes: Uint8Array,
  wish: { readonly codec: JoinableCodec; readonly clevel: number; readonly typesize: number },
  encoder: ChunkEncoder,
): Promise<{ readonly encoding: PageEncoding; readonly body: Uint8Array }> {
  const { codec, clevel } = wish;
  const nbytes = bytes.length;
  if (nbytes === 0) return { encoding: "plain", body: joinPage(codec, prefix, []) };
  const settings = { cname: codec, clevel, typesize: wish.typesize };
  const blocksize = [Math.floor(nbytes / wish.typesize), nbytes].find(
    (size) => chooseBlocksize({ ...settings, nbytes, blocksize: size }) >= nbytes,
  );
  const isSplit = wish.typesize > 1 && blocksize !== undefined;
  const chunk = await encoder.encode(bytes, {
    ...settings,
    shuffle: isSplit ? "shuffle" : "noshuffle",
    typesize: isSplit ? wish.typesize : 1,
    blocksize: blocksize ?? nbytes,
  });
  const pages = [...pagesOfChunk(chunk, decodeHeader(chunk), 1)];
  const pieces = pages.flatMap((page) => page.pieces);
  return { encoding: pages[0]?.encoding ?? "plain", body: joinPage(codec, prefix, pieces) };
}

/** Converts streams of blosclz to lz4; stored ones are kept. */
function asLz4(pieces: readonly StreamPiece[], take: TakeRoom): StreamPiece[] {
  const compressed = pieces.filter(({ stored }) => !stored);
  const turned = blosclzToLz4(compressed, take).values();
  return pieces.map((piece) =>
    piece.stored ? piece : { ...piece, bytes: turned.next().value ?? piece.bytes },
  );
}

function streamsOf(chunk: Uint8Array, start: number, header: ChunkHeader, block: number): StreamPiece[] {
  const length = blockLength(header, block);
  const count = header.split && length === header.blocksize ? header.typesize : 1;
  const own = length / count;
  const view = new DataView(chunk.buffer, chunk.byteOffset, chunk.length);
  const pieces: StreamPiece[] = [];
  let from = start;
  for (let stream = 0; stream < count; stream++) {
    const room = chunk.length - from - 4;
    const size = room < 0 ? -1 : view.getInt32(from, true);
    if (size < 0 || size > room)
      throw badStreamLength({ block, stream, offset: from }, room, room < 0 ? undefined : size);
    from += 4;
    pieces.push({ bytes: chunk.subarray(from, from + size), stored: size === own, length: own });
    from += size;
  }
  return pieces;
}

// Converts streams of blosclz to lz4 with the same matches. Must not know chunks. @see docs/parquet-format.md [PS-06]

/** Most bytes of an lz4 stream. */
const mostOf = (length: number): number => length + Math.ceil(length / 255) + 16;

/**
 * Returns lz4 streams with the data of the blosclz streams, in memory from `take`.
 *
 * @throws BAD_CHUNK for a stream that does not decode to its length
 */
export function blosclzToLz4(
  streams: readonly Pick<StreamPiece, "bytes" | "length">[],
  take: TakeRoom,
): readonly Uint8Array[] {
  const input = streams.reduce((most, { bytes }) => Math.max(most, bytes.length), 0);
  const longest = streams.reduce((most, { length }) => Math.max(most, length), 0);
  const total = streams.reduce((sum, { length }) => sum + mostOf(length), 0);
  return withEncodeKernel(({ calls, memory }) => {
    const plain = align(HOST_BASE + input + SLACK);
    const first = align(plain + longest + SLACK);
    memory.reserve(first + total + SLACK);
    let to = first;
    const ends = streams.map(({ bytes, length }) => {
      memory.bytes.set(bytes, HOST_BASE);
      const written = calls.blosclzToLz4(HOST_BASE, bytes.length, to, mostOf(length), plain, length);
      if (written < 0)
        throw new SuperchunkError(
          "BAD_CHUNK",
          `a blosclz stream of ${bytes.length} bytes does not decode to ${length} bytes: ${streamFailure(written)}; the chunk is damaged`,
          { field: "stream", expected: length, found: written },
        );
      to += written;
      return to - first;
    });
    const out = take(to - first);
    out.set(memory.bytes.subarray(first, to));
    return ends.map((end, i) => out.subarray(i === 0 ? 0 : at(ends, i - 1), end));
  });
}
