/** Blobs keep the reading half of the store contract. */
import { describe, expect, it } from "vitest";
import { open } from "../../src/archive/open/open.ts";
import { BlobStore } from "../../src/store/blob.ts";
import { loadFolder } from "../archive/memory-archive.ts";
import { findFixture } from "../fixtures/manifest.ts";

const bytes = Uint8Array.from({ length: 100 }, (_, i) => i);
const store = new BlobStore([
  ["a/b", new Blob([bytes])],
  ["a/c/d", new Blob([])],
  ["e", new Blob(["x"])],
]);

describe("a store of blobs", () => {
  it("gives objects whole and in ranges, truncated at the end", async () => {
    expect(await store.get("a/b")).toEqual(bytes);
    expect(await store.getRange("a/b", { offset: 90, length: 50 })).toEqual(bytes.slice(90));
    expect(await store.getRange("a/b", { offset: 200, length: 1 })).toEqual(new Uint8Array(0));
    expect(await store.getRange("a/b", { suffixLength: 3 })).toEqual(bytes.slice(97));
  });

  it("reports absent objects", async () => {
    expect(await store.get("a")).toBeUndefined();
    expect(await store.getRange("z", { offset: 0, length: 1 })).toBeUndefined();
    expect(await store.stat("a/c")).toBeUndefined();
  });

  it("gives sizes, and versions that depend on the file's time", async () => {
    const files = new BlobStore([
      ["old", new File(["1"], "old", { lastModified: 1 })],
      ["new", new File(["1"], "new", { lastModified: 2 })],
    ]);
    const [first, second] = [await files.stat("old"), await files.stat("new")];
    expect(first?.size).toBe(1);
    expect(first?.version).not.toBe(second?.version);
  });

  it("lists folders with every entry once", async () => {
    const names: string[] = [];
    for await (const { name, kind } of store.list("a")) names.push(`${name} ${kind}`);
    expect(names.sort()).toEqual(["b object", "c folder"]);
  });

  it("refuses unsafe keys, on entry and in its files", async () => {
    await expect(store.get("../x")).rejects.toMatchObject({ code: "UNSAFE_PATH" });
    expect(() => new BlobStore([["a/../b", new Blob([])]])).toThrow(
      expect.objectContaining({ code: "UNSAFE_PATH" }),
    );
  });

  it("throws the reason of an abort", async () => {
    await expect(store.get("e", { signal: AbortSignal.abort("enough") })).rejects.toBe("enough");
  });

  it("holds chosen files by their names, or by their paths below the chosen folder", async () => {
    const inFolder = new File(["2"], "sizes");
    Object.defineProperty(inFolder, "webkitRelativePath", { value: "root/meta/sizes" });
    const files = BlobStore.fromFiles([new File(["1"], "x.blp"), inFolder]);
    expect((await files.get("x.blp"))?.length).toBe(1);
    expect((await files.get("meta/sizes"))?.length).toBe(1);
  });

  it("is a store from which archives can be opened", async () => {
    const { files } = await loadFolder(findFixture("carray/bcolz-f8-chunks").file);
    const archive = await open(
      new BlobStore(files.map(([key, data]) => [key, new Blob([new Uint8Array(data)])])),
    );
    expect((await archive.verify()).ok).toBe(true);
  });
});
