/** Zarr of every version becomes Zarr v3 with the same stored chunks. */

import { join } from "node:path";
import { expect, test } from "vitest";
import { encode } from "../../src/codec/index.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { openZarr, openZarrArray } from "../../src/zarr/read/open.ts";
import { convert } from "../../src/zarr.ts";
import { runCli } from "../cli/harness.ts";
import { planOne } from "../convert/to-zarr/plan-one.ts";
import { corpusStore, keysOf, sha256 } from "../convert/to-zarr/read-back.ts";
import { type ArrayFixture, corpusFolder, loadFixtures } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";

const json = (value: object): Uint8Array => new TextEncoder().encode(JSON.stringify(value));
const BLOSC = { id: "blosc", cname: "lz4", clevel: 5, shuffle: 1, blocksize: 0 };
const base = {
  zarr_format: 2,
  shape: [7, 4],
  chunks: [4, 2],
  dtype: ">i2",
  compressor: BLOSC,
  fill_value: 258,
  filters: null,
  order: "C",
};

async function makeV2(): Promise<MemoryStore> {
  const store = new MemoryStore();
  await store.put("s/.zgroup", json({ zarr_format: 2 }));
  await store.put("s/.zattrs", json({ title: "old" }));
  for (const [name, order, second] of [
    ["c", "C", "x"],
    ["f", "F", null],
  ] as const) {
    await store.put(`s/g/${name}/.zarray`, json({ ...base, order }));
    await store.put(`s/g/${name}/.zattrs`, json({ unit: "m", _ARRAY_DIMENSIONS: ["time", second] }));
    for (const key of ["0.0", "0.1", "1.1"]) {
      const items = Uint8Array.from({ length: 16 }, (_, i) => i + key.charCodeAt(0) + key.charCodeAt(2));
      await store.put(`s/g/${name}/${key}`, await encode(items, { typesize: 2 }));
    }
  }
  await store.put("s/g/.zgroup", json({ zarr_format: 2 }));
  return store;
}

test("Zarr v2 becomes v3: payloads, values, attributes, fill values, dimension names, consolidated metadata", async () => {
  const store = await makeV2();
  const root = await openZarr(store, "s");
  const plan = await planOne(root);
  expect(plan.arrays.map(({ node, action }) => [node, action])).toEqual([
    ["g/c", "copy"],
    ["g/f", "copy"],
  ]);
  const target = new MemoryStore();
  const result = await convert(root, { store: target, path: "z" }, { verify: true });
  expect(result).toMatchObject({ arrays: 2, groups: 2, chunksCopied: 6, chunksRecoded: 0, verified: true });
  for (const [name, second] of [
    ["c", "x"],
    ["f", "dim_1_4"],
  ] as const) {
    const from = await openZarrArray(store, `s/g/${name}`);
    const to = await openZarrArray(target, `z/g/${name}`);
    expect(to).toMatchObject({ dialect: "zarr3", fillValue: 258, dimensionNames: ["time", second] });
    // The attribute with the dimension names is a member of the document now.
    expect(to.attrs).toEqual({ unit: "m" });
    for (const [old, key] of [
      ["0.0", "0/0"],
      ["0.1", "0/1"],
      ["1.1", "1/1"],
    ] as const)
      expect(await target.get(`z/g/${name}/c/${key}`)).toEqual(await store.get(`s/g/${name}/${old}`));
    const expected = (await from.get()) as { data: ArrayLike<number> };
    const found = (await to.get()) as { data: ArrayLike<number> };
    expect(Array.from(found.data)).toEqual(Array.from(expected.data));
  }
  const again = await openZarr(target, "z");
  expect(again.attrs).toEqual({ title: "old" });
  target.list = () => {
    throw new Error("listed");
  };
  expect(again.kind === "group" ? await again.members() : []).toEqual(["g"]);
});

const rows = loadFixtures("zarr3-sharded", "zarr3-transformer", "zarr3-rectilinear").filter(
  (row): row is ArrayFixture => row.kind === "array",
);

test.each(rows)("$path becomes Zarr v3 with its values", async (row) => {
  const root = await openZarr(corpusStore, row.path);
  const target = new MemoryStore();
  await convert(root, { store: target }, { verify: true });
  const to = await openZarrArray(target, row.arrayPath);
  expect(to.dialect).toBe("zarr3");
  expect(sha256(await to.getBytes())).toBe(row.sha256);
  expect(to.attrs).toEqual(row.attrs);
});

test("arrays that cannot be copied are refused before anything is written, if requested", async () => {
  const store = await makeV2();
  await store.put("s/g/f/.zarray", json({ ...base, compressor: { id: "zlib", level: 1 } }));
  const root = await openZarr(store, "s");
  const { arrays } = await planOne(root, { recode: false });
  expect(arrays[1]).toMatchObject({ node: "g/f", action: "refuse" });
  const target = new MemoryStore();
  await expect(convert(root, { store: target, path: "z" }, { recode: false })).rejects.toMatchObject({
    code: "UNSUPPORTED",
    details: { found: "zlib" },
  });
  expect(await keysOf(target)).toEqual([]);
});

test("an interrupted copy is resumed, but only from the same source, and a finished one is not replaced", async () => {
  const store = await makeV2();
  const root = await openZarr(store, "s");
  const target = new MemoryStore();
  const abort = new AbortController();
  const first = convert(
    root,
    { store: target, path: "z" },
    {
      signal: abort.signal,
      onProgress: () => abort.abort(new Error("enough")),
    },
  );
  await expect(first).rejects.toThrow("enough");
  expect(await target.stat("z/zarr.json")).toBeUndefined();
  await expect(convert(root, { store: target, path: "z" })).rejects.toMatchObject({ code: "CONFLICT" });
  const other = await openZarr(store, "s/g");
  await expect(convert(other, { store: target, path: "z" }, { resume: true })).rejects.toMatchObject({
    code: "CONFLICT",
  });
  const result = await convert(root, { store: target, path: "z" }, { resume: true, verify: true });
  // The first shard, whose progress ended the copy, and others that were under way.
  expect(result.shards).toBe(6);
  expect(result.shardsKept).toBeGreaterThanOrEqual(1);
  await expect(convert(root, { store: target, path: "z" })).rejects.toMatchObject({ code: "CONFLICT" });
  expect(await convert(root, { store: target, path: "z" }, { overwrite: true })).toMatchObject({
    shardsKept: 0,
  });
});

test("the command converts a transformer hierarchy, says before what it would do, and refuses options for archives", async () => {
  const folder = temporaryFolder();
  const source = join(corpusFolder, "zarr3-transformer", "u2-dot-group");
  const target = join(folder, "new.zarr");
  const plan = await runCli(["convert", source, target, "--dry-run"]);
  expect(plan).toMatchObject({ code: 0, out: expect.stringMatching(/\/grp\/sub\/arr +copy/) as string });
  expect(await runCli(["convert", source, target, "--shard-size", "1MiB"])).toMatchObject({ code: 2 });
  const done = await runCli(["convert", source, target, "--verify"]);
  expect(done).toMatchObject({ code: 0, out: expect.stringContaining("18 chunks copied") as string });
  const [expected, found] = await Promise.all(
    [source, target].map((path) => runCli(["cat", join(path, "grp", "sub", "arr"), "--format", "raw"])),
  );
  expect(found?.bytes.equals(expected?.bytes ?? Buffer.alloc(0))).toBe(true);
  expect((await runCli(["verify", target])).code).toBe(0);
});

test("an array whose verification fails does not look complete", async () => {
  const store = new MemoryStore();
  await store.put("s/.zarray", json({ ...base, shape: [1000], chunks: [1000] }));
  const chunk = Uint8Array.from(await encode(new Uint8Array(2000), { typesize: 2 }));
  // The header stays whole, and copying looks at nothing else; the first block's start is moved outside the chunk.
  chunk.fill(0xff, 16, 20);
  await store.put("s/0", chunk);
  const target = new MemoryStore();
  const node = await openZarr(store, "s");
  await expect(convert(node, { store: target, path: "z" }, { verify: true })).rejects.toMatchObject({
    name: "SuperchunkError",
  });
  expect(await target.stat("z/zarr.json")).toBeUndefined();
  expect(await target.stat("z/.superchunk-convert.json")).toBeDefined();
});
