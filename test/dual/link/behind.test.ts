/** [FL-07] A linked archive that changed: its Zarr view shows the old state, whole, until it is linked again. */
import * as fs from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { encodeNpyHeader } from "../../../src/format/npy.ts";
import { create as createArray, edit as openWritable } from "../../../src/node/edit.ts";
import { FileStore, link, verifyLinkAt } from "../../../src/node/index.ts";
import { openZarrArray } from "../../../src/zarr/read/open.ts";
import { decodeShardIndex, shardIndexLength } from "../../../src/zarr/read/shard-index.ts";
import { runCli } from "../../cli/harness.ts";
import { makeFile, stored } from "../../format/small-archives.ts";
import { temporaryFolder } from "./support.ts";

const OPTIONS = { dtype: "<i4", chunkLength: 4, superchunkLength: 3, threads: 0 } as const;
const BEFORE = Int32Array.from({ length: 30 }, (_, i) => i);

async function make(kind: "hard" | "symbolic" | "copy" = "hard"): Promise<string> {
  const root = join(temporaryFolder(), "array");
  const array = await createArray(root, OPTIONS);
  await array.append(BEFORE);
  await array.close();
  await link(root, undefined, { kind });
  return root;
}

async function viewOf(root: string): Promise<unknown> {
  return ((await (await openZarrArray(new FileStore(root), "")).get()) as { data: unknown }).data;
}

async function change(
  root: string,
  work: (array: Awaited<ReturnType<typeof openWritable>>) => Promise<void>,
): Promise<void> {
  const array = await openWritable(root, { threads: 0 });
  await work(array);
  await array.close();
}

const BEHIND = [{ severity: "warning", code: "BEHIND" }];

describe.each(["hard", "copy"] as const)("linked by %s", (kind) => {
  test("a link that ended before its last document was written is behind, and linking again completes it", async () => {
    const root = await make(kind);
    fs.rmSync(join(root, "zarr.json"));
    fs.rmSync(join(root, "c", "0"));
    expect(await verifyLinkAt(root)).toMatchObject(BEHIND);
    const { code, out } = await runCli(["verify", root]);
    expect(code).toBe(1);
    expect(out).toContain(
      'the link was interrupted: no Zarr reader opens it yet. "superchunk link" completes it',
    );
    await link(root, undefined, { kind });
    expect(await verifyLinkAt(root)).toEqual([]);
    expect(await viewOf(root)).toEqual(BEFORE);
  });

  test.each([
    ["set", (a) => a.set([{ start: 1, stop: 3, step: 1 }], 7)],
    ["append", (a) => a.append(Int32Array.of(1, 2, 3))],
    ["shrink", (a) => a.resize(5)],
    ["delete", async (a) => void (await a.deleteRows(2, 9))],
    ["attributes", (a) => a.setAttributes({ unit: "m" })],
    ["compact to other chunks", (a) => a.compact({ chunkLength: 5, compressor: { cname: "zstd" } })],
  ] satisfies readonly (readonly [
    string,
    (array: Awaited<ReturnType<typeof openWritable>>) => Promise<void>,
  ])[])(
    "after %s, Zarr readers see all of the old state, and after linking again all of the new one",
    async (_, work) => {
      const root = await make(kind);
      expect(await verifyLinkAt(root)).toEqual([]);
      await change(root, work);
      expect(await viewOf(root)).toEqual(BEFORE);
      expect(await verifyLinkAt(root)).toMatchObject(BEHIND);
      await change(root, (a) => a.compact());
      expect(await viewOf(root)).toEqual(BEFORE);
      expect(await verifyLinkAt(root)).toMatchObject(BEHIND);
      await link(root, undefined, { kind });
      expect(await verifyLinkAt(root)).toEqual([]);
      const array = await openWritable(root, { threads: 0 });
      expect(await viewOf(root)).toEqual(((await array.get()) as { data: unknown }).data);
      await array.close();
    },
  );
});

test.each(["hard", "copy"] as const)("an array linked by %s is never changed in place", async (kind) => {
  const root = await make(kind);
  await expect(openWritable(root, { threads: 0, modify: "in-place" })).rejects.toMatchObject({
    code: "CONFLICT",
    details: { field: "modify" },
  });
  expect(await verifyLinkAt(root)).toEqual([]);
});

test("appending to a linked file leaves the old shards, or a symbolic link to a file that is no longer a shard", async () => {
  for (const kind of ["hard", "copy", "symbolic"] as const) {
    const file = join(temporaryFolder(), "bytes.blp");
    const chunks = [0, 4, 8].map((first) => stored(Uint8Array.from({ length: 4 }, (_, i) => first + i)));
    fs.writeFileSync(file, await makeFile({ chunks, spare: 100 }));
    const zarr = `${file}.zarr`;
    const { notes } = await link(file, zarr, { kind });
    expect(notes.some((note) => note.includes(`lead out of ${zarr}`))).toBe(kind === "symbolic");
    const shard = join(zarr, "c", "0");
    const before = fs.readFileSync(shard);
    const input = join(temporaryFolder(), "input");
    fs.writeFileSync(input, new Uint8Array(80));
    const inPlace = await runCli(["append", file, input, "--in-place"]);
    if (kind === "hard") {
      expect([inPlace.code, inPlace.err]).toEqual([1, expect.stringContaining("2 names")]);
      expect(await runCli(["append", file, input])).toMatchObject({ code: 0 });
    } else expect(inPlace).toMatchObject({ code: 0 });
    expect(fs.readFileSync(shard).equals(before)).toBe(kind !== "symbolic");
    if (kind !== "symbolic") continue;
    const bytes = new Uint8Array(fs.readFileSync(shard)).subarray(-shardIndexLength(3));
    const index = decodeShardIndex(bytes, { path: shard, size: bytes.length, grid: [3] });
    await expect(index).rejects.toMatchObject({ isDamage: true });
  }
});

test.each([
  ["a shard is gone", (root) => fs.rmSync(join(root, "c", "1"))],
  ["a document was changed", (root) => fs.appendFileSync(join(root, "zarr.json"), " ")],
  [
    "a shard was written to",
    (root) => {
      const shard = join(root, "c", "1");
      fs.chmodSync(shard, 0o644);
      fs.appendFileSync(shard, "x");
    },
  ],
] satisfies readonly (readonly [string, (root: string) => void])[])(
  "if %s as well, the view is damaged, not behind",
  async (_, damage) => {
    const root = await make();
    await change(root, (a) => a.append(Int32Array.of(1, 2, 3)));
    damage(root);
    const findings = await verifyLinkAt(root);
    expect(findings?.some(({ severity }) => severity === "error")).toBe(true);
    expect(findings).not.toMatchObject(BEHIND);
    expect((await runCli(["verify", root])).code).toBe(3);
  },
);

test("an array linked by symbolic links cannot be written to: a file that is removed would read as the fill value", async () => {
  const root = await make("symbolic");
  await expect(openWritable(root, { threads: 0 })).rejects.toMatchObject({
    code: "CONFLICT",
    details: { field: "kind" },
  });
  const set = await runCli(["set", root, "--slice", "0", "--value", "1"]);
  expect(set).toMatchObject({ code: 1 });
  expect(set.err).toContain("linked to Zarr by symbolic links");
  await runCli(["unlink", root]);
  expect((await runCli(["set", root, "--slice", "0", "--value", "1"])).code).toBe(0);
});

test.each([
  ["a carray", "carray", (folder) => ["--from", join(folder, "a.npy")]],
  ["a ctable", "ctable", (folder) => ["--column", `a=${join(folder, "a.npy")}`]],
] satisfies readonly (readonly [string, string, (folder: string) => string[]])[])(
  "%s that is linked: with hard links it may grow, and says that its view is behind; with symbolic links it is left alone",
  async (_, kind, inputs) => {
    const folder = temporaryFolder();
    const root = join(folder, "archive");
    const int = { kind: "int", itemSize: 4, byteOrder: "little" } as const;
    const npy = Buffer.concat([encodeNpyHeader(int, [30]), new Uint8Array(BEFORE.buffer)]);
    fs.writeFileSync(join(folder, "a.npy"), npy);
    const made = await runCli(["create", root, "--as", kind, ...inputs(folder), "--chunklen", "8"]);
    expect(made.err).toContain("archive");
    const input = kind === "ctable" ? `a=${join(folder, "a.npy")}` : join(folder, "a.npy");
    expect((await runCli(["link", root, "--link", "symbolic"])).code).toBe(0);
    for (const args of [
      ["append", root, input],
      ["resize", root, "5"],
    ]) {
      const refused = await runCli(args);
      expect(refused.code).toBe(1);
      expect(refused.err).toContain("linked to Zarr by symbolic links");
    }
    expect((await runCli(["verify", root])).code).toBe(0);
    await runCli(["unlink", root]);
    expect((await runCli(["link", root])).code).toBe(0);
    const appended = await runCli(["append", root, input]);
    expect(appended).toMatchObject({ code: 0 });
    expect(appended.err).toContain("its Zarr view still shows the old values");
    expect((await runCli(["verify", root])).out).toMatch(/^BEHIND /);
    expect((await runCli(["link", root])).code).toBe(0);
    expect((await runCli(["verify", root])).code).toBe(0);
  },
);
