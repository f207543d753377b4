/** Nodes of a Zarr group that cannot be converted are left out and reported, like archives of a folder. */

import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { deflateSync } from "node:zlib";
import { expect, test } from "vitest";
import { MemoryStore } from "../../src/store/memory.ts";
import { openZarr } from "../../src/zarr/read/open.ts";
import { convert } from "../../src/zarr.ts";
import { runCli } from "../cli/harness.ts";
import { planOne } from "../convert/to-zarr/plan-one.ts";
import { keysOf } from "../convert/to-zarr/read-back.ts";
import { temporaryFolder } from "../folder.ts";

const text = (value: string): Uint8Array => new TextEncoder().encode(value);
const array = (change: object): Uint8Array =>
  text(
    JSON.stringify({
      ...{ zarr_format: 2, shape: [4], chunks: [2], dtype: "<i2", order: "C", fill_value: 0 },
      ...{ filters: null, compressor: { id: "zlib", level: 1 }, ...change },
    }),
  );
const chunk = (...values: number[]): Uint8Array =>
  deflateSync(new Uint8Array(Int16Array.from(values).buffer));

/** Two good arrays, and three that are not: lists of variable length, a damaged chunk, an invalid document. */
const OBJECTS: Readonly<Record<string, Uint8Array>> = {
  ".zgroup": text('{"zarr_format": 2}'),
  ".zattrs": text('{"scale": NaN}'),
  "good/.zarray": array({}),
  "good/.zattrs": text('{"range": [0, {"top": Infinity}], "unit": "m"}'),
  "good/0": chunk(1, 2),
  "good/1": chunk(3, 4),
  "names/.zarray": array({ dtype: "|O", fill_value: "", filters: [{ id: "vlen-array" }] }),
  "torn/.zarray": array({}),
  "torn/0": chunk(1, 2),
  "torn/1": chunk(3, 4).subarray(0, 6),
  "below/.zgroup": text('{"zarr_format": 2}'),
  "below/good/.zarray": array({ compressor: null }),
  "below/good/0": new Uint8Array([5, 0, 6, 0]),
  "below/odd/.zarray": text('{"zarr_format": 2, "shape": [-1]}'),
};

async function makeStore(): Promise<MemoryStore> {
  const store = new MemoryStore();
  for (const [key, bytes] of Object.entries(OBJECTS)) await store.put(`g/${key}`, bytes);
  return store;
}

async function makeFolder(): Promise<string> {
  const folder = temporaryFolder();
  for (const [key, bytes] of Object.entries(OBJECTS)) {
    await mkdir(dirname(join(folder, "in/g", key)), { recursive: true });
    await writeFile(join(folder, "in/g", key), bytes);
  }
  return folder;
}

test("on request, arrays of a group that cannot be converted are left out, with nothing of them at the destination", async () => {
  const root = await openZarr(await makeStore(), "g");
  const target = new MemoryStore();
  await expect(convert(root, { store: target, path: "z" })).rejects.toMatchObject({ code: "BAD_FIELD" });
  expect(await keysOf(target)).toEqual([]);

  const result = await convert(root, { store: target, path: "z" }, { skipFailed: true, verify: true });
  expect(result).toMatchObject({ arrays: 2, groups: 2, verified: true });
  expect(result.failures.map(({ node, code }) => [node, code]).sort()).toEqual([
    ["below/odd", "BAD_FIELD"],
    ["names", "UNSUPPORTED"],
    ["torn", expect.stringMatching(/TRUNCATED|BAD_FIELD|BAD_CHUNK|CHECKSUM_MISMATCH/)],
  ]);
  expect((await keysOf(target)).filter((key) => /torn|names|odd/.test(key))).toEqual([]);
  const { consolidated_metadata: consolidated } = JSON.parse(
    new TextDecoder().decode(await target.get("z/zarr.json")),
  ) as { consolidated_metadata: { metadata: object } };
  expect(Object.keys(consolidated.metadata)).toEqual(["below", "below/good", "good"]);
  const { arrays } = await planOne(root);
  expect(arrays.map(({ node, action }) => `${node} ${action}`).sort()).toEqual([
    "below/good copy",
    "below/odd refuse",
    "good recode",
    "names refuse",
    "torn recode",
  ]);
});

test("if no array of a group can be converted, the first reason ends the conversion, and nothing is written", async () => {
  const store = new MemoryStore();
  for (const key of [".zgroup", "names/.zarray"]) await store.put(key, OBJECTS[key] ?? text(""));
  const target = new MemoryStore();
  await expect(
    convert(await openZarr(store, ""), { store: target }, { skipFailed: true }),
  ).rejects.toMatchObject({
    code: "UNSUPPORTED",
  });
  expect(await keysOf(target)).toEqual([]);
});

test("the command skips them, names each, and ends with the worst code; a group in a folder does the same", async () => {
  const folder = await makeFolder();
  const report = join(folder, "report.json");
  const alone = await runCli(["convert", join(folder, "in/g"), join(folder, "alone"), "--report", report]);
  expect(alone.code).toBe(3);
  expect(alone.out).toMatch(/3 arrays not converted\n$/);
  for (const name of ["names", "torn", "odd"])
    expect(alone.err).toMatch(new RegExp(`not converted: .*${name}`));
  const { archives } = JSON.parse(await readFile(report, "utf8")) as { archives: { status: string }[] };
  expect(archives.map(({ status }) => status)).toEqual(["converted", "failed", "failed", "failed"]);
  const planned = await runCli(["convert", join(folder, "in/g"), join(folder, "x"), "--dry-run"]);
  expect(planned.code).toBe(alone.code);
  expect(planned.out).toMatch(/\/names +refuse/);

  const many = await runCli(["convert", join(folder, "in"), join(folder, "many")]);
  expect(many.code).toBe(3);
  expect(many.out).toContain("1 archive converted, 3 failed");
  const plans = await runCli(["convert", join(folder, "in"), join(folder, "x"), "--dry-run"]);
  expect(plans.out).toMatch(/recode +\d+ bytes .*g -> \/g/);
  expect(plans.out).toMatch(/refuse .*names -> \/g\/names: .*UNSUPPORTED/);
  for (const made of [join(folder, "alone"), join(folder, "many/g")]) {
    expect((await runCli(["cat", join(made, "good")])).out).toBe("1\n2\n3\n4\n");
    expect((await runCli(["verify", made])).code).toBe(0);
  }
});

test("attribute numbers that JSON lacks become their names, and are reported with their attribute", async () => {
  const result = await convert(
    await openZarr(await makeStore(), "g"),
    { store: new MemoryStore(), path: "z" },
    {
      skipFailed: true,
    },
  );
  expect(result.notes).toEqual([
    expect.stringContaining('the attribute "scale" holds NaN'),
    expect.stringContaining('good: the attribute "range" holds Infinity'),
  ]);
});
