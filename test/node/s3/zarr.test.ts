/** Shards in S3: writers in different processes notice one another by the objects' ETags, and nothing is lost. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { S3Store } from "../../../src/node/index.ts";
import { openZarrArray } from "../../../src/zarr/read/open.ts";
import { createZarr, openZarrWriter } from "../../../src/zarr/write/create.ts";
import { CREDENTIALS, startS3, type TestS3 } from "./server.ts";

let server: TestS3;
beforeAll(async () => {
  server = await startS3();
});
afterAll(() => server.close());

/** A separate store, as in another process. */
const makeStore = (): S3Store =>
  new S3Store({ bucket: server.bucket, endpoint: server.endpoint, credentials: CREDENTIALS });

const spec = { shape: [16], dataType: "int32", chunkShape: [2], shardShape: [16], fillValue: -1 } as const;

test.each(["rewrite", "append", "fixed"] as const)(
  "[FH-08] what three writers put into one shard concurrently is all there: %s",
  async (strategy) => {
    const path = `shared-${strategy}`;
    await createZarr(makeStore(), path, spec);
    const writers = await Promise.all([0, 1, 2].map(() => openZarrWriter(makeStore(), path, { strategy })));
    await Promise.all(
      writers.map(async (writer, w) => {
        for (let i = w; i < 12; i += 3) await writer.set([i], 100 * w + i);
      }),
    );
    const array = await openZarrArray(makeStore(), path);
    for (let i = 0; i < 16; i++) expect(await array.get([i])).toBe(i < 12 ? 100 * (i % 3) + i : -1);
    expect((await array.verify()).findings).toEqual([]);
  },
);

test("[FH-08] writers that create a shard concurrently do not overwrite one another", async () => {
  await createZarr(makeStore(), "made", spec);
  const writers = await Promise.all([0, 1].map(() => openZarrWriter(makeStore(), "made")));
  await Promise.all(writers.map((writer, w) => writer.set([w], w)));
  const array = await openZarrArray(makeStore(), "made");
  expect([await array.get([0]), await array.get([1])]).toEqual([0, 1]);
});

test("a reader whose shard is replaced gets an error, and never mixes two versions; opened again, it reads the new one", async () => {
  const writer = await createZarr(makeStore(), "replaced", spec);
  await writer.set(null, 1);
  const reader = await openZarrArray(makeStore(), "replaced");
  expect(await reader.get([14])).toBe(1);
  await writer.set(null, 2);
  await expect(reader.get()).rejects.toMatchObject({ code: "STALE" });
  const again = await openZarrArray(makeStore(), "replaced");
  const { data } = (await again.get()) as { data: Int32Array };
  expect(new Set(data)).toEqual(new Set([2]));
});
