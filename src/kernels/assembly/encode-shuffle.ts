// Byte shuffle: n elements of `typesize` bytes become `typesize` streams of n bytes. Bytes after the last whole element
// are copied. Widths that are not a power of two are covered by overlapping groups of columns.

// Transposes tiles of 16 elements by perfect shuffles, for byte shuffle and bit shuffle.

// @ts-ignore: decorator
@inline
function low8(a: v128, b: v128): v128 {
  return i8x16.shuffle(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}

// @ts-ignore: decorator
@inline
function high8(a: v128, b: v128): v128 {
  return i8x16.shuffle(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}

// @ts-ignore: decorator
@inline
function gather16(src: usize, stride: usize): v128 {
  let r = v128.load16_lane(src, i64x2.splat(0), 0);
  r = v128.load16_lane(src += stride, r, 1);
  r = v128.load16_lane(src += stride, r, 2);
  r = v128.load16_lane(src += stride, r, 3);
  r = v128.load16_lane(src += stride, r, 4);
  r = v128.load16_lane(src += stride, r, 5);
  r = v128.load16_lane(src += stride, r, 6);
  return v128.load16_lane(src += stride, r, 7);
}

// @ts-ignore: decorator
@inline
function gather32(src: usize, stride: usize): v128 {
  let r = v128.load32_zero(src);
  r = v128.load32_lane(src += stride, r, 1);
  r = v128.load32_lane(src += stride, r, 2);
  return v128.load32_lane(src += stride, r, 3);
}

// @ts-ignore: decorator
@inline
function gather64(src: usize, stride: usize): v128 {
  return v128.load64_lane(src + stride, v128.load64_zero(src), 1);
}

/** Two columns of 16 elements, `stride` bytes apart, into two streams, `pitch` bytes apart. */
// @ts-ignore: decorator
@inline
function tile2(src: usize, stride: usize, dst: usize, pitch: usize): void {
  let r0: v128, r1: v128;
  if (stride == 2) {
    r0 = v128.load(src, 0);
    r1 = v128.load(src, 16);
  } else {
    r0 = gather16(src, stride);
    r1 = gather16(src + (stride << 3), stride);
  }
  const low = i16x8.splat(0xff);
  v128.store(dst, i8x16.narrow_i16x8_u(v128.and(r0, low), v128.and(r1, low)));
  v128.store(dst + pitch, i8x16.narrow_i16x8_u(i16x8.shr_u(r0, 8), i16x8.shr_u(r1, 8)));
}

/** Four columns of 16 elements into four streams. */
// @ts-ignore: decorator
@inline
function tile4(src: usize, stride: usize, dst: usize, pitch: usize): void {
  let r0: v128, r1: v128, r2: v128, r3: v128;
  if (stride == 4) {
    r0 = v128.load(src, 0);
    r1 = v128.load(src, 16);
    r2 = v128.load(src, 32);
    r3 = v128.load(src, 48);
  } else {
    const four = stride << 2;
    r0 = gather32(src, stride);
    src += four;
    r1 = gather32(src, stride);
    src += four;
    r2 = gather32(src, stride);
    src += four;
    r3 = gather32(src, stride);
  }
  const a0 = low8(r0, r2), a2 = high8(r0, r2);
  const a1 = low8(r1, r3), a3 = high8(r1, r3);
  const b0 = low8(a0, a1), b1 = high8(a0, a1);
  const b2 = low8(a2, a3), b3 = high8(a2, a3);
  const c0 = low8(b0, b2), c1 = high8(b0, b2);
  const c2 = low8(b1, b3), c3 = high8(b1, b3);
  const d0 = low8(c0, c2), d1 = high8(c0, c2);
  const d2 = low8(c1, c3), d3 = high8(c1, c3);
  v128.store(dst, d0);
  v128.store(dst += pitch, d1);
  v128.store(dst += pitch, d2);
  v128.store(dst += pitch, d3);
}

/** A step of the bit transposition: swaps the bits of `mask << shift` in `a` with the bits of `mask` in `b`. */
// @ts-ignore: decorator
@inline
function crossing(a: v128, b: v128, shift: i32, mask: u8): v128 {
  return v128.and(v128.xor(i16x8.shr_u(a, shift), b), i8x16.splat(mask));
}

/**
 * Spreads 16 elements of 8 bytes, in 8 vectors, over 8 streams. With `bits`, the streams are further turned into rows
 * of bits: row k has bit k of all bytes, those of stream 0 in the lowest bits.
 */
// @ts-ignore: decorator
@inline
function spread8(
  r0: v128, r1: v128, r2: v128, r3: v128, r4: v128, r5: v128, r6: v128, r7: v128,
  dst: usize, pitch: usize, bits: bool,
): void {
  const a0 = low8(r0, r4), a4 = high8(r0, r4);
  const a1 = low8(r1, r5), a5 = high8(r1, r5);
  const a2 = low8(r2, r6), a6 = high8(r2, r6);
  const a3 = low8(r3, r7), a7 = high8(r3, r7);
  const b0 = low8(a0, a2), b2 = high8(a0, a2);
  const b1 = low8(a1, a3), b3 = high8(a1, a3);
  const b4 = low8(a4, a6), b6 = high8(a4, a6);
  const b5 = low8(a5, a7), b7 = high8(a5, a7);
  const c0 = low8(b0, b1), c1 = high8(b0, b1);
  const c2 = low8(b2, b3), c3 = high8(b2, b3);
  const c4 = low8(b4, b5), c5 = high8(b4, b5);
  const c6 = low8(b6, b7), c7 = high8(b6, b7);
  let d0 = low8(c0, c4), d1 = high8(c0, c4);
  let d2 = low8(c1, c5), d3 = high8(c1, c5);
  let d4 = low8(c2, c6), d5 = high8(c2, c6);
  let d6 = low8(c3, c7), d7 = high8(c3, c7);
  if (bits) {
    let t: v128;
    t = crossing(d0, d4, 4, 0x0f);
    d4 = v128.xor(d4, t);
    d0 = v128.xor(d0, i16x8.shl(t, 4));
    t = crossing(d1, d5, 4, 0x0f);
    d5 = v128.xor(d5, t);
    d1 = v128.xor(d1, i16x8.shl(t, 4));
    t = crossing(d2, d6, 4, 0x0f);
    d6 = v128.xor(d6, t);
    d2 = v128.xor(d2, i16x8.shl(t, 4));
    t = crossing(d3, d7, 4, 0x0f);
    d7 = v128.xor(d7, t);
    d3 = v128.xor(d3, i16x8.shl(t, 4));
    t = crossing(d0, d2, 2, 0x33);
    d2 = v128.xor(d2, t);
    d0 = v128.xor(d0, i16x8.shl(t, 2));
    t = crossing(d1, d3, 2, 0x33);
    d3 = v128.xor(d3, t);
    d1 = v128.xor(d1, i16x8.shl(t, 2));
    t = crossing(d4, d6, 2, 0x33);
    d6 = v128.xor(d6, t);
    d4 = v128.xor(d4, i16x8.shl(t, 2));
    t = crossing(d5, d7, 2, 0x33);
    d7 = v128.xor(d7, t);
    d5 = v128.xor(d5, i16x8.shl(t, 2));
    t = crossing(d0, d1, 1, 0x55);
    d1 = v128.xor(d1, t);
    d0 = v128.xor(d0, i16x8.shl(t, 1));
    t = crossing(d2, d3, 1, 0x55);
    d3 = v128.xor(d3, t);
    d2 = v128.xor(d2, i16x8.shl(t, 1));
    t = crossing(d4, d5, 1, 0x55);
    d5 = v128.xor(d5, t);
    d4 = v128.xor(d4, i16x8.shl(t, 1));
    t = crossing(d6, d7, 1, 0x55);
    d7 = v128.xor(d7, t);
    d6 = v128.xor(d6, i16x8.shl(t, 1));
  }
  v128.store(dst, d0);
  v128.store(dst += pitch, d1);
  v128.store(dst += pitch, d2);
  v128.store(dst += pitch, d3);
  v128.store(dst += pitch, d4);
  v128.store(dst += pitch, d5);
  v128.store(dst += pitch, d6);
  v128.store(dst += pitch, d7);
}

/** Eight columns of 16 elements into eight streams. */
// @ts-ignore: decorator
@inline
function tile8(src: usize, stride: usize, dst: usize, pitch: usize): void {
  if (stride == 8) {
    spread8(
      v128.load(src, 0), v128.load(src, 16), v128.load(src, 32), v128.load(src, 48),
      v128.load(src, 64), v128.load(src, 80), v128.load(src, 96), v128.load(src, 112),
      dst, pitch, false,
    );
  } else {
    const two = stride << 1;
    const r0 = gather64(src, stride);
    src += two;
    const r1 = gather64(src, stride);
    src += two;
    const r2 = gather64(src, stride);
    src += two;
    const r3 = gather64(src, stride);
    src += two;
    const r4 = gather64(src, stride);
    src += two;
    const r5 = gather64(src, stride);
    src += two;
    const r6 = gather64(src, stride);
    src += two;
    const r7 = gather64(src, stride);
    spread8(r0, r1, r2, r3, r4, r5, r6, r7, dst, pitch, false);
  }
}

// Bit shuffle. A block of n elements becomes 8 x typesize rows of n / 8 bytes: row 8j + k has bit k of byte j of every
// element, element 0 in the lowest bit. If n is not a multiple of 8, the block is copied, as in c-blosc (since 1.7).

/** Most bytes of each row that are made at a time: rows whose length is a power of two evict one another from the cache. */
const WIDTH: usize = 256;
/** Room for the elements of these bytes, in the kernel's part of the memory. */
const TILE: usize = 32768;
const TILE_LENGTH: usize = 32768;

/** Shuffles the bits of a block of `length` bytes. */
export function bitshuffle(src: usize, dst: usize, length: usize, typesize: usize): void {
  const count = length / typesize;
  if (count == 0 || (count & 7) != 0) {
    memory.copy(dst, src, length);
    return;
  }
  const whole = count * typesize;
  if (whole != length) memory.copy(dst + whole, src + whole, length - whole);
  const row = count >> 3;
  if (row < 16) {
    bitshuffleFew(src, dst, row, typesize);
    return;
  }
  let width = WIDTH;
  while (width > 16 && ((width << 3) * typesize > TILE_LENGTH || row < width << 2)) width >>= 1;
  if (typesize == 1) width = 16;
  const pitch = width << 3;
  const last = row - width;
  let at: usize = 0;
  while (true) {
    const from = src + (at << 3) * typesize;
    if (typesize == 1) {
      bitTile(from, dst + at, row);
    } else {
      spreadElements(from, pitch, TILE, pitch, typesize);
      let tile = TILE;
      let to = dst + at;
      for (let j: usize = 0; j < typesize; j++) {
        for (let k: usize = 0; k < width; k += 16) {
          bitTile(tile, to + k, row);
          tile += 128;
        }
        to += row << 3;
      }
    }
    if (at == last) break;
    at += width;
    // The last tiles overlap the previous ones.
    if (at > last) at = last;
  }
}

/** 128 bytes into 8 rows of 16 bytes: bytes 8g to 8g + 7 give byte g of every row. */
// @ts-ignore: decorator
@inline
function bitTile(src: usize, dst: usize, row: usize): void {
  spread8(
    v128.load(src, 0), v128.load(src, 16), v128.load(src, 32), v128.load(src, 48),
    v128.load(src, 64), v128.load(src, 80), v128.load(src, 96), v128.load(src, 112),
    dst, row, true,
  );
}

function bitshuffleFew(src: usize, dst: usize, row: usize, typesize: usize): void {
  for (let j: usize = 0; j < typesize; j++) {
    for (let g: usize = 0; g < row; g++) {
      let bits: u64 = 0;
      const from = src + (g << 3) * typesize + j;
      for (let e: usize = 0; e < 8; e++) bits |= <u64>load<u8>(from + e * typesize) << (e << 3);
      let t = (bits ^ (bits >> 7)) & 0x00aa00aa00aa00aa;
      bits ^= t ^ (t << 7);
      t = (bits ^ (bits >> 14)) & 0x0000cccc0000cccc;
      bits ^= t ^ (t << 14);
      t = (bits ^ (bits >> 28)) & 0x00000000f0f0f0f0;
      bits ^= t ^ (t << 28);
      const to = dst + j * (row << 3) + g;
      for (let k: usize = 0; k < 8; k++) store<u8>(to + k * row, <u8>(bits >> (k << 3)));
    }
  }
}

// Elements of 2, 4 and 8 bytes have separate loops that do not test the width: up to a quarter less time.

/** Elements as long as a T into as many streams. */
function shuffleAll<T>(src: usize, count: usize, dst: usize, pitch: usize): void {
  tiles<T>(src, sizeof<T>(), count, dst, pitch);
}

/** As many columns as a T has bytes, of elements `stride` bytes apart, into as many streams. */
function columns<T>(src: usize, stride: usize, count: usize, dst: usize, pitch: usize): void {
  tiles<T>(src, stride, count, dst, pitch);
}

// @ts-ignore: decorator
@inline
function tiles<T>(src: usize, stride: usize, count: usize, dst: usize, pitch: usize): void {
  const last = count - 16;
  for (let i: usize = 0; i < last; i += 16) tile<T>(src + i * stride, stride, dst + i, pitch);
  // The last tile ends with the last element and may overlap the previous one.
  tile<T>(src + last * stride, stride, dst + last, pitch);
}

// @ts-ignore: decorator
@inline
function tile<T>(src: usize, stride: usize, dst: usize, pitch: usize): void {
  if (sizeof<T>() == 2) tile2(src, stride, dst, pitch);
  else if (sizeof<T>() == 4) tile4(src, stride, dst, pitch);
  else tile8(src, stride, dst, pitch);
}

/** Shuffles the bytes of a block of `length` bytes. */
export function shuffle(src: usize, dst: usize, length: usize, typesize: usize): void {
  const count = length / typesize;
  const whole = count * typesize;
  if (whole != length) memory.copy(dst + whole, src + whole, length - whole);
  spreadElements(src, count, dst, count, typesize);
}

/** Shuffles `count` elements into streams that are `pitch` bytes apart. */
export function spreadElements(src: usize, count: usize, dst: usize, pitch: usize, typesize: usize): void {
  if (typesize == 1) {
    memory.copy(dst, src, count);
  } else if (count < 16) {
    shuffleFew(src, count, dst, pitch, typesize);
  } else if (typesize == 2) {
    shuffleAll<u16>(src, count, dst, pitch);
  } else if (typesize == 4) {
    shuffleAll<u32>(src, count, dst, pitch);
  } else if (typesize == 8) {
    shuffleAll<u64>(src, count, dst, pitch);
  } else if (typesize == 3) {
    columns<u16>(src, 3, count, dst, pitch);
    columns<u16>(src + 1, 3, count, dst + pitch, pitch);
  } else if (typesize < 8) {
    const rest = typesize - 4;
    columns<u32>(src, typesize, count, dst, pitch);
    columns<u32>(src + rest, typesize, count, dst + rest * pitch, pitch);
  } else {
    const rest = typesize - 8;
    for (let first: usize = 0; first < rest; first += 8) {
      columns<u64>(src + first, typesize, count, dst + first * pitch, pitch);
    }
    columns<u64>(src + rest, typesize, count, dst + rest * pitch, pitch);
  }
}

function shuffleFew(src: usize, count: usize, dst: usize, pitch: usize, typesize: usize): void {
  for (let j: usize = 0; j < typesize; j++) {
    let from = src + j;
    for (let i: usize = 0; i < count; i++) {
      store<u8>(dst + i, load<u8>(from));
      from += typesize;
    }
    dst += pitch;
  }
}
