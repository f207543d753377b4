/** Zarr whose chunks have no name or no expression in Zarr v3 becomes Zarr v3 with the same values. */

import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { deflateSync, gunzipSync, gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { info } from "../../src/codec/index.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { createTransformerArray } from "../../src/zarr/transformer.ts";
import { convert } from "../../src/zarr.ts";
import { runCli } from "../cli/harness.ts";
import { planOne } from "../convert/to-zarr/plan-one.ts";
import { keysOf } from "../convert/to-zarr/read-back.ts";
import { corpusFolder } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";

const json = (value: object): Uint8Array => new TextEncoder().encode(JSON.stringify(value));
const ZLIB = { id: "zlib", level: 1 };

/** Four rows of six int16 in chunks of 2x3, of which one is missing; big-endian, in Fortran order. */
const ITEMS = [
  [0, 1, 2, 10, 11, 12],
  [3, 4, 5, 13, 14, 15],
  [20, 21, 22, 7, 7, 7],
  [23, 24, 25, 7, 7, 7],
];
const CHUNKS = {
  "0.0": [0, 3, 1, 4, 2, 5],
  "0.1": [10, 13, 11, 14, 12, 15],
  "1.0": [20, 23, 21, 24, 22, 25],
} as const;
const bigEndian = (values: readonly number[]): Buffer => {
  const bytes = Buffer.alloc(values.length * 2);
  for (const [i, value] of values.entries()) bytes.writeInt16BE(value, i * 2);
  return bytes;
};

/** Objects of a v2 array, compressed by Node. */
function v2Objects(compressor: { id: string } | null): [string, Uint8Array][] {
  const document = {
    ...{ zarr_format: 2, shape: [4, 6], chunks: [2, 3], dtype: ">i2", order: "F" },
    ...{ compressor, fill_value: 7, filters: null },
  };
  const encode = (bytes: Buffer): Uint8Array =>
    compressor?.id === "zlib" ? deflateSync(bytes) : compressor?.id === "gzip" ? gzipSync(bytes) : bytes;
  return [
    [".zarray", json(document)],
    [".zattrs", json({ unit: "m" })],
    ...Object.entries(CHUNKS).map(([key, values]): [string, Uint8Array] => [key, encode(bigEndian(values))]),
  ];
}

async function makeV2(path: string, compressor: { id: string } | null): Promise<MemoryStore> {
  const store = new MemoryStore();
  for (const [key, bytes] of v2Objects(compressor)) await store.put(`${path}/${key}`, bytes);
  return store;
}

const valuesOf = async (store: MemoryStore, path: string): Promise<unknown> =>
  Array.from(((await (await openZarrArray(store, path)).get()) as { data: ArrayLike<number> }).data);

test.each([
  ["zlib", ZLIB, "recode"],
  ["gzip", { id: "gzip", level: 1 }, "copy"],
  ["no compressor", null, "copy"],
] as const)("chunks of %s become chunks of Zarr v3 with the same values", async (_, compressor, action) => {
  const store = await makeV2("a", compressor);
  const root = await openZarrArray(store, "a");
  expect((await planOne(root)).arrays).toMatchObject([{ action, dataType: "int16" }]);
  const target = new MemoryStore();
  const result = await convert(root, { store: target, path: "z" }, { verify: true });
  const isRecoded = action === "recode";
  expect(result).toMatchObject({
    ...{ chunksCopied: isRecoded ? 0 : 3, chunksRecoded: isRecoded ? 3 : 0 },
    ...{ shards: 3, verified: true },
  });
  expect(await valuesOf(target, "z")).toEqual(ITEMS.flat());
  expect((await openZarrArray(target, "z")).attrs).toEqual({ unit: "m" });
  // Chunk 1/1 is not stored, and is not created.
  expect((await keysOf(target)).filter((key) => key.includes("/c/"))).toEqual([
    "z/c/0/0",
    "z/c/0/1",
    "z/c/1/0",
  ]);
  const chunk = await target.get("z/c/0/1");
  const stored = chunk ?? new Uint8Array();
  if (isRecoded) expect(info(stored)).toMatchObject({ nbytes: 12, ctbytes: stored.length });
  else if (compressor !== null) expect(gunzipSync(stored)).toEqual(bigEndian(CHUNKS["0.1"]));
  else expect(Buffer.from(stored)).toEqual(bigEndian(CHUNKS["0.1"]));
});

test("a damaged chunk ends the conversion with its place, and otherwise nothing is converted", async () => {
  const store = await makeV2("a", ZLIB);
  const bytes = (await store.get("a/0.1")) ?? new Uint8Array();
  await store.put("a/0.1", bytes.subarray(0, bytes.length - 6));
  const target = new MemoryStore();
  await expect(convert(await openZarrArray(store, "a"), { store: target, path: "z" })).rejects.toMatchObject({
    details: { path: expect.stringContaining("a/0.1") as string },
  });
  expect(await target.stat("z/zarr.json")).toBeUndefined();
});

test("big-endian complex numbers are byte-swapped, and their fill value is kept", async () => {
  const store = new MemoryStore();
  const document = {
    ...{ zarr_format: 2, shape: [4], chunks: [2], dtype: ">c16", order: "C" },
    ...{ compressor: null, fill_value: [1.5, -2], filters: null },
  };
  await store.put("a/.zarray", json(document));
  const chunk = Buffer.alloc(32);
  for (const [i, value] of [1, 2, 3, 4].entries()) chunk.writeDoubleBE(value, i * 8);
  await store.put("a/0", chunk);
  const target = new MemoryStore();
  const root = await openZarrArray(store, "a");
  expect(await convert(root, { store: target, path: "z" }, { verify: true })).toMatchObject({
    chunksRecoded: 1,
  });
  const copy = Buffer.from(await (await openZarrArray(target, "z")).getBytes());
  const found = Array.from({ length: 8 }, (_, i) => copy.readDoubleLE(i * 8));
  expect(found).toEqual([1, 2, 3, 4, 1.5, -2, 1.5, -2]);
});

test.each([[null], [ZLIB]])(
  "big-endian structs are the same when they are compared (compressor %j)",
  async (compressor) => {
    const store = new MemoryStore();
    const dtype = [
      ["a", ">i4"],
      ["b", ">f8"],
      ["c", "|S3"],
    ];
    const document = {
      ...{ zarr_format: 2, shape: [12], chunks: [2], dtype, order: "C" },
      compressor,
      filters: null,
    };
    await store.put("a/.zarray", json({ ...document, fill_value: null }));
    const chunk = Buffer.alloc(30);
    for (const [i, value] of [7, -8].entries()) {
      chunk.writeInt32BE(value, i * 15);
      chunk.writeDoubleBE(value / 4, i * 15 + 4);
      chunk.write("xyz", i * 15 + 12);
    }
    const stored = compressor === null ? chunk : deflateSync(chunk);
    // Few stored chunks are compared one by one, many at once.
    for (const count of [1, 6]) {
      for (let i = 0; i < count; i++) await store.put(`a/${i}`, stored);
      const target = new MemoryStore();
      const options = { verify: true } as const;
      const report = await convert(await openZarrArray(store, "a"), { store: target, path: "z" }, options);
      expect(report).toMatchObject({ verified: true });
      const copy = Buffer.from(await (await openZarrArray(target, "z")).getBytes());
      expect([copy.readInt32LE(0), copy.readDoubleLE(4), copy.toString("latin1", 12, 15)]).toEqual([
        7,
        1.75,
        "xyz",
      ]);
    }
  },
);

test("dates without a fill value read as NaT before and after, and bytes keep theirs", async () => {
  const store = new MemoryStore();
  const base = { zarr_format: 2, shape: [2], chunks: [2], order: "C", compressor: null, filters: null };
  await store.put("dates/.zarray", json({ ...base, dtype: "<M8[ns]", fill_value: null }));
  await store.put("names/.zarray", json({ ...base, dtype: "|S4", fill_value: btoa("ab\0\0") }));
  for (const [name, expected] of [
    ["dates", Buffer.from(BigInt64Array.of(-(2n ** 63n), -(2n ** 63n)).buffer)],
    ["names", Buffer.from("ab\0\0ab\0\0")],
  ] as const) {
    const target = new MemoryStore();
    await convert(await openZarrArray(store, name), { store: target, path: "z" }, { verify: true });
    expect(Buffer.from(await (await openZarrArray(target, "z")).getBytes())).toEqual(expected);
  }
});

test("Zarr nodes next to archives become one hierarchy, and a refused one does not stop the others", async () => {
  const folder = temporaryFolder();
  const put = async (key: string, bytes: Uint8Array): Promise<void> => {
    await mkdir(dirname(join(folder, key)), { recursive: true });
    await writeFile(join(folder, key), bytes);
  };
  for (const [key, bytes] of v2Objects(ZLIB)) await put(`in/group/old/${key}`, bytes);
  await put("in/group/.zgroup", json({ zarr_format: 2 }));
  for (const [key, bytes] of v2Objects(null)) await put(`in/plain/${key}`, bytes);
  const filtered = { zarr_format: 2, shape: [1], chunks: [1], dtype: "<i2", order: "C", compressor: null };
  await put("in/filtered/.zarray", json({ ...filtered, fill_value: 0, filters: [{ id: "categorize" }] }));
  await runCli(["create", join(folder, "in/live"), "--dtype", "<i4", "--shape", "5", "--dflt", "3"]);
  const target = join(folder, "out.zarr");

  const plan = await runCli(["convert", join(folder, "in"), target, "--dry-run"]);
  expect(plan.out).toMatch(/recode .*group -> \/group: the codec "zlib" has no name in Zarr v3/);
  expect(plan.out).toMatch(/copy .*plain -> \/plain/);
  const done = await runCli(["convert", join(folder, "in"), target, "--verify"]);
  expect(done.err).toContain("categorize");
  expect(done.out).toContain("3 archives converted, 1 failed");
  const cat = async (...names: string[]): Promise<string> =>
    (await runCli(["cat", join(target, ...names), "--format", "json"])).out;
  expect(JSON.parse(await cat("group", "old"))).toEqual(ITEMS);
  expect(JSON.parse(await cat("plain"))).toEqual(ITEMS);
  expect(JSON.parse(await cat("live"))).toEqual([3, 3, 3, 3, 3]);
  expect((await runCli(["verify", target])).code).toBe(0);

  const several = [join(folder, "in/plain"), join(corpusFolder, "zarr3-transformer", "u2-dot-group")];
  const both = await runCli(["convert", ...several, join(folder, "both.zarr"), "--verify"]);
  expect(both).toMatchObject({ code: 0, out: expect.stringContaining("2 archives converted") as string });

  const refused = await runCli([
    "convert",
    join(folder, "in/group/old"),
    join(folder, "x.zarr"),
    "--no-recode",
  ]);
  expect(refused.code).toBe(1);
  expect(refused.err).toMatch(
    /recoding is not allowed: .*; "superchunk convert" without --no-recode recodes them/,
  );
});

test("transformer shards are recoded chunk by chunk: values, missing chunks, and an interrupted run", async () => {
  const store = new MemoryStore();
  const from = await createTransformerArray(store, "", "a", {
    ...{ shape: [20], dataType: "<i4", chunkShape: [3], chunksPerShard: [4], fillValue: 9 },
    compressor: { codec: "zlib", configuration: { level: 1 } },
  });
  const expected = Array.from({ length: 20 }, (_, i) => (i >= 3 && i < 6 ? 9 : i * 1000));
  await from.set(null, Int32Array.from(expected));
  const target = new MemoryStore();
  const abort = new AbortController();
  const { put } = target;
  target.put = async (key, ...rest) => {
    if (key === "z/c/1") {
      while ((await target.stat("z/c/0")) === undefined) await new Promise(setImmediate);
      abort.abort(new Error("enough"));
    }
    abort.signal.throwIfAborted();
    return put.call(target, key, ...rest);
  };
  const root = await openZarrArray(store, "a");
  await expect(convert(root, { store: target, path: "z" }, { signal: abort.signal })).rejects.toThrow(
    "enough",
  );
  target.put = put;
  const result = await convert(root, { store: target, path: "z" }, { resume: true, verify: true });
  expect(result).toMatchObject({ shards: 2, shardsKept: 1, chunksRecoded: 3 });
  const copy = await openZarrArray(target, "z");
  expect(copy).toMatchObject({ dialect: "zarr3", shardShape: [12], chunkShape: [3] });
  expect(await valuesOf(target, "z")).toEqual(expected);
  const missing: number[] = [];
  for await (const { start } of copy.listMissing()) missing.push(...start);
  expect(missing).toEqual([3]);
});
