/**
 * Several processes take over the lock of a dead one, in every order that a seed gives: threads whose every call of the file system waits
 * for its turn. Never do two of them hold the lock.
 */
import { createHash } from "node:crypto";
import * as fs from "node:fs";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { acquireLock } from "../../src/node/fs/lock.ts";
import { randomFrom } from "../crash/random.ts";
import { temporaryFolder } from "../folder.ts";
import { sweep } from "../scope.ts";
import { bundleScript } from "../store/script.ts";

const WORKERS = 3;
/** States of a worker: runs, waits for its turn, has its turn, holds the lock, has ended. */
const [RUNS, WAITS, GOES, ENDED] = [0, 1, 2, 3];

/** A worker: takes the lock of each path that it is sent, and holds it for two turns. */
const PROGRAM = `
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { parentPort, workerData } from "node:worker_threads";
const { states, holders, index } = workerData;
const state = new Int32Array(states);
const held = new Int32Array(holders);
let folder;
function turn() {
  Atomics.store(state, index, ${WAITS});
  Atomics.notify(state, index);
  Atomics.wait(state, index, ${WAITS});
  Atomics.store(state, index, ${RUNS});
}
for (const name of ["openSync", "linkSync", "renameSync", "rmSync", "writeFileSync", "readdirSync"]) {
  const act = fs[name];
  fs[name] = (...args) => {
    if (typeof args[0] === "string" && folder !== undefined && args[0].startsWith(folder)) turn();
    return act(...args);
  };
}
syncBuiltinESMExports();
const { acquireLock } = await import("./lock.mjs");
parentPort.on("message", async ({ path }) => {
  folder = path.slice(0, path.lastIndexOf("/"));
  turn();
  try {
    const lock = await acquireLock(path);
    if (Atomics.add(held, 0, 1) > 0) Atomics.add(held, 1, 1);
    Atomics.add(held, 2, 1);
    turn();
    turn();
    Atomics.sub(held, 0, 1);
    await lock.release();
  } catch (error) {
    if (error.code !== "CONFLICT") parentPort.postMessage(String(error.stack));
  }
  folder = undefined;
  Atomics.store(state, index, ${ENDED});
  Atomics.notify(state, index);
});
parentPort.postMessage("ready");
`;

let folder: string;
beforeAll(async () => {
  folder = temporaryFolder();
  await bundleScript(`export { acquireLock } from "./src/node/fs/lock.ts";`, join(folder, "lock.mjs"));
  fs.writeFileSync(join(folder, "worker.mjs"), PROGRAM);
});

/** The text of a lock whose process has ended. */
async function deadText(): Promise<string> {
  const path = join(folder, "forged");
  const lock = await acquireLock(path);
  const mine = JSON.parse(fs.readFileSync(path, "utf8"));
  await lock.release();
  return JSON.stringify({ ...mine, started: "1", token: "dead" });
}

test("never are there two holders, and one gets the lock of a dead one", { timeout: 120_000 }, async () => {
  const states = new SharedArrayBuffer(4 * WORKERS);
  const holders = new SharedArrayBuffer(12);
  const state = new Int32Array(states);
  const held = new Int32Array(holders);
  const problems: string[] = [];
  const workers = Array.from({ length: WORKERS }, (_, index) => {
    const worker = new Worker(join(folder, "worker.mjs"), { workerData: { states, holders, index } });
    worker.on("message", (text: string) => text !== "ready" && problems.push(text));
    worker.on("error", (error) => problems.push(String(error)));
    return worker;
  });
  onTestFinished(async () => {
    for (const worker of workers) await worker.terminate();
  });
  await Promise.all(
    workers.map((worker) => new Promise<void>((resolve) => worker.once("message", () => resolve()))),
  );
  const dead = await deadText();
  let taken = 0;
  for (let seed = 0; seed < sweep(2000, 50); seed++) {
    const random = randomFrom(seed);
    const path = join(folder, `seed-${seed}`, "lock");
    fs.mkdirSync(join(path, ".."));
    fs.writeFileSync(path, dead);
    // Another process died while it took the lock away.
    const mark = createHash("sha256").update(dead).digest("hex").slice(0, 16);
    if (seed % 2 === 1) fs.writeFileSync(join(path, "..", `.lock.${mark}.tmp`), dead.replace("dead", "died"));
    state.fill(RUNS);
    held.fill(0);
    for (const worker of workers) worker.postMessage({ path });
    // One runs at a time, until it waits for its next turn.
    const settle = (index: number): void => {
      for (
        let now = Atomics.load(state, index);
        now === RUNS || now === GOES;
        now = Atomics.load(state, index)
      )
        Atomics.wait(state, index, now, 5000);
    };
    for (let index = 0; index < WORKERS; index++) settle(index);
    for (;;) {
      const ready = Array.from({ length: WORKERS }, (_, i) => i).filter((i) => state[i] === WAITS);
      const chosen = ready[Math.floor(random() * ready.length)];
      if (chosen === undefined) break;
      // A worker often keeps its turn: most orders that matter stop one of them in the middle.
      for (let steps = random() < 0.5 ? 1 : 6; steps > 0 && state[chosen] === WAITS; steps--) {
        Atomics.store(state, chosen, GOES);
        Atomics.notify(state, chosen);
        settle(chosen);
      }
    }
    expect(held[1], `two holders with seed ${seed}`).toBe(0);
    expect(held[2], `no holder with seed ${seed}`).toBeGreaterThan(0);
    expect(fs.readdirSync(join(path, "..")), `left with seed ${seed}`).toEqual([]);
    taken += held[2] ?? 0;
  }
  expect(problems).toEqual([]);
  expect(taken).toBeGreaterThan(0);
});
