/** Converts Blosc1 chunks to Blosc2 with the same streams. Decodes only blocks whose filter the two formats apply differently. */
import { at, joinBytes } from "../bytes/arrays.ts";
import { decodeRangeSync, decodeSync } from "../codec/decode/decode.ts";
import { encodeSync, prepareEncode } from "../codec/encode/encode.ts";
import { blockLength, decodeHeader, HEADER_LENGTH, readBlockTable } from "../codec/header.ts";
import type { ChunkHeader, EncodeOptions } from "../codec/types.ts";
import { SuperchunkError } from "../errors.ts";
import { bitshuffled, encodeStream } from "./encode-stream.ts";
import { FILTER, HEADER2_LENGTH } from "./fields.ts";

/** The version that c-blosc2 has written since 2.0 for blocks of one length. */
const VERSION = 5;
const EXTENDED = 0x05;
export const MEMCPYED = 0x02;
export const NOT_SPLIT = 0x10;
/** Special values, in the last byte from bit 4 on. */
const SPECIAL = { zeros: 1, value: 3 } as const;
/** The last of six filter slots, where c-blosc2 puts the shuffle by default. */
const LAST_FILTER = 21;
const CODEC = 22;
/** Codecs by their Blosc2 numbers, and by their numbers in the flags. */
export const NUMBERS: readonly string[] = ["blosclz", "lz4", "lz4hc", "", "zlib", "zstd"];
const IN_FLAGS: readonly string[] = ["blosclz", "lz4", "", "zlib", "zstd"];

interface Header2 extends Pick<ChunkHeader, "typesize" | "nbytes" | "blocksize" | "shuffle" | "flags"> {
  readonly cname: string;
  readonly last?: number;
}

/** The header of a chunk with `cbytes` bytes. */
export function header2(
  { typesize, nbytes, blocksize, cname, shuffle, flags, last = 0 }: Header2,
  cbytes: number,
): Uint8Array {
  const header = new Uint8Array(HEADER2_LENGTH);
  const view = new DataView(header.buffer);
  header.set([
    VERSION,
    1,
    EXTENDED | flags | (IN_FLAGS.indexOf(cname === "lz4hc" ? "lz4" : cname) << 5),
    typesize,
  ]);
  view.setInt32(4, nbytes, true);
  // c-blosc2 refuses a block size of 0, even if there are no blocks.
  view.setInt32(8, Math.max(1, blocksize), true);
  view.setInt32(12, cbytes, true);
  header[LAST_FILTER] =
    shuffle === "shuffle" ? FILTER.shuffle : shuffle === "bitshuffle" ? FILTER.bitshuffle : FILTER.none;
  header[CODEC] = NUMBERS.indexOf(cname);
  header[HEADER2_LENGTH - 1] = last;
  return header;
}

/**
 * Returns a Blosc1 chunk as a Blosc2 chunk with the same blocks and streams; snappy, which Blosc2 lacks, becomes lz4.
 *
 * @throws as `decode`
 */
export async function toBlosc2(chunk: Uint8Array): Promise<Uint8Array> {
  const { compressor } = decodeHeader(chunk);
  await prepareEncode(compressor === "snappy" ? "lz4" : compressor);
  return toBlosc2Sync(chunk);
}

/** The same synchronously, after `prepareEncode` of the codec. */
export function toBlosc2Sync(chunk: Uint8Array): Uint8Array {
  const header = decodeHeader(chunk);
  const { nbytes, nblocks, compressor, typesize, blocksize, shuffle } = header;
  const settings = { typesize, nbytes, blocksize, cname: compressor, shuffle, flags: NOT_SPLIT };
  if (header.memcpyed || nbytes === 0)
    return joinBytes([
      header2(
        { ...settings, cname: compressor === "snappy" ? "lz4" : compressor, flags: MEMCPYED | NOT_SPLIT },
        HEADER2_LENGTH + nbytes,
      ),
      chunk.subarray(HEADER_LENGTH, HEADER_LENGTH + nbytes),
    ]);
  if (compressor === "snappy")
    return toBlosc2Sync(encodeSync(decodeSync(chunk), { cname: "lz4", typesize, shuffle, blocksize }));
  const { starts, ends } = readBlockTable(chunk, header);
  const table = new Uint8Array(4 * nblocks);
  const parts: Uint8Array[] = [];
  let next = HEADER2_LENGTH + table.length;
  for (let i = 0; i < nblocks; i++) {
    new DataView(table.buffer).setInt32(4 * i, next, true);
    const block = isFilteredAlike(header, i)
      ? [chunk.subarray(at(starts, i), at(ends, i))]
      : turned(chunk, header, i);
    for (const part of block) {
      parts.push(part);
      next += part.length;
    }
  }
  return joinBytes([header2({ ...settings, flags: header.split ? 0 : NOT_SPLIT }, next), table, ...parts]);
}

/**
 * False for blocks of a number of elements not divisible by eight. Blosc1 does not filter these; Blosc2 filters all but the last
 * few.
 */
function isFilteredAlike(header: ChunkHeader, block: number): boolean {
  if (header.shuffle !== "bitshuffle") return true;
  const count = Math.floor(blockLength(header, block) / header.typesize);
  return count % 8 === 0 || count < 8;
}

/** The streams of such a block, with its bits shuffled as in Blosc2. */
function turned(chunk: Uint8Array, header: ChunkHeader, block: number): Uint8Array[] {
  const length = blockLength(header, block);
  const bytes = bitshuffled(decodeRangeSync(chunk, block * header.blocksize, length), header.typesize);
  const count = header.split && length === header.blocksize ? header.typesize : 1;
  const size = length / count;
  return Array.from({ length: count }, (_, i) =>
    encodeStream(bytes.subarray(i * size, (i + 1) * size), header.compressor),
  );
}

/** Settings of an encode call that can ask for Blosc2. */
export interface Encode2Options extends EncodeOptions {
  /** 1 (default): a Blosc1 chunk. 2: a Blosc2 chunk. */
  readonly format?: 1 | 2;
}

/** Encodes `data` as one Blosc2 chunk. `prepareEncode` must have been awaited. @throws as `encodeSync` */
export function encode2Sync(data: Uint8Array, options: EncodeOptions): Uint8Array<ArrayBuffer> {
  if (options.cname === "snappy")
    throw new SuperchunkError("BAD_ARGUMENT", 'Blosc2 does not have the codec "snappy"; choose another.', {
      field: "cname",
      found: options.cname,
    });
  const chunk = encodeSync(data, options);
  const { typesize, nbytes, blocksize, shuffle } = decodeHeader(chunk);
  // Only data that compressed well can be a repeated value.
  const isShort = chunk.length < nbytes / 8 || nbytes <= typesize * 64;
  if (isShort && nbytes >= typesize && nbytes % typesize === 0 && repeats(data, typesize)) {
    const settings = { typesize, nbytes, blocksize, cname: options.cname ?? "lz4", shuffle };
    return repeatedChunk(data.subarray(0, typesize), settings);
  }
  const made = toBlosc2Sync(chunk) as Uint8Array<ArrayBuffer>;
  if (options.cname === "lz4hc") made[CODEC] = NUMBERS.indexOf("lz4hc");
  return made;
}

/** A chunk of one repeated item; a chunk of zeros if the item is zero. */
export function repeatedChunk(
  item: Uint8Array,
  facts: Omit<Header2, "flags" | "last">,
): Uint8Array<ArrayBuffer> {
  const isZero = item.every((byte) => byte === 0);
  const value = isZero ? new Uint8Array(0) : item;
  const settings = { ...facts, flags: 0, last: (isZero ? SPECIAL.zeros : SPECIAL.value) << 4 };
  return joinBytes([header2(settings, HEADER2_LENGTH + value.length), value]) as Uint8Array<ArrayBuffer>;
}

/** True if all elements are equal. */
function repeats(data: Uint8Array, typesize: number): boolean {
  for (let i = typesize; i < data.length; i++) if (data[i] !== data[i - typesize]) return false;
  return true;
}
