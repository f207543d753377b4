/** The verbs mean the same for every format: compared with a model in memory, and read by `open`. */
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { ArrayArchive, TableArchive } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/archive/open/open.ts";
import { create, edit } from "../../src/edit/edit.ts";
import type { CreateOptions } from "../../src/edit/options.ts";
import { SuperchunkError } from "../../src/errors.ts";
import {
  convert as convertAt,
  create as createAt,
  edit as editAt,
  openArray as openArrayAt,
  open as openAt,
} from "../../src/node/index.ts";
import { BlobStore } from "../../src/store/blob.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { interceptStore, type StoreCall } from "../../src/store/wrappers/intercept.ts";
import { viewOf as zarrView } from "../../src/view/view-tree.ts";
import { createArray } from "../../src/write/array/create.ts";
import type { Editable } from "../../src/write/editable.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { keysOf } from "../convert/to-zarr/read-back.ts";
import { imageOf } from "../crash/images.ts";
import { randomFrom } from "../crash/random.ts";
import { temporaryFolder } from "../folder.ts";
import { sweep } from "../scope.ts";
import { VolatileStore } from "../store/volatile.ts";
import { rejectionOf } from "../write/foreign-support.ts";

const FORMATS = ["blz", "bcolz", "zarr", "bloscpack"] as const;
const SMALL = { chunkLength: 8 } as const;

/** All values of a closed array, as its reader sees them. */
async function valuesOf(store: MemoryStore, path = "a"): Promise<unknown[]> {
  const isZarr = (await store.stat(`${path}/zarr.json`)) !== undefined;
  const archive = isZarr ? await openZarrArray(store, path) : ((await open(store, path)) as ArrayArchive);
  expect((await archive.verify()).findings).toEqual([]);
  const { data } = (await archive.get()) as { data: Int32Array };
  return [...data];
}

async function made(format: (typeof FORMATS)[number], options: Partial<CreateOptions> = {}) {
  const store = new MemoryStore();
  const { fillValue, ...rest } = options;
  // A Bloscpack file has no default value: it grows by zeros.
  const fill = format === "bloscpack" ? {} : { fillValue };
  const array = await create(store, "a", { format, dtype: "int32", ...SMALL, ...rest, ...fill });
  return { store, array };
}

/** True if the change completed, false if the disk died on the way. */
async function tryChange(
  disk: VolatileStore,
  path: string,
  change: (editor: Editable) => Promise<unknown>,
): Promise<boolean> {
  try {
    const editor = await edit(disk, path);
    await change(editor);
    await editor.close();
    return true;
  } catch {
    return false;
  }
}

describe.each(FORMATS)("%s", (format) => {
  it("refuses attributes that JSON does not have, and opens afterwards with the old ones", async () => {
    const { store, array } = await made(format, { attrs: { unit: "EUR" } });
    await array.append([1, 2]);
    const bad: unknown[] = [
      () => 1,
      Symbol("x"),
      new Date(0),
      new Map(),
      Int32Array.of(1),
      [undefined],
      [{ a: new Set() }],
    ];
    for (const value of bad)
      expect(await rejectionOf(array.setAttributes({ value } as never))).toMatchObject({
        code: "BAD_ARGUMENT",
      });
    for (const changes of [null, undefined, 5, [1]])
      expect(await rejectionOf(array.setAttributes(changes as never))).toMatchObject({
        code: "BAD_ARGUMENT",
      });
    await array.close();
    const again = await edit(store, "a", { readOnly: true });
    expect(again.attrs).toEqual({ unit: "EUR" });
    expect(await valuesOf(store)).toEqual([1, 2]);
    const attrs = { made: new Date(0) } as never;
    expect(await rejectionOf(create(store, "b", { format, dtype: "int32", attrs }))).toMatchObject({
      code: "BAD_ARGUMENT",
    });
    expect(await rejectionOf(edit(store, "b"))).toMatchObject({ code: "NOT_FOUND" });
  });

  it("refuses shapes and compressors of other types, and default values that do not fit", async () => {
    const { store, array } = await made(format);
    for (const shape of ["3", undefined, null, {}, new Set([1])])
      expect(await rejectionOf(array.resize(shape as never))).toMatchObject({ code: "BAD_ARGUMENT" });
    for (const more of [
      { compressor: "zstd" },
      { compressor: { cname: "lz4", level: 9 } },
      { fillValue: "x" },
    ])
      expect(
        await rejectionOf(create(store, "b", { format, dtype: "int32", ...more } as never)),
      ).toMatchObject({
        code: "BAD_ARGUMENT",
      });
  });

  it("does nothing for a signal that is already aborted", async () => {
    const { store, array } = await made(format);
    const signal = AbortSignal.abort();
    await expect(array.append([1], { signal })).rejects.toThrow(signal.reason);
    expect(array.length).toBe(0);
    await expect(create(store, "b", { format, dtype: "int32", signal })).rejects.toThrow(signal.reason);
    expect(await rejectionOf(edit(store, "b"))).toMatchObject({ code: "NOT_FOUND" });
  });

  it("goes on after rows that it refused, also in the middle of a stream", async () => {
    const { store, array } = await made(format);
    await array.append([1, 2, 3]);
    await array.flush();
    const wrong = (async function* () {
      yield Int32Array.of(4, 5);
      yield Float64Array.of(1);
    })();
    expect(await rejectionOf(array.append(wrong))).toMatchObject({ code: "BAD_ARGUMENT" });
    const rows = array.length;
    await array.append([6]);
    await array.close();
    expect((await valuesOf(store)).slice(0, 3)).toEqual([1, 2, 3]);
    expect((await valuesOf(store)).slice(rows)).toEqual([6]);
  });

  it("any sequence of append, set, resize and deleteRows gives what it gives in memory", async () => {
    for (let seed = 0; seed < 6; seed++) {
      const random = randomFrom(seed);
      const below = (n: number): number => Math.floor(random() * n);
      const { store, array } = await made(format, { fillValue: -1 });
      const added = format === "bloscpack" ? 0 : -1;
      let editor: Editable = array;
      let model: number[] = [];
      for (let step = 0; step < 25; step++) {
        const kind = below(6);
        if (kind <= 1 || model.length === 0) {
          const rows = Array.from({ length: 1 + below(30) }, () => below(1e6));
          await editor.append(below(2) === 0 ? Int32Array.from(rows) : rows);
          model.push(...rows);
        } else if (kind === 2) {
          const start = below(model.length);
          const indices = model.map((_, i) => i).filter((i) => i >= start && (i - start) % 3 === 0);
          const values = indices.map(() => below(1e6));
          await editor.set([{ start, stop: null, step: 3 }], values);
          for (const [i, index] of indices.entries()) model[index] = values[i] ?? 0;
        } else if (kind === 3) {
          const rows = below(model.length + 20);
          await editor.resize(rows);
          model = Array.from({ length: rows }, (_, i) => model[i] ?? added);
        } else if (kind === 4) {
          const start = below(model.length + 1);
          const end = start + below(model.length - start + 1);
          const planned = editor.planDelete(start, end);
          const deleted = editor.deleteRows(start, end);
          if (format === "zarr" && end > start && end < model.length) {
            expect((await rejectionOf(planned)).code).toBe("UNSUPPORTED");
            expect((await rejectionOf(deleted)).code).toBe("UNSUPPORTED");
          } else {
            expect(await deleted).toBe((await planned).rowsRewritten);
            model.splice(start, end - start);
          }
        } else {
          await editor.close();
          expect(await valuesOf(store)).toEqual(model);
          editor = await edit(store, "a");
        }
        expect(editor.shape).toEqual([model.length]);
      }
      const { data } = (await editor.get()) as { data: Int32Array };
      expect([...data]).toEqual(model);
      await editor.close();
      expect(await valuesOf(store)).toEqual(model);
    }
  });

  it("changes that are requested at once happen one after another, in their order", async () => {
    const { store, array } = await made(format);
    await array.append([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    const refused = format === "zarr" ? [array.append([10]), array.deleteRows(8, 10)] : [];
    if (refused[1] !== undefined)
      expect(await rejectionOf(refused[1])).toMatchObject({ code: "UNSUPPORTED" });
    else await array.append([10]);
    await Promise.all([array.append([11]), array.deleteRows(5, 12), array.append([20, 21])]);
    await array.close();
    expect(await valuesOf(store)).toEqual([0, 1, 2, 3, 4, 20, 21]);
  });

  it("an abort at any moment changes nothing, or comes too late to be reported", async () => {
    for (const change of ["deleteRows", "resize"] as const)
      for (let at = 1, isLate = false; !isLate; at++) {
        const { store, array: filled } = await made(format);
        await filled.append(Int32Array.from({ length: 30 }, (_, i) => i));
        await filled.close();
        const stop = new AbortController();
        let calls = Number.NEGATIVE_INFINITY;
        const onCall = <T>(_: StoreCall, proceed: () => Promise<T>): Promise<T> => {
          if (++calls === at) stop.abort(new Error("enough"));
          return proceed();
        };
        const array = await edit(interceptStore(store, { onCall }), "a");
        calls = 0;
        const options = { signal: stop.signal };
        const changed = change === "resize" ? array.resize(13, options) : array.deleteRows(13, 30, options);
        const error: unknown = await changed.then(
          () => undefined,
          (reason: unknown) => reason,
        );
        isLate = calls < at;
        await array.close();
        expect(await valuesOf(store), `${change}, aborted at ${at}`).toHaveLength(
          error === undefined ? 13 : 30,
        );
      }
  });

  it("a new row shape keeps the values that both shapes have", async () => {
    const { store, array } = await made(format, { shape: [0, 3], fillValue: 9 });
    await array.append(Int32Array.from({ length: 60 }, (_, i) => i));
    // Zarr keeps its chunks, and rewrites those that the new edge cuts.
    expect(await array.planResize([20, 2])).toEqual({
      shapeBefore: [20, 3],
      shape: [20, 2],
      // A Bloscpack file keeps its chunk size in bytes, here 96.
      chunksRewritten: format === "bloscpack" ? 2 : 3,
      nbytesRewritten: { blz: 240, bcolz: 240, zarr: 288, bloscpack: 160 }[format],
    });
    await array.resize([20, 2]);
    expect([...((await array.get([4])) as { data: Int32Array }).data]).toEqual([12, 13]);
    await array.resize([21, 4]);
    expect([...((await array.get([{ start: 19, stop: 21, step: 1 }])) as { data: Int32Array }).data]).toEqual(
      [57, 58, ...new Array<number>(6).fill(format === "bloscpack" ? 0 : 9)],
    );
    await array.set(
      [
        { start: 1, stop: 3, step: 1 },
        { start: 1, stop: 3, step: 1 },
      ],
      [
        [1, 2],
        [3, 4],
      ],
    );
    const { data } = (await array.get([{ start: 1, stop: 3, step: 1 }])) as { data: Int32Array };
    expect([data[1], data[2], data[5], data[6]]).toEqual([1, 2, 3, 4]);
    expect((await rejectionOf(array.set([{ start: 1, stop: 3, step: 1 }], [[1, 2], [3]]))).code).toBe(
      "BAD_ARGUMENT",
    );
    await array.close();
    expect((await valuesOf(store)).length).toBe(84);
    expect((await rejectionOf((await edit(store, "a")).resize([1, 2, 3]))).code).toBe("BAD_ARGUMENT");
  });

  it("dates can be given as Date, as ISO text and as counts; inexact ones are refused", async () => {
    const { store, array } = await made(format, { dtype: "<M8[D]", fillValue: "2020-02-01" });
    await array.append([new Date("1970-01-02"), "1970-01-03", 4n, "NaT", null]);
    await array.set([2], new Date(Date.UTC(1970, 0, 10)));
    await array.resize(6);
    await array.close();
    const nat = -(2n ** 63n);
    expect(await valuesOf(store)).toEqual([1n, 2n, 9n, nat, nat, format === "bloscpack" ? 0n : 18293n]);
    const wrong = (await edit(store, "a")).append([new Date("1970-01-02T12:00")]);
    expect((await rejectionOf(wrong)).message).toMatch(/not a date in units of D/);
  });

  it("attributes are set and removed, and persist", async () => {
    const { store, array } = await made(format, { attrs: { a: 1, b: "x" } });
    await array.setAttributes({ b: undefined, c: [1, 2] });
    expect(array.attrs).toEqual({ a: 1, c: [1, 2] });
    await array.close();
    await using again = await edit(store, "a");
    expect(again.attrs).toEqual({ a: 1, c: [1, 2] });
  });

  it.skipIf(format === "zarr" || format === "bloscpack")(
    "columns can be given as an object of columns or a list of rows, and a missing or unknown field is named",
    async () => {
      const store = new MemoryStore();
      const dtype = [
        ["id", "<i4"],
        ["price", "<f8"],
      ];
      await using table = await create(store, "a", { format, dtype, ...SMALL });
      await table.append({ id: Int32Array.of(1, 2), price: Float64Array.of(0.5, 1.5) });
      await table.append([{ id: 3, price: 2.5 }, [4, 3.5]]);
      await table.set([1], { id: 20, price: 9 });
      await table.set([{ start: 2, stop: 4, step: 1 }], { id: [3, 4], price: Float64Array.of(2.5, 3.5) });
      await table.flush();
      const archive = (await open(store, "a")) as ArrayArchive | TableArchive;
      const column = async (name: string) => [
        ...((await archive.column(name).get()) as { data: Int32Array }).data,
      ];
      expect([await column("id"), await column("price")]).toEqual([
        [1, 20, 3, 4],
        [0.5, 9, 2.5, 3.5],
      ]);
      for (const [row, field] of [
        [{ id: 1 }, "price"],
        [{ id: 1, price: 2, cost: 3 }, "cost"],
      ] as const) {
        const { code, details } = await rejectionOf(table.append([row]));
        expect([code, details.field]).toEqual(["BAD_ARGUMENT", field]);
      }
      const none = await rejectionOf(table.append({ id: Int32Array.of(1) }));
      expect([none.code, none.details.field]).toEqual(["BAD_ARGUMENT", "price"]);
      const other = await rejectionOf(table.append({ id: [1], price: [1], cost: [1] }));
      expect([other.code, other.details.field]).toEqual(["BAD_ARGUMENT", "cost"]);
      await table.addColumn({ name: "volume", dtype: "<u2", fillValue: 7 });
      await table.renameColumn("price", "cost");
      await table.deleteColumn("id");
      expect(table.columnNames).toEqual(["cost", "volume"]);
      expect(table.length).toBe(4);
    },
  );

  it("a plan writes nothing and takes no lock, and writing through it is READ_ONLY", async () => {
    const { store, array } = await made(format);
    await array.append(Int32Array.from({ length: 20 }, (_, i) => i));
    await array.close();
    const plans = await edit(store, "a", {
      readOnly: true,
      lock: () => Promise.reject(new Error("no lock is asked for")),
    });
    expect(await plans.planSet([{ start: 0, stop: 9, step: 1 }])).toMatchObject({
      valuesSet: 9,
      chunksRewritten: 2,
      nbytesRewritten: 64,
    });
    const [start, rowsRewritten] = format === "zarr" ? [15, 0] : [5, 10];
    expect(await plans.planDelete(start, start + 5)).toMatchObject({
      rowsDeleted: 5,
      rowsRewritten,
      rows: 15,
    });
    expect(await plans.planResize(3)).toMatchObject({ shape: [3], shapeBefore: [20] });
    expect((await rejectionOf(plans.resize(3))).code).toBe("READ_ONLY");
    await plans.close();
    expect(await valuesOf(store)).toEqual(Array.from({ length: 20 }, (_, i) => i));
  });
});

it("a verb that a format lacks is UNSUPPORTED, with the verb and the reason", async () => {
  const { array } = await made("bcolz");
  const error = await rejectionOf(array.addColumn({ name: "x", dtype: "<i4" }));
  expect([error.code, error.details.field]).toEqual(["UNSUPPORTED", "addColumn"]);
  expect(error.message).toMatch(/a carray has no columns; a table has/);
  const other = create(new MemoryStore(), "a", { format: "bcolz", dtype: "<i4", checksum: "md5" });
  expect((await rejectionOf(other)).message).toMatch(/the format "bcolz" has no such option/);
});

it("dtypes may be spelled as in numpy or in Zarr, for each format", async () => {
  const dtype = { name: "numpy.datetime64", configuration: { unit: "s", scale_factor: 1 } };
  for (const format of FORMATS) {
    const { store, array } = await made(format, { dtype, data: ["2020-01-02T03:04:05"] });
    expect(array.dtype).toMatchObject({ kind: "datetime", itemSize: 8, unit: "s" });
    await array.close();
    expect(await valuesOf(store)).toEqual([1577934245n]);
  }
});

it("first rows replace the length in the shape, in each format", async () => {
  for (const format of FORMATS) {
    const { store, array } = await made(format, { shape: [3], data: [7, 8, 9] });
    await array.close();
    expect(await valuesOf(store)).toEqual([7, 8, 9]);
  }
});

it("compact of Zarr refuses settings, which it would not use", async () => {
  const { array } = await made("zarr", { shape: [8], shardShape: [16] });
  expect((await rejectionOf(array.compact({ compressor: { cname: "zstd" } }))).code).toBe("UNSUPPORTED");
  await array.compact();
});

it.each([
  [{}, 'dtype is undefined, expected a dtype, such as "<f8"'],
  [{ dtype: null }, "dtype is null, expected a string, a list of fields or a dict"],
  [{ dtype: "<f3" }, 'dtype is "<f3", expected one of 2, 4, 8, 12, 16 bytes'],
  [{ dtype: "<f8", shape: "x" }, "shape is x, expected rows, or a shape of one or more lengths, 0 or more"],
  [
    { dtype: "<f8", shape: [-1] },
    "shape is [-1], expected rows, or a shape of one or more lengths, 0 or more",
  ],
])("a missing or wrong dtype or shape is the caller's mistake, not damage: %j", async (given, message) => {
  const store = new MemoryStore();
  const makers = [
    createArray,
    ...FORMATS.map(
      (format) =>
        (...[at, path, options]: Parameters<typeof create>) =>
          create(at, path, { ...options, format }),
    ),
  ];
  for (const make of makers) {
    const error = await rejectionOf(make(store, "x", given as never));
    expect([error.code, error.message]).toEqual(["BAD_ARGUMENT", expect.stringContaining(message)]);
  }
  expect(await imageOf(store)).toEqual(new Map());
});

it.each([
  [{ format: "zar" }, /format is zar, expected blz, bcolz, bloscpack, zarr/],
  [{ attrs: 5 }, /attrs is 5, expected an object/],
  [{ compressor: "lz4" }, /compressor is "lz4", expected an object with cname/],
  [{ compressor: { name: "lz4" } }, /compressor is \{"name":"lz4"\}, expected an object with cname/],
  [{ compressor: { cname: "lz5" } }, /cname is lz5, expected one of blosclz/],
  [{ chunkLen: 8 }, /unknown option "chunkLen"; did you mean chunkLength/],
  [{ format: { name: "blz" } }, /format is of type Object, expected blz/],
  [{ chunkLength: {} }, /chunkLength is of type Object, expected an integer/],
  [{ chunkLength: [] }, /chunkLength is empty, expected an integer/],
  [{ chunkLength: new Map() }, /chunkLength is of type Map, expected an integer/],
  [{ format: "bloscpack", checksum: { name: "md5" } }, /checksum is of type Object, expected one of/],
  [{ blosc: { cname: "zstd" } }, /blosc is of type Object, expected wasm or native; compressor takes/],
  [{ places: "file:///a" }, /places is file:\/\/\/a, expected a list of paths or addresses/],
  [{ places: [5] }, /places is 5, expected a list of paths or addresses/],
  [{ cname: "zstd" }, /unknown option "cname"; did you mean compressor: { cname, clevel, shuffle }\?/],
  [{ codec: "zstd" }, /unknown option "codec"; did you mean codecs or compressor: {/],
  [{ chunks: [10] }, /unknown option "chunks"; did you mean chunkLength or chunkShape\?/],
  [{ chunk_shape: [10] }, /unknown option "chunk_shape"; did you mean chunkShape\?/],
  [{ dflt: 0 }, /unknown option "dflt"; did you mean fillValue\?/],
  [{ zarr: "yes" }, /zarr is yes, expected true or false/],
  [{ threads: -1 }, /threads is -1, expected a number of 0 or more/],
  [{ signal: 5 }, /signal is 5, expected an AbortSignal/],
  [{ format: "zarr", fillValue: "x" }, /the value "x" does not fit the dtype/],
  [{ format: "zarr", fillValue: "0x7ff8" }, /it is "0x7ff8"; expected 16 hexadecimal digits/],
  // Bytes in this order, or with this padding, would become other values.
  [{ format: "zarr", dtype: ">i2" }, /dtype is ">i2", expected "<i2": items in Zarr are little-endian/],
  [
    { format: "zarr", dtype: { names: ["a", "b"], formats: ["|u1", "<i2"], offsets: [0, 2], itemsize: 4 } },
    /expected \[\["a","\|u1"\],\["b","<i2"\]\]: items in Zarr .* without padding/,
  ],
])("a mistake in what is to be created is refused, not ignored: %j", async (slip, message) => {
  const path = join(temporaryFolder(), "x");
  const error = await rejectionOf(createAt(path, { dtype: "<f8", ...slip } as never));
  expect([error.code, error.message]).toEqual(["BAD_ARGUMENT", expect.stringMatching(message)]);
  expect(existsSync(path)).toBe(false);
});

it.each(["bloscpack", "blz", "zarr"] as const)("rows without bytes are counted in %s", async (format) => {
  const store = new MemoryStore();
  const array = await create(store, "a", { format, dtype: "<i4", shape: [30, 0] });
  expect(array.shape).toEqual([30, 0]);
  for (const shape of [
    [44, 0],
    [7, 0],
    [7, 2],
    [5, 0],
  ]) {
    await array.resize(shape);
    expect(array.shape).toEqual(shape);
  }
  await array.close();
  expect((await edit(store, "a")).shape).toEqual([5, 0]);
});

it("the next writer of a Bloscpack file removes the copy that a killed one left, and no other file's", async () => {
  const folder = temporaryFolder();
  const path = join(folder, "a.blp");
  await (await createAt(path, { format: "bloscpack", dtype: "<i4", data: [1, 2] })).close();
  const [own, other] = ["a.blp", "b.blp"].map((name) => join(folder, `.${name}.0123456789abcdef.tmp`));
  for (const file of [own, other]) writeFileSync(file ?? "", "half a file");
  const array = await editAt(path);
  await array.set([0], 3);
  await array.close();
  expect([own, other].map((file) => existsSync(file ?? ""))).toEqual([false, true]);
});

it("rows of a Bloscpack file get a much longer shape within a fraction of the memory", async () => {
  const options = { format: "bloscpack", dtype: "|u1", shape: [1 << 18, 1] } as const;
  const array = await create(new MemoryStore(), "a", options);
  const before = process.memoryUsage().arrayBuffers;
  let most = 0;
  const onProgress = (): void => {
    most = Math.max(most, process.memoryUsage().arrayBuffers - before);
  };
  await array.resize([1 << 18, 2048], { onProgress });
  await array.close();
  expect(array.shape).toEqual([1 << 18, 2048]);
  expect(most).toBeGreaterThan(0);
  expect(most).toBeLessThan(256 << 20);
});

it.each(FORMATS)("append refuses an unknown option in %s", async (format) => {
  const { array } = await made(format);
  const error = await rejectionOf(array.append(Int32Array.of(1), { publsh: "flush" } as never));
  expect([error.code, error.message]).toEqual([
    "BAD_ARGUMENT",
    expect.stringMatching(/unknown option "publsh"/),
  ]);
  await array.append(Int32Array.of(1), { publish: undefined, onProgress: () => {} });
  expect(array.length).toBe(1);
  for (const read of [array.get([0], { dtype: "<f8" } as never), array.getBytes(null, { out: 1 } as never)]) {
    const refusal = await rejectionOf(read);
    expect([refusal.code, refusal.message]).toEqual([
      "BAD_ARGUMENT",
      expect.stringMatching(/unknown option "(dtype|out)"; expected onProgress, shared, signal/),
    ]);
  }
  await array.close();
  const slip = await rejectionOf(edit(array.store, array.path, { readonly: true } as never));
  expect([slip.code, slip.message]).toEqual(["BAD_ARGUMENT", expect.stringMatching(/did you mean readOnly/)]);
  const swapped = await rejectionOf(create(new MemoryStore(), "a", { fromat: "zarr" } as never));
  expect(swapped.message).toBe('unknown option "fromat"; did you mean format?');
});

it.each(["blz", "bcolz"] as const)("a wrong column to add to %s is the caller's mistake", async (format) => {
  const table = await create(new MemoryStore(), "a", { format, dtype: [["n", "<i4"]], shape: [2] });
  for (const [column, message] of [
    [undefined, /the column is undefined, expected an object/],
    [{ name: "m", dtype: "<i4", fill: 1 }, /unknown option "fill"; did you mean fillValue/],
    [{ name: "../m", dtype: "<i4" }, /column is ..\/m, which has a path separator in it/],
    [{ dtype: "<i4" }, /column is undefined, which is not a text/],
    [{ name: "n", dtype: "<i4" }, /there is a column "n" already/],
    [{ name: "m", dtype: "nope" }, /the dtype "nope" is not one/],
    [{ name: "m", dtype: "<i4", shape: -1 }, /shape of the column is -1, expected a list of lengths/],
    [{ name: "m", dtype: "<i4", fillValue: "x" }, /the value "x" does not fit/],
  ] as [never, RegExp][]) {
    const error = await rejectionOf(table.addColumn(column));
    expect([error.details.path, error.message]).toEqual(["memory:a", expect.stringMatching(message)]);
    expect(error.code).toMatch(/^(?:BAD_ARGUMENT|CONFLICT|UNSUPPORTED)$/);
  }
  expect(table.columnNames).toEqual(["n"]);
  await table.close();
});

it("a fill value of a Zarr array may be the bits of a NaN", async () => {
  const fillValue = "0x7fc00001";
  const array = await create(new MemoryStore(), "a", { format: "zarr", dtype: "<f4", shape: [2], fillValue });
  expect(Buffer.from(await array.getBytes()).toString("hex")).toBe("0100c07f".repeat(2));
  await array.close();
});

it("a file with chunks of an array in the store is not changed alone", async () => {
  for (const root of ["", "a"]) {
    const store = new MemoryStore();
    const dtype = [["x", "<i4"]];
    await (await create(store, root, { dtype, data: [[1], [2]] })).close();
    const part = [...(await imageOf(store)).keys()].find((key) => key.endsWith(".bin")) ?? "";
    const before = await imageOf(store);
    for (const change of [
      () => edit(store, part),
      () => create(store, part, { format: "bloscpack", dtype: "<i4", overwrite: true }),
    ]) {
      const error = await rejectionOf(change());
      expect([error.code, error.message]).toEqual([
        "UNSUPPORTED",
        `memory:${part}: the file holds chunks of the array memory:${root}, and is not changed alone; change the array`,
      ]);
    }
    expect(await imageOf(store)).toEqual(before);
    // A file of the same name elsewhere is one like others.
    await (
      await create(store, "data/__9__.bin".slice(root === "" ? 5 : 0), { format: "bloscpack", dtype: "<i4" })
    ).close();
  }
});

it("a key that leads out of the store is named as it was passed", async () => {
  const error = await rejectionOf(create(new MemoryStore(), "../x", { dtype: "<i4" }));
  expect([error.code, error.details.found]).toEqual(["UNSAFE_PATH", "../x"]);
});

it("a group says what to do instead of a verb that it lacks, and refuses unknown options", async () => {
  const group = await create(new MemoryStore(), "g", { format: "zarr", kind: "group" });
  expect((await rejectionOf(group.addColumn({ name: "x", dtype: "<i4" }))).message).toMatch(
    /create\(name, options\)/,
  );
  expect((await rejectionOf(group.append([1]))).message).toMatch(/open one of its arrays with edit\(name\)/);
  const slip = await rejectionOf(group.create("x", { dtype: "<i4", shap: [2] }));
  expect([slip.code, slip.message]).toEqual(["BAD_ARGUMENT", expect.stringMatching(/did you mean shape/)]);
  expect(await group.members()).toEqual([]);
});

it("a missing path, and unknown options of a conversion, are the caller's mistake", async () => {
  const none = undefined as never;
  for (const call of [createAt(none, { dtype: "<f8" }), openAt(none), convertAt("x", none)])
    expect(await rejectionOf(call)).toMatchObject({ code: "BAD_ARGUMENT", details: { field: "the path" } });
  const slip = { overwrit: true } as never;
  expect((await rejectionOf(convertAt("x", "y", slip))).message).toMatch(/did you mean overwrite/);
});

describe("zarr", () => {
  const documents = async (store: MemoryStore, key = "zarr.json") =>
    JSON.parse(new TextDecoder().decode(await store.get(key))) as {
      consolidated_metadata: { metadata: Record<string, { shape?: number[]; attributes: object }> };
    };

  /** A root group with consolidated metadata, a group in it, and an array in that. */
  async function hierarchy() {
    const store = new MemoryStore();
    const group = { zarr_format: 3, node_type: "group", attributes: {} };
    const consolidated_metadata = { kind: "inline", must_understand: false, metadata: {} };
    await store.put(
      "zarr.json",
      new TextEncoder().encode(JSON.stringify({ ...group, consolidated_metadata })),
    );
    const root = await edit(store, "");
    const inner = await root.create("g", { kind: "group", attrs: { a: 1 } });
    const array = await inner.create("x", { dtype: "<f8", shape: [4, 2], chunkShape: [3, 2], fillValue: -1 });
    return { store, root, inner, array };
  }

  it("consolidated metadata match the nodes after every change", async () => {
    const { store, root, inner, array } = await hierarchy();
    const copies = async () => (await documents(store)).consolidated_metadata.metadata;
    expect(Object.keys(await copies())).toEqual(["g", "g/x"]);
    await array.append(Float64Array.of(1, 2, 3, 4));
    await array.flush();
    expect((await copies())["g/x"]?.shape).toEqual([6, 2]);
    await array.resize([5, 3]);
    expect((await copies())["g/x"]?.shape).toEqual([5, 3]);
    await array.setAttributes({ unit: "EUR" });
    expect((await copies())["g/x"]?.attributes).toEqual({ unit: "EUR" });
    expect((await copies())["g/x"]).toEqual(await documents(store, "g/x/zarr.json"));
    expect([...((await array.get()) as { data: Float64Array }).data]).toEqual([
      ...[-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1],
      ...[1, 2, -1],
    ]);
    await inner.setAttributes({ a: 2 });
    expect((await copies())["g"]?.attributes).toEqual({ a: 2 });
    expect(await root.members()).toEqual(["g"]);
    await inner.erase("x");
    expect(Object.keys(await copies())).toEqual(["g"]);
    expect(await inner.members()).toEqual([]);
    await root.erase("g");
    expect(Object.keys(await copies())).toEqual([]);
    expect((await rejectionOf(root.erase("g"))).code).toBe("NOT_FOUND");
    expect((await rejectionOf(root.append([1]))).code).toBe("UNSUPPORTED");
  });

  it("NaN in attributes that Python wrote stays NaN, and new ones become strings", async () => {
    const { store, root } = await hierarchy();
    const python = async (key: string): Promise<string> => {
      const text = new TextDecoder().decode((await store.get(key)) ?? new Uint8Array());
      return text.replaceAll(/\s/g, "");
    };
    const bare = '"attributes":{"missing":NaN,"most":[-Infinity]}';
    const own = (await python("g/x/zarr.json")).replace('"attributes":{}', bare);
    expect(own).toContain(bare);
    await store.put("g/x/zarr.json", new TextEncoder().encode(own));
    const array = await edit(store, "g/x");
    await array.append(Float64Array.of(1, 2));
    await array.flush();
    expect(await python("g/x/zarr.json")).toContain(`[5,2]`);
    expect(await python("g/x/zarr.json")).toContain(bare);
    expect(await python("zarr.json")).toContain(bare);
    await root.setAttributes({ title: "all" });
    expect(await python("zarr.json")).toContain(bare);
    const added = '"missing":NaN,"most":[-Infinity],"least":"Infinity","__proto__":"x"';
    await array.setAttributes(JSON.parse('{"least": 1, "__proto__": "x"}'));
    await array.setAttributes({ least: Number.POSITIVE_INFINITY });
    expect(await python("g/x/zarr.json")).toContain(added);
    expect(array.attrs).toMatchObject({
      missing: Number.NaN,
      most: [Number.NEGATIVE_INFINITY],
      least: "Infinity",
    });
    const made = await root.create("h", { kind: "group", attrs: { missing: Number.NaN } });
    expect(await python("h/zarr.json")).toContain('"missing":"NaN"');
    expect(made.attrs).toEqual({ missing: "NaN" });
  });

  it("an append whose copies in the groups fail is stored once, says so, and the next one corrects them", async () => {
    const { store } = await hierarchy();
    let failures = 0;
    const onCall = async <T>({ method, key }: StoreCall, proceed: () => Promise<T>): Promise<T> => {
      if (method !== "put" || key !== "zarr.json" || failures === 0) return proceed();
      failures--;
      throw new SuperchunkError("IO", "the disk failed", { path: "zarr.json" });
    };
    const array = await edit(interceptStore(store, { onCall }), "g/x");
    const before = (await documents(store)).consolidated_metadata.metadata["g/x"];
    failures = 1;
    await array.append(Float64Array.of(1, 2));
    const error = await rejectionOf(array.flush());
    expect(error).toMatchObject({ code: "IO", details: { field: "consolidated_metadata" } });
    expect(error.message).toMatch(/is stored in .*g\/x\/zarr\.json.*Do not repeat.*superchunk consolidate/);
    expect((await documents(store)).consolidated_metadata.metadata["g/x"]).toEqual(before);
    expect(array.shape).toEqual([5, 2]);
    await array.append(Float64Array.of(3, 4));
    await array.close();
    expect((await documents(store)).consolidated_metadata.metadata["g/x"]?.shape).toEqual([6, 2]);
    const { data } = (await (await openZarrArray(store, "g/x")).get()) as { data: Float64Array };
    expect([...data.slice(8)]).toEqual([1, 2, 3, 4]);
  });

  it("two arrays of a group that are appended to at the same time are both in the copies", async () => {
    const { store, inner, array } = await hierarchy();
    await inner.create("y", { dtype: "<f8", shape: [4], chunkShape: [3], fillValue: -1 });
    const other = await edit(store, "g/y");
    let isFirst = true;
    const onCall = async <T>({ method, key }: StoreCall, proceed: () => Promise<T>): Promise<T> => {
      if (method === "put" && key === "zarr.json" && isFirst) {
        isFirst = false;
        await other.append(Float64Array.of(5));
        await other.flush();
      }
      return proceed();
    };
    const slow = await edit(interceptStore(store, { onCall }), "g/x");
    await slow.append(Float64Array.of(1, 2));
    await slow.close();
    const { metadata } = (await documents(store)).consolidated_metadata;
    expect([metadata["g/x"]?.shape, metadata["g/y"]?.shape]).toEqual([[5, 2], [5]]);
    expect(isFirst).toBe(false);
    await array.abandon();
  });

  it("groups that other programs made and did not list are listed above the first node that is changed in them", async () => {
    const { store, root } = await hierarchy();
    const bytes = (value: object) => new TextEncoder().encode(JSON.stringify(value));
    const listed = async () => (await documents(store)).consolidated_metadata.metadata;
    for (const key of ["h/zarr.json", "h/i/zarr.json"])
      await store.put(key, bytes({ zarr_format: 3, node_type: "group", attributes: { key } }));
    const array = await documents(store, "g/x/zarr.json");
    await store.put("h/i/x/zarr.json", bytes(array));
    await store.put("without/x/zarr.json", bytes(array));
    for (const path of ["h/i/x", "without/x"]) {
      const changed = await edit(store, path);
      await changed.setAttributes({ a: 1 });
      await changed.close();
    }
    expect(Object.keys(await listed())).toEqual(["g", "g/x", "h", "h/i", "h/i/x"]);
    expect((await listed())["h/i"]?.attributes).toEqual({ key: "h/i/zarr.json" });
    await root.erase("h");
    expect(Object.keys(await listed())).toEqual(["g", "g/x"]);
  });

  it("floats of documents that are whole stay floats, and numbers for callers", async () => {
    const { store, inner, array } = await hierarchy();
    await array.close();
    // As zarr-python writes them.
    for (const key of ["g/zarr.json", "g/x/zarr.json"]) {
      const text = new TextDecoder().decode(await store.get(key));
      const whole = text
        .replace('"fill_value": -1', '"fill_value": 0.0')
        .replace(/"attributes": \{[^}]*\}/, '"attributes": {"scale": 2.0}');
      await store.put(key, new TextEncoder().encode(whole));
    }
    const again = await inner.edit("x");
    await again.append(Float64Array.of(1, 2));
    await again.flush();
    await again.resize([6, 2]);
    for (const node of [again, await edit(store, "g")]) {
      await node.setAttributes({ unit: "EUR" });
      expect(node.attrs).toEqual({ scale: 2, unit: "EUR" });
      await node.close();
    }
    expect(await valuesOf(store, "g/x")).toEqual([0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0]);
    const text = new TextDecoder().decode(await store.get("g/x/zarr.json"));
    expect(text).toMatch(/"fill_value": 0\.0,.*"scale": 2\.0/s);
  });

  it("a power cut leaves the old rows or the new ones, and the next writer corrects the copies", async () => {
    const { store: made, array } = await hierarchy();
    await array.append(Float64Array.from({ length: 6 }, (_, i) => i));
    await array.close();
    const start = [...(await imageOf(made))];
    const valuesIn = async (store: MemoryStore): Promise<string> => {
      const found = await openZarrArray(store, "g/x");
      const { data } = (await found.get()) as { data: Float64Array };
      return JSON.stringify([found.shape, ...data]);
    };
    const before = await valuesIn(new MemoryStore(start));
    for (const change of [
      (x: Editable) => x.append(Float64Array.from({ length: 14 }, (_, i) => 50 + i)),
      (x: Editable) => x.resize([4, 2]),
      (x: Editable) => x.resize([11, 4]),
    ]) {
      const whole = new MemoryStore(start);
      const editor = await edit(whole, "g/x");
      await change(editor);
      await editor.close();
      const after = await valuesIn(whole);
      const seen = new Set<string>();
      for (let failAt = 1; ; failAt += sweep(1, 5)) {
        const disk = new VolatileStore(start, { failAt, random: randomFrom(failAt) });
        const done = await tryChange(disk, "g/x", change);
        const store = new MemoryStore(disk.image());
        const found = await valuesIn(store);
        expect(done ? [after] : [before, after], `cut at ${failAt}`).toContain(found);
        seen.add(found);
        const { shape: copied } = (await documents(store)).consolidated_metadata.metadata["g/x"] ?? {};
        const own = (await documents(store, "g/x/zarr.json")) as unknown as { shape: number[] };
        // Never more rows than there are chunks for.
        expect(copied?.[0]).toBeLessThanOrEqual(own.shape[0] ?? 0);
        await (await edit(store, "g/x")).close();
        expect((await documents(store)).consolidated_metadata.metadata["g/x"]?.shape).toEqual(own.shape);
        // Removed values do not reappear when the array grows.
        const again = await edit(store, "g/x");
        const [rows = 0, columns = 0] = again.shape;
        await again.resize([rows + 9, columns]);
        const { data } = (await again.get([{ start: rows, stop: null, step: null }])) as {
          data: Float64Array;
        };
        expect(
          [...data].every((value) => value === -1),
          `cut at ${failAt}`,
        ).toBe(true);
        if (!disk.isDead) break;
      }
      expect([...seen].sort()).toEqual([before, after].sort());
    }
  });

  it("column-major stores the inner chunks of a shard in Fortran order", async () => {
    const store = new MemoryStore();
    const shape = [4, 6];
    await using array = await create(store, "", {
      ...{ format: "zarr", dtype: "uint8", shape, chunkShape: [2, 2], shardShape: shape },
      chunkOrder: "column-major",
    });
    await array.set(
      null,
      Uint8Array.from({ length: 24 }, (_, i) => i + 1),
    );
    const starts: [number, readonly number[]][] = [];
    for await (const { offset, start } of (await openZarrArray(store)).listChunks())
      starts.push([offset, start]);
    starts.sort(([a], [b]) => a - b);
    expect(starts.map(([, start]) => start)).toEqual([
      [0, 0],
      [2, 0],
      [0, 2],
      [2, 2],
      [0, 4],
      [2, 4],
    ]);
  });
});

describe("bloscpack", () => {
  const NUMBERS = Int32Array.from({ length: 40 }, (_, i) => i);

  it("set copies the chunks without changed values, and a power cut leaves the old file or the new one", async () => {
    const { store, array } = await made("bloscpack", { attrs: { a: 1 } });
    await array.append(NUMBERS);
    await array.close();
    const start = [...(await imageOf(store))];
    const chunksOf = async (found: MemoryStore): Promise<string[]> => {
      const list: string[] = [];
      for await (const { bytes } of ((await open(found, "a")) as ArrayArchive).encodedChunks())
        list.push(Buffer.from(bytes).toString("hex"));
      return list;
    };
    const before = await chunksOf(store);
    for (const [change, expected] of [
      [(x: Editable) => x.set([10], -5), (list: number[]) => list.with(10, -5)],
      [(x: Editable) => x.deleteRows(3, 20), (list: number[]) => list.toSpliced(3, 17)],
      [(x: Editable) => x.resize(17), (list: number[]) => list.slice(0, 17)],
      [(x: Editable) => x.resize(0), () => []],
      [(x: Editable) => x.setAttributes({ b: "x" }), (list: number[]) => list],
    ] as const) {
      for (let failAt = 1; ; failAt += sweep(1, 5)) {
        const disk = new VolatileStore(start, { failAt, random: randomFrom(failAt) });
        const done = await tryChange(disk, "a", change);
        const image = new MemoryStore(disk.image());
        const after = expected([...NUMBERS]);
        expect(done ? [after] : [[...NUMBERS], after], `cut at ${failAt}`).toContainEqual(
          await valuesOf(image),
        );
        if (!disk.isDead) break;
      }
    }
    const changed = await edit(store, "a");
    await changed.set([10], -5);
    await changed.setAttributes({ b: [1, 2] });
    expect(changed.attrs).toEqual({ a: 1, b: [1, 2] });
    await changed.close();
    const after = await chunksOf(store);
    expect(after.map((chunk, i) => chunk === before[i])).toEqual([true, false, true, true, true]);
  });
});

it("a table goes on after columns of different lengths, or of another type", async () => {
  const store = new MemoryStore();
  const dtype = [
    ["a", "<i4"],
    ["b", "<f8"],
  ];
  const table = await create(store, "t", { format: "bcolz", dtype });
  await table.append([[1, 2]]);
  for (const b of [[1], Int32Array.of(1, 2), ["x", 1]])
    expect(await rejectionOf(table.append({ a: [1, 2], b }))).toMatchObject({ code: "BAD_ARGUMENT" });
  await table.append([[3, 4]]);
  await table.close();
  const read = (await open(store, "t")) as TableArchive;
  expect((await read.column("a").get()).data).toEqual(Int32Array.of(1, 3));
  expect((await read.column("b").get()).data).toEqual(Float64Array.of(2, 4));
});

it.each(FORMATS)(
  "%s: an array that cannot be filled is removed before its lock is released",
  async (format) => {
    const store = new MemoryStore();
    const left: string[][] = [];
    const release = async (): Promise<void> => void left.push(await keysOf(store));
    async function* data(): AsyncGenerator<Int32Array> {
      yield new Int32Array(100);
      throw new Error("the source fails");
    }
    const options = { format, dtype: "int32", ...SMALL, data: data(), lock: async () => ({ release }) };
    await expect(create(store, "a", options)).rejects.toThrow("the source fails");
    expect(left.length).toBeGreaterThan(0);
    expect(left.flat()).toEqual([]);
  },
);

it("messages of the library name options of the library, not of the command", async () => {
  const folder = temporaryFolder();
  const [source, out] = [join(folder, "a"), join(folder, "a.zarr")];
  await (await createAt(source, { dtype: "int32", data: [1] })).close();
  await convertAt(source, out);
  expect((await rejectionOf(convertAt(source, out, { resume: true }))).message).toContain("{resume: true}");
  const nothing = createAt(join(folder, "b"), { dtype: "int32", data: null });
  expect((await rejectionOf(nothing)).message).toContain("not as null");
});

it("a Zarr array without dimensions refuses rows", async () => {
  const array = await create(new MemoryStore(), "z", { format: "zarr", dtype: "int32", shape: [] });
  expect(await rejectionOf(array.append([1]))).toMatchObject({ code: "BAD_ARGUMENT" });
  expect(await rejectionOf(array.resize(3))).toMatchObject({ code: "BAD_ARGUMENT" });
  await array.set([], 5);
  expect((await array.get()).data).toEqual(Int32Array.of(5));
});

it("create and edit name a store that cannot write, and arguments that are missing", async () => {
  const store = new MemoryStore();
  const readOnly = new BlobStore([]);
  for (const begin of [create, edit]) {
    const call = (...given: unknown[]): Promise<unknown> => begin(...(given as Parameters<typeof create>));
    expect(await rejectionOf(call(readOnly, "a", { dtype: "int32" }))).toMatchObject({ code: "READ_ONLY" });
    expect(await rejectionOf(call(undefined, "a", { dtype: "int32" }))).toMatchObject({
      code: "BAD_ARGUMENT",
    });
    expect(await rejectionOf(call(store, undefined, { dtype: "int32" }))).toMatchObject({
      code: "BAD_ARGUMENT",
    });
  }
  expect(await rejectionOf(create(store, "a", undefined as never))).toMatchObject({ code: "BAD_ARGUMENT" });
  expect(() => zarrView(undefined as never)).toThrow("expected what open resolves with");
  expect(() => zarrView(open(store, "a").catch(() => undefined) as never)).toThrow(
    "expected what open resolves with",
  );
  for (const sources of [undefined, []])
    expect(await rejectionOf(convertAt(sources as never, "never.zarr"))).toMatchObject({
      code: "BAD_ARGUMENT",
    });
});

it("a Zarr writer that another one overtook writes nothing over its rows", async () => {
  for (const change of [(late: Editable) => late.append([4]), (late: Editable) => late.resize(5)]) {
    const store = new MemoryStore();
    await (await create(store, "a", { format: "zarr", dtype: "int32", data: [1, 2] })).close();
    const [first, late] = [await edit(store, "a"), await edit(store, "a")];
    await first.append([3]);
    await first.close();
    expect(await rejectionOf(change(late).then(() => late.flush()))).toMatchObject({ code: "CONFLICT" });
    await late.abandon();
    expect(await valuesOf(store)).toEqual([1, 2, 3]);
  }
});

it.each(["blz", "bcolz", "bloscpack", "zarr"] as const)(
  "%s: an array without rows has no slices",
  async (format) => {
    const path = join(temporaryFolder(), "array");
    await (await createAt(path, { format, dtype: "<i8" })).close();
    await using array = await openArrayAt(path);
    expect((await array.get()).shape).toEqual([0]);
    for await (const { shape } of array.chunks()) expect(shape).toBe("none");
  },
);

it.each([
  ["blz", "<i4"],
  ["bcolz", "<i4"],
  ["zarr", "<i4"],
  ["zarr", "int32"],
] as const)("%s: settings of minus zero for an array of %s are 0", async (format, dtype) => {
  const store = new MemoryStore();
  const settings = { compressor: { clevel: -0 }, expectedLength: -0, fillValue: -0 };
  const { expectedLength: _, ...ofZarr } = settings;
  const shape = [0];
  await (
    await create(store, "a", { format, dtype, shape, ...(format === "zarr" ? ofZarr : settings) })
  ).close();
  for (const [key, bytes] of await imageOf(store))
    if (/(?:json|storage)$/.test(key)) expect(new TextDecoder().decode(bytes), key).not.toMatch(/-0/);
});

it.each(["blz", "bcolz", "zarr"] as const)("%s: a length of minus zero is 0", async (format) => {
  const store = new MemoryStore();
  const array = await create(store, "a", { format, dtype: "<i4", shape: [-0] });
  await array.append([1, 2, 3]);
  await array.resize(-0);
  await array.append([4]);
  await array.deleteRows(-0, 1);
  await array.close();
  const reopened = await edit(store, "a");
  await reopened.append([5]);
  await reopened.close();
  expect(reopened.shape).toEqual([1]);
  for (const [key, bytes] of await imageOf(store))
    if (/(?:json|sizes)$/.test(key)) expect(new TextDecoder().decode(bytes), key).not.toMatch(/-0/);
});
