// Byte unshuffle: `typesize` streams of n bytes become n elements of `typesize` bytes. Bytes after the last whole element are
// copied. Elements are assembled 16 at a time from groups of 2, 4 or 8 streams, which may be at any addresses.
import {
  interleave2, interleave2Registers, interleave4, interleave4Registers, interleave8, interleave8Registers,
  streamAt,
} from "./decode-interleave";

// Bit unshuffle. A block of n elements has 8 x typesize rows of n / 8 bytes: row 8j + k has bit k of byte j of every element,
// element 0 in the lowest bit. c-blosc filters only if n is a multiple of 8, and copies all other blocks (since 1.7).

/** Bytes of each row that are read at a time: rows whose length is a power of two evict one another from the cache. */
const WIDE: usize = 256;
/** The same for elements of at least 16 bytes, of which no more fit in the tile: a cache line. */
const LINE: usize = 64;
/** Elements of at least this length are assembled from 16 bytes of a row at a time. */
const LONG: usize = 64;
/** Room for the elements of these bytes, as consecutive streams, and the addresses of these streams. */
const TILE = memory.data(128 * 255, 16);
const TILE_STREAMS = memory.data(4 * 255, 16);

// @ts-ignore: decorator
@inline
function mask(bits: u8): v128 {
  return i8x16.splat(bits);
}

/** Undoes the bit shuffle of a block of `length` bytes. */
export function bitunshuffle(src: usize, dst: usize, length: usize, typesize: usize): void {
  const count = length / typesize;
  const whole = count * typesize;
  if (whole != length) memory.copy(dst + whole, src + whole, length - whole);
  bitunshuffleStreams(placeStreams(src, count, typesize), dst, whole, typesize);
}

/** Undoes the bit shuffle of `typesize` streams, 8 rows each, of `length` bytes in all; a table has their addresses. */
export function bitunshuffleStreams(streams: usize, dst: usize, length: usize, typesize: usize): void {
  const count = length / typesize;
  if ((count & 7) != 0) {
    for (let j: usize = 0; j < typesize; j++) {
      memory.copy(dst, streamAt(streams, j), count);
      dst += count;
    }
    return;
  }
  const row = count >> 3;
  if (row < 16) {
    bitunshuffleFew(streams, dst, row, typesize);
    return;
  }
  const width: usize = row < WIDE << 1 || typesize == 1 || typesize >= LONG ? 16 : typesize >= 16 ? LINE : WIDE;
  const pitch = width << 3;
  for (let j: usize = 0; j < typesize; j++) store<u32>(TILE_STREAMS + (j << 2), <u32>(TILE + j * pitch));
  const last = row - width;
  let at: usize = 0;
  while (true) {
    const out = dst + (at << 3) * typesize;
    if (typesize == 1) {
      bitTile(streamAt(streams, 0) + at, row, out, 8);
    } else if (typesize == 4) {
      bitTiles(streams, 4, at, row, width, TILE, 4);
      for (let k: usize = 0; k < pitch; k += 128) join4(TILE + k, pitch, out + (k << 2));
    } else if (typesize == 8) {
      bitTiles(streams, 8, at, row, width, TILE, 2);
      for (let k: usize = 0; k < pitch; k += 128) join8(TILE + k, pitch, out + (k << 3));
    } else {
      bitTiles(streams, typesize, at, row, width, TILE, 8);
      unshuffleStreams(TILE_STREAMS, out, typesize * pitch, typesize);
    }
    if (at == last) break;
    at += width;
    // The last tiles overlap the previous ones.
    if (at > last) at = last;
  }
}

/** The bytes of 8 x `width` elements, as consecutive streams. */
// @ts-ignore: decorator
@inline
function bitTiles(
  streams: usize, typesize: usize, at: usize, row: usize, width: usize, dst: usize, together: i32,
): void {
  for (let j: usize = 0; j < typesize; j++) {
    const src = streamAt(streams, j) + at;
    for (let k: usize = 0; k < width; k += 16) {
      bitTile(src + k, row, dst, together);
      dst += 128;
    }
  }
}

/**
 * 128 elements of 4 bytes. The tiles have already done two of the four rounds that assemble 16 bytes of elements, which saves
 * putting a stream's bytes in order. Vectors i and i + 4 of a stream have elements 32 i to 32 i + 31, four of every eight.
 */
// @ts-ignore: decorator
@inline
function join4(src: usize, pitch: usize, dst: usize): void {
  for (let i: usize = 0; i < 8; i++) {
    const from = src + (i << 4);
    const two = from + (pitch << 1);
    interleave4Registers<u32>(
      v128.load(from), v128.load(from + pitch), v128.load(two), v128.load(two + pitch),
      dst + ((i & 3) << 7) + ((i >> 2) << 4),
    );
  }
}

/**
 * 128 elements of 8 bytes, of whose rounds the tiles have done one: vector 2 i + h of a stream has two of every eight
 * elements of half h.
 */
// @ts-ignore: decorator
@inline
function join8(src: usize, pitch: usize, dst: usize): void {
  for (let i: usize = 0; i < 8; i++) {
    const from = src + (i << 4);
    const two = from + (pitch << 1);
    const four = from + (pitch << 2);
    const six = two + (pitch << 2);
    interleave8Registers<u64>(
      v128.load(from), v128.load(from + pitch), v128.load(two), v128.load(two + pitch),
      v128.load(four), v128.load(four + pitch), v128.load(six), v128.load(six + pitch),
      dst + ((i & 1) << 9) + ((i >> 1) << 4),
    );
  }
}

/**
 * Bytes j of 128 elements from their 8 rows: an 8 x 8 transposition of bits across vectors, then of bytes, which leaves
 * `together` consecutive elements next to one another.
 */
// @ts-ignore: decorator
@inline
function bitTile(src: usize, row: usize, dst: usize, together: i32): void {
  let r0 = v128.load(src);
  src += row;
  let r1 = v128.load(src);
  src += row;
  let r2 = v128.load(src);
  src += row;
  let r3 = v128.load(src);
  src += row;
  let r4 = v128.load(src);
  src += row;
  let r5 = v128.load(src);
  src += row;
  let r6 = v128.load(src);
  src += row;
  let r7 = v128.load(src);
  let t: v128;
  const m4 = mask(0x0f);
  t = v128.and(v128.xor(i16x8.shr_u(r0, 4), r4), m4);
  r4 = v128.xor(r4, t);
  r0 = v128.xor(r0, i16x8.shl(t, 4));
  t = v128.and(v128.xor(i16x8.shr_u(r1, 4), r5), m4);
  r5 = v128.xor(r5, t);
  r1 = v128.xor(r1, i16x8.shl(t, 4));
  t = v128.and(v128.xor(i16x8.shr_u(r2, 4), r6), m4);
  r6 = v128.xor(r6, t);
  r2 = v128.xor(r2, i16x8.shl(t, 4));
  t = v128.and(v128.xor(i16x8.shr_u(r3, 4), r7), m4);
  r7 = v128.xor(r7, t);
  r3 = v128.xor(r3, i16x8.shl(t, 4));
  const m2 = mask(0x33);
  t = v128.and(v128.xor(i16x8.shr_u(r0, 2), r2), m2);
  r2 = v128.xor(r2, t);
  r0 = v128.xor(r0, i16x8.shl(t, 2));
  t = v128.and(v128.xor(i16x8.shr_u(r1, 2), r3), m2);
  r3 = v128.xor(r3, t);
  r1 = v128.xor(r1, i16x8.shl(t, 2));
  t = v128.and(v128.xor(i16x8.shr_u(r4, 2), r6), m2);
  r6 = v128.xor(r6, t);
  r4 = v128.xor(r4, i16x8.shl(t, 2));
  t = v128.and(v128.xor(i16x8.shr_u(r5, 2), r7), m2);
  r7 = v128.xor(r7, t);
  r5 = v128.xor(r5, i16x8.shl(t, 2));
  const m1 = mask(0x55);
  t = v128.and(v128.xor(i16x8.shr_u(r0, 1), r1), m1);
  r1 = v128.xor(r1, t);
  r0 = v128.xor(r0, i16x8.shl(t, 1));
  t = v128.and(v128.xor(i16x8.shr_u(r2, 1), r3), m1);
  r3 = v128.xor(r3, t);
  r2 = v128.xor(r2, i16x8.shl(t, 1));
  t = v128.and(v128.xor(i16x8.shr_u(r4, 1), r5), m1);
  r5 = v128.xor(r5, t);
  r4 = v128.xor(r4, i16x8.shl(t, 1));
  t = v128.and(v128.xor(i16x8.shr_u(r6, 1), r7), m1);
  r7 = v128.xor(r7, t);
  r6 = v128.xor(r6, i16x8.shl(t, 1));
  if (together == 2) {
    interleave2Registers<u16>(r0, r1, dst);
    interleave2Registers<u16>(r2, r3, dst + 32);
    interleave2Registers<u16>(r4, r5, dst + 64);
    interleave2Registers<u16>(r6, r7, dst + 96);
  } else if (together == 4) {
    interleave4Registers<u16>(r0, r1, r2, r3, dst);
    interleave4Registers<u16>(r4, r5, r6, r7, dst + 64);
  } else {
    interleave8Registers<u16>(r0, r1, r2, r3, r4, r5, r6, r7, dst);
  }
}

function bitunshuffleFew(streams: usize, dst: usize, row: usize, typesize: usize): void {
  for (let j: usize = 0; j < typesize; j++) {
    const src = streamAt(streams, j);
    for (let g: usize = 0; g < row; g++) {
      const from = src + g;
      let bits: u64 = 0;
      for (let k: usize = 0; k < 8; k++) bits |= <u64>load<u8>(from + k * row) << (k << 3);
      let t = (bits ^ (bits >> 7)) & 0x00aa00aa00aa00aa;
      bits ^= t ^ (t << 7);
      t = (bits ^ (bits >> 14)) & 0x0000cccc0000cccc;
      bits ^= t ^ (t << 14);
      t = (bits ^ (bits >> 28)) & 0x00000000f0f0f0f0;
      bits ^= t ^ (t << 28);
      const to = dst + (g << 3) * typesize + j;
      for (let e: usize = 0; e < 8; e++) store<u8>(to + e * typesize, <u8>(bits >> (e << 3)));
    }
  }
}

/** Addresses of a block's streams, 32 bits each. */
const STREAMS = memory.data(4 * 255, 16);

/** Address of the table where the host puts the addresses of streams that are not consecutive. */
export function streamTable(): usize {
  return STREAMS;
}

/** Fills the table with streams that are `pitch` bytes apart. Returns its address. */
export function placeStreams(src: usize, pitch: usize, typesize: usize): usize {
  for (let j: usize = 0; j < typesize; j++) {
    store<u32>(STREAMS + (j << 2), <u32>src);
    src += pitch;
  }
  return STREAMS;
}

/** Elements of 2 bytes. */
function unshuffle2(streams: usize, first: usize, count: usize, dst: usize): void {
  const s0 = streamAt(streams, 0) + first, s1 = streamAt(streams, 1) + first;
  const last = count - 16;
  for (let i: usize = 0; i < last; i += 16) {
    interleave2Registers<u16>(v128.load(s0 + i), v128.load(s1 + i), dst + (i << 1));
  }
  // The last tile may overlap the previous one.
  interleave2Registers<u16>(v128.load(s0 + last), v128.load(s1 + last), dst + (last << 1));
}

/** Elements of 4 bytes. */
function unshuffle4(streams: usize, first: usize, count: usize, dst: usize): void {
  const s0 = streamAt(streams, 0) + first, s1 = streamAt(streams, 1) + first;
  const s2 = streamAt(streams, 2) + first, s3 = streamAt(streams, 3) + first;
  const last = count - 16;
  for (let i: usize = 0; i < last; i += 16) put4(s0, s1, s2, s3, i, dst);
  put4(s0, s1, s2, s3, last, dst);
}

// @ts-ignore: decorator
@inline
function put4(s0: usize, s1: usize, s2: usize, s3: usize, i: usize, dst: usize): void {
  interleave4Registers<u16>(v128.load(s0 + i), v128.load(s1 + i), v128.load(s2 + i), v128.load(s3 + i), dst + (i << 2));
}

/** Elements of 8 bytes. */
function unshuffle8(streams: usize, first: usize, count: usize, dst: usize): void {
  const s0 = streamAt(streams, 0) + first, s1 = streamAt(streams, 1) + first;
  const s2 = streamAt(streams, 2) + first, s3 = streamAt(streams, 3) + first;
  const s4 = streamAt(streams, 4) + first, s5 = streamAt(streams, 5) + first;
  const s6 = streamAt(streams, 6) + first, s7 = streamAt(streams, 7) + first;
  const last = count - 16;
  for (let i: usize = 0; i < last; i += 16) put8(s0, s1, s2, s3, s4, s5, s6, s7, i, dst);
  put8(s0, s1, s2, s3, s4, s5, s6, s7, last, dst);
}

// @ts-ignore: decorator
@inline
function put8(
  s0: usize, s1: usize, s2: usize, s3: usize, s4: usize, s5: usize, s6: usize, s7: usize,
  i: usize, dst: usize,
): void {
  interleave8Registers<u16>(
    v128.load(s0 + i), v128.load(s1 + i), v128.load(s2 + i), v128.load(s3 + i),
    v128.load(s4 + i), v128.load(s5 + i), v128.load(s6 + i), v128.load(s7 + i),
    dst + (i << 3),
  );
}

/** As many bytes as a T has, of each longer element; the elements are `stride` bytes apart. */
function gather<T>(streams: usize, first: usize, count: usize, dst: usize, stride: usize): void {
  const last = count - 16;
  for (let i: usize = 0; i < last; i += 16) interleave<T>(streams, first + i, dst + i * stride, stride);
  // The last tile may overlap the previous one.
  interleave<T>(streams, first + last, dst + last * stride, stride);
}

// @ts-ignore: decorator
@inline
function interleave<T>(streams: usize, at: usize, dst: usize, stride: usize): void {
  if (sizeof<T>() == 2) interleave2(streams, at, dst, stride);
  else if (sizeof<T>() == 4) interleave4(streams, at, dst, stride);
  else interleave8(streams, at, dst, stride);
}

/** Undoes the byte shuffle of a block of `length` bytes. */
export function unshuffle(src: usize, dst: usize, length: usize, typesize: usize): void {
  const count = length / typesize;
  const whole = count * typesize;
  if (whole != length) memory.copy(dst + whole, src + whole, length - whole);
  unshuffleRows(src, count, count, dst, typesize);
}

/** Assembles `count` elements from streams that start at `src`, `pitch` bytes apart. */
export function unshuffleRows(src: usize, pitch: usize, count: usize, dst: usize, typesize: usize): void {
  if (typesize == 1) memory.copy(dst, src, count);
  else unshuffleStreams(placeStreams(src, pitch, typesize), dst, count * typesize, typesize);
}

/** Undoes the byte shuffle of at least two streams, `typesize` of them, of `length` bytes in all; a table has their addresses. */
export function unshuffleStreams(streams: usize, dst: usize, length: usize, typesize: usize): void {
  unshufflePart(streams, 0, length / typesize, dst, typesize);
}

/** The same for `count` elements from element `first` on. */
export function unshufflePart(streams: usize, first: usize, count: usize, dst: usize, typesize: usize): void {
  if (count < 16) {
    unshuffleFew(streams, first, count, dst, typesize);
  } else if (typesize == 2) {
    unshuffle2(streams, first, count, dst);
  } else if (typesize == 4) {
    unshuffle4(streams, first, count, dst);
  } else if (typesize == 8) {
    unshuffle8(streams, first, count, dst);
  } else if (typesize == 3) {
    gather<u16>(streams, first, count, dst, 3);
    gather<u16>(streams + 4, first, count, dst + 1, 3);
  } else if (typesize < 8) {
    gather<u32>(streams, first, count, dst, typesize);
    // The remaining streams, together with some of the previous ones, so that all groups have the same width.
    gather<u32>(streams + ((typesize - 4) << 2), first, count, dst + typesize - 4, typesize);
  } else {
    let group: usize = 0;
    for (; group + 8 < typesize; group += 8) gather<u64>(streams + (group << 2), first, count, dst + group, typesize);
    gather<u64>(streams + ((typesize - 8) << 2), first, count, dst + typesize - 8, typesize);
  }
}

function unshuffleFew(streams: usize, first: usize, count: usize, dst: usize, typesize: usize): void {
  for (let j: usize = 0; j < typesize; j++) {
    const src = streamAt(streams, j) + first;
    let to = dst + j;
    for (let i: usize = 0; i < count; i++) {
      store<u8>(to, load<u8>(src + i));
      to += typesize;
    }
  }
}
