import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ArraySlice } from "../../src/archive/kinds/types.ts";
import { type ChunkDecoder, callingThread } from "../../src/archive/read/chunk-fetch.ts";
import type { ChunkEncoder, CompressorName } from "../../src/codec/types.ts";
import { FileStore } from "../../src/node/fs/fs-store.ts";
import { create, edit, open } from "../../src/node/index.ts";
import { threadDecoder } from "../../src/node/threads/thread-decoder.ts";
import { WorkerPool } from "../../src/node/threads/worker-pool.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { createZarr as createIn } from "../../src/zarr/write/create.ts";
import { temporaryFolder } from "../folder.ts";
import { type Bundles, bundle } from "../node/threads/bundle.ts";
import { EAGER } from "../node/threads/tuning.ts";
import { withCounting } from "../store/counting.ts";

const ROWS = 3000;
const COLUMNS = 50;
const layout = {
  shape: [ROWS, COLUMNS],
  chunkShape: [100, COLUMNS],
  shardShape: [1000, COLUMNS],
} as const;
const specification = { ...layout, dataType: "float64" } as const;
const values = Float64Array.from({ length: ROWS * COLUMNS }, (_, i) => Math.sqrt(i) - (i % 9));

let bundles: Bundles;
let pool: WorkerPool;
let decoder: ChunkDecoder;
let folder: string;

beforeAll(async () => {
  bundles = await bundle();
  pool = new WorkerPool(2, bundles.worker);
  decoder = threadDecoder(pool, "wasm", callingThread, EAGER);
  folder = temporaryFolder();
  await using array = await create(join(folder, "a"), {
    ...{ ...layout, format: "zarr", dtype: "float64" },
    workerUrl: bundles.worker,
  });
  await array.set(null, values);
});

afterAll(async () => {
  await pool.end();
  await bundles.remove();
});

function openAt(path: string): ReturnType<typeof openZarrArray> {
  return openZarrArray(new FileStore(path), "", { decoder });
}

test("an array written at a path reads back there, and can be opened again and written to", async () => {
  const array = await openAt(join(folder, "a"));
  expect(((await array.get()) as ArraySlice).data).toEqual(values);
  const other = join(folder, "other");
  const options = { ...layout, format: "zarr", dtype: "float64", threads: 0 } as const;
  await (await create(other, options)).close();
  const again = await edit(other, { threads: 0 });
  await again.set([5, 5], 17);
  await again.close();
  expect(await (await openAt(other)).get([5, 5])).toBe(17);
  await expect(create(other, options)).rejects.toMatchObject({ code: "CONFLICT" });
  await expect(open(join(folder, "none"))).rejects.toMatchObject({ code: "NOT_FOUND" });
});

test.each([
  ["separate memory", (length: number) => new ArrayBuffer(length)],
  ["shared memory", (length: number) => new SharedArrayBuffer(length)],
] as const)("reading into %s gives the values, from files and from other stores", async (_, make) => {
  const memory = new MemoryStore();
  await (await createIn(memory, "", specification)).set(null, values);
  const buffer = make(values.byteLength + 16);
  const target = new Float64Array(buffer, 8, values.length);
  for (const array of [
    await openAt(join(folder, "a")),
    await openZarrArray(memory, "", { decoder }),
    await openZarrArray(memory),
  ]) {
    target.fill(-1);
    await array.readInto(target);
    expect(target.every((value, i) => value === values[i])).toBe(true);
    const columns = new Float64Array(make(ROWS * 3 * 8));
    await array.readInto(columns, [null, { start: 1, stop: 50, step: 20 }]);
    expect(
      columns.every((value, i) => value === values[Math.floor(i / 3) * COLUMNS + 1 + (i % 3) * 20]),
    ).toBe(true);
    // Nothing outside the target is touched.
    expect([...new Float64Array(buffer, 0, 1), ...new Float64Array(buffer, buffer.byteLength - 8)]).toEqual([
      0, 0,
    ]);
  }
});

test("reading into shared memory, a damaged chunk is the same error as without threads, and names the entry", async () => {
  const path = join(folder, "damaged");
  const array = await createIn(new FileStore(path), "", specification);
  await array.set(null, values);
  const chunks = [];
  for await (const chunk of array.listChunks()) chunks.push(chunk);
  const { key, offset = 0 } = chunks[13] ?? { key: "" };
  await array.store.writeRange?.(key, offset + 4, new Uint8Array([1, 2, 3, 4]));
  const target = new Float64Array(new SharedArrayBuffer(values.byteLength));
  const found: unknown[] = [];
  for (const each of [await openAt(path), await openZarrArray(new FileStore(path), "")]) {
    found.push(await each.readInto(target).catch((error: unknown) => error));
  }
  expect(found[0]).toMatchObject({
    code: "BAD_FIELD",
    details: { chunk: 3, path: join(path, "c", "1", "0") },
  });
  expect(String(found[0])).toBe(String(found[1]));
});

test("a target of the wrong size is refused before anything is read", async () => {
  const memory = new MemoryStore();
  await createIn(memory, "", specification);
  const { store, counts, reset } = withCounting(memory);
  const array = await openZarrArray(store);
  reset();
  await expect(array.readInto(new Float64Array(7), [0])).rejects.toMatchObject({
    code: "BAD_ARGUMENT",
    details: { expected: COLUMNS * 8, found: 56 },
  });
  expect(counts.requests).toBe(0);
});

test("big-endian values read into memory are those of getBytes", async () => {
  const memory = new MemoryStore();
  const array = await createIn(memory, "", {
    ...specification,
    codecs: [{ name: "bytes", configuration: { endian: "big" } }],
  });
  await array.set(null, values);
  const target = new Float64Array(COLUMNS);
  await array.readInto(target, [7]);
  expect(target).toEqual(values.slice(7 * COLUMNS, 8 * COLUMNS));
});

test.each([
  [3, undefined],
  [1, "lz4"],
])("a shard is written in pieces while it is encoded, %i chunks at a time (%s)", async (most, cname) => {
  const memory = new MemoryStore();
  const ended: number[] = [];
  let begun = 0;
  const parallelOf = (name: CompressorName | undefined): number => (name === cname ? most : 3);
  const encoder: ChunkEncoder = {
    parallel: 3,
    ...(cname === undefined ? {} : { parallelOf }),
    encode: async (data: Uint8Array): Promise<Uint8Array> => {
      begun++;
      return data.slice(0, 20);
    },
  };
  const { put } = memory;
  memory.put = async (key, source, options) => {
    if (source instanceof Uint8Array) return put.call(memory, key, source, options);
    async function* watched(pieces: Iterable<Uint8Array> | AsyncIterable<Uint8Array>) {
      for await (const piece of pieces) {
        ended.push(begun);
        yield piece;
      }
    }
    return put.call(memory, key, watched(source), options);
  };
  const array = await createIn(memory, "", { ...specification, shape: [1000, COLUMNS] }, { encoder });
  await array.set(null, values.subarray(0, 1000 * COLUMNS));
  expect(ended).toHaveLength(11);
  ended.slice(0, 10).forEach((count, i) => {
    expect(count).toBeLessThanOrEqual(i + 1 + most + 1);
  });
});
