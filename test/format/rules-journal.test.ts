/** The rules of FORMAT.md about journals, and its dumps of a superchunk and a journal compared with what is really written. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/archive/open/open.ts";
import { planShards } from "../../src/dual/shards.ts";
import { encodeArrayJournal, journalName } from "../../src/format/journal.ts";
import { planReferences } from "../../src/references/plan/plan.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { type Interceptor, interceptStore } from "../../src/store/wrappers/intercept.ts";
import { createArray, openWritable } from "../../src/write/array/create.ts";
import { setChunk } from "../../src/write/in-place/set-chunk.ts";
import { repositoryRoot } from "../fixtures/manifest.ts";
import { rejectionOf, toHex, utf8 } from "./hex.ts";
import { parseDumps } from "./hexdump.ts";

const KEY = "data/__1__.bin";

/** An array of one superchunk: "abcd", "ef". */
async function smallArray(): Promise<MemoryStore> {
  const store = new MemoryStore();
  const array = await createArray(store, "", {
    dtype: "|u1",
    chunkLength: 4,
    superchunkLength: 3,
    compressor: { clevel: 0, shuffle: "noshuffle" },
  });
  await array.append(utf8("abcdef"));
  await array.close();
  return store;
}

/** Passes calls of a store on as long as `isOver` is false, and fails from then on. */
function stopping(store: MemoryStore, isOver: (method: string, key: string) => boolean) {
  let hasStopped = false;
  const interceptor: Interceptor = {
    async onCall(call, proceed) {
      if (hasStopped) throw new Error("stopped");
      const outcome = await proceed();
      hasStopped = isOver(call.method, call.key);
      return outcome;
    },
    onSync: (_call, proceed) => proceed(),
    onList: () => undefined,
  };
  return interceptStore(store, interceptor);
}

it("[FR-01] the dumps of a superchunk and of its journal match what is written", async () => {
  const text = readFileSync(join(repositoryRoot, "FORMAT.md"), "utf8");
  const section = text.slice(text.indexOf("### 1.5"), text.indexOf("## 2. "));
  const [file, journal] = parseDumps(section);
  const store = await smallArray();
  expect(toHex(file?.bytes ?? new Uint8Array(0))).toBe(toHex((await store.get(KEY)) ?? new Uint8Array(0)));
  const dying = stopping(store, (method, key) => method === "put" && key.endsWith(".journal"));
  await expect(setChunk(dying, KEY, 0, utf8("wxyz"), { cparams: { clevel: 0 } })).rejects.toThrow("stopped");
  const put = (await store.get(`${KEY}.journal`)) ?? new Uint8Array(0);
  expect(toHex(journal?.bytes ?? new Uint8Array(0))).toBe(toHex(put));
});

/** The array with "wxyz" committed in place of "abcd", but not written yet. */
async function interrupted(): Promise<{ store: MemoryStore; journal: string }> {
  const store = await smallArray();
  let puts = 0;
  const dying = stopping(store, (method, key) => {
    if (method === "put" && key === "meta/sizes") puts++;
    return puts === 1;
  });
  const array = await openWritable(dying, "", { modify: "in-place" });
  await array.set([{ start: 0, stop: 4, step: 1 }], utf8("wxyz"));
  await expect(array.flush()).rejects.toThrow("stopped");
  const sizes = JSON.parse(new TextDecoder().decode(await store.get("meta/sizes")));
  return { store, journal: sizes.layout.journal };
}

const textOf = async (store: MemoryStore): Promise<string> =>
  new TextDecoder().decode(await ((await open(store)) as ArrayArchive).getBytes());

it("[FG-12] [FG-13] a committed journal counts at once, for readers that write nothing, and the next writer completes it", async () => {
  const { store, journal } = await interrupted();
  const key = `meta/journal-${journal.slice(0, 16)}`;
  const bytes = (await store.get(key)) ?? new Uint8Array(0);
  expect(journalName(bytes)).toBe(journal);
  const before = await store.get(KEY);
  expect(await textOf(store)).toBe("wxyzef");
  expect(await store.get(KEY)).toEqual(before);
  await (await openWritable(store, "")).close();
  expect(await store.get(key)).toBeUndefined();
  expect(await textOf(store)).toBe("wxyzef");
  expect(new TextDecoder().decode((await store.get(KEY))?.subarray(72, 76))).toBe("wxyz");
  // A leftover that no layout names.
  await store.put(key, bytes);
  await (await openWritable(store, "")).close();
  expect(await store.get(key)).toBeUndefined();
});

it("[FR-04] [FG-12] a journal that is missing, belongs to another change, or writes elsewhere is an error", async () => {
  const { store, journal } = await interrupted();
  const key = `meta/journal-${journal.slice(0, 16)}`;
  await store.put(key, await encodeArrayJournal([]));
  expect(await rejectionOf(open(store))).toMatchObject({ code: "CHECKSUM_MISMATCH" });
  await store.delete(key);
  expect(await rejectionOf(open(store))).toMatchObject({ code: "INCOMPLETE" });
  await expect(openWritable(store, "")).rejects.toMatchObject({ code: "INCOMPLETE" });
  for (const write of [
    { number: 2, column: 0, offset: 0 },
    { number: 1, column: 1, offset: 0 },
    { number: 1, column: 0, offset: 1000 },
  ]) {
    const other = await encodeArrayJournal([{ ...write, bytes: utf8("x") }]);
    const name = journalName(other);
    const sizes = new TextDecoder().decode(await store.get("meta/sizes"));
    await store.put("meta/sizes", utf8(sizes.replace(/"journal": "[0-9a-f]+"/, `"journal": "${name}"`)));
    await store.put(`meta/journal-${name.slice(0, 16)}`, other);
    expect(await rejectionOf(open(store))).toMatchObject({ code: "BAD_FIELD" });
  }
});

it("[FR-03] [FG-12] nothing refers to places in files that the archive does not have yet", async () => {
  const { store } = await interrupted();
  const archive = await open(store);
  expect(await rejectionOf(planReferences(archive))).toMatchObject({ code: "CONFLICT" });
  expect(await rejectionOf(planShards(archive, {}))).toMatchObject({ code: "CONFLICT" });
  const file = await smallArray();
  const dying = stopping(file, (method, key) => method === "sync" && key === KEY);
  await expect(setChunk(dying, KEY, 0, utf8("wxyz"))).rejects.toThrow("stopped");
  expect(await rejectionOf(planReferences(await open(file, KEY)))).toMatchObject({ code: "CONFLICT" });
});

it("[FG-13] a file with several names is not changed, and an interrupted change of one leaves the other name its bytes", async () => {
  const store = await smallArray();
  const original = await store.get(KEY);
  await store.link(KEY, "copy", "hard");
  const array = await openWritable(store, "", { modify: "in-place" });
  await array.set([0], 65);
  expect(await rejectionOf(array.flush())).toMatchObject({
    code: "CONFLICT",
    details: { field: "links", expected: 1, found: 2 },
  });
  await array.abandon();
  expect(await store.get(KEY)).toEqual(original);
  expect(await rejectionOf(setChunk(store, KEY, 0, utf8("wxyz")))).toMatchObject({ code: "CONFLICT" });

  const { store: second } = await interrupted();
  await second.link(KEY, "copy", "hard");
  await (await openWritable(second, "")).close();
  expect(await textOf(second)).toBe("wxyzef");
  expect(await second.get("copy")).toEqual(original);
});
