// Byte shuffle: n elements of `typesize` bytes become `typesize` streams of n bytes. Bytes behind the last whole element
// are copied. Widths that are not a power of two are made of groups of columns that overlap.
import { tile16, tile2, tile4, tile8 } from "./encode-tiles";
import { spread8 } from "./encode-tiles";


// Bit shuffle. A block of n elements becomes 8 x typesize rows of n / 8 bytes: row 8j + k has bit k of byte j of every
// element, element 0 in the lowest bit. Where n is not a multiple of 8 the block is copied as it is, as c-blosc does (since 1.7).

/** Bytes of each row that are made at a time, a cache line: rows whose length is a power of two push one another out of the cache. */
const LINE: usize = 64;
/** Of elements from this length on, 16 bytes of a row are made at a time: else the elements would not fit. */
const LONG: usize = 64;
/** Room for 512 elements below that length, or 128 of any, in the kernel's part of the memory. */
const TILE: usize = 32768;

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
  const width: usize = row < LINE || typesize == 1 || typesize >= LONG ? 16 : LINE;
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
    // The last tiles overlap the ones before them.
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

// @ts-ignore: decorator
@inline
function tiles2(src: usize, stride: usize, count: usize, dst: usize, pitch: usize): void {
  const last = count - 16;
  for (let i: usize = 0; i < last; i += 16) tile2(src + i * stride, stride, dst + i, pitch);
  // The last tile ends with the last element and may overlap the one before it.
  tile2(src + last * stride, stride, dst + last, pitch);
}

// @ts-ignore: decorator
@inline
function tiles4(src: usize, stride: usize, count: usize, dst: usize, pitch: usize): void {
  const last = count - 16;
  for (let i: usize = 0; i < last; i += 16) tile4(src + i * stride, stride, dst + i, pitch);
  tile4(src + last * stride, stride, dst + last, pitch);
}

// @ts-ignore: decorator
@inline
function tiles8(src: usize, stride: usize, count: usize, dst: usize, pitch: usize): void {
  const last = count - 16;
  for (let i: usize = 0; i < last; i += 16) tile8(src + i * stride, stride, dst + i, pitch);
  tile8(src + last * stride, stride, dst + last, pitch);
}

function shuffle16(src: usize, stride: usize, count: usize, dst: usize, pitch: usize): void {
  const last = count - 16;
  for (let i: usize = 0; i < last; i += 16) tile16(src + i * stride, stride, dst + i, pitch);
  tile16(src + last * stride, stride, dst + last, pitch);
}

// Elements of 2, 4 and 8 bytes have loops of their own, in which nothing asks for the width: up to a quarter less time.

function shuffle2(src: usize, count: usize, dst: usize, pitch: usize): void {
  tiles2(src, 2, count, dst, pitch);
}

function columns2(src: usize, stride: usize, count: usize, dst: usize, pitch: usize): void {
  tiles2(src, stride, count, dst, pitch);
}

function shuffle4(src: usize, count: usize, dst: usize, pitch: usize): void {
  tiles4(src, 4, count, dst, pitch);
}

function columns4(src: usize, stride: usize, count: usize, dst: usize, pitch: usize): void {
  tiles4(src, stride, count, dst, pitch);
}

function shuffle8(src: usize, count: usize, dst: usize, pitch: usize): void {
  tiles8(src, 8, count, dst, pitch);
}

function columns8(src: usize, stride: usize, count: usize, dst: usize, pitch: usize): void {
  tiles8(src, stride, count, dst, pitch);
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
    shuffle2(src, count, dst, pitch);
  } else if (typesize == 4) {
    shuffle4(src, count, dst, pitch);
  } else if (typesize == 8) {
    shuffle8(src, count, dst, pitch);
  } else if (typesize == 3) {
    columns2(src, 3, count, dst, pitch);
    columns2(src + 1, 3, count, dst + pitch, pitch);
  } else if (typesize < 8) {
    const rest = typesize - 4;
    columns4(src, typesize, count, dst, pitch);
    columns4(src + rest, typesize, count, dst + rest * pitch, pitch);
  } else if (typesize < 16) {
    const rest = typesize - 8;
    columns8(src, typesize, count, dst, pitch);
    columns8(src + rest, typesize, count, dst + rest * pitch, pitch);
  } else {
    const rest = typesize - 16;
    for (let first: usize = 0; first < rest; first += 16) {
      shuffle16(src + first, typesize, count, dst + first * pitch, pitch);
    }
    shuffle16(src + rest, typesize, count, dst + rest * pitch, pitch);
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
