import { expect, test } from "vitest";
import { open } from "../../src/archive/open/open.ts";
import { repairArray } from "../../src/convert/run/repair.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { interceptStore, type StoreCall } from "../../src/store/wrappers/intercept.ts";
import { loadFolder } from "./memory-archive.ts";

async function openSmall() {
  const { store, path } = await loadFolder(
    new URL("../../fixtures/corpus/carray/bcolz-f8-chunks", import.meta.url).pathname,
  );
  const archive = await open(store, path);
  if (archive.kind !== "array") throw new Error("not an array");
  return archive;
}

test("an aborted signal ends every long call with the signal's reason", async () => {
  const archive = await openSmall();
  const signal = AbortSignal.abort(new Error("enough"));
  await expect(archive.get(null, { signal })).rejects.toThrow("enough");
  await expect(archive.readBytes(0, 8000, { signal })).rejects.toThrow("enough");
  await expect(archive.verify({ signal })).rejects.toThrow("enough");
  await expect(archive.chunks({ signal })[Symbol.asyncIterator]().next()).rejects.toThrow("enough");
  await expect(archive.encodedChunks(0, 8, { signal })[Symbol.asyncIterator]().next()).rejects.toThrow(
    "enough",
  );
});

test("a timer fires during a long verification, although every read completes at once", async () => {
  const archive = await openSmall();
  const controller = new AbortController();
  setTimeout(() => controller.abort(new Error("timer")), 1);
  const forever = async () => {
    for (;;) await archive.verify({ signal: controller.signal });
  };
  await expect(forever()).rejects.toThrow("timer");
});

test("progress ends at the total", async () => {
  const archive = await openSmall();
  let last = { done: 0, total: -1 };
  await archive.verify({
    onProgress: (progress) => {
      last = progress;
    },
  });
  expect(last).toMatchObject({ done: 8000, total: 8000 });
});

test("the search for chunks in a long file that has none ends when the caller aborts", async () => {
  const size = 2 ** 40;
  const controller = new AbortController();
  let reads = 0;
  const store = interceptStore(new MemoryStore(new Map([["huge.blp", new Uint8Array(1)]])), {
    async onCall<T>({ method, args }: StoreCall, proceed: () => Promise<T>): Promise<T> {
      if (method === "stat") return { ...(await proceed()), size };
      if (method !== "getRange") return proceed();
      if (++reads === 400) controller.abort(new Error("enough"));
      return new Uint8Array((args[1] as { length: number }).length) as T;
    },
  });
  const { signal } = controller;
  await expect(repairArray(store, "huge.blp", { dryRun: true, signal })).rejects.toThrow("enough");
  expect(reads).toBe(400);
});
