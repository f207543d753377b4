// LZ4, the high-compression encoder: chains of all earlier places with the same four bytes, and a look for a longer
// match inside each match that is found.
import { LAST_LITERALS, LAST_START, MAX_DISTANCE, MIN_MATCH, putLastLiterals, putSequence } from "./encode-lz4-sequence";
import { matchLength } from "./encode-match";

/** 32,768 heads of chains: the place after which the chain begins, plus one; 0: none. 128 KiB. */
const HEAD_BITS: u32 = 15;
const HEADS_LENGTH: usize = 4 << HEAD_BITS;
/** By the lowest 16 bits of a place: how far back the next one of its chain is; 0: none. 128 KiB. */
const CHAIN_LENGTH: usize = 2 << 16;
let startFound: usize = 0;
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

/**
 * The longest match that contains `place`, begins at `low` or later, and is longer than `least`: its length, or 0.
 * `least` is more than `place - low`.
 * `startFound` and `distanceFound` tell where it begins and how far back its bytes are.
 */
function widestMatch(
  src: usize, low: usize, place: usize, matchEnd: usize, least: usize, attempts: i32, work: usize,
): usize {
  const at = src + place;
  const bytes = load<u32>(at);
  const before = <usize>load<u32>(headOf(work, bytes));
  if (before == 0) return 0;
  const reach = place - low;
  let candidate = before - 1;
  let best = least;
  let longest: usize = 0;
  while (true) {
    const distance = place - candidate;
    if (distance > MAX_DISTANCE) break;
    const from = src + candidate;
    // However far it extends backwards, a longer match contains these two bytes.
    const end = best - 1 - reach;
    if (
      (candidate + best <= reach || load<u16>(from + end) == load<u16>(at + end)) && load<u32>(from) == bytes
    ) {
      const forward = MIN_MATCH + matchLength(from + MIN_MATCH, at + MIN_MATCH, matchEnd);
      const most = min(reach, candidate);
      let backward: usize = 0;
      while (backward < most && load<u8>(from - backward - 1) == load<u8>(at - backward - 1)) backward++;
      const length = backward + forward;
      if (length > best) {
        best = length;
        longest = length;
        distanceFound = distance;
        startFound = place - backward;
      }
    }
    if (--attempts == 0) break;
    const back = <usize>load<u16>(chainOf(work, candidate));
    if (back == 0) break;
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
      let length = widestMatch(src, place, place, matchEnd, MIN_MATCH - 1, attempts, work);
      if (length == 0) {
        place++;
        continue;
      }
      let start = place;
      let distance = distanceFound;
      while (start > anchor && start > distance && load<u8>(src + start - 1) == load<u8>(src + start - 1 - distance)) {
        start--;
        length++;
      }
      // A longer match may begin inside this one, and a yet longer one inside that. What is left of a match before the
      // next one is written when it is known where the next one begins.
      const firstStart = start, firstLength = length, firstDistance = distance;
      let earlierStart: usize = 0, earlierLength: usize = 0, earlierDistance: usize = 0;
      while (true) {
        const probe = start + length - (earlierLength == 0 ? 2 : 3);
        if (probe > last) break;
        insert(src, inserted, probe, work);
        inserted = max(inserted, probe);
        const longer = widestMatch(src, start, probe, matchEnd, length, attempts, work);
        if (longer == 0) break;
        if (earlierLength == 0) {
          // The first one reaches this far as well: what was between is not needed.
          if (startFound <= firstStart + firstLength) {
            start = firstStart;
            length = firstLength;
            distance = firstDistance;
          }
          if (startFound - start >= MIN_MATCH) {
            earlierStart = start;
            earlierLength = length;
            earlierDistance = distance;
          }
        } else if (startFound >= max(start + MIN_MATCH, earlierStart + earlierLength + MIN_MATCH - 1)) {
          const piece = min(earlierLength, start - earlierStart);
          to = putSequence(to, limit, src + anchor, earlierStart - anchor, earlierDistance, piece);
          if (to == 0) return -2;
          anchor = earlierStart + piece;
          earlierStart = start;
          earlierLength = length;
          earlierDistance = distance;
        }
        start = startFound;
        distance = distanceFound;
        length = longer;
      }
      if (earlierLength != 0) {
        const piece = min(earlierLength, start - earlierStart);
        to = putSequence(to, limit, src + anchor, earlierStart - anchor, earlierDistance, piece);
        if (to == 0) return -2;
        anchor = earlierStart + piece;
      }
      to = putSequence(to, limit, src + anchor, start - anchor, distance, length);
      if (to == 0) return -2;
      place = start + length;
      anchor = place;
    }
  }
  to = putLastLiterals(to, limit, src + anchor, srcLength - anchor);
  return to == 0 ? -2 : <i32>(to - dst);
}
