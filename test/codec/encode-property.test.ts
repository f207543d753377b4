import { beforeAll, describe, expect, test } from "vitest";
import {
  decodeHeader,
  decodeRangeSync,
  decodeSync,
  encodeSync,
  prepare,
  prepareEncode,
} from "../../src/codec/index.ts";
import fc from "../property.ts";
import { sweep } from "../scope.ts";
import { COMPRESSORS, makeTexture, options, SHUFFLES, textures } from "./textures.ts";

beforeAll(async () => {
  for (const cname of COMPRESSORS) {
    await prepareEncode(cname);
    await prepare(cname);
  }
});

describe("for any data and settings", () => {
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
      { numRuns: sweep(1500, 45) },
    );
  });

  test.each(SHUFFLES)(
    "%s is undone for every typesize from 1 to 255 and every element count around the tile size",
    (shuffle) => {
      const wrong: string[] = [];
      for (let typesize = 1; typesize <= 255; typesize += typesize < 17 ? 1 : sweep(1, 17)) {
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

  test.each([2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 31, 64, 255])(
    "blocks that are shuffled in several steps are restored: %i bytes per element",
    (typesize) => {
      const step = Math.floor(32_768 / typesize);
      const counts = [step, step + 1, step + 15, 2 * step - 1, 2 * step, 2 * step + 17];
      const cases = [
        ...counts.map((count) => ["shuffle", count] as const),
        ...[520, 2056, 8200].map((count) => ["bitshuffle", count] as const),
      ];
      for (const [shuffle, count] of cases) {
        const data = makeTexture({
          length: count * typesize,
          seed: count,
          values: 3,
          period: 1,
          repeats: 128,
        });
        const chunk = encodeSync(data, { shuffle, typesize, clevel: 9, blocksize: data.length });
        expect(decodeHeader(chunk)).toMatchObject({ blocksize: data.length, memcpyed: false });
        expect(Buffer.compare(decodeSync(chunk), data)).toBe(0);
      }
    },
  );
});
