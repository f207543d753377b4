/** What is at a key is reported, or the error of looking: never absence because looking failed. */
import { expect, test } from "vitest";
import { assertNodeFree } from "../../src/dual/documents.ts";
import { SuperchunkError } from "../../src/errors.ts";
import { hasEntries, isTaken } from "../../src/store/key.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { withFaults } from "./faulty.ts";

const BYTES = Uint8Array.of(1);
const store = new MemoryStore([["a/b", BYTES]]);

test("an existing object, and a folder that is not empty, count as taken; an empty key is the root", async () => {
  const found = await Promise.all(["a/b", "a", "b", ""].map((key) => isTaken(store, key)));
  expect(found).toEqual([true, true, false, true]);
  expect(await isTaken(new MemoryStore(), "")).toBe(false);
});

test("a store that cannot list has no folders to report", async () => {
  class Unlisted extends MemoryStore {
    override async *list(): AsyncGenerator<never> {
      yield* [];
      throw new SuperchunkError("UNSUPPORTED", "it cannot list");
    }
  }
  const unlisted = new Unlisted([["a/b", BYTES]]);
  expect([await hasEntries(unlisted, "a"), await isTaken(unlisted, "a/b")]).toEqual([false, true]);
});

test("a location is not free because looking at it failed", async () => {
  for (let failAt = 1; ; failAt++) {
    const { store: faulty, failed } = withFaults(new MemoryStore(), { failAt, kind: "error" });
    const looked = assertNodeFree(faulty, "a");
    await looked.catch(() => undefined);
    if (!failed()) {
      await expect(looked).resolves.toBeUndefined();
      expect(failAt).toBe(5); // zarr.json and c, each as an object and as a folder
      return;
    }
    await expect(looked).rejects.toMatchObject({ code: "IO" });
  }
});
