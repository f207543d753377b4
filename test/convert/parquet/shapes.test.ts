/** Arrays of all dtypes, compressors and cuts become Parquet with the same values: streams are copied where possible. */

import { readFile } from "node:fs/promises";
import { Type, tableFromIPC } from "@uwdata/flechette";
import { parquetMetadataAsync, readColumnIndex, readOffsetIndex } from "hyparquet";
import { describe, expect, test } from "vitest";
import { open } from "../../../src/archive/open/open.ts";
import type { EncodeOptions } from "../../../src/codec/types.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import { type ConvertOptions, type ConvertResult, convert } from "../../../src/zarr.ts";
import { sweep } from "../../scope.ts";
import { type ArraySettings, putBloscpack } from "../to-zarr/make-archive.ts";
import { openFixture } from "../to-zarr/read-back.ts";

interface Converted {
  readonly result: ConvertResult;
  readonly store: MemoryStore;
}

async function toParquet(
  bytes: Uint8Array,
  chunkSize: number,
  settings: ArraySettings,
  options: ConvertOptions = {},
): Promise<Converted> {
  const store = new MemoryStore();
  await putBloscpack(store, "a.blp", bytes, chunkSize, settings);
  const source = await open(store, "a.blp");
  const result = await convert(
    source,
    { store, path: "a.parquet" },
    { to: "parquet", verify: true, ...options },
  );
  return { result, store };
}

async function metadataOf(store: MemoryStore) {
  const bytes = (await store.get("a.parquet")) ?? new Uint8Array(0);
  const buffer = bytes.slice().buffer as ArrayBuffer;
  return {
    metadata: await parquetMetadataAsync({
      byteLength: buffer.byteLength,
      slice: (a, b) => buffer.slice(a, b),
    }),
    buffer,
  };
}

/** Increasing values, with some noise in the lower bytes. */
function bytesOf(count: number): Uint8Array {
  let state = 7;
  const values = BigInt64Array.from({ length: count }, (_, i) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return BigInt(i) * 1000n + BigInt(state >>> 24);
  });
  return new Uint8Array(values.buffer);
}

const COMPRESSORS = ["lz4", "lz4hc", "zstd", "snappy", "blosclz", "zlib"] as const;
const SHUFFLES = ["shuffle", "noshuffle", "bitshuffle"] as const;
const DTYPES = [
  "<i8",
  "<u8",
  "<f8",
  "<i4",
  "<u4",
  "<f4",
  "<f2",
  "<i2",
  "|u1",
  "|i1",
  "|b1",
  ">i8",
  ">f4",
  "<M8[ns]",
  "<M8[D]",
  "<M8[h]",
  "<m8[s]",
  "<c8",
  "|S8",
  "|V4",
] as const;

describe.each(COMPRESSORS)("%s", (cname) => {
  test.each(SHUFFLES)("with %s, of every dtype", async (shuffle) => {
    const bytes = bytesOf(1536);
    // A third of them: each with every compressor and with every shuffle, but not in all combinations.
    const third = (COMPRESSORS.indexOf(cname) + SHUFFLES.indexOf(shuffle)) % 3;
    for (const dtype of sweep<readonly string[]>(
      DTYPES,
      DTYPES.filter((_, i) => i % 3 === third),
    )) {
      const size = Number(/\d+/.exec(dtype)?.[0]);
      // Booleans are 0 and 1; strings are characters.
      const own =
        dtype === "|b1"
          ? bytes.map((byte) => byte & 1)
          : dtype === "|S8"
            ? bytes.map((byte) => byte & 63)
            : bytes;
      const encode: EncodeOptions = { cname, shuffle, typesize: size, blocksize: 2048 };
      for (const parquet of [{}, dtype.endsWith("8") ? { compatible: true } : { statistics: false }]) {
        const { result } = await toParquet(
          own,
          4096,
          { dtype, shape: [own.length / size], encode },
          { parquet },
        );
        // DuckDB does not read byte-stream-split fixed-length bytes.
        const isFixed = /f2|V/.test(dtype);
        const isDirect = /^[<|](?:[iu][48]|f|M8\[ns|m8|V)/.test(dtype) && !(isFixed && shuffle === "shuffle");
        const isKept = isDirect && shuffle !== "bitshuffle" && cname !== "zlib";
        const { chunksRestreamed: carried = 0, chunksRecoded } = result;
        expect([dtype, carried + chunksRecoded]).toEqual([dtype, 3]);
        // Stored chunks are copied from any compressor.
        if (isKept && parquet.compatible !== true) expect([dtype, carried]).toEqual([dtype, 3]);
      }
    }
  });
});

test.each(["<f2", ">f2", "<f8", "<i4", "<u8"])(
  "%s in a compatible file is a plain page of an old type",
  async (dtype) => {
    // Zeros of both signs, infinity, subnormal, normal, and sorted noise.
    const bytes = dtype.endsWith("f2")
      ? new Uint8Array(Uint16Array.of(0, 0x8000, 0x7c00, 0xfc00, 1, 0x83ff, 0x3c00, 0x7bff, 0x3555).buffer)
      : bytesOf(1024);
    const encode: EncodeOptions = { cname: "lz4", typesize: Number(dtype[2]), shuffle: "shuffle" };
    const shape = [bytes.length / Number(dtype[2])];
    const settings = { dtype, shape, encode };
    const { store } = await toParquet(bytes, bytes.length, settings, { parquet: { compatible: true } });
    const { metadata } = await metadataOf(store);
    const column = metadata.row_groups[0]?.columns[0]?.meta_data;
    expect(column?.encodings).not.toContain("BYTE_STREAM_SPLIT");
    expect(column?.type).toBe({ f2: "FLOAT", f8: "DOUBLE", i4: "INT32", u8: "INT64" }[dtype.slice(1)]);
  },
);

test("NaT dates become null, and pages without one are copied", async () => {
  const values = new BigInt64Array(bytesOf(4096).buffer);
  values[3] = -(2n ** 63n);
  const encode: EncodeOptions = { cname: "lz4", typesize: 8, blocksize: 8192 };
  const { result, store } = await toParquet(new Uint8Array(values.buffer), 16_384, {
    dtype: "<M8[us]",
    shape: [4096],
    encode,
  });
  expect(result.chunksRestreamed).toBe(2);
  const { metadata } = await metadataOf(store);
  expect(metadata.row_groups[0]?.columns[0]?.meta_data?.statistics?.null_count).toBe(1n);
});

test.each(["parquet", "arrow"] as const)(
  "big-endian strings of fixed length pass verify in %s",
  async (to) => {
    const bytes = Buffer.from("aé\0b日\0", "utf16le").swap16();
    const items = new Uint8Array(24);
    for (let i = 0; i < 12; i += 2) items.set(bytes.subarray(i, i + 2), 2 * i + 2);
    const settings = { dtype: ">U2", shape: [3] };
    const { result } = await toParquet(items, 8, settings, { to, parquet: { strings: "fixed" } });
    expect(result.verified).toBe(true);
  },
);

test.each(["parquet", "arrow"] as const)(
  "strings that are not UTF-8 become a column of bytes in %s, and the note names the column",
  async (to) => {
    const items = new Uint8Array(4096).fill(97);
    items.set([0xe9, 0], 4094);
    const { result, store } = await toParquet(items, 64, { dtype: "|S2", shape: [1024, 2] }, { to });
    const note = 'column "value": its strings are not all UTF-8, so it becomes a column of bytes';
    expect(result).toMatchObject({ verified: true, notes: [note] });
    const known = to === "arrow" ? [] : ((await metadataOf(store)).metadata.key_value_metadata ?? []);
    const schema = known.find(({ key }) => key === "ARROW:schema")?.value;
    const bytes = schema === undefined ? await store.get("a.parquet") : Buffer.from(schema, "base64");
    const [field] = tableFromIPC(bytes ?? []).schema.fields;
    expect(field?.type).toMatchObject({ children: [{ type: { typeId: Type.Binary } }] });
  },
);

test("the file records the package's version, Arrow's schema and pandas' types", async () => {
  const { store } = await toParquet(bytesOf(64), 4096, { dtype: "<m8[us]", shape: [64] });
  const { metadata } = await metadataOf(store);
  const { version } = JSON.parse(await readFile("package.json", "utf8")) as { version: string };
  expect(metadata.created_by).toBe(`superchunk version ${version} (build 0)`);
  const found = new Map(metadata.key_value_metadata?.map(({ key, value }) => [key, value ?? ""]));
  expect(JSON.parse(found.get("pandas") ?? "")).toMatchObject({
    columns: [{ name: "value", numpy_type: "timedelta64[ns]" }],
  });
  // A message: the mark, its length, and then that many bytes.
  const schema = Buffer.from(found.get("ARROW:schema") ?? "", "base64");
  expect([schema.readUInt32LE(0), schema.readUInt32LE(4)]).toEqual([0xffff_ffff, schema.length - 8]);
  // pyarrow takes the other metadata from it.
  found.delete("ARROW:schema");
  expect(tableFromIPC(schema).schema.metadata).toEqual(found);
});

test("days of zipline become dates, and prices become the requested type", async () => {
  const kinds = { raw: undefined, decimal: "DECIMAL", double: undefined } as const;
  for (const [prices, converted] of Object.entries(kinds)) {
    const store = new MemoryStore();
    const source = await openFixture("ctable/bcolz-daily-equities");
    const parquet = { prices: prices as keyof typeof kinds };
    await convert(source, { store, path: "a.parquet" }, { to: "parquet", verify: true, parquet });
    const { metadata } = await metadataOf(store);
    const typeOf = (name: string) => metadata.schema.find((element) => element.name === name);
    expect([typeOf("day")?.converted_type, typeOf("close")?.converted_type]).toEqual([
      "DATE",
      prices === "raw" ? "UINT_32" : converted,
    ]);
    expect(typeOf("volume")?.converted_type).toBe("UINT_32");
    const scale = metadata.key_value_metadata?.find(({ key }) => key === "zipline.price_scale")?.value;
    expect(scale).toBe(prices === "raw" ? "1000" : undefined);
  }
});

test("an array without rows is a file without row groups", async () => {
  const store = new MemoryStore();
  await convert(await openFixture("carray/bcolz-empty-f4"), { store, path: "a.parquet" }, { to: "parquet" });
  const { metadata } = await metadataOf(store);
  expect([metadata.num_rows, metadata.row_groups.length, metadata.schema.length]).toEqual([0n, 0, 2]);
});

test.each(["parquet", "arrow"] as const)("the fields of structs become columns of %s", async (to) => {
  const dtype = "[('id', '<i4'), ('pair', '<f4', (2,)), ('inner', [('x', '>i2'), ('y', '|S2')])]";
  const bytes = bytesOf(600).map((byte) => byte & 63);
  const { result, store } = await toParquet(bytes, 1600, { dtype, shape: [300] }, { to });
  expect(result.verified).toBe(true);
  if (to === "arrow") return;
  const { metadata } = await metadataOf(store);
  const columns = metadata.schema.slice(1).map(({ name, num_children: parts }) => [name, parts]);
  expect(columns).toEqual([
    ["id", undefined],
    ["pair", 1],
    ["list", 1],
    ["element", undefined],
    ["inner", 2],
    ["x", undefined],
    ["y", undefined],
  ]);
  const own = metadata.key_value_metadata?.find(({ key }) => key === "superchunk")?.value ?? "";
  expect((JSON.parse(own) as { columns: unknown }).columns).toEqual([
    { name: "id", dtype: "<i4", shape: [300] },
    { name: "pair", dtype: "<f4", shape: [300, 2] },
    {
      name: "inner",
      dtype: [
        ["x", ">i2"],
        ["y", "|S2"],
      ],
      shape: [300],
    },
  ]);
});

test("chosen fields of structs are the only columns, in their order, and other formats refuse to choose", async () => {
  const dtype = "[('id', '<i4'), ('pair', '<f4', (2,)), ('inner', [('x', '>i2'), ('y', '|S2')])]";
  const bytes = bytesOf(600).map((byte) => byte & 63);
  const settings = { dtype, shape: [300] };
  for (const to of ["parquet", "arrow"] as const) {
    const options = { to, columns: ["inner", "id"] };
    const { store } = await toParquet(bytes, 1600, settings, options);
    const found = (await store.get("a.parquet")) ?? new Uint8Array(0);
    if (to === "arrow")
      expect(tableFromIPC(found).schema.fields.map(({ name }) => name)).toEqual(["id", "inner"]);
    else
      expect((await metadataOf(store)).metadata.schema.map(({ name }) => name)).toEqual([
        ..."schema id inner x y".split(" "),
      ]);
  }
  await expect(toParquet(bytes, 1600, settings, { columns: ["nosuch"] })).rejects.toMatchObject({
    code: "NOT_FOUND",
    message: expect.stringContaining('no column "nosuch"; expected one of id, pair, inner'),
  });
  const whole = { dtype: "[('id', '<i4'), ('x', '<i4')]", shape: [600] };
  await expect(toParquet(bytes, 1600, whole, { to: "zarr", columns: ["id"] })).rejects.toMatchObject({
    code: "BAD_ARGUMENT",
    message: expect.stringContaining("zarr keeps structs whole, so no field can be chosen"),
  });
});

test("rows of several values become lists, and are copied if blocks end on rows", async () => {
  const encode: EncodeOptions = { cname: "zstd", typesize: 4, blocksize: 4096 };
  const settings = { dtype: "<i4", shape: [1024, 2, 4], encode };
  const { result } = await toParquet(bytesOf(4096), 16_384, settings);
  expect([result.chunksRestreamed, result.chunksRecoded]).toEqual([2, 0]);
  const uneven = { dtype: "<i4", shape: [1170, 7], encode };
  const others = await toParquet(bytesOf(4095), 14_000, uneven);
  expect(others.result.verified).toBe(true);
});

test("a column with NaN has no minimum and maximum, and no column index", async () => {
  for (const dtype of ["<f8", ">f4", "<f2"])
    for (const place of [0, 4999, undefined]) {
      const size = Number(dtype[2]);
      const bytes = new Uint8Array(5000 * size);
      if (place !== undefined) bytes.fill(0xff, place * size, (place + 1) * size); // NaN in any byte order
      const { store } = await toParquet(bytes, 1 << 20, { dtype, shape: [5000] });
      const [chunk] = (await metadataOf(store)).metadata.row_groups[0]?.columns ?? [];
      const { min_value: min, max_value: max, null_count: nulls } = chunk?.meta_data?.statistics ?? {};
      const isThere = [min, max, chunk?.column_index_offset].map((each) => each !== undefined);
      expect([dtype, place, nulls, ...isThere]).toEqual([
        dtype,
        place,
        0n,
        ...Array(3).fill(place === undefined),
      ]);
    }
});

test("a column with NaN in one row group has bounds in none, and only rows that never decrease in the file are sorted", async () => {
  const statisticsOf = async (values: Float64Array) => {
    const settings = { dtype: "<f8", shape: [values.length] };
    const options = { parquet: { rowGroupRows: 2 } };
    const { store } = await toParquet(new Uint8Array(values.buffer), 16, settings, options);
    const { metadata } = await metadataOf(store);
    return metadata.row_groups.map(({ columns: [chunk], sorting_columns: sorted }) => {
      const { min_value, max_value, null_count } = chunk?.meta_data?.statistics ?? {};
      return [min_value, max_value, null_count, sorted?.length ?? 0];
    });
  };
  expect(await statisticsOf(Float64Array.of(Number.NaN, 100, 5, 7))).toEqual([
    [undefined, undefined, 0n, 0],
    [undefined, undefined, 0n, 0],
  ]);
  expect(await statisticsOf(Float64Array.of(5, 6, 1, 2))).toEqual([
    [5, 6, 0n, 0],
    [1, 2, 0n, 0],
  ]);
  expect(await statisticsOf(Float64Array.of(1, 5, 5, 6))).toEqual([
    [1, 5, 0n, 1],
    [5, 6, 0n, 1],
  ]);
});

test("booleans of structs have their own bounds", async () => {
  const bytes = Uint8Array.of(1, 0, 0, 1, 7, 0); // true and 0, true and 7
  const { store } = await toParquet(bytes, 1 << 20, { dtype: "[('flag', '|b1'), ('n', '>u2')]", shape: [2] });
  const [flag, n] = (await metadataOf(store)).metadata.row_groups[0]?.columns ?? [];
  expect(flag?.meta_data?.statistics).toMatchObject({ min_value: true, max_value: true });
  expect(n?.meta_data?.statistics).toMatchObject({ min_value: 0, max_value: 0x700 });
});

test("zero is -0 as the minimum and 0 as the maximum", async () => {
  for (const values of [[0, 5, -0, 0], [0, 0], [-0]]) {
    const bytes = new Uint8Array(Float64Array.from(values).buffer);
    const { store } = await toParquet(bytes, 1 << 20, { dtype: "<f8", shape: [values.length] });
    const found = (await metadataOf(store)).metadata.row_groups[0]?.columns[0]?.meta_data?.statistics;
    expect([found?.min_value, found?.max_value]).toEqual([-0, Math.max(...values) + 0]);
  }
});

test("the minimum and the maximum of every kind are those of all values", async () => {
  const values = BigInt64Array.of(5n, -7n, 2n ** 40n, -(2n ** 62n), 3n, 2n ** 62n);
  const cases = [
    ["<i8", new Uint8Array(values.buffer), [-(2n ** 62n), 2n ** 62n]],
    ["<u8", new Uint8Array(values.buffer), [3n, 2n ** 64n - 7n]],
    ["<i4", new Uint8Array(Int32Array.of(4, -3, 9).buffer), [-3, 9]],
    ["<u4", new Uint8Array(Uint32Array.of(4, 4_000_000_000, 1).buffer), [1, 4_000_000_000]],
    ["<i2", new Uint8Array(Int16Array.of(4, -3, 9).buffer), [-3, 9]],
    ["<f4", new Uint8Array(Float32Array.of(1, 2, -3.5, 7, 0).buffer), [-3.5, 7]],
    ["<f8", new Uint8Array(Float64Array.of(1, 2, 3, 2, -1).buffer), [-1, 3]],
    ["|S3", new TextEncoder().encode("b\0\0abcc\0\0"), ["abc", "c"]],
    ["|b1", Uint8Array.of(1, 1, 0), [false, true]],
  ] as const;
  for (const [dtype, bytes, bounds] of cases) {
    const shape = [bytes.length / Number(/\d+/.exec(dtype)?.[0])];
    const { store } = await toParquet(bytes, 1 << 20, { dtype, shape });
    const { metadata } = await metadataOf(store);
    const found = metadata.row_groups[0]?.columns[0]?.meta_data?.statistics;
    expect([dtype, found?.min_value, found?.max_value]).toEqual([dtype, ...bounds]);
  }
});

test.each([
  [1, [300, 300, 300, 100]],
  [449, [300, 300, 300, 100]],
  [451, [600, 400]],
  [1 << 20, [1000]],
] as const)("row groups of %i rows are rounded to whole chunks of 300: %j", async (rowGroupRows, rows) => {
  const settings: ArraySettings = { dtype: "<i8", shape: [1000], encode: { cname: "lz4", typesize: 8 } };
  const parquet = { rowGroupRows };
  const { result, store } = await toParquet(bytesOf(1000), 2400, settings, { parquet });
  expect(result).toMatchObject({ chunksRestreamed: 4, chunksRecoded: 0, verified: true });
  const { metadata } = await metadataOf(store);
  expect(metadata.row_groups.map(({ num_rows }) => Number(num_rows))).toEqual(rows);
});

test("a row group of no rows, or of half a row, is refused", async () => {
  const settings: ArraySettings = { dtype: "<i8", shape: [10], encode: { cname: "lz4", typesize: 8 } };
  for (const rowGroupRows of [0, 0.5, Number.NaN])
    await expect(toParquet(bytesOf(10), 80, settings, { parquet: { rowGroupRows } })).rejects.toMatchObject({
      code: "BAD_ARGUMENT",
      details: { field: "rowGroupRows" },
    });
});

test("the page index lists every page, and a sorted column is declared", async () => {
  const values = Int32Array.from({ length: 5000 }, (_, i) => i - 2500);
  const encode: EncodeOptions = { cname: "lz4", typesize: 4, blocksize: 4096 };
  const { store } = await toParquet(new Uint8Array(values.buffer), 8000, {
    dtype: "<i4",
    shape: [5000],
    encode,
  });
  const { metadata, buffer } = await metadataOf(store);
  const [group] = metadata.row_groups;
  const [chunk] = group?.columns ?? [];
  const view = (offset: bigint | undefined, length: number | undefined) => ({
    view: new DataView(buffer, Number(offset), length),
    offset: 0,
  });
  const offsets = readOffsetIndex(view(chunk?.offset_index_offset, chunk?.offset_index_length));
  const [element] = metadata.schema.slice(1);
  if (element === undefined) throw new Error("no schema");
  const columns = readColumnIndex(view(chunk?.column_index_offset, chunk?.column_index_length), element);
  const firsts = offsets.page_locations.map(({ first_row_index }) => Number(first_row_index));
  expect(columns.min_values).toEqual(firsts.map((row) => row - 2500));
  expect(columns.boundary_order).toBe("ASCENDING");
  expect(group?.sorting_columns).toMatchObject([{ column_idx: 0, descending: false }]);
});
