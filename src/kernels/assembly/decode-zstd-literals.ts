// The literals of a zstd block: stored, one byte repeated, or Huffman-coded. @see RFC 8878, 3.1.1.3.1 and 4.2
import { bitLength, fill, peek } from "./decode-fse";
import { countsLog, fillTable, readCounts } from "./decode-fse";

const ENDS_EARLY: i32 = -1;
const NOT_THIS_FORMAT: i32 = -4;
const LEFT_OVER: i32 = -5;

const MAX_BLOCK: u32 = 131072;
const MAX_LOG: u32 = 11;
const MAX_WEIGHTS: u32 = 255;

/** Holds the decoded literals, with slack. */
const BUFFER = memory.data(131072 + 64, 16);
/** For each prefix of MAX_LOG bits, the length of its code; 2048 bytes later its byte. */
const TREE = memory.data(4096 + 16, 16);
const WEIGHTS = memory.data(256 + 16, 16);
/** For each weight, a u16: first the number of bytes that have it, then the index in SORTED of the next of them. */
const RANKS = memory.data(16 * 2, 16);
/** Bytes, sorted by weight. */
const SORTED = memory.data(256, 16);
const WEIGHT_STATES = memory.data(64 * 8, 16);

/** True if this frame already has a tree. */
let hasTree: bool = false;

/** Address and number of the block's literals. */
export let literals: usize = 0;
export let literalsLength: usize = 0;

/** Forgets the tree of the previous frame. */
export function resetLiterals(): void {
  hasTree = false;
}

/** Decodes the literals section. Returns the bytes it occupies, or an error listed in the README. */
export function decodeLiterals(src: usize, end: usize): i32 {
  const room = end - src;
  if (room < 1) return NOT_THIS_FORMAT;
  const first = <u32>load<u8>(src);
  const kind = first & 3;
  const format = (first >> 2) & 3;
  if (kind < 2) return plainLiterals(src, room, kind, format, first);

  if (room < 3) return NOT_THIS_FORMAT;
  let head: usize = 3;
  let size: u32;
  let compressed: usize;
  // Reads up to 8 bytes. Those after the section are masked off or refused below.
  const bits = load<u64>(src);
  if (format < 2) {
    size = <u32>(bits >> 4) & 1023;
    compressed = <usize>(bits >> 14) & 1023;
  } else if (format == 2) {
    head = 4;
    size = <u32>(bits >> 4) & 16383;
    compressed = <usize>(bits >> 18) & 16383;
  } else {
    head = 5;
    size = <u32>(bits >> 4) & 262143;
    compressed = <usize>(bits >> 22) & 262143;
  }
  if (size > MAX_BLOCK || room < head || compressed > room - head) return NOT_THIS_FORMAT;
  let at = src + head;
  const stop = at + compressed;
  if (kind == 2) {
    const taken = readTree(at, stop);
    if (taken == 0) return NOT_THIS_FORMAT;
    at += taken;
  } else if (!hasTree) {
    return NOT_THIS_FORMAT;
  }
  // Streams must be used up exactly (RFC 8878, 4.2.2). libzstd's fastest decoder does not check this.
  const error = format == 0 ? decodeOne(at, bitLength(at, stop), BUFFER, size) : decodeFour(at, stop, size);
  if (error < 0) return error;
  literals = BUFFER;
  literalsLength = size;
  return <i32>(head + compressed);
}

function plainLiterals(src: usize, room: usize, kind: u32, format: u32, first: u32): i32 {
  let head: usize = 1;
  let size: u32 = first >> 3;
  if (format == 1) {
    head = 2;
    size = <u32>load<u16>(src) >> 4;
  } else if (format == 3) {
    head = 3;
    size = (load<u32>(src) & 0xffffff) >> 4;
  }
  if (size > MAX_BLOCK || room < head) return NOT_THIS_FORMAT;
  literalsLength = size;
  if (kind == 0) {
    if (<usize>size > room - head) return NOT_THIS_FORMAT;
    literals = src + head;
    return <i32>(head + size);
  }
  if (room == head) return NOT_THIS_FORMAT;
  memory.fill(BUFFER, load<u8>(src + head), size);
  literals = BUFFER;
  return <i32>(head + 1);
}

/** Reads the description of a tree and builds it. Returns the bytes it occupies, or 0 if it is damaged. */
function readTree(src: usize, end: usize): usize {
  if (end - src < 1) return 0;
  const head = <u32>load<u8>(src);
  let count: u32;
  let taken: usize;
  if (head >= 128) {
    count = head - 127;
    taken = 1 + ((count + 1) >> 1);
    if (taken > end - src) return 0;
    for (let i: u32 = 0; i < count; i += 2) {
      const pair = load<u8>(src + 1 + (i >> 1));
      store<u8>(WEIGHTS + i, pair >> 4);
      store<u8>(WEIGHTS + i, pair & 15, 1);
    }
  } else {
    taken = 1 + head;
    if (head == 0 || taken > end - src) return 0;
    count = readWeights(src + 1, src + taken);
    if (count == 0) return 0;
  }
  return buildTree(count) ? taken : 0;
}

/** Decodes weights, coded with two alternating FSE states. Returns their number, or 0 if they are damaged. */
function readWeights(src: usize, end: usize): u32 {
  const taken = readCounts(src, end, 6, 255);
  if (taken == 0) return 0;
  fillTable(WEIGHT_STATES, 0, 0);
  const start = src + taken;
  let left = bitLength(start, end);
  if (left < 0) return 0;
  const log = countsLog;
  let window = fill(start, left);
  let one = <usize>peek(window, log);
  window <<= <u64>log;
  let two = <usize>peek(window, log);
  left -= <i32>(log << 1);
  if (left < 0) return 0;
  let count: u32 = 0;
  while (true) {
    if (count > MAX_WEIGHTS - 2) return 0;
    const state = WEIGHT_STATES + (one << 3);
    store<u8>(WEIGHTS + count, load<u8>(state, 4));
    count++;
    const bits = <u32>load<u8>(state, 2);
    const next = (<usize>load<u16>(state) >> 3) + <usize>peek(fill(start, left), bits);
    left -= <i32>bits;
    one = two;
    two = next;
    if (left < 0) {
      // The bits are used up, but the other state still has a symbol.
      store<u8>(WEIGHTS + count, load<u8>(WEIGHT_STATES + (one << 3), 4));
      return count + 1;
    }
  }
}

/** Builds the tree of `count` weights and the omitted last one, which completes it. */
function buildTree(count: u32): bool {
  let sum: u32 = 0;
  v128.store(RANKS, i64x2.splat(0));
  v128.store(RANKS, i64x2.splat(0), 16);
  for (let i: u32 = 0; i < count; i++) {
    const weight = <u32>load<u8>(WEIGHTS + i);
    if (weight > MAX_LOG) return false;
    sum += (1 << weight) >> 1;
    countWeight(weight);
  }
  if (sum == 0) return false;
  const log: u32 = 32 - clz<u32>(sum);
  if (log > MAX_LOG) return false;
  const rest = (<u32>1 << log) - sum;
  if ((rest & (rest - 1)) != 0) return false;
  const last: u32 = 32 - clz<u32>(rest);
  store<u8>(WEIGHTS + count, <u8>last);
  countWeight(last);
  const ones = load<u16>(RANKS, 2);
  // The longest codes come in pairs.
  if (ones < 2 || (ones & 1) != 0) return false;
  let first: u32 = 0;
  for (let weight: usize = 0; weight <= MAX_LOG; weight++) {
    const next = first + load<u16>(RANKS + (weight << 1));
    store<u16>(RANKS + (weight << 1), <u16>first);
    first = next;
  }
  for (let i: u32 = 0; i <= count; i++) {
    const place = countWeight(<u32>load<u8>(WEIGHTS + i));
    store<u8>(SORTED + place, <u8>i);
  }
  let at = TREE;
  // Bytes of weight 0 are sorted first. They do not occur.
  for (let k = load<u16>(RANKS); k <= <u16>count; k++) {
    const byte = load<u8>(SORTED + k);
    const weight = <u32>load<u8>(WEIGHTS + byte);
    const bits = i8x16.splat(<i8>(log + 1 - weight));
    // Entries are filled as if the longest code had MAX_LOG bits, so that prefixes are found by a constant shift.
    const end = at + (<usize>1 << (MAX_LOG - log + weight - 1));
    const bytes = i8x16.splat(byte);
    for (let to = at; to < end; to += 16) {
      v128.store(to, bits);
      v128.store(to, bytes, 2048);
    }
    at = end;
  }
  hasTree = true;
  return true;
}

/** Counts a byte of a weight. Returns the earlier value of the counter. */
// @ts-ignore: decorator
@inline
function countWeight(weight: u32): usize {
  const rank = RANKS + (weight << 1);
  const before = load<u16>(rank);
  store<u16>(rank, before + 1);
  return before;
}

/** Decodes the code at the start of the window to `dst`. Returns its length. */
// @ts-ignore: decorator
@inline
function put(window: u64, dst: usize): u64 {
  const prefix = <usize>(window >> (64 - MAX_LOG));
  store<u8>(dst, load<u8>(prefix, TREE + 2048));
  return load<u8>(prefix, TREE);
}

// In a loop over whole windows, a stream is two numbers: the address where its window was loaded, and the window. The
// lowest set bit of the window marks where it began: the number of zeros below it is the number of used bits. Five
// codes use at most 55.

// @ts-ignore: decorator
@inline
function windowAt(at: usize, used: u64): u64 {
  return (load<u64>(at) | 1) << (used & 7);
}

/** Decodes five codes to `dst`. */
// @ts-ignore: decorator
@inline
function putFive(window: u64, dst: usize): u64 {
  window <<= put(window, dst);
  window <<= put(window, dst + 1);
  window <<= put(window, dst + 2);
  window <<= put(window, dst + 3);
  return window << put(window, dst + 4);
}

/** Address from which the window of a stream with `left` bits is loaded. */
// @ts-ignore: decorator
@inline
function placeOf(src: usize, left: i32): usize {
  return src + ((left + 7) >> 3) - 8;
}

/** Bits that remain of a stream that starts at `src`. */
// @ts-ignore: decorator
@inline
function leftOf(src: usize, at: usize, window: u64): i32 {
  return (<i32>(at - src + 8) << 3) - <i32>ctz(window);
}

/** Decodes four streams side by side, the first three of the same length. Returns 0 or an error. */
function decodeFour(src: usize, end: usize, size: u32): i32 {
  if (end - src < 10 || size < 6) return NOT_THIS_FORMAT;
  const src1 = src + 6;
  const src2 = src1 + <usize>load<u16>(src);
  const src3 = src2 + <usize>load<u16>(src, 2);
  const src4 = src3 + <usize>load<u16>(src, 4);
  if (src4 >= end) return NOT_THIS_FORMAT;
  const quarter: u32 = (size + 3) >> 2;
  if (quarter * 3 > size) return NOT_THIS_FORMAT;
  const left1 = bitLength(src1, src2);
  const left2 = bitLength(src2, src3);
  const left3 = bitLength(src3, src4);
  const left4 = bitLength(src4, end);
  if ((left1 | left2 | left3 | left4) < 0) return NOT_THIS_FORMAT;
  let at = BUFFER;
  const two = quarter;
  const three = quarter << 1;
  const four = quarter * 3;
  let at1 = placeOf(src1, left1);
  let at2 = placeOf(src2, left2);
  let at3 = placeOf(src3, left3);
  let at4 = placeOf(src4, left4);
  let w1 = windowAt(at1, -left1);
  let w2 = windowAt(at2, -left2);
  let w3 = windowAt(at3, -left3);
  let w4 = windowAt(at4, -left4);
  while (true) {
    // Five codes advance a stream by at most seven bytes. The fourth stream is the shortest.
    const room = min(min(<i32>(at1 - src1), <i32>(at2 - src2)), min(<i32>(at3 - src3), <i32>(at4 - src4)));
    const rounds = min(room / 7, <i32>(BUFFER + size - four - at) / 5);
    if (rounds <= 0) break;
    const stop = at + 5 * rounds;
    do {
      w1 = putFive(w1, at);
      let used = ctz(w1);
      at1 -= <usize>(used >> 3);
      w1 = windowAt(at1, used);
      w2 = putFive(w2, at + two);
      used = ctz(w2);
      at2 -= <usize>(used >> 3);
      w2 = windowAt(at2, used);
      w3 = putFive(w3, at + three);
      used = ctz(w3);
      at3 -= <usize>(used >> 3);
      w3 = windowAt(at3, used);
      w4 = putFive(w4, at + four);
      used = ctz(w4);
      at4 -= <usize>(used >> 3);
      w4 = windowAt(at4, used);
      at += 5;
    } while (at < stop);
  }
  const rest = quarter - <u32>(at - BUFFER);
  let error = decodeOne(src1, leftOf(src1, at1, w1), at, rest);
  if (error == 0) error = decodeOne(src2, leftOf(src2, at2, w2), at + two, rest);
  if (error == 0) error = decodeOne(src3, leftOf(src3, at3, w3), at + three, rest);
  if (error == 0) error = decodeOne(src4, leftOf(src4, at4, w4), at + four, size - four - <u32>(at - BUFFER));
  return error;
}

/** Decodes one stream to `size` bytes. It must use up its `left` bits. Returns 0 or an error. */
function decodeOne(src: usize, left: i32, dst: usize, size: u32): i32 {
  if (left < 0) return NOT_THIS_FORMAT;
  const stop = dst + size;
  while (dst < stop) {
    let window = fill(src, left);
    const pause = min(dst + 5, stop);
    while (dst < pause) {
      const length = put(window, dst++);
      window <<= length;
      left -= <i32>length;
    }
    // This check also limits how far before the stream is read.
    if (left < 0) return ENDS_EARLY;
  }
  return left == 0 ? 0 : LEFT_OVER;
}
