/** `verifyOnly`: what an earlier conversion made is compared with its source, and nothing is written. */

import { createHash } from "node:crypto";
import { cp, mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { convert, create, edit, plan } from "../../src/node/index.ts";
import type { ConvertFormat, ConvertResult } from "../../src/zarr.ts";
import { temporaryFolder } from "../folder.ts";

const corpus = join(import.meta.dirname, "..", "..", "fixtures", "corpus");

const rows = Float64Array.from({ length: 1000 }, (_, i) => Math.round(1e4 * Math.sin(i)) / 100);

/** All files below a folder, or a file: names, times and contents. */
async function stateOf(path: string): Promise<string> {
  const hash = createHash("sha256");
  const isFolder = (await stat(path)).isDirectory();
  const names = isFolder ? (await readdir(path, { recursive: true })).sort() : [""];
  for (const name of names) {
    const { mtimeMs, size } = await stat(join(path, name));
    hash.update(`${name} ${mtimeMs} ${size}\n`);
    if ((await stat(join(path, name))).isFile()) hash.update(await readFile(join(path, name)));
  }
  return hash.digest("hex");
}

async function make(path: string, values = rows): Promise<string> {
  const array = await create(path, { dtype: "<f8", chunkLength: 64, data: values });
  await array.close();
  return path;
}

/** What a result says of each source. */
const failures = ({ entries }: ConvertResult) =>
  entries.filter(({ status }) => status === "failed").map(({ node, code }) => [node, code]);

const ENDINGS: readonly (readonly [ConvertFormat, string])[] = [
  ["zarr", ".zarr"],
  ["zarr3-transformer", ".zr3"],
  ["npy", ".npy"],
  ["bloscpack", ".blp"],
  ["bcolz", ".bcolz"],
  ["blz", ".blz"],
  ["parquet", ".parquet"],
  ["arrow", ".arrow"],
  ["b2nd", ".b2nd"],
];

describe.each(ENDINGS)("%s", (to, ending) => {
  test("is equal after the conversion, and different after a change of the source", async () => {
    const folder = temporaryFolder();
    const source = await make(join(folder, "prices"));
    const made = join(folder, `prices${ending}`);
    await convert(source, made, { to });
    const before = await stateOf(made);
    const same = await convert(source, made, { to, verifyOnly: true });
    expect(same).toMatchObject({ kept: 1, failed: 0, converted: 0, verified: true, arrays: 1, nbytes: 8000 });

    const array = await edit(source);
    await array.set([700], 1);
    await array.close();
    const other = await convert(source, made, { to, verifyOnly: true });
    expect(other).toMatchObject({ kept: 0, failed: 1, verified: false, arrays: 0 });
    expect(failures(other).map(([, code]) => code)).toEqual(["BAD_FIELD"]);
    expect(await stateOf(made)).toBe(before);
  });

  test("is equal if it has no rows", async () => {
    const folder = temporaryFolder();
    const source = await make(join(folder, "prices"), new Float64Array(0));
    const made = join(folder, `prices${ending}`);
    await convert(source, made, { to });
    const same = await convert(source, made, { to, verifyOnly: true });
    expect(same).toMatchObject({ kept: 1, failed: 0, verified: true, arrays: 1, nbytes: 0 });
  });

  test("that does not exist is not made", async () => {
    const folder = temporaryFolder();
    const source = await make(join(folder, "prices"));
    const made = join(folder, `absent${ending}`);
    const result = await convert(source, made, { to, verifyOnly: true });
    expect(failures(result).map(([, code]) => code)).toEqual(["NOT_FOUND"]);
    expect(result.entries[0]?.message).toContain(made);
    expect(await readdir(folder)).toEqual(["prices"]);
  });
});

test("a Zarr array whose attributes were edited is equal; one with another layout is not, and the field is named", async () => {
  const folder = temporaryFolder();
  const source = await make(join(folder, "prices"));
  const made = join(folder, "prices.zarr");
  await convert(source, made, { chunksPerShard: 4 });
  const array = await edit(made);
  await array.setAttributes({ unit: "EUR" });
  await array.close();
  expect(await convert(source, made, { chunksPerShard: 4, verifyOnly: true })).toMatchObject({ kept: 1 });
  const { entries } = await convert(source, made, { verifyOnly: true });
  expect(entries).toMatchObject([{ status: "failed", code: "BAD_FIELD" }]);
  expect(entries[0]?.message).toContain("chunk_grid is not what this conversion writes");
});

test("of a folder, every archive that differs or is absent is named, and each column that differs", async () => {
  const folder = temporaryFolder();
  const source = join(folder, "old");
  await mkdir(source);
  await cp(join(corpus, "bloscpack-3/array-f8.blp"), join(source, "a.blp"));
  await cp(join(corpus, "carray/bcolz-f8-chunks"), join(source, "b"), { recursive: true });
  await cp(join(corpus, "carray/bcolz-f8-chunks"), join(source, "c"), { recursive: true });
  const made = join(folder, "new.zarr");
  await convert(source, made);
  await rm(join(made, "b"), { recursive: true });
  const [shard = ""] = (await readdir(join(made, "c"), { recursive: true })).filter((name) =>
    /\/0$/.test(name),
  );
  const bytes = await readFile(join(made, "c", shard));
  bytes[40] = (bytes[40] ?? 0) ^ 0x55;
  await writeFile(join(made, "c", shard), bytes);
  const result = await convert(source, made, { verifyOnly: true });
  expect(result).toMatchObject({ kept: 1, failed: 2, verified: false });
  expect(failures(result).map(([node]) => node)).toEqual(["b", "c"]);
});

test.each(["parquet", "arrow"] as const)(
  "prices of %s that were converted in another way are not equal",
  async (to) => {
    const source = join(corpus, "ctable/bcolz-daily-equities");
    const kinds = ["raw", "decimal", "double"] as const;
    for (const prices of kinds) {
      const made = join(temporaryFolder(), `bars.${to}`);
      await convert(source, made, { to, parquet: { prices } });
      for (const other of kinds) {
        const result = await convert(source, made, { to, parquet: { prices: other }, verifyOnly: true });
        expect([prices, other, result.verified]).toEqual([prices, other, prices === other]);
      }
    }
  },
);

test("a plan does not take it", async () => {
  const folder = temporaryFolder();
  const source = await make(join(folder, "prices"));
  const asked = { output: join(folder, "plan.json"), verifyOnly: true };
  await expect(plan(source, join(folder, "p.zarr"), asked)).rejects.toMatchObject({
    code: "BAD_ARGUMENT",
    details: { field: "resume, overwrite, verifyOnly" },
  });
});
