// The bounds of numbers, for statistics. A module by itself, without a memory: it compares numbers in the memory of the decoder
// that left them there.

/**
 * Finds the least and the greatest of little-endian numbers, at least one, and writes a vector of each to `out`: its lanes hold
 * the bounds of some of the numbers. With a NaN among them, a lane of the greatest is NaN.
 * Kinds: 0 int32, 1 uint32, 2 int64, 3 uint64, 4 float32, 5 float64.
 *
 * @returns true if no number is less than the one before it, nor NaN, nor follows NaN
 */
export function bounds(kind: u32, src: usize, length: usize, out: usize): bool {
  if (kind < 2) return boundsOf<i32>(src, length, out, i32x4.splat(kind == 1 ? i32.MIN_VALUE : 0));
  if (kind < 4) return boundsOf<i64>(src, length, out, i64x2.splat(kind == 3 ? i64.MIN_VALUE : 0));
  if (kind == 4) return boundsOf<f32>(src, length, out, i32x4.splat(0));
  return boundsOf<f64>(src, length, out, i32x4.splat(0));
}

/** Unsigned integers are compared as signed ones with the sign bit flipped. */
function boundsOf<T>(src: usize, length: usize, out: usize, flip: v128): bool {
  const end = src + length;
  let least = isFloat<T>() ? v128.splat<T>(<T>Infinity) : v128.xor(v128.load_splat<T>(src), flip);
  let greatest = isFloat<T>() ? v128.splat<T>(<T>-Infinity) : least;
  const isSorted = isAscending<T>(src, end, flip);
  // The first and the last of sorted numbers are their bounds.
  let p = isSorted ? end - sizeof<T>() : src;
  if (isSorted) least = less<T>(least, v128.xor(v128.load_splat<T>(src), flip));
  // Two bounds of each kind: a comparison would wait for the one before it.
  let least2 = least, greatest2 = greatest, nan = i32x4.splat(0);
  for (; p + 32 <= end; p += 32) {
    const v = v128.xor(v128.load(p), flip), v2 = v128.xor(v128.load(p, 16), flip);
    least = less<T>(least, v);
    greatest = more<T>(greatest, v);
    least2 = less<T>(least2, v2);
    greatest2 = more<T>(greatest2, v2);
    if (isFloat<T>()) nan = v128.or(nan, v128.or(v128.ne<T>(v, v), v128.ne<T>(v2, v2)));
  }
  for (; p < end; p += sizeof<T>()) {
    const v = v128.xor(v128.load_splat<T>(p), flip);
    least = less<T>(least, v);
    greatest = more<T>(greatest, v);
    if (isFloat<T>()) nan = v128.or(nan, v128.ne<T>(v, v));
  }
  v128.store(out, v128.xor(less<T>(least, least2), flip));
  v128.store(out, v128.or(v128.xor(more<T>(greatest, greatest2), flip), nan), 16);
  return isSorted;
}

function isAscending<T>(src: usize, end: usize, flip: v128): bool {
  let p = src + sizeof<T>();
  for (; p + 16 <= end; p += 16)
    if (!isNotLess<T>(v128.load(p), v128.load(p - sizeof<T>()), flip)) return false;
  for (; p < end; p += sizeof<T>())
    if (!isNotLess<T>(v128.load_splat<T>(p), v128.load_splat<T>(p - sizeof<T>()), flip)) return false;
  return true;
}

// @ts-ignore: decorator
@inline
function isNotLess<T>(value: v128, before: v128, flip: v128): bool {
  return i32x4.all_true(v128.ge<T>(v128.xor(value, flip), v128.xor(before, flip)));
}

/** The bound, where the value is NaN. */
// @ts-ignore: decorator
@inline
function less<T>(bound: v128, value: v128): v128 {
  if (isFloat<T>()) return v128.pmin<T>(bound, value);
  return sizeof<T>() == 4 ? v128.min<T>(bound, value) : v128.bitselect(value, bound, v128.gt<T>(bound, value));
}

// @ts-ignore: decorator
@inline
function more<T>(bound: v128, value: v128): v128 {
  if (isFloat<T>()) return v128.pmax<T>(bound, value);
  return sizeof<T>() == 4 ? v128.max<T>(bound, value) : v128.bitselect(value, bound, v128.gt<T>(value, bound));
}
