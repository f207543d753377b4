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
  checkDecodedRange,
  checkExpansion,
  decodeHeader,
  HEADER_LENGTH,
  readBlockTable,
} from "../header.ts";
import { align, SLACK } from "../kernel-module.ts";
import type { ChunkHeader } from "../types.ts";
import { outputOf } from "./decode.ts";
import {
  type DecodeKernel,
  decodeBlock,
  decodeBlockInto,
  giveBackKernel,
  makeBlockDecoder,
  type PlacedBlock,
  takeKernel,
  withKernel,
} from "./decode-kernel.ts";

/** A kernel's memory, the caller's until {@link DecodeLease.release}. */
export interface DecodeLease {
  /** Memory for the chunk. Must not be used after a decode call: the memory may have grown. */
  readonly input: Uint8Array<ArrayBuffer>;
  /**
   * Decodes the chunk in the first `available` bytes of the input to the beginning of `out`. Faster than
   * copying a view: the bytes are copied while they are in the processor's cache.
   *
   * @throws as `decodeSync`; `out` may then hold some of the bytes
   */
  decodeInto(out: Uint8Array, available?: number): void;
  /**
   * Decodes `length` bytes of the chunk in the input from byte `start` of the decoded chunk on.
   *
   * @returns a view of the decoded bytes, valid until the next call of this lease
   * @throws as `decodeRangeSync`
   */
  decodeRange(start: number, length: number): Uint8Array<ArrayBuffer>;
  /** Where the last sequence of each lz4 stream begins that the last call decoded (all but stored ones), from the stream's start. */
  readonly lastSequences: readonly number[];
  /** Gives the memory back. Neither `input` nor any view may be used after that. A second call does nothing. */
  release(): void;
}

/**
 * Leases memory for a chunk of at most `inputLength` bytes.
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
  let leased: DecodeKernel | undefined = takeKernel();
  let lastSequences: number[] = [];
  const { base } = leased;
  leased.memory.reserve(base + inputLength + SLACK);

  function owned(): DecodeKernel {
    if (leased === undefined) throw new SuperchunkError("BAD_ARGUMENT", "the lease was released");
    return leased;
  }

  function given(available: number): { readonly chunk: Uint8Array; readonly header: ChunkHeader } {
    if (!(available >= 0 && available <= inputLength)) {
      throw new SuperchunkError(
        "BAD_ARGUMENT",
        `${available} bytes cannot be in an input of ${inputLength}`,
        { field: "available", expected: inputLength, found: available },
      );
    }
    const chunk = owned().memory.bytes.subarray(base, base + available);
    return { chunk, header: decodeHeader(chunk) };
  }

  function decodePart(
    chunk: Uint8Array,
    header: ChunkHeader,
    start: number,
    length: number,
  ): Uint8Array<ArrayBuffer> {
    const kernel = owned();
    lastSequences = [];
    if (header.memcpyed) {
      const from = base + HEADER_LENGTH + start;
      return kernel.memory.bytes.subarray(from, from + length);
    }
    const table = readBlockTable(chunk, header);
    const [first, end] = blocksOf(header, start, length);
    checkExpansion(header, table, first, end);
    const { scratch, target } = layOut(header, end - first);
    const decoder = makeBlockDecoder(
      kernel,
      header,
      scratch,
      header.compressor === "lz4" ? lastSequences : undefined,
    );
    for (let i = first; i < end; i++)
      decodeBlock(decoder, placeBlock(table, i, base), target + (i - first) * header.blocksize);
    const from = target + start - first * header.blocksize;
    const { bytes } = kernel.memory;
    lenders.set(bytes.buffer, kernel);
    return bytes.subarray(from, from + length);
  }

  /** Makes room after the input: scratch for one block, and a target for `nblocks` decoded blocks. */
  function layOut(
    { blocksize }: ChunkHeader,
    nblocks: number,
  ): { readonly scratch: number; readonly target: number } {
    const scratch = align(base + inputLength + SLACK);
    const target = align(scratch + blocksize + SLACK);
    owned().memory.reserve(target + nblocks * blocksize + SLACK);
    return { scratch, target };
  }

  return {
    input: leased.memory.bytes.subarray(base, base + inputLength),
    get lastSequences() {
      return lastSequences;
    },
    decodeInto(out, available = inputLength) {
      const { chunk, header } = given(available);
      const target = outputOf(out, header.nbytes);
      if (header.memcpyed) return target.set(decodePart(chunk, header, 0, header.nbytes));
      const table = readBlockTable(chunk, header);
      checkExpansion(header, table, 0, header.nblocks);
      const rooms = layOut(header, 1);
      const decoder = makeBlockDecoder(owned(), header, rooms.scratch);
      for (let i = 0; i < header.nblocks; i++) {
        const all = { from: 0, to: blockLength(header, i) };
        const place = target.subarray(i * header.blocksize);
        decodeBlockInto(decoder, placeBlock(table, i, base), rooms.target, all, place);
      }
    },
    decodeRange(start, length) {
      const { chunk, header } = given(inputLength);
      checkDecodedRange(header, start, length);
      return decodePart(chunk, header, start, length);
    },
    release() {
      if (leased !== undefined) giveBackKernel(leased);
      leased = undefined;
    },
  };
}

/** The kernels whose memory was lent. */
const lenders = new WeakMap<ArrayBuffer, DecodeKernel>();

/** Calls `use` with a kernel that has the bytes in its memory, and their address there. Those of a lease are not copied. */
export function withBytes<T>(bytes: Uint8Array, use: (kernel: DecodeKernel, address: number) => T): T {
  const lender = lenders.get(bytes.buffer as ArrayBuffer);
  if (lender !== undefined) return use(lender, bytes.byteOffset);
  return withKernel((kernel) => {
    const { base, memory } = kernel;
    memory.reserve(base + bytes.length + SLACK);
    memory.bytes.set(bytes, base);
    return use(kernel, base);
  });
}

/** Addresses of a block; `input` is the address of the chunk's byte 0, whether or not that byte is in memory. */
function placeBlock({ starts, ends }: BlockTable, block: number, input: number): PlacedBlock {
  const offset = at(starts, block);
  return { block, src: input + offset, end: input + at(ends, block), offset };
}
