// Writes deflate blocks: stored, with the fixed codes, or with codes of their own, whichever is shortest. RFC 1951, 3.2.


// Huffman codes of bounded length, canonical and with reversed bits, as deflate requires. RFC 1951, 3.2.2.

const KEYS: usize = 20480; // u32 for each symbol in use: frequency << 9 | symbol, ascending
const DEPTHS: usize = 22528; // u32 for each of them: first node weights, then parents, then depths
const COUNTS: usize = 24576; // u32: number of codes by length
const NEXT: usize = 24832; // u32: next code by length
const MAX_COUNTED: u32 = 32;

// @ts-ignore: decorator
@inline
function get(table: usize, i: i32): u32 {
  return load<u32>(table + (<usize>i << 2));
}

// @ts-ignore: decorator
@inline
function set(table: usize, i: i32, value: u32): void {
  store<u32>(table + (<usize>i << 2), value);
}

/** Shell sort. */
function sortKeys(n: i32): void {
  for (let gap: i32 = 121; gap > 0; gap = (gap - 1) / 3) {
    for (let i = gap; i < n; i++) {
      const key = get(KEYS, i);
      let j = i;
      while (j >= gap && get(KEYS, j - gap) > key) {
        set(KEYS, j, get(KEYS, j - gap));
        j -= gap;
      }
      set(KEYS, j, key);
    }
  }
}

/** Depths of the leaves of a Huffman tree over n >= 2 ascending weights, in place (Moffat and Katajainen, 1995). */
function findDepths(n: i32): void {
  for (let i = 0; i < n; i++) set(DEPTHS, i, get(KEYS, i) >> 9);
  // Weights become parents' indices, from the left.
  let leaf = 0;
  let root = 0;
  for (let next = 0; next < n - 1; next++) {
    let weight: u32 = 0;
    for (let k = 0; k < 2; k++) {
      if (leaf >= n || (root < next && get(DEPTHS, root) < get(DEPTHS, leaf))) {
        weight += get(DEPTHS, root);
        set(DEPTHS, root++, <u32>next);
      } else {
        weight += get(DEPTHS, leaf++);
      }
    }
    set(DEPTHS, next, weight);
  }
  // Parents become depths of inner nodes, from the right.
  set(DEPTHS, n - 2, 0);
  for (let i = n - 3; i >= 0; i--) set(DEPTHS, i, get(DEPTHS, <i32>get(DEPTHS, i)) + 1);
  // Depths of inner nodes become depths of leaves.
  let available = 1;
  let depth: u32 = 0;
  let inner = n - 2;
  let at = n - 1;
  while (available > 0) {
    let used = 0;
    while (inner >= 0 && get(DEPTHS, inner) == depth) {
      used++;
      inner--;
    }
    while (available > used) {
      set(DEPTHS, at--, depth);
      available--;
    }
    available = 2 * used;
    depth++;
  }
}

/** Counts codes by length, none longer than `limit`, so that the code is complete. */
function countLengths(n: i32, limit: i32): void {
  memory.fill(COUNTS, 0, MAX_COUNTED << 2);
  for (let i = 0; i < n; i++) {
    const length = min(<i32>get(DEPTHS, i), limit);
    set(COUNTS, length, get(COUNTS, length) + 1);
  }
  let space: u32 = 0;
  for (let length = 1; length <= limit; length++) space += get(COUNTS, length) << (limit - length);
  // Too many: one of the longest codes moves below a shorter one, which gets one bit longer.
  while (space > <u32>1 << limit) {
    set(COUNTS, limit, get(COUNTS, limit) - 1);
    let length = limit - 1;
    while (get(COUNTS, length) == 0) length--;
    set(COUNTS, length, get(COUNTS, length) - 1);
    set(COUNTS, length + 1, get(COUNTS, length + 1) + 2);
    space--;
  }
}

// @ts-ignore: decorator
@inline
function reversed(code: u32, length: u32): u32 {
  let bits = ((code >> 1) & 0x5555) | ((code & 0x5555) << 1);
  bits = ((bits >> 2) & 0x3333) | ((bits & 0x3333) << 2);
  bits = ((bits >> 4) & 0x0f0f) | ((bits & 0x0f0f) << 4);
  bits = ((bits >> 8) & 0x00ff) | ((bits & 0x00ff) << 8);
  return bits >> (16 - length);
}

/**
 * Makes codes for `symbols` symbols with the u32 frequencies at `frequencies`: length << 16 | code at `codes`, 0 if a
 * symbol does not occur. At least two symbols get a code, as old readers require.
 */
export function makeCodes(frequencies: usize, symbols: i32, limit: i32, codes: usize): void {
  let n = 0;
  for (let symbol = 0; symbol < symbols; symbol++) {
    const frequency = get(frequencies, symbol);
    if (frequency != 0) set(KEYS, n++, (frequency << 9) | <u32>symbol);
  }
  for (let symbol = 0; n < 2; symbol++) {
    if (get(frequencies, symbol) == 0) set(KEYS, n++, 512 | <u32>symbol);
  }
  sortKeys(n);
  findDepths(n);
  countLengths(n, limit);
  memory.fill(codes, 0, <usize>symbols << 2);
  // The rarest symbols get the longest codes.
  let at = 0;
  for (let length = limit; length > 0; length--) {
    for (let k = get(COUNTS, length); k > 0; k--) set(codes, <i32>(get(KEYS, at++) & 511), <u32>length << 16);
  }
  numberCodes(codes, symbols, limit);
}

/** Assigns codes whose lengths are known. */
export function numberCodes(codes: usize, symbols: i32, limit: i32): void {
  memory.fill(COUNTS, 0, MAX_COUNTED << 2);
  for (let symbol = 0; symbol < symbols; symbol++) {
    const length = <i32>(get(codes, symbol) >> 16);
    set(COUNTS, length, get(COUNTS, length) + 1);
  }
  set(COUNTS, 0, 0);
  let code: u32 = 0;
  for (let length = 1; length <= limit; length++) {
    code = (code + get(COUNTS, length - 1)) << 1;
    set(NEXT, length, code);
  }
  for (let symbol = 0; symbol < symbols; symbol++) {
    const length = get(codes, symbol) >> 16;
    if (length == 0) continue;
    const next = get(NEXT, <i32>length);
    set(NEXT, <i32>length, next + 1);
    set(codes, symbol, (length << 16) | reversed(next, length));
  }
}

/** Frequencies of the current block, u32 each. */
export const LITERAL_FREQUENCIES: usize = 16384;
export const DISTANCE_FREQUENCIES: usize = 17536;
const LENGTH_FREQUENCIES: usize = 17664;
const LITERAL_CODES: usize = 17792;
const DISTANCE_CODES: usize = 18944;
const LENGTH_CODES: usize = 19072;
const FIXED_LITERAL_CODES: usize = 26624;
const FIXED_DISTANCE_CODES: usize = 27776;
/** Code lengths of both alphabets, one after the other, one byte each; then the same as runs: symbol, extra bits. */
const LENGTHS: usize = 27904;
const RUNS: usize = 28416;

const LITERALS: i32 = 286;
const DISTANCES: i32 = 30;
const END_OF_BLOCK: u32 = 256;
const MAX_STORED: usize = 65535;
// prettier-ignore
const LENGTH_ORDER = memory.data<u8>([16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15]);

let bits: u64 = 0;
let nbits: u32 = 0;

/** The symbol, from 257, for a match of `length` less three. */
// @ts-ignore: decorator
@inline
export function lengthSymbol(length: u32): u32 {
  if (length == 255) return 285;
  if (length < 8) return 257 + length;
  const extra = 29 - clz(length);
  return 257 + ((extra + 1) << 2) + ((length >> extra) & 3);
}

// @ts-ignore: decorator
@inline
function lengthExtra(length: u32): u32 {
  return length < 8 || length == 255 ? 0 : 29 - clz(length);
}

/** The symbol for a distance less one. */
// @ts-ignore: decorator
@inline
export function distanceSymbol(distance: u32): u32 {
  if (distance < 4) return distance;
  const extra = 30 - clz(distance);
  return ((extra + 1) << 1) + ((distance >> extra) & 1);
}

// @ts-ignore: decorator
@inline
function distanceExtra(distance: u32): u32 {
  return distance < 4 ? 0 : 30 - clz(distance);
}

// @ts-ignore: decorator
@inline
function frequency(table: usize, symbol: i32): u32 {
  return load<u32>(table + (<usize>symbol << 2));
}

// @ts-ignore: decorator
@inline
function count(table: usize, symbol: u32): void {
  const at = table + (<usize>symbol << 2);
  store<u32>(at, load<u32>(at) + 1);
}

/** Begins a stream: clears the bit buffer and makes the fixed codes. */
export function startBits(): void {
  bits = 0;
  nbits = 0;
  startBlock();
  for (let symbol: u32 = 0; symbol < 288; symbol++) {
    const length: u32 = symbol < 144 ? 8 : symbol < 256 ? 9 : symbol < 280 ? 7 : 8;
    store<u32>(FIXED_LITERAL_CODES + (<usize>symbol << 2), length << 16);
  }
  for (let symbol: usize = 0; symbol < 32; symbol++) store<u32>(FIXED_DISTANCE_CODES + (symbol << 2), 5 << 16);
  numberCodes(FIXED_LITERAL_CODES, 288, 9);
  numberCodes(FIXED_DISTANCE_CODES, 32, 5);
}

function startBlock(): void {
  memory.fill(LITERAL_FREQUENCIES, 0, DISTANCE_FREQUENCIES + 128 - LITERAL_FREQUENCIES);
  store<u32>(LITERAL_FREQUENCIES + (END_OF_BLOCK << 2), 1);
}

/** Appends at most 32 bits. Returns the address after the output. */
// @ts-ignore: decorator
@inline
function putBits(to: usize, value: u64, length: u32): usize {
  bits |= value << nbits;
  nbits += length;
  store<u64>(to, bits);
  const whole = nbits >> 3;
  bits >>= whole << 3;
  nbits &= 7;
  return to + whole;
}

/** Pads with zero bits to the end of a byte. */
export function finishBits(to: usize): usize {
  if (nbits == 0) return to;
  store<u8>(to, <u8>bits);
  bits = 0;
  nbits = 0;
  return to + 1;
}

/** Bits of the block's symbols, including their extra bits. */
function costOf(literalCodes: usize, distanceCodes: usize): usize {
  let cost: usize = 0;
  for (let symbol = 0; symbol < LITERALS; symbol++) {
    const extra: u32 = symbol < 265 || symbol == 285 ? 0 : <u32>(symbol - 261) >> 2;
    cost += frequency(LITERAL_FREQUENCIES, symbol) * ((frequency(literalCodes, symbol) >> 16) + extra);
  }
  for (let symbol = 0; symbol < DISTANCES; symbol++) {
    const extra: u32 = symbol < 4 ? 0 : <u32>(symbol - 2) >> 1;
    cost += frequency(DISTANCE_FREQUENCIES, symbol) * ((frequency(distanceCodes, symbol) >> 16) + extra);
  }
  return cost;
}

function countUsed(codes: usize, symbols: i32, least: i32): i32 {
  while (symbols > least && frequency(codes, symbols - 1) == 0) symbols--;
  return symbols;
}

/** Describes the code lengths as runs. Returns the number of runs. */
function describeLengths(literals: i32, distances: i32): usize {
  for (let i = 0; i < literals; i++) store<u8>(LENGTHS + i, <u8>(frequency(LITERAL_CODES, i) >> 16));
  for (let i = 0; i < distances; i++) store<u8>(LENGTHS + literals + i, <u8>(frequency(DISTANCE_CODES, i) >> 16));
  const total = <usize>(literals + distances);
  memory.fill(LENGTH_FREQUENCIES, 0, 76);
  let nruns: usize = 0;
  let i: usize = 0;
  while (i < total) {
    const length = load<u8>(LENGTHS + i);
    let run: usize = 1;
    while (i + run < total && load<u8>(LENGTHS + i + run) == length) run++;
    i += run;
    if (length != 0) {
      nruns = putRun(nruns, length, 0);
      run--;
    }
    while (run >= 3) {
      if (length != 0) {
        const piece = min<usize>(run, 6);
        nruns = putRun(nruns, 16, piece - 3);
        run -= piece;
      } else if (run <= 10) {
        nruns = putRun(nruns, 17, run - 3);
        run = 0;
      } else {
        const piece = min<usize>(run, 138);
        nruns = putRun(nruns, 18, piece - 11);
        run -= piece;
      }
    }
    for (; run > 0; run--) nruns = putRun(nruns, length, 0);
  }
  return nruns;
}

function putRun(nruns: usize, symbol: u32, extra: usize): usize {
  count(LENGTH_FREQUENCIES, symbol);
  store<u8>(RUNS + (nruns << 1), <u8>symbol);
  store<u8>(RUNS + (nruns << 1), <u8>extra, 1);
  return nruns + 1;
}

// @ts-ignore: decorator
@inline
function runBits(symbol: u32): u32 {
  return symbol < 16 ? 0 : symbol == 16 ? 2 : symbol == 17 ? 3 : 7;
}

/**
 * Writes one block. Its symbols are from `symbols` to `symbolsEnd` (distance << 16 | length less three, or a literal)
 * and stand for the `length` bytes at `src`. Returns the address after the output, or 0 if it would pass `limit`.
 */
export function putBlock(
  symbols: usize, symbolsEnd: usize, src: usize, length: usize, last: bool, to: usize, limit: usize,
): usize {
  makeCodes(LITERAL_FREQUENCIES, LITERALS, 15, LITERAL_CODES);
  makeCodes(DISTANCE_FREQUENCIES, DISTANCES, 15, DISTANCE_CODES);
  const literals = countUsed(LITERAL_CODES, LITERALS, 257);
  const distances = countUsed(DISTANCE_CODES, DISTANCES, 1);
  const nruns = describeLengths(literals, distances);
  makeCodes(LENGTH_FREQUENCIES, 19, 7, LENGTH_CODES);
  let nlengths = 19;
  while (nlengths > 4 && frequency(LENGTH_CODES, load<u8>(LENGTH_ORDER + nlengths - 1)) == 0) nlengths--;
  let own: usize = 14 + 3 * nlengths + costOf(LITERAL_CODES, DISTANCE_CODES);
  for (let symbol = 0; symbol < 19; symbol++) {
    own += frequency(LENGTH_FREQUENCIES, symbol) * ((frequency(LENGTH_CODES, symbol) >> 16) + runBits(symbol));
  }
  const fixed = costOf(FIXED_LITERAL_CODES, FIXED_DISTANCE_CODES);
  const best = min(own, fixed);
  const final: u64 = last ? 1 : 0;
  const stored: usize = 37 + (length << 3);
  if (length <= MAX_STORED && stored < best) {
    if (to + length + 6 > limit) return 0;
    to = finishBits(putBits(to, final, 3));
    store<u16>(to, <u16>length);
    store<u16>(to, <u16>~length, 2);
    memory.copy(to + 4, src, length);
    startBlock();
    return to + 4 + length;
  }
  if (to + ((best + 10 + 7) >> 3) > limit) return 0;
  if (fixed <= own) {
    to = putBits(to, final | 2, 3);
    to = putSymbols(symbols, symbolsEnd, FIXED_LITERAL_CODES, FIXED_DISTANCE_CODES, to);
  } else {
    to = putBits(to, final | 4, 3);
    to = putBits(to, (literals - 257) | ((distances - 1) << 5) | ((nlengths - 4) << 10), 14);
    for (let i: i32 = 0; i < nlengths; i++) {
      to = putBits(to, frequency(LENGTH_CODES, load<u8>(LENGTH_ORDER + i)) >> 16, 3);
    }
    for (let i: usize = 0; i < nruns; i++) {
      const symbol = <i32>load<u8>(RUNS + (i << 1));
      const code = frequency(LENGTH_CODES, symbol);
      to = putBits(to, code & 0xffff, code >> 16);
      to = putBits(to, load<u8>(RUNS + (i << 1), 1), runBits(symbol));
    }
    to = putSymbols(symbols, symbolsEnd, LITERAL_CODES, DISTANCE_CODES, to);
  }
  startBlock();
  return to;
}

function putSymbols(symbols: usize, symbolsEnd: usize, literalCodes: usize, distanceCodes: usize, to: usize): usize {
  let pending = bits;
  let npending = nbits;
  for (; symbols < symbolsEnd; symbols += 4) {
    const symbol = load<u32>(symbols);
    const distance = symbol >> 16;
    if (distance == 0) {
      const code = load<u32>(literalCodes + (<usize>symbol << 2));
      pending |= <u64>(code & 0xffff) << npending;
      npending += code >> 16;
    } else {
      // At most 15 + 5 + 15 + 13 bits after 7 that remain.
      const length = symbol & 0xffff;
      const lengthCode = load<u32>(literalCodes + (<usize>lengthSymbol(length) << 2));
      pending |= <u64>(lengthCode & 0xffff) << npending;
      npending += lengthCode >> 16;
      const lengthBits = lengthExtra(length);
      pending |= <u64>(length & ((1 << lengthBits) - 1)) << npending;
      npending += lengthBits;
      const back = distance - 1;
      const distanceCode = load<u32>(distanceCodes + (<usize>distanceSymbol(back) << 2));
      pending |= <u64>(distanceCode & 0xffff) << npending;
      npending += distanceCode >> 16;
      const distanceBits = distanceExtra(back);
      pending |= <u64>(back & ((1 << distanceBits) - 1)) << npending;
      npending += distanceBits;
    }
    store<u64>(to, pending);
    const whole = npending >> 3;
    to += whole;
    pending >>= whole << 3;
    npending &= 7;
  }
  bits = pending;
  nbits = npending;
  const end = load<u32>(literalCodes + (END_OF_BLOCK << 2));
  return putBits(to, end & 0xffff, end >> 16);
}
