/**
 * Chunks of Blosc2 as chunks of Blosc1, one for each block: compressed streams are copied as they are, only runs, blocks of one value and
 * filters that Blosc1 does not have are written again.
 *
 * @see https://github.com/Blosc/c-blosc2/blob/main/README_CHUNK_FORMAT.rst
 */
import { joinBytes } from "../bytes/arrays.ts";
import { at } from "../bytes/at.ts";
import { decode, encode } from "../codec/index.ts";
import type { CompressorName } from "../codec/types.ts";
import { SuperchunkError } from "../errors.ts";

/** Bytes of a header. */
export const HEADER2_LENGTH = 32;
/** Bytes of a Blosc1 header, and of it with the start of its one block. */
const HEADER1_LENGTH = 16;
const BODY = 20;

/** Codecs by the number in a frame. */
const CODECS: readonly (CompressorName | undefined)[] = [
  "blosclz",
  "lz4",
  "lz4hc",
  undefined,
  "zlib",
  "zstd",
];
/** Codecs by the number in the flags, where lz4 and lz4hc have one. */
const BY_FLAGS = ["blosclz", "lz4", undefined, "zlib", "zstd"] as const;

const NOT_SPLIT = 0x10;
const MEMCPYED = 0x02;
const FILTERS = 6;
/** What Blosc1 splits: items of at most so many bytes, into streams of at least so many. */
const MAX_SPLITS = 16;
const LEAST_STREAM = 128;

/** Numbers of filters. */
const SHUFFLE = 1;
const BITSHUFFLE = 2;
const TRUNCATE = 4;
const BYTEDELTA = 35;

/** What a chunk holds in place of streams. */
type Special = "zeros" | "nan" | "value" | "none";
const SPECIALS: readonly (Special | undefined)[] = [undefined, "zeros", "nan", "value", "none"];

/** The header of a chunk. */
export interface Blosc2Header {
  readonly typesize: number;
  readonly nbytes: number;
  readonly blocksize: number;
  readonly cbytes: number;
  readonly nblocks: number;
  readonly isStored: boolean;
  readonly isSplit: boolean;
  readonly cname: CompressorName | undefined;
  /** The codec's number in the flags. */
  readonly codec: number;
  /** Filters in the order in which they were applied, each with its parameter. */
  readonly filters: readonly { readonly id: number; readonly meta: number }[];
  /** One value in place of all. */
  readonly special: Special | undefined;
}

/** Reads a header. Throws TRUNCATED, BAD_FIELD; UNSUPPORTED for dictionaries, blocks of variable length, and what is not a Blosc2 chunk. */
export function readBlosc2Header(chunk: Uint8Array): Blosc2Header {
  if (chunk.length < HEADER2_LENGTH)
    throw new SuperchunkError(
      "TRUNCATED",
      `a Blosc2 header has ${HEADER2_LENGTH} bytes, but there are only ${chunk.length}`,
      {
        offset: 0,
        expected: HEADER2_LENGTH,
        found: chunk.length,
      },
    );
  const view = new DataView(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  const [version, , flags, typesize] = chunk as unknown as readonly [number, number, number, number];
  if (version < 3 || (flags & 5) !== 5)
    throw unsupported(`chunks of version ${version} without a header of Blosc2`, version);
  const [nbytes, blocksize, cbytes] = [
    view.getInt32(4, true),
    view.getInt32(8, true),
    view.getInt32(12, true),
  ];
  const [more, last] = [at(chunk, 30), at(chunk, 31)];
  if ((more & 1) !== 0) throw unsupported("blocks of variable length", more);
  if ((last & 1) !== 0) throw unsupported("a dictionary of zstd", last);
  const number = (last >> 4) & 7;
  const special = SPECIALS[number];
  if (number !== 0 && special === undefined) throw unsupported(`special values of kind ${number}`, number);
  const bad = (field: string, expected: string, found: number): SuperchunkError =>
    new SuperchunkError(
      "BAD_FIELD",
      `${field} of the Blosc2 chunk is ${found}, and should be ${expected}; the chunk is damaged`,
      {
        offset: 0,
        field,
        expected,
        found,
      },
    );
  if (nbytes < 0) throw bad("nbytes", "0 or more", nbytes);
  if (cbytes < HEADER2_LENGTH) throw bad("cbytes", `${HEADER2_LENGTH} or more`, cbytes);
  if (typesize === 0) throw bad("typesize", "1 or more", typesize);
  if (nbytes > 0 && (blocksize <= 0 || blocksize > nbytes))
    throw bad("blocksize", `1 to ${nbytes}`, blocksize);
  const codec = flags >> 5;
  const filters = Array.from({ length: FILTERS }, (_, i) => ({
    id: at(chunk, 16 + i),
    meta: at(chunk, 24 + i),
  }));
  return {
    typesize,
    nbytes,
    blocksize,
    cbytes,
    nblocks: nbytes === 0 ? 0 : Math.ceil(nbytes / blocksize),
    isStored: (flags & MEMCPYED) !== 0,
    isSplit: (flags & NOT_SPLIT) === 0,
    cname: BY_FLAGS[codec],
    codec,
    // Bits that were cut off a float before it was compressed are not there any more.
    filters: filters.filter(({ id }) => id !== 0 && id !== TRUNCATE),
    special,
  };
}

function unsupported(what: string, found: unknown): SuperchunkError {
  return new SuperchunkError(
    "UNSUPPORTED",
    `it has ${what}, which superchunk does not read; read it with python-blosc2, and write it without`,
    { offset: 0, found },
  );
}

/** A block as a chunk of Blosc1. */
export interface Block {
  readonly chunk: Uint8Array;
  /** Its streams are those of the source. */
  readonly isCopied: boolean;
}

/**
 * The blocks of a chunk, each as a chunk of Blosc1; undefined for one that is all zeros by the chunk's header.
 *
 * @throws TRUNCATED, BAD_FIELD, BAD_CHUNK; UNSUPPORTED for filters and codecs of plugins
 */
export async function blocksAsBlosc1(chunk: Uint8Array): Promise<readonly (Block | undefined)[]> {
  const header = readBlosc2Header(chunk);
  const { nbytes, blocksize, cbytes, nblocks, typesize, special, isStored } = header;
  if (cbytes > chunk.length)
    throw new SuperchunkError(
      "TRUNCATED",
      `the Blosc2 chunk needs ${cbytes} bytes, but there are only ${chunk.length}`,
      {
        offset: 0,
        expected: cbytes,
        found: chunk.length,
      },
    );
  const sizeOf = (block: number): number => Math.min(blocksize, nbytes - block * blocksize);
  if (special !== undefined) {
    const value =
      special === "value" ? chunk.subarray(HEADER2_LENGTH, HEADER2_LENGTH + typesize) : nanOf(typesize);
    if (special === "value" && value.length < typesize)
      throw new SuperchunkError("TRUNCATED", "the value that the Blosc2 chunk repeats is not there", {
        offset: HEADER2_LENGTH,
      });
    if (special === "zeros" || special === "none") return Array.from({ length: nblocks }, () => undefined);
    const blocks: Block[] = [];
    for (let i = 0; i < nblocks; i++) {
      const known = sizeOf(i) === blocksize ? blocks[0] : undefined;
      blocks.push(known ?? (await encodeBlock(repeat(value, sizeOf(i)), header)));
    }
    return blocks;
  }
  if (isStored) {
    if (cbytes < HEADER2_LENGTH + nbytes)
      throw new SuperchunkError(
        "BAD_FIELD",
        `cbytes of the stored Blosc2 chunk is ${cbytes}, too few for ${nbytes} bytes`,
        {
          offset: 12,
          field: "cbytes",
        },
      );
    return Array.from({ length: nblocks }, (_, i) => {
      const start = HEADER2_LENGTH + i * blocksize;
      const bytes = chunk.subarray(start, start + sizeOf(i));
      return {
        chunk: joinBytes([
          header1(header, bytes.length, { flags: MEMCPYED, ctbytes: HEADER1_LENGTH + bytes.length }),
          bytes,
        ]),
        isCopied: true,
      };
    });
  }
  if (header.cname === undefined) throw unsupported(`codec ${header.codec}, of a plugin`, header.codec);
  const view = new DataView(chunk.buffer, chunk.byteOffset, cbytes);
  if (HEADER2_LENGTH + 4 * nblocks > cbytes)
    throw new SuperchunkError(
      "BAD_FIELD",
      `the Blosc2 chunk of ${cbytes} bytes has no room for the starts of ${nblocks} blocks; it is damaged`,
      {
        offset: 8,
        field: "blocksize",
      },
    );
  const blocks: Block[] = [];
  for (let i = 0; i < nblocks; i++) {
    const size = sizeOf(i);
    const split = header.isSplit && size === blocksize;
    const streams = await readStreams(
      { view, start: view.getInt32(HEADER2_LENGTH + 4 * i, true), header },
      size,
      split,
    );
    blocks.push(await asBlosc1(header, streams, size, split));
  }
  return blocks;
}

/** Decodes a whole chunk. Throws as {@link blocksAsBlosc1}; LIMIT for more than `maxNbytes`. */
export async function decodeBlosc2(chunk: Uint8Array, maxNbytes: number): Promise<Uint8Array> {
  const { nbytes, blocksize } = readBlosc2Header(chunk);
  if (nbytes > maxNbytes)
    throw new SuperchunkError(
      "LIMIT",
      `the Blosc2 chunk has ${nbytes} bytes decoded; at most ${maxNbytes} are taken`,
      {
        field: "nbytes",
        expected: maxNbytes,
        found: nbytes,
      },
    );
  const blocks = await blocksAsBlosc1(chunk);
  const out = new Uint8Array(nbytes);
  for (const [i, block] of blocks.entries())
    if (block !== undefined) out.set(await decode(block.chunk, { maxNbytes: blocksize }), i * blocksize);
  return out;
}

interface StreamPlace {
  readonly view: DataView;
  /** Where the block's streams begin in the chunk. */
  readonly start: number;
  readonly header: Blosc2Header;
}

/** The streams of a block as Blosc1 has them, each after its length; runs are encoded. */
async function readStreams(
  { view, start, header }: StreamPlace,
  size: number,
  split: boolean,
): Promise<Uint8Array[]> {
  const { typesize, blocksize, cname } = header;
  const count = split ? typesize : 1;
  if (split && blocksize % typesize !== 0)
    throw new SuperchunkError(
      "BAD_FIELD",
      `blocks of ${blocksize} bytes cannot be split by items of ${typesize}; the chunk is damaged`,
      { offset: 8, field: "blocksize" },
    );
  const streams: Uint8Array[] = [];
  let next = start;
  for (let i = 0; i < count; i++) {
    if (next < HEADER2_LENGTH || next + 4 > view.byteLength)
      throw new SuperchunkError(
        "BAD_CHUNK",
        `a stream at byte ${next} of the Blosc2 chunk lies outside of its ${view.byteLength} bytes; the chunk is damaged`,
        { offset: next },
      );
    const length = view.getInt32(next, true);
    const stored = Math.max(0, length);
    if (next + 4 + stored + (length < 0 ? 1 : 0) > view.byteLength || stored > size)
      throw new SuperchunkError(
        "BAD_CHUNK",
        `a stream of ${length} bytes at byte ${next} reaches over the end of the Blosc2 chunk; it is damaged`,
        { offset: next },
      );
    if (length > 0) streams.push(new Uint8Array(view.buffer, view.byteOffset + next, 4 + length));
    else {
      const token = length < 0 ? view.getUint8(next + 4) : 1;
      if ((token & 1) === 0 || length < -255)
        throw new SuperchunkError(
          "BAD_CHUNK",
          `a run at byte ${next} of the Blosc2 chunk has the token ${token}; the chunk is damaged`,
          { offset: next },
        );
      streams.push(await encodeRun(-length, size / count, cname ?? "lz4"));
    }
    next += 4 + stored + (length < 0 ? 1 : 0);
  }
  return streams;
}

/** Encoded runs, by codec, value and length: most chunks repeat the same few. */
const RUNS = new Map<string, Promise<Uint8Array>>();
const MAX_RUNS = 256;

/** A stream of one value, with its length in front. */
function encodeRun(value: number, length: number, cname: CompressorName): Promise<Uint8Array> {
  const key = `${cname} ${value} ${length}`;
  const known = RUNS.get(key);
  if (known !== undefined) return known;
  if (RUNS.size >= MAX_RUNS) RUNS.clear();
  const made = makeRun(new Uint8Array(length).fill(value), cname);
  RUNS.set(key, made);
  return made;
}

async function makeRun(bytes: Uint8Array, cname: CompressorName): Promise<Uint8Array> {
  const chunk = await encode(bytes, {
    cname,
    clevel: 5,
    shuffle: "noshuffle",
    typesize: 1,
    blocksize: bytes.length,
  });
  const view = new DataView(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  const isOne = (at(chunk, 2) & MEMCPYED) === 0 && view.getInt32(8, true) === bytes.length;
  if (isOne) return chunk.slice(view.getInt32(HEADER1_LENGTH, true));
  const stored = new Uint8Array(4 + bytes.length);
  new DataView(stored.buffer).setInt32(0, bytes.length, true);
  stored.set(bytes, 4);
  return stored;
}

/** Flags of a Blosc1 chunk for filters that it has; undefined for others. */
function filterFlags({ filters, typesize, blocksize }: Blosc2Header, size: number): number | undefined {
  const [filter, ...others] = filters;
  if (filter === undefined) return 0;
  const { id, meta } = filter;
  if (others.length > 0 || (meta !== 0 && meta !== typesize)) return undefined;
  if (id === SHUFFLE) return 1;
  // Blosc1 leaves blocks alone whose items are not a multiple of eight; Blosc2 turns the items before the last few.
  const isWhole = size % (8 * typesize) === 0 && blocksize % (8 * typesize) === 0;
  return id === BITSHUFFLE && isWhole ? 4 : undefined;
}

async function asBlosc1(
  header: Blosc2Header,
  streams: readonly Uint8Array[],
  size: number,
  split: boolean,
): Promise<Block> {
  const bytes = streams.reduce((sum, { length }) => sum + length, 0);
  const wrap = (filter: number): Uint8Array =>
    joinBytes([
      header1(header, size, {
        flags: (header.codec << 5) | filter | (split ? 0 : NOT_SPLIT),
        ctbytes: BODY + bytes,
      }),
      Uint8Array.of(BODY, 0, 0, 0),
      ...streams,
    ]);
  const flags = filterFlags(header, size);
  // Blosc1 splits neither wide items nor short blocks.
  const isSplitThere = !split || (header.typesize <= MAX_SPLITS && size / header.typesize >= LEAST_STREAM);
  if (flags !== undefined && isSplitThere) return { chunk: wrap(flags), isCopied: true };
  const parts: Uint8Array[] = [];
  for (const stream of streams) parts.push(await decodeStreamOf(header, stream, size / streams.length));
  let plain: Uint8Array = joinBytes(parts);
  for (const { id, meta } of [...header.filters].reverse())
    plain = undo(id, meta === 0 ? header.typesize : meta, plain);
  return encodeBlock(plain, header);
}

/** The bytes of one stream, filtered still. */
function decodeStreamOf(header: Blosc2Header, stream: Uint8Array, size: number): Promise<Uint8Array> {
  const settings = { flags: (header.codec << 5) | NOT_SPLIT, ctbytes: BODY + stream.length };
  const chunk = joinBytes([
    header1({ typesize: 1, blocksize: size }, size, settings),
    Uint8Array.of(BODY, 0, 0, 0),
    stream,
  ]);
  return decode(chunk, { maxNbytes: size });
}

async function encodeBlock(bytes: Uint8Array, { typesize, cname = "lz4" }: Blosc2Header): Promise<Block> {
  const chunk = await encode(bytes, {
    cname,
    clevel: 5,
    shuffle: "shuffle",
    typesize,
    blocksize: bytes.length,
  });
  return { chunk, isCopied: false };
}

function undo(id: number, width: number, bytes: Uint8Array): Uint8Array {
  const out = new Uint8Array(bytes.length);
  const count = Math.floor(bytes.length / width);
  out.set(bytes.subarray(count * width), count * width);
  if (id === SHUFFLE) {
    for (let i = 0; i < count; i++)
      for (let b = 0; b < width; b++) out[i * width + b] = at(bytes, b * count + i);
    return out;
  }
  if (id === BYTEDELTA) {
    for (let b = 0; b < width; b++) {
      let sum = 0;
      for (let i = 0; i < count; i++) {
        sum = (sum + at(bytes, b * count + i)) & 255;
        out[b * count + i] = sum;
      }
    }
    return out;
  }
  if (id !== BITSHUFFLE) throw unsupported(`filter ${id}`, id);
  const whole = count - (count % 8);
  out.set(bytes.subarray(whole * width), whole * width);
  const row = whole / 8;
  for (let bit = 0; bit < width * 8; bit++)
    for (let i = 0; i < whole; i++)
      if (((at(bytes, bit * row + (i >> 3)) >> (i & 7)) & 1) === 1) {
        const index = i * width + (bit >> 3);
        out[index] = at(out, index) | (1 << (bit & 7));
      }
  return out;
}

function header1(
  { typesize, blocksize }: Pick<Blosc2Header, "typesize" | "blocksize">,
  nbytes: number,
  { flags, ctbytes }: { flags: number; ctbytes: number },
): Uint8Array {
  const header = new Uint8Array(HEADER1_LENGTH);
  const view = new DataView(header.buffer);
  header.set([2, 1, flags, typesize]);
  view.setInt32(4, nbytes, true);
  view.setInt32(8, Math.min(blocksize, nbytes), true);
  view.setInt32(12, ctbytes, true);
  return header;
}

/** NaN in as many bytes as a float has. */
function nanOf(size: number): Uint8Array {
  const bytes = new Uint8Array(size);
  if (size === 4) new DataView(bytes.buffer).setFloat32(0, Number.NaN, true);
  else if (size === 8) new DataView(bytes.buffer).setFloat64(0, Number.NaN, true);
  return bytes;
}

function repeat(value: Uint8Array, length: number): Uint8Array {
  const out = new Uint8Array(length);
  for (let i = 0; i < length; i++) out[i] = at(value, i % value.length);
  return out;
}

/** The name of a codec by its number in a frame, where lz4hc has one of its own; undefined for those of plugins. */
export function codecName(number: number): CompressorName | undefined {
  return CODECS[number];
}
