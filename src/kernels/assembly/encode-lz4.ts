// LZ4, the fast encoder: one probe of a hash table for each place, larger steps where nothing is found.
import { LAST_LITERALS, LAST_START, MIN_MATCH, putLastLiterals, putSequence } from "./encode-lz4-sequence";
import { matchLength } from "./encode-match";

/**
 * 8192 places, each as its lowest 16 bits: they tell the distance, 1 to 65,535, whatever the length of the input.
 * An entry older than 65,536 bytes points at a wrong place, which the comparison of the bytes finds out.
 */
const TABLE: usize = 16384;
const TABLE_BITS: u32 = 13;

/** Inputs up to this length look for four equal bytes, longer ones for five: as LZ4 does, so that sizes agree. */
const SHORT_INPUT: usize = 65546;

/** The entry for the first four or five of the eight `bytes` at a place; `drop` is 32 or 24. */
// @ts-ignore: decorator
@inline
function entryOf(bytes: u64, drop: u64): usize {
  return TABLE + (<usize>(((bytes << drop) * 0x9e3779b185ebca87) >> (64 - TABLE_BITS)) << 1);
}

/** Compresses; `acceleration` of 1 or more tells how soon steps grow. Returns the length, or -2. */
export function encodeLz4(src: usize, srcLength: usize, dst: usize, dstLength: usize, acceleration: u32): i32 {
  const limit = dst + dstLength;
  const end = src + srcLength;
  let to = dst;
  let anchor = src;
  if (srcLength > LAST_START) {
    const lastStart = end - LAST_START;
    const matchEnd = end - LAST_LITERALS;
    memory.fill(TABLE, 0, 2 << TABLE_BITS);
    const drop: u64 = srcLength > SHORT_INPUT ? 24 : 32;
    let at = src + 1;
    while (true) {
      // The first two steps after a match are one byte each, whatever the acceleration.
      let step: usize = 1;
      let nextStep: usize = 1;
      let attempts = acceleration << 6;
      let distance: usize = 0;
      while (at <= lastStart) {
        const bytes = load<u64>(at);
        const entry = entryOf(bytes, drop);
        const place = at - src;
        distance = (place - <usize>load<u16>(entry)) & 0xffff;
        store<u16>(entry, <u16>place);
        if (load<u32>(at - distance) == <u32>bytes && distance != 0) break;
        at += step;
        step = nextStep;
        nextStep = attempts++ >> 6;
      }
      if (at > lastStart) break;
      let length = MIN_MATCH + matchLength(at - distance + MIN_MATCH, at + MIN_MATCH, matchEnd);
      while (at > anchor && at - distance > src && load<u8>(at - 1) == load<u8>(at - 1 - distance)) {
        at--;
        length++;
      }
      to = putSequence(to, limit, anchor, at - anchor, distance, length);
      if (to == 0) return -2;
      at += length;
      anchor = at;
      if (at > lastStart) break;
      store<u16>(entryOf(load<u64>(at - 2), drop), <u16>(at - 2 - src));
    }
  }
  to = putLastLiterals(to, limit, anchor, end - anchor);
  return to == 0 ? -2 : <i32>(to - dst);
}
