/** Shards whose append was interrupted: the earlier chunks are there again. */
import { describe, expect, test } from "vitest";
import type { ArraySlice } from "../../src/archive/kinds/types.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { createZarr } from "../../src/zarr/write/create.ts";
import { recoverShard } from "../../src/zarr/write/recover-shard.ts";
import type { WritableZarrArray } from "../../src/zarr/write/writable-array.ts";
import { nested } from "./arrays.ts";

const LITTLE = { name: "bytes", configuration: { endian: "little" } };
const BIG = { name: "bytes", configuration: { endian: "big" } };
const CRC = { name: "crc32c" };
const ZSTD = { name: "zstd", configuration: { level: 1, checksum: false } };
const base = {
  shape: [6, 8],
  dataType: "int32",
  chunkShape: [3, 4],
  shardShape: [6, 8],
  fillValue: -1,
} as const;
const KEY = "a/c/0/0";
const first = [
  { start: 0, stop: 3, step: 1 },
  { start: 0, stop: 4, step: 1 },
];

async function valuesIn(store: MemoryStore): Promise<number[]> {
  const { data } = (await (await openZarrArray(store, "a")).get()) as ArraySlice;
  return Array.from(data as Int32Array);
}

/** The shard before an append and after it. */
async function appended(
  extra: object,
): Promise<{ store: MemoryStore; array: WritableZarrArray; before: Uint8Array; after: Uint8Array }> {
  const store = new MemoryStore();
  const array = await createZarr(store, "a", { ...base, codecs: [LITTLE], ...extra }, { strategy: "append" });
  await array.set(
    null,
    Int32Array.from({ length: 48 }, (_, i) => i),
  );
  await array.set([0, 0], 100);
  const before = (await store.get(KEY)) ?? new Uint8Array(0);
  await array.set(first, 7);
  const after = (await store.get(KEY)) ?? new Uint8Array(0);
  return { store, array, before, after };
}

describe.each([
  ["little-endian, raw chunks", {}],
  ["big-endian, compressed chunks", { codecs: [LITTLE, ZSTD], indexCodecs: [BIG, CRC] }],
  ["two checksums", { indexCodecs: [LITTLE, CRC, CRC] }],
  ["shards inside the shard, whose indexes are not its own", { codecs: [nested([LITTLE])] }],
  ["chunks of only ones", { dataType: "int32", codecs: [LITTLE], fillValue: 5 }],
])("an index at the end: %s", (_, extra) => {
  test("[FH-08] an append that is cut anywhere is undone, and all earlier values are exact", async () => {
    const { store, array, before, after } = await appended(extra);
    await store.put(KEY, before);
    const values = await valuesIn(store);
    for (let size = before.length; size < after.length; size++) {
      await store.put(KEY, after.slice(0, size));
      expect(await recoverShard(array, [0, 0])).toEqual({
        ...{ size: before.length, dropped: size - before.length, chunks: 4 },
      });
      expect(await valuesIn(store)).toEqual(values);
      if (size === before.length) expect(await store.get(KEY)).toEqual(before);
    }
    // If the length was written before the bytes, as by file systems after a power cut.
    for (const byte of [0, 255]) {
      await store.put(
        KEY,
        after.map((each, i) => (i < before.length ? each : byte)),
      );
      await recoverShard(array, [0, 0]);
      expect(await valuesIn(store)).toEqual(values);
    }
    await array.set(first, 9);
    expect((await array.verify()).ok).toBe(true);
  });

  test("a complete append stays", async () => {
    const { store, array, after } = await appended(extra);
    expect(await recoverShard(array, [0, 0])).toMatchObject({ size: after.length, dropped: 0 });
    expect(await store.get(KEY)).toEqual(after);
  });
});

test("a shard whose state cannot be known is refused and left unchanged", async () => {
  // Four chunks inside each of four: the index of the last one would pass for the shard's own.
  const twins = { codecs: [nested([LITTLE, CRC], "end", [LITTLE, CRC], [3, 1])] };
  for (const extra of [{ indexLocation: "start" }, { indexCodecs: [LITTLE] }, twins]) {
    const { store, array, after } = await appended(extra);
    const torn = after.slice(0, -3);
    await store.put(KEY, torn);
    await expect(recoverShard(array, [0, 0])).rejects.toMatchObject({
      code: "UNSUPPORTED",
      details: { path: `memory:${KEY}` },
    });
    expect(await store.get(KEY)).toEqual(torn);
  }
  const { store, array, before } = await appended({});
  await store.put(KEY, before.slice(0, 150));
  await expect(recoverShard(array, [0, 0])).rejects.toMatchObject({
    code: "INCOMPLETE",
    details: { field: "shard index" },
  });
  await store.delete(KEY);
  await expect(recoverShard(array, [0, 0])).rejects.toMatchObject({ code: "NOT_FOUND" });
  const plain = await createZarr(store, "plain", { ...base, shardShape: undefined });
  await expect(recoverShard(plain, [0, 0])).rejects.toMatchObject({ code: "BAD_ARGUMENT" });
});

test("an array that read the shard before reads it again after it is repaired", async () => {
  const { store, array, before, after } = await appended({});
  await store.put(KEY, before);
  const values = await valuesIn(store);
  await array.set([5, 7], 500);
  await store.put(KEY, after);
  await array.get();
  await store.put(KEY, after.slice(0, -3));
  await recoverShard(array, [0, 0]);
  const { data } = (await array.get()) as ArraySlice;
  expect(Array.from(data as Int32Array)).toEqual(values);
});

test("an invalid position of the grid is refused", async () => {
  const { array } = await appended({});
  for (const position of [[], [0], [1, 0], [0, -1], [0, 0, 0], [0.5, 0]]) {
    await expect(recoverShard(array, position)).rejects.toMatchObject({
      code: "BAD_ARGUMENT",
      details: { field: "position", found: position },
    });
  }
});
