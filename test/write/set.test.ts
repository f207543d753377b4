import { describe, expect, test } from "vitest";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/archive/open/open.ts";
import { info } from "../../src/codec/index.ts";
import { isSuperchunkError } from "../../src/errors.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { createArray, openWritable } from "../../src/write/array/create.ts";

const ROWS = 400_000;
const values = Float64Array.from({ length: ROWS }, (_, i) => Math.round(1e4 * Math.sin(i / 700)) / 100);

async function make(store: MemoryStore, options: object = {}): Promise<void> {
  const array = await createArray(store, "a", {
    dtype: "<f8",
    chunkLength: 100_000,
    superchunkLength: 4,
    ...options,
  });
  await array.append(values);
  await array.close();
}

/** The Blosc chunk of a superchunk, found by its offset. */
async function chunkAt(store: MemoryStore, name: string, index: number): Promise<Uint8Array> {
  const file = (await store.get(`a/data/${name}`)) ?? new Uint8Array(0);
  const view = new DataView(file.buffer, file.byteOffset, file.length);
  const chunk = file.subarray(Number(view.getBigInt64(32 + 8 * index, true)));
  return chunk.subarray(0, info(chunk).ctbytes);
}

async function expectRows(store: MemoryStore, rows: Float64Array): Promise<void> {
  const reader = (await open(store, "a")) as ArrayArchive;
  expect((await reader.verify()).findings).toEqual([]);
  expect(Buffer.compare(await reader.getBytes(), new Uint8Array(rows.buffer))).toBe(0);
}

async function patchOf(store: MemoryStore): Promise<string> {
  for await (const { name } of store.list("a/data")) if (name !== "__1__.bin") return name;
  throw new Error("there is no patch");
}

describe("a change of one value", () => {
  test("leaves the compressed bytes of the chunk's other blocks unchanged", async () => {
    const store = new MemoryStore();
    await make(store, { compressor: { clevel: 1 } });
    const before = await chunkAt(store, "__1__.bin", 1);
    const array = await openWritable(store, "a");
    await array.set([100_003], -1);
    await array.flush();
    const after = await chunkAt(store, await patchOf(store), 0);
    expect(info(after)).toMatchObject({ nblocks: info(before).nblocks, blocksize: info(before).blocksize });
    expect(info(before).nblocks).toBeGreaterThan(2);
    const lastOf = (chunk: Uint8Array): number =>
      new DataView(chunk.buffer, chunk.byteOffset).getUint32(16 + 4 * (info(chunk).nblocks - 1), true);
    expect(Buffer.compare(after.subarray(lastOf(after)), before.subarray(lastOf(before)))).toBe(0);
    const expected = values.slice();
    expected[100_003] = -1;
    await expectRows(store, expected);
    await array.close();
  });

  test("in a damaged chunk is refused, with its place, and the array stays unchanged", async () => {
    for (const checksum of ["crc32", "None"] as const) {
      const store = new MemoryStore();
      await make(store, { checksum });
      const file = (await store.get("a/data/__1__.bin"))?.slice() ?? new Uint8Array(0);
      const offset = Number(new DataView(file.buffer).getBigInt64(32 + 16, true));
      file.fill(0xff, offset + 20, offset + 40);
      await store.put("a/data/__1__.bin", file);
      const array = await openWritable(store, "a");
      await array.set([200_000], 1);
      const failure: unknown = await array.flush().catch((error: unknown) => error);
      if (!isSuperchunkError(failure)) throw failure;
      expect(["CHECKSUM_MISMATCH", "BAD_FIELD", "BAD_CHUNK"]).toContain(failure.code);
      expect(failure.details).toMatchObject({ path: store.describe("a/data/__1__.bin"), chunk: 2 });
      await array.abandon();
      const reader = (await open(store, "a")) as ArrayArchive;
      expect(await reader.get([199_999])).toBe(values[199_999]);
      expect(reader.shape).toEqual([ROWS]);
    }
  });
});

test("many changes of one chunk, before a flush or over several, leave the last value of each item", async () => {
  const store = new MemoryStore();
  await make(store);
  const expected = values.slice();
  const array = await openWritable(store, "a");
  for (let i = 0; i < 3000; i++) {
    const row = 150_000 + ((i * 7919) % 1000);
    await array.set([row], i);
    expected[row] = i;
    if (i % 500 === 0) await array.flush();
  }
  await array.set([{ start: 10, stop: 390_000, step: 1000 }], 7);
  for (let i = 10; i < 390_000; i += 1000) expected[i] = 7;
  await array.close();
  await expectRows(store, expected);
});

test("a chunk that is set as a whole is not read, so a damaged one becomes whole again", async () => {
  const store = new MemoryStore();
  await make(store);
  const file = (await store.get("a/data/__1__.bin"))?.slice() ?? new Uint8Array(0);
  const offset = Number(new DataView(file.buffer).getBigInt64(32 + 8, true));
  file.fill(0xff, offset + 16, offset + 4000);
  await store.put("a/data/__1__.bin", file);
  const array = await openWritable(store, "a");
  const rows = Float64Array.from({ length: 100_000 }, (_, i) => i);
  await array.set([{ start: 100_000, stop: 200_000, step: 1 }], rows);
  await array.flush();
  const expected = values.slice();
  expected.set(rows, 100_000);
  await expectRows(store, expected);
  await array.close();
});

test("each column of a nested dtype is changed in its own chunk", async () => {
  const store = new MemoryStore();
  const dtype = [
    ["a", "<i4"],
    ["b", "<f8"],
  ] as const;
  const array = await createArray(store, "a", { dtype, chunkLength: 5000, superchunkLength: 4 });
  const row = (i: number): Uint8Array => {
    const bytes = new Uint8Array(12);
    const view = new DataView(bytes.buffer);
    view.setInt32(0, i, true);
    view.setFloat64(4, i / 4, true);
    return bytes;
  };
  const expected = Buffer.concat(Array.from({ length: 20_000 }, (_, i) => row(i)));
  await array.append(expected);
  await array.flush();
  await array.set([777], row(-5));
  await array.set([{ start: 4990, stop: 10_010, step: 1 }], row(9));
  expected.set(row(-5), 777 * 12);
  for (let i = 4990; i < 10_010; i++) expected.set(row(9), i * 12);
  await array.close();
  const reader = (await open(store, "a")) as ArrayArchive;
  expect(Buffer.compare(await reader.getBytes(), expected)).toBe(0);
  expect((await reader.verify()).findings).toEqual([]);
});
