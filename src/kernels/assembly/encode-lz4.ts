// LZ4, the fast encoder: one probe of a hash table for each place, larger steps where nothing is found.
import { LAST_LITERALS, LAST_START, MAX_DISTANCE, MIN_MATCH, putLastLiterals, putSequence } from "./encode-lz4-sequence";
import { matchLength } from "./encode-match";

/**
 * 8192 addresses: where the bytes of a place were seen last. They lead to those bytes sooner than distances would. Address 0
 * stands for nowhere: inputs begin at `HOST_BASE` or behind, further from it than a match reaches.
 */
const TABLE: usize = 16384;
const TABLE_BITS: u32 = 13;

/** Inputs up to this length look for four equal bytes, longer ones for five: as LZ4 does, so that sizes agree. */
const SHORT_INPUT: usize = 65546;
const MULTIPLIER: u64 = 0x9e3779b185ebca87;

/** The place in the table for the first four or five of the eight `bytes`; `multiplier` is shifted by 32 or 24 bits, which drops the others. */
// @ts-ignore: decorator
@inline
function entryOf(bytes: u64, multiplier: u64): usize {
  return <usize>((bytes * multiplier) >> (64 - TABLE_BITS - 2)) & ~3;
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
    const multiplier = MULTIPLIER << (srcLength > SHORT_INPUT ? 24 : 32);
    memory.fill(TABLE, 0, 4 << TABLE_BITS);
    store<u32>(entryOf(load<u64>(src), multiplier), src, TABLE);
    let at = src + 1;
    while (true) {
      // The first two steps after a match are one byte each, whatever the acceleration.
      let step: usize = 1;
      let nextStep: usize = 1;
      let attempts = acceleration << 6;
      let from: usize = 0;
      while (at <= lastStart) {
        const bytes = load<u64>(at);
        const entry = entryOf(bytes, multiplier);
        from = load<u32>(entry, TABLE);
        store<u32>(entry, at, TABLE);
        if (load<u32>(from) == <u32>bytes && at - from <= MAX_DISTANCE) break;
        at += step;
        step = nextStep;
        nextStep = attempts++ >> 6;
      }
      if (at > lastStart) break;
      const distance = at - from;
      const next = at + MIN_MATCH + matchLength(from + MIN_MATCH, at + MIN_MATCH, matchEnd);
      while (at > anchor && from > src && load<u8>(at - 1) == load<u8>(from - 1)) {
        at--;
        from--;
      }
      to = putSequence(to, limit, anchor, at - anchor, distance, next - at);
      if (to == 0) return -2;
      at = next;
      anchor = at;
      if (at > lastStart) break;
      store<u32>(entryOf(load<u64>(at - 2), multiplier), at - 2, TABLE);
    }
  }
  to = putLastLiterals(to, limit, anchor, end - anchor);
  return to == 0 ? -2 : <i32>(to - dst);
}
