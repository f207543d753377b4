/** Whole shards that threads write are those that the calling thread writes. */

import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { ArraySlice } from "../../../src/archive/kinds/types.ts";
import { create, FileStore } from "../../../src/node/index.ts";
import { threadShardWriter } from "../../../src/node/threads/thread-encoder.ts";
import { WorkerPool } from "../../../src/node/threads/worker-pool.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import type { WritableStore } from "../../../src/store/types.ts";
import { openZarrArray } from "../../../src/zarr/read/open.ts";
import { createZarr, type ZarrSpecification } from "../../../src/zarr/write/create.ts";
import type { WritableZarrArray } from "../../../src/zarr/write/writable-array.ts";
import type { ShardWriter, WholeShard, WriteSettings } from "../../../src/zarr/write/write-settings.ts";
import { type Bundles, bundle } from "./bundle.ts";

let bundles: Bundles;
let pool: WorkerPool;

beforeAll(async () => {
  bundles = await bundle();
  pool = new WorkerPool(2, bundles.worker);
});

afterAll(async () => {
  await pool.end();
  await bundles.remove();
});

/** A writer that counts the shards that it accepts, however small, and how many at a time. */
class Counting implements ShardWriter {
  readonly #inner: ShardWriter;
  readonly parallel: number;
  offered = 0;
  taken = 0;
  most = 0;
  underWay = 0;

  constructor(worth = 0, blosc: "wasm" | "native" = "wasm") {
    this.#inner = threadShardWriter(pool, blosc, worth, 0);
    this.parallel = this.#inner.parallel;
  }

  async write(store: WritableStore, shard: WholeShard): Promise<boolean> {
    this.offered++;
    this.underWay++;
    this.most = Math.max(this.most, this.underWay);
    const isTaken = await this.#inner.write(store, shard).finally(() => this.underWay--);
    if (isTaken) this.taken++;
    return isTaken;
  }
}

const makeFolder = (): Promise<string> => mkdtemp(join(bundles.folder, "zarr-"));

const all = async (array: WritableZarrArray): Promise<unknown> => ((await array.get()) as ArraySlice).data;

/** Every file below a folder. */
async function contentsOf(folder: string): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isFile()) found[path.slice(folder.length + 1)] = (await readFile(path)).toString("base64");
  }
  return found;
}

const CASES: Readonly<Record<string, [Partial<ZarrSpecification>, WriteSettings?]>> = {
  "in one dimension, the last shard half over the edge": [
    { shape: [1000], chunkShape: [16], shardShape: [64] },
  ],
  "in three dimensions, in Morton order": [
    { shape: [20, 13, 9], chunkShape: [2, 2, 2], shardShape: [4, 8, 8] },
    { chunkOrder: "morton" },
  ],
  "with the index at the start": [
    { shape: [700], chunkShape: [10], shardShape: [100], indexLocation: "start" },
  ],
  "stored in another order of dimensions": [
    { shape: [24, 36], chunkShape: [6, 6], shardShape: [12, 12], order: [1, 0] },
  ],
  "of shards in shards": [
    {
      ...{ shape: [96, 64], chunkShape: [16, 16], shardShape: [32, 32] },
      codecs: [
        {
          name: "sharding_indexed",
          configuration: {
            chunk_shape: [8, 8],
            codecs: [
              { name: "bytes", configuration: { endian: "little" } },
              { name: "gzip", configuration: { level: 1 } },
            ],
            index_codecs: [{ name: "bytes", configuration: { endian: "little" } }, { name: "crc32c" }],
          },
        },
      ],
    },
  ],
  "with chunks of the fill value written": [
    { shape: [900], chunkShape: [10], shardShape: [100], fillValue: 3 },
    { writeEmptyChunks: true },
  ],
};

it.each(Object.entries(CASES))("%s: the same files", async (_, [partial, settings = {}]) => {
  const spec = { dataType: "int32", shape: [1], chunkShape: [1], ...partial };
  const [alone, threaded] = [await makeFolder(), await makeFolder()];
  const values = Int32Array.from({ length: spec.shape.reduce((a, b) => a * b, 1) }, (_, i) =>
    i % 500 < 250 ? 3 : (i * i) >> 3,
  );
  const shardWriter = new Counting();
  await (await createZarr(new FileStore(alone), "a", spec, settings)).set(null, values);
  const array = await createZarr(new FileStore(threaded), "a", spec, { ...settings, shardWriter });
  await array.set(null, values);
  expect(shardWriter.taken).toBeGreaterThan(0);
  expect(await contentsOf(threaded)).toEqual(await contentsOf(alone));
  expect(await all(array)).toEqual(values);
});

const SPEC: ZarrSpecification = { dataType: "float64", shape: [2000], chunkShape: [20], shardShape: [100] };
const values = Float64Array.from({ length: 2000 }, (_, i) => i / 7);

it("values in shared memory are read in place, also at an odd offset and for a part of the array", async () => {
  const memory = new Float64Array(new SharedArrayBuffer(8 * 2100), 8, 2050);
  memory.set(values, 30);
  const shardWriter = new Counting();
  const array = await createZarr(new FileStore(await makeFolder()), "a", SPEC, { shardWriter });
  await array.set([{ start: 50, stop: 1950, step: 1 }], memory.subarray(30, 1930));
  expect(shardWriter.taken).toBeGreaterThan(0);
  const expected = new Float64Array(2000);
  expected.set(values.subarray(0, 1900), 50);
  expect(await all(array)).toEqual(expected);
});

it("reused memory mixes nothing up, and one value fills all", async () => {
  const shardWriter = new Counting();
  const array = await createZarr(new FileStore(await makeFolder()), "a", SPEC, { shardWriter });
  for (let round = 1; round <= 5; round++) {
    const changed = values.map((value) => value * round);
    await array.set(null, changed);
    expect(await all(array)).toEqual(changed);
  }
  await array.set(null, 5);
  expect(await all(array)).toEqual(new Float64Array(2000).fill(5));
  // Only the fill value: the shards are deleted, also by a thread.
  await array.set(null, 0);
  expect(Object.keys(await contentsOf(array.store.describe("a")))).toEqual(["zarr.json"]);
  expect(shardWriter.taken).toBeGreaterThan(10);
});

it("no more shards are under way than the threads accept, and the others are written by the calling thread", async () => {
  const shardWriter = new Counting();
  const array = await createZarr(new FileStore(await makeFolder()), "a", SPEC, { shardWriter });
  await array.set(null, values);
  expect(shardWriter.parallel).toBe(2);
  expect(shardWriter.taken).toBeLessThan(20);
  expect(await all(array)).toEqual(values);
});

it("two shards, and parts of shards, are written by the calling thread", async () => {
  const shardWriter = new Counting();
  const array = await createZarr(new FileStore(await makeFolder()), "a", SPEC, { shardWriter });
  await array.set([{ start: 0, stop: 200, step: 1 }], values.subarray(0, 200));
  await array.set([{ start: 250, stop: 950, step: 2 }], values.subarray(0, 350));
  expect(shardWriter.offered).toBe(0);
  expect(await array.get([150])).toBe(values[150]);
});

it.each<[string, Partial<ZarrSpecification>, number]>([
  ["small", {}, 801],
  ["of a slow compressor", { codecs: withBlosc("zstd") }, 0],
  ["of big-endian items", { codecs: [{ name: "bytes", configuration: { endian: "big" } }] }, 0],
])("shards that are %s are not sent to threads", async (_, partial, worth) => {
  const shardWriter = new Counting(worth);
  const store = new FileStore(await makeFolder());
  const array = await createZarr(store, "a", { ...SPEC, ...partial }, { shardWriter });
  await array.set(null, values);
  expect(shardWriter.taken).toBe(0);
  expect(await all(array)).toEqual(values);
});

it("threads are started only after enough work was offered", async () => {
  const own = new WorkerPool(2, bundles.worker);
  const shardWriter = threadShardWriter(own, "wasm", 0, 17 * 800);
  const array = await createZarr(new FileStore(await makeFolder()), "a", SPEC, { shardWriter });
  const part = [{ start: 0, stop: 1900, step: 1 }];
  await array.set(part, values.subarray(0, 1900));
  expect(own.isRunning).toBe(false);
  await array.set(part, values.subarray(0, 1900));
  expect(own.isRunning).toBe(true);
  await own.end();
});

it("stores other than folders are written by the calling thread", async () => {
  const shardWriter = new Counting();
  class Special extends FileStore {}
  for (const store of [new MemoryStore(), new Special(await makeFolder())]) {
    const array = await createZarr(store, "a", SPEC, { shardWriter });
    await array.set(null, values);
    expect(await all(array)).toEqual(values);
  }
  expect(shardWriter.offered).toBeGreaterThan(0);
  expect(shardWriter.taken).toBe(0);
});

it("an error in a thread is the calling thread's error, with the shard's path", async () => {
  const folder = await makeFolder();
  const shardWriter = new Counting();
  const array = await createZarr(new FileStore(folder), "a", SPEC, { shardWriter });
  // The third shard is the first that is sent to a thread.
  await mkdir(join(folder, "a", "c", "2"), { recursive: true });
  await writeFile(join(folder, "a", "c", "2", "x"), "");
  const failure = array.set(null, values);
  await expect(failure).rejects.toMatchObject({
    code: "CONFLICT",
    details: { path: join(folder, "a", "c", "2") },
  });
  await rm(join(folder, "a", "c", "2"), { recursive: true });
  await array.set(null, values);
  expect(await all(array)).toEqual(values);
});

it("a set that is aborted throws the reason once nothing is being written, and leaves only whole shards", async () => {
  const folder = await makeFolder();
  const shardWriter = new Counting();
  const length = 2 ** 14;
  const spec = { ...SPEC, shape: [12 * length], chunkShape: [2 ** 11], shardShape: [length] };
  const array = await createZarr(new FileStore(folder), "a", spec, { shardWriter });
  await array.set(null, 1);
  const { taken } = shardWriter;
  expect(taken).toBeGreaterThan(0);
  const reason = new Error("enough");
  const stop = new AbortController();
  const failure = array.set(null, 2, { signal: stop.signal });
  setImmediate(() => stop.abort(reason));
  await expect(failure).rejects.toBe(reason);
  expect(shardWriter.underWay).toBe(0);
  expect(Object.keys(await contentsOf(folder)).filter((name) => name.endsWith(".tmp"))).toEqual([]);
  const found = (await all(array)) as Float64Array;
  const values = Array.from({ length: 12 }, (_, i) => found[i * length]);
  expect(values).toContain(1);
  expect(found.every((value, i) => value === values[Math.floor(i / length)])).toBe(true);
});

it("a signal that aborts before a shard is sent sends none", async () => {
  const folder = await makeFolder();
  const store = new FileStore(folder);
  const inner = threadShardWriter(pool, "wasm", 0, 0);
  const reason = new Error("too late");
  const shardWriter: ShardWriter = {
    parallel: inner.parallel,
    write: (to, shard) => inner.write(to, { ...shard, signal: AbortSignal.abort(reason) }),
  };
  const array = await createZarr(store, "a", SPEC, { shardWriter });
  await expect(array.set(null, values)).rejects.toBe(reason);
  expect(Object.keys(await contentsOf(folder))).not.toContain(join("a", "c", "2"));
});

it("a thread that dies during a shard is an error with the shard's path", async () => {
  const folder = await makeFolder();
  const file = join(folder, "worker.mjs");
  await writeFile(
    file,
    `import { parentPort } from "node:worker_threads";
     parentPort.on("message", () => process.exit(3));
     parentPort.postMessage({ ready: true });`,
  );
  const own = new WorkerPool(2, pathToFileURL(file));
  const shardWriter = threadShardWriter(own, "wasm", 0, 0);
  const array = await createZarr(new FileStore(folder), "a", SPEC, { shardWriter });
  // The thread had two of them, and chance decides whose leftovers are removed first.
  await expect(array.set(null, values)).rejects.toMatchObject({
    code: "IO",
    details: { path: expect.stringMatching(/a.c.[23]$/) },
  });
  await own.end();
});

it.each([
  ["is ended from outside", (own: WorkerPool) => own.end()],
  ["runs out of memory", undefined],
])(
  "a thread that %s while it writes a shard leaves nothing of it, and the error names the shard",
  async (_, end) => {
    const folder = await makeFolder();
    const length = 2 ** 21;
    const spec = { ...SPEC, shape: [3 * length], chunkShape: [2 ** 7], shardShape: [length] };
    const limits = end === undefined ? { maxOldGenerationSizeMb: 8 } : undefined;
    const own = new WorkerPool(2, await (end === undefined ? hungryWorker : stuckWorker)(folder), limits);
    const shardWriter = threadShardWriter(own, "wasm", 0, 0);
    const store = new FileStore(folder);
    const array = await createZarr(store, "a", spec, { shardWriter });
    const noise = Float64Array.from({ length }, (_, i) => Math.sin(i * i));
    const shard = { model: array.model, key: "a/c/2", start: [2 * length], counts: [length] };
    const items = { bytes: new Uint8Array(noise.buffer), offset: 0, strides: [1] };
    const settings = { chunkOrder: "row-major", writeEmptyChunks: false, signal: undefined } as const;
    const written = shardWriter.write(store, { ...shard, items, ...settings });
    let hasEnded = false;
    const outcome = written
      .finally(() => {
        hasEnded = true;
      })
      .then(
        () => "written",
        (error: unknown) => error,
      );
    const chunks = join(folder, "a", "c");
    const leftovers = async (): Promise<string[]> =>
      (await readdir(chunks).catch(() => [])).filter((name) => name.endsWith(".tmp"));
    while (!hasEnded && (await leftovers()).length === 0);
    await end?.(own);
    expect(await outcome).toMatchObject({
      code: end === undefined ? "LIMIT" : "IO",
      details: { path: join(chunks, "2") },
    });
    expect(await readdir(chunks)).toEqual([]);
    await own.end();
  },
);

it("a file that a thread will write is not kept open: Windows would not let the thread replace it", async () => {
  const store = new FileStore(await makeFolder());
  const closed: string[] = [];
  const close = store.closeFile.bind(store);
  store.closeFile = (key) => {
    closed.push(key);
    return close(key);
  };
  const shardWriter = new Counting();
  const array = await createZarr(store, "a", SPEC, { shardWriter });
  await array.set(null, values);
  expect(await all(array)).toEqual(values);
  await array.set(null, values);
  expect(closed).toHaveLength(shardWriter.taken);
  expect(closed).toContain("a/c/2");
});

it("a thread is informed that a job is cancelled, and still answers it", async () => {
  const file = join(await makeFolder(), "worker.mjs");
  await writeFile(
    file,
    `import { parentPort } from "node:worker_threads";
     parentPort.on("message", ({ id, cancelled }) => {
       if (cancelled) parentPort.postMessage({ id, reply: "cancelled" });
     });
     parentPort.postMessage({ ready: true });`,
  );
  const own = new WorkerPool<null, string>(1, pathToFileURL(file));
  await own.start();
  const stop = new AbortController();
  const reply = own.run(null, [], { signal: stop.signal });
  stop.abort();
  expect(await reply).toBe("cancelled");
  await own.end();
});

it("arrays at paths are the same with threads and without", async () => {
  const folder = await makeFolder();
  const spec = { ...SPEC, shape: [4 * 2 ** 20], chunkShape: [2 ** 17], shardShape: [2 ** 19] };
  const many = Float64Array.from({ length: 4 * 2 ** 20 }, (_, i) => i % 1000);
  for (const options of [{ threads: 2 }, { threads: 0 }]) {
    const path = join(folder, `threads-${options.threads}`);
    const { dataType, ...layout } = spec;
    const settings = { ...layout, dtype: dataType, ...options, workerUrl: bundles.worker };
    const array = await create(path, { ...settings, format: "zarr" });
    await array.set(null, many);
    await array.close();
  }
  expect(await contentsOf(join(folder, "threads-2"))).toEqual(await contentsOf(join(folder, "threads-0")));
  const read = await openZarrArray(new FileStore(folder), "threads-2");
  expect(await read.get([4 * 2 ** 20 - 1])).toBe(many.at(-1));
});

it("a pool that ends leaves no thread behind that was just starting", async () => {
  const own = new WorkerPool(2, bundles.worker);
  const starting = own.start();
  await own.end();
  await starting;
  expect(own.isRunning).toBe(false);
});

it("a pool never starts more threads than its size, however often it is started meanwhile", async () => {
  const file = join(await makeFolder(), "worker.mjs");
  await writeFile(
    file,
    `import { parentPort, threadId } from "node:worker_threads";
     parentPort.on("message", ({ id }) => parentPort.postMessage({ id, reply: threadId }));
     parentPort.postMessage({ ready: true });`,
  );
  const own = new WorkerPool<null, number>(2, pathToFileURL(file));
  const seen = new Set<number>();
  const use = async (): Promise<void> => {
    expect(await own.start()).toBe(true);
    for (const thread of await Promise.all([1, 2, 3, 4].map(() => own.run(null, [])))) seen.add(thread);
  };
  while (seen.size < 2) await use();
  for (let i = 0; i < 500; i++) await use();
  await own.end();
  expect(seen.size).toBe(2);
});

/** A worker with another file system: `change` changes `fs`. */
async function changedWorker(folder: string, change: string): Promise<URL> {
  const file = join(folder, "changed.mjs");
  await writeFile(
    file,
    `import fs from "node:fs";
     import { syncBuiltinESMExports } from "node:module";
     ${change}
     syncBuiltinESMExports();
     await import(${JSON.stringify(bundles.worker.href)});`,
  );
  return pathToFileURL(file);
}

/** A worker that never ends: it waits forever where its file would get its name. */
const stuckWorker = (folder: string): Promise<URL> =>
  changedWorker(
    folder,
    "fs.renameSync = () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);",
  );

/** A worker whose disk does not accept the names of new files. */
const unsyncedWorker = (folder: string): Promise<URL> =>
  changedWorker(
    folder,
    `const { fsync } = fs;
     const error = Object.assign(new Error("EIO: fsync"), { code: "EIO", syscall: "fsync" });
     fs.fsync = (file, done) => (fs.fstatSync(file).isDirectory() ? done(error) : fsync(file, done));`,
  );

it.runIf(process.platform === "linux")("a failed sync in a thread is known to the store", async () => {
  const folder = await makeFolder();
  const own = new WorkerPool(2, await unsyncedWorker(folder));
  const shardWriter = threadShardWriter(own, "wasm", 0, 0);
  const store = new FileStore(folder);
  const spec = { ...SPEC, shape: [20], chunkShape: [2], shardShape: [10] };
  const array = await createZarr(store, "a", spec, { shardWriter });
  const items = { bytes: new Uint8Array(80), offset: 0, strides: [1] };
  const shard = { model: array.model, start: [0], counts: [10], items };
  const settings = { chunkOrder: "row-major", writeEmptyChunks: true, signal: undefined } as const;
  const refused = { code: "IO", details: { field: "sync" } };
  await expect(shardWriter.write(store, { ...shard, ...settings, key: "a/c/0" })).rejects.toMatchObject(
    refused,
  );
  await expect(array.flush()).rejects.toMatchObject(refused);
  await expect(shardWriter.write(store, { ...shard, ...settings, key: "a/c/0" })).rejects.toMatchObject({
    ...refused,
    message: expect.stringContaining("no write can be called durable"),
  });
  await own.end();
});

/** A worker that begins to write a shard, and then exhausts its memory. */
async function hungryWorker(folder: string): Promise<URL> {
  const file = join(folder, "hungry.mjs");
  await writeFile(
    file,
    `import { parentPort } from "node:worker_threads";
     import { mkdirSync, openSync } from "node:fs";
     parentPort.on("message", ({ job }) => {
       mkdirSync(job.root + "/a/c");
       openSync(job.root + "/a/c/.2." + job.mark + ".tmp", "wx");
       const kept = [];
       for (;;) kept.push(new Array(1e5).fill({}));
     });
     parentPort.postMessage({ ready: true });`,
  );
  return pathToFileURL(file);
}

function withBlosc(cname: string): ZarrSpecification["codecs"] {
  return [
    { name: "bytes", configuration: { endian: "little" } },
    {
      name: "blosc",
      configuration: { cname, clevel: 5, shuffle: "shuffle", typesize: 8, blocksize: 0 },
    },
  ];
}
