/** The instance of the encoding kernels, and the layout of its memory. Must not know headers. */
import { SuperchunkError } from "../../errors.ts";
import { hex } from "../../kernels/generated/encode-kernels.ts";
import { align, HOST_BASE, KernelMemory, KernelModule, SLACK } from "../kernel-module.ts";

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
let preparing: Promise<void> | undefined;

/** Compiles the kernels and makes an instance without blocking, once. */
export function prepareEncodeKernels(): Promise<void> {
  preparing ??= encodeModule.instantiateAsync().then(
    (instance) => {
      idle ??= kernelOf(instance);
    },
    (error) => {
      preparing = undefined;
      throw error;
    },
  );
  return preparing;
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

/** A kernel for one caller alone. */
function ownEncodeKernel(): EncodeKernel {
  return kernelOf(encodeModule.instantiate());
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
export function encodePlaces(length: number): [Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>] {
  const kernel = ownEncodeKernel();
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
