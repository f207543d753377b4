/** Plans that many processes share: the result matches one `convert` byte for byte, whatever happens to the processes. */
import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { describe, expect, it, vi } from "vitest";
import type { ConvertOptions } from "../../src/convert/pipeline.ts";
import { digestOf, metadataVersions } from "../../src/convert/sources/items.ts";
import { SuperchunkError } from "../../src/errors.ts";
import { parseDType } from "../../src/format/dtype.ts";
import type { JsonValue } from "../../src/format/types.ts";
import { FileStore } from "../../src/node/fs/fs-store.ts";
import { open } from "../../src/open/open.ts";
import { finishShared } from "../../src/plan/finish.ts";
import { checkPlan, digestOfPlan, planShared, type SharedJob } from "../../src/plan/job.ts";
import { peek, peekVersions } from "../../src/plan/peek.ts";
import { planPlaces } from "../../src/plan/places.ts";
import { type SharedSource, Units } from "../../src/plan/plan.ts";
import { runShared, type ShareResult } from "../../src/plan/run.ts";
import { statusOf } from "../../src/plan/status.ts";
import { readPlan, storePlan } from "../../src/plan/stored-plan.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import type { WritableStore } from "../../src/store/types.ts";
import { interceptStore } from "../../src/store/wrappers/intercept.ts";
import { createArray } from "../../src/write/array/create.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { convert } from "../../src/zarr.ts";
import { putCarray, putRaw } from "../convert/to-zarr/make-archive.ts";
import { keysOf } from "../convert/to-zarr/read-back.ts";
import { randomFrom } from "../crash/random.ts";
import { temporaryFolder } from "../folder.ts";
import { sample, sweep } from "../scope.ts";
import { withFaults } from "../store/faulty.ts";

const FACTS = { software: "test", from: ["in"], to: "out" };
const ROWS = 2000;

/** Archives in folders; `damaged` names one whose storage document is broken, if any. */
async function makeTree({ count = 9, damaged = "" } = {}): Promise<MemoryStore> {
  const store = new MemoryStore();
  for (let i = 0; i < count; i++) {
    const key = `in/${i % 2 === 0 ? "even" : "odd"}/${i}.bcolz`;
    const rows = 40 * ((i % 9) + 1);
    const values = new Uint8Array(Float64Array.from({ length: rows }, (_, row) => row * i).buffer);
    await putCarray(store, key, values, 16, { dtype: "float64", shape: [rows] });
    if (key.includes(`/${damaged}.`)) await store.put(`${key}/meta/storage`, Uint8Array.of(0x7b));
  }
  return store;
}

/** One array of many chunks, which is cut into tasks. */
async function makeArray(): Promise<MemoryStore> {
  const store = new MemoryStore();
  const values = new Uint8Array(Float64Array.from({ length: ROWS }, (_, row) => row).buffer);
  await putCarray(store, "in", values, 20, { dtype: "float64", shape: [ROWS] });
  return store;
}

/** A table of two columns, of 500 and 100 chunks. */
async function makeTable(): Promise<MemoryStore> {
  const store = new MemoryStore();
  const days = new Uint8Array(Int32Array.from({ length: ROWS }, (_, row) => row ^ 5).buffer);
  const prices = new Uint8Array(Float64Array.from({ length: ROWS }, (_, row) => row / 8).buffer);
  await putCarray(store, "in/day", days, 4, { dtype: "int32", shape: [ROWS] });
  await putCarray(store, "in/price", prices, 20, { dtype: "float64", shape: [ROWS] });
  await store.put("in/__rootdirs__", new TextEncoder().encode('{"names": ["day", "price"]}'));
  await store.put("in/__attrs__", new TextEncoder().encode('{"unit": "EUR"}'));
  return store;
}

/** An array of superchunks of 512 chunks, the last one short: rows of two fields, if they are `columns`. */
async function makeSuperchunks({ columns = false } = {}): Promise<MemoryStore> {
  const store = new MemoryStore();
  const rows = 512 * 3 + 101;
  const dtype: JsonValue = columns
    ? [
        ["a", "<i2"],
        ["b", "<f4", [2]],
      ]
    : "<u4";
  const array = await createArray(store, "in", { dtype, chunkLength: 1, attrs: { unit: "EUR" } });
  const itemSize = columns ? 10 : 4;
  await array.append(Uint8Array.from({ length: rows * itemSize }, (_, i) => (i * 7) % 251));
  await array.close();
  return store;
}

type Objects = Readonly<Record<string, string>>;

async function objectsOf(store: MemoryStore): Promise<Objects> {
  const keys = (await keysOf(store)).sort();
  const texts = keys.map(async (key) => {
    const bytes = Buffer.from((await store.get(key)) ?? []);
    // Each array of superchunks has a random id.
    const isNamed = key.endsWith("meta/sizes");
    const shown = isNamed ? bytes.toString("latin1").replace(/"id":\s*"[0-9a-f]{32}"/, '"id":""') : bytes;
    return [key, Buffer.from(shown).toString("base64")];
  });
  return Object.fromEntries(await Promise.all(texts)) as Objects;
}

/** What one `convert` makes. */
async function straight(source: MemoryStore, options: ConvertOptions = {}): Promise<Objects> {
  const target = new MemoryStore();
  await convert(
    { store: source, path: "in" },
    { store: target, path: "out" },
    { ...options, skipFailed: true },
  );
  return objectsOf(target);
}

async function planOf(
  source: MemoryStore,
  target: WritableStore,
  options: ConvertOptions = {},
): Promise<SharedJob> {
  const [from, to] = [
    { store: source, path: "in" },
    { store: target, path: "out" },
  ];
  return { plan: await planShared(from, to, options, FACTS), source: from, destination: to };
}

const ARRAY_OPTIONS: ConvertOptions = { chunksPerShard: 4 };
/** 80 rows a file. */
const PARTS: ConvertOptions = { to: "parquet", parquet: { partition: "rows" }, shardSize: 640 };
/** 80 rows, or 60, a task. */
const CHUNKS: ConvertOptions = { to: "bcolz", shardSize: 640 };
/** One superchunk a task. */
const SUPERCHUNKS: ConvertOptions = { to: "blz", shardSize: 1 };

const CASES: readonly (readonly [name: string, make: () => Promise<MemoryStore>, options: ConvertOptions])[] =
  [
    ["a folder of archives", makeTree, {}],
    ["a folder of archives, each a file of values", makeTree, { to: "npy" }],
    ["a folder of archives, each a frame of Blosc2", makeTree, { to: "b2nd" }],
    ["a folder of archives, each a folder of bcolz", makeTree, { to: "bcolz" }],
    ["one array in tasks", makeArray, ARRAY_OPTIONS],
    ["one array in tasks, compared", makeArray, { ...ARRAY_OPTIONS, verify: true }],
    ["one array in files of Parquet", makeArray, PARTS],
    ["one array in files of Parquet, compared", makeArray, { ...PARTS, verify: true }],
    ["one array in chunk files of bcolz", makeArray, CHUNKS],
    ["one array in chunk files of bcolz, compared", makeArray, { ...CHUNKS, verify: true }],
    ["one table in chunk files of bcolz", makeTable, CHUNKS],
    ["one array in superchunks", makeSuperchunks, SUPERCHUNKS],
    ["one array in superchunks, compared", makeSuperchunks, { ...SUPERCHUNKS, verify: true }],
    ["one table in superchunks", () => makeSuperchunks({ columns: true }), SUPERCHUNKS],
  ];
/** What is compared is also made. */
const COMPARED = CASES.filter(([name]) => !CASES.some(([other]) => other === `${name}, compared`));

describe.each(sweep(CASES, COMPARED))("%s", (_, make, options) => {
  it("in several shares makes what one conversion makes", async () => {
    const source = await make();
    const target = new MemoryStore();
    const job = await planOf(source, target, options);
    const units = new Units(job.plan).count;
    const n = Math.min(7, units - 1);
    expect(n).toBeGreaterThan(2);
    const results: ShareResult[] = [];
    for (let k = 1; k <= n; k++) results.push(await runShared(job, { share: { k, n } }));
    expect(results.reduce((sum, { done }) => sum + done, 0)).toBe(units);
    expect(
      Math.max(...results.map((each) => each.units)) - Math.min(...results.map((each) => each.units)),
    ).toBeLessThanOrEqual(1);
    expect(await finishShared(job)).toMatchObject({ failed: 0 });
    const wanted = await straight(source, options);
    expect(await objectsOf(target)).toEqual(wanted);
    // All of it is idempotent.
    expect((await runShared(job, {})).done).toBe(0);
    expect(await finishShared(job)).toBeUndefined();
    expect(await objectsOf(target)).toEqual(wanted);
  });
});

describe.each(sample(sweep(CASES, COMPARED), 4))("%s", (_, make, options) => {
  it("publishes nothing before finish, and says which tasks are missing", async () => {
    const source = await make();
    const target = new MemoryStore();
    const job = await planOf(source, target, options);
    await runShared(job, { share: { k: 1, n: 3 } });
    await expect(finishShared(job)).rejects.toMatchObject({
      code: "INCOMPLETE",
      details: { field: "tasks" },
    });
    expect(await target.get("out/zarr.json")).toBeUndefined();
    const status = await statusOf(job);
    expect(status).toMatchObject({ stage: "running", failed: 0, running: 0 });
    expect(status.done).toBeLessThan(status.units);
    await runShared(job, {});
    expect((await statusOf(job)).done).toBe(status.units);
    await finishShared(job);
    expect((await statusOf(job)).stage).toBe("finished");
  });

  it("keeps out another plan that begins at the same moment", async () => {
    const source = await make();
    const target = new MemoryStore();
    const job = await planOf(source, target, options);
    const other = await planOf(source, target, { ...options, recode: true });
    const runs = await Promise.allSettled([runShared(job, {}), runShared(other, {})]);
    expect(runs.map(({ status }) => status)).toEqual(["fulfilled", "rejected"]);
    expect(runs[1]).toMatchObject({ reason: { code: "CONFLICT" } });
    expect(await finishShared(job)).toMatchObject({ failed: 0 });
    expect(await objectsOf(target)).toEqual(await straight(source, options));
  });

  it("makes objects again that were removed or changed after their tasks", async () => {
    const source = await make();
    const target = new MemoryStore();
    const job = await planOf(source, target, options);
    for (let k = 1; k <= 3; k++) await runShared(job, { share: { k, n: 3 } });
    const made = (await keysOf(target)).filter((key) => key.startsWith("out/") && !key.includes("/."));
    const [gone = "", changed = ""] = [made[1], made.at(-1)];
    await target.delete(gone);
    await target.put(changed, Uint8Array.of(1));
    const error = await finishShared(job).catch((reason: unknown) => reason);
    expect(error).toMatchObject({
      code: "INCOMPLETE",
      message: expect.stringContaining("run the plan again"),
    });
    expect((await statusOf(job)).done).toBeLessThan(new Units(job.plan).count);
    const again = await runShared(job, {});
    expect([again.failed, again.done > 0, again.done <= 2]).toEqual([0, true, true]);
    expect(await finishShared(job)).toMatchObject({ failed: 0 });
    expect(await objectsOf(target)).toEqual(await straight(source, options));
  });

  it("is the same if the process that finishes it is killed at any write", async () => {
    const source = await make();
    const wanted = await straight(source, options);
    const target = new MemoryStore();
    const job = await planOf(source, target, options);
    await runShared(job, {});
    const before = await objectsOf(target);
    let wasKilled = true;
    for (let failAt = 1; wasKilled; failAt += sweep(1, 9)) {
      const copy = new MemoryStore(
        Object.entries(before).map(([key, text]) => [key, new Uint8Array(Buffer.from(text, "base64"))]),
      );
      const faulty = withFaults(copy, {
        failAt,
        kind: failAt % 2 === 0 ? "crash" : "crash-after",
        counts: "writes",
      });
      const at = (store: WritableStore): SharedJob => ({ ...job, destination: { store, path: "out" } });
      await finishShared(at(faulty.store)).catch(() => undefined);
      wasKilled = faulty.failed();
      await finishShared(at(copy));
      expect(await objectsOf(copy), `killed at write ${failAt}`).toEqual(wanted);
    }
  });
});

describe("a scheduler that delays, duplicates, reorders and kills", () => {
  // 6411: a process believed dead dies after it has put the record of the finished plan again.
  const seeds = [...Array.from({ length: sweep(200, 6) }, (_, seed) => seed), 6411];

  it.each(seeds)("loses and duplicates nothing (seed %i)", async (seed) => {
    const random = randomFrom(seed);
    const isTree = seed % 2 === 0;
    const source = await (isTree ? makeTree() : (seed >> 1) % 3 === 2 ? makeSuperchunks() : makeArray());
    const options = isTree
      ? { to: (["zarr", "bcolz", "npy"] as const)[(seed >> 1) % 3] }
      : [ARRAY_OPTIONS, CHUNKS, SUPERCHUNKS][(seed >> 1) % 3];
    const target = new MemoryStore();
    const job = await planOf(source, target, options);
    // A process that hangs at one of its calls until another has finished the plan, and then continues.
    let goOn: () => void = () => undefined;
    const finished = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    let calls = Math.floor(random() * 150);
    const hangs = async (): Promise<void> => (--calls === 0 ? finished : undefined);
    const zombie = runShared(unreliable(job, random, hangs), { worker: "zombie" }).catch(() => undefined);
    const shares = 2 + Math.floor(random() * 4);
    // Every share is given out once, and some again, while the first is still running.
    const orders = Array.from({ length: shares * 2 }, () => 1 + Math.floor(random() * shares));
    await Promise.all(
      orders.map((k, i) =>
        runShared(unreliable(job, random), { share: { k, n: shares }, worker: `w${i}` }).catch(
          () => undefined,
        ),
      ),
    );
    await runShared(unreliable(job, random), {}).catch(() => undefined);
    await runShared(job, { worker: "last" });
    await finishShared(job);
    const wanted = await straight(source, options);
    goOn();
    await zombie;
    // What it left, if it died then, is removed by the next finish; what is there never differs.
    expect(await objectsOf(target)).toMatchObject(wanted);
    await finishShared(job);
    expect(await objectsOf(target)).toEqual(wanted);
  });

  /** The same job in a process whose calls take time, and which may die at any of them. */
  function unreliable(
    job: SharedJob,
    random: () => number,
    hangs: () => Promise<void> = async () => undefined,
  ): SharedJob {
    let left = random() < 0.3 ? Number.POSITIVE_INFINITY : Math.floor(random() * 120);
    const live = async (): Promise<void> => {
      await hangs();
      for (let turns = Math.floor(random() * 4); turns > 0; turns--) await setImmediate();
      if (--left < 0) throw new Error("the process is dead");
    };
    const store = interceptStore(job.destination.store, {
      async onCall(_, proceed) {
        await live();
        return proceed();
      },
      onSync: (_, proceed) => proceed(),
      onList: live,
    });
    return { ...job, destination: { ...job.destination, store } };
  }
});

/** The store of a process whose puts of some keys wait for `goOn`. */
function holdPuts(target: MemoryStore, isHeld: (key: string) => boolean) {
  let goOn: () => void = () => undefined;
  const released = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  const store = interceptStore(target, {
    onCall: async ({ method, key }, proceed) => {
      if (method === "put" && isHeld(key)) await released;
      return proceed();
    },
    onSync: (_, proceed) => proceed(),
    onList: async () => undefined,
  });
  return { store, goOn: () => goOn() };
}

it("a process that resumes writing receipts after the plan was finished leaves nothing", async () => {
  const source = await makeTree();
  const target = new MemoryStore();
  const job = await planOf(source, target);
  const { store, goOn } = holdPuts(target, (key) => key.endsWith(".jsonl"));
  const zombie = runShared({ ...job, destination: { store, path: "out" } }, { worker: "zombie" });
  await runShared(job, { worker: "other" });
  await finishShared(job);
  goOn();
  await zombie;
  expect(await objectsOf(target)).toEqual(await straight(source));
});

it("a process whose receipts are removed while it writes them does not fail", async () => {
  const target = new MemoryStore();
  const job = await planOf(await makeTree(), target);
  let removed = 0;
  const store = interceptStore(target, {
    onCall: async ({ method, key }, proceed) => {
      if (method === "put" && key.endsWith(".jsonl") && removed++ === 1)
        throw new SuperchunkError("NOT_FOUND", "there is nothing at this path", { path: key });
      return proceed();
    },
    onSync: (_, proceed) => proceed(),
    onList: async () => undefined,
  });
  expect(await runShared({ ...job, destination: { store, path: "out" } }, {})).toMatchObject({ failed: 0 });
  expect(removed).toBeGreaterThan(2);
  expect(await finishShared(job)).toMatchObject({ failed: expect.any(Number) as number });
});

it("a process that goes on after others finished the plan stops once it notices", async () => {
  const source = await makeTree();
  const target = new MemoryStore();
  const job = await planOf(source, target);
  vi.useFakeTimers({ toFake: ["Date"] });
  try {
    const { store, goOn } = holdPuts(target, (key) => key.endsWith("/c/0"));
    const zombie = runShared({ ...job, destination: { store, path: "out" } }, { worker: "zombie", jobs: 1 });
    await runShared(job, { worker: "other" });
    await finishShared(job);
    vi.setSystemTime(Date.now() + 60_000);
    goOn();
    const { done, units } = await zombie;
    expect(done).toBeLessThan(units / 2);
  } finally {
    vi.useRealTimers();
  }
  expect(await objectsOf(target)).toEqual(await straight(source));
});

it("a process whose tasks take long reports, and one that was killed is silent", async () => {
  const target = new MemoryStore();
  const job = await planOf(await makeArray(), target, ARRAY_OPTIONS);
  vi.useFakeTimers({ toFake: ["Date", "setInterval", "clearInterval"] });
  try {
    const { store, goOn } = holdPuts(target, (key) => key.startsWith("out/c/"));
    const started = Date.now();
    const run = runShared({ ...job, destination: { store, path: "out" } }, { worker: "slow" });
    const stateAfter = async (ms: number) => {
      for (let turn = 0; turn < 200; turn++) await setImmediate();
      await vi.advanceTimersByTimeAsync(ms);
      for (let turn = 0; turn < 200; turn++) await setImmediate();
      return statusOf(job);
    };
    const early = await stateAfter(1500);
    expect(early).toMatchObject({ running: 4, workers: [{ silent: false, running: 4, since: started }] });
    const busy = await stateAfter(600_000);
    expect(busy).toMatchObject({ running: 4, workers: [{ silent: false, running: 4, since: started }] });
    vi.setSystemTime(Date.now() + 150_000);
    expect(await statusOf(job)).toMatchObject({ running: 0, workers: [{ silent: true, running: 4 }] });
    goOn();
    await run;
    expect((await statusOf(job)).workers).toMatchObject([{ silent: false, ended: true, running: 0 }]);
  } finally {
    vi.useRealTimers();
  }
  expect(await finishShared(job)).toMatchObject({ failed: 0 });
});

it.each([ARRAY_OPTIONS, CHUNKS])(
  "a finish that is killed inside a write leaves nothing after the next one: %o",
  async (options) => {
    const folder = temporaryFolder();
    const target = new FileStore(folder);
    const source = await makeArray();
    const job = await planOf(source, target, options);
    await runShared(job, {});
    let isDead = false;
    const killed = interceptStore(target, {
      onCall: async ({ method, key }, proceed) => {
        if (!isDead && method === "put" && /(zarr\.json|meta\/storage)$/.test(key)) {
          isDead = true;
          await mkdir(join(folder, key, ".."), { recursive: true });
          const name = key.slice(key.lastIndexOf("/") + 1);
          await writeFile(join(folder, key, "..", `.${name}.0123456789abcdef.tmp`), "half");
        }
        if (isDead) throw new Error("the process is dead");
        return proceed();
      },
      onSync: (_, proceed) => proceed(),
      onList: async () => undefined,
    });
    await expect(finishShared({ ...job, destination: { store: killed, path: "out" } })).rejects.toThrow(
      "dead",
    );
    expect(await finishShared(job)).toMatchObject({ failed: 0 });
    const left = (await readdir(folder, { recursive: true })).filter((name) => /(^|\/)\./.test(name));
    expect(left).toEqual([]);
  },
);

it("finish refuses a destination that something else has taken since", async () => {
  const target = new MemoryStore();
  const job = await planOf(await makeArray(), target, ARRAY_OPTIONS);
  await target.put("out/readme.txt", Uint8Array.of(1));
  for (const step of [() => runShared(job, {}), () => finishShared(job)])
    await expect(step()).rejects.toMatchObject({
      code: "CONFLICT",
      message: expect.stringContaining("the destination exists"),
    });
});

it("what was opened for a plan of references is not read again for it", async () => {
  const source = new MemoryStore();
  await putRaw(source, "in/one.blp", new Uint8Array(80));
  const opened = await open(source, "in/one.blp");
  const asked: string[] = [];
  const store = interceptStore(source, {
    onCall: ({ method }, proceed) => {
      asked.push(method);
      return proceed();
    },
    onSync: (_, proceed) => proceed(),
    onList: () => undefined,
  });
  const work = { command: "virtualize", archivesOnly: true } as const;
  const to = { store: new MemoryStore(), path: "out.json" };
  const plan = await planPlaces(work, [{ store, path: "in/one.blp", opened }], to, {}, FACTS);
  expect(plan.sources).toMatchObject([{ nbytes: 80 }]);
  expect(asked).toEqual(["stat"]);
});

it("a process that takes the destination while another has created files under its record continues", async () => {
  const source = await makeTree();
  const target = new MemoryStore();
  const job = await planOf(source, target, { to: "npy" });
  // The first process has written the record, and looks at what is there, when the second one has run its share.
  const slow = interceptStore(target, {
    onCall: async (call, proceed) => {
      const result = await proceed();
      if (call.method === "put" && !call.key.endsWith(".jsonl") && !ran) {
        ran = true;
        await runShared(job, { share: { k: 1, n: 2 } });
      }
      return result;
    },
    onSync: (_, proceed) => proceed(),
    onList: async () => undefined,
  });
  let ran = false;
  const first = { ...job, destination: { store: slow, path: "out" } };
  expect(await runShared(first, { share: { k: 2, n: 2 } })).toMatchObject({ done: 4, failed: 0 });
  expect(await finishShared(job)).toMatchObject({ converted: 9 });
  expect(await objectsOf(target)).toEqual(await straight(source, { to: "npy" }));
});

it("objects of Zarr count with their share of the array, in plans and in progress", async () => {
  const target = new MemoryStore();
  await convert({ store: await makeArray(), path: "in" }, { store: target, path: "in" }, ARRAY_OPTIONS);
  const array = await openZarrArray(target, "in", {});
  const plan = await planShared(array, { store: new MemoryStore(), path: "out" }, {}, FACTS);
  expect(plan.sources).toMatchObject([{ nbytes: 8 * ROWS, tasks: [[[25, 640]]] }]);
  const seen: number[] = [];
  const to = { store: new MemoryStore(), path: "out" };
  await convert(array, to, { onProgress: ({ done }) => void seen.push(done) });
  expect(seen).toEqual(Array.from({ length: 25 }, (_, i) => 640 * (i + 1)));
});

describe("a source", () => {
  it.each([{}, { to: "npy" }, { to: "bcolz" }] as const)(
    "that changed since the plan was made is named, and the others are run: %o",
    async (options) => {
      const source = await makeTree();
      const target = new MemoryStore();
      const job = await planOf(source, target, options);
      await putCarray(source, "in/odd/3.bcolz", new Uint8Array(800), 16, { dtype: "float64", shape: [100] });
      const { failures, done } = await runShared(job, {});
      expect(done).toBe(8);
      expect(failures).toMatchObject([{ code: "CONFLICT", isFinal: false }]);
      expect(failures[0]?.path).toContain("odd/3.bcolz");
      await expect(finishShared(job)).rejects.toMatchObject({ code: "INCOMPLETE" });
      expect(await target.get("out/zarr.json")).toBeUndefined();
      // What a process made of it, and was killed before its receipt.
      const { node } = job.plan.sources.find(({ path }) => path.includes("odd/3")) ?? { node: "" };
      const made = `out/${node}`;
      await target.put(options.to === "npy" ? `${made}.npy` : `${made}/zarr.json`, Uint8Array.of(1));
      const result = await finishShared(job, { withoutFailed: true });
      expect(result).toMatchObject({ converted: 8, failed: 1 });
      expect(result?.entries.filter(({ code }) => code === "CONFLICT")).toHaveLength(1);
      for (const key of await keysOf(source)) if (key.startsWith("in/odd/3.")) await source.delete(key);
      expect(await objectsOf(target)).toEqual(await straight(source, options));
    },
  );

  it("that was never tried is not left out", async () => {
    const job = await planOf(await makeTree(), new MemoryStore());
    await runShared(job, { share: { k: 1, n: 2 } });
    await expect(finishShared(job, { withoutFailed: true })).rejects.toMatchObject({ code: "INCOMPLETE" });
  });

  it("that is missing is named by finish, however many there are", async () => {
    const source = await makeTree({ count: 250 });
    const target = new MemoryStore();
    const job = await planOf(source, target, { to: "npy" });
    for (const key of await keysOf(source)) if (key.startsWith("in/odd/")) await source.delete(key);
    expect(await runShared(job, {})).toMatchObject({ done: 125, failed: 125 });
    expect((await statusOf(job)).failures).toHaveLength(125);
    expect(await finishShared(job, { withoutFailed: true })).toMatchObject({ converted: 125, failed: 125 });
    expect(await objectsOf(target)).toEqual(await straight(source, { to: "npy" }));
  });

  it("of the only source ends with its error, which says what to do", async () => {
    const source = await makeArray();
    await source.put("in/data/__7.blp", Uint8Array.of(1, 2, 3));
    const job = await planOf(source, new MemoryStore(), ARRAY_OPTIONS);
    const [failure] = (await runShared(job, {})).failures;
    expect(failure).toMatchObject({ isFinal: true, units: 1 });
    await expect(finishShared(job)).rejects.toMatchObject({
      code: failure?.code,
      message: expect.stringMatching(/__7\.blp.*remove this destination/) as string,
    });
  });

  it("of which every one fails leaves nothing, so that the plan can be made again", async () => {
    const source = new MemoryStore();
    for (const name of ["a", "b"]) await source.put(`in/${name}.blp`, Uint8Array.of(98, 108, 112));
    const target = new MemoryStore();
    const job = await planOf(source, target);
    await runShared(job, {});
    expect(await finishShared(job)).toMatchObject({ converted: 0, failed: 2 });
    expect(await keysOf(target)).toEqual([]);
    await planOf(source, target);
  });

  it("that always fails is reported once, and does not stop the rest", async () => {
    const source = await makeTree({ damaged: "4" });
    const target = new MemoryStore();
    const job = await planOf(source, target);
    for (const k of [1, 2, 3]) await runShared(job, { share: { k, n: 3 } });
    expect((await statusOf(job)).failures).toHaveLength(1);
    const again = { done: 0, kept: 9, failed: 0, failedBefore: 1, failures: [{ isFinal: true, units: 1 }] };
    expect(await runShared(job, {})).toMatchObject(again);
    expect(await runShared(job, { retryFailed: true })).toMatchObject({ failed: 1, failedBefore: 0 });
    const result = await finishShared(job);
    expect(result).toMatchObject({ converted: 8, failed: 1 });
    expect(await objectsOf(target)).toEqual(await straight(source));
  });
});

describe("a plan", () => {
  it("takes a few bytes per array, however many tasks it has", async () => {
    const { plan } = await planOf(await makeArray(), new MemoryStore(), ARRAY_OPTIONS);
    expect(new Units(plan).count).toBe(25);
    expect(JSON.stringify(plan).length).toBeLessThan(600);
  });

  it("depends only on its source and options, and keeps a given dtype", async () => {
    const source = await makeTree();
    const options = { shardSize: 4096 } as const;
    const [first, second] = [
      await planOf(source, new MemoryStore(), options),
      await planOf(source, new MemoryStore(), options),
    ];
    expect(first.plan).toEqual(second.plan);
    expect((await planOf(source, new MemoryStore())).plan.id).not.toBe(first.plan.id);
    const raw = new MemoryStore();
    await putRaw(raw, "in", new Uint8Array(80));
    const packed = (await planOf(raw, new MemoryStore(), { dtype: parseDType("<i8", "dtype") })).plan;
    expect(packed.options["dtype"]).toBe("<i8");
  });

  it("stats a single file once, and looks for nothing below it", async () => {
    const source = new MemoryStore();
    await putRaw(source, "in/one.blp", new Uint8Array(80));
    const asked: string[] = [];
    const counted = interceptStore(source, {
      onCall: ({ method, key }, proceed) => {
        if (method === "stat") asked.push(key);
        return proceed();
      },
      onSync: (_, proceed) => proceed(),
      onList: () => undefined,
    });
    const peeked = await peek(counted, "in/one.blp", undefined);
    expect(peeked).toMatchObject({ nbytes: 80 });
    expect(asked).toEqual(["in/one.blp"]);
    expect(await peekVersions(source, "in/one.blp")).toBe(peeked?.versions);
    // Plans of other work make the same digest of an archive that they open.
    expect(peeked?.versions).toBe(await digestOf(await metadataVersions(source, "in/one.blp")));
  });

  it("asks, of an archive in a folder, for the files with metadata that the search has seen, and no others", async () => {
    const source = new MemoryStore();
    await putCarray(source, "in/one", new Uint8Array(80), 5, { dtype: "<f8", shape: [10] });
    const asked: string[] = [];
    const counted = interceptStore(source, {
      onCall: ({ method, key }, proceed) => {
        if (method === "stat" && key.startsWith("in/one")) asked.push(key);
        return proceed();
      },
      onSync: (_, proceed) => proceed(),
      onList: () => undefined,
    });
    const facts = { ...FACTS, from: ["in"], to: "out" };
    const destination = { store: new MemoryStore(), path: "out" };
    const { sources } = await planShared({ store: counted, path: "in" }, destination, {}, facts);
    expect(asked).toEqual(["in/one/meta/sizes", "in/one/meta/storage"]);
    // A share looks for all of them: a file that is new is a change.
    expect(sources[0]?.versions).toBe(await peekVersions(source, "in/one"));
    await source.put("in/one/__rootdirs__", new Uint8Array(2));
    expect(sources[0]?.versions).not.toBe(await peekVersions(source, "in/one"));
  });

  it("in a folder is read by each share for its own sources, with the units and the digest of the whole", async () => {
    const { plan: some } = await planOf(await makeTree(), new MemoryStore());
    const failure = { code: "BAD_FIELD", message: 'a line that ends like another: "nbytes":7}' } as const;
    const sources: SharedSource[] = [{ path: "bad", node: "bad", nbytes: 0, failure }];
    for (let i = 0; i < 30; i++)
      for (const source of some.sources)
        sources.push({ ...source, node: `${i}/é ${source.node}`, nbytes: i % 7 });
    sources.push({ path: "large", node: "large", nbytes: 1e9, tasks: [[[3, 400]], [[2, 5]]] });
    const { id: _, ...facts } = { ...some, sources };
    const plan = { ...facts, id: await digestOfPlan(facts) };
    const store = new MemoryStore();
    await storePlan(plan, store, "plan", false);
    const whole = await readPlan(store, "plan", undefined);
    expect(whole).toEqual({ plan, digest: plan.id });
    const units = new Units(plan);
    const seen = new Set<number>();
    for (let k = 1; k <= 7; k++) {
      const own = await readPlan(store, "plan", { k, n: 7 });
      expect(own.digest).toBe(plan.id);
      expect(own.units?.sizes).toEqual(units.sizes);
      const mine = units.share(k - 1, 7);
      expect(own.units?.share(k - 1, 7)).toEqual(mine);
      // The first source without a failure shows whether the plan is finished.
      const wanted = new Set([1, ...Array.from(mine, (unit) => units.place(unit).source)]);
      expect(Object.keys(own.plan.sources).map(Number)).toEqual([...wanted].sort((a, b) => a - b));
      for (const index of wanted) expect(own.plan.sources[index]).toEqual(sources[index]);
      for (const unit of mine) seen.add(unit);
    }
    expect(seen.size).toBe(units.count);
    const part = "plan/sources-00000.jsonl";
    const text = new TextDecoder().decode(await store.get(part));
    await store.put(part, new TextEncoder().encode(text.replace('"nbytes":6', '"nbytes":5')));
    const edited = await readPlan(store, "plan", { k: 1, n: 7 });
    await expect(checkPlan(edited.plan, "plan", edited.digest)).rejects.toMatchObject({
      code: "CHECKSUM_MISMATCH",
    });
  });

  it("that was edited or truncated is refused", async () => {
    const { plan } = await planOf(await makeTree(), new MemoryStore());
    await checkPlan(JSON.parse(JSON.stringify(plan)) as typeof plan, "plan.json");
    await expect(checkPlan({ ...plan, sources: plan.sources.slice(1) }, "plan.json")).rejects.toMatchObject({
      code: "CHECKSUM_MISMATCH",
      details: { path: "plan.json", field: "id" },
    });
  });

  it.each([
    ["a destination that is taken", {}, "CONFLICT"],
    ["a format whose nodes share one hierarchy", { to: "zarr3-transformer" }, "UNSUPPORTED"],
    ["a conversion to resume", { resume: true }, "BAD_ARGUMENT"],
  ] as const)("is refused for %s", async (_, options, code) => {
    const taken = new MemoryStore([["out/zarr.json", new TextEncoder().encode("{}")]]);
    const target = code === "CONFLICT" ? taken : new MemoryStore();
    await expect(planOf(await makeTree(), target, options)).rejects.toMatchObject({ code });
  });

  it("has no share beyond the last", async () => {
    const job = await planOf(await makeTree(), new MemoryStore());
    await expect(runShared(job, { share: { k: 4, n: 3 } })).rejects.toMatchObject({ code: "BAD_ARGUMENT" });
  });
});
