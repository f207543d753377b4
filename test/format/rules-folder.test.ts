/** The rules of FORMAT.md about folders, on folders small enough to read. */
import { describe, expect, it } from "vitest";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/archive/open/open.ts";
import { parseDType } from "../../src/format/dtype.ts";
import { open as openPath } from "../../src/node/index.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { createTable } from "../../src/write/bcolz/bcolz-create.ts";
import { findFixture } from "../fixtures/manifest.ts";
import { withCounting } from "../store/counting.ts";
import { hex, rejectionOf, utf8 } from "./hex.ts";
import { ABC, jsonOf, makeFile, openFolder, stored } from "./small-archives.ts";

const uint8Sizes = (rows: number) => `{"shape": [${rows}], "nbytes": ${rows}}`;
const uint8Storage = (chunklen: number, more = "") =>
  `{"dtype": "uint8", "chunklen": ${chunklen}, "cparams": {"clevel": 5, "shuffle": false}${more}}`;
const carrayFile = (chunk: Uint8Array): Uint8Array =>
  Uint8Array.from([...hex("62 6c 70 6b 01 00 00 00 01 00 00 00 00 00 00 00"), ...chunk]);

describe("folders of superchunks", () => {
  const meta = { "meta/sizes": uint8Sizes(10), "meta/storage": uint8Storage(4) };

  it("[FZ-01] [FZ-06] superchunks are numbered consecutively, and each has as many chunks as its header gives", async () => {
    const first = await makeFile({ chunks: ABC.slice(0, 2), spare: 1 });
    const second = await makeFile({ chunks: ABC.slice(2) });
    expect(
      await jsonOf(await openFolder({ ...meta, "data/__1__.bin": first, "data/__2__.bin": second })),
    ).toEqual([...utf8("abcdefghij")]);
    const single = Object.fromEntries(
      await Promise.all(
        Array.from(
          { length: 10 },
          async (_, i) =>
            [`data/__${i + 1}__.bin`, await makeFile({ chunks: [stored(Uint8Array.of(i))] })] as const,
        ),
      ),
    );
    const many = await openFolder({
      "meta/sizes": uint8Sizes(10),
      "meta/storage": uint8Storage(1),
      ...single,
    });
    expect(await jsonOf(many)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });

  it("[FZ-01] a superchunk is of version 3 or 4, and no short chunk comes before the last", async () => {
    const header = hex("62 6c 70 6b 01 00 00 00 03 00 00 00 00 00 00 00");
    const first = Uint8Array.from([...header, ...ABC.flatMap((chunk) => [...chunk])]);
    for (const [version, file] of [
      [1, first],
      [2, await makeFile({ version: 2, chunks: ABC, spare: 0 })],
    ] as const) {
      const error = await rejectionOf(jsonOf(await openFolder({ ...meta, "data/__1__.bin": file })));
      expect([error.code, error.details]).toMatchObject(["BAD_FIELD", { field: "version", found: version }]);
    }
    for (const version of [3, 4] as const) {
      const file = await makeFile({ version, chunks: ABC, spare: 0 });
      expect(await jsonOf(await openFolder({ ...meta, "data/__1__.bin": file }))).toEqual([
        ...utf8("abcdefghij"),
      ]);
    }
    const [abcd = new Uint8Array(0), efgh = new Uint8Array(0), ij = new Uint8Array(0)] = ABC;
    const short = await makeFile({ chunks: [abcd, ij, efgh], chunkSize: 4, lastChunk: -1 });
    const array = await openFolder({ ...meta, "data/__1__.bin": short });
    expect((await rejectionOf(jsonOf(array))).code).toBe("BAD_FIELD");
  });

  it("[FZ-04] a nested dtype has a folder for each field, and their names are safe", async () => {
    const nested = (await openPath(findFixture("blz-superchunk/nested").file)) as ArrayArchive;
    expect(nested.columnNames).toEqual(["a", "b"]);
    for (const name of ["..", ".", "a/b", "a\\\\b", "a\\u0000", "C:a"]) {
      for (const fields of [`["${name}", "<i4"], ["b", "<i4"]`, `["b", "<i4"], ["${name}", "<i4"]`]) {
        const opened = openFolder({
          "meta/sizes": '{"shape": [2]}',
          "meta/storage": `{"dtype": [${fields}], "chunklen": 4}`,
          "data/b/__1__.bin": "x",
        });
        expect((await rejectionOf(opened)).code, fields).toBe("UNSAFE_PATH");
      }
    }
  });

  it("[FZ-05] user attributes are in meta/attributes", async () => {
    const array = await openFolder({
      ...meta,
      "meta/attributes": '{"n": 1}',
      "data/__1__.bin": await makeFile({ chunks: ABC }),
    });
    expect(array.attrs).toEqual({ n: 1 });
    const list = { ...meta, "meta/attributes": "[1]", "data/__1__.bin": await makeFile({ chunks: ABC }) };
    expect((await rejectionOf(openFolder(list))).code).toBe("BAD_FIELD");
  });

  it("[FZ-07] a missing superchunk is INCOMPLETE, one too many is a leftover", async () => {
    const first = await makeFile({ chunks: ABC.slice(0, 2) });
    const missing = await openFolder({ ...meta, "data/__1__.bin": first });
    expect((await rejectionOf(jsonOf(missing))).code).toBe("INCOMPLETE");
    const more = await openFolder({
      ...meta,
      "data/__1__.bin": await makeFile({ chunks: ABC }),
      "data/__2__.bin": first,
    });
    expect(await jsonOf(more)).toEqual([...utf8("abcdefghij")]);
  });

  it("[FZ-08] a superchunk's own sizes match those of the array", async () => {
    const wrong = [
      { chunks: ABC, chunkSize: 5 },
      { chunks: ABC, lastChunk: 1 },
      { chunks: [...ABC.slice(0, 2), ABC[0] ?? new Uint8Array(0), ...ABC] },
    ];
    for (const parts of wrong) {
      const array = await openFolder({ ...meta, "data/__1__.bin": await makeFile(parts) });
      expect((await rejectionOf(jsonOf(array))).code).toBe("BAD_FIELD");
    }
    const unknown = await makeFile({ chunks: ABC, chunkSize: -1, lastChunk: -1, nchunks: -1 });
    expect(await jsonOf(await openFolder({ ...meta, "data/__1__.bin": unknown }))).toEqual([
      ...utf8("abcdefghij"),
    ]);
    const short = { "meta/sizes": uint8Sizes(2), "meta/storage": uint8Storage(4) };
    expect(
      await jsonOf(
        await openFolder({ ...short, "data/__1__.bin": await makeFile({ chunks: ABC.slice(2) }) }),
      ),
    ).toEqual([...utf8("ij")]);
  });

  it("[FZ-02] nbytes in meta/sizes is what shape and dtype imply", async () => {
    const error = await rejectionOf(
      openFolder({
        ...meta,
        "meta/sizes": '{"shape": [10], "nbytes": 11}',
        "data/__1__.bin": await makeFile({ chunks: ABC }),
      }),
    );
    expect(error.details).toMatchObject({ field: "nbytes", expected: 10, found: 11 });
  });
});

describe("carrays and tables", () => {
  const files = Object.fromEntries(ABC.map((chunk, i) => [`data/__${i}.blp`, carrayFile(chunk)]));
  const meta = { "meta/sizes": uint8Sizes(10), "meta/storage": uint8Storage(4) };

  it("[FA-01] the data files distinguish a carray from a BLZ array, and without rows the metadata do", async () => {
    expect((await openFolder({ ...meta, ...files })).dialect).toBe("carray");
    expect((await openFolder({ ...meta, "data/__1__.bin": await makeFile({ chunks: ABC }) })).dialect).toBe(
      "blz-superchunk",
    );
    const bparams = { "meta/sizes": uint8Sizes(10), "meta/storage": uint8Storage(4, ', "bparams": {}') };
    expect((await openFolder({ ...bparams, __attrs__: '{"a": 1}' })).dialect).toBe("carray");
    expect(
      (await openFolder({ ...bparams, "data/__1__.bin": await makeFile({ chunks: ABC }) })).dialect,
    ).toBe("blz-superchunk");
    const declared = uint8Storage(4, ', "bparams": {}, "superchunk": {"version": 1, "superchunklen": 8}');
    const ours = { ...meta, "meta/storage": declared, ...files, __attrs__: "{}" };
    expect((await openFolder(ours)).dialect).toBe("blz-superchunk");
    const blz = await openFolder({ ...meta, "meta/attributes": '{"a": 1}' });
    expect([blz.dialect, blz.attrs]).toEqual(["blz-superchunk", { a: 1 }]);
    const empty = { "meta/sizes": uint8Sizes(0), "meta/storage": uint8Storage(4) };
    expect((await openFolder(empty)).dialect).toBe("blz-superchunk");
    expect((await openFolder({ ...empty, __attrs__: "{}" })).dialect).toBe("carray");
    expect((await openFolder({ ...empty, "meta/storage": uint8Storage(4, ', "bparams": {}') })).dialect).toBe(
      "carray",
    );
  });

  it("[FA-02] a chunk file has a version 1 header with one chunk", async () => {
    expect(await jsonOf(await openFolder({ ...meta, ...files }))).toEqual([...utf8("abcdefghij")]);
    for (const [at, byte] of [
      [0, 0x50],
      [4, 2],
      [5, 1],
      [8, 2],
    ] as const) {
      const damaged = (files["data/__0.blp"] ?? new Uint8Array(0)).slice();
      damaged[at] = byte;
      const error = await rejectionOf(
        jsonOf(await openFolder({ ...meta, ...files, "data/__0.blp": damaged })),
      );
      expect(["BAD_MAGIC", "BAD_FIELD", "TRUNCATED"]).toContain(error.code);
    }
  });

  it("[FA-03] [FA-04] the last chunk holds the rest, and files beyond it are ignored", async () => {
    const array = await openFolder({ ...meta, ...files, "data/__3.blp": "left over" });
    expect(await jsonOf(array)).toEqual([...utf8("abcdefghij")]);
    const report = await array.verify();
    expect(report.ok).toBe(true);
    expect(report.findings.map(({ code }) => code)).toEqual(["LEFTOVER"]);
    const { "data/__1.blp": _, ...missing } = files;
    expect((await rejectionOf(jsonOf(await openFolder({ ...meta, ...missing })))).code).toBe("INCOMPLETE");
  });

  it("[FT-03] [FT-04] a table is as long as its shortest column, and columns may have any chunk length", async () => {
    const folder = (name: string, objects: Readonly<Record<string, Uint8Array | string>>) =>
      Object.entries(objects).map(
        ([key, value]) => [`${name}/${key}`, typeof value === "string" ? utf8(value) : value] as const,
      );
    const short = {
      "meta/sizes": '{"shape": [3, 2]}',
      "meta/storage": uint8Storage(8),
      "data/__0.blp": carrayFile(stored(utf8("123456"))),
    };
    const store = new MemoryStore([
      ["__rootdirs__", utf8('{"names": ["x", "y"]}')],
      ...folder("x", { ...meta, ...files }),
      ...folder("y", short),
    ]);
    const table = await open(store);
    if (table.kind !== "table") throw new Error("not a table");
    expect(table.length).toBe(3);
    expect(await jsonOf(table.column("x"))).toEqual([...utf8("abc")]);
    expect(table.column("y").shape).toEqual([3, 2]);
    expect(await jsonOf(table.column("y"))).toEqual([...utf8("123456")]);
    // The same if only the longer column is opened.
    const part = await open(store, "", { columns: ["x"] });
    if (part.kind !== "table") throw new Error("not a table");
    expect([part.names, part.length]).toEqual([["x"], 3]);
    expect(await jsonOf(part.column("x"))).toEqual([...utf8("abc")]);
  });

  it("[FT-07] a table of more than 10,000 columns is refused before any of them is opened", async () => {
    const names = (count: number): string[] => Array.from({ length: count }, (_, i) => `c${i}`);
    for (const [count, code, looks] of [
      [10_000, "INCOMPLETE", true],
      [10_001, "LIMIT", false],
      [100_000, "LIMIT", false],
    ] as const) {
      const { store, counts } = withCounting(
        new MemoryStore([["__rootdirs__", utf8(JSON.stringify({ names: names(count) }))]]),
      );
      expect((await rejectionOf(open(store))).code).toBe(code);
      // After the first missing column, no further one is opened.
      expect([count, counts.reads > 10, counts.reads < 500]).toEqual([count, looks, true]);
    }
    const store = new MemoryStore();
    const columns = names(10_001).map((name) => ({
      name,
      dtype: parseDType("<i4", ""),
      data: new Uint8Array(0),
    }));
    expect((await rejectionOf(createTable(store, "", columns))).code).toBe("LIMIT");
  });

  it("[FJ-05] meta/storage of more than 500,000 values is refused without creating them", async () => {
    const fields = Array.from({ length: 200_000 }, (_, i) => `["f${i}","<i4"]`).join(",");
    const objects = { "meta/sizes": uint8Sizes(0), "meta/storage": `{"dtype": [${fields}], "chunklen": 4}` };
    const error = await rejectionOf(openFolder(objects));
    expect([error.code, error.details.field, error.details.expected]).toEqual([
      "LIMIT",
      "JSON",
      "at most 500000 values",
    ]);
  });
});
