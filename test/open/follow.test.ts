/** Readers follow writers: rows arrive as they are committed, whatever the format. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { create, edit } from "../../src/edit/edit.ts";
import type { CreateOptions } from "../../src/edit/options.ts";
import * as node from "../../src/node/index.ts";
import { openArray } from "../../src/open/open.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { removeTree } from "../../src/store/tree.ts";
import { interceptStore } from "../../src/store/wrappers/intercept.ts";
import { temporaryFolder } from "../folder.ts";

const FORMATS: readonly [string, CreateOptions][] = [
  ["blz", { chunkLength: 2, superchunkLength: 2 }],
  ["bcolz", { format: "bcolz", chunkLength: 2 }],
  ["bloscpack", { format: "bloscpack", chunkLength: 2 }],
  ["zarr", { format: "zarr", chunkShape: [2] }],
];

test.each(FORMATS)("%s: existing rows, and then each append, in order and once", async (_, options) => {
  const store = new MemoryStore();
  await (await create(store, "a", { ...options, dtype: "<i4", data: Int32Array.of(0, 1, 2) })).close();
  const array = await openArray(store, "a", { dtype: "int32" });
  const ending = new AbortController();
  const seen: number[][] = [];
  for await (const { data } of array.follow({ from: 1, interval: 1, signal: ending.signal })) {
    seen.push([...data]);
    const rows = seen.flat().length + 1;
    if (rows >= 9) ending.abort();
    else {
      const writer = await edit(store, "a");
      await writer.append(Int32Array.of(rows, rows + 1, rows + 2));
      await writer.close();
    }
  }
  expect(seen).toEqual([
    [1, 2],
    [3, 4, 5],
    [6, 7, 8],
  ]);
});

test.each(FORMATS)("%s: by its path, until the caller has enough", async (_, options) => {
  const path = join(temporaryFolder(), "a.blp");
  await (await node.create(path, { ...options, dtype: "<f8", data: [1, 2] })).close();
  await using array = await node.openArray(path, { dtype: "float64" });
  let sum = 0;
  for await (const { data, shape } of array.follow({ interval: 1 })) {
    expect(shape).toEqual([data.length]);
    for (const value of data) sum += value;
    if (sum > 3) break;
    const writer = await node.edit(path);
    await writer.append([10]);
    await writer.close();
  }
  expect(sum).toBe(13);
});

test("cutting off rows that were already delivered is an error", async () => {
  const store = new MemoryStore();
  await (await create(store, "a", { dtype: "<i4", data: [1, 2, 3] })).close();
  const array = await openArray(store, "a");
  const following = array.follow({ interval: 1 });
  expect((await following.next()).done).toBe(false);
  const writer = await edit(store, "a");
  await writer.resize(1);
  await writer.close();
  await expect(following.next()).rejects.toMatchObject({ code: "STALE" });
  await expect(array.follow({ from: -1 }).next()).rejects.toMatchObject({ code: "BAD_ARGUMENT" });
});

test.each(FORMATS)(
  "%s: rows cut off and as many appended between two looks are an error",
  async (_, options) => {
    const store = new MemoryStore();
    await (await create(store, "a", { ...options, dtype: "<i4", data: [1, 2, 3] })).close();
    const array = await openArray(store, "a");
    const following = array.follow({ interval: 1 });
    await following.next();
    const writer = await edit(store, "a");
    await writer.resize(1);
    await writer.append([20, 30, 40]);
    await writer.close();
    await expect(following.next()).rejects.toMatchObject({ code: "STALE", details: { field: "values" } });
  },
);

test.each(FORMATS)(
  "%s: rows of any byte order are read once, and appended ones follow",
  async (_, options) => {
    const inner = new MemoryStore();
    // New Zarr arrays are little-endian.
    const dtype = options.format === "zarr" ? "<i4" : ">i4";
    await (await create(inner, "a", { ...options, dtype, data: [1, 2, 3] })).close();
    let reads = 0;
    const counted = <T>({ method }: { method: string }, proceed: () => T): T => {
      if (/^(?:get|read)/.test(method)) reads++;
      return proceed();
    };
    const store = interceptStore(inner, { onCall: counted, onSync: counted });
    const countReads = async <T>(work: () => Promise<T>): Promise<readonly [T, number]> => {
      reads = 0;
      return [await work(), reads];
    };
    const [, once] = await countReads(async () => (await openArray(store, "a")).get());
    const [array, opening] = await countReads(() => openArray(store, "a"));
    const following = array.follow({ interval: 1 });
    const [first, followed] = await countReads(() => following.next());
    expect([first.value?.data, opening + followed]).toEqual([Int32Array.of(1, 2, 3), once]);
    const writer = await edit(inner, "a");
    await writer.append([4, 5]);
    await writer.close();
    expect((await following.next()).value?.data).toEqual(Int32Array.of(4, 5));
  },
);

test.each(FORMATS)("%s: another array in its place is an error", async (_, options) => {
  const store = new MemoryStore();
  await (await create(store, "a", { ...options, dtype: "<i4", data: [1, 2, 3] })).close();
  const array = await openArray(store, "a");
  const following = array.follow({ interval: 1 });
  await following.next();
  await removeTree(store, "a");
  await store.delete("a");
  await (await create(store, "a", { ...options, dtype: "<i8", data: [1, 2, 3, 4] })).close();
  await expect(following.next()).rejects.toMatchObject({ code: "STALE", details: { field: "dtype" } });
});

test("a file that another program is writing is read again until it is whole; damage that stays is an error", async () => {
  const inner = new MemoryStore();
  await (await create(inner, "a", { format: "bcolz", dtype: "<i4", data: [1, 2, 3] })).close();
  let torn = 0;
  const store = interceptStore(inner, {
    onCall: <T>({ key }: { key: string }, proceed: () => Promise<T>) =>
      key === "a/meta/sizes" && torn-- > 0 ? Promise.resolve(new Uint8Array(0) as T) : proceed(),
  });
  const array = await openArray(store, "a", { dtype: "int32" });
  const following = array.follow({ interval: 1 });
  await following.next();
  const writer = await edit(inner, "a");
  await writer.append([4, 5]);
  await writer.close();
  torn = 3;
  expect((await following.next()).value?.data).toEqual(Int32Array.of(4, 5));
  torn = 1000;
  await expect(following.next()).rejects.toMatchObject({ code: "TRUNCATED" });
});

test("everything that is opened, and every store, can be closed by `await using`", async () => {
  const store = new node.FileStore(temporaryFolder());
  await (await create(store, "t", { format: "bcolz", dtype: [["a", "<i4"]] })).close();
  await (await create(store, "g", { format: "zarr", kind: "group" })).close();
  for (const path of ["t", "g"]) {
    await using opened = await node.open(join(store.describe(""), path));
    expect(typeof opened[Symbol.asyncDispose]).toBe("function");
  }
  await using closing = store;
  expect(typeof closing[Symbol.asyncDispose]).toBe("function");
});
