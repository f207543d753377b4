// LZ4 block format. @see https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md
import { copyMatch, copyWild } from "./copy";

const ENDS_EARLY: i32 = -1;
const TOO_LONG: i32 = -2;
const BAD_REFERENCE: i32 = -3;

/** Decodes one LZ4 block; returns the bytes written, or an error of the README. Stops once `need` bytes are there. */
export function decodeLz4(src: usize, srcLength: usize, dst: usize, dstLength: usize, need: usize): i32 {
  let ip = src;
  const ipEnd = src + srcLength;
  let op = dst;
  const opEnd = dst + dstLength;
  while (ip < ipEnd) {
    if (op - dst >= need) return <i32>(op - dst);
    const token = <usize>load<u8>(ip);
    ip += 1;
    let literals = token >> 4;
    if (literals != 0) {
      if (literals == 15) {
        let more: usize;
        do {
          if (ip >= ipEnd) return ENDS_EARLY;
          more = <usize>load<u8>(ip);
          ip += 1;
          literals += more;
          if (literals > dstLength) return TOO_LONG;
        } while (more == 255);
      }
      if (literals > ipEnd - ip) return ENDS_EARLY;
      if (literals > opEnd - op) return TOO_LONG;
      copyWild(ip, op, literals);
      ip += literals;
      op += literals;
    }
    if (ip == ipEnd) return <i32>(op - dst);
    if (ipEnd - ip < 2) return ENDS_EARLY;
    const distance = <usize>load<u16>(ip);
    ip += 2;
    if (distance - 1 >= op - dst) return BAD_REFERENCE;
    let length = token & 15;
    if (length == 15) {
      let more: usize;
      do {
        if (ip >= ipEnd) return ENDS_EARLY;
        more = <usize>load<u8>(ip);
        ip += 1;
        length += more;
        if (length > dstLength) return TOO_LONG;
      } while (more == 255);
    }
    length += 4;
    if (length > opEnd - op) return TOO_LONG;
    copyMatch(op, distance, length);
    op += length;
  }
  // A block ends with literals; one that ends with a match (or is empty) was cut.
  return ENDS_EARLY;
}
