/** The rules of FORMAT.md about values and errors. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { type ErrorCode, SuperchunkError } from "../../src/errors.ts";
import { parseDType } from "../../src/format/dtype.ts";
import { decodeFileHeader } from "../../src/format/header.ts";
import { open as openPath } from "../../src/node/index.ts";
import { ByteStringArray, toValues, UnicodeStringArray } from "../../src/values/values.ts";
import { findFixture } from "../fixtures/manifest.ts";
import { toJsonValues } from "../values/json-values.ts";
import { errorOf, hex, rejectionOf, toHex } from "./hex.ts";
import { ABC } from "./small-archives.ts";

describe("values", () => {
  it("[FD.6-01] each dtype has its JavaScript type", () => {
    const types: [string, string][] = [
      ["bool", "BoolArray"],
      ["<i1", "Int8Array"],
      ["<u1", "Uint8Array"],
      [">i2", "Int16Array"],
      ["<u2", "Uint16Array"],
      ["<i4", "Int32Array"],
      [">u4", "Uint32Array"],
      ["<i8", "BigInt64Array"],
      [">u8", "BigUint64Array"],
      ["<f2", "Float32Array"],
      ["<f4", "Float32Array"],
      [">f8", "Float64Array"],
      ["<c8", "ComplexArray"],
      ["<c16", "ComplexArray"],
      ["<M8[D]", "BigInt64Array"],
      [">m8[s]", "BigInt64Array"],
      ["|S16", "ByteStringArray"],
      ["<U4", "UnicodeStringArray"],
      ["|V16", "RawArray"],
      ["[('a', '<f8'), ('b', '<f8')]", "StructArray"],
    ];
    for (const [dtype, name] of types) {
      expect([dtype, toValues(new Uint8Array(16), parseDType(dtype, "a")).constructor.name]).toEqual([
        dtype,
        name,
      ]);
    }
    for (const dtype of ["<f12", "<f16", "<c24", "<c32", "object"])
      expect(errorOf(() => toValues(new Uint8Array(96), parseDType(dtype, "a"))).code).toBe("UNSUPPORTED");
  });

  it("[FD.6-02] a character beyond Unicode is BAD_FIELD", () => {
    expect(errorOf(() => [...new UnicodeStringArray(hex("00 00 11 00"), 4, true)]).code).toBe("BAD_FIELD");
    expect([...new ByteStringArray(hex("e9 00 61 00 00 00"), 3)]).toEqual(["é\0a", ""]);
  });

  it("[FD.7-01] [FD.7-02] [FD.7-03] [FD.7-04] values as JSON", () => {
    const json = (bytes: string, dtype: string) =>
      toJsonValues(toValues(hex(bytes), parseDType(dtype, "a")), parseDType(dtype, "a"));
    expect(json("ff ff ff ff ff ff 1f 00  00 00 00 00 00 00 20 00", "<i8")).toEqual([
      2 ** 53 - 1,
      "9007199254740992",
    ]);
    expect(json("ff ff ff ff ff ff ff ff", "<u8")).toEqual(["18446744073709551615"]);
    expect(json("c3 a9 00  e9 41 00  ef bb bf", "|S3")).toEqual(["Ã©", "éA", "ï»¿"]);
    expect(json("00 00 00 00 00 00 e0 ff  01 00 00 00 00 00 e0 ff", "<i8")).toEqual([
      "-9007199254740992",
      -(2 ** 53 - 1),
    ]);
    expect(json("00 00 c0 7f 00 00 80 ff", "<c8")).toEqual([["NaN", "-Infinity"]]);
    expect(json("01 02 03 04 61", "[('v', '|u1', (2, 2)), ('t', '|S1')]")).toEqual([
      [
        [
          [1, 2],
          [3, 4],
        ],
        "a",
      ],
    ]);
    expect(json("7f c0 00 00 7f 80 00 00 ff 80 00 00 3f c0 00 00", ">f4")).toEqual([
      "NaN",
      "Infinity",
      "-Infinity",
      1.5,
    ]);
    expect(json("00 00 00 00 00 00 00 80  05 00 00 00 00 00 00 00", "<M8[ns]")).toEqual(["NaT", "5"]);
    expect(json("00 00 80 3f 00 00 00 c0", "<c8")).toEqual([[1, -2]]);
    expect(json("61 e9 00", "|S3")).toEqual(["aé"]);
    expect(json("01 ff", "|V2")).toEqual([[1, 255]]);
    expect(json("07 61 00", "[('a', '|u1'), ('b', '|S2')]")).toEqual([[7, "a"]]);
  });

  it("[FD-05] Python objects are refused, never unpickled", async () => {
    const archive = (await openPath(findFixture("carray/bcolz-object").file)) as ArrayArchive;
    expect((await rejectionOf(Promise.resolve().then(() => archive.get()))).code).toBe("UNSUPPORTED");
  });
});

describe("errors", () => {
  it("[FX-01] damage is what the table of FORMAT.md gives exit code 3", () => {
    const text = readFileSync(new URL("../../FORMAT.md", import.meta.url), "utf8");
    const rows = [...text.matchAll(/^\| ([A-Z_]+) \| .* \| (\d)(?: or \d)? \|$/gm)];
    expect(rows).toHaveLength(16);
    for (const [, code, exit] of rows)
      expect([code, new SuperchunkError(code as ErrorCode, "x").isDamage]).toEqual([code, exit === "3"]);
  });

  it("[FX-02] an error about damage gives file, byte, field, expected and found", () => {
    const error = errorOf(() =>
      decodeFileHeader(
        hex(`62 6c 70 6b 03 01 00 01 04 00 00 00 05 00 00 00 ${"00".repeat(16)}`),
        "data/__1__.bin",
      ),
    );
    expect(error.message).toBe(
      "data/__1__.bin: last-chunk at byte 12 is 5; expected at most chunk-size 4. The file is damaged; look for another copy",
    );
    expect(error.details).toEqual({
      path: "data/__1__.bin",
      offset: 12,
      field: "last-chunk",
      expected: "at most chunk-size 4",
      found: 5,
    });
    expect(toHex(ABC[2] ?? new Uint8Array(0))).toBe("0201020102000000020000001200000" + "0696a");
  });
});
