/**
 * The instance of the encoding kernels, the layout of its memory, and blocks that are encoded there. Must not know headers.
 */
import { SuperchunkError } from "../../errors.ts";
import { hex } from "../../kernels/generated/encode-kernels.ts";
import { align, HOST_BASE, KernelMemory, KernelModule, SLACK } from "../kernel-module.ts";
import type { CompressorName } from "../types.ts";
import type { EncodeSettings } from "./encode-settings.ts";
import { zstdLibrary } from "./zstd-library.ts";

/**
 * A kernel that compresses a stream. Returns the bytes written, or -2 if `dstLength` is too short. All
 * numbers are addresses and lengths.
 */
export type StreamEncodeKernel = (
  src: number,
  srcLength: number,
  dst: number,
  dstLength: number,
  level: number,
  work: number,
) => number;

type FilterKernel = (src: number, dst: number, length: number, typesize: number) => void;

/** A kernel that shuffles `count` elements into streams that are `pitch` bytes apart. */
type SpreadKernel = (src: number, count: number, dst: number, pitch: number, typesize: number) => void;

/** A kernel that turns a stream into one of another compressor. Returns the bytes written, or an error listed in the README. */
type StreamTurnKernel = (
  src: number,
  srcLength: number,
  dst: number,
  dstLength: number,
  plain: number,
  plainLength: number,
) => number;

/** What the WebAssembly module exports. @see src/kernels/assembly/encode.ts */
interface EncodeKernels {
  readonly memory: WebAssembly.Memory;
  readonly encodeBlosclz: StreamEncodeKernel;
  readonly encodeLz4: StreamEncodeKernel;
  readonly encodeLz4hc: StreamEncodeKernel;
  readonly encodeSnappy: StreamEncodeKernel;
  readonly encodeZlib: StreamEncodeKernel;
  /** Decodes to `plain` on the way. @see src/kernels/assembly/encode-lz4.ts */
  readonly blosclzToLz4: StreamTurnKernel;
  readonly shuffle: FilterKernel;
  readonly spreadElements: SpreadKernel;
  readonly bitshuffle: FilterKernel;
}

/** Room for the tables of encoders that need more than the kernel's own part of the memory. Bytes. */
const WORK_LENGTH = 262_144;
/** A larger instance is not kept, because WebAssembly memory cannot shrink. Bytes. */
const MAX_IDLE_MEMORY = 32 * 1024 * 1024;

/** Most bytes of a WebAssembly memory. */
const ADDRESSES = 2 ** 32;

/** Addresses of the parts of an encode call. */
export interface EncodeLayout {
  /** Tables of an encoder. */
  readonly work: number;
  /** One block of the data. */
  readonly block: number;
  /** The same block, filtered. */
  readonly filtered: number;
  /** The output chunk. */
  readonly chunk: number;
}

/** Kernels together with their memory. Serves one call at a time. */
export class EncodeKernel {
  readonly calls: EncodeKernels;
  readonly memory: KernelMemory;

  constructor(calls: EncodeKernels) {
    this.calls = calls;
    this.memory = new KernelMemory(calls.memory);
  }

  /**
   * Places a block of `blocksize` bytes, twice, and after them a chunk of at most `chunkLength` bytes. `at`
   * may give the chunk a later address.
   *
   * @throws LIMIT if the engine cannot allocate the memory
   */
  layOut(blocksize: number, chunkLength: number, at?: number): EncodeLayout {
    const work = HOST_BASE;
    const block = work + WORK_LENGTH;
    const filtered = align(block + blocksize + SLACK);
    const chunk = at ?? align(filtered + blocksize + SLACK);
    // The kernels add the output length to an address before they compare, and the sum must not wrap around.
    const highest = chunk + chunkLength + 1.01 * blocksize + SLACK;
    if (highest > ADDRESSES) {
      throw new SuperchunkError(
        "LIMIT",
        `a chunk of up to ${chunkLength} bytes with blocks of ${blocksize} does not fit WebAssembly's memory; take smaller blocks.`,
        { field: "blocksize", expected: ADDRESSES, found: highest },
      );
    }
    this.memory.reserve(chunk + chunkLength + SLACK);
    return { work, block, filtered, chunk };
  }
}

const encodeModule = new KernelModule("encode", hex);
let idle: EncodeKernel | undefined;

/** Compiles the kernels and makes an instance without blocking, once. */
export function prepareEncodeKernels(): Promise<void> {
  return encodeModule.prepareFirst((instance) => {
    idle ??= kernelOf(instance);
  });
}

/** Calls `use` with an instance that no one else uses meanwhile. Views of its memory must not be used afterwards. */
export function withEncodeKernel<T>(use: (kernel: EncodeKernel) => T): T {
  const kernel = idle ?? kernelOf(encodeModule.instantiate());
  // Taken, so that a nested call gets another instance.
  idle = undefined;
  try {
    return use(kernel);
  } finally {
    if (kernel.memory.length <= MAX_IDLE_MEMORY) idle = kernel;
  }
}

function kernelOf(instance: WebAssembly.Instance): EncodeKernel {
  return new EncodeKernel(instance.exports as unknown as EncodeKernels);
}

// Memory of a kernel in which chunks are encoded at their final place, so that no copy is needed. Must not know what it is for.

/** Chunks with larger blocks are copied to their place. Bytes. */
const MAX_BLOCK = 4 << 20;
const PAGE = 65_536;

const owners = new WeakMap<ArrayBufferLike, EncodeKernel>();

/**
 * Returns two places of `length` bytes, each at a multiple of 64 KiB. If `encodeInto` gets such memory, at
 * least 16 bytes longer than the data, it encodes the chunk there without a copy. It may then overwrite the
 * bytes after the chunk, up to 64 bytes past `out`.
 *
 * @throws LIMIT, or the engine's RangeError, if the memory cannot be allocated
 */
export function encodeIntoPlaces(length: number): [Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>] {
  const kernel = kernelOf(encodeModule.instantiate());
  const first = Math.ceil(kernel.layOut(MAX_BLOCK, 0).chunk / PAGE) * PAGE;
  const pitch = Math.ceil((length + SLACK) / PAGE) * PAGE;
  kernel.memory.reserve(first + 2 * pitch);
  const { buffer } = kernel.memory.bytes;
  owners.set(buffer, kernel);
  return [new Uint8Array(buffer, first, length), new Uint8Array(buffer, first + pitch, length)];
}

/**
 * Calls `use` with a kernel. If `out` has at least `length` bytes and is in a kernel's memory, that kernel
 * and the address of `out`; else any kernel and undefined.
 */
export function withKernelAt<T>(
  out: Uint8Array | undefined,
  length: number,
  blocksize: number,
  use: (kernel: EncodeKernel, at?: number) => T,
): T {
  const owner = out === undefined || out.length < length ? undefined : owners.get(out.buffer);
  if (out === undefined || owner === undefined || blocksize > MAX_BLOCK) return withEncodeKernel(use);
  // Taken, so that a nested call gets another instance.
  owners.delete(out.buffer);
  try {
    return use(owner, out.byteOffset);
  } finally {
    owners.set(out.buffer, owner);
  }
}

// Encodes one block in the kernel's memory: filters it, and writes its streams, each after its length.

/** Filters the block at `layout.block`. Returns the address of the result. */
export function filterBlock(
  length: number,
  settings: EncodeSettings,
  kernel: EncodeKernel,
  layout: EncodeLayout,
): number {
  const { shuffle, typesize } = settings;
  if (shuffle === "shuffle" && typesize > 1) {
    kernel.calls.shuffle(layout.block, layout.filtered, length, typesize);
    return layout.filtered;
  }
  // c-blosc does not filter a last block that is shorter than an element.
  if (shuffle === "bitshuffle" && length >= typesize) {
    kernel.calls.bitshuffle(layout.block, layout.filtered, length, typesize);
    return layout.filtered;
  }
  return layout.block;
}

/** Bytes that are shuffled at a time while they are loaded, so that they are still in the processor's first-level cache. */
const WINDOW = 32 << 10;

/** Copies a block of data into the kernel's memory and filters it. Returns the address of the result. */
export function loadBlock(
  data: Uint8Array,
  settings: EncodeSettings,
  kernel: EncodeKernel,
  layout: EncodeLayout,
): number {
  const { bytes } = kernel.memory;
  const { shuffle, typesize } = settings;
  const { length } = data;
  if (shuffle !== "shuffle" || typesize === 1 || length <= WINDOW) {
    bytes.set(data, layout.block);
    return filterBlock(length, settings, kernel, layout);
  }
  const count = Math.floor(length / typesize);
  const most = Math.floor(WINDOW / typesize);
  for (let first = 0; first < count; first += most) {
    const n = Math.min(most, count - first);
    bytes.set(data.subarray(first * typesize, (first + n) * typesize), layout.block);
    kernel.calls.spreadElements(layout.block, n, layout.filtered + first, count, typesize);
  }
  // Bytes after the last whole element are not filtered.
  bytes.set(data.subarray(count * typesize), layout.filtered + count * typesize);
  return layout.filtered;
}

/**
 * A stream that would save less than a hundredth is stored: decoding it takes several times as long as copying it, and most of such
 * streams are noise. Chunks thus become at most 1 % longer.
 */
const WORTH = 0.99;

/** Result if the streams do not fit in the target. */
export const FULL = -1 as const;

/** The filtered streams of a block: `count` streams of `length` bytes each, one after the other from address `source`. */
export interface FilteredStreams {
  readonly source: number;
  readonly length: number;
  readonly count: number;
}

/** Where a part of a chunk goes: from `at` on in `out`, and not beyond `end`. */
export interface KernelTarget {
  readonly out: Uint8Array;
  readonly at: number;
  readonly end: number;
}

/**
 * Writes the streams of a block, each after its length. `out` may be the kernel's memory or any other.
 * Returns the offset after the block, or FULL.
 */
export function putStreams(
  { source, length, count }: FilteredStreams,
  { out, at, end }: KernelTarget,
  encodeStream: StreamEncoder,
  kernel: EncodeKernel,
  layout: EncodeLayout,
): number {
  const { bytes } = kernel.memory;
  const isHere = out.buffer === bytes.buffer;
  let to = at;
  for (let i = 0; i < count; i++) {
    const stream = source + i * length;
    to += 4;
    if (to >= end) return FULL;
    const room = Math.min(Math.floor(WORTH * length), end - to);
    const place = isHere ? out.byteOffset + to : layout.chunk;
    let written = encodeStream(stream, length, place, room);
    // A reader takes a stream of full length for a stored one.
    const isStored = written <= 0;
    if (isStored) {
      if (length > end - to) return FULL;
      written = length;
    }
    const from = isStored ? stream : place;
    if (isStored || !isHere) out.set(bytes.subarray(from, from + written), to);
    putUint32(out, to - 4, written);
    to += written;
  }
  return to;
}

export function putUint32(out: Uint8Array, at: number, value: number): void {
  out[at] = value;
  out[at + 1] = value >>> 8;
  out[at + 2] = value >>> 16;
  out[at + 3] = value >>> 24;
}

// Chooses the encoder and its level for the streams of a chunk. Must not know how a chunk is put together.

/** zstd's highest level; c-blosc uses it by name. */
const MAX_LEVEL = 22;

/** The zstd levels of c-blosc 1.21 for Blosc's levels 1 to 9: 1, 3, 5, … 13, 20, 22. */
function zstdLevel(clevel: number): number {
  if (clevel === 9) return MAX_LEVEL;
  return clevel === 8 ? MAX_LEVEL - 2 : 2 * clevel - 1;
}

/**
 * Compresses a stream from one address of the kernels' memory to another. Returns the bytes written; negative
 * if they do not fit.
 */
export type StreamEncoder = (src: number, srcLength: number, dst: number, dstLength: number) => number;

/**
 * Added to the level, says to the blosclz kernel that a block has several streams. @see
 * src/kernels/assembly/encode-blosclz.ts
 */
const BLOSCLZ_SPLIT = 0x100;

/**
 * The encoder of a chunk's compressor at its level of 1 to 9, working in `kernel`'s memory.
 *
 * @throws UNSUPPORTED if the compressor's library is not loaded
 */
export function streamEncoder(
  { cname, clevel, split }: EncodeSettings,
  kernel: EncodeKernel,
  layout: EncodeLayout,
): StreamEncoder {
  if (cname === "zstd") {
    const { bytes } = kernel.memory;
    const library = zstdLibrary();
    const level = zstdLevel(clevel);
    return (src, srcLength, dst, dstLength) =>
      library.compress(bytes.subarray(src, src + srcLength), bytes.subarray(dst, dst + dstLength), level);
  }
  const [call, level] = streamKernelOf(cname, clevel, split, kernel);
  return (src, srcLength, dst, dstLength) => call(src, srcLength, dst, dstLength, level, layout.work);
}

/** The kernel, and the level that c-blosc 1.21 derives for it. */
function streamKernelOf(
  cname: Exclude<CompressorName, "zstd">,
  clevel: number,
  split: boolean,
  { calls }: EncodeKernel,
): [StreamEncodeKernel, number] {
  switch (cname) {
    case "lz4":
      return [calls.encodeLz4, 10 - clevel];
    case "lz4hc":
      return [calls.encodeLz4hc, clevel];
    case "blosclz":
      return [calls.encodeBlosclz, clevel | (split ? BLOSCLZ_SPLIT : 0)];
    case "snappy":
      return [calls.encodeSnappy, 0];
    case "zlib":
      return [calls.encodeZlib, clevel];
  }
}
