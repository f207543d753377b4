// What the LZ encoders share: match lengths, and copies of literals. May read 16 bytes past `end`.

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
export function longMatchLength(a: usize, b: usize, end: usize): usize {
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

/** Copies `length` bytes that do not overlap, 16 at a time; may write up to 16 bytes too many. */
// @ts-ignore: decorator
@inline
export function copyLiterals(from: usize, to: usize, length: usize): void {
  v128.store(to, v128.load(from));
  for (let i: usize = 16; i < length; i += 16) v128.store(to + i, v128.load(from + i));
}
