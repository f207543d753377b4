// Byte unshuffle: `typesize` streams of n bytes become n elements of `typesize` bytes. Bytes behind the last whole
// element are copied. Elements are put together 16 at a time, from groups of 2, 4, 8 or 16 streams, wherever these lie.
import {
  interleave16, interleave2, interleave2Registers, interleave4, interleave4Registers, interleave8, interleave8Registers,
  streamAt,
} from "./decode-interleave";

/** Addresses of a block's streams, 32 bits each. */
const STREAMS = memory.data(4 * 255, 16);

/** Where the host puts the addresses of streams that do not lie one behind the other. */
export function streamTable(): usize {
  return STREAMS;
}

/** Fills the table with streams that lie `pitch` bytes apart; returns its address. */
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
  // The last tile may overlap the one before it.
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

/** 2 bytes of longer elements, which are `stride` bytes apart. */
function gather2(streams: usize, first: usize, count: usize, dst: usize, stride: usize): void {
  const last = count - 16;
  for (let i: usize = 0; i < last; i += 16) interleave2(streams, first + i, dst + i * stride, stride);
  interleave2(streams, first + last, dst + last * stride, stride);
}

/** 4 bytes of longer elements, which are `stride` bytes apart. */
function gather4(streams: usize, first: usize, count: usize, dst: usize, stride: usize): void {
  const last = count - 16;
  for (let i: usize = 0; i < last; i += 16) interleave4(streams, first + i, dst + i * stride, stride);
  interleave4(streams, first + last, dst + last * stride, stride);
}

/** 8 bytes of longer elements, which are `stride` bytes apart. */
function gather8(streams: usize, first: usize, count: usize, dst: usize, stride: usize): void {
  const last = count - 16;
  for (let i: usize = 0; i < last; i += 16) interleave8(streams, first + i, dst + i * stride, stride);
  interleave8(streams, first + last, dst + last * stride, stride);
}

function unshuffle16(streams: usize, first: usize, count: usize, dst: usize, stride: usize): void {
  const end = first + (count & ~15);
  const tile = stride << 4;
  let to = dst;
  for (let i = first; i < end; i += 16) {
    interleave16(streams, i, to, stride);
    to += tile;
  }
  // The last tile overlaps the one before it.
  if ((count & 15) != 0) interleave16(streams, first + count - 16, dst + (count - 16) * stride, stride);
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
  if (typesize == 1) memory.copy(dst, src, count);
  else unshuffleStreams(placeStreams(src, pitch, typesize), dst, count * typesize, typesize);
}

/** Undoes the byte shuffle of `typesize` streams, at least two, that give `length` bytes; a table has their addresses. */
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
    gather2(streams, first, count, dst, 3);
    gather2(streams + 4, first, count, dst + 1, 3);
  } else if (typesize < 8) {
    gather4(streams, first, count, dst, typesize);
    // The streams that are left, together with some before them: all groups have the same width.
    gather4(streams + ((typesize - 4) << 2), first, count, dst + typesize - 4, typesize);
  } else if (typesize < 16) {
    gather8(streams, first, count, dst, typesize);
    gather8(streams + ((typesize - 8) << 2), first, count, dst + typesize - 8, typesize);
  } else {
    let group: usize = 0;
    for (; group + 16 <= typesize; group += 16) unshuffle16(streams + (group << 2), first, count, dst + group, typesize);
    if (group != typesize) unshuffle16(streams + ((typesize - 16) << 2), first, count, dst + typesize - 16, typesize);
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
