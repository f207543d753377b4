/** Whole zstd streams, short ones by WebAssembly and long ones by the engine's own zstd if it has one. */
import { expect, test } from "vitest";
import { decode, decodeStream, encode, encodeZstdStream } from "../../src/codec/index.ts";

/** Numbers that repeat now and then. */
function walk(length: number): Uint8Array {
  let at = 7;
  return Uint8Array.from({ length }, (_, i) => {
    at = (Math.imul(at, 1664525) + 1013904223) >>> 0;
    return (i >> 5) + (at >>> 29);
  });
}

test.each([1, 1000, 65535, 65536, 300_000])(
  "a stream of %i bytes records the length of its data",
  async (length) => {
    const data = walk(length);
    for (const level of [1, 3, 19]) {
      const frame = await encodeZstdStream(data, level);
      // RFC 8878: a frame of one segment, or with a content size of two bytes and more.
      expect((frame[4] ?? 0) & 0xe0).not.toBe(0);
      expect(await decodeStream("zstd", frame, length)).toEqual(data);
    }
  },
);

test("data that zstd cannot shorten are stored, whatever the block length", async () => {
  let at = 1;
  const noise = Uint8Array.from({ length: 200_000 }, () => {
    at = (Math.imul(at, 1664525) + 1013904223) >>> 0;
    return at >>> 24;
  });
  for (const length of [60_000, 200_000]) {
    const data = noise.subarray(0, length);
    const chunk = await encode(data, { cname: "zstd", clevel: 1, typesize: 1, shuffle: "noshuffle" });
    expect(chunk.length).toBeLessThanOrEqual(length + 16);
    expect(await decode(chunk)).toEqual(data);
  }
});
