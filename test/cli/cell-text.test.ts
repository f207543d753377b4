import { describe, expect, it } from "vitest";
import {
  cellColumns,
  csvCell,
  csvLine,
  formatDatetime,
  formatFloat,
  formatTimedelta,
  formatValue,
  printable,
  pushCells,
} from "../../cli/values/cell-text.ts";
import type { DType, TimeUnit } from "../../src/format/types.ts";

const F8: DType = { kind: "float", itemSize: 8, byteOrder: "little" };
const S4: DType = { kind: "bytes", itemSize: 4, byteOrder: "none" };

describe("dates", () => {
  // The expected texts are what numpy 2.5 prints for str(np.datetime64(count, unit)).
  it.each<[bigint, TimeUnit, number, string]>([
    [0n, "ns", 1, "1970-01-01T00:00:00.000000000"],
    [-1n, "ns", 1, "1969-12-31T23:59:59.999999999"],
    [1_583_020_799_999n, "ms", 1, "2020-02-29T23:59:59.999"],
    [18_321n, "D", 1, "2020-02-29"],
    [-719_528n, "D", 1, "0000-01-01"],
    [50n, "Y", 1, "2020"],
    [-1n, "M", 1, "1969-12"],
    [2n, "W", 1, "1970-01-15"],
    [25n, "h", 1, "1970-01-02T01"],
    [61n, "m", 1, "1970-01-01T01:01"],
    [3n, "s", 25, "1970-01-01T00:01:15"],
    [-(2n ** 63n), "D", 1, "NaT"],
    [2n ** 63n - 1n, "ns", 1, "2262-04-11T23:47:16.854775807"],
  ])("%d %s x %d is %s", (count, unit, scale, text) => {
    expect(formatDatetime(count, unit, scale)).toBe(text);
  });

  it("agree with the calendar of JavaScript on every 997th day from year 1 to 9999", () => {
    for (let day = -719_162; day < 2_932_896; day += 997) {
      const expected = new Date(day * 86_400_000).toISOString().slice(0, 10);
      expect(formatDatetime(BigInt(day), "D", 1)).toBe(expected);
    }
  });

  it("time spans show their unit in words", () => {
    expect(formatTimedelta(5n, "ns", 1)).toBe("5 nanoseconds");
    expect(formatTimedelta(-(2n ** 63n), "s", 1)).toBe("NaT");
  });
});

describe("numbers", () => {
  it("have the shortest decimal of their own precision", () => {
    expect(formatFloat(Math.fround(0.1), 4)).toBe("0.1");
    expect(formatFloat(16_777_216, 4)).toBe("16777216");
    expect(formatFloat(0.1, 8)).toBe("0.1");
    expect([Number.NaN, Infinity, -Infinity, -0].map((x) => formatFloat(x, 8))).toEqual([
      "nan",
      "inf",
      "-inf",
      "-0",
    ]);
  });

  it("of float32 read back as the same value", () => {
    for (let i = 0; i < 2000; i++) {
      const value = Math.fround(Math.sin(i) * 10 ** ((i % 60) - 30));
      expect(Math.fround(Number(formatFloat(value, 4)))).toBe(value);
    }
  });

  it("that are complex look as they do in Python", () => {
    const c16: DType = { kind: "complex", itemSize: 16, byteOrder: "little" };
    expect(formatValue([1, -2.5], c16)).toBe("1-2.5j");
    expect(formatValue([0, 2], c16)).toBe("0+2j");
  });

  it("that are int64 keep all digits", () => {
    expect(formatValue(9_007_199_254_740_993n, { kind: "int", itemSize: 8, byteOrder: "little" })).toBe(
      "9007199254740993",
    );
  });
});

describe("cells", () => {
  const struct: DType = {
    kind: "struct",
    itemSize: 28,
    byteOrder: "none",
    fields: [
      { name: "tag", dtype: S4, shape: [], offset: 0 },
      { name: "v", dtype: F8, shape: [3], offset: 4 },
    ],
  };

  it("of a struct are its fields, sub-arrays included, in the order of their names", () => {
    const names = cellColumns("leg", struct, []).map((column) => column.name);
    const cells: string[] = [];
    pushCells({ tag: "ab", v: [1, 2, 3] }, struct, [], cells);
    expect(names).toEqual(["leg.tag", "leg.v.0", "leg.v.1", "leg.v.2"]);
    expect(cells).toEqual(["ab", "1", "2", "3"]);
  });

  it("of CSV are quoted according to RFC 4180", () => {
    expect(csvLine(["a", "b,c", 'say "x"', "two\nlines", ""].map(csvCell))).toBe(
      'a,"b,c","say ""x""","two\nlines",',
    );
  });

  it("for a terminal have no control characters", () => {
    expect(printable("a\u001b[31mred\nb\u2028")).toBe("a\\x1b[31mred\\nb\\u2028");
  });
});
