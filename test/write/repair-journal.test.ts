/** Arrays with an interrupted change in place, also damaged or not. */
import { beforeAll, describe, expect, test } from "vitest";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/archive/open/open.ts";
import { arrayJournalKey } from "../../src/archive/places/journal.ts";
import { repairArray } from "../../src/convert/run/repair.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { createArray, openWritable } from "../../src/write/array/create.ts";
import { imageOf } from "../crash/images.ts";
import { randomFrom } from "../crash/random.ts";
import { sweep } from "../scope.ts";
import { VolatileStore } from "../store/volatile.ts";

type Image = ReadonlyMap<string, Uint8Array>;

const ROWS = 300;
const CHUNK = 32;
/** Rows by files: superchunks of 4 chunks, the last of one whole and one short chunk. */
const FILE = 4 * CHUNK;
const before: readonly number[] = Array.from({ length: ROWS }, (_, i) => i);
/** Every fifth row set to values that no compressor makes smaller: in every chunk, the short last one included. */
const after = before.map((row) => (row % 5 === 0 ? Math.imul(row + 1, 0x9e3779b1) : row));

async function valuesOf(store: MemoryStore, path = ""): Promise<number[]> {
  const array = (await open(store, path)) as ArrayArchive;
  expect((await array.verify()).findings).toEqual([]);
  const { data } = (await array.get()) as { data: Int32Array };
  return [...data];
}

/** What a power cut leaves between the commit that names the journal and the one that no longer does. */
const pending: Image[] = [];

beforeAll(async () => {
  const made = new MemoryStore();
  const array = await createArray(made, "", { dtype: "<i4", chunkLength: CHUNK, superchunkLength: 4 });
  await array.append(Int32Array.from(before));
  await array.close();
  const base = await imageOf(made);
  for (let failAt = 1, isDone = false; !isDone; failAt++) {
    const store = new VolatileStore(base, { failAt, random: randomFrom(failAt) });
    try {
      const writer = await openWritable(store, "", { modify: "in-place" });
      await writer.set(
        [{ start: 0, stop: ROWS, step: 5 }],
        Int32Array.from(after.filter((_, row) => row % 5 === 0)),
      );
      await writer.flush();
      isDone = true;
    } catch (error) {
      if (!store.isDead) throw error;
    }
    const image = store.image();
    if (journalOf(image) !== undefined) pending.push(image);
  }
});

/** Key of the journal that the array names. */
function journalOf(image: Image): string | undefined {
  const sizes = JSON.parse(new TextDecoder().decode(image.get("meta/sizes"))) as {
    readonly layout: { readonly journal?: string };
  };
  const name = sizes.layout.journal;
  return name === undefined ? undefined : arrayJournalKey("", name);
}

describe("repair of an array with an interrupted change in place", () => {
  test("there are such arrays, of each state of the files", () => {
    expect(pending.length).toBeGreaterThan(3);
    for (const image of pending) expect(image.has(journalOf(image) ?? "")).toBe(true);
    expect(new Set(pending.map((image) => image.get("data/__1__.bin")?.[4]))).toEqual(new Set([3, 4]));
  });

  test("into a copy includes what the journal holds, and leaves the source unchanged", async () => {
    for (const image of pending) {
      const store = new MemoryStore(image);
      const kept = await imageOf(store);
      const copy = new MemoryStore();
      const report = await repairArray(store, "", { into: { store: copy, path: "mended" }, holes: "cut" });
      expect(report).toMatchObject({ rowsBefore: ROWS, rows: ROWS, problems: [], lost: [] });
      expect(await valuesOf(copy, "mended")).toEqual(after);
      expect(await imageOf(store)).toEqual(kept);
    }
  });

  test("in place loses nothing, also if power fails on the way, and leaves no journal", async () => {
    let cuts = 0;
    for (const [i, image] of pending.entries()) {
      for (let failAt = 1, isDone = false; !isDone; failAt += sweep(1, 37) + (i % 3)) {
        const dying = new VolatileStore(image, { failAt, random: randomFrom(failAt) });
        try {
          await repairArray(dying, "", { holes: "cut" });
          isDone = true;
        } catch (error) {
          if (!dying.isDead) throw error;
          cuts++;
        }
        const store = new MemoryStore(dying.image());
        if (!isDone) await repairArray(store, "", { holes: "cut" });
        expect(await valuesOf(store)).toEqual(after);
        const writer = await openWritable(store, "");
        await writer.set([0], -1);
        await writer.close();
        expect(await valuesOf(store)).toEqual([-1, ...after.slice(1)]);
        expect([...(await imageOf(store, "meta")).keys()].filter((key) => key.includes("journal"))).toEqual(
          [],
        );
      }
    }
    expect(cuts).toBeGreaterThan(sweep(10, 3));
  });

  test("of a file that is also damaged gives the rows before the damage their new values", async () => {
    for (const image of pending) {
      const store = new MemoryStore(image);
      await store.delete("data/__3__.bin");
      const { rows, lost } = await repairArray(store, "", { holes: "cut" });
      expect(rows).toBe(2 * FILE);
      expect(lost.join("\n")).toContain(`rows ${2 * FILE} to ${ROWS - 1}`);
      expect(lost.join("\n")).toContain(
        "set in place last, as far as they were not written yet: memory:data/__3__.bin",
      );
      expect(await valuesOf(store)).toEqual(after.slice(0, 2 * FILE));
    }
  });

  test.each([
    ["is gone", (store: MemoryStore, key: string) => store.delete(key)],
    [
      "is damaged",
      async (store: MemoryStore, key: string) => {
        const bytes = ((await store.get(key)) ?? new Uint8Array(0)).slice();
        bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] ?? 0) ^ 1;
        await store.put(key, bytes);
      },
    ],
  ])("reports the loss if the journal %s, and every chunk is either old or new", async (_, damage) => {
    for (const image of pending) {
      const store = new MemoryStore(image);
      await damage(store, journalOf(image) ?? "");
      await expect(open(store)).rejects.toMatchObject({ name: "SuperchunkError" });
      const { rows, problems, lost } = await repairArray(store, "", { holes: "cut" });
      expect(problems.join("\n")).toContain("journal");
      expect(lost.join("\n")).toContain("values that were set in place last");
      const values = await valuesOf(store);
      expect(values).toHaveLength(rows);
      for (let row = 0; row < rows; row += CHUNK) {
        const chunk = values.slice(row, row + CHUNK);
        const found = [before, after].some((all) => isEqualTo(chunk, all.slice(row, row + chunk.length)));
        expect(found, `chunk at row ${row}`).toBe(true);
      }
    }
  });
});

function isEqualTo(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((value, i) => value === b[i]);
}
