/** Threads write into plain results if koffi gives their addresses; otherwise everything is as without it. */
import { execFile } from "node:child_process";
import { cp, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import koffi from "koffi";
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  it,
  type MockInstance,
  vi,
} from "vitest";
import type { ChunkDecoder } from "../../../src/archive/read/chunk-fetch.ts";
import type { ThreadTuning } from "../../../src/node/threads/thread-decoder.ts";
import type { DecodeJob, ThreadReply } from "../../../src/node/threads/thread-messages.ts";
import type { WorkerPool } from "../../../src/node/threads/worker-pool.ts";
import { repositoryRoot } from "../../fixtures/manifest.ts";
import { temporaryFolder } from "../../folder.ts";
import { sweep } from "../../scope.ts";
import { chunkPath, LARGER, rampOf, writeRamp } from "./archives.ts";
import { type Bundles, bundle } from "./bundle.ts";

/** 40 MB. */
const SHAPE = { ...LARGER, nchunks: 320 };
const ITEMS = SHAPE.chunkItems * SHAPE.nchunks;
const RAMP = rampOf(0, ITEMS);
const TUNING: ThreadTuning = {
  worthStarting: 0,
  worthUsing: 0,
  jobBytes: 1 << 20,
  directJobBytes: 8 << 20,
  minJobBytes: 0,
};

const PREAMBLE = `
  import { open } from "../archive/open/open.ts";
  import { callingThread } from "../archive/read/chunk-fetch.ts";
  import { FileStore } from "./fs/fs-store.ts";
  import { resultMemory } from "./threads/result-memory.ts";
  import { threadDecoder } from "./threads/thread-decoder.ts";
  import { WorkerPool } from "./threads/worker-pool.ts";
  const pool = new WorkerPool(2, new URL("./chunk-worker.js", import.meta.url));
  const decoder = threadDecoder(pool, "wasm", callingThread, ${JSON.stringify(TUNING)}, resultMemory({ lends: true }));
  const archive = await open(new FileStore(process.argv[2] ?? ""), "", { decoder });
  const turn = () => new Promise((resolve) => setImmediate(resolve));
`;

const PROGRAMS = {
  /** Stops reading again and again, while threads write, and returns the memory. */
  "stopped.js": `${PREAMBLE}
    await archive.readBytes(0, archive.nbytes);
    let stopped = 0;
    for (let i = 0; i < ${sweep(40, 8)}; i++) {
      const abort = new AbortController();
      const reading = archive.readBytes(0, archive.nbytes, { signal: abort.signal });
      for (let k = 0; k < 6; k++) await turn();
      abort.abort(new Error("enough"));
      await reading.catch((error) => { if (error.message === "enough") stopped++; });
      globalThis.gc();
      await turn();
      globalThis.gc();
    }
    await pool.end();
    console.log(stopped > 0 ? "stopped" : "never stopped");`,
  /** Stops while its threads are about to read: some milliseconds after they have started. */
  "left.js": `${PREAMBLE}
    await pool.start();
    void archive.readBytes(0, archive.nbytes).catch(() => undefined);
    const until = performance.now() + Number(process.argv[3]);
    while (performance.now() < until) await turn();
    process.exit(7);`,
  /** The same by terminating its threads. */
  "ended.js": `${PREAMBLE}
    await pool.start();
    const reading = archive.readBytes(0, archive.nbytes).catch(() => undefined);
    const until = performance.now() + Number(process.argv[3]);
    while (performance.now() < until) await turn();
    await pool.end();
    await reading;
    process.exit(7);`,
  /** Prints how many threads are in the gate while one makes memory with koffi, and what it borrows once the gate is closed. */
  "gate.js": `
    import { once } from "node:events";
    import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
    import koffi from "koffi";
    import { LoadingGate } from "./threads/koffi.ts";
    import { borrowMemory } from "./threads/result-memory.ts";
    if (isMainThread) {
      const gate = new LoadingGate();
      const thread = new Worker(new URL(import.meta.url), { workerData: gate.dataForThread() });
      const memory = new Uint8Array(1 << 16);
      const borrow = async () => {
        thread.postMessage({ address: koffi.address(memory), length: memory.length });
        const [found] = await once(thread, "message");
        return found;
      };
      const open = await borrow();
      gate.close();
      console.log(JSON.stringify([open, await borrow()]));
      await thread.terminate();
    } else {
      const { view } = koffi;
      const [cell] = Object.values(workerData);
      let inside = 0;
      koffi.view = (...memory) => {
        inside = Atomics.load(cell, 0);
        return view(...memory);
      };
      parentPort.on("message", async (lent) => {
        const borrowed = await borrowMemory(lent);
        parentPort.postMessage({ inside, length: borrowed?.byteLength });
        inside = 0;
      });
    }`,
};

let folder: string;
let ramp: string;
/** Workers that find koffi, and workers that do not. */
let withKoffi: Bundles;
let without: Bundles;
let pool: WorkerPool;
let run: MockInstance<WorkerPool["run"]>;

beforeAll(async () => {
  withKoffi = await bundle(PROGRAMS);
  without = await bundle();
  await symlink(join(repositoryRoot, "node_modules"), join(withKoffi.folder, "node_modules"));
  folder = temporaryFolder();
  ramp = await writeRamp(join(folder, "ramp"), SHAPE);
});

beforeEach(() => {
  vi.resetModules(); // koffi is looked for once
});

afterEach(async () => {
  vi.restoreAllMocks();
  await pool.end();
});

afterAll(async () => {
  await withKoffi.remove();
  await without.remove();
});

async function decoderWith({ worker }: Bundles, lends = true): Promise<ChunkDecoder> {
  const { resultMemory } = await import("../../../src/node/threads/result-memory.ts");
  const { threadDecoder } = await import("../../../src/node/threads/thread-decoder.ts");
  const { WorkerPool } = await import("../../../src/node/threads/worker-pool.ts");
  pool = new WorkerPool(2, worker);
  run = vi.spyOn(pool, "run");
  return threadDecoder(pool, "wasm", undefined, TUNING, resultMemory({ lends }));
}

async function readAll(path: string, bundles: Bundles, lends = true): Promise<BigInt64Array> {
  const { open } = await import("../../../src/archive/open/open.ts");
  const { FileStore } = await import("../../../src/node/fs/fs-store.ts");
  const archive = await open(new FileStore(path), "", { decoder: await decoderWith(bundles, lends) });
  if (archive.kind !== "array") throw new Error("not an array");
  const bytes = await archive.readBytes(0, archive.nbytes);
  expect(bytes.buffer).toBeInstanceOf(ArrayBuffer);
  return new BigInt64Array(bytes.buffer, bytes.byteOffset);
}

function bytesOf({ buffer, byteOffset, byteLength }: BigInt64Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

function expectRamp(values: BigInt64Array): void {
  expect(values.length).toBe(ITEMS);
  expect(Buffer.compare(bytesOf(values), bytesOf(RAMP))).toBe(0);
}

/** Whether memory was lent for each job, and how many buffers came back. */
async function jobsSeen(): Promise<{ lent: boolean; buffers: number }[]> {
  const replies = await Promise.all(run.mock.results.map(({ value }) => value as Promise<ThreadReply>));
  const jobs = run.mock.calls.map(([job]) => job as DecodeJob);
  return replies.map(({ buffers }, i) => {
    const memory = jobs[i]?.targets?.memory;
    return { lent: memory !== undefined && "address" in memory, buffers: buffers.length };
  });
}

it("threads write into a plain result, and transfer nothing", async () => {
  expectRamp(await readAll(ramp, withKoffi));
  const jobs = await jobsSeen();
  expect(jobs.length).toBeGreaterThan(1);
  expect(jobs.every(({ lent, buffers }) => lent && buffers === 0)).toBe(true);
});

it("memory is lent only if the caller asks for it, and memory of one decoder is not lent by another", async () => {
  expectRamp(await readAll(ramp, withKoffi, false));
  expect((await jobsSeen()).every(({ lent, buffers }) => !lent && buffers === 1)).toBe(true);
  const { decoderOf } = await import("../../../src/node/threads/threads.ts");
  expect(decoderOf({ directMemory: true })).not.toBe(decoderOf());
});

it("threads that do not find koffi transfer what they decode", async () => {
  expectRamp(await readAll(ramp, without));
  expect((await jobsSeen()).every(({ lent, buffers }) => lent && buffers === 1)).toBe(true);
});

it("nothing is lent if koffi cannot give views of memory", async () => {
  vi.spyOn(koffi, "view").mockImplementation(() => {
    throw new TypeError("External buffers are not allowed");
  });
  expectRamp(await readAll(ramp, withKoffi));
  expect((await jobsSeen()).every(({ lent, buffers }) => !lent && buffers === 1)).toBe(true);
});

it("a damaged chunk gives the same error as with one thread", async () => {
  const damaged = join(folder, "damaged");
  await cp(ramp, damaged, { recursive: true });
  const path = chunkPath(damaged, 77);
  const bytes = await readFile(path);
  await writeFile(path, bytes.fill(0xff, 40, 400));
  const { open } = await import("../../../src/archive/open/open.ts");
  const { FileStore } = await import("../../../src/node/fs/fs-store.ts");
  const alone = await open(new FileStore(damaged));
  if (alone.kind !== "array") throw new Error("not an array");
  const expected = await alone.readBytes(0, alone.nbytes).catch((error: unknown) => error);
  expect(expected).toMatchObject({ code: "BAD_CHUNK", details: { path, chunk: 77 } });
  await expect(readAll(damaged, withKoffi)).rejects.toMatchObject({
    message: (expected as Error).message,
    code: "BAD_CHUNK",
    details: { path, chunk: 77 },
  });
  expect(run.mock.calls.length).toBeGreaterThan(2);
});

describe("memory that the caller still holds", () => {
  it("is never lent, not even that of an earlier result", async () => {
    const { createZarr } = await import("../../../src/zarr/write/create.ts");
    const { openZarrArray } = await import("../../../src/zarr/read/open.ts");
    const { FileStore } = await import("../../../src/node/fs/fs-store.ts");
    const store = new FileStore(folder);
    const spec = { shape: [ITEMS], dataType: "int64", chunkShape: [ITEMS / 40], shardShape: [ITEMS / 8] };
    await (await createZarr(store, "zarr", spec)).set(null, RAMP);
    const array = await openZarrArray(store, "zarr", { decoder: await decoderWith(withKoffi) });
    const { data } = (await array.get()) as { readonly data: BigInt64Array };
    expectRamp(data);
    const jobs = (await jobsSeen()).length;
    expect((await jobsSeen()).every(({ lent }) => lent)).toBe(true);
    await array.readInto(data.fill(-1n));
    expectRamp(data);
    const later = (await jobsSeen()).slice(jobs);
    expect(later.length).toBeGreaterThan(2);
    expect(later.every(({ lent }) => !lent)).toBe(true);
  });
});

it("memory of a stopped read stays until the threads are done with it", async () => {
  // So much that the C library returns it to the system at once.
  const long = await writeRamp(join(folder, "long"), { ...LARGER, nchunks: 600 });
  await decoderWith(withKoffi);
  const program = join(withKoffi.folder, "stopped.js");
  const { stdout } = await promisify(execFile)(process.execPath, ["--expose-gc", program, long]);
  expect(stdout).toBe("stopped\n");
});

it("a thread makes memory with koffi only while the gate keeps it from being terminated", async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [join(withKoffi.folder, "gate.js")]);
  expect(JSON.parse(stdout)).toEqual([{ inside: 1, length: 1 << 16 }, { inside: 0 }]);
});

it("threads are not terminated while they load or use koffi, which would crash the process", async () => {
  await decoderWith(withKoffi);
  for (const name of ["left.js", "ended.js"]) {
    for (let milliseconds = 20; milliseconds < 80; milliseconds += sweep(6, 60)) {
      const args = [join(withKoffi.folder, name), ramp, String(milliseconds)];
      await expect(promisify(execFile)(process.execPath, args)).rejects.toMatchObject({
        code: 7,
        stderr: "",
      });
    }
  }
});
