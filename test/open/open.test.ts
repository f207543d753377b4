/** `open`: one call for everything that holds arrays, by path and in a store, with the values that their producers wrote. */

import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import { expect, test } from "vitest";
import {
  BlobStore,
  create,
  openArray as openArrayIn,
  open as openIn,
  openTable as openTableIn,
  slice,
} from "../../src/index.ts";
import {
  convert,
  edit,
  FileStore,
  finish,
  open,
  openArray,
  openTable,
  runTasks,
} from "../../src/node/index.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { createZarr } from "../../src/zarr/write/create.ts";
import { runCli } from "../cli/harness.ts";
import { findFixture, loadFixtures, repositoryRoot } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";

/** The corpus has only plain bytes of Bloscpack 1 and 2. */
const arrays = loadFixtures().filter((row) => row.kind === "array" && !row.refuse && row.sha256 !== null);
const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");
const json = (value: object): Uint8Array => new TextEncoder().encode(JSON.stringify(value));
const TABLE = findFixture("ctable/bcolz-daily-equities").file;

function makeFolder(): string {
  const folder = temporaryFolder();
  return folder;
}

test("an array of every dialect of the corpus, Zarr included, is opened by its path and has its producer's values", async () => {
  const dialects = new Set<string>();
  for (const row of arrays) {
    // A node of a hierarchy of the older transformer has no folder of its own.
    const array = await openArray(join(row.file, row.arrayPath));
    dialects.add(array.dialect);
    expect([row.path, array.shape, sha256(await array.getBytes())]).toEqual([
      row.path,
      row.shape,
      row.sha256,
    ]);
    await array.close();
  }
  expect([...dialects].sort()).toEqual(
    ["blz-superchunk", "bloscpack-3", "carray", "zarr3", "zarr3-transformer"].sort(),
  );
});

test("kind gives what was opened: an array, a table, plain bytes, a group", async () => {
  const store = new MemoryStore();
  await store.put("z/.zgroup", json({ zarr_format: 2 }));
  const layout = { zarr_format: 2, shape: [3], chunks: [3], dtype: "<i2", fill_value: 7, order: "C" };
  await store.put("z/a/.zarray", json({ ...layout, compressor: null, filters: null }));
  const group = await openIn(store, "z");
  const array = await openIn(store, "z/a");
  const bytes = loadFixtures("bloscpack-3").find(({ kind }) => kind === "bytes");
  const opened = [group, array, await open(TABLE), await open(bytes?.file ?? "")];
  expect(opened.map(({ kind, dialect }) => [kind, dialect])).toEqual([
    ["group", "zarr2"],
    ["array", "zarr2"],
    ["table", "ctable"],
    ["bytes", "bloscpack-3"],
  ]);
  if (array.kind === "array") expect((await array.get()).data).toEqual(Int16Array.of(7, 7, 7));
  for (const each of opened) expect((await each.verify()).ok).toBe(true);
});

test("a column of a table, of a group and of column folders is an array, with values of the requested dtype", async () => {
  const close = await openArray(TABLE, { column: "close", dtype: "uint32" });
  const { data, shape } = await close.get([slice(0, 5)]);
  expect([data, shape]).toEqual([Uint32Array.of(51654, 50967, 52198, 51992, 52827), [5]]);
  expect((await close.get([1])) + 1).toBe(50968);
  const folder = makeFolder();
  expect((await runCli(["convert", TABLE, join(folder, "t.zarr")])).code).toBe(0);
  const same = await openArray(join(folder, "t.zarr"), { column: "close", dtype: "<u4" });
  expect((await same.get([slice(0, 5)])).data).toEqual(data);
  const table = await openTable(join(folder, "t.zarr"));
  expect([table.length, [...table.names].sort()]).toEqual([
    (await openTable(TABLE)).length,
    [...(await openTable(TABLE)).names].sort(),
  ]);
  const nested = await openArray(findFixture("blz-superchunk/nested").file);
  const [name = ""] = nested.columnNames;
  const column = await openArray(findFixture("blz-superchunk/nested").file, { column: name });
  expect(column.shape[0]).toBe(nested.shape[0]);
});

test("another kind, a missing column or another dtype is refused, with what there is", async () => {
  const refusals: [() => Promise<unknown>, string, object][] = [
    [() => openArray(TABLE), "BAD_ARGUMENT", { field: "column", found: "table" }],
    [() => openArray(TABLE, { column: "none" }), "NOT_FOUND", { field: "none" }],
    [() => openTable(TABLE, { columns: "close" as never }), "BAD_ARGUMENT", { field: "columns" }],
    [
      () => openArray(TABLE, { column: "close", dtype: "float64" }),
      "BAD_ARGUMENT",
      { field: "dtype", found: "<u4" },
    ],
    [
      () => openTable(findFixture("carray/blz-f8").file),
      "BAD_ARGUMENT",
      { expected: "table", found: "array" },
    ],
    [() => openTableIn(new FileStore(findFixture("carray/blz-f8").file)), "BAD_ARGUMENT", { found: "array" }],
    [() => open(join(makeFolder(), "nothing")), "NOT_FOUND", {}],
    [() => open(makeFolder()), "NOT_FOUND", {}],
  ];
  for (const [opening, code, details] of refusals)
    await expect(opening()).rejects.toMatchObject({ code, details });
  const loose = new MemoryStore();
  await loose.put("readme.json", json({ name: "no references" }));
  await expect(openIn(loose, "readme.json")).rejects.toMatchObject({ code: "UNSUPPORTED" });
  // Only a name can show that a file that begins like JSON, but is not, is damaged.
  for (const name of ["cut.json", "notes.txt"]) await loose.put(name, new TextEncoder().encode("{ not JSON"));
  await expect(openIn(loose, "cut.json")).rejects.toMatchObject({ code: "BAD_FIELD" });
  await expect(openIn(loose, "notes.txt")).rejects.toMatchObject({ code: "UNSUPPORTED" });
});

test.each(["kerchunk", "kerchunk-parquet"])(
  "a set of references (%s) opens as what it refers to, if its container may be read",
  async (form) => {
    const folder = makeFolder();
    const set = join(folder, form === "kerchunk" ? "set.json" : "set.parq");
    expect((await runCli(["virtualize", TABLE, set, "--to", form])).code).toBe(0);
    const close = await openArray(set, { column: "close", authorize: ["local"] });
    const original = await openArray(TABLE, { column: "close" });
    expect(await close.getBytes()).toEqual(await original.getBytes());
    await close.close();
    const group = await open(set, { authorize: ["local"] });
    if (group.kind !== "group") throw new TypeError(group.kind);
    expect((await group.members()).sort()).toEqual([...(await openTable(TABLE)).names].sort());
    await group.close();
    // Nothing is read that was not authorized.
    const closed = await openArray(set, { column: "close" });
    await expect(closed.get()).rejects.toMatchObject({ code: "UNSAFE_PATH" });
  },
);

test("values of every format can be requested in shared memory", async () => {
  const store = new MemoryStore();
  const zarr = await createZarr(store, "", { shape: [10], dataType: "float64", chunkShape: [5] });
  await zarr.set(
    null,
    Float64Array.from({ length: 10 }, (_, i) => i),
  );
  for (const array of [await openArray(TABLE, { column: "close" }), zarr]) {
    const plain = await array.get([slice(2, 9)]);
    const shared = await array.get([slice(2, 9)], { shared: true });
    expect("buffer" in shared.data && shared.data.buffer).toBeInstanceOf(SharedArrayBuffer);
    expect([...shared.data]).toEqual([...plain.data]);
  }
});

test("opening an archive in a page loads neither Zarr nor references nor writers", async () => {
  const { metafile } = await build({
    stdin: {
      contents:
        'import { HttpStore, open } from "./src/index.ts"; console.log(await open(new HttpStore(""), "a.blp"));',
      resolveDir: repositoryRoot,
    },
    bundle: true,
    splitting: true,
    write: false,
    metafile: true,
    format: "esm",
    outdir: "out",
  });
  const [entry = ""] = Object.keys(metafile.outputs).filter((name) => name.endsWith("stdin.js"));
  const loaded = new Set<string>();
  const load = (name: string): void => {
    if (loaded.has(name)) return;
    loaded.add(name);
    for (const { path, kind } of metafile.outputs[name]?.imports ?? [])
      if (kind === "import-statement") load(path);
  };
  load(entry);
  const files = [...loaded].flatMap((name) =>
    Object.entries(metafile.outputs[name]?.inputs ?? {}).flatMap(([file, { bytesInOutput }]) =>
      bytesInOutput > 0 ? [file] : [],
    ),
  );
  expect(files.length).toBeGreaterThan(20);
  expect(files.filter((file) => /src\/(zarr|references|view|write|convert|dual)\//.test(file))).toEqual([]);
});

test("open, edit and convert refuse an unknown option, and a value of another type, by name", async () => {
  const destination = join(makeFolder(), "made");
  const calls = (options: never): Promise<unknown>[] => [
    open(TABLE, options),
    edit(TABLE, options),
    convert(TABLE, destination, options),
  ];
  for (const [options, message] of [
    [{ verfy: true }, /unknown option "verfy"/],
    [{ directMemory: "yes" }, /directMemory is yes, expected true or false/],
    [{ threads: -1 }, /threads is -1, expected a number of 0 or more/],
    [{ signal: 5 }, /signal is 5, expected an AbortSignal/],
  ] as [never, RegExp][])
    for (const call of calls(options))
      await expect(call).rejects.toMatchObject({
        code: "BAD_ARGUMENT",
        message: expect.stringMatching(message),
      });
  expect(existsSync(destination)).toBe(false);
});

test("a key that is not text is refused by name", async () => {
  const opening = openArrayIn(new MemoryStore(), { column: "a" } as never);
  await expect(opening).rejects.toThrow("the key is of type Object, expected a path in the store");
});

test("openArray accepts numpy's unambiguous names, and says which dtype was meant", async () => {
  const store = new MemoryStore();
  await (await create(store, "a", { dtype: "double", data: [1, 2] })).close();
  const array = await openArrayIn(store, "a", { dtype: "double" as never });
  expect(array.dtype.itemSize).toBe(8);
  for (const [dtype, message] of [
    ["flot64", /a: the dtype "flot64" is not one .*; did you mean float64\?/],
    ["int", /did you mean int8 or int16 or int32 or int64\?/],
    ["long", /the dtype "long" is not one that superchunk knows$/],
    ["f3", /a: dtype is "f3", expected one of/],
  ] as [never, RegExp][])
    await expect(openArrayIn(store, "a", { dtype })).rejects.toThrow(message);
});

test("follow refuses unknown options, and an interval that is not a number", async () => {
  const store = new MemoryStore();
  await (await create(store, "a", { dtype: "<f8", data: [1, 2] })).close();
  const array = await openArrayIn(store, "a");
  for (const options of [{ interval: "x" }, { intervl: 5 }] as never[])
    await expect(array.follow(options).next()).rejects.toMatchObject({ code: "BAD_ARGUMENT" });
});

test("a missing plan, and blobs that are not a list, are the caller's mistake", async () => {
  const none = undefined as never;
  for (const call of [runTasks(none), finish(none)])
    await expect(call).rejects.toMatchObject({ code: "BAD_ARGUMENT" });
  expect(() => new BlobStore(new Blob(["x"]) as never)).toThrow(/the blobs is .* expected a list/);
});
