/**
 * Memory of a kernel in which chunks are encoded where they are to lie, so that no copy is needed.
 * Must not know what it is for.
 */

import { SLACK } from "../kernel-module.ts";
import { type EncodeKernel, ownEncodeKernel, withEncodeKernel } from "./encode-kernel.ts";

/** Chunks with larger blocks are copied to their place as ever. Bytes. */
const MAX_BLOCK = 4 << 20;
const PAGE = 65_536;

const owners = new WeakMap<ArrayBufferLike, EncodeKernel>();

/**
 * Two places of `length` bytes that begin at multiples of 64 KiB. Where `encodeInto` is given such memory, at least 16
 * bytes more than the data, it makes the chunk right there; it may touch what lies behind the chunk then, up to 64 bytes
 * behind `out`.
 *
 * @throws LIMIT, or the engine's RangeError, where there is no such memory
 */
export function encodePlaces(length: number): [Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>] {
  const kernel = ownEncodeKernel();
  const first = Math.ceil(kernel.layOut(MAX_BLOCK, 0).chunk / PAGE) * PAGE;
  const pitch = Math.ceil((length + SLACK) / PAGE) * PAGE;
  kernel.memory.reserve(first + 2 * pitch);
  const { buffer } = kernel.memory.bytes;
  owners.set(buffer, kernel);
  return [new Uint8Array(buffer, first, length), new Uint8Array(buffer, first + pitch, length)];
}

/**
 * Calls `use` with a kernel: the one in whose memory `out` lies, and where that is, if `out` has `length` bytes or more; else
 * any one, and undefined.
 */
export function withKernelAt<T>(
  out: Uint8Array | undefined,
  length: number,
  blocksize: number,
  use: (kernel: EncodeKernel, at?: number) => T,
): T {
  const owner = out === undefined || out.length < length ? undefined : owners.get(out.buffer);
  if (out === undefined || owner === undefined || blocksize > MAX_BLOCK) return withEncodeKernel(use);
  // Taken, so that a call from within a call gets another one.
  owners.delete(out.buffer);
  try {
    return use(owner, out.byteOffset);
  } finally {
    owners.set(out.buffer, owner);
  }
}
