// BloscLZ, with the choices of c-blosc 1.21 (entropy probe, lengths, distances, table sizes by level), so that sizes
// agree. Readers of all versions read the streams.
import { endOf } from "./matches";

/** Literals come in runs of 1 to 32. */
const MAX_RUN: usize = 32;
/** A shorter distance takes 13 bits, biased by one; … */
const NEAR: usize = 8191;
/** … a longer one takes 16 more bits, up to this. */
const FAR: usize = 65535 + NEAR - 1;
const PROBE_BITS: u32 = 12;
/** The table of the probe: 4096 entries of 16 bits. */
const PROBE_TABLE: usize = 16384;
/** The first bytes are literals. */
const HEAD: usize = 4;
/** No match starts in the last bytes. */
const TAIL: usize = 12;

// @ts-ignore: decorator
@inline
function slotOf(bytes: u32, bits: u32): usize {
  return <usize>((bytes * 0x9e3779b1) >> (32 - bits));
}

/** Smallest ratio, in percent, that the probe must predict at a level. */
function leastRatio(clevel: u32): u32 {
  if (clevel >= 9) return 100;
  if (clevel == 8) return 110;
  if (clevel == 7) return 115;
  if (clevel >= 3) return 120;
  return clevel == 2 ? 150 : 200;
}

/** Bytes of a match: control byte, further length bytes, distance. `code` is the length less two. */
// @ts-ignore: decorator
@inline
function matchCost(code: usize, near: bool): usize {
  return (code >= 7 ? (code - 7) / 255 + 1 : 0) + (near ? 2 : 4);
}

/** Guesses the ratio, in percent, from at most 4096 bytes. */
function probe(src: usize, length: usize): u32 {
  const limit = min<usize>(length, 1 << PROBE_BITS);
  if (limit <= TAIL) return 0;
  const bound = src + limit - 1;
  const lastStart = src + limit - TAIL;
  memory.fill(PROBE_TABLE, 0, 2 << PROBE_BITS);
  // The first place has none before it, and its entry is the 0 that is there.
  let at = src + 1;
  let cost: usize = 1;
  // The bytes before the first place are literals, too.
  let anchor = src - HEAD;
  while (at < lastStart) {
    const bytes = load<u64>(at);
    const slot = slotOf(<u32>bytes, PROBE_BITS) << 1;
    const candidate = src + <usize>load<u16>(slot, PROBE_TABLE);
    store<u16>(slot, <u16>(at - src), PROBE_TABLE);
    const differs = load<u64>(candidate) ^ bytes;
    // Five equal bytes, at least.
    if (differs << 24 != 0) {
      at++;
      continue;
    }
    const distance = at - candidate;
    const code = <isize>(endOf(differs, candidate, at, bound) - at) - 2;
    if (code < 3) {
      at++;
      continue;
    }
    const run = at - anchor;
    cost += run + (run + MAX_RUN - 1) / MAX_RUN + matchCost(<usize>code, distance <= NEAR);
    at += <usize>code;
    store<u16>(slotOf(load<u32>(at), PROBE_BITS) << 1, <u16>(at - src), PROBE_TABLE);
    at += 2;
    anchor = at;
  }
  cost += at - anchor + (at - anchor) / MAX_RUN;
  return <u32>((at - src) * 100 / cost);
}

/** Writes literals in runs. The caller has checked that they fit. */
// @ts-ignore: decorator
@inline
function putLiterals(to: usize, literals: usize, length: usize): usize {
  do {
    const run = min(length, MAX_RUN);
    // Without literals, the match overwrites these.
    store<u8>(to, <u8>(run - 1));
    v128.store(to, v128.load(literals, 0), 1);
    v128.store(to, v128.load(literals, 16), 17);
    to += run + <usize>(run != 0);
    literals += run;
    length -= run;
  } while (length != 0);
  return to;
}

/** Writes a match; `code` is its length less two, `distance` its distance less one. */
// @ts-ignore: decorator
@inline
function putMatch(to: usize, code: usize, distance: usize): usize {
  const near = distance < NEAR;
  const beyond = distance - NEAR;
  const high = near ? distance >> 8 : 31;
  const low = near ? distance & 0xff : 255 | (beyond & 0xff00) | ((beyond & 0xff) << 16);
  if (code < 7) {
    store<u32>(to, <u32>((code << 5) | high | (low << 8)));
    return to + (near ? 2 : 4);
  }
  store<u8>(to++, <u8>(224 | high));
  code -= 7;
  while (code >= 255) {
    store<u8>(to++, 255);
    code -= 255;
  }
  store<u32>(to, <u32>(code | (low << 8)));
  return to + (near ? 2 : 4);
}

/**
 * Compresses at a level of 1 to 9. Returns the length, or -2. `split` (bit 8 of `level`) says that the stream is one of
 * several of a block, for which c-blosc chooses other lengths. `work` is room for 64 KiB before `src`.
 */
export function encodeBlosclz(src: usize, srcLength: usize, dst: usize, dstLength: usize, level: u32, work: usize): i32 {
  const clevel = level & 0xff;
  const quarter = srcLength >> 2;
  if (srcLength < 16 || dstLength < 66) return -2;
  const ratio = probe(src + srcLength - quarter, quarter);
  if (ratio < leastRatio(clevel)) return -2;
  const bits: u32 = clevel == 1 ? 12 : clevel == 2 ? 13 : 14;
  memory.fill(work, 0, 4 << bits);
  const shift: usize = level >= 0x100 && ratio >= 400 ? 4 : 3;
  const nearMask: u64 = (<u64>1 << <u64>(8 * (2 * shift - 1))) - 1;
  return encodeMatches(src, srcLength, dst, dstLength, work, bits, clevel, shift, nearMask);
}

/**
 * Writes the stream. A match is worth writing if its code is at least `shift`, and more than 5 if it is far: `nearMask` has the
 * bytes that are then equal; of a far one, all eight are. This is one branch, because it cannot be predicted.
 */
function encodeMatches(
  src: usize, srcLength: usize, dst: usize, dstLength: usize, work: usize, bits: u32, clevel: u32, shift: usize,
  nearMask: u64,
): i32 {
  const bound = src + srcLength - 1;
  const lastStart = src + srcLength - TAIL;
  const limit = dst + dstLength;
  // A table of addresses. 0 is nowhere: `work` is before the input, which is thus further from 0 than a match reaches.
  store<u32>(work + (slotOf(load<u32>(src), bits) << 2), <u32>src);
  let to = dst;
  let anchor = src;
  let at = src + HEAD;
  while (at < lastStart) {
    const bytes = load<u64>(at);
    const slot = work + (slotOf(<u32>bytes, bits) << 2);
    const candidate = <usize>load<u32>(slot);
    store<u32>(slot, <u32>at);
    const distance = at - candidate;
    const differs = load<u64>(candidate) ^ bytes;
    if (((differs & (distance <= NEAR ? nearMask : <u64>-1)) | <u64>(distance >= FAR)) != 0) {
      at++;
      continue;
    }
    const code = <isize>(endOf(differs, candidate, at, bound) + 1 - at - shift);
    if (code < <isize>shift || (code <= 5 && distance > NEAR)) {
      at++;
      continue;
    }
    const literals = at - anchor;
    // The exact cost takes a division, so it is needed only near the limit.
    if (to + literals + (literals >> 5) + (<usize>code >> 7) + 6 > limit) {
      if (to + literals + (literals + MAX_RUN - 1) / MAX_RUN + matchCost(<usize>code, distance <= NEAR) > limit) return -2;
    }
    to = putLiterals(to, anchor, literals);
    to = putMatch(to, <usize>code, distance - 1);
    at += <usize>code;
    const next = load<u32>(at);
    store<u32>(work + (slotOf(next, bits) << 2), <u32>at);
    if (clevel == 9) store<u32>(work + (slotOf(next >> 8, bits) << 2), <u32>(at + 1));
    at += 2;
    anchor = at;
  }
  const rest = bound + 1 - anchor;
  if (to + rest + (rest + MAX_RUN - 1) / MAX_RUN > limit) return -2;
  to = putLiterals(to, anchor, rest);
  // c-blosc always sets this bit of the first control byte; readers ignore it there.
  store<u8>(dst, load<u8>(dst) | 32);
  return <i32>(to - dst);
}
