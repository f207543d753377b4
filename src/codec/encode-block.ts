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
