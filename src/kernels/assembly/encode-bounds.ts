// The least and the greatest of numbers. Unsigned integers are compared as signed ones with the sign bit flipped.

/**
 * Finds the least and the greatest of little-endian numbers, at least one, and writes a vector of each to `out`: its lanes hold
 * the bounds of some of the numbers. NaN does not count; without any other number the bounds are infinity and -infinity.
 *
 * @param goesOn true to include the bounds that are already at `out`
 * @param kind 0 int32, 1 uint32, 2 int64, 3 uint64, 4 float32, 5 float64
 * @returns true if no number is less than the one before it, nor NaN, nor follows NaN
 */
export function bounds(kind: u32, src: usize, length: usize, out: usize, goesOn: bool): bool {
  switch (kind) {
    case 0:
      return boundsOf<i32>(src, length, out, goesOn, i32x4.splat(0));
    case 1:
      return boundsOf<i32>(src, length, out, goesOn, i32x4.splat(i32.MIN_VALUE));
    case 2:
      return boundsOf<i64>(src, length, out, goesOn, i64x2.splat(0));
    case 3:
      return boundsOf<i64>(src, length, out, goesOn, i64x2.splat(i64.MIN_VALUE));
    case 4:
      return boundsOf<f32>(src, length, out, goesOn, i32x4.splat(0));
    default:
      return boundsOf<f64>(src, length, out, goesOn, i32x4.splat(0));
  }
}

function boundsOf<T>(src: usize, length: usize, out: usize, goesOn: bool, flip: v128): bool {
  const end = src + length;
  let least = isFloat<T>() ? v128.splat<T>(<T>Infinity) : v128.xor(v128.load_splat<T>(src), flip);
  let greatest = isFloat<T>() ? v128.splat<T>(<T>-Infinity) : least;
  if (goesOn) {
    least = v128.xor(v128.load(out), flip);
    greatest = v128.xor(v128.load(out, 16), flip);
  }
  // Two of each, because an instruction waits for the one before it.
  let least2 = least;
  let greatest2 = greatest;
  let p = src;
  for (; p + 32 <= end; p += 32) {
    const a = v128.xor(v128.load(p), flip);
    const b = v128.xor(v128.load(p, 16), flip);
    least = less<T>(least, a);
    greatest = more<T>(greatest, a);
    least2 = less<T>(least2, b);
    greatest2 = more<T>(greatest2, b);
  }
  for (; p < end; p += sizeof<T>()) {
    const a = v128.xor(v128.load_splat<T>(p), flip);
    least = less<T>(least, a);
    greatest = more<T>(greatest, a);
  }
  v128.store(out, v128.xor(less<T>(least, least2), flip));
  v128.store(out, v128.xor(more<T>(greatest, greatest2), flip), 16);
  return isRising<T>(src, end, flip);
}

function isRising<T>(src: usize, end: usize, flip: v128): bool {
  let p = src + sizeof<T>();
  for (; p + 16 <= end; p += 16)
    if (!isNotLess<T>(v128.xor(v128.load(p), flip), v128.xor(v128.load(p - sizeof<T>()), flip))) return false;
  for (; p < end; p += sizeof<T>())
    if (!isNotLess<T>(v128.xor(v128.load_splat<T>(p), flip), v128.xor(v128.load_splat<T>(p - sizeof<T>()), flip)))
      return false;
  return true;
}

// @ts-ignore: decorator
@inline
function isNotLess<T>(value: v128, before: v128): bool {
  return i32x4.all_true(v128.ge<T>(value, before));
}

/** The bound, where the value is NaN. */
// @ts-ignore: decorator
@inline
function less<T>(bound: v128, value: v128): v128 {
  if (isFloat<T>()) return v128.pmin<T>(bound, value);
  return sizeof<T>() == 8
    ? v128.bitselect(value, bound, i64x2.gt_s(bound, value))
    : i32x4.min_s(bound, value);
}

// @ts-ignore: decorator
@inline
function more<T>(bound: v128, value: v128): v128 {
  if (isFloat<T>()) return v128.pmax<T>(bound, value);
  return sizeof<T>() == 8
    ? v128.bitselect(value, bound, i64x2.gt_s(value, bound))
    : i32x4.max_s(bound, value);
}
