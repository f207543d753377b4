/** Appends whose caller does not wait for each: few operations, in the order of the calls. */
import { expect, test } from "vitest";
import { MemoryStore } from "../../src/store/memory.ts";
import { createArray } from "../../src/write/array/create.ts";
import type { WritableArray } from "../../src/write/array/writable-array.ts";

const CUTS = { dtype: "<i4", chunkLength: 64, superchunkLength: 4 } as const;

async function valuesOf(array: WritableArray): Promise<number[]> {
  const { data } = await array.get();
  return [...(data as Int32Array)];
}

test("a hundred thousand rows appended one by one take few operations, and stay in order", async () => {
  const array = await createArray(new MemoryStore(), "", CUTS);
  const row = Int32Array.of(0);
  const given = new Set<Promise<void>>();
  for (let i = 0; i < 100_000; i++) {
    // The memory belongs to the caller again at once.
    row[0] = i;
    given.add(array.append(row));
  }
  await Promise.all(given);
  expect(given.size).toBeLessThan(200);
  await array.close();
  expect(await valuesOf(await reopened(array))).toEqual(Array.from({ length: 100_000 }, (_, i) => i));
});

test("calls made in between take effect in between", async () => {
  const array = await createArray(new MemoryStore(), "", CUTS);
  const asked: Promise<unknown>[] = [];
  const append = (first: number, count: number): void => {
    for (let i = 0; i < count; i++) asked.push(array.append(Int32Array.of(first + i)));
  };
  append(0, 100);
  asked.push(array.set([99], -1));
  append(100, 30);
  asked.push(array.flush());
  append(130, 3);
  asked.push(array.resize(120));
  append(500, 2);
  asked.push(array.append(Int32Array.from({ length: 20_000 }, (_, i) => i)));
  append(700, 2);
  asked.push(array.append([800, 801]));
  const seen = valuesOf(array);
  append(900, 1);
  await Promise.all(asked);
  const first = Array.from({ length: 120 }, (_, i) => (i === 99 ? -1 : i));
  const rest = [500, 501, ...Array.from({ length: 20_000 }, (_, i) => i), 700, 701, 800, 801];
  expect(await seen).toEqual([...first, ...rest]);
  expect(await valuesOf(array)).toEqual([...first, ...rest, 900]);
  await array.close();
});

test("rows that are wrong or come too late are refused on their own", async () => {
  const array = await createArray(new MemoryStore(), "", CUTS);
  const good = Array.from({ length: 200 }, (_, i) => array.append(Int32Array.of(i)));
  const cut = array.append(new Uint8Array(6));
  const after = array.append(Int32Array.of(7));
  const closing = array.close();
  const late = array.append(Int32Array.of(8));
  await expect(cut).rejects.toMatchObject({ code: "BAD_ARGUMENT" });
  await expect(late).rejects.toMatchObject({ code: "BAD_ARGUMENT" });
  await Promise.all([...good, after, closing]);
  // The whole row before the cut one was accepted.
  expect((await valuesOf(await reopened(array))).length).toBe(202);
});

async function reopened({ store, path }: WritableArray): Promise<WritableArray> {
  const { openWritable } = await import("../../src/write/array/create.ts");
  return openWritable(store, path, { readOnly: true });
}
