// LZ4 block format. @see https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md
import { copyLong, copyLongMatch, copyShortMatch } from "./matches";

const ENDS_EARLY: i32 = -1;
const TOO_LONG: i32 = -2;
const BAD_REFERENCE: i32 = -3;

const MIN_MATCH: usize = 4;
/** The most literals that a token can count without more bytes, and the longest match that fits in one vector. */
const SHORT_LITERALS: usize = 14;
const SHORT_MATCH: usize = 16;

let last: usize = 0;

/** Address of the token of the last sequence, which has only literals, of the last stream that was decoded to its end. */
export function lastToken(): usize {
  return last;
}

/** Decodes one LZ4 block. Returns the bytes written, or an error listed in the README. Stops after `need` bytes. */
export function decodeLz4(src: usize, srcLength: usize, dst: usize, dstLength: usize, need: usize): i32 {
  const ipEnd = src + srcLength;
  const ipShort = ipEnd - min(srcLength, SHORT_LITERALS + 3);
  const opShort = dst + min(need, dstLength - min(dstLength, SHORT_LITERALS + SHORT_MATCH));
  return decodeSequences(src, ipEnd, ipShort, dst, dst + dstLength, opShort, need);
}

/**
 * The limits are parameters of this function, which is too long to be inlined, because V8 computes other constants again for each
 * sequence. Before `ipShort` and `opShort`, a token, short literals and a distance are inside the input, and a short sequence fits
 * in the output.
 */
function decodeSequences(
  ip: usize, ipEnd: usize, ipShort: usize, dst: usize, opEnd: usize, opShort: usize, need: usize,
): i32 {
  let op = dst;
  while (ip < ipEnd) {
    // Most sequences are short. Their lengths and distances cannot be predicted, so nothing here branches on them. Each token waits
    // for the literals before it: with `ip` two bytes before the token, finding the next one takes one addition.
    ip -= 2;
    while (true) {
      if (ip >= ipShort - 2) break;
      if (op >= opShort) break;
      const token = <usize>load<u8>(ip, 2);
      const literals = token >> 4;
      if (literals > SHORT_LITERALS) break;
      ip += 3;
      v128.store(op, v128.load(ip));
      op += literals;
      ip += literals;
      const distance = <usize>load<u16>(ip);
      if (distance == 0) return BAD_REFERENCE;
      // Does not wrap around: an output begins at `hostBase()` or later, and that is further from 0 than any distance.
      if (op - distance < dst) return BAD_REFERENCE;
      let length = (token & 15) + MIN_MATCH;
      if (length <= SHORT_MATCH) {
        copyShortMatch(op, distance);
      } else {
        if (length == 15 + MIN_MATCH) {
          // The loops that read a length are written out: a function would have to return the address in a global as well.
          let more: usize;
          do {
            if (ip >= ipEnd - 2) return ENDS_EARLY;
            more = <usize>load<u8>(ip, 2);
            ip += 1;
            length += more;
            if (length > opEnd - dst) return TOO_LONG;
          } while (more == 255);
        }
        if (length > opEnd - op) return TOO_LONG;
        copyLongMatch(op, distance, length);
      }
      op += length;
    }
    ip += 2;
    if (op - dst >= need) return <i32>(op - dst);
    if (ip >= ipEnd) break;
    const tokenAt = ip;
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
          if (literals > opEnd - dst) return TOO_LONG;
        } while (more == 255);
      }
      if (literals > ipEnd - ip) return ENDS_EARLY;
      if (literals > opEnd - op) return TOO_LONG;
      if (literals > 1024) memory.copy(op, ip, literals);
      else copyLong(ip, op, literals);
      ip += literals;
      op += literals;
    }
    if (ip == ipEnd) {
      last = tokenAt;
      return <i32>(op - dst);
    }
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
        if (length > opEnd - dst) return TOO_LONG;
      } while (more == 255);
    }
    length += 4;
    if (length > opEnd - op) return TOO_LONG;
    copyLongMatch(op, distance, length);
    op += length;
  }
  // A block ends with literals. One that ends with a match, or is empty, was truncated.
  return ENDS_EARLY;
}
