import { expect, test, vi } from "vitest";
import type { ArraySlice } from "../../src/archive/kinds/types.ts";
import { isSuperchunkError } from "../../src/errors.ts";
import { FileStore } from "../../src/node/index.ts";
import type { ObjectInfo, PutOptions, PutSource, StoreOptions } from "../../src/store/types.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { createZarr } from "../../src/zarr/write/create.ts";
import { temporaryFolder } from "../folder.ts";
import { openZarrWriter } from "./writer.ts";

// The fast writer waits for a claim that ends only after it: there is nothing to wait for.
vi.mock("node:timers/promises", async (load) => ({
  ...(await load<typeof import("node:timers/promises")>()),
  setTimeout: async () => {},
}));

const SPEC = { shape: [64], dataType: "int32", chunkShape: [16], shardShape: [64] };

/** Lets another writer write right before it looks at a shard, or puts one, for the n-th time. */
class Interrupted extends FileStore {
  left = Number.POSITIVE_INFINITY;
  between: () => Promise<void> = async () => {};

  override async stat(key: string, options?: StoreOptions): Promise<ObjectInfo | undefined> {
    await this.#interrupt(key);
    return super.stat(key, options);
  }

  override async put(key: string, source: PutSource, options?: PutOptions): Promise<ObjectInfo> {
    await this.#interrupt(key);
    return super.put(key, source, options);
  }

  async #interrupt(key: string): Promise<void> {
    if (key === "a/c/0" && --this.left === 0) await this.between();
  }
}

test.each(["rewrite", "append", "fixed"] as const)("%s: nothing of either is lost", async (strategy) => {
  let interruptions = 0;
  for (let at = 1; interruptions === at - 1; at++) {
    const root = temporaryFolder();
    await (await createZarr(new FileStore(root), "a", SPEC)).set(null, 1);
    const store = new Interrupted(root);
    const slow = await openZarrWriter(store, "a", { strategy });
    const fast = await openZarrWriter(new FileStore(root), "a", { strategy });
    store.left = at;
    let isRefused = false;
    store.between = async () => {
      interruptions++;
      // While the slow writer writes into the shard, the fast one is refused.
      await fast.set([20], 2).catch((error: unknown) => {
        if (!isSuperchunkError(error, "CONFLICT")) throw error;
        isRefused = true;
      });
    };
    await slow.set([40], 3);
    store.left = 0;
    if (interruptions < at || isRefused) await fast.set([20], 2);
    const { data } = (await (await openZarrArray(new FileStore(root), "a")).get()) as ArraySlice;
    expect([(data as Int32Array)[20], (data as Int32Array)[40]], `interrupted ${at}`).toEqual([2, 3]);
  }
  expect(interruptions).toBeGreaterThan(0);
});
