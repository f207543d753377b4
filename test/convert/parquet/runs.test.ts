/**
 * Parquet files are made like those of every target: planned, compared before they get their name, refused where
 * they must be.
 */
import { join } from "node:path";
import { parquetMetadata, parquetReadObjects } from "hyparquet";
import { expect, test } from "vitest";
import { encode } from "../../../src/codec/index.ts";
import { decodeStreamSync } from "../../../src/codec/stream.ts";
import { firstUnlikeRow } from "../../../src/convert/targets/table-compare.ts";
import { parseDType } from "../../../src/format/dtype.ts";
import { columnSchema } from "../../../src/parquet/schema.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import { createZarr, type ZarrSpecification } from "../../../src/zarr/write/create.ts";
import { type ConvertOptions, convert, type PlanEntry, planConversion } from "../../../src/zarr.ts";
import { runCli } from "../../cli/harness.ts";
import { temporaryFolder } from "../../folder.ts";
import { putBloscpack } from "../to-zarr/make-archive.ts";
import { corpusStore, keysOf, openFixture } from "../to-zarr/read-back.ts";

const TO: ConvertOptions = { to: "parquet" };
const SPAN = 'column "span": Parquet has no durations; they are integers that count s';
const MONTHS = 'column "months": there are no durations in M; they become integers that count them';
const CASE = 'columns "A" and "a" differ only in case: DuckDB renames one of them, and Spark reads neither';

test("the plan says what happens to each column, and why", async () => {
  const source = await openFixture("ctable/bzl-mixed");
  const plans: PlanEntry[] = [];
  for await (const each of planConversion(source, { path: "a.parquet" }, TO)) plans.push(each);
  const [entry] = plans;
  expect(entry?.plan?.arrays.map(({ action, reason }) => [action, reason])).toEqual([
    ["restream", undefined],
    ["restream", undefined],
    ["recode", "booleans of Parquet have one bit"],
  ]);
});

test("a folder of archives becomes a folder of files, one per table", async () => {
  const store = new MemoryStore();
  const from = { store: corpusStore, path: "ctable" };
  const result = await convert(from, { store, path: "out" }, { ...TO, verify: true });
  expect(result).toMatchObject({ converted: 4, failed: 0, verified: true });
  expect(await keysOf(store)).toEqual([
    "out/bcolz-daily-equities.parquet",
    "out/bcolz-mixed.parquet",
    "out/blz-btable.parquet",
    "out/bzl-mixed.parquet",
  ]);
});

test("columns that may not be recoded are refused before anything is written, and an existing file stays", async () => {
  const store = new MemoryStore();
  const source = await openFixture("ctable/bzl-mixed");
  await expect(convert(source, { store, path: "a.parquet" }, { ...TO, recode: false })).rejects.toMatchObject(
    {
      code: "UNSUPPORTED",
      message: expect.stringMatching(/bzl-mixed\/[^/]+: .*one bit/) as string,
    },
  );
  expect(await keysOf(store)).toEqual([]);
  await convert(source, { store, path: "a.parquet" }, TO);
  const before = await store.get("a.parquet");
  await expect(convert(source, { store, path: "a.parquet" }, TO)).rejects.toMatchObject({ code: "CONFLICT" });
  expect(await store.get("a.parquet")).toEqual(before);
  await convert(source, { store, path: "a.parquet" }, { ...TO, overwrite: true });
});

test("the comparison finds a changed value, and the file does not get its name", async () => {
  const store = new MemoryStore();
  const values = Float64Array.from({ length: 500 }, (_, i) => i / 3);
  const settings = { dtype: "<f8", shape: [500], encode: { clevel: 0 } };
  await putBloscpack(store, "a.blp", new Uint8Array(values.buffer), 4000, settings);
  await convert({ store, path: "a.blp" }, { store, path: "a.parquet" }, TO);
  const whole = (await store.get("a.parquet")) ?? new Uint8Array(0);
  const at = Buffer.from(whole).indexOf(Buffer.from(Float64Array.of(123 / 3).buffer));
  expect(at).toBeGreaterThan(0);
  // A store that returns a byte other than the written one, as a failing disk does.
  const failing = new Proxy(store, {
    get(target, name) {
      const found: unknown = Reflect.get(target, name);
      if (name !== "getRange") return typeof found === "function" ? found.bind(target) : found;
      return async (key: string, range: { offset: number; length: number }) => {
        const bytes = (await target.getRange(key, range))?.slice();
        const place = at - range.offset;
        if (key.includes("c.parquet") && bytes !== undefined && place >= 0 && place < bytes.length)
          bytes[place] = (bytes[place] ?? 0) ^ 1;
        return bytes;
      };
    },
  });
  const source = { store: failing, path: "a.blp" };
  await expect(
    convert(source, { store: failing, path: "c.parquet" }, { ...TO, verify: true }),
  ).rejects.toMatchObject({ code: "BAD_FIELD", message: expect.stringContaining("row 123") as string });
  expect((await keysOf(store)).filter((key) => key.includes("c."))).toEqual([]);
});

test("the comparison finds a list that is shorter or longer than its row", () => {
  const { nodes } = columnSchema("a", parseDType("<i4", "made"), [2, 2], {}, "made");
  const [node] = nodes;
  if (node === undefined) throw new RangeError("no column");
  const rows = new Uint8Array(Int32Array.of(1, 2, 3, 4).buffer);
  const unlike = (row: unknown): number | undefined => firstUnlikeRow(node, rows, [row], 1);
  expect(
    unlike([
      [1, 2],
      [3, 4],
    ]),
  ).toBeUndefined();
  for (const row of [[], [[1, 2]], [[1, 2], [3]], [[1, 2], []], [[1, 2], [3, 4], []]])
    expect(unlike(row)).toBe(0);
});

test.each([undefined, [3000]])("streams of Zarr arrays are copied, in shards of %s", async (shardShape) => {
  const store = new MemoryStore();
  const rows = 2500;
  const values = Float64Array.from({ length: rows }, (_, i) => (i % 97) / 4);
  const codecOf = (cname: string, typesize: number) => [
    { name: "bytes", configuration: { endian: "little" } },
    { name: "blosc", configuration: { cname, clevel: 5, shuffle: "shuffle", typesize, blocksize: 2048 } },
  ];
  const make = async (name: string, specification: Partial<ZarrSpecification>) => {
    const base = { shape: [rows], dataType: "float64", chunkShape: [600], fillValue: 1.5, attributes: {} };
    const sharded = shardShape === undefined ? {} : { shardShape };
    return createZarr(store, name, { ...base, ...sharded, codecs: codecOf("lz4", 8), ...specification });
  };
  await store.put("z/zarr.json", new TextEncoder().encode('{"zarr_format":3,"node_type":"group"}'));
  await (await make("z/whole", { codecs: codecOf("zstd", 8) })).set(null, values);
  await (await make("z/other", { codecs: codecOf("blosclz", 8), chunkShape: [500] })).set(null, values);
  // Only chunks 1 and 4 are stored.
  const holes = await make("z/holes", {});
  await holes.set([{ start: 600, stop: 1200, step: 1 }], values.subarray(600, 1200));
  await holes.set([{ start: 2400, stop: 2500, step: 1 }], values.subarray(2400, 2500));
  await (await make("z/plain", { codecs: codecOf("lz4", 1) })).set(null, values);

  const result = await convert({ store, path: "z" }, { store, path: "z.parquet" }, { ...TO, verify: true });
  expect(result).toMatchObject({ chunksRestreamed: 20, chunksRecoded: 0 });
  const bytes = (await store.get("z.parquet")) ?? new Uint8Array(0);
  const table = await parquetReadObjects({
    file: bytes.slice().buffer as ArrayBuffer,
    compressors: {
      LZ4_RAW: (input, length) => decodeStreamSync("lz4", input, length),
      ZSTD: (input, length) => decodeStreamSync("zstd", input, length),
    },
  });
  const expected = Array.from(values, (whole, row) => ({
    ...{
      holes: (row >= 600 && row < 1200) || row >= 2400 ? whole : 1.5,
      other: whole,
      plain: whole,
      whole,
    },
  }));
  expect(table).toEqual(expected);
});

test("chosen arrays of a Zarr group are one table, although others cannot be read, or are of another length", async () => {
  const store = new MemoryStore();
  for (const [name, rows] of [
    ["x", 10],
    ["y", 10],
    ["long", 12],
  ] as const) {
    const array = await createZarr(store, `g/${name}`, {
      shape: [rows],
      dataType: "float64",
      chunkShape: [4],
    });
    await array.set(null, new Float64Array(rows).fill(rows));
  }
  const document = JSON.parse(new TextDecoder().decode(await store.get("g/x/zarr.json"))) as object;
  const put = (key: string, value: object) => store.put(key, new TextEncoder().encode(JSON.stringify(value)));
  await put("g/text/zarr.json", { ...document, data_type: "string" });
  await put("g/zarr.json", { zarr_format: 3, node_type: "group", attributes: {} });
  const source = { store, path: "g" };
  const columns = ["y", "x"];
  await convert(source, { store, path: "a.parquet" }, { ...TO, verify: true, columns });
  const bytes = (await store.get("a.parquet"))?.slice() ?? new Uint8Array(0);
  const { num_rows: rows, schema } = parquetMetadata(bytes.buffer as ArrayBuffer);
  expect([rows, schema.map(({ name }) => name)]).toEqual([10n, ["schema", "x", "y"]]);
  const missing = convert(source, { store, path: "b.parquet" }, { ...TO, columns: ["x", "z"] });
  await expect(missing).rejects.toMatchObject({
    code: "NOT_FOUND",
    message: expect.stringContaining('no column "z"; expected one of long, text, x, y') as string,
  });
});

test("a Zarr chunk with fewer rows than its place in the grid is refused", async () => {
  const store = new MemoryStore();
  const writer = await createZarr(store, "z", {
    shape: [1000],
    dataType: "int32",
    chunkShape: [500],
    fillValue: 0,
  });
  await writer.set(
    null,
    Int32Array.from({ length: 1000 }, (_, i) => i),
  );
  await store.put("z/c/1", await encode(new Uint8Array(1000), { cname: "lz4", typesize: 4 }));
  const source = { store, path: "z" };
  await expect(
    convert(source, { store, path: "z.parquet" }, { ...TO, parquet: { statistics: false } }),
  ).rejects.toMatchObject({ code: "BAD_FIELD", message: expect.stringContaining("z/c/1") as string });
});

test.each([
  ["parquet", "--as=ctable", [MONTHS, SPAN, CASE]],
  ["parquet", "--no-columns", [MONTHS, SPAN, CASE]],
  ["arrow", "--as=ctable", [MONTHS]],
] as const)("a dry run to %s (%s) gives the notes of the run", async (to, kind, expected) => {
  const folder = temporaryFolder();
  const from = join(folder, "t.bcolz");
  const dtype = '[["a","<i4"],["A","<i4"],["span","<m8[h]"],["months","<m8[M]"]]';
  expect((await runCli(["create", from, kind, "--dtype", dtype, "--shape", "3"])).code).toBe(0);
  const into = ["convert", from, join(folder, `t.${to}`), "--json"];
  const planned = JSON.parse((await runCli([...into, "--dry-run"])).out) as {
    entries: readonly { arrays: readonly { notes: readonly string[] }[] }[];
  };
  const done = JSON.parse((await runCli(into)).out) as { notes: readonly string[] };
  const notes = planned.entries.flatMap(({ arrays }) => arrays.flatMap((array) => array.notes));
  expect([notes.sort(), [...done.notes].sort()]).toEqual([expected, expected]);
});

test.each(["parquet", "arrow"] as const)("what %s does not keep is noted, also in a dry run", async (to) => {
  const folder = temporaryFolder();
  const from = join(folder, "t.bcolz");
  const dtype = '[["close","<u4"]]';
  const make = ["create", from, "--as=ctable", "--dtype", dtype, "--shape", "3", "--attr", "scale=NaN"];
  expect((await runCli(make)).code).toBe(0);
  const into = ["convert", from, join(folder, `t.${to}`), "--prices", "decimal"];
  const [planned, done] = [await runCli([...into, "--dry-run"]), await runCli(into)];
  for (const text of [planned.out, done.err]) {
    expect(text).toContain('the attribute "scale" holds NaN');
    expect(text).toContain('column "close": its numbers stay as they are');
  }
});

test.each(["parquet", "arrow"] as const)("a table without columns is refused by %s", async (to) => {
  const store = new MemoryStore();
  await store.put("t/__rootdirs__", new TextEncoder().encode('{"names": []}'));
  await store.put("t/__attrs__", new TextEncoder().encode("{}"));
  const done = convert({ store, path: "t" }, { store, path: `t.${to}` }, { to });
  await expect(done).rejects.toMatchObject({ code: "UNSUPPORTED", details: { path: "memory:t" } });
  expect(await keysOf(store)).toEqual(["t/__attrs__", "t/__rootdirs__"]);
});
