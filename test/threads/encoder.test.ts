/** Chunks that threads encode are those of the calling thread, in order. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { open } from "../../src/array/open.ts";
import { convertArchive } from "../../src/bridge/index.ts";
import { encodeAhead, encodeSync, prepareEncode } from "../../src/codec/index.ts";
import type { ChunkEncoder, CompressorName } from "../../src/codec/types.ts";
import { ThreadEncoder } from "../../src/node/thread-encoder.ts";
import { worthThreads } from "../../src/node/threads.ts";
import { WorkerPool } from "../../src/node/worker-pool.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { loadFolder } from "../array/memory-archive.ts";
import { findFixture } from "../fixtures/manifest.ts";
import { type Bundles, bundle } from "./bundle.ts";

let bundles: Bundles;
let pool: WorkerPool;
let encoder: ThreadEncoder;

beforeAll(async () => {
  bundles = await bundle();
  pool = new WorkerPool(2, bundles.worker);
  encoder = new ThreadEncoder(pool, "wasm", () => Promise.reject(new Error("not by a thread")), 0);
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

it("an option out of its range is the same error", async () => {
  await expect(encoder.encode(new Uint8Array(100), { clevel: 10 })).rejects.toMatchObject({
    code: "BAD_ARGUMENT",
    details: { field: "clevel" },
  });
});

it("an error comes in its turn, and after the chunks in front of it", async () => {
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

it("data may be overwritten once their chunk is there", async () => {
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
    await convertArchive(await open(store, path), alone, "", {});
    await convertArchive(await open(store, path), threaded, "", { encoder: counted });
    expect(await contents(threaded)).toEqual(await contents(alone));
    expect(calls).toBeGreaterThan(0);
  },
);

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

it("chunks of fast compressors are encoded here, where no number of threads was asked for", async () => {
  const here: unknown[] = [];
  const alone: ChunkEncoder["encode"] = async (data, options) => {
    here.push(options.cname);
    return encodeSync(data, options);
  };
  const chooser = new ThreadEncoder(pool, "wasm", alone, 0, worthThreads);
  for (const cname of ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"] as const) {
    await prepareEncode(cname);
    const data = new Uint8Array(1000);
    expect(await chooser.encode(data, { cname })).toEqual(encodeSync(data, { cname }));
  }
  expect(here).toEqual(["blosclz", "lz4", "snappy"]);
});
