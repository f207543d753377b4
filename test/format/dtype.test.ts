import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { isSuperchunkError } from "../../src/errors.ts";
import { formatDType, parseDType, pythonDType } from "../../src/format/dtype.ts";
import { parseStorage } from "../../src/format/folder.ts";
import { givenDType } from "../../src/format/given-dtype.ts";
import { parseJson } from "../../src/format/json.ts";
import { parsePythonLiteral } from "../../src/format/python-literal.ts";
import type { DType, JsonValue } from "../../src/format/types.ts";
import { loadFixtures } from "../fixtures/manifest.ts";
import fc from "../property.ts";
import { sweep } from "../scope.ts";
import { errorOf } from "./hex.ts";

const parse = (stored: JsonValue): DType => parseDType(stored, "meta/storage");

/** How numpy 1.26.4 spells dtypes; made by numpy-dtypes.py. */
interface NumpyRow {
  readonly str: string;
  readonly repr: string;
  readonly itemsize: number;
  readonly descr?: JsonValue;
  readonly descr_repr?: string;
  readonly offsets?: { readonly [name: string]: number };
}
const numpy = parseJson(
  readFileSync(new URL("numpy-dtypes.json", import.meta.url)),
  "numpy-dtypes.json",
) as unknown as NumpyRow[];

describe("numpy's spellings", () => {
  it("there are rows of every kind", () => {
    expect(new Set(numpy.map(({ str }) => parse(str).kind)).size).toBe(12);
  });

  it.each(numpy.map((row) => [row.str, row] as const))(
    "[FD.1-01] [FD.2-01] [FD.3-01] %s: str, repr and descr are one dtype",
    (_, row) => {
      const dtype = parse(row.str);
      expect(dtype.itemSize).toBe(row.itemsize);
      expect(parse(row.repr)).toEqual(dtype);
      if (row.descr !== undefined) expect(parse(row.descr)).toEqual(dtype);
      if (row.descr_repr !== undefined) expect(parse(row.descr_repr)).toEqual(dtype);
      if (dtype.kind === "struct") {
        expect(Object.fromEntries(dtype.fields.map(({ name, offset }) => [name, offset]))).toEqual(
          row.offsets,
        );
      }
    },
  );

  it.each(numpy.map((row) => [row.str, row] as const))(
    "[FD.5-01] %s is written as numpy's descr and its repr",
    (text, row) => {
      const dtype = parse(text);
      // Titles are not kept.
      if (row.descr_repr?.includes("title") === true) {
        expect(pythonDType(dtype)).toBe("[('name', '<i4'), ('b', '|b1')]");
      } else if (row.descr !== undefined) {
        expect(formatDType(dtype)).toEqual(row.descr);
        expect(pythonDType(dtype)).toBe(row.descr_repr);
      } else {
        expect(formatDType(dtype)).toHaveProperty("offsets");
      }
      if (row.descr_repr?.includes("title") !== true) {
        expect(parse(formatDType(dtype))).toEqual(dtype);
        expect(parse(pythonDType(dtype))).toEqual(dtype);
      }
    },
  );
});

describe("there are arrays", () => {
  const arrays = loadFixtures("carray", "blz-superchunk").filter(({ kind }) => kind === "array");

  it("there are arrays", () => {
    expect(arrays.length).toBeGreaterThan(20);
  });

  it.each(arrays.map((fixture) => [fixture.path, fixture] as const))(
    "the dtype of %s is the manifest's",
    (path, fixture) => {
      const { dtype } = parseStorage(new Uint8Array(readFileSync(join(fixture.file, "meta/storage"))), path);
      expect(formatDType(dtype)).toEqual(fixture.dtype);
    },
  );
});

describe("rules", () => {
  it("[FD-01] titles, unnamed padding and unnamed fields are treated as in numpy", () => {
    expect(
      parse([
        [["title", "name"], "<i4"],
        ["", "|V3"],
        ["", "<f4"],
      ]),
    ).toEqual({
      kind: "struct",
      itemSize: 11,
      byteOrder: "none",
      fields: [
        { name: "name", dtype: { kind: "int", itemSize: 4, byteOrder: "little" }, shape: [], offset: 0 },
        { name: "f2", dtype: { kind: "float", itemSize: 4, byteOrder: "little" }, shape: [], offset: 7 },
      ],
    });
  });

  it("[FD.2-01] spellings that numpy reads but does not write", () => {
    for (const [text, same] of [
      ["?", "|b1"],
      ["<?", "|b1"],
      ["=b1", "|b1"],
      ["|a5", "|S5"],
      ["a5", "|S5"],
      ["|O4", "|O"],
      ["|O8", "|O"],
      ["O", "|O"],
      ["<m8[generic]", "<m8"],
      ["<M8[1ns]", "<M8[ns]"],
    ])
      expect([text, formatDType(parse(text ?? ""))]).toEqual([text, same]);
  });

  it("[FD-02] a missing byte order, = and | mean little-endian", () => {
    for (const text of ["f8", "=f8", "|f8", "<f8"])
      expect(parse(text)).toEqual({ kind: "float", itemSize: 8, byteOrder: "little" });
    expect(parse(">u1")).toEqual({ kind: "uint", itemSize: 1, byteOrder: "none" });
    expect(parse("|S0").itemSize).toBe(0);
  });

  it("[FD-03] a well-formed but unknown type is UNSUPPORTED, an impossible one is BAD_FIELD", () => {
    for (const text of ["bfloat16", "banana", "", "str", "<", "float"])
      expect([text, errorOf(() => parse(text)).code]).toEqual([text, "UNSUPPORTED"]);
    for (const stored of [
      "<f3",
      "<i3",
      "<i16",
      "<b2",
      "|c4",
      "<M8[fortnight]",
      "<M8[0s]",
      "'<f8",
      "[('a', '<i4'",
      "<U999999999",
      null,
      5,
      true,
      [["a"]],
      [["a", "<i4", [-1]]],
      [
        ["a", "<i4"],
        ["a", "<f4"],
      ],
      { names: ["a"] },
    ] as JsonValue[]) {
      expect([stored, errorOf(() => parse(stored)).code]).toEqual([stored, "BAD_FIELD"]);
    }
    expect(errorOf(() => parse(["<f8", [3]])).code).toBe("UNSUPPORTED");
  });

  it("[FD-04] item size, depth and number of fields are limited", () => {
    expect(errorOf(() => parse([["a", "<f8", [65536, 65536]]])).code).toBe("BAD_FIELD");
    expect(
      errorOf(() =>
        parse([
          ["a", "|S2147483647"],
          ["b", "|S2"],
        ]),
      ).code,
    ).toBe("BAD_FIELD");
    expect(parse([["a", "<i4", new Array<number>(32).fill(1)]]).itemSize).toBe(4);
    expect(errorOf(() => parse([["a", "<i4", new Array<number>(33).fill(1)]])).code).toBe("BAD_FIELD");
    let deep: JsonValue = "<i4";
    for (let i = 0; i < 40; i++) deep = [["a", deep]];
    expect(errorOf(() => parse(deep)).code).toBe("LIMIT");
    expect(errorOf(() => parse("'".repeat(3))).code).toBe("BAD_FIELD");
    expect(errorOf(() => parse(`${"(".repeat(100)}'<f8'${")".repeat(100)}`)).code).toBe("LIMIT");
    expect(errorOf(() => parse(Array.from({ length: 70_000 }, (_, i) => [`f${i}`, "<i4"]))).code).toBe(
      "LIMIT",
    );
  });

  it.each<[string, JsonValue]>([
    ["a sub-array of length zero", [["a", "<i4", [2147483647, 0]]]],
    ["a sub-array of items without bytes", [["a", "|V0", [2147483647]]]],
    ["nested sub-arrays of length zero", [["a", [["b", "|S0", [60000]]], [60000]]]],
    ["dimensions too large for any number", [["a", "<i4", [0, ...new Array<number>(31).fill(2147483647)]]]],
    [
      "large fields that overlap",
      {
        names: ["a", "b"],
        formats: [
          ["|i1", [4000000]],
          ["|i1", [4000000]],
        ],
        offsets: [0, 0],
      },
    ],
  ])("[FD-04] an item with far more values than bytes is refused: %s", (_, stored) => {
    expect(errorOf(() => parse(stored)).code).toBe("LIMIT");
  });

  it("[FD-04] unions, and small sub-arrays of length zero, are read", () => {
    const union = { names: ["a", "b"], formats: ["<f8", ["|u1", [8]]], offsets: [0, 0] };
    expect(parse(union).itemSize).toBe(8);
    expect(parse([["a", "<i4", [1000, 0]]]).itemSize).toBe(0);
  });

  it("[FD.4-01] [FD.4-02] fields given as a list are packed, sub-arrays included", () => {
    const dtype = parse("[('a', '<i4'), ('v', '<f4', (3,)), ('w', '<i2', 2), ('b', '|S1')]");
    expect(dtype).toMatchObject({
      itemSize: 21,
      fields: [{ offset: 0 }, { offset: 4, shape: [3] }, { offset: 16, shape: [2] }, { offset: 20 }],
    });
  });

  it("[FD.4-03] [FD.4-04] a dict places its fields, and its itemsize covers them", () => {
    expect(parse({ names: ["a", "b"], formats: ["<i4", "<i2"] })).toMatchObject({
      itemSize: 6,
      fields: [{ offset: 0 }, { offset: 4 }],
    });
    for (const bad of [
      { names: ["a"], formats: ["<i4"], itemsize: 3 },
      { names: ["a"], formats: ["<i4"], offsets: [-1] },
      { names: ["a"], formats: ["<i4"], offsets: [0, 4] },
      { names: ["a", "b"], formats: ["<i4"] },
      { names: "a", formats: ["<i4"] },
    ]) {
      expect(errorOf(() => parse(bad)).code).toBe("BAD_FIELD");
    }
  });

  it("[FD.4-04] [FD.5-01] a name in a dict may be empty, and such a field is never written as padding", () => {
    const dict = { names: ["", "a"], formats: ["|V4", "<i4"], offsets: [0, 4], itemsize: 8 };
    const dtype = parse(dict);
    expect(formatDType(dtype)).toEqual(dict);
    expect(parse(pythonDType(dtype))).toEqual(dtype);
    expect(errorOf(() => parse({ names: ["a", "a"], formats: ["<i4", "<i4"] })).code).toBe("BAD_FIELD");
  });

  it("[FD-04] 32 levels and 65536 fields are read", () => {
    let deep: JsonValue = "<i4";
    for (let i = 0; i < 32; i++) deep = [["a", deep]];
    expect(parse(deep).itemSize).toBe(4);
    expect(errorOf(() => parse([["a", deep]])).code).toBe("LIMIT");
    // Fields of fields are counted together: a thousand times a thousand of them took a gigabyte.
    const inner = Array.from({ length: 255 }, (_, i) => [`f${i}`, "|i1"]);
    const nested = (count: number): JsonValue => Array.from({ length: count }, (_, i) => [`s${i}`, inner]);
    expect(parse(nested(256)).itemSize).toBe(65_280);
    expect(errorOf(() => parse(nested(257))).code).toBe("LIMIT");
    const fields = Array.from({ length: 65_536 }, (_, i) => [`f${i}`, "|i1"]);
    expect(parse(fields).itemSize).toBe(65_536);
    expect(errorOf(() => parse([...fields, ["x", "|i1"]])).code).toBe("LIMIT");
  });

  it("an error names the file and the dtype", () => {
    expect(errorOf(() => parse("<f3")).message).toBe(
      'meta/storage: the dtype "<f3" is invalid: expected one of 2, 4, 8, 12, 16 bytes. The metadata are damaged; look for another copy',
    );
    expect(errorOf(() => parse("bfloat16")).message).toBe(
      'meta/storage: the dtype "bfloat16" is not one that superchunk knows',
    );
  });
});

describe("Python literals", () => {
  it("[FD.3-02] strings, numbers, tuples and dicts of Python 2 and 3 are read, and nothing is evaluated", () => {
    expect(
      parsePythonLiteral(
        "[(u'a', b'\\x41\\n\\u00e9\\101'), (1, -2.5, 3L), {'k': None, \"t\": True}, (5), (6,), ()]",
        "a",
      ),
    ).toEqual([["a", "A\néA"], [1, -2.5, 3], { k: null, t: true }, 5, [6], []]);
    expect(parsePythonLiteral("123456789012345678901234567890", "a")).toBe(123456789012345678901234567890n);
    for (const text of [
      "__import__('os')",
      "1 + 1",
      "[1",
      "{'a': 1",
      "'a' 'b'",
      "f'x'",
      "{1: 2}",
      "'\\q'",
      "'\n'",
      "[,]",
      "'\\U00110000'",
      "",
    ]) {
      expect([text, errorOf(() => parsePythonLiteral(text, "a")).code]).toEqual([text, "BAD_FIELD"]);
    }
    const proto = parsePythonLiteral("{'__proto__': {'x': 1}}", "a") as Record<string, unknown>;
    expect(Object.keys(proto)).toEqual(["__proto__"]);
    expect(proto["x"]).toBeUndefined();
  });

  it("[FD.3-02] length and depth are limited", () => {
    const nested = (levels: number) => `${"[".repeat(levels)}${"]".repeat(levels)}`;
    expect(Array.isArray(parsePythonLiteral(nested(64), "a"))).toBe(true);
    for (const text of [nested(66), `'${"a".repeat(2 ** 20)}'`])
      expect(errorOf(() => parsePythonLiteral(text, "a")).code).toBe("LIMIT");
  });

  it("any string as a dtype gives a dtype or an error of this library", () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(..."[](){}',\"<>|=fiSUVMm8419 :nsab\\u\n") }), (text) => {
        try {
          expect(parse(text).itemSize).toBeGreaterThanOrEqual(0);
        } catch (error) {
          expect(isSuperchunkError(error)).toBe(true);
        }
      }),
      { numRuns: sweep(3000, 150) },
    );
  });
});

describe("a dtype from a caller", () => {
  it("has numpy's other names in fields too", () => {
    const nested = [
      ["a", "half"],
      [
        "b",
        [
          ["c", "single", [2]],
          ["d", "double"],
        ],
      ],
    ];
    expect(formatDType(givenDType(nested))).toEqual([
      ["a", "<f2"],
      [
        "b",
        [
          ["c", "<f4", [2]],
          ["d", "<f8"],
        ],
      ],
    ]);
  });

  it.each([
    ["Float64", "float64"],
    ["BigInt64Array", "int64"],
    ["DOUBLE", "float64 or float32"],
    ["timestamp[us]", "datetime64[us]"],
    ["duration[ns]", "timedelta64[ns]"],
    ["date32[day]", "datetime64[D] or datetime64[ms]"],
    ["Utf8", "<U10 (10 characters) or |S10 (10 bytes)"],
    ["categorical", "<U10 (10 characters) or |S10 (10 bytes)"],
    ["fixed_size_binary[4]", "|S10 (10 bytes) or |V10 (10 bytes)"],
    ["large_binary", "|S10 (10 bytes) or |V10 (10 bytes)"],
    ["number", "float64 or int32"],
  ])("called %s by another program is refused with the name %s, alone and in a field", (name, meant) => {
    for (const given of [name, [["b", name]]])
      expect(() => givenDType(given)).toThrow(
        `"${name}" is not one that superchunk knows; did you mean ${meant}?`,
      );
  });
});
