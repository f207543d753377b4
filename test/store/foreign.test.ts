import { FetchStore, FileSystemStore } from "@zarrita/storage";
import { describe, expect, it } from "vitest";
import { asReadable, fromZarrita } from "../../src/store/foreign.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { makeFolder, writeFiles } from "./folder.ts";
import { serveObjects } from "./server.ts";
import { describeReading, OBJECTS } from "./store-contract.ts";

describeReading("zarrita's FileSystemStore, adapted,", async () => {
  const { path, dispose } = await makeFolder();
  await writeFiles(path, OBJECTS);
  return { store: fromZarrita(new FileSystemStore(path)), lists: false, dispose };
});

describeReading("zarrita's FileSystemStore, adapted, with sizes known,", async () => {
  const { path, dispose } = await makeFolder();
  await writeFiles(path, OBJECTS);
  const store = fromZarrita(new FileSystemStore(path));
  for (const [key] of OBJECTS) await store.stat(key);
  return { store, lists: false, dispose };
});

describeReading("a Map, adapted,", async () => {
  const map = new Map(OBJECTS.map(([key, bytes]) => [`/${key}` as const, bytes] as const));
  return { store: fromZarrita(map), lists: false };
});

const BYTES = Uint8Array.from({ length: 100 }, (_, i) => i);

describe("a foreign store", () => {
  it("never passes on the zeros with which zarrita's FileSystemStore pads ranges", async () => {
    const { path, dispose } = await makeFolder();
    await writeFiles(path, [["x", BYTES]]);
    const foreign = new FileSystemStore(path);
    expect(await foreign.getRange("/x", { offset: 98, length: 4 })).toHaveLength(4);
    const store = fromZarrita(foreign);
    expect(await store.getRange("x", { offset: 98, length: 4 })).toEqual(Uint8Array.of(98, 99));
    expect(await store.getRange("x", { suffixLength: 101 })).toEqual(BYTES);
    await dispose();
  });

  it("reads ranges of zarrita's FetchStore without reading objects whole", async () => {
    const server = await serveObjects([["x", BYTES]]);
    const store = fromZarrita(new FetchStore(server.url));
    expect(await store.getRange("x", { offset: 10, length: 3 })).toEqual(Uint8Array.of(10, 11, 12));
    expect(await store.getRange("x", { offset: 98, length: 30 })).toEqual(Uint8Array.of(98, 99));
    expect(server.log.every((line) => line.includes("bytes="))).toBe(true);
    expect(await store.getRange("x", { offset: 200, length: 3 })).toEqual(new Uint8Array(0));
    expect(await store.get("y")).toBeUndefined();
    await server.close();
  });

  it("changes its version when the bytes change but the size does not", async () => {
    const map = new Map([["/x" as const, BYTES]]);
    const store = fromZarrita(map);
    const before = await store.stat("x");
    map.set("/x", BYTES.with(50, 0));
    expect((await store.stat("x"))?.size).toBe(before?.size);
    expect((await store.stat("x"))?.version).not.toBe(before?.version);
  });

  it("turns failures of the store into IO with the cause, and refuses answers longer than requested", async () => {
    const cause = new Error("the bucket is gone");
    const store = fromZarrita({
      get: () => Promise.reject(cause),
      getRange: (_key, range) => ("offset" in range && range.offset > 1e12 ? undefined : new Uint8Array(9)),
    });
    await expect(store.get("x")).rejects.toMatchObject({ code: "IO", details: { path: "/x", cause } });
    await expect(store.getRange("x", { offset: 0, length: 4 })).rejects.toMatchObject({ code: "IO" });
  });

  it("is distinguished from a store of this library, and from other objects", async () => {
    const memory = new MemoryStore(OBJECTS);
    expect(asReadable(memory)).toBe(memory);
    expect(await asReadable(new Map([["/x" as const, BYTES]])).get("x")).toEqual(BYTES);
    expect(() => asReadable({} as MemoryStore)).toThrow(expect.objectContaining({ code: "BAD_ARGUMENT" }));
    expect(() => asReadable(null as unknown as MemoryStore)).toThrow(
      expect.objectContaining({ code: "BAD_ARGUMENT" }),
    );
  });
});
