/** Zarr arrays over HTTP: the same values, in few requests, and no mixture if a server's object changes. */

import { createHash } from "node:crypto";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import * as zarr from "zarrita";
import type { TableArchive } from "../../src/archive/kinds/types.ts";
import { openArray, openTable } from "../../src/open/open.ts";
import { fromZarrita } from "../../src/store/foreign.ts";
import { HttpStore } from "../../src/store/http.ts";
import { joinKey } from "../../src/store/key.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { createZarr } from "../../src/zarr/write/create.ts";
import { loadFolder } from "../archive/memory-archive.ts";
import { type ArrayFixture, corpusFolder, loadFixtures } from "../fixtures/manifest.ts";
import { serveObjects, type TestServer } from "../store/server.ts";
import { openZarrWriter } from "./writer.ts";

let server: TestServer | undefined;

afterEach(async () => {
  await server?.close();
  server = undefined;
});

const rows = loadFixtures("zarr3-sharded", "zarr3-transformer", "zarr3-rectilinear").filter(
  (row): row is ArrayFixture => row.kind === "array",
);

test.each(rows)("$path has its values, and knows its chunks without a listing", async (row) => {
  server = await serveObjects((await loadFolder(row.file)).files);
  const array = await openZarrArray(new HttpStore(server.url), row.arrayPath);
  expect(
    createHash("sha256")
      .update(await array.getBytes())
      .digest("hex"),
  ).toBe(row.sha256);
  expect((await array.verify()).ok).toBe(true);
});

async function makeStore(): Promise<MemoryStore> {
  const store = new MemoryStore();
  const array = await createZarr(store, "", {
    shape: [400],
    dataType: "int32",
    chunkShape: [10],
    shardShape: [200],
    codecs: [{ name: "bytes", configuration: { endian: "little" } }],
  });
  await array.set(
    null,
    Int32Array.from({ length: 400 }, (_, i) => i),
  );
  return store;
}

async function entriesOf(
  store: MemoryStore,
  keys = ["zarr.json", "c/0", "c/1"],
): Promise<[string, Uint8Array][]> {
  return Promise.all(
    keys.map(async (key) => [key, (await store.get(key)) ?? new Uint8Array(0)] as [string, Uint8Array]),
  );
}

test("a shard takes one request for its size and index, then one for each joined range", async () => {
  server = await serveObjects(await entriesOf(await makeStore()));
  const array = await openZarrArray(new HttpStore(server.url), "", { maxGap: 0 });
  server.log.length = 0;
  expect(await array.get([5])).toBe(5);
  expect(server.log).toHaveLength(3);
  expect(server.log.filter((line) => line.startsWith("HEAD"))).toHaveLength(1);
  server.log.length = 0;
  expect(await array.get([{ start: 20, stop: 60, step: 1 }])).toMatchObject({ shape: [40] });
  expect(server.log).toEqual([expect.stringContaining("bytes=80-239")]);
});

test("a shard that the server replaced is STALE, never read through the old index", async () => {
  const store = await makeStore();
  server = await serveObjects(await entriesOf(store));
  const array = await openZarrArray(new HttpStore(server.url));
  expect(await array.get([5])).toBe(5);
  await (await openZarrWriter(store)).set([{ start: 0, stop: 100, step: 1 }], 0);
  server.objects.set("c/0", (await store.get("c/0")) ?? new Uint8Array(0));
  await expect(array.get([150])).rejects.toMatchObject({ code: "STALE" });
  expect(await (await openZarrArray(new HttpStore(server.url))).get([150])).toBe(150);
});

/** A store that counts what zarrita's FetchStore requests. */
function countingFetchStore(): { store: zarr.FetchStore; read: () => { requests: number; bytes: number } } {
  let requests = 0;
  let bytes = 0;
  const fetch = async (request: Request): Promise<Response> => {
    const response = await globalThis.fetch(request);
    requests++;
    if (request.method !== "HEAD" && response.ok) bytes += Number(response.headers.get("content-length"));
    return response;
  };
  return { store: new zarr.FetchStore(server?.url ?? "", { fetch }), read: () => ({ requests, bytes }) };
}

test.each(["", "x.zarr"])(
  "an element of %j through zarrita's FetchStore takes at most twice the bytes and requests that zarrita needs",
  async (path) => {
    const memory = new MemoryStore();
    const written = await createZarr(memory, "", {
      shape: [1 << 20],
      dataType: "float64",
      chunkShape: [1 << 12],
      shardShape: [1 << 20],
      codecs: [{ name: "bytes", configuration: { endian: "little" } }],
    });
    await written.set(
      null,
      Float64Array.from({ length: 1 << 20 }, (_, i) => i),
    );
    server = await serveObjects(
      (await entriesOf(memory, ["zarr.json", "c/0"])).map(([key, bytes]) => [joinKey(path, key), bytes]),
    );
    const theirs = countingFetchStore();
    const seen = await zarr.open.v3(zarr.root(theirs.store).resolve(path), { kind: "array" });
    expect((await zarr.get(seen, [zarr.slice(700_000, 700_001)])).data).toEqual(Float64Array.of(700_000));
    const ours = countingFetchStore();
    const array = await openArray(ours.store, path);
    expect(await array.get([700_000])).toBe(700_000);
    expect(ours.read().requests).toBeLessThanOrEqual(2 * theirs.read().requests);
    expect(ours.read().bytes).toBeLessThanOrEqual(2 * theirs.read().bytes);
  },
);

test("a value of one column through zarrita's FetchStore takes four requests after the table is open", async () => {
  server = await serveObjects((await loadFolder(join(corpusFolder, "ctable/bcolz-daily-equities"))).files);
  const { store, read } = countingFetchStore();
  const table = (await openTable(store, "", { columns: [] })) as TableArchive;
  expect(read().requests).toBe(4);
  const column = (await table.openColumns?.(["close"]))?.column("close");
  expect(await column?.get([3])).toBe(51992);
  expect(read().requests).toBe(4 + 4);
});

test("a shard that is replaced while zarrita's store reads it is read again", async () => {
  const memory = new MemoryStore();
  const array = await createZarr(memory, "", {
    shape: [100],
    dataType: "int32",
    chunkShape: [10],
    shardShape: [100],
    codecs: [
      { name: "bytes", configuration: { endian: "little" } },
      { name: "gzip", configuration: { level: 5 } },
    ],
  });
  await array.set(null, 1);
  server = await serveObjects(await entriesOf(memory, ["zarr.json", "c/0"]));
  await array.set(
    null,
    Int32Array.from({ length: 100 }, (_, i) => (i * 7_919_123) % 65_521_001),
  );
  const later = await entriesOf(memory, ["zarr.json", "c/0"]);
  let ranges = 0;
  const store = new zarr.FetchStore(server.url, {
    fetch: async (request) => {
      const response = await fetch(request);
      // After the index and the chunk, before the index is read again.
      if (request.headers.has("range") && ++ranges === 3)
        for (const [key, bytes] of later) server?.objects.set(key, bytes);
      return response;
    },
  });
  const reader = await openZarrArray(fromZarrita(store));
  expect(await reader.get([55])).toBe((55 * 7_919_123) % 65_521_001);
});
