/** What reading costs: requests and bytes, and what happens when objects change meanwhile. */

import { afterAll, beforeAll, expect, test } from "vitest";
import type { ArraySlice } from "../../src/archive/kinds/types.ts";
import { callingThread } from "../../src/archive/read/chunk-fetch.ts";
import { decoderOf, encoderOf } from "../../src/node/threads/threads.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import type { ReadableStore } from "../../src/store/types.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { createZarr } from "../../src/zarr/write/create.ts";
import { bundle } from "../node/threads/bundle.ts";
import { withCounting } from "../store/counting.ts";

let bundles: Awaited<ReturnType<typeof bundle>> | undefined;

beforeAll(async () => {
  bundles = await bundle();
});

afterAll(() => bundles?.remove());

const LITTLE = { name: "bytes", configuration: { endian: "little" } };
const base = {
  shape: [4000],
  dataType: "int32",
  chunkShape: [100],
  shardShape: [2000],
  codecs: [LITTLE],
} as const;

async function makeStore(spec: object = {}): Promise<MemoryStore> {
  const store = new MemoryStore();
  const array = await createZarr(store, "", { ...base, ...spec });
  await array.set(
    null,
    Int32Array.from({ length: 4000 }, (_, i) => i),
  );
  return store;
}

const ranges = (log: readonly string[]): number =>
  log.filter((call) => /^(get|getRange|readInto\w*) /.test(call)).length;

test("reads the index once per shard, then at most the joined ranges and the bytes in them", async () => {
  const { store, counts, reset } = withCounting(await makeStore());
  const array = await openZarrArray(store, "", { maxGap: 0 });
  reset();
  await array.get([{ start: 0, stop: 2000, step: 1 }]);
  expect(ranges(counts.log)).toBe(2);
  expect(counts.bytesRead).toBe(20 * 16 + 4 + 8000);
  reset();
  await array.get([{ start: 0, stop: 2000, step: 1 }]);
  expect(ranges(counts.log)).toBe(1);
  reset();
  expect(await array.get([1234])).toBe(1234);
  expect(counts.bytesRead).toBe(4);
  reset();
  await array.get([{ start: 0, stop: 4000, step: 500 }]);
  expect(counts.bytesRead).toBe(20 * 16 + 4 + 8 * 4);
});

test("indexes are kept up to a limit, the most recently used the longest", async () => {
  const { store, counts, reset } = withCounting(await makeStore({ shardShape: [1000] }));
  // Two indexes of ten entries: the third replaces the least recently used one.
  const array = await openZarrArray(store, "", { cachedEntries: 20 });
  for (const [row, requests] of [
    [0, 2],
    [1000, 2],
    [1, 1],
    [2000, 2],
    [2, 1],
    [1001, 2],
  ] as const) {
    reset();
    expect(await array.get([row])).toBe(row);
    expect([row, ranges(counts.log)]).toEqual([row, requests]);
  }
});

test("nearby ranges are fetched together, distant ones are not", async () => {
  const { store, counts, reset } = withCounting(await makeStore({ codecs: [LITTLE, { name: "crc32c" }] }));
  for (const [maxGap, requests] of [
    [0, 10],
    [404, 1],
  ] as const) {
    const array = await openZarrArray(store, "", { maxGap });
    await array.get([0]);
    reset();
    await array.get([{ start: 0, stop: 2000, step: 200 }]);
    expect(ranges(counts.log)).toBe(requests);
  }
});

test("nearby parts of uncompressed chunks are fetched together, up to maxGap", async () => {
  const { store, counts, reset } = withCounting(await makeStore());
  for (const [maxGap, requests, bytes] of [
    [0, 20, 20 * 4],
    [396, 1, 19 * 400 + 4],
  ] as const) {
    const array = await openZarrArray(store, "", { maxGap });
    await array.get([0]);
    reset();
    const { data } = await array.get([{ start: 7, stop: 2000, step: 100 }]);
    expect([...data]).toEqual(Array.from({ length: 20 }, (_, i) => 7 + 100 * i));
    expect([ranges(counts.log), counts.bytesRead]).toEqual([requests, bytes]);
  }
});

test("only the needed blocks of a large Blosc chunk are read", async () => {
  const memory = new MemoryStore();
  const written = await createZarr(memory, "", {
    shape: [400_000],
    dataType: "float64",
    chunkShape: [200_000],
    shardShape: [400_000],
    codecs: [
      LITTLE,
      {
        name: "blosc",
        configuration: { cname: "lz4", clevel: 5, shuffle: "shuffle", typesize: 8, blocksize: 8192 },
      },
    ],
  });
  await written.set(
    null,
    Float64Array.from({ length: 400_000 }, (_, i) => Math.sin(i)),
  );
  const { store, counts, reset } = withCounting(memory);
  const array = await openZarrArray(store);
  reset();
  expect(await array.get([300_001])).toBe(Math.sin(300_001));
  expect(counts.bytesRead).toBeLessThan(70_000);
});

test("a shard that is replaced between two reads is read again, and never with the old index", async () => {
  const memory = await makeStore();
  const reader = await openZarrArray(memory);
  expect(await reader.get([50])).toBe(50);
  const { openZarrWriter } = await import("./writer.ts");
  const writer = await openZarrWriter(memory);
  await writer.set([{ start: 0, stop: 1000, step: 1 }], 0);
  expect(await reader.get([50])).toBe(0);
  expect(await reader.get([1500])).toBe(1500);
});

test("a shard that is replaced during a read gives the values of one version", async () => {
  const memory = await makeStore();
  const other = await makeStore();
  const { openZarrWriter } = await import("./writer.ts");
  await (await openZarrWriter(other)).set([{ start: 0, stop: 900, step: 1 }], 0);
  const replacement = (await other.get("c/0")) ?? new Uint8Array(0);
  let replaced = 0;
  const store: ReadableStore = {
    describe: (key) => memory.describe(key),
    get: (key) => memory.get(key),
    stat: (key) => memory.stat(key),
    list: (folder) => memory.list(folder),
    async getRange(key, range) {
      const bytes = await memory.getRange(key, range);
      // Right after the index, before the chunks.
      if (key === "c/0" && replaced++ === 0) await memory.put("c/0", replacement);
      return bytes;
    },
  };
  const array = await openZarrArray(store);
  const { data } = (await array.get([{ start: 0, stop: 2000, step: 1 }])) as ArraySlice;
  expect(Array.from(data as Int32Array)).toEqual(Array.from({ length: 2000 }, (_, i) => (i < 900 ? 0 : i)));
});

test("appending to a shard costs the same for the first chunk and the last", async () => {
  const { store, counts, reset } = withCounting(new MemoryStore());
  const array = await createZarr(
    store,
    "",
    { ...base, shape: [100_000], shardShape: [100_000] },
    { strategy: "append" },
  );
  const written: number[] = [];
  for (let i = 0; i < 60; i++) {
    reset();
    await array.set([{ start: i * 100, stop: (i + 1) * 100, step: 1 }], i + 1);
    written.push(counts.bytesWritten);
  }
  expect(new Set(written)).toEqual(new Set([400 + 1000 * 16 + 4]));
});

test("a decoder with threads reads the same values, and errors name the entry", async () => {
  const blosc = {
    name: "blosc",
    configuration: { cname: "lz4", clevel: 5, shuffle: "shuffle", typesize: 4, blocksize: 0 },
  };
  const memory = await makeStore({
    shape: [40, 100],
    chunkShape: [4, 10],
    shardShape: [20, 50],
    codecs: [LITTLE, blosc],
  });
  for (const decoder of [callingThread, decoderOf({ threads: 2, workerUrl: bundles?.worker })]) {
    const array = await openZarrArray(memory, "", { decoder });
    const { data } = (await array.get()) as ArraySlice;
    expect(Array.from(data as Int32Array)).toEqual(Array.from({ length: 4000 }, (_, i) => i));
    const { data: part } = (await array.get([
      { start: 3, stop: 38, step: 5 },
      { start: 7, stop: 93, step: 1 },
    ])) as ArraySlice;
    expect((part as Int32Array)[86]).toBe(807);
  }
  const damaged = new MemoryStore();
  for (const key of ["zarr.json", "c/0/0"])
    await damaged.put(key, (await memory.get(key)) ?? new Uint8Array(0));
  const shard = (await damaged.get("c/0/0")) ?? new Uint8Array(0);
  const whole = await openZarrArray(memory);
  let second = { offset: 0 };
  for await (const chunk of whole.listChunks()) if (chunk.key === "c/0/0" && chunk.slot === 3) second = chunk;
  shard[second.offset + 4] = 0xff;
  await damaged.put("c/0/0", shard);
  const array = await openZarrArray(damaged, "", { decoder: callingThread });
  await expect(array.get()).rejects.toMatchObject({
    code: "BAD_FIELD",
    details: { chunk: 3, path: damaged.describe("c/0/0") },
  });
});

test("an encoder with threads writes the same shards", async () => {
  const blosc = {
    name: "blosc",
    configuration: { cname: "lz4", clevel: 5, shuffle: "shuffle", typesize: 4, blocksize: 0 },
  };
  const values = Int32Array.from({ length: 400_000 }, (_, i) => i % 1000);
  const shards: (Uint8Array | undefined)[] = [];
  for (const encoder of [undefined, encoderOf({ threads: 2, workerUrl: bundles?.worker })]) {
    const store = new MemoryStore();
    const spec = {
      ...base,
      shape: [400_000],
      chunkShape: [20_000],
      shardShape: [400_000],
      codecs: [LITTLE, blosc],
    };
    await (await createZarr(store, "", spec, { encoder, chunkOrder: "as-written" })).set(null, values);
    shards.push(await store.get("c/0"));
  }
  expect(shards[1]).toEqual(shards[0]);
});

test("a read that starts after a write sees it, also while another read of the same shard is under way", async () => {
  const memory = new MemoryStore();
  let hold: Promise<void> | undefined;
  const store = new Proxy(memory, {
    get(target, name) {
      const member = Reflect.get(target, name, target) as unknown;
      if (typeof member !== "function") return member;
      if (name !== "stat") return member.bind(target) as unknown;
      return async (key: string) => {
        const info = await target.stat(key);
        if (key.endsWith("c/0")) await hold;
        return info;
      };
    },
  });
  const array = await createZarr(store, "", {
    ...{ shape: [8], dataType: "int32", chunkShape: [2], shardShape: [8], fillValue: -1 },
  });
  let release = (): void => undefined;
  hold = new Promise((resolve) => {
    release = resolve;
  });
  const early = array.get([0]);
  // The early read has requested the shard by now, and found none.
  await new Promise((resolve) => setImmediate(resolve));
  hold = undefined;
  await array.set([0], 5);
  const late = array.get([0]);
  await new Promise((resolve) => setImmediate(resolve));
  release();
  expect(await late).toBe(5);
  expect(await early).toBe(-1);
});
