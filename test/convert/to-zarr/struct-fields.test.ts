/** Structs with sub-arrays, for which Zarr has no data type, become groups with one array per field. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { open } from "../../../src/archive/open/open.ts";
import { planShards } from "../../../src/dual/shards.ts";
import { parseDType } from "../../../src/format/dtype.ts";
import type { JsonValue } from "../../../src/format/types.ts";
import { FileStore } from "../../../src/node/fs/fs-store.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import { compressArray } from "../../../src/write/bloscpack/bloscpack-write.ts";
import { openZarrArray } from "../../../src/zarr/read/open.ts";
import { convert, planReferences, zarrView } from "../../../src/zarr.ts";
import { runCli } from "../../cli/harness.ts";
import { temporaryFolder } from "../../folder.ts";
import { putCarray } from "./make-archive.ts";
import { planOne } from "./plan-one.ts";
import { documentAt, keysOf } from "./read-back.ts";

const ROWS = 5000;

/** `[('id','<i4'),('xyz','<f4',(3,))]`: row i has id i, and xyz [i, i + 0.25, -i]. */
const POINTS = [
  ["id", "<i4"],
  ["xyz", "<f4", [3]],
];
function points(rows: number): Uint8Array {
  const view = new DataView(new ArrayBuffer(rows * 16));
  for (let i = 0; i < rows; i++) {
    view.setInt32(i * 16, i, true);
    [i, i + 0.25, -i].forEach((value, k) => {
      view.setFloat32(i * 16 + 4 + 4 * k, value, true);
    });
  }
  return new Uint8Array(view.buffer);
}
const IDS = Array.from({ length: ROWS }, (_, i) => i);
const XYZ = IDS.flatMap((i) => [i, i + 0.25, -i]);

async function put(
  dtype: JsonValue,
  shape: readonly number[],
  data: Uint8Array,
  { order = "C", chunkSize = 16_000 }: { order?: "C" | "F"; chunkSize?: number } = {},
): Promise<MemoryStore> {
  const store = new MemoryStore();
  await compressArray({ dtype: parseDType(dtype, ""), shape, order, data }, store, "x.blp", { chunkSize });
  return store;
}

/** The values of a created array, in C order, and its shape. */
async function valuesAt(store: MemoryStore, path: string): Promise<{ shape: unknown; values: unknown[] }> {
  const array = await openZarrArray(store, path);
  const { data } = (await array.get()) as { data: ArrayLike<unknown> };
  return { shape: array.shape, values: Array.from(data) };
}

const namesOf = async (store: MemoryStore, path: string): Promise<unknown> =>
  (await documentAt(store, `${path}/zarr.json`))["dimension_names"];

test("each field becomes an array of a group, and sub-arrays become further dimensions", async () => {
  const archive = await open(await put(POINTS, [ROWS], points(ROWS)), "x.blp");
  const target = new MemoryStore();
  const result = await convert(archive, { store: target, path: "z" }, { verify: true });
  expect(result).toMatchObject({ verified: true, chunksCopied: 0, nbytes: ROWS * 16 });
  expect(result.notes).toEqual([expect.stringMatching(/^its items have sub-arrays.* a separate array$/)]);
  expect(await valuesAt(target, "z/id")).toEqual({ shape: [ROWS], values: IDS });
  expect(await valuesAt(target, "z/xyz")).toEqual({ shape: [ROWS, 3], values: XYZ });
  expect(await namesOf(target, "z/id")).toEqual(["row"]);
  expect(await namesOf(target, "z/xyz")).toEqual(["row", "dim_1"]);
  expect(await documentAt(target, "z/xyz/zarr.json")).toMatchObject({ data_type: "float32", fill_value: 0 });
  expect(await documentAt(target, "z/zarr.json")).toMatchObject({
    node_type: "group",
    attributes: { column_order: ["id", "xyz"] },
  });
});

test("the plan says so, before anything is written", async () => {
  const archive = await open(await put(POINTS, [ROWS], points(ROWS)), "x.blp");
  const reason = expect.stringContaining("sub-arrays");
  expect(await planOne(archive)).toMatchObject({
    ...{ kind: "group", groups: [""], nbytes: ROWS * 16 },
    arrays: [
      { node: "id", action: "recode", reason, shape: [ROWS], nbytes: ROWS * 4 },
      { node: "xyz", action: "recode", reason, shape: [ROWS, 3], nbytes: ROWS * 12 },
    ],
  });
  await expect(convert(archive, { store: new MemoryStore() }, { recode: false })).rejects.toMatchObject({
    code: "UNSUPPORTED",
    message: expect.stringContaining("sub-arrays"),
  });
  const only = await planOne(archive, { columns: ["xyz"] });
  expect(only.arrays.map(({ node }) => node)).toEqual(["xyz"]);
  // As bytes it stays one array.
  const bytes = await planOne(archive, { portable: true });
  expect(bytes.arrays).toMatchObject([{ node: "", action: "copy", shape: [ROWS, 16], dataType: "uint8" }]);
});

test("the comparison finds an array that was damaged after it was written", async () => {
  const archive = await open(await put(POINTS, [ROWS], points(ROWS)), "x.blp");
  const other = points(ROWS).fill(7, 16 * 100 + 4, 16 * 100 + 5);
  const made = new MemoryStore();
  await convert(await open(await put(POINTS, [ROWS], other), "x.blp"), { store: made });
  const { verifyConversion } = await import("./verify-conversion.ts");
  await expect(verifyConversion(archive, made, "")).rejects.toMatchObject({
    code: "BAD_FIELD",
    message: expect.stringContaining("xyz"),
  });
});

test("nested structs become groups, and numbers keep their byte order", async () => {
  // u1, then big-endian: not aligned, and a struct in a sub-array of two.
  const dtype = [
    ["flag", "|u1"],
    [
      "ends",
      [
        ["at", ">i2"],
        ["pair", ">c16", [2]],
      ],
      [2],
    ],
    ["inner", [["name", "|S3"]]],
  ];
  const size = 1 + 2 * (2 + 32) + 3;
  const rows = 7;
  const bytes = Buffer.alloc(rows * size);
  for (let i = 0; i < rows; i++) {
    bytes.writeUInt8(i + 1, i * size);
    for (const end of [0, 1]) {
      const at = i * size + 1 + end * 34;
      bytes.writeInt16BE(-10 * i - end, at);
      for (const k of [0, 1, 2, 3]) bytes.writeDoubleBE(i + end / 2 + k, at + 2 + 8 * k);
    }
    bytes.write(`n${i}`, (i + 1) * size - 3, "latin1");
  }
  const archive = await open(await put(dtype, [rows], bytes, { chunkSize: size * 3 }), "x.blp");
  const target = new MemoryStore();
  await convert(archive, { store: target }, { verify: true });
  const each = Array.from({ length: rows }, (_, i) => i);
  expect(await valuesAt(target, "flag")).toEqual({ shape: [rows], values: each.map((i) => i + 1) });
  const ends = each.flatMap((i) => [0 - 10 * i, -10 * i - 1]);
  expect(await valuesAt(target, "ends/at")).toEqual({ shape: [rows, 2], values: ends });
  expect(await documentAt(target, "ends/at/zarr.json")).toMatchObject({
    data_type: "int16",
    dimension_names: ["row", "dim_1"],
  });
  expect(JSON.stringify(await documentAt(target, "ends/at/zarr.json"))).toContain('"endian":"big"');
  const pairs = (await openZarrArray(target, "ends/pair")) as { shape: unknown };
  expect(pairs.shape).toEqual([rows, 2, 2]);
  const raw = await (await openZarrArray(target, "ends/pair")).getBytes();
  expect(Array.from(new Float64Array(raw.slice().buffer))).toEqual(
    each.flatMap((i) => [0, 1].flatMap((end) => [0, 1, 2, 3].map((k) => i + end / 2 + k))),
  );
  const names = await (await openZarrArray(target, "inner/name")).getBytes();
  expect(Buffer.from(names).toString("latin1")).toBe(each.map((i) => `n${i}\0`).join(""));
});

test.each(["C", "F"] as const)("arrays of several dimensions in %s order, and of none", async (order) => {
  const data = points(6);
  const archive = await open(await put(POINTS, [2, 3], data, { order, chunkSize: 32 }), "x.blp");
  const target = new MemoryStore();
  await convert(archive, { store: target }, { verify: true });
  const items = order === "C" ? [0, 1, 2, 3, 4, 5] : [0, 2, 4, 1, 3, 5];
  expect(await valuesAt(target, "id")).toEqual({ shape: [2, 3], values: items });
  const xyz = items.flatMap((i) => [i, i + 0.25, -i]);
  expect(await valuesAt(target, "xyz")).toEqual({ shape: [2, 3, 3], values: xyz });
  expect(await namesOf(target, "xyz")).toEqual(["row", "dim_1", "dim_2"]);
  const one = await open(await put(POINTS, [], points(4).subarray(48)), "x.blp");
  await convert(one, { store: target, path: "one" }, { verify: true });
  expect(await valuesAt(target, "one/xyz")).toEqual({ shape: [3], values: [3, 3.25, -3] });
  expect(await namesOf(target, "one/xyz")).toEqual(["dim_0"]);
});

test("default values and attributes of other archives are kept, and several archives can be joined", async () => {
  const store = new MemoryStore();
  const settings = { dtype: "[('id', '<i4'), ('xyz', '<f4', (3,))]", attrs: { unit: "m" } };
  const dflt = [9, [0.5, 0.5, 0.5]];
  for (const [name, from, to] of [
    ["a", 0, 20],
    ["b", 20, 50],
  ] as const)
    await putCarray(store, name, points(50).subarray(from * 16, to * 16), 8, {
      ...settings,
      shape: [to - from],
      dflt,
    });
  const parts = [await open(store, "a"), await open(store, "b")];
  const target = new MemoryStore();
  await convert({ kind: "joined", archives: parts }, { store: target }, { verify: true });
  expect(await valuesAt(target, "id")).toEqual({ shape: [50], values: IDS.slice(0, 50) });
  expect(await valuesAt(target, "xyz")).toEqual({ shape: [50, 3], values: XYZ.slice(0, 150) });
  expect(await documentAt(target, "zarr.json")).toMatchObject({ attributes: { unit: "m" } });
  expect(await documentAt(target, "id/zarr.json")).toMatchObject({ fill_value: 9 });
  expect(await documentAt(target, "xyz/zarr.json")).toMatchObject({ fill_value: 0.5 });
});

test("a small field of large structs is cut so that no chunk spans many of them", async () => {
  const dtype = [
    ["flag", "|u1"],
    ["data", "|u1", [1_000_000]],
  ];
  const size = 1_000_001;
  const data = new Uint8Array(12 * size);
  const archive = await open(await put(dtype, [12], data, { chunkSize: size }), "x.blp");
  const { arrays } = await planOne(archive);
  expect(arrays).toMatchObject([
    { node: "flag", chunkShape: [8] },
    { node: "data", chunkShape: [1, 1_000_000] },
  ]);
});

test("views show the fields; references and links refuse, because chunks would have to be recoded", async () => {
  const store = await put(POINTS, [ROWS], points(ROWS));
  const archive = await open(store, "x.blp");
  const view = await zarrView(archive);
  const target = new MemoryStore();
  for (const node of ["id", "xyz"]) {
    const key = `${node}/zarr.json`;
    await target.put(key, (await view.get(`/${key}`)) as Uint8Array);
    for (const chunk of node === "id" ? ["c/0"] : ["c/0/0"])
      await target.put(`${node}/${chunk}`, (await view.get(`/${node}/${chunk}`)) as Uint8Array);
  }
  expect((await valuesAt(target, "xyz")).values).toEqual(XYZ);
  const refusal = { code: "UNSUPPORTED", message: expect.stringContaining("sub-arrays") };
  await expect(planReferences(archive)).rejects.toMatchObject(refusal);
  await expect(planShards(archive, {})).rejects.toMatchObject(refusal);
  const none = await open(await put(POINTS, [0], new Uint8Array(0)), "x.blp");
  await expect(planReferences(none)).rejects.toMatchObject(refusal);
  await convert(none, { store: target, path: "none" }, { verify: true });
  expect(await valuesAt(target, "none/xyz")).toEqual({ shape: [0, 3], values: [] });
});

test("fields without bytes, and Python objects, are still refused", async () => {
  const empty = await open(
    await put(
      [
        ["a", "<i4"],
        ["b", "<i4", [0]],
      ],
      [3],
      new Uint8Array(12),
    ),
    "x.blp",
  );
  const target = new MemoryStore();
  await expect(convert(empty, { store: target })).rejects.toMatchObject({ code: "UNSUPPORTED" });
  expect(await keysOf(target)).toEqual([]);
});

test("the command converts such a file to Zarr and to Parquet", async () => {
  const folder = await temporaryFolder();
  await compressArray(
    { dtype: parseDType(POINTS, ""), shape: [ROWS], data: points(ROWS) },
    new FileStore(folder),
    "x.blp",
  );
  const file = join(folder, "x.blp");
  const dry = await runCli(["convert", file, join(folder, "x.zarr"), "--dry-run"]);
  expect(dry.out).toMatch(/xyz.*recode/);
  expect(dry.out).toContain("sub-arrays");
  const made = await runCli(["convert", file, join(folder, "x.zarr"), "--verify"]);
  expect(made).toMatchObject({ code: 0 });
  const cat = await runCli(["cat", join(folder, "x.zarr/xyz"), "--slice", "4:5", "--format", "json"]);
  expect(JSON.parse(cat.out)).toEqual([[4, 4.25, -4]]);
  const parquet = await runCli(["convert", file, join(folder, "x.parquet"), "--to", "parquet", "--verify"]);
  expect(parquet).toMatchObject({ code: 0 });
});

test("a struct has a note on which readers open it, from an archive and from Zarr, but not its bytes", async () => {
  const archive = await open(await put([["id", "<i4"]], [2], Uint8Array.of(1, 0, 0, 0, 2, 0, 0, 0)), "x.blp");
  const target = new MemoryStore();
  const { notes } = await convert(archive, { store: target, path: "struct" });
  expect(notes).toEqual([expect.stringMatching(/zarr-python opens it, .* from version 3\.2/)]);
  const again = await convert(await openZarrArray(target, "struct"), { store: target, path: "again" });
  expect(again.notes).toEqual(notes);
  const bytes = await convert(archive, { store: target, path: "bytes" }, { portable: true });
  expect(bytes.notes).toEqual([]);
});
