/** Builds a Blosc2 chunk from blocks of Blosc1, whose streams are copied, and from values. Knows both formats; must not know frames. */
import { at, joinBytes } from "../bytes/arrays.ts";
import { decodeRangeSync } from "../codec/decode/decode.ts";
import { HEADER_LENGTH, readBlockTable } from "../codec/header.ts";
import type { ChunkHeader } from "../codec/types.ts";
import { header2, MEMCPYED, NOT_SPLIT } from "./as-blosc2.ts";
import { bitshuffled, encodeStream, withLength } from "./encode-stream.ts";
import { HEADER2_LENGTH } from "./fields.ts";

/** What all blocks of a chunk share. Sizes in bytes. */
export interface BlockKind {
  readonly compressor: "blosclz" | "lz4" | "zlib" | "zstd";
  readonly shuffle: ChunkHeader["shuffle"];
  readonly typesize: number;
  readonly split: boolean;
  readonly blocksize: number;
}

/** The blocks of a Blosc2 chunk, all of the same length. */
export class ChunkBuilder {
  readonly kind: BlockKind;
  /** Number of blocks with copied streams, and of encoded blocks. */
  copied = 0;
  encoded = 0;
  readonly #parts: Uint8Array[] = [];
  /** Number of bytes of each block in the parts. */
  readonly #lengths: number[] = [];
  /** The decoded bytes of every block, as long as all blocks are stored. */
  #stored: Uint8Array[] | undefined = [];

  constructor(kind: BlockKind) {
    this.kind = kind;
  }

  /** Adds a block of zeros, which are runs without data. */
  addZeros(): void {
    this.#stored = undefined;
    this.#add([new Uint8Array(4 * this.#streams)]);
  }

  /**
   * Adds a block of a Blosc1 chunk: its streams if they fit, else its values. A shorter block is padded with zeros.
   *
   * @throws BAD_CHUNK
   */
  addBlock(chunk: Uint8Array, header: ChunkHeader, block: number): void {
    const { blocksize } = this.kind;
    const from = block * header.blocksize;
    const length = Math.min(header.blocksize, header.nbytes - from);
    if (header.memcpyed) {
      const bytes = chunk.subarray(HEADER_LENGTH + from, HEADER_LENGTH + from + length);
      this.#addValues(length === blocksize ? bytes : filledUp(bytes, blocksize), this.#stored);
      this.copied++;
      return;
    }
    const streams = this.#fits(header, length) ? streamsOf(chunk, header, block) : undefined;
    if (streams === undefined)
      this.addValues(filledUp(decodeRangeSync(chunk, from, length), this.kind.blocksize));
    else {
      this.#stored = undefined;
      this.#add([streams]);
      this.copied++;
    }
  }

  /** Adds a block with the values from byte `from` of a decoded Blosc1 chunk, padded with zeros. */
  addRange(chunk: Uint8Array, from: number, { nbytes }: ChunkHeader): void {
    const { blocksize } = this.kind;
    this.addValues(filledUp(decodeRangeSync(chunk, from, Math.min(blocksize, nbytes - from)), blocksize));
  }

  get length(): number {
    return this.#lengths.length;
  }

  /** Encodes a block from its values, `blocksize` bytes. `prepareEncode` of the compressor must have been awaited. */
  addValues(bytes: Uint8Array): void {
    this.#addValues(bytes, undefined);
    this.encoded++;
  }

  finish(): Uint8Array {
    const { compressor: cname, shuffle, typesize, split, blocksize } = this.kind;
    const nbytes = this.#lengths.length * blocksize;
    const settings = { typesize, nbytes, blocksize, cname, shuffle };
    if (this.#stored !== undefined)
      return joinBytes([
        header2({ ...settings, flags: MEMCPYED | NOT_SPLIT }, HEADER2_LENGTH + nbytes),
        ...this.#stored,
      ]);
    const table = new Uint8Array(4 * this.#lengths.length);
    let next = HEADER2_LENGTH + table.length;
    for (const [i, length] of this.#lengths.entries()) {
      new DataView(table.buffer).setInt32(4 * i, next, true);
      next += length;
    }
    return joinBytes([header2({ ...settings, flags: split ? 0 : NOT_SPLIT }, next), table, ...this.#parts]);
  }

  get #streams(): number {
    return this.kind.split ? this.kind.typesize : 1;
  }

  #addValues(bytes: Uint8Array, stored: Uint8Array[] | undefined): void {
    stored?.push(bytes);
    if (stored === undefined && this.#stored !== undefined) this.#stored = undefined;
    const { shuffle, typesize, compressor } = this.kind;
    const filtered =
      shuffle === "shuffle"
        ? shuffled(bytes, typesize)
        : shuffle === "bitshuffle"
          ? bitshuffled(bytes, typesize)
          : bytes;
    const size = bytes.length / this.#streams;
    const parts: Uint8Array[] = [];
    for (let i = 0; i < this.#streams; i++) {
      const stream = filtered.subarray(i * size, (i + 1) * size);
      parts.push(stored === undefined ? encodeStream(stream, compressor) : withLength(stream));
    }
    this.#add(parts);
  }

  #add(parts: readonly Uint8Array[]): void {
    this.#parts.push(...parts);
    this.#lengths.push(parts.reduce((sum, { length }) => sum + length, 0));
  }

  #fits(header: ChunkHeader, length: number): boolean {
    const { compressor, shuffle, typesize, split, blocksize } = this.kind;
    if (length !== blocksize || header.compressor !== compressor || header.shuffle !== shuffle) return false;
    // Without a filter and without split streams, the typesize does not matter.
    if (header.typesize !== typesize && (shuffle !== "noshuffle" || split || header.split)) return false;
    if ((header.split && length === header.blocksize) !== split) return false;
    return shuffle !== "bitshuffle" || length % (8 * typesize) === 0;
  }
}

/** The streams of a block with their lengths; undefined if a length does not fit. */
function streamsOf(chunk: Uint8Array, header: ChunkHeader, block: number): Uint8Array | undefined {
  const { starts, ends } = readBlockTable(chunk, header);
  const view = new DataView(chunk.buffer, chunk.byteOffset, header.ctbytes);
  const count = header.split ? header.typesize : 1;
  const [start, end] = [at(starts, block), at(ends, block)];
  let next = start;
  for (let i = 0; i < count; i++) {
    const length = next + 4 > end ? -1 : view.getInt32(next, true);
    if (length <= 0 || length > end - next - 4) return undefined;
    next += 4 + length;
  }
  return chunk.subarray(start, next);
}

function filledUp(bytes: Uint8Array, length: number): Uint8Array {
  if (bytes.length === length) return bytes;
  const out = new Uint8Array(length);
  out.set(bytes.subarray(0, length));
  return out;
}

function shuffled(bytes: Uint8Array, typesize: number): Uint8Array {
  const count = Math.floor(bytes.length / typesize);
  const out = new Uint8Array(bytes.length);
  for (let b = 0; b < typesize; b++)
    for (let i = 0, from = b, to = b * count; i < count; i++, from += typesize)
      out[to + i] = bytes[from] as number;
  out.set(bytes.subarray(count * typesize), count * typesize);
  return out;
}

/** The kind of the blocks of a Blosc1 chunk; undefined for snappy, which Blosc2 lacks, and for stored chunks. */
export function kindOf(header: ChunkHeader, blocksize: number): BlockKind | undefined {
  const { compressor, shuffle, typesize, split, memcpyed } = header;
  if (compressor === "snappy" || memcpyed) return undefined;
  return { compressor, shuffle, typesize, split: split && header.blocksize === blocksize, blocksize };
}
