/** `repair` killed at random moments: what was whole before stays whole, and the next run completes the repair. */
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { buildPackage } from "../cli/built.ts";
import { runCli } from "../cli/harness.ts";
import { randomFrom } from "../crash/random.ts";
import { runProcess } from "./command.ts";
import { note, runsOf } from "./figures.ts";

const CHUNKLEN = 512;
const ROWS = 60_000;

let folder: string;
let main: string;
beforeAll(async () => {
  folder = fs.mkdtempSync(join(tmpdir(), "superchunk-repair-kills-"));
  main = await buildPackage(folder);
});
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }));

const at = (name: string): string => join(folder, name);

/** Values of an array of int32, undefined if it cannot be read. */
async function valuesOf(path: string): Promise<Int32Array | undefined> {
  const { code, bytes } = await runCli(["cat", path, "--format", "raw"]);
  return code === 0 ? new Int32Array(new Uint8Array(bytes).buffer) : undefined;
}

/** Every file below a folder, as one hash. */
function hashOf(path: string): string {
  const hash = createHash("sha1");
  for (const name of fs.readdirSync(path, { recursive: true }).map(String).sort())
    if (fs.statSync(join(path, name)).isFile()) hash.update(name).update(fs.readFileSync(join(path, name)));
  return hash.digest("hex");
}

/** Runs the command and kills it some milliseconds after its start. How long it took, if it ended before that. */
async function timeUnlessKilled(argv: readonly string[], delay: number): Promise<number | undefined> {
  const started = performance.now();
  const child = spawn(process.execPath, [main, ...argv], { stdio: "ignore" });
  const timer = setTimeout(() => child.kill("SIGKILL"), delay);
  const [, signal] = (await once(child, "close")) as [number | null, NodeJS.Signals | null];
  clearTimeout(timer);
  return signal === "SIGKILL" ? undefined : performance.now() - started;
}

/** An array with a byte flipped in one chunk, and its values before that. */
async function makeDamaged(): Promise<Int32Array> {
  const values = Int32Array.from({ length: ROWS }, (_, i) => Math.imul(i + 1, 2654435761) ^ (i << 9));
  fs.writeFileSync(at("values"), values);
  const made = await runCli([
    ...["create", at("damaged"), "--from", at("values"), "--dtype", "<i4", "--shape", "-1"],
    ...["--chunklen", String(CHUNKLEN), "--superchunklen", "8"],
  ]);
  expect(made.code, made.err).toBe(0);
  const file = join(at("damaged"), "data", "__5__.bin");
  const bytes = fs.readFileSync(file);
  const middle = bytes.length >> 1;
  bytes[middle] = (bytes[middle] ?? 0) ^ 1;
  fs.chmodSync(file, 0o644);
  fs.writeFileSync(file, bytes);
  return values;
}

/** Rows that differ from the values before the damage, if there are as many. */
function wrongRows(found: Int32Array | undefined, values: Int32Array): number {
  if (found?.length !== values.length) return Number.POSITIVE_INFINITY;
  let wrong = 0;
  for (let row = 0; row < values.length; row++) if (found[row] !== values[row]) wrong++;
  return wrong;
}

test("a repair that is killed at any moment loses no whole row, in place or into a copy", async () => {
  const values = await makeDamaged();
  const source = hashOf(at("damaged"));
  // How long an undisturbed repair takes, including the start of Node.js.
  fs.cpSync(at("damaged"), at("whole"), { recursive: true });
  const started = performance.now();
  const undisturbed = await runProcess(process.execPath, [
    main,
    "repair",
    at("whole"),
    "--in-place",
    "--holes",
    "fill",
  ]);
  let duration = performance.now() - started;
  expect(undisturbed.code, undisturbed.err).toBe(3);
  expect(wrongRows(await valuesOf(at("whole")), values)).toBeLessThanOrEqual(CHUNKLEN);

  const random = randomFrom(15);
  const kills = runsOf(2, 40, 300);
  const counts = { "killed in place": 0, "killed into another": 0, "repaired when killed": 0 };
  // On a busy machine some end before they are killed, and prove nothing.
  const killsSoFar = (): number => counts["killed in place"] + counts["killed into another"];
  for (let kill = 0; kill < kills || (killsSoFar() === 0 && kill < kills + 20); kill++) {
    const isHere = kill % 2 === 0;
    const root = at("array");
    const copy = at("copy");
    for (const path of [root, copy]) fs.rmSync(path, { recursive: true, force: true });
    fs.cpSync(at("damaged"), root, { recursive: true, preserveTimestamps: true });
    const argv = ["repair", root, ...(isHere ? ["--in-place"] : [copy]), "--holes", "fill"];
    const label = `kill ${kill}: ${argv.join(" ")}`;
    const took = await timeUnlessKilled(argv, duration * (0.4 + 0.6 * random()));
    if (took === undefined) counts[isHere ? "killed in place" : "killed into another"]++;
    // The machine may have been busier while the first one ran.
    else duration = Math.min(duration, took);
    if (!isHere) {
      expect(hashOf(root), label).toBe(source);
      const partial = fs.existsSync(copy) ? await valuesOf(copy) : undefined;
      // Whatever opens has every row that was whole: nothing less passes for the copy.
      if (partial !== undefined) expect(wrongRows(partial, values), label).toBeLessThanOrEqual(CHUNKLEN);
      fs.rmSync(copy, { recursive: true, force: true });
    }
    const now = await valuesOf(root);
    if (now !== undefined) counts["repaired when killed"]++;
    if (now !== undefined) expect(wrongRows(now, values), label).toBeLessThanOrEqual(CHUNKLEN);
    // A second run completes it, whatever the first one left.
    const again = await runCli(argv);
    expect([label, [0, 3].includes(again.code)], again.err).toEqual([label, true]);
    const target = isHere ? root : copy;
    expect(wrongRows(await valuesOf(target), values), label).toBeLessThanOrEqual(CHUNKLEN);
    expect((await runCli(["verify", target])).code, label).toBe(0);
  }
  note("repair under kills", { kills, ...counts, "rows lost that were whole": 0 });
  expect(killsSoFar()).toBeGreaterThan(0);
});
