/** Damage of a Zarr array that shows without decoding is not copied to Zarr, also if the copy is not compared with its source. */
import { expect, test } from "vitest";
import { MemoryStore } from "../../../src/store/memory.ts";
import { openZarr, openZarrArray } from "../../../src/zarr/read/open.ts";
import { createZarr, type ZarrSpecification } from "../../../src/zarr/write/create.ts";
import { convert } from "../../../src/zarr.ts";
import { keysOf } from "../to-zarr/read-back.ts";

const LITTLE = { name: "bytes", configuration: { endian: "little" } };
const BLOSC = {
  name: "blosc",
  configuration: { cname: "lz4", clevel: 5, shuffle: "shuffle", typesize: 4, blocksize: 0 },
};
const CRC = { name: "crc32c" };
const GZIP = { name: "gzip", configuration: { level: 1 } };
const shards = (codecs: readonly object[], chunk: number): object => ({
  name: "sharding_indexed",
  configuration: { chunk_shape: [chunk, 8], codecs, index_codecs: [LITTLE, CRC] },
});

/** Arrays of chunks of 10 rows, in objects of 40 or 10 rows. */
const ARRAYS: { readonly [name: string]: readonly object[] } = {
  "chunks of Blosc": [LITTLE, BLOSC],
  "chunks of Blosc with a checksum": [LITTLE, BLOSC, CRC],
  "chunks without a compressor": [LITTLE],
  "chunks of gzip": [LITTLE, GZIP],
  "shards of Blosc": [shards([LITTLE, BLOSC], 10)],
  "shards of shards of Blosc": [shards([shards([LITTLE, BLOSC], 10)], 20)],
  "shards without a compressor": [shards([LITTLE], 10)],
  "chunks of gzip with a checksum": [LITTLE, GZIP, CRC],
  "chunks without a compressor, with a checksum": [LITTLE, CRC],
  "shards of gzip with a checksum": [shards([LITTLE, GZIP, CRC], 10)],
  "shards of shards of Blosc with two checksums": [shards([shards([LITTLE, BLOSC, CRC, CRC], 10)], 20)],
  "a checksum of shards of Blosc": [shards([LITTLE, BLOSC], 10), CRC],
};

/** Changes to a chunk, given as a part of its object. */
const DAMAGE: { readonly [name: string]: (chunk: Uint8Array) => void } = {
  "another version": (chunk) => chunk.set([7]),
  "another length of the values": (chunk) => chunk.set([9], 5),
  "another stored length": (chunk) => chunk.set([(chunk[12] ?? 0) ^ 1], 12),
  "zeros from a power cut": (chunk) => chunk.fill(0),
};

async function makeArray(codecs: readonly object[]): Promise<MemoryStore> {
  const store = new MemoryStore();
  const isSharded = (codecs[0] as typeof CRC).name === "sharding_indexed";
  const chunkShape = [isSharded ? 40 : 10, 8];
  const settings = { shape: [75, 8], dataType: "int32", chunkShape, codecs } as unknown as ZarrSpecification;
  const writer = await createZarr(store, "g/a", settings);
  await writer.set(
    null,
    Int32Array.from({ length: 600 }, (_, i) => (i * 2654435761) % 5000),
  );
  await (await createZarr(store, "g/b", settings)).set(null, new Int32Array(600).fill(3));
  const group = { zarr_format: 3, node_type: "group", attributes: {} };
  await store.put("g/zarr.json", new TextEncoder().encode(JSON.stringify(group)));
  return store;
}

/** The array with a chunk in the middle changed, and the place of that chunk. */
async function withDamage(store: MemoryStore, damage: (chunk: Uint8Array) => void): Promise<string> {
  const chunks = [];
  for await (const chunk of (await openZarrArray(store, "g/a")).listChunks()) chunks.push(chunk);
  const { key, offset, ctbytes } = chunks[2] ?? chunks.at(-1) ?? { key: "", offset: 0, ctbytes: 0 };
  const bytes = (await store.get(key))?.slice() ?? new Uint8Array(0);
  damage(bytes.subarray(offset, offset + ctbytes));
  await store.put(key, bytes);
  return key;
}

/** Converts without comparing; the damage must be what `verify` reports, and the undamaged array is converted. */
async function expectRefused(store: MemoryStore, key: string): Promise<void> {
  const { findings } = await (await openZarrArray(store, "g/a")).verify();
  const [finding] = findings;
  expect(finding?.severity).toBe("error");
  const alone = new MemoryStore();
  const failed = convert(await openZarr(store, "g/a"), { store: alone, path: "out" });
  await expect(failed).rejects.toMatchObject({
    code: expect.stringMatching(/^(?:BAD_FIELD|TRUNCATED|CHECKSUM_MISMATCH)$/),
    details: { path: store.describe(key) },
  });
  expect((await keysOf(alone)).filter((each) => each.endsWith("zarr.json"))).toEqual([]);
  const both = new MemoryStore();
  const { failures } = await convert(
    await openZarr(store, "g"),
    { store: both, path: "out" },
    { skipFailed: true },
  );
  expect(failures.map(({ node }) => node)).toEqual(["a"]);
  await expect((await openZarrArray(both, "out/b")).verify()).resolves.toMatchObject({ ok: true });
}

const blosc = Object.entries(ARRAYS).filter(([name]) => name.includes("of Blosc"));

test.each(
  blosc.flatMap(([name, codecs]) =>
    Object.entries(DAMAGE).map(([what, damage]) => ({ name, codecs, what, damage })),
  ),
)("$name: $what", async ({ codecs, damage }) => {
  const store = await makeArray(codecs);
  await expectRefused(store, await withDamage(store, damage));
});

test.each(Object.entries(ARRAYS).filter(([name]) => name.includes("checksum")))(
  "%s: a flipped bit anywhere in a chunk",
  async (_, codecs) => {
    for (const part of [0.3, 0.6, 1]) {
      const store = await makeArray(codecs);
      const flip = (chunk: Uint8Array) => {
        const place = Math.ceil(chunk.length * part) - 1;
        chunk.set([(chunk[place] ?? 0) ^ 16], place);
      };
      await expectRefused(store, await withDamage(store, flip));
    }
  },
);

test.each(Object.entries(ARRAYS))("%s: an object that is cut, or empty", async (name, codecs) => {
  // What is left of a compressed stream does not show without decoding.
  for (const length of name.includes("gzip") ? [0] : [100, 0]) {
    const store = await makeArray(codecs);
    const key = await withDamage(store, () => undefined);
    await store.put(key, (await store.get(key))?.slice(0, length) ?? new Uint8Array(0));
    await expectRefused(store, key);
  }
});

test.each(Object.entries(ARRAYS))("%s: what is not damaged is copied byte for byte", async (_, codecs) => {
  const store = await makeArray(codecs);
  const copy = new MemoryStore();
  await convert(await openZarr(store, "g"), { store: copy, path: "g" });
  for (const key of await keysOf(store))
    if (!key.endsWith("zarr.json")) expect(await copy.get(key), key).toEqual(await store.get(key));
});

test("with {damaged: fill}, the rest of the array is copied", async () => {
  const store = await makeArray(ARRAYS["shards of Blosc"] ?? []);
  await withDamage(store, DAMAGE["another version"] ?? (() => undefined));
  const source = await openZarr(store, "g/a", { damaged: "fill" });
  const copy = new MemoryStore();
  await convert(source, { store: copy, path: "out" });
  const values = await (await openZarrArray(copy, "out")).getBytes();
  const rest = Int32Array.from({ length: 600 }, (_, i) => (i * 2654435761) % 5000).fill(0, 160, 240);
  expect(new Int32Array(values.buffer, values.byteOffset, 600)).toEqual(rest);
});
