/**
 * The files of docs/machines, as their users run them: GNU parallel with a hundred shares, also where processes are killed, and
 * the script of Slurm with the variables that Slurm sets. Each result is that of one `convert`, byte for byte.
 */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, cp, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { corpusFolder, repositoryRoot } from "../fixtures/manifest.ts";
import { unpackDebian } from "./debian.ts";
import { cacheFolder } from "./environments.ts";
import { lastLines, type ProgramResult, runProgram } from "./program.ts";
import type { Suite, SuiteContext } from "./suite.ts";

const MACHINES = join(repositoryRoot, "docs", "machines");
const SHARES = 100;

/** A folder with archives, what one `convert` makes of it, and programs that are started there. */
export interface MachineWorld {
  readonly folder: string;
  /** What one `convert` made: bytes by path. */
  readonly wanted: Readonly<Record<string, string>>;
  readonly env: Readonly<Record<string, string>>;
  run(program: string, ...args: readonly string[]): Promise<ProgramResult>;
}

export const machines: Suite = {
  name: "machines",
  peers: [],
  async run(context) {
    const parallel = await findParallel();
    if ("absent" in parallel) {
      console.log(`absent: machines: GNU parallel: ${parallel.absent}`);
      if (process.env["CI"] === "true") context.checks.fail("GNU parallel", "is absent, and CI=true");
    } else {
      const world = await makeMachineWorld(context.folder, parallel.folder);
      await checkParallel(context, world);
      await checkKilled(context, world);
    }
    await checkSlurm(context, await makeMachineWorld(context.folder));
  },
};

/** The folder of the program, from the path or from Debian's archive. */
async function findParallel(): Promise<{ readonly folder: string } | { readonly absent: string }> {
  const found = await runProgram("parallel", ["--version"]);
  if (found.code === 0 && found.stdout.startsWith("GNU parallel")) return { folder: "" };
  const folder = join(cacheFolder, "parallel");
  const bin = join(folder, "debian", "usr", "bin");
  if (existsSync(join(bin, "parallel"))) return { folder: bin };
  await mkdir(folder, { recursive: true });
  const failure = await unpackDebian(["parallel"], folder);
  return failure === undefined ? { folder: bin } : { absent: failure };
}

/** Makes a folder with the corpus' tables, several times, and what `add` puts there, and converts it once. */
export async function makeMachineWorld(
  parent: string,
  path = "",
  add?: (data: string, run: MachineWorld["run"]) => Promise<void>,
): Promise<MachineWorld> {
  const folder = join(parent, "machines");
  await rm(folder, { recursive: true, force: true });
  const bin = join(folder, "bin");
  await mkdir(bin, { recursive: true });
  const command = join(repositoryRoot, "dist", "cli", "main.js");
  await writeFile(join(bin, "superchunk"), `#!/bin/sh\nexec '${process.execPath}' '${command}' "$@"\n`);
  await chmod(join(bin, "superchunk"), 0o755);
  for (let copy = 0; copy < 30; copy++)
    await cp(join(corpusFolder, "ctable"), join(folder, "data", "bundles", `${copy}`), { recursive: true });
  const env = { PATH: [bin, path, process.env["PATH"]].filter((each) => each !== "").join(delimiter) };
  const run = (program: string, ...args: readonly string[]): Promise<ProgramResult> =>
    runProgram(program, args, { cwd: folder, env });
  await add?.(join(folder, "data", "bundles"), run);
  const straight = join(folder, "straight.zarr");
  const made = await run("superchunk", "convert", "data/bundles", straight);
  // 3: an archive is damaged, and left out.
  if (made.code !== (add === undefined ? 0 : 3)) throw new Error(lastLines(made));
  return { folder, wanted: await bytesOf(straight), env, run };
}

/** The bytes of every file below a folder. */
async function bytesOf(folder: string): Promise<Record<string, string>> {
  const names = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = names
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
  const bytes: Record<string, string> = {};
  for (const file of files) bytes[file.slice(folder.length)] = (await readFile(file)).toString("base64");
  return bytes;
}

/** Checks that a destination is what one `convert` made; says which files are not. */
export async function checkResult(
  { checks }: SuiteContext,
  world: MachineWorld,
  name: string,
): Promise<void> {
  const { folder, wanted } = world;
  const found = await bytesOf(join(folder, `${name}.zarr`));
  const names = [...new Set([...Object.keys(found), ...Object.keys(wanted)])].sort();
  checks.equal(
    `${name}: files that differ`,
    names.filter((each) => found[each] !== wanted[each]).slice(0, 20),
    [],
  );
}

async function planned({ run }: MachineWorld, name: string): Promise<string> {
  const made = await run("superchunk", "plan", "data/bundles", `${name}.zarr`, "-o", `${name}.json`);
  if (made.code !== 0) throw new Error(lastLines(made));
  return `${name}.json`;
}

async function checkParallel(context: SuiteContext, world: MachineWorld): Promise<void> {
  const { checks } = context;
  const plan = await planned(world, "parallel");
  const done = await world.run("sh", join(MACHINES, "parallel.sh"), plan, `${SHARES}`);
  checks.equal(`parallel.sh: ${lastLines(done)}`, done.code, 0);
  await checkResult(context, world, "parallel");
}

/** All processes of a run are killed several times; what then runs the plan again does what is left. */
async function checkKilled(context: SuiteContext, world: MachineWorld): Promise<void> {
  const { checks } = context;
  const plan = await planned(world, "killed");
  const script = join(MACHINES, "parallel.sh");
  for (const milliseconds of [700, 1100, 1900, 2600]) {
    const child = spawn("sh", [script, plan, "20"], {
      cwd: world.folder,
      env: { ...process.env, ...world.env },
      stdio: "ignore",
      detached: true,
    });
    const ended = new Promise((resolve) => child.once("close", resolve));
    await Promise.race([wait(milliseconds), ended]);
    if (child.exitCode === null && child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
    await ended;
  }
  const done = await world.run("sh", script, plan, "3");
  checks.equal(`parallel.sh after kills: ${lastLines(done)}`, done.code, 0);
  await checkResult(context, world, "killed");
}

/** Slurm itself is a service; its script runs here as Slurm starts it. */
async function checkSlurm(context: SuiteContext, world: MachineWorld): Promise<void> {
  const { checks } = context;
  const plan = await planned(world, "slurm");
  const script = join(MACHINES, "slurm.sh");
  const [, first = "", last = ""] =
    /^#SBATCH --array=(\d+)-(\d+)$/m.exec(await readFile(script, "utf8")) ?? [];
  checks.equal("slurm.sh: shares", [first, last], ["1", `${SHARES}`]);
  const count = 7;
  for (let id = 1; id <= count; id++) {
    const done = await runProgram("bash", [script], {
      cwd: world.folder,
      env: {
        ...world.env,
        PLAN: plan,
        SLURM_ARRAY_TASK_ID: `${id}`,
        SLURM_ARRAY_TASK_MIN: "1",
        SLURM_ARRAY_TASK_MAX: `${count}`,
        SLURM_ARRAY_TASK_STEP: "1",
        SLURM_ARRAY_TASK_COUNT: `${count}`,
        SLURM_CPUS_PER_TASK: "2",
      },
    });
    checks.equal(`slurm.sh, task ${id}: ${lastLines(done)}`, done.code, 0);
  }
  checks.equal("slurm: finish", (await world.run("superchunk", "finish", plan)).code, 0);
  await checkResult(context, world, "slurm");
}
