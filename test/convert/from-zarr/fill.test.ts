/** The fill value of a Zarr array becomes the default value of the archive, whatever its spelling, and comes back. */

import { expect, test } from "vitest";
import { open } from "../../../src/archive/open/open.ts";
import { zarrSource } from "../../../src/convert/sources/items.ts";
import { jsonBytes, stringifyJson } from "../../../src/format/json.ts";
import type { JsonValue } from "../../../src/format/types.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import { encodeItem } from "../../../src/values/item-bytes.ts";
import { openZarr, openZarrArray } from "../../../src/zarr/read/open.ts";
import { createZarr } from "../../../src/zarr/write/create.ts";
import { convert } from "../../../src/zarr.ts";

async function convertOne(store: MemoryStore): Promise<unknown> {
  const zarr = await openZarrArray(store, "zarr");
  await convert(await zarrSource(await openZarr(store, "zarr")), { store, path: "back" }, { to: "blz" });
  const back = await open(store, "back");
  if (back.kind !== "array") throw new TypeError(back.kind);
  expect(await back.getBytes()).toEqual(await zarr.getBytes());
  if (back.fillValue !== undefined && back.dtype.kind !== "struct")
    expect(encodeItem(back.dtype, back.fillValue)).toEqual(zarr.model.fillItem);
  if (back.columnNames.length === 0) {
    await convert(back, { store, path: "again" });
    const { model } = await openZarrArray(store, "again");
    const isTurned = zarr.dialect === "zarr2" && zarr.dtype.byteOrder === "big";
    expect(isTurned ? model.fillItem.slice().reverse() : model.fillItem).toEqual(zarr.model.fillItem);
  }
  return back.fillValue;
}

test.each([
  ["large integers", "int64", 9_007_199_254_740_993n, 9_007_199_254_740_993n],
  ["NaN in hexadecimal", "float64", "0x7ff8000000000000", "NaN"],
  ["infinities", "float32", "-Infinity", "-Infinity"],
  ["minus zero", "float64", -0, -0],
  ["minus zero in hexadecimal", "float16", "0x8000", -0],
  ["complex minus zero", "complex128", [-0, 0], [-0, 0]],
  ["complex numbers", "complex64", [1.5, "NaN"], [1.5, "NaN"]],
  ["S", { name: "null_terminated_bytes", configuration: { length_bytes: 4 } }, "YWI=", "ab"],
  ["raw bytes", { name: "raw_bytes", configuration: { length_bytes: 3 } }, "/wB/", "\u00ff\u0000\u007f"],
  ["U", { name: "fixed_length_utf32", configuration: { length_bytes: 8 } }, "é", "é"],
  ["dates", { name: "numpy.datetime64", configuration: { unit: "s", scale_factor: 1 } }, "NaT", -(2n ** 63n)],
] satisfies readonly (readonly [string, JsonValue, JsonValue, JsonValue])[])(
  "the fill value of version 3 for %s is kept",
  async (_, dataType, fillValue, expected) => {
    const store = new MemoryStore();
    await createZarr(store, "zarr", { shape: [5], dataType, chunkShape: [2], fillValue });
    expect(await convertOne(store)).toEqual(expected);
  },
);

test.each([
  ["raw bytes", { dtype: "|V3", fill_value: "/wB/" }, "\u00ff\u0000\u007f"],
  ["S", { dtype: "|S5", fill_value: "YWI=" }, "ab"],
  ["none", { dtype: "<f8", fill_value: null }, null],
  ["minus zero", { dtype: ">f4", fill_value: -0 }, -0],
  [
    "structs",
    {
      dtype: [
        ["a", "<i4"],
        ["b", "|S2"],
      ],
      fill_value: "BwAAAHh5",
    },
    [7, "xy"],
  ],
])("the fill value of version 2 for %s is kept", async (_, members, expected) => {
  const store = new MemoryStore();
  const document = { zarr_format: 2, shape: [5], chunks: [2], order: "C", compressor: null, filters: null };
  await store.put(
    "zarr/.zarray",
    new TextEncoder().encode(stringifyJson({ ...document, ...members } as JsonValue)),
  );
  expect(await convertOne(store)).toEqual(expected);
});

test.each([
  ["float64", "0x7ff8000000000123"],
  ["float32", "0xffc00000"],
  ["complex64", [0, "0x7fc00001"]],
] as const)(
  "a NaN of %s whose bit pattern has no name becomes the plain NaN, and this is reported: %j",
  async (dataType, fillValue) => {
    const store = new MemoryStore();
    await createZarr(store, "zarr", { shape: [5], dataType, chunkShape: [2], fillValue });
    const source = await zarrSource(await openZarr(store, "zarr"));
    for (const format of ["blz", "bcolz"] as const) {
      const { notes } = await convert(source, { store, path: format }, { to: format });
      expect(notes).toEqual([expect.stringContaining("the fill value becomes NaN")]);
    }
  },
);

test.each(["npy", "bloscpack"] as const)(
  "a note says that %s cannot store -0; for 0 there is none",
  async (format) => {
    const store = new MemoryStore();
    for (const [path, fillValue] of [
      ["minus", -0],
      ["plus", 0],
    ] as const) {
      await createZarr(store, path, { shape: [5], dataType: "float64", chunkShape: [2], fillValue });
      const { notes } = await convert(
        await zarrSource(await openZarr(store, path)),
        { store, path: `${path}.x` },
        { to: format },
      );
      expect(notes.map((note) => note.replace(/^.*: the/, "the"))).toEqual(
        path === "plus" ? [] : [expect.stringContaining("the fill value is not carried over")],
      );
    }
  },
);

test("the fill value of items too long for the stack is kept", async () => {
  const store = new MemoryStore();
  const document = { zarr_format: 2, shape: [2], chunks: [1], order: "C", compressor: null, filters: null };
  await store.put("zarr/.zarray", jsonBytes({ ...document, dtype: "<U70000", fill_value: "é" }));
  await convert(await openZarr(store, "zarr"), { store, path: "three" });
  expect((await openZarrArray(store, "three")).fillValue).toBe("é");
});

test("the fill value of a struct with sub-arrays becomes those of its fields", async () => {
  const store = new MemoryStore();
  const document = { zarr_format: 2, shape: [2], chunks: [1], order: "C", compressor: null, filters: null };
  const fields: readonly (readonly [string, string, string, JsonValue, number])[] = [
    ["int", "<i4", "07000000", 7, 1],
    ["big", ">i8", "0020000000000001", 2n ** 53n + 1n, 1],
    ["float", "<f8", "000000000000f83f", 1.5, 2],
    ["nan", "<f4", "0000c07f", "NaN", 1],
    ["truth", "|b1", "01", true, 3],
    ["complex", "<c8", "0000803f00000040", [1, 2], 1],
    ["bytes", "|S2", "6464", "ZGQ=", 1],
    ["text", "<U1", "e9000000", "é", 2],
  ];
  const bytes = fields.map(([, , hex, , count]) => hex.repeat(count)).join("");
  await store.put(
    "zarr/.zarray",
    jsonBytes({
      ...document,
      dtype: fields.map(([name, dtype, , , count]) => (count === 1 ? [name, dtype] : [name, dtype, [count]])),
      fill_value: Buffer.from(bytes, "hex").toString("base64"),
    }),
  );
  const { notes } = await convert(await openZarr(store, "zarr"), { store, path: "three" });
  for (const [name, , , expected] of fields)
    expect((await openZarrArray(store, `three/${name}`)).fillValue, name).toEqual(expected);
  // No field is a struct, so none is for new readers only.
  expect(notes).toEqual([expect.stringMatching(/^its items have sub-arrays/)]);
});

test("a sub-array whose fill value is several values is converted if no value is the fill value", async () => {
  const store = new MemoryStore();
  await store.put(
    "zarr/.zarray",
    jsonBytes({
      ...{ zarr_format: 2, shape: [2], chunks: [1], order: "C", compressor: null, filters: null },
      dtype: [["v", "|u1", [3]]],
      fill_value: "AQID",
    }),
  );
  await store.put("zarr/0", Uint8Array.of(4, 5, 6));
  await expect(convert(await openZarr(store, "zarr"), { store, path: "part" })).rejects.toMatchObject({
    code: "UNSUPPORTED",
    message: expect.stringContaining("not stored (1) have it"),
  });
  await store.put("zarr/1", Uint8Array.of(7, 8, 9));
  await convert(await openZarr(store, "zarr"), { store, path: "all" }, { verify: true });
  const array = await openZarrArray(store, "all/v");
  expect([array.shape, await array.getBytes()]).toEqual([[2, 3], Uint8Array.of(4, 5, 6, 7, 8, 9)]);
});
