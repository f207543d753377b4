import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { SuperchunkError } from "../../../src/errors.ts";
import { convert } from "../../../src/node/index.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import { mountedStore } from "../../../src/store/mounted.ts";
import type { ReadableStore } from "../../../src/store/types.ts";
import { corpusFolder } from "../../fixtures/manifest.ts";
import { temporaryFolder } from "../../folder.ts";

const text = (value: string): Uint8Array => new TextEncoder().encode(value);

async function names(store: ReadableStore, folder: string): Promise<string[]> {
  const found: string[] = [];
  for await (const { name, kind } of store.list(folder)) found.push(`${kind} ${name}`);
  return found.sort();
}

describe("mounted stores", () => {
  const left = new MemoryStore([
    ["a/x", text("1")],
    ["a/b/y", text("22")],
    ["z", text("333")],
  ]);
  const store = mountedStore(
    new Map([
      ["whole", { store: left, path: "" }],
      ["part", { store: left, path: "a" }],
      ["one", { store: left, path: "z" }],
    ]),
  );

  it("are entries of the root, both folders and objects", async () => {
    expect(await names(store, "")).toEqual(["folder part", "folder whole", "object one"]);
    expect(await names(store, "part")).toEqual(["folder b", "object x"]);
    expect(await names(store, "absent")).toEqual([]);
  });

  it("list what cannot be examined as an object, whose reader gets the reason", async () => {
    const folder = temporaryFolder();
    execFileSync("mkfifo", [join(folder, "pipe.blp")]);
    const array = join(corpusFolder, "bloscpack-3/array-i4-2d.blp");
    const { entries } = await convert([array, join(folder, "pipe.blp")], join(folder, "out.zarr"), {
      threads: 0,
    });
    expect(entries.map(({ status, code }) => [status, code])).toEqual([
      ["converted", undefined],
      ["failed", "UNSUPPORTED"],
    ]);
  });

  it("give the bytes, ranges and sizes of their objects", async () => {
    expect(await store.get("part/b/y")).toEqual(text("22"));
    expect(await store.get("one")).toEqual(text("333"));
    expect(await store.getRange("whole/z", { offset: 1, length: 9 })).toEqual(text("33"));
    expect((await store.stat("part/x"))?.size).toBe(1);
    for (const key of ["whole", "other", "part/nothing", "one/below"])
      expect(await store.get(key)).toBeUndefined();
  });

  it("are named after the stores that they come from", () => {
    expect(store.describe("part/x")).toBe(left.describe("a/x"));
  });

  it("refuse keys and names that lead elsewhere", async () => {
    await expect(store.get("part/../z")).rejects.toMatchObject({ code: "UNSAFE_PATH" });
    expect(() => mountedStore(new Map([["a/b", { store: left, path: "" }]]))).toThrow(SuperchunkError);
  });
});
