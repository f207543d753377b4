// LZ4 block format. @see https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md
import { copyLong, copyLongMatch, copyShortMatch } from "./copy";

const ENDS_EARLY: i32 = -1;
const TOO_LONG: i32 = -2;
const BAD_REFERENCE: i32 = -3;

const MIN_MATCH: usize = 4;
/** The most literals that a token can count without more bytes, and the longest match that fits in one vector. */
const SHORT_LITERALS: usize = 14;
const SHORT_MATCH: usize = 16;
/** Tokens up to this have no literals and a short match: a bare sequence. */
const BARE_TOKEN: usize = 12;
/** If a run of bare sequences gives fewer bytes than this, the wait before the next try gets longer each time, … */
const BARE_RUN: usize = 96;
/** … up to this many bytes. */
const BARE_WAIT: usize = 8192;

/** Returned for a length whose bytes are not in the input. */
const CUT: usize = 0xffffffff;
/** Address after the bytes of the last long length. */
let lengthEnd: usize = 0;

/**
 * Reads a length that begins with 15 in the token, adding the bytes from `ip` on. Stops reading once the length exceeds
 * `limit`.
 */
// @ts-ignore: decorator
@inline
function longLength(ip: usize, ipEnd: usize, limit: usize): usize {
  let length: usize = 15;
  let more: usize;
  do {
    if (ip >= ipEnd) return CUT;
    more = <usize>load<u8>(ip);
    ip += 1;
    length += more;
  } while (more == 255 && length <= limit);
  lengthEnd = ip;
  return length;
}

/** Decodes one LZ4 block. Returns the bytes written, or an error listed in the README. Stops after `need` bytes. */
export function decodeLz4(src: usize, srcLength: usize, dst: usize, dstLength: usize, need: usize): i32 {
  let ip = src;
  const ipEnd = src + srcLength;
  let op = dst;
  const opEnd = dst + dstLength;
  // Before these, a token, short literals and a distance are inside the input, and a short sequence fits in the output.
  const ipShort = ipEnd - min(srcLength, SHORT_LITERALS + 3);
  const opShort = dst + min(need, dstLength - min(dstLength, SHORT_LITERALS + SHORT_MATCH));
  let opBare = op;
  let wait: usize = 0;
  while (ip < ipEnd) {
    // In text nearly all sequences are bare. While that can be predicted, the next token need not wait for this one's length.
    if (op >= opBare) {
      const start = op;
      while (ip < ipShort && op < opShort) {
        const sequence = load<u32>(ip);
        const token = <usize>(sequence & 0xff);
        const distance = <usize>((sequence >> 8) & 0xffff);
        if (token > BARE_TOKEN || distance - 1 >= op - dst) break;
        if (distance >= SHORT_MATCH) v128.store(op, v128.load(op - distance));
        else copyShortMatch(op, distance);
        op += token + MIN_MATCH;
        ip += 3;
      }
      wait = op - start < BARE_RUN ? min<usize>(2 * wait + 16, BARE_WAIT) : <usize>0;
      opBare = op + wait;
    }
    // Most others are short. Their lengths and distances cannot be predicted, so nothing here branches on them.
    const opTry = min(opBare, opShort);
    while (ip < ipShort && op < opTry) {
      const token = <usize>load<u8>(ip);
      const literals = token >> 4;
      if (literals > SHORT_LITERALS) break;
      v128.store(op, v128.load(ip, 1));
      op += literals;
      ip += literals;
      const distance = <usize>load<u16>(ip, 1);
      ip += 3;
      if (distance - 1 >= op - dst) return BAD_REFERENCE;
      let length = (token & 15) + MIN_MATCH;
      if (length <= SHORT_MATCH) {
        copyShortMatch(op, distance);
      } else {
        if (length == 15 + MIN_MATCH) {
          length = longLength(ip, ipEnd, dstLength) + 4;
          if (length - 4 > dstLength) return length - 4 == CUT ? ENDS_EARLY : TOO_LONG;
          ip = lengthEnd;
        }
        if (length > opEnd - op) return TOO_LONG;
        copyLongMatch(op, distance, length);
      }
      op += length;
    }
    if (op - dst >= need) return <i32>(op - dst);
    if (ip >= ipEnd) break;
    const token = <usize>load<u8>(ip);
    ip += 1;
    let literals = token >> 4;
    if (literals != 0) {
      if (literals == 15) {
        literals = longLength(ip, ipEnd, dstLength);
        if (literals > dstLength) return literals == CUT ? ENDS_EARLY : TOO_LONG;
        ip = lengthEnd;
      }
      if (literals > ipEnd - ip) return ENDS_EARLY;
      if (literals > opEnd - op) return TOO_LONG;
      if (literals > 1024) memory.copy(op, ip, literals);
      else copyLong(ip, op, literals);
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
      length = longLength(ip, ipEnd, dstLength);
      if (length > dstLength) return length == CUT ? ENDS_EARLY : TOO_LONG;
      ip = lengthEnd;
    }
    length += 4;
    if (length > opEnd - op) return TOO_LONG;
    copyLongMatch(op, distance, length);
    op += length;
  }
  // A block ends with literals. One that ends with a match, or is empty, was truncated.
  return ENDS_EARLY;
}
