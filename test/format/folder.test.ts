import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { isSuperchunkError } from "../../src/errors.ts";
import { parseRootdirs, parseSizes, parseStorage } from "../../src/format/folder.ts";
import { loadFixtures } from "../fixtures/manifest.ts";
import { errorOf, utf8 } from "./hex.ts";

const sizes = (text: string) => parseSizes(utf8(text), "meta/sizes");
const storage = (text: string) => parseStorage(utf8(text), "meta/storage");
const rootdirs = (text: string) => parseRootdirs(utf8(text), "__rootdirs__");

describe("the files of real archives", () => {
  const arrays = loadFixtures("carray", "blz-superchunk").filter(({ kind }) => kind === "array");
  const tables = loadFixtures("ctable");

  it("there are arrays and tables", () => {
    expect(arrays.length).toBeGreaterThan(20);
    expect(tables.length).toBeGreaterThan(3);
  });

  it.each(arrays.map((fixture) => [fixture.path, fixture] as const))(
    "[FA-05] [FA-06] sizes and storage of %s match the manifest",
    (path, fixture) => {
      const found = parseSizes(new Uint8Array(readFileSync(join(fixture.file, "meta/sizes"))), path);
      const kept = parseStorage(new Uint8Array(readFileSync(join(fixture.file, "meta/storage"))), path);
      expect(found.shape).toEqual(fixture.shape);
      expect(kept.chunklen).toBe(fixture.chunks["chunklen"]);
      expect(kept.cparams.clevel).toBe(fixture.chunks["clevel"]);
      expect(kept.cparams.shuffle).toBe(fixture.chunks["shuffle"]);
      if (kept.cparams.cname !== undefined) expect(kept.cparams.cname).toBe(fixture.chunks["cname"]);
    },
  );

  it.each(tables.map((fixture) => [fixture.path, fixture] as const))(
    "[FT-01] %s has the columns that the manifest lists",
    (path, fixture) => {
      const found = parseRootdirs(new Uint8Array(readFileSync(join(fixture.file, "__rootdirs__"))), path);
      expect(found.names).toEqual(fixture.kind === "table" ? fixture.names : []);
      for (const name of found.names) expect(found.dirs[name]).toBe(name);
    },
  );

  it("each file cut at any byte is refused with an error of this library", () => {
    const cut = [
      "carray/blz-i2-2d/meta/sizes",
      "carray/blz-i2-2d/meta/storage",
      "ctable/blz-btable/__rootdirs__",
    ];
    const [first] = arrays;
    const root = first === undefined ? "" : first.file.slice(0, -first.path.length);
    for (const path of cut) {
      const bytes = new Uint8Array(readFileSync(join(root, path)));
      const parse = path.endsWith("sizes")
        ? parseSizes
        : path.endsWith("storage")
          ? parseStorage
          : parseRootdirs;
      expect(parse(bytes, path)).toBeDefined();
      const end = bytes.lastIndexOf(0x7d);
      for (let length = 0; length < end; length++) {
        expect(isSuperchunkError(errorOf(() => parse(bytes.subarray(0, length), path)))).toBe(true);
      }
    }
  });
});

describe("sizes", () => {
  it("[FA-07] nbytes and cbytes may be missing, and cbytes is not trusted", () => {
    expect(sizes('{"shape": [3, 4]}')).toEqual({ shape: [3, 4], raw: { shape: [3, 4] } });
    expect(sizes('{"shape": [0], "nbytes": 0, "cbytes": 64}')).toMatchObject({ nbytes: 0, cbytes: 64 });
  });

  it.each([
    '{"shape": []}',
    '{"shape": [-1]}',
    '{"shape": [1.5]}',
    '{"shape": 3}',
    "{}",
    "[]",
    "3",
    '{"shape": [4611686018427387904]}',
    '{"shape": [9007199254740991, 2]}',
    '{"shape": [3], "nbytes": -1}',
    '{"shape": [3], "nbytes": "12"}',
    '{"shape": [NaN]}',
    `{"shape": [${Array.from({ length: 65 }, () => 1)}]}`,
  ])("%s is BAD_FIELD", (text) => {
    const error = errorOf(() => sizes(text));
    expect(error.code).toBe("BAD_FIELD");
    expect(error.details.path).toBe("meta/sizes");
  });

  it("[FZ-02] additional members are kept unchanged", () => {
    expect(sizes('{"shape": [3], "generation": 7}').raw).toEqual({ shape: [3], generation: 7 });
  });
});

describe("storage", () => {
  it("[FZ-03] bparams of blz and both spellings of shuffle are understood", () => {
    const spelled = (shuffle: string) =>
      storage(`{"dtype": "<i4", "chunklen": 8, "bparams": {"clevel": 5, "shuffle": ${shuffle}}}`).cparams;
    expect(spelled("true")).toEqual({ clevel: 5, shuffle: "shuffle" });
    expect(spelled("false")).toEqual({ clevel: 5, shuffle: "noshuffle" });
    expect([spelled("0"), spelled("1"), spelled("2")].map(({ shuffle }) => shuffle)).toEqual([
      "noshuffle",
      "shuffle",
      "bitshuffle",
    ]);
    expect(storage('{"dtype": "<i4", "chunklen": 8}')).toMatchObject({ cparams: {}, dflt: null });
  });

  it("[FZ-09] the declaration of additions is read, and unknown read features and versions are refused", () => {
    const declared = (members: string) =>
      storage(`{"dtype": "<i4", "chunklen": 8, "superchunk": {"superchunklen": 16, ${members}}}`);
    expect(declared('"version": 1, "readFeatures": ["layout"], "writeFeatures": ["x"]').superchunk).toEqual({
      version: 1,
      superchunklen: 16,
      readFeatures: ["layout"],
      writeFeatures: ["x"],
    });
    for (const members of [
      '"version": 1, "readFeatures": ["of-tomorrow"]',
      '"version": 2',
      '"version": 2, "readFeatures": 1',
    ]) {
      const error = errorOf(() => declared(members));
      expect(error.code).toBe("UNSUPPORTED");
      expect(error.message).toContain("Look for a newer superchunk");
    }
    expect(storage('{"dtype": "<i4", "chunklen": 8}').superchunk).toBeUndefined();
  });

  it.each([
    '{"chunklen": 8}',
    '{"dtype": "<i4"}',
    '{"dtype": "<i4", "chunklen": 0}',
    '{"dtype": "<i4", "chunklen": -1}',
    '{"dtype": "<i4", "chunklen": 4611686018427387904}',
    '{"dtype": "<i4", "chunklen": 8, "cparams": 5}',
    '{"dtype": "<i4", "chunklen": 8, "cparams": {"clevel": 10}}',
    '{"dtype": "<i4", "chunklen": 8, "cparams": {"shuffle": 3}}',
    '{"dtype": "<i4", "chunklen": 8, "cparams": {"cname": 3}}',
    '{"dtype": "<i4", "chunklen": 8, "superchunk": {"version": 1}}',
    '{"dtype": "<i4", "chunklen": 8, "superchunk": {"version": 1, "superchunklen": 0}}',
    '{"dtype": "<i4", "chunklen": 8, "superchunk": {"version": 1, "superchunklen": 2, "readFeatures": "x"}}',
  ])("%s is BAD_FIELD", (text) => {
    expect(errorOf(() => storage(text)).code).toBe("BAD_FIELD");
  });
});

describe("rootdirs", () => {
  it("[FT-01] names map to folders of the same name unless dirs gives others", () => {
    const found = rootdirs('{"names": ["x", "__proto__"], "dirs": {"x": "column-x"}}');
    expect(found.names).toEqual(["x", "__proto__"]);
    expect({ ...found.dirs }["x"]).toBe("column-x");
    expect(Object.keys(found.dirs)).toEqual(["x", "__proto__"]);
  });

  it("[FT-01] a path that ends in the column's name, as carray stored it, means the folder of that name", () => {
    const paths = ["mydir/x", "/home/me/mydir/x", "../mydir/x", "C:\\\\tables\\\\x"];
    for (const stored of paths)
      expect({ ...rootdirs(`{"names": ["x"], "dirs": {"x": "${stored}"}}`).dirs }).toEqual({ x: "x" });
    for (const stored of ["mydir/xx", "xx", "mydir/x/"]) {
      const found = (): unknown => rootdirs(`{"names": ["x"], "dirs": {"x": "${stored}"}}`).dirs["x"];
      if (stored === "xx") expect(found()).toBe("xx");
      else expect(errorOf(found).code).toBe("UNSAFE_PATH");
    }
  });

  it.each(["", ".", "..", "a/b", "../y", "/etc", "a\\\\b", "a\\u0000", "C:x"])(
    '[FT-02] [FN-03] the name or folder "%s" is UNSAFE_PATH',
    (name) => {
      for (const text of [`{"names": ["${name}"]}`, `{"names": ["x"], "dirs": {"x": "${name}"}}`]) {
        const error = errorOf(() => rootdirs(text));
        expect(error.code).toBe("UNSAFE_PATH");
        expect(error.details.path).toBe("__rootdirs__");
      }
    },
  );

  it.each([
    '{"names": ["x", "x"]}',
    '{"names": ["x", "y"], "dirs": {"y": "x"}}',
    '{"names": "x"}',
    '{"names": [1]}',
    '{"names": ["x"], "dirs": []}',
    '{"names": ["x"], "dirs": {"x": 1}}',
    "{}",
  ])("[FT-02] %s is BAD_FIELD", (text) => {
    expect(errorOf(() => rootdirs(text)).code).toBe("BAD_FIELD");
  });
});
