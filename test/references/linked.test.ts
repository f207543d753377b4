/** Linked archives as references: one per file, read as the shards that they are. */

import { cp, readFile, stat, truncate } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import * as zarr from "zarrita";
import { create as createArray } from "../../src/node/edit.ts";
import { openReferences } from "../../src/node/references.ts";
import { runCli } from "../cli/harness.ts";
import { sha256 } from "../convert/to-zarr/read-back.ts";
import { corpusFolder, findFixture } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";
import { documentOf } from "../view/read-view.ts";

let folder = "";

beforeAll(async () => {
  folder = temporaryFolder();
});
async function copyOf(fixture: string, name: string): Promise<string> {
  const at = join(folder, name);
  await cp(join(corpusFolder, fixture), at, { recursive: true });
  return at;
}

describe("virtualize --shards", () => {
  it.each([
    ["blz-superchunk/f8-default", "f8", 4],
    ["blz-superchunk/i8-2d-crc32", "i8", undefined],
  ])(
    "refers to each file of %s once, and zarrita reads the producer's values",
    async (fixture, name, files) => {
      const source = await copyOf(fixture, name);
      expect((await runCli(["link", source])).code).toBe(0);
      const set = join(folder, `${name}.json`);
      const { code, out } = await runCli([
        "virtualize",
        source,
        set,
        "--to",
        "kerchunk",
        "--shards",
        "--json",
      ]);
      expect(code).toBe(0);
      const { virtual, padded } = JSON.parse(out) as { virtual: number; padded: number };
      const { refs } = JSON.parse(await readFile(set, "utf8")) as { refs: Record<string, unknown[]> };
      const references = Object.values(refs).filter((each) => Array.isArray(each));
      expect([references.length, padded]).toEqual([virtual, 0]);
      expect(new Set(references.map(([location]) => location)).size).toBe(virtual);
      if (files !== undefined) expect(virtual).toBe(files);
      const store = await openReferences(set, { authorize: ["local"] });
      expect(JSON.stringify((await documentOf(store, name))["codecs"])).toContain("sharding_indexed");
      const array = await zarr.open.v3(zarr.root(store as never).resolve(name), { kind: "array" });
      const { data } = (await zarr.get(array)) as { data: Float64Array };
      const found = findFixture(fixture);
      if (found.kind !== "array") throw new Error("no array");
      expect(sha256(new Uint8Array(data.buffer, data.byteOffset, data.byteLength))).toBe(found.sha256);
      await store.close();
    },
  );

  it("refuses an archive that is not linked, and writes nothing", async () => {
    const source = await copyOf("blz-superchunk/f8-default", "plain");
    const set = join(folder, "plain.json");
    const { code, err } = await runCli(["virtualize", source, set, "--to", "kerchunk", "--shards"]);
    expect(code).toBe(1);
    expect(err).toContain("it is not a shard of a Zarr array");
    expect(err).toContain('run "superchunk link" on the archive');
    await expect(readFile(set)).rejects.toThrow("ENOENT");
  });

  it("refuses an array that is kept as Zarr if some of its shards are other files, and says what to do", async () => {
    const root = join(folder, "live");
    const array = await createArray(root, { dtype: "<i4", chunkLength: 4, superchunkLength: 3, zarr: true });
    await array.append(Int32Array.from({ length: 30 }, (_, i) => i));
    await array.close();
    const refer = ["virtualize", root, join(folder, "live.json"), "--to", "kerchunk"];
    const { code, err } = await runCli([...refer, "--shards"]);
    expect([code, err]).toEqual([
      1,
      expect.stringContaining("refer to its chunks one by one, without --shards"),
    ]);
    expect((await runCli(refer)).code).toBe(0);
  });

  it("refuses a file whose index is missing, as after a write by a program that does not know it", async () => {
    const source = await copyOf("bloscpack-3/array-f8.blp", "grown.blp");
    const linked = await runCli(["link", source, join(folder, "grown.zarr")]);
    expect([linked.code, linked.err]).toEqual([0, expect.stringContaining("in Python:") as string]);
    const set = join(folder, "grown.json");
    const refer = (): ReturnType<typeof runCli> =>
      runCli(["virtualize", source, set, "--to", "kerchunk", "--shards", "--overwrite"]);
    expect((await refer()).code).toBe(0);
    await truncate(source, (await stat(source)).size - 4);
    const { code, err } = await refer();
    expect([code, err]).toEqual([1, expect.stringContaining("it is not a shard of a Zarr array")]);
  });

  it.each([
    ["documents of Zarr v2", ["--to", "kerchunk", "--zarr-format", "2"]],
    ["Parquet", ["--to", "kerchunk-parquet"]],
    ["inlining", ["--to", "kerchunk", "--inline", "1KiB"]],
    ["columns", ["--to", "kerchunk", "--column", "close"]],
    ["portable data types", ["--to", "kerchunk", "--portable"]],
    ["a rectilinear grid", ["--to", "kerchunk", "--grid", "rectilinear"]],
  ])("is refused with %s as wrong usage", async (_, flags) => {
    const source = join(corpusFolder, "blz-superchunk", "f8-default");
    expect((await runCli(["virtualize", source, join(folder, "x"), "--shards", ...flags])).code).toBe(2);
  });
});

/** An array of rows `first`, `first + 1` …, in files of `perFile` chunks of 10 rows, linked. */
async function linkedRows(name: string, first: number, rows: number, perFile = 4): Promise<string> {
  const root = join(folder, name);
  const array = await createArray(root, { dtype: "<i4", chunkLength: 10, superchunkLength: perFile });
  await array.append(Int32Array.from({ length: rows }, (_, i) => first + i));
  await array.close();
  expect((await runCli(["link", root])).code).toBe(0);
  return root;
}

describe("virtualize --shards --concat", () => {
  it("joins archives whose files are whole shards, except the last one's last, and zarrita reads all rows", async () => {
    const sources = [
      await linkedRows("one", 0, 80),
      await linkedRows("two", 80, 40),
      await linkedRows("end", 120, 95),
    ];
    const set = join(folder, "joined.json");
    const { code, err } = await runCli([
      "virtualize",
      ...sources,
      set,
      "--to",
      "kerchunk",
      "--shards",
      "--concat",
    ]);
    expect([code, err]).toEqual([0, ""]);
    const { refs } = JSON.parse(await readFile(set, "utf8")) as { refs: Record<string, unknown[]> };
    expect(Object.keys(refs).filter((key) => key.startsWith("one/c/"))).toHaveLength(2 + 1 + 3);
    const store = await openReferences(set, { authorize: ["local"] });
    const array = await zarr.open.v3(zarr.root(store as never).resolve("one"), { kind: "array" });
    expect([array.shape, array.chunks]).toEqual([[215], [10]]);
    const { data } = (await zarr.get(array)) as { data: Int32Array };
    expect([...data]).toEqual(Array.from({ length: 215 }, (_, i) => i));
    await store.close();
  });

  it("refuses, with the reason, an archive that ends inside a shard before others, and other shards", async () => {
    const short = await linkedRows("short", 0, 95);
    const whole = await linkedRows("whole", 95, 80);
    const other = await linkedRows("other", 0, 100, 5);
    const refused = async (...sources: string[]): Promise<string> => {
      const set = join(folder, "never.json");
      const { code, err } = await runCli([
        "virtualize",
        ...sources,
        set,
        "--to",
        "kerchunk",
        "--shards",
        "--concat",
      ]);
      await expect(readFile(set)).rejects.toThrow("ENOENT");
      return `${code} ${err}`;
    };
    expect(await refused(short, whole)).toMatch(
      /^1 superchunk: .*short: its last file is not a whole shard: it has 15 of 40 rows, and another archive follows; refer to the chunks one by one/,
    );
    expect(await refused(whole, other)).toMatch(
      /^1 superchunk: .*other: its files are shards of 5 chunks of 10 items, and those of .*whole are of 4 chunks of 10 items/,
    );
  });
});
