/**
 * Finds single bytes of an lz4 stream without decoding it: its sequences are walked without copying, and a byte that a
 * match gives is followed back to the literal that it comes from. In a stream that hardly compresses there are few
 * sequences, and the bytes before the wanted one need not even be read.
 *
 * Must not judge: where anything is unusual, or the walk gets long, the kernel decodes instead.
 * @see FORMAT.md [FB]
 */
import type { BlockBytes } from "./block-bytes.ts";

/** Sequences that are walked at most; decoding is faster than a longer walk. */
const MAX_SEQUENCES = 1024;
/** Bytes that are asked for around a sequence: its token, and run lengths of up to 64 kB. */
const WINDOW = 320;

const outStarts = new Uint32Array(MAX_SEQUENCES + 1);
const literalStarts = new Uint32Array(MAX_SEQUENCES + 1);
const literalLengths = new Uint32Array(MAX_SEQUENCES + 1);
const distances = new Uint32Array(MAX_SEQUENCES + 1);

/**
 * Writes decoded bytes `from` to `from + out.length` of the stream at `start` of a block, `length` bytes long, to `out`.
 *
 * @returns false where the kernel should decode instead; `out` may then hold anything
 */
export function lookUpLz4(
  block: BlockBytes,
  start: number,
  length: number,
  from: number,
  out: Uint8Array,
): boolean {
  const end = start + length;
  const count = walk(block, start, end, from + out.length);
  if (count === 0) return false;
  let bytes: Uint8Array = NOTHING;
  let base = 0;
  for (let i = 0; i < out.length; i++) {
    const at = sourceOf(from + i, count);
    if (at >= end) return false;
    if (at < base || at >= base + bytes.length) {
      bytes = block.read(at, Math.min(out.length, end - at));
      base = at;
    }
    out[i] = bytes[at - base] as number;
  }
  return true;
}

const NOTHING = new Uint8Array(0);
/** Stands for a byte behind the stream: a length that leads out of it. (An integer, so that all sums stay integers.) */
const BEYOND = 1 << 28;

/**
 * Notes the sequences until `need` bytes would be decoded; how many there are, or 0.
 *
 * One loop over local variables: a call for each byte would cost more than the kernel's decoding.
 */
function walk(block: BlockBytes, start: number, end: number, need: number): number {
  let bytes: Uint8Array = NOTHING;
  let base = start;
  let at = start;
  let decoded = 0;
  for (let i = 0; i < MAX_SEQUENCES; i++) {
    if (at + WINDOW > base + bytes.length && base + bytes.length < end) {
      if (at >= end) return 0;
      bytes = block.read(at, Math.min(WINDOW, end - at));
      base = at;
    }
    const token = bytes[at++ - base] ?? BEYOND;
    let literals = token >>> 4;
    if (literals === 15) {
      let byte = 255;
      while (byte === 255) {
        byte = bytes[at++ - base] ?? BEYOND;
        literals += byte;
      }
    }
    outStarts[i] = decoded;
    literalStarts[i] = at;
    literalLengths[i] = literals;
    decoded += literals;
    at += literals;
    if (!(at <= end)) return 0;
    if (decoded >= need) return i + 1;
    if (at + WINDOW > base + bytes.length && base + bytes.length < end) {
      bytes = block.read(at, Math.min(WINDOW, end - at));
      base = at;
    }
    const distance = (bytes[at - base] as number) | ((bytes[at + 1 - base] as number) << 8);
    at += 2;
    if (distance === 0 || distance > decoded) return 0;
    distances[i] = distance;
    let match = token & 15;
    if (match === 15) {
      let byte = 255;
      while (byte === 255) {
        byte = bytes[at++ - base] ?? BEYOND;
        match += byte;
      }
    }
    decoded += match + 4;
    if (!(at <= end)) return 0;
    if (decoded >= need) return i + 1;
  }
  return 0;
}

/** Where the literal that decoded byte `index` is a copy of lies in the block. */
function sourceOf(index: number, count: number): number {
  let wanted = index;
  for (let i = count - 1; ; i--) {
    while ((outStarts[i] as number) > wanted) i--;
    const inSequence = wanted - (outStarts[i] as number);
    const literals = literalLengths[i] as number;
    if (inSequence < literals) return (literalStarts[i] as number) + inSequence;
    const distance = distances[i] as number;
    // A match may overlap itself; its bytes then repeat every `distance`.
    wanted = (outStarts[i] as number) + literals - distance + ((inSequence - literals) % distance);
    if (wanted >= (outStarts[i] as number)) i++;
  }
}
