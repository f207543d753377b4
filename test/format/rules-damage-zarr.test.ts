/** Rules of FORMAT.md about Zarr and references, on whole nodes with one thing changed. */
import { gzipSync } from "node:zlib";
import { crc32c } from "../../src/bytes/checksum.ts";
import { encodeShardIndex } from "../../src/zarr/read/shard-index.ts";
import { type Case, type Objects, patched, testCases, testWhole } from "./damaged-archives.ts";
import { hex, utf8 } from "./hex.ts";
import { stored } from "./small-archives.ts";

const BYTES = { name: "bytes" };
const LITTLE = { name: "bytes", configuration: { endian: "little" } };
const CRC = { name: "crc32c" };
const BLOSC = {
  name: "blosc",
  configuration: { cname: "lz4", clevel: 5, shuffle: "noshuffle", typesize: 1, blocksize: 0 },
};
const join = (...parts: readonly Uint8Array[]): Uint8Array =>
  Uint8Array.from(parts.flatMap((part) => [...part]));

/** The document of eight bytes in chunks of four, with other members. */
const document = (members: object = {}): string =>
  JSON.stringify({
    zarr_format: 3,
    node_type: "array",
    shape: [8],
    data_type: "uint8",
    chunk_grid: { name: "regular", configuration: { chunk_shape: [4] } },
    chunk_key_encoding: { name: "default" },
    fill_value: 0,
    codecs: [BYTES],
    ...members,
  });
const plain = (members: object = {}, files: Objects = {}): Objects => ({
  "zarr.json": document(members),
  "c/0": utf8("abcd"),
  "c/1": utf8("efgh"),
  ...files,
});

const sharding = (configuration: object = {}): object => ({
  codecs: [
    {
      name: "sharding_indexed",
      configuration: { chunk_shape: [2], codecs: [BYTES], index_codecs: [LITTLE, CRC], ...configuration },
    },
  ],
});
const ENTRIES = [
  { offset: 0, nbytes: 2 },
  { offset: 2, nbytes: 2 },
];
const shard = async (entries: Parameters<typeof encodeShardIndex>[0] = ENTRIES): Promise<Uint8Array> =>
  join(utf8("abcd"), await encodeShardIndex(entries));
/** Two shards, of which the first is changed. */
const sharded = async (
  change: (shard: Uint8Array) => Uint8Array = (bytes) => bytes,
  entries: Parameters<typeof encodeShardIndex>[0] = ENTRIES,
  configuration: object = {},
): Promise<Objects> => ({
  "zarr.json": document(sharding(configuration)),
  "c/0": change(await shard(entries)),
  "c/1": await shard(),
});
/** A shard with a half-absent entry, and a valid crc32c. */
const halfAbsent = async (): Promise<Objects> => {
  const bytes = patched(await shard(), 4, "ff ff ff ff ff ff ff ff");
  const sum = new DataView(new ArrayBuffer(4));
  sum.setUint32(0, await crc32c(bytes.subarray(4, 36)), true);
  bytes.set(new Uint8Array(sum.buffer), 36);
  return sharded(() => bytes);
};

const version2 = (members: object, chunk: Uint8Array): Objects => ({
  ".zarray": JSON.stringify({
    ...{ zarr_format: 2, shape: [4], chunks: [4], dtype: "|u1", fill_value: 0, order: "C" },
    ...{ filters: null, compressor: null, ...members },
  }),
  "0": chunk,
});

/** One value of variable length. */
const TEXT = { shape: [1], chunks: [1], fill_value: "", filters: [{ id: "vlen-utf8" }] };

const PROTOCOL = "https://purl.org/zarr/spec/protocol/core/3.0";
/** The older transformer's hierarchy with one array of eight bytes, four chunks of two in each shard. */
const hierarchy = async (entry: object, array: object, files: Objects = {}): Promise<Objects> => {
  const pairs = await encodeShardIndex(ENTRIES, [2], {
    location: "end",
    endian: "little",
    checksums: 0,
    order: undefined,
  });
  return {
    "zarr.json": JSON.stringify({
      zarr_format: PROTOCOL,
      metadata_encoding: PROTOCOL,
      metadata_key_suffix: ".json",
      extensions: [],
      ...entry,
    }),
    "meta/root/a.array.json": JSON.stringify({
      shape: [8],
      data_type: "|u1",
      chunk_grid: { type: "regular", chunk_shape: [2], separator: "/" },
      chunk_memory_layout: "C",
      fill_value: 0,
      extensions: [],
      attributes: {},
      storage_transformers: [
        {
          extension: "https://purl.org/zarr/spec/storage_transformers/sharding/1.0",
          type: "indexed",
          configuration: { chunks_per_shard: [2] },
        },
      ],
      ...array,
    }),
    "data/root/a/c0": join(utf8("abcd"), pairs),
    "data/root/a/c1": join(utf8("efgh"), pairs),
    ...files,
  };
};

const references = (members: object, refs: object = {}): Objects => ({
  "refs.json": JSON.stringify({
    version: 1,
    refs: { "zarr.json": document(), "c/0": "base64:YWJjZA==", "c/1": "base64:ZWZnaA==", ...refs },
    ...members,
  }),
});

const SHARDS: readonly Case[] = [
  ["[FE-05]", "half an absent entry", halfAbsent, "BAD_FIELD"],
  [
    "[FE-05] [FH-02]",
    "an entry outside the shard",
    () => sharded(undefined, [{ offset: 40, nbytes: 2 }, undefined]),
    "BAD_FIELD",
  ],
  [
    "[FH-01]",
    "an index without bytes",
    () => sharded(undefined, ENTRIES, { index_codecs: [CRC] }),
    "BAD_FIELD",
  ],
  [
    "[FH-01]",
    "an index whose size varies",
    () =>
      sharded(undefined, ENTRIES, { index_codecs: [LITTLE, { name: "gzip", configuration: { level: 1 } }] }),
    "UNSUPPORTED",
  ],
  ["[FH-02]", "a shard shorter than its index", () => sharded((bytes) => bytes.slice(0, 20)), "TRUNCATED"],
  [
    "[FH-02]",
    "a changed byte of the index",
    () => sharded((bytes) => patched(bytes, 5, "01")),
    "CHECKSUM_MISMATCH",
  ],
  [
    "[FH-02]",
    "a chunk in the index",
    () => sharded(undefined, [{ offset: 10, nbytes: 2 }, undefined]),
    "BAD_FIELD",
  ],
  [
    "[FH-02]",
    "two overlapping chunks",
    () =>
      sharded(undefined, [
        { offset: 0, nbytes: 2 },
        { offset: 1, nbytes: 2 },
      ]),
    "BAD_FIELD",
  ],
  [
    "[FH-03]",
    "a chunk that is absent",
    () => sharded(undefined, [undefined, { offset: 2, nbytes: 2 }]),
    "ok",
  ],
  [
    "[FH-03]",
    "a chunk that is there and cannot be read",
    () => plain({ codecs: [BYTES, BLOSC] }, { "c/0": "", "c/1": stored(utf8("efgh")) }),
    "TRUNCATED",
  ],
  ["[FH-04]", "a chunk of fewer values", () => plain({}, { "c/0": utf8("abc") }), "BAD_FIELD"],
  [
    "[FH-04]",
    "bytes after a Blosc chunk",
    () =>
      plain(
        { codecs: [BYTES, BLOSC] },
        { "c/0": join(stored(utf8("abcd")), utf8("x")), "c/1": stored(utf8("efgh")) },
      ),
    "BAD_FIELD",
  ],
  [
    "[FH-06]",
    "lengths that do not cover the array",
    () =>
      plain({
        chunk_grid: { name: "rectilinear", configuration: { kind: "inline", chunk_shapes: [[4, 2]] } },
      }),
    "BAD_FIELD",
  ],
];

const OTHERS: readonly Case[] = [
  [
    "[FH-07]",
    "an unsupported filter",
    () => version2({ filters: [{ id: "pickle" }] }, utf8("abcd")),
    "UNSUPPORTED",
  ],
  [
    "[FH-07]",
    "a wrong checksum",
    () => version2({ filters: [{ id: "crc32" }] }, join(hex("00 00 00 00"), utf8("abcd"))),
    "CHECKSUM_MISMATCH",
  ],
  [
    "[FH-13]",
    "integers without a byte order",
    () =>
      plain({
        data_type: "int16",
        shape: [4],
        chunk_grid: { name: "regular", configuration: { chunk_shape: [2] } },
      }),
    "BAD_FIELD",
  ],
  [
    "[FH-10]",
    "bytes after a gzip stream",
    () => version2({ compressor: { id: "gzip", level: 1 } }, join(gzipSync(utf8("abcd")), utf8("rest"))),
    "BAD_CHUNK",
  ],
  ...[
    ["another number of values", "02 00 00 00 00 00 00 00 00 00 00 00"],
    ["a value that ends after its chunk", "01 00 00 00 05 00 00 00 61"],
    ["bytes after its values", "01 00 00 00 01 00 00 00 61 00"],
    ["text that is not UTF-8", "01 00 00 00 01 00 00 00 ff"],
  ].map(
    ([what = "", bytes = ""]): Case => [
      "[FH-11]",
      what,
      () => version2({ dtype: "|O", ...TEXT }, hex(bytes)),
      "BAD_CHUNK",
    ],
  ),
  [
    "[FH-11]",
    "text that ends in a zero character",
    () => version2({ dtype: "|O", ...TEXT }, hex("01 00 00 00 01 00 00 00 00")),
    "UNSUPPORTED",
  ],
  [
    "[FK-01]",
    "another metadata encoding",
    () => hierarchy({ metadata_encoding: "other" }, {}),
    "BAD_FIELD|UNSUPPORTED",
  ],
  [
    "[FK-03]",
    "another transformer",
    () => hierarchy({}, { storage_transformers: [{ type: "other" }] }),
    "BAD_FIELD|UNSUPPORTED",
  ],
  [
    "[FK-04]",
    "a shard shorter than its pairs",
    () => hierarchy({}, {}, { "data/root/a/c0": utf8("abcd") }),
    "TRUNCATED",
  ],
  [
    "[FK-05]",
    "an unsupported filter",
    () => hierarchy({}, { attributes: { filters: [{ id: "pickle" }] } }),
    "UNSUPPORTED",
  ],
  ["[FV-01]", "templates", () => references({ templates: { u: "x" } }), "UNSUPPORTED"],
  ["[FV-01]", "version 2", () => references({ version: 2 }), "UNSUPPORTED"],
  ["[FV-01]", "guards that are a list", () => references({ guards: [] }), "BAD_FIELD"],
  [
    "[FV-04]",
    "a location in no container",
    () => references({}, { "c/0": ["file:///etc/passwd", 0, 4] }),
    "UNSAFE_PATH",
  ],
  [
    "[FV-04]",
    "a location with an encoded slash",
    () => references({}, { "c/0": ["file:///a/x%2fy", 0, 4] }),
    "UNSAFE_PATH",
  ],
  [
    "[FV-04]",
    "a location that leads out",
    () => references({}, { "c/0": ["file:///a/../x", 0, 4] }),
    "UNSAFE_PATH",
  ],
];

testCases([
  ["Zarr v3", SHARDS],
  ["Zarr v2, the older transformer, references", OTHERS],
]);

testWhole([
  () => plain(),
  () => sharded(),
  () => plain({ codecs: [BYTES, BLOSC] }, { "c/0": stored(utf8("abcd")), "c/1": stored(utf8("efgh")) }),
  () => version2({}, utf8("abcd")),
  () => version2({ compressor: { id: "gzip", level: 1 } }, gzipSync(utf8("abcd"))),
  () => hierarchy({}, {}),
  () => references({}),
]);
