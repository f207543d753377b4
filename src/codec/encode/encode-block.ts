/**
 * Encodes one block that lies in the encoding kernel's memory: filters it, and writes its streams behind their lengths.
 * Must not know headers.
 */
import type { EncodeKernel, EncodeLayout } from "./encode-kernel.ts";
import type { EncodeSettings } from "./encode-settings.ts";
import type { StreamEncoder } from "./encode-streams.ts";

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

/** Writes the streams of a block, each behind its length; returns where the chunk goes on, or FULL. */
export function putStreams(
  source: number,
  length: number,
  nstreams: number,
  start: number,
  end: number,
  encodeStream: StreamEncoder,
  kernel: EncodeKernel,
): number {
  const { bytes, view } = kernel.memory;
  let at = start;
  for (let i = 0; i < nstreams; i++) {
    const stream = source + i * length;
    at += 4;
    const room = Math.min(length, end - at);
    if (room <= 0) return FULL;
    let written = encodeStream(stream, length, at, room);
    // A stream of its full length is read as a stored one.
    if (written <= 0 || written >= length) {
      if (length > end - at) return FULL;
      bytes.copyWithin(at, stream, stream + length);
      written = length;
    }
    view.setUint32(at - 4, written, true);
    at += written;
  }
  return at;
}
