/** How chunks are cut if the caller gives no length: by the rows expected, and by the purpose of the array. */
import * as fs from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { create } from "../../../src/node/index.ts";
import { runCli } from "../../cli/harness.ts";
import { temporaryFolder } from "./support.ts";

const MIB = 1 << 20;
const KIB = 1 << 10;

/** Bytes of an inner chunk, according to `zarr.json`. */
function chunkBytes(root: string): number {
  const { codecs } = JSON.parse(fs.readFileSync(join(root, "zarr.json"), "utf8")) as {
    codecs: [{ configuration: { chunk_shape: [number] } }];
  };
  return codecs[0].configuration.chunk_shape[0] * 8;
}

test.each([
  ["its length is unknown", {}, MIB],
  ["it is empty at first", { expectedLength: 10 }, 16 * KIB],
  ["16 MiB are expected", { expectedLength: 2 * MIB }, 128 * KIB],
  ["200 MB are expected", { expectedLength: 25_000_000 }, MIB],
  ["it is optimized for reading", { expectedLength: 10, optimize: "read" }, MIB],
  ["it is optimized for updates", { expectedLength: 125_000_000, optimize: "update" }, 128 * KIB],
  ["it is short and optimized for updates", { expectedLength: 1000, optimize: "update" }, 16 * KIB],
  ["a length is given", { chunkLength: 32, optimize: "read" }, 256],
] as const)("chunks of a Zarr array if %s", async (_, options, bytes) => {
  const root = join(temporaryFolder(), "array");
  await (await create(root, { dtype: "<f8", zarr: true, ...options })).close();
  expect(chunkBytes(root)).toBe(bytes);
});

test("no Zarr array gets chunks with snappy, which zarr-python cannot decode", async () => {
  const folder = temporaryFolder();
  const snappy = { dtype: "<f8", compressor: { cname: "snappy" }, data: Float64Array.of(1, 2, 3) } as const;
  const refusal = { code: "UNSUPPORTED", details: { field: "cname", path: join(folder, "array") } };
  await expect(create(join(folder, "array"), { ...snappy, zarr: true })).rejects.toMatchObject(refusal);
  await expect(create(join(folder, "array"), { ...snappy, format: "zarr" })).rejects.toMatchObject(refusal);
  const codecs = [
    { name: "bytes" },
    { name: "blosc", configuration: { cname: "snappy", clevel: 5, shuffle: "noshuffle", blocksize: 0 } },
  ];
  const plain = { format: "zarr", dtype: "|u1", codecs } as const;
  await expect(create(join(folder, "array"), plain)).rejects.toMatchObject(refusal);
  expect(fs.existsSync(join(folder, "array"))).toBe(false);
  await (await create(join(folder, "array"), snappy)).close();
  const live = await runCli(["link", join(folder, "array"), "--live"]);
  expect([live.code, live.err]).toEqual([1, expect.stringContaining("superchunk compact PATH --codec lz4")]);
  expect((await runCli(["compact", join(folder, "array"), "--codec", "lz4"])).code).toBe(0);
  expect((await runCli(["link", join(folder, "array"), "--live"])).code).toBe(0);
  for (const more of [["--dry-run"], []])
    expect(await runCli(["compact", join(folder, "array"), "--codec", "snappy", ...more])).toMatchObject({
      code: 1,
      err: expect.stringContaining("zarr-python cannot decode") as string,
    });
});

test("columns are cut by their own bytes, and only arrays of superchunks by those of a change", async () => {
  const folder = temporaryFolder();
  const dtype = Array.from({ length: 16 }, (_, i) => [`c${i}`, "<f8"] as const).map((field) => [...field]);
  const table = await create(join(folder, "table"), { dtype, zarr: true, expectedLength: 2 * MIB });
  await table.close();
  expect(chunkBytes(join(folder, "table", "c3"))).toBe(128 * KIB);
  const plain = await create(join(folder, "plain"), { dtype: "<f8", expectedLength: 125_000_000 });
  expect(plain.chunkLength).toBe(16 * KIB);
  await plain.close();
  const read = await create(join(folder, "read"), { dtype: "<f8", optimize: "read" });
  expect(read.chunkLength).toBe(128 * KIB);
  await read.close();
});

test("one very long text does not make chunks of a few rows", async () => {
  const folder = temporaryFolder();
  const lengths = [
    [{ dtype: "<U64" }, 512],
    [{ dtype: "<U6000" }, 349],
    [{ dtype: "|S6000" }, 512],
    [
      {
        dtype: [
          ["id", "<i8"],
          ["note", "<U6000"],
        ],
        columns: false,
      },
      349,
    ],
    [
      {
        dtype: [
          ["id", "<i8"],
          ["note", "<U6000"],
        ],
      },
      349,
    ],
    [{ dtype: "|V6000" }, 21],
  ] as const;
  for (const [i, [options, rows]] of lengths.entries()) {
    await using made = await create(join(folder, `${i}`), options as { dtype: string });
    expect([options, made.chunkLength]).toEqual([options, rows]);
  }
});

test("the command takes --optimize, and refuses it where it has no meaning", async () => {
  const root = join(temporaryFolder(), "array");
  const made = ["create", root, "--dtype", "<f8", "--zarr", "--expectedlen", "10", "--optimize", "read"];
  expect(await runCli(made)).toMatchObject({ code: 0 });
  expect(chunkBytes(root)).toBe(MIB);
  for (const wrong of [
    ["--optimize", "both"],
    ["--as", "carray", "--optimize", "read"],
  ])
    expect(await runCli(["create", `${root}2`, "--dtype", "<f8", ...wrong])).toMatchObject({ code: 2 });
  await expect(create(`${root}3`, { dtype: "<f8", optimize: "both" as "read" })).rejects.toMatchObject({
    code: "BAD_ARGUMENT",
    message: expect.stringContaining("optimize is both, expected one of read, update") as string,
  });
});
