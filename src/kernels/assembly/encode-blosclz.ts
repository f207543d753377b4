// BloscLZ, with the choices of c-blosc 1.21 (entropy probe, lengths, distances, table sizes by level), so that sizes
// agree. Readers of all versions read the streams.
import { copyWild, matchLength } from "./matches";

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
  const length: usize = code >= 7 ? (code - 7) / 255 + 1 : 0;
  return length + (near ? 2 : 4);
}

/**
 * The code of a match as c-blosc computes it: equal bytes less `shift`, plus one unless it is a run. c-blosc stops one
 * byte late for matches, but not for runs; this code does the same, so that sizes agree. Zero or less: the match is not
 * worth writing.
 */
// @ts-ignore: decorator
@inline
function matchCode(equal: usize, distance: usize, shift: usize): isize {
  return <isize>equal + (distance == 1 ? 0 : 1) - <isize>shift;
}

/** Guesses the ratio, in percent, from at most 4096 bytes. */
function probe(src: usize, length: usize): u32 {
  const limit = min<usize>(length, 1 << PROBE_BITS);
  if (limit <= TAIL) return 0;
  const bound = src + limit - 1;
  const lastStart = src + limit - TAIL;
  memory.fill(PROBE_TABLE, 0, 2 << PROBE_BITS);
  let at = src;
  let cost: usize = 1;
  // The bytes before the first place are literals, too.
  let anchor = src - HEAD;
  while (at < lastStart) {
    const bytes = load<u32>(at);
    const slot = slotOf(bytes, PROBE_BITS) << 1;
    const candidate = src + <usize>load<u16>(slot, PROBE_TABLE);
    store<u16>(slot, <u16>(at - src), PROBE_TABLE);
    if (load<u32>(candidate) != bytes || candidate == at) {
      at++;
      continue;
    }
    const distance = at - candidate;
    const code = matchCode(matchLength(candidate, at, bound), distance, 3);
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
  while (length > MAX_RUN) {
    store<u8>(to, <u8>(MAX_RUN - 1));
    v128.store(to, v128.load(literals, 0), 1);
    v128.store(to, v128.load(literals, 16), 17);
    to += MAX_RUN + 1;
    literals += MAX_RUN;
    length -= MAX_RUN;
  }
  if (length == 0) return to;
  store<u8>(to, <u8>(length - 1));
  copyWild(literals, to + 1, length);
  return to + 1 + length;
}

/** Writes a match; `code` is its length less two, `distance` its distance less one. */
// @ts-ignore: decorator
@inline
function putMatch(to: usize, code: usize, distance: usize): usize {
  const near = distance < NEAR;
  const high = near ? distance >> 8 : 31;
  if (code < 7) {
    store<u8>(to++, <u8>((code << 5) + high));
  } else {
    store<u8>(to++, <u8>(224 + high));
    code -= 7;
    while (code >= 255) {
      store<u8>(to++, 255);
      code -= 255;
    }
    store<u8>(to++, <u8>code);
  }
  if (near) {
    store<u8>(to, <u8>distance);
    return to + 1;
  }
  const beyond = distance - NEAR;
  store<u8>(to, 255);
  store<u8>(to, <u8>(beyond >> 8), 1);
  store<u8>(to, <u8>beyond, 2);
  return to + 3;
}

/**
 * Compresses at a level of 1 to 9. Returns the length, or -2. `split` (bit 8 of `level`) says that the stream is one of
 * several of a block, for which c-blosc chooses other lengths. `work` is room for 64 KiB.
 */
export function encodeBlosclz(src: usize, srcLength: usize, dst: usize, dstLength: usize, level: u32, work: usize): i32 {
  const clevel = level & 0xff;
  const split = level >= 0x100;
  const quarter = srcLength >> 2;
  if (srcLength < 16 || dstLength < 66) return -2;
  const ratio = probe(src + srcLength - quarter, quarter);
  if (ratio < leastRatio(clevel)) return -2;
  const shift: usize = split && ratio >= 400 ? 4 : 3;
  const least = <isize>shift;
  const bits: u32 = clevel == 1 ? 12 : clevel == 2 ? 13 : 14;
  memory.fill(work, 0, 4 << bits);

  const bound = src + srcLength - 1;
  const lastStart = src + srcLength - TAIL;
  const limit = dst + dstLength;
  let to = dst;
  let anchor = src;
  let at = src + HEAD;
  while (at < lastStart) {
    const bytes = load<u32>(at);
    const slot = work + (slotOf(bytes, bits) << 2);
    const candidate = src + <usize>load<u32>(slot);
    const distance = at - candidate;
    store<u32>(slot, <u32>(at - src));
    if (load<u32>(candidate) != bytes || distance - 1 >= FAR - 1) {
      at++;
      continue;
    }
    const code = matchCode(matchLength(candidate, at, bound), distance, shift);
    if (code < least || (code <= 5 && distance > NEAR)) {
      at++;
      continue;
    }
    const literals = at - anchor;
    if (to + literals + (literals + MAX_RUN - 1) / MAX_RUN + matchCost(<usize>code, distance <= NEAR) > limit) return -2;
    to = putLiterals(to, anchor, literals);
    to = putMatch(to, <usize>code, distance - 1);
    at += <usize>code;
    const next = load<u32>(at);
    store<u32>(work + (slotOf(next, bits) << 2), <u32>(at - src));
    if (clevel == 9) store<u32>(work + (slotOf(next >> 8, bits) << 2), <u32>(at + 1 - src));
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
