/**
 * Instances of the decoding kernels, a small pool of them, and blocks in their memory. Must not know where blocks come from.
 */

import { SuperchunkError } from "../../errors.ts";
import { hex } from "../../kernels/generated/decode-kernels.ts";
import { blockLength } from "../header.ts";
import { KernelMemory, KernelModule } from "../kernel-module.ts";
import type { ChunkHeader, Compressor, CompressorName } from "../types.ts";

/**
 * A kernel that decodes a stream. Returns the bytes written, or a negative error. All numbers are addresses
 * and lengths. The LZ kernels stop after `need` decoded bytes and do not check the rest of the stream.
 */
export type StreamKernel = (
  src: number,
  srcLength: number,
  dst: number,
  dstLength: number,
  need: number,
) => number;

/** A `need` larger than any stream: the whole stream is decoded and checked. */
export const NEED_ALL = 0xffff_ffff as const;

/** A kernel that undoes a filter on a block. */
export type FilterKernel = (src: number, dst: number, length: number, typesize: number) => void;

/** What the WebAssembly module exports. @see src/kernels/assembly/decode.ts */
interface DecodeKernels {
  readonly memory: WebAssembly.Memory;
  readonly decodeBlosclz: StreamKernel;
  readonly decodeLz4: StreamKernel;
  /** Address of the token of the last sequence of the stream that `decodeLz4` decoded to its end. */
  readonly lastToken: () => number;
  readonly decodeSnappy: StreamKernel;
  readonly decodeZlib: StreamKernel;
  readonly decodeZstd: StreamKernel;
  /** Decodes a deflate stream; bytes after it are ignored. */
  readonly decodeDeflate: (src: number, srcLength: number, dst: number, dstLength: number) => number;
  /** Address of the byte after the last stream that `decodeDeflate` decoded. */
  readonly deflateEnd: () => number;
  readonly unshuffle: FilterKernel;
  readonly bitunshuffle: FilterKernel;
  /** The same for streams at any addresses: `src` is the address of a table of these. */
  readonly unshuffleStreams: FilterKernel;
  readonly bitunshuffleStreams: FilterKernel;
  /** Unshuffles `count` elements from element `first` on, of streams at any addresses. */
  readonly unshufflePart: (
    streams: number,
    first: number,
    count: number,
    dst: number,
    typesize: number,
  ) => void;
  /** Unshuffles the first elements of a shuffled block whose streams are `pitch` bytes apart. */
  readonly unshuffleRows: (src: number, pitch: number, count: number, dst: number, typesize: number) => void;
  /** Address of the table for the addresses of a block's streams, 32 bits each. */
  readonly streamTable: () => number;
  readonly hostBase: () => number;
}

/** Kernels together with their memory. Serves one call at a time. */
export class DecodeKernel {
  readonly calls: DecodeKernels;
  readonly memory: KernelMemory;
  /** First address that the host may use. */
  readonly base: number;
  /** Address of the table of stream addresses. */
  readonly streams: number;

  constructor(calls: DecodeKernels) {
    this.calls = calls;
    this.memory = new KernelMemory(calls.memory);
    this.base = calls.hostBase();
    this.streams = calls.streamTable();
  }
}

/** Instances kept for later calls. If more are in use at a time, the others are dropped when they are given back. */
const MAX_IDLE = 4;
/** A larger instance is not kept, because WebAssembly memory cannot shrink. Bytes. */
const MAX_IDLE_MEMORY = 32 * 1024 * 1024;

const decodeModule = new KernelModule("decode", hex);
const idle: DecodeKernel[] = [];

/** Takes an instance. It is the caller's until {@link giveBackKernel}. */
export function takeKernel(): DecodeKernel {
  return idle.pop() ?? kernelOf(decodeModule.instantiate());
}

/** Gives an instance back. Views of its memory must not be used after that. */
export function giveBackKernel(kernel: DecodeKernel): void {
  if (idle.length < MAX_IDLE && kernel.memory.length <= MAX_IDLE_MEMORY) idle.push(kernel);
}

/** Calls `use` with an instance that no one else uses meanwhile. Views of its memory must not be used afterwards. */
export function withKernel<T>(use: (kernel: DecodeKernel) => T): T {
  const kernel = takeKernel();
  try {
    return use(kernel);
  } finally {
    giveBackKernel(kernel);
  }
}

function kernelOf(instance: WebAssembly.Instance): DecodeKernel {
  return new DecodeKernel(instance.exports as unknown as DecodeKernels);
}

/**
 * True if {@link decodeSync} and similar functions can decode chunks of the compressor without compiling first.
 *
 * One module decodes all compressors today. The parameter allows this to change.
 */
export function isReady(_compressor: CompressorName): boolean {
  return decodeModule.isCompiled;
}

/**
 * Compiles the kernels that decode the compressor's chunks. Later calls are cheap.
 *
 * Synchronous calls compile on demand, which the main thread of some browsers refuses.
 */
export function prepare(_compressor: CompressorName): Promise<void> {
  return decodeModule.prepareFirst((instance) => {
    if (idle.length === 0) idle.push(kernelOf(instance));
  });
}

// Decodes one block in a kernel's memory: streams, splits and filters.

/** The reasons for a kernel's failure, by its negative result. @see src/kernels/README.md */
const REASONS: readonly string[] = [
  "",
  "the stream is cut off in the middle of an instruction",
  "the stream decodes to more bytes",
  "a match refers to bytes before the start of the stream",
  "the bytes are not of this format",
  "bytes or bits are left over after the stream's end",
  "the checksum inside the stream differs",
];

export function streamFailure(result: number): string {
  return REASONS[-result] ?? "it is damaged";
}

/** What all blocks of a chunk share. */
export interface BlockDecoder {
  readonly kernel: DecodeKernel;
  readonly header: ChunkHeader;
  /** Address where streams of filtered blocks are decoded to. Has room for a block and the slack. */
  readonly scratch: number;
  readonly decodeStream: StreamKernel;
  /** If set, gets where the last sequence of each lz4 stream that is not stored begins, from the stream's start. */
  readonly lastSequences?: number[] | undefined;
}

export function makeBlockDecoder(
  kernel: DecodeKernel,
  header: ChunkHeader,
  scratch: number,
  lastSequences?: number[],
): BlockDecoder {
  return { kernel, header, scratch, decodeStream: streamKernelOf(kernel, header.compressor), lastSequences };
}

/** A block in the kernel's memory. */
export interface PlacedBlock {
  /** Index of the block in its chunk. */
  readonly block: number;
  /** Address of its first byte, and of the byte after its last. */
  readonly src: number;
  readonly end: number;
  /** Offset of the block in the chunk, for messages. */
  readonly offset: number;
}

/**
 * Decodes a block to `dst`, an address in the kernel's memory.
 *
 * @throws BAD_CHUNK
 */
export function decodeBlock(decoder: BlockDecoder, placed: PlacedBlock, dst: number): void {
  const { filter, from, length } = decodeStreams(decoder, placed, dst);
  filter?.(from, dst, length, decoder.header.typesize);
}

/** A block whose streams are decoded. At most its filter remains to be undone. */
export interface DecodedStreams {
  /** Bytes of the block. */
  readonly length: number;
  /** Undoes the filter; undefined if the bytes are already at `dst`. */
  readonly filter: FilterKernel | undefined;
  /** First argument of `filter`: the address of the data, or of the table of the streams' addresses. */
  readonly from: number;
}

/**
 * The first half of {@link decodeBlock}. A block without a filter is then at `dst`. The streams of another
 * block are in scratch, or, if stored, still in the input.
 */
function decodeStreams(
  decoder: BlockDecoder,
  { block, src, end, offset }: PlacedBlock,
  dst: number,
): DecodedStreams {
  const { kernel, header, scratch, decodeStream } = decoder;
  const length = blockLength(header, block);
  // The short last block is never split, whatever the flags say.
  const nsplits = header.split && length === header.blocksize ? header.typesize : 1;
  const streamLength = Math.floor(length / nsplits);
  const filter = filterOf(decoder, length, nsplits);
  const { memory, streams } = kernel;
  let at = src;
  let to = filter === undefined ? dst : scratch;
  let from = to;
  for (let i = 0; i < nsplits; i++) {
    const room = end - at - 4;
    const compressed = room < 0 ? -1 : memory.view.getInt32(at, true);
    if (compressed < 0 || compressed > room) {
      throw badStreamLength(
        { block, stream: i, offset: offset + at - src },
        room,
        room < 0 ? undefined : compressed,
      );
    }
    at += 4;
    from = to;
    if (compressed !== streamLength) {
      const written = decodeStream(at, compressed, to, streamLength, NEED_ALL);
      if (written !== streamLength)
        throw badStream(header, { block, stream: i, offset: offset + at - src }, streamLength, written);
      decoder.lastSequences?.push(kernel.calls.lastToken() - at);
    } else if (filter === undefined) {
      memory.bytes.copyWithin(to, at, at + compressed);
    } else {
      // The filter reads a stored stream in place.
      from = at;
    }
    if (nsplits > 1) memory.view.setUint32(streams + 4 * i, from, true);
    if (from === to) to += streamLength;
    at += compressed;
  }
  return { length, filter, from: nsplits > 1 ? streams : from };
}

/** The kernel that undoes a block's filter, from one stream or from the streams in the kernel's table of addresses. */
function filterOf(
  { kernel, header }: BlockDecoder,
  length: number,
  nsplits: number,
): FilterKernel | undefined {
  const { calls } = kernel;
  if (header.shuffle === "shuffle" && header.typesize > 1)
    return nsplits > 1 ? calls.unshuffleStreams : calls.unshuffle;
  // c-blosc does not filter a short last block without a whole element.
  if (header.shuffle === "bitshuffle" && length >= header.typesize)
    return nsplits > 1 ? calls.bitunshuffleStreams : calls.bitunshuffle;
  return undefined;
}

const STREAM_KERNELS = {
  blosclz: "decodeBlosclz",
  lz4: "decodeLz4",
  snappy: "decodeSnappy",
  zlib: "decodeZlib",
  zstd: "decodeZstd",
} as const satisfies Record<Compressor, keyof DecodeKernels>;

export function streamKernelOf({ calls }: DecodeKernel, compressor: Compressor): StreamKernel {
  return calls[STREAM_KERNELS[compressor]];
}

/** Names a stream in a chunk, for messages. */
export interface StreamPlace {
  readonly block: number;
  readonly stream: number;
  readonly offset: number;
}

export function badStreamLength(
  { block, stream, offset }: StreamPlace,
  room: number,
  found: number | undefined,
): SuperchunkError {
  const said =
    found === undefined ? "is cut off" : `is ${found}, but ${room} bytes are left to the end of the block`;
  return new SuperchunkError(
    "BAD_CHUNK",
    `the length of stream ${stream} of block ${block} at byte ${offset} ${said}; the chunk is damaged`,
    { offset, field: "stream length", expected: `0 to ${Math.max(room, 0)}`, found },
  );
}

export function badStream(
  header: ChunkHeader,
  { block, stream, offset }: StreamPlace,
  expected: number,
  written: number,
): SuperchunkError {
  const reason = written < 0 ? streamFailure(written) : `it decodes to ${written} bytes`;
  return new SuperchunkError(
    "BAD_CHUNK",
    `stream ${stream} of block ${block} at byte ${offset} does not decode to ${expected} bytes of ${header.compressor}: ${reason}; the chunk is damaged`,
    { offset, field: "stream", expected, found: written },
  );
}

// Decodes a block from a kernel's memory into the caller's. Unfiltering and copying in small pieces keeps
// them in the processor's cache and takes half the time.

/** Bytes of a shuffled block that are unshuffled before they are copied. */
const PIECE = 1 << 17;
/** Pieces are multiples of this many elements, so that each begins at a cache line. */
const ELEMENTS = 64;

/**
 * Decodes bytes `from` to `to` of a block to the beginning of `out`.
 *
 * @param target an address with room for the block and slack
 * @throws BAD_CHUNK; `out` is then unchanged
 */
export function decodeBlockInto(
  decoder: BlockDecoder,
  placed: PlacedBlock,
  target: number,
  range: ByteSpan,
  out: Uint8Array,
): void {
  copyDecoded(decoder, decodeStreams(decoder, placed, target), target, range, out);
}

interface ByteSpan {
  readonly from: number;
  readonly to: number;
}

/** The second half of {@link decodeBlockInto}, for a block of any format. */
export function copyDecoded(
  { kernel, header: { typesize } }: Pick<BlockDecoder, "kernel" | "header">,
  streams: DecodedStreams,
  target: number,
  { from, to }: ByteSpan,
  out: Uint8Array,
): void {
  const { calls, memory } = kernel;
  if (streams.filter !== calls.unshuffleStreams) {
    streams.filter?.(streams.from, target, streams.length, typesize);
    out.set(memory.bytes.subarray(target + from, target + to));
    return;
  }
  const count = streams.length / typesize;
  const step = Math.max(1, Math.floor(PIECE / typesize / ELEMENTS)) * ELEMENTS;
  for (let first = Math.floor(from / typesize); first * typesize < to; first += step) {
    const start = first * typesize;
    const n = Math.min(step, count - first);
    calls.unshufflePart(streams.from, first, n, target, typesize);
    const a = Math.max(from, start);
    const b = Math.min(to, start + n * typesize);
    out.set(memory.bytes.subarray(target + a - start, target + b - start), a - from);
  }
}
