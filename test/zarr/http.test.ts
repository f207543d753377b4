/** Zarr arrays over HTTP: the same values, in few requests, and no mixture where a server's object changes. */

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { HttpStore } from "../../src/store/http.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { createZarr, openZarrWriter } from "../../src/zarr/write/create.ts";
import { type ArrayFixture, loadFixtures } from "../fixtures/manifest.ts";
import { serveObjects, type TestServer } from "../store/server.ts";

let server: TestServer | undefined;

afterEach(async () => {
  await server?.close();
  server = undefined;
});

const rows = loadFixtures("zarr3-sharded", "zarr3-transformer", "zarr3-rectilinear").filter(
  (row): row is ArrayFixture => row.kind === "array",
);

test.each(rows)("$path has its values, and says which chunks there are without a listing", async (row) => {
  const entries = readdirSync(row.file, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .map(
      (file) =>
        [file.slice(row.file.length + 1).replaceAll("\\", "/"), new Uint8Array(readFileSync(file))] as const,
    );
  server = await serveObjects(entries);
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

async function entriesOf(store: MemoryStore): Promise<[string, Uint8Array][]> {
  const keys = ["zarr.json", "c/0", "c/1"];
  return Promise.all(
    keys.map(async (key) => [key, (await store.get(key)) ?? new Uint8Array(0)] as [string, Uint8Array]),
  );
}

test("a shard costs its size and its index once, then one request for each joined range", async () => {
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
