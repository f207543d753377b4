/**
 * What must be compiled before synchronous calls. Knows the decoding kernels.
 */
import { areDecodeKernelsCompiled, prepareDecodeKernels } from "./decode/decode-kernel.ts";
import type { CompressorName } from "./types.ts";

/**
 * True where {@link decodeSync} and its like decode chunks of the compressor without compiling anything first.
 *
 * All compressors are decoded by kernels in one module today; the question names one, so that this may change.
 */
export function isReady(_compressor: CompressorName): boolean {
  return areDecodeKernelsCompiled();
}

/**
 * Compiles what decoding the compressor's chunks needs; done once, cheap afterwards.
 *
 * Synchronous calls compile by themselves where they must, which the main thread of some browsers refuses.
 */
export function prepare(_compressor: CompressorName): Promise<void> {
  return prepareDecodeKernels();
}
