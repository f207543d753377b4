/** `oindex` and `vindex`, against plain loops over the values that were stored, in every kind of array. */
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { convert, create, openArray, slice } from "../../src/node/index.ts";
import type { Indices, OuterEntry } from "../../src/scan/pick.ts";
import { temporaryFolder } from "../folder.ts";
import { makeTables, ROWS, VALUES } from "./tables.ts";

const SHAPE = [70, 6, 5] as const;
const COUNT = SHAPE[0] * SHAPE[1] * SHAPE[2];
/** The value at a position encodes the position. */
const valueAt = (i: number, j: number, k: number): number => (i * SHAPE[1] + j) * SHAPE[2] + k;

let arrays: Readonly<Record<string, string>> = {};
let tables: Readonly<Record<string, string>> = {};

beforeAll(async () => {
  const folder = temporaryFolder();
  const paths = {
    superchunks: join(folder, "a"),
    bcolz: join(folder, "b"),
    bloscpack: join(folder, "c.blp"),
    zarr: join(folder, "d.zarr"),
    unequal: join(folder, "e.zarr"),
  };
  const data = Int32Array.from({ length: COUNT }, (_, i) => i);
  const settings = { dtype: "<i4", shape: SHAPE, data, chunkLength: 16 } as const;
  for (const [path, more] of [
    [paths.superchunks, {}],
    [paths.bcolz, { format: "bcolz" }],
  ] as const)
    await (await create(path, { ...settings, ...more } as never)).close();
  await convert(paths.superchunks, paths.bloscpack, { to: "bloscpack" });
  await convert(paths.superchunks, paths.zarr, { chunksPerShard: 2 });
  await convert(paths.superchunks, paths.unequal, { grid: "rectilinear" });
  arrays = paths;
  tables = await makeTables();
});

const range = (start: number, stop: number, step = 1): number[] =>
  Array.from({ length: Math.max(0, Math.ceil((stop - start) / step)) }, (_, i) => start + i * step);
const isThird = range(0, SHAPE[0]).map((i) => i % 3 === 1);

/** Entries, and the indices that numpy takes them for. */
const CASES: readonly (readonly [readonly OuterEntry[], readonly (readonly number[])[]])[] = [
  [[[9, 1, 1, -1, 60]], [[9, 1, 1, 69, 60], range(0, 6), range(0, 5)]],
  [
    [isThird, [5, 0]],
    [range(1, 70, 3), [5, 0], range(0, 5)],
  ],
  [[slice(null, null, -1)], [range(0, 70).reverse(), range(0, 6), range(0, 5)]],
  [
    [slice(50, 10, -7), null, [4]],
    [[50, 43, 36, 29, 22, 15], range(0, 6), [4]],
  ],
  [
    [slice(-3, -9, -2), slice(1, 5, 2), slice(null, 1, -1)],
    [
      [67, 65, 63],
      [1, 3],
      [4, 3, 2],
    ],
  ],
  [[slice(2, 9, -1)], [[], range(0, 6), range(0, 5)]],
  [[slice(100, null, -30)], [[69, 39, 9], range(0, 6), range(0, 5)]],
  [
    [Int32Array.of(33, 2), Float64Array.of(0), [true, false, false, true, true]],
    [[33, 2], [0], [0, 3, 4]],
  ],
  [[[]], [[], range(0, 6), range(0, 5)]],
  [[], [range(0, 70), range(0, 6), range(0, 5)]],
];

describe.each(["superchunks", "bcolz", "bloscpack", "zarr", "unequal"])("%s", (kind) => {
  test.each(CASES)("oindex(%j) gives what numpy gives", async (entries, [is = [], js = [], ks = []]) => {
    const array = await openArray(arrays[kind] ?? "");
    const { data, shape } = await array.oindex(entries);
    expect(shape).toEqual([is.length, js.length, ks.length]);
    expect([...(data as Int32Array)]).toEqual(
      is.flatMap((i) => js.flatMap((j) => ks.map((k) => valueAt(i, j, k)))),
    );
    await array.close();
  });

  test("an integer index drops its dimension, also if all do", async () => {
    const array = await openArray(arrays[kind] ?? "");
    const { data, shape } = await array.oindex([[3, 2], -1, 4]);
    expect([shape, [...(data as Int32Array)]]).toEqual([[2], [valueAt(3, 5, 4), valueAt(2, 5, 4)]]);
    expect(await array.oindex([1, 2, 3])).toMatchObject({ shape: [], data: Int32Array.of(valueAt(1, 2, 3)) });
    await array.close();
  });

  test("vindex gives the items at pairs of coordinates, in their order", async () => {
    const array = await openArray(arrays[kind] ?? "");
    const points = range(0, 300).map((i) => [(i * 37) % 70, (i * 5) % 6, (i * 3) % 5] as const);
    const coordinates = [0, 1, 2].map((d) => points.map((point) => point[d as 0 | 1 | 2]));
    const { data, shape } = await array.vindex(coordinates);
    expect(shape).toEqual([300]);
    expect([...(data as Int32Array)]).toEqual(points.map(([i, j, k]) => valueAt(i, j, k)));
    expect(await array.vindex([[], [], []])).toMatchObject({ shape: [0] });
    await array.close();
  });

  test.each<readonly [string, (array: Awaited<ReturnType<typeof openArray>>) => Promise<unknown>]>([
    ["index 70 is outside", (array) => array.oindex([[1, 70]])],
    ["index 1.5 is outside", (array) => array.oindex([null, [1.5]])],
    ["the mask of dimension 0 has 3 items, not 70", (array) => array.oindex([[true, false, true]])],
    ["at most 3 entries", (array) => array.oindex([null, null, null, null])],
    ["3 lists of indices of one length", (array) => array.vindex([[1, 2], [1], [0]] as readonly Indices[])],
    ["index -71 is outside", (array) => array.vindex([[-71], [0], [0]])],
    ["3 lists of indices of one length", (array) => array.vindex(undefined as never)],
    [
      "3 lists of indices",
      (array) =>
        array.vindex([
          [true, false],
          [0, 1],
          [0, 1],
        ] as never),
    ],
    ["index 1 is not a number (bigint)", (array) => array.oindex([[1n] as never])],
    ["index -1 is not a number (bigint)", (array) => array.oindex([[-1n] as never])],
    ["fields are for arrays of structs", (array) => array.oindex(null, { fields: ["a"] })],
  ])("refuses what does not fit: %s", async (message, read) => {
    const array = await openArray(arrays[kind] ?? "");
    await expect(read(array)).rejects.toMatchObject({
      code: "BAD_ARGUMENT",
      message: expect.stringContaining(message) as string,
    });
    await array.close();
  });
});

test("each chunk is decoded once, and those without a selected item not at all", async () => {
  const array = await openArray(arrays["superchunks"] ?? "");
  const read: string[] = [];
  const { getBytes } = array;
  array.getBytes = (selection, options) => {
    read.push(JSON.stringify(selection?.[0]));
    return getBytes.call(array, selection, options);
  };
  await array.oindex([[65, 3, 64, 0, 66, 2]]);
  expect(read).toEqual(['{"start":0,"stop":4,"step":1}', '{"start":64,"stop":67,"step":1}']);
  await array.close();
});

describe.each(["structs", "columns", "file"])("fields of %s", (kind) => {
  test("can be selected, and come in the requested order", async () => {
    const array = await openArray(tables[kind] ?? "");
    const { data } = await array.oindex([[ROWS - 1, 0, 70]], { fields: ["code", "volume"] });
    const found = Array.from({ length: 3 }, (_, i) => (data as { get(i: number): unknown }).get(i));
    expect(found).toEqual(
      [ROWS - 1, 0, 70].map((row) => ({ code: VALUES.code[row], volume: VALUES.volume[row] })),
    );
    await expect(array.oindex(null, { fields: ["nothing"] })).rejects.toMatchObject({ code: "NOT_FOUND" });
    await array.close();
  });
});
