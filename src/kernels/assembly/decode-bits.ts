// Bit streams that zstd reads backwards: the last byte's highest set bit ends them, and is not part of them.
//
// A reader is two numbers in its user: `left`, the bits that are left (negative: more were used than there are), and
// `window`, whose highest bit is the next one. After `fill` at least 57 bits of the window are right. What is read
// beyond the stream's start is whatever lies there; that `left` became negative tells.

/** Bits of the stream from `src` to `end`, or -1 where it has no end mark. */
// @ts-ignore: decorator
@inline
export function bitLength(src: usize, end: usize): i32 {
  if (end <= src) return -1;
  const last = <u32>load<u8>(end - 1);
  if (last == 0) return -1;
  return <i32>((end - src) << 3) - <i32>(clz<u32>(last) - 24) - 1;
}

/** The window at `left` bits from the start `src`. */
// @ts-ignore: decorator
@inline
export function fill(src: usize, left: i32): u64 {
  return load<u64>(src + ((left + 7) >> 3) - 8) << <u64>(-left & 7);
}

/** The next `count` bits of the window, 0 to 63. */
// @ts-ignore: decorator
@inline
export function peek(window: u64, count: u32): u32 {
  return <u32>((window >> 1) >> <u64>(63 - count));
}
