/** Verdicts on damaged archives: the code says what is wrong, and positions are positions in the file. */

import { describe, expect, test } from "vitest";
import type { ArrayArchive, BytesArchive } from "../../src/archive/kinds/types.ts";
import { findArchives } from "../../src/archive/open/discover.ts";
import { open } from "../../src/archive/open/open.ts";
import { DIGEST_LENGTHS } from "../../src/bytes/checksum.ts";
import { repairArray } from "../../src/convert/run/repair.ts";
import { SuperchunkError } from "../../src/errors.ts";
import { parseDType } from "../../src/format/dtype.ts";
import { encodeSection } from "../../src/format/encode-file.ts";
import { encodeJournal } from "../../src/format/journal.ts";
import type { DType } from "../../src/format/types.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { compressArray } from "../../src/write/bloscpack/bloscpack-write.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { convert } from "../../src/zarr.ts";
import { loadArchives } from "../fixtures/manifest.ts";
import { rejectionOf, utf8 } from "../format/hex.ts";
import { ABC, jsonOf, makeFile, openFile, openFolder, stored, textOf } from "../format/small-archives.ts";
import { sample } from "../scope.ts";
import { loadFolder } from "./memory-archive.ts";

const readable = loadArchives().filter((row) => !row.refuse);

/** The arrays of an archive whose chunks can be listed. */
async function partsOf(store: MemoryStore, path: string): Promise<(ArrayArchive | BytesArchive)[]> {
  const archive = await open(store, path);
  if (archive.kind === "table") return archive.names.map((name) => archive.column(name));
  if (archive.kind === "bytes" || archive.columnNames.length === 0) return [archive];
  return archive.columnNames.map((name) => archive.column(name));
}

async function listOf<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}

async function readAll(store: MemoryStore, path: string): Promise<void> {
  for (const part of await partsOf(store, path)) for await (const _ of part.streamBytes());
}

describe.each(sample(readable, 30))("$path", (row) => {
  test("[FO-08] cut anywhere inside its last chunk or the digest, the file is TRUNCATED, in every dialect", async () => {
    const { store, path } = await loadFolder(row.file);
    await readAll(store, path);
    let cuts = 0;
    for (const part of await partsOf(store, path)) {
      const last = new Map<string, { offset: number; end: number }>();
      for await (const { key, offset, ctbytes, checksum } of part.listChunks()) {
        const end = offset + ctbytes + DIGEST_LENGTHS[checksum];
        if (offset > (last.get(key)?.offset ?? -1)) last.set(key, { offset, end });
      }
      const [, ...rest] = last;
      for (const [key, { offset, end }] of rest.length > 2 ? [...last].slice(-2) : last) {
        const bytes = (await store.get(key)) ?? new Uint8Array(0);
        for (const length of [
          offset + 1,
          offset + 12,
          offset + 17,
          Math.floor((offset + end) / 2),
          end - 1,
        ]) {
          if (length <= offset || length >= end) continue;
          await store.put(key, bytes.slice(0, length));
          const error = await rejectionOf(readAll(store, path));
          expect([length, error.code, error.message]).toMatchObject([
            length,
            "TRUNCATED",
            expect.any(String),
          ]);
          cuts++;
        }
        await store.put(key, bytes);
      }
    }
    expect(cuts > 0 || row.shape[0] === 0).toBe(true);
  });

  test("[FX-02] the byte that an error names is inside the file, and is the same in the message and the details", async () => {
    const { store, path } = await loadFolder(row.file);
    let seen = 0;
    for (const part of (await partsOf(store, path)).slice(0, 1)) {
      const chunks = await listOf(part.listChunks());
      const chunk = chunks[1] ?? chunks[0];
      if (chunk === undefined) continue;
      const bytes = (await store.get(chunk.key)) ?? new Uint8Array(0);
      // The header's fields, the first block's start, and the length of its first stream.
      for (const at of [0, 2, 3, 7, 11, 15, 19, 16 + 4 * Math.ceil(chunk.nbytes / chunk.blocksize) + 3]) {
        if (at >= chunk.ctbytes) continue;
        const damaged = bytes.slice();
        damaged[chunk.offset + at] = at === 3 ? 0 : 0x7f;
        await store.put(chunk.key, damaged);
        const archive = await open(store, path, { verify: false }).catch(() => undefined);
        const [again] = archive === undefined ? [] : await partsOf(store, path);
        const finding = (await again?.verify())?.findings.find(({ severity }) => severity === "error");
        if (finding?.offset === undefined) continue;
        seen++;
        expect(finding.offset).toBeGreaterThanOrEqual(chunk.offset);
        expect(finding.offset).toBeLessThan(chunk.offset + chunk.ctbytes + DIGEST_LENGTHS[chunk.checksum]);
        expect(finding.message).toContain(`at byte ${finding.offset}`);
      }
      await store.put(chunk.key, bytes);
    }
    expect(seen > 0 || row.shape[0] === 0 || row.dialect.startsWith("bloscpack")).toBe(true);
  });
});

describe("bytes that no program writes", () => {
  const cases = [
    ["Blosc version 5", 0, 5],
    ["format version of the codec", 1, 9],
    ["flag 0x08", 2, 0x18],
    ["codec 5", 2, 0xb1],
  ] as const;

  test.each(cases)(
    "[FB-02] %s is BAD_FIELD, with and without offsets, when opened or verified",
    async (_name, at, value) => {
      for (const spare of [undefined, 2]) {
        const bytes = await makeFile({ chunks: ABC, ...(spare === undefined ? {} : { spare }) });
        const offset = 32 + (spare === undefined ? 0 : 40) + 20;
        expect(bytes[offset]).toBe(2);
        // The format version of stored chunks has no meaning.
        if (at === 1) bytes[offset + 2] = 0x10;
        bytes[offset + at] = value;
        const error = await rejectionOf(textOf(bytes));
        expect(error.code).toBe("BAD_FIELD");
        expect(error.details).toMatchObject({ path: "memory:a.blp", chunk: 1, offset: offset + at });
        expect(error.message).toContain(`at byte ${offset + at} `);
      }
    },
  );

  test("[FR-01] [F1-04] a journal next to a file is not an archive, and opening it names the file it belongs to", async () => {
    const journal = await encodeJournal([{ offset: 60, bytes: utf8("x") }]);
    const store = new MemoryStore([
      ["in/a.blp", await makeFile({ chunks: ABC })],
      ["in/a.blp.journal", journal],
    ]);
    const found = await listOf(findArchives(store, "in"));
    expect(found).toEqual([{ path: "in/a.blp", kind: "file" }]);
    const error = await rejectionOf(open(store, "in/a.blp.journal"));
    expect(error).toMatchObject({ code: "UNSUPPORTED", details: { expected: "memory:in/a.blp" } });
    expect(error.message).toContain("is the journal of a change in place");
  });

  test("a folder whose path is too long, or that may not be read, is found and does not end the search", async () => {
    for (const code of ["LIMIT", "IO"] as const) {
      const store = new MemoryStore([
        ["a.blp", await makeFile({ chunks: ABC })],
        ["deep/b.blp", await makeFile({ chunks: ABC })],
        ["z.blp", await makeFile({ chunks: ABC })],
      ]);
      const list = store.list.bind(store);
      store.list = (path, options) => {
        if (path === "deep") throw new SuperchunkError(code, "the folder cannot be listed", { path });
        return list(path, options);
      };
      expect(await listOf(findArchives(store))).toEqual([
        { path: "a.blp", kind: "file" },
        { path: "deep", kind: "folder" },
        { path: "z.blp", kind: "file" },
      ]);
    }
  });

  test("[F1.3-02] without offsets, bytes 24 to 31 may have any value", async () => {
    for (const last of [-1n, -(2n ** 63n), 2n ** 63n - 1n]) {
      const bytes = await makeFile({ chunks: ABC });
      new DataView(bytes.buffer).setBigInt64(24, last, true);
      expect(await textOf(bytes)).toBe("abcdefghij");
      const counted = await makeFile({ chunks: ABC, spare: 1 });
      new DataView(counted.buffer).setBigInt64(24, last, true);
      expect((await rejectionOf(textOf(counted))).code).toMatch(/BAD_FIELD|TRUNCATED/);
    }
  });

  test("[FX-02] JSON errors in a metadata section name bytes of the file", async () => {
    const plain = await makeFile({
      chunks: ABC,
      section: await encodeSection({ unit: "m" }, { codec: "none", checksum: "None" }),
    });
    plain[32 + 32] = 0x21; // "!" instead of "{"
    const error = await rejectionOf(openFile(plain));
    expect(error).toMatchObject({ code: "BAD_FIELD", details: { offset: 64 } });
    expect(error.message).toContain("not JSON at byte 64");
  });
});

describe("metadata of an array of superchunks", () => {
  const layout = {
    id: "a1",
    epoch: 0,
    edition: 0,
    revision: 0,
    next: 1000000002,
    plain: 1,
    superchunks: [[1, 1, 3]],
    patches: [[1000000001, [1]]],
  };
  const declared = { version: 1, superchunklen: 4, checksum: "None", columns: false, revision: 0 };

  async function openWith(
    sizes: object | string,
    superchunk: object = { ...declared, readFeatures: ["layout"], writeFeatures: [] },
  ): Promise<string> {
    const storage = { dtype: "|u1", chunklen: 4, cparams: {}, dflt: 0, expectedlen: 10, superchunk };
    const array = await openFolder({
      "meta/sizes": typeof sizes === "string" ? sizes : JSON.stringify(sizes),
      "meta/storage": JSON.stringify(storage),
      "data/__1__.bin": await makeFile({ chunks: ABC, spare: 1 }),
      "data/__1000000001__.bin": await makeFile({ chunks: [stored(utf8("EFGH"))], spare: 3 }),
    });
    return new TextDecoder().decode(await array.readBytes(0, array.nbytes));
  }
  const sizesOf = (changes: object): object => ({
    shape: [10],
    generation: 3,
    layout: { ...layout, ...changes },
  });

  test("[FG-14] a next number that is in use, and a patch for a chunk after the last one, are BAD_FIELD", async () => {
    expect(await openWith(sizesOf({}))).toBe("abcdEFGHij");
    for (const [changes, field] of [
      [{ next: 1000000001 }, "layout.next"],
      [{ next: 1 }, "layout.next"],
      [{ patches: [[1000000001, [3]]] }, "layout.patches"],
    ] as const)
      expect(await rejectionOf(openWith(sizesOf(changes)))).toMatchObject({
        code: "BAD_FIELD",
        details: { field },
      });
  });

  test("[FZ-02] [FG-01] a length or a number written as a float is BAD_FIELD", async () => {
    const text = JSON.stringify(sizesOf({}));
    for (const [from, to] of [
      ["[10]", "[10.0]"],
      ['"generation":3', '"generation":3.0'],
      ['"next":1000000002', '"next":1000000002.0'],
      ["[[1,1,3]]", "[[1.0,1,3]]"],
    ] as const) {
      expect(text).toContain(from);
      expect((await rejectionOf(openWith(text.replace(from, to)))).code).toBe("BAD_FIELD");
    }
  });

  test("[FZ-09] an unknown checksum is BAD_FIELD, and so are members of other types", async () => {
    for (const change of [
      { checksum: "crc99" },
      { columns: 1 },
      { revision: "0" },
      { readFeatures: "layout" },
    ]) {
      const superchunk = { ...declared, readFeatures: ["layout"], writeFeatures: [], ...change };
      expect((await rejectionOf(openWith(sizesOf({}), superchunk))).code).toBe("BAD_FIELD");
    }
  });
});

describe("[FD-05] Python objects are checked although they are never read", () => {
  const row = loadArchives().find(({ path }) => path === "carray/bcolz-object");

  async function verify(store: MemoryStore, path: string): Promise<[boolean, ...string[]]> {
    const report = await (await open(store, path)).verify();
    expect(report.unchecked).toMatch(/pickles/);
    const errors = report.findings.filter(({ severity }) => severity === "error");
    return [report.ok, ...errors.map(({ code, chunk }) => `${code} ${chunk}`)];
  }

  test("every file of a carray counts: missing, cut, damaged or of another kind", async () => {
    const { store, path } = await loadFolder(row?.file ?? "");
    expect(await verify(store, path)).toEqual([true]);
    const chunk = (await store.get("data/__2.blp")) ?? new Uint8Array(0);
    await store.delete("data/__2.blp");
    expect(await verify(store, path)).toEqual([false, "INCOMPLETE 2"]);
    await store.put("data/__2.blp", chunk.slice(0, -1));
    expect(await verify(store, path)).toEqual([false, "TRUNCATED 2"]);
    await store.put("data/__2.blp", chunk.with(20, 0x55));
    expect(await verify(store, path)).toEqual([false, "BAD_FIELD 2"]);
    await store.put("data/__2.blp", chunk.with(8, 2));
    expect(await verify(store, path)).toEqual([false, "BAD_FIELD undefined"]);
  });

  test("the digests of superchunks count too", async () => {
    const chunks = [stored(utf8("one pickle")), stored(utf8("two"))];
    const parts = { chunks, spare: 0, checksum: "crc32", chunkSize: -1, lastChunk: -1 } as const;
    const store = new MemoryStore([
      ["meta/sizes", utf8('{"shape": [4], "nbytes": 13}')],
      ["meta/storage", utf8('{"dtype": "object", "chunklen": 2, "cparams": {}, "dflt": 0}')],
      ["meta/attributes", utf8("{}")],
      ["data/__1__.bin", await makeFile(parts)],
    ]);
    expect(await verify(store, "")).toEqual([true]);
    const bytes = (await store.get("data/__1__.bin")) ?? new Uint8Array(0);
    await store.put("data/__1__.bin", bytes.with(bytes.length - 1, 0));
    expect(await verify(store, "")).toEqual([false, "CHECKSUM_MISMATCH 1"]);
    await store.delete("data/__1__.bin");
    expect((await verify(store, ""))[0]).toBe(false);
  });
});

describe("legal archives that were once reported as damaged", () => {
  const words = ["abc", "defgh", "", "i", "jklmno"];
  const text = words.join("");

  for (const spare of [undefined, 2])
    test(`[FS-04] chunks of unequal lengths are read, ${spare === undefined ? "walked" : "by their offsets"}`, async () => {
      const chunks = words.map((word) => stored(utf8(word)));
      const parts = {
        chunks,
        chunkSize: -1,
        checksum: "crc32",
        ...(spare === undefined ? {} : { spare }),
      } as const;
      for (const bytes of [await makeFile(parts), await makeFile({ ...parts, lastChunk: -1 })]) {
        const archive = await openFile(bytes);
        expect(archive).toMatchObject({ nbytes: text.length, nchunks: 5 });
        expect([...(archive.chunkStarts ?? [])]).toEqual([0, 3, 8, 8, 9, 15]);
        const report = await archive.verify();
        expect(report).toMatchObject({ ok: true, chunks: 5, nbytes: 15, digests: 5, findings: [] });
        for (let start = 0; start <= text.length; start++)
          for (let end = start; end <= text.length; end++)
            expect(new TextDecoder().decode(await archive.readBytes(start, end))).toBe(
              text.slice(start, end),
            );
        expect((await listOf(archive.listChunks())).map(({ nbytes }) => nbytes)).toEqual([3, 5, 0, 1, 6]);
        let streamed = "";
        for await (const piece of archive.streamBytes()) streamed += new TextDecoder().decode(piece);
        expect(streamed).toBe(text);
      }
    });

  test("[FS-04] a repair of unequal chunks says that they are unequal, and not that they are out of order", async () => {
    const store = new MemoryStore();
    const chunks = ["a".repeat(40), "b".repeat(9), "c".repeat(40)].map((word) => stored(utf8(word)));
    await store.put("a.blp", await makeFile({ chunks, chunkSize: -1 }));
    const { problems } = await repairArray(store, "a.blp", { dryRun: true });
    expect(problems).toEqual([expect.stringContaining("the chunks have unequal lengths")]);
  });

  test("[FS-04] if chunk-size gives a length, another length is still BAD_FIELD", async () => {
    const chunks = words.map((word) => stored(utf8(word)));
    expect((await rejectionOf(textOf(await makeFile({ chunks, chunkSize: 6 })))).code).toBe("BAD_FIELD");
  });

  test("[FS-04] an array of unequal chunks becomes Zarr: its chunks are copied into a rectilinear grid or cut again", async () => {
    const values = [[1, 2], [3, 4, 5, 6], [7]];
    const chunks = values.map((list) => stored(Uint8Array.from(list)));
    const section = await encodeSection({ dtype: "'|u1'", shape: [7], order: "C", container: "numpy" });
    const bytes = await makeFile({ chunks, chunkSize: -1, spare: 1, section });
    const array = await openFile(bytes);
    if (array.kind !== "array") throw new Error(array.kind);
    for (const grid of ["regular", "rectilinear"] as const) {
      const store = new MemoryStore();
      const report = await convert(array as ArrayArchive, { store, path: "z" }, { grid });
      const zarr = await openZarrArray(store, "z");
      expect(await zarr.getBytes()).toEqual(Uint8Array.from(values.flat()));
      expect(report.chunksCopied).toBe(grid === "rectilinear" ? 3 : 0);
    }
  });

  async function nested(): Promise<MemoryStore> {
    const file = async (
      list: readonly (readonly number[])[],
      ctor: (values: readonly number[]) => ArrayBufferView,
    ) =>
      makeFile({
        chunks: list.map((values) => stored(new Uint8Array(ctor(values).buffer as ArrayBuffer), 1)),
        spare: 0,
      });
    const dtype = [
      ["id", "<i4"],
      [
        "group",
        [
          ["x", "<i2"],
          ["deep", [["y", "<f8"]]],
        ],
      ],
    ];
    const i4 = (values: readonly number[]) => Int32Array.from(values);
    const i2 = (values: readonly number[]) => Int16Array.from(values);
    const f8 = (values: readonly number[]) => Float64Array.from(values);
    return new MemoryStore([
      ["meta/sizes", utf8('{"shape": [3], "nbytes": 42, "cbytes": 100}')],
      ["meta/storage", utf8(JSON.stringify({ dtype, chunklen: 2, cparams: {}, dflt: 0, expectedlen: 3 }))],
      ["meta/attributes", utf8("{}")],
      ["data/id/__1__.bin", await file([[1, 2], [3]], i4)],
      ["data/group/x/__1__.bin", await file([[10, 20], [30]], i2)],
      ["data/group/deep/y/__1__.bin", await file([[0.5, 1.5], [2.5]], f8)],
    ]);
  }

  test("[FZ-04] a nested dtype inside a nested dtype: folders inside folders are found, listed, verified and read", async () => {
    const store = await nested();
    expect(await listOf(findArchives(store, ""))).toMatchObject([{ path: "", kind: "folder" }]);
    const archive = (await open(store, "")) as ArrayArchive;
    expect(archive.columnNames).toEqual(["id", "group"]);
    expect(archive.column("group").columnNames).toEqual(["x", "deep"]);
    expect(await jsonOf(archive.column("group/deep/y"))).toEqual([0.5, 1.5, 2.5]);
    expect(await jsonOf(archive)).toEqual([
      [1, [10, [0.5]]],
      [2, [20, [1.5]]],
      [3, [30, [2.5]]],
    ]);
    expect(await archive.verify()).toMatchObject({ ok: true, chunks: 6, nbytes: 42 });
    await store.delete("data/group/deep/y/__1__.bin");
    const { findings } = await (await open(store, "")).verify();
    expect(findings.filter(({ severity }) => severity === "error")).toMatchObject([{ code: "INCOMPLETE" }]);
  });

  test("[FZ-04] becomes a group inside a group in Zarr", async () => {
    const store = new MemoryStore();
    await convert((await open(await nested(), "")) as ArrayArchive, { store, path: "z" }, {});
    const zarr = await openZarrArray(store, "z/group/deep/y");
    expect(new Float64Array((await zarr.getBytes()).slice().buffer)).toEqual(Float64Array.of(0.5, 1.5, 2.5));
  });
});

test("a typesize that is not the width of the items is a warning, unless text is shuffled by characters, as bcolz does", async () => {
  const store = new MemoryStore();
  const codesFor = async (dtype: DType, itemTypesize: number): Promise<string[]> => {
    const array = { data: new Uint8Array(dtype.itemSize * 100), dtype, shape: [100] };
    await compressArray(array, store, "array.blp", { typesize: itemTypesize, force: true });
    const { findings } = await ((await open(store, "array.blp")) as ArrayArchive).verify();
    return findings.map(({ severity, code }) => `${severity} ${code}`);
  };

  expect(await codesFor(parseDType("<i4", "dtype"), 4)).toEqual([]);
  expect(await codesFor(parseDType("<i4", "dtype"), 1)).toEqual(["warning TYPESIZE"]);
  expect(await codesFor(parseDType("|S5", "dtype"), 5)).toEqual([]);
  expect(await codesFor(parseDType("|S5", "dtype"), 1)).toEqual([]);
  expect(await codesFor(parseDType("|S5", "dtype"), 2)).toEqual(["warning TYPESIZE"]);
  expect(await codesFor(parseDType("<U3", "dtype"), 4)).toEqual([]);
  expect(await codesFor(parseDType("<U3", "dtype"), 1)).toEqual(["warning TYPESIZE"]);
});
