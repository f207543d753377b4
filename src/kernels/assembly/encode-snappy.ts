// Snappy, without framing. https://github.com/google/snappy/blob/main/format_description.txt
import { copyWild, matchLength } from "./matches";

/** Matches do not reach out of pieces of this length, so that a position fits in 16 bits. */
const PIECE: usize = 65536;
const TABLE: usize = 16384;
const MAX_TABLE_BITS: u32 = 14;
/** No match starts in the last bytes of a piece. */
const TAIL: usize = 15;

// @ts-ignore: decorator
@inline
function slotOf(bytes: u32, bits: u32): usize {
  return TABLE + (<usize>((bytes * 0x1e35a7bd) >> (32 - bits)) << 1);
}

/** Compresses; returns the length, or -2. */
export function encodeSnappy(src: usize, srcLength: usize, dst: usize, dstLength: usize): i32 {
  if (dstLength < 5) return -2;
  const limit = dst + dstLength;
  let to = dst;
  let rest = srcLength;
  while (rest >= 128) {
    store<u8>(to++, <u8>(rest | 128));
    rest >>= 7;
  }
  store<u8>(to++, <u8>rest);
  const end = src + srcLength;
  for (let piece = src; piece < end; piece += PIECE) {
    to = encodePiece(piece, min(piece + PIECE, end), to, limit);
    if (to == 0) return -2;
  }
  return <i32>(to - dst);
}

function encodePiece(src: usize, end: usize, start: usize, limit: usize): usize {
  let to = start;
  let anchor = src;
  if (end - src > TAIL) {
    // The table has as many entries as the piece needs, at least 256.
    let bits: u32 = 8;
    while (bits < MAX_TABLE_BITS && (<usize>1 << bits) < end - src) bits++;
    memory.fill(TABLE, 0, 2 << bits);
    const lastStart = end - TAIL;
    let at = src + 1;
    while (true) {
      // Steps grow by one byte for each 32 positions without a match.
      let skip: usize = 32;
      let candidate: usize = 0;
      let found = false;
      while (at <= lastStart) {
        const bytes = load<u32>(at);
        const slot = slotOf(bytes, bits);
        candidate = src + <usize>load<u16>(slot);
        store<u16>(slot, <u16>(at - src));
        if (load<u32>(candidate) == bytes && candidate < at) {
          found = true;
          break;
        }
        at += skip++ >> 5;
      }
      if (!found) break;
      if (at > anchor) {
        to = putLiterals(to, limit, anchor, at - anchor);
        if (to == 0) return 0;
      }
      // Consecutive matches have no literals between them.
      while (true) {
        const length: usize = 4 + matchLength(candidate + 4, at + 4, end);
        to = putCopies(to, limit, at - candidate, length);
        if (to == 0) return 0;
        at += length;
        anchor = at;
        if (at > lastStart) break;
        const before = slotOf(load<u32>(at - 1), bits);
        store<u16>(before, <u16>(at - 1 - src));
        const bytes = load<u32>(at);
        const slot = slotOf(bytes, bits);
        candidate = src + <usize>load<u16>(slot);
        store<u16>(slot, <u16>(at - src));
        if (load<u32>(candidate) != bytes) {
          at++;
          break;
        }
      }
      if (at > lastStart) break;
    }
  }
  return anchor < end ? putLiterals(to, limit, anchor, end - anchor) : to;
}

function putLiterals(to: usize, limit: usize, literals: usize, length: usize): usize {
  const code = length - 1;
  if (to + length + 3 > limit) {
    const needed = code < 60 ? length + 1 : code < 256 ? length + 2 : length + 3;
    if (to + needed > limit) return 0;
  }
  if (code < 60) {
    store<u8>(to++, <u8>(code << 2));
  } else if (code < 256) {
    store<u8>(to, 60 << 2);
    store<u8>(to, <u8>code, 1);
    to += 2;
  } else {
    // At most 65,536 bytes: a piece.
    store<u8>(to, 61 << 2);
    store<u16>(to, <u16>code, 1);
    to += 3;
  }
  copyWild(literals, to, length);
  return to + length;
}

/** Writes copies of at most 64 bytes; the last ones are chosen so that none is shorter than 4. */
// @ts-ignore: decorator
@inline
function putCopies(to: usize, limit: usize, distance: usize, length: usize): usize {
  if (to + 3 * (length / 60 + 1) > limit) return 0;
  while (length >= 68) {
    store<u8>(to, (63 << 2) | 2);
    store<u16>(to, <u16>distance, 1);
    to += 3;
    length -= 64;
  }
  if (length > 64) {
    store<u8>(to, (59 << 2) | 2);
    store<u16>(to, <u16>distance, 1);
    to += 3;
    length -= 60;
  }
  if (length < 12 && distance < 2048) {
    store<u8>(to, <u8>(((distance >> 8) << 5) | ((length - 4) << 2) | 1));
    store<u8>(to, <u8>distance, 1);
    return to + 2;
  }
  store<u8>(to, <u8>(((length - 1) << 2) | 2));
  store<u16>(to, <u16>distance, 1);
  return to + 3;
}
