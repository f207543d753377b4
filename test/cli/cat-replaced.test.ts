/** `cat` of an archive that another one replaces while it is printed. */
import { cpSync, existsSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough, Writable } from "node:stream";
import { beforeAll, expect, it } from "vitest";
import { run } from "../../cli/run.ts";
import { temporaryFolder } from "../folder.ts";
import { runCli } from "./harness.ts";

const ROWS = 400_000;
let folder: string;
beforeAll(() => {
  folder = temporaryFolder();
  for (const first of [0, 1_000_000])
    writeFileSync(
      join(folder, `${first}.bin`),
      Int32Array.from({ length: ROWS }, (_, i) => first + i),
    );
});

/** Makes an archive whose chunks have as many rows as those of the others. */
async function make(format: string, first: number): Promise<string> {
  const carray = join(folder, `carray-${first}`);
  const settings = ["--as", "carray", "--dtype", "<i4", "--shape", "-1", "--chunklen", "5000"];
  const from = ["--from", join(folder, `${first}.bin`)];
  if (!existsSync(carray)) expect((await runCli(["create", carray, ...settings, ...from])).code).toBe(0);
  if (format === "carray") return carray;
  const path = join(folder, `${format}-${first}`);
  expect((await runCli(["convert", carray, path, "--to", format])).code).toBe(0);
  return path;
}

it.each(["bloscpack", "zarr", "bcolz", "carray"])(
  "of %s fails with STALE, however much is printed",
  async (format) => {
    const [path, other] = [await make(format, 0), await make(format, 1_000_000)];
    const whole = await runCli(["cat", path, "--format", "raw"]);
    expect([whole.code, whole.bytes.length]).toEqual([0, ROWS * 4]);
    let isReplaced = false;
    const stdout = new Writable({
      write(_piece, _encoding, done) {
        if (!isReplaced) {
          isReplaced = true;
          if (statSync(path).isDirectory()) {
            rmSync(path, { recursive: true });
            cpSync(other, path, { recursive: true });
          } else renameSync(other, path);
        }
        done();
      },
    });
    let said = "";
    const stderr = new Writable({
      write(piece, _encoding, done) {
        said += String(piece);
        done();
      },
    });
    const streams = { stdin: new PassThrough().end(), stdout, stderr, hasColour: false };
    const { signal } = new AbortController();
    const code = await run(["cat", path, "--format", "raw"], { ...streams, signal } as never);
    expect(isReplaced).toBe(true);
    expect(said).toContain("while it was read");
    expect(code).toBe(1);
  },
);
