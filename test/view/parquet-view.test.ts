/** A Parquet file that is made while it is read matches the file that a conversion writes, byte for byte and in any part. */
import { describe, expect, test } from "vitest";
import { open } from "../../src/archive/open/open.ts";
import { joinBytes } from "../../src/bytes/arrays.ts";
import { encodeHere } from "../../src/codec/encode/encode.ts";
import { ParquetParts } from "../../src/convert/targets/parquet-parts.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { findViewEntries } from "../../src/view/find-entries.ts";
import { ParquetView } from "../../src/view/parquet-view.ts";
import { convert } from "../../src/zarr.ts";
import { putCarray } from "../convert/to-zarr/make-archive.ts";
import { openFixture } from "../convert/to-zarr/read-back.ts";
import { loadArchives } from "../fixtures/manifest.ts";

const HERE = { encoder: encodeHere };

async function bytesOf(file: ParquetParts, first = 0, end = file.size): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  for await (const piece of file.read(first, end, HERE)) pieces.push(piece);
  return joinBytes(pieces);
}

const rows = loadArchives().filter(({ refuse, kind }) => !refuse && kind !== "bytes");

describe.each(rows)("$path", ({ path }) => {
  test("is the file of its conversion, in any part", async () => {
    const source = await openFixture(path);
    const store = new MemoryStore();
    await convert(source, { store, path: "out.parquet" }, { to: "parquet" });
    const written = (await store.get("out.parquet")) ?? new Uint8Array();
    const file = await ParquetParts.plan(source, { to: "parquet" }, HERE);
    expect(file.size).toBe(written.length);
    expect(await bytesOf(file)).toEqual(written);
    const length = 1 + Math.floor(file.size / 9);
    for (let first = 0; first < file.size; first += length) {
      const end = Math.min(file.size, first + length);
      expect(await bytesOf(file, first, end)).toEqual(written.subarray(first, end));
    }
  });
});

/** A carray of so many rows in chunks of 1000, or what it becomes with `change` added. */
async function putNumbers(store: MemoryStore, count: number, change = 0): Promise<void> {
  const values = Float64Array.from({ length: count }, (_, i) => ((i * 7919) % 65_521) + change);
  const bytes = new Uint8Array(values.buffer);
  await putCarray(store, "t/a.bcolz", bytes, 1000, { dtype: "float64", shape: [count] });
}

test("several parts are cut where chunks begin, and equal the file", async () => {
  const store = new MemoryStore();
  await putNumbers(store, 200_500);
  const archive = await open(store, "t/a.bcolz");
  await convert(archive, { store, path: "out.parquet" }, { to: "parquet" });
  const written = (await store.get("out.parquet")) ?? new Uint8Array();
  const file = await ParquetParts.plan(archive, { to: "parquet" }, HERE);
  expect(await bytesOf(file)).toEqual(written);
  for (const [first, end] of [
    [3, 300_000],
    [262_000, 263_000],
    [written.length - 8, written.length],
  ] as const)
    expect(await bytesOf(file, first, end)).toEqual(written.subarray(first, end));
});

test("bytes of two states are never mixed: a changed table is STALE, and has another sum when opened again", async () => {
  const store = new MemoryStore();
  await putNumbers(store, 5000);
  const view = new ParquetView(await findViewEntries(store, "t"), encodeHere);
  expect([view.has("a.parquet"), view.has("a.bcolz.parquet"), view.has("a"), view.has("b.parquet")]).toEqual([
    true,
    true,
    false,
    false,
  ]);
  const before = await view.open("a.parquet");
  expect(await view.open("a.bcolz.parquet")).toBe(before);
  await putNumbers(store, 5000, 1);
  await expect(bytesOf(before)).rejects.toMatchObject({ code: "STALE" });
  const after = await view.open("a.parquet", true);
  expect(after.sha256).not.toBe(before.sha256);
  expect((await bytesOf(after)).length).toBe(after.size);
  await putNumbers(store, 5000);
  expect((await view.open("a.parquet", true)).sha256).toBe(before.sha256);
});
