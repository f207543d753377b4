/** Damage from a seeded generator: the same seed gives the same mutations. */
import { randomNumbers } from "../../bench/samples.mjs";

const INTERESTING_BYTES = [0x00, 0x01, 0x0f, 0x10, 0x1f, 0x20, 0x7f, 0x80, 0xe0, 0xf0, 0xfe, 0xff];
const INTERESTING_WORDS = [
  0, 1, 3, 4, 16, 20, 127, 128, 255, 256, 65535, 65536, 0x7fffffff, 0x80000000, 0xfffffffc, 0xffffffff,
];

/** Makes a function that damages a copy of a chunk in one to four ways. */
export function makeMutator(seed) {
  const random = randomNumbers(seed);
  const below = (n) => Math.floor(random() * n);
  const pick = (list) => list[below(list.length)];

  /** The header and the table of block starts matter most, so they are hit more often. */
  const place = (length) => (random() < 0.3 ? below(Math.min(length, 40)) : below(length));

  const ways = [
    (chunk) => {
      chunk[place(chunk.length)] ^= 1 << below(8);
      return chunk;
    },
    (chunk) => {
      chunk[place(chunk.length)] = random() < 0.5 ? pick(INTERESTING_BYTES) : below(256);
      return chunk;
    },
    (chunk) => {
      if (chunk.length < 4) return chunk;
      const view = new DataView(chunk.buffer, chunk.byteOffset, chunk.length);
      const at = random() < 0.5 ? 4 * below(Math.min(10, chunk.length >> 2)) : below(chunk.length - 3);
      const old = view.getUint32(at, true);
      const near = old + below(9) - 4;
      view.setUint32(at, random() < 0.5 ? near : pick([...INTERESTING_WORDS, chunk.length]), true);
      return chunk;
    },
    (chunk) => {
      const length = 1 + below(Math.min(32, chunk.length));
      const from = below(chunk.length - length + 1);
      chunk.copyWithin(below(chunk.length - length + 1), from, from + length);
      return chunk;
    },
    (chunk) => {
      const at = place(chunk.length);
      chunk.fill(pick([0, 255, 255]), at, at + 1 + below(64));
      return chunk;
    },
    (chunk) => {
      const at = 16 + below(Math.max(1, chunk.length - 16));
      const cut = below(9);
      return withSize(Buffer.concat([chunk.subarray(0, at), chunk.subarray(at + cut)]));
    },
    (chunk) => {
      const at = 16 + below(Math.max(1, chunk.length - 16));
      const more = Buffer.alloc(1 + below(random() < 0.1 ? 5000 : 8), pick([0, 255, below(256)]));
      return withSize(Buffer.concat([chunk.subarray(0, at), more, chunk.subarray(at)]));
    },
  ];

  return (chunk) => {
    let damaged = Uint8Array.from(chunk);
    for (let times = 1 + below(4); times > 0; times--) damaged = pick(ways)(damaged);
    return damaged;
  };
}

/** The chunk with a ctbytes that is its length: otherwise most cuts and insertions would be refused for that alone. */
function withSize(buffer) {
  const chunk = Uint8Array.from(buffer);
  if (chunk.length >= 16) new DataView(chunk.buffer).setUint32(12, chunk.length, true);
  return chunk;
}
