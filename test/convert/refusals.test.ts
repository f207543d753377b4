/** Conversions that cannot be made: the error says why, and what to do instead; nothing is written. */
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { inflateSync } from "node:zlib";
import { beforeAll, describe, expect, test } from "vitest";
import { TARGETS } from "../../cli/commands/convert.ts";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/archive/open/open.ts";
import { compressBytes } from "../../src/begin.ts";
import { convert as convertIn } from "../../src/convert/run/convert.ts";
import { repairArray } from "../../src/convert/run/repair.ts";
import type { SuperchunkError } from "../../src/errors.ts";
import type { ConvertPathOptions } from "../../src/node/convert.ts";
import { FileStore } from "../../src/node/fs/fs-store.ts";
import { convert, create, openArray, open as openPath, planConversion } from "../../src/node/index.ts";
import { runCli } from "../cli/harness.ts";
import { corpusFolder } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";

let folder: string;
const at = (name: string): string => join(folder, name);

beforeAll(async () => {
  folder = temporaryFolder();
  await (await create(at("a"), { dtype: "<i4", data: Int32Array.of(1, 2, 3) })).close();
  await (await create(at("more/a"), { dtype: "<i4", data: Int32Array.of(4) })).close();
  await (await create(at("one.zarr"), { format: "zarr", dtype: "<i4", shape: [] })).close();
  await (await create(at("none.zarr"), { format: "zarr", dtype: "<i4", shape: [3, 0] })).close();
  await (await create(at("empty.zarr"), { format: "zarr", kind: "group" })).close();
  await (await create(at("empty.zarr/x"), { format: "zarr", dtype: "<i4", shape: [3, 0] })).close();
  const table = await create(at("t"), { format: "bcolz", dtype: [["x", "<i4"]], shape: [3] });
  await table.close();
  const fortran = join(corpusFolder, "bloscpack-3", "array-f4-3d-fortran.blp");
  for (const name of ["f1.blp", "f2.blp"]) copyFileSync(fortran, at(name));
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
  [["a"], `${"x".repeat(256)}.zarr`, {}, "LIMIT", "the path is longer than the file system allows"],
  [["a"], "x.zarr", { shardSize: 0 }, "BAD_ARGUMENT", "a positive integer"],
  [["t"], "x.zarr", { columns: "x" }, "BAD_ARGUMENT", "expected a list of names"],
  [["t"], "x.zarr", { columns: ["y"] }, "NOT_FOUND", 'no column "y"; expected one of x'],
  [["a", "more/a"], "x.npy", { to: "npy", concat: true }, "BAD_ARGUMENT", "archives are joined in Zarr only"],
  [["a", "more/a"], "x.zarr", {}, "BAD_ARGUMENT", "under which both would be in the result"],
  [
    ["f1.blp", "f2.blp"],
    "x.zarr",
    { concat: true },
    "UNSUPPORTED",
    "in Fortran order, not row by row, so it",
  ],
  [["raw.blp", "a"], "x.zarr", { concat: true }, "UNSUPPORTED", "plain bytes without a data type"],
  [
    ["raw.blp"],
    "x.npy",
    { to: "npy", dtype: "<f8" },
    "BAD_ARGUMENT",
    "the 10 bytes of the archive are not a",
  ],
  [
    ["raw.blp"],
    "x.npy",
    { to: "npy", shape: [3] },
    "BAD_ARGUMENT",
    "is [3], but the archive has 10 items of 1",
  ],
  [
    ["raw.blp"],
    "x.npy",
    { to: "npy", shape: [-2, -5] },
    "BAD_ARGUMENT",
    "shape is [-2,-5], but the archive has",
  ],
  [
    ["one.zarr"],
    "x.parquet",
    { to: "parquet" },
    "UNSUPPORTED",
    "tables have rows; convert it to .npy or Zarr",
  ],
  [["none.zarr"], "x.parquet", { to: "parquet" }, "UNSUPPORTED", "no values; convert it to .npy or Zarr"],
  [["empty.zarr"], "x.blz", { to: "blz" }, "UNSUPPORTED", "rows of zero bytes, as all columns have here"],
  [["one.zarr"], "x.zr3", { to: "zarr3-transformer" }, "UNSUPPORTED", "older transformer"],
];
test.each(["npy", "bloscpack", "b2nd"] as const)(
  "the only array of a group, without dimensions, becomes the file that is named: %s",
  async (to) => {
    const node = { format: "zarr", dtype: "<i4", shape: [] } as const;
    await (await create(at(`${to}.zarr/deep/x`), { ...node, fillValue: 7 })).close();
    const ending = to === "bloscpack" ? "blp" : to;
    const made = at(`scalar.${ending}`);
    const plans = [];
    for await (const plan of planConversion(at(`${to}.zarr`), made, { to })) plans.push(plan);
    expect(plans.map((plan) => plan.node)).toEqual([""]);
    await convert(at(`${to}.zarr`), made, { to, verify: true });
    expect(statSync(made).isFile()).toBe(true);
    if (to === "npy") {
      const bytes = readFileSync(made);
      expect(bytes.toString("latin1")).toContain("'shape': ()");
      expect(bytes.readInt32LE(bytes.length - 4)).toBe(7);
      return;
    }
    const array = await openArray(made);
    expect([array.shape, [...(await array.get()).data]]).toEqual([[], [7]]);
    await array.close();
  },
);

test.each(refused)("%j to %s with %j is refused", async (sources, to, options, code, message) => {
  const paths = sources.map(at);
  const from = paths.length === 1 ? (paths[0] as string) : paths;
  await expect(convert(from, at(to), options as ConvertPathOptions)).rejects.toMatchObject({
    code,
    message: expect.stringContaining(message) as string,
  });
  expect(existsSync(at(to))).toBe(false);
});

test.each(TARGETS)("to %s, a source with an unknown codec leaves nothing", async (to) => {
  mkdirSync(at("lzma/x"), { recursive: true });
  const document = { zarr_format: 2, shape: [2], chunks: [2], dtype: "<i4", order: "C", fill_value: 0 };
  const text = JSON.stringify({ ...document, filters: null, compressor: { id: "lzma" } });
  writeFileSync(at("lzma/x/.zarray"), text);
  writeFileSync(at("lzma/.zgroup"), '{"zarr_format": 2}');
  for (const source of ["lzma", "lzma/x"]) {
    const refused = await convert(at(source), at("left"), { to }).then(
      ({ entries }) => entries.map(({ status }) => status).join(),
      (error: SuperchunkError) => error.code,
    );
    expect(["failed", "UNSUPPORTED"]).toContain(refused);
    expect(readdirSync(folder).filter((name) => name.includes("left"))).toEqual([]);
  }
});

test("a hierarchy that got only its record leaves nothing", async () => {
  const [store, bytes] = [new FileStore(folder), Float64Array.from({ length: 1000 }, Math.sin)];
  await compressBytes(new Uint8Array(bytes.buffer), store, "damaged.blp");
  writeFileSync(at("damaged.blp"), readFileSync(at("damaged.blp")).fill(0xff, 200));
  const code = "CHECKSUM_MISMATCH";
  await expect(convert(at("damaged.blp"), at("damaged.zarr"))).rejects.toMatchObject({ code });
  expect(existsSync(at("damaged.zarr"))).toBe(false);
  const inside = { store, path: "inside" };
  await expect(convertIn(await open(store, "damaged.blp"), inside)).rejects.toMatchObject({ code });
  expect(existsSync(at("inside"))).toBe(false);
});

/** `pack_ndarray` of bloscpack 0.16.0 of `np.array(42.5)`, and of `np.zeros((0, 3), "<i4")`, in zlib. */
const VALUE =
  "eNpLyinIZmZm5OBgYGAAYUYGCOCC0l7B/n5gBiMjmw2QimBiYLBhQICKOavDvDRX6niEbgoK2u65OSD8UqDWOQ+Wj4uTS6d86g4K6m4IOufw8MmfPZOOnLExsF9vsn1B0EoxBtUmoc0Mo2AU4ADzZSTTvzBB2P+pDJgYheHpXQJmoYOrAw9jMRsANIpz+A==";
const NO_ROWS =
  "eNpLyinIZmZmZGGAAkYozQWlvYL9/SASjGz2QKqMiYHBngEBKuasDvPSXKnjEbopKGj7SZPA8EuBWuc8WD4u5i3pSS6d8qk7KKi7YdM5h5lP/uyZdOSMjYH9epPtC4JWijEEBAk7MoyCUUA6CJCV3izEDGH/pzJgYhRmgeUEASDWYTjKCAACPHNk";

test("Bloscpack files without dimensions or without rows become what can hold them", async () => {
  writeFileSync(at("value.blp"), inflateSync(Buffer.from(VALUE, "base64")));
  writeFileSync(at("none.blp"), inflateSync(Buffer.from(NO_ROWS, "base64")));
  await convert(at("value.blp"), at("value.b2nd"), { verify: true });
  expect(readdirSync(folder).filter((name) => name.includes("value.b2nd"))).toEqual(["value.b2nd"]);
  const value = await openArray(at("value.b2nd"));
  const bytes = await value.getBytes([]);
  expect([value.shape, new Float64Array(bytes.slice().buffer)]).toEqual([[], Float64Array.of(42.5)]);
  for (const name of ["none.bcolz", "none.blz"]) {
    await convert(at("none.blp"), at(name), { verify: true });
    const array = await openPath(at(name));
    expect(array).toMatchObject({ kind: "array", shape: [0, 3] });
    expect((array as ArrayArchive).chunkLength).toBeGreaterThan(0);
  }
});

test("a name that bcolz does not take is refused before anything is written, with its array", async () => {
  const columns = ["c", "a b"].map((name) => at(`pair.zarr/${name}`));
  await (await create(at("pair.zarr"), { format: "zarr", kind: "group" })).close();
  for (const column of columns)
    await (await create(column, { format: "zarr", dtype: "<i4", shape: [3] })).close();
  const refused = { code: "BAD_ARGUMENT", details: { path: columns[1] } };
  const names = [at("pair.zarr"), at("pair.bcolz"), { to: "bcolz" }] as const;
  await expect(convert(...names)).rejects.toMatchObject(refused);
  await expect(planConversion(...names).next()).rejects.toMatchObject(refused);
});

test("the details of a conflict say if overwrite solves it, and a repair does not offer it", async () => {
  await convert(at("a"), at("twice.npy"), { to: "npy" });
  const [expected, store] = ["overwrite", new FileStore(folder)];
  await expect(convert(at("a"), at("twice.npy"), { to: "npy" })).rejects.toMatchObject({
    details: { expected },
  });
  await expect(convert(at("a"), at("a/b"), { to: "blz" })).rejects.not.toMatchObject({
    details: { expected },
  });
  await convert(at("raw.blp"), at("again.blp"), { to: "bloscpack" });
  const into = { store, path: "again.blp" };
  const refused = { code: "CONFLICT", summary: "the destination exists; name another" };
  await expect(repairArray(store, "raw.blp", { into })).rejects.toMatchObject(refused);
});

/** Every file and folder below a folder. */
const below = (name: string): string[] => readdirSync(at(name), { recursive: true, encoding: "utf8" });

describe("what is refused or fails leaves no folder that it made", () => {
  beforeAll(() => {
    mkdirSync(at("left"));
    const bytes = readFileSync(join(corpusFolder, "bloscpack-3/array-f8.blp"));
    bytes.fill(0xff, bytes.length / 2, bytes.length / 2 + 40);
    for (const name of ["hurt.blp", "many/hurt.blp"]) {
      mkdirSync(dirname(at(name)), { recursive: true });
      writeFileSync(at(name), bytes);
    }
    writeFileSync(at("rows.csv"), "x\n1\nno\n");
    writeFileSync(at("rows"), new Uint8Array(99));
  });
  const dtype = ["--dtype", '[["x","<i4"]]'];
  test.each([
    ["convert", "hurt.blp", "left/a/b/c.npy"],
    ["convert", "hurt.blp", "left/a/b/c.zarr"],
    ["convert", "hurt.blp", "left/a/b/c", "--to", "bcolz"],
    ["convert", "many", "left/a/b/c", "--to", "blz"],
    ["create", "left/a/b/c", "--from", "rows.csv", ...dtype],
    ["create", "left/a/b/c", "--from", "rows.csv", "--as", "ctable", ...dtype],
    ["create", "left/a/b/c", "--dtype", "<f8", "--place", "file:///proc/none"],
    ["compress", "rows", "left/a/b/c.blp", "--chunk-size", "10", "--max-app-chunks", "99999999999999"],
    ["decompress", "hurt.blp", "left/a/b/c"],
    ["virtualize", "rows", "left/a/b/c.json"],
    ["repair", "many", "left/a/b/c"],
    ["plan", "rows", "left/a/b/c.zarr", "-o", "left/a/b/plan.json"],
  ])("%s %s %s", async (...argv) => {
    const words = argv.map((word) => (/^(?:hurt|many|rows|left)/.test(word) ? at(word) : word));
    const { code } = await runCli(words);
    expect(code).not.toBe(0);
    expect(below("left")).toEqual([]);
  });
});

test("a file in the way of a folder, and a folder in the way of a file, are named, and stay", async () => {
  mkdirSync(at("way"));
  writeFileSync(at("way/file"), "x");
  for (const folder of ["way/file", "way/file/below/deep.zarr"])
    for (const options of [{}, { overwrite: true }] as const) {
      const made = convert(at("a"), at(folder), { to: "zarr", ...options });
      await expect(made).rejects.toMatchObject({
        code: "CONFLICT",
        message: `${at("way/file")}: this is a file, but a folder is needed; choose another path, or move the file away`,
      });
    }
  expect(readFileSync(at("way/file"), "utf8")).toBe("x");
  for (const to of ["npy", "bloscpack", "b2nd", "arrow"] as const) {
    mkdirSync(at(`way/folder/${to}`), { recursive: true });
    const made = convert(at("a"), at("way/folder"), { to, overwrite: true });
    await expect(made).rejects.toThrow("a folder is there, where a file is to be written");
  }
  expect(below("way").sort()).toEqual(
    ["file", "folder", "folder/arrow", "folder/b2nd", "folder/bloscpack", "folder/npy"].sort(),
  );
});
