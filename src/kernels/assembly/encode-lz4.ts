// LZ4, the fast encoder: one probe of a hash table at each position, larger steps while nothing is found.
import { copyMatch, copyWild, endOf, matchLength } from "./matches";

// Writes LZ4 sequences: token, lengths, literals, distance. https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md

/** The last match starts at least 12 bytes before the end of the input, … */
export const LAST_START: usize = 12;
/** … and ends at least 5 bytes before it. */
export const LAST_LITERALS: usize = 5;
export const MIN_MATCH: usize = 4;
export const MAX_DISTANCE: usize = 65535;

// @ts-ignore: decorator
@inline
function putLength(to: usize, rest: usize): usize {
  while (rest >= 255) {
    store<u8>(to++, 255);
    rest -= 255;
  }
  store<u8>(to, <u8>rest);
  return to + 1;
}

/**
 * Writes literals and a match of `length` bytes. Returns the address after the output, or 0 if it does not fit before
 * `limit`.
 */
// @ts-ignore: decorator
@inline
export function putSequence(
  to: usize, limit: usize, literals: usize, literalLength: usize, distance: usize, length: usize,
): usize {
  const code = length - MIN_MATCH;
  // Most sequences have no length bytes after the token.
  if (max(literalLength, code) < 15) {
    if (to + literalLength + 3 > limit) return 0;
    store<u8>(to, <u8>((literalLength << 4) | code));
    v128.store(to, v128.load(literals), 1);
    to += literalLength;
    store<u16>(to, <u16>distance, 1);
    return to + 3;
  }
  if (to + literalLength + literalLength / 255 + code / 255 + 5 > limit) return 0;
  const token = to++;
  if (literalLength < 15) {
    store<u8>(token, <u8>((literalLength << 4) | min<usize>(code, 15)));
    v128.store(to, v128.load(literals));
  } else {
    store<u8>(token, <u8>(0xf0 | min<usize>(code, 15)));
    to = putLength(to, literalLength - 15);
    copyWild(literals, to, literalLength);
  }
  to += literalLength;
  store<u16>(to, <u16>distance);
  to += 2;
  return code >= 15 ? putLength(to, code - 15) : to;
}

/** Writes the literals that end a stream. Returns the address after the output, or 0 if it does not fit before `limit`. */
export function putLastLiterals(to: usize, limit: usize, literals: usize, literalLength: usize): usize {
  const extra: usize = literalLength < 15 ? 0 : (literalLength - 15) / 255 + 1;
  if (to + 1 + extra + literalLength > limit) return 0;
  store<u8>(to++, <u8>(min<usize>(literalLength, 15) << 4));
  if (literalLength >= 15) to = putLength(to, literalLength - 15);
  memory.copy(to, literals, literalLength);
  return to + literalLength;
}

// LZ4, the high-compression encoder: chains of all earlier positions with the same four bytes, and a search for a
// longer match inside each match found.

/**
 * 32,768 heads of chains: the address where the chain begins. 0 means none; it is further away than a match can reach.
 * 128 KiB.
 */
const HEAD_BITS: u32 = 15;
const HEADS_LENGTH: usize = 4 << HEAD_BITS;
// By the lowest 16 bits of an address, after the heads: the distance back to the next position of its chain; 0: none. 128 KiB.
let startFound: usize = 0;
let distanceFound: usize = 0;

// @ts-ignore: decorator
@inline
function headOf(work: usize, bytes: u32): usize {
  return work + (<usize>((bytes * 0x9e3779b1) >> (32 - HEAD_BITS)) << 2);
}

// @ts-ignore: decorator
@inline
function chainOf(work: usize, at: usize): usize {
  return work + HEADS_LENGTH + ((at & 0xffff) << 1);
}

/** Adds the positions from `from` up to, not including, `to` to their chains. */
// @ts-ignore: decorator
@inline
function insert(src: usize, from: usize, to: usize, work: usize): void {
  const end = src + to;
  for (let at = src + from; at < end; at++) {
    const head = headOf(work, load<u32>(at));
    const back = at - <usize>load<u32>(head);
    store<u16>(chainOf(work, at), back <= MAX_DISTANCE ? <u16>back : 0);
    store<u32>(head, at);
  }
}

/**
 * The length of the longest match that contains `place`, begins at `low` or later, and is longer than `least`; 0 if
 * there is none. `least` is more than `place - low`. Sets `startFound` and `distanceFound`: where the match begins, and
 * how far back its bytes are.
 */
function widestMatch(
  src: usize, low: usize, place: usize, matchEnd: usize, least: usize, attempts: i32, work: usize,
): usize {
  const at = src + place;
  const bytes = load<u32>(at);
  const reach = place - low;
  let from = <usize>load<u32>(headOf(work, bytes));
  let best = least;
  let longest: usize = 0;
  // However far it extends backwards, a longer match contains these four bytes.
  let end = max(best, reach + 3) - 3 - reach;
  let bytesThere = load<u32>(at + end);
  const lowest = src + max(place, MAX_DISTANCE) - MAX_DISTANCE;
  while (from >= lowest) {
    if (load<u32>(from + end) == bytesThere) {
      if (load<u32>(from) == bytes) {
        const forward = MIN_MATCH + matchLength(from + MIN_MATCH, at + MIN_MATCH, matchEnd);
        const most = min(reach, from - src);
        // Eight at once, because no processor can predict how many are equal.
        let backward = min(most, <usize>(clz(load<u64>(from - 8) ^ load<u64>(at - 8)) >> 3));
        if (backward == 8) while (backward < most && load<u8>(from - backward - 1) == load<u8>(at - backward - 1)) backward++;
        const length = backward + forward;
        if (length > best) {
          best = length;
          end = max(best, reach + 3) - 3 - reach;
          bytesThere = load<u32>(at + end);
          longest = length;
          distanceFound = at - from;
          startFound = place - backward;
        }
      }
    }
    if (--attempts == 0) break;
    const back = <usize>load<u16>(chainOf(work, from));
    if (back == 0) break;
    from -= back;
  }
  return longest;
}

/** Compresses at a level of 1 to 9. Returns the length, or -2. `work` is room for 256 KiB. */
export function encodeLz4hc(src: usize, srcLength: usize, dst: usize, dstLength: usize, level: u32, work: usize): i32 {
  const limit = dst + dstLength;
  const end = src + srcLength;
  let to = dst;
  let anchor: usize = 0;
  if (srcLength > LAST_START) {
    // Chains are read only where this call has written.
    memory.fill(work, 0, HEADS_LENGTH);
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
        // Longer steps after many bytes without a match; a later one is extended backwards.
        place += 1 + ((place - anchor) >> 7);
        continue;
      }
      let start = place;
      let distance = distanceFound;
      while (start > anchor && start > distance && load<u8>(src + start - 1) == load<u8>(src + start - 1 - distance)) {
        start--;
        length++;
      }
      // A longer match may begin inside this one, and a still longer one inside that. The rest of a match before the
      // next one is written once it is known where the next one begins.
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
          // The first match reaches this far as well, so the one between is not needed.
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

/**
 * 4096 addresses, as many as LZ4 has: where the bytes at a position were seen last. Addresses are followed faster than
 * distances. Address 0 means nowhere: inputs begin at `HOST_BASE` or later, further from 0 than a match reaches.
 */
const TABLE: usize = 16384;
const TABLE_BITS: u32 = 12;

/** In inputs up to this length a match needs four equal bytes, in longer ones five, as in LZ4, so that sizes agree. */
const SHORT_INPUT: usize = 65546;
const MULTIPLIER: u64 = 0x9e3779b185ebca87;

/**
 * The table entry for the first four or five of the eight `bytes`; `multiplier` is shifted by 32 or 24 bits, which
 * drops the other bytes.
 */
// @ts-ignore: decorator
@inline
function entryOf(bytes: u64, multiplier: u64): usize {
  return <usize>((bytes * multiplier) >> (64 - TABLE_BITS - 2)) & ~3;
}

/** 1 if the first four bytes at two positions are equal and near enough for a match; else 0. */
// @ts-ignore: decorator
@inline
function isMatch(differs: u64, distance: usize): usize {
  return <usize>((<u32>differs | <u32>(distance >> 16)) == 0);
}

/** Compresses; `acceleration`, 1 or more, sets how soon steps grow. Returns the length, or -2. */
export function encodeLz4(src: usize, srcLength: usize, dst: usize, dstLength: usize, acceleration: u32): i32 {
  const limit = dst + dstLength;
  const end = src + srcLength;
  let to = dst;
  let anchor = src;
  if (srcLength > LAST_START) {
    const lastStart = end - LAST_START;
    const matchEnd = end - LAST_LITERALS;
    const multiplier = MULTIPLIER << (srcLength > SHORT_INPUT ? 24 : 32);
    // So many probes, as a power of two, before a step grows by one. With 6 at all levels, as in LZ4, noise takes up to three times as long.
    const patience = max<i32>(7 - <i32>acceleration, 3);
    // Steps begin shorter than in LZ4, because they grow sooner: sizes then agree.
    acceleration -= acceleration >> 2;
    memory.fill(TABLE, 0, 4 << TABLE_BITS);
    store<u32>(entryOf(load<u64>(src), multiplier), src, TABLE);
    let at = src + 1;
    while (at < lastStart) {
      const bytes = load<u64>(at);
      let entry = entryOf(bytes, multiplier);
      let from = <usize>load<u32>(entry, TABLE);
      store<u32>(entry, at, TABLE);
      let differs = load<u64>(from) ^ bytes;
      let next: usize;
      if (isMatch(differs, at - from)) {
        next = endOf(differs, from, at, matchEnd);
      } else {
        // Most other matches begin here, whatever the acceleration.
        at += 1;
        entry = entryOf(bytes >> 8, multiplier);
        from = load<u32>(entry, TABLE);
        store<u32>(entry, at, TABLE);
        differs = load<u64>(from) ^ load<u64>(at);
        if (isMatch(differs, at - from)) {
          next = endOf(differs, from, at, matchEnd);
          const back = <usize>(at > anchor) & <usize>(from > src) & <usize>(load<u8>(at - 1) == load<u8>(from - 1));
          at -= back;
          from -= back;
        } else {
          at += 1;
          let step: usize = acceleration;
          let attempts = (acceleration << patience) + 1;
          while (at <= lastStart) {
            const bytes = load<u64>(at);
            entry = entryOf(bytes, multiplier);
            from = load<u32>(entry, TABLE);
            store<u32>(entry, at, TABLE);
            differs = load<u64>(from) ^ bytes;
            if (isMatch(differs, at - from)) break;
            at += step;
            step = attempts++ >> patience;
          }
          if (at > lastStart) break;
          next = endOf(differs, from, at, matchEnd);
          while (at > anchor && from > src && load<u8>(at - 1) == load<u8>(from - 1)) {
            at--;
            from--;
          }
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

// Converts BloscLZ streams to LZ4 streams with the same matches, without a search.

const ENDS_EARLY: i32 = -1;
const TOO_LONG: i32 = -2;
const BAD_REFERENCE: i32 = -3;

/** Longer distances have two more bytes. */
const FAR: usize = 8191;

/**
 * Writes the data of a BloscLZ stream as an LZ4 stream of at most `dstLength` bytes at `dst`. Returns the bytes
 * written, or an error listed in the README. Decodes to `plain` on the way, because literals are copied from there. A
 * match that LZ4 does not allow, because it is too short, too far back or too near the end, becomes literals.
 */
export function blosclzToLz4(
  src: usize, srcLength: usize, dst: usize, dstLength: usize, plain: usize, plainLength: usize,
): i32 {
  if (srcLength == 0) return ENDS_EARLY;
  let ip = src;
  const ipEnd = src + srcLength;
  let op = plain;
  const opEnd = plain + plainLength;
  let to = dst;
  const limit = dst + dstLength;
  /** Decoded bytes from here on are not written yet. */
  let literals = plain;
  let control = <usize>load<u8>(ip++) & 31;
  while (true) {
    if (control < 32) {
      const length = control + 1;
      if (length > ipEnd - ip) return ENDS_EARLY;
      if (length > opEnd - op) return TOO_LONG;
      v128.store(op, v128.load(ip));
      v128.store(op + 16, v128.load(ip + 16));
      ip += length;
      op += length;
      if (ip == ipEnd) break;
    } else {
      let length = (control >> 5) + 2;
      let distance = (control & 31) << 8;
      if (length == 9) {
        let more: usize;
        do {
          if (ip >= ipEnd) return ENDS_EARLY;
          more = <usize>load<u8>(ip++);
          length += more;
          if (length > plainLength) return TOO_LONG;
        } while (more == 255);
      }
      if (ip >= ipEnd) return ENDS_EARLY;
      distance += <usize>load<u8>(ip++);
      if (distance == FAR) {
        if (ipEnd - ip < 2) return ENDS_EARLY;
        distance = ((<usize>load<u8>(ip) << 8) | <usize>load<u8>(ip + 1)) + FAR;
        ip += 2;
      }
      distance += 1;
      if (distance > op - plain) return BAD_REFERENCE;
      if (length > opEnd - op) return TOO_LONG;
      // A stream ends with literals, so a control byte follows every match.
      if (ip >= ipEnd) return ENDS_EARLY;
      copyMatch(op, distance, length);
      if (length >= MIN_MATCH && distance <= MAX_DISTANCE && opEnd - op >= LAST_START) {
        let match = op;
        // At least 12 bytes remain, so at least 7 of them may be matched.
        const end = min(op + length, opEnd - LAST_LITERALS);
        // BloscLZ does not extend matches backwards: equal literals before the match are added to it.
        while (match > literals && match - plain > distance && load<u8>(match - 1) == load<u8>(match - 1 - distance)) match--;
        to = putSequence(to, limit, literals, match - literals, distance, end - match);
        if (to == 0) return TOO_LONG;
        literals = end;
      }
      op += length;
    }
    control = <usize>load<u8>(ip++);
  }
  if (op != opEnd) return ENDS_EARLY;
  to = putLastLiterals(to, limit, literals, op - literals);
  return to == 0 ? TOO_LONG : <i32>(to - dst);
}
