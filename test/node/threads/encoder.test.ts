/** Chunks that threads encode are those of the calling thread, in order. */

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import type { ArrayArchive } from "../../../src/archive/kinds/types.ts";
import { open } from "../../../src/archive/open/open.ts";
import { encodeAhead, encodeSync, prepareEncode } from "../../../src/codec/index.ts";
import type { ChunkEncoder, CompressorName } from "../../../src/codec/types.ts";
import { parseDType } from "../../../src/format/dtype.ts";
import { create as createArray, edit as openWritable } from "../../../src/node/edit.ts";
import { open as openPath } from "../../../src/node/index.ts";
import { ThreadEncoder, worthUnasked } from "../../../src/node/threads/thread-encoder.ts";
import { poolOf } from "../../../src/node/threads/threads.ts";
import { WorkerPool } from "../../../src/node/threads/worker-pool.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import { settleSettings } from "../../../src/write/layout/settings.ts";
import { ChunkMaker } from "../../../src/write/rows/chunk-maker.ts";
import { convert } from "../../../src/zarr.ts";
import { loadFolder } from "../../archive/memory-archive.ts";
import { findFixture } from "../../fixtures/manifest.ts";
import { type Bundles, bundle } from "./bundle.ts";

let bundles: Bundles;
let pool: WorkerPool;
let encoder: ThreadEncoder;

beforeAll(async () => {
  bundles = await bundle();
  pool = new WorkerPool(2, bundles.worker);
  encoder = new ThreadEncoder(
    pool,
    "wasm",
    () => Promise.reject(new Error("not by a thread")),
    () => 0,
  );
});

afterAll(async () => {
  await pool.end();
  await bundles.remove();
});

/** Data of different lengths, so that mixing them up would show. */
function makeData(count: number): Uint8Array[] {
  return Array.from({ length: count }, (_, k) =>
    Uint8Array.from({ length: 1000 + 137 * k }, (_, i) => (i * i + k) >> 5),
  );
}

it.each<CompressorName>(["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"])(
  "%s: the same bytes, in the order of the data",
  async (cname) => {
    const data = makeData(50);
    const options = { cname, clevel: 5, typesize: 4 };
    async function* source(): AsyncGenerator<Uint8Array> {
      yield* data;
    }
    const chunks: Uint8Array[] = [];
    for await (const chunk of encodeAhead(source(), options, encoder)) chunks.push(chunk);
    await prepareEncode(cname);
    expect(chunks).toEqual(data.map((bytes) => encodeSync(bytes, options)));
  },
);

it("an option out of range is the same error", async () => {
  const refusing = new ThreadEncoder(pool, "wasm", undefined, () => 0);
  await expect(refusing.encode(new Uint8Array(100), { clevel: 10 })).rejects.toMatchObject({
    code: "BAD_ARGUMENT",
    details: { field: "clevel" },
  });
});

it("an error comes in its turn, after the chunks before it", async () => {
  async function* source(): AsyncGenerator<Uint8Array> {
    yield* makeData(7);
    throw new Error("the source failed");
  }
  let chunks = 0;
  const reading = (async () => {
    for await (const _ of encodeAhead(source(), {}, encoder)) chunks++;
  })();
  await expect(reading).rejects.toThrow("the source failed");
  expect(chunks).toBe(7);
});

it("chunks that no thread encodes are not requested before their turn", () => {
  const unasked = new ThreadEncoder(pool, "wasm", undefined, worthUnasked);
  const found = (["lz4", "zstd", undefined] as const).map((cname) => unasked.parallelOf(cname));
  expect(found).toEqual([1, unasked.parallel, 1]);
  expect(encoder.parallelOf("lz4")).toBe(encoder.parallel);
});

it("data may be overwritten once their chunk is delivered", async () => {
  const data = makeData(1)[0] ?? new Uint8Array(0);
  const expected = encodeSync(data, {});
  const chunk = await encoder.encode(data, {});
  data.fill(0);
  expect(chunk).toEqual(expected);
});

it.each(["carray/bcolz-i4-snappy", "bloscpack-3/array-f4-3d-fortran.blp"])(
  "%s, which is recoded, becomes the same Zarr array with threads",
  async (name) => {
    const { store, path } = await loadFolder(findFixture(name).file);
    const [alone, threaded] = [new MemoryStore(), new MemoryStore()];
    let calls = 0;
    const counted: ChunkEncoder = {
      parallel: encoder.parallel,
      encode: (data, options) => {
        calls++;
        return encoder.encode(data, options);
      },
    };
    await convert(await open(store, path), { store: alone }, {});
    await convert(await open(store, path), { store: threaded }, { encoder: counted });
    expect(await contents(threaded)).toEqual(await contents(alone));
    expect(calls).toBeGreaterThan(0);
  },
);

it.each<[CompressorName, boolean]>([
  ["zstd", true],
  ["zlib", true],
  ["lz4hc", true],
  ["lz4", false],
  ["blosclz", false],
])("arrays of %s are encoded by threads: %j, both new and reopened", async (cname, isSlow) => {
  const path = join(bundles.folder, `array-${cname}`);
  const options = { workerUrl: bundles.worker };
  const spy = vi.spyOn(ThreadEncoder.prototype, "encode");
  const expected = isSlow && availableParallelism() > 1;
  const rows = Int32Array.from({ length: 5000 }, (_, i) => i % 77);
  try {
    const made = await createArray(path, {
      ...options,
      dtype: "<i4",
      chunkLength: 500,
      compressor: { cname },
    });
    await made.append(rows);
    await made.close();
    expect(spy.mock.calls.length > 0).toBe(expected);
    spy.mockClear();
    const opened = await openWritable(path, options);
    await opened.append(rows);
    await opened.flush();
    expect(spy.mock.calls.length > 0).toBe(expected);
    spy.mockClear();
    // A compressor that it gets later counts as well.
    await opened.compact({ compressor: { cname: isSlow ? "lz4" : "zstd" } });
    await opened.append(rows);
    await opened.close();
    expect(spy.mock.calls.length > 0).toBe(!isSlow && availableParallelism() > 1);
  } finally {
    spy.mockRestore();
  }
  const array = (await openPath(path)) as ArrayArchive;
  const bytes = await array.getBytes();
  await array.close();
  expect([...new Int32Array(bytes.slice().buffer)]).toEqual([...rows, ...rows, ...rows]);
});

it.each<[CompressorName, number, boolean]>([
  ["zstd", 8 << 10, true],
  ["zstd", 4 << 10, false],
  ["lz4", 32 << 10, false],
  ["lz4", 64 << 10, true],
])("a chunk of %s with %i bytes is worth a thread: %j", async (cname, length, isWorth) => {
  let alone = 0;
  const encodeAlone: ChunkEncoder["encode"] = async (data, options) => {
    alone++;
    await prepareEncode(options.cname);
    return encodeSync(data, options);
  };
  await new ThreadEncoder(pool, "wasm", encodeAlone).encode(new Uint8Array(length), { cname });
  expect(alone).toBe(isWorth ? 0 : 1);
});

it("pieces sent to a thread together match the calling thread's chunks, and each has its own error", async () => {
  const asked = new ThreadEncoder(pool);
  await pool.start();
  await prepareEncode("lz4");
  const data = makeData(12);
  const options = { cname: "lz4", typesize: 4 } as const;
  const offered = data.map((bytes, i) => {
    const made = asked.offer(
      bytes,
      i === 5 ? { ...options, clevel: 10 } : options,
      (length) => new Uint8Array(length),
    );
    bytes.fill(7); // it was copied
    return made;
  });
  expect(offered.every((each) => each !== undefined)).toBe(true);
  const settled = await Promise.allSettled(offered);
  const expected = makeData(12).map((bytes) => encodeSync(bytes, options));
  for (const [i, each] of settled.entries()) {
    if (each.status === "fulfilled") expect(each.value).toEqual(expected[i]);
    else expect([i, each.reason]).toMatchObject([5, { code: "BAD_ARGUMENT", details: { field: "clevel" } }]);
  }
  expect(settled.filter(({ status }) => status === "rejected").length).toBe(1);
  // The work that threads can do in a given time is enough: the caller encodes the rest.
  const large = new Uint8Array(1 << 20);
  const many = Array.from({ length: 5 }, () =>
    asked.offer(large, options, (length) => new Uint8Array(length)),
  );
  expect(many.map((each) => each === undefined)).toEqual([false, false, true, true, true]);
  await Promise.all(many);
});

it("the work of a thread that ends is done by the calling thread", async () => {
  const own = new WorkerPool(2, bundles.worker);
  const asked = new ThreadEncoder(own);
  await own.start();
  await prepareEncode("lz4");
  const data = makeData(9);
  const offered = data.map((bytes) => asked.offer(bytes, {}, (length) => new Uint8Array(length)));
  const given = asked.encode(new Uint8Array(100_000), {});
  await own.end();
  expect(await Promise.all(offered)).toEqual(data.map((bytes) => encodeSync(bytes, {})));
  expect(await given).toEqual(encodeSync(new Uint8Array(100_000), {}));
});

it.each([
  [[8000, 1000, 200], "rows"],
  [[100, 30_000, 5], "columns"],
] as const)(
  "an array that a helper encodes matches that of one thread byte for byte: %j, %s",
  async (batches, kind) => {
    await poolOf({ threads: 2, workerUrl: bundles.worker })?.start();
    const offer = vi.spyOn(ThreadEncoder.prototype, "offer");
    const itemBytes = kind === "rows" ? 4 : 12;
    const items = Uint8Array.from({ length: 400_000 }, (_, i) => (i * i) >> 9);
    const files: string[][] = [];
    for (const threads of [0, 2]) {
      const path = join(bundles.folder, `helped-${kind}-${threads}`);
      const dtype = kind === "rows" ? "<i4" : [["a", "<i4"] as const, ["b", "<f8"] as const];
      const settings = {
        dtype,
        chunkLength: 2000,
        superchunkLength: 16,
        compressor: { cname: "lz4" as const },
      };
      const array = await createArray(path, { ...settings, workerUrl: bundles.worker, threads });
      for (let round = 0; round < 10; round++)
        for (const rows of batches)
          await array.append(items.subarray(12 * round, 12 * round + rows * itemBytes));
      await array.close();
      const found = readdirSync(join(path, "data"), {
        recursive: true,
        encoding: "utf8",
        withFileTypes: true,
      });
      const names = found.filter((each) => each.isFile()).map((each) => join(each.parentPath, each.name));
      const digest = (name: string) => createHash("sha256").update(readFileSync(name)).digest("hex");
      files.push(names.sort().map(digest));
    }
    const helped = await Promise.all(
      offer.mock.results.map(({ value }) => value as Promise<Uint8Array> | undefined),
    );
    offer.mockRestore();
    expect(files[0]?.length).toBeGreaterThan(1);
    expect(files[1]).toEqual(files[0]);
    expect(helped.filter((each) => each !== undefined).length).toBeGreaterThan(10);
  },
);

const SETTINGS = settleSettings(
  { dtype: parseDType("<f8", ""), rowShape: [], hasColumns: false, dflt: 0, revision: 0 },
  { compressor: { cname: "lz4" } },
);

it("a writer asks for a helper once most of its time goes into encoding, but not if it goes into the disk", async () => {
  for (const [encoding, other, expected] of [
    [9, 1, ["lz4 false", "lz4 true"]],
    [1, 9, ["lz4 false"]],
  ] as const) {
    const asked: string[] = [];
    const maker = new ChunkMaker({
      parallel: 4,
      parallelOf: () => 1,
      encode: () => Promise.reject(new Error("not one by one")),
      helperOf: (cname, isLimit) => void asked.push(`${cname} ${isLimit}`),
    });
    await maker.prepare(SETTINGS);
    // From here to the end nothing else in this process runs.
    let [now, calls] = [0, 0];
    const clock = vi
      .spyOn(performance, "now")
      .mockImplementation(() => (now += calls++ % 2 === 0 ? other : encoding));
    try {
      for (let i = 0; i < 16; i++) {
        await maker.begin(new Uint8Array(1 << 20), 8, 99);
        maker.giveBack(maker.takeBlocks());
      }
    } finally {
      clock.mockRestore();
    }
    expect(asked).toEqual(expected);
  }
});

it("a helper gets no chunk of a superchunk that is finished before it", async () => {
  let offers = 0;
  const waiting = new Promise<Uint8Array>(() => undefined);
  const helper = {
    offer: (): Promise<Uint8Array> => {
      offers++;
      return waiting;
    },
  };
  const maker = new ChunkMaker({
    parallel: 4,
    parallelOf: () => 1,
    encode: () => Promise.reject(new Error("not one by one")),
    helperOf: () => helper,
  });
  await maker.prepare(SETTINGS);
  const data = new Uint8Array(1 << 10);
  const isHelped: boolean[] = [];
  for (let left = 8; left > 0; left--) isHelped.push(Array.isArray(await maker.begin(data, 8, left)));
  // With the fifth, the helper would have as many as are left.
  expect(isHelped).toEqual([true, true, true, true, false, false, false, false]);
  expect(offers).toBe(4);
});

/** Every object of a store. */
async function contents(store: MemoryStore, folder = ""): Promise<Record<string, Uint8Array | undefined>> {
  const found: Record<string, Uint8Array | undefined> = {};
  for await (const { name, kind } of store.list(folder)) {
    const key = folder === "" ? name : `${folder}/${name}`;
    if (kind === "folder") Object.assign(found, await contents(store, key));
    else found[key] = await store.get(key);
  }
  return found;
}

it("chunks of fast compressors are encoded by the calling thread, unless a number of threads is set", async () => {
  const here: unknown[] = [];
  const alone: ChunkEncoder["encode"] = async (data, options) => {
    here.push(options.cname);
    return encodeSync(data, options);
  };
  const chooser = new ThreadEncoder(pool, "wasm", alone, worthUnasked);
  for (const cname of ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"] as const) {
    await prepareEncode(cname);
    const data = new Uint8Array(100_000);
    expect(await chooser.encode(data, { cname })).toEqual(encodeSync(data, { cname }));
  }
  expect(here).toEqual(["blosclz", "lz4", "snappy"]);
});
