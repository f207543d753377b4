// What LZ formats need: copies, which may write up to 16 bytes past their end, and lengths of matches, which may read as far.

/** Row d holds the indices 0 to 15 modulo d: a run of d bytes repeated over a vector (row 0 is not used). */
// prettier-ignore
const PATTERNS = memory.data<u8>([
  0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,
  0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,
  0,1,0,1,0,1,0,1,0,1,0,1,0,1,0,1,
  0,1,2,0,1,2,0,1,2,0,1,2,0,1,2,0,
  0,1,2,3,0,1,2,3,0,1,2,3,0,1,2,3,
  0,1,2,3,4,0,1,2,3,4,0,1,2,3,4,0,
  0,1,2,3,4,5,0,1,2,3,4,5,0,1,2,3,
  0,1,2,3,4,5,6,0,1,2,3,4,5,6,0,1,
  0,1,2,3,4,5,6,7,0,1,2,3,4,5,6,7,
  0,1,2,3,4,5,6,7,8,0,1,2,3,4,5,6,
  0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,
  0,1,2,3,4,5,6,7,8,9,10,0,1,2,3,4,
  0,1,2,3,4,5,6,7,8,9,10,11,0,1,2,3,
  0,1,2,3,4,5,6,7,8,9,10,11,12,0,1,2,
  0,1,2,3,4,5,6,7,8,9,10,11,12,13,0,1,
  0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,0,
  0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,
], 16);

/** The largest multiple of d up to 16: by how much one vector of the pattern advances. */
// prettier-ignore
const STEPS = memory.data<u8>([0,16,16,15,16,15,12,14,16,9,10,11,12,13,14,15]);

/** Copies `length` bytes that do not overlap (or are at least 16 bytes apart), 16 at a time. */
// @ts-ignore: decorator
@inline
export function copyWild(from: usize, to: usize, length: usize): void {
  v128.store(to, v128.load(from));
  if (length > 16) {
    const end = to + length;
    do {
      from += 16;
      to += 16;
      v128.store(to, v128.load(from));
    } while (to + 16 < end);
  }
}

/** The same, 32 at a time, for places where most runs are longer than 16 bytes. */
// @ts-ignore: decorator
@inline
export function copyLong(from: usize, to: usize, length: usize): void {
  const end = to + length;
  do {
    v128.store(to, v128.load(from));
    v128.store(to, v128.load(from, 16), 16);
    from += 32;
    to += 32;
  } while (to < end);
}

/**
 * Copies `length` bytes from `distance` bytes before `to`, as LZ formats define it: the source may overlap the bytes
 * being written.
 */
// @ts-ignore: decorator
@inline
export function copyMatch(to: usize, distance: usize, length: usize): void {
  if (distance >= 16) {
    copyWild(to - distance, to, length);
  } else {
    copyPattern(to, distance, length);
  }
}

/** The same, for places where most matches are longer than 16 bytes. */
// @ts-ignore: decorator
@inline
export function copyLongMatch(to: usize, distance: usize, length: usize): void {
  if (distance >= 16) {
    copyLong(to - distance, to, length);
  } else {
    copyPattern(to, distance, length);
  }
}

/** The same for at most 16 bytes, without a branch on the distance. Always writes 16. */
// @ts-ignore: decorator
@inline
export function copyShortMatch(to: usize, distance: usize): void {
  const pattern = v128.load(PATTERNS + (min(distance, 16) << 4));
  v128.store(to, i8x16.swizzle(v128.load(to - distance), pattern));
}

// @ts-ignore: decorator
@inline
function copyPattern(to: usize, distance: usize, length: usize): void {
  const pattern = i8x16.swizzle(v128.load(to - distance), v128.load(PATTERNS + (distance << 4)));
  const step = <usize>load<u8>(STEPS + distance);
  const end = to + length;
  do {
    v128.store(to, pattern);
    v128.store(to + step, pattern);
    to += step << 1;
  } while (to < end);
}

/** Number of equal bytes at `a` and at the later `b`. Bytes from `end` on do not count. */
// @ts-ignore: decorator
@inline
export function matchLength(a: usize, b: usize, end: usize): usize {
  // Most matches end within eight bytes.
  const first = load<u64>(a) ^ load<u64>(b);
  if (first != 0) return min(<usize>(ctz(first) >> 3), end - b);
  return longMatchLength(a, b, end);
}

/** The same if the first eight are equal. */
// @ts-ignore: decorator
@inline
function longMatchLength(a: usize, b: usize, end: usize): usize {
  const distance = b - a;
  let at = b + 8;
  while (at < end) {
    const equal = i8x16.bitmask(i8x16.eq(v128.load(at - distance), v128.load(at)));
    if (equal != 0xffff) {
      at += ctz(~equal);
      break;
    }
    at += 16;
  }
  return min(at, end) - b;
}

/** The end of a match at `at`; `differs` are the differences of its first eight bytes: 0 if all are equal. */
// @ts-ignore: decorator
@inline
export function endOf(differs: u64, from: usize, at: usize, end: usize): usize {
  if (differs != 0) return at + <usize>(ctz(differs) >> 3);
  return at + longMatchLength(from, at, end);
}
