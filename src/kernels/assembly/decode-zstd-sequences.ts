// The sequences of a zstd block: runs of literals and matches. @see RFC 8878, 3.1.1.3.2
import { copyMatch, copyWild } from "./matches";
import { bitLength, peek } from "./decode-fse";
import { countsLog, fillSingle, fillTable, readCounts, setCounts } from "./decode-fse";

const TOO_LONG: i32 = -2;
const BAD_REFERENCE: i32 = -3;
const NOT_THIS_FORMAT: i32 = -4;

const LENGTHS = memory.data(512 * 8, 16);
const OFFSETS = memory.data(256 * 8, 16);
const MATCHES = memory.data(512 * 8, 16);

// prettier-ignore
const LENGTH_BASES = memory.data<u32>([
  0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,18,20,22,24,28,32,40,48,64,128,256,512,1024,2048,4096,8192,16384,32768,65536,
]);
// prettier-ignore
const LENGTH_EXTRAS = memory.data<u8>([0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1,1,1,1,2,2,3,3,4,6,7,8,9,10,11,12,13,14,15,16]);
// prettier-ignore
const MATCH_BASES = memory.data<u32>([
  3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,37,39,41,43,47,51,59,67,83,
  99,131,259,515,1027,2051,4099,8195,16387,32771,65539,
]);
// prettier-ignore
const MATCH_EXTRAS = memory.data<u8>([
  0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1,1,1,1,2,2,3,3,4,4,5,7,8,9,10,11,12,13,14,15,16,
]);
// prettier-ignore
const LENGTH_DEFAULTS = memory.data<i16>([4,3,2,2,2,2,2,2,2,2,2,2,2,1,1,1,2,2,2,2,2,2,2,2,2,3,2,1,1,1,1,1,-1,-1,-1,-1]);
// prettier-ignore
const MATCH_DEFAULTS = memory.data<i16>([
  1,4,3,2,2,2,2,2,2,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,-1,-1,-1,-1,-1,-1,-1,
]);
// prettier-ignore
const OFFSET_DEFAULTS = memory.data<i16>([1,1,1,1,1,1,2,2,2,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,-1,-1,-1,-1,-1]);

/** Accuracy logs of the frame's tables; -1: none yet. */
let lengthsLog: i32 = -1;
let offsetsLog: i32 = -1;
let matchesLog: i32 = -1;
let recent1: u32 = 1;
let recent2: u32 = 4;
let recent3: u32 = 8;

/** The log of the last table that `readTable` read. */
let readLog: i32 = 0;

/** Forgets the tables and offsets of the previous frame. */
export function resetSequences(): void {
  lengthsLog = -1;
  offsetsLog = -1;
  matchesLog = -1;
  recent1 = 1;
  recent2 = 4;
  recent3 = 8;
}

/**
 * Decodes the sequences section from `src` to `end` with the block's literals to `op`. Returns the bytes written, or an
 * error. Matches reach back as far as `dst`.
 */
export function decodeSequences(
  src: usize, end: usize,
  literals: usize, literalsLength: usize,
  dst: usize, op: usize, opEnd: usize,
): i32 {
  if (src >= end) return NOT_THIS_FORMAT;
  const start = op;
  const literalsEnd = literals + literalsLength;
  let count = <u32>load<u8>(src);
  src++;
  if (count >= 128) {
    if (count == 255) {
      if (end - src < 2) return NOT_THIS_FORMAT;
      count = <u32>load<u16>(src) + 0x7f00;
      src += 2;
    } else {
      if (end - src < 1) return NOT_THIS_FORMAT;
      count = ((count - 128) << 8) + <u32>load<u8>(src);
      src++;
    }
  }
  if (count != 0) {
    if (end - src < 1) return NOT_THIS_FORMAT;
    const modes = <u32>load<u8>(src);
    src++;
    if ((modes & 3) != 0) return NOT_THIS_FORMAT;
    let taken = readTable(src, end, modes >> 6, LENGTHS, lengthsLog, 9, 35, LENGTH_DEFAULTS, 36, 6, LENGTH_BASES, LENGTH_EXTRAS);
    if (taken < 0) return NOT_THIS_FORMAT;
    lengthsLog = readLog;
    src += taken;
    taken = readTable(src, end, (modes >> 4) & 3, OFFSETS, offsetsLog, 8, 31, OFFSET_DEFAULTS, 29, 5, 0, 0);
    if (taken < 0) return NOT_THIS_FORMAT;
    offsetsLog = readLog;
    src += taken;
    taken = readTable(src, end, (modes >> 2) & 3, MATCHES, matchesLog, 9, 52, MATCH_DEFAULTS, 53, 6, MATCH_BASES, MATCH_EXTRAS);
    if (taken < 0) return NOT_THIS_FORMAT;
    matchesLog = readLog;
    src += taken;

    const length = bitLength(src, end);
    if (length < 0) return NOT_THIS_FORMAT;
    // From here on `used` counts the bits used from the end of the stream, beginning with the highest bits of its last byte.
    const last = end - 8;
    const limit = <u64>(end - src) << 3;
    let used = limit - <u64>length;
    let window = windowAt(last, used);
    let lengthState = load<u64>(<usize>peek(window, lengthsLog) << 3, LENGTHS);
    window <<= <u64>lengthsLog;
    let offsetState = load<u64>(<usize>peek(window, offsetsLog) << 3, OFFSETS);
    window <<= <u64>offsetsLog;
    let matchState = load<u64>(<usize>peek(window, matchesLog) << 3, MATCHES);
    used += lengthsLog + offsetsLog + matchesLog;
    let r1 = recent1;
    let r2 = recent2;
    let r3 = recent3;
    while (true) {
      if (used > limit) return NOT_THIS_FORMAT;
      // The used bits of the window move to its lower end.
      window = rotl<u64>(windowAt(last, used), extraOf(offsetState));
      // The bits and extra bits of the three states are added in one operation: no sum overflows its byte.
      const sums = (lengthState + matchState + offsetState) >> 16;
      const extraBits = (sums >> 8) & 255;
      const power = <u64>1 << extraOf(offsetState);
      let offset = <u32>(power + (window & (power - 1)));
      let match = baseOf(matchState);
      let run = baseOf(lengthState);
      // Short lengths have no extra bits. An offset of 31 bits and three states then fit in the 57 bits of the window.
      const lengthBits = extraBits - (extraOf(offsetState) & 255);
      if (lengthBits != 0) {
        const isFull = extraBits + (sums & 255) > 57;
        if (isFull) window = windowAt(last, used + extraBits - lengthBits);
        window = rotl<u64>(window, extraOf(matchState));
        match += lowest(window, extraOf(matchState));
        window = rotl<u64>(window, extraOf(lengthState));
        run += lowest(window, extraOf(lengthState));
        if (isFull) window = windowAt(last, used + extraBits);
      }
      used += extraBits;
      if (--count != 0) {
        used += sums & 255;
        // States are 8 bytes.
        window = rotl<u64>(window, 3 + bitsOf(lengthState));
        lengthState = load<u64>(nextOf(lengthState, window), LENGTHS);
        window = rotl<u64>(window, bitsOf(matchState));
        matchState = load<u64>(nextOf(matchState, window), MATCHES);
        window = rotl<u64>(window, bitsOf(offsetState));
        offsetState = load<u64>(nextOf(offsetState, window), OFFSETS);
      }

      if (offset > 3) {
        offset -= 3;
        r3 = r2;
        r2 = r1;
        r1 = offset;
      } else {
        const which = offset - (run == 0 ? 0 : 1);
        if (which == 0) {
          offset = r1;
        } else {
          if (which == 1) {
            offset = r2;
          } else {
            offset = which == 2 ? r3 : r1 - 1;
            r3 = r2;
          }
          r2 = r1;
          r1 = offset;
        }
      }

      if (run > literalsEnd - literals) return NOT_THIS_FORMAT;
      if (run + match > opEnd - op) return TOO_LONG;
      copyWild(literals, op, run);
      literals += run;
      op += run;
      if (<usize>offset - 1 >= op - dst) return BAD_REFERENCE;
      copyMatch(op, offset, match);
      op += match;

      if (count == 0) break;
    }
    if (used != limit) return NOT_THIS_FORMAT;
    recent1 = r1;
    recent2 = r2;
    recent3 = r3;
  } else if (src != end) {
    return NOT_THIS_FORMAT;
  }
  const rest = literalsEnd - literals;
  if (rest > opEnd - op) return TOO_LONG;
  memory.copy(op, literals, rest);
  return <i32>(op + rest - start);
}

/**
 * The window of a stream that ends 8 bytes after `last`, if `used` of its bits were used. At least 57 of the window's
 * bits are valid.
 */
// @ts-ignore: decorator
@inline
function windowAt(last: usize, used: u64): u64 {
  return load<u64>(last - <usize>(used >> 3)) << (used & 7);
}

/** The lowest `count` bits. */
// @ts-ignore: decorator
@inline
function lowest(window: u64, count: u64): usize {
  return <usize>window & ((1 << <u32>count) - 1);
}

// The parts of a state, which is loaded at once. @see decode-fse.ts The numbers of bits are not masked, because shifts
// use only the lowest six bits.

/** The address of the next state, whose bits are at the window's lower end, three bits up. */
// @ts-ignore: decorator
@inline
function nextOf(state: u64, window: u64): usize {
  return (<usize>state & 0xffff) + <usize>(window & (state >> 52));
}

// @ts-ignore: decorator
@inline
function bitsOf(state: u64): u64 {
  return state >> 16;
}

// @ts-ignore: decorator
@inline
function extraOf(state: u64): u64 {
  return state >> 24;
}

// @ts-ignore: decorator
@inline
function baseOf(state: u64): usize {
  return <usize>(state >> 32) & 0xfffff;
}

/** Reads one of the three tables and sets `readLog`. Returns the bytes it occupies, or -1 if it is damaged. */
function readTable(
  src: usize, end: usize, mode: u32,
  table: usize, oldLog: i32, maxLog: u32, maxSymbol: u32,
  defaults: usize, defaultsLength: u32, defaultsLog: u32,
  bases: usize, extras: usize,
): i32 {
  if (mode == 0) {
    setCounts(defaults, defaultsLength, defaultsLog);
    fillTable(table, bases, extras);
    readLog = <i32>defaultsLog;
    return 0;
  }
  if (mode == 1) {
    if (src >= end) return -1;
    const symbol = <u32>load<u8>(src);
    if (symbol > maxSymbol) return -1;
    fillSingle(table, symbol, bases, extras);
    readLog = 0;
    return 1;
  }
  if (mode == 2) {
    const taken = readCounts(src, end, maxLog, maxSymbol);
    if (taken == 0) return -1;
    fillTable(table, bases, extras);
    readLog = <i32>countsLog;
    return <i32>taken;
  }
  readLog = oldLog;
  return oldLog < 0 ? -1 : 0;
}
