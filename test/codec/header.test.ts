import { describe, expect, test } from "vitest";
import { decodeHeader, headLength, info } from "../../src/codec/index.ts";
import { isSuperchunkError } from "../../src/errors.ts";
import { errorOf, FLAGS, makeChunk } from "./chunk-maker.ts";

const stream = new Uint8Array([0x1f, 1, 0, 0, 0x50, 1, 2, 3, 4, 5]);

/** A valid header with space after it: 2 blocks of 64 elements of 4 bytes, lz4. */
function rightChunk(parts: Parameters<typeof makeChunk>[0] = {}): Uint8Array {
  return makeChunk({
    flags: FLAGS.lz4 | 1,
    typesize: 4,
    nbytes: 300,
    blocksize: 256,
    blocks: [[stream], [stream]],
    ...parts,
  });
}

test("decodes all fields of a header", () => {
  const chunk = rightChunk();
  expect(info(chunk)).toEqual({
    version: 2,
    versionlz: 1,
    flags: 0x21,
    typesize: 4,
    nbytes: 300,
    blocksize: 256,
    ctbytes: chunk.length,
    compressor: "lz4",
    shuffle: "shuffle",
    memcpyed: false,
    split: false,
    nblocks: 2,
  });
  expect(headLength(info(chunk))).toBe(24);
});

test.each([
  [0, "blosclz"],
  [1, "lz4"],
  [2, "snappy"],
  [3, "zlib"],
  [4, "zstd"],
])("compressor %i is %s", (id, name) => {
  expect(info(rightChunk({ flags: id << 5 })).compressor).toBe(name);
});

test.each([
  [0, 4, "noshuffle"],
  [1, 4, "shuffle"],
  [4, 4, "bitshuffle"],
  [5, 4, "shuffle"],
  [5, 1, "bitshuffle"],
  [1, 1, "shuffle"],
])("filter bits %i with typesize %i are %s", (bits, typesize, shuffle) => {
  expect(info(rightChunk({ flags: FLAGS.lz4 | bits, typesize })).shuffle).toBe(shuffle);
});

describe("blocks are split", () => {
  const full = { nbytes: 1024, blocksize: 1024, blocks: [[stream]] };
  test.each([
    ["if they have 128 elements of up to 16 bytes", { typesize: 8, ...full }, true],
    ["not if bit 4 says so", { typesize: 8, ...full, flags: FLAGS.lz4 | FLAGS.notSplit }, false],
    [
      "not if an element has more than 16 bytes",
      { ...full, typesize: 17, nbytes: 2176, blocksize: 2176 },
      false,
    ],
    ["not if they have fewer elements", { ...full, typesize: 8, nbytes: 1016, blocksize: 1016 }, false],
  ])("%s", (_law, parts, split) => {
    expect(info(rightChunk(parts)).split).toBe(split);
  });
});

test("an empty chunk has no blocks, whatever its blocksize", () => {
  expect(info(makeChunk({ nbytes: 0, blocksize: 1 }))).toMatchObject({ nbytes: 0, nblocks: 0 });
});

test("the start of a chunk is enough if the total length is given", () => {
  const chunk = rightChunk();
  expect(decodeHeader(chunk.subarray(0, 16), chunk.length)).toEqual(info(chunk));
});

test.each([
  ["version", "UNSUPPORTED", { version: 1 }],
  ["version", "UNSUPPORTED", { version: 3 }],
  ["versionlz", "UNSUPPORTED", { versionlz: 2 }],
  ["flags", "UNSUPPORTED", { flags: 0x08 }],
  ["flags", "UNSUPPORTED", { flags: 5 << 5 }],
  ["flags", "UNSUPPORTED", { flags: 7 << 5 }],
  ["typesize", "BAD_FIELD", { typesize: 0 }],
  ["nbytes", "BAD_FIELD", { nbytes: 0x7ffffff0 }],
  ["nbytes", "BAD_FIELD", { nbytes: 0xffffffff }],
  ["blocksize", "BAD_FIELD", { blocksize: 0 }],
  ["blocksize", "BAD_FIELD", { blocksize: 301 }],
  ["blocksize", "BAD_FIELD", { blocksize: 0xffffffff }],
  ["blocksize", "BAD_FIELD", { typesize: 2, nbytes: 1000, blocksize: 257 }],
  ["ctbytes", "BAD_FIELD", { ctbytes: 15 }],
  ["ctbytes", "BAD_FIELD", { ctbytes: 23 }],
  ["ctbytes", "BAD_FIELD", { flags: FLAGS.memcpyed }],
  ["ctbytes", "TRUNCATED", { ctbytes: 1000 }],
  ["nbytes", "BAD_FIELD", { nbytes: 100_000, blocksize: 50_000 }],
] as const)("a wrong %s is %s: %j", (field, code, parts) => {
  const error = errorOf(() => info(rightChunk(parts)));
  expect(error).toMatchObject({ code, details: { field } });
});

test("fewer than 16 bytes are TRUNCATED", () => {
  for (let length = 0; length < 16; length++) {
    expect(errorOf(() => info(rightChunk().subarray(0, length)))).toMatchObject({
      code: "TRUNCATED",
      details: { expected: 16, found: length },
    });
  }
});

test("a message gives the place, the expected and the found value", () => {
  const messages = [
    { version: 1 },
    { typesize: 0 },
    { blocksize: 301 },
    { ctbytes: 1000 },
    { nbytes: 100_000, blocksize: 50_000 },
  ].map((parts) => (errorOf(() => info(rightChunk(parts))) as Error).message);
  expect(messages).toMatchInlineSnapshot(`
    [
      "the Blosc header's version at byte 0 has Blosc format version 1, but only 2 is supported",
      "the Blosc header's typesize at byte 3 is 0, expected 1 to 255; the chunk is damaged",
      "the Blosc header's blocksize at byte 8 is 301, expected 1 to 300 (nbytes is 300); the chunk is damaged",
      "the Blosc header's ctbytes at byte 12 is 1000, but only 52 bytes are there",
      "the Blosc header's nbytes at byte 4 is 100000, expected at most 7168 (what 28 bytes of lz4 can stand for); the chunk is damaged",
    ]
  `);
});

test("any single flipped bit in a header gives a valid header or a SuperchunkError", () => {
  let refused = 0;
  for (let bit = 0; bit < 128; bit++) {
    const chunk = rightChunk();
    const byte = bit >> 3;
    chunk[byte] = (chunk[byte] ?? 0) ^ (1 << (bit & 7));
    try {
      info(chunk);
    } catch (error) {
      if (!isSuperchunkError(error)) throw error;
      refused++;
    }
  }
  expect(refused).toBeGreaterThan(64);
});
