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

/** 1 where the first four of the `bytes` at a place are at `from` too, near enough; else 0. */
// @ts-ignore: decorator
@inline
function isMatch(from: usize, at: usize, bytes: u64): usize {
  return <usize>(load<u32>(from) == <u32>bytes) & <usize>(at - from <= MAX_DISTANCE);
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
    while (at < lastStart) {
      // The first two places after a match are looked at together, whatever the acceleration: most matches begin there, and
      // which of them it is no processor can predict.
      const bytes = load<u64>(at);
      const later = bytes >> 8;
      const entry = entryOf(bytes, multiplier);
      const first = load<u32>(entry, TABLE);
      store<u32>(entry, at, TABLE);
      const entryLater = entryOf(later, multiplier);
      const second = load<u32>(entryLater, TABLE);
      const isFirst = isMatch(first, at, bytes);
      // The second place is noted only where it was come to: on tables of numbers too many notes make chunks a tenth larger.
      store<u32>(entryLater, select<usize>(second, at + 1, isFirst), TABLE);
      const isSecond = isMatch(second, at + 1, later);
      let from = select<usize>(first, second, isFirst);
      let next: usize;
      if (isFirst | isSecond) {
        at += 1 - isFirst;
        next = at + MIN_MATCH + matchLength(from + MIN_MATCH, at + MIN_MATCH, matchEnd);
        const back = <usize>(at > anchor) & <usize>(from > src) & <usize>(load<u8>(at - 1) == load<u8>(from - 1));
        at -= back;
        from -= back;
      } else {
        at += 2;
        let step: usize = acceleration;
        let attempts = (acceleration << 6) + 1;
        while (at <= lastStart) {
          const bytes = load<u64>(at);
          const entry = entryOf(bytes, multiplier);
          from = load<u32>(entry, TABLE);
          store<u32>(entry, at, TABLE);
          if (isMatch(from, at, bytes)) break;
          at += step;
          step = attempts++ >> 6;
        }
        if (at > lastStart) break;
        next = at + MIN_MATCH + matchLength(from + MIN_MATCH, at + MIN_MATCH, matchEnd);
        while (at > anchor && from > src && load<u8>(at - 1) == load<u8>(from - 1)) {
          at--;
          from--;
        }
      }
      to = putSequence(to, limit, anchor, at - anchor, at - from, next - at);
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
