/** Readers follow writers: rows arrive as they are committed, whatever the format. */
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { create, edit } from "../../src/edit/edit.ts";
import type { CreateOptions } from "../../src/edit/options.ts";
import * as node from "../../src/node/index.ts";
import { openArray } from "../../src/open/open.ts";
import { HttpStore } from "../../src/store/http.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { pause } from "../../src/store/pool.ts";
import { removeTree } from "../../src/store/tree.ts";
import { interceptStore } from "../../src/store/wrappers/intercept.ts";
import { imageOf } from "../crash/images.ts";
import { temporaryFolder } from "../folder.ts";
import { serveObjects } from "../store/server.ts";

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
  for (const from of [-1, 1.5]) {
    const refused = { code: "BAD_ARGUMENT", details: { found: from, expected: "an integer, 0 or more" } };
    await expect(array.follow({ from }).next()).rejects.toMatchObject(refused);
  }
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
    // The document of a Zarr array is looked at again, because a removed chunk reads as the fill value.
    const expected = options.format === "zarr" ? once + opening : once;
    expect([first.value?.data, opening + followed]).toEqual([Int32Array.of(1, 2, 3), expected]);
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

test.each(FORMATS)(
  "%s: over HTTP, also after files were replaced under their names",
  async (format, options) => {
    const store = new MemoryStore();
    await (await create(store, "a", { ...options, dtype: "<i4", data: [1, 2, 3, 4, 5, 6, 7] })).close();
    const server = await serveObjects(await imageOf(store));
    const network = new HttpStore(server.url);
    const following = (await openArray(network, "a")).follow({ interval: 1 });
    expect((await following.next()).value?.data).toEqual(Int32Array.of(1, 2, 3, 4, 5, 6, 7));
    for (const row of [8, 10]) {
      const writer = await edit(store, "a");
      await writer.append([row, row + 1]);
      if (format === "blz") await writer.compact();
      await writer.close();
      for (const [key, bytes] of await imageOf(store)) server.objects.set(key, bytes);
      expect((await following.next()).value?.data).toEqual(Int32Array.of(row, row + 1));
    }
    await following.return(undefined);
    await server.close();
  },
);

test("rows of an array of superchunks that are replaced by as many are an error, also without further rows", async () => {
  const store = new MemoryStore();
  await (await create(store, "a", { dtype: "<i4", data: [1, 2, 3] })).close();
  const following = (await openArray(store, "a")).follow({ interval: 1 });
  await following.next();
  const writer = await edit(store, "a");
  await writer.resize(1);
  await writer.append([20, 30]);
  await writer.close();
  await expect(following.next()).rejects.toMatchObject({ code: "STALE", details: { field: "values" } });
});

test("rows of a Zarr array that are cut off while they are read are an error, and not the fill value", async () => {
  const inner = new MemoryStore();
  const options = { format: "zarr", dtype: "<i4", chunkShape: [2] } as const;
  await (await create(inner, "a", { ...options, data: [1, 2, 3, 4, 5] })).close();
  let isCut = false;
  const store = interceptStore(inner, {
    onCall: async ({ key }, proceed) => {
      if (/c\/1$/.test(key) && !isCut) {
        isCut = true;
        const writer = await edit(inner, "a");
        await writer.resize(1);
        await writer.close();
      }
      return proceed();
    },
  });
  const following = (await openArray(store, "a")).follow({ interval: 1 });
  await expect(following.next()).rejects.toMatchObject({ code: "STALE", details: { field: "shape" } });
});

describe("an aborted signal ends it at once", () => {
  test("in the body of the loop, however long the interval", async () => {
    const store = new MemoryStore();
    await (await create(store, "a", { dtype: "<i4", data: [1, 2, 3] })).close();
    const ending = new AbortController();
    const array = await openArray(store, "a");
    const seen: number[] = [];
    for await (const { data } of array.follow({ interval: 1e6, signal: ending.signal })) {
      seen.push(data.length);
      ending.abort();
    }
    expect(seen).toEqual([3]);
  });

  test.each(FORMATS)("%s: while the store does not answer a look", async (_, options) => {
    const inner = new MemoryStore();
    await (await create(inner, "a", { ...options, dtype: "<i4", data: [1, 2, 3] })).close();
    const ending = new AbortController();
    let isSilent = false;
    // Like a server: it gives up only if its caller does.
    const silence = (signal: AbortSignal | undefined) =>
      new Promise<never>((_, reject) => {
        signal?.addEventListener("abort", () => reject(signal.reason));
        setImmediate(() => ending.abort());
      });
    const silent: ProxyHandler<MemoryStore> = {
      get(target, name) {
        const member: unknown = Reflect.get(target, name, target);
        if (typeof member !== "function") return member;
        if (/Sync$/.test(String(name))) return undefined;
        return (...given: readonly unknown[]) =>
          isSilent ? silence(signalOf(given)) : member.apply(target, given);
      },
    };
    const array = await openArray(new Proxy(inner, silent), "a");
    for await (const _ of array.follow({ interval: 1, signal: ending.signal })) isSilent = true;
    expect(ending.signal.aborted).toBe(true);
  });
});

/** The signal among the arguments of a store's method. */
function signalOf(given: readonly unknown[]): AbortSignal | undefined {
  for (const each of given) {
    const { signal } = (each ?? {}) as { readonly signal?: AbortSignal };
    if (signal !== undefined) return signal;
  }
  return undefined;
}

test("a pause longer than timers can wait lasts", async () => {
  const store = new MemoryStore();
  await (await create(store, "a", { dtype: "<i4", data: [1] })).close();
  let calls = 0;
  const counted = interceptStore(store, {
    onCall: (_, proceed) => {
      calls++;
      return proceed();
    },
  });
  const ending = new AbortController();
  const following = (await openArray(counted, "a")).follow({ interval: Infinity, signal: ending.signal });
  await following.next();
  const before = calls;
  const ended = following.next();
  await pause(5, undefined);
  ending.abort();
  expect(await ended).toMatchObject({ done: true });
  expect(calls).toBe(before);
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
