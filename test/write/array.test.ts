import { expect, test } from "vitest";
import type { ArrayArchive, ArraySlice } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/archive/open/open.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { createArray, openWritable } from "../../src/write/array/create.ts";

test("appended rows are read back by a reader, for every chunk length", async () => {
  for (const chunklen of [1, 3, 7, 64]) {
    const store = new MemoryStore();
    const array = await createArray(store, "a", {
      dtype: "<i4",
      chunkLength: chunklen,
      superchunkLength: 4,
      attrs: { x: 1 },
    });
    const expected: number[] = [];
    for (let i = 0; i < 60; i++) {
      const part = Int32Array.from({ length: i % 9 }, (_, k) => i * 100 + k);
      await array.append(part);
      expected.push(...part);
      if (i % 3 === 0) await array.flush();
      if (i % 20 === 19) {
        const { data } = (await array.get()) as ArraySlice;
        expect([...(data as Int32Array)]).toEqual(expected);
      }
    }
    await array.close();
    const reader = (await open(store, "a")) as ArrayArchive;
    expect(reader.attrs).toEqual({ x: 1 });
    const { data } = (await reader.get()) as ArraySlice;
    expect([...(data as Int32Array)]).toEqual(expected);
    expect((await reader.verify()).findings).toEqual([]);
    const again = await openWritable(store, "a");
    await again.append(Int32Array.of(7));
    await again.resize(100);
    expected.push(7);
    await again.set([{ start: 1, stop: 50, step: 5 }], -1);
    for (let i = 1; i < 50; i += 5) expected[i] = -1;
    expect([...(((await again.get()) as ArraySlice).data as Int32Array)]).toEqual(expected.slice(0, 100));
    await again.deleteRows(10, 30);
    const after = expected.slice(0, 100).filter((_, i) => i < 10 || i >= 30);
    expect([...(((await again.get()) as ArraySlice).data as Int32Array)]).toEqual(after);
    const formatWord = again.compact({ chunklen: 5 } as object);
    await expect(formatWord).rejects.toMatchObject({ code: "BAD_ARGUMENT", details: { field: "chunklen" } });
    await again.compact({ chunkLength: 5, superchunkLength: 4 });
    expect([...(((await again.get()) as ArraySlice).data as Int32Array)]).toEqual(after);
    await again.close();
    const third = (await open(store, "a")) as ArrayArchive;
    expect([...(((await third.get()) as ArraySlice).data as Int32Array)]).toEqual(after);
    expect((await third.verify()).findings).toEqual([]);
    const names: string[] = [];
    for await (const { name } of store.list("a/data")) names.push(name);
    expect(names.sort()).toEqual(["__1__.bin", "__2__.bin", "__3__.bin", "__4__.bin"]);
  }
});

test("calls made before close complete, later ones are refused, and the lock is released last and once", async () => {
  const store = new MemoryStore();
  const done: string[] = [];
  const array = await createArray(store, "", {
    dtype: "<i4",
    lock: async () => ({ release: async () => void done.push("released") }),
  });
  const appending = array.append(Int32Array.of(1, 2)).then(() => done.push("appended"));
  const closing = array.close();
  const refused = { code: "BAD_ARGUMENT", message: expect.stringContaining("closed") };
  await expect(array.append(Int32Array.of(3))).rejects.toMatchObject(refused);
  await expect(array.flush()).rejects.toMatchObject(refused);
  await Promise.all([appending, array.close(), array.abandon()]);
  expect(done).toEqual(["appended", "released"]);
  await closing;
  expect(((await open(store)) as ArrayArchive).shape).toEqual([2]);
});

const namesOf = async (store: MemoryStore): Promise<string[]> => {
  const names: string[] = [];
  for await (const { name } of store.list("data")) names.push(name);
  return names;
};

const rowsOf = async (array: { get(): Promise<unknown> }): Promise<number[]> => [
  ...((await array.get()) as { readonly data: Int32Array }).data,
];

test("a deletion is planned, reports progress, and does not start if it is aborted", async () => {
  const store = new MemoryStore();
  const array = await createArray(store, "", {
    dtype: "<i4",
    shape: [0, 2],
    chunkLength: 4,
    superchunkLength: 2,
  });
  await array.append(Int32Array.from({ length: 80 }, (_, i) => i));
  expect(await array.planDelete(5, 8)).toEqual({
    start: 5,
    end: 8,
    rowsBefore: 40,
    rows: 37,
    rowsDeleted: 3,
    rowsRewritten: 32,
    nbytesRewritten: 256,
  });
  expect(await array.planDelete(8, 8)).toMatchObject({
    rowsDeleted: 0,
    rowsRewritten: 0,
    nbytesRewritten: 0,
  });
  await expect(array.planDelete(5, 41)).rejects.toThrow(/rows 5:41 are not within the 40 rows/);
  await expect(array.deleteRows(-1, 2)).rejects.toMatchObject({
    code: "BAD_ARGUMENT",
    details: { field: "rows" },
  });

  const before = await rowsOf(array);
  const { generation } = array;
  const stop = new AbortController();
  const told: number[] = [];
  const onProgress = ({ done }: { readonly done: number }): void => {
    told.push(done);
    if (told.length === 3) stop.abort(new Error("enough"));
  };
  await expect(array.deleteRows(5, 8, { signal: stop.signal, onProgress })).rejects.toThrow("enough");
  expect(told).toHaveLength(3);
  expect([await rowsOf(array), array.generation, array.length]).toEqual([before, generation, 40]);

  const last = { done: 0, total: 0 };
  expect(await array.deleteRows(5, 8, { onProgress: (now) => Object.assign(last, now) })).toBe(32);
  expect(last).toEqual({ done: 256, total: 256 });
  expect(await rowsOf(array)).toEqual(before.filter((_, i) => i < 10 || i >= 16));
  await array.close();
  expect((await ((await open(store)) as ArrayArchive).verify()).findings).toEqual([]);
});

test("growing reports progress, and changes nothing if it is aborted", async () => {
  const store = new MemoryStore();
  const array = await createArray(store, "", {
    dtype: "<i4",
    chunkLength: 4,
    superchunkLength: 2,
    fillValue: 7,
  });
  await array.append(Int32Array.of(1, 2, 3));
  const stop = new AbortController();
  const onProgress = ({ done }: { readonly done: number }): void => {
    if (done > 100) stop.abort(new Error("enough"));
  };
  await expect(array.resize(1000, { signal: stop.signal, onProgress })).rejects.toThrow("enough");
  expect(await rowsOf(array)).toEqual([1, 2, 3]);
  await array.flush();
  expect(await namesOf(store)).toHaveLength(1);
  const told: number[] = [];
  await array.resize(43, { onProgress: ({ done, total }) => told.push(done, total) });
  expect([told.at(-2), told.at(-1)]).toEqual([148, 160]);
  expect(told.length / 2).toBe(5); // once per superchunk
  expect((await rowsOf(array)).slice(2)).toEqual([3, ...Array.from({ length: 40 }, () => 7)]);
  await array.close();
});

test("a reader gives its generation, and moves to the newest on request", async () => {
  const store = new MemoryStore();
  const array = await createArray(store, "", { dtype: "<i4", chunkLength: 4 });
  await array.append(Int32Array.of(1, 2));
  await array.flush();
  const reader = (await open(store)) as ArrayArchive;
  expect(reader.generation).toBe(array.generation);
  expect(await reader.refresh?.()).toBe(false);
  await array.append(Int32Array.of(3));
  await array.setAttributes({ a: 1 });
  await array.close();
  expect(await rowsOf(reader)).toEqual([1, 2]);
  expect([await reader.refresh?.(), reader.generation]).toEqual([true, array.generation]);
  expect([await rowsOf(reader), reader.attrs]).toEqual([[1, 2, 3], { a: 1 }]);
});

test("a small superchunk of short chunks is not mostly a table of spare offsets", async () => {
  const store = new MemoryStore();
  const array = await createArray(store, "a", { dtype: "<i4", chunkLength: 250 });
  await array.append(Int32Array.from({ length: 300 }, (_, i) => i * 77_777));
  await array.flush();
  expect(array.superchunkLength).toBe(512);
  expect(array.bytesWritten).toBeLessThan(32 + 8 * 512 + 4 * 300 + 100);
  await array.close();
});

test("an array has more chunks in a superchunk than a call can have arguments", async () => {
  const store = new MemoryStore();
  const chunks = 200_000;
  const array = await createArray(store, "a", { dtype: "u1", chunkLength: 1, superchunkLength: chunks });
  await array.resize(chunks);
  await array.close();
  expect(((await open(store, "a")) as ArrayArchive).shape).toEqual([chunks]);
});

test("the default of dates is NaT in the fields of structs too, and in sub-arrays of them", async () => {
  const dtype = "[('day', '<M8[D]'), ('n', '<i2'), ('in', [('span', '<m8[s]', (2,))])]";
  for (const columns of [true, false]) {
    const store = new MemoryStore();
    const array = await createArray(store, "a", { dtype, columns });
    await array.resize(2);
    await array.close();
    const bytes = await ((await open(store, "a")) as ArrayArchive).getBytes();
    const view = new DataView(bytes.buffer, bytes.byteOffset + 26);
    expect([0, 10, 18].map((at) => view.getBigInt64(at, true))).toEqual(Array(3).fill(-(2n ** 63n)));
    expect(view.getInt16(8, true)).toBe(0);
  }
});
