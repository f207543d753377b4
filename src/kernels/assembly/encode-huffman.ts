// Huffman codes of bounded length, canonical and with their bits reversed, as deflate wants them. RFC 1951, 3.2.2.

const KEYS: usize = 20480; // u32 for each symbol in use: frequency << 9 | symbol, ascending
const DEPTHS: usize = 22528; // u32 for each of them: weights of nodes, then parents, then depths
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

/** Sorts the keys by steps that shrink. */
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

/** Counts of lengths, none above `limit`, with a complete code. */
function countLengths(n: i32, limit: i32): void {
  memory.fill(COUNTS, 0, MAX_COUNTED << 2);
  for (let i = 0; i < n; i++) {
    const length = min(<i32>get(DEPTHS, i), limit);
    set(COUNTS, length, get(COUNTS, length) + 1);
  }
  let space: u32 = 0;
  for (let length = 1; length <= limit; length++) space += get(COUNTS, length) << (limit - length);
  // Too much: one of the longest codes goes under a shorter one, which gets one bit longer.
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
 * Codes for `symbols` symbols with the u32 frequencies at `frequencies`: length << 16 | code at `codes`, 0 where a
 * symbol does not occur. At least two symbols get a code, as old readers want it.
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

/** Numbers codes whose lengths are known. */
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
