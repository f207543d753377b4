/** Chunks encoded directly into their place: the same bytes as elsewhere, and nothing outside is touched. */
import { beforeAll, expect, test } from "vitest";
import { encodeIntoPlaces } from "../../src/codec/encode/encode-kernel.ts";
import { type CompressorName, encodeInto, encodeSync, prepareEncode } from "../../src/codec/index.ts";
import { DATA, makeNoise } from "./encode-data.ts";

const COMPRESSORS: readonly CompressorName[] = ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"];
const LENGTH = 1 << 20;
/** Bytes that a kernel may touch after a chunk's place. */
const SLACK = 64;

const untouched = new Uint8Array(LENGTH).fill(0xa5);

beforeAll(async () => {
  for (const cname of COMPRESSORS) await prepareEncode(cname);
});

const samples: Readonly<Record<string, Uint8Array>> = {
  nothing: new Uint8Array(0),
  "a few bytes": Uint8Array.of(1, 2, 3),
  prices: DATA["prices"]?.(300_001) ?? new Uint8Array(),
  noise: makeNoise(100_000, 1),
  zeros: new Uint8Array(1 << 18),
};

test.each(COMPRESSORS)(
  "a chunk of %s is the same, and no byte before it or after its place changes",
  (cname) => {
    const places = encodeIntoPlaces(LENGTH);
    for (const [name, data] of Object.entries(samples)) {
      for (const shuffle of ["noshuffle", "shuffle", "bitshuffle"] as const) {
        const options = { cname, shuffle, typesize: 8 };
        const expected = encodeSync(data, options);
        places.forEach((place, i) => {
          // At an odd offset, in the middle of other bytes.
          place.fill(0xa5);
          const at = 65_537 + i;
          const room = place.subarray(at, at + data.length + 16);
          const chunk = encodeInto(data, room, options);
          expect([name, chunk.buffer === room.buffer, chunk.byteOffset]).toEqual([
            name,
            true,
            room.byteOffset,
          ]);
          expect(Buffer.compare(chunk, expected)).toBe(0);
          for (const rest of [place.subarray(0, at), place.subarray(at + data.length + 16 + SLACK)])
            expect(Buffer.compare(rest, untouched.subarray(0, rest.length))).toBe(0);
        });
      }
    }
  },
);

test("fills a place up to its very end, without touching the next one", () => {
  const [first, second] = encodeIntoPlaces(LENGTH);
  const data = samples["prices"] ?? new Uint8Array();
  second.set(untouched);
  const room = first.subarray(first.length - data.length - 16);
  expect(Buffer.compare(encodeInto(data, room), encodeSync(data))).toBe(0);
  expect(Buffer.compare(second, untouched)).toBe(0);
});

test("the chunk is copied into place if the place may be too short for it, or its blocks are too large", () => {
  const [place] = encodeIntoPlaces(6 << 20);
  const short = new Uint8Array(1 << 20);
  const chunk = encodeSync(short);
  expect(Buffer.compare(encodeInto(short, place.subarray(5, 5 + chunk.length)), chunk)).toBe(0);
  const large = DATA["prices"]?.(5 << 20) ?? new Uint8Array();
  const options = { blocksize: 5 << 20 };
  expect(Buffer.compare(encodeInto(large, place, options), encodeSync(large, options))).toBe(0);
  expect(() => encodeInto(makeNoise(1000, 1), place.subarray(0, 1000))).toThrow(
    expect.objectContaining({ code: "LIMIT" }),
  );
});
