/**
 * The data of the benchmarks: seven common kinds, and some extremes. Fixed rules make them from integers and single float
 * operations, so that every run, engine and peer sees the same bytes.
 */

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

/** Approximately normally distributed numbers with a standard deviation of 1: the sum of four uniform ones. */
function normalNumbers(seed) {
  const next = randomNumbers(seed);
  return () => (next() + next() + next() + next() - 2) * 1.7320508;
}

/** Goes from -1 to 1 and back in straight lines. */
function triangle(index, period) {
  return Math.abs(((index / period) % 1) * 4 - 2) - 1;
}

/**
 * The seven kinds: the type of an element, its bytes, and `start`, which returns a function that fills arrays of that type
 * one after the other.
 */
export const SAMPLES = {
  "prices float64": kind("<f8", Float64Array, startPrices),
  "sensor float32": kind("<f4", Float32Array, startSensor),
  "volumes uint32": kind("<u4", Uint32Array, startVolumes),
  "timestamps int64": kind("<i8", BigInt64Array, startTimestamps),
  "categories uint8": kind("|u1", Uint8Array, startCategories),
  "image uint16": kind("<u2", Uint16Array, startImage),
  "strings S12": { ...kind("|S12", Uint8Array, startStrings), typesize: 12 },
};

/** Extremes that are rare in practice: incompressible, mostly digits, only order, and words. Not part of the medians. */
export const EXTREMES = {
  "wide walk float64": kind("<f8", Float64Array, startWideWalk),
  "ramp int64": kind("<i8", BigInt64Array, startRamp),
  "random bytes": kind("|u1", Uint8Array, startNoise),
  text: kind("|u1", Uint8Array, startText),
};

function kind(dtype, type, start) {
  return { dtype, type, typesize: type.BYTES_PER_ELEMENT, start };
}

/** The first `nbytes` bytes of a kind, whole elements. */
export function makeSample({ type, typesize, start }, nbytes) {
  const array = new type((Math.floor(nbytes / typesize) * typesize) / type.BYTES_PER_ELEMENT);
  start()(array);
  return new Uint8Array(array.buffer);
}

/** Bytes of a kind that a benchmark of chunks takes: a processor learns the branches of less if the same are processed again and again. */
const VARIED = 4 << 20;

/** Consecutive chunks of a kind, each of `nbytes` bytes at most, {@link VARIED} bytes in all or one chunk. */
export function makeChunks(what, nbytes) {
  const length = Math.floor(nbytes / what.typesize) * what.typesize;
  const count = Math.max(1, Math.floor(VARIED / nbytes));
  const whole = makeSample(what, count * length);
  return Array.from({ length: count }, (_, i) => whole.subarray(i * length, (i + 1) * length));
}

/** A random walk with two decimals whose price often stays the same, as in trades. */
function startPrices() {
  const normal = normalNumbers(1);
  let price = 10_000;
  return (out) => {
    for (let i = 0; i < out.length; i++) {
      price += normal() * 1.05;
      out[i] = Math.round(price) / 100;
    }
  };
}

/** Degrees of a sensor: a slow wave and noise, with two decimals. */
function startSensor() {
  const normal = normalNumbers(2);
  let index = 0;
  return (out) => {
    for (let i = 0; i < out.length; i++) {
      out[i] = Math.round(2000 + 500 * triangle(index++, 40_000) + normal() * 20) / 100;
    }
  };
}

/** Volumes of trades: mostly small, some huge, many of them round. */
function startVolumes() {
  const next = randomNumbers(3);
  return (out) => {
    for (let i = 0; i < out.length; i++) {
      const size = Math.min(1 / (1 - next()), 1000) | 0;
      out[i] = next() < 0.7 ? size * 100 : Math.floor(next() * 100 * size) + 1;
    }
  };
}

/** A value each minute, in nanoseconds. */
function startTimestamps() {
  let at = 1_700_000_000_000_000_000n;
  return (out) => {
    for (let i = 0; i < out.length; i++) {
      out[i] = at;
      at += 60_000_000_000n;
    }
  };
}

/** One of 12 values, half of them the first one, a quarter the second one, … */
function startCategories() {
  const next = randomNumbers(5);
  return (out) => {
    for (let i = 0; i < out.length; i++) {
      out[i] = Math.min(Math.clz32(Math.floor(next() * 4294967296)), 11);
    }
  };
}

/** A picture with 1024 points per row: light and shade, edges, and the noise of a 12-bit camera. */
function startImage() {
  const normal = normalNumbers(6);
  let index = 0;
  return (out) => {
    for (let i = 0; i < out.length; i++) {
      const x = index & 1023;
      const y = index++ >>> 10;
      const light = 900 + 500 * triangle(x + y, 1500) + 300 * triangle(x - 2 * y, 900);
      const edge = ((x >> 7) + (y >> 6)) & 1 ? 400 : 0;
      out[i] = Math.round(light + edge + normal() * 6);
    }
  };
}

/** Names of 400 shares, 3 to 5 letters and an exchange, padded with zeros; some much more frequent than others. */
function startStrings() {
  const next = randomNumbers(7);
  const names = Array.from({ length: 400 }, () => {
    const letters = Array.from({ length: 3 + Math.floor(next() * 3) }, () =>
      String.fromCharCode(65 + Math.floor(next() * 26)),
    );
    return new TextEncoder().encode(letters.join("") + (next() < 0.6 ? ".N" : ".OQ"));
  });
  return (out) => {
    for (let at = 0; at < out.length; at += 12) {
      const skewed = next();
      const name = names[Math.floor(skewed * skewed * names.length)];
      out.fill(0, at, at + 12);
      out.set(name, at);
    }
  };
}

/** A walk of up to ten cents per step: most of its bytes are stored uncompressed. */
function startWideWalk() {
  const next = randomNumbers(1);
  let cents = 10_000;
  return (out) => {
    for (let i = 0; i < out.length; i++) {
      cents += Math.round((next() - 0.5) * 20);
      out[i] = cents / 100;
    }
  };
}

function startRamp() {
  let at = 0n;
  return (out) => {
    for (let i = 0; i < out.length; i++) out[i] = at++;
  };
}

function startNoise() {
  const next = randomNumbers(3);
  return (out) => {
    for (let i = 0; i < out.length; i++) out[i] = next() * 256;
  };
}

const WORDS =
  "the of a to in chunk block array time price volume data read write store shard index value column row is was and for with on".split(
    " ",
  );

function startText() {
  const next = randomNumbers(4);
  return (out) => {
    let text = "";
    while (text.length < out.length) text += `${WORDS[Math.floor(next() ** 2 * WORDS.length)]} `;
    out.set(new TextEncoder().encode(text.slice(0, out.length)));
  };
}
