import { rmSync } from "node:fs";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { describe, expect, it } from "vitest";
import { drawBar, startProgress } from "../../cli/output/progress.ts";
import { temporaryFolder } from "../folder.ts";
import { runCli } from "./harness.ts";

describe("the progress bar", () => {
  it("shows the percentage, the rate and the time left", () => {
    const line = drawBar("convert", { done: 25 << 20, total: 100 << 20, label: "close" }, 5, 120);
    expect(line).toBe("convert  [######..................]   25 %  5.00 MiB/s  0:15 left  close");
  });

  it("is drawn on a terminal that does not report its width", () => {
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

  it("never exceeds the terminal's width, or 100 %", () => {
    expect(drawBar("convert", { done: 50, total: 100, label: "x".repeat(200) }, 1, 40)).toHaveLength(39);
    expect(drawBar("verify", { done: 7, total: 0 }, 1, 80)).toContain("100 %");
  });

  it("is drawn while a table of default values is made", async () => {
    const folder = temporaryFolder();
    const { env } = process;
    process.env = { ...env, TERM: "xterm" };
    delete process.env["CI"];
    try {
      const dtype = '[["a","<f8"],["b","|u1"]]';
      const argv = ["create", join(folder, "t"), "--as", "ctable", "--dtype", dtype, "--shape", "3000000"];
      const { code, err } = await runCli(argv, { terminal: true });
      expect([code, err]).toEqual([0, expect.stringMatching(/create .*t {2}\[#+\.+\] +\d+ %/)]);
      expect(err).toContain("100 %");
    } finally {
      process.env = env;
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
