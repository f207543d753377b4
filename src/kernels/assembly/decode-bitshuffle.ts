// Bit unshuffle. A block of n elements holds 8 x typesize rows of n / 8 bytes: row 8j + k has bit k of byte j of every
// element, element 0 in the lowest bit. c-blosc filters only where n is a multiple of 8, and copies all else (since 1.7).
import { interleave2Registers, interleave4Registers, interleave8Registers, streamAt } from "./decode-interleave";
import { placeStreams, unshuffleStreams } from "./decode-shuffle";

/** Bytes of each row that are taken at a time, a cache line: rows whose length is a power of two push one another out of the cache. */
const LINE: usize = 64;
/** Elements from this length on are taken 16 bytes of a row at a time: else what is put together of them would not fit. */
const LONG: usize = 64;
/** Room for 512 elements below that length, or 128 of any, one stream behind the other, and the addresses of these. */
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
  if (count == 0 || (count & 7) != 0) {
    memory.copy(dst, src, length);
    return;
  }
  const whole = count * typesize;
  if (whole != length) memory.copy(dst + whole, src + whole, length - whole);
  bitunshuffleStreams(placeStreams(src, count, typesize), dst, whole, typesize);
}

/** Undoes the bit shuffle of `typesize` streams, 8 rows each, that give `length` bytes; a table has their addresses. */
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
  const width: usize = row < LINE || typesize == 1 || typesize >= LONG ? 16 : LINE;
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
    // The last tiles overlap the ones before them.
    if (at > last) at = last;
  }
}

/** The bytes of 8 x `width` elements, one stream behind the other. */
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
 * 128 elements of 4 bytes. Of the four rounds that bring 16 bytes of elements together, tiles have done two: a stream's bytes
 * need not be put in order by themselves. Vectors i and i + 4 of a stream have elements 32 i to 32 i + 31, four of every eight.
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

/** 128 elements of 8 bytes, of whose rounds tiles have done one: vector 2 i + h of a stream has two of every eight elements of half h. */
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
 * Bytes j of 128 elements from their 8 rows: an 8 x 8 transposition of bits across vectors, then of bytes, so that `together`
 * elements that follow each other come together.
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
