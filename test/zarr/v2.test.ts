/** Zarr v2 arrays and groups. Chunks are written here byte by byte, as the specification defines them. */
import { deflateSync, gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { encode } from "../../src/codec/index.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { openZarr, openZarrArray } from "../../src/zarr/read/open.ts";
import { openZarrWriter } from "./writer.ts";

const json = (value: object): Uint8Array => new TextEncoder().encode(JSON.stringify(value));
const base = {
  zarr_format: 2,
  shape: [3, 5],
  chunks: [2, 3],
  dtype: "<i2",
  compressor: null,
  fill_value: -1,
  filters: null,
  order: "C",
};

/** Values 10 * row + column; chunk (1, 1) is not stored; positions past the array's end hold 99. */
function chunkItems(row: number, column: number, order: string): Int16Array {
  const items = new Int16Array(6);
  for (let i = 0; i < 2; i++) {
    for (let j = 0; j < 3; j++) {
      const [r, c] = [2 * row + i, 3 * column + j];
      items[order === "C" ? 3 * i + j : 2 * j + i] = r < 3 && c < 5 ? 10 * r + c : 99;
    }
  }
  return items;
}

const expected = [0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 20, 21, 22, -1, -1];

describe.each([
  ["no compressor", null, async (bytes: Uint8Array) => bytes],
  ["zlib", { id: "zlib", level: 1 }, async (bytes: Uint8Array) => new Uint8Array(deflateSync(bytes))],
  ["gzip", { id: "gzip", level: 1 }, async (bytes: Uint8Array) => new Uint8Array(gzipSync(bytes))],
  [
    "blosc",
    { id: "blosc", cname: "lz4", clevel: 5, shuffle: 1, blocksize: 0 },
    (bytes: Uint8Array) => encode(bytes, { typesize: 2 }),
  ],
] as const)("%s", (_, compressor, pack) => {
  test.each([
    ["C", ".", "<i2"],
    ["F", ".", "<i2"],
    ["F", "/", ">i2"],
    ["C", "/", ">i2"],
  ])(
    "[FH-07] order %s, separator %s, dtype %s: values, missing chunks, and writing",
    async (order, separator, dtype) => {
      const store = new MemoryStore();
      await store.put("g/.zgroup", json({ zarr_format: 2 }));
      await store.put(
        "g/a/.zarray",
        json({ ...base, order, compressor, dtype, dimension_separator: separator }),
      );
      await store.put("g/a/.zattrs", json({ unit: "m" }));
      for (const [row, column] of [
        [0, 0],
        [0, 1],
        [1, 0],
      ] as const) {
        const bytes = Buffer.from(chunkItems(row, column, order).buffer);
        await store.put(
          `g/a/${row}${separator}${column}`,
          await pack(new Uint8Array(dtype === "<i2" ? bytes : bytes.swap16())),
        );
      }
      const group = await openZarr(store, "g");
      if (group.kind !== "group") throw new Error("no group");
      expect(await group.members()).toEqual(["a"]);
      const array = await openZarrArray(store, "g/a");
      expect(array).toMatchObject({ dialect: "zarr2", attrs: { unit: "m" }, shape: [3, 5] });
      expect(await array.get()).toMatchObject({ data: Int16Array.from(expected) });
      const stored = Buffer.from(await array.getBytes());
      expect(
        Array.from(expected, (__, i) =>
          dtype === "<i2" ? stored.readInt16LE(2 * i) : stored.readInt16BE(2 * i),
        ),
      ).toEqual(expected);
      expect((await array.verify()).ok).toBe(true);
      const writer = await openZarrWriter(store, "g/a");
      await writer.set([{ start: 1, stop: 3, step: 1 }, 4], Int16Array.of(-100, -200));
      expect(await array.get([null, 4])).toMatchObject({ data: Int16Array.of(4, -100, -200) });
      expect(await array.get([2, 3])).toBe(-1);
    },
  );
});

test.each([
  [{ filters: [{ id: "vlen-utf8" }] }, "UNSUPPORTED", "filters"],
  [{ filters: [{ id: "delta", dtype: "<M8[s]" }] }, "UNSUPPORTED", "filters.0.dtype"],
  [{ filters: [{ id: "shuffle", elementsize: 0 }] }, "BAD_FIELD", "filters.0.elementsize"],
  [{ compressor: { id: "lzma" } }, "UNSUPPORTED", "compressor"],
  [{ dtype: "|O" }, "UNSUPPORTED", "dtype"],
  [{ order: "K" }, "BAD_FIELD", "order"],
  [{ chunks: [2] }, "BAD_FIELD", "chunks"],
  [{ dimension_separator: "-" }, "BAD_FIELD", "dimension_separator"],
])("%j is refused by name", async (change, code, field) => {
  const store = new MemoryStore();
  await store.put(".zarray", json({ ...base, ...change }));
  await expect(openZarr(store)).rejects.toMatchObject({ code, details: { field } });
});

test("a group with consolidated metadata lists its members where nothing can be listed, and reads no other documents", async () => {
  const store = new MemoryStore();
  const group = { zarr_format: 2 };
  const metadata = {
    ".zgroup": group,
    ".zattrs": { a: 1 },
    "x/.zarray": base,
    "x/.zattrs": { unit: "m" },
    "g/.zgroup": group,
    "g/y/.zarray": { ...base, fill_value: 7 },
  };
  await store.put("z/.zgroup", json(group));
  await store.put("z/.zattrs", json({ a: 1 }));
  await store.put("z/.zmetadata", json({ zarr_consolidated_format: 1, metadata }));
  store.list = () => {
    throw new Error("listed");
  };
  const node = await openZarr(store, "z");
  if (node.kind !== "group") throw new TypeError(node.kind);
  expect(await node.members()).toEqual(["g", "x"]);
  const x = await node.open("x");
  expect(x).toMatchObject({ kind: "array", dialect: "zarr2", path: "z/x", attrs: { unit: "m" } });
  const g = await node.open("g");
  if (g.kind !== "group") throw new TypeError(g.kind);
  expect(await g.members()).toEqual(["y"]);
  expect(await g.open("y")).toMatchObject({ path: "z/g/y", fillValue: 7 });
  await expect(node.open("nothing")).rejects.toMatchObject({ code: "NOT_FOUND" });
  await store.put("z/.zmetadata", json({ zarr_consolidated_format: 2, metadata }));
  await expect(openZarr(store, "z")).rejects.toMatchObject({
    code: "BAD_FIELD",
    details: { path: store.describe("z/.zmetadata"), field: "zarr_consolidated_format", found: 2 },
  });
});

test("[FH-08] zeros are stored if there is no fill value, because other programs read anything where no chunk is", async () => {
  const store = new MemoryStore();
  await store.put("a/.zarray", json({ ...base, fill_value: null }));
  const array = await openZarrWriter(store, "a");
  await array.set(null, 7);
  await array.set(null, 0, { writeEmptyChunks: false });
  for (const name of ["0.0", "0.1", "1.0", "1.1"])
    expect(await store.get(`a/${name}`)).toEqual(new Uint8Array(12));
});

test.each(["<M8[s]", ">M8[D]", "<m8[ms]"])(
  "[FH-07] %s without a fill value are NaT where nothing is stored, and stay NaT beside values that are set",
  async (dtype) => {
    const store = new MemoryStore();
    await store.put("a/.zarray", json({ ...base, dtype, fill_value: null }));
    const array = await openZarrWriter(store, "a");
    const nat = -(2n ** 63n);
    expect(await array.get([0, 0])).toBe(nat);
    await array.set([0, 1], 5n);
    const { data } = await (await openZarrArray(store, "a")).get([{ start: 0, stop: 1, step: 1 }, null]);
    expect([...(data as BigInt64Array)].slice(0, 3)).toEqual([nat, 5n, nat]);
  },
);
