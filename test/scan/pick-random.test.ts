/** `oindex`, `vindex` and `fields` of random arrays, against Python's rules of indexing, written down here a second time. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { create, openArray } from "../../src/node/index.ts";
import type { OuterEntry } from "../../src/scan/pick.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { createZarr } from "../../src/zarr/write/create.ts";
import { temporaryFolder } from "../folder.ts";
import { sweep } from "../scope.ts";

const SEEDS = Array.from({ length: sweep(400, 18) }, (_, seed) => seed);

/** Random integers `[from, to)`: mulberry32. */
function dice(seed: number): (from: number, to: number) => number {
  let state = Math.imul(seed + 1, 0x9e37_79b9);
  return (from, to) => {
    state = (state + 0x6d2b_79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return from + (((mixed ^ (mixed >>> 14)) >>> 0) % (to - from));
  };
}

type Roll = ReturnType<typeof dice>;

/** The indices of a slice, as the reference of Python describes them: one step after the other until the end is reached. */
function pythonRange(
  start: number | null,
  stop: number | null,
  step: number,
  length: number,
): readonly number[] {
  const place = (bound: number): number => {
    if (bound < 0) return bound + length < 0 ? (step < 0 ? -1 : 0) : bound + length;
    return bound >= length ? (step < 0 ? length - 1 : length) : bound;
  };
  const found: number[] = [];
  const end = stop === null ? (step < 0 ? -1 : length) : place(stop);
  let index = start === null ? (step < 0 ? length - 1 : 0) : place(start);
  for (; step < 0 ? index > end : index < end; index += step) found.push(index);
  return found;
}

/** An entry, and what it selects; a number drops the dimension. */
function randomEntry(roll: Roll, length: number): readonly [OuterEntry, number | readonly number[]] {
  const index = (): number => roll(-length, length);
  const positive = (i: number): number => (i < 0 ? i + length : i);
  const kind = roll(0, 6);
  if (kind === 0 && length > 0) {
    const one = index();
    return [one, positive(one)];
  }
  if (kind === 1 && length > 0) {
    const list = Array.from({ length: roll(0, 2 * length) }, index);
    return [roll(0, 2) === 0 ? list : Int32Array.from(list), list.map(positive)];
  }
  if (kind === 2) {
    const mask = Array.from({ length }, () => roll(0, 3) > 0);
    return [mask, mask.flatMap((isTaken, i) => (isTaken ? [i] : []))];
  }
  if (kind === 3) return [null, pythonRange(null, null, 1, length)];
  const bound = (): number | null => (roll(0, 4) === 0 ? null : roll(-length - 3, length + 4));
  const [start, stop, step] = [bound(), bound(), roll(1, 5) * (roll(0, 2) === 0 ? 1 : -1)];
  return [{ start, stop, step }, pythonRange(start, stop, step, length)];
}

/** Values that encode their position, as nested lists. */
function nestedValues(shape: readonly number[], next = { value: 0 }): unknown {
  const [length, ...rest] = shape;
  if (length === undefined) return next.value++;
  return Array.from({ length }, () => nestedValues(rest, next));
}

function take(values: unknown, [first, ...rest]: readonly (number | readonly number[])[]): unknown {
  if (first === undefined) return values;
  const list = values as readonly unknown[];
  return typeof first === "number" ? take(list[first], rest) : first.map((i) => take(list[i], rest));
}

function randomShape(roll: Roll, least: number, most: number): number[] {
  return Array.from({ length: roll(least, most) }, () => (roll(0, 12) === 0 ? 0 : roll(1, 14)));
}

/** The same array in Zarr, in chunks or shards of random shapes, and in a folder of superchunks. */
async function makeArrays(roll: Roll, shape: readonly number[]) {
  const size = shape.reduce((product, n) => product * n, 1);
  const data = Int32Array.from({ length: size }, (_, i) => i);
  const chunkShape = shape.map((length) => roll(1, Math.max(2, length + 2)));
  const isSharded = roll(0, 2) === 0;
  const order = shape.map((_, d) => (roll(0, 1) === 0 ? shape.length - 1 - d : d));
  const spec = {
    shape,
    dataType: "int32",
    chunkShape,
    ...(isSharded ? { shardShape: chunkShape.map((length) => length * roll(1, 4)) } : {}),
    ...(roll(0, 3) === 0 && shape.length > 1 ? { order } : {}),
  };
  const zarr = await createZarr(new MemoryStore(), "a", spec);
  await zarr.set(null, data);
  if (shape.length === 0) return [zarr];
  const path = join(temporaryFolder(), "a");
  await (await create(path, { dtype: "<i4", shape, data, chunkLength: roll(1, 9) } as never)).close();
  return [zarr, await openArray(path)];
}

test.each(SEEDS)("seed %i: oindex and vindex give the items that numpy gives", async (seed) => {
  const roll = dice(seed);
  const shape = randomShape(roll, 0, 5);
  const values = nestedValues(shape);
  for (const array of await makeArrays(roll, shape)) {
    for (let round = 0; round < 8; round++) {
      const chosen = shape.slice(0, roll(0, shape.length + 1)).map((length) => randomEntry(roll, length));
      const entries = chosen.map(([entry]) => entry);
      const expected = take(
        values,
        chosen.map(([, own]) => own),
      );
      const found = await array.oindex(entries);
      const lengths = shape.flatMap((length, d) => {
        const own = chosen[d]?.[1];
        return own === undefined ? [length] : typeof own === "number" ? [] : [own.length];
      });
      expect([found.shape, [...(found.data as Int32Array)]], JSON.stringify({ shape, entries })).toEqual([
        lengths,
        [expected].flat(5),
      ]);
    }
    if (!shape.includes(0)) {
      // An array without dimensions has one item, at no coordinates.
      const count = shape.length === 0 ? 1 : roll(0, 40);
      const points = Array.from({ length: count }, () => shape.map((length) => roll(-length, length)));
      const lists = shape.map((_, d) => points.map((point) => point[d] ?? 0));
      const { data } = await array.vindex(lists);
      const places = points.map((point) => point.map((i, d) => (i < 0 ? i + (shape[d] ?? 0) : i)));
      expect([...(data as Int32Array)], JSON.stringify({ shape, points })).toEqual(
        places.map((place) => take(values, place)),
      );
    }
    await array.close();
  }
});

const FIELDS = ["id", "name", "pair", "flag"] as const;
const STRUCT = [
  ["id", "<i8"],
  ["name", "|S3"],
  ["pair", "<f4", [2]],
  ["flag", "|b1"],
] as const;

test.each(SEEDS.slice(0, SEEDS.length / 4))(
  "seed %i: fields of structs come in their order",
  async (seed) => {
    const roll = dice(1000 + seed);
    const count = roll(1, 60);
    const rows = Array.from({ length: count }, (_, i) => ({
      ...{ id: BigInt(i) << 40n, name: `n${i}`, pair: [i / 2, -i], flag: i % 3 === 0 },
    }));
    const settings = { dtype: STRUCT, chunkLength: roll(1, 20), columns: roll(0, 2) === 0 };
    const path = join(temporaryFolder(), "a");
    const empty = await create(path, settings as never);
    await empty.append(rows.map(({ id, name, pair, flag }) => [id, name, pair, flag]) as never);
    await empty.close();
    const made = await openArray(path);
    for (let round = 0; round < 6; round++) {
      const fields = FIELDS.filter(() => roll(0, 2) === 0).sort(() => roll(-1, 2));
      const [entry, own] = randomEntry(roll, count);
      const points = Array.from({ length: roll(0, 30) }, () => roll(-count, count));
      const part = (i: number): object =>
        Object.fromEntries(fields.map((name) => [name, rows.at(i)?.[name]]));
      if (fields.length === 0) continue;
      const [outer, coordinates] = [
        await made.oindex([entry], { fields }),
        await made.vindex([points], { fields }),
      ];
      const listed = ({ data }: typeof outer): unknown[] =>
        Array.from({ length: data.length }, (_, i) => {
          const item = (data as { get(i: number): Record<string, unknown> }).get(i);
          return Object.fromEntries(
            Object.entries(item).map(([name, value]) => [
              name,
              name === "pair" ? [...(value as number[])] : value,
            ]),
          );
        });
      expect(listed(outer)).toEqual((typeof own === "number" ? [own] : own).map(part));
      expect(listed(coordinates)).toEqual(points.map(part));
      for (const item of listed(outer)) expect(Object.keys(item as object)).toEqual(fields);
    }
    await made.close();
  },
);
