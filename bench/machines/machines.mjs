/**
 * Conversions that many machines share: the cost of splitting them, compared with the same conversion by one `convert`, and with the
 * bars. The machines are processes on this one.
 *
 * `ARCHIVES` (default 100,000), `SHARDS` (1,000,000), `TASKS` (100,000) and `COMMITS` (10,000) make it smaller; `ONLY=plan,many` selects
 * parts, `SHARES` (50) is the number of shares for the small archives.
 */
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { create, open, plan, runTasks } from "../../build/src/node/index.js";
import { enqueue } from "../../build/src/queue/index.js";
import { measure, measureAside } from "../convert/process.mjs";
import { printTable, saveResults, workFolder } from "../report.mjs";

const ARCHIVES = Number(process.env.ARCHIVES ?? 100_000);
const SHARDS = Number(process.env.SHARDS ?? 1_000_000);
const TASKS = Number(process.env.TASKS ?? 100_000);
const COMMITS = Number(process.env.COMMITS ?? 10_000);
const RECODED_ROWS = 700_000;
const WRITERS = 4;
const SHARES = Number(process.env.SHARES ?? 50);
const corpus = fileURLToPath(new URL("../../fixtures/corpus", import.meta.url));
const main = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
const folder = join(workFolder(), "machines");
const at = (name) => join(folder, name);
mkdirSync(at("removed"), { recursive: true });
const rows = [];
const results = { archives: ARCHIVES, shards: SHARDS, tasks: TASKS };

/** One figure beside its bar; `least` if more is better. */
function tell(name, value, unit, bar, { least = false, note = "" } = {}) {
  results[name] = value;
  const isMet = least ? value >= bar : value <= bar;
  rows.push([
    name,
    `${value.toPrecision(3)} ${unit}`,
    `${least ? "≥" : "≤"} ${bar} ${unit}`,
    isMet ? "yes" : "NO",
    note,
  ]);
  console.log(`${name}: ${value.toPrecision(4)} ${unit}`);
}

function seconds(work) {
  const start = performance.now();
  const made = work();
  const took = () => (performance.now() - start) / 1000;
  return made instanceof Promise ? made.then(took) : took();
}

/**
 * Moves files and folders of an earlier run away. They are removed at the end only: for minutes after a removal, ext4 looks at each
 * inode that became free before it makes a file, so what is measured next would take several times as long.
 */
function clear(...names) {
  for (const name of names)
    if (existsSync(at(name))) renameSync(at(name), join(mkdtempSync(join(at("removed"), "run-")), name));
}

/** Runs several processes at a time. Resolves with their output when all have ended. */
function together(commands, script = main) {
  return Promise.all(
    commands.map(
      (args) =>
        new Promise((resolve, reject) => {
          const child = spawn(process.execPath, [script, ...args], { stdio: ["ignore", "pipe", "pipe"] });
          let [printed, said] = ["", ""];
          child.stdout.on("data", (piece) => {
            printed += piece;
          });
          child.stderr.on("data", (piece) => {
            said += piece;
          });
          child.once("close", (code) =>
            code === 0 ? resolve(printed) : reject(new Error(`${args.join(" ")}: ${said}`)),
          );
        }),
    ),
  );
}

/** A digest of all files below a folder, including their names. */
function digestOf(path) {
  const hash = createHash("sha256");
  for (const entry of readdirSync(path, { recursive: true, withFileTypes: true })
    .filter((each) => each.isFile())
    .map((each) => join(each.parentPath, each.name))
    .sort())
    hash.update(entry.slice(path.length)).update(readFileSync(entry));
  return hash.digest("hex");
}

/** A folder of small archives of the corpus. */
function makeSmall(count) {
  const source = at(`small-${count}`);
  if (existsSync(source)) return source;
  const small = ["bloscpack-3/array-f8.blp", "carray/bcolz-f8-chunks"].map((name) => join(corpus, name));
  for (let i = 0; i < count; i++) {
    const one = small[i % small.length];
    const group = `${Math.floor(i / 1000)}`.padStart(4, "0");
    const name = `${i}${one.endsWith(".blp") ? ".blp" : ""}`;
    cpSync(one, join(`${source}.part`, group, name), { recursive: true });
  }
  spawnSync("mv", [`${source}.part`, source]);
  return source;
}

/** Archives of zlib whose chunks end inside rows of {@link RECODED_ROWS} by 3, so that all of them are recompressed. */
function makeRecoded(count) {
  const source = at(`recoded-${count}`);
  if (existsSync(source)) return source;
  mkdirSync(`${source}.part`, { recursive: true });
  const values = Float64Array.from(
    { length: 3 * RECODED_ROWS },
    (_, i) => Math.round(1e4 * Math.sin(i / 1e3)) + ((i * 7919) % 100) / 100,
  );
  writeFileSync(at("recoded.raw"), values);
  const first = join(`${source}.part`, "0.blp");
  measure(["compress", at("recoded.raw"), first, "--codec", "zlib", "--clevel", "9"]);
  for (let i = 1; i < count; i++) cpSync(first, join(`${source}.part`, `${i}.blp`));
  renameSync(`${source}.part`, source);
  return source;
}

const parts = {
  /** A source of very many shards: the same chunk repeated. */
  async plan() {
    const source = at(`repeated-${SHARDS}`);
    if (!existsSync(source)) {
      const made = await create(`${source}.part`, {
        dtype: "<f8",
        shape: [1024 * SHARDS],
        chunkLength: 1024,
      });
      await made.close();
      spawnSync("mv", [`${source}.part`, source]);
    }
    clear("repeated.json", "repeated.zarr");
    let peakMB = 0;
    const took = seconds(() => {
      const args = [
        "plan",
        source,
        at("repeated.zarr"),
        "-o",
        at("repeated.json"),
        "--chunks-per-shard",
        "1",
      ];
      ({ peakMB } = measure(args));
    });
    tell("plan: time", took, "s", 10, { note: `${SHARDS} shards` });
    tell("plan: memory", peakMB, "MB", 300);
    tell("plan: size", statSync(at("repeated.json")).size / SHARDS, "bytes a task", 60);
  },

  /**
   * Very many small archives: one `convert` compared with plan, fifty shares and finish. Each share is a process first, and as many
   * run at a time as there are processors, because `convert` uses them all. Then one process runs them all, which shows what the
   * splitting costs without fifty starts and warm-ups of the engine.
   */
  async many() {
    const source = makeSmall(ARCHIVES);
    clear("one.zarr", "many.zarr", "many-plan");
    spawnSync("sync");
    // Processor seconds are reported too, because wall-clock seconds depend on other load.
    const cost = { convert: [0, 0], plan: [0, 0], run: [0, 0], finish: [0, 0] };
    let peakMB = 0;
    const step = async (name, ...runs) => {
      const atOnce = Array.from({ length: Math.min(runs.length, cpus().length) }, async () => {
        for (let args = runs.shift(); args !== undefined; args = runs.shift()) {
          const used = await measureAside(args);
          cost[name][1] += used.cpuSeconds;
          if (name === "run") peakMB = Math.max(peakMB, used.peakMB);
        }
      });
      cost[name][0] += await seconds(() => Promise.all(atOnce));
    };
    await step("convert", ["convert", source, at("one.zarr")]);
    spawnSync("sync");
    await step("plan", ["plan", source, at("many.zarr"), "-o", at("many-plan")]);
    await step(
      "run",
      ...Array.from({ length: SHARES }, (_, k) => ["run", at("many-plan"), "--task", `${k + 1}/${SHARES}`]),
    );
    await step("finish", ["finish", at("many-plan")]);
    Object.assign(results, { cost, peakMB });
    for (const [name, [clock, cpu]] of Object.entries(cost))
      console.log(`${name}: ${clock.toFixed(1)} s, ${cpu.toFixed(1)} s of processors`);
    const more = (i) => ((cost.plan[i] + cost.run[i] + cost.finish[i]) / cost.convert[i] - 1) * 100;
    const note = `${ARCHIVES} archives, ${SHARES} shares, ${cpus().length} at a time, at most ${peakMB} MB each`;
    tell("shares: time beside one convert", more(0), "% more", 15, { note });
    tell("shares: processors beside one convert", more(1), "% more", 15);
    const isSame = () => digestOf(at("one.zarr")) === digestOf(at("many.zarr"));
    tell("shares: results that differ", isSame() ? 0 : 1, "", 0);
    clear("many.zarr", "many-plan");
    spawnSync("sync");
    let used = "";
    const took = await seconds(async () => {
      const words = [source, at("many.zarr"), at("many-plan"), `${SHARES}`];
      [used] = await together([words], fileURLToPath(new URL("shares.mjs", import.meta.url)));
    });
    const [clock, cpu] = cost.convert;
    tell("shares by one process: time beside one convert", (took / clock - 1) * 100, "% more", 15);
    tell(
      "shares by one process: processors beside one convert",
      (Number(used) / cpu - 1) * 100,
      "% more",
      15,
    );
    tell("shares by one process: results that differ", isSame() ? 0 : 1, "", 0);
    clear("one.zarr", "many.zarr", "many-plan");
  },

  /**
   * One process on one core, compared with two processes on a core each: for archives whose chunks are recompressed (zlib), which only
   * needs processors, and for small archives, each of which is synced to the disk. Enough of them that the start of a process is little.
   */
  async workers() {
    for (const [name, source, options] of [
      [
        "recoding",
        makeRecoded(48),
        { dtype: { kind: "float", itemSize: 8, byteOrder: "little" }, shape: [RECODED_ROWS, 3] },
      ],
      ["small archives", makeSmall(Math.min(ARCHIVES, 15_000)), {}],
    ]) {
      const [clock, cpu] = [{}, {}];
      for (const processes of [1, 2, 1, 2, 1, 2]) {
        clear("workers.zarr", "workers.json");
        await plan(source, at("workers.zarr"), { output: at("workers.json"), ...options });
        spawnSync("sync");
        let used = [];
        const took = await seconds(async () => {
          const share = (_, k) =>
            measureAside(["run", at("workers.json"), "--task", `${k + 1}/${processes}`], k);
          used = await Promise.all(Array.from({ length: processes }, share));
        });
        const longest = Math.max(...used.map(({ cpuSeconds }) => cpuSeconds));
        clock[processes] = Math.min(clock[processes] ?? Number.POSITIVE_INFINITY, took);
        cpu[processes] = Math.min(cpu[processes] ?? Number.POSITIVE_INFINITY, longest);
      }
      clear("workers.zarr", "workers.json");
      for (const [how, { 1: one, 2: two }] of [
        ["clock", clock],
        // The speed of two idle cores, with a disk that causes no waiting.
        ["processors", cpu],
      ]) {
        const note = `one process on one core ${one.toFixed(1)} s, the longer of two ${two.toFixed(1)} s`;
        tell(`${name}: two processes beside one, by ${how}`, one / two, "times", 1.8, { least: true, note });
      }
    }
  },

  /** Very many tasks into a queue, and reading their receipts. */
  async tasks() {
    const source = at(`repeated-${TASKS}`);
    if (!existsSync(source)) {
      const made = await create(source, { dtype: "<f8", shape: [1024 * TASKS], chunkLength: 1024 });
      await made.close();
    }
    clear("tasks.zarr", "tasks.json");
    await plan(source, at("tasks.zarr"), { output: at("tasks.json"), chunksPerShard: 1 });
    const redis = spawn(
      "redis-server",
      ["--port", "7392", "--bind", "127.0.0.1", "--save", "", "--dir", folder],
      { stdio: ["ignore", "pipe", "ignore"] },
    );
    const isThere = await new Promise((resolve) => {
      redis.once("error", () => resolve(false));
      redis.stdout.on("data", (piece) => /Ready to accept/.test(piece) && resolve(true));
    });
    if (isThere) {
      const took = await seconds(() => enqueue(at("tasks.json"), { url: "redis://127.0.0.1:7392" }));
      tell("queue: tasks put in", took, "s", 60, { note: `${TASKS} tasks` });
      redis.kill();
    } else console.log("queue: redis-server is not installed, so nothing is measured");
    const run = await seconds(() => runTasks(at("tasks.json")));
    console.log(`run: ${run.toFixed(1)} s`);
    const read = seconds(() => measure(["status", at("tasks.json")]));
    tell("receipts read", read, "s", 5, { note: `${TASKS} receipts, start of the process included` });
    const finish = seconds(() => measure(["finish", at("tasks.json")]));
    results["finish"] = finish;
    console.log(`finish, which also looks at every object: ${finish.toFixed(1)} s`);
    clear("tasks.zarr", "tasks.json");
  },

  /** Four writers that append to one array in S3. */
  async writers() {
    const server = spawn(process.execPath, [fileURLToPath(new URL("s3-server.mjs", import.meta.url))], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const endpoint = await new Promise((resolve) => {
      server.stdout.once("data", (piece) => resolve(`${piece}`.trim()));
    });
    Object.assign(process.env, {
      AWS_ENDPOINT_URL_S3: endpoint,
      AWS_REGION: "us-east-1",
      AWS_ACCESS_KEY_ID: "bench",
      AWS_SECRET_ACCESS_KEY: "bench",
    });
    const script = fileURLToPath(new URL("writer.mjs", import.meta.url));
    const each = Math.ceil(COMMITS / WRITERS);
    // Whole chunks, which are never rewritten; and rows that end in the middle of a chunk.
    for (const [name, rows] of [
      ["whole chunks", 1024],
      ["100 rows", 100],
    ]) {
      const address = `s3://archives/${name.replace(" ", "-")}`;
      await (await create(address, { dtype: "<f8", chunkLength: 1024 })).close();
      const calls = Array.from({ length: WRITERS }, (_, w) => [address, w + 1, each, rows]);
      const served = async () => Number(await (await fetch(`${endpoint}/cpu`)).text());
      const [began, servedBefore] = [performance.now(), await served()];
      const used = await together(calls, script);
      const took = (performance.now() - began) / 1000;
      const cpu = used.reduce((sum, text) => sum + Number(text), (await served()) - servedBefore);
      const opened = await open(address);
      const found = Float64Array.from((await opened.get()).data).sort();
      const isWhole = found.every((value, i) => {
        const [writer, k] = [Math.floor(i / (each * rows)), i % (each * rows)];
        return value === (writer + 1) * 1e9 + k;
      });
      const note = `${WRITERS * each} commits of ${rows} rows by ${WRITERS} processes`;
      // Independent of other load: the speed of two idle cores.
      const busy = `${((1000 * cpu) / (WRITERS * each)).toFixed(1)} ms of processors for each, server and start of the writers included`;
      tell(`${name}: commits by processors`, (2 * WRITERS * each) / cpu, "a second", 20, {
        least: true,
        note: busy,
      });
      tell(`${name}: commits`, (WRITERS * each) / took, "a second", 20, { least: true, note });
      const missing = isWhole && found.length === WRITERS * each * rows ? 0 : 1;
      tell(`${name}: rows that are not there once`, missing, "", 0);
      await opened.close();
    }
    server.kill();
  },
};

const chosen = process.env.ONLY?.split(",") ?? Object.keys(parts);
for (const name of chosen) await parts[name]();
rmSync(at("removed"), { recursive: true, force: true });
printTable("many machines", ["", "found", "wanted", "met", ""], rows);
saveResults("machines", results);
