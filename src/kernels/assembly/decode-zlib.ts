// zlib streams. @see RFC 1950 (the wrapper) and RFC 1951 (deflate)
import { adler32 } from "./adler32";
import { copyMatch } from "./matches";

// Tables of deflate's Huffman codes. @see RFC 1951, 3.2
//
// A table entry is 32 bits: code length in bits 0 to 4, extra bits (or the width of a second table) in 5 to 8, kind in 9 to
// 11, value in 16 to 31: the literal, the base of a length or distance, or the start of a second table. 0 is not a code.

export const LITERAL: u32 = 1 << 9;
export const END: u32 = 1 << 10;
export const SECOND: u32 = 1 << 11;

/** The alphabet of a code. */
export const PRECODE: u32 = 0;
export const LENGTHS: u32 = 1;
export const DISTANCES: u32 = 2;

const SORTED = memory.data(320 * 2, 16);
const COUNTS = memory.data(16 * 4, 16);
const FIRST = memory.data(16 * 4, 16);

// prettier-ignore
const LENGTH_BASES = memory.data<u16>([3,4,5,6,7,8,9,10,11,13,15,17,19,23,27,31,35,43,51,59,67,83,99,115,131,163,195,227,258]);
// prettier-ignore
const LENGTH_EXTRAS = memory.data<u8>([0,0,0,0,0,0,0,0,1,1,1,1,2,2,2,2,3,3,3,3,4,4,4,4,5,5,5,5,0]);
// prettier-ignore
const DISTANCE_BASES = memory.data<u16>([
  1,2,3,4,5,7,9,13,17,25,33,49,65,97,129,193,257,385,513,769,1025,1537,2049,3073,4097,6145,8193,12289,16385,24577,
]);

/** Builds the table of a canonical Huffman code from its code lengths. Returns false if they do not form a code. */
export function buildTable(table: usize, width: u32, lengths: usize, count: u32, kind: u32): bool {
  memory.fill(COUNTS, 0, 64);
  for (let i: u32 = 0; i < count; i++) {
    const at = COUNTS + (<usize>load<u8>(lengths + i) << 2);
    store<u32>(at, load<u32>(at) + 1);
  }
  const unused = load<u32>(COUNTS);
  const used = count - unused;
  memory.fill(table, 0, <usize>4 << width);
  // A block may have no codes; only using one is an error (zlib does the same).
  if (used == 0) return kind != PRECODE;
  let room: i32 = 1;
  let longest: u32 = 0;
  let first: u32 = 0;
  for (let length: u32 = 1; length <= 15; length++) {
    const n = load<u32>(COUNTS + (length << 2));
    room = (room << 1) - <i32>n;
    if (room < 0) return false;
    store<u32>(FIRST + (length << 2), first);
    first += n;
    if (n != 0) longest = length;
  }
  // An incomplete code is allowed if it is a single code of one bit (zlib does the same).
  if (room > 0 && (kind == PRECODE || longest != 1)) return false;
  for (let i: u32 = 0; i < count; i++) {
    const length = <u32>load<u8>(lengths + i);
    if (length == 0) continue;
    const at = FIRST + (length << 2);
    const place = load<u32>(at);
    store<u32>(at, place + 1);
    store<u16>(SORTED + (place << 1), <u16>i);
  }

  const size: u32 = 1 << width;
  let code: u32 = 0;
  let place: u32 = 0;
  let next: u32 = size;
  let prefix: u32 = 0xffffffff;
  let start: u32 = 0;
  let secondWidth: u32 = 0;
  for (let length: u32 = 1; length <= longest; length++) {
    let n = load<u32>(COUNTS + (length << 2));
    for (; n != 0; n--) {
      const value = valueOf(load<u16>(SORTED + (place << 1)), kind);
      place++;
      const reversed = reverse(code, length);
      if (length <= width) {
        const entry = value == 0 ? 0 : value | length;
        for (let i = reversed; i < size; i += 1 << length) store<u32>(table + (i << 2), entry);
      } else {
        const low = reversed & (size - 1);
        if (low != prefix) {
          // The codes with this prefix follow one another; the table is as wide as the longest of them.
          prefix = low;
          start = next;
          secondWidth = length - width;
          let filled: u32 = n;
          while (filled < <u32>1 << secondWidth && width + secondWidth < longest) {
            secondWidth++;
            filled = (filled << 1) + load<u32>(COUNTS + ((width + secondWidth) << 2));
          }
          next = start + (1 << secondWidth);
          store<u32>(table + (low << 2), (start << 16) | SECOND | (secondWidth << 5) | width);
        }
        const rest = length - width;
        const entry = value == 0 ? 0 : value | rest;
        for (let i = reversed >> width; i < <u32>1 << secondWidth; i += 1 << rest) store<u32>(table + ((start + i) << 2), entry);
      }
      code++;
    }
    code <<= 1;
  }
  return true;
}

/** The entry of a symbol without its code length; 0 for symbols that a code may contain but data may not. */
// @ts-ignore: decorator
@inline
function valueOf(symbol: u32, kind: u32): u32 {
  // The flag makes the entry of symbol 0 differ from 0, which means "not a code".
  if (kind == PRECODE) return (symbol << 16) | LITERAL;
  if (kind == DISTANCES) {
    if (symbol > 29) return 0;
    const extra: u32 = symbol < 4 ? 0 : (symbol >> 1) - 1;
    return (<u32>load<u16>(DISTANCE_BASES + (symbol << 1)) << 16) | (extra << 5);
  }
  if (symbol < 256) return (symbol << 16) | LITERAL;
  if (symbol == 256) return END;
  if (symbol > 285) return 0;
  const at = symbol - 257;
  return (<u32>load<u16>(LENGTH_BASES + (at << 1)) << 16) | (<u32>load<u8>(LENGTH_EXTRAS + at) << 5);
}

function reverse(code: u32, length: u32): u32 {
  code = ((code & 0x5555) << 1) | ((code >> 1) & 0x5555);
  code = ((code & 0x3333) << 2) | ((code >> 2) & 0x3333);
  code = ((code & 0x0f0f) << 4) | ((code >> 4) & 0x0f0f);
  code = ((code & 0x00ff) << 8) | ((code >> 8) & 0x00ff);
  return code >> (16 - length);
}

const ENDS_EARLY: i32 = -1;
const TOO_LONG: i32 = -2;
const BAD_REFERENCE: i32 = -3;
const NOT_THIS_FORMAT: i32 = -4;
const LEFT_OVER: i32 = -5;
const BAD_CHECKSUM: i32 = -6;

const LENGTH_BITS: u32 = 11;
const DISTANCE_BITS: u32 = 8;
const PRECODE_BITS: u32 = 7;

// Most entries of any valid set of codes, second tables included (zlib's examples/enough.c): 2342 and 402.
const LENGTH_TABLE = memory.data(2400 * 4, 16);
const DISTANCE_TABLE = memory.data(416 * 4, 16);
const PRECODE_TABLE = memory.data(128 * 4, 16);
const CODE_LENGTHS = memory.data(336, 16);

// prettier-ignore
const PRECODE_ORDER = memory.data<u8>([16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15]);

// The reader between blocks: the address of the next bytes, and the bits already read, the next one lowest. After
// `fill` there are at least 56. Reads run up to 8 bytes past the end, into the slack. After each fill it is checked
// that no bits from there were *used*.
let input: usize = 0;
let inputEnd: usize = 0;
let inputBits: u64 = 0;
let inputHave: u32 = 0;
let streamEnd: usize = 0;

// @ts-ignore: decorator
@inline
function fill(): void {
  inputBits |= load<u64>(input) << <u64>inputHave;
  input += (63 - inputHave) >> 3;
  inputHave |= 56;
}

// @ts-ignore: decorator
@inline
function skip(count: u32): void {
  inputBits >>= <u64>count;
  inputHave -= count;
}

/** Decodes one zlib stream and checks its Adler-32. Returns the bytes written, or an error listed in the README. */
export function decodeZlib(src: usize, srcLength: usize, dst: usize, dstLength: usize): i32 {
  if (srcLength < 8) return ENDS_EARLY;
  const method = <u32>load<u8>(src);
  const flags = <u32>load<u8>(src, 1);
  // Deflate, a window of at most 32 KiB, no preset dictionary.
  if ((method & 15) != 8 || method >> 4 > 7 || ((method << 8) | flags) % 31 != 0 || (flags & 32) != 0) return NOT_THIS_FORMAT;
  const written = decodeDeflate(src + 2, srcLength - 6, dst, dstLength);
  if (written < 0) return written;
  if (streamEnd < src + srcLength - 4) return LEFT_OVER;
  if (bswap<u32>(load<u32>(streamEnd)) != adler32(dst, written, 1)) return BAD_CHECKSUM;
  return written;
}

/** Address after the last byte of the last deflate stream. */
export function deflateEnd(): usize {
  return streamEnd;
}

/** Decodes one deflate stream; bytes after it are ignored. Returns the bytes written, or an error listed in the README. */
export function decodeDeflate(src: usize, srcLength: usize, dst: usize, dstLength: usize): i32 {
  input = src;
  inputEnd = src + srcLength;
  inputBits = 0;
  inputHave = 0;
  const opEnd = dst + dstLength;
  let op = dst;
  let last: bool;
  do {
    fill();
    if (input - (inputHave >> 3) > inputEnd) return ENDS_EARLY;
    last = (inputBits & 1) != 0;
    const kind = <u32>(inputBits >> 1) & 3;
    skip(3);
    let written: i32;
    if (kind == 0) {
      written = copyStored(op, opEnd);
    } else {
      written = kind == 1 ? setFixedCodes() : kind == 2 ? readCodes() : NOT_THIS_FORMAT;
      if (written == 0) written = decodeSymbols(dst, op, opEnd);
    }
    if (written < 0) return written;
    op += written;
  } while (!last);

  const end = input - (inputHave >> 3);
  if (end > inputEnd) return ENDS_EARLY;
  streamEnd = end;
  return <i32>(op - dst);
}

/** Copies a block of stored bytes, which starts at the next whole byte. */
function copyStored(op: usize, opEnd: usize): i32 {
  input -= inputHave >> 3;
  inputBits = 0;
  inputHave = 0;
  if (input > inputEnd || inputEnd - input < 4) return ENDS_EARLY;
  const length = <usize>load<u16>(input);
  if (length != <usize>(~load<u16>(input, 2) & 0xffff)) return NOT_THIS_FORMAT;
  input += 4;
  if (length > inputEnd - input) return ENDS_EARLY;
  if (length > opEnd - op) return TOO_LONG;
  memory.copy(op, input, length);
  input += length;
  return <i32>length;
}

function setFixedCodes(): i32 {
  memory.fill(CODE_LENGTHS, 8, 144);
  memory.fill(CODE_LENGTHS + 144, 9, 112);
  memory.fill(CODE_LENGTHS + 256, 7, 24);
  memory.fill(CODE_LENGTHS + 280, 8, 8);
  memory.fill(CODE_LENGTHS + 288, 5, 32);
  buildTable(LENGTH_TABLE, LENGTH_BITS, CODE_LENGTHS, 288, LENGTHS);
  buildTable(DISTANCE_TABLE, DISTANCE_BITS, CODE_LENGTHS + 288, 32, DISTANCES);
  return 0;
}

/** Reads the codes of a block: their lengths, which are coded themselves. */
function readCodes(): i32 {
  const lengths = (<u32>inputBits & 31) + 257;
  const distances = (<u32>(inputBits >> 5) & 31) + 1;
  const precodes = (<u32>(inputBits >> 10) & 15) + 4;
  skip(14);
  if (lengths > 286 || distances > 30) return NOT_THIS_FORMAT;
  memory.fill(CODE_LENGTHS, 0, 19);
  for (let i: u32 = 0; i < precodes; i++) {
    if (inputHave < 3) fill();
    store<u8>(CODE_LENGTHS + <usize>load<u8>(PRECODE_ORDER + i), <u8>(inputBits & 7));
    skip(3);
  }
  if (!buildTable(PRECODE_TABLE, PRECODE_BITS, CODE_LENGTHS, 19, PRECODE)) return NOT_THIS_FORMAT;
  const total = lengths + distances;
  let i: u32 = 0;
  while (i < total) {
    fill();
    if (input - (inputHave >> 3) > inputEnd) return ENDS_EARLY;
    const entry = load<u32>(PRECODE_TABLE + ((<usize>inputBits & 127) << 2));
    if (entry == 0) return NOT_THIS_FORMAT;
    skip(entry & 31);
    const symbol = entry >> 16;
    if (symbol < 16) {
      store<u8>(CODE_LENGTHS + i, <u8>symbol);
      i++;
      continue;
    }
    let repeated: u32 = 0;
    let times: u32;
    if (symbol == 16) {
      if (i == 0) return NOT_THIS_FORMAT;
      repeated = <u32>load<u8>(CODE_LENGTHS + i - 1);
      times = 3 + (<u32>inputBits & 3);
      skip(2);
    } else if (symbol == 17) {
      times = 3 + (<u32>inputBits & 7);
      skip(3);
    } else {
      times = 11 + (<u32>inputBits & 127);
      skip(7);
    }
    if (times > total - i) return NOT_THIS_FORMAT;
    memory.fill(CODE_LENGTHS + i, <u8>repeated, times);
    i += times;
  }
  if (load<u8>(CODE_LENGTHS + 256) == 0) return NOT_THIS_FORMAT;
  if (!buildTable(LENGTH_TABLE, LENGTH_BITS, CODE_LENGTHS, lengths, LENGTHS)) return NOT_THIS_FORMAT;
  if (!buildTable(DISTANCE_TABLE, DISTANCE_BITS, CODE_LENGTHS + lengths, distances, DISTANCES)) return NOT_THIS_FORMAT;
  return 0;
}

/** Decodes all symbols of a block. Returns the bytes written. */
function decodeSymbols(dst: usize, start: usize, opEnd: usize): i32 {
  // Local variables stay in registers.
  const ipEnd = inputEnd;
  let ip = input;
  let bits = inputBits;
  let have = inputHave;
  let op = start;
  while (true) {
    bits |= load<u64>(ip) << have;
    ip += (63 - have) >> 3;
    have |= 56;
    if (ip - (have >> 3) > ipEnd) return ENDS_EARLY;
    let entry = load<u32>(LENGTH_TABLE + ((<usize>bits & 2047) << 2));
    // Three literals of at most 15 bits each fit in the 56 bits at hand.
    if (entry & LITERAL) {
      if (op >= opEnd) return TOO_LONG;
      store<u8>(op++, <u8>(entry >> 16));
      bits >>= <u64>(entry & 31);
      have -= entry & 31;
      entry = load<u32>(LENGTH_TABLE + ((<usize>bits & 2047) << 2));
      if (entry & LITERAL) {
        if (op >= opEnd) return TOO_LONG;
        store<u8>(op++, <u8>(entry >> 16));
        bits >>= <u64>(entry & 31);
        have -= entry & 31;
        entry = load<u32>(LENGTH_TABLE + ((<usize>bits & 2047) << 2));
        if (entry & LITERAL) {
          if (op >= opEnd) return TOO_LONG;
          store<u8>(op++, <u8>(entry >> 16));
          bits >>= <u64>(entry & 31);
          have -= entry & 31;
          continue;
        }
      }
      // A length and its distance need 48 bits.
      bits |= load<u64>(ip) << have;
      ip += (63 - have) >> 3;
      have |= 56;
    }
    if (entry & SECOND) {
      bits >>= <u64>LENGTH_BITS;
      have -= LENGTH_BITS;
      entry = load<u32>(LENGTH_TABLE + ((<usize>(entry >> 16) + (<usize>bits & ((1 << ((entry >> 5) & 15)) - 1))) << 2));
      if (entry & LITERAL) {
        if (op >= opEnd) return TOO_LONG;
        store<u8>(op++, <u8>(entry >> 16));
        bits >>= <u64>(entry & 31);
        have -= entry & 31;
        continue;
      }
    }
    if (entry == 0) return NOT_THIS_FORMAT;
    bits >>= <u64>(entry & 31);
    have -= entry & 31;
    if (entry & END) break;
    const lengthExtra = (entry >> 5) & 15;
    const length = <usize>((entry >> 16) + (<u32>bits & ((1 << lengthExtra) - 1)));
    bits >>= <u64>lengthExtra;
    have -= lengthExtra;

    entry = load<u32>(DISTANCE_TABLE + ((<usize>bits & 255) << 2));
    if (entry & SECOND) {
      bits >>= <u64>DISTANCE_BITS;
      have -= DISTANCE_BITS;
      entry = load<u32>(DISTANCE_TABLE + ((<usize>(entry >> 16) + (<usize>bits & ((1 << ((entry >> 5) & 15)) - 1))) << 2));
    }
    if (entry == 0) return NOT_THIS_FORMAT;
    bits >>= <u64>(entry & 31);
    have -= entry & 31;
    const distanceExtra = (entry >> 5) & 15;
    const distance = <usize>((entry >> 16) + (<u32>bits & ((1 << distanceExtra) - 1)));
    bits >>= <u64>distanceExtra;
    have -= distanceExtra;
    if (distance > op - dst) return BAD_REFERENCE;
    if (length > opEnd - op) return TOO_LONG;
    copyMatch(op, distance, length);
    op += length;
  }
  input = ip;
  inputBits = bits;
  inputHave = have;
  return <i32>(op - start);
}
