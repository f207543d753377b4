/** What reading over a network costs, in requests: the same over HTTP and S3, for every dialect and chunk size. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import * as zarr from "zarrita";
import type { Archive, ArrayArchive } from "../../../src/archive/kinds/types.ts";
import { open } from "../../../src/archive/open/open.ts";
import { parseDType } from "../../../src/format/dtype.ts";
import type { ChecksumName, JsonObject } from "../../../src/format/types.ts";
import { S3Store } from "../../../src/node/index.ts";
import { openArray } from "../../../src/open/open.ts";
import { HttpStore } from "../../../src/store/http.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import type { ObjectInfo, ReadableStore } from "../../../src/store/types.ts";
import { createArray } from "../../../src/write/array/create.ts";
import { createCarray, createTable } from "../../../src/write/bcolz/bcolz-create.ts";
import { compressArray } from "../../../src/write/bloscpack/bloscpack-write.ts";
import { type ZarrView, zarrView } from "../../../src/zarr.ts";
import { keysOf } from "../../convert/to-zarr/read-back.ts";
import { serveObjects, type TestServer } from "../../store/server.ts";
import { CREDENTIALS, startS3, type TestS3 } from "./server.ts";

const F8 = parseDType("<f8", "test");
/** Values of a chunk of 1 MiB, twice the limit up to which a chunk is read whole over a network; and of one of 64 KiB. */
const LARGE = 1 << 17;
const SMALL = 1 << 13;
/** Chunks, the last one short; four in a superchunk, so three superchunks. */
const CHUNKS = 9.5;
const SUPERCHUNKLEN = 4;

const valueAt = (index: number): number => (index * 7919) % 65_521;
const VALUES = Float64Array.from({ length: CHUNKS * LARGE }, (_, i) => valueAt(i));
const valuesOf = (count: number): Float64Array<ArrayBuffer> => VALUES.slice(0, count);
const bytesOf = (count: number): Uint8Array => new Uint8Array(valuesOf(count).buffer);

/** Makes an archive at a path, of chunks of so many values. */
type Maker = (store: MemoryStore, path: string, chunklen: number) => Promise<unknown>;

function superchunks(checksum: ChecksumName, isForeign: boolean, attrs: JsonObject = { unit: "m" }): Maker {
  return async (store, path, chunklen) => {
    const options = { dtype: F8, chunkLength: chunklen, superchunkLength: SUPERCHUNKLEN, checksum, attrs };
    const array = await createArray(store, path, options);
    await array.append(valuesOf(CHUNKS * chunklen));
    await array.close();
    if (Object.keys(attrs).length === 0) await store.delete(`${path}/meta/attributes`);
    if (!isForeign) return;
    // As writers of the BLZ document make it: no layout, so the headers say where chunks are.
    const json = async (name: string): Promise<Record<string, unknown>> =>
      JSON.parse(new TextDecoder().decode(await store.get(`${path}/meta/${name}`))) as Record<
        string,
        unknown
      >;
    const { layout, ...sizes } = await json("sizes");
    const { superchunk, ...storage } = await json("storage");
    expect([layout, superchunk]).not.toContain(undefined);
    await store.put(`${path}/meta/sizes`, new TextEncoder().encode(JSON.stringify(sizes)));
    await store.put(`${path}/meta/storage`, new TextEncoder().encode(JSON.stringify(storage)));
  };
}

const bloscpack =
  (checksum: ChecksumName): Maker =>
  (store, path, chunklen) => {
    const array = { dtype: F8, shape: [CHUNKS * chunklen], data: bytesOf(CHUNKS * chunklen) };
    return compressArray(array, store, path, { chunkSize: chunklen * 8, checksum, cname: "lz4" });
  };

const carray: Maker = (store, path, chunklen) =>
  createCarray(
    store,
    path,
    { dtype: F8, data: bytesOf(CHUNKS * chunklen) },
    { chunkLength: chunklen, attrs: { unit: "m" } },
  );

const DIALECTS: readonly (readonly [name: string, path: string, make: Maker])[] = [
  ["superchunks", "live", superchunks("crc32", false)],
  ["superchunks without digests", "live-none", superchunks("None", false)],
  ["superchunks without attributes", "live-bare", superchunks("crc32", false, {})],
  ["superchunks of others", "blz", superchunks("adler32", true)],
  ["superchunks of others without digests", "blz-none", superchunks("None", true)],
  ["Bloscpack", "file.blp", bloscpack("adler32")],
  ["Bloscpack without digests", "file-none.blp", bloscpack("None")],
  ["carray", "carray", carray],
];

/** Other programs' superchunks without attributes. */
const BARE = "bare-blz";

let http: TestServer;
let s3: TestS3;
beforeAll(async () => {
  const store = new MemoryStore();
  for (const [size, chunklen] of [
    ["large", LARGE],
    ["small", SMALL],
  ] as const)
    for (const [, path, make] of DIALECTS) await make(store, `${size}/${path}`, chunklen);
  await superchunks("crc32", true, {})(store, BARE, SMALL);
  const columns = ["id", "price", "volume"].map((name) => ({ name, dtype: F8, data: bytesOf(20_000) }));
  await createTable(store, "table", columns, { chunkLength: SMALL });
  // As bcolz before it had quantize: nothing in the column's metadata says which layout it is.
  await createTable(store, "old", columns, { chunkLength: SMALL });
  for (const { name } of columns) {
    const key = `old/${name}/meta/storage`;
    const { cparams, ...storage } = JSON.parse(new TextDecoder().decode(await store.get(key)));
    const { quantize, ...rest } = cparams;
    expect(quantize).toBe(0);
    await store.put(key, new TextEncoder().encode(JSON.stringify({ ...storage, cparams: rest })));
  }
  const many = Array.from({ length: 40 }, (_, i) => ({ name: `c${i}`, dtype: F8, data: bytesOf(100) }));
  await createTable(store, "wide", many, { chunkLength: 64 });
  const objects: [string, Uint8Array][] = [];
  for (const key of await keysOf(store)) objects.push([key, (await store.get(key)) ?? new Uint8Array()]);
  http = await serveObjects(objects);
  s3 = await startS3();
  for (const [key, bytes] of objects) s3.fill(key, bytes);
});
afterAll(async () => {
  await http.close();
  await s3.close();
});

function makeS3(): S3Store {
  return new S3Store({ bucket: s3.bucket, endpoint: s3.endpoint, credentials: CREDENTIALS });
}

const NETWORKS: readonly (readonly [string, () => { store: ReadableStore; log: string[] }])[] = [
  ["HTTP", () => ({ store: new HttpStore(http.url), log: http.log })],
  ["S3", () => ({ store: makeS3(), log: s3.log })],
];

describe.each(NETWORKS)("over %s", (_, connect) => {
  /** The requests that the work needs. */
  async function requestsOf(log: string[], work: () => Promise<unknown>): Promise<number> {
    log.length = 0;
    await work();
    return log.length;
  }

  describe.each([
    ["2 MiB", "large", LARGE],
    ["64 KiB", "small", SMALL],
  ] as const)("with chunks of %s", (__, size, chunklen) => {
    it.each(DIALECTS)(
      "%s: three requests to open, then at most three for an element, two for a nearby one",
      async (___, path) => {
        const { store, log } = connect();
        let archive: Archive | undefined;
        const opening = await requestsOf(log, async () => {
          archive = await open(store, `${size}/${path}`);
        });
        expect([opening <= 3, log]).toEqual([true, log]);
        const array = archive as ArrayArchive;
        const element = (index: number): Promise<number> =>
          requestsOf(log, async () => expect(await array.get([index])).toBe(valueAt(index)));
        const inSuperchunk = SUPERCHUNKLEN * chunklen;
        // Superchunks are visited in order, because another program's do not record how many chunks the earlier ones
        // hold.
        for (const at of [0.3, 1.3, 2.1]) {
          const first = Math.floor(at * inSuperchunk);
          expect(await element(first)).toBeLessThanOrEqual(3);
          expect(await element(first + 1)).toBeLessThanOrEqual(2);
          expect(await element(first + chunklen / 2)).toBeLessThanOrEqual(2);
        }
        const last = CHUNKS * chunklen - 1;
        expect(await element(last)).toBeLessThanOrEqual(3);
        expect(await element(last - 1)).toBeLessThanOrEqual(2);
        await store.close?.();
      },
    );
  });

  it("other programs' superchunks without attributes: only a fourth object distinguishes them from a carray, and the first element reuses it", async () => {
    const { store, log } = connect();
    let archive: Archive | undefined;
    const opening = await requestsOf(log, async () => {
      archive = await open(store, BARE);
    });
    expect(opening).toBe(4);
    expect(log.at(-1)).toContain("__1__.bin");
    const array = archive as ArrayArchive;
    const first = await requestsOf(log, async () => expect(await array.get([5])).toBe(valueAt(5)));
    // Three to open and three for an element, as elsewhere.
    expect(opening + first).toBeLessThanOrEqual(6);
    await store.close?.();
  });

  it("a table: three requests for each column, and four for the table", async () => {
    const { store, log } = connect();
    const opening = await requestsOf(log, () => open(store, "table"));
    // The two of an array that does not exist, and the table's own __rootdirs__ and __attrs__.
    expect(opening).toBe(2 + 3 * 3 + 2);
    await store.close?.();
  });

  it("many elements: chunks are requested concurrently, and neighbours by one request", async () => {
    const { store, log } = connect();
    const array = (await open(store, "small/carray")) as ArrayArchive;
    const all = await requestsOf(log, async () => {
      const { data } = (await array.get([{ start: 0, stop: 9 * SMALL, step: SMALL }])) as {
        data: Float64Array;
      };
      expect(Array.from(data)).toEqual(Array.from({ length: 9 }, (____, i) => valueAt(i * SMALL)));
    });
    expect(all).toBe(9);
    const file = (await open(store, "small/file-none.blp")) as ArrayArchive;
    expect(await requestsOf(log, () => file.get([{ start: 0, stop: 9 * SMALL, step: SMALL }]))).toBe(1);
    await store.close?.();
  });

  it("listing the chunks of a carray reads the start of each file once, and nothing else of it", async () => {
    const { store, log } = connect();
    const array = (await open(store, "large/carray")) as ArrayArchive;
    const infos: (ObjectInfo | undefined)[] = [];
    const onObject = (____: string, info?: ObjectInfo): void => void infos.push(info);
    const all = await requestsOf(log, async () => {
      for await (const { index, nbytes } of array.listChunks({ onObject }))
        expect(nbytes).toBe(Math.min(1, CHUNKS - index) * LARGE * 8);
    });
    // The row count of the last chunk is requested first: it can hold more than are counted.
    expect(all).toBe(Math.ceil(CHUNKS) + 1);
    expect(infos).toEqual(
      Array.from({ length: Math.ceil(CHUNKS) }, () => expect.objectContaining({ etag: expect.any(String) })),
    );
    await store.close?.();
  });

  it("scattered elements of one large chunk: one request for the chunk, not one for each block", async () => {
    const { store, log } = connect();
    const array = (await open(store, "large/file-none.blp")) as ArrayArchive;
    const scattered = await requestsOf(log, async () => {
      const { data } = (await array.get([{ start: 0, stop: LARGE, step: LARGE / 8 }])) as {
        data: Float64Array;
      };
      expect(Array.from(data)).toEqual(Array.from({ length: 8 }, (____, i) => valueAt((i * LARGE) / 8)));
    });
    expect(scattered).toBeLessThanOrEqual(2);
    await store.close?.();
  });

  it("opening a table of 40 columns opens only the one that is asked for", async () => {
    const { store, log } = connect();
    const viaLibrary = await requestsOf(log, async () => {
      const array = await openArray(store, "wide", { column: "c27" });
      expect(await array.get([99])).toBe(valueAt(99));
    });
    // __rootdirs__, attributes, the rows of the first and the last column; then four of its own.
    expect([viaLibrary <= 8, log]).toEqual([true, log]);
    const column = await requestsOf(log, async () => {
      expect(await (await openArray(store, "wide/c28")).get([99])).toBe(valueAt(99));
    });
    expect([column <= 4, log]).toEqual([true, log]);
    const table = await open(store, "wide", { columns: ["c27"] });
    expect(await requestsOf(log, () => firstValues(zarrView(table), "c27"))).toBeLessThanOrEqual(1);
  });

  it.each([
    ["of three columns", "table", "price", "id"],
    ["of an old bcolz", "old", "price", "id"],
    ["of 40 columns", "wide", "c27", "c28"],
  ])(
    "zarrita opens a table %s with four requests, and the first value of each column takes four more",
    async (___, path, one, other) => {
      const { store, log } = connect();
      const view = zarrView((options) => open(store, path, options));
      const first = await requestsOf(log, () => firstValues(view, one));
      // __rootdirs__, attributes, the rows of the first and the last column; then meta/sizes, meta/storage, __attrs__, and the chunk.
      expect([first, log]).toEqual([4 + 4, log]);
      const next = await requestsOf(log, () => firstValues(view, other));
      expect([next, log]).toEqual([4, log]);
      expect(await requestsOf(log, () => firstValues(view, one))).toBeLessThanOrEqual(1);
      await store.close?.();
    },
  );

  it("zarrita opens an array with three requests, and reads its first chunk with one", async () => {
    const { store, log } = connect();
    const view = zarrView((options) => open(store, "small/carray", options));
    expect([await requestsOf(log, () => firstValues(view, "")), log]).toEqual([4, log]);
    await store.close?.();
  });

  /** Reads five values with zarrita. */
  async function firstValues(view: ZarrView, column: string): Promise<void> {
    const array = await zarr.open.v3(zarr.root(view).resolve(column), { kind: "array" });
    expect((await zarr.get(array, [zarr.slice(0, 5)])).data).toEqual(valuesOf(5));
  }
});
