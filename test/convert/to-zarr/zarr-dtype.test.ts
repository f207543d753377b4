import { describe, expect, it } from "vitest";
import { parseDType } from "../../../src/format/dtype.ts";
import type { JsonValue } from "../../../src/format/types.ts";
import { NOT_A_TIME } from "../../../src/values/values.ts";
import { mapDType } from "../../../src/zarr/document/zarr-dtype.ts";

const map = (dtype: JsonValue, fillValue?: JsonValue, portable = false) =>
  mapDType(parseDType(dtype, "x"), { path: "x", portable, fillValue });
const little = { name: "bytes", configuration: { endian: "little" } };
const big = { name: "bytes", configuration: { endian: "big" } };
const bytes = { name: "bytes" };
const sized = (name: string, length_bytes: number) => ({ name, configuration: { length_bytes } });
const dated = (name: string, unit: string, scale_factor = 1) => ({
  name,
  configuration: { unit, scale_factor },
});

describe("data types", () => {
  // As zarr-python 3.4.2 writes them for these numpy dtypes.
  it.each([
    ["|b1", "bool", false, bytes],
    ["|i1", "int8", 0, bytes],
    ["<i2", "int16", 0, little],
    ["<i4", "int32", 0, little],
    ["<i8", "int64", 0, little],
    ["|u1", "uint8", 0, bytes],
    ["<u2", "uint16", 0, little],
    ["<u4", "uint32", 0, little],
    ["<u8", "uint64", 0, little],
    ["<f2", "float16", 0, little],
    ["<f4", "float32", 0, little],
    ["<f8", "float64", 0, little],
    ["<c8", "complex64", [0, 0], little],
    ["<c16", "complex128", [0, 0], little],
    ["|S5", sized("null_terminated_bytes", 5), "", bytes],
    ["<U3", sized("fixed_length_utf32", 12), "", little],
    ["<M8[ns]", dated("numpy.datetime64", "ns"), NOT_A_TIME, little],
    ["<M8[25s]", dated("numpy.datetime64", "s", 25), NOT_A_TIME, little],
    ["<M8", dated("numpy.datetime64", "generic"), NOT_A_TIME, little],
    ["<m8[D]", dated("numpy.timedelta64", "D"), NOT_A_TIME, little],
    ["|V2", sized("raw_bytes", 2), "AAA=", bytes],
    [">f8", "float64", 0, big],
    [">U3", sized("fixed_length_utf32", 12), "", big],
    [">M8[s]", dated("numpy.datetime64", "s"), NOT_A_TIME, big],
  ] as const)(
    "%s is described as zarr-python describes it, with its bytes unchanged",
    (dtype, dataType, fill, codec) => {
      const type = map(dtype);
      expect(type).toMatchObject({ dataType, bytesCodec: codec, itemShape: [], notes: [] });
      expect(type.fill.json).toEqual(fill);
      expect(type.transform).toBeUndefined();
    },
  );

  it("structs nest, and their dates count from zero", () => {
    const type = map([
      [
        "n",
        [
          ["x", "<i2"],
          ["y", "|b1"],
        ],
      ],
      ["d", "<M8[ns]"],
      ["u", "<U2"],
      ["v", "|V3"],
      ["c", "<c8"],
    ] as JsonValue);
    expect(type.dataType).toEqual({
      name: "struct",
      configuration: {
        fields: [
          {
            name: "n",
            data_type: {
              name: "struct",
              configuration: {
                fields: [
                  { name: "x", data_type: "int16" },
                  { name: "y", data_type: "bool" },
                ],
              },
            },
          },
          { name: "d", data_type: dated("numpy.datetime64", "ns") },
          { name: "u", data_type: sized("fixed_length_utf32", 8) },
          { name: "v", data_type: sized("raw_bytes", 3) },
          { name: "c", data_type: "complex64" },
        ],
      },
    });
    expect(type.fill.json).toEqual({ n: { x: 0, y: false }, d: 0, u: "", v: "AAAA", c: [0, 0] });
    expect(type.transform).toBeUndefined();
  });

  it("a struct whose fields are all big-endian keeps its bytes", () => {
    expect(
      map([
        ["a", ">i4"],
        ["b", ">f8"],
        ["t", "|S2"],
      ] as JsonValue),
    ).toMatchObject({ bytesCodec: big, transform: undefined });
  });

  it("a struct of both byte orders is converted to little-endian, field by field", () => {
    const type = map([
      ["a", ">i4"],
      ["b", "<i2"],
      ["u", ">U1"],
      ["c", ">c8"],
    ] as JsonValue);
    expect(type.bytesCodec).toEqual(little);
    const item = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18];
    expect([...(type.transform?.apply(Uint8Array.from([...item, ...item])) ?? [])].slice(18)).toEqual([
      4, 3, 2, 1, 5, 6, 10, 9, 8, 7, 14, 13, 12, 11, 18, 17, 16, 15,
    ]);
  });

  it("a struct with padding is packed", () => {
    const dtype = mapDType(
      {
        kind: "struct",
        itemSize: 8,
        byteOrder: "none",
        fields: [
          { name: "a", offset: 0, shape: [], dtype: { kind: "uint", itemSize: 1, byteOrder: "none" } },
          { name: "b", offset: 4, shape: [], dtype: { kind: "int", itemSize: 2, byteOrder: "little" } },
        ],
      },
      { path: "x" },
    );
    expect(dtype.itemSize).toBe(3);
    expect([...(dtype.transform?.apply(Uint8Array.from([1, 0, 0, 0, 2, 3, 0, 0])) ?? [])]).toEqual([1, 2, 3]);
  });

  it.each([
    ["|O", "pickles"],
    [
      [
        ["a", "<i4"],
        ["o", "|O"],
      ],
      "pickles",
    ],
    ["<f16", "16 bytes"],
    ["|S0", "0 bytes"],
    ["<U0", "0 bytes"],
    [[["v", "<f4", [3]]], "sub-array"],
  ] as const)("%j is refused, with the reason", (dtype, reason) => {
    expect(() => map(dtype as JsonValue)).toThrow(
      expect.objectContaining({ code: "UNSUPPORTED", message: expect.stringContaining(reason) }),
    );
  });
});

describe("portable data types", () => {
  it.each([
    [
      "<M8[ns]",
      "int64",
      [],
      little,
      { units: "nanoseconds since 1970-01-01", calendar: "proleptic_gregorian" },
    ],
    [">M8[D]", "int64", [], big, { units: "days since 1970-01-01", calendar: "proleptic_gregorian" }],
    ["<m8[ms]", "int64", [], little, { units: "milliseconds" }],
    ["<M8[25s]", "int64", [], little, {}],
    ["<M8[M]", "int64", [], little, {}],
    ["|S5", "uint8", [5], bytes, {}],
    [">U3", "uint32", [3], big, {}],
    ["|V4", "uint8", [4], bytes, {}],
    ["<f16", "uint8", [16], bytes, {}],
    [
      [
        ["a", ">i4"],
        ["v", "<f4", [3]],
      ],
      "uint8",
      [16],
      bytes,
      {},
    ],
  ] as const)(
    "%j are numbers that every reader accepts, with numpy's dtype stored next to them",
    (dtype, dataType, itemShape, codec, attributes) => {
      const type = map(dtype as JsonValue, undefined, true);
      expect(type).toMatchObject({
        dataType,
        itemShape,
        bytesCodec: codec,
        original: dtype,
        transform: undefined,
      });
      expect(type.attributes).toEqual(attributes);
    },
  );

  it("numbers are unchanged, and objects are still refused", () => {
    expect(map("<f8", undefined, true)).toMatchObject({ dataType: "float64", original: undefined });
    expect(() => map("|O", undefined, true)).toThrow(expect.objectContaining({ code: "UNSUPPORTED" }));
  });
});

describe("fill values", () => {
  it.each([
    ["<f8", -1.5, -1.5, "000000000000f8bf"],
    [">f4", 1, 1, "3f800000"],
    ["<f8", Number.NaN, "NaN", "000000000000f87f"],
    ["<f4", Number.NEGATIVE_INFINITY, "-Infinity", "000080ff"],
    ["<f8", -0, "0x8000000000000000", "0000000000000080"],
    ["<f2", -0.5, -0.5, "00b8"],
    ["<f2", 65504, 65504, "ff7b"],
    ["<f2", 2 ** -24, 2 ** -24, "0100"],
    ["<i8", 9223372036854775807n, 9223372036854775807n, "ffffffffffffff7f"],
    ["<i2", -2, -2, "feff"],
    [">u4", 258, 258, "00000102"],
    ["|b1", true, true, "01"],
    ["|S3", "ab", "YWI=", "616200"],
    ["|V3", "\u00ff\u0000", "/wAA", "ff0000"],
    ["<c8", 1, [1, 0], "0000803f00000000"],
    [">c8", ["-Infinity", 1], ["-Infinity", 1], "000080ff0000803f"],
    ["<c16", [-0, "NaN"], ["0x8000000000000000", "NaN"], "0000000000000080000000000000f87f"],
    [
      "[('a', '<i2'), ('b', '>c8'), ('d', '<M8[s]'), ('s', 'S2')]",
      [7, [0, 1], null, "x"],
      { a: 7, b: [0, 1], d: 0, s: "eA==" },
      "0700000000000000803f00000000000000007800",
    ],
    ["<U2", "é", "é", "e900000000000000"],
    ["<M8[ns]", 0, 0, "0000000000000000"],
    [">M8[ns]", "NaT", NOT_A_TIME, "8000000000000000"],
    [
      "<i2",
      [
        [7, 7],
        [7, 7],
      ],
      7,
      "0700",
    ],
  ] as const)("%s %s is carried over as JSON and as bytes", (dtype, stored, json, hex) => {
    const { fill, notes } = map(dtype, stored as JsonValue);
    expect(fill.json).toEqual(json);
    expect(Buffer.from(fill.item).toString("hex")).toBe(hex);
    expect(notes).toEqual([]);
  });

  it.each([
    ["<i2", 1.5],
    ["|u1", 300],
    ["|u1", -1],
    ["<f2", 65521],
    ["<f4", 1e300],
    ["<i2", [1, 2]],
    ["|S2", "abc"],
    ["|b1", 2],
    ["<c8", [1, 2, 3]],
    [
      "<c8",
      [
        [1, 2],
        [1, 2],
      ],
    ],
    ["|V2", "abc"],
  ] as const)("%s cannot hold %s: the default is used, and reported", (dtype, stored) => {
    const { fill, notes } = map(dtype, stored as JsonValue);
    expect(fill.item.every((byte) => byte === 0)).toBe(true);
    expect(notes).toEqual([expect.stringContaining("cannot be a fill value")]);
  });
});
