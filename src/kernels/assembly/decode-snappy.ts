// Snappy block format. @see https://github.com/google/snappy/blob/main/format_description.txt
import { copyMatch, copyWild } from "./matches";

const ENDS_EARLY: i32 = -1;
const TOO_LONG: i32 = -2;
const BAD_REFERENCE: i32 = -3;
const NOT_THIS_FORMAT: i32 = -4;

/**
 * Decodes one Snappy block whose stored length must be `dstLength`. Returns the bytes written, or an error listed in
 * the README. Stops after `need` bytes.
 */
export function decodeSnappy(src: usize, srcLength: usize, dst: usize, dstLength: usize, need: usize): i32 {
  let ip = src;
  const ipEnd = src + srcLength;
  let op = dst;
  const opEnd = dst + dstLength;
  let promised: u64 = 0;
  let shift: u64 = 0;
  let byte: u64;
  do {
    if (ip >= ipEnd) return ENDS_EARLY;
    if (shift > 28) return NOT_THIS_FORMAT;
    byte = <u64>load<u8>(ip);
    ip += 1;
    promised |= (byte & 127) << shift;
    shift += 7;
  } while (byte >= 128);
  if (promised != <u64>dstLength) return promised > <u64>dstLength ? TOO_LONG : NOT_THIS_FORMAT;
  while (ip < ipEnd) {
    if (op - dst >= need) return <i32>(op - dst);
    const tag = <usize>load<u8>(ip);
    ip += 1;
    const kind = tag & 3;
    let length = (tag >> 2) + 1;
    if (kind == 0) {
      if (length > 60) {
        const extra = length - 60;
        if (extra > ipEnd - ip) return ENDS_EARLY;
        // Up to 3 bytes past the number are read and masked off.
        const stored = load<u32>(ip) & (0xffffffff >>> (32 - (<u32>extra << 3)));
        ip += extra;
        if (stored >= <u32>dstLength) return TOO_LONG;
        length = <usize>stored + 1;
      }
      if (length > ipEnd - ip) return ENDS_EARLY;
      if (length > opEnd - op) return TOO_LONG;
      copyWild(ip, op, length);
      ip += length;
      op += length;
    } else {
      let distance: usize;
      if (kind == 1) {
        if (ip >= ipEnd) return ENDS_EARLY;
        length = ((tag >> 2) & 7) + 4;
        distance = ((tag >> 5) << 8) | <usize>load<u8>(ip);
        ip += 1;
      } else if (kind == 2) {
        if (ipEnd - ip < 2) return ENDS_EARLY;
        distance = <usize>load<u16>(ip);
        ip += 2;
      } else {
        if (ipEnd - ip < 4) return ENDS_EARLY;
        distance = <usize>load<u32>(ip);
        ip += 4;
      }
      if (distance - 1 >= op - dst) return BAD_REFERENCE;
      if (length > opEnd - op) return TOO_LONG;
      copyMatch(op, distance, length);
      op += length;
    }
  }
  return <i32>(op - dst);
}
