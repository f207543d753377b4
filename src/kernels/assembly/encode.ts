// The encoding kernels, one WebAssembly module. Conventions: ../README.md
export { encodeBlosclz } from "./encode-blosclz";
export { blosclzToLz4 } from "./encode-lz4";
export { encodeLz4 } from "./encode-lz4";
export { encodeLz4hc } from "./encode-lz4";
export { encodeSnappy } from "./encode-snappy";
export { encodeZlib } from "./encode-zlib";
export { bitshuffle } from "./encode-shuffle";
export { shuffle, spreadElements } from "./encode-shuffle";

/**
 * Finds the least and the greatest of little-endian numbers, at least one, and writes a vector of each to `out`: its lanes hold
 * the bounds of some of the numbers. NaN does not count; without any other number the bounds are infinity and -infinity.
 * `goesOn` includes the bounds that are already at `out`. Kinds: 0 int32, 1 uint32, 2 int64, 3 uint64, 4 float32, 5 float64.
 *
 * @returns true if no number is less than the one before it, nor NaN, nor follows NaN
 */
export function bounds(kind: u32, src: usize, length: usize, out: usize, goesOn: bool): bool {
  if (kind < 2) return boundsOf<i32>(src, length, out, goesOn, i32x4.splat(kind == 1 ? i32.MIN_VALUE : 0));
  if (kind < 4) return boundsOf<i64>(src, length, out, goesOn, i64x2.splat(kind == 3 ? i64.MIN_VALUE : 0));
  if (kind == 4) return boundsOf<f32>(src, length, out, goesOn, i32x4.splat(0));
  return boundsOf<f64>(src, length, out, goesOn, i32x4.splat(0));
}

/** Unsigned integers are compared as signed ones with the sign bit flipped. */
function boundsOf<T>(src: usize, length: usize, out: usize, goesOn: bool, flip: v128): bool {
  const end = src + length;
  let least = v128.xor(v128.load(out), flip);
  let greatest = v128.xor(v128.load(out, 16), flip);
  if (!goesOn) {
    least = isFloat<T>() ? v128.splat<T>(<T>Infinity) : v128.xor(v128.load_splat<T>(src), flip);
    greatest = isFloat<T>() ? v128.splat<T>(<T>-Infinity) : least;
  }
  let p = src;
  for (; p + 16 <= end; p += 16) {
    const v = v128.xor(v128.load(p), flip);
    least = less<T>(least, v);
    greatest = more<T>(greatest, v);
  }
  for (; p < end; p += sizeof<T>()) {
    const v = v128.xor(v128.load_splat<T>(p), flip);
    least = less<T>(least, v);
    greatest = more<T>(greatest, v);
  }
  v128.store(out, v128.xor(least, flip));
  v128.store(out, v128.xor(greatest, flip), 16);
  for (p = src + sizeof<T>(); p + 16 <= end; p += 16)
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
