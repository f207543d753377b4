/** A program's own codecs, given to `open`, `create` and `edit`. */
import LZ4 from "numcodecs/lz4";
import { expect, test } from "vitest";
import { create, edit } from "../../src/edit/edit.ts";
import { MemoryStore, type OpenAnyOptions, open, openArray } from "../../src/index.ts";
import { create as createAt, openArray as openArrayAt } from "../../src/node/index.ts";
import type { CustomCodecs } from "../../src/zarr.ts";
import { temporaryFolder } from "../folder.ts";

const VALUES = Int32Array.from({ length: 100 }, (_, i) => i * i);

/** Adds a number to each byte. */
const customCodecs: CustomCodecs = {
  "example.add": {
    fromConfig: ({ number }) => ({
      encode: (bytes) => bytes.map((byte) => byte + Number(number)),
      decode: async (bytes) => bytes.map((byte) => byte - Number(number)),
    }),
  },
};
const ADD = { name: "example.add", configuration: { number: 3 } };
const BYTES = { name: "bytes", configuration: { endian: "little" } };

async function valuesOf(store: MemoryStore, options: OpenAnyOptions): Promise<unknown> {
  const array = await openArray(store, "", options);
  const { data } = await array.get(null);
  await array.close();
  return data;
}

async function encodedWith(codecs: CustomCodecs): Promise<unknown> {
  const store = new MemoryStore();
  const settings = { format: "zarr", dtype: "<i4", chunkShape: [40], codecs: [BYTES, ADD] } as const;
  await (await create(store, "", { ...settings, customCodecs, data: VALUES })).close();
  return valuesOf(store, { customCodecs: codecs });
}

test.each([
  ["chunks", {}],
  ["inner chunks of shards", { shardShape: [80] }],
])("custom codecs encode and decode the %s of an array, and resize with it", async (_, shards) => {
  const store = new MemoryStore();
  const settings = { format: "zarr", dtype: "<i4", chunkShape: [40], codecs: [BYTES, ADD] } as const;
  const array = await create(store, "", { ...settings, ...shards, customCodecs, data: VALUES });
  await array.close();
  expect(await valuesOf(store, { customCodecs })).toEqual(VALUES);
  const again = await edit(store, "", { format: "zarr", customCodecs });
  if (again.kind !== "array") throw new TypeError(again.kind);
  await again.resize(50);
  await again.append(VALUES.subarray(50));
  await again.close();
  expect(await valuesOf(store, { customCodecs })).toEqual(VALUES);
});

test("custom codecs apply to one handle only: elsewhere the codec is refused by name, with what to do", async () => {
  const store = new MemoryStore();
  const settings = { format: "zarr", dtype: "<i4", chunkShape: [40], codecs: [BYTES, ADD] } as const;
  await (await create(store, "", { ...settings, customCodecs, data: VALUES })).close();
  const array = await open(store, "", { customCodecs });
  await expect(open(store, "")).rejects.toMatchObject({
    code: "UNSUPPORTED",
    message: expect.stringMatching(/"example\.add", which superchunk does not have.*"customCodecs" of open/),
  });
  await array.close();
});

test("custom codecs read compressors and filters of version 2, and replace known ones", async () => {
  const store = new MemoryStore();
  const encoded = new Uint8Array(VALUES.buffer).map((byte) => byte + 5 + 1);
  const document = {
    ...{ zarr_format: 2, shape: [100], chunks: [100], dtype: "<i4", fill_value: 0, order: "C" },
    filters: [{ id: "example.add", number: 5 }],
    compressor: { id: "gzip", level: 9 },
    dimension_separator: "/",
  };
  await store.put(".zarray", new TextEncoder().encode(JSON.stringify(document)));
  await store.put("0", encoded);
  const gzip = { fromConfig: () => ({ encode: plusOne, decode: minusOne }) };
  expect(await valuesOf(store, { customCodecs: { ...customCodecs, gzip } })).toEqual(VALUES);
});

const plusOne = (bytes: Uint8Array): Uint8Array => bytes.map((byte) => byte + 1);
const minusOne = (bytes: Uint8Array): Uint8Array => bytes.map((byte) => byte - 1);

test("custom codecs of numcodecs are accepted unchanged", async () => {
  const store = new MemoryStore();
  const codecs = [BYTES, { name: "numcodecs.lz4", configuration: { acceleration: 1 } }];
  const settings = { format: "zarr", dtype: "<i4", codecs, customCodecs: { "numcodecs.lz4": LZ4 } } as const;
  await (await create(store, "", { ...settings, data: VALUES })).close();
  expect(await valuesOf(store, { customCodecs: { "numcodecs.lz4": LZ4 } })).toEqual(VALUES);
  // Superchunk itself reads what it wrote.
  expect(await valuesOf(store, {})).toEqual(VALUES);
});

test.each([
  ["BAD_CHUNK", /"example\.add" could not decode: no/, () => Promise.reject(new Error("no"))],
  ["LIMIT", /more bytes than the chunk has/, () => new Uint8Array(161)],
  ["BAD_ARGUMENT", /did not decode to a Uint8Array/, () => "text" as unknown as Uint8Array],
  ["BAD_FIELD", /160/, () => new Uint8Array(159)],
])("custom codecs that return something else are an error: %s", async (code, message, decode) => {
  const bad = { "example.add": { fromConfig: () => ({ encode: plusOne, decode }) } };
  await expect(encodedWith(bad)).rejects.toMatchObject({ code, message: expect.stringMatching(message) });
});

test("custom codecs work alongside threads, which encode whole shards of other arrays", async () => {
  const path = `${temporaryFolder()}/array.zarr`;
  const data = Int32Array.from({ length: 1 << 16 }, (_, i) => i);
  const shape = { chunkShape: [1 << 10], shardShape: [1 << 12] };
  const settings = { format: "zarr", dtype: "<i4", codecs: [BYTES, ADD], ...shape } as const;
  await (await createAt(path, { ...settings, customCodecs, data, threads: 2 })).close();
  const array = await openArrayAt(path, { customCodecs, threads: 2 });
  expect((await array.get(null)).data).toEqual(data);
  await array.close();
});
