/** The rules of FORMAT.md about Blosc chunks, on chunks small enough to read. */
import { describe, expect, it } from "vitest";
import { decode, decodeHeader, encode } from "../../src/codec/index.ts";
import { errorOf, hex, rejectionOf, toHex } from "./hex.ts";

/** Two blocks of 8 bytes, each one stored stream: blosclz, not split, no filter. */
const TWO_BLOCKS = hex(`
  02 01 10 01  10 00 00 00  08 00 00 00  30 00 00 00   # nbytes 16, blocksize 8, ctbytes 48
  18 00 00 00  24 00 00 00                              # blocks at 24 and 36
  08 00 00 00  00 01 02 03 04 05 06 07
  08 00 00 00  08 09 0a 0b 0c 0d 0e 0f`);
const STORED = hex("02 01 02 01 04 00 00 00 04 00 00 00 14 00 00 00 61 62 63 64");

function patched(chunk: Uint8Array, at: number, bytes: string): Uint8Array {
  const copy = chunk.slice();
  copy.set(hex(bytes), at);
  return copy;
}

const codeOf = (chunk: Uint8Array): string => errorOf(() => decodeHeader(chunk)).code;

describe("the header", () => {
  it("the two samples decode", async () => {
    expect(toHex(await decode(TWO_BLOCKS))).toBe("000102030405060708090a0b0c0d0e0f");
    expect(toHex(await decode(STORED))).toBe("61626364");
  });

  it("[FB-01] a ctbytes beyond the available bytes is TRUNCATED, and so is each shorter chunk", () => {
    for (let length = 0; length < TWO_BLOCKS.length; length++)
      expect(codeOf(TWO_BLOCKS.subarray(0, length))).toBe("TRUNCATED");
    expect(codeOf(patched(TWO_BLOCKS, 12, "31"))).toBe("TRUNCATED");
  });

  it("[FB-02] other versions, codecs and flag 0x08 are UNSUPPORTED", () => {
    for (const [at, bytes] of [
      [0, "01"],
      [0, "03"],
      [1, "02"],
      [2, "18"],
      [2, "b0"],
    ] as const) {
      expect(codeOf(patched(TWO_BLOCKS, at, bytes))).toBe("UNSUPPORTED");
    }
    expect(decodeHeader(patched(STORED, 1, "07")).memcpyed).toBe(true);
  });

  it("[FB-03] typesize 0 is BAD_FIELD", () => {
    expect(codeOf(patched(TWO_BLOCKS, 3, "00"))).toBe("BAD_FIELD");
  });

  it("[FB-04] an nbytes that ctbytes cannot hold is BAD_FIELD before anything is allocated", () => {
    expect(codeOf(patched(TWO_BLOCKS, 4, "ef ff ff 7f ef ff ff 7f"))).toBe("BAD_FIELD");
    expect(codeOf(patched(TWO_BLOCKS, 4, "f0 ff ff 7f"))).toBe("BAD_FIELD");
    expect(codeOf(patched(TWO_BLOCKS, 4, "ff ff ff ff"))).toBe("BAD_FIELD");
  });

  it("[FB-05] blocksize is 1 to nbytes", () => {
    expect(codeOf(patched(TWO_BLOCKS, 8, "00"))).toBe("BAD_FIELD");
    expect(codeOf(patched(TWO_BLOCKS, 8, "11"))).toBe("BAD_FIELD");
    expect(decodeHeader(TWO_BLOCKS).nblocks).toBe(2);
  });

  it("[FB-06] a stored chunk has nbytes + 16 bytes, and its other flags have no meaning", async () => {
    expect(toHex(await decode(patched(STORED, 2, "33")))).toBe("61626364");
    expect(codeOf(patched(STORED, 4, "03 00 00 00 03"))).toBe("BAD_FIELD");
    expect(codeOf(patched(STORED, 4, "05 00 00 00 05"))).toBe("BAD_FIELD");
  });

  it("[FB-13] with both shuffle flags the byte shuffle applies, unless typesize is 1", () => {
    expect(decodeHeader(patched(TWO_BLOCKS, 2, "15 04")).shuffle).toBe("shuffle");
    expect(decodeHeader(patched(TWO_BLOCKS, 2, "15 01")).shuffle).toBe("bitshuffle");
  });

  it("[FB-14] nbytes 0 is a chunk without blocks", () => {
    const empty = hex("02 01 00 01 00 00 00 00 01 00 00 00 10 00 00 00");
    expect(decodeHeader(empty)).toMatchObject({ nbytes: 0, nblocks: 0 });
  });
});

describe("blocks", () => {
  it("[FB-07] starts are after the table, before the last four bytes, and distinct, in any order", async () => {
    for (const [at, start] of [
      [16, "17"],
      [16, "00"],
      [20, "2d"],
      [20, "18"],
      [20, "ff ff ff ff"],
    ] as const) {
      expect((await rejectionOf(decode(patched(TWO_BLOCKS, at, start)))).code).toBe("BAD_FIELD");
    }
    expect(toHex(await decode(patched(TWO_BLOCKS, 16, "24 00 00 00 18")))).toBe(
      "08090a0b0c0d0e0f0001020304050607",
    );
  });

  it("[FB-08] blocks are split depending on the flag, typesize and stream length, but never the short last one", async () => {
    const header = (flags: string, typesize: string, blocksize: string) =>
      decodeHeader(
        hex(`02 01 ${flags} ${typesize} 00 10 00 00 ${blocksize} 80 00 00 00 ${"00".repeat(112)}`),
      );
    expect(header("20", "02", "00 01 00 00").split).toBe(true);
    expect(header("30", "02", "00 01 00 00").split).toBe(false);
    expect(header("20", "02", "fe 01 00 00").split).toBe(true);
    expect(header("20", "02", "fe 00 00 00").split).toBe(false);
    expect(header("20", "10", "00 08 00 00").split).toBe(true);
    expect(header("20", "11", "00 10 00 00").split).toBe(false);
    expect(errorOf(() => header("20", "03", "00 02 00 00")).code).toBe("BAD_FIELD");
    // Whole blocks are split, the short last one is not: both ways decode.
    const data = Uint8Array.from({ length: 300_002 }, (_, i) => (i >> 3) & 255);
    const chunk = await encode(data, { cname: "lz4", typesize: 2, blocksize: 4096 });
    expect(decodeHeader(chunk).split).toBe(true);
    expect(data.length % decodeHeader(chunk).blocksize).not.toBe(0);
    expect(toHex(await decode(chunk)) === toHex(data)).toBe(true);
  });

  it("[FB-09] a stream's length is not negative, fits, and decodes to exactly the block", async () => {
    for (const length of ["ff ff ff ff", "09 00 00 00", "00 00 00 7f", "07 00 00 00"]) {
      expect((await rejectionOf(decode(patched(TWO_BLOCKS, 36, length)))).code).toBe("BAD_CHUNK");
    }
  });

  it("[FB-10] a stream as long as the block is stored, whatever the codec", async () => {
    for (const flags of ["10", "30", "50", "70", "90"]) {
      expect(toHex(await decode(patched(TWO_BLOCKS, 2, flags)))).toBe("000102030405060708090a0b0c0d0e0f");
    }
  });

  it("[FB-11] shuffle: byte 0 of every element first; an incomplete element stays at the end", async () => {
    expect(toHex(await decode(patched(TWO_BLOCKS, 2, "11 02")))).toBe("0004010502060307080c090d0a0e0b0f");
    expect(toHex(await decode(patched(TWO_BLOCKS, 2, "11 03")))).toBe(
      "000204010305060708" + "0a0c090b0d0e0f",
    );
  });

  it("[FB-12] bitshuffle: rows of bits, element 0 lowest; blocks whose element count is not a multiple of 8 are unchanged", async () => {
    const chunk = patched(patched(TWO_BLOCKS, 2, "14 01"), 28, "01 00 00 00 00 00 00 80");
    expect(toHex((await decode(chunk)).subarray(0, 8))).toBe("0100000000000080");
    expect(toHex((await decode(patched(chunk, 28, "03 01 00 00 00 00 00 00"))).subarray(0, 8))).toBe(
      "0301000000000000",
    );
    expect(toHex(await decode(patched(TWO_BLOCKS, 2, "14 02")))).toBe("000102030405060708090a0b0c0d0e0f");
  });
});
