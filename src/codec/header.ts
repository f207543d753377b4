/**
 * The 16-byte header of every Blosc1 chunk. Knows its fields and how they depend on one another; must not know any payload.
 *
 * Byte 0 version, 1 versionlz, 2 flags, 3 typesize, then nbytes, blocksize and ctbytes as little-endian uint32.
 * @see FORMAT.md [FB]
 */
import { SuperchunkError } from "../errors.ts";
import {
  type ChunkHeader,
  COMPRESSOR_FORMATS,
  type Compressor,
  type CompressorFormat,
  type Shuffle,
} from "./types.ts";

export const HEADER_LENGTH = 16 as const;
/** The only version that is read and written: c-blosc has written 2 since 0.9.4 of 2010. */
export const BLOSC_VERSION = 2 as const;
/** Most decoded bytes of a chunk: c-blosc counts in int32, header included. */
export const MAX_NBYTES = 0x7fff_ffef as const;
/** Most bytes of a block: c-blosc allocates three blocks, and 255 stream lengths, with an int32 size. */
export const MAX_BLOCKSIZE = 715_827_542 as const;
/** Blocks of elements wider than this are not split. */
export const MAX_SPLITS = 16 as const;
/** Blocks of fewer elements than this are not split. */
export const MIN_SPLIT_LENGTH = 128 as const;

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

/** Arguments of {@link encodeHeader}; the default of `versionlz` is right for all compressors but snappy. */
export interface HeaderFields {
  readonly versionlz?: number;
  readonly flags: number;
  readonly typesize: number;
  readonly nbytes: number;
  readonly blocksize: number;
  readonly ctbytes: number;
}

/** Encodes a chunk's header without checks. */
export function encodeHeader(fields: HeaderFields): Uint8Array {
  const { versionlz = 1, flags, typesize, nbytes, blocksize, ctbytes } = fields;
  const header = new Uint8Array(HEADER_LENGTH);
  header.set([BLOSC_VERSION, versionlz, flags, typesize]);
  const view = new DataView(header.buffer);
  for (const [i, value] of [nbytes, blocksize, ctbytes].entries()) view.setUint32(4 + 4 * i, value, true);
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
