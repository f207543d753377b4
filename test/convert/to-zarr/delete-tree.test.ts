/** Emptying the destination of an older conversion. */
import { expect, test } from "vitest";
import { MemoryStore } from "../../../src/store/memory.ts";
import { deleteTree } from "../../../src/store/tree.ts";
import type { ListEntry } from "../../../src/store/types.ts";

const KEEP = "z/c/0/0/500";

/** 2,501 objects in one folder, one next to it, one in a folder further below, and one elsewhere. */
async function fill<T extends MemoryStore>(store: T): Promise<T> {
  for (let i = 0; i <= 2500; i++) await store.put(`z/c/0/0/${i}`, Uint8Array.of(1));
  for (const key of ["z/zarr.json", "z/c/0/0/below/1", "other/1"]) await store.put(key, Uint8Array.of(1));
  return store;
}

async function keysOf(store: MemoryStore, folder = ""): Promise<string[]> {
  const keys: string[] = [];
  for await (const { name, kind } of store.list(folder)) {
    const key = folder === "" ? name : `${folder}/${name}`;
    if (kind === "folder") keys.push(...(await keysOf(store, key)));
    else keys.push(key);
  }
  return keys.sort();
}

test("everything below the folder is deleted, except what is kept and what is elsewhere", async () => {
  const store = await fill(new MemoryStore());
  await deleteTree(store, "z", { keep: KEEP });
  expect(await keysOf(store)).toEqual(["other/1", KEEP]);
});

test("at most 1,000 names are taken from a listing before they are deleted, and none is deleted during the listing", async () => {
  let [listings, ahead, most] = [0, 0, 0];
  class Watched extends MemoryStore {
    override async *list(folder: string): AsyncGenerator<ListEntry> {
      listings++;
      try {
        for await (const entry of super.list(folder)) {
          if (entry.kind === "object") most = Math.max(most, ++ahead);
          yield entry;
        }
      } finally {
        listings--;
      }
    }
    override async delete(key: string): Promise<void> {
      expect(listings).toBe(0);
      ahead--;
      await super.delete(key);
    }
  }
  const store = await fill(new Watched());
  await deleteTree(store, "z");
  expect(most).toBe(1000);
  expect(await keysOf(store)).toEqual(["other/1"]);
});

test("a store that keeps listing what it deleted is an error, not an endless loop", async () => {
  class Stubborn extends MemoryStore {
    override async delete(): Promise<void> {}
  }
  const store = await fill(new Stubborn());
  await expect(deleteTree(store, "z")).rejects.toMatchObject({ code: "IO" });
});
