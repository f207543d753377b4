/** `cat --where`: the syntax of its conditions, what is printed, and what is refused. */

import { describe, expect, it } from "vitest";
import { conditionOf, parseWhere } from "../../cli/input/where-text.ts";
import type { DType } from "../../src/index.ts";
import { parseDType } from "../../src/index.ts";
import { openParquet } from "../../src/parquet/open.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { findFixture } from "../fixtures/manifest.ts";
import { runCli } from "./harness.ts";

const dtype = (name: string): DType => parseDType(name, "test");

describe("a condition", () => {
  it.each([
    ["close > 100", "<f8", "close", { gt: 100 }],
    ["close>=-1.5e3", "<f8", "close", { gte: -1500 }],
    ["close < inf", "<f8", "close", { lt: Number.POSITIVE_INFINITY }],
    ["  close   <=.5 ", "<f8", "close", { lte: 0.5 }],
    ["n == 5", "<i8", "n", { eq: 5 }],
    ["n = 9007199254740993", "<i8", "n", { eq: 9_007_199_254_740_993n }],
    ["n = 9007199254740993.0", "<i8", "n", { eq: 9_007_199_254_740_993n }],
    ["n > 9.007199254740993e15", "<u8", "n", { gt: 9_007_199_254_740_993n }],
    ["n >= -9007199254740993.5", "<i8", "n", { gt: -9_007_199_254_740_994n }],
    ["n < 9007199254740993.5", "<i8", "n", { lte: 9_007_199_254_740_993n }],
    ["n <= 1e300", "<i8", "n", { lte: 10n ** 300n }],
    ["n > -1e400", "<i8", "n", { gt: Number.NEGATIVE_INFINITY }],
    ["n = 1.00000000000000000001", "<i8", "n", { in: [] }],
    ["n != 12.50e-1", "<i8", "n", { nin: [] }],
    ["n in (0.5, 00.50e1, 0e99)", "<m8[s]", "n", { in: [5, 0] }],
    ["n between 1.5 and 0.9007199254740993e16", "<i8", "n", { gt: 1, lte: 9_007_199_254_740_993n }],
    ["n between -1e-9 and 2.5", "<i8", "n", { gt: -1, lte: 2 }],
    ["n = 9007199254740993.0", "<f8", "n", { eq: 9_007_199_254_740_992 }],
    ["n = 9007199254740993", "<f8", "n", { eq: 9_007_199_254_740_993n }],
    [`n = ${2 ** 65}`, "<f8", "n", { eq: 2 ** 65 }],
    ["n >= -0018446744073709551616", "<f8", "n", { gte: -(2n ** 64n) }],
    ["n != 5", "<i4", "n", { ne: 5 }],
    ["n <> 5", "<i4", "n", { ne: 5 }],
    ["day >= 2015-01-01", "<M8[D]", "day", { gte: "2015-01-01" }],
    ["day >= '2015-01-01 09:30'", "<M8[s]", "day", { gte: "2015-01-01 09:30" }],
    ["day >= 2015-01-01", "<u4", "day", { gte: "2015-01-01" }],
    ["day > 1388793600", "<M8[s]", "day", { gt: 1_388_793_600n }],
    ["day between 2015-01-01 and 2015-12-31", "<M8[D]", "day", { between: ["2015-01-01", "2015-12-31"] }],
    ['code in (A, \'B C\', "d""e")', "|S4", "code", { in: ["A", "B C", 'd"e'] }],
    ["code not in (100)", "<U4", "code", { nin: ["100"] }],
    ["'my code' = x", "<U4", "my code", { eq: "x" }],
    ["ok = true", "|b1", "ok", { eq: true }],
    ["s = é", "|S4", "s", { in: ["\xc3\xa9", "é"] }],
    ["s not in (é, a)", "|S4", "s", { nin: ["\xc3\xa9", "é", "a"] }],
    ["s = 'Ã©'", "|S4", "s", { eq: "\xc3\x83\xc2\xa9" }],
    ["s = €", "|S4", "s", { eq: "\xe2\x82\xac" }],
    ["s > é", "|S4", "s", { gt: "\xc3\xa9" }],
    ["s = é", "<U4", "s", { eq: "é" }],
    ["close is null", "<f8", "close", { null: true }],
    ["day IS NOT NaT", "<M8[D]", "day", { null: false }],
  ])("%s", (text, type, column, condition) => {
    const where = parseWhere(text);
    expect(where.column).toBe(column);
    expect(conditionOf(where, dtype(type))).toEqual(condition);
  });

  it.each([
    ["", /empty/],
    ["> 5", /begin with a column/],
    ["close", /comparison is missing after the column "close"/],
    ["close >", /value is missing/],
    ["close > >", /is not a value/],
    ["close > 5 6", /unexpected "6" after the condition/],
    ["close > 5 and day < 3", /its own --where/],
    ["close > 5 or day < 3", /all conditions must match.*in \(A, B\)/],
    ["close in 5", /parentheses/],
    ["close in ()", /parentheses/],
    ["close in (5,)", /after the last comma/],
    ["close in (5 6)", /comma is missing after "5"/],
    ["close between 5", /value is missing/],
    ["close between 5 or 6", /"and" is missing/],
    ["close is 5", /comes null/],
    ["close like 'a'", /comparison is missing/],
    ["sel ect = 9", /after the column "sel".*a name with spaces needs quotes/],
    ["close > 'a", /unexpected/],
  ])("%j is refused", (text, message) => {
    expect(() => parseWhere(text)).toThrow(message);
  });

  it.each([
    ["n > many", "<i4", /"many" is not a number/],
    ["n > '5'", "<i4", /"5" is not a number/],
    ["ok = 1", "|b1", /"1" is not true or false, but the column holds booleans$/],
    [
      "n > nan",
      "<f8",
      /"nan" is not a number, but the column holds numbers; to find NaN or NaT, use "is null"/,
    ],
  ])("%s is refused for a column of %s", (text, type, message) => {
    expect(() => conditionOf(parseWhere(text), dtype(type))).toThrow(message);
  });
});

describe("cat --where", () => {
  const table = findFixture("ctable/bcolz-daily-equities").file;
  const cat = (...argv: string[]) => runCli(["cat", table, ...argv]);

  it("prints the rows that the same filter selects from the complete output", async () => {
    const all = (await cat("--format", "csv")).out.trimEnd().split("\n");
    const [header = "", ...rows] = all;
    const close = header.split(",").indexOf("close");
    const wanted = rows.filter((row) => {
      const value = Number(row.split(",")[close]);
      return value > 51_000 && value !== 52_198;
    });
    expect(wanted.length).toBeGreaterThan(3);
    const found = await cat("--where", "close > 51000", "--where", "close != 52198", "--format", "csv");
    expect(found).toMatchObject({ code: 0, err: "" });
    expect(found.out.trimEnd().split("\n")).toEqual([header, ...wanted]);
    const first = await cat(
      "--where",
      "close > 51000",
      "--where",
      "close != 52198",
      "--format",
      "csv",
      "--head",
      "2",
    );
    expect(first.out.trimEnd().split("\n")).toEqual([header, ...wanted.slice(0, 2)]);
  });

  it("takes dates for the days of zipline, and columns that are not printed", async () => {
    const found = await cat("--where", "day = 2014-01-05", "--column", "close", "--format", "ndjson");
    expect(found.code).toBe(0);
    const days = (await cat("--format", "ndjson")).out.trimEnd().split("\n");
    const wanted = days
      .map((line) => JSON.parse(line) as { day: number; close: number })
      .filter(({ day }) => day === Date.UTC(2014, 0, 5) / 1000);
    expect(wanted.length).toBeGreaterThan(0);
    expect(
      found.out
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line) as unknown),
    ).toEqual(wanted.map(({ close }) => ({ close })));
  });

  it("writes the matching rows to a Parquet file", async () => {
    const args = ["--where", "close > 51000", "--column", "close", "--column", "volume"];
    const rows = (await cat(...args, "--format", "ndjson")).out.trimEnd().split("\n");
    const store = new MemoryStore();
    await store.put("a", new Uint8Array((await cat(...args, "--format", "parquet")).bytes));
    const scan = await openParquet(store, "a", undefined);
    const range = { rowStart: 0, rowEnd: rows.length };
    expect(scan.ranges).toMatchObject([range]);
    const [closes, volumes] = [
      await scan.readColumn({ column: "close", ...range }),
      await scan.readColumn({ column: "volume", ...range }),
    ];
    expect(rows.map((line) => JSON.parse(line) as unknown)).toEqual(
      rows.map((_, i) => ({ close: closes[i], volume: volumes[i] })),
    );
  });

  it.each([
    [["--where", "close >"], 2, /a value is missing/],
    [["--where", "clos > 5"], 1, /no column "clos"/],
    [["--where", "close > x"], 2, /"x" is not a number/],
    [["--where", "close > 5", "--slice", "0:5"], 2, /cannot be used with/],
    [
      ["--where", "close > 5", "--format", "npy"],
      2,
      /prints text, csv, json, ndjson, arrow or parquet, not npy/,
    ],
  ] as const)("%j is refused", async (argv, code, message) => {
    const { code: found, err } = await cat(...argv);
    expect(err).toMatch(message);
    expect(found).toBe(code);
  });
});
