/** Every data type: fill values as Zarr v3 spells them, values in and out, both byte orders. */
import { expect, test, vi } from "vitest";
import type { ArraySlice } from "../../src/archive/kinds/types.ts";
import type { JsonValue } from "../../src/format/types.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { createZarr } from "../../src/zarr/write/create.ts";
import type { SelectionValues } from "../../src/zarr/write/writable-array.ts";
import { toJsonValues } from "../values/json-values.ts";
import { SPECIFICATIONS } from "./arrays.ts";

const STRUCT = {
  name: "struct",
  configuration: {
    fields: [
      { name: "a", data_type: "int32" },
      { name: "b", data_type: "float64" },
    ],
  },
};

const CASES: readonly (readonly [JsonValue, JsonValue, JsonValue, SelectionValues, JsonValue])[] = [
  ["bool", true, true, false, false],
  ["int8", -5, -5, 7, 7],
  ["int64", 9007199254740993n, "9007199254740993", -1n, -1],
  ["uint64", 2n ** 64n - 1n, "18446744073709551615", 5, 5],
  ["float16", -0.5, -0.5, 2, 2],
  ["float32", "NaN", "NaN", 0.5, 0.5],
  ["float64", "0x7ff0000000000000", "Infinity", -1.25, -1.25],
  ["complex64", [1, "NaN"], [1, "NaN"], [2, -3], [2, -3]],
  ["complex128", ["-Infinity", "0x3ff0000000000000"], ["-Infinity", 1], [0.5, 4], [0.5, 4]],
  [
    { name: "numpy.datetime64", configuration: { unit: "ns", scale_factor: 1 } },
    "NaT",
    "NaT",
    86_400n,
    "86400",
  ],
  [{ name: "numpy.timedelta64", configuration: { unit: "s", scale_factor: 10 } }, 3, "3", 4, "4"],
  [{ name: "null_terminated_bytes", configuration: { length_bytes: 3 } }, "YWI=", "ab", "xyz", "xyz"],
  [{ name: "fixed_length_utf32", configuration: { length_bytes: 12 } }, "hé", "hé", "abc", "abc"],
  ["r16", [1, 2], [1, 2], Uint8Array.of(3, 4), [3, 4]],
  [{ name: "raw_bytes", configuration: { length_bytes: 2 } }, "AQI=", [1, 2], Uint8Array.of(9, 8), [9, 8]],
  [STRUCT, { a: 1, b: "NaN" }, [1, "NaN"], { a: -7, b: 0.25 }, [-7, 0.25]],
];

test.each(CASES)(
  "%o: the fill value %o is %o, and a value is written and read",
  async (dataType, fillValue, fill, value, found) => {
    for (const endian of ["little", "big"]) {
      const isSingle = dataType === "bool" || dataType === "int8";
      const store = new MemoryStore();
      const bytes = isSingle ? { name: "bytes" } : { name: "bytes", configuration: { endian } };
      const array = await createZarr(store, "", {
        shape: [5],
        dataType,
        chunkShape: [2],
        shardShape: [4],
        codecs: [bytes, { name: "zstd", configuration: { level: 1 } }],
        fillValue,
      });
      await array.set([{ start: 1, stop: 4, step: 1 }], value);
      const again = await openZarrArray(store);
      const { data } = (await again.get()) as ArraySlice;
      expect(toJsonValues(data, again.dtype)).toEqual([fill, found, found, found, fill]);
      // What is read can be written back unchanged, as values and as bytes.
      const copy = await createZarr(store, "copy", { shape: [5], dataType, chunkShape: [3], fillValue });
      await copy.set(null, data);
      expect(await copy.getBytes()).toEqual(await again.getBytes());
      await copy.set(null, value);
      await copy.setBytes(null, await again.getBytes());
      expect(await copy.getBytes()).toEqual(await again.getBytes());
    }
  },
);

test("too few values, and values that the type cannot hold, are refused before anything is written", async () => {
  const store = new MemoryStore();
  const array = await createZarr(store, "", {
    shape: [4],
    dataType: "int16",
    chunkShape: [2],
    shardShape: [4],
  });
  await expect(array.set(null, [1, 2, 3])).rejects.toMatchObject({ code: "BAD_ARGUMENT" });
  await expect(array.set(null, [1, 2, 3, 2 ** 15])).rejects.toMatchObject({ code: "BAD_ARGUMENT" });
  await expect(array.setBytes(null, new Uint8Array(7))).rejects.toMatchObject({ code: "BAD_ARGUMENT" });
  await expect(array.set([9], 1)).rejects.toMatchObject({ code: "BAD_ARGUMENT" });
  expect(await store.get("c/0")).toBeUndefined();
});

const SHARED = [
  "no shards, bytes",
  "shards, blosc, index at the start",
  "shards, big-endian index and values",
];

test.each(SHARED)("a shared result has the same values: %s", async (name) => {
  const spec = SPECIFICATIONS[name];
  if (spec === undefined) throw new RangeError(name);
  const array = await createZarr(new MemoryStore(), "", spec);
  await array.set([{ start: 0, stop: 9, step: 1 }, null], 5);
  for (const selection of [null, [3, null], [{ start: 1, stop: 12, step: 3 }, 16]]) {
    const own = (await array.get(selection)) as ArraySlice;
    const shared = (await array.get(selection, { shared: true })) as ArraySlice;
    if (!ArrayBuffer.isView(own.data) || !ArrayBuffer.isView(shared.data)) throw new TypeError("no numbers");
    expect(own.data.buffer).toBeInstanceOf(ArrayBuffer);
    expect(shared.data.buffer).toBeInstanceOf(SharedArrayBuffer);
    expect([...shared.data]).toEqual([...own.data]);
    const bytes = await array.getBytes(selection, { shared: true });
    expect(bytes.buffer).toBeInstanceOf(SharedArrayBuffer);
    expect([...bytes]).toEqual([...(await array.getBytes(selection))]);
  }
  expect(await array.get([0, 0], { shared: true })).toBe(5);
});

test("an engine without shared memory refuses a shared result and says why", async () => {
  const array = await createZarr(new MemoryStore(), "", { shape: [3], dataType: "int8", chunkShape: [2] });
  vi.stubGlobal("SharedArrayBuffer", undefined);
  try {
    await expect(array.get(null, { shared: true })).rejects.toMatchObject({
      code: "UNSUPPORTED",
      details: { field: "shared" },
    });
  } finally {
    vi.unstubAllGlobals();
  }
});

test("[FH-13] a struct of zarr-python 3.1, whose bytes codec names no byte order, is read as little-endian", async () => {
  const store = new MemoryStore();
  // What zarr-python 3.1.6 wrote for np.array([(1, 2.0)], dtype=[("a", "<i4"), ("b", "<f8")]), compressors=None.
  const document = `{"shape": [1], "data_type": {"name": "structured", "configuration": {"fields": [["a", "int32"],
    ["b", "float64"]]}}, "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "fill_value": "AAAAAAAAAAAAAAAA",
    "codecs": [{"name": "bytes"}], "attributes": {}, "zarr_format": 3, "node_type": "array", "storage_transformers": []}`;
  await store.put("zarr.json", new TextEncoder().encode(document));
  await store.put("c/0", Uint8Array.of(1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 64));
  const array = await openZarrArray(store, "");
  expect(toJsonValues(((await array.get()) as ArraySlice).data, array.dtype)).toEqual([[1, 2]]);
});
