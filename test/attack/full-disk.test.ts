/** Every writing command, on a disk that gets full at some point of its work. */
import { execFileSync, spawnSync } from "node:child_process";
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { runCli } from "../cli/harness.ts";
import { sweep } from "../scope.ts";
import { buildRun } from "./command.ts";
import { note, runsOf } from "./figures.ts";

let folder: string;
beforeAll(() => {
  folder = fs.mkdtempSync(join(tmpdir(), "superchunk-full-"));
});
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }));

/** Linux lets every user mount in their own namespace, unless it is configured not to. */
const canMount =
  spawnSync("unshare", ["-rm", "sh", "-c", "mount -t tmpfs tmpfs /mnt"], { stdio: "ignore" }).status === 0;

/** KiB that are free when the command starts: up to a size at which all commands fit. The longest run stops at each page. */
const STEP = runsOf(0, 16, 4);
const SIZES = STEP === 0 ? [24] : Array.from({ length: Math.ceil(144 / STEP) }, (_, i) => i * STEP);

/** What the script reports for one run. */
interface Outcome {
  readonly name: string;
  readonly free: number;
  /** Exit codes: with space, with little space, of `verify` after it, and of the second run with space. */
  readonly whole: number;
  readonly code: number;
  readonly verified: number;
  readonly again: number;
  readonly err: string;
  readonly againErr: string;
  /** Contents of the archive, or of the result: before, with space, after the run with little space, after the second. */
  readonly before: string;
  readonly after: string;
  readonly found: string;
  readonly mended: string;
  readonly isSourceKept: boolean;
  /** Some rows are already lost: a repair says so, with 3, and until then nothing reads all rows. */
  readonly isDamaged: boolean;
  readonly leftovers: readonly string[];
}

test.skipIf(!canMount)(
  "a full disk ends every writing command with NO_SPACE; existing data stay whole, and the command can be run again",
  async () => {
    const inputs = join(folder, "inputs");
    const disk = join(folder, "disk");
    for (const each of [inputs, disk]) fs.mkdirSync(each);
    await makeInputs(inputs);
    const bundle = await buildRun(folder);
    const script = fileURLToPath(new URL("./full-disk.mjs", import.meta.url));
    const settings = JSON.stringify({ sizes: SIZES, stride: sweep(1, 3) });
    const command = 'mount -t tmpfs -o size=2M tmpfs "$1" && exec "$0" "$2" "$1" "$3" "$4" "$5"';
    const argv = ["-rm", "sh", "-c", command, process.execPath, disk, script, bundle, inputs, settings];
    const out = execFileSync("unshare", argv, { maxBuffer: 1 << 28 }).toString();
    const outcomes = JSON.parse(out) as Outcome[];
    const failed = outcomes.filter(({ code, isDamaged }) => code !== (isDamaged ? 3 : 0));
    note("a full disk under every command that writes", {
      commands: new Set(outcomes.map(({ name }) => name)).size,
      runs: outcomes.length,
      "ended by the full disk": failed.length,
      "old or new contents": outcomes.filter(isOldOrNew).length,
      "done when run again": failed.filter(({ mended, after }) => mended === after).length,
    });
    expect(outcomes.flatMap(problemsOf)).toEqual([]);
    // Many runs must have met the full disk.
    expect(failed.length).toBeGreaterThan(outcomes.length / 5);
  },
);

/** What is wrong with a run, in words. */
function problemsOf(outcome: Outcome): string[] {
  const { name, free, whole, code, err, again, againErr, found, mended, after, leftovers } = outcome;
  const done = outcome.isDamaged ? 3 : 0;
  const isDone = code === done && found === after;
  const problems = [
    whole === done ? "" : `with room it ends with ${whole}`,
    code === done || (code === 1 && /full/.test(err)) ? "" : `it ends with ${code}`,
    code === done || !/^convert/.test(name) || /same command with --resume/.test(err)
      ? ""
      : "it does not say how to continue",
    code !== done || found === after ? "" : "it says that it is done, and is not",
    outcome.isSourceKept ? "" : "its source has changed",
    isOldOrNew(outcome) ? "" : `neither old nor new: ${found}, verified ${outcome.verified}`,
    isDone || ([0, done].includes(again) && mended === after) ? "" : `run again with room: ${again}`,
    leftovers.length === 0 ? "" : `left over: ${leftovers.join(", ")}`,
  ];
  return problems
    .filter((problem) => problem !== "")
    .map((problem) => `${name}, ${free} KiB free: ${problem} (${err.trim()}; ${againErr.trim()})`);
}

/** True if the archive has its old or its new contents, or nothing was made that could pass for a result. */
function isOldOrNew({ name, found, before, after, verified, isDamaged }: Outcome): boolean {
  if (isDamaged && found === before) return true;
  // An interrupted link is reported by verify, and the next run completes it. Every value is there.
  if (name === "link" && found === before) return true;
  // "exit 1": there is something, but no archive that could be read.
  if (found === "exit 1" && before === "absent") return true;
  return [before, after, "absent"].includes(found) && verified === 0;
}

async function makeInputs(inputs: string): Promise<void> {
  const at = (name: string): string => join(inputs, name);
  const cli = async (...argv: string[]): Promise<void> => {
    const { code, err } = await runCli(argv);
    expect([argv.join(" "), code, err.startsWith("superchunk: internal")]).toEqual([
      argv.join(" "),
      0,
      false,
    ]);
  };
  fs.writeFileSync(at("x.npy"), npyOf("<i4", 20_000));
  fs.writeFileSync(at("more.npy"), npyOf("<i4", 5000));
  fs.writeFileSync(at("y.npy"), npyOf("<i4", 20_000));
  fs.writeFileSync(at("more-table.npy"), npyOf("[('x', '<i4'), ('y', '<i4')]", 5000, 8));
  fs.writeFileSync(at("bytes"), npyOf("<i4", 5000));
  await cli("create", at("own"), "--from", at("x.npy"), "--chunklen", "1024", "--superchunklen", "4");
  fs.cpSync(at("own"), at("set"), { recursive: true });
  await cli("set", at("set"), "--slice", "100:5100", at("more.npy"));
  fs.cpSync(at("own"), at("damaged"), { recursive: true });
  const file = join(at("damaged"), "data", "__2__.bin");
  const bytes = fs.readFileSync(file);
  bytes[2000] = (bytes[2000] ?? 0) ^ 1;
  fs.chmodSync(file, 0o644);
  fs.writeFileSync(file, bytes);
  await cli("convert", at("own"), at("carray"), "--to", "bcolz");
  await cli(
    "create",
    at("table"),
    "--as",
    "ctable",
    "--column",
    `x=${at("x.npy")}`,
    "--column",
    `y=${at("y.npy")}`,
  );
  await cli("compress", at("x.npy"), at("file.blp"), "--chunk-size", "4096");
  await cli("compress", at("bytes"), at("bytes.blp"), "--chunk-size", "4096", "--max-app-chunks", "100");
}

/** A `.npy` file of numbers that do not compress. */
function npyOf(descr: string, count: number, itemSize = 4): Buffer {
  const quoted = descr.startsWith("[") ? descr : `'${descr}'`;
  const fields = `{'descr': ${quoted}, 'fortran_order': False, 'shape': (${count},), }`;
  const head = `${fields.padEnd(117)}\n`;
  const values = Int32Array.from(
    { length: (count * itemSize) / 4 },
    (_, i) => Math.imul(i + 1, 2654435761) ^ (i << 7),
  );
  return Buffer.concat([
    Buffer.from([0x93, ...Buffer.from("NUMPY"), 1, 0, head.length, 0]),
    Buffer.from(head),
    Buffer.from(values.buffer),
  ]);
}
