/**
 * [FY-09] Other chunks and other columns of arrays that are also Zarr arrays: foreign readers at every step, and
 * power cuts.
 */
import * as fs from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { DType } from "../../../src/format/types.ts";
import { verifyLinkAt } from "../../../src/node/index.ts";
import type { ArrayOptions } from "../../../src/write/array/create.ts";
import type { WritableArray } from "../../../src/write/array/writable-array.ts";
import { randomFrom, SEED } from "../../crash/random.ts";
import { isExhaustive, sweep } from "../../scope.ts";
import { blzValues, Readers, sorted, zarrValues } from "./readers.ts";
import {
  closeStores,
  copyOf,
  createWatched,
  isOutage,
  openWatched,
  ramp,
  temporaryFolder,
} from "./support.ts";

type Step = readonly [name: string, (array: WritableArray) => Promise<void>];

/** Steps of a writer between two power cuts; other ones with another seed. */
const STRIDE = sweep(9, 37);

const nothing = async (): Promise<void> => undefined;

const set = (start: number, stop: number, value: number): Step => [
  `set to ${value}`,
  async (array) => {
    await array.set([{ start, stop, step: 3 }], value);
    await array.flush();
  },
];
const append = (first: number, count: number): Step => [
  `append ${count}`,
  async (array) => {
    await array.append(ramp(first * 1000, count));
    await array.flush();
  },
];
const compact = (changes: Parameters<WritableArray["compact"]>[0]): Step => [
  `compact ${JSON.stringify(changes)}`,
  (array) => array.compact(changes),
];

const PLAIN: Partial<ArrayOptions> = {};
const PLAIN_STEPS: readonly Step[] = [
  append(1, 31),
  compact({ compressor: { cname: "zstd", clevel: 1 } }),
  set(3, 20, 7),
  compact({ chunkLength: 5, superchunkLength: 2 }),
  append(2, 9),
  compact({ superchunkLength: 4 }),
  compact({ chunkLength: 3 }),
  ["shrink", (array) => array.resize(17)],
  compact({ checksum: "md5", compressor: { shuffle: "noshuffle" } }),
  append(3, 20),
  compact({ chunkLength: 4, superchunkLength: 3, checksum: "crc32" }),
  compact({}),
  set(0, 30, 8),
];

const INT: DType = { kind: "int", itemSize: 4, byteOrder: "little" };
const COLUMNS: Partial<ArrayOptions> = {
  dtype: [
    ["a", "<i4"],
    ["v", "<i4", [2]],
  ],
  fillValue: [-1, -2],
};
const rows = (first: number, count: number, width: number): unknown[] =>
  Array.from({ length: count }, (_, i) => [
    first + i,
    [first - i, i],
    ...new Array<number>(width - 2).fill(i),
  ]);
const appendRows = (first: number, count: number): Step => [
  `append ${count} rows`,
  async (array) => {
    await array.append(rows(first, count, array.columnNames.length));
    await array.flush();
  },
];
const COLUMN_STEPS: readonly Step[] = [
  appendRows(100, 30),
  ["add w", (array) => array.addColumn({ name: "w", dtype: INT, fillValue: 5 }, ramp(40, 30))],
  appendRows(200, 7),
  ["rename a", (array) => array.renameColumn("a", "b")],
  ["delete w", (array) => array.deleteColumn("w")],
  compact({ chunkLength: 5, superchunkLength: 4 }),
  ["add w again", (array) => array.addColumn({ name: "w", dtype: INT, fillValue: 6 })],
  ["rename back", (array) => array.renameColumn("b", "a")],
  appendRows(300, 15),
  ["delete v", (array) => array.deleteColumn("v")],
];

const CASES = [
  ["an array", PLAIN, PLAIN_STEPS],
  ["columns", COLUMNS, COLUMN_STEPS],
] as const;

describe.each(CASES)("%s", (_name, options, steps) => {
  test("a reader with any earlier document or index gets values of its rows or an error, at every step", async () => {
    const root = temporaryFolder();
    const readers = new Readers(root);
    let turns = 0;
    const look = async (): Promise<void> => (turns++ % sweep(1, 3) === 0 ? readers.look() : undefined);
    const array = await createWatched(root, look, options);
    for (const [name, step] of steps) {
      await readers.look();
      // During the step rows have the values of before or after.
      const copy = copyOf(root);
      const other = await openWatched(copy, nothing);
      await step(other);
      readers.note(await blzValues(copy));
      await other.abandon();
      await step(array);
      readers.note(await blzValues(root));
      await readers.look();
      expect(await readers.check(name)).toBeGreaterThan(0);
      expect(sorted(await zarrValues(root)), name).toEqual(sorted(await blzValues(root)));
    }
    await array.close();
    expect(readers.looks).toBeGreaterThan(sweep(100, 30));
    expect(readers.documents.size).toBeGreaterThan(5);
    expect(await verifyLinkAt(root)).toEqual([]);
  });

  test("after a power cut before any step the array is right, at the old or the new state, Zarr is the same or absent, and the next writer restores it", async () => {
    class Outage extends Error {}
    const source = temporaryFolder();
    const array = await createWatched(source, nothing, options);
    let [cuts, without] = [0, 0];
    for (const [index, [name, step]] of steps.entries()) {
      await array.flush();
      if (index % sweep(1, 5) !== 0) {
        await step(array);
        continue;
      }
      const before = await blzValues(source);
      const whole = copyOf(source);
      const other = await openWatched(whole, nothing);
      await step(other);
      await other.abandon();
      const after = await blzValues(whole);
      for (let left = (SEED + index) % STRIDE, done = false; !done; left += STRIDE) {
        const root = copyOf(source);
        const held = new Readers(root);
        held.note(before);
        held.note(after);
        await held.look();
        let ticks = left;
        try {
          await step(
            await openWatched(root, async () => {
              if (ticks-- <= 0) throw new Outage(name);
            }),
          );
          done = true;
        } catch (error) {
          if (!isOutage(error, Outage)) throw error;
          cuts++;
        }
        const label = `${name} at ${left}`;
        const values = await blzValues(root);
        expect([sorted(before), sorted(after)], label).toContainEqual(sorted(values));
        const shown = await zarrValues(root);
        if (shown === undefined) without++;
        else held.note(after);
        await held.look();
        await held.check(label);
        const next = await openWatched(root, nothing);
        expect(sorted(await zarrValues(root)), label).toEqual(sorted(values));
        await held.check(`${label}, gone on`);
        await next.close();
        expect(await verifyLinkAt(root), label).toEqual([]);
        expect(documentsIn(root), label).toEqual(documentsOf(values));
        await closeStores();
        fs.rmSync(root, { recursive: true, force: true });
      }
      await step(array);
    }
    await array.close();
    expect(cuts).toBeGreaterThan(sweep(10, 2));
    expect(SEED !== 0 || !isExhaustive || without > 0).toBe(true);
    expect(without).toBeLessThan(cuts / 2);
  });
});

test("with random chunks, rows and settings both views are right after each step, and readers of all earlier documents get no wrong value", async () => {
  const random = randomFrom(9);
  const below = (limit: number): number => Math.floor(random() * limit);
  const root = temporaryFolder();
  const readers = new Readers(root);
  const array = await createWatched(root, nothing);
  let refused = 0;
  let recut = 0;
  for (let i = 0; i < sweep(40, 12); i++) {
    const kind = below(10);
    const changes = {
      ...(below(2) === 0 ? { chunkLength: 1 + below(7) } : {}),
      ...(below(2) === 0 ? { superchunkLength: 1 + below(5) } : {}),
      ...(below(4) === 0
        ? { compressor: { cname: below(2) === 0 ? ("zstd" as const) : ("lz4" as const) } }
        : {}),
    };
    if (kind < 3) await append(i, 1 + below(25))[1](array);
    else if (kind < 5 && array.length > 0) await set(below(array.length), array.length, i)[1](array);
    else if (kind < 6) await array.resize(below(60));
    else {
      try {
        await array.compact(changes);
        recut++;
      } catch (error) {
        expect(error).toMatchObject({ code: "UNSUPPORTED", details: { field: "superchunklen" } });
        refused++;
      }
    }
    const values = await blzValues(root);
    readers.note(values);
    expect(sorted(await zarrValues(root)), `change ${i}`).toEqual(sorted(values));
    await readers.look();
    await readers.check(`change ${i}`);
  }
  await array.close();
  expect(await verifyLinkAt(root)).toEqual([]);
  expect(recut).toBeGreaterThan(sweep(5, 2));
  expect(refused).toBeLessThan(recut);
  const again = await openWatched(root, nothing);
  await again.append(ramp(0, 3));
  await again.close();
  expect(sorted(await zarrValues(root))).toEqual(sorted(await blzValues(root)));
});

/** Folders with a document; the root is "". */
function documentsIn(root: string): readonly string[] {
  const below = fs.readdirSync(root).filter((name) => fs.existsSync(join(root, name, "zarr.json")));
  return [...below, ...(fs.existsSync(join(root, "zarr.json")) ? [""] : [])].sort();
}

function documentsOf(values: Map<string, readonly number[]>): readonly string[] {
  return [...new Set([...values.keys(), ""])].sort();
}
