/**
 * Decoding without copies: the caller reads a chunk straight into a kernel's memory, has it decoded there,
 * and gets a view. Knows what may be used when; must not know where chunks come from.
 */
import { at } from "../../bytes/arrays.ts";
import { SuperchunkError } from "../../errors.ts";
import {
  type BlockTable,
  blockLength,
  blocksOf,
  checkExpansion,
  checkExpectations,
  checkRange,
  decodeHeader,
  HEADER_LENGTH,
  readBlockTable,
} from "../header.ts";
import { align, SLACK } from "../kernel-module.ts";
import type { BlockRange, ChunkHeader, DecodeOptions } from "../types.ts";
import { checkGiven, outputOf } from "./decode.ts";
import {
  type DecodeKernel,
  decodeBlock,
  decodeBlockInto,
  giveBackKernel,
  makeBlockDecoder,
  type PlacedBlock,
  takeKernel,
} from "./decode-kernel.ts";

/** A kernel's memory, the caller's until {@link DecodeLease.release}. */
export interface DecodeLease {
  /** Memory for the chunk, or for the part of it. Must not be used after a decode call: the memory may have grown. */
  readonly input: Uint8Array<ArrayBuffer>;
  /**
   * Decodes the chunk in the first `available` bytes of the input.
   *
   * @returns a view of the decoded bytes, valid until the next call of this lease
   * @throws as `decodeSync`
   */
  decode(available?: number, options?: Omit<DecodeOptions, "out">): Uint8Array<ArrayBuffer>;
  /**
   * Decodes the chunk in the first `available` bytes of the input to the beginning of `out`. Faster than
   * copying the view of `decode`: the bytes are copied while they are in the processor's cache.
   *
   * @throws as `decodeSync`; `out` may then hold some of the bytes
   */
  decodeInto(out: Uint8Array, available?: number, options?: Omit<DecodeOptions, "out">): void;
  /**
   * Decodes `length` bytes of the chunk in the input from byte `start` of the decoded chunk on.
   *
   * @throws as `decodeRangeSync`
   */
  decodeRange(start: number, length: number, options?: Omit<DecodeOptions, "out">): Uint8Array<ArrayBuffer>;
  /**
   * The same if the input holds only the part of the chunk that `blockRanges` named.
   *
   * @throws as `decodeBlocks`
   */
  decodeBlocks(
    head: Uint8Array,
    range: Pick<BlockRange, "offset">,
    start: number,
    length: number,
    options?: Omit<DecodeOptions, "out">,
  ): Uint8Array<ArrayBuffer>;
  /** Where the last sequence of each lz4 stream begins that the last call decoded (all but stored ones), from the stream's start. */
  readonly lastSequences: readonly number[];
  /** Gives the memory back. Neither `input` nor any view may be used after that. A second call does nothing. */
  release(): void;
}

/**
 * Leases memory for a chunk, or a part of one, of at most `inputLength` bytes.
 *
 * @throws LIMIT if the engine cannot allocate it; BAD_ARGUMENT
 */
export function leaseDecoder(inputLength: number): DecodeLease {
  if (!Number.isSafeInteger(inputLength) || inputLength < 0) {
    throw new SuperchunkError("BAD_ARGUMENT", `a chunk cannot have ${inputLength} bytes`, {
      field: "inputLength",
      found: inputLength,
    });
  }
  return new KernelLease(takeKernel(), inputLength);
}

class KernelLease implements DecodeLease {
  readonly input: Uint8Array<ArrayBuffer>;
  lastSequences: number[] = [];
  readonly #inputLength: number;
  #kernel: DecodeKernel | undefined;

  constructor(kernel: DecodeKernel, inputLength: number) {
    const { base, memory } = kernel;
    memory.reserve(base + inputLength + SLACK);
    this.#kernel = kernel;
    this.#inputLength = inputLength;
    this.input = memory.bytes.subarray(base, base + inputLength);
  }

  decode(
    available: number = this.#inputLength,
    options: Omit<DecodeOptions, "out"> = {},
  ): Uint8Array<ArrayBuffer> {
    const chunk = this.#given(available);
    const header = decodeHeader(chunk);
    checkExpectations(header, options);
    return this.#decode(chunk, header, 0, 0, header.nbytes);
  }

  decodeInto(
    out: Uint8Array,
    available: number = this.#inputLength,
    options: Omit<DecodeOptions, "out"> = {},
  ): void {
    const chunk = this.#given(available);
    const header = decodeHeader(chunk);
    checkExpectations(header, options);
    if (header.memcpyed) {
      outputOf(out, header.nbytes).set(this.#decode(chunk, header, 0, 0, header.nbytes));
      return;
    }
    const table = readBlockTable(chunk, header);
    checkExpansion(header, table, 0, header.nblocks);
    const target = outputOf(out, header.nbytes);
    const kernel = this.#owned();
    const rooms = this.#layOut(kernel, header, 1);
    const decoder = makeBlockDecoder(kernel, header, rooms.scratch);
    for (let i = 0; i < header.nblocks; i++) {
      const placed = placeBlock(table, i, kernel.base);
      const at = i * header.blocksize;
      const all = { from: 0, to: blockLength(header, i) };
      decodeBlockInto(decoder, placed, rooms.target, all, target.subarray(at));
    }
  }

  decodeRange(
    start: number,
    length: number,
    options: Omit<DecodeOptions, "out"> = {},
  ): Uint8Array<ArrayBuffer> {
    const chunk = this.#given(this.#inputLength);
    const header = decodeHeader(chunk);
    checkExpectations(header, options);
    checkRange(header, start, length);
    return this.#decode(chunk, header, 0, start, length);
  }

  decodeBlocks(
    head: Uint8Array,
    range: Pick<BlockRange, "offset">,
    start: number,
    length: number,
    options: Omit<DecodeOptions, "out"> = {},
  ): Uint8Array<ArrayBuffer> {
    const header = decodeHeader(head, Number.MAX_SAFE_INTEGER);
    checkExpectations(header, options);
    checkGiven(head, header, { offset: range.offset, length: this.#inputLength }, { start, length });
    return this.#decode(head, header, range.offset, start, length);
  }

  release(): void {
    if (this.#kernel !== undefined) giveBackKernel(this.#kernel);
    this.#kernel = undefined;
  }

  #given(available: number): Uint8Array<ArrayBuffer> {
    if (!(available >= 0 && available <= this.#inputLength)) {
      throw new SuperchunkError(
        "BAD_ARGUMENT",
        `${available} bytes cannot be in an input of ${this.#inputLength}`,
        { field: "available", expected: this.#inputLength, found: available },
      );
    }
    const { base, memory } = this.#owned();
    return memory.bytes.subarray(base, base + available);
  }

  #owned(): DecodeKernel {
    if (this.#kernel === undefined) throw new SuperchunkError("BAD_ARGUMENT", "the lease was released");
    return this.#kernel;
  }

  /** The input starts with byte `base` of the chunk. */
  #decode(
    head: Uint8Array,
    header: ChunkHeader,
    base: number,
    start: number,
    length: number,
  ): Uint8Array<ArrayBuffer> {
    const kernel = this.#owned();
    this.lastSequences = [];
    if (header.memcpyed) {
      const at = kernel.base + HEADER_LENGTH + start - base;
      return kernel.memory.bytes.subarray(at, at + length);
    }
    const table = readBlockTable(head, header);
    const [first, end] = blocksOf(header, start, length);
    checkExpansion(header, table, first, end);
    const { scratch, target } = this.#layOut(kernel, header, end - first);
    const isLz4 = header.compressor === "lz4";
    const decoder = makeBlockDecoder(kernel, header, scratch, isLz4 ? this.lastSequences : undefined);
    for (let i = first; i < end; i++)
      decodeBlock(decoder, placeBlock(table, i, kernel.base - base), target + (i - first) * header.blocksize);
    const from = target + start - first * header.blocksize;
    const { bytes } = kernel.memory;
    lenders.set(bytes.buffer, kernel);
    return bytes.subarray(from, from + length);
  }

  /** Makes room after the input: scratch for one block, and a target for `nblocks` decoded blocks. */
  #layOut(
    kernel: DecodeKernel,
    header: ChunkHeader,
    nblocks: number,
  ): { readonly scratch: number; readonly target: number } {
    const scratch = align(kernel.base + this.#inputLength + SLACK);
    const target = align(scratch + header.blocksize + SLACK);
    kernel.memory.reserve(target + nblocks * header.blocksize + SLACK);
    return { scratch, target };
  }
}

/** The kernels whose memory was lent. */
const lenders = new WeakMap<ArrayBuffer, DecodeKernel>();

/** Calls `use` with a kernel that has the bytes in its memory, and their address there. Those of a lease are not copied. */
export function withBytes<T>(bytes: Uint8Array, use: (kernel: DecodeKernel, address: number) => T): T {
  const lender = lenders.get(bytes.buffer as ArrayBuffer);
  if (lender !== undefined) return use(lender, bytes.byteOffset);
  const kernel = takeKernel();
  try {
    const { base, memory } = kernel;
    memory.reserve(base + bytes.length + SLACK);
    memory.bytes.set(bytes, base);
    return use(kernel, base);
  } finally {
    giveBackKernel(kernel);
  }
}

/** Addresses of a block; `input` is the address of the chunk's byte 0, whether or not that byte is in memory. */
function placeBlock({ starts, ends }: BlockTable, block: number, input: number): PlacedBlock {
  const offset = at(starts, block);
  return { block, src: input + offset, end: input + at(ends, block), offset };
}
