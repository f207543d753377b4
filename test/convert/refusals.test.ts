/** Conversions that cannot be made: the error says why, and what to do instead; nothing is written. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { compressBytes } from "../../src/begin.ts";
import type { ConvertPathOptions } from "../../src/node/convert.ts";
import { FileStore } from "../../src/node/fs/fs-store.ts";
import { convert, create } from "../../src/node/index.ts";
import { temporaryFolder } from "../folder.ts";

let folder: string;
const at = (name: string): string => join(folder, name);

beforeAll(async () => {
  folder = temporaryFolder();
  await (await create(at("a"), { dtype: "<i4", data: Int32Array.of(1, 2, 3) })).close();
  await (await create(at("more/a"), { dtype: "<i4", data: Int32Array.of(4) })).close();
  await (await create(at("one.zarr"), { format: "zarr", dtype: "<i4", shape: [] })).close();
  const table = await create(at("t"), { format: "bcolz", dtype: [["x", "<i4"]], shape: [3] });
  await table.close();
  await compressBytes(new Uint8Array(10), new FileStore(folder), "raw.blp");
});

const refused: readonly (readonly [
  sources: readonly string[],
  to: string,
  options: Record<string, unknown>,
  code: string,
  message: string,
])[] = [
  [["a"], "x.zarr", { to: "xls" }, "BAD_ARGUMENT", "one of zarr"],
  [["a"], "x.zarr", { chunksPerShard: 2 ** 40 }, "LIMIT", "a shard holds at most"],
  [["a"], "x.zarr", { shardSize: 0 }, "BAD_ARGUMENT", "a positive integer"],
  [["t"], "x.zarr", { columns: "x" }, "BAD_ARGUMENT", "expected a list of names"],
  [["t"], "x.zarr", { columns: ["y"] }, "NOT_FOUND", 'no column "y"; expected one of x'],
  [["a", "more/a"], "x.npy", { to: "npy", concat: true }, "BAD_ARGUMENT", "archives are joined in Zarr only"],
  [["a", "more/a"], "x.zarr", {}, "BAD_ARGUMENT", "under which both would be in the result"],
  [["raw.blp", "a"], "x.zarr", { concat: true }, "UNSUPPORTED", "plain bytes without a data type"],
  [["raw.blp"], "x.npy", { to: "npy", dtype: "<f8" }, "BAD_ARGUMENT", "are not the 10 bytes of the archive"],
  [
    ["one.zarr"],
    "x.parquet",
    { to: "parquet" },
    "UNSUPPORTED",
    "tables have rows; convert it to .npy or Zarr",
  ],
  [["one.zarr"], "x.zr3", { to: "zarr3-transformer" }, "UNSUPPORTED", "older transformer"],
];
test.each(refused)("%j to %s with %j is refused", async (sources, to, options, code, message) => {
  const paths = sources.map(at);
  const from = paths.length === 1 ? (paths[0] as string) : paths;
  await expect(convert(from, at(to), options as ConvertPathOptions)).rejects.toMatchObject({
    code,
    message: expect.stringContaining(message) as string,
  });
  expect(existsSync(at(to))).toBe(false);
});
