/**
 * Where threads write the chunks that they decode: into the caller's result, if its memory is open to them. Knows memory;
 * must not know jobs.
 */

import type { PlacedChunk } from "../../archive/places/sequence.ts";
import type { DecodeRun } from "../../archive/read/chunk-decoder.ts";
import { borrowMemory, type LentMemory, lendMemory } from "./result-memory.ts";

/** Places in memory that a thread can write into, one for each chunk. */
export interface DirectTargets {
  readonly memory: SharedArrayBuffer | LentMemory;
  /** Offset in the memory, and length of each, in bytes. */
  readonly places: Float64Array;
}

/** The targets of some chunks, and the buffer that they are in. */
export interface TargetsInBuffer {
  readonly targets: DirectTargets;
  readonly buffer: ArrayBufferLike;
}

/** Where the chunks go, if all go into the same memory and threads can write there. */
export function directTargets(places: readonly PlacedChunk[], run: DecodeRun): TargetsInBuffer | undefined {
  if (run.target === undefined || run.own === true) return undefined;
  const numbers: number[] = [];
  let buffer: ArrayBufferLike | undefined;
  let first = Number.POSITIVE_INFINITY;
  let end = 0;
  for (const place of places) {
    const target = run.target(place);
    if (target === undefined || target.length !== place.nbytes) return undefined;
    buffer ??= target.buffer;
    if (target.buffer !== buffer) return undefined;
    first = Math.min(first, target.byteOffset);
    end = Math.max(end, target.byteOffset + target.length);
    numbers.push(target.byteOffset, target.length);
  }
  if (buffer === undefined) return undefined;
  const memory = buffer instanceof SharedArrayBuffer ? buffer : lendMemory(buffer, first, end - first);
  if (memory === undefined) return undefined;
  const base = memory === buffer ? 0 : first;
  const offsets = Float64Array.from(numbers, (number, i) => (i % 2 === 0 ? number - base : number));
  return { targets: { memory, places: offsets }, buffer };
}

/** In the thread: gives the place of one chunk after the other; undefined where the memory cannot be had there. */
export async function openTargets({
  memory,
  places,
}: DirectTargets): Promise<(() => Uint8Array) | undefined> {
  const buffer = "address" in memory ? await borrowMemory(memory) : memory;
  if (buffer === undefined) return undefined;
  let k = 0;
  return () => {
    const [start = 0, length = 0] = places.subarray(k, k + 2);
    k += 2;
    return new Uint8Array(buffer, start, length);
  };
}
