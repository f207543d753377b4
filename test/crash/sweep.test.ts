/** A power cut before every step of every operation. */
import { describe, expect, test } from "vitest";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/archive/open/open.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import {
  type ArrayOptions,
  createArray,
  openWritable,
  type WriteOptions,
} from "../../src/write/array/create.ts";
import type { WritableArray } from "../../src/write/array/writable-array.ts";
import { sweep } from "../scope.ts";
import { VolatileStore } from "../store/volatile.ts";
import { type Contents, checkImage, contentsOf, type Image, imageOf } from "./images.ts";
import { randomFrom } from "./random.ts";

const SEEDS = sweep(3, 1);

/** Steps between two power cuts. */
const STRIDE = sweep(1, 18);

type Operation = (array: WritableArray) => Promise<void>;

interface Start {
  readonly options: ArrayOptions;
  /** Brings the array into the state from which the operation starts. */
  readonly before: Operation;
}

const ramp = (first: number, count: number): Int32Array =>
  Int32Array.from({ length: count }, (_, i) => first + i);

/** Chunks of 4 rows, superchunks of 4 chunks; merged, shrunk and patched parts. */
const PLAIN: Start = {
  options: { dtype: "<i4", chunkLength: 4, superchunkLength: 4, attrs: { a: 1 } },
  before: async (array) => {
    for (const count of [40, 5, 3, 9, 2]) {
      await array.append(ramp(count * 100, count));
      await array.flush();
    }
    await array.set([{ start: 3, stop: 30, step: 7 }], -5);
    await array.flush();
  },
};

/** Ended inside a full superchunk, whose name cannot be reused. */
const SHRUNK: Start = {
  ...PLAIN,
  before: async (array) => {
    await array.append(ramp(0, 64));
    await array.flush();
    await array.resize(27);
  },
};

const FIELDS = [
  ["x", "<i4"],
  ["y", "<f8", [2]],
  ["z", "S3"],
] as const;

const NESTED: Start = {
  options: { dtype: FIELDS as never, chunkLength: 3, superchunkLength: 3, checksum: "sha256" },
  before: async (array) => {
    for (let i = 0; i < 4; i++) {
      await array.append([
        [i, [i, 0.5], "a"],
        [i + 10, [0, -1], "bc"],
        [i + 20, [3, 4], ""],
        [i + 30, [5, 6], "def"],
      ]);
      await array.flush();
    }
    await array.set([2], [[99, [9, 9], "zz"]]);
    await array.flush();
  },
};

/** Values that no compressor makes smaller. */
const noise = (count: number, seed: number): Int32Array => {
  const random = randomFrom(seed);
  return Int32Array.from({ length: count }, () => random() * 2 ** 32);
};

/** Chunks of 64 rows, which compress. */
const LONG: Start = {
  options: { dtype: "<i4", chunkLength: 64, superchunkLength: 3 },
  before: async (array) => {
    await array.append(ramp(0, 500));
    await array.flush();
  },
};

/** The same, with room after each chunk. */
const RESERVED: Start = { ...LONG, options: { ...LONG.options, reserve: "50%" } };

/** Changed in place before: chunks were moved, and have reserve. */
const MOVED: Start = {
  ...LONG,
  before: async (array) => {
    await LONG.before(array);
    await array.close();
    const again = await openWritable(array.store, "", IN_PLACE);
    await again.set([{ start: 64, stop: 128, step: 1 }], noise(64, 1));
    await again.set([{ start: 200, stop: 300, step: 1 }], 5);
    await again.close();
  },
};

const IN_PLACE: WriteOptions = { modify: "in-place" };

const OPERATIONS: readonly [string, Start, Operation, WriteOptions?][] = [
  ["append within a chunk", PLAIN, async (array) => flushed(array, array.append(ramp(7, 1)))],
  ["append that merges superchunks", PLAIN, async (array) => flushed(array, array.append(ramp(7, 6)))],
  ["append of several superchunks", PLAIN, async (array) => flushed(array, array.append(ramp(7, 50)))],
  ["append after a cut superchunk", SHRUNK, async (array) => flushed(array, array.append(ramp(7, 30)))],
  ["growing", PLAIN, (array) => array.resize(90)],
  ["shrinking into a chunk", PLAIN, (array) => array.resize(17)],
  ["shrinking to no rows", PLAIN, (array) => array.resize(0)],
  ["deleting rows", PLAIN, async (array) => void (await array.deleteRows(5, 23))],
  [
    "setting values",
    PLAIN,
    async (array) => flushed(array, array.set([{ start: 0, stop: 59, step: 9 }], 77)),
  ],
  ["setting values of many chunks", PLAIN, async (array) => flushed(array, array.set(null, 1))],
  [
    "setting values in place",
    LONG,
    async (array) => flushed(array, array.set([{ start: 0, stop: 460, step: 2 }], noise(230, 2))),
    IN_PLACE,
  ],
  ["setting all values in place", LONG, async (array) => flushed(array, array.set(null, 1)), IN_PLACE],
  [
    "setting values in reserve",
    RESERVED,
    async (array) => flushed(array, array.set([{ start: 2, stop: 400, step: 50 }], noise(8, 3))),
    IN_PLACE,
  ],
  [
    "setting values in place again",
    MOVED,
    async (array) => flushed(array, array.set([{ start: 100, stop: 290, step: 1 }], noise(190, 4))),
    IN_PLACE,
  ],
  ["append after a move", MOVED, async (array) => flushed(array, array.append(ramp(5, 70)))],
  ["compacting after a move", MOVED, (array) => array.compact()],
  ["compacting", PLAIN, (array) => array.compact()],
  ["compacting after a cut", SHRUNK, (array) => array.compact()],
  [
    "compacting with other chunks",
    PLAIN,
    (array) => array.compact({ chunkLength: 5, superchunkLength: 4, checksum: "md5" }),
  ],
  ["setting attributes", PLAIN, (array) => array.setAttributes({ a: undefined, b: [1, 2] })],
  [
    "closing",
    PLAIN,
    async (array) => {
      await array.append(ramp(7, 6));
      await array.close();
    },
  ],
  [
    "append to columns",
    NESTED,
    async (array) =>
      flushed(
        array,
        array.append([
          [1, [1, 1], "q"],
          [2, [2, 2], "r"],
        ]),
      ),
  ],
  ["deleting rows of columns", NESTED, async (array) => void (await array.deleteRows(1, 6))],
  [
    "setting values of columns",
    NESTED,
    async (array) => flushed(array, array.set([{ start: 0, stop: 9, step: 4 }], [[7, [7, 7], "7"]])),
  ],
  [
    "setting values of columns in place",
    NESTED,
    async (array) => flushed(array, array.set([{ start: 0, stop: 15, step: 4 }], [[7, [7, 7], "7"]])),
    IN_PLACE,
  ],
  ["compacting columns", NESTED, (array) => array.compact({ compressor: { cname: "zlib" } })],
  [
    "adding a column",
    NESTED,
    (array) =>
      array.addColumn({ name: "w", dtype: { kind: "int", itemSize: 2, byteOrder: "little" }, fillValue: 3 }),
  ],
  ["renaming a column", NESTED, (array) => array.renameColumn("y", "why")],
  ["deleting a column", NESTED, (array) => array.deleteColumn("x")],
];

async function flushed(array: WritableArray, change: Promise<void>): Promise<void> {
  await change;
  await array.flush();
}

async function prepare(start: Start): Promise<Image> {
  const store = new MemoryStore();
  const array = await createArray(store, "", start.options);
  await start.before(array);
  await array.abandon();
  return imageOf(store);
}

async function read(image: Image): Promise<Contents> {
  return contentsOf((await open(new MemoryStore(image))) as ArrayArchive);
}

describe("a power cut before any step leaves the old or the new rows", () => {
  for (const [name, start, operation, options] of OPERATIONS) {
    test(name, async () => {
      const base = await prepare(start);
      const whole = new MemoryStore(base);
      const array = await openWritable(whole, "", options);
      await operation(array);
      await array.abandon();
      const old = await read(base);
      const anew = await read(await imageOf(whole));
      let seenOld = 0;
      let seenNew = 0;
      for (let failAt = 1, isDone = false; !isDone; failAt += STRIDE) {
        for (let seed = 0; seed < SEEDS; seed++) {
          const random = randomFrom(failAt * 1000 + seed);
          const store = new VolatileStore(base, { failAt, random });
          const died = await runUntilPowerCut(store, operation, options);
          if (!died) isDone = true;
          const label = `${name}, power cut before step ${failAt}, seed ${seed}`;
          const contents = await checkImage(store.image(), died ? [old, anew] : [anew], label);
          if (JSON.stringify(contents) === JSON.stringify(anew)) seenNew++;
          else seenOld++;
        }
      }
      expect(seenNew).toBeGreaterThan(0);
      // Compacting changes no rows.
      if (JSON.stringify(old) !== JSON.stringify(anew)) expect(seenOld).toBeGreaterThan(0);
    });
  }
});

test("a power cut during recovery leaves the same rows, whatever is being recovered", async () => {
  const names = ["deleting rows", "setting values in place", "compacting", "compacting with other chunks"];
  const swept = OPERATIONS.filter(([name]) => names.includes(name));
  expect(swept.length).toBe(names.length);
  for (const [, start, operation, options] of swept) {
    const base = await prepare(start);
    for (let failAt = 2; failAt < 60; failAt += 3 * STRIDE) {
      const store = new VolatileStore(base, { failAt, random: randomFrom(failAt) });
      if (!(await runUntilPowerCut(store, operation, options))) break;
      const image = store.image();
      const contents = await read(image);
      for (let again = 1, isDone = false; !isDone; again += STRIDE) {
        const second = new VolatileStore(image, { failAt: again, random: randomFrom(again) });
        isDone = !(await runUntilPowerCut(second, async () => undefined));
        await checkImage(second.image(), [contents], `recovery, power cut before step ${again} of ${failAt}`);
      }
    }
  }
});

/** True if the power failed on the way. */
async function runUntilPowerCut(
  store: VolatileStore,
  operation: Operation,
  options?: WriteOptions,
): Promise<boolean> {
  try {
    const array = await openWritable(store, "", options);
    await operation(array);
    await array.abandon();
  } catch (error) {
    if (!store.isDead) throw error;
  }
  return store.isDead;
}

test("a power cut while an array is created leaves no array or a whole one", async () => {
  for (let failAt = 1, isDone = false; !isDone; failAt++) {
    const store = new VolatileStore([], { failAt, random: randomFrom(failAt) });
    try {
      await createArray(store, "", { ...PLAIN.options, shape: 30, fillValue: 9 });
    } catch (error) {
      if (!store.isDead) throw error;
    }
    isDone = !store.isDead;
    const image = store.image();
    const again = new MemoryStore(image);
    if (!image.has("meta/sizes")) {
      await expect(open(again)).rejects.toMatchObject({ name: "SuperchunkError" });
      await createArray(again, "", PLAIN.options);
      continue;
    }
    const { shape } = await checkImage(
      image,
      [await read(image)],
      `created, power cut before step ${failAt}`,
    );
    expect([0, 30]).toContain(shape[0]);
  }
});
