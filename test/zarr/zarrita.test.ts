/** zarrita reads every kind of array through our store, and its arrays become sharded ones. */
import { expect, test } from "vitest";
import * as zarr from "zarrita";
import type { JsonValue } from "../../src/format/types.ts";
import { FileStore } from "../../src/node/index.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { createZarr, type ZarrSpecification } from "../../src/zarr/write/create.ts";
import { writeFromZarrita, zarritaStore } from "../../src/zarr/zarrita.ts";
import { type ArrayFixture, loadFixtures } from "../fixtures/manifest.ts";
import { SPECIFICATIONS } from "./arrays.ts";

test.each(Object.entries(SPECIFICATIONS))("zarrita reads: %s", async (_, spec: ZarrSpecification) => {
  const array = await createZarr(new MemoryStore(), "", spec);
  const values = Int32Array.from({ length: 13 * 17 }, (_, i) => i * 3 - 50);
  await array.set(null, values);
  await array.set([{ start: 0, stop: 6, step: 1 }], -7);
  values.fill(-7, 0, 6 * 17);
  const seen = await zarr.open.v3(zarr.root(zarritaStore(array)), { kind: "array" });
  const { data, shape } = await zarr.get(seen);
  expect(shape).toEqual([13, 17]);
  expect(data).toEqual(values);
  const part = await zarr.get(seen, [zarr.slice(2, 11), 5]);
  expect(part.data).toEqual(Int32Array.from({ length: 9 }, (_, i) => values[(i + 2) * 17 + 5] ?? 0));
});

const rows = loadFixtures("zarr3-sharded", "zarr3-transformer", "zarr3-rectilinear").filter(
  (row): row is ArrayFixture => row.kind === "array",
);

test.each(rows)("zarrita reads $path as this library does", async (row) => {
  const array = await openZarrArray(new FileStore(row.file), row.arrayPath);
  const seen = await zarr.open.v3(zarr.root(zarritaStore(array)), { kind: "array" });
  const { data } = await zarr.get(seen);
  const { buffer, byteOffset, byteLength } = data as unknown as Uint8Array;
  expect(Buffer.compare(Buffer.from(buffer, byteOffset, byteLength), await array.getBytes())).toBe(0);
});

test("an array that zarrita has open is written in shards", async () => {
  const source = await createZarr(new MemoryStore(), "", {
    shape: [20, 11],
    dataType: "float64",
    chunkShape: [3, 4],
    attributes: { unit: "m" },
  });
  const values = Float64Array.from({ length: 220 }, (_, i) => i / 7);
  await source.set(null, values);
  const seen = await zarr.open.v3(zarr.root(zarritaStore(source)), { kind: "array" });
  const target = new MemoryStore();
  const array = await writeFromZarrita(seen, target, "out", { specification: { indexLocation: "start" } });
  expect(array.shardShape).toEqual([21, 12]);
  const again = await openZarrArray(target, "out");
  expect(await again.get()).toMatchObject({ data: values, shape: [20, 11] });
  expect(again.attrs).toEqual({ unit: "m" });
  const small = await writeFromZarrita(seen, target, "small", {
    specification: { chunkShape: [2, 5], shardShape: [4, 5] },
  });
  expect(await small.get()).toMatchObject({ data: values });
});

test.each([
  ["bool", (i: number) => i % 3 === 0, true],
  ["int8", (i: number) => i - 100, -7],
  ["uint16", (i: number) => i * 300, 65_535],
  ["int32", (i: number) => i * -70_000, 5],
  ["int64", (i: number) => BigInt(i) * -(2n ** 53n), -1n],
  ["uint64", (i: number) => BigInt(i) * 2n ** 56n, 2n ** 53n - 1n],
  ["float32", (i: number) => i / 8, "NaN"],
  ["float64", (i: number) => (i === 3 ? Number.NaN : i / 3), "-Infinity"],
] as const)("zarrita's %s arrays keep values and fill value", async (dataType, makeValue, fillValue) => {
  const store = new MemoryStore();
  const spec = { shape: [10, 20], dataType, chunkShape: [4, 7] };
  // JSON of this library keeps the digits of large numbers.
  const source = await createZarr(store, "a", { ...spec, fillValue: fillValue as JsonValue });
  // One chunk in the middle stays absent.
  const rows = [0, 1, 2, 3, 8, 9];
  for (const row of rows)
    await source.set(
      [row],
      Array.from({ length: 20 }, (_, i) => makeValue((row * 20 + i) % 250)),
    );
  const seen = await zarr.open.v3(zarr.root(zarritaStore(source)), { kind: "array" });
  const array = await writeFromZarrita(seen, store, "out", { specification: { shardShape: [8, 14] } });
  const again = await openZarrArray(store, "out");
  expect(await again.getBytes()).toEqual(await source.getBytes());
  expect(again.fillValue).toEqual((await openZarrArray(store, "a")).fillValue);
  expect(array.shardShape).toEqual([8, 14]);
});

test("a fill value that zarrita reads inexactly is required from the caller, not guessed", async () => {
  const store = new MemoryStore();
  const fillValue = (2n ** 64n - 1n) as JsonValue;
  const spec = { shape: [10], dataType: "uint64", chunkShape: [4] };
  const source = await createZarr(store, "a", { ...spec, fillValue });
  const seen = await zarr.open.v3(zarr.root(zarritaStore(source)), { kind: "array" });
  await expect(writeFromZarrita(seen, store, "out")).rejects.toMatchObject({
    code: "UNSUPPORTED",
    details: { field: "fill_value" },
  });
  const array = await writeFromZarrita(seen, store, "out", { specification: { fillValue } });
  expect(await array.get([9])).toBe(fillValue);
});
