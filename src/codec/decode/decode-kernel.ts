/**
 * One instance of the decoding kernels, and a small pool of them. Knows the kernels' calls; must not know headers.
 */
import { hex } from "../../kernels/generated/decode-kernels.ts";
import { KernelMemory, KernelModule } from "../kernel-module.ts";
import type { CompressorName } from "../types.ts";

/**
 * A kernel that decodes a stream: bytes written, or a negative error. All numbers are addresses and lengths. Those of the LZ
 * compressors stop once `need` bytes are there, without looking at the rest.
 */
export type StreamKernel = (
  src: number,
  srcLength: number,
  dst: number,
  dstLength: number,
  need: number,
) => number;

/** A `need` that no stream reaches: all of it is decoded and checked. */
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
  /** Decodes a deflate stream, whatever follows it. */
  readonly decodeDeflate: (src: number, srcLength: number, dst: number, dstLength: number) => number;
  /** Address behind the last stream that `decodeDeflate` decoded. */
  readonly deflateEnd: () => number;
  readonly unshuffle: FilterKernel;
  readonly bitunshuffle: FilterKernel;
  /** The same where the block's streams lie anywhere: `src` is then the table of their addresses. */
  readonly unshuffleStreams: FilterKernel;
  readonly bitunshuffleStreams: FilterKernel;
  /** `count` elements from element `first` on, of streams that lie anywhere. */
  readonly unshufflePart: (
    streams: number,
    first: number,
    count: number,
    dst: number,
    typesize: number,
  ) => void;
  /** Puts together some elements of a shuffled block: `pitch` is how far its streams are apart. */
  readonly unshuffleRows: (src: number, pitch: number, count: number, dst: number, typesize: number) => void;
  /** Where there is room for the addresses of a block's streams, 32 bits each. */
  readonly streamTable: () => number;
  readonly hostBase: () => number;
}

/** Kernels together with their memory. Serves one call at a time. */
export class DecodeKernel {
  readonly calls: DecodeKernels;
  readonly memory: KernelMemory;
  /** Address from which on the memory is the host's. */
  readonly base: number;
  /** Address of the table that the filters of scattered streams take. */
  readonly streams: number;

  constructor(calls: DecodeKernels) {
    this.calls = calls;
    this.memory = new KernelMemory(calls.memory);
    this.base = calls.hostBase();
    this.streams = calls.streamTable();
  }
}

/** Instances kept for the next call. More at once are made, and dropped when they are given back. */
const MAX_IDLE = 4;
/** WebAssembly memory cannot shrink: an instance that grew beyond this is not kept. Bytes. */
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

/** True where an instance can be made without compiling first. */
function areDecodeKernelsCompiled(): boolean {
  return decodeModule.isCompiled;
}

/** An instance that is the caller's own until it is given back. */
export function takeKernel(): DecodeKernel {
  return idle.pop() ?? kernelOf(decodeModule.instantiate());
}

/** Gives an instance back. Views of its memory must not be used any more. */
export function giveBackKernel(kernel: DecodeKernel): void {
  if (idle.length < MAX_IDLE && kernel.memory.length <= MAX_IDLE_MEMORY) idle.push(kernel);
}

function kernelOf(instance: WebAssembly.Instance): DecodeKernel {
  return new DecodeKernel(instance.exports as unknown as DecodeKernels);
}

/**
 * True where {@link decodeSync} and its like decode chunks of the compressor without compiling anything first.
 *
 * All compressors are decoded by kernels in one module today; the question names one, so that this may change.
 */
export function isReady(_compressor: CompressorName): boolean {
  return areDecodeKernelsCompiled();
}

/**
 * Compiles the kernels that decode the compressor's chunks. Later calls are cheap.
 *
 * Synchronous calls compile by themselves when they must; the main thread of some browsers refuses that.
 */
export function prepare(_compressor: CompressorName): Promise<void> {
  return prepareDecodeKernels();
}
