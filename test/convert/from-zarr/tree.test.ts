/** Several sources come back next to one another: trees, tables, failures at the end, and an interrupted run is resumed. */

import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { open } from "../../../src/archive/open/open.ts";
import { SuperchunkError } from "../../../src/errors.ts";
import { FileStore } from "../../../src/node/index.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import { createZarr, type ZarrSpecification } from "../../../src/zarr/write/create.ts";
import {
  type ConvertFormat,
  type ConvertOptions,
  type ConvertResult,
  convert,
  type SourceItem,
} from "../../../src/zarr.ts";
import { runCli } from "../../cli/harness.ts";
import { corpusFolder } from "../../fixtures/manifest.ts";
import { temporaryFolder } from "../../folder.ts";
import { keysOf } from "../to-zarr/read-back.ts";

async function makeFolder(): Promise<string> {
  const folder = temporaryFolder();
  return folder;
}

const json = (value: object): Uint8Array => new TextEncoder().encode(JSON.stringify(value));
const specification: ZarrSpecification = {
  shape: [50],
  dataType: "int32",
  chunkShape: [10],
  shardShape: [20],
  codecs: [
    { name: "bytes", configuration: { endian: "little" } },
    {
      name: "blosc",
      configuration: { cname: "lz4", clevel: 5, shuffle: "shuffle", typesize: 4, blocksize: 0 },
    },
  ],
  fillValue: 3,
};

/** Groups of groups: a table, an array next to it, and one of another length. */
async function makeHierarchy(): Promise<MemoryStore> {
  const store = new MemoryStore();
  const group = (extra: object = {}): Uint8Array => json({ zarr_format: 3, node_type: "group", ...extra });
  await store.put("h/zarr.json", group({ attributes: { title: "all" } }));
  await store.put("h/table/zarr.json", group({ attributes: { column_order: ["b", "a"], source: "x" } }));
  for (const [i, path] of ["h/table/a", "h/table/b", "h/one", "h/other"].entries()) {
    const shape = path === "h/other" ? [7] : [50];
    const array = await createZarr(store, path, { ...specification, shape, attributes: { path } });
    await array.set(
      null,
      Int32Array.from({ length: shape[0] ?? 0 }, (_, k) => k * (i + 1)),
    );
  }
  return store;
}

function convertCase(
  store: MemoryStore,
  target: MemoryStore,
  format: ConvertFormat,
  options: ConvertOptions = {},
): Promise<ConvertResult> {
  return convert({ store, path: "h" }, { store: target, path: "dst" }, { to: format, ...options });
}

test.each(["bcolz", "blz"] as const)(
  "a group of groups becomes a tree of arrays and tables as %s",
  async (format) => {
    const target = new MemoryStore();
    const result = await convertCase(await makeHierarchy(), target, format, { verify: true });
    expect(result).toMatchObject({ converted: 3, failed: 0, arrays: 4, verified: true });
    expect(result.notes).toContainEqual(
      expect.stringContaining("attributes of the group are not carried over"),
    );
    const table = await open(target, "dst/table");
    if (table.kind === "bytes") throw new TypeError(table.kind);
    expect(table.kind === "table" ? table.names : table.columnNames).toEqual(["b", "a"]);
    expect(table.attrs).toEqual({ source: "x" });
    if (table.kind === "table") expect(table.column("a").attrs).toEqual({ path: "h/table/a" });
    const one = await open(target, "dst/one");
    expect(one).toMatchObject({ kind: "array", shape: [50], attrs: { path: "h/one" }, fillValue: 3 });
    expect((await keysOf(target)).filter((key) => key.includes("superchunk-convert"))).toEqual([]);
  },
);

test.each([
  ["npy", ".npy"],
  ["bloscpack", ".blp"],
] as const)("as %s, arrays become files, and tables become folders of files", async (format, ending) => {
  const target = new MemoryStore();
  const store = await makeHierarchy();
  const { notes } = await convertCase(store, target, format);
  expect(notes).toContain(
    `${store.describe("h/table")}: attributes of the table are not carried over: each of its columns becomes a file`,
  );
  expect((await keysOf(target)).sort()).toEqual(
    ["one", "other", "table/a", "table/b"].map((name) => `dst/${name}${ending}`),
  );
});

test("a chosen column that is nowhere is an error of every group and array, and nothing is converted", async () => {
  const store = await makeHierarchy();
  const converted = async (columns: readonly string[], path = "h"): Promise<readonly unknown[]> => {
    const target = { store: new MemoryStore(), path: "dst" };
    const { entries } = await convert({ store, path }, target, { to: "parquet", columns });
    return entries.map(({ node, status, message }) => [node, status, message]);
  };
  const whole = expect.stringContaining("it has no columns; leave out {columns}") as string;
  const unknown = expect.stringContaining('no column "nosuch"; expected one of a, b') as string;
  expect(await converted(["nosuch"])).toEqual([
    ["one", "failed", whole],
    ["other", "failed", whole],
    ["table", "failed", unknown],
  ]);
  expect(await converted(["b"])).toMatchObject([{}, {}, ["table", "converted", undefined]]);
  await store.delete("h/table/b/zarr.json");
  await createZarr(store, "h/table/b", { ...specification, shape: [7] });
  // A group of arrays of several lengths is not a table, and its arrays are chosen all the same.
  await expect(converted(["nosuch"], "h/table")).rejects.toThrow('no column "nosuch"; expected one of a, b');
});

test("a tree of archives refuses a choice of columns for those without, and for groups of Zarr", async () => {
  const store = await makeHierarchy();
  const choice = { columns: ["a"], skipFailed: true };
  const { entries } = await convert({ store, path: "" }, { store: new MemoryStore(), path: "dst" }, choice);
  expect(entries).toMatchObject([
    { status: "failed", message: expect.stringContaining("a group of Zarr is copied whole; leave out") },
  ]);
});

test.each([
  ["of several lengths", "7", "the arrays have 7 and 50 rows"],
  ["that cannot be read", "{", 'the array "bad" cannot be read'],
])("a group with arrays %s becomes files of its arrays, and a note says why", async (_, text, why) => {
  const folder = temporaryFolder();
  const [group, to] = [join(folder, "g"), join(folder, "g.parquet")];
  const store = new FileStore(group);
  await store.put("zarr.json", json({ zarr_format: 3, node_type: "group" }));
  await createZarr(store, "good", specification);
  await createZarr(store, "bad", { ...specification, shape: [7] });
  if (text === "{") writeFileSync(join(group, "bad", "zarr.json"), text);
  const { err } = await runCli(["convert", group, to]);
  expect(err).toContain(
    `${group}: ${why}, so the arrays are converted one by one, not as columns of one table`,
  );
  expect(readdirSync(to)).toContain("good.parquet");
});

test("an interrupted run is resumed, but only by the same conversion", async () => {
  const store = await makeHierarchy();
  const whole = new MemoryStore();
  await convertCase(store, whole, "bcolz");
  const target = new MemoryStore();
  const abort = new AbortController();
  const first = convertCase(store, target, "bcolz", {
    signal: abort.signal,
    onProgress: ({ done }) => done === 2 && abort.abort(new Error("enough")),
  });
  await expect(first).rejects.toThrow("enough");
  // What a kill in the middle of the last one would leave.
  await target.put("dst/table/b/data/__0.blp", Uint8Array.of(1, 2, 3));
  await expect(convertCase(store, target, "bcolz")).rejects.toMatchObject({ code: "CONFLICT" });
  await expect(convertCase(store, target, "bcolz", { resume: true, columns: ["a"] })).rejects.toMatchObject({
    code: "CONFLICT",
    message: expect.stringContaining("other options") as string,
  });
  const result = await convertCase(store, target, "bcolz", { resume: true });
  expect(result).toMatchObject({ kept: 2, converted: 1, failed: 0 });
  expect(await keysOf(target)).toEqual(await keysOf(whole));
});

test("a source that changed after it was converted is not skipped", async () => {
  const store = await makeHierarchy();
  const target = new MemoryStore();
  const abort = new AbortController();
  const first = convertCase(store, target, "blz", {
    signal: abort.signal,
    onProgress: ({ done }) => done > 0 && abort.abort(),
  });
  await expect(first).rejects.toThrow();
  const document = await store.get("h/one/zarr.json");
  if (document === undefined) throw new TypeError("no document");
  await store.put("h/one/zarr.json", document);
  const result = await convertCase(store, target, "blz", { resume: true });
  expect(result.entries.find(({ node }) => node === "one")).toMatchObject({
    status: "failed",
    code: "CONFLICT",
    message: expect.stringContaining("changed since") as string,
  });
  expect(result.converted).toBe(2);
});

test("foreign files at the destination are never deleted, resumed or not", async () => {
  const store = await makeHierarchy();
  const target = new MemoryStore();
  await target.put("dst/table/notes.txt", Uint8Array.of(1));
  const abort = new AbortController();
  const first = convertCase(store, target, "blz", {
    signal: abort.signal,
    onProgress: ({ done }) => done === 2 && abort.abort(new Error("enough")),
  });
  await expect(first).rejects.toThrow("enough");
  for (const flags of [{ resume: true }, { overwrite: true }]) {
    const result = await convertCase(store, target, "blz", flags);
    expect(result.entries.find(({ node }) => node === "table")).toMatchObject({ code: "CONFLICT" });
    expect(await target.get("dst/table/notes.txt")).toEqual(Uint8Array.of(1));
  }
});

test("the command converts folders of archives and Zarr, lists failures at the end, and writes a report", async () => {
  const folder = await makeFolder();
  const source = join(folder, "src");
  mkdirSync(source);
  for (const [from, to] of [
    ["carray/blz-f8", "deep/prices"],
    ["bloscpack-3/array-f8.blp", "signal.blp"],
    ["zarr3-sharded/zp-f8-1d-blosc-lz4", "z.zarr"],
    ["zarr3-transformer/u2-dot-group", "old"],
  ] as const)
    cpSync(join(corpusFolder, from), join(source, to), { recursive: true });
  writeFileSync(join(source, "bad.blp"), "blpk");
  const target = join(folder, "out");
  const report = join(folder, "report.json");
  const plan = await runCli(["convert", source, target, "--to", "bcolz", "--dry-run"]);
  expect(plan.out).toMatch(/z\.zarr +copy +1000 +10 +7\.81 KiB +out\/z/);
  expect(plan.out).toContain("bad.blp");
  expect(plan.code).toBe(3);
  expect(readdirSync(folder)).toEqual(["src"]);
  const { code, out, err } = await runCli([
    ...["convert", source, target, "--to", "bcolz", "--verify", "--report", report],
  ]);
  expect(code).toBe(3);
  expect(err).toContain("not converted: ");
  expect(out).toMatch(/^converted 4 arrays, .*, verified, 1 failed\n$/);
  const { archives } = JSON.parse(readFileSync(report, "utf8")) as { archives: { status: string }[] };
  expect(archives.map(({ status }) => status).sort()).toEqual([
    ...["converted", "converted", "converted", "converted", "failed"],
  ]);
  for (const [from, to] of [
    ["z.zarr", "z"],
    ["old/grp/sub/arr", "old/grp/sub/arr"],
    ["deep/prices", "deep/prices"],
    ["signal.blp", "signal"],
  ] as const) {
    const expected = await runCli(["cat", join(source, from), "--format", "raw"]);
    const found = await runCli(["cat", join(target, to), "--format", "raw"]);
    expect(found.code).toBe(0);
    expect(found.bytes.equals(expected.bytes)).toBe(true);
  }
  expect((await runCli(["verify", target])).code).toBe(0);
});

test("the report names a damaged array of an older hierarchy, and ones without a document, by where they are", async () => {
  const folder = await makeFolder();
  const source = join(folder, "src");
  const old = join(source, "deep", "old");
  cpSync(join(corpusFolder, "zarr3-transformer", "f8-2d-missing"), old, { recursive: true });
  writeFileSync(join(old, "data", "root", "arr", "c1", "0"), "damaged");
  mkdirSync(join(old, "data", "root", "lost"));
  writeFileSync(join(old, "data", "root", "lost", "c0"), "data");
  const report = join(folder, "report.json");
  expect((await runCli(["convert", source, join(folder, "out.zarr"), "--report", report])).code).toBe(3);
  const { archives } = JSON.parse(readFileSync(report, "utf8")) as {
    archives: { path: string; code?: string }[];
  };
  const failed = archives.filter(({ code }) => code !== undefined).map(({ path }) => path);
  expect(failed.sort()).toEqual([join(old, "arr"), join(old, "lost")]);
});

test("several sources are put next to each other under their own names, also nodes inside a hierarchy", async () => {
  const folder = await makeFolder();
  const array = join(corpusFolder, "zarr3-transformer", "i4-1d", "arr");
  const one = join(folder, "one.npy");
  expect(await runCli(["convert", array, one, "--to", "npy", "--verify"])).toMatchObject({ code: 0 });
  expect(readFileSync(one).length).toBe(128 + 2000);
  const sources = ["carray/blz-f8", "bloscpack-3/array-f8.blp"].map((path) => join(corpusFolder, path));
  const { code } = await runCli(["convert", ...sources, join(folder, "all"), "--to", "npy"]);
  expect(code).toBe(0);
  expect(readdirSync(join(folder, "all")).sort()).toEqual(["array-f8.npy", "blz-f8.npy"]);
});

test.each(["bcolz", "npy"] as const)(
  "if one array of a group cannot be opened, the others become %s, and the failure is reported",
  async (format) => {
    const folder = await makeFolder();
    const from = join(folder, "in");
    const document = { zarr_format: 2, shape: [2], chunks: [2], order: "C", fill_value: 0, compressor: null };
    const objects: Record<string, string | Uint8Array> = {
      ".zgroup": '{"zarr_format": 2}',
      "a/.zarray": JSON.stringify({ ...document, dtype: "|u1", filters: null }),
      "a/0": Uint8Array.of(5, 6),
      "names/.zarray": JSON.stringify({
        ...document,
        dtype: "|O",
        fill_value: "",
        filters: [{ id: "vlen-array" }],
      }),
    };
    for (const [key, bytes] of Object.entries(objects)) {
      mkdirSync(dirname(join(from, key)), { recursive: true });
      writeFileSync(join(from, key), bytes);
    }
    const result = await runCli(["convert", from, join(folder, "out"), "--to", format]);
    expect(result.code).toBe(1);
    expect(result.err).toMatch(/not converted: .*names.*vlen-array/);
    expect(result.out).toMatch(/^converted 1 array.* 1 failed\n$/);
    if (format === "npy")
      expect(readFileSync(join(folder, "out/a.npy")).subarray(-2)).toEqual(Buffer.of(5, 6));
    else expect((await runCli(["cat", join(folder, "out/a")])).out).toBe("5\n6\n");
  },
);

test("what a run left unfinished is still known if the next run is interrupted before it gets there", async () => {
  const store = await makeHierarchy();
  const whole = new MemoryStore();
  await convertCase(store, whole, "bcolz");
  const target = new MemoryStore();
  const stopAfter = (count: number, flags: ConvertOptions): Promise<ConvertResult> => {
    const abort = new AbortController();
    return convertCase(store, target, "bcolz", {
      ...flags,
      signal: abort.signal,
      onProgress: ({ done }) => done === count && abort.abort(new Error("enough")),
    });
  };
  await expect(stopAfter(2, {})).rejects.toThrow("enough");
  await target.put("dst/table/b/data/__0.blp", Uint8Array.of(1, 2, 3));
  await expect(stopAfter(1, { resume: true })).rejects.toThrow("enough");
  await expect(stopAfter(1, { resume: true })).rejects.toThrow("enough");
  expect(await convertCase(store, target, "bcolz", { resume: true })).toMatchObject({ kept: 2, failed: 0 });
  expect(await keysOf(target)).toEqual(await keysOf(whole));
});

/** A store that changes nothing more after so many changes, as if the process had been killed. */
class DyingStore extends MemoryStore {
  changesLeft = Number.POSITIVE_INFINITY;

  override async put(...given: Parameters<MemoryStore["put"]>): ReturnType<MemoryStore["put"]> {
    this.#live();
    return super.put(...given);
  }

  override async delete(...given: Parameters<MemoryStore["delete"]>): Promise<void> {
    this.#live();
    return super.delete(...given);
  }

  #live(): void {
    if (this.changesLeft-- <= 0) throw new Error("killed");
  }
}

test.each(["bcolz", "blz"] as const)(
  "an array that becomes %s can be overwritten wherever an earlier run was killed, also one that overwrote",
  async (format) => {
    const source = await makeHierarchy();
    const to = (store: MemoryStore, options: ConvertOptions = {}): Promise<ConvertResult> =>
      convert({ store: source, path: "h/one" }, { store, path: "dst" }, { to: format, ...options });
    const whole = new MemoryStore();
    await to(whole);
    for (const isThere of [false, true])
      for (const again of isThere ? (["overwrite"] as const) : (["overwrite", "resume"] as const))
        for (let changes = 1; ; changes++) {
          const target = new DyingStore();
          if (isThere) await to(target);
          target.changesLeft = changes;
          const killed = await to(target, { overwrite: isThere }).catch((error: Error) => error.message);
          target.changesLeft = Number.POSITIVE_INFINITY;
          if (killed !== "killed") break;
          await to(target, { [again]: true });
          const keys = await keysOf(target);
          expect(keys).toEqual(await keysOf(whole));
          for (const key of keys.filter((each) => each.includes("/data/")))
            expect(await target.get(key)).toEqual(await whole.get(key));
          expect(changes).toBeLessThan(50);
        }
  },
);

test("a record with a damaged list of started items is treated as if nothing was started", async () => {
  const store = await makeHierarchy();
  const target = new MemoryStore();
  const key = ".dst.superchunk-convert.json";
  const settings = { to: "blz", columns: null, dtype: null, shape: null, recode: true };
  await target.put(key, json({ sources: ["memory:h"], options: settings, done: {}, begun: 5 }));
  expect(await convertCase(store, target, "blz", { resume: true })).toMatchObject({ converted: 3 });
});

test("no more than a few dozen of thousands of sources are open at a time, and entries keep their order", async () => {
  let active = 0;
  let most = 0;
  async function* jobs(): AsyncGenerator<SourceItem> {
    for (let i = 0; i < 3000; i++) {
      const open = async (): Promise<never> => {
        most = Math.max(most, ++active);
        for (let turn = 0; turn < 3; turn++) await Promise.resolve();
        active--;
        throw new SuperchunkError("NOT_FOUND", "nothing is there");
      };
      yield { path: `p${i}`, node: `n${i}`, fingerprint: async () => null, open, notes: [] };
    }
  }
  const result = await convert(
    { items: jobs(), names: ["p"] },
    { store: new MemoryStore(), path: "dst" },
    { to: "npy" },
  );
  expect(result.entries.map(({ path }) => path)).toEqual(Array.from({ length: 3000 }, (_, i) => `p${i}`));
  expect(most).toBeGreaterThan(8);
  expect(most).toBeLessThanOrEqual(64);
});
