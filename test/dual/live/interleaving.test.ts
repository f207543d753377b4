/** Foreign readers between any two steps of a writer, and a power cut before any of them. */
import * as fs from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { open } from "../../../src/archive/open/open.ts";
import { FileStore, verifyLinkAt } from "../../../src/node/index.ts";
import type { ArrayOptions } from "../../../src/write/array/create.ts";
import type { WritableArray } from "../../../src/write/array/writable-array.ts";
import { randomFrom, SEED } from "../../crash/random.ts";
import { sample, sweep } from "../../scope.ts";
import {
  beginReading,
  finishReading,
  type Range,
  type Reading,
  readForeign,
  readRange,
} from "./foreign-reader.ts";
import {
  closeStores,
  copyOf,
  createWatched,
  isOutage,
  openWatched,
  ramp,
  temporaryFolder,
} from "./support.ts";

type Step = (array: WritableArray) => Promise<void>;

const append =
  (first: number, count: number): Step =>
  async (array) => {
    const [, ...tail] = array.shape;
    const width = tail.reduce((product, n) => product * n, 1);
    await array.append(ramp(first * 100, count * width));
    await array.flush();
  };
const set =
  (start: number, stop: number, value: number): Step =>
  async (array) => {
    await array.set([{ start, stop, step: 3 }], value);
    await array.flush();
  };
const resize =
  (rows: number): Step =>
  (array) =>
    array.resize(rows);

/** Every way in which rows are appended, changed and removed. */
const EACH_STEP: readonly (readonly [string, Step])[] = [
  ["append less than a chunk", append(1, 3)],
  ["append over chunks", append(2, 7)],
  ["append over a superchunk", append(3, 9)],
  ["append several superchunks", append(4, 30)],
  ["set in full ones and the rest", set(2, 48, 7)],
  ["append after set", append(5, 5)],
  ["set again", set(5, 20, 8)],
  ["shrink within a chunk", resize(41)],
  ["append other rows", append(6, 3)],
  ["shrink over shards", resize(9)],
  ["shrink on a chunk", resize(8)],
  ["grow by the default", resize(31)],
  ["delete rows", async (array) => void (await array.deleteRows(3, 10))],
  ["set the open end", set(17, 24, 9)],
  ["append to the open end", append(7, 14)],
  ["compact", (array) => array.compact()],
  ["append after compact", append(8, 13)],
  ["shrink to nothing", resize(0)],
  ["append again", append(9, 26)],
];

/** A step that does the same each time on the same array. */
function drawStep(random: () => number): readonly [string, Step] {
  const [kind, a, b, value] = [random(), random(), random(), Math.floor(random() * 1000)];
  if (kind < 0.4) {
    const count = 1 + Math.floor(a * a * 30);
    return [`append ${count}`, append(value, count)];
  }
  if (kind < 0.65)
    return [
      `set to ${value}`,
      async (array) => {
        const start = Math.floor(a * array.length);
        const stop = start + 1 + Math.floor(b * (array.length - start - 1));
        if (array.length > 0) await set(start, stop, value)(array);
      },
    ];
  if (kind < 0.8) return ["resize", resize(Math.floor(a * 50))];
  if (kind < 0.9)
    return [
      "delete rows",
      async (array) => {
        const start = Math.floor(a * array.length);
        const stop = start + 1 + Math.floor(b * (array.length - start - 1));
        if (array.length > 0) await array.deleteRows(start, stop);
      },
    ];
  return ["compact", (array) => array.compact()];
}

/** With a seed (`SEED=3 npx vitest run test/dual/live`) others, in any order. */
const random = randomFrom(1);
const STEPS = SEED === 0 ? EACH_STEP : EACH_STEP.map(() => drawStep(random));

async function blzValues(root: string): Promise<number[]> {
  const array = await open(new FileStore(root), "");
  try {
    if (array.kind !== "array") throw new TypeError(array.kind);
    const bytes = await array.getBytes();
    return [...new Int32Array(bytes.slice().buffer)];
  } finally {
    await array.close();
  }
}

/** True if each value of `now` is one that the array had at that position before or after, and its length too. */
function isOneOf(
  now: readonly (number | undefined)[],
  states: readonly (readonly number[])[],
  row: number,
): boolean {
  return (
    states.some(({ length }) => length === now.length) &&
    now.every((value, i) => value === undefined || states.some((state) => state[i] === value)) &&
    now.length % row === 0
  );
}

/** Options, and the number of writer steps between two power cuts. */
const SHAPES: readonly (readonly [string, Partial<ArrayOptions>, number])[] = [
  ["rows of values", {}, sweep(11, 149)],
  ["rows with two dimensions", { shape: [0, 2, 1], chunkLength: 2, superchunkLength: 2 }, 131],
  ["without digests, one chunk per superchunk", { checksum: "None", superchunkLength: 1 }, 131],
];

describe.each(sample(SHAPES, 2))("%s", (_name, options, stride) => {
  const row = Array.isArray(options.shape) ? 2 : 1;

  test("[FY-03] a reader gets right values or an error, whatever the writer does after the reader has read an index", async () => {
    const root = temporaryFolder();
    const readings: { readonly reading: Reading; readonly state: number }[] = [];
    const states: number[][] = [[]];
    /** Every byte range that an index ever pointed to, with its contents. */
    const known = new Map<string, { range: Range; bytes: Uint8Array }>();
    let looks = 0;
    const look = async (): Promise<void> => {
      if (!fs.existsSync(join(root, "zarr.json"))) return;
      const reading = await beginReading(root).catch(() => undefined);
      if (reading !== undefined) {
        readings.push({ reading, state: states.length - 1 });
        for (const range of reading.chunks) {
          if (range === undefined) continue;
          const key = `${range.shard} ${range.offset} ${range.nbytes}`;
          if (!known.has(key)) known.set(key, { range, bytes: readRange(root, range).slice() });
        }
      }
      for (const { range, bytes } of known.values()) {
        const now = readRange(root, range);
        const isSame = now.length === bytes.length && now.every((byte, i) => byte === bytes[i]);
        const isHole = now.every((byte) => byte === 0);
        if (!isSame && !isHole) expect.fail(`${JSON.stringify(range)} was used anew`);
      }
      looks++;
    };
    const array = await createWatched(root, look, options);
    for (const [name, step] of STEPS) {
      // The readers of the previous step finish during this one: at its end.
      await look();
      const begun = readings.splice(0);
      await step(array);
      await look();
      const values = await blzValues(root);
      states.push(values);
      expect(await readForeign(root), name).toEqual(values);
      for (const { reading, state } of [...begun, ...readings]) {
        const found = await finishReading(root, reading);
        const possible = states.slice(Math.max(0, state - 1));
        expect(isOneOf(found, possible, row), `${name}: ${JSON.stringify(found)}`).toBe(true);
      }
    }
    await array.close();
    expect(looks).toBeGreaterThan(100);
    expect(await verifyLinkAt(root)).toEqual([]);
  });

  test("[FY-05] after a power cut before any step both views are right, at the old or the new state, and the next writer continues", async () => {
    class Outage extends Error {}
    const source = temporaryFolder();
    let cuts = 0;
    const array = await createWatched(source, async () => undefined, options);
    for (const [index, [name, step]] of STEPS.entries()) {
      await array.flush();
      if (index % sweep(1, 9) !== 0) {
        await step(array);
        continue;
      }
      const before = await blzValues(source);
      const outcome = await outcomeOf(source, step);
      for (let left = (SEED + index) % 11, done = false; !done; left += stride) {
        const root = copyOf(source);
        let steps = left;
        const tick = async (): Promise<void> => {
          if (steps-- <= 0) throw new Outage(name);
        };
        try {
          await step(await openWatched(root, tick));
          done = true;
        } catch (error) {
          if (!isOutage(error, Outage)) throw error;
          cuts++;
        }
        const [values, shown] = [await blzValues(root), await readForeign(root)];
        expect([before, outcome], name).toContainEqual(values);
        expect(isOneOf(shown, [before, outcome], row), `${name} at ${left}: ${JSON.stringify(shown)}`).toBe(
          true,
        );
        const next = await openWatched(root, async () => undefined);
        expect(await blzValues(root), name).toEqual(values);
        expect(await readForeign(root), name).toEqual(values);
        await next.append(ramp(-50, 2 * row));
        await next.close();
        expect(await readForeign(root), name).toEqual([...values, ...ramp(-50, 2 * row)]);
        await closeStores();
        fs.rmSync(root, { recursive: true, force: true });
      }
      await step(array);
    }
    await array.close();
    expect(cuts).toBeGreaterThan(2);
  });
});

/** The effect of a step on the array. */
async function outcomeOf(source: string, step: Step): Promise<number[]> {
  const root = copyOf(source);
  const array = await openWatched(root, async () => undefined);
  await step(array);
  await array.abandon();
  await closeStores();
  return blzValues(root);
}
