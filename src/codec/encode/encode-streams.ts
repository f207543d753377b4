/**
 * Which encoder compresses the streams of a chunk, and with what level. Must not know how a chunk is put together.
 */
import { SuperchunkError } from "../../errors.ts";
import type { CompressorName } from "../types.ts";
import { deflaterOf } from "./deflaters.ts";
import type { EncodeKernel, EncodeLayout, StreamEncodeKernel } from "./encode-kernel.ts";
import type { EncodeSettings } from "./encode-settings.ts";

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
