// Transposition of tiles of bytes by perfect shuffles: k rounds interleave 2^k streams.

/** The address of stream `i`, from the table of all streams. */
// @ts-ignore: decorator
@inline
export function streamAt(streams: usize, i: usize): usize {
  return <usize>load<u32>(streams + (i << 2));
}

/** 16 bytes of stream `i` from byte `at` on. */
// @ts-ignore: decorator
@inline
export function row(streams: usize, i: usize, at: usize): v128 {
  return v128.load(streamAt(streams, i) + at);
}

// @ts-ignore: decorator
@inline
function low(a: v128, b: v128): v128 {
  return i8x16.shuffle(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}

// @ts-ignore: decorator
@inline
function high(a: v128, b: v128): v128 {
  return i8x16.shuffle(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}

/** Interleaves 2 vectors: byte 0 of each, byte 1 of each, … The 2 results are stored 8 elements of type T apart. */
// @ts-ignore: decorator
@inline
export function interleave2Registers<T>(r0: v128, r1: v128, dst: usize): void {
  v128.store(dst, low(r0, r1));
  v128.store(dst, high(r0, r1), 8 * sizeof<T>());
}

/** The same with 4 vectors. */
// @ts-ignore: decorator
@inline
export function interleave4Registers<T>(r0: v128, r1: v128, r2: v128, r3: v128, dst: usize): void {
  const a0 = low(r0, r2), a1 = high(r0, r2);
  const a2 = low(r1, r3), a3 = high(r1, r3);
  v128.store(dst, low(a0, a2));
  v128.store(dst, high(a0, a2), 8 * sizeof<T>());
  v128.store(dst, low(a1, a3), 16 * sizeof<T>());
  v128.store(dst, high(a1, a3), 24 * sizeof<T>());
}

/** The same with 8 vectors. */
// @ts-ignore: decorator
@inline
export function interleave8Registers<T>(
  r0: v128, r1: v128, r2: v128, r3: v128, r4: v128, r5: v128, r6: v128, r7: v128,
  dst: usize,
): void {
  const a0 = low(r0, r4), a1 = high(r0, r4);
  const a2 = low(r1, r5), a3 = high(r1, r5);
  const a4 = low(r2, r6), a5 = high(r2, r6);
  const a6 = low(r3, r7), a7 = high(r3, r7);
  const b0 = low(a0, a4), b1 = high(a0, a4);
  const b2 = low(a1, a5), b3 = high(a1, a5);
  const b4 = low(a2, a6), b5 = high(a2, a6);
  const b6 = low(a3, a7), b7 = high(a3, a7);
  v128.store(dst, low(b0, b4));
  v128.store(dst, high(b0, b4), 8 * sizeof<T>());
  v128.store(dst, low(b1, b5), 16 * sizeof<T>());
  v128.store(dst, high(b1, b5), 24 * sizeof<T>());
  v128.store(dst, low(b2, b6), 32 * sizeof<T>());
  v128.store(dst, high(b2, b6), 40 * sizeof<T>());
  v128.store(dst, low(b3, b7), 48 * sizeof<T>());
  v128.store(dst, high(b3, b7), 56 * sizeof<T>());
}

/** Interleaves 16 bytes each of 2 streams, from byte `at` on, into 16 pieces of 2 bytes, `stride` bytes apart. */
// @ts-ignore: decorator
@inline
export function interleave2(streams: usize, at: usize, dst: usize, stride: usize): void {
  const r0 = row(streams, 0, at);
  const r1 = row(streams, 1, at);
  const a0 = low(r0, r1), a1 = high(r0, r1);
  v128.store16_lane(dst, a0, 0);
  v128.store16_lane(dst += stride, a0, 1);
  v128.store16_lane(dst += stride, a0, 2);
  v128.store16_lane(dst += stride, a0, 3);
  v128.store16_lane(dst += stride, a0, 4);
  v128.store16_lane(dst += stride, a0, 5);
  v128.store16_lane(dst += stride, a0, 6);
  v128.store16_lane(dst += stride, a0, 7);
  v128.store16_lane(dst += stride, a1, 0);
  v128.store16_lane(dst += stride, a1, 1);
  v128.store16_lane(dst += stride, a1, 2);
  v128.store16_lane(dst += stride, a1, 3);
  v128.store16_lane(dst += stride, a1, 4);
  v128.store16_lane(dst += stride, a1, 5);
  v128.store16_lane(dst += stride, a1, 6);
  v128.store16_lane(dst += stride, a1, 7);
}

/** Interleaves 16 bytes each of 4 streams, from byte `at` on, into 16 pieces of 4 bytes, `stride` bytes apart. */
// @ts-ignore: decorator
@inline
export function interleave4(streams: usize, at: usize, dst: usize, stride: usize): void {
  const r0 = row(streams, 0, at);
  const r1 = row(streams, 1, at);
  const r2 = row(streams, 2, at);
  const r3 = row(streams, 3, at);
  const a0 = low(r0, r2), a1 = high(r0, r2);
  const a2 = low(r1, r3), a3 = high(r1, r3);
  const b0 = low(a0, a2), b1 = high(a0, a2);
  const b2 = low(a1, a3), b3 = high(a1, a3);
  v128.store32_lane(dst, b0, 0);
  v128.store32_lane(dst += stride, b0, 1);
  v128.store32_lane(dst += stride, b0, 2);
  v128.store32_lane(dst += stride, b0, 3);
  v128.store32_lane(dst += stride, b1, 0);
  v128.store32_lane(dst += stride, b1, 1);
  v128.store32_lane(dst += stride, b1, 2);
  v128.store32_lane(dst += stride, b1, 3);
  v128.store32_lane(dst += stride, b2, 0);
  v128.store32_lane(dst += stride, b2, 1);
  v128.store32_lane(dst += stride, b2, 2);
  v128.store32_lane(dst += stride, b2, 3);
  v128.store32_lane(dst += stride, b3, 0);
  v128.store32_lane(dst += stride, b3, 1);
  v128.store32_lane(dst += stride, b3, 2);
  v128.store32_lane(dst += stride, b3, 3);
}

/** Interleaves 16 bytes each of 8 streams, from byte `at` on, into 16 pieces of 8 bytes, `stride` bytes apart. */
// @ts-ignore: decorator
@inline
export function interleave8(streams: usize, at: usize, dst: usize, stride: usize): void {
  const r0 = row(streams, 0, at);
  const r1 = row(streams, 1, at);
  const r2 = row(streams, 2, at);
  const r3 = row(streams, 3, at);
  const r4 = row(streams, 4, at);
  const r5 = row(streams, 5, at);
  const r6 = row(streams, 6, at);
  const r7 = row(streams, 7, at);
  const a0 = low(r0, r4), a1 = high(r0, r4);
  const a2 = low(r1, r5), a3 = high(r1, r5);
  const a4 = low(r2, r6), a5 = high(r2, r6);
  const a6 = low(r3, r7), a7 = high(r3, r7);
  const b0 = low(a0, a4), b1 = high(a0, a4);
  const b2 = low(a1, a5), b3 = high(a1, a5);
  const b4 = low(a2, a6), b5 = high(a2, a6);
  const b6 = low(a3, a7), b7 = high(a3, a7);
  const c0 = low(b0, b4), c1 = high(b0, b4);
  const c2 = low(b1, b5), c3 = high(b1, b5);
  const c4 = low(b2, b6), c5 = high(b2, b6);
  const c6 = low(b3, b7), c7 = high(b3, b7);
  v128.store64_lane(dst, c0, 0);
  v128.store64_lane(dst += stride, c0, 1);
  v128.store64_lane(dst += stride, c1, 0);
  v128.store64_lane(dst += stride, c1, 1);
  v128.store64_lane(dst += stride, c2, 0);
  v128.store64_lane(dst += stride, c2, 1);
  v128.store64_lane(dst += stride, c3, 0);
  v128.store64_lane(dst += stride, c3, 1);
  v128.store64_lane(dst += stride, c4, 0);
  v128.store64_lane(dst += stride, c4, 1);
  v128.store64_lane(dst += stride, c5, 0);
  v128.store64_lane(dst += stride, c5, 1);
  v128.store64_lane(dst += stride, c6, 0);
  v128.store64_lane(dst += stride, c6, 1);
  v128.store64_lane(dst += stride, c7, 0);
  v128.store64_lane(dst += stride, c7, 1);
}
