// Byte shuffle: n elements of `typesize` bytes become `typesize` streams of n bytes. Bytes behind the last whole element
// are copied. Widths that are no power of two are made of groups of columns that overlap.
import { tile16, tile2, tile4, tile8 } from "./encode-tiles";

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
