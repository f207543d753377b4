/** Every archive of the corpus, against the values that its producer put in: hashes, first and last values, attributes, slices. */
import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { ArrayArchive, ArraySlice, ChunkedArchive } from "../../src/archive/kinds/types.ts";
import { elementsOf } from "../../src/bytes/arrays.ts";
import { formatDType } from "../../src/format/dtype.ts";
import { openArchive } from "../../src/node/index.ts";
import {
  type ArrayFixture,
  type BytesFixture,
  type Fixture,
  findFixture,
  loadArchives,
} from "../fixtures/manifest.ts";
import { toJsonValues } from "../values/json-values.ts";

const archives = loadArchives();
const readable = archives.filter((row) => !row.refuse);
const arrays = readable.filter((row): row is ArrayFixture => row.kind === "array");
const chunked = readable.filter((row): row is ArrayFixture | BytesFixture => row.kind !== "table");
const tables = readable.filter((row) => row.kind === "table");

async function sha256(pieces: AsyncIterable<Uint8Array>): Promise<string> {
  const hash = createHash("sha256");
  for await (const piece of pieces) hash.update(piece);
  return hash.digest("hex");
}

async function openArray(row: Fixture): Promise<ArrayArchive> {
  const archive = await openArchive(row.file);
  if (archive.kind !== "array") throw new Error(`${row.path} opened as ${archive.kind}`);
  return archive;
}

async function openChunked(row: Fixture): Promise<ChunkedArchive & { kind: string }> {
  const archive = await openArchive(row.file);
  if (archive.kind === "table") throw new Error(`${row.path} opened as a table`);
  return archive;
}

test("the corpus has the 69 archives that are not Zarr", () => {
  expect(archives).toHaveLength(69);
});

describe.each(chunked)("$path", (row) => {
  test("dialect, kind, dtype, shape, order and attributes match the manifest", async () => {
    const archive = await openArchive(row.file);
    expect(archive).toMatchObject({ dialect: row.dialect, kind: row.kind });
    expect(archive.attrs).toEqual(row.attrs);
    if (archive.kind === "bytes") expect(archive.nbytes).toBe(row.shape[0]);
    if (archive.kind === "array") {
      expect(formatDType(archive.dtype)).toEqual(row.dtype);
      expect(archive.shape).toEqual(row.shape);
      expect(archive.order).toBe(row.order);
    }
  });

  test("decoded bytes have the hash of the original data", async () => {
    expect(await sha256((await openChunked(row)).streamBytes())).toBe(row.sha256);
  });

  test("verify finds nothing wrong", async () => {
    const report = await (await openChunked(row)).verify();
    expect(report).toMatchObject({ ok: true });
    expect(report.findings.filter((finding) => finding.severity === "error")).toEqual([]);
  });

  test("reports how it is cut and compressed", async () => {
    const summary = await (await openChunked(row)).summary();
    const { chunklen, chunk_bytes, nchunks, cname, shuffle, clevel } = row.chunks;
    if (nchunks !== undefined) expect(summary.nchunks).toBe(nchunks);
    if (chunklen !== undefined) expect(summary.chunkLength).toBe(chunklen);
    if (chunk_bytes !== undefined && summary.chunkBytes !== undefined)
      expect(summary.chunkBytes).toBe(chunk_bytes);
    if (summary.nchunks > 0) {
      expect(summary.cname).toBe(cname === "lz4hc" ? "lz4" : cname);
      if (summary.clevel !== undefined) expect(summary.clevel).toBe(clevel);
      if (clevel !== 0) expect(summary.shuffle).toBe(shuffle);
      expect(summary.checksum ?? null).toBe(row.checksum);
    }
  });
});

describe.each(arrays)("values of $path", (row) => {
  test("the first and the last match the manifest", async () => {
    const archive = await openArray(row);
    const { data } = (await archive.get()) as ArraySlice;
    const values = toJsonValues(data, archive.dtype);
    expect(values).toHaveLength(elementsOf(archive.shape));
    expect(values.slice(0, row.head.length)).toEqual(row.head);
    expect(values.slice(values.length - row.tail.length)).toEqual(row.tail);
  });

  test("slices equal the same parts of the whole array", async () => {
    const archive = await openArray(row);
    const [length = 1] = archive.shape;
    const whole = toJsonValues(((await archive.get()) as ArraySlice).data, archive.dtype);
    const size = elementsOf(archive.shape.slice(1));
    for (const [start, stop, step] of [
      [0, length, 3],
      [Math.floor(length / 3), Math.floor(length / 2), 1],
      [length - 1, length, 1],
      [1, length, 17],
    ] as const) {
      if (archive.shape.length === 0) continue;
      const part = (await archive.get([{ start, stop, step }])) as ArraySlice;
      const expected: unknown[] = [];
      for (let row = start; row < stop; row += step)
        expected.push(...whole.slice(row * size, (row + 1) * size));
      expect(toJsonValues(part.data, archive.dtype)).toEqual(expected);
      expect(elementsOf(part.shape)).toBe(expected.length);
    }
    expect(whole.length).toBe(elementsOf(archive.shape));
  });

  test("the chunks joined together are the whole array", async () => {
    const archive = await openArray(row);
    const whole = toJsonValues(((await archive.get()) as ArraySlice).data, archive.dtype);
    const parts: unknown[] = [];
    for await (const { data } of archive.chunks()) parts.push(...toJsonValues(data, archive.dtype));
    expect(parts).toEqual(whole);
  });

  test("slices that are kept without asking for it are empty or unchanged", async () => {
    const archive = await openArray(row);
    const kept: (readonly [data: ArraySlice["data"], values: unknown[]])[] = [];
    for await (const { data } of archive.chunks())
      if (ArrayBuffer.isView(data)) kept.push([data, toJsonValues(data, archive.dtype)]);
    const wrong = kept.filter(
      ([data, values]) =>
        data.length > 0 && JSON.stringify(toJsonValues(data, archive.dtype)) !== JSON.stringify(values),
    );
    expect(wrong).toEqual([]);
  });

  test("any range of bytes equals that part of the stored bytes", async () => {
    const archive = await openArray(row);
    const all = await archive.readBytes(0, archive.nbytes);
    for (const [start, end] of [
      [0, 1],
      [archive.nbytes - 1, archive.nbytes],
      [Math.floor(archive.nbytes / 3), Math.floor(archive.nbytes / 2)],
    ] as const) {
      if (start < 0 || archive.nbytes === 0) continue;
      expect(await archive.readBytes(start, end)).toEqual(all.slice(start, end));
    }
    expect(all).toHaveLength(archive.nbytes);
  });
});

describe.each(tables)("$path", (row) => {
  test("names, rows, attributes and every column match the manifest", async () => {
    const table = await openArchive(row.file);
    if (table.kind !== "table") throw new Error(`opened as ${table.kind}`);
    expect(table.dialect).toBe("ctable");
    expect(table.names).toEqual(row.names);
    expect(table.length).toBe(row.shape[0]);
    expect(table.attrs).toEqual(row.attrs);
    for (const [name, column] of Object.entries(row.columns)) {
      const opened = table.column(name);
      expect(formatDType(opened.dtype)).toEqual(column.dtype);
      expect(opened.shape).toEqual(column.shape);
      expect(await sha256(opened.streamBytes())).toBe(column.sha256);
      const values = toJsonValues(((await opened.get()) as ArraySlice).data, opened.dtype);
      expect(values.slice(0, column.head.length)).toEqual(column.head);
      expect(values.slice(-column.tail.length)).toEqual(column.tail);
    }
    expect(await table.verify()).toMatchObject({ ok: true });
  });
});

describe("archives that must be refused", () => {
  test("an aborted write is INCOMPLETE in every call that reads", async () => {
    const archive = await openChunked(findFixture("blz-superchunk/aborted"));
    await expect(archive.readBytes(0, 4)).rejects.toMatchObject({ code: "INCOMPLETE" });
    await expect(archive.summary()).rejects.toMatchObject({ code: "INCOMPLETE" });
    expect(await archive.verify()).toMatchObject({
      ok: false,
      findings: [expect.objectContaining({ code: "INCOMPLETE" })],
    });
  });

  test("Python objects are never read", async () => {
    const archive = await openArray(findFixture("carray/bcolz-object"));
    await expect(archive.get()).rejects.toMatchObject({ code: "UNSUPPORTED" });
    await expect(archive.readBytes(0, 1)).rejects.toMatchObject({ code: "UNSUPPORTED" });
    expect(await archive.verify()).toMatchObject({
      ok: true,
      chunks: 4,
      findings: [{ severity: "warning", code: "UNSUPPORTED" }],
    });
  });

  test("the chunks of Python objects are counted alike everywhere: bcolz stores one object in each", async () => {
    const archive = await openArray(findFixture("carray/bcolz-object"));
    let listed = 0;
    let stored = 0;
    for await (const { key } of archive.listChunks()) {
      listed++;
      stored += (await archive.store.stat(key))?.size ?? 0;
    }
    expect([listed, archive.nchunks, archive.chunkLength]).toEqual([4, 4, 1]);
    expect(await archive.summary()).toMatchObject({ nchunks: 4, chunkLength: 1 });
    expect(await archive.storedBytes()).toBeGreaterThan(stored);
  });
});
