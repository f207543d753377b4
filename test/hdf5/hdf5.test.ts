/** HDF5 files by h5py and PyTables: every value as the program wrote it, and no wrong value from damaged ones. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { ByteReader } from "../../src/bytes/fields.ts";
import { convert, planConversion } from "../../src/convert/run/convert.ts";
import { isSuperchunkError, SuperchunkError } from "../../src/errors.ts";
import { formatDType } from "../../src/format/dtype.ts";
import { ChunkIndex } from "../../src/hdf5/chunks.ts";
import { readDatatype } from "../../src/hdf5/datatype.ts";
import { Fields, Hdf5File } from "../../src/hdf5/file.ts";
import { readObject } from "../../src/hdf5/objects.ts";
import { textArray } from "../../src/hdf5/text.ts";
import { Hdf5Store } from "../../src/hdf5/zarr-view.ts";
import { findReadables } from "../../src/open/find-readables.ts";
import { open, openArray } from "../../src/open/open.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import type { ByteRange, ReadableStore } from "../../src/store/types.ts";
import type { ZarrArray } from "../../src/zarr/read/array.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { sweep } from "../scope.ts";

const folder = fileURLToPath(new URL("../../fixtures/hdf5", import.meta.url));
const images = new Map(
  readdirSync(folder)
    .filter((name) => name.endsWith(".h5"))
    .map((name) => [name, new Uint8Array(readFileSync(join(folder, name)))] as const),
);
const values = JSON.parse(readFileSync(join(folder, "values.json"), "utf8")) as Readonly<
  Record<string, { readonly shape: readonly number[]; readonly sha256: string }>
>;
const store = new MemoryStore(images);

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

test.each(Object.entries(values))(
  "%s has the values that were written",
  async (key, { shape, sha256: sum }) => {
    const array = await openArray(store, key);
    expect(array.shape).toEqual(shape);
    expect(array.dialect).toBe("hdf5");
    expect(sha256(await array.getBytes())).toBe(sum);
  },
);

test("attributes are numbers, text and lists, also in a heap if there are many", async () => {
  for (const file of ["h5py-earliest.h5", "h5py-latest.h5"]) {
    expect((await open(store, file)).attrs).toEqual({ title: "a file", count: 3, list: [1.5, 2.5] });
    expect((await open(store, `${file}/g/blosc-lz4`)).attrs).toEqual({ units: "USD" });
    const { attrs } = await open(store, `${file}/contiguous`);
    expect(attrs).toEqual(Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`k${i}`, i])));
  }
});

test("attributes of all lengths are read, and a conversion names those that it leaves out", async () => {
  const array = await open(store, "attributes.h5/x");
  const small = Object.fromEntries(Array.from({ length: 9 }, (_, i) => [`k${i}`, i]));
  const long = Array.from({ length: 1000 }, (_, i) => i);
  expect(array.attrs).toEqual({ ...small, long, half: 0.5, shared: [1, 2.5] });
  const target = new MemoryStore();
  // zarr-python has no snappy.
  const report = await convert(array, { store: target, path: "" }, { to: "zarr", verify: true });
  expect(report).toMatchObject({ chunksCopied: 0, chunksRecoded: 5, verified: true });
  expect(report.notes).toEqual([
    expect.stringMatching(/^attributes that JSON cannot hold are left out: (?:z, raw|raw, z)$/),
  ]);
  expect(JSON.stringify((await openZarrArray(target, "")).metadata)).toContain('"cname":"zstd"');
});

test("a heap that has only attributes too long for its blocks is read", async () => {
  const { attrs } = await open(store, "attributes.h5");
  const long = Array.from({ length: 9 }, (_, i) => [`long${i}`, new Array(4500).fill(i)]);
  expect(attrs).toEqual(Object.fromEntries(long));
});

test("text and names of other programs than h5py: bytes for text that is not UTF-8, names as a destination can have them", async () => {
  const target = new MemoryStore();
  const group = await open(store, "odd.h5");
  const report = await convert(
    group,
    { store: target, path: "" },
    { to: "zarr", verify: true, skipFailed: true },
  );
  // A byte is a character in text that the file calls ASCII.
  expect(Object.entries(group.attrs)).toEqual([
    ["units", "\u00b5m"],
    ["__proto__", [1, 2]],
  ]);
  expect(report.notes).toEqual([
    expect.stringMatching(/left out: claims$/),
    expect.stringMatching(/left out: %E9$/),
  ]);
  expect(report.failures).toEqual([]);
  const long = [256, 300].map((length) => `names/${"n".repeat(length)}`);
  const cut = `names/${"n".repeat(240)}`;
  expect([...report.renamed].sort((a, b) => (a.from < b.from ? -1 : 1))).toEqual([
    { from: "names/__x", to: "names/%5F%5Fx" },
    { from: long[0], to: cut },
    { from: long[1], to: `${cut}~2` },
    { from: "names/zarr.json", to: "names/zarr%2Ejson" },
  ]);
  const texts = ["latin", "claims-utf-8", "fortran"].map((to) => ({ from: to, to }));
  for (const { from, to } of [...report.renamed, ...texts])
    expect(sha256(await (await openZarrArray(target, to)).getBytes()), to).toBe(
      values[`odd.h5/${from}`]?.sha256,
    );
  expect((await (await openArray(store, "odd.h5/many/d37")).getBytes())[0]).toBe(37);
});

test("text with spaces after it in sub-arrays has none, as in h5py", async () => {
  const text = [
    ["ab", "c", "d e"],
    ["x", "", "yyyy"],
  ];
  const sub = await openArray(store, "spaces.h5/sub");
  expect([sub.shape, Buffer.from(await sub.getBytes()).toString()]).toEqual([
    [2, 3],
    text.flatMap((row) => row.map((each) => each.padEnd(4, "\0"))).join(""),
  ]);
  const rows = Buffer.from(await (await openArray(store, "spaces.h5/rows")).getBytes());
  for (const [i, [own, number]] of [["ab", 1.5] as const, ["c", 2.5] as const].entries()) {
    const row = [own, ...(text[i] ?? [])].map((each) => each.padEnd(4, "\0")).join("");
    expect([rows.toString("latin1", 24 * i, 24 * i + 16), rows.readDoubleLE(24 * i + 16)]).toEqual([
      row,
      number,
    ]);
  }
});

test.each([
  ["7fc00001", "0100c07f", "0x7fc00001"],
  ["fff8000000000002", "fff8000000000002", "0xfff8000000000002"],
  ["7e01", "017e", "0x7e01"],
  ["7ff8000000000000", "000000000000f87f", "NaN"],
])("a fill value that is NaN keeps its bits, also in Zarr: %s", async (bits, stored, written) => {
  // What h5py reads.
  const name = `spaces.h5/nan-${bits}`;
  const array = await openArray(store, name);
  expect(Buffer.from(await array.getBytes()).toString("hex")).toBe(stored.repeat(2));
  const target = new MemoryStore();
  await convert(array as never, { store: target });
  const { fill_value: fill } = JSON.parse(Buffer.from((await target.get("zarr.json")) ?? []).toString());
  expect(fill).toBe(written);
  const little = bits.startsWith("f") ? Buffer.from(stored, "hex").reverse().toString("hex") : stored;
  expect(Buffer.from(await (await openZarrArray(target, "")).getBytes()).toString("hex")).toBe(
    little.repeat(2),
  );
});

test.each([
  ["family0", "as the family driver writes them; join them: h5repart"],
  ["split-m", 'as the split or multi driver writes them; open it with h5py (driver="split")'],
])("one of several files that a driver writes is refused by name: %s", async (name, message) => {
  for (const libver of ["earliest", "latest"]) {
    const bytes = new Uint8Array(readFileSync(join(folder, "parts", `${libver}-${name}.h5`)));
    await expect(openArray(new MemoryStore([["a.h5", bytes]]), "a.h5/x")).rejects.toMatchObject({
      code: "UNSUPPORTED",
      message: expect.stringContaining(message),
    });
  }
});

test("names that look alike once they are keys stay different members, and attributes of such names are not mixed up", async () => {
  const first = async (key: string): Promise<number | undefined> =>
    (await (await openArray(store, key)).getBytes())[0];
  const names = ["%E9~2", "%E9", "a%5Cb~2", "a%5Cb"];
  expect(await Promise.all(names.map((name) => first(`odd.h5/same/${name}`)))).toEqual([0, 1, 2, 3]);
  // Soft links to "a\\b" and to the name that is not UTF-8.
  expect(await Promise.all([first("odd.h5/soft0"), first("odd.h5/soft1")])).toEqual([2, 0]);
  const { store: shown } = await openArray(store, "odd.h5/same/%E9");
  const object = shown instanceof Hdf5Store ? await shown.objectAt("same") : undefined;
  expect(Object.keys(object?.attrs ?? {})).toEqual(["%E9"]);
  expect(object?.attrsLeft).toEqual(["%E9"]);
});

test("a member of the first version of datatypes that is an array has as many bytes as its items", () => {
  // "a", padded; offset 0; 1 dimension; 8 bytes that are not read; lengths 3, 0, 0, 0; int32. The compound has 12 bytes.
  const int32 = [0x10, 8, 0, 0, 4, 0, 0, 0, 0, 0, 32, 0];
  const member = [
    0x61,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    1,
    ...new Array(11).fill(0),
    3,
    ...new Array(15).fill(0),
  ];
  const bytes = new Uint8Array([0x16, 1, 0, 0, 12, 0, 0, 0, ...member, ...int32]);
  const fields = new Fields(new ByteReader(bytes, "x", 0), { offsetSize: 8, lengthSize: 8 });
  expect(readDatatype(fields)).toMatchObject({
    numpy: { formats: [["<i4", [3]]], itemsize: 12 },
    members: [{ type: { size: 12 } }],
  });
});

test("complex numbers of HDF5 2 are those of numpy", () => {
  const read = (size: number, ...part: number[]): unknown => {
    const bytes = new Uint8Array([0x5b, 1, 0, 0, size, 0, 0, 0, ...part]);
    return readDatatype(new Fields(new ByteReader(bytes, "x", 0), { offsetSize: 8, lengthSize: 8 })).numpy;
  };
  const float64 = [0x11, 0x21, 0x3f, 0, 8, 0, 0, 0, 0, 0, 64, 0, 0x34, 0x0b, 0, 0x34, 0xff, 3, 0, 0];
  const float16 = [0x11, 0x20, 0x0f, 0, 2, 0, 0, 0, 0, 0, 16, 0, 0x0a, 5, 0, 0x0a, 0x0f, 0, 0, 0];
  expect([read(16, ...float64), read(4, ...float16)]).toEqual([">c16", undefined]);
});

test("a later file of the family driver is called what it may be", async () => {
  // Bytes of the data that the first file describes.
  const family = new MemoryStore([["bars1.h5", new Uint8Array(4096)]]);
  await expect(open(family, "bars1.h5")).rejects.toMatchObject({
    code: "UNSUPPORTED",
    message: expect.stringMatching(/^memory:bars1\.h5: .*a later part of one \(family or split driver\)/),
  });
});

test("other floats are named by their form, and by their name if they have one", () => {
  // As h5py encodes them.
  const nameOf = (hex: string): string =>
    readDatatype(
      new Fields(new ByteReader(new Uint8Array(Buffer.from(hex, "hex")), "x", 0), {
        offsetSize: 8,
        lengthSize: 8,
      }),
    ).name;
  expect(
    [
      "11200f000200000000001000070800077f000000",
      "1120070001000000000008000304000307000000",
      "11004f001000000000005000400f0040ff3f0000",
      "11201f000400000000002000150a0015ff010000",
    ].map(nameOf),
  ).toEqual([
    "bfloat16 (floats of 2 bytes with 8 bits of exponent and 7 of mantissa)",
    "float8_e4m3 (floats of 1 byte with 4 bits of exponent and 3 of mantissa)",
    "long double of x86 (floats of 16 bytes with 15 bits of exponent and 64 of mantissa)",
    "floats of 4 bytes with 10 bits of exponent and 21 of mantissa",
  ]);
});

test("only an enumeration of FALSE as 0 and TRUE as 1, in any order, is a boolean", () => {
  const int8 = [0x10, 8, 0, 0, 1, 0, 0, 0, 0, 0, 8, 0];
  const letters = (name: string): number[] => [...new TextEncoder().encode(name), 0];
  const read = (members: Readonly<Record<string, number>>): unknown => {
    const names = Object.keys(members);
    const parts = [0x38, names.length, 0, 0, 1, 0, 0, 0, ...int8, ...names.flatMap(letters)];
    const bytes = new Uint8Array([...parts, ...Object.values(members)]);
    return readDatatype(new Fields(new ByteReader(bytes, "x", 0), { offsetSize: 8, lengthSize: 8 })).numpy;
  };
  expect([read({ FALSE: 0, TRUE: 1 }), read({ TRUE: 1, FALSE: 0 })]).toEqual(["|b1", "|b1"]);
  for (const other of [
    { FALSE: 1, TRUE: 0 },
    { TRUE: 0, FALSE: 1 },
    { FALSE: 0 },
    { FALSE: 0, TRUE: 1, NA: 2 },
  ])
    expect(read(other), JSON.stringify(other)).toBe("|i1");
});

test("eight bits are a boolean in files of PyTables, and a number in others", async () => {
  const fields = (): Fields =>
    new Fields(new ByteReader(new Uint8Array([0x14, 0, 0, 0, 1, 0, 0, 0, 0, 0, 8, 0]), "x", 0), {
      ...{ offsetSize: 8, lengthSize: 8 },
    });
  expect([readDatatype(fields()).numpy, readDatatype(fields(), { isPytables: true }).numpy]).toEqual([
    "|u1",
    "|b1",
  ]);
  const table = await openArray(store, "tutorial.h5/detector/readout");
  expect(JSON.stringify(formatDType(table.dtype))).toContain('["ok","|b1"]');
});

test("a fill value that is never written is not shown, as in h5py, and messages in a shared heap are refused", async () => {
  // Version 2, allocated in steps, filled if set (2) or never (1), defined, four bytes: -7.
  const message = [2, 3, 2, 1, 4, 0, 0, 0, 0xf9, 0xff, 0xff, 0xff];
  const bytes = (images.get("h5py-earliest.h5") ?? new Uint8Array()).slice();
  const start = bytes.findIndex((_, i) => message.every((byte, b) => bytes[i + b] === byte));
  const firstOf = async (): Promise<unknown> =>
    (await (await openArray(new MemoryStore(new Map([["x.h5", bytes]])), "x.h5/sparse")).getBytes())[0];
  expect(await firstOf()).toBe(0xf9);
  bytes[start + 2] = 1;
  expect(await firstOf()).toBe(0);
  // Its dataspace, or the message itself, in a heap that several objects share.
  for (const at of [start - 56, start]) {
    const shared = bytes.slice();
    shared[at - 4] = 2;
    shared.set([3, 1], at);
    const opening = openArray(new MemoryStore(new Map([["x.h5", shared]])), "x.h5/sparse");
    await expect(opening).rejects.toMatchObject({
      code: "UNSUPPORTED",
      details: { path: "memory:x.h5/sparse" },
    });
  }
  // Without the message, the older form of it counts, which is written next to it.
  expect(bytes[start - 8]).toBe(5);
  bytes[start - 8] = 0;
  expect(await firstOf()).toBe(0xf9);
});

test("dimension scales name the dimensions, and _FillValue is as xarray reads it from Zarr", async () => {
  const target = new MemoryStore();
  await convert(await open(store, "scales.h5"), { store: target, path: "" }, { to: "zarr", verify: true });
  for (const [name, names] of [
    ["v", ["x", "y"]],
    ["g/v", ["x", "y"]],
    ["x", ["x"]],
  ] as const)
    expect((await openZarrArray(target, name)).metadata["dimension_names"]).toEqual(names);
  // A dimension without a scale: no name is taken.
  expect((await openArray(store, "scales.h5/g/half")).attrs["_ARRAY_DIMENSIONS"]).toBeUndefined();
  expect((await openZarrArray(target, "v")).attrs).toMatchObject({
    _FillValue: "AAAAAAAA+H8=",
    add_offset: 2,
    list: [2],
  });
  // xarray decodes to integers where these are integers.
  const text = new TextDecoder().decode(await target.get("v/zarr.json"));
  expect(text.replaceAll(/\s/g, "")).toContain('"add_offset":2.0,');
  expect(text.replaceAll(/\s/g, "")).toContain('"list":[2.0]');
});

test("variables of netCDF are as long as their unlimited dimensions, and attributes of its storage are left out", async () => {
  const target = new MemoryStore();
  await convert(await open(store, "netcdf.h5"), { store: target, path: "" }, { to: "zarr", verify: true });
  const part = await openZarrArray(target, "part");
  expect(part).toMatchObject({ shape: [10, 3], metadata: { dimension_names: ["t", "x"] } });
  expect(sha256(await part.getBytes())).toBe(values["netcdf.h5/part"]?.sha256);
  expect((await openZarrArray(target, "whole")).attrs).toMatchObject({
    scale_factor: 0.5,
    valid_range: [0, 9],
  });
  expect((await openZarrArray(target, "square")).metadata["dimension_names"]).toEqual(["x", "x"]);
  expect((await openZarrArray(target, "t")).attrs).toEqual({});
  expect((await open(target, "")).attrs).toEqual({});
});

test("a named datatype is no member of its group, and can be opened by its path", async () => {
  const group = await open(store, "attributes.h5");
  expect(group.kind === "group" && (await group.members())).toEqual(["x"]);
  expect((await open(store, "attributes.h5/kind")).kind).toBe("group");
});

test("items that are arrays become further dimensions, and their Blosc chunks are copied", async () => {
  const target = new MemoryStore();
  const group = await open(store, "sub-arrays.h5");
  const report = await convert(group, { store: target, path: "" }, { to: "zarr", verify: true });
  expect(report).toMatchObject({ verified: true, failed: 0 });
  const copied = await openZarrArray(target, "blosc");
  expect(copied.shape).toEqual([17, 4, 2, 3]);
  expect(sha256(await copied.getBytes())).toBe(values["sub-arrays.h5/blosc"]?.sha256);
  for await (const { plan } of planConversion(await open(store, "sub-arrays.h5/blosc")))
    expect(plan?.arrays).toMatchObject([{ action: "copy" }]);
});

test("chunks that lack only Blosc are stored as they lie, and count as copied", async () => {
  const array = await open(store, "mixed.h5/x");
  const target = { store: new MemoryStore(), path: "" };
  const report = await convert(array, target, { to: "zarr", verify: true, recode: false });
  expect(report).toMatchObject({ chunksCopied: 4, chunksRecoded: 0, verified: true });
  for await (const { plan } of planConversion(array))
    expect(plan?.arrays).toMatchObject([{ action: "copy" }]);
});

test("a walk of a folder finds every dataset, and names what cannot be read with the reason", async () => {
  const found = new Set<string>();
  const refused: Record<string, string> = {};
  for await (const { path, array, error } of findReadables(store)) {
    if (array !== undefined) found.add(path);
    if (isSuperchunkError(error)) refused[path] = error.code;
    else expect(error).toBeUndefined();
  }
  for (const key of Object.keys(values)) expect(found.has(key), key).toBe(true);
  const names = ["elsewhere", "g/loop", "virtual"];
  const links = ["g/a", "g/b", "g/dangling", "g/up"].map(
    (name) => [`blosc2.h5/${name}`, "UNSUPPORTED"] as const,
  );
  expect(refused).toEqual(
    Object.fromEntries([
      ...links,
      ...["h5py-earliest.h5", "h5py-latest.h5"].flatMap((file) =>
        names.map((name) => [`${file}/${name}`, "UNSUPPORTED"] as const),
      ),
      ["text.h5/lists", "UNSUPPORTED"],
    ]),
  );
});

test("text of variable length goes to Zarr as text of one length, and what has no values there is left out", async () => {
  const target = new MemoryStore();
  const group = await open(store, "text.h5");
  const report = await convert(
    group,
    { store: target, path: "" },
    { to: "zarr", verify: true, skipFailed: true },
  );
  expect(report.failures).toMatchObject([
    { code: "UNSUPPORTED", message: expect.stringContaining("lists of variable length (of integers)") },
  ]);
  for (const name of ["bytes", "chunked", "filled", "times", "lzf", "back%5Cslash"]) {
    const array = await openZarrArray(target, name);
    expect(sha256(await array.getBytes()), name).toBe(values[`text.h5/${name}`]?.sha256);
  }
  // A name that would lead out of the group is percent-encoded.
  expect((await openZarrArray(target, "%2E%2E")).shape).toEqual([]);
  expect(await target.get("dimension/zarr.json")).toBeUndefined();
  for (const name of ["lzf", "chunked"])
    expect(JSON.stringify((await openZarrArray(target, name)).metadata)).toContain('"cname":"lz4"');
  await expect(openArray(store, "text.h5/dimension")).rejects.toMatchObject({
    code: "UNSUPPORTED",
    message: expect.stringContaining("a length (50), and no values"),
  });
});

test("Blosc2 chunks become Blosc1 chunks, which go to Zarr unchanged, unless they have other filters", async () => {
  for (const [name, chunksRecoded] of [
    ["blosc2.h5/two", 0],
    ["blosc2.h5/delta", 3],
    ["pytables-blosc2.h5/square", 0],
    ["pytables-blosc2.h5/bars/daily", 0],
  ] as const) {
    const target = new MemoryStore();
    const report = await convert(
      await open(store, name),
      { store: target, path: "" },
      { to: "zarr", verify: true },
    );
    expect({ name, report }).toMatchObject({ name, report: { chunksRecoded, verified: true } });
  }
});

test("checksums that PyTables before 3.10 computed before the other filters are compared, and go to Zarr", async () => {
  const values = new Uint8Array(Float64Array.from({ length: 900 }, (_, i) => i / 8).buffer);
  const image = images.get("summed.h5") as Uint8Array;
  for (const name of ["zlib", "blosc-lz4", "blosc2-lz4"].flatMap((each) => [each, `tables/${each}`])) {
    const array = await openArray(store, `summed.h5/${name}`);
    if (name.includes("/")) {
      const rows = (await array.getBytes()).slice();
      expect([array.shape, rows.length]).toEqual([[250], 250 * 17]);
      const view = new DataView(rows.buffer);
      for (let i = 0; i < 250; i++) expect(view.getInt32(17 * i, true)).toBe(i);
      for (let i = 0; i < 250; i++) expect(view.getFloat64(17 * i + 4, true)).toBe(i / 8);
    } else expect(await array.getBytes(), name).toEqual(values);
    const target = new MemoryStore();
    const report = await convert(array, { store: target, path: "" }, { to: "zarr", verify: true });
    expect({ name, report }).toMatchObject({ name, report: { verified: true } });
    const { store: shown } = array;
    const place = await shown.filePlace?.(`${name}/1`);
    const changed = image.slice();
    const at = (place?.offset ?? 0) + (place?.ctbytes ?? 0) - 40;
    changed[at] = (changed[at] as number) ^ 16;
    const damaged = await openArray(new MemoryStore(new Map([["summed.h5", changed]])), `summed.h5/${name}`);
    // PyTables itself compresses the rows of such a table, and leaves the checksum out.
    if (name !== "tables/blosc2-lz4") await expect(damaged.getBytes(), name).rejects.toThrow();
  }
});

test("a filter may get more bytes than a chunk has, or fewer", async () => {
  const values = await (await openArray(store, "pipelines.h5/plain")).getBytes();
  const mixed = ["zstd-blosc2-fletcher32", "fletcher32-deflate-blosc2"];
  for (const name of ["fletcher32-lzf", "blosc2-lzf", "deflate-blosc2", ...mixed]) {
    const array = await openArray(store, `pipelines.h5/${name}`);
    expect(await array.getBytes(), name).toEqual(values);
    const report = await convert(array, { store: new MemoryStore(), path: "" }, { to: "zarr", verify: true });
    expect({ name, report }).toMatchObject({ name, report: { verified: true } });
  }
});

test("the nested table of PyTables' tutorial has its values, times as seconds and microseconds", async () => {
  const table = await openArray(store, "tutorial.h5/detector/readout");
  expect(table.shape).toEqual([40]);
  expect(table.attrs["gath_date"]).toBe("Wed, 06/12/2003 18:33");
  const row = (await table.getBytes([{ start: 3, stop: 4, step: 1 }])).slice();
  const view = new DataView(row.buffer);
  expect(row.length).toBe(57);
  // x, color, day, then c, z and ok, and when.
  expect([view.getFloat64(0, true), view.getUint32(35, true), view.getInt32(39, true)]).toEqual([1.5, 9, -3]);
  expect([...row.subarray(43, 49)]).toEqual([0, 3, 1, 2, 3, 0]);
  expect([view.getInt32(49, true), view.getInt32(53, true)]).toEqual([750_000, 1_000_000_000]);
  expect(table.dtype).toMatchObject({
    kind: "struct",
    fields: [
      {},
      {},
      {},
      {},
      {},
      {
        name: "when",
        dtype: { kind: "struct", fields: [{ name: "microseconds" }, { name: "seconds" }] },
      },
    ],
  });
});

test("a header without the messages of a group or a dataset, and a member without a name, are damage", async () => {
  const image = images.get("user-block.h5") as Uint8Array;
  const { store: shown } = await openArray(store, "user-block.h5/x");
  const found = shown instanceof Hdf5Store ? await shown.objectAt("x") : undefined;
  const position = found?.kind === "dataset" ? found.position : 0;
  const zeroed = image.slice();
  const length = new DataView(zeroed.buffer).getUint32(position + 8, true);
  zeroed.fill(0, position + 16, position + 16 + length);
  // A member without a name would be the group itself, without end.
  const nameless = image.slice();
  const heap = Buffer.from(image).indexOf("HEAP");
  const names = 512 + new DataView(image.buffer, image.byteOffset).getUint32(heap + 24, true);
  expect([...image.subarray(names + 8, names + 10)]).toEqual([0x78, 0]);
  nameless[names + 8] = 0;
  const damaged = new MemoryStore(new Map(Object.entries({ "zeroed.h5": zeroed, "nameless.h5": nameless })));
  const group = await open(damaged, "nameless.h5");
  expect(group.kind).toBe("group");
  await expect("members" in group && group.members()).rejects.toMatchObject({
    code: "BAD_FIELD",
    details: { field: "name of a member" },
  });
  await expect(open(damaged, "zeroed.h5/x")).rejects.toMatchObject({
    code: "BAD_FIELD",
    message: expect.stringContaining("zeroed.h5/x: the object header at byte") as unknown,
  });
});

test("a read that failed is tried again: what it was for is neither left out nor refused for ever", async () => {
  const image = images.get("scales.h5") as Uint8Array;
  // The heap with the references to scales moves to the end, far from what is read with the header.
  const far = new Uint8Array(512 << 10);
  far.set(image);
  const view = new DataView(far.buffer);
  const moved = 400 << 10;
  let heap = -1;
  for (let i = 0; i + 8 < image.length; i++) if (view.getUint32(i) === 0x47434f4c) heap = i;
  far.set(image.subarray(heap), moved);
  for (let i = 0; i + 8 <= image.length; i++)
    if (view.getBigUint64(i, true) === BigInt(heap)) view.setBigUint64(i, BigInt(moved), true);
  class Failing extends MemoryStore {
    failures = 1;
    override getRange(key: string, range: ByteRange): ReturnType<MemoryStore["getRange"]> {
      if ("offset" in range && range.offset >= moved - 65_536 && this.failures-- > 0)
        throw new SuperchunkError("IO", "the network failed", { path: key });
      return super.getRange(key, range);
    }
  }
  const file = await Hdf5File.open(new Failing(new Map([["far.h5", far]])), "far.h5");
  const shown = new Hdf5Store(file as Hdf5File);
  await expect(shown.get("v/.zattrs")).rejects.toThrow("the network failed");
  expect(await shown.get("v/.zattrs")).toEqual(
    await new Hdf5Store((await Hdf5File.open(store, "scales.h5")) as Hdf5File).get("v/.zattrs"),
  );
});

test("why chunks are encoded is found without the signal of a caller, and again after a failure", async () => {
  const image = images.get("pytables-blosc2.h5") as Uint8Array;
  class Failing extends MemoryStore {
    isFailing = false;
    override getRange(...args: Parameters<MemoryStore["getRange"]>): ReturnType<MemoryStore["getRange"]> {
      if (this.isFailing) throw new SuperchunkError("IO", "the network failed", { path: args[0] });
      return super.getRange(...args);
    }
  }
  const failing = new Failing(new Map([["a.h5", image]]));
  const group = await open(failing, "a.h5");
  if (!("arrays" in group)) throw new Error("not a group");
  const { names } = await group.arrays();
  const found = new Hdf5Store((await Hdf5File.open(failing, "a.h5")) as Hdf5File);
  let failed = 0;
  for (const name of names) {
    await found.get(`${name}/.zarray`);
    const plain = new Hdf5Store((await Hdf5File.open(store, "pytables-blosc2.h5")) as Hdf5File);
    const why = await plain.whyEncoded(name);
    failing.isFailing = true;
    await found.whyEncoded(name).catch(() => failed++);
    failing.isFailing = false;
    expect(await found.whyEncoded(name), name).toBe(why);
  }
  expect(failed).toBeGreaterThan(0);
});

test("a row of texts that is too long for a chunk once all are as long as the longest is refused", async () => {
  const file = (await Hdf5File.open(store, "text.h5")) as Hdf5File;
  const items = new DataView(new ArrayBuffer(16 * 20_000));
  // Without a heap each, and all empty but one.
  for (let i = 0; i < 20_000; i++) items.setBigInt64(16 * i + 4, -1n, true);
  items.setUint32(0, 250_000, true);
  const shape = [1, 20_000];
  const getBytes = async (): Promise<Uint8Array> => new Uint8Array(items.buffer);
  const stored = { shape, chunkShape: shape, getBytes } as unknown as ZarrArray;
  const type = { size: 16, name: "text", numpy: undefined, text: "variable" } as const;
  await expect(textArray(file, stored, { type, path: "wide" })).rejects.toMatchObject({
    code: "LIMIT",
    message: "wide: it has 20000000000 bytes in a row; 2147483631 is the limit. Read it with h5py",
  });
});

test("a path that a file does not have is not found", async () => {
  await expect(open(store, "pytables.h5/bars/weekly")).rejects.toMatchObject({ code: "NOT_FOUND" });
  await expect(open(store, "pytables.h5/prices/x")).rejects.toMatchObject({ code: "NOT_FOUND" });
  await expect(open(store, "absent.h5/prices")).rejects.toMatchObject({ code: "NOT_FOUND" });
});

/** Counts the requests that reads make. */
function counting(inner: ReadableStore): { readonly store: ReadableStore; count: number } {
  const counted = { count: 0, store: inner };
  counted.store = {
    describe: (key) => inner.describe(key),
    get: (key, options) => inner.get(key, options),
    getRange: (key: string, range: ByteRange, options) => {
      counted.count++;
      return inner.getRange(key, range, options);
    },
    stat: (key, options) => inner.stat(key, options),
    list: (key, options) => inner.list(key, options),
  };
  return counted;
}

test("a dataset is opened with two reads of metadata, and an element is one read more", async () => {
  const counted = counting(store);
  const array = await openArray(counted.store, "pytables.h5/prices");
  // The first four bytes, and one page of metadata.
  expect(counted.count).toBeLessThanOrEqual(3);
  const before = counted.count;
  await array.get([10]);
  expect(counted.count - before).toBeLessThanOrEqual(2);
});

/** The indexes of all chunked datasets of a file, with the numbers of chunks along their dimensions. */
async function indexesOf(
  image: Uint8Array,
): Promise<
  Map<string, { readonly counts: readonly number[]; readonly index: () => ChunkIndex; address: number }>
> {
  const file = await Hdf5File.open(new MemoryStore(new Map([["f", image]])), "f");
  const found: Awaited<ReturnType<typeof indexesOf>> = new Map();
  const seen = new Set<number>();
  const visit = async (header: number, path: string): Promise<void> => {
    if (file === undefined || seen.has(header)) return;
    seen.add(header);
    const object = await readObject(file, header).catch(() => undefined);
    if (object?.kind === "group")
      for (const [name, { address }] of await object.members.all())
        if (address !== undefined) await visit(address, `${path}/${name}`);
    if (object?.kind !== "dataset" || object.layout.kind !== "chunked") return;
    const { layout, shape } = object;
    found.set(path.slice(1), {
      counts: shape.map((extent, d) => Math.ceil(extent / (layout.chunks[d] ?? 1))),
      index: () => new ChunkIndex(file, object, layout),
      address: file.positionOf(layout.address ?? 0),
    });
  };
  await visit(file?.root ?? 0, "");
  return found;
}

test("a chunk that is found alone is the one that the whole index has, stored or missing, for every kind of index", async () => {
  let tried = 0;
  for (const name of [
    "h5py-earliest.h5",
    "h5py-latest.h5",
    "far.h5",
    "pytables.h5",
    "pytables-blosc2.h5",
    "netcdf.h5",
  ])
    for (const [path, { counts, index }] of await indexesOf(images.get(name) as Uint8Array)) {
      const all = await index().all();
      const alone = index();
      // Two numbers, if points separate them, in which later chunks must not be looked for.
      expect(await alone.find("zarr.json"), `${name}/${path}`).toBeUndefined();
      const total = counts.reduce((product, count) => product * count, 1);
      for (let number = 0; number < total; number += total > 10_000 ? 97 : 1) {
        let rest = number;
        const at = counts.map(() => 0);
        for (let d = counts.length - 1; d >= 0; d--) {
          at[d] = rest % (counts[d] as number);
          rest = Math.floor(rest / (counts[d] as number));
        }
        const key = at.join(".") || "0";
        expect(await alone.find(key), `${name}/${path} ${key}`).toEqual(all.get(key));
        tried++;
      }
      for (const [key, place] of all)
        expect(await index().find(key), `${name}/${path} ${key}`).toEqual(place);
      for (const key of [counts.join("."), "00", "0.0.0.0.0", "", "x"])
        expect(await index().find(key), `${name}/${path} ${key}`).toBeUndefined();
    }
  expect(tried).toBeGreaterThan(3000);
});

test.each([
  ["h5py-earliest.h5/endless", "TREE", "BAD_MAGIC"],
  ["h5py-latest.h5/endless", "EADB", "BAD_MAGIC"],
])(
  "an element of %s needs only the %s on the way to it, and the whole dataset needs all",
  async (key, node, code) => {
    const [file = "", name = ""] = key.split("/");
    const image = (images.get(file) as Uint8Array).slice();
    const { address = 0 } = (await indexesOf(image)).get(name) ?? {};
    const text = Buffer.from(image);
    // Blocks and leaves that come after the root are those of later chunks.
    let last = -1;
    const view = new DataView(image.buffer);
    if (node === "TREE") last = Number(view.getBigUint64(address + 24 + 32 + 24, true));
    else last = text.indexOf(node, address);
    expect(text.toString("latin1", last, last + 4)).toBe(node);
    image[last] = 0;
    const array = await openArray(new MemoryStore(new Map([[file, image]])), key);
    expect(await array.get([0])).toBe(0n);
    await expect(array.getBytes()).rejects.toMatchObject({ code });
    const { store: shown } = array;
    await expect(
      (async () => {
        for await (const entry of shown.list(name)) expect(entry.name).not.toBe("");
      })(),
    ).rejects.toMatchObject({ code });
  },
);

test("a damaged key of an old index gives an error, and not the fill value", async () => {
  const image = (images.get("h5py-earliest.h5") as Uint8Array).slice();
  const { address = 0 } = (await indexesOf(image)).get("endless") ?? {};
  const view = new DataView(image.buffer);
  // The key between the first two leaves.
  const key = address + 24 + 32 + 8;
  const first = Number(view.getBigUint64(key, true));
  for (const moved of [first - 6, first + 6]) {
    view.setBigUint64(key, BigInt(moved), true);
    const array = await openArray(new MemoryStore(new Map([["f.h5", image]])), "f.h5/endless");
    await expect(array.get([Math.min(first, moved) + 1])).rejects.toMatchObject({ code: "BAD_FIELD" });
  }
});

test("Blosc chunks go to Zarr unchanged", async () => {
  for (const [key, copied] of [
    ["pytables.h5/prices", 6],
    ["h5py-latest.h5/g/blosc-zstd", 16],
  ] as const) {
    const target = new MemoryStore();
    const report = await convert(
      await open(store, key),
      { store: target, path: "out" },
      { to: "zarr", verify: true },
    );
    expect(report, key).toMatchObject({ chunksCopied: copied, chunksRecoded: 0, verified: true });
    const array = await openZarrArray(target, "out");
    expect(sha256(await array.getBytes()), key).toBe(values[key]?.sha256);
  }
});

describe("damage", () => {
  /** Datasets that are read of a damaged file. */
  const keys = [
    "contiguous",
    "g/blosc-lz4",
    "g/deflate",
    "endless",
    "endless-both",
    "fixed",
    "many/d37",
    "table",
  ];

  /** Reads everything; damage must give an error of this library, in bounded time and memory. */
  async function readAll(
    file: string,
    image: Uint8Array,
  ): Promise<{ readonly wrong: string[]; readonly told: number }> {
    const damaged = new MemoryStore(new Map([[file, image]]));
    const wrong: string[] = [];
    let told = 0;
    for (const name of keys) {
      try {
        const array = await openArray(damaged, `${file}/${name}`);
        if (array.nchunks > 10_000) continue;
        if (sha256(await array.getBytes()) !== values[`${file}/${name}`]?.sha256) wrong.push(name);
      } catch (error) {
        if (!isSuperchunkError(error)) throw error;
        told++;
      }
    }
    return { wrong, told };
  }

  test("a file that is cut short says so, wherever it is cut", async () => {
    for (const file of ["h5py-earliest.h5", "h5py-latest.h5"]) {
      const image = images.get(file) ?? new Uint8Array(0);
      const step = sweep(997, 20_011);
      for (let length = 0; length < image.length; length += step) {
        const { wrong } = await readAll(file, image.subarray(0, length));
        expect(wrong, `${file} cut to ${length}`).toEqual([]);
      }
    }
  });

  test("structures with checksums give no wrong value if a byte of them changes", async () => {
    const file = "h5py-latest.h5";
    const image = images.get(file) ?? new Uint8Array(0);
    const text = Buffer.from(image).toString("latin1");
    const starts = [...text.matchAll(/OHDR|OCHK|FRHP|FHIB|BTHD|BTLF|FAHD|FADB|EAHD|EAIB|EASB|EADB/g)].map(
      ({ index }) => index,
    );
    expect(starts.length).toBeGreaterThan(60);
    let damaged = 0;
    const step = sweep(1, 9);
    for (let i = 0; i < starts.length; i += step) {
      const copy = image.slice();
      const at = (starts[i] as number) + 5 + (i % 7);
      copy[at] = (copy[at] as number) ^ (1 << (i % 8));
      const { wrong, told } = await readAll(file, copy);
      expect(wrong, `byte ${at}`).toEqual([]);
      damaged += told > 0 ? 1 : 0;
    }
    expect(damaged).toBeGreaterThan(0);
  });

  test("old structures have no checksums: what is wrong with them gives an error of this library, or is read", async () => {
    const file = "h5py-earliest.h5";
    const image = images.get(file) ?? new Uint8Array(0);
    let random = 7;
    const next = (limit: number): number => {
      random = (Math.imul(random, 1_103_515_245) + 12_345) >>> 0;
      return random % limit;
    };
    for (let i = 0; i < sweep(2000, 30); i++) {
      const copy = image.slice();
      for (let changes = 0; changes < 4; changes++) copy[next(16_384)] = next(256);
      await readAll(file, copy); // throws if it is not reported as damage
    }
    expect(await readAll(file, image)).toEqual({ wrong: [], told: 0 });
  });

  /** A file of the fuzzer with other bytes at an offset relative to the `nth` signature. */
  function changed(
    name: string,
    at: { readonly text: string; readonly offset: number },
    bytes: readonly number[],
  ): MemoryStore {
    const image = new Uint8Array(readFileSync(join(folder, "small", name)));
    const start = Buffer.from(image).indexOf(at.text, 0, "latin1");
    expect(start).toBeGreaterThan(0);
    image.set(bytes, start + at.offset);
    return new MemoryStore(new Map([["x.h5", image]]));
  }

  test.each([
    // The second key of a tree: its first offset, and the place in an item, which HDF5 searches by too.
    [
      "chunks that are not in order",
      "tree-earliest.h5",
      { text: "TREE\u0001", offset: 24 + 40 + 8 },
      [99],
      "BAD_FIELD",
    ],
    [
      "a chunk inside an item",
      "tree-earliest.h5",
      { text: "TREE\u0001", offset: 24 + 40 + 24 },
      [1],
      "BAD_FIELD",
    ],
    ["two members with one name", "groups-earliest.h5", { text: "SNOD", offset: 8 + 40 }, [8], "BAD_FIELD"],
    [
      "a float of another layout",
      "half-earliest.h5",
      { text: "\x11\x20\x0f\x00", offset: 13 },
      [8],
      "UNSUPPORTED",
    ],
    // The length of the values in the header, half of what the shape needs.
    [
      "compact values that are cut off",
      "compact-earliest.h5",
      { text: "\x03\x00\x10\x00\x00\x00\x00\x01", offset: 2 },
      [8],
      "BAD_FIELD",
    ],
    [
      "items of 64 MiB",
      "contiguous-earliest.h5",
      { text: "\x11\x20\x3f\x00", offset: 0 },
      [0x13, 0, 0, 0, 0, 0, 0, 4],
      "LIMIT",
    ],
  ] as const)("%s are reported", async (_, name, at, bytes, code) => {
    await expect(
      openArray(changed(name, at, bytes), "x.h5/x").then((array) => array.getBytes()),
    ).rejects.toMatchObject({
      code,
    });
  });
});
