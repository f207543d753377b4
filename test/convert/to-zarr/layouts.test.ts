import { describe, expect, it } from "vitest";
import { open } from "../../../src/archive/open/open.ts";
import { parseDType } from "../../../src/format/dtype.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import { convert } from "../../../src/zarr.ts";
import fc from "../../property.ts";
import { sweep } from "../../scope.ts";
import { putBloscpack, putCarray, putRaw } from "./make-archive.ts";
import { planOne } from "./plan-one.ts";
import { documentAt, keysOf, readWithZarrita } from "./read-back.ts";
import { verifyConversion } from "./verify-conversion.ts";

const numbers = (count: number): Uint8Array =>
  new Uint8Array(Uint16Array.from({ length: count }, (_, i) => i * 37 + 1).buffer);

/** The same items in C order. */
function toCOrder(bytes: Uint8Array, shape: readonly number[], size: number): Uint8Array {
  const out = new Uint8Array(bytes.length);
  for (let i = 0; i < bytes.length / size; i++) {
    let rest = i;
    let at = 0;
    shape.forEach((extent, axis) => {
      const stride = shape.slice(axis + 1).reduce((product, n) => product * n, 1);
      at += (rest % extent) * stride;
      rest = Math.floor(rest / extent);
    });
    out.set(bytes.subarray(i * size, (i + 1) * size), at * size);
  }
  return out;
}

describe("an array with any chunks, shape and order", () => {
  it("has the same values in Zarr, copied or recoded, with any shards", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 3 }),
        fc.integer({ min: 1, max: 200 }),
        fc.constantFrom("C", "F") as fc.Arbitrary<"C" | "F">,
        fc.integer({ min: 1, max: 7 }),
        async (shape, chunkSize, order, chunksPerShard) => {
          const bytes = numbers(shape.reduce((product, n) => product * n, 1));
          const source = new MemoryStore();
          await putBloscpack(source, "x.blp", bytes, chunkSize, {
            dtype: "<u2",
            shape,
            order,
            encode: { typesize: 2 },
          });
          const target = new MemoryStore();
          const archive = await open(source, "x.blp");
          const result = await convert(archive, { store: target }, { chunksPerShard, verify: true });
          expect(await readWithZarrita(target, "")).toEqual(
            order === "F" ? toCOrder(bytes, shape, 2) : bytes,
          );
          await verifyConversion(archive, target, "", { chunksPerShard });
          const [plan] = (await planOne(archive, { chunksPerShard })).arrays;
          expect(result.chunksCopied + result.chunksPadded + result.chunksRecoded).toBe(plan?.chunks);
        },
      ),
      { numRuns: sweep(100, 10) },
    );
  });

  it("copies chunks smaller than a row of three dimensions, in Fortran order too", async () => {
    for (const order of ["C", "F"] as const) {
      const shape = [4, 6, 5];
      const bytes = numbers(120);
      const store = new MemoryStore();
      await putBloscpack(store, "x.blp", bytes, order === "C" ? 2 * 15 : 2 * 12, {
        dtype: "<u2",
        shape,
        order,
      });
      const target = new MemoryStore();
      const result = await convert(
        await open(store, "x.blp"),
        { store: target },
        {
          recode: false,
          chunksPerShard: 3,
        },
      );
      expect(result).toMatchObject({
        chunksRecoded: 0,
        chunksPadded: 0,
        chunksCopied: order === "C" ? 8 : 10,
      });
      expect(await readWithZarrita(target, "")).toEqual(order === "C" ? bytes : toCOrder(bytes, shape, 2));
    }
  });

  it("an array without dimensions is one chunk without a shard", async () => {
    const store = new MemoryStore();
    await putBloscpack(store, "x.blp", numbers(1), 2, { dtype: "<u2", shape: [] });
    const target = new MemoryStore();
    const result = await convert(await open(store, "x.blp"), { store: target }, { verify: true });
    expect(result).toMatchObject({ chunksCopied: 1, shards: 1 });
    expect(await readWithZarrita(target, "")).toEqual(numbers(1));
    expect((await documentAt(target, "zarr.json"))["codecs"]).toMatchObject([
      { name: "bytes" },
      { name: "blosc" },
    ]);
    expect(await target.get("c")).toBeDefined();
  });

  it("a short last chunk is padded with the default value", async () => {
    const store = new MemoryStore();
    await putCarray(store, "a", new Uint8Array(Float64Array.from([1, 2, 3]).buffer), 2, {
      dtype: "float64",
      shape: [3],
      dflt: -1.5,
    });
    const target = new MemoryStore();
    const result = await convert(await open(store, "a"), { store: target });
    expect(result).toMatchObject({ chunksCopied: 1, chunksPadded: 1 });
    const document = await documentAt(target, "zarr.json");
    expect(document["fill_value"]).toBe(-1.5);
    await target.put("zarr.json", new TextEncoder().encode(JSON.stringify({ ...document, shape: [4] })));
    expect(new Float64Array((await readWithZarrita(target, "")).buffer)).toEqual(
      Float64Array.from([1, 2, 3, -1.5]),
    );
  });
});

describe("chunks that readers would not accept", () => {
  it("snappy is recoded chunk by chunk, wherever it occurs", async () => {
    const store = new MemoryStore();
    const bytes = numbers(4000);
    await putBloscpack(store, "x.blp", bytes, 2000, {
      dtype: "<u2",
      shape: [4000],
      encode: { typesize: 2 },
      encodeChunk: { 2: { cname: "snappy" } },
    });
    const target = new MemoryStore();
    const result = await convert(await open(store, "x.blp"), { store: target }, { verify: true });
    expect(result).toMatchObject({ chunksCopied: 3, chunksRecoded: 1 });
    expect(await readWithZarrita(target, "")).toEqual(bytes);
  });

  it("snappy is copied if recoding is not allowed, with a note", async () => {
    const store = new MemoryStore();
    await putBloscpack(store, "x.blp", numbers(4000), 2000, {
      dtype: "<u2",
      shape: [4000],
      encode: { typesize: 2, cname: "snappy" },
    });
    const result = await convert(await open(store, "x.blp"), { store: new MemoryStore() }, { recode: false });
    expect(result).toMatchObject({ chunksCopied: 4, chunksRecoded: 0 });
    expect(result.notes.join()).toContain("snappy");
  });

  it("a typesize that is not the item size is copied, with a note", async () => {
    const store = new MemoryStore();
    await putBloscpack(store, "x.blp", numbers(4000), 2000, {
      dtype: "<u2",
      shape: [4000],
      encode: { typesize: 2 },
      encodeChunk: { 1: { typesize: 4 } },
    });
    const target = new MemoryStore();
    const result = await convert(await open(store, "x.blp"), { store: target });
    expect(result.notes).toEqual([expect.stringMatching(/typesize is not the size of .*: 1$/)]);
    expect(await readWithZarrita(target, "")).toEqual(numbers(4000));
  });

  it("cuts that do not end on rows are refused if recoding is not allowed", async () => {
    const store = new MemoryStore();
    await putBloscpack(store, "x.blp", numbers(60), 14, { dtype: "<u2", shape: [6, 10] });
    const target = new MemoryStore();
    await expect(
      convert(await open(store, "x.blp"), { store: target }, { recode: false }),
    ).rejects.toMatchObject({
      code: "UNSUPPORTED",
      summary:
        "its chunks cannot be copied into Zarr: chunks of 14 bytes do not end on rows of the shape [6,10]; allow recoding",
    });
    expect(await keysOf(target)).toEqual([]);
  });

  it("big-endian complex numbers become little-endian ones", async () => {
    const store = new MemoryStore();
    const values = Float64Array.from([1, -2, 3.5, 4]);
    const big = new Uint8Array(values.buffer.slice(0));
    for (let at = 0; at < big.length; at += 8) big.subarray(at, at + 8).reverse();
    await putBloscpack(store, "x.blp", big, 16, { dtype: ">c16", shape: [2] });
    const target = new MemoryStore();
    expect(await convert(await open(store, "x.blp"), { store: target }, { verify: true })).toMatchObject({
      chunksRecoded: 1,
      chunksCopied: 0,
    });
    const document = await documentAt(target, "zarr.json");
    const [sharding] = document["codecs"] as [{ configuration: object }];
    const grid = { name: "regular", configuration: { chunk_shape: [2, 2] } };
    const asPairs = {
      ...document,
      data_type: "float64",
      fill_value: 0,
      shape: [2, 2],
      chunk_grid: grid,
      codecs: [{ ...sharding, configuration: { ...sharding.configuration, chunk_shape: [2, 2] } }],
    };
    await target.put("zarr.json", new TextEncoder().encode(JSON.stringify(asPairs)));
    await target.rename("c/0", "tmp");
    await target.rename("tmp", "c/0/0");
    expect(new Float64Array((await readWithZarrita(target, "")).buffer)).toEqual(values);
  });
});

describe("plain bytes", () => {
  const dtype = parseDType("<u2", "test");

  it("become an array of the given dtype and shape", async () => {
    const store = new MemoryStore();
    await putRaw(store, "x.blp", numbers(60));
    const target = new MemoryStore();
    await convert(await open(store, "x.blp"), { store: target }, { dtype, shape: [6, 10] });
    expect(await documentAt(target, "zarr.json")).toMatchObject({ data_type: "uint16", shape: [6, 10] });
    expect(await readWithZarrita(target, "")).toEqual(numbers(60));
  });

  it.each([
    [{ dtype: parseDType("<f8", "test"), shape: [7] }],
    [{ dtype, shape: [61] }],
    [{ dtype, shape: [-6, -10] }],
    [{ dtype: parseDType("S7", "test") }],
  ])("are refused as %j, which does not fit", async (options) => {
    const store = new MemoryStore();
    await putRaw(store, "x.blp", numbers(60));
    await expect(
      convert(await open(store, "x.blp"), { store: new MemoryStore() }, options),
    ).rejects.toMatchObject({ code: "BAD_ARGUMENT" });
  });

  it("dtype and shape are refused for an array, which has its own", async () => {
    const store = new MemoryStore();
    await putBloscpack(store, "x.blp", numbers(60), 40, { dtype: "<u2", shape: [60] });
    await expect(
      convert(await open(store, "x.blp"), { store: new MemoryStore() }, { dtype }),
    ).rejects.toMatchObject({ code: "BAD_ARGUMENT" });
  });
});
