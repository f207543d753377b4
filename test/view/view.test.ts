/** What a view answers to keys, ranges, damage and change. */

import { describe, expect, it, vi } from "vitest";
import * as zarr from "zarrita";
import type { TableArchive } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/archive/open/open.ts";
import { decode } from "../../src/codec/index.ts";
import { SuperchunkError } from "../../src/errors.ts";
import { parseDType } from "../../src/format/dtype.ts";
import { HttpStore } from "../../src/store/http.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { zarrTreeView } from "../../src/view/view-tree.ts";
import { createTable } from "../../src/write/bcolz/bcolz-create.ts";
import {
  findViewEntries,
  type ViewOptions,
  type ZarrArray,
  type ZarrView,
  zarrView,
} from "../../src/zarr.ts";
import { loadFolder } from "../archive/memory-archive.ts";
import { putBloscpack, putCarray } from "../convert/to-zarr/make-archive.ts";
import { sha256 } from "../convert/to-zarr/read-back.ts";
import { type ArrayFixture, corpusFolder, findFixture } from "../fixtures/manifest.ts";
import { withCounting } from "../store/counting.ts";
import { serveObjects } from "../store/server.ts";
import { documentOf, readThroughView } from "./read-view.ts";

const values = Float64Array.from({ length: 250 }, (_, i) => i / 4);
const bytes = new Uint8Array(values.buffer);
const F8 = parseDType("<f8", "test");

async function sample(): Promise<{ store: MemoryStore; view: ReturnType<typeof zarrView> }> {
  const store = new MemoryStore();
  await putCarray(store, "a", bytes, 100, { dtype: "float64", shape: [250] });
  return { store, view: zarrView(await open(store, "a")) };
}

describe("a view", () => {
  it("returns the document and the chunks, and undefined for every other key", async () => {
    const { view } = await sample();
    expect(await view.get("/zarr.json")).toBeInstanceOf(Uint8Array);
    expect(await view.get("/c/2")).toBeInstanceOf(Uint8Array);
    const absent = [
      "/c/3",
      "/c/-1",
      "/c/00",
      "/c/1e0",
      "/c/0/0",
      "/c",
      "/",
      "",
      "/.zarray",
      "/.zgroup",
      "/x/zarr.json",
      "/../a",
      "/c/9007199254740993",
    ];
    for (const key of absent) expect([key, await view.get(key)]).toEqual([key, undefined]);
  });

  it("gives whole chunks as they are stored in the archive, byte for byte", async () => {
    const { store, view } = await sample();
    const stored = await store.get("a/data/__0.blp");
    expect(await view.get("/c/0")).toEqual(stored?.slice(16));
  });

  it("pads a short last chunk to a whole one, with the fill value after its rows", async () => {
    const { view } = await sample();
    const chunk = await view.get("/c/2");
    const decoded = await decode(chunk ?? new Uint8Array(), {});
    expect(new Float64Array(decoded.slice().buffer)).toEqual(
      Float64Array.from({ length: 100 }, (_, i) => (i < 50 ? (values[200 + i] ?? 0) : 0)),
    );
  });

  it("gives ranges of what it would give whole, also from the end", async () => {
    const { view } = await sample();
    const whole = (await view.get("/c/2")) ?? new Uint8Array();
    expect(await view.getRange("/c/2", { offset: 3, length: 10 })).toEqual(whole.slice(3, 13));
    expect(await view.getRange("/c/2", { suffixLength: 5 })).toEqual(whole.slice(-5));
    expect(await view.getRange("/c/9", { suffixLength: 5 })).toBeUndefined();
    await expect(view.getRange("/c/2", { offset: -1, length: 5 })).rejects.toMatchObject({
      code: "BAD_ARGUMENT",
    });
  });

  it("returns bytes that belong to the caller and start a buffer", async () => {
    const { view } = await sample();
    for (const key of ["/c/0", "/c/2", "/zarr.json"]) {
      const first = (await view.get(key)) ?? new Uint8Array();
      const before = first.slice();
      expect([first.byteOffset, first.buffer.byteLength]).toEqual([0, first.length]);
      first.fill(0xff);
      expect(await view.get(key)).toEqual(before);
    }
  });

  it("makes a chunk once for all concurrent callers", async () => {
    const { store } = await sample();
    const { store: counted, counts } = withCounting(store);
    const view = zarrView(await open(counted, "a"));
    await view.get("/c/2");
    const before = counts.requests;
    await view.get("/c/2");
    expect(counts.requests).toBe(before);
  });

  it("ends with the signal's reason", async () => {
    const { view } = await sample();
    const reason = new Error("enough");
    await expect(view.get("/c/0", { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  });
});

describe("damage", () => {
  it("throws for a missing chunk, instead of showing fill values", async () => {
    const { store, view } = await sample();
    await store.delete("a/data/__1.blp");
    await expect(view.get("/c/1")).rejects.toMatchObject({ code: "INCOMPLETE", details: { chunk: 1 } });
    const array = await zarr.open.v3(zarr.root(view as never), { kind: "array" });
    const failure = await zarr.get(array, null).catch((error: unknown) => error);
    const cause = failure instanceof SuperchunkError ? failure : (failure as Error).cause;
    expect(cause).toMatchObject({ code: "INCOMPLETE" });
  });

  it("throws for a chunk whose header contradicts the metadata", async () => {
    const { store, view } = await sample();
    const other = (await store.get("a/data/__2.blp")) ?? new Uint8Array();
    await store.put("a/data/__1.blp", other);
    await expect(view.get("/c/1")).rejects.toMatchObject({
      code: "BAD_FIELD",
      details: { chunk: 1, field: "nbytes" },
    });
  });

  it("throws for a chunk whose digest is wrong", async () => {
    const { store, path } = await loadFolder(`${corpusFolder}/blz-superchunk/i4-adler32-meta`);
    const key = `${path === "" ? "" : `${path}/`}data/__1__.bin`;
    const file = (await store.get(key)) ?? new Uint8Array();
    const archive = await open(store, path);
    if (archive.kind !== "array") throw new Error("not an array");
    let at = 0;
    for await (const { place, bytes: chunk } of archive.encodedChunks(0, 1))
      at = place.offset + chunk.length - 1;
    file[at] = (file[at] ?? 0) ^ 1;
    await store.put(key, file);
    await expect(zarrView(await open(store, path)).get("/c/0")).rejects.toMatchObject({
      code: "CHECKSUM_MISMATCH",
    });
  });
});

describe("chunks that do not end on rows", () => {
  it("are recompressed, with the stored values", async () => {
    const store = new MemoryStore();
    const shape = [7, 5, 3];
    const own = new Uint8Array(Int32Array.from({ length: 105 }, (_, i) => i * i).buffer);
    await putBloscpack(store, "odd.blp", own, 68, { dtype: "<i4", shape });
    const view = zarrView(await open(store, "odd.blp"));
    expect(await readThroughView(view, "", "<i4")).toEqual(own);
  });
});

describe("a table whose columns are opened on demand", () => {
  const tableOf = async (shapes: Readonly<Record<string, readonly number[]>>): Promise<MemoryStore> => {
    const store = new MemoryStore();
    const columns = Object.entries(shapes).map(([name, shape]) => {
      const size = 8 * shape.reduce((items, n) => items * n, 1);
      return { name, dtype: F8, rowShape: shape.slice(1), data: bytes.subarray(0, size) };
    });
    await createTable(store, "t", columns, { chunkLength: 4 });
    return store;
  };
  const lazyView = (store: MemoryStore, options?: ViewOptions): ZarrView =>
    zarrView((opening) => open(store, "t", opening), options);

  it("names further dimensions as with all other columns, and by given names", async () => {
    const store = await tableOf({ a: [10], b: [10, 3], c: [10, 5] });
    for (const options of [{}, { dimensionNames: ["day", "side"] }, { columns: ["a", "c"] }]) {
      const whole = zarrView(await open(store, "t"), options);
      for (const node of ["a", "c"])
        expect(await documentOf(lazyView(store, options), node)).toEqual(await documentOf(whole, node));
    }
    expect((await documentOf(lazyView(store), "b"))["dimension_names"]).toEqual(["row", "dim_1_3"]);
  });

  it("has no other nodes than the columns shown", async () => {
    const view = lazyView(await tableOf({ a: [10], b: [10] }), { columns: ["b"] });
    for (const key of ["/a/zarr.json", "/x/zarr.json", "/.zgroup", "/b/.zarray", "/b/c/3", "/c/0"])
      expect([key, await view.get(key)]).toEqual([key, undefined]);
    expect(await view.get("/b/c/2")).toBeInstanceOf(Uint8Array);
    await expect(
      lazyView(await tableOf({ a: [10] }), { columns: ["x"] }).get("/zarr.json"),
    ).rejects.toMatchObject({ code: "NOT_FOUND" });
  });

  it("shows whole columns next to a missing one, whose absence is an error", async () => {
    const store = await tableOf({ a: [10], b: [10], c: [10] });
    for (const name of ["sizes", "storage"]) await store.delete(`t/b/meta/${name}`);
    const view = lazyView(store);
    expect(await readThroughView(view, "a", "<f8")).toEqual(bytes.slice(0, 80));
    for (const key of ["/b/zarr.json", "/b/c/0", "/zarr.json"])
      await expect(view.get(key)).rejects.toMatchObject({ code: "INCOMPLETE" });
    expect(await readThroughView(view, "c", "<f8")).toEqual(bytes.slice(0, 80));
  });

  it("shows the rows that the first and the last column have", async () => {
    const store = await tableOf({ a: [10], b: [10] });
    await putCarray(store, "t/a", bytes.subarray(0, 96), 4, { dtype: "float64", shape: [12] });
    expect((await documentOf(lazyView(store), "a"))["shape"]).toEqual([10]);
    const table = (await open(store, "t", { columns: [] })) as TableArchive;
    expect([table.names, table.length]).toEqual([[], 10]);
    const opened = await table.openColumns?.(["a"]);
    expect(opened?.column("a").shape).toEqual([10]);
  });

  it("refuses an archive that is already Zarr", async () => {
    const node = { dialect: "zarr3", store: new MemoryStore(), path: "z" } as unknown as ZarrArray;
    await expect(zarrView(() => Promise.resolve(node)).get("/zarr.json")).rejects.toMatchObject({
      code: "UNSUPPORTED",
    });
  });
});

describe("a tree", () => {
  it("shows what a writer appended, without being opened again", async () => {
    const store = new MemoryStore();
    await putCarray(store, "t/a", bytes.subarray(0, 1200), 100, { dtype: "float64", shape: [150] });
    const view = zarrTreeView(await findViewEntries(store, "t"));
    expect((await documentOf(view, "a"))["shape"]).toEqual([150]);
    expect(await view.get("/a/c/2")).toBeUndefined();
    await putCarray(store, "t/a", bytes, 100, { dtype: "float64", shape: [250] });
    const chunk = async (): Promise<Float64Array> =>
      new Float64Array((await decode((await view.get("/a/c/1")) ?? new Uint8Array())).slice().buffer);
    expect(await chunk()).toEqual(values.slice(100, 200));
    const clock = vi.spyOn(performance, "now").mockReturnValue(performance.now() + 2000);
    // Documents are trusted for a second.
    expect((await documentOf(view, "a"))["shape"]).toEqual([250]);
    clock.mockRestore();
    expect(await readThroughView(view, "a", "<f8")).toEqual(bytes);
    await putCarray(store, "t/a", bytes.subarray(0, 880), 100, { dtype: "float64", shape: [110] });
    // The chunk that shrank contradicts the metadata read before, so they are read again.
    expect((await chunk()).subarray(0, 10)).toEqual(values.slice(100, 110));
    expect((await documentOf(view, "a"))["shape"]).toEqual([110]);
  });

  it("refuses two archives at one node", async () => {
    const [entry] = await findViewEntries((await sample()).store);
    if (entry === undefined) throw new Error("nothing found");
    expect(() => zarrTreeView([entry, entry])).toThrow(
      expect.objectContaining({ code: "BAD_ARGUMENT" }) as Error,
    );
  });

  it("refuses a folder without archives", async () => {
    await expect(findViewEntries(new MemoryStore())).rejects.toMatchObject({ code: "NOT_FOUND" });
  });
});

describe("over HTTP", () => {
  it("reads an array by ranges from a plain file server", async () => {
    const name = "bloscpack-3/array-f8.blp";
    const { readFile } = await import("node:fs/promises");
    const server = await serveObjects([["array.blp", await readFile(`${corpusFolder}/${name}`)]]);
    try {
      const view = zarrView(await open(new HttpStore(server.url), "array.blp"));
      expect(sha256(await readThroughView(view, "", "<f8"))).toBe((findFixture(name) as ArrayFixture).sha256);
    } finally {
      await server.close();
    }
  });
});
