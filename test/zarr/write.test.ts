/** Random writes and reads under every strategy, on every kind of chain, against an array in memory. */

import { describe, expect, test } from "vitest";
import type { ArraySlice } from "../../src/archive/kinds/types.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import type { WritableStore } from "../../src/store/types.ts";
import type { ZarrArray } from "../../src/zarr/read/array.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { createZarr, type ZarrSpecification } from "../../src/zarr/write/create.ts";
import type { WritableZarrArray } from "../../src/zarr/write/writable-array.ts";
import fc from "../property.ts";
import { sweep } from "../scope.ts";
import { Model, SPECIFICATIONS } from "./arrays.ts";

const [ROWS, COLUMNS] = [13, 17];

const slice = (length: number): fc.Arbitrary<{ start: number; stop: number; step: number }> =>
  fc
    .tuple(fc.nat(length - 1), fc.integer({ min: 1, max: length }), fc.constantFrom(1, 1, 1, 2, 3))
    .map(([start, count, step]) => ({ start, stop: Math.min(length, start + count), step }));

const indices = ({ start, stop, step }: { start: number; stop: number; step: number }): number[] => {
  const found: number[] = [];
  for (let i = start; i < stop; i += step) found.push(i);
  return found;
};

const change = fc.record({
  rows: slice(ROWS),
  columns: slice(COLUMNS),
  seed: fc.integer({ min: 0, max: 1 << 20 }),
  kind: fc.constantFrom("values", "values", "values", "fill", "single"),
  strategy: fc.constantFrom("rewrite", "append", "fixed"),
  maxUnused: fc.constantFrom(undefined, 0, 100),
});

/** A store that cannot write into objects. */
function withoutRanges(store: MemoryStore): WritableStore {
  return new Proxy(store, {
    get: (target, name) => {
      if (name === "writeRange") return undefined;
      const member = Reflect.get(target, name, target) as unknown;
      return typeof member === "function" ? member.bind(target) : member;
    },
  });
}

async function valuesOf(array: { get(): Promise<unknown> }): Promise<number[]> {
  const { data } = (await array.get()) as ArraySlice;
  return Array.from(data as Int32Array);
}

/** How often each item is in a chunk that is listed as stored or as missing. */
async function timesListed(array: ZarrArray): Promise<number[]> {
  const times = new Array<number>(ROWS * COLUMNS).fill(0);
  for (const list of [array.listChunks(), array.listMissing()]) {
    for await (const { start, shape } of list) {
      const [rows, columns] = start.map((first, d) =>
        indices({ start: first, stop: Math.min(array.shape[d] ?? 0, first + (shape[d] ?? 0)), step: 1 }),
      );
      for (const row of rows ?? [])
        for (const column of columns ?? [])
          times[row * COLUMNS + column] = (times[row * COLUMNS + column] ?? 0) + 1;
    }
  }
  return times;
}

describe.each(Object.entries(SPECIFICATIONS))("%s", (_, spec: ZarrSpecification) => {
  test("any writes and reads match an array in memory, and every item is in one chunk", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(change, { minLength: 1, maxLength: 6 }),
        fc.constantFrom("row-major", "column-major", "morton", "as-written"),
        fc.boolean(),
        fc.boolean(),
        async (changes, chunkOrder, writeEmptyChunks, hasRanges) => {
          const memory = new MemoryStore();
          const store = hasRanges ? memory : withoutRanges(memory);
          const array = await createZarr(store, "a", spec, { chunkOrder, writeEmptyChunks });
          const model = new Model([ROWS, COLUMNS], -7);
          for (const { rows, columns, seed, kind, strategy, maxUnused } of changes) {
            const items = model.items(indices(rows), indices(columns));
            const values = Int32Array.from(items, (_, i) =>
              kind === "values" ? (seed + i * 7919) % 1000 : -7,
            );
            items.forEach((item, i) => {
              model.values[item] = kind === "single" ? seed : (values[i] ?? 0);
            });
            await array.set([rows, columns], kind === "single" ? seed : values, { strategy, maxUnused });
            const part = (await array.get([rows, columns])) as ArraySlice;
            expect(Array.from(part.data as Int32Array)).toEqual(items.map((item) => model.values[item]));
          }
          expect(await valuesOf(await openZarrArray(store, "a"))).toEqual(model.values);
          expect((await (await openZarrArray(store, "a")).verify()).findings).toEqual([]);
          expect(await timesListed(await openZarrArray(store, "a"))).toEqual(model.values.map(() => 1));
        },
      ),
      { numRuns: sweep(40, 6) },
    );
  });

  test("reading with any settings gives the same", async () => {
    const store = new MemoryStore();
    const written = await createZarr(store, "", spec);
    const values = Int32Array.from({ length: ROWS * COLUMNS }, (_, i) => (i * 31) % 97);
    await written.set(null, values);
    for (const maxGap of [0, 1_000_000]) {
      const array = await openZarrArray(store, "", {
        maxGap,
        concurrency: 1,
        cachedEntries: 1,
        immutable: true,
      });
      expect(await valuesOf(array)).toEqual(Array.from(values));
      expect(await array.get([5, 3])).toBe(values[5 * COLUMNS + 3]);
      expect(await array.get([-1, -1])).toBe(values.at(-1));
    }
  });
});

const sharded = SPECIFICATIONS["shards, bytes"] as ZarrSpecification;

function countChunks(array: WritableZarrArray): Promise<number> {
  return (async () => {
    let count = 0;
    for await (const _ of array.listChunks()) count++;
    return count;
  })();
}

describe("a shard", () => {
  test("[FH-08] holds no all-fill chunk unless requested, and is removed with its last chunk", async () => {
    const store = new MemoryStore();
    const array = await createZarr(store, "", sharded);
    await array.set([0, 0], 5);
    expect(await countChunks(array)).toBe(1);
    await array.set(
      [
        { start: 0, stop: 6, step: 1 },
        { start: 0, stop: 6, step: 1 },
      ],
      -7,
    );
    expect(await countChunks(array)).toBe(0);
    expect(await store.get("c/0/0")).toBeUndefined();
    await array.set(
      [
        { start: 0, stop: 6, step: 1 },
        { start: 0, stop: 6, step: 1 },
      ],
      -7,
      { writeEmptyChunks: true },
    );
    expect(await countChunks(array)).toBe(6);
  });

  test("[FH-08] that is appended to keeps every byte that an earlier index named, and compacting drops unused bytes", async () => {
    const store = new MemoryStore();
    const array = await createZarr(store, "", sharded, { strategy: "append" });
    const whole = [
      { start: 0, stop: 6, step: 1 },
      { start: 0, stop: 6, step: 1 },
    ] as const;
    await array.set(whole, 1);
    const before = (await store.get("c/0/0")) ?? new Uint8Array(0);
    for (let i = 0; i < 5; i++) await array.set([0, 0], i);
    const after = (await store.get("c/0/0")) ?? new Uint8Array(0);
    expect(after.length).toBe(before.length + 5 * (24 + 100));
    expect(after.subarray(0, before.length)).toEqual(before);
    await array.compactShard([0, 0]);
    expect((await store.get("c/0/0"))?.length).toBe(before.length);
    expect(await array.get([0, 0])).toBe(4);
    expect(await array.get([0, 1])).toBe(1);
  });

  test("[FH-08] in fixed order is written in place, at its old size", async () => {
    const store = new MemoryStore();
    const array = await createZarr(store, "", sharded, { strategy: "fixed" });
    await array.set(
      [
        { start: 0, stop: 6, step: 1 },
        { start: 0, stop: 6, step: 1 },
      ],
      1,
    );
    const before = (await store.get("c/0/0"))?.length;
    await array.set([3, 4], 9);
    expect((await store.get("c/0/0"))?.length).toBe(before);
    expect(await array.get([3, 4])).toBe(9);
  });

  test("written to concurrently loses nothing: the slower writer adds to the faster one's result", async () => {
    const store = new MemoryStore();
    await createZarr(store, "", sharded);
    // Two stores on the same objects, which learn of each other only by the objects' versions.
    const writers = await Promise.all(
      [withoutRanges(store), withoutRanges(store), withoutRanges(store)].map((each) => openWriter(each)),
    );
    await Promise.all(
      writers.flatMap((writer, w) => Array.from({ length: 6 }, (_, i) => writer.set([w, i], 100 * w + i))),
    );
    const array = await openZarrArray(store);
    for (let w = 0; w < 3; w++) for (let i = 0; i < 6; i++) expect(await array.get([w, i])).toBe(100 * w + i);
  });
});

async function openWriter(store: WritableStore): Promise<WritableZarrArray> {
  const { openZarrWriter } = await import("./writer.ts");
  return openZarrWriter(store);
}
