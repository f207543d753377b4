// Tables of deflate's Huffman codes. @see RFC 1951, 3.2
//
// A table entry is 32 bits: code length in bits 0 to 4, extra bits (or the width of a second table) in 5 to 8, kind in
// 9 to 11, value in 16 to 31: the literal, the base of a length or distance, or where a second table starts. 0 is no code.

export const LITERAL: u32 = 1 << 9;
export const END: u32 = 1 << 10;
export const SECOND: u32 = 1 << 11;

/** Which alphabet a code is for. */
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

/** Builds the table of a canonical Huffman code from the lengths of its codes; false where they are no code. */
export function buildTable(table: usize, width: u32, lengths: usize, count: u32, kind: u32): bool {
  memory.fill(COUNTS, 0, 64);
  for (let i: u32 = 0; i < count; i++) {
    const at = COUNTS + (<usize>load<u8>(lengths + i) << 2);
    store<u32>(at, load<u32>(at) + 1);
  }
  const unused = load<u32>(COUNTS);
  const used = count - unused;
  memory.fill(table, 0, <usize>4 << width);
  // Without any code, using one is the error (zlib does the same).
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
  // An incomplete code is allowed where it is a single code of one bit (zlib does the same).
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
  // The flag only makes the entry of symbol 0 differ from no code.
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
