/**
 * [FH-03] Only absent objects read as the fill value: a folder, a dead link or a pipe in place of a chunk or shard
 * is an error that names it.
 */

import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, rmdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { FileStore } from "../../src/node/fs/fs-store.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { createZarr } from "../../src/zarr/write/create.ts";
import type { WritableZarrArray } from "../../src/zarr/write/writable-array.ts";
import { runCli } from "../cli/harness.ts";
import { temporaryFolder } from "../folder.ts";
import { withCounting } from "../store/counting.ts";

const CODECS = [
  { name: "bytes", configuration: { endian: "little" } },
  { name: "gzip", configuration: {} },
];
const SHARDING = {
  name: "sharding_indexed",
  configuration: {
    chunk_shape: [2],
    codecs: CODECS,
    index_codecs: [{ name: "bytes", configuration: { endian: "little" } }, { name: "crc32c" }],
  },
};
const base = { shape: [20], dataType: "int32", fillValue: -1 } as const;
const KINDS = {
  chunks: { ...base, chunkShape: [4] },
  shards: { ...base, chunkShape: [2], shardShape: [4] },
  "shards that are compressed": { ...base, chunkShape: [4], codecs: [SHARDING, ...CODECS.slice(1)] },
  "so many chunks that the store is listed": { ...base, shape: [20_000], chunkShape: [4] },
} as const;

async function make(kind: keyof typeof KINDS): Promise<{ array: WritableZarrArray; root: string }> {
  const root = temporaryFolder();
  const array = await createZarr(new FileStore(join(root, "a")), "", KINDS[kind]);
  await array.set([{ start: 0, stop: 4, step: 1 }], Int32Array.of(1, 2, 3, 4));
  await mkdir(join(root, "a", "c", "2"));
  return { array, root };
}

describe.each(Object.keys(KINDS) as (keyof typeof KINDS)[])("%s", (kind) => {
  test("are not taken for the fill value", async () => {
    const { root } = await make(kind);
    const array = await openZarrArray(new FileStore(join(root, "a")), "");
    const error = {
      code: "INCOMPLETE",
      details: { path: join(root, "a", "c", "2"), expected: "a file, or nothing", found: "a folder" },
    };
    await expect(array.get()).rejects.toMatchObject(error);
    await expect(array.get([9])).rejects.toMatchObject(error);
    expect(await array.get([3])).toBe(4);
    expect(await array.get([4])).toBe(-1);
    expect(await array.verify()).toMatchObject({ ok: false });
    const listed = async (): Promise<void> => {
      for await (const _ of array.listChunks());
    };
    await expect(listed()).rejects.toMatchObject(error);
    const verified = await runCli(["verify", root]);
    expect(verified).toMatchObject({ code: 3 });
    expect(verified.out).toContain(join("a", "c", "2"));
    expect((await runCli(["chunks", join(root, "a")])).err).toContain("a folder is at the path of the chunk");
  });
});

/** Archives that git-annex and DataLad have not fetched are dangling links. */
describe.each(Object.keys(KINDS) as (keyof typeof KINDS)[])("%s that cannot be read", (kind) => {
  test.each([
    ["a dead link", "INCOMPLETE", (path: string): Promise<void> => symlink("../../annex/objects/xx", path)],
    ["a pipe", "UNSUPPORTED", async (path: string): Promise<void> => void execFileSync("mkfifo", [path])],
  ] as const)("and are %s are not taken for the fill value, nor converted to it", async (_, code, put) => {
    const { root } = await make(kind);
    const path = join(root, "a", "c", "2");
    await rmdir(path);
    await put(path);
    const array = await openZarrArray(new FileStore(join(root, "a")), "");
    const error = { code, details: { path } };
    await expect(array.get()).rejects.toMatchObject(error);
    expect(await array.verify()).toMatchObject({ ok: false, findings: [{ code, path }] });
    const listed = async (): Promise<void> => {
      for await (const _ of array.listMissing());
    };
    await expect(listed()).rejects.toMatchObject(error);
    for (const format of ["zarr", "npy"]) {
      const target = join(root, `to-${format}`);
      const { code: exit, err } = await runCli(["convert", join(root, "a"), target, "--to", format]);
      expect(exit).toBe(code === "INCOMPLETE" ? 3 : 1);
      expect(err).toContain(path);
      expect(existsSync(format === "npy" ? target : join(target, "zarr.json"))).toBe(false);
    }
  });
});

test.each([["c"], ["c/2"]])("a dead link in place of a folder of chunks, %s, is reported", async (key) => {
  const root = temporaryFolder();
  const specification = { ...base, shape: [100, 100], chunkShape: [1, 1] };
  const array = await createZarr(new FileStore(root), "", specification);
  if (key !== "c") await array.set([0, 0], 1);
  await symlink("gone", join(root, key));
  const error = { code: "INCOMPLETE", details: { path: join(root, key) } };
  await expect(array.get([2, 3])).rejects.toMatchObject(error);
  await expect(array.verify()).rejects.toMatchObject(error);
  expect(await runCli(["verify", root])).toMatchObject({ code: 3 });
});

test("a missing chunk takes one more lookup of a folder, and an existing one none", async () => {
  const { array } = await make("chunks");
  const { store, counts, reset } = withCounting(array.store);
  const counted = await openZarrArray(store, "");
  reset();
  await counted.get([{ start: 0, stop: 4, step: 1 }]);
  expect(counts.log).not.toContain("isFolder c/0");
  const there = counts.requests;
  reset();
  await counted.get([{ start: 4, stop: 8, step: 1 }]);
  expect(counts.log).toContain("isFolder c/1");
  expect(counts.requests).toBe(there + 1);
});
