import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { detectFile } from "../../src/format/header.ts";
import {
  carrayChunkName,
  parseCarrayChunkName,
  parseSuperchunkName,
  superchunkName,
} from "../../src/format/naming.ts";
import { loadFixtures } from "../fixtures/manifest.ts";
import { errorOf, hex, utf8 } from "./hex.ts";

describe("names", () => {
  it("[FN-01] chunk files of a carray count from 0", () => {
    expect(carrayChunkName(0)).toBe("__0.blp");
    for (const n of [0, 1, 9, 10, 99_999, 1e12]) expect(parseCarrayChunkName(carrayChunkName(n))).toBe(n);
  });

  it("[FN-02] superchunks count from 1, as numbers", () => {
    expect(superchunkName(1)).toBe("__1__.bin");
    for (const n of [1, 2, 10, 99_999]) expect(parseSuperchunkName(superchunkName(n))).toBe(n);
    expect(parseSuperchunkName("__0__.bin")).toBeUndefined();
  });

  it.each([
    "__01.blp",
    "__-1.blp",
    "__.blp",
    "__1.blp~",
    "x__1.blp",
    "__1.BLP",
    "__1__.bin",
    "__1e3.blp",
    "__1234567890123456.blp",
    "__1\n.blp",
  ])("[FN-01] %s is not a chunk file", (name) => {
    expect(parseCarrayChunkName(name)).toBeUndefined();
  });

  it.each(["__01__.bin", "__1__.bin.tmp", "__1.bin", "__-1__.bin", "____.bin", "__1.blp", "1", ""])(
    "[FN-02] %s is not a superchunk",
    (name) => {
      expect(parseSuperchunkName(name)).toBeUndefined();
    },
  );
});

describe("detection", () => {
  const files = loadFixtures("bloscpack-1", "bloscpack-2", "bloscpack-3");

  it.each(files.map((fixture) => [fixture.path, fixture] as const))(
    "[F1-04] %s is recognized by its first bytes, whatever its name",
    (_, fixture) => {
      const bytes = new Uint8Array(readFileSync(fixture.file));
      for (const name of ["a.blp", "a", "a.png"]) {
        expect(detectFile(bytes.subarray(0, 32), name, bytes.length)).toEqual({ dialect: fixture.dialect });
      }
    },
  );

  it("a file of version 4 is a superchunk", () => {
    const head = new Uint8Array(32);
    head.set(hex("62 6c 70 6b 04 01"));
    expect(detectFile(head, "__1__.bin", 32)).toEqual({ dialect: "superchunk-file" });
  });

  it("an empty file and one that ends inside its header are TRUNCATED", () => {
    const head = hex(
      "62 6c 70 6b 03 01 00 08 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00",
    );
    for (let size = 0; size < 32; size++) {
      for (const name of ["a.blp", "a"])
        expect(errorOf(() => detectFile(head.subarray(0, size), name, size)).code).toBe("TRUNCATED");
    }
    expect(detectFile(head, "a", 32).dialect).toBe("bloscpack-3");
  });

  it.each([
    ["a Parquet file", "a", utf8("PAR1\u0015\u0004")],
    ["an Arrow file", "a.feather", utf8("ARROW1\0\0")],
    ["an Arrow file", "a.arrows", hex("ff ff ff ff 10 00 00 00")],
    ["a .npy file", "a", hex("93 4e 55 4d 50 59 01 00")],
    ["a CSV file", "a.csv", utf8("a,b\n1,2\n")],
  ])("%s is UNSUPPORTED, with the commands that read its rows (%s)", (what, name, bytes) => {
    const error = errorOf(() => detectFile(bytes, name, bytes.length));
    expect(error.code).toBe("UNSUPPORTED");
    expect(error.message).toContain(
      `${name}: it is ${what}, not an archive: superchunk create DST --from FILE`,
    );
  });

  it("other bytes are BAD_MAGIC under a known extension, and otherwise not an archive", () => {
    for (const name of ["a.blp", "b/__1__.bin", "A.BLP"]) {
      expect(errorOf(() => detectFile(utf8("PK\u0003\u0004"), name, 4)).code).toBe("BAD_MAGIC");
    }
    const error = errorOf(() => detectFile(utf8("PK\u0003\u0004"), "a.zip", 4));
    expect(error.code).toBe("UNSUPPORTED");
    expect(error.message).toBe("a.zip: it is a packed file: unpack it first, with unzip");
    const gzip = errorOf(() => detectFile(hex("1f 8b 08 08"), "a.blp", 4));
    expect([gzip.code, gzip.message]).toEqual([
      "BAD_MAGIC",
      "a.blp: it is packed by gzip: unpack it first, with gunzip",
    ]);
    const text = errorOf(() => detectFile(utf8("text"), "a.txt", 4));
    expect(text.message).toMatch(
      /^a\.txt: superchunk does not recognise it: it starts with 74 65 78 74, not/,
    );
  });

  it("an unknown version is UNSUPPORTED, and the message lists the known ones", () => {
    const error = errorOf(() => detectFile(hex("62 6c 70 6b 09"), "a.blp", 5));
    expect(error.code).toBe("UNSUPPORTED");
    expect(error.message).toContain("versions 1 to 4");
  });
});
