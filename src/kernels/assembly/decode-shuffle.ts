// Byte unshuffle: `typesize` streams of n bytes become n elements of `typesize` bytes. Bytes behind the last whole
// element are copied. Elements are put together 16 at a time, from groups of 2, 4, 8 or 16 streams.
import { interleave16, interleave2, interleave4, interleave8 } from "./decode-interleave";

function unshuffle2(src: usize, pitch: usize, count: usize, dst: usize, stride: usize): void {
  const whole = count & ~15;
  for (let i: usize = 0; i < whole; i += 16) interleave2(src + i, pitch, dst + i * stride, stride);
  // The last tile overlaps the one before it.
  if (whole != count) interleave2(src + count - 16, pitch, dst + (count - 16) * stride, stride);
}

function unshuffle4(src: usize, pitch: usize, count: usize, dst: usize, stride: usize): void {
  const whole = count & ~15;
  for (let i: usize = 0; i < whole; i += 16) interleave4(src + i, pitch, dst + i * stride, stride);
  // The last tile overlaps the one before it.
  if (whole != count) interleave4(src + count - 16, pitch, dst + (count - 16) * stride, stride);
}

function unshuffle8(src: usize, pitch: usize, count: usize, dst: usize, stride: usize): void {
  const whole = count & ~15;
  for (let i: usize = 0; i < whole; i += 16) interleave8(src + i, pitch, dst + i * stride, stride);
  // The last tile overlaps the one before it.
  if (whole != count) interleave8(src + count - 16, pitch, dst + (count - 16) * stride, stride);
}

function unshuffle16(src: usize, pitch: usize, count: usize, dst: usize, stride: usize): void {
  const whole = count & ~15;
  for (let i: usize = 0; i < whole; i += 16) interleave16(src + i, pitch, dst + i * stride, stride);
  // The last tile overlaps the one before it.
  if (whole != count) interleave16(src + count - 16, pitch, dst + (count - 16) * stride, stride);
}

/** Undoes the byte shuffle of a block of `length` bytes. */
export function unshuffle(src: usize, dst: usize, length: usize, typesize: usize): void {
  const count = length / typesize;
  const whole = count * typesize;
  if (whole != length) memory.copy(dst + whole, src + whole, length - whole);
  unshuffleRows(src, count, count, dst, typesize);
}

/** Puts together `count` elements from streams whose bytes for them start at `src`, `pitch` bytes apart. */
export function unshuffleRows(src: usize, pitch: usize, count: usize, dst: usize, typesize: usize): void {
  if (typesize == 1) {
    memory.copy(dst, src, count);
  } else if (count < 16) {
    unshuffleFew(src, pitch, count, dst, typesize);
  } else if (typesize < 4) {
    unshuffle2(src, pitch, count, dst, typesize);
    if (typesize == 3) unshuffle2(src + pitch, pitch, count, dst + 1, typesize);
  } else if (typesize < 8) {
    unshuffle4(src, pitch, count, dst, typesize);
    // The streams that are left, together with some before them: all groups have the same width.
    if (typesize != 4) unshuffle4(src + (typesize - 4) * pitch, pitch, count, dst + typesize - 4, typesize);
  } else if (typesize < 16) {
    unshuffle8(src, pitch, count, dst, typesize);
    if (typesize != 8) unshuffle8(src + (typesize - 8) * pitch, pitch, count, dst + typesize - 8, typesize);
  } else {
    let first: usize = 0;
    for (; first + 16 <= typesize; first += 16) unshuffle16(src + first * pitch, pitch, count, dst + first, typesize);
    if (first != typesize) unshuffle16(src + (typesize - 16) * pitch, pitch, count, dst + typesize - 16, typesize);
  }
}

function unshuffleFew(src: usize, pitch: usize, count: usize, dst: usize, typesize: usize): void {
  for (let j: usize = 0; j < typesize; j++) {
    let to = dst + j;
    for (let i: usize = 0; i < count; i++) {
      store<u8>(to, load<u8>(src + i));
      to += typesize;
    }
    src += pitch;
  }
}
