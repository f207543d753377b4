/** A document with a wrong member is refused, and the error names the member, what it is, and what it must be. */
import { expect, test } from "vitest";
import { MemoryStore } from "../../src/store/memory.ts";
import { openZarr } from "../../src/zarr/read/open.ts";

const LITTLE = { name: "bytes", configuration: { endian: "little" } };
const CRC32C = { name: "crc32c" };
const V3 = {
  zarr_format: 3,
  node_type: "array",
  shape: [4, 4],
  data_type: "float64",
  chunk_grid: { name: "regular", configuration: { chunk_shape: [4, 4] } },
  chunk_key_encoding: { name: "default" },
  codecs: [LITTLE],
  fill_value: 0,
};
const V2 = {
  zarr_format: 2,
  shape: [4],
  chunks: [4],
  dtype: "<f8",
  compressor: null,
  filters: null,
  fill_value: 0,
  order: "C",
};

async function refusal(key: string, document: object): Promise<unknown> {
  const store = new MemoryStore();
  await store.put(key, new TextEncoder().encode(JSON.stringify(document)));
  return openZarr(store, "").catch((error: unknown) => error);
}

/** A `data_type` of so many structs in one another. */
function nested(levels: number): object {
  const data_type = levels === 1 ? "int8" : nested(levels - 1);
  return { name: "struct", configuration: { fields: [{ name: "a", data_type }] } };
}

const typed = (name: string, configuration: object) => ({ data_type: { name, configuration } });
const coded = (name: string, configuration: object) => ({ codecs: [LITTLE, { name, configuration }] });
const gridOf = (configuration: object) => ({ chunk_grid: { name: "rectilinear", configuration } });
const struct = (...fields: unknown[]) => typed("struct", { fields });
const sharded = (...index_codecs: object[]) => ({
  codecs: [
    { name: "sharding_indexed", configuration: { chunk_shape: [2, 2], codecs: [LITTLE], index_codecs } },
  ],
});
const raw = (fill_value: unknown) => ({ ...typed("raw_bytes", { length_bytes: 2 }), fill_value });

test.each([
  [{ node_type: "folder" }, "node_type", '"array" or "group"'],
  [{ dimension_names: ["x", 5] }, "dimension_names", "strings and null"],
  [{ codecs: [{ name: "bytes", configuration: 5 }] }, "codecs.0.configuration", "an object"],
  [{ codecs: [{ name: "bytes" }] }, "codecs.0.configuration.endian", '"little" or "big"'],
  [
    gridOf({ chunk_shapes: [4] }),
    "chunk_grid.configuration.chunk_shapes",
    "a list of 2, one for each dimension",
  ],
  [{ data_type: "r12" }, "data_type", "raw bits in whole bytes"],
  [
    typed("fixed_length_utf32", { length_bytes: 7 }),
    "data_type.configuration.length_bytes",
    "a multiple of 4",
  ],
  [
    typed("raw_bytes", { length_bytes: 2 ** 32 }),
    "data_type.configuration.length_bytes",
    "at most 2147483647",
  ],
  [typed("numpy.datetime64", { unit: "blink" }), "data_type.configuration.unit", "a time unit of numpy"],
  [struct(5), "data_type.configuration.fields.0", "a field with name and data_type"],
  [struct(["a", "int8"], ["a", "int8"]), "data_type.configuration.fields", "fields of different names"],
  [
    struct(
      ...["a", "b"].map((name) => [
        name,
        { name: "raw_bytes", configuration: { length_bytes: 2 ** 31 - 1 } },
      ]),
    ),
    "data_type.configuration.fields",
    "items of at most 2147483647 bytes",
  ],
  [{ data_type: "complex128", fill_value: [1, 2, 3] }, "fill_value", "[re, im]"],
  [{ fill_value: "0x12" }, "fill_value", "16 hexadecimal digits"],
  [raw([1, 256]), "fill_value", "a list of bytes"],
  [raw("not base64"), "fill_value", "bytes in base64"],
  [raw("AAAA"), "fill_value", "at most 2 bytes"],
  [{ ...struct(["a", "int8"]), fill_value: {} }, "fill_value", 'an object with the field "a"'],
  [
    coded("blosc", { cname: "lz5" }),
    "codecs.1.configuration.cname",
    expect.stringContaining("one of blosclz"),
  ],
  [coded("blosc", { clevel: 10 }), "codecs.1.configuration.clevel", "0 to 9"],
  [
    coded("blosc", { shuffle: "shuffel" }),
    "codecs.1.configuration.shuffle",
    "noshuffle, shuffle, bitshuffle",
  ],
  [coded("gzip", { level: 10 }), "codecs.1.configuration.level", "0 to 9"],
  [coded("zstd", { level: 99 }), "codecs.1.configuration.level", "at most 22"],
  [coded("numcodecs.crc32", { location: "middle" }), "codecs.1.configuration.location", '"start" or "end"'],
  [
    { codecs: [{ name: "numcodecs.fixedscaleoffset", configuration: { scale: "ten" } }, LITTLE] },
    "codecs.0.configuration.scale",
    "a number",
  ],
  [
    sharded({ name: "bytes", configuration: { endian: "middle" } }),
    "codecs.0.configuration.index_codecs.0.configuration.endian",
    '"little" or "big"',
  ],
  [
    sharded({ name: "transpose", configuration: { order: [0, 0, 1] } }),
    "codecs.0.configuration.index_codecs.0.configuration.order",
    "each of 0 to 2 once",
  ],
  [sharded(), "codecs.0.configuration.index_codecs", 'a list with "bytes"'],
  [
    sharded(CRC32C, LITTLE),
    "codecs.0.configuration.index_codecs.0",
    "a chain of transpose, bytes and crc32c in this order",
  ],
])("%j in zarr.json is BAD_FIELD", async (change, field, expected) => {
  const error = await refusal("zarr.json", { ...V3, ...change });
  expect(error).toMatchObject({ code: "BAD_FIELD", details: { path: "memory:zarr.json", field, expected } });
  expect(String(error)).toContain(`${field} is `);
});

test.each([
  [gridOf({ kind: "outline", chunk_shapes: [4, 4] }), "chunk_grid.configuration.kind", 'is not "inline"'],
  [{ chunk_key_encoding: "v4" }, "chunk_key_encoding", 'superchunk knows "default" and "v2"'],
  [{ data_type: nested(40) }, expect.stringMatching(/^data_type\./), "more than 32 levels"],
  [
    { codecs: [LITTLE, { name: "numcodecs.delta", configuration: { dtype: "<f8" } }] },
    "codecs.1",
    "after a serializer or a transpose",
  ],
  [
    { codecs: [{ name: "numcodecs.delta", configuration: { dtype: "<f8" } }, ...sharded(LITTLE).codecs] },
    "codecs.1",
    "follows a codec that changes values",
  ],
])("%j in zarr.json is UNSUPPORTED", async (change, field, reason) => {
  const error = await refusal("zarr.json", { ...V3, ...change });
  expect(error).toMatchObject({ code: "UNSUPPORTED", details: { path: "memory:zarr.json", field } });
  expect(String(error)).toContain(reason);
});

test("an item of more than 64 MiB is LIMIT: its fill value would have to be made", async () => {
  const error = await refusal("zarr.json", { ...V3, ...typed("raw_bytes", { length_bytes: 2 ** 30 }) });
  expect(error).toMatchObject({ code: "LIMIT", details: { field: "dtype", found: 2 ** 30 } });
});

test.each([
  [".zarray", { ...V2, zarr_format: 3 }, "zarr_format", "2"],
  [".zgroup", { zarr_format: 3 }, "zarr_format", "2"],
  [
    ".zarray",
    { ...V2, dtype: [["a", "<i2", [2]]], fill_value: { a: 1 } },
    "fill_value",
    "no value for a field that is an array",
  ],
])("%s of %j is BAD_FIELD", async (key, document, field, expected) => {
  const error = await refusal(key, document);
  expect(error).toMatchObject({ code: "BAD_FIELD", details: { path: `memory:${key}`, field, expected } });
});
