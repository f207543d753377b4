import { PassThrough } from "node:stream";
import { describe, expect, it } from "vitest";
import { drawBar, startProgress } from "../../cli/progress.ts";

describe("the progress bar", () => {
  it("shows the part, the rate and the time left", () => {
    const line = drawBar("convert", { done: 25 << 20, total: 100 << 20, label: "close" }, 5, 120);
    expect(line).toBe("convert  [######..................]   25 %  5.00 MiB/s  0:15 left  close");
  });

  it("is drawn on a terminal that does not know its width", () => {
    const drawn: string[] = [];
    const stderr = Object.assign(new PassThrough(), { isTTY: true, columns: 0 });
    stderr.on("data", (text: Buffer) => drawn.push(text.toString()));
    const { env } = process;
    process.env = { ...env, TERM: "xterm" };
    delete process.env["CI"];
    try {
      const bar = startProgress(
        { stdin: new PassThrough(), stdout: stderr, stderr, signal: new AbortController().signal },
        "create a",
      );
      bar.onProgress?.({ done: 1, total: 4 });
    } finally {
      process.env = env;
    }
    expect(drawn.join("")).toContain("create a  [######..");
  });

  it("never exceeds the terminal's width, and never 100 %", () => {
    expect(drawBar("convert", { done: 50, total: 100, label: "x".repeat(200) }, 1, 40)).toHaveLength(39);
    expect(drawBar("verify", { done: 7, total: 0 }, 1, 80)).toContain("100 %");
  });
});
