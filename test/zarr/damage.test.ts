import { describe, expect, test } from "vitest";
import { isSuperchunkError } from "../../src/errors.ts";
import type { JsonObject } from "../../src/format/types.ts";
import { FileStore } from "../../src/node/index.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { openZarr, openZarrArray } from "../../src/zarr/read/open.ts";
import { DEFAULT_INDEX, encodeShardIndex, shardIndexLength } from "../../src/zarr/read/shard-index.ts";
import { createZarr, zarrDocument } from "../../src/zarr/write/create.ts";
import { temporaryFolder } from "../folder.ts";
import { sweep } from "../scope.ts";
import { SPECIFICATIONS } from "./arrays.ts";

const LITTLE = { name: "bytes", configuration: { endian: "little" } };
const base = {
  shape: [8],
  dataType: "int32",
  chunkShape: [2],
  shardShape: [8],
  codecs: [LITTLE],
  fillValue: 7,
} as const;
const entry = (offset: number, nbytes: number): { offset: number; nbytes: number } => ({ offset, nbytes });

async function storeWith(shard: Uint8Array, extra: object = {}): Promise<MemoryStore> {
  const store = new MemoryStore();
  await createZarr(store, "a", { ...base, ...extra });
  await store.put("a/c/0", shard);
  return store;
}

async function shardOf(
  entries: readonly ({ offset: number; nbytes: number } | undefined)[],
): Promise<Uint8Array> {
  const index = await encodeShardIndex(entries, [4]);
  const shard = new Uint8Array(32 + index.length);
  shard.set(index, 32);
  return shard;
}

const whole = [entry(0, 8), entry(8, 8), entry(16, 8), entry(24, 8)];

describe("an index", () => {
  test.each([
    ["an entry past the chunks", [entry(0, 8), entry(8, 8), entry(16, 8), entry(28, 8)], "BAD_FIELD", 3],
    ["an entry far away", [entry(2 ** 52, 8), undefined, undefined, undefined], "BAD_FIELD", 0],
    ["overlapping entries", [entry(0, 8), entry(4, 8), undefined, undefined], "BAD_FIELD", 1],
    ["two entries for the same bytes", [entry(0, 8), undefined, entry(0, 8), undefined], "BAD_FIELD", 2],
    [
      "an entry of another size than its chunk",
      [entry(0, 8), entry(8, 4), undefined, undefined],
      "BAD_FIELD",
      1,
    ],
  ] as const)(
    "[FH-02] [FH-04] with %s is refused, naming shard and entry",
    async (_, entries, code, chunk) => {
      const store = await storeWith(await shardOf(entries));
      const array = await openZarrArray(store, "a");
      await expect(array.get()).rejects.toMatchObject({
        code,
        details: {
          path: store.describe("a/c/0"),
          chunk,
          offset: expect.any(Number),
          field: expect.any(String),
          expected: expect.anything(),
          found: expect.anything(),
        },
        message: expect.stringMatching(/^memory:a\/c\/0.*(entry|chunk).*damaged/),
      });
      expect(await array.verify()).toMatchObject({ ok: false, findings: [{ code }] });
    },
  );

  test("with half an entry 2^64-1 is refused", async () => {
    const index = new Uint8Array(64).fill(0xff);
    new DataView(index.buffer).setBigUint64(24, 8n, true);
    const store = new MemoryStore();
    await createZarr(store, "a", { ...base, indexCodecs: [LITTLE] });
    const shard = new Uint8Array(32 + 64);
    shard.set(index, 32);
    await store.put("a/c/0", shard);
    await expect((await openZarrArray(store, "a")).get([7])).rejects.toMatchObject({
      code: "BAD_FIELD",
      details: { chunk: 1, offset: 32 + 16, field: "shard index" },
      message: expect.stringContaining("only one is 2^64-1"),
    });
  });

  test("[FH-02] with any changed bit is refused by its crc32c", async () => {
    const shard = await shardOf(whole);
    for (let at = 32; at < shard.length; at++) {
      const damaged = shard.slice();
      damaged[at] = (damaged[at] ?? 0) ^ 0x10;
      const array = await openZarrArray(await storeWith(damaged), "a");
      await expect(array.get([0])).rejects.toMatchObject({
        code: "CHECKSUM_MISMATCH",
        details: {
          path: "memory:a/c/0",
          offset: 96,
          expected: expect.any(String),
          found: expect.any(String),
        },
      });
    }
  });

  test("that does not fit the object is refused, whatever the document says", async () => {
    const shard = await shardOf(whole);
    for (const length of [0, 1, shardIndexLength(4) - 1]) {
      const array = await openZarrArray(await storeWith(shard.slice(shard.length - length)), "a");
      await expect(array.get()).rejects.toMatchObject({
        code: "TRUNCATED",
        details: { path: "memory:a/c/0", field: "shard index", expected: 68, found: length },
      });
    }
    // 2^40 entries: no memory is allocated for them before the object's size is known.
    const store = new MemoryStore();
    await createZarr(store, "a", { ...base, shape: [2 ** 40], shardShape: [2 ** 40], chunkShape: [1] });
    await store.put("a/c/0", shard);
    await expect((await openZarrArray(store, "a")).get([0])).rejects.toMatchObject({ code: "TRUNCATED" });
  });

  test("at the start does not let chunks overlap it", async () => {
    const layout = { ...DEFAULT_INDEX, location: "start" } as const;
    const index = await encodeShardIndex([entry(60, 8), undefined, undefined, undefined], [4], layout);
    const shard = new Uint8Array(index.length + 8);
    shard.set(index);
    const array = await openZarrArray(await storeWith(shard, { indexLocation: "start" }), "a");
    await expect(array.get([0])).rejects.toMatchObject({
      code: "BAD_FIELD",
      details: { chunk: 0, offset: 0 },
    });
  });
});

test.each(Object.entries(SPECIFICATIONS))(
  "[FH-03] any lost or changed byte gives an error or the right values: %s",
  async (_, spec) => {
    const store = new MemoryStore();
    const array = await createZarr(store, "", spec);
    const values = Int32Array.from({ length: 13 * 17 }, (__, i) => i % 50);
    await array.set(null, values);
    const keys = new Set<string>();
    for await (const { key } of array.listChunks()) keys.add(key);
    const [key = ""] = keys;
    const whole = (await store.get(key)) ?? new Uint8Array(0);
    for (let at = 0; at < whole.length; at += Math.max(1, Math.floor(whole.length / sweep(60, 24)))) {
      for (const damaged of [whole.slice(0, at), whole.map((byte, i) => (i === at ? byte ^ 0x41 : byte))]) {
        await store.put(key, damaged);
        try {
          const bytes = await (await openZarrArray(store)).getBytes();
          expect(bytes.length).toBe(values.byteLength);
          // A truncation is always noticed; changed values are not if no checksum covers them.
          expect(damaged.length).toBe(whole.length);
        } catch (error) {
          expect(isSuperchunkError(error) && error.isDamage, String(error)).toBe(true);
        }
      }
    }
  },
);

describe("a document", () => {
  const good = zarrDocument({ ...base });
  const sharding = (good["codecs"] as readonly JsonObject[])[0] as JsonObject;
  const configured = (change: object): object => ({
    codecs: [{ ...sharding, configuration: { ...(sharding["configuration"] as JsonObject), ...change } }],
  });

  test.each([
    [
      "an inner chunk that does not divide the shard",
      configured({ chunk_shape: [3] }),
      "BAD_FIELD",
      "chunk_shape",
    ],
    ["an inner chunk of other dimensions", configured({ chunk_shape: [2, 2] }), "BAD_FIELD", "chunk_shape"],
    [
      "an index through a codec whose size varies",
      configured({ index_codecs: [LITTLE, { name: "gzip", configuration: { level: 1 } }] }),
      "UNSUPPORTED",
      "index_codecs",
    ],
    [
      "an index without bytes",
      configured({ index_codecs: [{ name: "crc32c" }] }),
      "BAD_FIELD",
      "index_codecs",
    ],
    ["an unknown index location", configured({ index_location: "middle" }), "BAD_FIELD", "index_location"],
    ["an unknown codec", { codecs: [LITTLE, { name: "lzma" }] }, "UNSUPPORTED", "codecs.1"],
    ["no array-to-bytes codec", { codecs: [{ name: "crc32c" }] }, "BAD_FIELD", "codecs.0"],
    [
      "a transpose after the array-to-bytes codec",
      { codecs: [LITTLE, { name: "transpose", configuration: { order: [0] } }] },
      "BAD_FIELD",
      "codecs.1",
    ],
    [
      "a transpose with the wrong number of dimensions",
      { codecs: [{ name: "transpose", configuration: { order: [1] } }, LITTLE] },
      "BAD_FIELD",
      "order",
    ],
    ["an unknown data type", { data_type: "bfloat16" }, "UNSUPPORTED", "data_type"],
    ["a fill value of another type", { fill_value: "x" }, "BAD_FIELD", "fill_value"],
    ["a fill value out of range", { fill_value: 2 ** 31 }, "BAD_FIELD", "fill_value"],
    ["no fill value", { fill_value: null }, "BAD_FIELD", "fill_value"],
    [
      "a chunk of length zero",
      { chunk_grid: { name: "regular", configuration: { chunk_shape: [0] } } },
      "BAD_FIELD",
      "chunk_shape",
    ],
    ["a negative shape", { shape: [-1] }, "BAD_FIELD", "shape"],
    ["an unknown grid", { chunk_grid: { name: "hexagonal" } }, "UNSUPPORTED", "chunk_grid"],
    [
      "too few unequal chunks",
      { chunk_grid: { name: "rectilinear", configuration: { kind: "inline", chunk_shapes: [[2, 4]] } } },
      "BAD_FIELD",
      "chunk_shapes.0",
    ],
    ["a member that must be understood", { novelty: { must_understand: true } }, "UNSUPPORTED", "novelty"],
    [
      "a storage transformer",
      { storage_transformers: [{ name: "x" }] },
      "UNSUPPORTED",
      "storage_transformers",
    ],
    ["another version", { zarr_format: 4 }, "BAD_FIELD", "zarr_format"],
    ["the wrong number of dimension names", { dimension_names: ["x", "y"] }, "BAD_FIELD", "dimension_names"],
  ])("[FH-01] [FH-05] with %s is refused by name", async (_, change, code, field) => {
    const store = new MemoryStore();
    await store.put("a/zarr.json", new TextEncoder().encode(JSON.stringify({ ...good, ...change })));
    await expect(openZarr(store, "a")).rejects.toMatchObject({
      code,
      details: { path: store.describe("a/zarr.json"), field: expect.stringContaining(field) },
    });
  });

  test("that says it may be ignored is ignored", async () => {
    const store = new MemoryStore();
    const document = { ...good, novelty: { must_understand: false } };
    await store.put("zarr.json", new TextEncoder().encode(JSON.stringify(document)));
    expect((await openZarrArray(store)).shape).toEqual([8]);
  });

  test("exists, or its absence is reported", async () => {
    await expect(openZarr(new MemoryStore(), "nothing/here")).rejects.toMatchObject({ code: "NOT_FOUND" });
    await expect(openZarr(new FileStore("/nonexistent"), "x")).rejects.toMatchObject({ code: "NOT_FOUND" });
  });
});

test("a result that does not fit in memory is refused, but single values of it can be read", async () => {
  const store = new MemoryStore();
  const array = await createZarr(store, "", { ...base, shape: [2 ** 50], shardShape: [1024] });
  await expect(array.get()).rejects.toMatchObject({ code: "LIMIT" });
  expect(await array.get([2 ** 50 - 1])).toBe(7);
  await array.set([2 ** 49], 5);
  expect(await array.get([2 ** 49])).toBe(5);
  // Existing chunks are found by asking the store, not by walking the grid.
  expect(await array.verify()).toMatchObject({ ok: true, chunks: 1 });
  for await (const { start } of array.listChunks()) expect(start).toEqual([2 ** 49]);
  const huge = await createZarr(store, "huge", { ...base, shape: [2 ** 50], shardShape: [2 ** 40] });
  await expect(huge.set([0], 1)).rejects.toMatchObject({ code: "LIMIT" });
});

describe("verify reads everything stored, also what is outside the array", () => {
  test.each([
    ["of a chunk at the array's edge", 6, 1],
    ["of a chunk entirely outside", 8, 2],
  ])("%s", async (_, row, chunks) => {
    const store = new MemoryStore();
    const writer = await createZarr(store, "a", {
      ...base,
      codecs: [LITTLE, { name: "crc32c" }],
      chunkShape: [4],
      shape: [12],
      shardShape: [12],
    });
    await writer.set(
      null,
      Array.from({ length: 12 }, (_, i) => i + 1),
    );
    const document = await store.get("a/zarr.json");
    const text = new TextDecoder().decode(document).replace(/"shape": \[\s*12\s*\]/, '"shape": [5]');
    await store.put("a/zarr.json", new TextEncoder().encode(text));
    const whole = await openZarrArray(store, "a");
    expect(whole.shape).toEqual([5]);
    expect(await whole.verify()).toMatchObject({ ok: true, chunks: 3, nbytes: 20, digests: 4 });
    const shard = (await store.get("a/c/0"))?.slice() ?? new Uint8Array(0);
    const at = Math.floor(row / 4) * 20 + (row % 4) * 4;
    shard[at] = (shard[at] ?? 0) ^ 1;
    await store.put("a/c/0", shard);
    const array = await openZarrArray(store, "a");
    expect(await array.verify()).toMatchObject({
      ok: false,
      findings: [{ code: "CHECKSUM_MISMATCH", chunk: chunks }],
    });
  });
});

test("a fill value is required for every field, also for one whose name every object has", async () => {
  const store = new MemoryStore();
  const document = {
    ...{ zarr_format: 2, shape: [3], chunks: [3], dtype: [["constructor", "<i4"]], compressor: null },
    ...{ filters: null, order: "C", fill_value: {} },
  };
  await store.put("a/.zarray", new TextEncoder().encode(JSON.stringify(document)));
  await expect(openZarrArray(store, "a")).rejects.toMatchObject({
    code: "BAD_FIELD",
    message: expect.stringContaining('the field "constructor"') as string,
  });
});

test.each([
  ["from memory", false],
  ["from a disk", true],
])(
  "[FH-04] a Blosc chunk followed by more bytes is refused also when a part of it is read, %s",
  async (_, isOnDisk) => {
    const folder = temporaryFolder();
    const store = isOnDisk ? new FileStore(folder) : new MemoryStore();
    const length = 200_000;
    const BLOSC = {
      name: "blosc",
      configuration: { cname: "lz4", clevel: 5, shuffle: "noshuffle", typesize: 8, blocksize: 0 },
    };
    const settings = { dataType: "float64", chunkShape: [length], codecs: [LITTLE, BLOSC] };
    const writer = await createZarr(store, "a", { shape: [length], ...settings });
    await writer.set(
      null,
      Float64Array.from({ length }, (_, i) => Math.sin(i) * i),
    );
    const chunk = (await store.get("a/c/0")) ?? new Uint8Array(0);
    expect(await (await openZarrArray(store, "a")).get([7])).toBe(Math.sin(7) * 7);
    const longer = new Uint8Array(chunk.length + 10);
    longer.set(chunk);
    await store.put("a/c/0", longer);
    for (const selection of [null, [7]])
      await expect((await openZarrArray(store, "a")).get(selection)).rejects.toMatchObject({
        code: "BAD_FIELD",
        details: { field: "ctbytes", expected: longer.length, found: chunk.length },
      });
  },
);
