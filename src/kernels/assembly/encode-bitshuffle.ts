// Bit shuffle. A block of n elements becomes 8 x typesize rows of n / 8 bytes: row 8j + k has bit k of byte j of every
// element, element 0 in the lowest bit. Where n is no multiple of 8 the block is copied as it is, as c-blosc does (since 1.7).
import { spreadElements } from "./encode-shuffle";
import { spread8 } from "./encode-tiles";

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
