import { constants, deflateSync } from "node:zlib";
import { Zstd } from "@hpcc-js/wasm-zstd";
import { xxhash64 } from "hash-wasm";
import { describe, expect, test } from "vitest";
import { decodeSync } from "../../src/codec/index.ts";
import { sample, sweep } from "../scope.ts";
import { errorOf, FLAGS, makeChunk } from "./chunk-maker.ts";

/** Bytes by a fixed rule; the lower the spread, the more they compress. */
function makeBytes(length: number, seed: number, spread: number): Uint8Array {
  let state = seed;
  return Uint8Array.from({ length }, () => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return (state >> 16) % spread;
  });
}

/** Long repeats at many distances, with noise between them. */
function makeRepeats(length: number, seed: number): Uint8Array {
  const out = makeBytes(length, seed, 256);
  let state = seed;
  for (let at = 300; at < length; ) {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    const distance = 1 + ((state >> 8) % Math.min(at, state & 1 ? 40 : 70_000));
    const size = 4 + ((state >> 4) % (state & 2 ? 30 : 3000));
    for (let i = 0; i < size && at < length; i++, at++) out[at] = out[at - distance] ?? 0;
    at += (state >> 3) % 50;
  }
  return out;
}

const DATA: [name: string, data: Uint8Array][] = [
  ["one byte", new Uint8Array([7])],
  ["zeros", new Uint8Array(200_000)],
  ["few values", makeBytes(200_000, 1, 3)],
  ["text-like", makeBytes(150_000, 2, 30)],
  ["noise", makeBytes(140_000, 3, 256)],
  ["repeats", makeRepeats(310_000, 4)],
  ["short repeats", makeRepeats(5000, 5)],
  ["ascending", new Uint8Array(Uint32Array.from({ length: 50_000 }, (_, i) => i * 3).buffer)],
];

/** One block, one stream, no filter: the output of the kernel for the stream alone. */
function decodeStream(flag: number, stream: Uint8Array, nbytes: number): Uint8Array {
  return decodeSync(makeChunk({ flags: flag | FLAGS.notSplit, nbytes, blocks: [[stream]] }));
}

describe("zlib streams of every kind are decoded", () => {
  const { Z_FIXED, Z_HUFFMAN_ONLY, Z_RLE, Z_FILTERED, Z_DEFAULT_STRATEGY } = constants;
  test.each(DATA)("%s", (_name, data) => {
    for (const strategy of [Z_DEFAULT_STRATEGY, Z_FIXED, Z_HUFFMAN_ONLY, Z_RLE, Z_FILTERED]) {
      for (const [level, memLevel] of [
        [0, 8],
        [1, 1],
        [6, 9],
        [9, 8],
      ] as const) {
        for (const windowBits of [9, 15]) {
          const stream = new Uint8Array(deflateSync(data, { level, memLevel, strategy, windowBits }));
          // A stream as long as the block would be taken for stored bytes.
          if (stream.length === data.length) continue;
          const decoded = decodeStream(FLAGS.zlib, stream, data.length);
          if (Buffer.compare(decoded, data) !== 0)
            expect.fail(`level ${level}, strategy ${strategy}: other bytes`);
        }
      }
    }
    expect(data.length).toBeGreaterThan(0);
  });

  test("a wrong Adler-32, bytes after the stream, and a stream cut anywhere are BAD_CHUNK", () => {
    const data = makeBytes(2000, 9, 9);
    const stream = new Uint8Array(deflateSync(data));
    const wrong = stream.slice();
    wrong[stream.length - 1] = (wrong[stream.length - 1] ?? 0) ^ 1;
    expect(errorOf(() => decodeStream(FLAGS.zlib, wrong, 2000))).toMatchObject({
      code: "BAD_CHUNK",
      details: { found: -6 },
    });
    const longer = new Uint8Array([...stream, 0]);
    expect(errorOf(() => decodeStream(FLAGS.zlib, longer, 2000))).toMatchObject({
      code: "BAD_CHUNK",
      details: { found: -5 },
    });
    for (let length = 0; length < stream.length; length++) {
      const cut = stream.slice(0, length);
      expect(errorOf(() => decodeStream(FLAGS.zlib, cut, 2000))).toMatchObject({
        code: expect.stringMatching(/BAD_CHUNK|BAD_FIELD/),
      });
    }
  });
});

describe("zstd streams of every level are decoded", async () => {
  const zstd = await Zstd.load();

  test.each(DATA)("%s", (_name, data) => {
    const levels = data.length > 300_000 ? [1, 3, 19] : [-5, 1, 3, 5, 9];
    for (const level of levels) {
      const stream = zstd.compress(data, level);
      const decoded = decodeStream(FLAGS.zstd, stream, data.length);
      if (Buffer.compare(decoded, data) !== 0) expect.fail(`level ${level}: other bytes`);
    }
    expect(levels.length).toBeGreaterThan(2);
  });

  test("several frames with skippable ones between them decode to all their bytes", () => {
    const skippable = new Uint8Array([0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3]);
    const parts = [makeBytes(1000, 1, 5), makeBytes(200_000, 2, 20)];
    const stream = Buffer.concat([
      skippable,
      ...parts.flatMap((part) => [zstd.compress(part, 3), skippable]),
    ]);
    expect(Buffer.compare(decodeStream(FLAGS.zstd, stream, 201_000), Buffer.concat(parts))).toBe(0);
  });

  test("frames with no content size, many blocks or a checksum decode; a wrong checksum is BAD_CHUNK", async () => {
    // Raw blocks of 100 bytes in a frame with a window and a checksum.
    const data = makeBytes(1000, 6, 256);
    const pieces: Uint8Array[] = [new Uint8Array([0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58])];
    for (let at = 0; at < 1000; at += 100) {
      const head = (100 << 3) | (at === 900 ? 1 : 0);
      pieces.push(new Uint8Array([head & 255, head >> 8, 0]), data.subarray(at, at + 100));
    }
    const digest = Buffer.from(await xxhash64(data), "hex")
      .reverse()
      .subarray(0, 4);
    const stream = Buffer.concat([...pieces, digest]);
    expect(Buffer.compare(decodeStream(FLAGS.zstd, stream, 1000), data)).toBe(0);
    stream[stream.length - 1] = (stream[stream.length - 1] ?? 0) ^ 1;
    expect(errorOf(() => decodeStream(FLAGS.zstd, stream, 1000))).toMatchObject({
      code: "BAD_CHUNK",
      details: { found: -6 },
    });
  });

  test("a stream cut anywhere is BAD_CHUNK", () => {
    const stream = zstd.compress(makeBytes(3000, 7, 9), 5);
    for (let length = 1; length < stream.length; length++) {
      const cut = stream.slice(0, length);
      expect(errorOf(() => decodeStream(FLAGS.zstd, cut, 3000))).toMatchObject({ code: "BAD_CHUNK" });
    }
    expect(stream.length).toBeGreaterThan(500);
  });
});

describe("LZ matches of every distance and length are decoded", () => {
  /**
   * The output of a match of this distance and length after `distance` bytes 1, 2, 3, …, all after a run of zeros.
   * The run makes the streams shorter than what they decode to: one of the same length would be taken for stored
   * bytes.
   */
  function expected(zeros: number, distance: number, length: number, tail: number): Uint8Array {
    const out = new Uint8Array(zeros + distance + length + tail);
    for (let i = 0; i < distance; i++) out[zeros + i] = i + 1;
    for (let i = zeros + distance; i < zeros + distance + length; i++) out[i] = out[i - distance] ?? 0;
    out.fill(0xee, zeros + distance + length);
    return out;
  }
  const distances = sample(
    Array.from({ length: 40 }, (_, i) => i + 1),
    14,
  );
  const lengths = sample(
    Array.from({ length: 60 }, (_, i) => i + 4),
    24,
  );
  const cases = distances.flatMap((distance) => lengths.map((length) => [distance, length] as const));

  test("lz4", () => {
    for (const [distance, length] of cases) {
      const out = expected(101, distance, length, 5);
      const literals = out.subarray(101, 101 + distance);
      const token = (Math.min(distance, 15) << 4) | Math.min(length - 4, 15);
      const more = distance >= 15 ? [distance - 15] : [];
      const stream = [0x1f, 0, 1, 0, 81, token, ...more, ...literals, distance, 0];
      if (length - 4 >= 15) stream.push(length - 4 - 15);
      stream.push(0x50, 0xee, 0xee, 0xee, 0xee, 0xee);
      expect(decodeStream(FLAGS.lz4, new Uint8Array(stream), out.length)).toEqual(out);
    }
  });

  test("blosclz", () => {
    for (const [distance, length] of cases) {
      const out = expected(101, distance, length, 1);
      const literals = out.subarray(101, 101 + distance);
      const stream = [0, 0, 7 << 5, 91, 0];
      for (let at = 0; at < distance; at += 32) {
        const run = literals.subarray(at, at + 32);
        stream.push(run.length - 1, ...run);
      }
      if (length - 2 < 7) stream.push((length - 2) << 5, distance - 1);
      else stream.push(7 << 5, length - 9, distance - 1);
      stream.push(0, 0xee);
      expect(decodeStream(0, new Uint8Array(stream), out.length)).toEqual(out);
    }
  });

  test("snappy", () => {
    for (const [distance, length] of cases) {
      const out = expected(65, distance, length, 1);
      const literals = out.subarray(65, 65 + distance);
      const size = out.length > 127 ? [(out.length & 127) | 128, out.length >> 7] : [out.length];
      const stream = [...size, 0, 0, (63 << 2) | 2, 1, 0, (distance - 1) << 2, ...literals];
      stream.push(((length - 1) << 2) | 2, distance, 0, 0, 0xee);
      expect(decodeStream(FLAGS.snappy, new Uint8Array(stream), out.length)).toEqual(out);
    }
  });
});

describe("filters are undone for every typesize", () => {
  const all = Array.from({ length: 255 }, (_, i) => i + 1);
  const sizes = sweep(
    all,
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 63, 64, 65, 127, 128, 255],
  );
  const counts = [1, 8, 15, 16, 17, 40, 128, 136, 137];
  /** For these sizes longer blocks too: their rows are processed in longer pieces, the last of which overlap. */
  const longCounts = [512, 520, 1032, 2056, 8200];
  const isAlsoLong = (typesize: number): boolean => [1, 2, 3, 4, 5, 8, 12, 16, 63, 64].includes(typesize);

  /** A stored block (one stream of its own length), so that only the filter works. */
  function unfilter(flag: number, typesize: number, block: Uint8Array): Uint8Array {
    return decodeSync(
      makeChunk({
        flags: FLAGS.lz4 | FLAGS.notSplit | flag,
        typesize,
        nbytes: block.length,
        blocks: [[block]],
      }),
    );
  }

  test("shuffle: byte j of element i was at j * count + i; the rest stays", () => {
    for (const typesize of sizes) {
      for (const count of counts) {
        const rest = typesize > 1 ? typesize >> 1 : 0;
        const data = makeBytes(count * typesize + rest, typesize + count, 256);
        const block = data.slice();
        for (let i = 0; i < count; i++) {
          for (let j = 0; j < typesize; j++) block[j * count + i] = data[i * typesize + j] ?? 0;
        }
        if (Buffer.compare(unfilter(1, typesize, block), data) !== 0)
          expect.fail(`typesize ${typesize}, ${count} elements`);
      }
    }
    expect(sizes.length).toBeGreaterThan(20);
  });

  test("bitshuffle: bit k of byte j of element i was bit i of row 8j + k; blocks whose count is not a multiple of 8 stay", () => {
    for (const typesize of sizes) {
      for (const count of isAlsoLong(typesize) ? [...counts, ...longCounts] : counts) {
        const rest = typesize >> 1;
        const data = makeBytes(count * typesize + rest, typesize + count, 256);
        const block = data.slice();
        if (count % 8 === 0) {
          block.fill(0, 0, count * typesize);
          for (let i = 0; i < count; i++) {
            for (let j = 0; j < typesize; j++) {
              const byte = data[i * typesize + j] ?? 0;
              for (let k = 0; k < 8; k++) {
                const at = (8 * j + k) * (count / 8) + (i >> 3);
                block[at] = (block[at] ?? 0) | (((byte >> k) & 1) << (i & 7));
              }
            }
          }
        }
        if (Buffer.compare(unfilter(4, typesize, block), data) !== 0)
          expect.fail(`typesize ${typesize}, ${count} elements`);
      }
    }
    expect(sizes.length).toBeGreaterThan(20);
  });

  test("bitshuffle leaves a block that is shorter than an element as it is", () => {
    const block = makeBytes(5, 1, 256);
    expect(unfilter(4, 8, block)).toEqual(block);
  });
});
