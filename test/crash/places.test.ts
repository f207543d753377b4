/** A power cut before every step of operations on an array whose superchunks are stored in several places. */
import { expect, test } from "vitest";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/archive/open/open.ts";
import { objectOf, parseJson } from "../../src/format/json.ts";
import { parseLayout } from "../../src/format/layout.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import {
  type ArrayOptions,
  createArray,
  openWritable,
  type WriteOptions,
} from "../../src/write/array/create.ts";
import type { WritableArray } from "../../src/write/array/writable-array.ts";
import { COLD, placesIn, SLOW } from "../places/prefixed.ts";
import { sweep } from "../scope.ts";
import { VolatileStore } from "../store/volatile.ts";
import { type Contents, checkImage, contentsOf, type Image, imageOf } from "./images.ts";
import { randomFrom } from "./random.ts";

const SEEDS = sweep(3, 1);
/** Steps between two power cuts. */
const STRIDE = sweep(1, 6);

const ramp = (first: number, count: number): Int32Array =>
  Int32Array.from({ length: count }, (_, i) => first + i);

const SMALL: ArrayOptions = { dtype: "<i4", chunkLength: 4, superchunkLength: 4 };

type Operation = (array: WritableArray) => Promise<unknown>;

const OPERATIONS: readonly [string, Operation, WriteOptions?][] = [
  [
    "append",
    async (array) => {
      await array.append(ramp(500, 50));
      await array.flush();
    },
  ],
  ["moving superchunks out", (array) => array.moveSuperchunks("cold")],
  ["moving superchunks back", (array) => array.moveSuperchunks("data")],
  [
    "setting values and closing",
    async (array) => {
      await array.set([{ start: 0, stop: 70, step: 7 }], -3);
      await array.close();
    },
  ],
  [
    "setting values in place",
    async (array) => {
      await array.set([{ start: 1, stop: 70, step: 5 }], 9);
      await array.flush();
    },
    { modify: "in-place" },
  ],
  ["shrinking", (array) => array.resize(37)],
  ["compacting", (array) => array.compact()],
  ["adding a place", (array) => array.changePlaces({ add: [{ name: "third", prefix: "file:///third/" }] })],
  ["removing an empty place", (array) => array.changePlaces({ remove: ["empty"] })],
];

async function prepare(): Promise<Image> {
  const store = new MemoryStore();
  const empty = { name: "empty", prefix: "file:///empty/" };
  const openPlace = placesIn(store);
  const array = await createArray(store, "", { ...SMALL, places: [COLD, SLOW], openPlace });
  for (const count of [40, 5, 30, 9]) {
    await array.append(ramp(count * 100, count));
    await array.flush();
  }
  await array.changePlaces({ add: [empty] });
  await array.set([5], 7);
  await array.flush();
  await array.abandon();
  return imageOf(store);
}

async function read(image: Image): Promise<Contents> {
  const store = new MemoryStore(image);
  return contentsOf((await open(store, "", { openPlace: placesIn(store) })) as ArrayArchive);
}

/** Keys of the superchunks that the last commit names. */
function namedFiles(image: Image): string[] {
  const path = "meta/sizes";
  const layout = parseLayout(objectOf(parseJson(image.get(path) as Uint8Array, path)), path);
  const folderOf = (number: number): string => {
    const span = layout?.places?.find(({ first, count }) => number >= first && number < first + count);
    return span === undefined ? "data" : `${span.place}/${layout?.id}`;
  };
  const numbers = [
    ...(layout?.runs ?? []).flatMap(({ first, count }) => Array.from({ length: count }, (_, i) => first + i)),
    ...(layout?.patches ?? []).map(({ number }) => number),
  ];
  return numbers.map((number) => `${folderOf(number)}/__${number}__.bin`).sort();
}

/** What the last commit names is there, and after the next writer nothing else is. */
async function assertFiles(image: Image, label: string): Promise<void> {
  const missing = namedFiles(image).filter((key) => !image.has(key));
  expect(missing, label).toEqual([]);
  const store = new MemoryStore(image);
  await (await openWritable(store, "", { openPlace: placesIn(store) })).abandon();
  const after = await imageOf(store);
  const superchunks = [...after.keys()].filter((key) => key.endsWith(".bin")).sort();
  expect(superchunks, label).toEqual(namedFiles(after));
}

test.each(OPERATIONS)(
  "a power cut before any step of %s leaves the old or the new rows [FG-21]",
  async (name, operation, options) => {
    const base = await prepare();
    const whole = new MemoryStore(base);
    const array = await openWritable(whole, "", { ...options, openPlace: placesIn(whole) });
    await operation(array);
    await array.abandon();
    const old = await read(base);
    const anew = await read(await imageOf(whole));
    let cuts = 0;
    for (let failAt = 1, isDone = false; !isDone; failAt += STRIDE) {
      for (let seed = 0; seed < SEEDS; seed++) {
        const store = new VolatileStore(base, { failAt, random: randomFrom(failAt * 1000 + seed) });
        const died = await runUntilPowerCut(store, operation, options);
        if (!died) isDone = true;
        else cuts++;
        const label = `${name}, power cut before step ${failAt}, seed ${seed}`;
        const image = store.image();
        await assertFiles(image, label);
        await checkImage(image, died ? [old, anew] : [anew], label, placesIn);
      }
    }
    expect(cuts).toBeGreaterThan(1);
  },
);

test("a power cut while an array with places is created leaves no array or a whole one", async () => {
  for (let failAt = 1, isDone = false; !isDone; failAt++) {
    const store = new VolatileStore([], { failAt, random: randomFrom(failAt) });
    const openPlace = placesIn(store);
    try {
      const options = { ...SMALL, places: [COLD, SLOW], shape: 40, fillValue: 3, openPlace };
      await (await createArray(store, "", options)).abandon();
    } catch (error) {
      if (!store.isDead) throw error;
    }
    isDone = !store.isDead;
    const image = store.image();
    if (!image.has("meta/sizes")) continue;
    const { shape } = await checkImage(
      image,
      [await read(image)],
      `power cut before step ${failAt}`,
      placesIn,
    );
    expect([0, 40]).toContain(shape[0]);
  }
});

async function runUntilPowerCut(
  store: VolatileStore,
  operation: Operation,
  options?: WriteOptions,
): Promise<boolean> {
  try {
    const array = await openWritable(store, "", { ...options, openPlace: placesIn(store) });
    await operation(array);
    await array.abandon();
  } catch (error) {
    if (!store.isDead) throw error;
  }
  return store.isDead;
}
