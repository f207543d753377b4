/**
 * A pool of workers gives what the calls without it give, errors included. In Node.js the workers are threads;
 * test/browser has those of Chromium.
 */
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { isDeepStrictEqual } from "node:util";
import { Worker } from "node:worker_threads";
import { beforeAll, expect, onTestFinished, test, vi } from "vitest";
import * as zarr from "zarrita";
import { type BloscPool, createPool, decode, encode, type PoolOptions } from "../../src/blosc.ts";
import type { Order, PoolWorker, Reply } from "../../src/pool/crew.ts";
import { repositoryRoot } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";

const folder = temporaryFolder();
const file = join(folder, "blosc-worker.mjs");
beforeAll(async () => {
  const { buildPoolWorker } = await import(
    pathToFileURL(join(repositoryRoot, "scripts", "build-pool-worker.mjs")).href
  );
  await buildPoolWorker(file);
});

const COMPRESSORS = ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"] as const;
const pattern = (length: number, seed = 1): Uint8Array<ArrayBuffer> =>
  Uint8Array.from({ length }, (_, i) => Math.imul(i + seed, i) >>> 9);

/** Compared as text of their bytes: comparing items one by one takes seconds. */
const text = (arrays: readonly Uint8Array[]): readonly string[] =>
  arrays.map((bytes) => Buffer.from(bytes).toString("latin1"));
const same = (found: readonly Uint8Array[], expected: readonly Uint8Array[]): boolean =>
  isDeepStrictEqual(text(found), text(expected));

/** A pool whose workers are counted. */
function makePool(options: PoolOptions = {}): { pool: BloscPool; started: Worker[] } {
  const started: Worker[] = [];
  const worker = (): Worker => {
    const made = new Worker(file);
    started.push(made);
    return made;
  };
  return { pool: createPool({ workers: 2, worker, ...options }), started };
}

test("chunks and data match the calls without a pool, many at a time, with as many workers as requested", async () => {
  const { pool, started } = makePool();
  const data = Array.from({ length: 12 }, (_, i) => pattern(30_000 + 1000 * i, i));
  for (const cname of COMPRESSORS) {
    const settings = { cname, typesize: 4, ...(cname === "snappy" ? {} : { format: 2 as const }) };
    const chunks = await Promise.all(data.map((each) => pool.encode(each, settings)));
    expect(same(chunks, await Promise.all(data.map((each) => encode(each, settings))))).toBe(true);
    expect(same(await Promise.all(chunks.map((chunk) => pool.decode(chunk))), data)).toBe(true);
  }
  expect(started.length).toBe(2);
  await pool.close();
});

test("reused memory holds only the given chunk, and the caller's chunks do not change", async () => {
  const { pool } = makePool();
  const data = [20_000, 12_000, 300, 19_999, 11, 0].map((length, i) => pattern(length, i));
  const chunks = await Promise.all(data.map((each) => encode(each, { clevel: 0 })));
  const kept = chunks.map((chunk) => chunk.slice());
  for (let round = 0; round < 4; round++) {
    const order = chunks.map((_, i) => (5 * i + round) % chunks.length);
    const found = await Promise.all(order.map((i) => pool.decode(chunks[i] ?? new Uint8Array(0))));
    expect(
      same(
        found,
        order.map((i) => data[i] ?? pattern(1)),
      ),
    ).toBe(true);
  }
  expect(same(chunks, kept)).toBe(true);
  await pool.close();
});

test("a worker starts with the first call that needs it", async () => {
  const { pool, started } = makePool();
  expect(started.length).toBe(0);
  const chunk = await pool.encode(pattern(1000));
  await pool.decode(chunk);
  expect(started.length).toBe(1);
  await pool.close();
});

test("errors match the calls without a pool", async () => {
  const { pool } = makePool();
  const chunk = await encode(pattern(50_000), { cname: "zstd", typesize: 4 });
  const broken = chunk.slice();
  broken.fill(255, 24, 60);
  const other = chunk.slice();
  other[2] = 0xff;
  const cases = [
    [broken, {}],
    [other, {}],
    [chunk.subarray(0, 300), {}],
    [chunk, { maxNbytes: 10 }],
    [chunk, { expectedNbytes: 10 }],
  ] as const;
  for (const [bytes, options] of cases) {
    const { code, message, details } = await decode(bytes, options).then(
      () => expect.unreachable(),
      (error) => error,
    );
    const alike = { name: "SuperchunkError", code, message, details };
    await expect(pool.decode(bytes, options)).rejects.toMatchObject(alike);
  }
  await expect(pool.encode(chunk, { clevel: 10 })).rejects.toMatchObject({ code: "BAD_ARGUMENT" });
  expect(same([await pool.decode(chunk)], [pattern(50_000)])).toBe(true);
  await pool.close();
});

test("a signal ends the wait with its reason, and the others continue", async () => {
  const { pool } = makePool({ workers: 1 });
  const data = pattern(200_000);
  const chunk = await encode(data, { cname: "zlib", typesize: 4 });
  const stop = new AbortController();
  const calls = Array.from({ length: 8 }, (_, i) =>
    pool.decode(chunk, i % 2 === 0 ? {} : { signal: stop.signal }),
  );
  const reason = new Error("no longer on the screen");
  stop.abort(reason);
  const ends = await Promise.allSettled(calls);
  expect(ends.map((end) => (end.status === "fulfilled" ? end.value.length : end.reason))).toEqual(
    calls.map((_, i) => (i % 2 === 0 ? data.length : reason)),
  );
  await expect(pool.encode(data, { signal: stop.signal })).rejects.toBe(reason);
  await expect(createPool({ workers: 0 }).decode(chunk, { signal: stop.signal })).rejects.toBe(reason);
  await pool.close();
});

test("bytes move to the worker only if the caller allows it, and own their whole buffer", async () => {
  const { pool } = makePool();
  const data = pattern(10_000);
  const chunk = await pool.encode(data);
  await pool.decode(chunk);
  expect(chunk.length).toBeGreaterThan(0);
  const part = Uint8Array.of(0, ...chunk).subarray(1);
  expect(await pool.decode(part, { transfer: true })).toEqual(data);
  expect(part.length).toBe(chunk.length);
  expect(await pool.decode(chunk, { transfer: true })).toEqual(data);
  expect(chunk.length).toBe(0);
  await pool.close();
});

test("out is filled, by the worker if it is shared; one that is too short is refused", async () => {
  const { pool } = makePool();
  const data = pattern(10_000);
  const chunk = await encode(data, { typesize: 4 });
  for (const buffer of [new ArrayBuffer(12_000), new SharedArrayBuffer(12_000)]) {
    const out = new Uint8Array(buffer, 1000);
    const found = await pool.decode(chunk, { out });
    expect(same([found, new Uint8Array(buffer, 1000, data.length)], [data, data])).toBe(true);
    expect(found.buffer === buffer || buffer instanceof SharedArrayBuffer).toBe(true);
    const short = new Uint8Array(buffer, 2001);
    await expect(pool.decode(chunk, { out: short })).rejects.toMatchObject({ code: "BAD_ARGUMENT" });
  }
  await pool.close();
});

test("close waits for the calls under way, and ends the workers", async () => {
  const { pool, started } = makePool();
  const data = pattern(300_000);
  const chunk = await encode(data, { cname: "zlib" });
  const ends = Promise.all(Array.from({ length: 6 }, () => pool.decode(chunk)));
  await pool.close();
  const all = Array.from({ length: 6 }, () => data);
  expect(same(await ends, all)).toBe(true);
  expect(started.map(({ threadId }) => threadId)).toEqual([-1, -1]);
  await expect(pool.decode(chunk)).rejects.toMatchObject({ code: "BAD_ARGUMENT" });
});

test.each([
  ["throws when it starts", 'throw new Error("broken")'],
  ["ends by itself", "process.exit(3)"],
])("a worker that %s fails each of its calls", async (_, text) => {
  const { pool } = makePool({ worker: () => new Worker(text, { eval: true }) });
  const chunk = await encode(pattern(1000));
  const ends = await Promise.allSettled(Array.from({ length: 7 }, () => pool.decode(chunk)));
  const io = { status: "rejected", reason: expect.objectContaining({ code: "IO" }) };
  expect(ends).toEqual(Array.from({ length: 7 }, () => io));
  await pool.close();
});

test("a function that makes no worker fails the call", async () => {
  const worker = (): never => {
    throw new Error("forbidden by the policy");
  };
  const { pool } = makePool({ worker });
  await expect(pool.encode(pattern(10))).rejects.toMatchObject({
    code: "IO",
    message: expect.stringContaining("forbidden by the policy"),
  });
  await pool.close();
});

test("a call fails if its worker cannot be given the code it asks for", async () => {
  const worker = (): PoolWorker => {
    let listen: ((event: { readonly data: Reply }) => void) | undefined;
    return {
      postMessage(order: Order) {
        if ("module" in order) throw new Error("no room");
        listen?.({ data: { needs: "decode" } });
      },
      terminate: () => undefined,
      addEventListener(type: string, listener: typeof listen) {
        if (type === "message") listen = listener;
      },
    } as PoolWorker;
  };
  const pool = createPool({ workers: 1, worker });
  await expect(pool.decode(await encode(pattern(1000)))).rejects.toMatchObject({
    code: "IO",
    message: expect.stringContaining("no room"),
  });
  await pool.close();
});

test("code that did not load is loaded again by the next call", async () => {
  vi.doMock("../../src/pool/crew.ts", () => {
    throw new Error("offline");
  });
  const { pool } = makePool();
  const data = pattern(1000);
  await expect(pool.encode(data)).rejects.toThrow();
  vi.doUnmock("../../src/pool/crew.ts");
  expect(await decode(await pool.encode(data))).toEqual(data);
  await pool.close();
});

test("without workers everything runs in the calling thread", async () => {
  const { pool, started } = makePool({ workers: 0 });
  const data = pattern(5000);
  expect(await pool.decode(await pool.encode(data, { cname: "zstd" }))).toEqual(data);
  expect(started).toEqual([]);
  await pool.close();
});

test.each([-1, 1.5, 65, Number.NaN])("%d workers are refused", (workers) => {
  expect(() => createPool({ workers })).toThrow(expect.objectContaining({ code: "BAD_ARGUMENT" }));
  // The address of a script, which libraries of other pools take.
  const worker = "./worker.js" as never;
  expect(() => createPool({ worker })).toThrow("a function that returns a worker");
  const options = { wrkers: workers } as object;
  expect(() => createPool(options)).toThrow('unknown option "wrkers"; expected one of worker workers');
});

test("zarrita reads and writes through it, and refuses settings that Blosc does not have", async () => {
  const { pool, started } = makePool();
  const before = zarr.registry.get("blosc");
  zarr.registry.set("blosc", async () => pool.Blosc);
  onTestFinished(() => {
    if (before !== undefined) zarr.registry.set("blosc", before);
  });
  const codecs = [
    { name: "bytes", configuration: { endian: "little" } },
    { name: "blosc", configuration: { cname: "zstd", clevel: 3, shuffle: "shuffle", typesize: 4 } },
  ];
  const store = new Map<string, Uint8Array>();
  const array = await zarr.create(zarr.root(store).resolve("/a"), {
    shape: [1000],
    chunkShape: [100],
    dtype: "int32",
    codecs,
  });
  const values = Int32Array.from({ length: 1000 }, (_, i) => i * i);
  await zarr.set(array, null, { data: values, shape: [1000], stride: [1] });
  expect((await zarr.get(array)).data).toEqual(values);
  expect(started.length).toBe(2);
  expect(() => pool.Blosc.fromConfig({ cname: "other" })).toThrow(
    expect.objectContaining({ code: "BAD_ARGUMENT" }),
  );
  await pool.close();
});
