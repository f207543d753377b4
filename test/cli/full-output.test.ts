/** Printing to a full disk: an error that says so, and blames no archive. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { PassThrough, Writable } from "node:stream";
import { expect, it } from "vitest";
import { run } from "../../cli/run.ts";
import { corpusFolder } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";
import { runCli } from "./harness.ts";

class Failing extends Writable {
  readonly #code: string;

  constructor(code: string) {
    super();
    this.#code = code;
  }

  override _write(_piece: Buffer, _encoding: string, done: (error: Error) => void): void {
    done(Object.assign(new Error(`${this.#code}: told by the system, write`), { code: this.#code }));
  }
}

it.each([
  ["ENOSPC", 1, "superchunk: stdout: the disk is full: the output is incomplete (ENOSPC)\n"],
  ["EIO", 1, "superchunk: stdout: the output is incomplete (EIO while writing)\n"],
  ["EPIPE", 0, ""],
] as const)(
  "when printing ends with %s the exit code is %i, and the message names stdout",
  async (code, exit, told) => {
    let err = "";
    const stderr = new PassThrough();
    stderr.on("data", (piece) => {
      err += piece;
    });
    const stdin = new PassThrough();
    const { signal } = new AbortController();
    const ended = await run(["--version"], { stdin, stdout: new Failing(code), stderr, signal });
    expect([ended, err]).toEqual([exit, told]);
  },
);

it.runIf(process.platform === "linux")("names the report of verify that a full disk cuts", async () => {
  const array = join(corpusFolder, "bloscpack-3/array-i4-2d.blp");
  const { code, err } = await runCli(["verify", array, "--report", "/dev/full"]);
  expect([code, err]).toEqual([1, expect.stringMatching(/^superchunk: \/dev\/full: .*ENOSPC/)]);
});

it.runIf(process.platform === "linux")(
  "prints what was converted although its report finds a full disk",
  async () => {
    const folder = temporaryFolder();
    const array = join(corpusFolder, "bloscpack-3/array-i4-2d.blp");
    const convert = ["convert", array, join(folder, "out.zarr"), "--report", "/dev/full"];
    const { code, out, err } = await runCli(convert);
    expect([code, out, err]).toEqual([
      1,
      expect.stringMatching(/chunks? copied/),
      expect.stringMatching(/\nsuperchunk: \/dev\/full: .*ENOSPC/),
    ]);
    const failed = await runCli([
      "convert",
      join(folder, "missing"),
      join(folder, "b.zarr"),
      "--report",
      "/dev/full",
    ]);
    expect([failed.code, failed.err]).toEqual([
      1,
      expect.stringMatching(/^superchunk: \/dev\/full: .*\nsuperchunk: .*missing: no such file or folder\n$/),
    ]);
  },
);

it.each([
  ["convert", ["out.zarr"]],
  ["virtualize", ["out.json"]],
  ["verify", []],
])("%s does nothing if its report cannot be written", async (command, destination) => {
  const folder = temporaryFolder();
  const array = join(corpusFolder, "bloscpack-3/array-i4-2d.blp");
  const paths = [array, ...destination.map((name) => join(folder, name))];
  const { code, out, err } = await runCli([
    command,
    ...paths,
    "--report",
    join(folder, "missing/report.json"),
  ]);
  expect([code, out]).toEqual([1, ""]);
  expect(err).toMatch(/^superchunk: \S+missing\S*: no such file or directory/);
  expect(readdirSync(folder)).toEqual([]);
});
