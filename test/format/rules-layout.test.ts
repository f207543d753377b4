/** The rules of FORMAT.md about layouts, on arrays small enough to read. */
import { expect, it } from "vitest";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/archive/open/open.ts";
import { parseJson, stringifyJson } from "../../src/format/json.ts";
import { encodeSizes, parseLayout, type StoredLayout } from "../../src/format/layout.ts";
import type { JsonObject, JsonValue } from "../../src/format/types.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { errorOf, rejectionOf, utf8 } from "./hex.ts";
import { ABC, jsonOf, makeFile, stored } from "./small-archives.ts";

const LAYOUT: StoredLayout = {
  generation: 1,
  id: "a1",
  epoch: 0,
  edition: 0,
  revision: 0,
  next: 1_000_000_001,
  plain: 1,
  runs: [{ first: 1, count: 1, chunks: 3 }],
  patches: [],
};
const FACTS = { shape: [10], nbytes: 10, cbytes: 100 };
const storage = (revision: number) =>
  `{"dtype": "uint8", "chunklen": 4, "superchunk": {"version": 1, "superchunklen": 3, "revision": ${revision}, "readFeatures": ["layout"]}}`;

/** Bytes of `meta/sizes` with part of the layout changed. */
const sizesOf = (changes: Partial<StoredLayout> = {}): Uint8Array =>
  encodeSizes(FACTS, { ...LAYOUT, ...changes });

async function makeStore(
  changes: Partial<StoredLayout>,
  objects: readonly (readonly [string, Uint8Array])[] = [],
): Promise<MemoryStore> {
  return new MemoryStore([
    ["meta/sizes", sizesOf(changes)],
    ["meta/storage", utf8(storage(0))],
    ["data/__1__.bin", await makeFile({ chunks: ABC, spare: 0 })],
    ...objects,
  ]);
}

async function openArray(store: MemoryStore): Promise<ArrayArchive> {
  const archive = await open(store);
  if (archive.kind !== "array") throw new Error(`opened as ${archive.kind}`);
  return archive;
}

const letters = (text: string): number[] => [...utf8(text)];

it("[FG-01] the layout is read as it is written, and its members are required", () => {
  const sizes = parseJson(sizesOf({ patches: [{ number: 7, chunks: [1, -1] }] }), "meta/sizes") as JsonObject;
  expect(parseLayout(sizes, "meta/sizes")).toEqual({ ...LAYOUT, patches: [{ number: 7, chunks: [1, -1] }] });
  expect(parseLayout({ shape: [10] }, "meta/sizes")).toBeUndefined();
  const layout = sizes["layout"] as { readonly [key: string]: JsonValue };
  for (const name of ["id", "epoch", "edition", "revision", "next", "plain", "superchunks"]) {
    const { [name]: _, ...rest } = layout;
    expect([name, errorOf(() => parseLayout({ ...sizes, layout: rest }, "meta/sizes")).code]).toEqual([
      name,
      "BAD_FIELD",
    ]);
  }
  const { generation: _, ...without } = sizes;
  expect(errorOf(() => parseLayout(without, "meta/sizes")).code).toBe("BAD_FIELD");
});

it("[FG-01] other files in data/ do not matter", async () => {
  const array = await openArray(await makeStore({}, [["data/__2__.bin", utf8("of another writer")]]));
  expect(await jsonOf(array)).toEqual(letters("abcdefghij"));
  expect((await array.verify()).ok).toBe(true);
});

it("[FG-02] the runs are the chunks in order, of each superchunk the first ones, and none is counted twice", async () => {
  const last = await makeFile({ chunks: [stored(utf8("XY")), stored(utf8("no"))], chunkSize: 2, spare: 0 });
  const runs = [
    { first: 1, count: 1, chunks: 2 },
    { first: 1_000_000_001, count: 1, chunks: 1 },
  ];
  const array = await openArray(
    await makeStore({ runs, next: 1_000_000_002 }, [["data/__1000000001__.bin", last]]),
  );
  expect(array.nchunks).toBe(3);
  const wrong = await makeStore({ runs: [{ first: 1, count: 1, chunks: 2 }] });
  expect((await rejectionOf(openArray(wrong).then(jsonOf))).details).toMatchObject({
    field: "layout.superchunks",
    expected: 3,
    found: 2,
  });
  const twice = await makeStore({ runs: [...runs.slice(0, 1), { first: 1, count: 1, chunks: 1 }] });
  expect((await rejectionOf(openArray(twice))).code).toBe("BAD_FIELD");
});

it("[FG-03] numbers are from 1 to 10^15 - 1", () => {
  for (const first of [0, 1e15]) {
    const sizes = parseJson(sizesOf({ runs: [{ first, count: 1, chunks: 3 }] }), "meta/sizes") as JsonObject;
    expect(errorOf(() => parseLayout(sizes, "meta/sizes")).code).toBe("BAD_FIELD");
  }
});

it("[FG-04] a patched chunk is read from its patch, and no chunk is patched twice", async () => {
  const patch = await makeFile({ chunks: [stored(utf8("EFGH"))], spare: 0 });
  const number = 1_000_000_001;
  const objects = [[`data/__${number}__.bin`, patch]] as const;
  const array = await openArray(
    await makeStore({ patches: [{ number, chunks: [1] }], next: number + 1 }, objects),
  );
  expect(await jsonOf(array)).toEqual(letters("abcdEFGHij"));
  const twice = await makeStore({ patches: [{ number, chunks: [1, 1] }], next: number + 1 }, objects);
  expect((await rejectionOf(openArray(twice))).code).toBe("BAD_FIELD");
});

it("[FG-05] in a new epoch the same rows are found again", async () => {
  const store = await makeStore({});
  const array = await openArray(store);
  expect(await jsonOf(array)).toEqual(letters("abcdefghij"));
  // The rows move to another superchunk, and the old number now means something else.
  const moved = await makeFile({ chunks: ABC, spare: 0 });
  await store.put("data/__1000000001__.bin", moved);
  await store.put(
    "meta/sizes",
    sizesOf({
      generation: 2,
      epoch: 1,
      runs: [{ first: 1_000_000_001, count: 1, chunks: 3 }],
      next: 1_000_000_002,
    }),
  );
  await store.put(
    "data/__1__.bin",
    await makeFile({ chunks: [stored(utf8("wxyz")), ...ABC.slice(1)], spare: 0 }),
  );
  expect(await jsonOf(array)).toEqual(letters("abcdefghij"));
});

it("[FG-06] rows of another edition are STALE", async () => {
  const store = await makeStore({});
  const array = await openArray(store);
  await store.put("meta/sizes", sizesOf({ generation: 2, epoch: 1, edition: 1 }));
  expect((await rejectionOf(jsonOf(array))).code).toBe("STALE");
});

it("[FG-07] meta/storage is of the layout's revision, unless the layout includes its own", async () => {
  const store = await makeStore({ revision: 1 });
  expect((await rejectionOf(openArray(store))).details).toMatchObject({
    field: "superchunk.revision",
    expected: 1,
    found: 0,
  });
  await store.put(
    "meta/sizes",
    sizesOf({ revision: 1, storage: parseJson(storage(1), "meta/storage") as JsonObject }),
  );
  expect(await jsonOf(await openArray(store))).toEqual(letters("abcdefghij"));
  expect(stringifyJson((await openArray(store)).metadata)).toContain('"revision":1');
});
