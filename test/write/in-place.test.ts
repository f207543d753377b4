/** Arrays whose chunks are changed in place. */
import { describe, expect, test } from "vitest";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/archive/open/open.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { type ArrayOptions, createArray, openWritable } from "../../src/write/array/create.ts";
import { imageOf } from "../crash/images.ts";

const ROWS = 512;
const SETTINGS = { dtype: "<i4", chunkLength: 64, superchunkLength: 4 } as const;
const IN_PLACE = { modify: "in-place" } as const;
const ramp = (count: number, first = 0): Int32Array =>
  Int32Array.from({ length: count }, (_, i) => first + i);

/** Values that no compressor makes smaller. */
const noise = (count: number): Int32Array =>
  Int32Array.from({ length: count }, (_, i) => Math.imul(i + 1, 0x9e3779b1));

async function arrayOf(options: Partial<ArrayOptions> = {}): Promise<MemoryStore> {
  const store = new MemoryStore();
  const array = await createArray(store, "", { ...SETTINGS, ...options });
  await array.append(ramp(ROWS));
  await array.close();
  return store;
}

async function valuesOf(store: MemoryStore): Promise<number[]> {
  const array = (await open(store)) as ArrayArchive;
  expect((await array.verify()).findings).toEqual([]);
  const { data } = (await array.get()) as { data: Int32Array };
  return [...data];
}

async function filesOf(store: MemoryStore): Promise<{ names: string[]; versions: (number | undefined)[] }> {
  const files = [...(await imageOf(store, "data"))].sort(([a], [b]) => (a < b ? -1 : 1));
  return { names: files.map(([name]) => name), versions: files.map(([, bytes]) => bytes[4]) };
}

describe("modify: in-place", () => {
  test("changes chunks in their own files, and compacting makes these version 3 again", async () => {
    const store = await arrayOf();
    const before = await filesOf(store);
    expect(before.versions).toEqual([3, 3]);
    const array = await openWritable(store, "", IN_PLACE);
    const values = noise(42);
    await array.set([{ start: 3, stop: 500, step: 12 }], values.subarray(0, 42));
    await array.flush();
    const expected = [...ramp(ROWS)];
    values.forEach((value, i) => {
      expected[3 + 12 * i] = value;
    });
    expect([...((await array.get()) as { data: Int32Array }).data]).toEqual(expected);
    await array.close();
    expect(await filesOf(store)).toEqual({ names: before.names, versions: [4, 4] });
    expect(await valuesOf(store)).toEqual(expected);
    expect([...(await imageOf(store, "meta")).keys()].sort()).toEqual([
      "meta/attributes",
      "meta/sizes",
      "meta/storage",
    ]);
    const again = await openWritable(store, "");
    await again.compact();
    await again.close();
    expect(await filesOf(store)).toEqual({ names: before.names, versions: [3, 3] });
    expect(await valuesOf(store)).toEqual(expected);
  });

  test("a chunk of the same length leaves its file walkable", async () => {
    const store = await arrayOf({ compressor: { clevel: 0 } });
    const before = await filesOf(store);
    const array = await openWritable(store, "", IN_PLACE);
    await array.set([5], 99);
    await array.close();
    expect(await filesOf(store)).toEqual(before);
    expect((await valuesOf(store))[5]).toBe(99);
  });

  test("writes no other file, also if the last chunk is short", async () => {
    const store = await arrayOf();
    const longer = await openWritable(store, "");
    await longer.append(ramp(7));
    await longer.close();
    const { names } = await filesOf(store);
    const array = await openWritable(store, "", IN_PLACE);
    await array.set([{ start: 0, stop: 64, step: 1 }], noise(64));
    await array.flush();
    expect((await filesOf(store)).names).toEqual(names);
    expect(array.bytesWritten).toBeGreaterThan(64 * 4);
    await array.set([-1], 12);
    await array.flush();
    await array.set([-2], 11);
    await array.close();
    expect((await filesOf(store)).names).toEqual(names);
    expect(await valuesOf(store)).toEqual([...noise(64), ...ramp(ROWS - 64, 64), ...ramp(5), 11, 12]);
  });

  test("continues correctly with a short last chunk that another operation has written since", async () => {
    const store = await arrayOf();
    const array = await openWritable(store, "", IN_PLACE);
    await array.append(ramp(7));
    await array.set([-1], 12);
    await array.append(ramp(2));
    await array.set([{ start: 505, stop: 521, step: 5 }], -1);
    await array.resize(520);
    await array.set([-1], 13);
    const expected = [...ramp(ROWS), ...ramp(6), 12, 0];
    for (const row of [505, 510, 515]) expected[row] = -1;
    expected[519] = 13;
    expect([...((await array.get()) as { data: Int32Array }).data]).toEqual(expected);
    await array.close();
    expect(await valuesOf(store)).toEqual(expected);
  });

  test("counts the bytes by which a file grows", async () => {
    const store = await arrayOf();
    const array = await openWritable(store, "", IN_PLACE);
    await array.set([{ start: 0, stop: 64, step: 1 }], noise(64));
    await array.close();
    let bytes = 0;
    for (const file of (await imageOf(store, "data")).values()) bytes += file.length;
    const sizes = JSON.parse(new TextDecoder().decode(await store.get("meta/sizes")));
    expect(sizes.cbytes).toBe(bytes);
  });

  test("[FG-12] gives an open reader STALE, not other rows; one that opens later gets the new ones", async () => {
    const store = await arrayOf();
    const reader = (await open(store)) as ArrayArchive & { refresh(): Promise<boolean> };
    expect(await reader.get([3])).toBe(3);
    const array = await openWritable(store, "", IN_PLACE);
    await array.set([3], 1000);
    await array.flush();
    await expect(reader.get([3])).rejects.toMatchObject({ code: "STALE" });
    await expect(reader.get([40])).rejects.toMatchObject({ code: "STALE" });
    await reader.refresh();
    expect(await reader.get([3])).toBe(1000);
    await array.close();
  });

  test("commits several overlapping changes of one flush together", async () => {
    const store = await arrayOf();
    const array = await openWritable(store, "", IN_PLACE);
    await array.set(null, 7);
    await array.set([{ start: 0, stop: ROWS, step: 2 }], 8);
    const reader = (await open(store)) as ArrayArchive;
    expect([...((await reader.get()) as { data: Int32Array }).data]).toEqual([...ramp(ROWS)]);
    await array.close();
    expect(await valuesOf(store)).toEqual([...ramp(ROWS)].map((_, i) => (i % 2 === 0 ? 8 : 7)));
  });

  test("changes what is set in a patch there, and keeps what is appended first", async () => {
    const store = await arrayOf();
    const patched = await openWritable(store, "");
    await patched.set([1], -1);
    await patched.abandon();
    const first = await openWritable(store, "");
    await first.set([1], -1);
    await first.flush();
    await first.abandon();
    const array = await openWritable(store, "", IN_PLACE);
    const { names } = await filesOf(store);
    await array.set([1], -2);
    await array.flush();
    expect((await filesOf(store)).names).toEqual(names);
    await array.append(ramp(3, 100));
    await array.set([-1], 5);
    await array.flush();
    await array.abandon();
    const expected = [...ramp(ROWS), 100, 101, 5];
    expected[1] = -2;
    expect(await valuesOf(store)).toEqual(expected);
  });

  test("is refused by a store that cannot write in place", async () => {
    const inner = await arrayOf();
    const { writeRange: _writeRange, ...store } = bare(inner);
    await expect(openWritable(store, "", IN_PLACE)).rejects.toMatchObject({ code: "UNSUPPORTED" });
  });
});

function bare(store: MemoryStore) {
  return {
    describe: store.describe.bind(store),
    get: store.get.bind(store),
    getRange: store.getRange.bind(store),
    stat: store.stat.bind(store),
    list: store.list.bind(store),
    put: store.put.bind(store),
    delete: store.delete.bind(store),
    sync: store.sync.bind(store),
    writeRange: store.writeRange.bind(store),
  };
}

describe("reserve", () => {
  test("[F1.4-03] [F1.4-04] leaves room after each chunk, in which a larger one fits later; such files are of version 4", async () => {
    const store = await arrayOf({ reserve: 64 });
    const before = await filesOf(store);
    expect(before.versions).toEqual([4, 4]);
    const sizes = (await imageOf(store, "data")).get("data/__1__.bin")?.length;
    expect(await valuesOf(store)).toEqual([...ramp(ROWS)]);
    const array = await openWritable(store, "", IN_PLACE);
    await array.set([{ start: 64, stop: 72, step: 1 }], noise(8));
    await array.close();
    expect((await imageOf(store, "data")).get("data/__1__.bin")?.length).toBe(sizes);
    expect((await valuesOf(store)).slice(64, 72)).toEqual([...noise(8)]);
  });

  test("stays with the array, is kept by close and removed by compact", async () => {
    const store = await arrayOf({ reserve: "25%" });
    const array = await openWritable(store, "");
    await array.append(ramp(256, 512));
    await array.close();
    expect((await filesOf(store)).versions).toEqual([4, 4, 4]);
    const again = await openWritable(store, "");
    await again.compact();
    expect((await filesOf(store)).versions).toEqual([3, 3, 3]);
    await again.append(ramp(256, 768));
    await again.close();
    expect((await filesOf(store)).versions).toEqual([3, 3, 3, 4]);
    expect(await valuesOf(store)).toEqual([...ramp(1024)]);
    const recoded = await openWritable(store, "");
    await recoded.compact({ chunkLength: 128 });
    await recoded.close();
    expect(new Set((await filesOf(store)).versions)).toEqual(new Set([3]));
    expect(await valuesOf(store)).toEqual([...ramp(1024)]);
  });

  test("is refused if it is neither a number of bytes nor a share", async () => {
    for (const reserve of [-1, 1.5, "10", "x%"])
      await expect(
        createArray(new MemoryStore(), "", { ...SETTINGS, reserve: reserve as "1%" }),
      ).rejects.toMatchObject({ code: "BAD_ARGUMENT", details: { field: "reserve" } });
  });
});
