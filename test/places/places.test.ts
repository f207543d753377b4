/** Arrays whose superchunks are stored in several places. */
import { describe, expect, test } from "vitest";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/archive/open/open.ts";
import { repairArray } from "../../src/convert/run/repair.ts";
import { SuperchunkError } from "../../src/errors.ts";
import { mergeSpans, parseLayout } from "../../src/format/layout.ts";
import type { JsonObject } from "../../src/format/types.ts";
import type { OpenPlace } from "../../src/places/placed-store.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { interceptStore } from "../../src/store/wrappers/intercept.ts";
import { type ArrayOptions, createArray, openWritable } from "../../src/write/array/create.ts";
import { openShared } from "../../src/write/array/open-shared.ts";
import { keysOf } from "../convert/to-zarr/read-back.ts";
import { imageOf } from "../crash/images.ts";
import { randomFrom } from "../crash/random.ts";
import { sample } from "../scope.ts";
import { below, COLD, placesIn, SLOW } from "./prefixed.ts";

const ramp = (first: number, count: number): Int32Array =>
  Int32Array.from({ length: count }, (_, i) => first + i);

/** Superchunks of 4 chunks of 4 rows. */
const SMALL: ArrayOptions = { dtype: "<i4", chunkLength: 4, superchunkLength: 4 };

/** The layout of the array at the root of a store, and `superchunk` of its `meta/storage`. */
async function metaOf(store: MemoryStore): Promise<{ sizes: JsonObject; declared: JsonObject }> {
  const read = async (key: string) =>
    JSON.parse(new TextDecoder().decode(await store.get(key))) as JsonObject;
  return {
    sizes: await read("meta/sizes"),
    declared: (await read("meta/storage"))["superchunk"] as JsonObject,
  };
}

/** Keys of the superchunks, in whatever place. */
async function superchunksIn(store: MemoryStore): Promise<string[]> {
  return [...(await imageOf(store)).keys()].filter((key) => key.endsWith(".bin")).sort();
}

async function valuesOf(store: MemoryStore): Promise<number[]> {
  const array = (await open(store, "", { openPlace: placesIn(store) })) as ArrayArchive;
  expect((await array.verify()).findings).toEqual([]);
  return [...((await array.get()).data as Int32Array)];
}

/** An array of 80 rows in 5 superchunks, spread over `data` and two places. */
async function spread(options: Partial<ArrayOptions> = {}): Promise<MemoryStore> {
  const store = new MemoryStore();
  const openPlace = placesIn(store);
  const array = await createArray(store, "", { ...SMALL, places: [COLD, SLOW], openPlace, ...options });
  await array.append(ramp(0, 80));
  await array.close();
  return store;
}

describe("the format", () => {
  test("meta/storage declares places, and meta/sizes gives the superchunks stored there [FG-19] [FG-20]", async () => {
    const store = await spread();
    const { sizes, declared } = await metaOf(store);
    expect(declared).toMatchObject({
      places: [COLD, SLOW],
      placeBy: "round",
      readFeatures: ["layout", "places"],
    });
    const layout = sizes["layout"] as JsonObject;
    expect(layout["places"]).toEqual([
      [2, 1, "cold"],
      [3, 1, "slow"],
      [5, 1, "cold"],
    ]);
    const id = String(layout["id"]);
    expect(await superchunksIn(store)).toEqual([
      `cold/${id}/__2__.bin`,
      `cold/${id}/__5__.bin`,
      "data/__1__.bin",
      "data/__4__.bin",
      `slow/${id}/__3__.bin`,
    ]);
    expect(await valuesOf(store)).toEqual([...ramp(0, 80)]);
  });

  test("an array without places does not mention them", async () => {
    const store = new MemoryStore();
    await (await createArray(store, "", SMALL)).close();
    const { sizes, declared } = await metaOf(store);
    expect(declared["readFeatures"]).toEqual(["layout"]);
    expect(declared).not.toHaveProperty("places");
    expect(sizes["layout"]).not.toHaveProperty("places");
  });

  const SPANS: readonly [string, unknown, RegExp][] = [
    [
      "a number twice",
      [
        [1, 2, "cold"],
        [2, 1, "slow"],
      ],
      /each superchunk once/,
    ],
    ["no name", [[1, 2]], /name of a place/],
    ["no count", [[1, 0, "cold"]], /name of a place/],
    ["a number that no superchunk has", [[0, 1, "cold"]], /number from 1/],
  ];
  test.each(SPANS)("%s in layout.places is BAD_FIELD [FG-20]", async (_, places, message) => {
    const { sizes } = await metaOf(await spread());
    const layout = { ...(sizes["layout"] as JsonObject), places } as JsonObject;
    expect(() => parseLayout({ ...sizes, layout }, "sizes")).toThrow(message);
  });

  const DECLARED: readonly [string, unknown, string][] = [
    ["the name of the folder itself", [{ name: "data", prefix: "file:///a/" }], "BAD_FIELD"],
    ["a name with a slash", [{ name: "a/b", prefix: "file:///a/" }], "BAD_FIELD"],
    ["two of one name", [COLD, { ...SLOW, name: "cold" }], "BAD_FIELD"],
    ["a prefix without its end", [{ name: "a", prefix: "file:///a" }], "BAD_FIELD"],
    ["a path out of the prefix", [{ name: "a", prefix: "file:///a/../b/" }], "UNSAFE_PATH"],
    ["the same, encoded", [{ name: "a", prefix: "s3://bucket/%2e%2e/" }], "UNSAFE_PATH"],
    ["a password", [{ name: "a", prefix: "https://me:secret@host/a/" }], "BAD_FIELD"],
    ["another scheme", [{ name: "a", prefix: "ftp://host/a/" }], "UNSUPPORTED"],
    ["a text", "cold", "BAD_FIELD"],
  ];
  test.each(DECLARED)("%s in superchunk.places is refused [FG-19]", async (_, places, code) => {
    const store = await spread();
    const { declared } = await metaOf(store);
    const storage = JSON.parse(new TextDecoder().decode(await store.get("meta/storage"))) as JsonObject;
    const changed = { ...storage, superchunk: { ...declared, places } };
    await store.put("meta/storage", new TextEncoder().encode(JSON.stringify(changed)));
    const opening = open(store, "", { openPlace: placesIn(store) });
    await expect(opening).rejects.toMatchObject({ code });
    await expect(opening).rejects.not.toThrow(/secret/);
  });

  test("an undeclared place is BAD_FIELD, and an id that leads out is UNSAFE_PATH [FG-20]", async () => {
    const store = await spread();
    const text = new TextDecoder().decode(await store.get("meta/sizes"));
    const replace = (from: string, to: string): Promise<unknown> =>
      store.put("meta/sizes", new TextEncoder().encode(text.replaceAll(from, to)));
    await replace('"slow"', '"other"');
    await expect(open(store, "", { openPlace: placesIn(store) })).rejects.toMatchObject({
      code: "BAD_FIELD",
      details: { field: "layout.places", found: "other" },
    });
    const { id } = (await metaOf(await spread())).sizes["layout"] as { id: string };
    expect(id).toMatch(/^[0-9a-f]{32}$/);
    await replace(/"id": "([^"]+)"/.exec(text)?.[1] ?? "", "../cold");
    await expect(open(store, "", { openPlace: placesIn(store) })).rejects.toMatchObject({
      code: "UNSAFE_PATH",
    });
  });
});

describe("reading", () => {
  test("a place that is not allowed is one error that says what to allow", async () => {
    const store = await spread();
    await expect(open(store)).rejects.toMatchObject({
      code: "UNSAFE_PATH",
      isDamage: false,
      message: expect.stringContaining('{allow: "file:///cold/"}') as string,
    });
  });

  test("an unused place need not be allowed for reading", async () => {
    const store = await spread({ placeBy: "tier" });
    const array = (await open(store)) as ArrayArchive;
    expect([...((await array.get()).data as Int32Array)]).toEqual([...ramp(0, 80)]);
  });

  test("a reader that opened before superchunks were moved still finds its rows", async () => {
    const store = await spread();
    const openPlace = placesIn(store);
    const reader = (await open(store, "", { openPlace })) as ArrayArchive;
    expect((await reader.get([70])) as number).toBe(70);
    const writer = await openWritable(store, "", { openPlace });
    await writer.moveSuperchunks("slow");
    await writer.close();
    expect([...((await reader.get()).data as Int32Array)]).toEqual([...ramp(0, 80)]);
    expect((await reader.verify()).findings).toEqual([]);
  });

  test("a missing superchunk is INCOMPLETE, and the message names its place", async () => {
    const store = await spread();
    const [key = ""] = await superchunksIn(store);
    await store.delete(key);
    const array = (await open(store, "", { openPlace: placesIn(store) })) as ArrayArchive;
    const { findings } = await array.verify();
    expect(findings[0]).toMatchObject({
      code: "INCOMPLETE",
      path: expect.stringContaining("cold/") as string,
    });
  });

  test("salvage looks in every place, and does not treat an unmounted disk as lost rows", async () => {
    const store = await spread();
    const openPlace = placesIn(store);
    const { id } = (await metaOf(store)).sizes["layout"] as { id: string };
    await store.delete("data/__1__.bin");
    await store.delete(`cold/${id}/__5__.bin`);
    const repaired = new MemoryStore();
    const report = await repairArray(store, "", {
      openPlace,
      holes: "drop",
      into: { store: repaired, path: "" },
    });
    expect(report).toMatchObject({ rows: 48, whole: 12 });
    expect(mergeSpans(report.holes)).toEqual([
      { from: 0, to: 16 },
      { from: 64, to: 80 },
    ]);
    // The copy is a single folder.
    expect([...((await ((await open(repaired)) as ArrayArchive).get()).data as Int32Array)]).toEqual([
      ...ramp(16, 48),
    ]);
    expect((await metaOf(repaired)).declared).not.toHaveProperty("places");
    const shown = (await open(store, "", { openPlace, damaged: "skip" })) as ArrayArchive;
    expect([...((await shown.get()).data as Int32Array)]).toEqual([...ramp(16, 48)]);

    await expect(repairArray(store, "", { dryRun: true })).rejects.toMatchObject({ code: "UNSAFE_PATH" });
    for (const key of await keysOf(store)) if (key.startsWith("slow/")) await store.delete(key);
    await expect(repairArray(store, "", { openPlace, dryRun: true })).rejects.toMatchObject({
      code: "NOT_FOUND",
      details: { field: "place" },
    });
    await store.put("meta/storage", Uint8Array.of(0x7b));
    await expect(repairArray(store, "", { openPlace, dryRun: true })).rejects.toMatchObject({
      code: "UNSUPPORTED",
    });
  });
});

test.each(["round", "size", "tier"] as const)(
  "a repair in place, %s, spreads the rows again, and keeps what it replaced",
  async (placeBy) => {
    const store = await spread({ placeBy });
    const openPlace = placesIn(store);
    const array = await openWritable(store, "", { openPlace });
    await array.moveSuperchunks("cold", { keepLast: 2 });
    await array.close();
    const before = await imageOf(store);
    const [damaged = ""] = [...before.keys()].filter((key) => /^cold\/.*\.bin$/.test(key));
    const bytes = (await store.get(damaged))?.slice() ?? new Uint8Array();
    bytes[84] = (bytes[84] ?? 0) ^ 1;
    await store.put(damaged, bytes);
    await expect(repairArray(store, "", { holes: "fill" })).rejects.toMatchObject({ code: "UNSAFE_PATH" });
    const report = await repairArray(store, "", { openPlace, holes: "drop" });
    expect(report).toMatchObject({ rows: 76, rowsBefore: 80, whole: 19 });
    const [hole = { from: 0, to: 0 }] = report.holes;
    expect(await valuesOf(store)).toEqual(
      [...ramp(0, 80)].filter((row) => row < hole.from || row >= hole.to),
    );
    const after = [...(await imageOf(store)).keys()];
    const aside = after.filter((key) => key.startsWith("lost+found/") && key.endsWith(".bin"));
    expect(aside).toHaveLength([...before.keys()].filter((key) => key.endsWith(".bin")).length);
    const own = after.filter((key) => /^(?:data|cold|slow)\/.*\.bin$/.test(key));
    expect(own).toHaveLength(5);
    if (placeBy === "round") expect(own.filter((key) => !key.startsWith("data/")).length).toBeGreaterThan(2);
    const { declared } = await metaOf(store);
    expect(declared).toMatchObject({ places: [COLD, SLOW], placeBy });
    // The next writer finds nothing to clean up, and appends.
    const again = await openWritable(store, "", { openPlace });
    await again.append(ramp(80, 4));
    await again.close();
    expect((await valuesOf(store)).length).toBe(80);
    expect(await repairArray(store, "", { openPlace })).toMatchObject({ rows: 80, setAside: undefined });
  },
);

describe("writing", () => {
  test("every verb keeps the values, and leaves no unnamed superchunk", async () => {
    const store = await spread();
    const openPlace = placesIn(store);
    let rows = [...ramp(0, 80)];
    const array = await openWritable(store, "", { openPlace });
    const check = async (): Promise<void> => {
      expect([...((await array.get()).data as Int32Array)]).toEqual(rows);
    };
    await array.append(ramp(80, 37));
    rows.push(...ramp(80, 37));
    await array.flush();
    await check();
    await array.set([{ start: 2, stop: 110, step: 9 }], -1);
    rows = rows.map((value, i) => (i >= 2 && i < 110 && (i - 2) % 9 === 0 ? -1 : value));
    await array.flush();
    await check();
    await array.deleteRows(20, 41);
    rows.splice(20, 21);
    await check();
    await array.resize(75);
    rows.length = 75;
    await check();
    await array.compact();
    await check();
    await array.resize(130);
    rows.push(...new Array<number>(55).fill(0));
    await array.compact({ chunkLength: 5, superchunkLength: 3 });
    await check();
    await array.close();
    expect(await valuesOf(store)).toEqual(rows);
    await nothingLeft(store);
  });

  test.each(
    sample(
      Array.from({ length: 60 }, (_, seed) => seed),
      4,
    ),
  )("random changes, moves and places keep the values, seed %i", async (seed) => {
    const random = randomFrom(2000 + seed);
    const pick = (end: number): number => Math.floor(random() * end);
    const placeBy = (["round", "size", "tier"] as const)[pick(3)];
    const store = await spread(placeBy === undefined ? {} : { placeBy });
    const openPlace = placesIn(store);
    let rows = [...ramp(0, 80)];
    let array = await openWritable(store, "", { openPlace });
    const names = async (): Promise<string[]> => (await array.places()).map(({ name }) => name);
    const verbs: readonly (() => Promise<unknown>)[] = [
      () => {
        const more = ramp(rows.length * 7, 1 + pick(50));
        rows.push(...more);
        return array.append(more);
      },
      () => {
        const start = pick(rows.length + 1);
        const stop = start + pick(rows.length + 1 - start);
        const value = -1 - pick(1000);
        rows = rows.fill(value, start, stop);
        return start === stop ? Promise.resolve() : array.set([{ start, stop, step: 1 }], value);
      },
      () => {
        const start = pick(rows.length + 1);
        const end = start + pick(rows.length + 1 - start);
        rows.splice(start, end - start);
        return array.deleteRows(start, end);
      },
      () => {
        const length = pick(rows.length + 40);
        while (rows.length < length) rows.push(0);
        rows.length = length;
        return array.resize(length);
      },
      () => array.compact(random() < 0.3 ? { chunkLength: 3 + pick(4), superchunkLength: 2 + pick(4) } : {}),
      async () => {
        await array.flush();
        const all = await names();
        await array.moveSuperchunks(all[pick(all.length)] ?? "data", { keepLast: pick(4) });
      },
      async () => {
        await array.flush();
        const all = await names();
        const last = all.at(-1) ?? "data";
        if (all.length < 4)
          await array.changePlaces({ add: [{ name: `p${pick(99)}`, prefix: `file:///p${pick(99)}/` }] });
        else {
          await array.moveSuperchunks("data");
          await array.changePlaces({ remove: [last] });
        }
      },
      async () => {
        if (random() < 0.5) await array.close();
        else {
          await array.flush();
          await array.abandon();
        }
        expect(await valuesOf(store)).toEqual(rows);
        array = await openWritable(store, "", { openPlace });
      },
    ];
    for (let step = 0; step < 20; step++) await verbs[pick(verbs.length)]?.();
    expect([...((await array.get()).data as Int32Array)]).toEqual(rows);
    await array.close();
    expect(await valuesOf(store)).toEqual(rows);
    await nothingLeft(store);
  });

  test("a changed superchunk stays in its place, and new ones follow the rule", async () => {
    const store = await spread();
    const openPlace = placesIn(store);
    const array = await openWritable(store, "", { openPlace });
    await array.moveSuperchunks("slow", { superchunks: [0, 0] });
    await array.set([1], 9);
    await array.compact();
    const [, , slow] = await array.places();
    expect(slow).toMatchObject({ name: "slow", superchunks: 2, patches: 0 });
    expect(slow?.spans[0]).toEqual([0, 0]);
    await array.close();
  });

  test("by size, the place with the fewest bytes is next", async () => {
    const store = await spread({ placeBy: "size" });
    const array = await openWritable(store, "", { openPlace: placesIn(store) });
    const places = await array.places();
    expect(places.map(({ superchunks }) => superchunks).sort()).toEqual([1, 2, 2]);
    await array.close();
  });

  test("by size, a place that could not be listed is listed again, and superchunks that are put meanwhile do no harm", async () => {
    const store = await spread({ placeBy: "size" });
    let isAbsent = false;
    const onList = (): void => {
      if (isAbsent) throw new SuperchunkError("IO", "it cannot be listed");
    };
    const openPlace: OpenPlace = async (place, isNamed) =>
      interceptStore(await placesIn(store)(place, isNamed), { onCall: (_, proceed) => proceed(), onList });
    const array = await openWritable(store, "", { openPlace });
    isAbsent = true;
    const flushed = async (): Promise<void> => {
      await array.append(ramp(80, 32));
      await array.flush();
    };
    await expect(flushed()).rejects.toMatchObject({ code: "IO", message: "it cannot be listed" });
    isAbsent = false;
    await array.flush();
    await array.close();
    expect(await valuesOf(store)).toEqual([...ramp(0, 112)]);
  });

  test("tier: new superchunks in data, older ones moved out", async () => {
    const store = await spread({ placeBy: "tier" });
    const array = await openWritable(store, "", { openPlace: placesIn(store) });
    expect((await array.places()).map(({ spans }) => spans)).toEqual([[[0, 4]], [], []]);
    const moved = await array.moveSuperchunks("cold", { keepLast: 2 });
    expect(moved).toMatchObject({ superchunks: 3 });
    expect(moved.bytes).toBeGreaterThan(0);
    expect(await array.moveSuperchunks("slow", { writtenBefore: 0 })).toEqual({ superchunks: 0, bytes: 0 });
    await array.append(ramp(80, 16));
    await array.close();
    const again = await openWritable(store, "", { openPlace: placesIn(store) });
    expect((await again.places()).map(({ spans }) => spans)).toEqual([[[3, 5]], [[0, 2]], []]);
    await again.abandon();
    expect(await valuesOf(store)).toEqual([...ramp(0, 96)]);
    await nothingLeft(store);
  });

  test("columns have their own folders in a place", async () => {
    const store = new MemoryStore();
    const openPlace = placesIn(store);
    const dtype = [
      ["x", "<i4"],
      ["y", "<f8"],
    ] as never;
    const array = await createArray(store, "", {
      dtype,
      chunkLength: 2,
      superchunkLength: 2,
      places: [COLD],
      openPlace,
    });
    const rows = Array.from({ length: 9 }, (_, i) => [i, i / 2]);
    await array.append(rows);
    await array.flush();
    await array.addColumn({ name: "z", dtype: "<i2", fillValue: 7 });
    await array.renameColumn("y", "w");
    await array.deleteColumn("x");
    await array.close();
    const reader = (await open(store, "", { openPlace })) as ArrayArchive;
    expect([...((await reader.column("w").get()).data as Float64Array)]).toEqual(rows.map(([, y]) => y));
    expect([...((await reader.column("z").get()).data as Int16Array)]).toEqual(rows.map(() => 7));
    expect((await superchunksIn(store)).filter((key) => key.startsWith("cold/"))).toHaveLength(2);
  });

  test("places are added, and removed when they are empty", async () => {
    const store = new MemoryStore();
    const openPlace = placesIn(store);
    const array = await createArray(store, "", { ...SMALL, openPlace });
    await array.append(ramp(0, 50));
    await array.changePlaces({ add: ["file:///cold", SLOW], rule: "tier" });
    expect((await array.places()).map(({ name, prefix }) => [name, prefix])).toEqual([
      ["data", undefined],
      ["place1", "file:///cold/"],
      ["slow", "file:///slow/"],
    ]);
    await array.moveSuperchunks("place1", { superchunks: [1, 2] });
    await expect(array.changePlaces({ remove: ["place1"] })).rejects.toMatchObject({ code: "CONFLICT" });
    await expect(array.changePlaces({ remove: ["data"] })).rejects.toMatchObject({ code: "CONFLICT" });
    await expect(array.changePlaces({ remove: ["none"] })).rejects.toMatchObject({ code: "NOT_FOUND" });
    await expect(array.moveSuperchunks("none")).rejects.toMatchObject({ code: "NOT_FOUND" });
    for (const range of [[2], [7, Number.POSITIVE_INFINITY], [0, 5], [2, 1], [-1, 2], [0.5, 2], []])
      await expect(
        array.moveSuperchunks("slow", { superchunks: range as unknown as [number, number] }),
      ).rejects.toMatchObject({ code: "BAD_ARGUMENT", details: { field: "superchunks" } });
    await array.moveSuperchunks("data");
    await array.changePlaces({ remove: ["place1", "slow"] });
    await array.close();
    expect((await metaOf(store)).declared["readFeatures"]).toEqual(["layout"]);
    expect([...(await imageOf(store)).keys()].filter((key) => /^(?:cold|slow)/.test(key))).toEqual([]);
    expect([...((await ((await open(store)) as ArrayArchive).get()).data as Int32Array)]).toEqual([
      ...ramp(0, 50),
    ]);
  });

  test("places are not changed while others append, or chunks are changed in place [FG-16]", async () => {
    const store = await spread();
    const openPlace = placesIn(store);
    const add = [{ name: "far", prefix: "file:///far/" }];
    const other = await openShared(store, "", { openPlace });
    await other.append(ramp(80, 3));
    await other.flush();
    const array = await openWritable(store, "", { openPlace });
    await expect(array.changePlaces({ add })).rejects.toMatchObject({
      code: "CONFLICT",
      message: expect.stringContaining("when these writers are done") as string,
    });
    await array.abandon();
    await other.close();
    const inPlace = await openWritable(store, "", { openPlace, modify: "in-place" });
    await expect(inPlace.changePlaces({ add })).rejects.toMatchObject({
      code: "UNSUPPORTED",
      message: expect.stringContaining("in place") as string,
    });
    await inPlace.abandon();
    const alone = await openWritable(store, "", { openPlace });
    await alone.changePlaces({ add });
    await alone.moveSuperchunks("far", { superchunks: [0, 1] });
    await alone.close();
    const again = await openShared(store, "", { openPlace });
    await again.append(ramp(83, 40));
    await again.close();
    expect(await valuesOf(store)).toEqual([...ramp(0, 123)]);
  });

  test("a place without its mark is not written to: its disk may not be mounted [FG-21]", async () => {
    const store = await spread();
    const { id } = (await metaOf(store)).sizes["layout"] as { id: string };
    await store.delete(`slow/${id}/place.json`);
    await expect(openWritable(store, "", { openPlace: placesIn(store) })).rejects.toMatchObject({
      code: "NOT_FOUND",
      message: expect.stringContaining("mounted") as string,
    });
    expect(await valuesOf(store)).toEqual([...ramp(0, 80)]);
  });

  test("a mark that is not an object names no owner", async () => {
    const store = await spread();
    const { id } = (await metaOf(store)).sizes["layout"] as { id: string };
    await store.put(`slow/${id}/place.json`, new TextEncoder().encode("null"));
    const array = await openWritable(store, "", { openPlace: placesIn(store) });
    await array.append(ramp(80, 8));
    await array.close();
    expect(await valuesOf(store)).toEqual([...ramp(0, 88)]);
  });

  test("a damaged superchunk is not moved", async () => {
    const store = await spread();
    const bytes = (await store.get("data/__1__.bin")) as Uint8Array;
    bytes.set([bytes.at(-6) === 1 ? 2 : 1], bytes.length - 6);
    await store.put("data/__1__.bin", bytes);
    const array = await openWritable(store, "", { openPlace: placesIn(store) });
    await expect(array.moveSuperchunks("cold", { superchunks: [0, 0] })).rejects.toMatchObject({
      code: "CHECKSUM_MISMATCH",
    });
    await array.abandon();
    expect(await superchunksIn(store)).toContain("data/__1__.bin");
  });

  test("several writers put superchunks there, and a single writer leaves what they have reserved [FG-16] [FG-18]", async () => {
    const store = await spread();
    const openPlace = placesIn(store);
    const { id } = (await metaOf(store)).sizes["layout"] as { id: string };
    await expect(openShared(store, "")).rejects.toMatchObject({ code: "UNSAFE_PATH" });
    const mark = `slow/${id}/place.json`;
    const marked = await store.get(mark);
    await store.delete(mark);
    await expect(openShared(store, "", { openPlace })).rejects.toMatchObject({ code: "NOT_FOUND" });
    await store.put(mark, marked ?? new Uint8Array(0));

    const [one, two] = [
      await openShared(store, "", { openPlace }),
      await openShared(store, "", { openPlace }),
    ];
    await one.append(ramp(80, 48));
    await one.flush();
    await two.append(ramp(128, 48));
    await two.flush();
    const before = await superchunksIn(store);
    for (const folder of ["data", `cold/${id}`, `slow/${id}`])
      expect(before.filter((key) => key.startsWith(folder)).length).toBeGreaterThan(2);
    expect(await valuesOf(store)).toEqual([...ramp(0, 176)]);
    // What a writer has stored under its own number, and not committed yet.
    const reserved = ((await metaOf(store)).sizes["layout"] as { writers: [string, number][] }).writers;
    const pending = `cold/${id}/__${reserved[0]?.[1]}__.bin`;
    await store.put(pending, new Uint8Array(3));
    await (await openWritable(store, "", { openPlace })).close();
    expect(await superchunksIn(store)).toEqual([...before, pending].sort());
    await one.close();
    await two.close();
    // A superchunk that others have moved meanwhile is found in its new place.
    const third = await openShared(store, "", { openPlace });
    const alone = await openWritable(store, "", { openPlace });
    await alone.moveSuperchunks("slow", { superchunks: [0, 3] });
    await alone.close();
    await third.append(ramp(176, 3));
    await third.close();
    expect(await valuesOf(store)).toEqual([...ramp(0, 179)]);
  });

  test("archives that cannot have places refuse them, and say why", async () => {
    const store = await spread();
    const openPlace = placesIn(store);
    const refused = { code: "UNSUPPORTED" };
    await expect(createArray(store, "", { ...SMALL, overwrite: true })).rejects.toMatchObject(refused);
    const array = await createArray(new MemoryStore(), "", { ...SMALL, places: [COLD], openPlace });
    await array.abandon();
    expect(await valuesOf(store)).toEqual([...ramp(0, 80)]);
  });
});

/** The last commit names every superchunk, with its place. */
async function nothingLeft(store: MemoryStore): Promise<void> {
  const before = await superchunksIn(store);
  const writer = await openWritable(store, "", { openPlace: placesIn(store) });
  await writer.abandon();
  expect(await superchunksIn(store)).toEqual(before);
}

test("if two writers move the same superchunks one gets CONFLICT, and no committed superchunk is lost [FG-21]", async () => {
  const store = await spread();
  const openPlace = placesIn(store);
  const [one, two] = [
    await openWritable(store, "", { openPlace }),
    await openWritable(store, "", { openPlace }),
  ];
  await one.moveSuperchunks("cold");
  await expect(two.moveSuperchunks("slow")).rejects.toMatchObject({ code: "CONFLICT" });
  await two.abandon();
  expect(await valuesOf(store)).toEqual([...ramp(0, 80)]);
  const back = await openWritable(store, "", { openPlace });
  await back.moveSuperchunks("data");
  await expect(one.append(ramp(80, 3)).then(() => one.flush())).rejects.toMatchObject({ code: "CONFLICT" });
  await one.abandon();
  await back.close();
  expect(await valuesOf(store)).toEqual([...ramp(0, 80)]);
  // The next writer removes what the slower ones had stored.
  await (await openWritable(store, "", { openPlace })).abandon();
  await nothingLeft(store);
});

test("two places that lead to one folder are refused, because each would remove what is stored for the other [FG-21]", async () => {
  const store = new MemoryStore();
  const alias = { name: "alias", prefix: "file:///alias/" };
  let follows = true;
  const openPlace: OpenPlace = ({ prefix }) =>
    below(store, follows && prefix === alias.prefix ? "cold" : prefix.slice("file:///".length, -1));
  const refusal = {
    code: "CONFLICT",
    message: expect.stringContaining('the places "cold" and "alias" lead to one folder') as string,
  };
  await expect(createArray(store, "", { ...SMALL, places: [COLD, alias], openPlace })).rejects.toMatchObject(
    refusal,
  );
  expect([...(await imageOf(store)).keys()]).toEqual([]);
  const array = await createArray(store, "", { ...SMALL, places: [COLD], openPlace });
  await array.append(ramp(0, 80));
  await expect(array.changePlaces({ add: [alias] })).rejects.toMatchObject(refusal);
  follows = false;
  await array.changePlaces({ add: [alias] });
  await array.append(ramp(80, 80));
  await array.close();
  // The folder of one is replaced by a link to the other, with all that was in it.
  follows = true;
  for (const [key, bytes] of await imageOf(store))
    if (key.startsWith("alias/") && key.endsWith(".bin"))
      await store.put(key.replace("alias", "cold"), bytes);
  await expect(openWritable(store, "", { openPlace })).rejects.toMatchObject({ code: "CONFLICT" });
  const reader = (await open(store, "", { openPlace })) as ArrayArchive;
  expect([...((await reader.get()).data as Int32Array)]).toEqual([...ramp(0, 160)]);
});
