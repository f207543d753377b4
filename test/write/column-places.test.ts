/** Columns whose names differ only in case or composition, on stores that treat such names as one, and on others. */
import { expect, test } from "vitest";
import type { ArrayArchive, ArraySlice } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/archive/open/open.ts";
import { parseDType } from "../../src/format/dtype.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import type { WritableStore } from "../../src/store/types.ts";
import { createArray } from "../../src/write/array/create.ts";
import type { WritableArray } from "../../src/write/array/writable-array.ts";
import { convert } from "../../src/zarr.ts";
import { collectEntries } from "../store/store-contract.ts";

/** Treats names as one like the file systems of macOS. */
function ignoringCase(store: WritableStore): WritableStore {
  const fold = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(fold);
    return typeof value === "string" ? value.normalize("NFC").toLowerCase() : value;
  };
  return new Proxy(store, {
    get: (target, name) => {
      const member: unknown = Reflect.get(target, name, target);
      if (typeof member !== "function") return member;
      return (...args: unknown[]): unknown => Reflect.apply(member, target, args.map(fold));
    },
  });
}

const INT = parseDType("<i4", "");
const CUTS = { chunkLength: 2, superchunkLength: 2 };

async function made(store: WritableStore, second = "é"): Promise<WritableArray> {
  const dtype = [
    ["a", "<i4"],
    [second, "<i4"],
  ];
  const array = await createArray(store, "", { ...CUTS, dtype });
  await array.append([
    [1, -1],
    [2, -2],
    [3, -3],
  ]);
  await array.flush();
  return array;
}

async function columnOf(store: WritableStore, name: string): Promise<readonly unknown[]> {
  const array = (await open(store)) as ArrayArchive;
  return [...(((await array.column(name).get()) as ArraySlice).data as Iterable<unknown>)];
}

function probes(store: MemoryStore): Promise<number> {
  const count = async (folder: string): Promise<number> => {
    let found = 0;
    for await (const { name, kind } of store.list(folder)) {
      const key = folder === "" ? name : `${folder}/${name}`;
      found += kind === "folder" ? await count(key) : Number(name.includes("probe"));
    }
    return found;
  };
  return count("");
}

test.each<[string, (array: WritableArray) => Promise<void>]>([
  ["renamed", (array) => array.renameColumn("a", "A")],
  ["added", (array) => array.addColumn({ name: "A", dtype: INT })],
  ["added to another set of columns", (array) => array.addColumn({ name: "e\u0301", dtype: INT })],
])(
  "a column that would be stored in another column's folder is not %s, and nothing is lost",
  async (_, change) => {
    const bytes = new MemoryStore();
    const store = ignoringCase(bytes);
    const array = await made(store);
    await expect(change(array)).rejects.toMatchObject({
      code: "CONFLICT",
      details: { path: expect.any(String) },
    });
    await array.append([[4, -4]]);
    await array.close();
    expect(await columnOf(store, "a")).toEqual([1, 2, 3, 4]);
    expect(await columnOf(store, "é")).toEqual([-1, -2, -3, -4]);
    expect(await probes(bytes)).toBe(0);
  },
);

test("an array with two such columns is not created, and the path stays free", async () => {
  const bytes = new MemoryStore();
  const store = ignoringCase(bytes);
  await expect(made(store, "A")).rejects.toMatchObject({ code: "CONFLICT", details: { found: "A" } });
  expect(await probes(bytes)).toBe(0);
  const array = await made(store);
  await array.close();
  expect(await columnOf(store, "a")).toEqual([1, 2, 3]);
});

test("if the file system distinguishes the names, such columns are created, added and renamed", async () => {
  const store = new MemoryStore();
  const array = await made(store, "A");
  await array.renameColumn("A", "B");
  await array.renameColumn("a", "A");
  await array.addColumn({ name: "b", dtype: INT, fillValue: 7 });
  await array.close();
  expect(await columnOf(store, "A")).toEqual([1, 2, 3]);
  expect(await columnOf(store, "B")).toEqual([-1, -2, -3]);
  expect(await columnOf(store, "b")).toEqual([7, 7, 7]);
  expect(await probes(store)).toBe(0);
});

test.each(["bcolz", "blz"] as const)(
  "columns that would be stored in one place are not converted to %s, and nothing is left",
  async (to) => {
    const source = new MemoryStore();
    await (await made(source, "A")).close();
    const table = (await open(source)) as ArrayArchive;
    for (const overwrite of [false, true]) {
      const bytes = new MemoryStore();
      const store = ignoringCase(bytes);
      await expect(convert(table, { store, path: "made" }, { to, overwrite })).rejects.toMatchObject({
        code: "CONFLICT",
        message: expect.stringContaining("takes both names for one"),
      });
      expect(await collectEntries(bytes, "")).toEqual([]);
    }
    const apart = new MemoryStore();
    await convert(table, { store: apart, path: "made" }, { to, verify: true });
    expect(await probes(apart)).toBe(0);
  },
);
