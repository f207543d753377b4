/** Shards in S3: writers in different processes notice one another by the objects' ETags, and nothing is lost. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { edit as openEdit } from "../../../src/edit/edit.ts";
import type { ZarrEdit } from "../../../src/edit/zarr-array.ts";
import { S3Store } from "../../../src/node/index.ts";
import { openZarrArray } from "../../../src/zarr/read/open.ts";
import { createZarr } from "../../../src/zarr/write/create.ts";
import { withClaim } from "../../../src/zarr/write/shard-apply.ts";
import { openZarrWriter } from "../../zarr/writer.ts";
import { CREDENTIALS, startS3, type TestS3 } from "./server.ts";

let server: TestS3;
beforeAll(async () => {
  server = await startS3();
});
afterAll(() => server.close());

const encode = (text: string): Uint8Array => new TextEncoder().encode(text);

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

describe("two appends to an array", () => {
  const open = (): Promise<ZarrEdit> =>
    openEdit(makeStore(), "grown", { format: "zarr" }) as Promise<ZarrEdit>;
  const rows = (value: number, count: number): Int32Array => new Int32Array(count).fill(value);
  const read = async (): Promise<number[]> => {
    const { data } = (await (await openZarrArray(makeStore(), "grown")).get()) as { data: Int32Array };
    return [...data];
  };
  const claim = (): Promise<Uint8Array | undefined> => makeStore().get("grown/shape.claim");
  beforeEach(() =>
    createZarr(makeStore(), "grown", { ...spec, shape: [3] }).then((array) => array.set(null, 7)),
  );
  afterEach(async () => {
    server.intercept = () => false;
    const store = makeStore();
    for (const key of ["zarr.json", "c/0", "c/1", "c/2", "shape.claim"]) await store.delete(`grown/${key}`);
  });

  test("one is refused while the other writes, before it overwrites a row, and says what to do", async () => {
    const [slow, fast] = [await open(), await open()];
    let refusal: unknown;
    let met: Promise<void> | undefined;
    server.intercept = (asked) => {
      if (asked.method === "PUT" && /grown\/c\/0/.test(asked.url ?? ""))
        met ??= fast
          .append(rows(2, 20))
          .then(() => fast.flush())
          .catch((error: unknown) => {
            refusal = error;
          });
      return false;
    };
    await slow.append(rows(1, 20));
    await slow.flush();
    await met;
    expect(refusal).toMatchObject({
      code: "CONFLICT",
      message: expect.stringMatching(/since 20.*try again/),
    });
    expect(await read()).toEqual([...rows(7, 3), ...rows(1, 20)]);
    expect(await claim()).toBeUndefined();
    // A writer that began before the other is refused after it too, and succeeds when it opens the array again.
    await expect(fast.flush()).rejects.toMatchObject({ code: "CONFLICT" });
    const again = await open();
    await again.append(rows(2, 20));
    await again.close();
    expect(await read()).toEqual([...rows(7, 3), ...rows(1, 20), ...rows(2, 20)]);
  });

  test("the claim of a killed writer lapses; a living one renews it, and stops when it has lost it", async () => {
    const put = (age: number): Promise<unknown> =>
      makeStore().put("grown/shape.claim", encode(`${new Date(Date.now() - age).toISOString()} other`));
    await put(170_000);
    await expect((await open()).resize(5)).rejects.toMatchObject({ code: "CONFLICT" });
    await put(190_000);
    await (await open()).resize(5);
    expect(await read()).toEqual([...rows(7, 3), -1, -1]);
    expect(await claim()).toBeUndefined();
    vi.useFakeTimers({ toFake: ["setInterval"] });
    try {
      let held: AbortSignal | undefined;
      const store = makeStore();
      const work = withClaim(store, "grown/shape", async (signal) => {
        held = signal;
        const before = await claim();
        vi.advanceTimersByTime(20_000);
        await expect.poll(claim).not.toEqual(before);
        expect(signal?.aborted).toBe(false);
        await put(0);
        vi.advanceTimersByTime(20_000);
        await expect.poll(() => signal?.aborted).toBe(true);
        signal?.throwIfAborted();
      });
      await expect(work).rejects.toMatchObject({ code: "CONFLICT" });
      expect(held?.aborted).toBe(true);
      expect(new TextDecoder().decode(await claim())).toMatch(/other$/);
    } finally {
      vi.useRealTimers();
    }
  });
});

test("a shard is deleted only in the version that was read: what another writer put meanwhile stays", async () => {
  await createZarr(makeStore(), "emptied", spec);
  const [slow, fast] = await Promise.all([0, 1].map(() => openZarrWriter(makeStore(), "emptied")));
  await slow?.set([0], 5);
  let met: Promise<void> | undefined;
  server.intercept = (asked, response) => {
    if (met !== undefined || asked.method !== "DELETE") return false;
    met = fast?.set([9], 6);
    // The deletion arrives after the other writer's put.
    met?.then(() => response.writeHead(503).end());
    return true;
  };
  await slow?.set([0], -1);
  await met;
  server.intercept = () => false;
  const array = await openZarrArray(makeStore(), "emptied");
  expect([await array.get([0]), await array.get([9])]).toEqual([-1, 6]);
});
