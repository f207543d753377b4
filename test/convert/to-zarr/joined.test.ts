/** Several archives converted to one array: values one after the other, chunks copied where the grid allows it. */

import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import type { Archive } from "../../../src/archive/kinds/types.ts";
import { open } from "../../../src/archive/open/open.ts";
import { encode } from "../../../src/codec/index.ts";
import { isSuperchunkError } from "../../../src/errors.ts";
import { FileStore } from "../../../src/node/index.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import { convert } from "../../../src/zarr.ts";
import { runCli } from "../../cli/harness.ts";
import { corpusFolder, findFixture } from "../../fixtures/manifest.ts";
import { temporaryFolder } from "../../folder.ts";
import { putBloscpack, putCarray } from "./make-archive.ts";
import { documentAt, openFixture, readWithZarrita, sha256 } from "./read-back.ts";

/** Archives of int32 that continue counting from one to the next, in chunks of 4 rows by default. */
async function archivesOf(
  counts: readonly number[],
  settings: { readonly rows?: readonly number[]; readonly dtype?: string } = {},
): Promise<{ store: MemoryStore; archives: Archive[] }> {
  const store = new MemoryStore();
  const archives: Archive[] = [];
  let next = 0;
  for (const [i, count] of counts.entries()) {
    const values = Int32Array.from({ length: count }, () => next++);
    const key = `part${i}.blp`;
    const { dtype = "<i4" } = settings;
    await putBloscpack(store, key, new Uint8Array(values.buffer), (settings.rows?.[i] ?? 4) * 4, {
      dtype,
      shape: [count],
    });
    archives.push(await open(store, key));
  }
  return { store, archives };
}

async function valuesOf(target: MemoryStore): Promise<number[]> {
  const bytes = await readWithZarrita(target, "");
  return [...new Int32Array(bytes.slice().buffer)];
}

async function failure(work: Promise<unknown>): Promise<{ code: string; message: string; details: unknown }> {
  const error = await work.then(
    () => undefined,
    (caught: unknown) => caught,
  );
  if (!isSuperchunkError(error)) throw new Error(`no error of ours: ${String(error)}`);
  return error;
}

describe("archives joined along the first dimension", () => {
  it.each<[string, number[], object, object]>([
    [
      "are copied if every chunk but the last is whole",
      [8, 4, 6],
      {},
      { chunksCopied: 4, chunksPadded: 1, chunksRecoded: 0 },
    ],
    [
      "are copied without padding if all are whole",
      [8, 4, 4],
      {},
      { chunksCopied: 4, chunksPadded: 0, chunksRecoded: 0 },
    ],
    [
      "are copied up to a short chunk in the middle, and recoded after it",
      [6, 8],
      {},
      { chunksCopied: 1, chunksRecoded: 3 },
    ],
    [
      "are copied up to chunks of other rows, and recoded from there on",
      [8, 9],
      { rows: [4, 3] },
      { chunksCopied: 2, chunksRecoded: 3 },
    ],
    [
      "are copied again once the rows fall on the borders of the grid again",
      [6, 6, 9],
      {},
      { chunksCopied: 3, chunksPadded: 1, chunksRecoded: 2 },
    ],
    [
      "are copied if each has one chunk of the same number of rows, short or not",
      [3, 3, 3, 2],
      {},
      { chunksCopied: 3, chunksPadded: 1, chunksRecoded: 0 },
    ],
    [
      "are all recoded if the first is short and there is nothing to copy",
      [3, 8],
      {},
      { chunksCopied: 0, chunksRecoded: 1 },
    ],
    [
      "are copied if the last has one chunk that is shorter than the others",
      [8, 3],
      { rows: [4, 3] },
      { chunksCopied: 2, chunksPadded: 1 },
    ],
  ])("%s", async (_, counts, settings, wanted) => {
    const { archives } = await archivesOf(counts, settings);
    const target = new MemoryStore();
    const result = await convert(archives, { store: target }, { verify: true, shardSize: 64 });
    expect(result).toMatchObject({ arrays: 1, verified: true, ...wanted });
    const total = counts.reduce((sum, n) => sum + n, 0);
    expect(await valuesOf(target)).toEqual(Array.from({ length: total }, (_, i) => i));
    expect((await documentAt(target, "zarr.json"))["shape"]).toEqual([total]);
  });

  it("of no rows take no place", async () => {
    const store = new MemoryStore();
    for (const [i, n] of [0, 8, 0, 4].entries()) {
      const values = Int32Array.from({ length: n }, (_, k) => i * 100 + k);
      await putCarray(store, `c${i}`, new Uint8Array(values.buffer), 4, { dtype: "int32", shape: [n] });
    }
    const archives = await Promise.all([0, 1, 2, 3].map((i) => open(store, `c${i}`)));
    const target = new MemoryStore();
    const result = await convert(archives, { store: target }, { verify: true });
    expect(result).toMatchObject({ chunksCopied: 3, chunksRecoded: 0 });
    expect(await valuesOf(target)).toEqual([100, 101, 102, 103, 104, 105, 106, 107, 300, 301, 302, 303]);
  });

  it("of formats that store a default value, and of those that do not, are alike if it is that of the data type", async () => {
    const { store, archives } = await archivesOf([8]);
    for (const dflt of [0, 1])
      await putCarray(store, `c${dflt}`, new Uint8Array(16).fill(7), 4, { dtype: "int32", shape: [4], dflt });
    const target = new MemoryStore();
    const joined = [...archives, await open(store, "c0")];
    expect(await convert(joined, { store: target }, { verify: true })).toMatchObject({ chunksCopied: 3 });
    const error = await failure(convert([...joined, await open(store, "c1")], { store: new MemoryStore() }));
    expect(error).toMatchObject({ code: "BAD_ARGUMENT", details: { expected: "0", found: "1" } });
    expect(error.message).toContain("has another fill value than memory:part0.blp");
  });

  it("that are tables become one table, column by column, as their producer wrote them", async () => {
    const fixture = findFixture("ctable/bcolz-daily-equities");
    if (fixture.kind !== "table") throw new Error("no table");
    const one = await openFixture(fixture.path);
    const target = new MemoryStore();
    const result = await convert([one, one], { store: target }, { verify: true });
    expect(result).toMatchObject({ arrays: 7, groups: 1, verified: true });
    for (const name of fixture.names) {
      const both = await readWithZarrita(target, name);
      const half = both.length / 2;
      for (const part of [both.subarray(0, half), both.subarray(half)])
        expect(sha256(part)).toBe(fixture.columns[name]?.sha256);
    }
  });

  it("are refused, naming the archive and the reason, if they can be neither copied nor recoded", async () => {
    const { archives } = await archivesOf([6, 8]);
    const target = new MemoryStore();
    const error = await failure(convert(archives, { store: target }, { recode: false }));
    expect(error.code).toBe("UNSUPPORTED");
    expect(error.message).toContain("the last chunk of memory:part0.blp is short, with 6 rows in all");
    expect(await target.stat("zarr.json")).toBeUndefined();
  });

  it("never show the bytes after the last row of a chunk in the middle", async () => {
    const store = new MemoryStore();
    const first = Int32Array.of(0, 1, 2, 3, 4, 5);
    await putCarray(store, "c0", new Uint8Array(first.buffer), 4, { dtype: "int32", shape: [6] });
    await putCarray(store, "c1", new Uint8Array(Int32Array.of(6, 7).buffer), 4, {
      dtype: "int32",
      shape: [2],
    });
    // After a trim bcolz leaves whole chunks with fewer rows than they hold.
    const trimmed = Uint8Array.of(98, 108, 112, 107, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0);
    const whole = await encode(new Uint8Array(Int32Array.of(4, 5, -1, -1).buffer));
    await store.put("c0/data/__1.blp", Buffer.concat([trimmed, whole]));
    const target = new MemoryStore();
    const archives = await Promise.all(["c0", "c1"].map((key) => open(store, key)));
    await convert(archives, { store: target }, { verify: true });
    expect(await valuesOf(target)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  });

  it.each<[string, { dtype?: string; shape?: number[] }, string]>([
    ["data type", { dtype: "<u4" }, "dtype"],
    ["further dimensions", { shape: [4, 2] }, "further dimensions"],
  ])("are refused if they differ in %s", async (_, settings, name) => {
    const { store, archives } = await archivesOf([8]);
    await putBloscpack(store, "other.blp", new Uint8Array(32), 16, { dtype: "<i4", shape: [8], ...settings });
    const target = new MemoryStore();
    const error = await failure(convert([...archives, await open(store, "other.blp")], { store: target }));
    expect(error).toMatchObject({
      code: "BAD_ARGUMENT",
      details: { path: "memory:other.blp", field: "concat" },
    });
    expect(error.message).toContain(`has another ${name} than memory:part0.blp`);
  });

  it("are refused if one is a table and the other is not, and if there are none", async () => {
    const { archives } = await archivesOf([8]);
    const [array] = archives;
    if (array === undefined) throw new Error("no archive");
    const table = await openFixture("ctable/bcolz-daily-equities");
    expect((await failure(convert([array, table], { store: new MemoryStore() }))).code).toBe("BAD_ARGUMENT");
    expect((await failure(convert([], { store: new MemoryStore() }))).code).toBe("BAD_ARGUMENT");
  });

  it("are not resumed after one of them has changed", async () => {
    const { store, archives } = await archivesOf([8, 8]);
    const target = new MemoryStore();
    const abort = new AbortController();
    const broken = convert(
      archives,
      { store: target },
      {
        shardSize: 16,
        signal: abort.signal,
        onProgress: () => abort.abort(new Error("enough")),
      },
    );
    await expect(broken).rejects.toThrow("enough");
    await putBloscpack(store, "part1.blp", new Uint8Array(32).fill(7), 16, { dtype: "<i4", shape: [8] });
    const again = await Promise.all(["part0.blp", "part1.blp"].map((key) => open(store, key)));
    const error = await failure(convert(again, { store: target }, { shardSize: 16, resume: true }));
    expect(error.code).toBe("CONFLICT");
    await convert(again, { store: target }, { shardSize: 16, overwrite: true, verify: true });
    expect((await valuesOf(target)).slice(6, 10)).toEqual([6, 7, 0x07070707, 0x07070707]);
  });
});

describe("superchunk convert --concat", () => {
  let folder = "";
  beforeAll(async () => {
    folder = temporaryFolder();
    const store = new FileStore(join(folder, "in"));
    const { store: made } = await archivesOf([8, 4, 6]);
    for (const [from, to] of [
      ["part0.blp", "2023/prices.blp"],
      ["part1.blp", "2024/prices.blp"],
      ["part2.blp", "2025/prices.blp"],
    ] as const)
      await store.put(to, (await made.get(from)) ?? new Uint8Array());
  });
  it("joins archives of the same name in the order in which they are typed", async () => {
    const paths = [2024, 2023].map((year) => join(folder, "in", `${year}`, "prices.blp"));
    const to = join(folder, "typed.zarr");
    const { code, out } = await runCli(["convert", ...paths, to, "--concat", "--verify"]);
    expect([code, out]).toEqual([0, expect.stringContaining("3 chunks copied, 0 recoded")]);
    const bytes = await readWithZarrita(new FileStore(to), "");
    expect([...new Int32Array(bytes.slice().buffer)].slice(0, 6)).toEqual([8, 9, 10, 11, 0, 1]);
  });

  it("says what can be joined if a source is Zarr", async () => {
    const prices = join(folder, "in", "2023", "prices.blp");
    const copy = join(folder, "copy.zarr");
    expect((await runCli(["convert", prices, copy])).code).toBe(0);
    const { code, err } = await runCli(["convert", prices, copy, join(folder, "both.zarr"), "--concat"]);
    expect([code, err]).toEqual([1, expect.stringContaining("copy.zarr: found no archive to join")]);
  });

  it("takes those of a folder in the order of their names, and plans without writing", async () => {
    const { code, out } = await runCli([
      "convert",
      join(folder, "in"),
      join(folder, "all.zarr"),
      "--concat",
      "--dry-run",
    ]);
    expect(code).toBe(0);
    expect(out).toMatch(/copy +18 +5/);
  });

  it("is for Zarr only", async () => {
    const source = join(corpusFolder, "bloscpack-3", "array-i4-2d.blp");
    const { code, err } = await runCli(["convert", source, join(folder, "x.npy"), "--to", "npy", "--concat"]);
    expect([code, err]).toEqual([2, expect.stringContaining("--concat is for --to zarr")]);
  });
});
