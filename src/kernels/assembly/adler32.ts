// Adler-32. Used on its own and by the zlib kernels. @see RFC 1950

const BASE: u32 = 65521;
/** Bytes after which the sums are reduced, so that 32 bits do not overflow. */
const ROUND: usize = 4096;

/** The Adler-32 of `length` bytes that follow data with the sum `sum` (1 for no data). */
export function adler32(src: usize, length: usize, sum: u32): u32 {
  let a: u32 = sum & 0xffff;
  let b: u32 = sum >>> 16;
  while (length >= 16) {
    const round = (length < ROUND ? length : ROUND) & ~15;
    const end = src + round;
    // b grows by 16 x (a before the vector), plus 16, 15, … 1 times the bytes of the vector.
    let sums = i32x4.splat(0);
    let before = i32x4.splat(0);
    let weighted = i32x4.splat(0);
    while (src < end) {
      const v = v128.load(src);
      before = i32x4.add(before, sums);
      sums = i32x4.add(sums, i32x4.extadd_pairwise_i16x8_u(i16x8.extadd_pairwise_i8x16_u(v)));
      weighted = i32x4.add(weighted, i32x4.dot_i16x8_s(i16x8.extend_low_i8x16_u(v), i16x8(16, 15, 14, 13, 12, 11, 10, 9)));
      weighted = i32x4.add(weighted, i32x4.dot_i16x8_s(i16x8.extend_high_i8x16_u(v), i16x8(8, 7, 6, 5, 4, 3, 2, 1)));
      src += 16;
    }
    b = <u32>((<u64>b + <u64>a * round + (<u64>total(before) << 4) + total(weighted)) % BASE);
    a = (a + total(sums)) % BASE;
    length -= round;
  }
  for (; length != 0; length--) {
    a += load<u8>(src++);
    b += a;
  }
  return ((b % BASE) << 16) | (a % BASE);
}

// @ts-ignore: decorator
@inline
function total(v: v128): u32 {
  return i32x4.extract_lane(v, 0) + i32x4.extract_lane(v, 1) + i32x4.extract_lane(v, 2) + i32x4.extract_lane(v, 3);
}
