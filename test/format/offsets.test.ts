import { describe, expect, it } from "vitest";
import { checkOffsets, decodeOffsets } from "../../src/archive/places/blpk-file.ts";
import { encodeOffsets } from "../../src/format/encode-file.ts";
import fc from "../property.ts";
import { errorOf, hex } from "./hex.ts";

const place = { nchunks: 3, tableAt: 32, tableEnd: 72, fileSize: 500, path: "a.blp" };
const table = (...values: number[]): Float64Array => Float64Array.from(values);

describe("decoding", () => {
  it("[FO-01] offsets are int64, and -1 is kept", () => {
    const bytes = hex("48 00 00 00 00 00 00 00   16 03 00 00 01 00 00 00   ff ff ff ff ff ff ff ff");
    expect([...decodeOffsets(bytes, "a.blp", 32)]).toEqual([72, 0x1_0000_0316, -1]);
  });

  it("other negative values and those above 2^53 are BAD_FIELD at their byte", () => {
    for (const bad of [
      "fe ff ff ff ff ff ff ff",
      "00 00 00 00 00 00 00 40",
      "00 00 00 00 00 00 00 80",
      "00 00 00 00 00 00 20 00",
    ]) {
      const error = errorOf(() => decodeOffsets(hex(`48 00 00 00 00 00 00 00 ${bad}`), "a.blp", 32));
      expect(error.code).toBe("BAD_FIELD");
      expect(error.details).toMatchObject({ path: "a.blp", offset: 40, chunk: 1 });
    }
  });

  it("a table that ends inside an entry is TRUNCATED", () => {
    for (const length of [1, 7, 9, 15]) {
      expect(errorOf(() => decodeOffsets(new Uint8Array(length), "a.blp", 32)).code).toBe("TRUNCATED");
    }
    expect(decodeOffsets(new Uint8Array(0), "a.blp", 32)).toHaveLength(0);
  });

  it("decode(encode(offsets)) is the offsets, and encoding refuses invalid ones", () => {
    const values = fc.array(fc.oneof(fc.constant(-1), fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER })));
    fc.assert(
      fc.property(values, (list) => {
        expect([...decodeOffsets(encodeOffsets(list), "a.blp", 0)]).toEqual(list);
      }),
    );
    for (const bad of [-2, 0.5, 2 ** 53, Number.NaN])
      expect(errorOf(() => encodeOffsets([bad])).code).toBe("BAD_ARGUMENT");
  });
});

describe("checking", () => {
  it("[FO-04] [FO-06] order is free, and spare entries are -1", () => {
    expect(() => checkOffsets(table(72, 200, 484, -1, -1), place)).not.toThrow();
    expect(() => checkOffsets(table(484, 72, 200, -1, -1), place)).not.toThrow();
    const error = errorOf(() => checkOffsets(table(72, 200, 300, -1, 400), place));
    expect(error.code).toBe("BAD_FIELD");
    expect(error.details).toMatchObject({ offset: 64, chunk: 4, found: 400 });
  });

  it("[FO-02] [FO-08] every chunk starts after the table and at least 16 bytes before the end", () => {
    for (const bad of [0, 71, 485, 500, 1e15]) {
      const error = errorOf(() => checkOffsets(table(72, bad, 300, -1, -1), place));
      expect(error.code).toBe(bad < 72 ? "BAD_FIELD" : "TRUNCATED");
      expect(error.details).toMatchObject({ path: "a.blp", offset: 40, chunk: 1, found: bad });
    }
  });

  it("[FO-03] no two chunks start less than a Blosc header apart", () => {
    for (const bad of [
      [72, 72, 300],
      [300, 72, 300],
      [300, 87, 72],
      [72, 80, 300],
    ]) {
      expect(errorOf(() => checkOffsets(table(...bad, -1, -1), place)).code).toBe("BAD_FIELD");
    }
    expect(() => checkOffsets(table(300, 88, 72, -1, -1), place)).not.toThrow();
  });

  it("[FO-05] all -1 is an aborted write, a single -1 a chunk that was not written: INCOMPLETE", () => {
    const aborted = errorOf(() => checkOffsets(table(-1, -1, -1, -1, -1), place));
    expect(aborted.code).toBe("INCOMPLETE");
    expect(aborted.message).toBe(
      "a.blp: all 3 offsets are -1: writing the file was interrupted. Look for a complete copy",
    );
    const one = errorOf(() => checkOffsets(table(72, -1, 300, -1, -1), place));
    expect(one.code).toBe("INCOMPLETE");
    expect(one.details).toMatchObject({ chunk: 1, offset: 40 });
  });

  it("no chunks need no offsets", () => {
    expect(() => checkOffsets(table(), { ...place, nchunks: 0, tableEnd: 32 })).not.toThrow();
  });
});
