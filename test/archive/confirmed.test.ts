/** Chunks of an array that others may write to: chunks read together are confirmed together. */
import { join } from "node:path";
import { expect, test } from "vitest";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/archive/open/open.ts";
import { FileStore } from "../../src/node/fs/fs-store.ts";
import { create, edit } from "../../src/node/index.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { interceptStore } from "../../src/store/wrappers/intercept.ts";
import { createArray } from "../../src/write/array/create.ts";
import { temporaryFolder } from "../folder.ts";

const CHUNKS = 256;
const ROWS = 1024;

/** Random-looking rows, so that a chunk has about as many bytes as its rows. */
function rows(seed: number): Uint32Array {
  let state = seed;
  return Uint32Array.from({ length: CHUNKS * ROWS }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state;
  });
}

async function makeArray(): Promise<string> {
  const path = join(temporaryFolder(), "array");
  const array = await create(path, { dtype: "<u4", shape: [0], chunkLength: ROWS, superchunkLength: 32 });
  await array.append(rows(1));
  await array.close();
  return path;
}

test("a conversion asks for the newest generation once per read, not once per chunk", async () => {
  const path = await makeArray();
  let asked = 0;
  const count = (key: string): void => {
    if (key.endsWith("meta/sizes")) asked++;
  };
  const store = interceptStore(new FileStore(path), {
    onCall: ({ key }, proceed) => {
      count(key);
      return proceed();
    },
    onSync: ({ key }, proceed) => {
      count(key);
      return proceed();
    },
    onList: () => undefined,
  });
  const archive = (await open(store)) as ArrayArchive;
  asked = 0;
  let chunks = 0;
  for await (const { read } of archive.encodedChunks()) {
    expect(read).toBeDefined();
    chunks++;
  }
  expect(chunks).toBe(CHUNKS);
  // One for each of 8 superchunks, and one for each further read of the same one.
  expect(asked).toBeLessThanOrEqual(16);
  await archive.close();
});

test("all chunks of one read are of one generation, and the next read sees changed rows", async () => {
  const path = await makeArray();
  const store = new FileStore(path);
  const before: Uint8Array[] = [];
  const archive = (await open(store)) as ArrayArchive;
  for await (const { bytes } of archive.encodedChunks()) before.push(bytes.slice());
  const found: Uint8Array[] = [];
  let isChanged = false;
  const reading = async (): Promise<void> => {
    for await (const { bytes } of archive.encodedChunks()) {
      found.push(bytes.slice());
      if (isChanged) continue;
      isChanged = true;
      const array = await edit(path, { modify: "in-place" });
      await array.set(null, rows(2));
      await array.close();
    }
  };
  await expect(reading()).rejects.toMatchObject({ code: "STALE" });
  expect(found.length).toBe(32);
  for (const [i, bytes] of found.entries()) expect(Buffer.compare(bytes, before[i] ?? bytes)).toBe(0);
  await archive.close();
});

test("a read that writers never let come to an end is STALE, and says so", async () => {
  const store = new MemoryStore();
  const writer = await createArray(store, "", { dtype: "<i4", chunkLength: 4 });
  await writer.append(Int32Array.of(1, 2, 3, 4, 5));
  await writer.close();
  let isBusy = false;
  // Each look at `meta/sizes` finds that the array was compacted again.
  const busy = interceptStore(store, {
    async onCall({ method, key }, proceed) {
      if (isBusy && method === "get" && key === "meta/sizes") {
        const sizes = JSON.parse(new TextDecoder().decode(await store.get(key)));
        sizes.layout.epoch = (sizes.layout.epoch ?? 0) + 1;
        await store.put(key, new TextEncoder().encode(JSON.stringify(sizes)));
      }
      return proceed();
    },
    onSync: ({ key }, proceed) => (key === "meta/sizes" ? (undefined as never) : proceed()),
    onList: () => undefined,
  });
  const array = (await open(busy)) as ArrayArchive;
  isBusy = true;
  const stale = { code: "STALE", message: expect.stringContaining("try again when they are done") as string };
  await expect(array.get()).rejects.toMatchObject(stale);
  await expect(array.chunks()[Symbol.asyncIterator]().next()).rejects.toMatchObject(stale);
  isBusy = false;
  expect([...((await array.get()).data as Int32Array)]).toEqual([1, 2, 3, 4, 5]);
});
