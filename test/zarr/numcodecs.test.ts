/** Filters and codecs of numcodecs, and the codecs that change numbers: chunks decode to what the program that encoded them decodes them to. */

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { JsonObject } from "../../src/format/types.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { convert } from "../../src/zarr.ts";
import { openZarrWriter } from "./writer.ts";

interface Chunk {
  readonly dtype: string;
  readonly filters: readonly JsonObject[];
  readonly encoded: string;
  readonly decoded: string;
}

const { chunks } = JSON.parse(readFileSync(new URL("./numcodecs-chunks.json", import.meta.url), "utf8")) as {
  readonly chunks: readonly Chunk[];
};

const CASES = chunks.map(
  (chunk) => [`${chunk.dtype} ${chunk.filters.map(({ id }) => String(id)).join(", ")}`, chunk] as const,
);
const fromText = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, "base64"));
const json = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value));

/** The decoded values in little-endian order. */
function littleOf({ dtype, decoded }: Chunk): Uint8Array {
  const bytes = Buffer.from(fromText(decoded));
  if (dtype.startsWith(">")) dtype.endsWith("2") ? bytes.swap16() : bytes.swap32();
  return new Uint8Array(bytes);
}

/** The document's version 3 names for the same; undefined if it has none. */
const ARRAY_FILTERS = new Set(["delta", "astype", "fixedscaleoffset", "quantize", "bitround", "packbits"]);
const TYPES: Readonly<Record<string, string>> = {
  ...{
    "<f8": "float64",
    "<f4": "float32",
    "<f2": "float16",
    ">f2": "float16",
    "<i4": "int32",
    ">i4": "int32",
    "<i8": "int64",
  },
  ...{ "|u1": "uint8", "|b1": "bool" },
};

async function version2(
  { dtype, filters, encoded, decoded }: Chunk,
  at = "a",
  compressor: JsonObject | null = null,
): Promise<MemoryStore> {
  const store = new MemoryStore();
  const length = fromText(decoded).length / Number(dtype.slice(2));
  const document = {
    ...{ zarr_format: 2, shape: [length], chunks: [length], dtype, order: "C" },
    ...{ compressor, fill_value: 0, filters },
  };
  await store.put(`${at}/.zarray`, json(document));
  await store.put(`${at}/0`, fromText(encoded));
  return store;
}

async function version3({ dtype, filters, encoded, decoded }: Chunk): Promise<MemoryStore> {
  const store = new MemoryStore();
  const length = fromText(decoded).length / Number(dtype.slice(2));
  const codecs = filters.map(({ id, ...configuration }) => ({
    name: `numcodecs.${String(id)}`,
    configuration,
  }));
  const isFirst = (_: unknown, i: number): boolean => ARRAY_FILTERS.has(String(filters[i]?.["id"]));
  const endian = dtype.startsWith(">") ? "big" : "little";
  const bytes = { name: "bytes", configuration: { endian } };
  const document = {
    ...{ zarr_format: 3, node_type: "array", shape: [length], data_type: TYPES[dtype] },
    chunk_grid: { name: "regular", configuration: { chunk_shape: [length] } },
    chunk_key_encoding: { name: "default" },
    fill_value: dtype === "|b1" ? false : 0,
    codecs: [...codecs.filter(isFirst), bytes, ...codecs.filter((each, i) => !isFirst(each, i))],
  };
  await store.put("a/zarr.json", json(document));
  await store.put("a/c/0", fromText(encoded));
  return store;
}

describe("chunks of numcodecs", () => {
  test.each(CASES)("of version 2: %s", async (_, chunk) => {
    const array = await openZarrArray(await version2(chunk), "a");
    expect(await array.getBytes()).toEqual(fromText(chunk.decoded));
    const sums = chunk.filters.filter(({ id }) => /crc32|adler32|fletcher32/.test(String(id)));
    expect(await array.verify()).toMatchObject({ ok: true, digests: sums.length });
    const part = await array.getBytes([{ start: 3, stop: 9, step: 2 }]);
    const size = array.dtype.itemSize;
    const items = [3, 5, 7].map((i) => fromText(chunk.decoded).subarray(i * size, (i + 1) * size));
    expect(part).toEqual(new Uint8Array(Buffer.concat(items)));
  });

  test("[FH-07] each bytes-to-bytes codec is read as the compressor too, after the filters", async () => {
    const compressors: string[] = [];
    for (const [name, chunk] of CASES) {
      const last = chunk.filters.at(-1);
      if (last === undefined || ARRAY_FILTERS.has(String(last["id"]))) continue;
      const store = await version2({ ...chunk, filters: chunk.filters.slice(0, -1) }, "a", last);
      expect(await (await openZarrArray(store, "a")).getBytes(), name).toEqual(fromText(chunk.decoded));
      compressors.push(String(last["id"]));
    }
    expect([...new Set(compressors)].sort()).toEqual(
      ["adler32", "blosc", "crc32c", "fletcher32", "gzip", "lz4", "shuffle", "zlib", "zstd"].sort(),
    );
    const [, any] = CASES[0] ?? [];
    for (const id of ["lzma", "bz2", "lzf", "zfpy"]) {
      const store = await version2({ ...(any as Chunk), filters: [] }, "a", { id });
      await expect(openZarrArray(store, "a")).rejects.toMatchObject({
        code: "UNSUPPORTED",
        message: expect.stringContaining(`"${id}"`),
      });
    }
  });

  test("a checksum and shuffle among the codecs are not named as the compressor", async () => {
    const [, any] = CASES[0] ?? [];
    const summaryWith = async (ids: readonly string[]): Promise<unknown> => {
      const filters = ids.map((id) => ({ id, ...(id === "shuffle" && { elementsize: 8 }) }));
      const store = await version2({ ...(any as Chunk), dtype: "<f8", filters });
      const { cname, shuffle, checksum } = await (await openZarrArray(store, "a")).summary();
      return [cname, shuffle, checksum];
    };
    expect(await summaryWith(["shuffle", "zlib", "fletcher32"])).toEqual(["zlib", "shuffle", "fletcher32"]);
    expect(await summaryWith(["adler32"])).toEqual([undefined, undefined, "adler32"]);
    expect(await summaryWith(["shuffle"])).toEqual([undefined, "shuffle", "None"]);
    expect(await summaryWith(["crc32", "zstd"])).toEqual(["zstd", undefined, "crc32"]);
    expect(await summaryWith([])).toEqual([undefined, undefined, "None"]);
  });

  test.each(CASES.filter(([name]) => !name.includes("crc32c")))("of version 3: %s", async (_, chunk) => {
    const array = await openZarrArray(await version3(chunk), "a");
    const little = littleOf(chunk);
    expect(await array.getBytes()).toEqual(little);
  });

  test.each(CASES)(
    "that are damaged give an error that names the chunk, or the same size: %s",
    async (_, chunk) => {
      const store = await version2(chunk);
      const array = await openZarrArray(store, "a", { immutable: true });
      const encoded = fromText(chunk.encoded);
      const nbytes = fromText(chunk.decoded).length;
      for (let length = 0; length < encoded.length; length += Math.max(1, encoded.length >> 4)) {
        await store.put("a/0", encoded.subarray(0, length));
        await expect(array.getBytes()).rejects.toMatchObject({
          isDamage: true,
          details: { path: store.describe("a/0") },
        });
      }
      for (let at = 0; at < encoded.length; at += Math.max(1, encoded.length >> 4)) {
        const flipped = encoded.slice();
        flipped[at] = (flipped[at] ?? 0) ^ 0xff;
        await store.put("a/0", flipped);
        const outcome = await array.getBytes().catch((error: unknown) => error);
        if (outcome instanceof Uint8Array) expect(outcome.length).toBe(nbytes);
        else expect(outcome).toMatchObject({ isDamage: true, details: { path: store.describe("a/0") } });
      }
    },
  );

  test("become Zarr v3 by recoding, with the same values", async () => {
    for (const [, chunk] of CASES) {
      const store = await version2(chunk);
      const target = new MemoryStore();
      await convert(await openZarrArray(store, "a"), { store: target, path: "b" });
      const array = await openZarrArray(target, "b");
      const expected = littleOf(chunk);
      expect(await array.getBytes()).toEqual(expected);
      expect(JSON.stringify(array.metadata)).not.toContain("numcodecs");
    }
  });
});

const WRITTEN = new Set(["shuffle", "blosc", "gzip", "zlib", "zstd"]);

test("arrays with read-only filters are not opened for writing, and those with shuffle are", async () => {
  for (const [, chunk] of CASES) {
    const store = await version2(chunk);
    const ids = chunk.filters.map(({ id }) => id);
    if (ids.every((id) => WRITTEN.has(String(id)))) {
      const writer = await openZarrWriter(store, "a");
      await writer.setBytes(null, fromText(chunk.decoded).reverse());
      expect(await (await openZarrArray(store, "a")).getBytes()).toEqual(fromText(chunk.decoded).reverse());
    } else await expect(openZarrWriter(store, "a")).rejects.toMatchObject({ code: "UNSUPPORTED" });
  }
});

test("shuffle writes no chunk that numcodecs refuses to read, because elements do not divide it", async () => {
  const [chunk] = CASES.flatMap(([, each]) => (each.dtype === "<f8" ? [each] : []));
  if (chunk === undefined) throw new Error("no chunk of float64");
  const store = await version2({
    ...chunk,
    filters: [
      { id: "zlib", level: 1 },
      { id: "shuffle", elementsize: 1000 },
    ],
  });
  const writer = await openZarrWriter(store, "a");
  await expect(writer.setBytes(null, fromText(chunk.decoded))).rejects.toMatchObject({
    code: "UNSUPPORTED",
    message: expect.stringMatching(
      /"shuffle" gets \d+ bytes, which elements of 1000 bytes do not divide/,
    ) as unknown,
  });
});

interface Encoded {
  readonly objects: Readonly<Record<string, string>>;
  readonly decoded: string | null;
  readonly refused?: "document" | "chunk";
}

const { arrays } = JSON.parse(readFileSync(new URL("./number-codecs.json", import.meta.url), "utf8")) as {
  readonly arrays: Readonly<Record<string, Encoded>>;
};

describe("scale_offset and cast_value of zarr-python", () => {
  const storeOf = async ({ objects }: Encoded): Promise<MemoryStore> => {
    const store = new MemoryStore();
    for (const [key, text] of Object.entries(objects)) await store.put(`a/${key}`, fromText(text));
    return store;
  };
  const isReadable = ([, { decoded }]: [string, Encoded]): boolean => decoded !== null;
  const all = Object.entries(arrays);

  test.each(all.filter(isReadable))("[FH-12] %s: the values that zarr-python reads", async (_, encoded) => {
    const store = await storeOf(encoded);
    const array = await openZarrArray(store, "a");
    const bytes = await array.getBytes();
    expect(withOneNaN(bytes, array.dtype)).toEqual(withOneNaN(fromText(encoded.decoded ?? ""), array.dtype));
    expect(await array.verify()).toMatchObject({ ok: true });
    const target = new MemoryStore();
    await convert(array, { store: target, path: "b" });
    const copy = await openZarrArray(target, "b");
    expect(await copy.getBytes()).toEqual(bytes);
    expect(copy.metadata["codecs"]).toEqual(array.metadata["codecs"]);
    const codec = /scale_offset|cast_value/.exec(text(array.metadata["codecs"]))?.[0];
    if (codec === undefined) return;
    await expect(openZarrWriter(target, "b")).rejects.toMatchObject({
      code: "UNSUPPORTED",
      message: expect.stringContaining(`"${codec}", which superchunk reads, and does not write`),
    });
  });

  test.each(all.filter((each) => !isReadable(each)))(
    "[FH-12] %s is refused, as zarr-python does",
    async (_, encoded) => {
      const reading = storeOf(encoded).then((store) => openZarrArray(store, "a"));
      if (encoded.refused === "document") await expect(reading).rejects.toMatchObject({ code: "BAD_FIELD" });
      else
        await expect((await reading).getBytes()).rejects.toMatchObject({ code: "BAD_CHUNK", isDamage: true });
    },
  );

  test("are refused for what they cannot mean, with the member's name", async () => {
    const [document] = Object.values(arrays).map(({ objects }) =>
      JSON.parse(atob(objects["zarr.json"] ?? "")),
    );
    const LITTLE = { name: "bytes", configuration: { endian: "little" } };
    const openWith = async (name: string, configuration: JsonObject, type = "float64"): Promise<unknown> => {
      const store = new MemoryStore();
      const codecs = [{ name, configuration }, LITTLE];
      await store.put("a/zarr.json", json({ ...document, data_type: type, fill_value: 0, codecs }));
      return openZarrArray(store, "a");
    };
    const cases: readonly (readonly [string, string, JsonObject, string, string?])[] = [
      ["UNSUPPORTED", "scale_offset", {}, "float of 2 bytes", "float16"],
      ["UNSUPPORTED", "cast_value", { data_type: "complex64" }, "data_type"],
      ["UNSUPPORTED", "cast_value", { data_type: "int4" }, "data_type"],
      [
        "UNSUPPORTED",
        "cast_value",
        { data_type: "float64", rounding: "towards-zero" },
        "rounding",
        "float32",
      ],
      ["BAD_FIELD", "scale_offset", { scale: 0 }, "scale", "int32"],
      ["BAD_FIELD", "scale_offset", { scale: 0.5 }, "scale", "int32"],
      ["BAD_FIELD", "scale_offset", { offset: 256 }, "offset", "uint8"],
      ["BAD_FIELD", "cast_value", {}, "data_type"],
      ["BAD_FIELD", "cast_value", { data_type: "int8", rounding: "up" }, "rounding"],
      ["BAD_FIELD", "cast_value", { data_type: "int8", out_of_range: "cut" }, "out_of_range"],
      ["BAD_FIELD", "cast_value", { data_type: "int8", scalar_map: { decode: [[1]] } }, "scalar_map.decode"],
      [
        "BAD_FIELD",
        "cast_value",
        { data_type: "int8", scalar_map: { decode: [[300, 1]] } },
        "scalar_map.decode",
      ],
      ["UNSUPPORTED", "numcodecs.crc32c", { location: "start" }, "location"],
    ];
    for (const [code, name, configuration, text, type] of cases)
      await expect(openWith(name, configuration, type), JSON.stringify(configuration)).rejects.toMatchObject({
        code,
        message: expect.stringContaining(text),
      });
  });
});

const text = (value: unknown): string =>
  JSON.stringify(value, (_, member) => (typeof member === "bigint" ? String(member) : member));

/** Floats with one bit pattern for NaN, of which the codecs promise no other. */
function withOneNaN(bytes: Uint8Array, { kind, itemSize }: { kind: string; itemSize: number }): Uint8Array {
  if (kind !== "float") return bytes;
  const copy = bytes.slice().buffer;
  const floats = itemSize === 8 ? new Float64Array(copy) : new Float32Array(copy);
  return new Uint8Array(floats.map((value) => (Number.isNaN(value) ? Number.NaN : value)).buffer);
}
