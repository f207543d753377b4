/** Archives that became Zarr come back: values, attributes and fill values match the archive. */

import * as fs from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { open } from "../../../src/archive/open/open.ts";
import { zarrSource } from "../../../src/convert/sources/items.ts";
import { stringifyJson } from "../../../src/format/json.ts";
import { JsonFloat } from "../../../src/format/json-float.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import { openZarr } from "../../../src/zarr/read/open.ts";
import { convert } from "../../../src/zarr.ts";
import { runCli } from "../../cli/harness.ts";
import { corpusFolder } from "../../fixtures/manifest.ts";
import { temporaryFolder } from "../../folder.ts";
import { openFixture, sha256 } from "../to-zarr/read-back.ts";

test.each([
  ["carray/bcolz-f8-chunks", "blz"],
  ["carray/bcolz-i8-2d-attrs", "bcolz"],
  ["carray/bzl-f4-3d", "bloscpack"],
  ["carray/bcolz-dflt-resized", "blz"],
  ["carray/bcolz-datetime64-ns", "blz"],
  ["carray/bcolz-S5", "bcolz"],
  ["blz-superchunk/f8-default", "blz"],
  ["bloscpack-3/array-c16.blp", "bloscpack"],
] as const)("%s goes to Zarr and back as %s", async (path, format) => {
  const source = await openFixture(path);
  if (source.kind !== "array") throw new TypeError(source.kind);
  const store = new MemoryStore();
  await convert(source, { store, path: "zarr" });
  const result = await convert(
    await zarrSource(await openZarr(store, "zarr")),
    { store, path: "back" },
    { to: format },
  );
  expect(result).toMatchObject({ arrays: 1, nbytes: source.nbytes });
  const back = await open(store, "back");
  if (back.kind !== "array") throw new TypeError(back.kind);
  expect(back.shape).toEqual(source.shape);
  expect(sha256(await back.getBytes())).toBe(sha256(await source.getBytes()));
  expect(back.attrs).toEqual(source.attrs);
});

test.each(["bcolz", "blz"] as const)(
  "a table goes to Zarr and back as %s, its columns in order",
  async (format) => {
    const source = await openFixture("ctable/bcolz-daily-equities");
    if (source.kind !== "table") throw new TypeError(source.kind);
    const store = new MemoryStore();
    await convert(source, { store, path: "zarr" });
    await convert(await zarrSource(await openZarr(store, "zarr")), { store, path: "back" }, { to: format });
    const back = await open(store, "back");
    if (back.kind === "bytes") throw new TypeError(back.kind);
    const names = back.kind === "table" ? back.names : back.columnNames;
    expect(names).toEqual(source.names);
    for (const name of names)
      expect(sha256(await back.column(name).getBytes())).toBe(sha256(await source.column(name).getBytes()));
    expect(back.attrs).toEqual(source.attrs);
  },
);

test("the command converts archives and Zarr, refuses an existing destination, and options that do not apply", async () => {
  const folder = temporaryFolder();
  const archive = join(corpusFolder, "carray", "blz-f8");
  const npy = join(folder, "x.npy");
  expect(await runCli(["convert", archive, npy, "--to", "npy"])).toMatchObject({ code: 0 });
  expect(fs.readFileSync(npy).subarray(0, 6).toString("latin1")).toBe("\x93NUMPY");
  expect(await runCli(["convert", archive, npy, "--to", "npy"])).toMatchObject({ code: 1 });
  expect(await runCli(["convert", archive, npy, "--to", "npy", "--overwrite"])).toMatchObject({ code: 0 });
  const zarr = join(folder, "x.zarr");
  expect(await runCli(["convert", archive, zarr])).toMatchObject({ code: 0 });
  const back = join(folder, "x");
  const result = await runCli(["convert", zarr, back, "--to", "blz", "--json"]);
  expect(result.code).toBe(0);
  expect(JSON.parse(result.out)).toMatchObject({ format: "blz", arrays: 1 });
  const opened = await runCli(["cat", back, "--format", "raw"]);
  expect(sha256(opened.bytes)).toBe(sha256((await runCli(["cat", archive, "--format", "raw"])).bytes));
  const wrong = await runCli(["convert", archive, join(folder, "y"), "--to", "blz", "--portable"]);
  expect(wrong.code).toBe(2);
  expect(wrong.err).toContain("--portable is for --to zarr");
  // The source itself is never overwritten.
  const same = await runCli(["convert", back, back, "--to", "blz", "--overwrite"]);
  expect(same.code).toBe(1);
  expect((await runCli(["verify", back])).code).toBe(0);
});

test("rows without bytes keep their count in superchunks, and are refused by bcolz, as structs are", async () => {
  const store = new MemoryStore();
  const struct = [
    ["a", "<i4"],
    ["b", "|u1"],
  ];
  for (const [name, shape, dtype] of [
    ["none", [3, 0, 2], "<f8"],
    ["struct", [3], struct],
  ] as const) {
    const document = { zarr_format: 2, shape, chunks: shape.map(() => 2), dtype, fill_value: null };
    const text = JSON.stringify({ ...document, compressor: null, filters: null, order: "C" });
    await store.put(`${name}/.zarray`, new TextEncoder().encode(text));
  }
  const source = async (name: string) => zarrSource(await openZarr(store, name));
  await convert(await source("none"), { store, path: "back" }, { to: "blz", verify: true });
  expect(await open(store, "back")).toMatchObject({ shape: [3, 0, 2] });
  for (const [name, reason] of [
    ["none", "rows of zero bytes"],
    ["struct", "a structured dtype"],
  ] as const)
    await expect(convert(await source(name), { store, path: "no" }, { to: "bcolz" })).rejects.toMatchObject({
      code: "UNSUPPORTED",
      message: expect.stringMatching(
        new RegExp(`^${store.describe(name)}: .*${reason}.*convert it to blz`),
      ) as string,
    });
});

test.each(["blz", "bcolz", "bloscpack"] as const)(
  "an attribute that is a whole-number float is still a float in %s: Python distinguishes 1.0 from 1",
  async (format) => {
    const store = new MemoryStore();
    const attributes = { scale: new JsonFloat(1), count: 1, deep: { list: [new JsonFloat(-2), 3] } };
    const document = `{"zarr_format": 3, "node_type": "array", "shape": [3], "data_type": "int8", "fill_value": 0,
      "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [3]}},
      "chunk_key_encoding": {"name": "default"}, "codecs": ["bytes"], "attributes": ${stringifyJson(attributes)}}`;
    await store.put("zarr/zarr.json", new TextEncoder().encode(document));
    await convert(await zarrSource(await openZarr(store, "zarr")), { store, path: "back" }, { to: format });
    const back = await open(store, "back");
    expect(stringifyJson(back.attrs)).toBe(stringifyJson(attributes));
  },
);
