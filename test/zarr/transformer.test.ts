/** The sharding storage transformer: the draft's store interface, documents of zarr 2.18, and the ways in and out. */
import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { open as openIn } from "../../src/archive/open/open.ts";
import { parseDType } from "../../src/format/dtype.ts";
import { FileStore, openArchive } from "../../src/node/index.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { createCarray } from "../../src/write/bcolz/bcolz-create.ts";
import { compressArray, compressBytes } from "../../src/write/bloscpack/bloscpack-write.ts";
import { openZarr, openZarrArray } from "../../src/zarr/read/open.ts";
import { createTransformerArray, ShardingTransformer } from "../../src/zarr/transformer.ts";
import { convert } from "../../src/zarr.ts";
import { loadFolder } from "../archive/memory-archive.ts";
import { keysOf } from "../convert/to-zarr/read-back.ts";
import { type ArrayFixture, findFixture, loadFixtures } from "../fixtures/manifest.ts";
import { withCounting } from "../store/counting.ts";

const bytes = (...values: number[]): Uint8Array => Uint8Array.from(values);
const sha256 = (data: Uint8Array): string => createHash("sha256").update(data).digest("hex");

function makeStore(separator: "/" | "." = "/"): { inner: MemoryStore; store: ShardingTransformer } {
  const inner = new MemoryStore();
  const settings = { prefix: "data/root/a", chunksPerShard: [2, 3], chunkCounts: [5, 4], separator } as const;
  return { inner, store: new ShardingTransformer(inner, settings) };
}

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

describe.each(["/", "."] as const)("a store of chunks with the separator %s", (separator) => {
  const chunk = (row: number, column: number): string => `data/root/a/c${row}${separator}${column}`;

  test("[FK-03] [FK-04] keeps chunks in shards by the shard-key arithmetic, with an index of pairs at the end and no checksum", async () => {
    const { inner, store } = makeStore(separator);
    await store.set(chunk(3, 1), bytes(1, 2, 3));
    await store.set(chunk(2, 2), bytes(4));
    const shard = (await inner.get(`data/root/a/c1${separator}0`)) ?? bytes();
    expect(shard.length).toBe(4 + 6 * 16);
    const view = new DataView(shard.buffer, shard.byteOffset + 4);
    // Slot of (3, 1) in shard (1, 0): 1 * 3 + 1; of (2, 2): 0 * 3 + 2.
    expect(
      [2, 4].map((slot) => [view.getBigUint64(slot * 16, true), view.getBigUint64(slot * 16 + 8, true)]),
    ).toEqual([
      [0n, 1n],
      [1n, 3n],
    ]);
    expect(view.getBigUint64(0, true)).toBe(2n ** 64n - 1n);
    expect(await store.get(chunk(3, 1))).toEqual(bytes(1, 2, 3));
    expect(await store.get(chunk(3, 0))).toBeUndefined();
    expect(await store.get(chunk(0, 0))).toBeUndefined();
  });

  test("reads parts, writes parts, erases, and deletes a shard with its last chunk", async () => {
    const { inner, store } = makeStore(separator);
    await store.set(chunk(0, 0), bytes(1, 2, 3, 4, 5));
    await store.set("other", bytes(9, 8));
    expect(
      await store.getPartialValues([
        [chunk(0, 0), { offset: 1, length: 2 }],
        [chunk(0, 0), { suffixLength: 2 }],
        [chunk(0, 1), { offset: 0, length: 1 }],
        ["other", undefined],
      ]),
    ).toEqual([bytes(2, 3), bytes(4, 5), undefined, bytes(9, 8)]);
    await store.setPartialValues([
      [chunk(0, 0), 4, bytes(7, 7)],
      [chunk(0, 2), 1, bytes(6)],
      ["other", 0, bytes(1)],
    ]);
    expect(await store.get(chunk(0, 0))).toEqual(bytes(1, 2, 3, 4, 7, 7));
    expect(await store.get(chunk(0, 2))).toEqual(bytes(0, 6));
    expect(await store.get("other")).toEqual(bytes(1, 8));
    for (const start of [-1, 0.5, Number.NaN])
      await expect(
        store.setPartialValues([
          ["other", 0, bytes(2)],
          [chunk(0, 0), start, bytes(1)],
        ]),
      ).rejects.toMatchObject({ code: "BAD_ARGUMENT", details: { field: "start" } });
    expect(await store.get("other")).toEqual(bytes(1, 8));
    await store.erase(chunk(0, 0));
    expect(await store.get(chunk(0, 0))).toBeUndefined();
    await store.eraseValues([chunk(0, 2), "other"]);
    expect(await collect(store.list())).toEqual([]);
    expect(await inner.get(`data/root/a/c0${separator}0`)).toBeUndefined();
  });

  test("lists chunks instead of shards, below prefixes and folders", async () => {
    const { store } = makeStore(separator);
    for (const [row, column] of [
      [0, 0],
      [1, 2],
      [4, 3],
    ] as const)
      await store.set(chunk(row, column), bytes(1));
    await store.set("meta/root/a.array.json", bytes(1));
    expect((await collect(store.list())).sort()).toEqual(
      [chunk(0, 0), chunk(1, 2), chunk(4, 3), "meta/root/a.array.json"].sort(),
    );
    expect(await collect(store.listPrefix("data/root/a/c1"))).toEqual([chunk(1, 2)]);
    expect(await store.listDir("")).toEqual({ keys: [], prefixes: ["data/", "meta/"] });
    const below = await store.listDir("data/root/a/");
    expect(below).toEqual(
      separator === "/"
        ? { keys: [], prefixes: ["data/root/a/c0/", "data/root/a/c1/", "data/root/a/c4/"] }
        : { keys: [chunk(0, 0), chunk(1, 2), chunk(4, 3)], prefixes: [] },
    );
    await store.erasePrefix("data/root/a/c1");
    expect(await collect(store.listPrefix("data/root/a/"))).toEqual([chunk(0, 0), chunk(4, 3)]);
    await store.erasePrefix("");
    expect(await collect(store.list())).toEqual([]);
  });
});

test("reading a part of a chunk takes two reads: the index, and the range", async () => {
  const { inner } = makeStore();
  const counting = withCounting(inner);
  const settings = { prefix: "data/root/a", chunksPerShard: [2, 3], chunkCounts: [5, 4] };
  const store = new ShardingTransformer(counting.store, settings);
  await store.set("data/root/a/c0/0", bytes(1, 2, 3, 4));
  counting.reset();
  expect(await store.getPartialValues([["data/root/a/c0/0", { offset: 1, length: 2 }]])).toEqual([
    bytes(2, 3),
  ]);
  expect(counting.counts.log.filter((call) => call.startsWith("getRange"))).toHaveLength(2);
  expect(counting.counts.bytesRead).toBe(6 * 16 + 2);
});

test("values of an array that is written with an order, a separator and a compressor read back", async () => {
  for (const separator of ["/", "."] as const) {
    for (const order of ["C", "F"] as const) {
      const store = new MemoryStore();
      const array = await createTransformerArray(store, "h", "g/a", {
        shape: [7, 5],
        dataType: "<f8",
        chunkShape: [2, 2],
        chunksPerShard: [2, 2],
        compressor: { codec: "gzip", configuration: { level: 1 } },
        separator,
        order,
      });
      const values = Float64Array.from({ length: 35 }, (_, i) => i / 3);
      await array.set(null, values);
      await array.set([3, 3], -1);
      values[18] = -1;
      const again = await openZarrArray(store, "h/g/a");
      expect(await again.get()).toMatchObject({ data: values, shape: [7, 5] });
      expect(again.dialect).toBe("zarr3-transformer");
    }
  }
});

const rows = loadFixtures("zarr3-transformer").filter((row): row is ArrayFixture => row.kind === "array");

test.each(rows)("$path becomes sharding_indexed by copying payloads", async (row) => {
  const source = new FileStore(row.file);
  const target = new MemoryStore();
  const done = await convert(await openZarr(source, ""), { store: target, path: "z" });
  expect(done).toMatchObject({ arrays: 1, shards: row.chunks["shards_stored"] });
  const from = await openZarrArray(source, row.arrayPath);
  const to = await openZarrArray(target, `z/${row.arrayPath}`);
  expect(to.dialect).toBe("zarr3");
  expect(sha256(await to.getBytes())).toBe(row.sha256);
  expect(to.attrs).toEqual(row.attrs);
  const payloads = async (array: typeof to, store: MemoryStore | FileStore): Promise<string[]> => {
    const found: string[] = [];
    for await (const { key, offset, ctbytes } of array.listChunks())
      found.push(sha256((await store.getRange(key, { offset, length: ctbytes })) ?? bytes()));
    return found;
  };
  expect(await payloads(to, target)).toEqual(await payloads(from, source));
});

test("a Bloscpack file becomes transformer shards by copying its chunks", async () => {
  const candidates = loadFixtures("bloscpack-3").filter((row) => !row.refuse && row.kind === "array");
  let done = 0;
  for (const row of candidates) {
    const archive = await openArchive(row.file);
    if (archive.kind !== "array" || archive.chunkLength === undefined || typeof row.dtype !== "string")
      continue;
    if (archive.order === "F" && archive.shape.length > 1) continue;
    if (archive.shape.length === 0) continue;
    const target = new MemoryStore();
    const { chunksCopied: copied, chunksPadded: padded } = await convert(
      archive,
      { store: target, node: "a" },
      { to: "zarr3-transformer", chunksPerShard: 2 },
    );
    const array = await openZarrArray(target, "a");
    expect(sha256(await array.getBytes())).toBe(
      findFixture(row.path).kind === "array" ? (row as ArrayFixture).sha256 : "",
    );
    expect(copied + padded).toBe(archive.nchunks);
    done++;
  }
  expect(done).toBeGreaterThan(3);
});

test("an empty Bloscpack file becomes a transformer array without shards, which is read", async () => {
  const store = new MemoryStore();
  const dtype = parseDType("<f4", "test");
  await compressArray({ dtype, shape: [0, 3], data: bytes() }, store, "a.blp");
  await compressBytes(bytes(), store, "b.blp");
  for (const [key, shape] of [
    ["a", [0, 3]],
    ["b", [0]],
  ] as const) {
    const archive = await openIn(store, `${key}.blp`);
    if (archive.kind === "table") throw new TypeError(archive.kind);
    expect(
      await convert(archive, { store, path: "t", node: key }, { to: "zarr3-transformer" }),
    ).toMatchObject({
      arrays: 1,
      chunksCopied: 0,
      chunksPadded: 0,
      verified: false,
    });
    const array = await openZarrArray(store, `t/${key}`);
    expect(array.shape).toEqual(shape);
    expect(await array.getBytes()).toHaveLength(0);
    expect((await array.verify()).ok).toBe(true);
  }
});

test("a table becomes a group of transformer arrays; one that cannot be copied is refused before anything is written", async () => {
  const table = await openArchive(findFixture("ctable/bcolz-daily-equities").file);
  if (table.kind !== "table") throw new TypeError(table.kind);
  const target = new MemoryStore();
  const columns = table.names.slice(0, 2);
  const result = await convert(table, { store: target }, { to: "zarr3-transformer", columns });
  expect(result.arrays).toBe(2);
  for (const name of columns) {
    const bytes = await (await openZarrArray(target, name)).getBytes();
    expect(sha256(bytes)).toBe(sha256(await table.column(name).getBytes()));
  }
  const group = await openZarr(target);
  expect(group).toMatchObject({ kind: "group", attrs: { column_order: columns } });
  await expect(convert(table, { store: target }, { to: "zarr3-transformer" })).rejects.toMatchObject({
    code: "CONFLICT",
  });
  await expect(
    convert(table, { store: target, node: "x" }, { to: "zarr3-transformer", columns: ["no"] }),
  ).rejects.toMatchObject({
    code: "NOT_FOUND",
  });
  const fields = await openArchive(findFixture("blz-superchunk/nested").file);
  const empty = new MemoryStore();
  await expect(
    convert(fields, { store: empty, node: "a" }, { to: "zarr3-transformer" }),
  ).rejects.toMatchObject({ code: "UNSUPPORTED" });
  expect(await empty.get("zarr.json")).toBeUndefined();
});

test("exports are read back and compared on request, and an array with other values does not remain", async () => {
  const row = findFixture("carray/bcolz-f8-chunks");
  const archive = await openArchive(row.file);
  const sound = new MemoryStore();
  expect(
    await convert(archive, { store: sound, node: "a" }, { to: "zarr3-transformer", verify: true }),
  ).toMatchObject({
    verified: true,
  });
  // An archive whose values differ from its chunks when they are read for the comparison.
  const changed = new Proxy(archive as ArrayArchive, {
    get(target, name) {
      if (name === "streamBytes") return () => [new Uint8Array(target.nbytes)];
      const value = Reflect.get(target, name, target) as unknown;
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  const fresh = new MemoryStore();
  await expect(
    convert(changed, { store: fresh, node: "a" }, { to: "zarr3-transformer", verify: true }),
  ).rejects.toMatchObject({
    code: "BAD_FIELD",
    details: { field: "values" },
  });
  expect(await keysOf(fresh)).toEqual([]);
  await expect(
    convert(changed, { store: sound, node: "b" }, { to: "zarr3-transformer", verify: true }),
  ).rejects.toMatchObject({
    code: "BAD_FIELD",
  });
  expect((await keysOf(sound)).filter((key) => key.startsWith("meta/"))).toEqual(["meta/root/a.array.json"]);
});

test("Python objects are refused by name", async () => {
  const archive = await openArchive(findFixture("carray/bcolz-object").file);
  await expect(
    convert(archive, { store: new MemoryStore(), node: "a" }, { to: "zarr3-transformer" }),
  ).rejects.toMatchObject({
    code: "UNSUPPORTED",
    details: { field: "dtype" },
  });
});

test.each([
  [{ attributes: { filters: [{ id: "categorize" }] } }, "UNSUPPORTED", "attributes.filters"],
  [
    { storage_transformers: [{ extension: "https://example.org/x", type: "indexed", configuration: {} }] },
    "UNSUPPORTED",
    "storage_transformers.0.extension",
  ],
  [
    { compressor: { codec: "https://purl.org/zarr/spec/codec/lzma/1.0", configuration: {} } },
    "UNSUPPORTED",
    "compressor",
  ],
  [
    { chunk_grid: { type: "regular", chunk_shape: [2, 2], separator: "-" } },
    "BAD_FIELD",
    "chunk_grid.separator",
  ],
] as const)("[FK-03] [FK-05] a document with %j is refused by name", async (change, code, field) => {
  const store = new MemoryStore();
  const { metadata } = await createTransformerArray(store, "", "a", {
    shape: [4, 4],
    dataType: "<i4",
    chunkShape: [2, 2],
    chunksPerShard: [2, 2],
  });
  const key = "meta/root/a.array.json";
  await store.put(key, new TextEncoder().encode(JSON.stringify({ ...metadata, ...change })));
  await expect(openZarrArray(store, "a")).rejects.toMatchObject({
    code,
    details: { field, path: store.describe(key) },
  });
});

test("[FK-06] an attribute that would be taken for filters is refused before anything is written", async () => {
  const source = new MemoryStore();
  const dtype = parseDType("<i4", "test");
  const attrs = { filters: [{ id: "delta", dtype: "<i4" }], unit: "m" };
  await createCarray(source, "", { dtype, data: new Uint8Array(64) }, { chunkLength: 8, attrs });
  const target = new MemoryStore();
  const details = { field: "attributes.filters" };
  await expect(
    convert(await openIn(source), { store: target, node: "a" }, { to: "zarr3-transformer" }),
  ).rejects.toMatchObject({
    code: "UNSUPPORTED",
    details,
  });
  const spec = { shape: [4], dataType: "<i4", chunkShape: [2], chunksPerShard: [2], attributes: attrs };
  await expect(createTransformerArray(target, "", "a", spec)).rejects.toMatchObject({
    code: "UNSUPPORTED",
    details,
  });
  expect(await collect(target.list(""))).toEqual([]);
});

test("[FK-01] an entry document is written as by zarr 2.18, and one with another encoding is refused", async () => {
  const store = new MemoryStore();
  const spec = { shape: [4], dataType: "<i4", chunkShape: [2], chunksPerShard: [2] };
  await createTransformerArray(store, "", "a", spec);
  const text = new TextDecoder().decode(await store.get("zarr.json"));
  expect(JSON.parse(text)).toEqual(JSON.parse(WRITTEN["zarr.json"]));
  for (const [change, code, field] of [
    [{ metadata_encoding: "https://example.org/cbor" }, "BAD_FIELD", "metadata_encoding"],
    [{ zarr_format: "https://purl.org/zarr/spec/protocol/core/4.0" }, "BAD_FIELD", "zarr_format"],
    [{ extensions: [{ extension: "https://example.org/x" }] }, "UNSUPPORTED", "extensions"],
    [{ metadata_key_suffix: 5 }, "BAD_FIELD", "metadata_key_suffix"],
  ] as const) {
    const entry = JSON.stringify({ ...(JSON.parse(text) as object), ...change });
    await store.put("zarr.json", new TextEncoder().encode(entry));
    await expect(openZarrArray(store, "a")).rejects.toMatchObject({ code, details: { field } });
  }
});

test("[FK-03] the draft's own spelling of the transformer is read", async () => {
  const store = new MemoryStore();
  const spec = { shape: [4], dataType: "<i4", chunkShape: [2], chunksPerShard: [2] };
  const array = await createTransformerArray(store, "", "a", spec);
  await array.set(null, Int32Array.of(1, 2, 3, 4));
  const draft = "http://purl.org/zarr/spec/storage-transformers/sharding/1.0";
  const document = JSON.stringify(array.metadata).replace(/https:[^"]*sharding[^"]*/, draft);
  await store.put("meta/root/a.array.json", new TextEncoder().encode(document));
  expect(await (await openZarrArray(store, "a")).get()).toMatchObject({ data: Int32Array.of(1, 2, 3, 4) });
});

/** Nodes as zarr 2.18.7 wrote them. */
const WRITTEN = {
  "zarr.json": `{"extensions":[],"metadata_encoding":"https://purl.org/zarr/spec/protocol/core/3.0","metadata_key_suffix":".json","zarr_format":"https://purl.org/zarr/spec/protocol/core/3.0"}`,
  "meta/root/scalar.array.json": `{"attributes":{},"chunk_grid":{"chunk_shape":[],"separator":"/","type":"regular"},"chunk_memory_layout":"C","data_type":"<f8","extensions":[],"fill_value":0.0,"shape":[]}`,
  "meta/root/delta.array.json": `{"attributes":{"filters":[{"astype":"<i4","dtype":"<i4","id":"delta"}]},"chunk_grid":{"chunk_shape":[20],"separator":"/","type":"regular"},"chunk_memory_layout":"C","compressor":{"codec":"https://purl.org/zarr/spec/codec/blosc/1.0","configuration":{"blocksize":0,"clevel":5,"cname":"lz4","shuffle":1}},"data_type":"<i4","extensions":[],"fill_value":0,"shape":[60]}`,
} as const;
const WRITTEN_CHUNKS = {
  "data/root/scalar/c0": "AAAAAAAABEA=",
  "data/root/delta/c0":
    "AgEzBFAAAABQAAAAYAAAAAAAAAABAAAAAQAAAAEAAAABAAAAAQAAAAEAAAABAAAAAQAAAAEAAAABAAAAAQAAAAEAAAABAAAAAQAAAAEAAAABAAAAAQAAAAEAAAABAAAA",
  "data/root/delta/c1":
    "AgEzBFAAAABQAAAAYAAAABQAAAABAAAAAQAAAAEAAAABAAAAAQAAAAEAAAABAAAAAQAAAAEAAAABAAAAAQAAAAEAAAABAAAAAQAAAAEAAAABAAAAAQAAAAEAAAABAAAA",
  "data/root/delta/c2":
    "AgEzBFAAAABQAAAAYAAAACgAAAABAAAAAQAAAAEAAAABAAAAAQAAAAEAAAABAAAAAQAAAAEAAAABAAAAAQAAAAEAAAABAAAAAQAAAAEAAAABAAAAAQAAAAEAAAABAAAA",
};

test("[FK-02] [FK-05] an array without dimensions, and one with filters, are read as zarr 2.18 wrote them", async () => {
  const store = new MemoryStore();
  for (const [key, text] of Object.entries(WRITTEN)) await store.put(key, new TextEncoder().encode(text));
  for (const [key, text] of Object.entries(WRITTEN_CHUNKS))
    await store.put(key, new Uint8Array(Buffer.from(text, "base64")));
  const scalar = await openZarrArray(store, "scalar");
  expect(new Float64Array((await scalar.getBytes()).slice().buffer)).toEqual(Float64Array.of(2.5));
  expect([scalar.nchunks, scalar.chunkBytes, scalar.chunkLength]).toEqual([1, 8, undefined]);
  const delta = await openZarrArray(store, "delta");
  expect(delta.attrs).toEqual({});
  const values = new Int32Array((await delta.getBytes()).slice().buffer);
  expect(values).toEqual(Int32Array.from({ length: 60 }, (_, i) => i));
});

/** What zarr 2.18.7 writes for `zarr.create(shape=(), dtype="<i4", …chunks_per_shard=())` and the value 7. */
const SHARDED_SCALAR = {
  "meta/root/a.array.json": `{"attributes": {}, "chunk_grid": {"chunk_shape": [], "separator": "/", "type": "regular"},
    "chunk_memory_layout": "C", "data_type": "<i4", "extensions": [], "fill_value": 0, "shape": [],
    "storage_transformers": [{"configuration": {"chunks_per_shard": [1]}, "type": "indexed",
      "extension": "https://purl.org/zarr/spec/storage_transformers/sharding/1.0"}]}`,
  "data/root/a/c0": bytes(7, ...new Array<number>(11).fill(0), 4, ...new Array<number>(7).fill(0)),
};

test("[FK-02] [FK-03] a shard of an array without dimensions is read and written as by zarr 2.18", async () => {
  const store = new MemoryStore();
  const made = await createTransformerArray(store, "", "b", {
    shape: [],
    dataType: "<i4",
    chunkShape: [],
    chunksPerShard: [],
  });
  await made.set(null, 7);
  expect(await store.get("data/root/b/c0")).toEqual(SHARDED_SCALAR["data/root/a/c0"]);
  expect(made.metadata["storage_transformers"]).toMatchObject([{ configuration: { chunks_per_shard: [1] } }]);
  const text = SHARDED_SCALAR["meta/root/a.array.json"];
  await store.put("meta/root/a.array.json", new TextEncoder().encode(text));
  await store.put("data/root/a/c0", SHARDED_SCALAR["data/root/a/c0"]);
  const array = await openZarrArray(store, "a");
  expect(await array.getBytes()).toEqual(bytes(7, 0, 0, 0));
  expect(await array.verify()).toMatchObject({ ok: true, chunks: 1, nbytes: 4 });
  await store.put("meta/root/a.array.json", new TextEncoder().encode(text.replace("[1]", "[2]")));
  await expect(openZarrArray(store, "a")).rejects.toMatchObject({ code: "BAD_FIELD" });
});

test("a table with a damaged column leaves nothing at the destination, and what was there before stays", async () => {
  const { store: source } = await loadFolder(findFixture("ctable/bcolz-daily-equities").file);
  const table = await openIn(source);
  if (table.kind !== "table") throw new TypeError(table.kind);
  const last = table.names.at(-1) ?? "";
  const key = (await collect(source.list(`${last}/data`)))[0]?.name ?? "";
  await source.put(`${last}/data/${key}`, bytes(1, 2, 3));
  const damaged = await openIn(source);
  const target = new MemoryStore();
  await expect(
    convert(damaged, { store: target, path: "new" }, { to: "zarr3-transformer" }),
  ).rejects.toMatchObject({ isDamage: true });
  expect(await collect(target.list("new"))).toEqual([]);
  await convert(
    table.column(table.names[0] ?? ""),
    { store: target, path: "old", node: "kept" },
    { to: "zarr3-transformer" },
  );
  await expect(
    convert(damaged, { store: target, path: "old", node: "table" }, { to: "zarr3-transformer" }),
  ).rejects.toMatchObject({
    isDamage: true,
  });
  expect((await (await openZarrArray(target, "old/kept")).verify()).ok).toBe(true);
});

test("a whole-number float attribute is still a float after conversion", async () => {
  const store = new MemoryStore();
  for (const [key, text] of Object.entries(WRITTEN))
    await store.put(
      key,
      new TextEncoder().encode(text.replace('"attributes":{}', '"attributes":{"scale":1.0}')),
    );
  await convert(await openZarr(store, "scalar"), { store, path: "v3" });
  const document = new TextDecoder().decode(await store.get("v3/zarr.json"));
  expect(document.replace(/\s/g, "")).toContain('"attributes":{"scale":1.0}');
});
