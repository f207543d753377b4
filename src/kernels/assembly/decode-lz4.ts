// LZ4 block format. @see https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md
import { copyLong, copyLongMatch, copyShortMatch } from "./copy";

const ENDS_EARLY: i32 = -1;
const TOO_LONG: i32 = -2;
const BAD_REFERENCE: i32 = -3;

const MIN_MATCH: usize = 4;
/** The most literals that a token alone tells, and the longest match that one vector holds. */
const SHORT_LITERALS: usize = 14;
const SHORT_MATCH: usize = 16;
/** Tokens up to this have no literals and a short match: a bare sequence. */
const BARE_TOKEN: usize = 12;
/** Where a run of bare sequences gives fewer bytes than this, the next try to find one comes later each time, … */
const BARE_RUN: usize = 96;
/** … at most after so many bytes. */
const BARE_WAIT: usize = 8192;

/** A length whose bytes the input does not have. */
const CUT: usize = 0xffffffff;
/** Address behind the bytes of the last long length. */
let lengthEnd: usize = 0;

/** A length that a token begins with 15: the bytes from `ip` on are added. What is beyond `limit` is not read to its end. */
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

/** Decodes one LZ4 block; returns the bytes written, or an error of the README. Stops once `need` bytes are there. */
export function decodeLz4(src: usize, srcLength: usize, dst: usize, dstLength: usize, need: usize): i32 {
  let ip = src;
  const ipEnd = src + srcLength;
  let op = dst;
  const opEnd = dst + dstLength;
  // Up to here a token, short literals and a distance do not end the input, and a short sequence does not overrun the output.
  const ipShort = ipEnd - min(srcLength, SHORT_LITERALS + 3);
  const opShort = dst + min(need, dstLength - min(dstLength, SHORT_LITERALS + SHORT_MATCH));
  let opBare = op;
  let wait: usize = 0;
  while (ip < ipEnd) {
    // Of text nearly all sequences are bare. Where that can be predicted, the next token need not wait for the length of this one.
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
    // Most others are short. Which lengths and distances they have cannot be predicted, so nothing here branches on them.
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
  // A block ends with literals; one that ends with a match (or is empty) was cut.
  return ENDS_EARLY;
}
