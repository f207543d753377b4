/**
 * Which encoder compresses the streams of a chunk, and with what level. Must not know how a chunk is put together.
 */
import { SuperchunkError } from "../../errors.ts";
import type { CompressorName } from "../types.ts";
import type { EncodeKernel, EncodeLayout, StreamEncodeKernel } from "./encode-kernel.ts";
import type { EncodeSettings } from "./encode-settings.ts";

// Encoders of streams that are not kernels but libraries. Knows their names; must not know chunks.

/** An encoder of one compressor's streams. */
export interface Deflater {
  /** The library and its version or origin, for messages. */
  readonly name: string;
  /**
   * Encodes `src` into `dst`; the bytes written, or -1 where they would be more than `dst.length`.
   *
   * @param clevel Blosc's level, 1 to 9
   */
  deflate(src: Uint8Array, dst: Uint8Array, clevel: number): number;
}

const deflaters = new Map<CompressorName, Deflater>();

/** Makes `deflater` the encoder of the compressor's streams, before the built-in kernel if there is one. */
export function registerDeflater(cname: CompressorName, deflater: Deflater): void {
  deflaters.set(cname, deflater);
}

/** The registered encoder of the compressor's streams, if there is one. */
export function deflaterOf(cname: CompressorName): Deflater | undefined {
  return deflaters.get(cname);
}

/** Compresses a stream that lies in the kernels' memory to another place in it; the bytes written, negative where they do not fit. */
export type StreamEncoder = (src: number, srcLength: number, dst: number, dstLength: number) => number;

/** Tells the blosclz kernel that a block has several streams. @see src/kernels/assembly/encode-blosclz.ts */
const BLOSCLZ_SPLIT = 0x100;

/**
 * The encoder of a chunk's compressor at its level of 1 to 9, working in `kernel`'s memory.
 *
 * @throws UNSUPPORTED where the compressor's library is not loaded
 */
export function streamEncoder(
  { cname, clevel, split }: EncodeSettings,
  kernel: EncodeKernel,
  layout: EncodeLayout,
): StreamEncoder {
  const deflater = deflaterOf(cname);
  if (deflater !== undefined) {
    const { bytes } = kernel.memory;
    return (src, srcLength, dst, dstLength) =>
      deflater.deflate(bytes.subarray(src, src + srcLength), bytes.subarray(dst, dst + dstLength), clevel);
  }
  const [call, level] = kernelOf(cname, clevel, split, kernel);
  return (src, srcLength, dst, dstLength) => call(src, srcLength, dst, dstLength, level, layout.work);
}

/** The kernel and what c-blosc 1.21 makes of the level for it. */
function kernelOf(
  cname: CompressorName,
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
    default:
      throw new SuperchunkError(
        "UNSUPPORTED",
        `no encoder of ${cname} is loaded; await prepareEncode("${cname}") before encodeSync, or use encode.`,
        { field: "cname", found: cname },
      );
  }
}
