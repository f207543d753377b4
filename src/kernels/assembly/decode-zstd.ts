// zstd frames and their blocks. No dictionaries: Blosc has none. @see RFC 8878
import { resetLiterals, decodeLiterals, literals, literalsLength } from "./decode-zstd-literals";
import { decodeSequences, resetSequences } from "./decode-zstd-sequences";


// XXH64 with seed 0. @see https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md

const P1: u64 = 0x9e3779b185ebca87;
const P2: u64 = 0xc2b2ae3d27d4eb4f;
const P3: u64 = 0x165667b19e3779f9;
const P4: u64 = 0x85ebca77c2b2ae63;
const P5: u64 = 0x27d4eb2f165667c5;

/** The XXH64 of `length` bytes. */
export function xxhash64(src: usize, length: usize): u64 {
  const end = src + length;
  let hash: u64;
  if (length >= 32) {
    let a: u64 = P1 + P2;
    let b: u64 = P2;
    let c: u64 = 0;
    let d: u64 = 0 - P1;
    do {
      a = round(a, load<u64>(src));
      b = round(b, load<u64>(src, 8));
      c = round(c, load<u64>(src, 16));
      d = round(d, load<u64>(src, 24));
      src += 32;
    } while (end - src >= 32);
    hash = rotl<u64>(a, 1) + rotl<u64>(b, 7) + rotl<u64>(c, 12) + rotl<u64>(d, 18);
    hash = merge(merge(merge(merge(hash, a), b), c), d);
  } else {
    hash = P5;
  }
  hash += <u64>length;
  for (; end - src >= 8; src += 8) hash = rotl<u64>(hash ^ round(0, load<u64>(src)), 27) * P1 + P4;
  if (end - src >= 4) {
    hash = rotl<u64>(hash ^ (<u64>load<u32>(src) * P1), 23) * P2 + P3;
    src += 4;
  }
  for (; src < end; src++) hash = rotl<u64>(hash ^ (<u64>load<u8>(src) * P5), 11) * P1;
  hash = (hash ^ (hash >> 33)) * P2;
  hash = (hash ^ (hash >> 29)) * P3;
  return hash ^ (hash >> 32);
}

// @ts-ignore: decorator
@inline
function round(sum: u64, lane: u64): u64 {
  return rotl<u64>(sum + lane * P2, 31) * P1;
}

// @ts-ignore: decorator
@inline
function merge(hash: u64, sum: u64): u64 {
  return (hash ^ round(0, sum)) * P1 + P4;
}

const ENDS_EARLY: i32 = -1;
const TOO_LONG: i32 = -2;
const NOT_THIS_FORMAT: i32 = -4;
const BAD_CHECKSUM: i32 = -6;

const MAGIC: u32 = 0xfd2fb528;
const SKIPPABLE: u32 = 0x184d2a50;
const MAX_BLOCK: usize = 131072;

/** Start of the next frame, set by `decodeFrame`. */
let nextFrame: usize = 0;

/** Decodes a stream of zstd frames. Returns the bytes written, or an error listed in the README. */
export function decodeZstd(src: usize, srcLength: usize, dst: usize, dstLength: usize): i32 {
  const end = src + srcLength;
  const opEnd = dst + dstLength;
  let op = dst;
  if (srcLength == 0) return ENDS_EARLY;
  while (src != end) {
    if (end - src < 5) return ENDS_EARLY;
    const magic = load<u32>(src);
    if ((magic & 0xfffffff0) == SKIPPABLE) {
      if (end - src < 8) return ENDS_EARLY;
      const length = <usize>load<u32>(src, 4);
      if (length > end - src - 8) return ENDS_EARLY;
      src += 8 + length;
      continue;
    }
    if (magic != MAGIC) return NOT_THIS_FORMAT;
    const written = decodeFrame(src, end, op, opEnd);
    if (written < 0) return written;
    op += written;
    src = nextFrame;
  }
  return <i32>(op - dst);
}

function decodeFrame(src: usize, end: usize, dst: usize, opEnd: usize): i32 {
  const descriptor = <u32>load<u8>(src, 4);
  if ((descriptor & 8) != 0) return NOT_THIS_FORMAT;
  const single = (descriptor & 32) != 0;
  const dictionary = descriptor & 3;
  const dictionaryBytes: usize = dictionary == 3 ? 4 : dictionary;
  const sizeKind = descriptor >> 6;
  const sizeBytes: usize = sizeKind == 0 ? (single ? 1 : 0) : <usize>1 << sizeKind;
  src += 5;
  const head: usize = (single ? 0 : 1) + dictionaryBytes + sizeBytes;
  if (head > end - src) return ENDS_EARLY;
  if (!single) {
    // A window of at most 2^31 bytes: matches can never refer to more than that.
    if (load<u8>(src) >> 3 > 21) return NOT_THIS_FORMAT;
    src++;
  }
  for (let i: usize = 0; i < dictionaryBytes; i++) if (load<u8>(src + i) != 0) return NOT_THIS_FORMAT;
  src += dictionaryBytes;
  let promised: u64 = 0;
  if (sizeBytes == 1) promised = <u64>load<u8>(src);
  else if (sizeBytes == 2) promised = <u64>load<u16>(src) + 256;
  else if (sizeBytes == 4) promised = <u64>load<u32>(src);
  else if (sizeBytes == 8) promised = load<u64>(src);
  src += sizeBytes;
  if (promised > <u64>(opEnd - dst)) return TOO_LONG;

  resetLiterals();
  resetSequences();
  let op = dst;
  let last: bool;
  do {
    if (end - src < 3) return ENDS_EARLY;
    const block = <u32>load<u16>(src) | (<u32>load<u8>(src, 2) << 16);
    src += 3;
    last = (block & 1) != 0;
    const kind = (block >> 1) & 3;
    const size = <usize>(block >> 3);
    if (size > MAX_BLOCK) return NOT_THIS_FORMAT;
    if (kind == 1) {
      if (end - src < 1) return ENDS_EARLY;
      if (size > opEnd - op) return TOO_LONG;
      memory.fill(op, load<u8>(src), size);
      src++;
      op += size;
      continue;
    }
    if (size > end - src) return ENDS_EARLY;
    if (kind == 0) {
      if (size > opEnd - op) return TOO_LONG;
      memory.copy(op, src, size);
      op += size;
    } else if (kind == 2) {
      const taken = decodeLiterals(src, src + size);
      if (taken < 0) return taken;
      const written = decodeSequences(src + taken, src + size, literals, literalsLength, dst, op, opEnd);
      if (written < 0) return written;
      op += written;
    } else {
      return NOT_THIS_FORMAT;
    }
    src += size;
  } while (!last);
  if (sizeBytes != 0 && promised != <u64>(op - dst)) return NOT_THIS_FORMAT;
  if ((descriptor & 4) != 0) {
    if (end - src < 4) return ENDS_EARLY;
    if (load<u32>(src) != <u32>xxhash64(dst, op - dst)) return BAD_CHECKSUM;
    src += 4;
  }
  nextFrame = src;
  return <i32>(op - dst);
}
