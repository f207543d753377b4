/** The rules of FORMAT.md about what archives become in Zarr v3. */

import { describe, expect, it } from "vitest";
import { open } from "../../src/archive/open/open.ts";
import { decode } from "../../src/codec/index.ts";
import { parseDType } from "../../src/format/dtype.ts";
import { parseJson } from "../../src/format/json.ts";
import type { JsonValue } from "../../src/format/types.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { arrayDocument } from "../../src/zarr/document/make-v3.ts";
import { nameNodes } from "../../src/zarr/document/node-names.ts";
import { mapDType } from "../../src/zarr/document/zarr-dtype.ts";
import { decodeShardIndex, encodeShardIndex, shardIndexLength } from "../../src/zarr/read/shard-index.ts";
import { convert } from "../../src/zarr.ts";
import { errorOf, hex, rejectionOf, toHex, utf8 } from "./hex.ts";

const map = (dtype: string, options: { portable?: boolean; fillValue?: JsonValue } = {}) =>
  mapDType(parseDType(dtype, "a"), { path: "a", ...options });
const LITTLE = { name: "bytes", configuration: { endian: "little" } };
const PLAIN = { name: "bytes" };

describe("data types", () => {
  it.each([
    ["bool", "bool", false, PLAIN],
    ["|u1", "uint8", 0, PLAIN],
    ["<i8", "int64", 0, LITTLE],
    [">f4", "float32", 0, { name: "bytes", configuration: { endian: "big" } }],
    ["<c16", "complex128", [0, 0], LITTLE],
    ["|S5", { name: "null_terminated_bytes", configuration: { length_bytes: 5 } }, "", PLAIN],
    ["<U3", { name: "fixed_length_utf32", configuration: { length_bytes: 12 } }, "", LITTLE],
    [
      "<M8[ns]",
      { name: "numpy.datetime64", configuration: { unit: "ns", scale_factor: 1 } },
      -(2n ** 63n),
      LITTLE,
    ],
    [
      "<m8[25s]",
      { name: "numpy.timedelta64", configuration: { unit: "s", scale_factor: 25 } },
      -(2n ** 63n),
      LITTLE,
    ],
    ["|V2", { name: "raw_bytes", configuration: { length_bytes: 2 } }, "AAA=", PLAIN],
    [
      "[('a', '<i4'), ('b', '|b1')]",
      {
        name: "struct",
        configuration: {
          fields: [
            { name: "a", data_type: "int32" },
            { name: "b", data_type: "bool" },
          ],
        },
      },
      { a: 0, b: false },
      LITTLE,
    ],
  ] as const)("[FE-01] %s", (dtype, dataType, fill, codec) => {
    const type = map(dtype);
    expect(type.dataType).toEqual(dataType);
    expect(type.fill.json).toEqual(fill);
    expect(type.bytesCodec).toEqual(codec);
  });

  it("[FE-02] a type that Zarr lacks is refused; dflt is the fill value if it fits", () => {
    for (const dtype of ["object", "<f16", "[('a', '<i4', (2,))]", "[('a', '|O')]"])
      expect(errorOf(() => map(dtype)).code).toBe("UNSUPPORTED");
    expect(map("<f8", { fillValue: -1.5 }).fill.json).toBe(-1.5);
    expect(map("<f8", { fillValue: Number.NaN }).fill.json).toBe("NaN");
    expect(map("|S2", { fillValue: "ab" }).fill.json).toBe("YWI=");
    expect(map("|u1", { fillValue: 256 }).notes).toHaveLength(1);
  });

  it("[FE-03] portable types are those that every reader has", () => {
    expect(map("<M8[ns]", { portable: true })).toMatchObject({
      dataType: "int64",
      original: "<M8[ns]",
      attributes: { units: "nanoseconds since 1970-01-01" },
    });
    expect(map("<U3", { portable: true })).toMatchObject({
      dataType: "uint32",
      itemShape: [3],
      original: "<U3",
    });
    expect(map("|S5", { portable: true })).toMatchObject({ dataType: "uint8", itemShape: [5] });
  });

  it("[FE-07] big-endian complex numbers are recoded", () => {
    expect(map(">c16").transform).toBeDefined();
    expect(map(">c16").bytesCodec).toEqual(LITTLE);
    expect(map("<c16").transform).toBeUndefined();
  });
});

describe("documents and shards", () => {
  it("[FE-04] the chain is sharding, then transpose, bytes, blosc", () => {
    const document = arrayDocument({
      shape: [4, 3],
      dataType: "int32",
      fillValue: 0,
      bytesCodec: LITTLE,
      blosc: { cname: "lz4", clevel: 5, shuffle: "shuffle", typesize: 4 },
      chunkShape: [4, 1],
      shardShape: [4, 3],
      transpose: [1, 0],
      attributes: {},
      dimensionNames: undefined,
    });
    expect(document["codecs"]).toEqual([
      {
        name: "sharding_indexed",
        configuration: {
          chunk_shape: [4, 1],
          codecs: [
            { name: "transpose", configuration: { order: [1, 0] } },
            LITTLE,
            {
              name: "blosc",
              configuration: { cname: "lz4", clevel: 5, shuffle: "shuffle", typesize: 4, blocksize: 0 },
            },
          ],
          index_codecs: [LITTLE, { name: "crc32c" }],
          index_location: "end",
        },
      },
    ]);
  });

  it("[FE-05] the index is checked: its checksum, half-absent entries, ranges outside", async () => {
    const encoded = async (offset: number, nbytes: number): Promise<Uint8Array> => {
      return encodeShardIndex([undefined, { offset, nbytes }]);
    };
    const good = await encode2(encoded, 5, 20);
    expect(good).toEqual([undefined, { offset: 5, nbytes: 20 }]);
    const length = shardIndexLength(2);
    expect(
      (
        await rejectionOf(
          decodeShardIndex(await encoded(81, 20), { path: "a", size: 100 + length, grid: [2] }),
        )
      ).code,
    ).toBe("BAD_FIELD");
    const flipped = await encoded(5, 20);
    flipped[3] = 0;
    expect(
      (await rejectionOf(decodeShardIndex(flipped, { path: "a", size: 100 + length, grid: [2] }))).code,
    ).toBe("CHECKSUM_MISMATCH");
    expect(
      (await rejectionOf(decodeShardIndex(flipped.subarray(1), { path: "a", size: 100 + length, grid: [2] })))
        .code,
    ).toBe("TRUNCATED");
  });

  it("[FE-06] a short last chunk is padded with the fill value, in the shard", async () => {
    const chunk = (values: string): Uint8Array => {
      const data = hex(values);
      const size = data.length.toString(16).padStart(2, "0");
      const total = (data.length + 16).toString(16).padStart(2, "0");
      return hex(
        `62 6c 70 6b 01 00 00 00 01 00 00 00 00 00 00 00  02 01 02 02 ${size} 00 00 00 ${size} 00 00 00 ${total} 00 00 00 ${values}`,
      );
    };
    const source = new MemoryStore([
      ["meta/sizes", utf8('{"shape": [3], "nbytes": 6}')],
      [
        "meta/storage",
        utf8(
          '{"dtype": "int16", "cparams": {"clevel": 5, "shuffle": 0, "cname": "lz4"}, "chunklen": 2, "dflt": 9}',
        ),
      ],
      ["data/__0.blp", chunk("01 00 02 00")],
      ["data/__1.blp", chunk("03 00")],
    ]);
    const target = new MemoryStore();
    await convert(await open(source), { store: target, path: "z" });
    const document = parseJson((await target.get("z/zarr.json")) ?? "", "zarr.json") as {
      [key: string]: JsonValue;
    };
    expect(document).toMatchObject({ shape: [3], data_type: "int16", fill_value: 9 });
    const shard = (await target.get("z/c/0")) ?? new Uint8Array(0);
    const capacity = 2;
    const entries = await decodeShardIndex(shard.slice(-shardIndexLength(capacity)), {
      path: "c/0",
      size: shard.length,
      grid: [capacity],
    });
    const values = await Promise.all(
      entries.map(async (entry) =>
        entry === undefined
          ? ""
          : toHex(await decode(shard.slice(entry.offset, entry.offset + entry.nbytes))),
      ),
    );
    expect(values).toEqual(["01000200", "03000900"]);
  });

  it("[FE-08] reserved names and names that differ only in case are mapped", () => {
    const [long, cut] = ["x".repeat(300), "x".repeat(240)];
    const names = nameNodes(["a", "A", "__x", "..", "zarr.json", "b/c", "b\\c", "b\0c", "", long]);
    expect(Object.fromEntries(names)).toEqual({
      "b\\c": "b%5Cc",
      "b\0c": "b%00c",
      "": "%",
      [long]: cut,
      a: "a",
      A: "A~2",
      __x: "%5F%5Fx",
      "..": "%2E%2E",
      "zarr.json": "zarr%2Ejson",
      "b/c": "b%2Fc",
    });
  });
});

async function encode2(
  encoded: (offset: number, nbytes: number) => Promise<Uint8Array>,
  offset: number,
  nbytes: number,
) {
  return decodeShardIndex(await encoded(offset, nbytes), {
    path: "a",
    size: 100 + shardIndexLength(2),
    grid: [2],
  });
}
