/** Linked archives as references: one to each file, read as the shards that they are. */
import { cp, mkdtemp, readFile, rm, stat, truncate } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import * as zarr from "zarrita";
import { openReferences } from "../../src/node/references.ts";
import { sha256 } from "../bridge/read-back.ts";
import { runCli } from "../cli/harness.ts";
import { corpusFolder, findFixture } from "../fixtures/manifest.ts";
import { documentOf } from "../view/read-view.ts";

let folder = "";

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "superchunk-linked-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

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
    expect(err).toContain("it is no shard of a Zarr array");
    expect(err).toContain('run "superchunk link" on the archive');
    await expect(readFile(set)).rejects.toThrow("ENOENT");
  });

  it("refuses a file whose index is no longer there, as a writer that knows none leaves it", async () => {
    const source = await copyOf("bloscpack-3/array-f8.blp", "grown.blp");
    const linked = await runCli(["link", source, join(folder, "grown.zarr")]);
    expect([linked.code, linked.err]).toEqual([0, ""]);
    const set = join(folder, "grown.json");
    const refer = (): ReturnType<typeof runCli> =>
      runCli(["virtualize", source, set, "--to", "kerchunk", "--shards", "--overwrite"]);
    expect((await refer()).code).toBe(0);
    await truncate(source, (await stat(source)).size - 4);
    const { code, err } = await refer();
    expect([code, err]).toEqual([1, expect.stringContaining("it is no shard of a Zarr array")]);
  });

  it.each([
    ["documents of Zarr v2", ["--to", "kerchunk", "--zarr-format", "2"]],
    ["Parquet", ["--to", "kerchunk-parquet"]],
    ["joining", ["--to", "kerchunk", "--concat"]],
    ["inlining", ["--to", "kerchunk", "--inline", "1KiB"]],
    ["columns", ["--to", "kerchunk", "--column", "close"]],
    ["portable data types", ["--to", "kerchunk", "--portable"]],
    ["a rectilinear grid", ["--to", "kerchunk", "--grid", "rectilinear"]],
  ])("is refused with %s as wrong use", async (_, flags) => {
    const source = join(corpusFolder, "blz-superchunk", "f8-default");
    expect((await runCli(["virtualize", source, join(folder, "x"), "--shards", ...flags])).code).toBe(2);
  });
});
