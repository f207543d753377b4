/** The data of the codec benchmarks: made by fixed rules, so that every run and every peer sees the same bytes. */

/** Numbers in [0, 1) from a 32-bit generator (mulberry32). */
export function randomNumbers(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const WORDS =
  "the of a to in chunk block array time price volume data read write store shard index value column row is was and for with on".split(
    " ",
  );

/** Kinds of data: what an element is, and its bytes for a chunk of `nbytes`. */
export const SAMPLES = {
  "prices float64": { typesize: 8, make: (nbytes) => bytesOf(makePrices(nbytes / 8)) },
  "ramp int64": {
    typesize: 8,
    make: (nbytes) => bytesOf(BigInt64Array.from({ length: nbytes / 8 }, (_, i) => BigInt(i))),
  },
  "volumes uint32": { typesize: 4, make: (nbytes) => bytesOf(makeVolumes(nbytes / 4)) },
  "random bytes": { typesize: 1, make: makeNoise },
  text: { typesize: 1, make: makeText },
};

function bytesOf(array) {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

/** A random walk in cents, as prices are. */
function makePrices(length) {
  const next = randomNumbers(1);
  let cents = 10_000;
  return Float64Array.from({ length }, () => {
    cents += Math.round((next() - 0.5) * 20);
    return cents / 100;
  });
}

/** Volumes of trades: mostly small, many of them round. */
function makeVolumes(length) {
  const next = randomNumbers(2);
  return Uint32Array.from({ length }, () => Math.floor(next() ** 4 * 1000) * (next() < 0.7 ? 100 : 1));
}

function makeNoise(nbytes) {
  const next = randomNumbers(3);
  return Uint8Array.from({ length: nbytes }, () => next() * 256);
}

function makeText(nbytes) {
  const next = randomNumbers(4);
  let text = "";
  while (text.length < nbytes) text += `${WORDS[Math.floor(next() ** 2 * WORDS.length)]} `;
  return new TextEncoder().encode(text.slice(0, nbytes));
}
