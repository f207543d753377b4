/** Rules of FORMAT.md about folders, on whole arrays and tables with one thing changed. */

import { encodeFileHeader } from "../../src/format/encode-file.ts";
import { headerOfVersion1 } from "../../src/format/header.ts";
import { type Case, type Objects, patched, testCases, testWhole } from "./damaged-archives.ts";
import { utf8 } from "./hex.ts";
import { ABC, type FileParts, makeFile, stored } from "./small-archives.ts";

const OFFSETS: FileParts = { chunks: ABC, spare: 1 };
/** An array of superchunks of ten bytes, with members and files changed. */
const array = async (
  changes: { sizes?: object | string; storage?: object; files?: Objects } = {},
): Promise<Objects> => ({
  "meta/sizes":
    typeof changes.sizes === "string"
      ? changes.sizes
      : JSON.stringify({ shape: [10], nbytes: 10, cbytes: 1, ...changes.sizes }),
  "meta/storage": JSON.stringify({ dtype: "|u1", chunklen: 4, cparams: {}, dflt: 0, ...changes.storage }),
  "meta/attributes": "{}",
  "data/__1__.bin": await makeFile(OFFSETS),
  ...changes.files,
});
const layout = { id: "a", epoch: 0, edition: 0, revision: 0, next: 2, plain: 1, superchunks: [[1, 1, 3]] };
const declared = {
  version: 1,
  superchunklen: 4,
  checksum: "None",
  columns: false,
  revision: 0,
  readFeatures: ["layout"],
};
const laidOut = (sizes: object, superchunk: object = {}): Promise<Objects> =>
  array({
    sizes: { generation: 1, layout: { ...layout, ...sizes } },
    storage: { superchunk: { ...declared, ...superchunk } },
  });

/** A carray of six bytes in two chunk files. */
const carray = (files: Objects, storage: object = {}): Objects => ({
  "meta/sizes": '{"shape": [6], "nbytes": 6, "cbytes": 1}',
  "meta/storage": JSON.stringify({
    dtype: "|u1",
    chunklen: 4,
    cparams: { quantize: 0 },
    dflt: 0,
    expectedlen: 6,
    ...storage,
  }),
  __attrs__: "{}",
  "data/__0.blp": chunkFile("abcd"),
  "data/__1.blp": chunkFile("ef"),
  ...files,
});
const chunkFile = (text: string): Uint8Array =>
  Uint8Array.from([...encodeFileHeader(headerOfVersion1(1)), ...stored(utf8(text))]);
const below = (folder: string, objects: Objects): Objects =>
  Object.fromEntries(Object.entries(objects).map(([key, value]) => [`${folder}/${key}`, value]));
const table = (rootdirs: object, columns: Objects = below("x", carray({}))): Objects => ({
  __rootdirs__: JSON.stringify(rootdirs),
  __attrs__: "{}",
  ...columns,
});

const FOLDERS: readonly Case[] = [
  [
    "[FZ-01]",
    "a superchunk of version 2",
    async () => array({ files: { "data/__1__.bin": await makeFile({ chunks: ABC, spare: 0, version: 2 }) } }),
    "BAD_FIELD",
  ],
  [
    "[FZ-02]",
    "an nbytes that shape and dtype do not imply",
    () => array({ sizes: { nbytes: 11 } }),
    "BAD_FIELD",
  ],
  ["[FZ-02]", "no shape", () => array({ sizes: { shape: undefined } }), "BAD_FIELD"],
  [
    "[FZ-02]",
    "a length that is a float",
    () => array({ sizes: '{"shape": [10.0], "nbytes": 10}' }),
    "BAD_FIELD",
  ],
  ["[FZ-03]", "no dtype", () => array({ storage: { dtype: undefined } }), "BAD_FIELD"],
  ["[FZ-03]", "no chunklen", () => array({ storage: { chunklen: undefined } }), "BAD_FIELD"],
  ["[FZ-03]", "clevel 10", () => array({ storage: { cparams: { clevel: 10 } } }), "BAD_FIELD"],
  [
    "[FZ-04]",
    "a field that leads out of the folder",
    () =>
      array({ storage: { dtype: [["..", "|u1"]] }, files: { "data/__1__.bin": "" } }).then(
        ({ "data/__1__.bin": _, ...rest }) => rest,
      ),
    "UNSAFE_PATH",
  ],
  ["[FZ-05]", "attributes that are a list", () => array({ files: { "meta/attributes": "[]" } }), "BAD_FIELD"],
  [
    "[FZ-06]",
    "a superchunk without chunks",
    async () => array({ files: { "data/__1__.bin": await makeFile({ chunks: [], spare: 0 }) } }),
    "BAD_FIELD",
  ],
  [
    "[FZ-07]",
    "fewer superchunks than chunks",
    () => array({ sizes: { shape: [40], nbytes: 40 }, files: {} }),
    "BAD_FIELD|INCOMPLETE",
  ],
  [
    "[FZ-08]",
    "more chunks than the array has",
    () => array({ sizes: { shape: [8], nbytes: 8 } }),
    "BAD_FIELD",
  ],
  [
    "[FZ-08]",
    "another chunk-size than chunklen makes",
    () => array({ storage: { chunklen: 5 } }),
    "BAD_FIELD",
  ],
  ["[FZ-09]", "another version of the declaration", () => laidOut({}, { version: 2 }), "UNSUPPORTED"],
  [
    "[FZ-09]",
    "a read feature that is not known",
    () => laidOut({}, { readFeatures: ["layout", "more"] }),
    "UNSUPPORTED",
  ],
  ["[FZ-09]", "a checksum that does not exist", () => laidOut({}, { checksum: "crc99" }), "BAD_FIELD"],
  ["[FG-01]", "a layout without an id", () => laidOut({ id: undefined }), "BAD_FIELD"],
  ["[FG-02]", "runs of other chunks", () => laidOut({ superchunks: [[1, 1, 2]] }), "BAD_FIELD"],
  [
    "[FG-02]",
    "a superchunk twice",
    () =>
      laidOut({
        superchunks: [
          [1, 1, 2],
          [1, 1, 1],
        ],
      }),
    "BAD_FIELD",
  ],
  [
    "[FG-04]",
    "a chunk that is replaced twice",
    () =>
      laidOut({
        next: 4,
        patches: [
          [2, [0]],
          [3, [0]],
        ],
      }),
    "BAD_FIELD",
  ],
  ["[FG-07]", "metadata of another revision", () => laidOut({ revision: 1 }), "BAD_FIELD"],
  ["[FG-12]", "a journal that is not there", () => laidOut({ journal: "0".repeat(64) }), "INCOMPLETE"],
  ["[FG-14]", "a next number that is in use", () => laidOut({ next: 1 }), "BAD_FIELD"],
  ["[FG-14]", "a patch of a missing chunk", () => laidOut({ next: 3, patches: [[2, [3]]] }), "BAD_FIELD"],
  [
    "[FG-16]",
    "a number that is reserved and in use",
    () => laidOut({ next: 9, writers: [["w", 1, 2, 0, 0]] }),
    "BAD_FIELD",
  ],
  ["[FG-16]", "a reservation past next", () => laidOut({ writers: [["w", 2, 2, 0, 0]] }), "BAD_FIELD"],
  [
    "[FG-16]",
    "a writer that is there twice",
    () =>
      laidOut({
        next: 9,
        writers: [
          ["w", 2, 1, 0, 0],
          ["w", 3, 1, 0, 0],
        ],
      }),
    "BAD_FIELD",
  ],
  ["[FG-16]", "a reservation without a number", () => laidOut({ writers: [["w"]] }), "BAD_FIELD"],
  [
    "[FA-02]",
    "a chunk file of two chunks",
    () => carray({ "data/__0.blp": patched(chunkFile("abcd"), 8, "02") }),
    "BAD_FIELD",
  ],
  [
    "[FA-02]",
    "a chunk file of version 3",
    () => carray({ "data/__1.blp": patched(chunkFile("ef"), 4, "03") }),
    "BAD_FIELD|TRUNCATED",
  ],
  [
    "[FA-03]",
    "a chunk file that is missing",
    () => {
      const { "data/__1.blp": _, ...rest } = carray({});
      return rest;
    },
    "INCOMPLETE",
  ],
  ["[FA-03]", "a chunk of fewer rows", () => carray({ "data/__0.blp": chunkFile("abc") }), "BAD_FIELD"],
  [
    "[FG-15]",
    "filled rows that end before they begin",
    () => carray({ "meta/sizes": '{"shape": [6], "nbytes": 6, "cbytes": 1, "filled": [[3, 1]]}' }),
    "BAD_FIELD",
  ],
  [
    "[FT-07]",
    "10,001 columns",
    () => table({ names: Array.from({ length: 10_001 }, (_, i) => `c${i}`) }),
    "LIMIT",
  ],
  ["[FT-01]", "a column that is missing", () => table({ names: ["x", "y"] }), "INCOMPLETE"],
  ["[FT-02]", "two columns with one name", () => table({ names: ["x", "x"] }), "BAD_FIELD"],
  ["[FT-02] [FN-03]", "a column outside the table", () => table({ names: ["../x"] }), "UNSAFE_PATH"],
  [
    "[FN-03]",
    "a folder that is the table's own",
    () => table({ names: ["x"], dirs: { x: "." } }),
    "UNSAFE_PATH",
  ],
  [
    "[FJ-04]",
    "a control character in a string",
    () => array({ sizes: '{"shape": [10], "x": "\u0001"}' }),
    "BAD_FIELD",
  ],
  [
    "[FJ-05]",
    "201 levels",
    () => array({ sizes: `{"shape": [10], "x": ${"[".repeat(201)}${"]".repeat(201)}}` }),
    "LIMIT",
  ],
];

/** What a reader must accept, or skip. */
const ACCEPTED: readonly Case[] = [
  [
    "[FZ-10]",
    "what a repair set aside",
    () => array({ files: { "lost+found/2026/data/__1__.bin": "junk", "lost+found/2026/meta/sizes": "{" } }),
    "ok",
  ],
  ["[FA-04]", "a file left over from a trim", () => carray({ "data/__2.blp": "junk" }), "ok"],
  [
    "[FA-07]",
    "a cbytes of another program",
    () => carray({ "meta/sizes": '{"shape": [6], "nbytes": 6, "cbytes": 123456}' }),
    "ok",
  ],
  ["[FA-10]", "a last chunk of more rows", () => carray({ "data/__1.blp": chunkFile("efgh") }), "ok"],
  [
    "[FD-05]",
    "Python objects: their values are refused, their chunks checked",
    () =>
      carray(
        { "meta/sizes": '{"shape": [2], "nbytes": 6, "cbytes": 1}', "data/__0.blp": chunkFile("abcdefgh") },
        { dtype: "|O" },
      ),
    "UNSUPPORTED|ok",
  ],
  [
    "[FT-03]",
    "columns of different lengths: read to the shortest, and reported",
    () =>
      table(
        { names: ["x", "y"] },
        {
          ...below("x", carray({})),
          ...below("y", carray({ "meta/sizes": '{"shape": [4], "nbytes": 4, "cbytes": 1}' })),
        },
      ),
    "ok|INCOMPLETE",
  ],
];

testCases([
  ["folders", FOLDERS],
  ["what is accepted", ACCEPTED],
]);

testWhole([() => array(), () => laidOut({}), () => carray({}), () => table({ names: ["x"] })]);
