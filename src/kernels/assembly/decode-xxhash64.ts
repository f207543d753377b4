// XXH64 with seed 0. @see https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md

const P1: u64 = 0x9e3779b185ebca87;
const P2: u64 = 0xc2b2ae3d27d4eb4f;
const P3: u64 = 0x165667b19e3779f9;
const P4: u64 = 0x85ebca77c2b2ae63;
const P5: u64 = 0x27d4eb2f165667c5;

/** The XXH64 of `length` bytes. */
export function xxhash64(src: usize, length: usize): u64 {
  const end = src + length;
  let hash: u64;
  if (length >= 32) {
    let a: u64 = P1 + P2;
    let b: u64 = P2;
    let c: u64 = 0;
    let d: u64 = 0 - P1;
    do {
      a = round(a, load<u64>(src));
      b = round(b, load<u64>(src, 8));
      c = round(c, load<u64>(src, 16));
      d = round(d, load<u64>(src, 24));
      src += 32;
    } while (end - src >= 32);
    hash = rotl<u64>(a, 1) + rotl<u64>(b, 7) + rotl<u64>(c, 12) + rotl<u64>(d, 18);
    hash = merge(merge(merge(merge(hash, a), b), c), d);
  } else {
    hash = P5;
  }
  hash += <u64>length;
  for (; end - src >= 8; src += 8) hash = rotl<u64>(hash ^ round(0, load<u64>(src)), 27) * P1 + P4;
  if (end - src >= 4) {
    hash = rotl<u64>(hash ^ (<u64>load<u32>(src) * P1), 23) * P2 + P3;
    src += 4;
  }
  for (; src < end; src++) hash = rotl<u64>(hash ^ (<u64>load<u8>(src) * P5), 11) * P1;
  hash = (hash ^ (hash >> 33)) * P2;
  hash = (hash ^ (hash >> 29)) * P3;
  return hash ^ (hash >> 32);
}

// @ts-ignore: decorator
@inline
function round(sum: u64, lane: u64): u64 {
  return rotl<u64>(sum + lane * P2, 31) * P1;
}

// @ts-ignore: decorator
@inline
function merge(hash: u64, sum: u64): u64 {
  return (hash ^ round(0, sum)) * P1 + P4;
}
