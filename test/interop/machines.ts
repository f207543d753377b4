/**
 * The files of docs/machines, as their users run them: GNU parallel with a hundred shares, also with killed
 * processes, and the Slurm script, run by Slurm itself. Each result matches one `convert` byte for byte.
 */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { repositoryRoot } from "../fixtures/manifest.ts";
import { unpackDebian } from "./debian.ts";
import { cacheFolder } from "./environments.ts";
import { killAtRandom, type Runner } from "./kill-at-random.ts";
import { addHard, checkResult, type MachineWorld, makeMachineWorld, planned } from "./machine-world.ts";
import { lastLines, runProgram } from "./program.ts";
import { findSlurm, Slurm } from "./slurm.ts";
import type { Suite, SuiteContext } from "./suite.ts";

const MACHINES = join(repositoryRoot, "docs", "machines");
const SHARES = 100;

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
    const slurm = await findSlurm();
    if ("absent" in slurm) {
      console.log(`absent: machines: Slurm: ${slurm.absent}`);
      if (process.env["CI"] === "true") context.checks.fail("Slurm", "is absent, and CI=true");
      return;
    }
    const cluster = await Slurm.start(slurm, join(context.folder, "slurm"));
    try {
      const world = await makeMachineWorld(context.folder, "", addHard);
      await checkSlurm(context, world, cluster);
      await killAtRandom(context, world, slurmRunner(world, cluster));
    } finally {
      await cluster.stop();
    }
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

async function checkParallel(context: SuiteContext, world: MachineWorld): Promise<void> {
  const { checks } = context;
  const plan = await planned(world, "parallel");
  const done = await world.run("sh", join(MACHINES, "parallel.sh"), plan, `${SHARES}`);
  checks.equal(`parallel.sh: ${lastLines(done)}`, done.code, 0);
  await checkResult(context, world, "parallel");
}

/** All processes of a run are killed several times; another run of the plan then does the rest. */
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

const SCRIPT = join(MACHINES, "slurm.sh");

/** As docs/many-machines.md describes: an array, and `finish` when it has ended. */
async function checkSlurm(context: SuiteContext, world: MachineWorld, slurm: Slurm): Promise<void> {
  const { checks } = context;
  const plan = await planned(world, "slurm");
  const at = { cwd: world.folder, env: world.env };
  const run = await slurm.submit(["--array=1-7", `--export=ALL,PLAN=${plan}`, ...HERE, SCRIPT], at);
  const after = [`--dependency=afterany:${run}`, "--open-mode=append", "--output=finish.txt"];
  const end = await slurm.submit([...after, "--wrap", `superchunk finish ${plan}`], at);
  await slurm.untilIdle();
  const said = await readFile(join(world.folder, "finish.txt"), "utf8").catch(() => "");
  checks.equal(`slurm: job ${end} says: ${said}`, /archives converted/.test(said), true);
  await checkResult(context, world, "slurm");
}

/** Settings that the script asks for and this machine may not have. */
const HERE = ["--cpus-per-task=1", "--mem=0"];

function slurmRunner(world: MachineWorld, slurm: Slurm): Runner {
  const at = { cwd: world.folder, env: world.env };
  return {
    name: "slurm",
    words: (plan) => ["run", plan],
    async begin(plan) {
      await slurm.submit(["--array=1-5", `--export=ALL,PLAN=${plan}`, ...HERE, SCRIPT], at);
    },
    goesOn: () => slurm.hasJobs(),
  };
}
