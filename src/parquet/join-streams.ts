/**
 * Joins consecutive compressed streams to one without decompressing them: only the seams are rewritten.
 *
 * lz4: the last literals of a stream and the first ones of the next become one run with a new token. zstd: frames follow one
 * another. snappy: the lengths before the streams are dropped, and the total length is put first. Stored bytes become
 * literals. Knows streams; must not know Blosc or Parquet. @see docs/parquet-format.md [PS]
 */

import { at, joinBytes } from "../bytes/arrays.ts";
import { SuperchunkError } from "../errors.ts";

/** Compressors whose streams can be joined. */
export type JoinableCodec = "lz4" | "zstd" | "snappy";

/** Bytes that follow those of the previous piece. */
export interface StreamPiece {
  readonly bytes: Uint8Array;
  /** True for bytes that are not compressed. */
  readonly stored: boolean;
  /** Decoded bytes. */
  readonly length: number;
}

/** Returns memory, not cleared. */
export type TakeRoom = (length: number) => Uint8Array;

export const takeNew: TakeRoom = (length) => new Uint8Array(length);

/**
 * Returns one stream with the data of all pieces, in order.
 *
 * @param take returns memory for the stream; default: new memory
 * @param lastSequences where the last sequence of each lz4 stream begins; default: they are looked for
 * @throws BAD_CHUNK if a stream's own lengths contradict one another. Distances of matches are not checked.
 */
export function joinStreams(
  codec: JoinableCodec,
  pieces: readonly StreamPiece[],
  take: TakeRoom = takeNew,
  lastSequences?: Iterator<number>,
): Uint8Array {
  const [first] = pieces;
  if (first !== undefined && pieces.length === 1 && !first.stored) return joinBytes([first.bytes], take);
  if (codec === "lz4") return joinLz4(pieces, take, lastSequences);
  return joinBytes(codec === "zstd" ? pieces.map(zstdFrame) : snappyParts(pieces), take);
}

/** Where the literals of the sequence at `token` begin, and their number. */
function literalsAt(bytes: Uint8Array, token: number): readonly [from: number, length: number] {
  let from = token + 1;
  let length = at(bytes, token) >> 4;
  for (let more = length === 15 ? 255 : 0; more === 255; length += more) more = at(bytes, from++);
  return [from, length];
}

/** Where the last sequence of an lz4 stream begins, which has only literals. */
function findLastSequence(bytes: Uint8Array, length: number): number {
  const end = bytes.length;
  let [from, decoded] = [0, 0];
  while (from < end) {
    const start = from;
    const token = bytes[from++] as number;
    let literals = token >> 4;
    if (literals === 15) {
      // A truncated length needs no check here: then the sum is wrong, or the walk passes the end.
      let more = 255;
      while (more === 255 && from < end) {
        more = bytes[from++] as number;
        literals += more;
      }
    }
    from += literals;
    decoded += literals;
    if (from >= end) {
      if (from === end && decoded === length) return start;
      break;
    }
    from += 2;
    decoded += (token & 15) + 4;
    if ((token & 15) === 15) {
      let more = 255;
      while (more === 255 && from < end) {
        more = bytes[from++] as number;
        decoded += more;
      }
    }
  }
  throw new SuperchunkError(
    "BAD_CHUNK",
    `an lz4 stream of ${end} bytes does not decode to ${length} bytes; the chunk is damaged`,
    { field: "stream", expected: length, found: decoded },
  );
}

function joinLz4(pieces: readonly StreamPiece[], take: TakeRoom, lasts?: Iterator<number>): Uint8Array {
  const total = pieces.reduce((sum, { bytes }) => sum + bytes.length, 0);
  // Each seam adds a token and a length byte; the further length bytes add at most 1/255 of the literals.
  const out = take(total + Math.ceil(total / 255) + 8 * pieces.length + 8);
  let to = 0;
  let pending: Uint8Array[] = [];
  const begin = (literals: Uint8Array, match: number): void => {
    pending.push(literals);
    const length = pending.reduce((sum, part) => sum + part.length, 0);
    out[to++] = (Math.min(length, 15) << 4) | match;
    if (length >= 15) {
      let rest = length - 15;
      for (; rest >= 255; rest -= 255) out[to++] = 255;
      out[to++] = rest;
    }
    for (const part of pending) {
      out.set(part, to);
      to += part.length;
    }
    pending = [];
  };
  for (const { bytes, stored, length } of pieces) {
    if (stored) {
      pending.push(bytes);
      continue;
    }
    const last: number = lasts?.next().value ?? findLastSequence(bytes, length);
    if (last > 0) {
      const [first, firstLength] = literalsAt(bytes, 0);
      begin(bytes.subarray(first, first + firstLength), at(bytes, 0) & 15);
      out.set(bytes.subarray(first + firstLength, last), to);
      to += last - first - firstLength;
    }
    pending.push(bytes.subarray(literalsAt(bytes, last)[0]));
  }
  begin(new Uint8Array(0), 0);
  return out.subarray(0, to);
}

const ZSTD_BLOCK = 131_072;

/** The frame itself, or a new frame of stored blocks. */
function zstdFrame({ bytes, stored }: StreamPiece): Uint8Array {
  if (!stored) return bytes;
  const blocks = Math.max(1, Math.ceil(bytes.length / ZSTD_BLOCK));
  const out = new Uint8Array(9 + 3 * blocks + bytes.length);
  const view = new DataView(out.buffer);
  view.setUint32(0, 0xfd2f_b528, true);
  // A single segment, with its size in four bytes.
  out[4] = 0xa0;
  view.setUint32(5, bytes.length, true);
  let to = 9;
  for (let block = 0; block < blocks; block++) {
    const part = bytes.subarray(block * ZSTD_BLOCK, (block + 1) * ZSTD_BLOCK);
    const head = (part.length << 3) | (block === blocks - 1 ? 1 : 0);
    view.setUint16(to, head & 0xffff, true);
    out[to + 2] = head >> 16;
    out.set(part, to + 3);
    to += 3 + part.length;
  }
  return out;
}

/** A number below 2^53, seven bits at a time, the lowest first. */
export function varint(value: number): number[] {
  const out: number[] = [];
  let rest = value;
  for (; rest >= 128; rest = Math.floor(rest / 128)) out.push((rest % 128) | 128);
  return [...out, rest];
}

/** The total length, and the streams without their own. */
function snappyParts(pieces: readonly StreamPiece[]): Uint8Array[] {
  const total = pieces.reduce((sum, { length }) => sum + length, 0);
  const parts: Uint8Array[] = [Uint8Array.from(varint(total))];
  for (const { bytes, stored, length } of pieces) {
    if (!stored) {
      let from = 0;
      while (at(bytes, from) >= 128) from++;
      parts.push(bytes.subarray(from + 1));
    } else if (length > 0) {
      // A literal of any length: the tag says that its length less one follows in four bytes.
      const head = new Uint8Array(5);
      head[0] = 63 << 2;
      new DataView(head.buffer).setUint32(1, length - 1, true);
      parts.push(head, bytes);
    }
  }
  return parts;
}
