/** Functions that are no methods of an open array refuse what is none of their options, in Node.js and with stores of the caller. */
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { compressBytes } from "../../src/begin.ts";
import { createPool, encodeSync } from "../../src/blosc.ts";
import { parseDType } from "../../src/format/dtype.ts";
import {
  findReadables,
  HttpStore,
  MemoryStore,
  openArchive,
  openArray as openArrayIn,
  open as openIn,
  openTable as openTableIn,
  repairArray as repairArrayIn,
  writeIndex,
} from "../../src/index.ts";
import {
  consolidate,
  convert,
  create,
  edit,
  FileStore,
  finish,
  link,
  openArray,
  openNpy,
  openReferences,
  openTableFile,
  planLinkAt,
  runTasks,
  S3Store,
  serveView,
  threadsOf,
  unlink,
  verifyLinkAt,
  virtualize,
} from "../../src/node/index.ts";
import { findViewEntries, planReferences, writeKerchunk, zarrView } from "../../src/zarr.ts";
import { temporaryFolder } from "../folder.ts";

const folder = temporaryFolder();
const path = join(folder, "array");
const store = new MemoryStore();

beforeAll(async () => {
  await (await create(path, { dtype: "<f8", data: [1, 2] })).close();
  await convert(path, join(folder, "array.npy"));
});

/** No archives to refer to. */
async function* noPlans(): AsyncGenerator<never> {}

test.each([
  ["open of a store", (options: object) => openIn(store, "", options)],
  ["openArray of a store", (options: object) => openArrayIn(store, "", options)],
  ["openTable of a store", (options: object) => openTableIn(store, "", options)],
  ["openArchive", (options: object) => openArchive(store, "", options)],
  ["edit", (options: object) => edit(path, options)],
  ["create", (options: object) => create(join(folder, "none"), options)],
  ["findViewEntries", (options: object) => findViewEntries(new FileStore(folder), "", options)],
  [
    "planReferences",
    async (options: object) => {
      await using archive = await openArchive(new FileStore(folder), "array");
      return planReferences(archive, options);
    },
  ],
  [
    "writeKerchunk",
    async (options: object) => writeKerchunk(noPlans(), store, "set.json", { form: "json", ...options }),
  ],
  [
    "findReadables",
    async (options: object) => {
      for await (const _ of findReadables(store, "", options));
    },
  ],
  ["repairArray of a store", (options: object) => repairArrayIn(store, "", options)],
  [
    "writeIndex",
    async (options: object) => {
      await using array = await openArray(path);
      return writeIndex(array, options);
    },
  ],
  ["runTasks", (options: object) => runTasks(join(folder, "none.json"), options)],
  ["finish", (options: object) => finish(join(folder, "none.json"), options)],
  ["link", (options: object) => link(path, undefined, options)],
  ["planLinkAt", (options: object) => planLinkAt(path, undefined, options)],
  ["unlink", (options: object) => unlink(path, options)],
  ["verifyLinkAt", (options: object) => verifyLinkAt(path, options)],
  [
    "virtualize",
    (options: object) => virtualize(path, join(folder, "set.json"), { to: "kerchunk", ...options }),
  ],
  ["consolidate", (options: object) => consolidate(path, options)],
  ["openNpy", (options: object) => openNpy(join(folder, "array.npy"), options)],
  ["openTableFile", (options: object) => openTableFile(join(folder, "none.csv"), options)],
  ["openReferences", (options: object) => openReferences(join(folder, "set.json"), options)],
  ["serveView", (options: object) => serveView(path, options)],
] as const)("%s refuses unknown options, and values of another type", async (_, call) => {
  for (const [options, field] of [
    [{ sginal: 1 }, "sginal"],
    [{ signal: 1 }, "signal"],
  ] as const)
    await expect(call(options)).rejects.toMatchObject({ code: "BAD_ARGUMENT", details: { field } });
});

test("threadsOf, stores, zarrView and a pool without workers do so too, and such a pool takes a signal", async () => {
  expect(() => threadsOf({ thread: 2 } as object)).toThrow(/unknown option "thread"; did you mean threads/);
  expect(() => new FileStore(folder, { maxOpen: 2 } as object)).toThrow(
    /unknown option "maxOpen"; expected one of/,
  );
  for (const made of [
    () => new HttpStore("https://example.org", { header: {} } as object),
    () => new S3Store({ bucket: "b", header: {} } as never),
    () => zarrView([], { header: {} } as object),
  ])
    expect(made).toThrow(/unknown option "header"; expected /);
  const chunk = encodeSync(new Uint8Array(8));
  await using pool = createPool({ workers: 0 });
  await expect(pool.decode(chunk, { outt: 1 } as object)).rejects.toThrow(/unknown option "outt"/);
  const { signal } = new AbortController();
  expect(await pool.decode(chunk, { signal })).toEqual(new Uint8Array(8));
});

test("a store of the caller takes the threads of threadsOf", async () => {
  const made = new FileStore(folder);
  const array = await openArrayIn(made, "array", { ...threadsOf({ threads: 1 }), dtype: "<f8" });
  expect((await array.get()).data).toEqual(Float64Array.of(1, 2));
  await made.close();
});

test.each(["blz", "bcolz", "bloscpack"] as const)(
  "after an abort, no loop over the chunks of %s gets another one",
  async (format) => {
    const place = join(folder, `aborted-${format}`);
    const data = Float64Array.from({ length: 400_000 }, (_, i) => i);
    await (await create(place, { format, dtype: "<f8", data })).close();
    await using array = await openArray(place);
    expect(array.nchunks).toBeGreaterThan(2);
    for (const list of ["chunks", "streamBytes", "listChunks"] as const) {
      const stop = new AbortController();
      const reason = new Error("enough");
      let count = 0;
      const loop = async (): Promise<void> => {
        for await (const _ of (array as object as ArrayArchive)[list]({ signal: stop.signal }))
          if (++count === 2) stop.abort(reason);
      };
      await expect(loop()).rejects.toBe(reason);
      expect(count, list).toBe(2);
    }
  },
);

test("get of a Zarr array says how many bytes it has read", async () => {
  const place = join(folder, "progress.zarr");
  await (await create(place, { format: "zarr", dtype: "<f8", data: [1, 2] })).close();
  await using array = await openArray(place);
  const seen: number[] = [];
  await array.get(null, { onProgress: ({ done, total }) => seen.push(done, total) });
  expect(seen).toEqual([16, 16]);
});

test("options of create or of a column are not ignored by calls that do not have them", async () => {
  await expect(edit(path, { dtype: "<f8" } as object)).rejects.toThrow(/unknown option "dtype"/);
  await expect(openIn(store, "", { column: "a" } as object)).rejects.toThrow(/unknown option "column"/);
  await using array = await openArray(path);
  await expect(array.scan({ strings: "fixed" } as object).next()).rejects.toThrow(/unknown option "strings"/);
});

test("virtualize refers to plain bytes as an array of the dtype and shape of its options", async () => {
  await compressBytes(new Uint8Array(Float64Array.of(1, 2, 3, 4).buffer), new FileStore(folder), "raw.blp");
  const set = join(folder, "raw.json");
  const options = { to: "kerchunk", dtype: parseDType("<f8", ""), shape: [2, 2] } as const;
  await virtualize(join(folder, "raw.blp"), set, options);
  const array = await openArray(`${set}/raw`, { allow: [folder] });
  expect([array.shape, (await array.get()).data]).toEqual([[2, 2], Float64Array.of(1, 2, 3, 4)]);
  await array.close();
  const other = virtualize(path, join(folder, "other.json"), options);
  await expect(other).rejects.toMatchObject({ code: "BAD_ARGUMENT", details: { field: "dtype" } });
});
