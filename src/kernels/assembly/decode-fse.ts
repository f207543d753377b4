// Finite State Entropy tables of zstd. @see RFC 8878, 4.1
//
// A state is 8 bytes, from the lowest bit on: 16 bits: offset of the next state in bytes, before bits of the stream are
// added; 8 bits: number of bits to add; 8 bits: number of extra bits of the value; 20 bits: base of the value; 12 bits:
// mask of the bits to add, in bytes.



// Bit streams that zstd reads backwards. The highest set bit of the last byte marks the end and is not data.
//
// A reader keeps two numbers: `left`, the bits that remain (negative: more bits were used than exist), and `window`,
// whose highest bit is the next one. After `fill` at least 57 bits of the window are valid. Reading before the stream's
// start gives arbitrary bits; a negative `left` shows that this happened.

/** Bits of the stream from `src` to `end`, or -1 if it has no end mark. */
// @ts-ignore: decorator
@inline
export function bitLength(src: usize, end: usize): i32 {
  if (end <= src) return -1;
  const last = <u32>load<u8>(end - 1);
  if (last == 0) return -1;
  return <i32>((end - src) << 3) - <i32>(clz<u32>(last) - 24) - 1;
}

/** The window at `left` bits from the start `src`. */
// @ts-ignore: decorator
@inline
export function fill(src: usize, left: i32): u64 {
  return load<u64>(src + ((left + 7) >> 3) - 8) << <u64>(-left & 7);
}

/** The next `count` bits of the window, 0 to 63. */
// @ts-ignore: decorator
@inline
export function peek(window: u64, count: u32): u32 {
  return <u32>((window >> 1) >> <u64>(63 - count));
}

/** Normalised counts of the table that is read, i16 for each symbol; -1 is "less than one". */
const COUNTS = memory.data(256 * 2, 16);
/** The next occurrence of each symbol while a table is filled. */
const NEXT = memory.data(256 * 2, 16);
/** The symbol of each state while a table is filled. */
const SYMBOLS = memory.data(512, 16);

/** Accuracy log of the last counts that were read. */
export let countsLog: u32 = 0;
/** Number of symbols in these counts. */
let countsLength: u32 = 0;

/** Reads normalised counts. Returns the bytes they occupy, or 0 if they are invalid or truncated. */
export function readCounts(src: usize, end: usize, maxLog: u32, maxSymbol: u32): usize {
  const room = end - src;
  if (room == 0) return 0;
  // Reads go up to 8 bytes past the end. The bits that were *used* are compared with the end afterwards, and while
  // zeros are skipped.
  let at: usize = 4;
  const log = (<u32>load<u8>(src) & 15) + 5;
  if (log > maxLog) return 0;
  let remaining: i32 = (1 << log) + 1;
  let threshold: i32 = 1 << log;
  let width: u32 = log + 1;
  let symbol: u32 = 0;
  let zero = false;
  while (remaining > 1 && symbol <= maxSymbol) {
    if (zero) {
      let skip: u32;
      do {
        skip = (load<u32>(src + (at >> 3)) >> <u32>(at & 7)) & 3;
        at += 2;
        if (skip > maxSymbol + 1 - symbol) return 0;
        for (let i: u32 = 0; i < skip; i++) store<i16>(COUNTS + ((symbol + i) << 1), 0);
        symbol += skip;
      } while (skip == 3);
      if (symbol > maxSymbol) break;
    }
    if (at >> 3 > room) return 0;
    const bits = <i32>(load<u32>(src + (at >> 3)) >> <u32>(at & 7));
    const most = (threshold << 1) - 1 - remaining;
    let count = bits & (threshold - 1);
    if (count < most) {
      at += width - 1;
    } else {
      count = bits & ((threshold << 1) - 1);
      if (count >= threshold) count -= most;
      at += width;
    }
    count--;
    remaining -= count < 0 ? -count : count;
    store<i16>(COUNTS + (symbol << 1), <i16>count);
    symbol++;
    zero = count == 0;
    while (remaining < threshold) {
      width--;
      threshold >>= 1;
      if (threshold == 0) return 0;
    }
  }
  const used = (at + 7) >> 3;
  if (remaining != 1 || used > room) return 0;
  countsLog = log;
  countsLength = symbol;
  return used;
}

/** Sets the counts from a table of i16, as if they had been read. */
export function setCounts(from: usize, length: u32, log: u32): void {
  memory.copy(COUNTS, from, length << 1);
  countsLog = log;
  countsLength = length;
}

/**
 * Fills a table from the counts. For each symbol, `values` has the value's base (u32), and `extras` its number of extra
 * bits (u8). If `values` is 0, the symbol serves as both.
 */
export function fillTable(table: usize, values: usize, extras: usize): void {
  const log = countsLog;
  const size: u32 = 1 << log;
  const mask = size - 1;
  let high = size - 1;
  for (let s: u32 = 0; s < countsLength; s++) {
    const count = load<i16>(COUNTS + (s << 1));
    if (count == -1) {
      store<u8>(SYMBOLS + high, <u8>s);
      high--;
      store<u16>(NEXT + (s << 1), 1);
    } else {
      store<u16>(NEXT + (s << 1), <u16>count);
    }
  }
  const step = (size >> 1) + (size >> 3) + 3;
  let place: u32 = 0;
  for (let s: u32 = 0; s < countsLength; s++) {
    const count = <i32>load<i16>(COUNTS + (s << 1));
    for (let i: i32 = 0; i < count; i++) {
      store<u8>(SYMBOLS + place, <u8>s);
      do {
        place = (place + step) & mask;
      } while (place > high);
    }
  }
  for (let u: u32 = 0; u < size; u++) {
    const s = <u32>load<u8>(SYMBOLS + u);
    const next = <u32>load<u16>(NEXT + (s << 1));
    store<u16>(NEXT + (s << 1), <u16>(next + 1));
    const bits = log - (31 - clz<u32>(next));
    storeState(table + (u << 3), (next << bits) - size, bits, s, values, extras);
  }
}

/** Fills a table with one state that leads to itself. */
export function fillSingle(table: usize, symbol: u32, values: usize, extras: usize): void {
  storeState(table, 0, 0, symbol, values, extras);
}

// @ts-ignore: decorator
@inline
function storeState(at: usize, next: u32, bits: u32, symbol: u32, values: usize, extras: usize): void {
  const extra: u64 = values == 0 ? symbol : <u64>load<u8>(extras + symbol);
  const base: u64 = values == 0 ? symbol : <u64>load<u32>(values + (symbol << 2));
  const mask = (<u64>1 << bits) - 1;
  store<u64>(at, (mask << 55) | (base << 32) | (extra << 24) | (bits << 16) | (next << 3));
}
