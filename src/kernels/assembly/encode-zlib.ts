// zlib streams (RFC 1950) of deflate blocks. Searches like zlib at each level, so that sizes agree.
import { adler32 } from "./adler32";
import {
  DISTANCE_FREQUENCIES, distanceSymbol, finishBits, lengthSymbol, LITERAL_FREQUENCIES, putBlock, startBits,
} from "./encode-deflate-block";
import { matchLength } from "./matches";

const MIN_MATCH: usize = 3;
const MAX_MATCH: usize = 258;
/** zlib leaves this difference to its window of 32,768 bytes unused. */
const MAX_DISTANCE: usize = 32768 - 262;
/** A match of three bytes further back than this costs more than its literals. */
const TOO_FAR: usize = 4096;

/** 32,768 heads of chains: the last position with the same hash, plus one; 0: none. 128 KiB of the work area. */
const HEAD_BITS: u32 = 15;
const HEADS_LENGTH: usize = 4 << HEAD_BITS;
/** By the lowest 15 bits of a position: the distance back to the next one of its chain; 0: none. 64 KiB. */
const CHAIN_LENGTH: usize = 2 << 15;
/** Symbols of a block, four bytes each, as many as zlib's default. 64 KiB. */
const BLOCK_SYMBOLS: usize = 16383;

/**
 * By level: `good`: from this match length on, a quarter of the chain is searched; `lazy`: from this length on, the
 * next position is not tried; `nice`: this length is enough; then the positions to try per chain.
 */
// prettier-ignore
const LEVELS = memory.data<u16>([
  4, 4, 8, 4,
  4, 5, 16, 8,
  4, 6, 32, 32,
  4, 4, 16, 16,
  8, 16, 32, 32,
  8, 16, 128, 128,
  8, 32, 128, 256,
  32, 128, 258, 1024,
  32, 258, 258, 4096,
], 2);

let distanceFound: usize = 0;

/** Adds a position to its chain. Returns the distance back to the next position of the chain, or 0. */
// @ts-ignore: decorator
@inline
function insert(src: usize, place: usize, work: usize): usize {
  const head = work + (<usize>(((load<u32>(src + place) << 8) * 0x9e3779b1) >> (32 - HEAD_BITS)) << 2);
  const before = <usize>load<u32>(head);
  store<u32>(head, <u32>(place + 1));
  let back = place + 1 - before;
  if (before == 0 || back > MAX_DISTANCE) back = 0;
  store<u16>(work + HEADS_LENGTH + ((place & 32767) << 1), <u16>back);
  return back;
}

/** The length of the longest match at `place` that is longer than `least`; else `least`. */
function longestMatch(
  src: usize, place: usize, end: usize, back: usize, least: usize, nice: usize, chain: u32, work: usize,
): usize {
  const at = src + place;
  const matchEnd = min(at + MAX_MATCH, end);
  const enough = min(nice, end - at);
  const chains = work + HEADS_LENGTH;
  let best = least;
  let distance = back;
  while (true) {
    const from = at - distance;
    if (load<u16>(from + best - 1) == load<u16>(at + best - 1) && load<u16>(from) == load<u16>(at)) {
      const length = matchLength(from, at, matchEnd);
      if (length > best) {
        best = length;
        distanceFound = distance;
        if (length >= enough) break;
      }
    }
    if (--chain == 0) break;
    back = <usize>load<u16>(chains + (((place - distance) & 32767) << 1));
    if (back == 0) break;
    distance += back;
    if (distance > MAX_DISTANCE) break;
  }
  return best;
}

// @ts-ignore: decorator
@inline
function countSymbol(table: usize, symbol: u32): void {
  const at = table + (<usize>symbol << 2);
  store<u32>(at, load<u32>(at) + 1);
}

// @ts-ignore: decorator
@inline
function putMatch(to: usize, length: usize, distance: usize): usize {
  const code = <u32>(length - MIN_MATCH);
  store<u32>(to, (<u32>distance << 16) | code);
  countSymbol(LITERAL_FREQUENCIES, lengthSymbol(code));
  countSymbol(DISTANCE_FREQUENCIES, distanceSymbol(<u32>(distance - 1)));
  return to + 4;
}

// @ts-ignore: decorator
@inline
function putLiteral(to: usize, byte: u32): usize {
  store<u32>(to, byte);
  countSymbol(LITERAL_FREQUENCIES, byte);
  return to + 4;
}

/** Compresses at a level of 1 to 9. Returns the length, or -2. `work` is room for 256 KiB. */
export function encodeZlib(src: usize, srcLength: usize, dst: usize, dstLength: usize, level: u32, work: usize): i32 {
  if (dstLength < 8) return -2;
  const settings = LEVELS + (<usize>(level - 1) << 3);
  const good = <usize>load<u16>(settings);
  const lazy = <usize>load<u16>(settings, 2);
  const nice = <usize>load<u16>(settings, 4);
  const chain = <u32>load<u16>(settings, 6);
  const looksAhead = level > 3;
  const symbols = work + HEADS_LENGTH + CHAIN_LENGTH;
  const symbolsEnd = symbols + (BLOCK_SYMBOLS << 2);
  const limit = dst + dstLength - 4;
  const end = src + srcLength;
  memory.fill(work, 0, HEADS_LENGTH + CHAIN_LENGTH);
  startBits();
  // Window of 32 KiB, and the level as zlib stores it; the two bytes must be a multiple of 31.
  store<u8>(dst, 0x78);
  store<u8>(dst, level < 2 ? 0x01 : level < 6 ? 0x5e : level == 6 ? 0x9c : 0xda, 1);
  let to = dst + 2;
  let symbol = symbols;
  let blockStart: usize = 0;
  let place: usize = 0;
  let previousLength: usize = MIN_MATCH - 1;
  let previousDistance: usize = 0;
  let pending = false;
  while (place < srcLength) {
    const searchable = place + MIN_MATCH <= srcLength;
    const back = searchable ? insert(src, place, work) : 0;
    let length: usize = MIN_MATCH - 1;
    if (back != 0 && (!looksAhead || previousLength < lazy)) {
      const places = looksAhead && previousLength >= good ? chain >> 2 : chain;
      length = longestMatch(src, place, end, back, previousLength, nice, places, work);
      if (length <= previousLength) length = MIN_MATCH - 1;
      else if (length == MIN_MATCH && looksAhead && distanceFound > TOO_FAR) length = MIN_MATCH - 1;
    }
    if (!looksAhead) {
      if (length < MIN_MATCH) {
        symbol = putLiteral(symbol, load<u8>(src + place++));
      } else {
        symbol = putMatch(symbol, length, distanceFound);
        // The fast levels do not index the inside of long matches.
        const next = place + length;
        if (length <= lazy) {
          for (place++; place < next && place + MIN_MATCH <= srcLength; place++) insert(src, place, work);
        }
        place = next;
      }
    } else if (previousLength >= MIN_MATCH && length <= previousLength) {
      symbol = putMatch(symbol, previousLength, previousDistance);
      const next = place - 1 + previousLength;
      for (place++; place < next && place + MIN_MATCH <= srcLength; place++) insert(src, place, work);
      place = next;
      previousLength = MIN_MATCH - 1;
      pending = false;
    } else {
      if (pending) symbol = putLiteral(symbol, load<u8>(src + place - 1));
      pending = true;
      previousLength = length;
      previousDistance = distanceFound;
      place++;
    }
    if (symbol == symbolsEnd) {
      const done = pending ? place - 1 : place;
      to = putBlock(symbols, symbol, src + blockStart, done - blockStart, false, to, limit);
      if (to == 0) return -2;
      symbol = symbols;
      blockStart = done;
    }
  }
  // Only a literal can be pending here: a match would have been written at a later position.
  if (pending) symbol = putLiteral(symbol, load<u8>(src + srcLength - 1));
  to = putBlock(symbols, symbol, src + blockStart, srcLength - blockStart, true, to, limit);
  if (to == 0) return -2;
  to = finishBits(to);
  store<u32>(to, bswap(adler32(src, srcLength, 1)));
  return <i32>(to + 4 - dst);
}
