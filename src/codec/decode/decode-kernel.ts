/** One instance of the decoding kernels, and a small pool of them. Knows the kernels' calls; must not know headers. */
import { hex } from "../../kernels/generated/decode-kernels.ts";
import { KernelMemory, KernelModule } from "../kernel-module.ts";
import type { CompressorName } from "../types.ts";

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

let preparing: Promise<void> | undefined;

/** Compiles the kernels and makes a first instance without blocking. */
function prepareDecodeKernels(): Promise<void> {
  preparing ??= decodeModule.instantiateAsync().then(
    (instance) => {
      if (idle.length === 0) idle.push(kernelOf(instance));
    },
    (error) => {
      preparing = undefined;
      throw error;
    },
  );
  return preparing;
}

/** True if an instance can be made without compiling first. */
function areDecodeKernelsCompiled(): boolean {
  return decodeModule.isCompiled;
}

/** Takes an instance. It is the caller's until {@link giveBackKernel}. */
export function takeKernel(): DecodeKernel {
  return idle.pop() ?? kernelOf(decodeModule.instantiate());
}

/** Gives an instance back. Views of its memory must not be used after that. */
export function giveBackKernel(kernel: DecodeKernel): void {
  if (idle.length < MAX_IDLE && kernel.memory.length <= MAX_IDLE_MEMORY) idle.push(kernel);
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
  return areDecodeKernelsCompiled();
}

/**
 * Compiles the kernels that decode the compressor's chunks. Later calls are cheap.
 *
 * Synchronous calls compile on demand, which the main thread of some browsers refuses.
 */
export function prepare(_compressor: CompressorName): Promise<void> {
  return prepareDecodeKernels();
}
