import { expect, test } from "vitest";
import { decodeRangeSync, decodeSync, encode, info } from "../../src/codec/index.ts";
import { errorOf } from "./chunk-maker.ts";

/** Elements that compress in their upper bytes only, as measured values do. */
function makeValues(typesize: number, count: number): Uint8Array {
  let state = typesize;
  const data = new Uint8Array(typesize * count);
  for (let i = 0; i < data.length; i++) {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    data[i] = i % typesize < 2 ? state >> 16 : (i >> 9) & 3;
  }
  return data;
}

const compressors = ["lz4", "lz4hc", "blosclz", "snappy", "zlib", "zstd"] as const;
const filters = ["noshuffle", "shuffle", "bitshuffle"] as const;

test.each(compressors)("any part of a large block of %s equals that part of the whole", async (cname) => {
  for (const shuffle of filters) {
    for (const typesize of [1, 2, 3, 4, 8, 12, 16, 17]) {
      const data = makeValues(typesize, 5000);
      const chunk = await encode(data, { cname, shuffle, typesize, clevel: 5 });
      const last = data.length;
      const ranges = [
        [0, 1],
        [typesize - 1, 2],
        [typesize * 100 + 1, typesize * 40],
        [last >> 1, typesize],
        [(last >> 1) + 3, 300],
        [last - typesize, typesize],
        [last - 1, 1],
        [0, last >> 2],
      ] as const;
      for (const [start, length] of ranges) {
        const part = decodeRangeSync(chunk, start, length);
        if (Buffer.compare(part, data.subarray(start, start + length)) !== 0) {
          expect.fail(`${shuffle}, typesize ${typesize}: bytes ${start} to ${start + length} differ`);
        }
      }
    }
  }
  expect(compressors).toContain(cname);
});

test("damage in the bytes that a part needs is BAD_CHUNK, as for the whole", async () => {
  const data = makeValues(8, 20_000);
  const chunk = await encode(data, { cname: "lz4", shuffle: "shuffle", typesize: 8, clevel: 5 });
  expect(info(chunk).nblocks).toBe(1);
  const view = new DataView(chunk.buffer, chunk.byteOffset, chunk.length);
  const start = view.getUint32(16, true);
  // The first stream's length.
  view.setUint32(start, view.getUint32(start, true) + 1, true);
  for (const work of [() => decodeSync(chunk), () => decodeRangeSync(chunk, 100_000, 8)]) {
    expect(errorOf(work)).toMatchObject({ code: "BAD_CHUNK" });
  }
});

test("finds a byte of an lz4 stream through overlapping and nested matches, without decoding", async () => {
  // Long runs, short periods, and repeats of repeats, between stretches of noise.
  const data = new Uint8Array(8 * 40_000);
  let state = 7;
  for (let i = 0; i < data.length; i++) {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    const stretch = (i >> 11) % 5;
    data[i] =
      stretch === 0
        ? state >> 16
        : stretch === 1
          ? 7
          : stretch === 2
            ? i % 3
            : stretch === 3
              ? i % 251
              : (data[i - 4096] ?? 1);
  }
  for (const options of [
    { shuffle: "shuffle", typesize: 8 },
    { shuffle: "noshuffle", typesize: 1 },
  ] as const) {
    const chunk = await encode(data, { cname: "lz4", clevel: 5, ...options });
    expect(info(chunk).nblocks).toBeLessThan(4);
    for (let at = 0; at + 8 <= data.length; at += 1237) {
      const part = decodeRangeSync(chunk, at, 8);
      if (Buffer.compare(part, data.subarray(at, at + 8)) !== 0) expect.fail(`bytes from ${at} on differ`);
    }
  }
});

test("with any byte of a chunk changed, a part of it is right, refused, or the same number of other bytes", async () => {
  const data = makeValues(8, 2000);
  const chunk = await encode(data, { cname: "lz4", shuffle: "shuffle", typesize: 8, clevel: 5 });
  let refused = 0;
  for (let at = 16; at < chunk.length; at++) {
    const damaged = chunk.slice();
    damaged[at] = (damaged[at] ?? 0) ^ 0xff;
    try {
      expect(decodeRangeSync(damaged, 15_992, 8)).toHaveLength(8);
    } catch (error) {
      expect(error).toMatchObject({ name: "SuperchunkError" });
      refused++;
    }
  }
  expect(refused).toBeGreaterThan(0);
});
