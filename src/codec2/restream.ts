/**
 * Converts Blosc2 chunks to Blosc1: one chunk, or one for each block. Compressed streams are copied; only runs, blocks of one value, and
 * blocks with filters that Blosc1 lacks are encoded again; streams of one repeated value are written here.
 */
import { at, joinBytes } from "../bytes/arrays.ts";
import {
  encodeHeader,
  FLAG,
  HEADER_LENGTH,
  MAX_NBYTES,
  MAX_SPLITS,
  MIN_SPLIT_LENGTH,
} from "../codec/header.ts";
import { HERE, storesMadeChunks } from "../codec/made.ts";
import type { CompressorName, DecodeOptions } from "../codec/types.ts";
import { Blosc2Blocks, decode, nanOf } from "./decode.ts";
import { type Blosc2Header, FILTER, HEADER2_LENGTH } from "./fields.ts";
import { checkExpected, readBlosc2Header, stepsOf } from "./header.ts";

/** The start of a chunk's only block. */
const START: Uint8Array = Uint8Array.of(HEADER_LENGTH + 4, 0, 0, 0);

/** A block as a Blosc1 chunk. */
export interface Block {
  /** The chunk's bytes; most are views of the source. */
  readonly pieces: readonly Uint8Array[];
  /** True if its streams were copied from the source. */
  readonly isCopied: boolean;
}

/**
 * Returns a Blosc2 chunk as a Blosc1 chunk with the same blocks; a Blosc1 chunk is returned unchanged.
 *
 * Streams are copied if Blosc1 has the filter and splits the blocks alike. Otherwise the chunk is decoded, and encoded with the same
 * codec.
 *
 * @throws as `decode`; LIMIT (`maxNbytes`, or more than a Blosc1 chunk holds)
 */
export async function toBlosc1(chunk: Uint8Array, options: DecodeOptions = {}): Promise<Uint8Array> {
  const header = readBlosc2Header(chunk);
  checkExpected(header, { maxNbytes: MAX_NBYTES });
  checkExpected(header, options);
  const { nbytes, nblocks, blocksize, typesize } = header;
  if (header.memcpyed && header.special === undefined)
    return joinBytes(stored(header, chunk.subarray(HEADER2_LENGTH, header.ctbytes)));
  const canCopy =
    header.special === undefined &&
    nbytes > 0 &&
    [blocksize, nbytes - (nblocks - 1) * blocksize].every((size) => flagsOf(header, size) !== undefined);
  if (!canCopy) {
    const settings = { cname: header.compressor, typesize, shuffle: shuffleFor(header), blocksize };
    return HERE.encode(await decode(chunk), settings);
  }
  const runs = await loadRunEncoder(header);
  const blocks = new Blosc2Blocks(chunk, header);
  const starts = new Uint8Array(4 * nblocks);
  const parts: Uint8Array[] = [];
  let next = HEADER_LENGTH + starts.length;
  for (let i = 0; i < nblocks; i++) {
    new DataView(starts.buffer).setInt32(4 * i, next, true);
    for (const stream of streamsOf(blocks, i, runs)) {
      parts.push(stream);
      next += stream.length;
    }
  }
  if (next > HEADER_LENGTH + nbytes) return joinBytes(stored(header, await decode(chunk)));
  const flags = flagsOf(header, blocksize) ?? 0;
  return joinBytes([header1(header, nbytes, flags, next), starts, ...parts]);
}

/**
 * The blocks of a chunk, each as a Blosc1 chunk; undefined for each if the header says that the chunk is all zeros.
 *
 * @throws as `decode`
 */
export async function blocksAsBlosc1(chunk: Uint8Array): Promise<readonly (Block | undefined)[]> {
  const header = readBlosc2Header(chunk);
  const { typesize, blocksize, nblocks, special, memcpyed, ctbytes } = header;
  if (special === "zeros" || special === "none") return Array.from({ length: nblocks }, () => undefined);
  if (special !== undefined) {
    const value = special === "nan" ? nanOf(typesize) : chunk.subarray(HEADER2_LENGTH, ctbytes);
    return repeatedBlocks(header, value);
  }
  if (memcpyed)
    return Array.from({ length: nblocks }, (_, i) => {
      const start = HEADER2_LENGTH + i * blocksize;
      const bytes = chunk.subarray(start, Math.min(start + blocksize, ctbytes));
      return { pieces: stored(header, bytes), isCopied: true };
    });
  const places = new Blosc2Blocks(chunk, header);
  let decoded: Uint8Array | undefined;
  const runs = await loadRunEncoder(header);
  const blocks: Block[] = [];
  for (let i = 0; i < nblocks; i++) {
    const size = places.lengthOf(i);
    const flags = flagsOf(header, size);
    const streams = flags === undefined ? [] : streamsOf(places, i, runs);
    const length = streams.reduce((sum, stream) => sum + stream.length, HEADER_LENGTH + 4);
    // Readers refuse a chunk that is longer than one that stores its bytes as they are.
    if (flags === undefined || length > HEADER_LENGTH + size) {
      decoded ??= await decode(chunk);
      const start = places.offsetOf(i);
      blocks.push(await encodeBlock(decoded.subarray(start, start + size), header));
    } else {
      const head = joinBytes([header1(header, size, flags, length), START]);
      blocks.push({ pieces: [head, ...streams], isCopied: true });
    }
  }
  return blocks;
}

/** The pieces of a chunk that stores its bytes as they are. */
function stored(header: Blosc2Header, bytes: Uint8Array): readonly Uint8Array[] {
  return [header1(header, bytes.length, FLAG.memcpyed, HEADER_LENGTH + bytes.length), bytes];
}

async function repeatedBlocks(header: Blosc2Header, value: Uint8Array): Promise<Block[]> {
  const blocks: Block[] = [];
  // The end of a block can cut a value; the next block then begins in the middle of it.
  const isSame = header.blocksize % value.length === 0;
  for (let i = 0; i < header.nblocks; i++) {
    const from = i * header.blocksize;
    const size = Math.min(header.blocksize, header.nbytes - from);
    const known = isSame && size === header.blocksize ? blocks[0] : undefined;
    blocks.push(known ?? (await encodeBlock(repeat(value, from, size), header)));
  }
  return blocks;
}

/** The streams of a block for Blosc1, each after its length; `encoder` encodes runs, unless they are written here. */
function streamsOf(blocks: Blosc2Blocks, block: number, encoder?: StreamEncoder): readonly Uint8Array[] {
  const found = blocks.find(block);
  const { chunk, header } = blocks;
  const { count } = found;
  const size = blocks.lengthOf(block) / count;
  const streams: Uint8Array[] = [];
  // Adjacent streams are copied together.
  let [from, to] = [0, 0];
  for (let i = 0; i < count; i++) {
    const start = at(found.at, i);
    const length = at(found.length, i);
    if (length > 0 && start - 4 === to) to = start + length;
    else {
      if (to > from) streams.push(chunk.subarray(from, to));
      [from, to] = length > 0 ? [start - 4, start + length] : [0, 0];
      if (length <= 0) streams.push(runOf(-length, size, header.compressor, encoder));
    }
  }
  if (to > from) streams.push(chunk.subarray(from, to));
  return streams;
}

/** Encoded runs by codec, value and length: most chunks repeat the same few. */
const RUNS = new Map<string, Uint8Array>();
const MAX_RUNS = 256;

/** A stream of one value, preceded by its length. */
function runOf(value: number, length: number, cname: CompressorName, encoder?: StreamEncoder): Uint8Array {
  const key = `${cname} ${value} ${length}`;
  const known = RUNS.get(key);
  if (known !== undefined) return known;
  if (RUNS.size >= MAX_RUNS) RUNS.clear();
  const made =
    encoder?.encodeStream(new Uint8Array(length).fill(value), cname) ?? writeRun(value, length, cname);
  RUNS.set(key, made);
  return made;
}

type StreamEncoder = typeof import("./encode-stream.ts");

/** The encoder of runs in a chunk's codec; undefined if they are written here. */
async function loadRunEncoder({ compressor }: Blosc2Header): Promise<StreamEncoder | undefined> {
  if (storesMadeChunks() || (compressor !== "snappy" && compressor !== "zlib")) return undefined;
  const encoder = await import("./encode-stream.ts");
  await encoder.prepareEncode(compressor);
  return encoder;
}

/** False if the blocks of a chunk are decoded and encoded. Blocks of one value count as copied, because they are only a few bytes. */
export function isCopied(header: Blosc2Header): boolean {
  const { blocksize, nbytes, special, memcpyed } = header;
  return special !== undefined || memcpyed || nbytes === 0 || flagsOf(header, blocksize) !== undefined;
}

/** Flags of a Blosc1 chunk that can hold the unchanged streams of a block of `size` bytes; undefined if none can. */
function flagsOf(header: Blosc2Header, size: number): number | undefined {
  const { typesize, blocksize, compressor } = header;
  if (header.isVariable || header.hasDictionary) return undefined;
  const filter = filterFlags(header, size);
  const split = header.split && size === blocksize;
  // Blosc1 splits neither wide items nor short blocks.
  const isAlike = !split || (typesize <= MAX_SPLITS && size / typesize >= MIN_SPLIT_LENGTH);
  if (filter === undefined || !isAlike) return undefined;
  const codec = ["blosclz", "lz4", "snappy", "zlib", "zstd"].indexOf(compressor);
  return (codec << 5) | filter | (split ? 0 : FLAG.notSplit);
}

/** Flags for filters that Blosc1 has; undefined for others. */
function filterFlags(header: Blosc2Header, size: number): number | undefined {
  const { typesize, blocksize } = header;
  const [filter, ...others] = stepsOf(header);
  if (filter === undefined) return 0;
  const { id, meta } = filter;
  if (others.length > 0) return undefined;
  if (id === FILTER.shuffle) return meta === 0 || meta === typesize ? FLAG.shuffle : undefined;
  // Blosc1 does not filter blocks whose item count is not a multiple of eight; Blosc2 filters all but the last few items.
  const isWhole = size % (8 * typesize) === 0 && blocksize % (8 * typesize) === 0;
  return id === FILTER.bitshuffle && isWhole ? FLAG.bitshuffle : undefined;
}

async function encodeBlock(bytes: Uint8Array, header: Blosc2Header): Promise<Block> {
  const { typesize, compressor: cname } = header;
  const settings = { cname, clevel: 5, shuffle: shuffleFor(header), typesize, blocksize: bytes.length };
  return { pieces: [await HERE.encode(bytes, settings)], isCopied: false };
}

/** The Blosc1 filter to use instead of those of Blosc2: bit shuffle if they include it, else byte shuffle. */
function shuffleFor({ shuffle }: Blosc2Header): "bitshuffle" | "shuffle" {
  return shuffle === "bitshuffle" ? "bitshuffle" : "shuffle";
}

function header1(
  { typesize, blocksize }: Pick<Blosc2Header, "typesize" | "blocksize">,
  nbytes: number,
  flags: number,
  ctbytes: number,
): Uint8Array {
  return encodeHeader({ flags, typesize, nbytes, blocksize: Math.min(blocksize, nbytes), ctbytes });
}

function repeat(value: Uint8Array, from: number, length: number): Uint8Array {
  const out = new Uint8Array(length);
  for (let i = 0; i < length; i++) out[i] = at(value, (from + i) % value.length);
  return out;
}

// Streams of one repeated value, written without the encoders: a page that reads Blosc2 then loads none.

/** Most bytes of a block of zstd. */
const ZSTD_BLOCK = 128 << 10;

/** A stream of one value as blosclz, LZ4 or zstd, preceded by its length. Short ones are stored, and those of other codecs. */
function writeRun(value: number, length: number, cname: CompressorName): Uint8Array {
  const counted = (rest: number) => [...new Array<number>(Math.floor(rest / 255)).fill(255), rest % 255];
  let stream: number[];
  if (length < 32 || cname === "zlib" || cname === "snappy") stream = new Array<number>(length).fill(value);
  // A literal, a copy of it at distance 1, and the literals that must come last.
  else if (cname === "blosclz") stream = [0x20, value, 0xe0, ...counted(length - 11), 0, 0, value];
  else if (cname !== "zstd")
    stream = [0x1f, value, 1, 0, ...counted(length - 25), 0x50, value, value, value, value, value];
  else {
    const bytesOf = (word: number, n: number) => Array.from({ length: n }, (_, i) => (word >> (8 * i)) & 255);
    // A frame with its size in four bytes, and blocks of one repeated byte.
    stream = [0x28, 0xb5, 0x2f, 0xfd, 0xa0, ...bytesOf(length, 4)];
    for (let rest = length; rest > 0; rest -= ZSTD_BLOCK) {
      const kind = rest <= ZSTD_BLOCK ? 3 : 2;
      stream.push(...bytesOf((Math.min(rest, ZSTD_BLOCK) << 3) | kind, 3), value);
    }
  }
  return Uint8Array.from([...new Uint8Array(Int32Array.of(stream.length).buffer), ...stream]);
}
