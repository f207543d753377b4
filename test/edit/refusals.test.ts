/** What the verbs refuse: each error names the member or the value, and says what would do. Nothing is changed. */
import { expect, test } from "vitest";
import { create, edit } from "../../src/edit/edit.ts";
import type { CreateOptions, EditOptions } from "../../src/edit/options.ts";
import { open, openArray, openTable } from "../../src/open/open.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import type { Editable } from "../../src/write/editable.ts";
import { imageOf } from "../crash/images.ts";

const PAIR: CreateOptions["dtype"] = [
  ["a", "<i4"],
  ["b", "<f8"],
];

const refused: readonly (readonly [options: Record<string, unknown>, code: string, message: string])[] = [
  [{ optimize: "speed" }, "BAD_ARGUMENT", "one of read, update"],
  [{ checksum: "crc64" }, "BAD_ARGUMENT", "one of None, adler32"],
  [{ chunkLength: 0 }, "BAD_ARGUMENT", "an integer from 1"],
  [{ dtype: "O" }, "UNSUPPORTED", "Python objects are never written"],
  [{ dtype: "S0" }, "BAD_ARGUMENT", "items of no bytes"],
  [{ format: "bloscpack", dtype: "S0", data: ["", ""] }, "BAD_ARGUMENT", "items of one byte or more"],
  [{ dtype: [["..", "<i4"]] }, "BAD_ARGUMENT", "columns are folders; rename it"],
  [{ format: "zarr", overwrite: true }, "BAD_ARGUMENT", "erase the node in its group first"],
  [{ format: "bcolz", kind: "table" }, "BAD_ARGUMENT", "a struct, with a field for each column of the table"],
  [{ format: "bloscpack", dtype: "O" }, "UNSUPPORTED", "Python objects are never written"],
  [{ fillValue: "high" }, "BAD_ARGUMENT", "high"],
  [{ compressor: null }, "BAD_ARGUMENT", "compressor is null, expected an object"],
  [{ dtype: "string" }, "UNSUPPORTED", "did you mean <U10 (10 characters) or |S10"],
  [
    { dtype: Float64Array },
    "BAD_ARGUMENT",
    'dtype is a function, expected the name of a dtype, such as "float64"',
  ],
  [{ dtype: { name: "price", type: "<f8" } }, "UNSUPPORTED", 'a: dtype is "price"'],
  [{ dtype: "bigint" }, "UNSUPPORTED", "did you mean int64 or uint64?"],
  [{ dtype: "Float64Array" }, "UNSUPPORTED", "did you mean float64?"],
  [{ shape: [4], data: [1, 2, 3] }, "BAD_ARGUMENT", "shape[0] is 4, expected 3, the number of rows in data"],
  [{ shape: [9, 2], data: Int32Array.of(1, 2) }, "BAD_ARGUMENT", "shape[0] is 9, expected 1"],
  [{ format: "zarr", dtype: [["b", "<f4", [2]]] }, "UNSUPPORTED", "memory:a: dtype float is a sub-array"],
  [{ format: "zarr", shape: [4], data: [1, 2, 3] }, "BAD_ARGUMENT", "shape[0] is 4, expected 3"],
];
test.each(refused)("create with %j is %s", async (options, code, message) => {
  const store = new MemoryStore();
  const making = create(store, "a", { dtype: "<i4", ...options } as CreateOptions);
  await expect(making).rejects.toMatchObject({ code, message: expect.stringContaining(message) as string });
  expect([...(await imageOf(store)).keys()]).toEqual([]);
});

type Act = (array: Editable) => Promise<unknown>;
const verbs: readonly (readonly [
  name: string,
  options: Partial<CreateOptions>,
  act: Act,
  code: string,
  message: string,
])[] = [
  ["a column that is there", { dtype: PAIR }, (a) => a.renameColumn("a", "b"), "CONFLICT", '"b"'],
  [
    "the only column",
    { dtype: [["a", "<i4"]] },
    (a) => a.deleteColumn("a"),
    "BAD_ARGUMENT",
    "delete the array instead",
  ],
  ["columns of a plain array", {}, (a) => a.deleteColumn("a"), "UNSUPPORTED", "the array has no columns"],
  [
    "rows of a table with a shape",
    { format: "bcolz", dtype: PAIR },
    (a) => a.resize([3, 2]),
    "BAD_ARGUMENT",
    "a shape of 1 length",
  ],
  [
    "rows of zero bytes",
    { format: "bcolz", shape: [0, 2] },
    (a) => a.resize([3, 0]),
    "UNSUPPORTED",
    "bcolz does not support rows of zero bytes",
  ],
  ["a number that is no bool", { dtype: "bool" }, (a) => a.append([2]), "BAD_ARGUMENT", "true or false"],
  [
    "a number beyond float32",
    { dtype: "<f4" },
    (a) => a.append([1e39]),
    "BAD_ARGUMENT",
    "a float of 4 bytes",
  ],
  [
    "a typed array of another dtype",
    {},
    (a) => a.append(new Float32Array(1)),
    "BAD_ARGUMENT",
    "give Int32Array",
  ],
  [
    "an inexact number",
    { dtype: "<i8" },
    (a) => a.append([2 ** 53]),
    "BAD_ARGUMENT",
    "as a bigint beyond 2^53",
  ],
  [
    "a date as a number",
    { dtype: "<f8" },
    (a) => a.append([new Date(5)]),
    "BAD_ARGUMENT",
    "the value new Date(5)",
  ],
  ["one bound of two", {}, (a) => a.deleteRows(0, undefined as never), "BAD_ARGUMENT", "end is undefined"],
  ["a number as text", { dtype: "<U3" }, (a) => a.append([5]), "BAD_ARGUMENT", "a string"],
  [
    "a text that is too long",
    { dtype: "<U3" },
    (a) => a.append(["four"]),
    "BAD_ARGUMENT",
    "at most 3 characters",
  ],
  [
    "a number as a row",
    { dtype: PAIR },
    (a) => a.append([5]),
    "BAD_ARGUMENT",
    "an object, or a list of the fields",
  ],
  [
    "an attribute that is the array's own",
    { format: "bloscpack" },
    (a) => a.setAttributes({ dtype: "<f8" }),
    "BAD_ARGUMENT",
    "the array itself has this one",
  ],
];
test.each(verbs)("%s is refused", async (_, options, act, code, message) => {
  const store = new MemoryStore();
  const array = await create(store, "a", { dtype: "<i4", ...options });
  await array.flush();
  const before = await imageOf(store);
  await expect(act(array)).rejects.toMatchObject({
    code,
    message: expect.stringContaining(message) as string,
  });
  await array.close().catch(() => undefined);
  expect(await imageOf(store)).toEqual(before);
});

test("several writers share arrays of superchunks, and change no values", async () => {
  const store = new MemoryStore();
  await (await create(store, "z", { format: "zarr", dtype: "<i4", shape: [4] })).close();
  const message = expect.stringContaining("only to an array of superchunks") as string;
  const sharing: EditOptions = { shared: true };
  await expect(edit(store, "z", sharing)).rejects.toMatchObject({ code: "UNSUPPORTED", message });
  await (await create(store, "b", { dtype: "<i4" })).close();
  const inPlace: EditOptions = { shared: true, modify: "in-place" };
  await expect(edit(store, "b", inPlace)).rejects.toMatchObject({ code: "UNSUPPORTED", message });
});

test("a Zarr array whose grid lists the length of each chunk has no other rows, and v2 is not changed", async () => {
  const store = new MemoryStore();
  const chunkGrid = { name: "rectilinear", configuration: { kind: "inline", chunk_shapes: [[3, 1]] } };
  const array = await create(store, "r", {
    format: "zarr",
    dtype: "<i4",
    specification: { shape: [4], chunkGrid } as never,
  });
  await expect(array.append([1])).rejects.toMatchObject({
    code: "UNSUPPORTED",
    message: expect.stringContaining("convert it to a regular grid") as string,
  });
  await array.close();
  await store.put("old/.zgroup", new TextEncoder().encode('{"zarr_format": 2}'));
  const group = await edit(store, "old");
  await expect(group.setAttributes({ a: 1 })).rejects.toMatchObject({
    code: "UNSUPPORTED",
    message: expect.stringContaining("only Zarr v3 hierarchies are changed") as string,
  });
  await group.close();
  const document = {
    ...{ zarr_format: 2, shape: [4], chunks: [4], dtype: "<i4", order: "C" },
    ...{ fill_value: 0, compressor: null, filters: null },
  };
  await store.put("v2/.zarray", new TextEncoder().encode(JSON.stringify(document)));
  const old = await edit(store, "v2");
  await old.set([0], 7);
  for (const change of [
    () => old.append([1]),
    () => old.resize(5),
    () => old.deleteRows(3, 4),
    () => old.setAttributes({ a: 1 }),
  ])
    await expect(change()).rejects.toMatchObject({
      code: "UNSUPPORTED",
      message: expect.stringContaining("only Zarr v3 documents are changed") as string,
    });
  await old.close();
  expect((await (await openArray(store, "v2")).get()).data).toEqual(Int32Array.of(7, 0, 0, 0));
});

test("arrays without dimensions have no rows to follow or to scan, and a group is neither array nor table", async () => {
  const store = new MemoryStore();
  await (await create(store, "one", { format: "zarr", dtype: "<i4", shape: [] })).close();
  const one = await openArray(store, "one");
  await expect(one.follow()[Symbol.asyncIterator]().next()).rejects.toMatchObject({ code: "BAD_ARGUMENT" });
  await expect(one.scan()[Symbol.asyncIterator]().next()).rejects.toMatchObject({
    code: "BAD_ARGUMENT",
    message: expect.stringContaining("no rows to scan") as string,
  });
  const group = await create(store, "g", { format: "zarr", kind: "group" });
  await group.close();
  await (await create(store, "g/inner", { format: "zarr", kind: "group" })).close();
  await (await create(store, "g/a", { format: "zarr", dtype: "<i4", shape: [4] })).close();
  await (await create(store, "g/b", { format: "zarr", dtype: "<i4", shape: [5] })).close();
  await expect(openArray(store, "g", { column: "inner" })).rejects.toMatchObject({
    code: "BAD_ARGUMENT",
    message: expect.stringContaining("name one of its arrays") as string,
  });
  await expect(openTable(store, "g")).rejects.toMatchObject({
    code: "BAD_ARGUMENT",
    message: expect.stringContaining("of one length") as string,
  });
});

test("a filter says which value it expected", async () => {
  const store = new MemoryStore();
  const table = await create(store, "t", {
    format: "bcolz",
    dtype: [
      ["n", "<f8"],
      ["span", "<m8[s]"],
      ["z", "<c16"],
    ],
  });
  await table.close();
  const opened = await open(store, "t");
  if (opened.kind !== "table") throw new Error("not a table");
  const found = (filter: object): Promise<unknown> =>
    opened
      .scan({ filter: filter as never })
      [Symbol.asyncIterator]()
      .next();
  const message = (text: string): object => ({ message: expect.stringContaining(text) as string });
  await expect(found({ n: { null: "no" } })).rejects.toMatchObject(message("true or false"));
  await expect(found({ n: { gt: 2n ** 53n + 1n } })).rejects.toMatchObject(message("a float can have"));
  await expect(found({ span: { gt: "an hour" } })).rejects.toMatchObject(message("the stored count"));
  await expect(found({ z: { gt: 1 } })).rejects.toMatchObject(message("which have no order"));
  await opened.close();
});
