/** Data to encode: byte for byte what fixtures/blosc/make-encode-reference.py makes. */

const WORDS: readonly string[] = (
  "open high low close volume price the of and to a in that is was he for it with as his on be at by i this " +
  "had not are but from or have an they which one you were her all she there would their we him been has when " +
  "who will more no if out so said what up its about into than them can only other new some could"
).split(" ");

/** Bytes of a linear congruential generator: incompressible. */
export function makeNoise(length: number, seed: number): Uint8Array<ArrayBuffer> {
  let state = seed;
  return new Uint8Array(length).map(() => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state >>> 24;
  });
}

/** Kinds of data, in `length` bytes at least 1 and a multiple of their typesize (records: the rest is left out). */
export const DATA: Readonly<Record<string, (length: number) => Uint8Array<ArrayBuffer>>> = {
  prices: (length) => {
    let total = 0;
    const steps = makeNoise(length / 8, 1);
    const values = Float64Array.from(steps, (byte) => {
      total += (byte % 11) - 5;
      return 100 + total / 100;
    });
    return bytesOf(values);
  },
  ramp: (length) => bytesOf(BigInt64Array.from({ length: length / 8 }, (_, i) => BigInt(i))),
  volumes: (length) => {
    const bytes = makeNoise(3 * (length / 4), 3);
    const factor = (i: number) => (bytes[i] ?? 0) + 1;
    return bytesOf(
      Uint32Array.from(
        { length: length / 4 },
        (_, i) => (factor(3 * i) * factor(3 * i + 1) * factor(3 * i + 2)) >> 6,
      ),
    );
  },
  waves: (length) =>
    bytesOf(
      Int16Array.from(makeNoise(length / 2, 4), (byte, i) => Math.abs((i % 400) - 200) * 10 + (byte & 7)),
    ),
  records: (length) => {
    const rows = Math.floor(length / 12);
    const view = new DataView(new ArrayBuffer(12 * rows));
    makeNoise(rows, 5).forEach((byte, i) => {
      view.setInt32(12 * i, i, true);
      view.setFloat64(12 * i + 4, byte / 7, true);
    });
    return new Uint8Array(view.buffer);
  },
  text: (length) => {
    const words: string[] = [];
    let written = 0;
    for (const byte of makeNoise(length, 2)) {
      const word = `${WORDS[(((byte * byte) >> 8) * WORDS.length) >> 8]}${byte % 16 === 3 ? "\n" : " "}`;
      words.push(word);
      written += word.length;
      if (written >= length) break;
    }
    return new TextEncoder().encode(words.join("").slice(0, length)) as Uint8Array<ArrayBuffer>;
  },
  flags: (length) => makeNoise(length, 6).map((byte) => (byte < 26 ? 1 : 0)),
  noise: (length) => makeNoise(length, 7),
  zeros: (length) => new Uint8Array(length),
};

function bytesOf(values: { readonly buffer: ArrayBuffer }): Uint8Array<ArrayBuffer> {
  return new Uint8Array(values.buffer);
}
