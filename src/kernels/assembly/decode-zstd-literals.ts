// The literals of a zstd block: stored, one byte repeated, or Huffman-coded. @see RFC 8878, 3.1.1.3.1 and 4.2
import { bitLength, fill, peek } from "./decode-fse";
import { countsLog, fillTable, readCounts } from "./decode-fse";

const ENDS_EARLY: i32 = -1;
const NOT_THIS_FORMAT: i32 = -4;
const LEFT_OVER: i32 = -5;

const MAX_BLOCK: u32 = 131072;
const MAX_LOG: u32 = 11;
const MAX_WEIGHTS: u32 = 255;

/** Where decoded literals go, with slack. */
const BUFFER = memory.data(131072 + 64, 16);
/** u16 for each prefix of `treeLog` bits: the code's length below, the byte above. */
const TREE = memory.data(2048 * 2, 16);
const WEIGHTS = memory.data(256 + 16, 16);
const WEIGHT_STATES = memory.data(64 * 8, 16);

/** Bits of the longest code; 0: no tree yet in this frame. */
let treeLog: u32 = 0;

/** Where the literals of the block are, and how many. */
export let literals: usize = 0;
export let literalsLength: usize = 0;

/** Forgets the tree of the frame before. */
export function resetLiterals(): void {
  treeLog = 0;
}

/** Decodes the literals section; returns the bytes that it takes, or an error of the README. */
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
  // Reads up to 8 bytes; what is beyond the section is masked off or refused below.
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
  } else if (treeLog == 0) {
    return NOT_THIS_FORMAT;
  }
  // Streams must be used up exactly (RFC 8878, 4.2.2), which libzstd's fastest decoder does not check.
  const error = format == 0 ? decodeOne(at, stop, BUFFER, size) : decodeFour(at, stop, size);
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

/** Reads the description of a tree and builds it; returns the bytes that it takes, or 0 where it is damaged. */
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

/** Weights coded with two FSE states in turn; returns how many, or 0 where they are damaged. */
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
    store<u8>(WEIGHTS + count, <u8>load<u32>(state, 4));
    count++;
    const bits = <u32>load<u8>(state, 2);
    const next = <usize>load<u16>(state) + <usize>peek(fill(start, left), bits);
    left -= <i32>bits;
    one = two;
    two = next;
    if (left < 0) {
      // The bits are used up: the other state still has its symbol to give.
      store<u8>(WEIGHTS + count, <u8>load<u32>(WEIGHT_STATES + (one << 3), 4));
      return count + 1;
    }
  }
}

/** Builds the tree of `count` weights and the one that is left out: the last, which completes it. */
function buildTree(count: u32): bool {
  let sum: u32 = 0;
  let ones: u32 = 0;
  for (let i: u32 = 0; i < count; i++) {
    const weight = <u32>load<u8>(WEIGHTS + i);
    if (weight > MAX_LOG) return false;
    sum += (1 << weight) >> 1;
    if (weight == 1) ones++;
  }
  if (sum == 0) return false;
  const log: u32 = 32 - clz<u32>(sum);
  if (log > MAX_LOG) return false;
  const rest = (<u32>1 << log) - sum;
  if ((rest & (rest - 1)) != 0) return false;
  const last: u32 = 32 - clz<u32>(rest);
  store<u8>(WEIGHTS + count, <u8>last);
  if (last == 1) ones++;
  // The longest codes come in pairs.
  if (ones < 2 || (ones & 1) != 0) return false;
  let at = TREE;
  for (let weight: u32 = 1; weight <= log; weight++) {
    const entries: u32 = 1 << (weight - 1);
    const bits = log + 1 - weight;
    for (let i: u32 = 0; i <= count; i++) {
      if (<u32>load<u8>(WEIGHTS + i) != weight) continue;
      const entry = <u16>((i << 8) | bits);
      for (let k: u32 = 0; k < entries; k++) {
        store<u16>(at, entry);
        at += 2;
      }
    }
  }
  treeLog = log;
  return true;
}

/** One stream of `size` bytes; 0 or an error. */
function decodeOne(src: usize, end: usize, dst: usize, size: u32): i32 {
  let left = bitLength(src, end);
  if (left < 0) return NOT_THIS_FORMAT;
  const shift = <u64>(64 - treeLog);
  const stop = dst + size;
  while (dst < stop) {
    let window = fill(src, left);
    const pause = min(dst + 5, stop);
    while (dst < pause) {
      const entry = <u32>load<u16>(TREE + (<usize>(window >> shift) << 1));
      store<u8>(dst, <u8>(entry >> 8));
      dst++;
      window <<= <u64>(entry & 255);
      left -= <i32>(entry & 255);
    }
    // Also bounds how far before the stream is read.
    if (left < 0) return ENDS_EARLY;
  }
  return left == 0 ? 0 : LEFT_OVER;
}

/** Four streams, the first three of the same length, side by side; 0 or an error. */
function decodeFour(src: usize, end: usize, size: u32): i32 {
  if (end - src < 10 || size < 6) return NOT_THIS_FORMAT;
  const src1 = src + 6;
  const src2 = src1 + <usize>load<u16>(src);
  const src3 = src2 + <usize>load<u16>(src, 2);
  const src4 = src3 + <usize>load<u16>(src, 4);
  if (src4 >= end) return NOT_THIS_FORMAT;
  const quarter: u32 = (size + 3) >> 2;
  if (quarter * 3 > size) return NOT_THIS_FORMAT;
  let left1 = bitLength(src1, src2);
  let left2 = bitLength(src2, src3);
  let left3 = bitLength(src3, src4);
  let left4 = bitLength(src4, end);
  if ((left1 | left2 | left3 | left4) < 0) return NOT_THIS_FORMAT;
  const shift = <u64>(64 - treeLog);
  let at = BUFFER;
  // The fourth stream is the shortest; five codes of eleven bits fit in the window.
  const rounds = (size - quarter * 3) / 5;
  const stop = at + rounds * 5;
  const two = quarter;
  const three = quarter << 1;
  const four = quarter * 3;
  while (at < stop) {
    // The lowest bit marks where the window began: the zeros below it count the bits that were used.
    let w1 = fill(src1, left1) | 1;
    let w2 = fill(src2, left2) | 1;
    let w3 = fill(src3, left3) | 1;
    let w4 = fill(src4, left4) | 1;
    for (let i = 0; i < 5; i++) {
      const e1 = <u64>load<u16>(<usize>(w1 >> shift) << 1, TREE);
      const e2 = <u64>load<u16>(<usize>(w2 >> shift) << 1, TREE);
      const e3 = <u64>load<u16>(<usize>(w3 >> shift) << 1, TREE);
      const e4 = <u64>load<u16>(<usize>(w4 >> shift) << 1, TREE);
      store<u8>(at, <u8>(<u32>e1 >> 8));
      store<u8>(at + two, <u8>(<u32>e2 >> 8));
      store<u8>(at + three, <u8>(<u32>e3 >> 8));
      store<u8>(at + four, <u8>(<u32>e4 >> 8));
      at++;
      // WebAssembly shifts by the lowest six bits, which are the code's length.
      w1 <<= e1;
      w2 <<= e2;
      w3 <<= e3;
      w4 <<= e4;
    }
    left1 -= <i32>ctz<u64>(w1);
    left2 -= <i32>ctz<u64>(w2);
    left3 -= <i32>ctz<u64>(w3);
    left4 -= <i32>ctz<u64>(w4);
    if ((left1 | left2 | left3 | left4) < 0) return ENDS_EARLY;
  }
  const done = rounds * 5;
  let error = finish(src1, left1, at, quarter - done);
  if (error == 0) error = finish(src2, left2, at + two, quarter - done);
  if (error == 0) error = finish(src3, left3, at + three, quarter - done);
  if (error == 0) error = finish(src4, left4, at + four, size - four - done);
  return error;
}

/** The last bytes of a stream, which must use up its bits; 0 or an error. */
function finish(src: usize, left: i32, dst: usize, size: u32): i32 {
  const shift = <u64>(64 - treeLog);
  const stop = dst + size;
  while (dst < stop) {
    const entry = <u32>load<u16>(TREE + (<usize>(fill(src, left) >> shift) << 1));
    store<u8>(dst, <u8>(entry >> 8));
    dst++;
    left -= <i32>(entry & 255);
    if (left < 0) return ENDS_EARLY;
  }
  return left == 0 ? 0 : LEFT_OVER;
}
