/**
 * Encodes one block that lies in the encoding kernel's memory: filters it, and writes its streams behind their lengths.
 * Must not know headers.
 */

import { SuperchunkError } from "../../errors.ts";
import type { CompressorName } from "../types.ts";
import type { EncodeKernel, EncodeLayout, StreamEncodeKernel } from "./encode-kernel.ts";
import type { EncodeSettings } from "./encode-settings.ts";

/** Filters the block that lies at `layout.block`, and tells where it lies then. */
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
  // c-blosc leaves a last block alone that is shorter than an element.
  if (shuffle === "bitshuffle" && length >= typesize) {
    kernel.calls.bitshuffle(layout.block, layout.filtered, length, typesize);
    return layout.filtered;
  }
  return layout.block;
}

/** Bytes that are shuffled at a time, as they come in: they are still in the nearest cache of the processor then. */
const WINDOW = 32 << 10;

/** Brings a block of data into the kernel's memory, filters it, and tells where it lies then. */
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
  // What is left behind the last whole element stays as it is.
  bytes.set(data.subarray(count * typesize), layout.filtered + count * typesize);
  return layout.filtered;
}

/** No place in a chunk: the blocks do not fit. */
export const FULL = -1 as const;

/** Filtered streams of a block: `count` of them, of `length` bytes each, from the address `source` on. */
export interface FilteredStreams {
  readonly source: number;
  readonly length: number;
  readonly count: number;
}

/** Where a part of a chunk goes: from `at` on in `out`, and not beyond `end`. */
export interface Target {
  readonly out: Uint8Array;
  readonly at: number;
  readonly end: number;
}

/** Writes the streams of a block, each after its length, whether `out` is the kernel's memory or not; returns where the chunk goes on, or FULL. */
export function putStreams(
  { source, length, count }: FilteredStreams,
  { out, at, end }: Target,
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
    const room = Math.min(length, end - to);
    if (room <= 0) return FULL;
    const place = isHere ? out.byteOffset + to : layout.chunk;
    let written = encodeStream(stream, length, place, room);
    // A stream of its full length is read as a stored one.
    const isStored = written <= 0 || written >= length;
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

/** Writes a number as four bytes, the lowest first. */
export function putUint32(out: Uint8Array, at: number, value: number): void {
  out[at] = value;
  out[at + 1] = value >>> 8;
  out[at + 2] = value >>> 16;
  out[at + 3] = value >>> 24;
}

// Which encoder compresses the streams of a chunk, and with what level. Must not know how a chunk is put together.

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
