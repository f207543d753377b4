import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import {
  type CompressorName,
  decodeHeader,
  decodeRangeSync,
  decodeSync,
  type EncodeOptions,
  encodeSync,
  prepare,
  prepareEncode,
  type Shuffle,
} from "../../src/codec/index.ts";
import { makeNoise } from "./encode-data.ts";

const COMPRESSORS: readonly CompressorName[] = ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"];
const SHUFFLES: readonly Shuffle[] = ["noshuffle", "shuffle", "bitshuffle"];

beforeAll(async () => {
  for (const cname of COMPRESSORS) {
    await prepareEncode(cname);
    await prepare(cname);
  }
});

/** What shapes data: how many byte values there are, how often bytes repeat what was `period` bytes before. */
interface Texture {
  readonly length: number;
  readonly seed: number;
  readonly values: number;
  readonly period: number;
  /** Of 256 bytes, how many repeat. */
  readonly repeats: number;
}

const lengths = fc.oneof(
  fc.integer({ min: 0, max: 600 }),
  fc.integer({ min: 0, max: 20_000 }),
  fc.constantFrom(127, 128, 129, 4095, 4096, 4097, 65_535, 65_536, 65_537, 65_546, 65_547, 131_072, 140_001),
);

const textures: fc.Arbitrary<Texture> = fc.record({
  length: lengths,
  seed: fc.nat(),
  values: fc.constantFrom(1, 2, 3, 4, 16, 100, 256),
  period: fc.oneof(
    fc.integer({ min: 1, max: 40 }),
    fc.constantFrom(
      255,
      256,
      2047,
      2048,
      4097,
      8190,
      8191,
      8192,
      8193,
      32_506,
      32_768,
      65_535,
      65_536,
      73_000,
    ),
  ),
  repeats: fc.constantFrom(0, 128, 200, 250, 255, 256),
});

function makeTexture({ length, seed, values, period, repeats }: Texture): Uint8Array {
  const fresh = makeNoise(length, seed);
  const choice = makeNoise(length, seed + 1);
  for (let i = 0; i < length; i++) {
    const repeated = i >= period && (choice[i] ?? 0) < repeats;
    fresh[i] = repeated ? (fresh[i - period] ?? 0) : (fresh[i] ?? 0) % values;
  }
  return fresh;
}

const options: fc.Arbitrary<EncodeOptions> = fc.record({
  cname: fc.constantFrom(...COMPRESSORS),
  clevel: fc.integer({ min: 0, max: 9 }),
  shuffle: fc.constantFrom(...SHUFFLES),
  typesize: fc.oneof(fc.integer({ min: 1, max: 33 }), fc.integer({ min: 1, max: 255 })),
  blocksize: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 70_000 })),
});

describe("whatever the data and the settings", () => {
  test("a chunk decodes to its data, whole and in part, and is at most 16 bytes longer", () => {
    fc.assert(
      fc.property(textures, options, fc.nat(), fc.nat(), (texture, settings, from, to) => {
        const data = makeTexture(texture);
        const chunk = encodeSync(data, settings);
        expect(chunk.length).toBeLessThanOrEqual(data.length + 16);
        const header = decodeHeader(chunk);
        expect(header).toMatchObject({
          nbytes: data.length,
          ctbytes: chunk.length,
          typesize: settings.typesize,
        });
        expect(Buffer.compare(decodeSync(chunk), data)).toBe(0);
        const start = data.length === 0 ? 0 : from % data.length;
        const length = to % (data.length - start + 1);
        const part = decodeRangeSync(chunk, start, length);
        expect(Buffer.compare(part, data.subarray(start, start + length))).toBe(0);
      }),
      { numRuns: 1500 },
    );
  });

  test.each(SHUFFLES)(
    "%s of every typesize from 1 to 255 and every count of elements around tiles is undone",
    (shuffle) => {
      const wrong: string[] = [];
      for (let typesize = 1; typesize <= 255; typesize++) {
        for (const count of [8, 15, 16, 17, 24, 120, 128, 136, 200]) {
          for (const tail of [0, typesize - 1]) {
            // Few values, so that blocks compress and the filter is not lost by storing.
            const data = makeTexture({
              length: count * typesize + tail,
              seed: typesize,
              values: 3,
              period: 1,
              repeats: 128,
            });
            const chunk = encodeSync(data, { shuffle, typesize, clevel: 9 });
            if (Buffer.compare(decodeSync(chunk), data) !== 0) wrong.push(`${typesize} ${count} ${tail}`);
          }
        }
      }
      expect(wrong).toEqual([]);
    },
  );
});
