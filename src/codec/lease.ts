/**
 * Decoding without copies: a chunk is read straight into a kernel's memory, decoded there, and handed out as a view.
 * Knows what may be used when; must not know where chunks come from.
 */
import { SuperchunkError } from "../errors.ts";
import { type BlockTable, blocksOf, checkExpansion, checkRange, readBlockTable } from "./block-table.ts";
import { checkExpectations, checkGiven } from "./decode.ts";
import { decodeBlock, makeBlockDecoder } from "./decode-block.ts";
import { type DecodeKernel, giveBackKernel, takeKernel } from "./decode-kernel.ts";
import { decodeHeader, HEADER_LENGTH } from "./header.ts";
import { align, SLACK } from "./kernel-module.ts";
import type { BlockRange, ChunkHeader, DecodeOptions } from "./types.ts";

/** The memory of a kernel, the caller's own until {@link DecodeLease.release}. */
export interface DecodeLease {
  /** Where the chunk, or the part of it, is to be put. Not to be used after a decode call: the memory may have grown. */
  readonly input: Uint8Array<ArrayBuffer>;
  /**
   * Decodes the chunk in the first `available` bytes of the input.
   *
   * @returns a view of the decoded bytes, valid until the next call of this lease
   * @throws as `decodeSync`
   */
  decode(available?: number, options?: Omit<DecodeOptions, "out">): Uint8Array<ArrayBuffer>;
  /**
   * Decodes `length` bytes of the chunk in the input from byte `start` of the decoded chunk on.
   *
   * @throws as `decodeRangeSync`
   */
  decodeRange(start: number, length: number, options?: Omit<DecodeOptions, "out">): Uint8Array<ArrayBuffer>;
  /**
   * The same where the input holds only the part of the chunk that `blockRanges` named.
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
  /** Gives the memory back; `input` and all views must not be used any more. Once is enough, twice does no harm. */
  release(): void;
}

/**
 * Leases memory for a chunk, or a part of one, of at most `inputLength` bytes.
 *
 * @throws LIMIT where the engine has no such memory; BAD_ARGUMENT
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
    checkGiven(head, header, range, this.#inputLength, start, length);
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
        {
          field: "available",
          expected: this.#inputLength,
          found: available,
        },
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
    if (header.memcpyed) {
      const at = kernel.base + HEADER_LENGTH + start - base;
      return kernel.memory.bytes.subarray(at, at + length);
    }
    const table = readBlockTable(head, header);
    const [first, end] = blocksOf(header, start, length);
    checkExpansion(header, table, first, end);
    const scratch = align(kernel.base + this.#inputLength + SLACK);
    const target = align(scratch + header.blocksize + SLACK);
    kernel.memory.reserve(target + (end - first) * header.blocksize + SLACK);
    decodeBlockRow(kernel, header, table, [first, end], { input: kernel.base - base, scratch, target });
    const from = target + start - first * header.blocksize;
    return kernel.memory.bytes.subarray(from, from + length);
  }
}

/** Decodes blocks one behind the other; `input` is the address of the chunk's byte 0, or where it would be. */
function decodeBlockRow(
  kernel: DecodeKernel,
  header: ChunkHeader,
  { starts, ends }: BlockTable,
  [first, end]: readonly [number, number],
  at: { readonly input: number; readonly scratch: number; readonly target: number },
): void {
  const decoder = makeBlockDecoder(kernel, header, at.scratch);
  for (let i = first; i < end; i++) {
    const start = starts[i] ?? 0;
    const target = at.target + (i - first) * header.blocksize;
    decodeBlock(decoder, i, at.input + start, at.input + (ends[i] ?? 0), target, start);
  }
}
