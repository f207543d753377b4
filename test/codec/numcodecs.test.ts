/** zarrita reads and writes arrays through this library's codec, with one line. */
import { FileSystemStore } from "@zarrita/storage";
import NumcodecsBlosc from "numcodecs/blosc";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import * as zarr from "zarrita";
import { Blosc, type BloscConfig, decodeSync, encodeSync, info } from "../../src/codec/index.ts";
import { findFixture } from "../fixtures/manifest.ts";

const own = zarr.registry.get("blosc");
let decoded = 0;

/** Counts, to prove that zarrita really uses it. */
class CountedBlosc extends Blosc {
  static override fromConfig(config: unknown, context?: { dataType?: unknown }): CountedBlosc {
    const codec = Blosc.fromConfig(config, context);
    const decode = codec.decode.bind(codec);
    codec.decode = (chunk, out) => {
      decoded++;
      return decode(chunk, out);
    };
    return codec;
  }
}

beforeAll(() => {
  zarr.registry.set("blosc", async () => CountedBlosc);
});

afterAll(() => {
  if (own !== undefined) zarr.registry.set("blosc", own);
});

beforeEach(() => {
  decoded = 0;
});

/** All values of an array, as bytes. */
async function readAll(path: string): Promise<Uint8Array> {
  const array = await zarr.open.v3(zarr.root(new FileSystemStore(path)), { kind: "array" });
  const { data } = (await zarr.get(array)) as { data: Uint8Array };
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

describe.each(
  ["zarr3-sharded/zp-f8-1d-blosc-lz4", "zarr3-sharded/zp-i2-bigendian-transposed"].map(findFixture),
)("$path", ({ file }) => {
  it("has the values that zarrita reads with its own Blosc", async () => {
    const found = await readAll(file);
    expect(decoded).toBeGreaterThan(0);
    if (own !== undefined) zarr.registry.set("blosc", own);
    const expected = await readAll(file);
    zarr.registry.set("blosc", async () => CountedBlosc);
    expect(Buffer.compare(found, expected)).toBe(0);
  });
});

describe("an array that zarrita writes", () => {
  const values = Float64Array.from({ length: 10_000 }, (_, i) => Math.round(Math.sin(i) * 1000) / 8);

  it.each(["noshuffle", "shuffle", "bitshuffle"])(
    "with %s is read back, and has the typesize of its type",
    async (shuffle) => {
      const objects = new Map<`/${string}`, Uint8Array>();
      const array = await zarr.create(objects, {
        shape: [10_000],
        chunkShape: [4_000],
        dtype: "float64",
        codecs: [
          { name: "bytes", configuration: { endian: "little" } },
          { name: "blosc", configuration: { typesize: 8, cname: "zstd", clevel: 3, shuffle, blocksize: 0 } },
        ],
      });
      await zarr.set(array, null, { data: values, shape: [10_000], stride: [1] });
      const chunk = objects.get("/c/0");
      if (chunk === undefined) throw new Error("no chunk was written");
      expect(info(chunk)).toMatchObject({ typesize: 8, compressor: "zstd", shuffle, nbytes: 32_000 });
      const { data } = await zarr.get(await zarr.open.v3(objects, { kind: "array" }));
      expect(data).toEqual(values);
      expect(decoded).toBe(3);
    },
  );
});

describe("the codec", () => {
  const data = Uint8Array.from({ length: 50_000 }, (_, i) => (i * i) >> 12);

  it("decodes what numcodecs encodes, and numcodecs what it encodes", async () => {
    const other = NumcodecsBlosc.fromConfig({ id: "blosc", cname: "lz4", clevel: 5 });
    const codec = Blosc.fromConfig({ cname: "lz4", clevel: 5, typesize: 4 });
    expect(Buffer.compare(await codec.decode(await other.encode(data)), data)).toBe(0);
    expect(Buffer.compare(await other.decode(await codec.encode(data)), data)).toBe(0);
  });

  it("decodes into the given buffer", async () => {
    const out = new Uint8Array(data.length);
    const result = await Blosc.fromConfig({}).decode(encodeSync(data), out);
    expect(result.buffer).toBe(out.buffer);
    expect(Buffer.compare(out, data)).toBe(0);
  });

  it("has numcodecs' defaults, and accepts the shuffle numbers of v2", async () => {
    const chunkOf = async (config: BloscConfig | undefined, dataType?: string) =>
      info(await Blosc.fromConfig(config, { dataType }).encode(data));
    expect(await chunkOf(undefined)).toMatchObject({ compressor: "lz4", shuffle: "shuffle", typesize: 1 });
    expect(await chunkOf({ shuffle: 2 }, "uint16")).toMatchObject({ shuffle: "bitshuffle", typesize: 2 });
    expect(await chunkOf({ shuffle: 0 }, "v2:U3")).toMatchObject({ shuffle: "noshuffle", typesize: 12 });
    expect(await chunkOf({ shuffle: -1 }, "bool")).toMatchObject({ shuffle: "bitshuffle", typesize: 1 });
    expect(await chunkOf({ shuffle: -1 }, "float32")).toMatchObject({ shuffle: "shuffle", typesize: 4 });
    expect(await chunkOf({ typesize: 0, shuffle: "noshuffle" })).toMatchObject({ typesize: 1 });
  });

  it.each<[string, BloscConfig]>([
    ["cname", { cname: "brotli" }],
    ["clevel", { clevel: 10 }],
    ["shuffle", { shuffle: "sideways" }],
    ["shuffle", { shuffle: 3 }],
    ["blocksize", { blocksize: -1 }],
  ])("refuses a configuration with a wrong %s", (field, config) => {
    expect(() => Blosc.fromConfig(config)).toThrow(
      expect.objectContaining({ code: "BAD_ARGUMENT", details: expect.objectContaining({ field }) }),
    );
  });

  it("reports a damaged chunk instead of returning zeros", async () => {
    const chunk = encodeSync(data);
    chunk.fill(0xff, 40, 60);
    expect(() => decodeSync(chunk)).toThrow();
    await expect(Blosc.fromConfig({}).decode(chunk)).rejects.toMatchObject({ name: "SuperchunkError" });
  });
});
