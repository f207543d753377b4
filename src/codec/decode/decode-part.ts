/**
 * Decodes a small part of one large block: c-blosc's automatic blocks hold up to 2 MiB, of which a reader of single
 * elements wants a few bytes. Knows where these lie in the block's streams, so that every stream is decoded only as far as
 * the last of them, and nothing is unfiltered but them. Must not judge: where anything is unusual, the whole block is decoded.
 */

import { blockLength } from "../header.ts";
import { SLACK } from "../kernel-module.ts";
import type { ChunkHeader } from "../types.ts";
import type { BlockBytes } from "./block-bytes.ts";
import { streamKernelOf } from "./decode-block.ts";
import type { DecodeKernel } from "./decode-kernel.ts";
import { lookUpLz4 } from "./lz4-lookup.ts";

/** Blocks below this are not worth it. Bytes. */
const MIN_BLOCK = 1024;

/** More bytes of a stream than this are decoded, not looked up one by one. */
const MAX_LOOKED_UP = 64;

/** A block and the bytes of it that are wanted. */
export interface BlockPart {
  readonly block: number;
  /** First byte wanted and one past the last, in the decoded block. */
  readonly from: number;
  readonly to: number;
}

/**
 * Decodes the part to `out` from `bytes`, the compressed block.
 *
 * @returns false where this is not possible, or no gain; `out` is then as it was
 */
export function decodePart(
  kernel: DecodeKernel,
  header: ChunkHeader,
  bytes: BlockBytes,
  part: BlockPart,
  out: Uint8Array,
): boolean {
  const layout = layOut(header, part);
  if (layout === undefined) return false;
  const { nsplits, need, pitch } = layout;
  const streamLength = blockLength(header, part.block) / nsplits;
  const { memory, calls } = kernel;
  // The streams' beginnings, one behind the other, then what is put together of them, then one stream's compressed bytes.
  const target = kernel.base + nsplits * pitch + streamLength + SLACK;
  const input = target + (part.to - part.from) + 2 * header.typesize + SLACK;
  memory.reserve(input + Math.min(bytes.length, maxInput(need)) + SLACK);
  const decodeStream = streamKernelOf(kernel, header.compressor);
  const first = Math.floor(part.from / nsplits);
  let at = 0;
  for (let i = 0; i < nsplits; i++) {
    const room = bytes.length - at - 4;
    const compressed = room < 0 ? -1 : readLength(bytes, at);
    if (compressed < 0 || compressed > room) return false;
    at += 4;
    const to = kernel.base + i * pitch;
    const wanted = memory.bytes.subarray(to + first, to + need);
    if (compressed === streamLength) {
      // A stored stream needs nothing before the wanted bytes.
      wanted.set(bytes.read(at + first, wanted.length).subarray(0, wanted.length));
    } else if (!lookUp(header, bytes, at, compressed, first, wanted)) {
      const length = Math.min(compressed, maxInput(need));
      memory.bytes.set(bytes.read(at, length).subarray(0, length), input);
      if (decodeStream(input, length, to, streamLength, need) < need) return false;
    }
    at += compressed;
  }
  if (nsplits === 1) {
    const start = kernel.base + part.from;
    out.set(memory.bytes.subarray(start, start + part.to - part.from));
    return true;
  }
  calls.unshuffleRows(kernel.base + first, pitch, need - first, target, header.typesize);
  const start = target + part.from - first * header.typesize;
  out.set(memory.bytes.subarray(start, start + part.to - part.from));
  return true;
}

function readLength(bytes: BlockBytes, at: number): number {
  const word = bytes.read(at, 4);
  return new DataView(word.buffer, word.byteOffset, 4).getInt32(0, true);
}

function lookUp(
  header: ChunkHeader,
  bytes: BlockBytes,
  at: number,
  length: number,
  from: number,
  out: Uint8Array,
): boolean {
  return (
    header.compressor === "lz4" && out.length <= MAX_LOOKED_UP && lookUpLz4(bytes, at, length, from, out)
  );
}

/** How many streams the block has, how many bytes of each are needed, and how far apart they are put. */
function layOut(
  header: ChunkHeader,
  { block, from, to }: BlockPart,
): { readonly nsplits: number; readonly need: number; readonly pitch: number } | undefined {
  const { compressor, shuffle, typesize, split } = header;
  const length = blockLength(header, block);
  if (length < MIN_BLOCK || to - from > length >> 1) return undefined;
  // Kernels of the others do not stop early.
  if (compressor !== "lz4" && compressor !== "blosclz" && compressor !== "snappy") return undefined;
  const isSplit = split && length === header.blocksize && typesize > 1;
  const shuffled = shuffle === "shuffle" && typesize > 1;
  if (!isSplit && (shuffle === "noshuffle" || (shuffle === "shuffle" && typesize === 1))) {
    return { nsplits: 1, need: to, pitch: length };
  }
  if (!isSplit || !shuffled) return undefined;
  // Kernels write up to the slack past what is needed, where the next stream comes.
  return { nsplits: typesize, need: Math.ceil(to / typesize), pitch: length / typesize };
}

/**
 * Compressed bytes that hold `need` decoded ones in what encoders write: they do not make data longer but for a control
 * byte in 16 at most. Where they did, the kernel sees a cut stream.
 */
function maxInput(need: number): number {
  return need + (need >> 4) + 1024;
}
