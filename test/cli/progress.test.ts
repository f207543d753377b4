import { rmSync } from "node:fs";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { describe, expect, it } from "vitest";
import { Context } from "../../cli/context.ts";
import { drawBar, startProgress } from "../../cli/output/progress.ts";
import { temporaryFolder } from "../folder.ts";
import { runCli } from "./harness.ts";

describe("the progress bar", () => {
  it("shows the percentage, the rate and the time left", () => {
    const line = drawBar("convert", { done: 25 << 20, total: 100 << 20, label: "close" }, 5, 120);
    expect(line).toBe("convert  [######..................]   25 %  5.00 MiB/s  0:15 left  close");
  });

  it("shows neither a percentage nor the time left while more is being found", () => {
    const open = { done: 700, total: 10_700, isOpen: true, label: "a.blp" };
    expect(drawBar("verify", open, 100, 120, { unit: "archives" })).toBe(
      "verify  700 of 10,700 found  7.0 archives/s  a.blp",
    );
    expect(drawBar("ls", { ...open, done: 10_700 }, 100, 120, { unit: "archives" })).toContain(
      "ls  10,700 found  107.0",
    );
    const search = { done: 0, total: 12, isOpen: true, label: "/data/bundles/a.csv" };
    expect(drawBar("convert", search, 100, 120, { unit: "archives" })).toBe(
      "convert  12 found  /data/bundles/a.csv",
    );
  });

  it("shows no time left before the rate is steady, or if there is none yet", () => {
    const begun = { done: 0.03, total: 33_001 };
    expect(drawBar("convert", begun, 1, 120, { unit: "archives" })).not.toMatch(/left|archives/);
    expect(drawBar("convert", { done: 5, total: 10 }, 1, 120)).not.toContain("left");
  });

  it("is cleared before text is written to the same terminal", async () => {
    const drawn: string[] = [];
    const stream = Object.assign(new PassThrough(), { isTTY: true, columns: 80 });
    stream.on("data", (text: Buffer) => drawn.push(text.toString()));
    const { signal } = new AbortController();
    const { env } = process;
    process.env = { ...env, TERM: "xterm" };
    delete process.env["CI"];
    try {
      const context = new Context({ stdin: new PassThrough(), stdout: stream, stderr: stream, signal });
      const bar = startProgress(context.io, "verify");
      bar.onProgress?.({ done: 1, total: 4 });
      await context.out.line("ok");
      await context.out.flush();
      bar.onProgress?.({ done: 4, total: 4 });
      context.message("note");
      bar.finish();
    } finally {
      process.env = env;
    }
    const written = drawn.join("").split("\r");
    expect(written.filter((piece) => piece !== "" && !piece.startsWith("verify"))).toEqual([
      "\u001b[Kok\n",
      "\u001b[Ksuperchunk: note\n",
    ]);
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
