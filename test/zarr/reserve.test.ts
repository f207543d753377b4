import { expect, test } from "vitest";
import type { ArraySlice } from "../../src/archive/kinds/types.ts";
import { FileStore } from "../../src/node/index.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { createZarr } from "../../src/zarr/write/create.ts";
import {
  encodeInnerChunk,
  finishReserved,
  reserveShard,
  type WrittenSlot,
  writeReserved,
} from "../../src/zarr/write/reserve.ts";
import { temporaryFolder } from "../folder.ts";
import fc from "../property.ts";
import { openZarrWriter } from "./writer.ts";

const specification = {
  shape: [8, 8],
  dataType: "int16",
  chunkShape: [2, 4],
  shardShape: [8, 8],
  indexLocation: "start",
  fillValue: -1,
} as const;

test("[FH-09] inner chunks written in any order are all there when the shard is finished, and not before", async () => {
  const store = new MemoryStore();
  const array = await createZarr(store, "", specification);
  const plan = await reserveShard(array, [0, 0]);
  const reservation = JSON.parse(JSON.stringify(plan)) as typeof plan;
  const write = async (slot: number) => {
    const items = new Int16Array(8).fill(slot);
    const encoded = await encodeInnerChunk(array, new Uint8Array(items.buffer));
    return writeReserved(store, reservation, slot, encoded);
  };
  const written = await Promise.all([6, 1, 3, 0].map(write));
  expect(await array.get([0, 0])).toBe(-1);
  await finishReserved(store, reservation, written);
  const { data } = (await array.get()) as ArraySlice;
  const expected = Array.from({ length: 64 }, (_, i) => {
    const slot = Math.floor(i / 16) * 2 + (i % 8 >= 4 ? 1 : 0);
    return [6, 1, 3, 0].includes(slot) ? slot : -1;
  });
  expect(Array.from(data as Int16Array)).toEqual(expected);
  const before = (await store.stat("c/0/0"))?.size ?? 0;
  await array.compactShard([0, 0]);
  expect((await store.stat("c/0/0"))?.size).toBeLessThan(before);
  expect(await array.get([7, 0])).toBe(6);
});

test("[FH-09] workers with separate stores fill one shard concurrently, in any order, with chunks of any size", async () => {
  const folder = temporaryFolder();
  const array = await createZarr(new FileStore(folder), "", {
    ...specification,
    shape: [64, 64],
    chunkShape: [8, 8],
    shardShape: [64, 64],
  });
  await fc.assert(
    fc.asyncProperty(
      fc.shuffledSubarray(Array.from({ length: 64 }, (_, slot) => slot)),
      fc.integer({ min: 1, max: 6 }),
      async (slots, count) => {
        const reservation = await reserveShard(array, [0, 0]);
        const waiting = [...slots];
        const written: WrittenSlot[] = [];
        const work = async (): Promise<void> => {
          const store = new FileStore(folder);
          const own = await openZarrWriter(store);
          for (let slot = waiting.pop(); slot !== undefined; slot = waiting.pop()) {
            const items = Int16Array.from({ length: 64 }, (_, i) => (slot % 2 === 0 ? slot : slot * i));
            const encoded = await encodeInnerChunk(own, new Uint8Array(items.buffer));
            written.push(await writeReserved(store, JSON.parse(JSON.stringify(reservation)), slot, encoded));
          }
          await store.close();
        };
        await Promise.all(Array.from({ length: count }, work));
        await finishReserved(array.store, reservation, written);
        const found = await openZarrArray(new FileStore(folder));
        expect((await found.verify()).findings).toEqual([]);
        const { data } = (await found.get()) as ArraySlice;
        const expected = Int16Array.from({ length: 64 * 64 }, (_, at) => {
          const [row, column] = [Math.floor(at / 64), at % 64];
          const slot = Math.floor(row / 8) * 8 + Math.floor(column / 8);
          if (!slots.includes(slot)) return -1;
          return slot % 2 === 0 ? slot : slot * ((row % 8) * 8 + (column % 8));
        });
        expect(data).toEqual(expected);
      },
    ),
    { numRuns: 15 },
  );
});

test("a chunk larger than its slot, a missing slot, and an index at the end are refused", async () => {
  const store = new MemoryStore();
  const array = await createZarr(store, "", specification);
  const reservation = await reserveShard(array, [0, 0], 10);
  await expect(writeReserved(store, reservation, 0, new Uint8Array(11))).rejects.toMatchObject({
    code: "LIMIT",
  });
  await expect(writeReserved(store, reservation, 8, new Uint8Array(1))).rejects.toMatchObject({
    code: "BAD_ARGUMENT",
  });
  const other = await createZarr(store, "end", { ...specification, indexLocation: "end" });
  await expect(reserveShard(other, [0, 0])).rejects.toMatchObject({ code: "BAD_ARGUMENT" });
});

test("[FH-09] whatever contradicts a reservation is refused, and no shard is published", async () => {
  const store = new MemoryStore();
  const array = await createZarr(store, "", specification);
  const refused = (field: string) => ({ code: "BAD_ARGUMENT", details: { field } });
  for (const position of [[1, 0], [0], [0, 0, 0], [-1, 0], [0.5, 0]]) {
    await expect(reserveShard(array, position)).rejects.toMatchObject(refused("position"));
    await expect(array.compactShard(position)).rejects.toMatchObject(refused("position"));
  }
  for (const bytes of [0, -5, 1.5, Number.NaN])
    await expect(reserveShard(array, [0, 0], bytes)).rejects.toMatchObject(refused("slotBytes"));
  const reservation = await reserveShard(array, [0, 0]);
  for (const length of [0, 15, 17])
    await expect(encodeInnerChunk(array, new Uint8Array(length))).rejects.toMatchObject(refused("items"));
  const right = await writeReserved(store, reservation, 5, await encodeInnerChunk(array, new Uint8Array(16)));
  for (const wrong of [
    [{ ...right, slot: 8 }],
    [{ ...right, slot: -1 }],
    [{ ...right, slot: 4 }],
    [{ ...right, offset: right.offset + 1 }],
    [{ ...right, nbytes: reservation.slotBytes + 1 }],
    [right, right],
  ])
    await expect(finishReserved(store, reservation, wrong)).rejects.toMatchObject(refused("written"));
  expect(await store.stat("c/0/0")).toBeUndefined();
  await finishReserved(store, reservation, [right]);
  expect(await (await openZarrArray(store, "")).get([4, 4])).toBe(0);
});

test("an invalid strategy, order, limit or gap is refused before anything is written", async () => {
  const store = new MemoryStore();
  const array = await createZarr(store, "", specification);
  for (const [field, wrong] of [
    ["strategy", "sometimes"],
    ["chunkOrder", "mortn"],
    ["maxUnused", -1],
    ["maxUnused", Number.NaN],
  ] as const) {
    const options = { [field]: wrong } as object;
    const refused = { code: "BAD_ARGUMENT", details: { field, found: wrong } };
    await expect(array.set(null, 1, options)).rejects.toMatchObject(refused);
    await expect(array.compactShard([0, 0], options)).rejects.toMatchObject(refused);
    await expect(openZarrWriter(store, "", options)).rejects.toMatchObject(refused);
  }
  for (const maxGap of [-1, Number.NaN])
    await expect(openZarrArray(store, "", { maxGap })).rejects.toMatchObject({
      code: "BAD_ARGUMENT",
      details: { field: "maxGap" },
    });
  expect(await store.stat("c/0/0")).toBeUndefined();
});
