/** Dates as users type them. */

import { describe, expect, it } from "vitest";
import { formatDatetime } from "../../cli/values/cell-text.ts";
import type { DType, TimeUnit } from "../../src/format/types.ts";
import { storedTimes } from "../../src/values/item-bytes.ts";
import fc from "../property.ts";

const dates = (unit: TimeUnit, scale = 1): DType => ({
  kind: "datetime",
  itemSize: 8,
  byteOrder: "little",
  unit,
  scale,
});

describe("a typed date", () => {
  it.each(["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"] as const)(
    "is the count that is printed as it: %s",
    (unit) => {
      const most = unit === "Y" ? 5000n : unit === "M" ? 60_000n : unit === "W" ? 200_000n : 1_500_000n;
      const count = unit.length === 2 || unit === "s" ? 2n ** 62n : most;
      const inYears = { s: 10n ** 10n, ms: 10n ** 13n, us: 10n ** 16n } as Partial<Record<TimeUnit, bigint>>;
      const limit = inYears[unit] ?? count;
      fc.assert(
        fc.property(
          fc.bigInt({ min: -limit / 4n, max: limit }),
          fc.integer({ min: 1, max: 9 }),
          (stored, scale) => {
            const text = formatDatetime(stored, unit, scale);
            const isTyped = unit !== "Y" || /^\d{4,6}$/.test(text);
            if (!isTyped || text.startsWith("-")) return;
            expect(storedTimes(dates(unit, scale), text)).toBe(stored);
          },
        ),
      );
    },
  );

  it("is what numpy makes of it", () => {
    // numpy.datetime64(TEXT, UNIT).astype("i8") of numpy 2
    expect(storedTimes(dates("ns"), "2020-01-31T09:30:00.5")).toBe(1_580_463_000_500_000_000n);
    expect(storedTimes(dates("D"), "2020-02-29")).toBe(18_321n);
    expect(storedTimes(dates("M"), "1969-12")).toBe(-1n);
    expect(storedTimes(dates("W"), "1970-01-08")).toBe(1n);
    expect(storedTimes(dates("s", 25), "1970-01-01 00:00:50Z")).toBe(2n);
    expect(storedTimes(dates("Y"), "0001")).toBe(-1969n);
  });

  it.each([
    ["D", "2020-02-30"],
    ["D", "2020-13-01"],
    ["D", "2020-01-01T01"],
    ["M", "2020-01-02"],
    ["W", "1970-01-02"],
    ["s", "2020-01-01T24:00"],
    ["ms", "2020-01-01T00:00:00.0001"],
    ["ns", "2020-01-01T00:00:00+01:00"],
    ["ns", "yesterday"],
    ["generic", "2020-01-01"],
  ] as const)("is refused if there is no such count: %s %s", (unit, text) => {
    expect(() => storedTimes(dates(unit), text)).toThrow(/is not a date in units of/);
  });

  it("may be in a field; counts, NaT and values of other types stay as they are", () => {
    const field = (name: string, dtype: DType) => ({ name, dtype, shape: [], offset: 0 });
    const dtype: DType = {
      kind: "struct",
      itemSize: 16,
      byteOrder: "none",
      fields: [field("t", dates("D")), field("n", { kind: "int", itemSize: 8, byteOrder: "little" })],
    };
    expect(storedTimes(dtype, ["1970-01-02", "1970-01-02"])).toEqual([1n, "1970-01-02"]);
    expect([storedTimes(dates("D"), 5), storedTimes(dates("D"), "NaT")]).toEqual([5, "NaT"]);
  });
});
