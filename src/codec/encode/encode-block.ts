/**
 * Encodes one block in the encoding kernel's memory: filters it, and writes its streams, each after its
 * length. Must not know headers.
 */

import { SuperchunkError } from "../../errors.ts";
import type { CompressorName } from "../types.ts";
import type { EncodeKernel, EncodeLayout, StreamEncodeKernel } from "./encode-kernel.ts";
import type { EncodeSettings } from "./encode-settings.ts";

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

/** Result if the streams do not fit in the target. */
export const FULL = -1 as const;

/** The filtered streams of a block: `count` streams of `length` bytes each, one after the other from address `source`. */
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

/**
 * Writes the streams of a block, each after its length. `out` may be the kernel's memory or any other.
 * Returns the offset after the block, or FULL.
 */
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
    // A reader takes a stream of full length for a stored one.
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

export function putUint32(out: Uint8Array, at: number, value: number): void {
  out[at] = value;
  out[at + 1] = value >>> 8;
  out[at + 2] = value >>> 16;
  out[at + 3] = value >>> 24;
}

// Chooses the encoder and its level for the streams of a chunk. Must not know how a chunk is put together.

// Encoders of streams that are libraries, not kernels. Knows their names; must not know chunks.

/** An encoder of one compressor's streams. */
export interface Deflater {
  /** Library and version or origin, for messages. */
  readonly name: string;
  /**
   * Encodes `src` into `dst`. Returns the bytes written, or -1 if they would be more than `dst.length`.
   *
   * @param clevel Blosc's level, 1 to 9
   */
  deflate(src: Uint8Array, dst: Uint8Array, clevel: number): number;
}

const deflaters = new Map<CompressorName, Deflater>();

/** Makes `deflater` the encoder of the compressor's streams. It is preferred to the built-in kernel. */
export function registerDeflater(cname: CompressorName, deflater: Deflater): void {
  deflaters.set(cname, deflater);
}

export function deflaterOf(cname: CompressorName): Deflater | undefined {
  return deflaters.get(cname);
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
  const deflater = deflaterOf(cname);
  if (deflater !== undefined) {
    const { bytes } = kernel.memory;
    return (src, srcLength, dst, dstLength) =>
      deflater.deflate(bytes.subarray(src, src + srcLength), bytes.subarray(dst, dst + dstLength), clevel);
  }
  const [call, level] = kernelOf(cname, clevel, split, kernel);
  return (src, srcLength, dst, dstLength) => call(src, srcLength, dst, dstLength, level, layout.work);
}

/** The kernel, and the level that c-blosc 1.21 derives for it. */
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
