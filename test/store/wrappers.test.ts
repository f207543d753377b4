import { setImmediate as aMoment } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { MemoryStore } from "../../src/store/memory.ts";
import { isWritable, type ReadableStore } from "../../src/store/types.ts";
import { withCoalescing } from "../../src/store/wrappers/coalescing.ts";
import { withHeads } from "../../src/store/wrappers/heads.ts";
import { withCounting } from "./counting.ts";
import { type FaultKind, withFaults } from "./faulty.ts";
import { collectEntries, describeReading, describeWriting, OBJECTS } from "./store-contract.ts";

const WRAPPERS = {
  counting: (store: MemoryStore) => withCounting(store).store,
  faulty: (store: MemoryStore) =>
    withFaults(store, { failAt: Number.POSITIVE_INFINITY, kind: "error" }).store,
  coalescing: (store: MemoryStore) => withCoalescing(store),
};

for (const [name, wrap] of Object.entries(WRAPPERS)) {
  describeReading(`a ${name} store`, async () => ({ store: wrap(new MemoryStore(OBJECTS)), lists: true }));
  describeWriting(`a ${name} store`, async () => ({ store: wrap(new MemoryStore()) }));
}

const BYTES = Uint8Array.from({ length: 1000 }, (_, i) => i % 251);

describe("a wrapper", () => {
  it("has the capabilities of what it wraps and no others", async () => {
    const memory = new MemoryStore();
    const reader: ReadableStore = {
      describe: (key) => key,
      get: (key) => memory.get(key),
      getRange: (key, range) => memory.getRange(key, range),
      stat: (key) => memory.stat(key),
      list: (folder) => memory.list(folder),
    };
    for (const wrapped of [withCounting(reader).store, withCoalescing(reader)]) {
      expect(Object.keys(wrapped).sort()).toEqual(["describe", "get", "getRange", "list", "stat"]);
      expect(isWritable(wrapped)).toBe(false);
    }
    expect(isWritable(withCounting(memory).store)).toBe(true);
    const sized = withCoalescing({ ...reader, readsToStat: true, sizeOf: async (key) => key.length });
    expect([sized.readsToStat, await sized.sizeOf?.("four")]).toEqual([true, 4]);
  });
});

describe("a store that keeps beginnings", () => {
  it("does not fail a caller because another one that waits for the same beginning is aborted", async () => {
    const memory = new MemoryStore([["x", BYTES]]);
    const slow: ReadableStore = {
      describe: (key) => key,
      get: (key) => memory.get(key),
      getRange: async (key, range, options) => {
        await aMoment();
        options?.signal?.throwIfAborted();
        return memory.getRange(key, range);
      },
      stat: (key) => memory.stat(key),
      list: (folder) => memory.list(folder),
    };
    const store = withHeads(slow);
    const aborted = new AbortController();
    const first = store.getRange("x", { offset: 0, length: 4 }, { signal: aborted.signal });
    const second = store.getRange("x", { offset: 4, length: 4 });
    aborted.abort();
    await expect(first).rejects.toMatchObject({ name: "AbortError" });
    expect(await second).toEqual(BYTES.slice(4, 8));
  });
});

describe("a counting store", () => {
  it("counts each call and its bytes", async () => {
    const { store, counts, reset } = withCounting(new MemoryStore([["x", BYTES]]));
    await store.get("x");
    await store.getRange("x", { offset: 990, length: 100 });
    await store.getRange("none", { offset: 0, length: 1 });
    store.readIntoSync("x", 0, new Uint8Array(16));
    await store.readInto("x", 0, new Uint8Array(4));
    await store.put("y", [BYTES, BYTES]);
    await store.writeRange("y", 0, BYTES);
    await expect(store.get("..")).rejects.toThrow();
    await collectEntries(store, "");
    expect(counts).toMatchObject({ requests: 9, reads: 7, writes: 2, bytesRead: 1030, bytesWritten: 3000 });
    expect(counts.log.slice(0, 2)).toEqual(["get x", "getRange x"]);
    reset();
    expect(counts).toEqual({ requests: 0, reads: 0, writes: 0, bytesRead: 0, bytesWritten: 0, log: [] });
  });
});

describe("a faulty store", () => {
  const run = async (kind: FaultKind, failAt: number, counts: "writes" | "all" = "all") => {
    const memory = new MemoryStore([["x", BYTES]]);
    const faulty = withFaults(memory, { failAt, kind, counts });
    const { store } = faulty;
    const outcomes = await Promise.allSettled([
      store.get("x"),
      store.put("y", BYTES),
      store.writeRange("x", 0, new Uint8Array(10)),
      store.stat("x"),
    ]);
    return { memory, faulty, codes: outcomes.map((o) => (o.status === "rejected" ? o.reason.code : "ok")) };
  };

  it("lets only the planned call fail, without effect", async () => {
    const { memory, faulty, codes } = await run("no-space", 2);
    expect(codes).toEqual(["ok", "NO_SPACE", "ok", "ok"]);
    expect(await memory.get("y")).toBeUndefined();
    expect([faulty.calls(), faulty.failed()]).toEqual([4, true]);
    expect((await run("error", 2)).codes).toEqual(["ok", "IO", "ok", "ok"]);
  });

  it("is dead after a crash, before or after the call's effect", async () => {
    const before = await run("crash", 1, "writes");
    expect(before.codes).toEqual(["ok", "IO", "IO", "IO"]);
    expect(await before.memory.get("y")).toBeUndefined();
    const after = await run("crash-after", 1, "writes");
    expect(after.codes.slice(1)).toEqual(["IO", "ok", "ok"]); // the others had begun before it died
    expect(await after.memory.get("y")).toEqual(BYTES);
    await expect(after.faulty.store.get("x")).rejects.toMatchObject({ code: "IO" });
  });

  it("tears a write in place in the middle, but no atomic one", async () => {
    const { memory } = await run("torn-write", 2, "writes");
    const expected = BYTES.slice();
    expected.fill(0, 0, 5);
    expect(await memory.get("x")).toEqual(expected);
    expect(await (await run("torn-write", 1, "writes")).memory.get("y")).toBeUndefined();
  });

  it("cuts a read short once", async () => {
    const { store } = withFaults(new MemoryStore([["x", BYTES]]), { failAt: 2, kind: "short-read" });
    expect(await store.get("x")).toHaveLength(1000);
    expect(await store.getRange("x", { offset: 0, length: 100 })).toEqual(BYTES.slice(0, 50));
    expect(store.readIntoSync("x", 0, new Uint8Array(100))).toBe(100);
  });

  it("does not fail if the plan is past the last call", async () => {
    const { faulty, codes } = await run("crash", 5);
    expect(codes).toEqual(["ok", "ok", "ok", "ok"]);
    expect([faulty.calls(), faulty.failed()]).toEqual([4, false]);
  });
});

describe("a coalescing store", () => {
  const open = (options?: Parameters<typeof withCoalescing>[1]) => {
    const counted = withCounting(new MemoryStore([["x", BYTES]]));
    return { ...counted, joined: withCoalescing(counted.store, options) };
  };

  it("joins ranges with small gaps, in any order, overlapping ones too, and gives each its own bytes", async () => {
    const { joined, counts } = open({ maxGap: 10 });
    const ranges = [
      { offset: 100, length: 50 },
      { offset: 0, length: 50 },
      { offset: 60, length: 30 },
      { offset: 20, length: 100 },
      { offset: 990, length: 50 },
    ];
    const parts = await Promise.all(ranges.map((range) => joined.getRange("x", range)));
    for (const [i, { offset, length }] of ranges.entries())
      expect(parts[i]).toEqual(BYTES.slice(offset, offset + length));
    expect(counts).toMatchObject({ requests: 2, bytesRead: 160 });
    parts[1]?.fill(0);
    expect(parts[3]?.[0]).toBe(20);
  });

  it("joins calls made some microtasks later, but no call of another turn", async () => {
    const { joined, counts } = open();
    const later = async () => {
      await undefined;
      await undefined;
      return joined.getRange("x", { offset: 4, length: 4 });
    };
    await Promise.all([joined.getRange("x", { offset: 0, length: 4 }), later()]);
    expect(counts.requests).toBe(1);
    await joined.getRange("x", { offset: 8, length: 4 });
    expect(counts.requests).toBe(2);
  });

  it("keeps apart ranges that are too far away, too long together, or of another object", async () => {
    const { joined, counts } = open({ maxGap: 10, maxLength: 100 });
    const read = (offset: number, length: number, key = "x") => joined.getRange(key, { offset, length });
    await Promise.all([read(0, 10), read(21, 10)]);
    expect(counts.requests).toBe(2);
    await Promise.all([read(0, 60), read(60, 60)]);
    expect(counts.requests).toBe(4);
    expect(await Promise.all([read(0, 900), read(0, 1, "y")])).toEqual([BYTES.slice(0, 900), undefined]);
    expect(counts.requests).toBe(6);
  });

  it("ends one caller's wait on its abort, and the request when all have aborted", async () => {
    const seen: (AbortSignal | undefined)[] = [];
    const memory = new MemoryStore([["x", BYTES]]);
    const slow: ReadableStore = {
      describe: (key) => key,
      get: (key) => memory.get(key),
      stat: (key) => memory.stat(key),
      list: (folder) => memory.list(folder),
      getRange: (_key, _range, options) =>
        new Promise((_resolve, reject) => {
          seen.push(options?.signal);
          options?.signal?.addEventListener("abort", () => reject(options.signal?.reason));
        }),
    };
    const joined = withCoalescing(slow);
    const [a, b] = [new AbortController(), new AbortController()];
    const first = joined.getRange("x", { offset: 0, length: 4 }, { signal: a.signal });
    const second = joined.getRange("x", { offset: 4, length: 4 }, { signal: b.signal });
    await new Promise((resolve) => setImmediate(resolve));
    a.abort(new Error("first"));
    await expect(first).rejects.toThrow("first");
    expect(seen.map((signal) => signal?.aborted)).toEqual([false]);
    b.abort(new Error("second"));
    await expect(second).rejects.toThrow("second");
    expect(seen.map((signal) => signal?.aborted)).toEqual([true]);
  });

  it("passes a failure on to all waiting callers", async () => {
    const { store } = withFaults(new MemoryStore([["x", BYTES]]), { failAt: 1, kind: "error" });
    const joined = withCoalescing(store);
    const reads = [0, 4].map((offset) => joined.getRange("x", { offset, length: 4 }));
    const outcomes = await Promise.allSettled(reads);
    expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    await expect(joined.getRange("x", { offset: 0, length: 1 })).resolves.toEqual(Uint8Array.of(0));
  });
});
