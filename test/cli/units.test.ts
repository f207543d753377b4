import { InvalidArgumentError } from "commander";
import { describe, expect, it } from "vitest";
import {
  formatClock,
  formatCount,
  formatDuration,
  formatExactSize,
  formatRatio,
  formatSize,
  parseCount,
  parseSize,
} from "../../cli/input/units.ts";
import { formatBytes } from "../../src/bytes/arrays.ts";

describe("sizes", () => {
  it.each([
    [0, "0 bytes"],
    [1, "1 byte"],
    [1023, "1023 bytes"],
    [1024, "1.00 KiB"],
    [1_268_776, "1.21 MiB"],
    [10_240, "10.0 KiB"],
    [1023 * 1024, "1023 KiB"],
    [1024 * 1024 - 1, "1.00 MiB"],
    [5 * 1024 ** 4, "5.00 TiB"],
  ])("%d bytes are printed as %s", (bytes, text) => {
    expect(formatSize(bytes)).toBe(text);
  });

  it("are the same on the page of serve and view", () => {
    for (let bytes = 0; bytes < 2 ** 50; bytes = Math.ceil(bytes * 1.01) + 1)
      expect(formatBytes(bytes)).toBe(formatSize(bytes));
  });

  it("are printed next to their exact number, with separators that do not depend on the locale", () => {
    expect(formatExactSize(1_268_776)).toBe("1,268,776 bytes (1.21 MiB)");
    expect(formatExactSize(512)).toBe("512 bytes");
    expect(formatCount(1_000_000)).toBe("1,000,000");
  });

  it.each([
    ["128MiB", 128 * 1024 ** 2],
    ["1.5G", 1.5 * 1024 ** 3],
    ["4096", 4096],
    ["100MB", 100_000_000],
    ["64 k", 65_536],
  ])("%s is read as its bytes", (text, bytes) => {
    expect(parseSize(text)).toBe(bytes);
  });

  it.each(["", "0", "-1", "12x", "MiB", "1e9", "99999999999T"])("%j is refused as a size", (text) => {
    expect(() => parseSize(text)).toThrow(InvalidArgumentError);
  });

  it("a ratio with nothing stored is not a number", () => {
    expect(formatRatio(8000, 4000)).toBe("2.00");
    expect(formatRatio(0, 0)).toBe("-");
    for (const [ratio, text] of [
      [999.99, "999.99"],
      [999.996, "1000"],
      [99_999, "99999"],
      [99_999.7, "1.0e5"],
      [1.44e12, "1.4e12"],
    ] as const)
      expect(formatRatio(ratio, 1)).toBe(text);
  });
});

describe("counts and times", () => {
  it("a count is a whole number of at least 1", () => {
    expect(parseCount("12")).toBe(12);
    for (const text of ["0", "-3", "1.5", "x", "1e3"])
      expect(() => parseCount(text)).toThrow(InvalidArgumentError);
  });

  it("short times are printed in milliseconds, others in seconds", () => {
    expect([0, 0.048, 0.0994].map(formatDuration)).toEqual(["0 ms", "48 ms", "99 ms"]);
    expect([0.0995, 1.734, 312].map(formatDuration)).toEqual([
      "0.10 seconds",
      "1.73 seconds",
      "312.00 seconds",
    ]);
  });

  it("clocks show hours only if there are any", () => {
    expect(formatClock(7)).toBe("0:07");
    expect(formatClock(3661)).toBe("1:01:01");
  });
});
