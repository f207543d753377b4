// Writing of LZ4 sequences: token, lengths, literals, distance. https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md
import { copyLiterals } from "./encode-match";

/** The last match starts at least 12 bytes before the end of the input, … */
export const LAST_START: usize = 12;
/** … and ends at least 5 bytes before it. */
export const LAST_LITERALS: usize = 5;
export const MIN_MATCH: usize = 4;
export const MAX_DISTANCE: usize = 65535;

// @ts-ignore: decorator
@inline
function putLength(to: usize, rest: usize): usize {
  while (rest >= 255) {
    store<u8>(to++, 255);
    rest -= 255;
  }
  store<u8>(to, <u8>rest);
  return to + 1;
}

/** Writes literals and a match of `length` bytes; returns where the output goes on, or 0 where it does not fit before `limit`. */
// @ts-ignore: decorator
@inline
export function putSequence(
  to: usize, limit: usize, literals: usize, literalLength: usize, distance: usize, length: usize,
): usize {
  const code = length - MIN_MATCH;
  // Most sequences have no lengths beside the token.
  if (max(literalLength, code) < 15) {
    if (to + literalLength + 3 > limit) return 0;
    store<u8>(to, <u8>((literalLength << 4) | code));
    v128.store(to, v128.load(literals), 1);
    to += literalLength;
    store<u16>(to, <u16>distance, 1);
    return to + 3;
  }
  if (to + literalLength + literalLength / 255 + code / 255 + 5 > limit) return 0;
  const token = to++;
  if (literalLength < 15) {
    store<u8>(token, <u8>((literalLength << 4) | min<usize>(code, 15)));
    v128.store(to, v128.load(literals));
  } else {
    store<u8>(token, <u8>(0xf0 | min<usize>(code, 15)));
    to = putLength(to, literalLength - 15);
    copyLiterals(literals, to, literalLength);
  }
  to += literalLength;
  store<u16>(to, <u16>distance);
  to += 2;
  return code >= 15 ? putLength(to, code - 15) : to;
}

/** Writes the literals that end a stream; returns the end of the output, or 0 where it does not fit before `limit`. */
export function putLastLiterals(to: usize, limit: usize, literals: usize, literalLength: usize): usize {
  const extra: usize = literalLength < 15 ? 0 : (literalLength - 15) / 255 + 1;
  if (to + 1 + extra + literalLength > limit) return 0;
  store<u8>(to++, <u8>(min<usize>(literalLength, 15) << 4));
  if (literalLength >= 15) to = putLength(to, literalLength - 15);
  memory.copy(to, literals, literalLength);
  return to + literalLength;
}
