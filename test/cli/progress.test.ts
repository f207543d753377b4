import { describe, expect, it } from "vitest";
import { drawBar } from "../../cli/progress.ts";

describe("the progress bar", () => {
  it("shows the part, the rate and the time left", () => {
    const line = drawBar("convert", { done: 25 << 20, total: 100 << 20, label: "close" }, 5, 120);
    expect(line).toBe("convert  [######..................]   25 %  5.00 MiB/s  0:15 left  close");
  });

  it("never exceeds the terminal's width, and never 100 %", () => {
    expect(drawBar("convert", { done: 50, total: 100, label: "x".repeat(200) }, 1, 40)).toHaveLength(39);
    expect(drawBar("verify", { done: 7, total: 0 }, 1, 80)).toContain("100 %");
  });
});
