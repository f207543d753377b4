/** What can be appended, set and altered, for arrays of every kind. */
import { Readable } from "node:stream";
import { describe, expect, test } from "vitest";
import type { ArrayArchive, ArraySlice } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/archive/open/open.ts";
import { parseDType } from "../../src/format/dtype.ts";
import { JsonFloat } from "../../src/format/json-float.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { createArray, openWritable } from "../../src/write/array/create.ts";
import type { WritableArray } from "../../src/write/array/writable-array.ts";
import { readRows } from "../../src/write/rows/rows.ts";

async function made(dtype: unknown, options: object = {}): Promise<WritableArray> {
  return createArray(new MemoryStore(), "", {
    dtype: dtype as string,
    chunkLength: 3,
    superchunkLength: 2,
    ...options,
  });
}

async function valuesOf(array: WritableArray): Promise<unknown[]> {
  const { data } = (await array.get()) as ArraySlice;
  return [...(data as Iterable<unknown>)];
}

const MANY = Int32Array.from({ length: 11 }, (_, i) => i * 3);
const BYTES = new Uint8Array(MANY.buffer);

describe("the same rows, in every form", () => {
  test.each<[string, () => unknown]>([
    ["a typed array", () => MANY],
    ["an ArrayBuffer", () => MANY.slice().buffer],
    ["raw bytes", () => BYTES],
    ["a list of numbers", () => [...MANY]],
    ["an iterable", () => MANY.values()],
    ["an iterable of typed arrays", () => [MANY.subarray(0, 4), MANY.subarray(4)]],
    ["a mixture", () => [0, MANY.subarray(1, 4), ...MANY.subarray(4)]],
    [
      "an async iterable of bytes that end inside values",
      async function* () {
        for (let i = 0; i < 44; i += 5) yield BYTES.subarray(i, i + 5);
      },
    ],
    [
      "a Node stream",
      () => Readable.from([Buffer.from(BYTES.subarray(0, 7)), Buffer.from(BYTES.subarray(7))]),
    ],
    [
      "an async iterable of typed arrays",
      async function* () {
        yield MANY.subarray(0, 4);
        yield MANY.subarray(4);
      },
    ],
    [
      "an async iterable of values",
      async function* () {
        yield* MANY;
      },
    ],
    [
      "a Web stream of typed arrays",
      () => Readable.toWeb(Readable.from([MANY.subarray(0, 4), MANY.subarray(4)])),
    ],
    ["a Web stream", () => new Blob([BYTES]).stream()],
    ["what get gives", () => ({ data: MANY, shape: [11], stride: [1] })],
  ])("%s", async (_name, make) => {
    const array = await made("<i4");
    const source = make();
    await array.append((typeof source === "function" ? source() : source) as Int32Array);
    expect(await valuesOf(array)).toEqual([...MANY]);
  });

  test("a list of one row takes memory for one row only", async () => {
    const facts = { dtype: parseDType("<i4", ""), rowShape: [] };
    for await (const piece of readRows([7], facts))
      expect([...piece, piece.buffer.byteLength]).toEqual([7, 0, 0, 0, 4]);
  });

  test("big-endian arrays take the same values", async () => {
    const array = await made(">i4");
    await array.append(MANY);
    await array.append([5]);
    expect(await valuesOf(array)).toEqual([...MANY, 5]);
    expect((await array.getBytes([1])).at(-1)).toBe(3);
  });
});

test.each<[unknown, unknown[], unknown[]?]>([
  ["|b1", [true, false, true]],
  ["<i8", [1n, -(2n ** 63n)]],
  ["<u8", [2n ** 64n - 1n, 3], [2n ** 64n - 1n, 3n]],
  [
    "<f2",
    [0.5, 65504, -0, 2 ** -24, Number.NaN, Number.POSITIVE_INFINITY, 1 / 3],
    [0.5, 65504, -0, 2 ** -24, Number.NaN, Number.POSITIVE_INFINITY, 0.333251953125],
  ],
  [
    "<c16",
    [
      [1, 2],
      [0, -1],
    ],
  ],
  ["|S4", ["a", "büß", ""]],
  ["<U3", ["añ", "😀x", ""]],
  ["<M8[ns]", [5n, "NaT", 7], [5n, -(2n ** 63n), 7n]],
  [
    [
      ["a", "<i2"],
      ["b", "<f4", [2]],
    ],
    [{ a: 1, b: [2, 3] }, [4, [5, 6]]],
    [
      { a: 1, b: [2, 3] },
      { a: 4, b: [5, 6] },
    ],
  ],
])("values of dtype %j are read back", async (dtype, values, expected = values) => {
  const array = await made(dtype);
  await array.append(values);
  expect(
    (await valuesOf(array)).map((value) =>
      typeof value === "object" ? JSON.parse(JSON.stringify(value)) : value,
    ),
  ).toEqual(expected);
});

test.each<[string, unknown, RegExp]>([
  ["<i4", [1.5], /integer/],
  ["<i4", [2 ** 31], /from -2147483648 to 2147483647/],
  ["|u1", [-1], /integer/],
  ["<i4", ["x"], /integer/],
  ["|S2", ["abc"], /at most 2/],
  ["<U1", ["ab"], /at most 1/],
  ["<f8", [[1, 2]], /a number/],
  ["<i4", new Float64Array(3), /Float64Array/],
  ["<i4", new Uint8Array(7), /inside a row/],
])("a value that does not fit %s is refused: %j", async (dtype, source, message) => {
  const array = await made(dtype);
  await expect(array.append(source as Int32Array)).rejects.toMatchObject({
    code: "BAD_ARGUMENT",
    message: expect.stringMatching(message),
  });
});

test("rows with dimensions can be given as lists, and selections of them can be set", async () => {
  const array = await made("<i4", { shape: [0, 2, 2], fillValue: 7 });
  await array.append([
    [
      [1, 2],
      [3, 4],
    ],
    [
      [5, 6],
      [7, 8],
    ],
  ]);
  await array.resize(4);
  await array.set([{ start: 0, stop: 4, step: 2 }, 1], 0);
  await array.set([3, null, 0], Int32Array.of(-1, -2));
  expect(array.shape).toEqual([4, 2, 2]);
  expect(await valuesOf(array)).toEqual([1, 2, 0, 0, 5, 6, 7, 8, 7, 7, 0, 0, -1, 7, -2, 7]);
  await expect(array.set([0, 0], [1, 2, 3])).rejects.toMatchObject({ code: "BAD_ARGUMENT" });
});

test("columns are read without the others, added, renamed and deleted, each in one commit", async () => {
  const store = new MemoryStore();
  const array = await createArray(store, "", {
    dtype: [
      ["a", "<i4"],
      ["b", "|S2"],
    ],
    chunkLength: 2,
    superchunkLength: 2,
    fillValue: [5, "z"],
  });
  await array.append([
    [1, "x"],
    [2, "yy"],
    [3, ""],
    [4, "w"],
    [5, "v"],
  ]);
  await array.resize(6);
  expect(array.columnNames).toEqual(["a", "b"]);
  const reader = (await open(store)) as ArrayArchive;
  expect([...(((await reader.column("a").get()) as ArraySlice).data as Int32Array)]).toEqual([
    1, 2, 3, 4, 5, 5,
  ]);
  await array.addColumn({ name: "c", dtype: parseDType("<f8", "") }, Float64Array.of(0, 1, 2, 3, 4, 5));
  await array.addColumn({ name: "d", dtype: parseDType("|u1", ""), fillValue: 9, shape: [2] });
  await array.renameColumn("b", "text");
  await array.deleteColumn("a");
  // The opened generation had a column that was removed.
  await expect(reader.column("a").get()).rejects.toMatchObject({ code: "STALE" });
  expect(await reader.refresh?.()).toBe(true);
  expect(reader.columnNames).toEqual(["text", "c", "d"]);
  await array.append([["q", 6, [1, 2]]]);
  await array.resize(8);
  expect(JSON.parse(JSON.stringify(await valuesOf(array)))).toEqual([
    { text: "x", c: 0, d: [9, 9] },
    { text: "yy", c: 1, d: [9, 9] },
    { text: "", c: 2, d: [9, 9] },
    { text: "w", c: 3, d: [9, 9] },
    { text: "v", c: 4, d: [9, 9] },
    { text: "z", c: 5, d: [9, 9] },
    { text: "q", c: 6, d: [1, 2] },
    { text: "z", c: 0, d: [9, 9] },
  ]);
  await expect(array.addColumn({ name: "c", dtype: parseDType("<f8", "") })).rejects.toMatchObject({
    code: "CONFLICT",
  });
  await expect(
    array.addColumn({ name: "e", dtype: parseDType("<f8", "") }, new Float64Array(3)),
  ).rejects.toMatchObject({ code: "BAD_ARGUMENT" });
  await expect(array.renameColumn("none", "e")).rejects.toMatchObject({ code: "NOT_FOUND" });
  await expect(array.addColumn({ name: "../e", dtype: parseDType("<f8", "") })).rejects.toMatchObject({
    code: "BAD_ARGUMENT",
  });
  // A name that was used before is reused.
  await array.addColumn({ name: "a", dtype: parseDType("<i2", ""), fillValue: 3 });
  await array.close();
  const again = (await open(store)) as ArrayArchive;
  expect([...(((await again.column("a").get()) as ArraySlice).data as Int16Array)]).toEqual(
    new Array(8).fill(3),
  );
  expect((await again.verify()).findings).toEqual([]);
  const writer = await openWritable(store, "");
  await writer.close();
  const folders: string[] = [];
  for await (const { name } of store.list("data")) folders.push(name);
  expect(folders.sort()).toEqual(["a", "c", "d", "text"]);
});

test("[FJ-08] [FJ-09] attributes keep their text, and floats stay floats for Python", async () => {
  const store = new MemoryStore();
  const array = await createArray(store, "", { dtype: "<i4", attrs: { one: new JsonFloat(1), two: 2 } });
  expect(array.attrs).toEqual({ one: 1, two: 2 });
  await array.setAttributes({ three: [new JsonFloat(3)], __proto: 4 });
  expect(array.attrs).toEqual({ one: 1, two: 2, three: [3], __proto: 4 });
  await array.close();
  const text = async (): Promise<string> =>
    new TextDecoder().decode((await store.get("meta/attributes")) ?? new Uint8Array(0));
  expect(await text()).toBe('{"one": 1.0, "two": 2, "three": [3.0], "__proto": 4}\n');
  await store.put("meta/attributes", new TextEncoder().encode('{"a": 1e3, "b" : [2.0]}'));
  const again = await openWritable(store, "");
  await again.setAttributes({ c: 5, b: undefined });
  await again.close();
  expect(await text()).toBe('{"a": 1e3, "c": 5}\n');
});

test("attributes are set and deleted at once, and survive everything else", async () => {
  const store = new MemoryStore();
  const array = await createArray(store, "", { dtype: "<i4", attrs: { a: 1, b: "x" } });
  await array.setAttributes({ a: undefined, c: [1, { d: null }] });
  await array.append(MANY);
  await array.compact({ chunkLength: 2 });
  await array.close();
  expect((await open(store)).attrs).toEqual({ b: "x", c: [1, { d: null }] });
});

test("the values of float16 that get returns can be appended, and are rounded as those of a list", async () => {
  const array = await made("<f2");
  await array.append(Float32Array.of(1.5, -0, 65504, 0.1));
  await array.append([0.1]);
  expect(await valuesOf(array)).toEqual([1.5, -0, 65504, 0.0999755859375, 0.0999755859375]);
  await expect(array.append(Float32Array.of(70_000))).rejects.toMatchObject({ code: "BAD_ARGUMENT" });
  await expect(array.append(Int32Array.of(1))).rejects.toThrow(
    /^the values are of Int32Array, but the dtype is <f2: give /,
  );
  await array.close();
});
