/** Every archive of the corpus is converted into every archive format, and read again: the values are the same. */

import { describe, expect, test } from "vitest";
import type { Archive, ArrayArchive } from "../../../src/archive/kinds/types.ts";
import { open } from "../../../src/archive/open/open.ts";
import { formatDType } from "../../../src/format/dtype.ts";
import { decodeNpyHeader, npyHeaderLength } from "../../../src/format/npy.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import { type ConvertFormat, convert } from "../../../src/zarr.ts";
import { loadArchives } from "../../fixtures/manifest.ts";
import { isExhaustive } from "../../scope.ts";
import { openFixture, sha256 } from "../to-zarr/read-back.ts";

const FORMATS: readonly ConvertFormat[] = ["npy", "bloscpack", "bcolz", "blz"];
const rows = loadArchives().filter(({ refuse }) => !refuse);

/** The values of an archive, by column. */
async function valuesOf(archive: Archive): Promise<Record<string, string>> {
  if (archive.kind === "bytes") return { "": sha256(await archive.readBytes(0, archive.nbytes)) };
  if (archive.kind === "array" && (archive.columnNames.length === 0 || archive.shape.length !== 1))
    return { "": sha256(await archive.getBytes()) };
  const names = archive.kind === "table" ? archive.names : archive.columnNames;
  const found: Record<string, string> = {};
  for (const name of names) found[name] = sha256(await archive.column(name).getBytes());
  return found;
}

/** Formats that have no such thing, and the error that says so. */
function whyNot(archive: Archive, format: ConvertFormat): string | undefined {
  if (archive.kind !== "array") return undefined;
  if (archive.shape.length === 0 && (format === "bcolz" || format === "blz")) return "without dimensions";
  if (format === "bcolz" && archive.dtype.kind === "struct" && archive.columnNames.length === 0)
    return "structured dtype";
  return undefined;
}

async function readNpy(store: MemoryStore, key: string): Promise<{ hash: string; shape: readonly number[] }> {
  const bytes = (await store.get(key)) ?? new Uint8Array(0);
  const length = npyHeaderLength(bytes, key);
  const { shape } = decodeNpyHeader(bytes, key);
  return { hash: sha256(bytes.subarray(length)), shape };
}

describe.each(rows.map(({ path }, i) => ({ path, i })))("$path", ({ path, i }) => {
  test.each(FORMATS.filter((_, k) => isExhaustive || (i + k) % 2 === 0))(
    "keeps every value as %s",
    async (format) => {
      const source = await openFixture(path);
      const store = new MemoryStore();
      const isTable = source.kind === "table";
      const key = isTable || format === "bcolz" || format === "blz" ? "out" : "out.file";
      const refusal = whyNot(source, format);
      if (refusal !== undefined) {
        await expect(convert(source, { store, path: key }, { to: format })).rejects.toMatchObject({
          code: "UNSUPPORTED",
          message: expect.stringContaining(refusal) as string,
        });
        const left: unknown[] = [];
        for await (const entry of store.list("")) left.push(entry);
        expect(left).toEqual([]);
        return;
      }
      const result = await convert(source, { store, path: key }, { to: format });
      expect(result.nbytes).toBe(source.nbytes);
      const expected = await valuesOf(source);
      if (format === "npy") {
        for (const [name, hash] of isTable ? Object.entries(expected) : [["", sha256(await bytesOf(source))]])
          expect((await readNpy(store, name === "" ? key : `${key}/${name}.npy`)).hash).toBe(hash);
        return;
      }
      if (format === "bloscpack" && isTable) {
        for (const [name, hash] of Object.entries(expected))
          expect(await valuesOf(await open(store, `${key}/${name}.blp`))).toEqual({ "": hash });
        return;
      }
      const back = await open(store, key);
      if (format === "bloscpack") {
        expect(sha256(await bytesOf(back))).toBe(sha256(await bytesOf(source)));
      } else expect(await valuesOf(back)).toEqual(expected);
      expect((await back.verify()).ok).toBe(true);
      if (source.kind === "bytes") return;
      expect(back.attrs).toEqual(source.attrs);
      if (source.kind === "array" && back.kind === "array") compareArrays(source, back, format);
    },
  );
});

async function bytesOf(archive: Archive): Promise<Uint8Array> {
  if (archive.kind === "bytes") return archive.readBytes(0, archive.nbytes);
  if (archive.kind === "array") return archive.getBytes();
  throw new TypeError(archive.kind);
}

function compareArrays(source: ArrayArchive, back: ArrayArchive, format: ConvertFormat): void {
  expect(back.shape).toEqual(source.shape);
  if (source.columnNames.length === 0) expect(formatDType(back.dtype)).toEqual(formatDType(source.dtype));
  if (format !== "bloscpack" && source.fillValue !== undefined && source.columnNames.length === 0)
    expect(back.fillValue).toEqual(
      // blz 0.6 keeps one per row of a 2-D array.
      format === "blz" && Array.isArray(source.fillValue) ? source.fillValue[0] : source.fillValue,
    );
}

test("chunks are copied byte for byte if the cuts are the same", async () => {
  const source = await openFixture("carray/blz-f8");
  if (source.kind !== "array") throw new TypeError(source.kind);
  const chunks: string[] = [];
  for await (const { bytes } of source.encodedChunks()) chunks.push(sha256(bytes));
  for (const format of ["bloscpack", "bcolz", "blz"] as const) {
    const store = new MemoryStore();
    const result = await convert(source, { store, path: "out" }, { to: format });
    expect(result).toMatchObject({ chunksCopied: chunks.length, chunksRecoded: 0 });
    const back = await open(store, "out");
    if (back.kind !== "array") throw new TypeError(back.kind);
    const copied: string[] = [];
    for await (const { bytes } of back.encodedChunks()) copied.push(sha256(bytes));
    expect(copied).toEqual(chunks);
  }
});

test("an existing destination is kept, unless overwrite is set", async () => {
  const source = await openFixture("carray/blz-f8");
  for (const format of FORMATS) {
    const store = new MemoryStore();
    await convert(source, { store, path: "out" }, { to: format });
    await expect(convert(source, { store, path: "out" }, { to: format })).rejects.toMatchObject({
      code: "CONFLICT",
    });
    await convert(source, { store, path: "out" }, { to: format, overwrite: true });
    if (format !== "npy") expect(await valuesOf(await open(store, "out"))).toEqual(await valuesOf(source));
  }
});

test("a source that proves to be damaged leaves nothing behind", async () => {
  const source = await openFixture("carray/blz-f8");
  if (source.kind !== "array") throw new TypeError(source.kind);
  const damaged = new Proxy(source, {
    get: (object, name) => {
      const value: unknown = Reflect.get(object, name, object);
      if (name === "encodedChunks")
        return async function* () {
          let left = 3;
          for await (const chunk of source.encodedChunks()) {
            if (left-- === 0) throw new Error("damaged");
            yield chunk;
          }
        };
      if (name === "streamBytes") return () => Promise.reject(new Error("damaged"));
      return typeof value === "function" ? (value.bind(object) as unknown) : value;
    },
  });
  for (const format of ["bloscpack", "bcolz", "blz"] as const) {
    const store = new MemoryStore();
    await expect(convert(damaged, { store, path: "out" }, { to: format })).rejects.toThrow("damaged");
    await expect(open(store, "out")).rejects.toMatchObject({ code: "NOT_FOUND" });
  }
});
