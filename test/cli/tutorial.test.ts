/** The tutorial of arrays: every command in it runs, one block after the other, and prints what it shows. */
import { execFile } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/node/index.ts";
import { repositoryRoot } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";
import { putCommand } from "./in-shell.ts";

interface Block {
  readonly script: string;
  /** What it prints, both streams in order; undefined if the tutorial does not show it. */
  readonly shown: string | undefined;
}

const text = readFileSync(join(repositoryRoot, "docs", "tutorial-arrays.md"), "utf8");
const blocks: Block[] = [...text.matchAll(/^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?/gms)].map(
  ([, script = "", shown]) => ({ script, shown }),
);

/** Runs a script as a user would; resolves with its output, or rejects if a command fails. */
function runScript(script: string, work: string, bin: string): Promise<string> {
  const path = [bin, dirname(process.execPath), process.env["PATH"]].join(delimiter);
  return new Promise((resolve, reject) => {
    const options = { cwd: work, env: { ...process.env, PATH: path } };
    execFile("sh", ["-e", "-c", `exec 2>&1\n${script}`], options, (error, stdout) => {
      if (error === null) resolve(stdout);
      else reject(new Error(`${script}\nends with ${error.code} and prints\n${stdout}`));
    });
  });
}

describe.skipIf(process.platform === "win32")("docs/tutorial-arrays.md", () => {
  it("has no commands outside its blocks", () => {
    const fences = text.match(/^```\w+/gm) ?? [];
    expect(blocks.length).toBeGreaterThan(8);
    expect(fences.length).toBe(blocks.length + blocks.filter(({ shown }) => shown !== undefined).length);
  });

  it("every block runs and prints what is shown, and together they leave the array that the tutorial describes", async () => {
    const folder = temporaryFolder();
    const [work, bin] = [join(folder, "work"), join(folder, "bin")];
    for (const each of [work, bin]) mkdirSync(each);
    await putCommand(bin);
    for (const [i, { script, shown }] of blocks.entries()) {
      // The folder's path differs on every machine.
      const printed = (await runScript(script, work, bin)).replaceAll(work, "/home/me");
      if (shown === undefined)
        expect([i + 1, printed]).toEqual([i + 1, expect.not.stringContaining("error")]);
      else expect([i + 1, printed]).toEqual([i + 1, shown]);
    }
    const array = (await open(join(work, "temps"))) as ArrayArchive;
    const values = new Float64Array((await array.getBytes()).slice().buffer);
    const day = Float64Array.from({ length: 1440 }, (_, i) => 20 + (i % 60) / 10);
    const expected = [...day, ...day, ...day];
    expected.splice(10, 3, -1, -1, -1);
    expected.splice(-2, 2, 7.5, 8.5);
    expect([...values]).toEqual(expected);
    // numpy's header takes 128 bytes.
    const npy = new Uint8Array(readFileSync(join(work, "temps.npy")));
    expect([...new Float64Array(npy.slice(128).buffer)]).toEqual(expected);
    await array.close();
  });
});
