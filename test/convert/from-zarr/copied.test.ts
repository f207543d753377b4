import { describe, expect, test } from "vitest";
import { open } from "../../../src/archive/open/open.ts";
import { encode, info } from "../../../src/codec/index.ts";
import { zarrSource } from "../../../src/convert/sources/items.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import type { ReadableStore } from "../../../src/store/types.ts";
import { compressArray } from "../../../src/write/bloscpack/bloscpack-write.ts";
import type { ZarrArray } from "../../../src/zarr/read/array.ts";
import { openZarr, openZarrArray } from "../../../src/zarr/read/open.ts";
import { createZarr, type ZarrSpecification } from "../../../src/zarr/write/create.ts";
/** Blosc chunks of Zarr arrays are copied byte for byte; those that cannot be are recoded, with the same values. */
import { convert } from "../../../src/zarr.ts";
import { planOne } from "../to-zarr/plan-one.ts";
import { corpusStore, openFixture, sha256 } from "../to-zarr/read-back.ts";

const LITTLE = { name: "bytes", configuration: { endian: "little" } };
const BLOSC = {
  name: "blosc",
  configuration: { cname: "zstd", clevel: 3, shuffle: "shuffle", typesize: 4, blocksize: 0 },
};
const rows: ZarrSpecification = {
  shape: [95, 6],
  dataType: "int32",
  chunkShape: [10, 6],
  codecs: [LITTLE, BLOSC],
  fillValue: -7,
  attributes: { unit: "m", big: 123456789012 },
};
const FORMATS = ["blz", "bcolz", "bloscpack"] as const;

const json = (value: object): Uint8Array => new TextEncoder().encode(JSON.stringify(value));

function valuesOf(count: number): Int32Array {
  return Int32Array.from({ length: count }, (_, i) => (i * 2654435761) % 1000);
}

async function makeArray(
  specification: ZarrSpecification,
): Promise<{ store: MemoryStore; array: ZarrArray }> {
  const store = new MemoryStore();
  const writer = await createZarr(store, "z", specification);
  const count = specification.shape.reduce((product, n) => product * n, 1);
  await writer.set(null, valuesOf(count));
  return { store, array: await openZarrArray(store, "z") };
}

/** Payloads of whole chunks by the index of their first row. */
async function payloads(array: ZarrArray): Promise<Map<number, Uint8Array>> {
  const found = new Map<number, Uint8Array>();
  for await (const { start, shape, key, offset, ctbytes } of array.listChunks()) {
    const bytes = await array.store.getRange(key, { offset, length: ctbytes });
    const isWhole = (start[0] ?? 0) + (shape[0] ?? 0) <= (array.shape[0] ?? 0) && (start[1] ?? 0) === 0;
    if (bytes !== undefined && isWhole) found.set(start[0] ?? 0, bytes);
  }
  return found;
}

async function chunksOf(
  store: ReadableStore,
  key: string,
  rowBytes: number,
): Promise<Map<number, Uint8Array>> {
  const archive = await open(store, key);
  if (archive.kind !== "array") throw new TypeError(archive.kind);
  const found = new Map<number, Uint8Array>();
  for await (const { place, bytes } of archive.encodedChunks())
    found.set((place.index * archive.chunkBytes) / rowBytes, bytes.slice());
  return found;
}

describe.each([
  ["one object for each chunk", rows],
  ["shards", { ...rows, shardShape: [30, 6] }],
  ["shards with the index at the start", { ...rows, shardShape: [40, 6], indexLocation: "start" as const }],
  ["shards wider than the array", { ...rows, shardShape: [30, 12] }],
  ["one dimension", { ...rows, shape: [1000], chunkShape: [128], shardShape: [512] }],
])("copied from %s", (_, specification) => {
  test.each(FORMATS)(
    "whole chunks are byte for byte the same in %s, and all values are equal",
    async (format) => {
      const { store, array } = await makeArray(specification);
      const result = await convert(array, { store, path: "back" }, { to: format, verify: true });
      const whole = await payloads(array);
      const rowBytes = specification.shape.slice(1).reduce((product, n) => product * n, 4);
      const found = await chunksOf(store, "back", rowBytes);
      expect(whole.size).toBeGreaterThan(3);
      for (const [row, bytes] of whole) expect(found.get(row)).toEqual(bytes);
      expect(result).toMatchObject({ chunksCopied: whole.size, chunksRecoded: 1, verified: true });
      const back = await open(store, "back");
      if (back.kind !== "array") throw new TypeError(back.kind);
      expect(sha256(await back.getBytes())).toBe(sha256(await array.getBytes()));
      expect(back.attrs).toEqual(array.attrs);
      if (format !== "bloscpack") expect(back.fillValue).toBe(-7);
    },
  );
});

test("a short last chunk of a rectilinear grid is copied too", async () => {
  const store = new MemoryStore();
  const values = valuesOf(25);
  const document = {
    zarr_format: 3,
    node_type: "array",
    shape: [25],
    data_type: "int32",
    chunk_grid: { name: "rectilinear", configuration: { kind: "inline", chunk_shapes: [[10, 10, 5]] } },
    chunk_key_encoding: { name: "default", configuration: { separator: "/" } },
    fill_value: 0,
    codecs: [LITTLE, BLOSC],
  };
  for (const [i, [start, end]] of [
    [0, 10],
    [10, 20],
    [20, 25],
  ].entries())
    await store.put(
      `z/c/${i}`,
      await encode(new Uint8Array(values.slice(start, end).buffer), { typesize: 4 }),
    );
  await store.put("z/zarr.json", json(document));
  const array = await openZarrArray(store, "z");
  const result = await convert(array, { store, path: "back" }, { to: "blz", verify: true });
  expect(result).toMatchObject({ chunksCopied: 3, chunksRecoded: 0 });
});

test.each(FORMATS)(
  "chunks of Zarr v2 are copied to %s, big-endian ones too; missing ones become fill values",
  async (format) => {
    const store = new MemoryStore();
    const document = {
      zarr_format: 2,
      shape: [12],
      chunks: [4],
      dtype: ">i4",
      compressor: { id: "blosc", cname: "lz4", clevel: 5, shuffle: 1, blocksize: 0 },
      fill_value: 258,
      filters: null,
      order: "C",
    };
    const chunk = await encode(
      Uint8Array.from({ length: 16 }, (_, i) => i),
      { typesize: 4 },
    );
    await store.put("z/.zarray", json(document));
    await store.put("z/.zattrs", json({ a: [1] }));
    await store.put("z/0", chunk);
    await store.put("z/2", chunk);
    const array = await openZarrArray(store, "z");
    const result = await convert(array, { store, path: "back" }, { to: format, verify: true });
    expect(result).toMatchObject({ chunksCopied: 2, chunksRecoded: 1 });
    const found = await chunksOf(store, "back", 4);
    expect(found.get(0)).toEqual(chunk);
    expect(found.get(8)).toEqual(chunk);
    const back = await open(store, "back");
    if (back.kind !== "array") throw new TypeError(back.kind);
    expect(await back.get([5])).toBe(258);
    expect(back.attrs).toEqual({ a: [1] });
  },
);

test("the plan for a storage transformer's hierarchy predicts whether chunks are copied", async () => {
  const array = await openZarrArray(corpusStore, "zarr3-transformer/i4-1d/arr");
  const [plan] = (await planOne(array, { to: "blz" })).arrays;
  const result = await convert(array, { store: new MemoryStore(), path: "x" }, { to: "blz", verify: true });
  expect(plan?.action).toBe(result.chunksCopied > 0 ? "copy" : "recode");
  expect(result.nbytes).toBe(2000);
});

describe.each([
  ["another codec", { codecs: [LITTLE, { name: "gzip", configuration: { level: 1 } }] }, "gzip"],
  ["a checksum after blosc", { codecs: [LITTLE, BLOSC, { name: "crc32c" }] }, "blosc and crc32c"],
  [
    "big-endian items",
    { codecs: [{ name: "bytes", configuration: { endian: "big" } }, BLOSC] },
    "big-endian",
  ],
  ["columns of chunks", { chunkShape: [10, 3] }, "more than the first dimension"],
  [
    "transposed chunks",
    { codecs: [{ name: "transpose", configuration: { order: [1, 0] } }, LITTLE, BLOSC] },
    "another order",
  ],
])("%s", (_, change, reason) => {
  test.each(FORMATS)(
    "are recoded to %s with the same values, the plan says why, and recode: false refuses",
    async (format) => {
      const { store, array } = await makeArray({ ...rows, ...change });
      const [plan] = (await planOne(array, { to: format })).arrays;
      expect(plan).toMatchObject({ action: "recode", reason: expect.stringContaining(reason) as string });
      await expect(
        convert(array, { store, path: "back" }, { to: format, recode: false }),
      ).rejects.toMatchObject({
        code: "UNSUPPORTED",
        message: expect.stringContaining(reason) as string,
      });
      const result = await convert(array, { store, path: "back" }, { to: format, verify: true });
      expect(result).toMatchObject({ chunksCopied: 0 });
      const back = await open(store, "back");
      if (back.kind !== "array") throw new TypeError(back.kind);
      expect(sha256(await back.getBytes())).toBe(sha256(await array.getBytes()));
    },
  );
});

test("a damaged payload is not copied, and nothing of the result remains", async () => {
  const { store, array } = await makeArray(rows);
  const payload = await store.get("z/c/3/0");
  if (payload === undefined) throw new TypeError("no chunk");
  const bytes = payload.slice();
  bytes.set([1, 2, 3, 4], 4);
  await store.put("z/c/3/0", bytes);
  await expect(convert(array, { store, path: "back" }, { to: "blz" })).rejects.toMatchObject({
    details: { path: store.describe("z/c/3/0") },
  });
  for await (const { name } of store.list("back")) expect(name).toBe("nothing");
  expect(await store.stat("back/meta/sizes")).toBeUndefined();
});

test.each(["bcolz", "blz"] as const)(
  "the chunks of every column of a table that went to Zarr come back unchanged as %s",
  async (format) => {
    const source = await openFixture("ctable/bcolz-daily-equities");
    if (source.kind !== "table") throw new TypeError(source.kind);
    const store = new MemoryStore();
    await convert(source, { store, path: "zarr" });
    const result = await convert(
      await zarrSource(await openZarr(store, "zarr")),
      { store, path: "back" },
      { to: format, verify: true },
    );
    // 226 rows in chunks of 64: three whole ones and a short one in each of 7 columns.
    expect(result).toMatchObject({ chunksCopied: 21, chunksRecoded: 7 });
  },
);

test("[FA-08] chunks whose typesize bcolz does not expect are recoded for it, the plan says why, and recode: false refuses", async () => {
  const { store, array } = await makeArray(rows);
  // bcolz 1.2 looks up rows by the typesize of the dtype: if the chunk has another one, a slice of it is wrong.
  await convert(array, { store, path: "source" }, { to: "bloscpack" });
  const blp = await open(store, "source");
  if (blp.kind !== "array") throw new TypeError(blp.kind);
  const wrong = new MemoryStore();
  const bytes = await blp.getBytes();
  await compressArray({ dtype: blp.dtype, shape: blp.shape, data: [bytes] }, wrong, "odd", {
    typesize: 1,
    chunkSize: 240,
  });
  const odd = await open(wrong, "odd");
  if (odd.kind !== "array") throw new TypeError(odd.kind);
  const [plan] = (await planOne(odd, { to: "bcolz" })).arrays;
  expect(plan).toMatchObject({ action: "recode", reason: expect.stringContaining("needs 4") as string });
  await expect(
    convert(odd, { store: wrong, path: "back" }, { to: "bcolz", recode: false }),
  ).rejects.toMatchObject({
    code: "UNSUPPORTED",
  });
  expect(await convert(odd, { store: wrong, path: "back" }, { to: "bcolz", verify: true })).toMatchObject({
    chunksCopied: 0,
  });
  for (const chunk of (await chunksOf(wrong, "back", 24)).values()) expect(info(chunk).typesize).toBe(4);
  expect(await convert(odd, { store: wrong, path: "copy" }, { to: "bloscpack" })).toMatchObject({
    chunksRecoded: 0,
  });
});

test("[FA-08] columns with the same bytes but another type do not share chunks", async () => {
  const store = new MemoryStore();
  await store.put("g/zarr.json", json({ zarr_format: 3, node_type: "group" }));
  for (const [name, dataType] of [
    ["a", "int32"],
    ["b", "float32"],
    ["c", "complex64"],
  ] as const) {
    const isPair = dataType === "complex64";
    const array = await createZarr(store, `g/${name}`, {
      shape: [40],
      dataType,
      chunkShape: [isPair ? 10 : 20],
      codecs: [LITTLE, { ...BLOSC, configuration: { ...BLOSC.configuration, typesize: isPair ? 8 : 4 } }],
    });
    await array.setBytes(null, new Uint8Array(isPair ? 320 : 160).fill(7));
  }
  await convert(
    await zarrSource(await openZarr(store, "g")),
    { store, path: "back" },
    { to: "bcolz", verify: true },
  );
  for (const chunk of (await chunksOf(store, "back/c", 8)).values()) expect(info(chunk).typesize).toBe(8);
  for (const chunk of (await chunksOf(store, "back/a", 4)).values()) expect(info(chunk).typesize).toBe(4);
});

test.each(["bcolz", "blz"] as const)(
  "columns of unequal lengths do not become a table as %s: no row is dropped silently",
  async (format) => {
    const store = new MemoryStore();
    await store.put("g/zarr.json", json({ zarr_format: 3, node_type: "group" }));
    for (const [name, length] of [
      ["a", 50],
      ["b", 30],
    ] as const)
      await (await createZarr(store, `g/${name}`, { ...rows, shape: [length, 6] })).set(null, 1);
    const source = await zarrSource(await openZarr(store, "g"));
    await expect(convert(source, { store, path: "back" }, { to: format })).rejects.toMatchObject({
      code: "UNSUPPORTED",
      message: expect.stringContaining("50, 30") as string,
    });
    expect((await planOne(source, { to: format })).arrays).toMatchObject([
      { action: "refuse" },
      { action: "refuse" },
    ]);
  },
);

test("[FA-08] strings of a Zarr array are recoded for bcolz, which shuffles them by characters, and the plan says so", async () => {
  const store = new MemoryStore();
  const array = await createZarr(store, "s", {
    shape: [40],
    dataType: { name: "null_terminated_bytes", configuration: { length_bytes: 5 } },
    chunkShape: [10],
    codecs: [{ name: "bytes" }, { ...BLOSC, configuration: { ...BLOSC.configuration, typesize: 5 } }],
  });
  await array.setBytes(
    null,
    Uint8Array.from({ length: 200 }, (_, i) => 97 + (i % 23)),
  );
  expect((await planOne(array, { to: "bcolz" })).arrays).toMatchObject([{ action: "recode" }]);
  await expect(convert(array, { store, path: "back" }, { to: "bcolz", recode: false })).rejects.toMatchObject(
    {
      code: "UNSUPPORTED",
    },
  );
  const result = await convert(array, { store, path: "back" }, { to: "bcolz", verify: true });
  expect(result).toMatchObject({ chunksCopied: 0, chunksRecoded: 4 });
  for (const chunk of (await chunksOf(store, "back", 5)).values()) expect(info(chunk).typesize).toBe(1);
  expect(await convert(array, { store, path: "copy" }, { to: "bloscpack" })).toMatchObject({
    chunksCopied: 4,
  });
});

test("a shard whose index is damaged is not copied to Zarr, although its object needs no decoding", async () => {
  const { store } = await makeArray({ ...rows, shardShape: [30, 6] });
  const key = "z/c/3/0";
  const damaged = ((await store.get(key)) as Uint8Array).slice();
  damaged[damaged.length - 10] = 0xff ^ (damaged.at(-10) ?? 0);
  await store.put(key, damaged);
  const into = new MemoryStore();
  const { entries } = await convert({ store, path: "z" }, { store: into, path: "copy" });
  const message = expect.stringContaining(store.describe(key)) as string;
  expect(entries).toMatchObject([{ status: "failed", code: "CHECKSUM_MISMATCH", message }]);
  await expect(openZarrArray(into, "copy")).rejects.toMatchObject({ code: "NOT_FOUND" });
});
