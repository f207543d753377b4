// LZ4, the high-compression encoder: chains of all earlier places with the same four bytes, and a look ahead before a match is taken.
import { LAST_LITERALS, LAST_START, MAX_DISTANCE, MIN_MATCH, putLastLiterals, putSequence } from "./encode-lz4-sequence";
import { matchLength } from "./encode-match";

/** 32,768 heads of chains: the place after which the chain begins, plus one; 0: none. 128 KiB. */
const HEAD_BITS: u32 = 15;
const HEADS_LENGTH: usize = 4 << HEAD_BITS;
/** By the lowest 16 bits of a place: how far back the next one of its chain is; 0: none. 128 KiB. */
const CHAIN_LENGTH: usize = 2 << 16;
/** A match of this length is taken without a look ahead. */
const GOOD_LENGTH: usize = 256;

let distanceFound: usize = 0;

// @ts-ignore: decorator
@inline
function headOf(work: usize, bytes: u32): usize {
  return work + (<usize>((bytes * 0x9e3779b1) >> (32 - HEAD_BITS)) << 2);
}

// @ts-ignore: decorator
@inline
function chainOf(work: usize, place: usize): usize {
  return work + HEADS_LENGTH + ((place & 0xffff) << 1);
}

/** Adds the places from `from` up to and without `to` to their chains. */
// @ts-ignore: decorator
@inline
function insert(src: usize, from: usize, to: usize, work: usize): void {
  for (let place = from; place < to; place++) {
    const head = headOf(work, load<u32>(src + place));
    const before = <usize>load<u32>(head);
    const back = place + 1 - before;
    store<u16>(chainOf(work, place), before != 0 && back <= MAX_DISTANCE ? <u16>back : 0);
    store<u32>(head, <u32>(place + 1));
  }
}

/** The longest match at a place that is longer than `least`, or 0; `distanceFound` tells how far back. */
function longestMatch(src: usize, place: usize, matchEnd: usize, least: usize, attempts: i32, work: usize): usize {
  const at = src + place;
  const bytes = load<u32>(at);
  let before = <usize>load<u32>(headOf(work, bytes));
  if (before == 0) return 0;
  let candidate = before - 1;
  let best = least;
  let longest: usize = 0;
  while (true) {
    const distance = place - candidate;
    if (distance > MAX_DISTANCE) break;
    const from = src + candidate;
    // A longer match agrees in its last four bytes as well.
    if (load<u32>(from + best - 3) == load<u32>(at + best - 3) && load<u32>(from) == bytes) {
      const length = MIN_MATCH + matchLength(from + MIN_MATCH, at + MIN_MATCH, matchEnd);
      if (length > best) {
        best = length;
        longest = length;
        distanceFound = distance;
        if (at + length >= matchEnd) break;
      }
    }
    if (--attempts == 0) break;
    const back = <usize>load<u16>(chainOf(work, candidate));
    if (back == 0 || back > candidate) break;
    candidate -= back;
  }
  return longest;
}

/** Compresses at a level of 1 to 9; returns the length, or -2. `work` is room for 256 KiB. */
export function encodeLz4hc(src: usize, srcLength: usize, dst: usize, dstLength: usize, level: u32, work: usize): i32 {
  const limit = dst + dstLength;
  const end = src + srcLength;
  let to = dst;
  let anchor: usize = 0;
  if (srcLength > LAST_START) {
    memory.fill(work, 0, HEADS_LENGTH + CHAIN_LENGTH);
    const attempts = 1 << max<i32>(<i32>level - 1, 2);
    const last = srcLength - LAST_START;
    const matchEnd = end - LAST_LITERALS;
    let inserted: usize = 0;
    let place: usize = 0;
    while (place <= last) {
      insert(src, inserted, place, work);
      inserted = place;
      let length = longestMatch(src, place, matchEnd, MIN_MATCH - 1, attempts, work);
      if (length == 0) {
        place++;
        continue;
      }
      let distance = distanceFound;
      // A better match may start one or two places later.
      let ahead: usize = 1;
      while (ahead <= 2 && place + ahead <= last && length < GOOD_LENGTH) {
        insert(src, inserted, place + ahead, work);
        inserted = place + ahead;
        const longer = longestMatch(src, place + ahead, matchEnd, length + ahead - 1, attempts, work);
        if (longer == 0) {
          ahead++;
          continue;
        }
        place += ahead;
        length = longer;
        distance = distanceFound;
        ahead = 1;
      }
      while (place > anchor && place > distance && load<u8>(src + place - 1) == load<u8>(src + place - 1 - distance)) {
        place--;
        length++;
      }
      to = putSequence(to, limit, src + anchor, place - anchor, distance, length);
      if (to == 0) return -2;
      place += length;
      anchor = place;
    }
  }
  to = putLastLiterals(to, limit, src + anchor, srcLength - anchor);
  return to == 0 ? -2 : <i32>(to - dst);
}
