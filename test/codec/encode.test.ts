import { beforeAll, describe, expect, test } from "vitest";
import { withEncodeKernel } from "../../src/codec/encode/encode-kernel.ts";
import { settleEncode, splitsBlocks } from "../../src/codec/encode/encode-settings.ts";
import {
  type CompressorName,
  decodeHeader,
  decodeSync,
  encode,
  encodeInto,
  encodeSync,
  isSuperchunkError,
  prepare,
  prepareEncode,
} from "../../src/codec/index.ts";
import { errorOf } from "./chunk-maker.ts";
import { DATA, makeNoise } from "./encode-data.ts";

const COMPRESSORS: readonly CompressorName[] = ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"];

beforeAll(async () => {
  for (const cname of COMPRESSORS) {
    await prepareEncode(cname);
    await prepare(cname);
  }
});

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}

function prices(length: number): Uint8Array {
  return DATA["prices"]?.(length) ?? new Uint8Array();
}

describe("header", () => {
  test("an empty buffer gives only a header: stored, block size 1", () => {
    expect(hex(encodeSync(new Uint8Array(0), { typesize: 8 }))).toBe("02013308000000000100000010000000");
  });

  test("the defaults are lz4, level 5, byte shuffle, typesize 1", () => {
    const data = prices(65_536);
    const chunk = encodeSync(data);
    expect(hex(chunk)).toBe(
      hex(encodeSync(data, { cname: "lz4", clevel: 5, shuffle: "shuffle", typesize: 1, blocksize: 0 })),
    );
    expect(decodeHeader(chunk)).toMatchObject({
      version: 2,
      versionlz: 1,
      compressor: "lz4",
      shuffle: "shuffle",
      typesize: 1,
    });
  });

  test.each([
    ["blosclz", "blosclz"],
    ["lz4", "lz4"],
    ["lz4hc", "lz4"],
    ["snappy", "snappy"],
    ["zlib", "zlib"],
    ["zstd", "zstd"],
  ] as const)("%s is written as %s, version 1", (cname, compressor) => {
    expect(decodeHeader(encodeSync(prices(65_536), { cname, typesize: 8 }))).toMatchObject({
      compressor,
      versionlz: 1,
      memcpyed: false,
    });
  });

  test("whole blocks are split for typesizes up to 16 with at least 128 elements, and never for zstd", () => {
    expect(splitsBlocks("lz4", 16, 2048)).toBe(true);
    expect(splitsBlocks("lz4", 17, 1 << 20)).toBe(false);
    expect(splitsBlocks("lz4", 16, 2047)).toBe(false);
    expect(splitsBlocks("zstd", 8, 1 << 20)).toBe(false);
  });

  test("elements of more than 255 bytes are treated as bytes", () => {
    expect(decodeHeader(encodeSync(prices(4096), { typesize: 300 })).typesize).toBe(1);
  });
});

describe("sizes", () => {
  test.each([0, 1, 2, 15, 127])("%i bytes, fewer than 128, are stored with any settings", (length) => {
    const data = new Uint8Array(length);
    for (const cname of COMPRESSORS) {
      const chunk = encodeSync(data, { cname, typesize: 4 });
      expect(chunk.length).toBe(16 + length);
      expect(hex(decodeSync(chunk))).toBe(hex(data));
    }
  });

  test("level 0 stores", () => {
    expect(encodeSync(new Uint8Array(100_000), { clevel: 0 }).length).toBe(100_016);
  });

  test.each(["lz4", "lz4hc", "snappy", "zlib"] as const)(
    "%s stores a stream that would save less than a hundredth",
    (cname) => {
      const data = makeNoise(60_000, 5);
      data.copyWithin(50_000, 30_000, 30_500);
      expect(encodeSync(data, { cname }).length).toBe(60_016);
      data.copyWithin(50_000, 30_000, 34_000);
      expect(encodeSync(data, { cname }).length).toBeLessThan(59_400);
    },
  );

  test("a chunk is at most 16 bytes longer than its data, also if blocks just miss", () => {
    for (const cname of COMPRESSORS) {
      for (const blocksize of [128, 1000, 65_536]) {
        // Noise with a little repetition: some blocks compress, others do not.
        const data = makeNoise(70_000, 11);
        data.copyWithin(30_000, 0, 2000);
        const chunk = encodeSync(data, { cname, blocksize, clevel: 9, typesize: 2 });
        expect(chunk.length).toBeLessThanOrEqual(data.length + 16);
        expect(Buffer.compare(decodeSync(chunk), data)).toBe(0);
      }
    }
  });

  test.each(COMPRESSORS)(
    "%s: one byte more or less than blocks of 1 KiB still decodes to the data",
    (cname) => {
      for (const length of [1023, 1024, 1025, 2047, 2048, 2049]) {
        for (const typesize of [1, 3, 8, 100]) {
          const data = (DATA["text"]?.(length) ?? new Uint8Array()).subarray(0, length);
          const chunk = encodeSync(data, { cname, typesize, blocksize: 1024, clevel: 9 });
          expect(decodeHeader(chunk).nbytes).toBe(length);
          expect(hex(decodeSync(chunk))).toBe(hex(data));
        }
      }
    },
  );

  test("a chunk holds at most 2^31 - 17 bytes", () => {
    expect(settleEncode(2_147_483_631, {}).nbytes).toBe(2_147_483_631);
    expect(errorOf(() => settleEncode(2_147_483_632, {}))).toMatchObject({
      code: "LIMIT",
      details: { field: "nbytes", expected: 2_147_483_631, found: 2_147_483_632 },
      summary: expect.stringContaining("cut them into several chunks"),
    });
  });
});

describe("memory", () => {
  test("blocks so large that addresses would wrap around are refused before memory is allocated", () => {
    const kernel = withEncodeKernel((taken) => taken);
    const before = kernel.memory.length;
    expect(errorOf(() => kernel.layOut(715_827_542, 2_147_483_647))).toMatchObject({
      code: "LIMIT",
      details: { field: "blocksize" },
    });
    expect(kernel.memory.length).toBe(before);
  });
});

describe("calls", () => {
  test("encode and encodeSync give the same bytes, in a buffer of exactly the right length", async () => {
    const data = prices(100_000);
    for (const cname of COMPRESSORS) {
      const chunk = await encode(data, { cname, typesize: 8 });
      expect(chunk.buffer.byteLength).toBe(chunk.length);
      expect(hex(chunk)).toBe(hex(encodeSync(data, { cname, typesize: 8 })));
    }
  });

  test("a chunk does not depend on the chunks made before it", () => {
    const data = prices(200_000);
    for (const cname of COMPRESSORS) {
      const first = hex(encodeSync(data, { cname, typesize: 8, clevel: 9 }));
      encodeSync(makeNoise(300_000, 3), { cname, typesize: 16, shuffle: "bitshuffle", clevel: 1 });
      encodeSync(new Uint8Array(300_000), { cname });
      expect(hex(encodeSync(data, { cname, typesize: 8, clevel: 9 }))).toBe(first);
    }
  });

  test("data give the same chunk at any offset of a larger buffer", () => {
    const data = prices(80_000);
    const within = new Uint8Array(80_100);
    within.set(data, 37);
    expect(hex(encodeSync(within.subarray(37, 80_037), { typesize: 8 }))).toBe(
      hex(encodeSync(data, { typesize: 8 })),
    );
  });

  test("encodeInto writes the chunk to the start of the caller's buffer and nothing after it", () => {
    for (const data of [prices(80_000), makeNoise(80_000, 2)]) {
      const expected = encodeSync(data, { typesize: 8 });
      const out = new Uint8Array(data.length + 100).fill(0xaa);
      const chunk = encodeInto(data, out.subarray(50), { typesize: 8 });
      expect(chunk.buffer).toBe(out.buffer);
      expect(chunk.byteOffset).toBe(50);
      expect(hex(chunk)).toBe(hex(expected));
      expect(out.subarray(50 + chunk.length).every((byte) => byte === 0xaa)).toBe(true);
      expect(out.subarray(0, 50).every((byte) => byte === 0xaa)).toBe(true);
    }
  });

  test("encodeInto refuses a buffer that is too short, and gives both lengths", () => {
    const data = prices(80_000);
    const { length } = encodeSync(data, { typesize: 8 });
    expect(encodeInto(data, new Uint8Array(length), { typesize: 8 }).length).toBe(length);
    expect(errorOf(() => encodeInto(data, new Uint8Array(length - 1), { typesize: 8 }))).toMatchObject({
      code: "LIMIT",
      details: { field: "out", expected: length, found: length - 1 },
    });
  });

  test.each([
    [{ clevel: 10 }, "clevel"],
    [{ clevel: -1 }, "clevel"],
    [{ clevel: 2.5 }, "clevel"],
    [{ typesize: 0 }, "typesize"],
    [{ typesize: Number.NaN }, "typesize"],
    [{ blocksize: -1 }, "blocksize"],
    [{ cname: "lzma" as CompressorName }, "cname"],
    [{ shuffle: 1 as unknown as "shuffle" }, "shuffle"],
  ])("options %o are refused by name", (options, field) => {
    const error = errorOf(() => encodeSync(new Uint8Array(1000), options));
    expect(isSuperchunkError(error, "BAD_ARGUMENT")).toBe(true);
    expect(error).toMatchObject({ details: { field, found: Object.values(options)[0] } });
  });

  test("values of other types than bytes are refused, not cut to their last byte", () => {
    for (const data of [Float64Array.of(1, 2), BigInt64Array.of(1n), [1, 2], "abc"])
      expect(errorOf(() => encodeSync(data as unknown as Uint8Array))).toMatchObject({
        code: "BAD_ARGUMENT",
      });
  });

  test("a buffer of 64 MB, larger than the memory that is kept, decodes to the data", () => {
    const data = new Uint8Array(64_000_000);
    data.set(makeNoise(1000, 5), 63_000_000);
    const chunk = encodeSync(data, { typesize: 8 });
    expect(chunk.length).toBeLessThan(1_000_000);
    expect(Buffer.compare(decodeSync(chunk, { expectedNbytes: data.length }), data)).toBe(0);
  });
});
