import { describe, expect, test } from "vitest";
import {
  blockRanges,
  decodeBlocks,
  decodeRangeSync,
  decodeSync,
  headLength,
  info,
  leaseDecoder,
  prepareEncode,
  replaceBytes,
} from "../../src/codec/index.ts";
import { isSuperchunkError } from "../../src/errors.ts";
import { sweep } from "../scope.ts";
import { errorOf, FLAGS, makeChunk } from "./chunk-maker.ts";
import { readFixtureChunks } from "./fixture-chunks.ts";

const bytes = (...values: number[]): Uint8Array => new Uint8Array(values);
const concat = (...parts: Uint8Array[]): Uint8Array => new Uint8Array(Buffer.concat(parts));

/** LZ4: five literals, nothing else. */
const five = bytes(0x50, 1, 2, 3, 4, 5);

function lz4(stream: Uint8Array, nbytes: number): Uint8Array {
  return makeChunk({ flags: FLAGS.lz4 | FLAGS.notSplit, nbytes, blocks: [[stream]] });
}

function chunkOf(compressor: keyof typeof FLAGS | "blosclz", stream: Uint8Array, nbytes: number): Uint8Array {
  const flags = compressor === "blosclz" ? 0 : FLAGS[compressor];
  return makeChunk({ flags: flags | FLAGS.notSplit, nbytes, blocks: [[stream]] });
}

/** Small chunks of every compressor and filter, by a real producer. */
const samples = readFixtureChunks("c-blosc-1.21.7").filter(
  ({ chunk, nbytes }) => chunk.length < 700 && nbytes > 0,
);

test("the samples cover every compressor and filter", () => {
  const kinds = new Set(samples.map(({ chunk }) => `${info(chunk).compressor} ${info(chunk).shuffle}`));
  expect(kinds.size).toBeGreaterThan(10);
});

test("a chunk cut at any length is refused as TRUNCATED", () => {
  for (const { chunk } of samples) {
    for (let length = 0; length < chunk.length; length++) {
      const error = errorOf(() => decodeSync(chunk.slice(0, length)));
      if (!isSuperchunkError(error, "TRUNCATED")) throw error;
    }
  }
  expect(samples.length).toBeGreaterThan(20);
});

test("any single changed byte gives exactly nbytes or a SuperchunkError", () => {
  let decoded = 0;
  let refused = 0;
  for (const { chunk } of samples) {
    for (let at = 0; at < chunk.length; at++) {
      for (const change of sweep([0x01, 0x80, 0xff], [0xff])) {
        const changed = chunk.slice();
        changed[at] = (changed[at] ?? 0) ^ change;
        try {
          const out = decodeSync(changed);
          if (out.length !== info(changed).nbytes) throw new Error("another length than nbytes");
          decoded++;
        } catch (error) {
          if (!isSuperchunkError(error)) throw error;
          refused++;
        }
      }
    }
  }
  expect(decoded).toBeGreaterThan(sweep(1000, 300));
  expect(refused).toBeGreaterThan(sweep(1000, 300));
});

test("bytes after ctbytes do not matter", () => {
  const chunk = lz4(five, 5);
  expect(decodeSync(concat(chunk, bytes(9, 9, 9)))).toEqual(bytes(1, 2, 3, 4, 5));
});

describe("block starts", () => {
  const two = {
    flags: FLAGS.lz4 | FLAGS.notSplit,
    nbytes: 10,
    blocksize: 5,
    blocks: [[five], [bytes(0x50, 6, 7, 8, 9, 10)]],
  };
  const values = bytes(1, 2, 3, 4, 5, 6, 7, 8, 9, 10);

  function withStart(block: number, start: number): Uint8Array {
    const chunk = makeChunk(two);
    new DataView(chunk.buffer).setUint32(16 + 4 * block, start, true);
    return chunk;
  }

  test("may come in any order, as the threads of c-blosc write them", () => {
    const chunk = makeChunk({ ...two, order: [1, 0] });
    expect(decodeSync(chunk)).toEqual(values);
    expect(decodeRangeSync(chunk, 4, 3)).toEqual(bytes(5, 6, 7));
    const range = blockRanges(chunk.subarray(0, 24), 5, 2);
    expect(range).toEqual({ firstBlock: 1, endBlock: 2, offset: 24, length: 10 });
    const part = chunk.slice(range.offset, range.offset + range.length);
    expect(decodeBlocks(chunk.subarray(0, 24), { bytes: part, offset: range.offset }, 5, 2)).toEqual(
      bytes(6, 7),
    );
  });

  test.each([
    ["before the end of the table", 0, 23],
    ["at the chunk's last byte", 1, 43],
    ["after the chunk", 1, 44],
    ["negative, read as int32", 0, 0xffffffff],
    ["the same as another block's", 1, 24],
  ])("%s are BAD_FIELD", (_what, block, start) => {
    expect(errorOf(() => decodeSync(withStart(block, start)))).toMatchObject({
      code: "BAD_FIELD",
      details: { field: "bstarts" },
    });
  });

  test("that make blocks overlap are refused: a block ends where the next one starts", () => {
    expect(errorOf(() => decodeSync(withStart(1, 26)))).toMatchObject({ code: "BAD_CHUNK" });
  });
});

describe("stream lengths", () => {
  test.each([
    ["longer than the block", 11],
    ["negative", -1],
    ["the smallest int32", -0x80000000],
  ])("%s are BAD_CHUNK and give the offset", (_what, length) => {
    const chunk = lz4(five, 5);
    new DataView(chunk.buffer).setInt32(20, length, true);
    expect(errorOf(() => decodeSync(chunk))).toMatchObject({
      code: "BAD_CHUNK",
      details: { offset: 20, field: "stream length" },
    });
  });

  test("that are cut off by the end of the block are BAD_CHUNK", () => {
    // Two streams are expected (split), one is there.
    const chunk = makeChunk({ flags: FLAGS.lz4, typesize: 2, nbytes: 256, blocks: [[new Uint8Array(128)]] });
    expect(errorOf(() => decodeSync(chunk))).toMatchObject({ code: "BAD_CHUNK" });
  });
});

/**
 * Streams that must be refused; `nbytes` is what the header claims, never the length of the stream: that would mean
 * stored bytes.
 */
const BAD_STREAMS: [
  what: string,
  compressor: keyof typeof FLAGS | "blosclz",
  stream: Uint8Array,
  nbytes: number,
][] = [
  ["an empty stream", "lz4", bytes(), 5],
  ["too few bytes", "lz4", five, 7],
  ["too many bytes", "lz4", five, 4],
  ["literals cut off", "lz4", bytes(0x50, 1, 2), 5],
  ["a length cut off", "lz4", bytes(0xf0), 200],
  ["a distance cut off", "lz4", bytes(0x10, 1, 1), 20],
  ["a distance of 0", "lz4", bytes(0x11, 1, 0, 0, 0x50, 1, 2, 3, 4, 5), 11],
  ["a distance beyond the start", "lz4", bytes(0x11, 1, 2, 0, 0x50, 1, 2, 3, 4, 5), 11],
  ["no literals at the end", "lz4", bytes(0x11, 1, 1, 0), 6],
  ["an empty stream", "blosclz", bytes(), 5],
  ["literals cut off", "blosclz", bytes(4, 1, 2), 5],
  ["too many bytes", "blosclz", bytes(4, 1, 2, 3, 4, 5), 4],
  ["a distance beyond the start", "blosclz", bytes(0, 1, 0x20, 1, 0, 9), 5],
  ["a match cut off", "blosclz", bytes(0, 1, 0x20), 5],
  ["a far distance cut off", "blosclz", bytes(0, 1, 0x3f, 0xff, 1), 6],
  ["a match at the end", "blosclz", bytes(0, 1, 0x40, 0), 5],
  ["an empty stream", "snappy", bytes(), 5],
  ["another length than promised", "snappy", bytes(6, 0x10, 1, 2, 3, 4, 5), 5],
  ["an endless length", "snappy", bytes(0x85, 0x80, 0x80, 0x80, 0x80, 0x80, 0), 5],
  ["literals cut off", "snappy", bytes(5, 0x10, 1, 2), 5],
  ["a distance of 0", "snappy", bytes(6, 0, 1, 0x05, 0), 6],
  ["a distance beyond the start", "snappy", bytes(6, 0, 1, 0x05, 2), 6],
  ["a copy that is too long", "snappy", bytes(6, 0, 1, 0x09, 1), 6],
  ["a literal of 4 GiB", "snappy", bytes(5, 0xfc, 0xff, 0xff, 0xff, 0xff, 1), 5],
  ["an empty stream", "zlib", bytes(), 5],
  ["a wrong header", "zlib", bytes(0x78, 0x9d, 3, 0, 0, 0, 0, 1), 5],
  ["a preset dictionary", "zlib", bytes(0x78, 0xbb, 3, 0, 0, 0, 0, 1), 5],
  ["a block of kind 3", "zlib", bytes(0x78, 0x9c, 7, 0, 0, 0, 0, 1), 5],
  ["an empty stream", "zstd", bytes(), 5],
  ["another magic number", "zstd", bytes(0x28, 0xb5, 0x2f, 0xfc, 0x20, 5, 0x29, 0, 0, 1, 2, 3, 4, 5), 5],
  ["a dictionary", "zstd", bytes(0x28, 0xb5, 0x2f, 0xfd, 0x21, 7, 5, 0x29, 0, 0, 1, 2, 3, 4, 5), 5],
  ["a block of kind 3", "zstd", bytes(0x28, 0xb5, 0x2f, 0xfd, 0x20, 5, 0x2f, 0, 0, 1, 2, 3, 4, 5), 5],
  [
    "a size of 2^63",
    "zstd",
    bytes(0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x29, 0, 0, 1, 2, 3, 4, 5),
    5,
  ],
];

test.each(BAD_STREAMS)("%s in a stream of %s is BAD_CHUNK", (_what, compressor, stream, nbytes) => {
  const error = errorOf(() => decodeSync(chunkOf(compressor, stream, nbytes)));
  // Impossible sizes are detected before the stream is.
  expect(error).toMatchObject({
    code: stream.length === 0 ? expect.stringMatching(/BAD_CHUNK|BAD_FIELD/) : "BAD_CHUNK",
  });
});

describe("lengths that overflow 32 bits", () => {
  // c-blosc adds 255 for each of these to an int32 and writes far outside its output (its report 405).
  const run = new Uint8Array(8_500_000).fill(0xff);

  test("in a BloscLZ match are refused", () => {
    const stream = concat(bytes(0, 1, 0xe0), run, bytes(0, 0, 0, 1));
    expect(errorOf(() => decodeSync(chunkOf("blosclz", stream, 1_000_000)))).toMatchObject({
      code: "BAD_CHUNK",
    });
  });

  test("in an LZ4 literal run and match are refused", () => {
    for (const start of [bytes(0xf0), bytes(0x1f, 1, 1, 0)]) {
      const stream = concat(start, run, bytes(0, 0x50, 1, 2, 3, 4, 5));
      expect(errorOf(() => decodeSync(lz4(stream, 1_000_000)))).toMatchObject({ code: "BAD_CHUNK" });
    }
  });
});

describe("memory", () => {
  test("is not allocated because a header claims it", () => {
    const grow = WebAssembly.Memory.prototype.grow;
    let grown = 0;
    WebAssembly.Memory.prototype.grow = function (pages: number) {
      grown += pages;
      return grow.call(this, pages);
    };
    try {
      for (const flags of [0, FLAGS.lz4, FLAGS.snappy, FLAGS.zlib, FLAGS.zstd]) {
        const chunk = makeChunk({
          flags,
          nbytes: 0x7fff_0000,
          blocksize: 0x2000_0000,
          blocks: [[five], [five], [five], [five]],
        });
        expect(errorOf(() => decodeSync(chunk))).toMatchObject({ code: "BAD_FIELD" });
        // A remote reader has only the start, so the claimed ctbytes proves nothing; the block's bytes do.
        const head = chunk.slice(0, 32);
        new DataView(head.buffer).setUint32(12, 0x7fff_ffff, true);
        const range = { firstBlock: 0, endBlock: 1, offset: 32, length: 9 };
        const remote = (): unknown =>
          decodeBlocks(head, { bytes: chunk.slice(32, 42), offset: range.offset }, 0, 1);
        expect(errorOf(remote)).toMatchObject({ code: "BAD_FIELD" });
      }
    } finally {
      WebAssembly.Memory.prototype.grow = grow;
    }
    expect(grown).toBeLessThan(64);
  });

  test("is not allocated for the result either, or for a chunk with bytes replaced", async () => {
    const Own = Uint8Array;
    let most = 0;
    globalThis.Uint8Array = new Proxy(Own, {
      construct(target, args: unknown[]) {
        if (typeof args[0] === "number") most = Math.max(most, args[0]);
        return Reflect.construct(target, args) as object;
      },
    });
    try {
      for (const cname of ["blosclz", "lz4", "snappy", "zlib", "zstd"] as const) {
        await prepareEncode(cname);
        const flags = cname === "blosclz" ? 0 : FLAGS[cname];
        // One block that is the whole chunk, and several of which only the last is read.
        for (const blocks of [[[five]], [[five], [five], [five], [five]]]) {
          const chunk = makeChunk({ flags, nbytes: 0x7fff_0000, blocksize: 0x2000_0000, blocks });
          if (blocks.length === 1) new DataView(chunk.buffer).setUint32(8, 0x7fff_0000, true);
          const at = 0x7fff_0000 - 1;
          const edit = { at, bytes: bytes(1) };
          for (const work of [
            () => decodeSync(chunk),
            () => decodeRangeSync(chunk, 1, at),
            () => replaceBytes(chunk, [edit]),
            () => replaceBytes(chunk, [edit], { cname: "lz4", clevel: 0 }),
          ])
            expect(errorOf(work), cname).toMatchObject({ code: "BAD_FIELD" });
        }
      }
    } finally {
      globalThis.Uint8Array = Own;
    }
    expect(most).toBeLessThan(1 << 20);
  });

  test("of the caller is written only inside the result", () => {
    const around = new Uint8Array(100).fill(0xaa);
    const out = around.subarray(10, 60);
    const result = decodeSync(lz4(five, 5), { out });
    expect(result).toEqual(bytes(1, 2, 3, 4, 5));
    expect(result.buffer).toBe(around.buffer);
    expect([...around.subarray(0, 10), ...around.subarray(15)].every((byte) => byte === 0xaa)).toBe(true);
  });
});

describe("what the caller expects", () => {
  const chunk = lz4(five, 5);

  test("an expectedNbytes that differs is BAD_FIELD", () => {
    expect(errorOf(() => decodeSync(chunk, { expectedNbytes: 6 }))).toMatchObject({
      code: "BAD_FIELD",
      details: { field: "nbytes", expected: 6, found: 5 },
    });
  });

  test("more than maxNbytes is LIMIT", () => {
    expect(errorOf(() => decodeSync(chunk, { maxNbytes: 4 }))).toMatchObject({ code: "LIMIT" });
    expect(decodeSync(chunk, { maxNbytes: 5 }).length).toBe(5);
  });

  test.each([
    [{ maxNbytes: { bytes: 9 } }, "maxNbytes is of type Object, expected a number of bytes"],
    [{ expectedNbytes: "9" }, "expectedNbytes is 9, expected a number of bytes"],
    [{ out: {} }, "out is of Object, expected a Uint8Array"],
  ])("an option of another type is refused, not ignored: %o", (options, message) => {
    const error = errorOf(() => decodeSync(chunk, options as never));
    expect(error).toMatchObject({ code: "BAD_ARGUMENT", message: expect.stringContaining(message) });
  });

  test("an out that is too short is BAD_ARGUMENT", () => {
    expect(errorOf(() => decodeSync(chunk, { out: new Uint8Array(4) }))).toMatchObject({
      code: "BAD_ARGUMENT",
    });
  });

  test.each([
    [-1, 2],
    [0, 6],
    [5, 1],
    [0.5, 1],
    [Number.NaN, 1],
    [2, -1],
  ])("a range from %d of %d bytes is BAD_ARGUMENT", (start, length) => {
    expect(errorOf(() => decodeRangeSync(chunk, start, length))).toMatchObject({ code: "BAD_ARGUMENT" });
    expect(errorOf(() => blockRanges(chunk.subarray(0, 20), start, length))).toMatchObject({
      code: "BAD_ARGUMENT",
    });
  });

  test("fewer bytes than the block range needs are TRUNCATED", () => {
    const head = chunk.subarray(0, headLength(info(chunk)));
    const range = blockRanges(head, 0, 5);
    const part = chunk.slice(range.offset, range.offset + range.length - 1);
    expect(errorOf(() => decodeBlocks(head, { bytes: part, offset: range.offset }, 0, 5))).toMatchObject({
      code: "TRUNCATED",
    });
  });

  test("a lease that was released is BAD_ARGUMENT, but releasing it twice is not", () => {
    const lease = leaseDecoder(chunk.length);
    lease.input.set(chunk);
    lease.release();
    lease.release();
    expect(errorOf(() => lease.decodeRange(0, 1))).toMatchObject({ code: "BAD_ARGUMENT" });
  });
});

test("messages give the place, the expected and the found value", () => {
  const split = makeChunk({ flags: FLAGS.lz4, typesize: 2, nbytes: 256, blocks: [[new Uint8Array(128)]] });
  const start = lz4(five, 5);
  new DataView(start.buffer).setUint32(16, 3, true);
  const messages = [
    () => decodeSync(lz4(five, 7)),
    () => decodeSync(chunkOf("zlib", bytes(0x78, 0x9d, 3, 0, 0, 0, 0, 1), 5)),
    () => decodeSync(lz4(bytes(0x11, 1, 2, 0, 0x50, 1, 2, 3, 4, 5), 11)),
    () => decodeSync(split),
    () => decodeSync(start),
    () => decodeSync(lz4(five, 5), { maxNbytes: 4 }),
    () => decodeRangeSync(lz4(five, 5), 3, 3),
  ].map((work) => (errorOf(work) as Error).message);
  expect(messages).toMatchInlineSnapshot(`
    [
      "stream 0 of block 0 at byte 24 does not decode to 7 bytes of lz4: it decodes to 5 bytes; the chunk is damaged",
      "stream 0 of block 0 at byte 24 does not decode to 5 bytes of zlib: the bytes are not of this format; the chunk is damaged",
      "stream 0 of block 0 at byte 24 does not decode to 11 bytes of lz4: a match refers to bytes before the start of the stream; the chunk is damaged",
      "the length of stream 1 of block 0 at byte 152 is cut off; the chunk is damaged",
      "the start of block 0 at byte 16 is 3, expected 20 to 26; the chunk is damaged",
      "the chunk decodes to 5 bytes, more than the limit maxNbytes of 4",
      "bytes 3 to 6 were requested, but the chunk decodes to 5 bytes",
    ]
  `);
});
