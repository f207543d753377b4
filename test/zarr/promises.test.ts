/** Documents of a few bytes that claim arrays of any size: errors with a code, never an engine's, and no memory for them. */
import { describe, expect, test } from "vitest";
import type { JsonValue } from "../../src/format/types.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { planShardWrite } from "../../src/zarr/write/shard-apply.ts";
import { openZarrWriter } from "./writer.ts";

const LITTLE = { name: "bytes", configuration: { endian: "little" } };
const GZIP = { name: "gzip", configuration: { level: 1 } };
const ZSTD = { name: "zstd", configuration: { level: 1, checksum: false } };
const BLOSC = {
  name: "blosc",
  configuration: { cname: "lz4", clevel: 5, shuffle: "shuffle", typesize: 8, blocksize: 0 },
};
const sharded = (inner: number): JsonValue => ({
  name: "sharding_indexed",
  configuration: { chunk_shape: [inner], codecs: [LITTLE], index_codecs: [LITTLE], index_location: "end" },
});
const regular = (length: number): JsonValue => ({
  name: "regular",
  configuration: { chunk_shape: [length] },
});

async function storeWith(document: Readonly<Record<string, JsonValue>>): Promise<MemoryStore> {
  const store = new MemoryStore();
  const whole = {
    ...{ zarr_format: 3, node_type: "array", shape: [10], data_type: "float64", fill_value: 2.5 },
    ...{ chunk_grid: regular(10), chunk_key_encoding: { name: "default" }, codecs: [LITTLE], attributes: {} },
    ...document,
  };
  await store.put("a/zarr.json", new TextEncoder().encode(JSON.stringify(whole)));
  return store;
}

describe.each([2 ** 30, 2 ** 40, 2 ** 50])("a chunk of %d items", (length) => {
  test.each([
    ["no codec", []],
    ["gzip", [GZIP]],
    ["zstd", [ZSTD]],
    ["blosc", [BLOSC]],
    ["blosc after gzip", [GZIP, BLOSC]],
  ])("with %s: stored bytes that hold fewer are damage, and take little memory", async (_, stages) => {
    const store = await storeWith({ chunk_grid: regular(length), codecs: [LITTLE, ...stages] });
    await store.put("a/c/0", Uint8Array.of(0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    const array = await openZarrArray(store, "a");
    for (const selection of [null, [3], [{ start: 0, stop: 10, step: 3 }]])
      await expect(array.get(selection)).rejects.toMatchObject({
        code: expect.stringMatching(/^(BAD_FIELD|BAD_CHUNK|TRUNCATED|UNSUPPORTED)$/) as string,
        details: { path: store.describe("a/c/0") },
      });
    expect((await array.verify()).ok).toBe(false);
    await expect((await openZarrWriter(store, "a")).set([3], 5)).rejects.toMatchObject({
      name: "SuperchunkError",
    });
  });

  test("in inner chunks: such a shard is not written, and only the array's own missing chunks are listed", async () => {
    const store = await storeWith({ chunk_grid: regular(length), codecs: [sharded(4)] });
    const array = await openZarrArray(store, "a");
    const missing = [];
    for await (const { start, slot } of array.listMissing()) missing.push([...start, slot]);
    expect(missing).toEqual([
      [0, 0],
      [4, 1],
      [8, 2],
    ]);
    expect(await array.get([9])).toBe(2.5);
    const writer = await openZarrWriter(store, "a");
    for (const selection of [null, [3]])
      await expect(writer.set(selection, 5)).rejects.toMatchObject({ code: "LIMIT" });
    expect(await store.stat("a/c/0")).toBeUndefined();
  });
});

test("the missing chunks of an array of any length are listed one by one", async () => {
  const store = await storeWith({
    shape: [2 ** 50],
    chunk_grid: regular(2 ** 50),
    codecs: [sharded(1)],
  });
  const first = await (await openZarrArray(store, "a")).listMissing().next();
  expect(first.value).toMatchObject({ start: [0], slot: 0 });
});

test("the number of unequal chunks is limited over all axes together, not for each axis", async () => {
  const axis: JsonValue = [[1, 6_000_000]];
  const document = (axes: number): Readonly<Record<string, JsonValue>> => ({
    shape: new Array<number>(axes).fill(1),
    chunk_grid: {
      name: "rectilinear",
      configuration: { kind: "inline", chunk_shapes: new Array<JsonValue>(axes).fill(axis) },
    },
  });
  await expect(openZarrArray(await storeWith(document(2)), "a")).rejects.toMatchObject({
    code: "UNSUPPORTED",
    details: { field: "chunk_grid.configuration.chunk_shapes.1" },
  });
  expect((await openZarrArray(await storeWith(document(1)), "a")).shape).toEqual([1]);
});

test("a new chunk never takes the place of an entry without bytes, where another chunk may be stored", () => {
  const layout = { location: "end", endian: "little", checksums: 1, order: undefined } as const;
  const entries = [
    { offset: 0, nbytes: 40 },
    { offset: 0, nbytes: 0 },
  ];
  const update = new Map([[1, new Uint8Array(8)]]);
  const plan = planShardWrite({ size: 40 + 36, entries }, update, layout, "fixed", 1000);
  expect(plan).toMatchObject({
    kind: "patch",
    writes: [{ offset: 40 }],
    entries: [entries[0], { offset: 40 }],
  });
});
