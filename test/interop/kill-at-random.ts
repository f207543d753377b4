/**
 * Processes of a plan that are killed at random, for `KILL_SECONDS` (default 20): how many, and what remains then.
 *
 * Knows how processes are found and killed; must not know which scheduler starts them.
 */
import { readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { randomFrom } from "../crash/random.ts";
import { checkResult, type MachineWorld, planned } from "./machine-world.ts";
import { lastLines } from "./program.ts";
import type { SuiteContext } from "./suite.ts";

/** For how long. */
const SECONDS = Number(process.env["KILL_SECONDS"] ?? 20);
/** Maximum milliseconds between two kills. */
const LONGEST_PAUSE = 3000;
/** Maximum kills of one plan: it has to end, too. */
const MOST_KILLS = 12;

/** How the tasks of a plan are run. */
export interface Runner {
  readonly name: string;
  /** Words of the command line of every process that may be killed. */
  words(plan: string): readonly string[];
  /** Starts the processes; called again if tasks are left. */
  begin(plan: string): Promise<void>;
  /** True as long as processes are needed; starts the missing ones. */
  goesOn(plan: string): Promise<boolean>;
}

/** What was done. */
interface Kills {
  plans: number;
  processes: number;
  begun: number;
  finishes: number;
}

/**
 * Runs one plan after the other until the time is over, and kills processes of it, `finish` included. Each result
 * must match one `convert`, no task may be lost or left, and a second `finish` must have nothing to do.
 */
export async function killAtRandom(
  context: SuiteContext,
  world: MachineWorld,
  runner: Runner,
): Promise<void> {
  const { checks } = context;
  const random = randomFrom(20);
  const end = Date.now() + SECONDS * 1000;
  const kills: Kills = { plans: 0, processes: 0, begun: 0, finishes: 0 };
  do {
    const name = `${runner.name}-${kills.plans++}`;
    const plan = join(world.folder, await planned(world, name));
    await killTasks(runner, plan, { world, random, kills });
    const status = await statusOf(world, plan);
    checks.equal(
      `${name}: tasks left`,
      status.stage === "finished" ? 0 : status.units - status.done - status.failed,
      0,
    );
    await killFinish(world, plan, { random, kills });
    const done = await world.run("superchunk", "finish", plan);
    checks.equal(`${name}: finish: ${lastLines(done)}`, [0, 3].includes(done.code ?? -1), true);
    const again = await world.run("superchunk", "finish", plan);
    checks.equal(
      `${name}: finish again`,
      [again.code, /nothing is left to do/.test(again.stdout)],
      [0, true],
    );
    await checkResult(context, world, name);
    for (const each of [`${name}.zarr`, `${name}.json`])
      await rm(join(world.folder, each), { recursive: true, force: true });
  } while (Date.now() < end);
  const { plans, processes, begun, finishes } = kills;
  console.log(
    `killed: ${runner.name}: ${SECONDS} s, ${plans} plans, ${processes} processes and ${finishes} finishes killed, tasks given out ${begun} times`,
  );
}

interface Killing {
  readonly world: MachineWorld;
  readonly random: () => number;
  readonly kills: Kills;
}

/** Runs the tasks until each has its receipt, killing processes meanwhile. */
async function killTasks(runner: Runner, plan: string, { world, random, kills }: Killing): Promise<void> {
  for (let killed = 0; ; ) {
    kills.begun++;
    await runner.begin(plan);
    while (await runner.goesOn(plan)) {
      await wait(random() * LONGEST_PAUSE);
      if (killed >= MOST_KILLS) continue;
      const running = await processesWith(runner.words(plan));
      // Now and then all processes at once, as if the machine lost power.
      const chosen =
        random() < 0.2 ? running : running.slice(Math.floor(random() * running.length)).slice(0, 1);
      for (const pid of chosen) if (kill(pid)) killed++;
      kills.processes += chosen.length;
    }
    const { stage, units, done, failed } = await statusOf(world, plan);
    if (stage === "finished" || done + failed === units) return;
  }
}

/** Kills `finish` a few times. */
async function killFinish(
  world: MachineWorld,
  plan: string,
  { random, kills }: Omit<Killing, "world">,
): Promise<void> {
  for (let times = 0; times < 2; times++) {
    const ended = world.run("superchunk", "finish", plan);
    await Promise.race([ended, wait(200 + random() * 600)]);
    for (const pid of await processesWith(["finish", plan])) if (kill(pid)) kills.finishes++;
    await ended;
  }
}

async function statusOf(
  world: MachineWorld,
  plan: string,
): Promise<{
  readonly stage: string;
  readonly units: number;
  readonly done: number;
  readonly failed: number;
}> {
  const answer = await world.run("superchunk", "status", plan, "--json");
  if (answer.code !== 0) throw new Error(lastLines(answer));
  return JSON.parse(answer.stdout) as Awaited<ReturnType<typeof statusOf>>;
}

function kill(pid: number): boolean {
  try {
    return process.kill(pid, "SIGKILL");
  } catch {
    return false; // it has ended meanwhile
  }
}

/** Processes of Node.js whose command line contains all words. */
async function processesWith(words: readonly string[]): Promise<number[]> {
  const found: number[] = [];
  for (const name of await readdir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const line = await readFile(`/proc/${name}/cmdline`, "utf8").catch(() => "");
    const all = line.split("\0");
    if (all[0] === process.execPath && words.every((word) => all.includes(word))) found.push(Number(name));
  }
  return found;
}
