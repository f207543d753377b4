/** `grid: rectilinear`: short chunks stay short, are copied as they are, and come back. */

import { expect, test } from "vitest";
import { open } from "../../../src/archive/open/open.ts";
import { zarrSource } from "../../../src/convert/sources/items.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import { createArray } from "../../../src/write/array/create.ts";
import { openZarr, openZarrArray } from "../../../src/zarr/read/open.ts";
import { convert } from "../../../src/zarr.ts";
import fc from "../../property.ts";
import { sweep } from "../../scope.ts";
import { putBloscpack, putCarray } from "./make-archive.ts";
import { planOne } from "./plan-one.ts";
import { documentAt, keysOf } from "./read-back.ts";
import { verifyConversion } from "./verify-conversion.ts";

const GRID = { grid: "rectilinear" } as const;
const numbers = (count: number): Uint8Array =>
  new Uint8Array(Uint16Array.from({ length: count }, (_, i) => i * 37 + 1).buffer);

test("an array with any chunks, shape and order has the same values, and nothing is padded", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 3 }),
      fc.integer({ min: 1, max: 200 }),
      fc.constantFrom("C", "F") as fc.Arbitrary<"C" | "F">,
      async (shape, chunkSize, order) => {
        const bytes = numbers(shape.reduce((product, n) => product * n, 1));
        const source = new MemoryStore();
        const settings = { dtype: "<u2", shape, order, encode: { typesize: 2 } };
        await putBloscpack(source, "x.blp", bytes, chunkSize, settings);
        const archive = await open(source, "x.blp");
        if (archive.kind !== "array") throw new TypeError(archive.kind);
        const target = new MemoryStore();
        const result = await convert(archive, { store: target }, { ...GRID, verify: true });
        expect(result.chunksPadded).toBe(0);
        const array = await openZarrArray(target);
        expect(await array.getBytes()).toEqual(await archive.getBytes());
        expect((await array.verify()).findings).toEqual([]);
        await verifyConversion(archive, target, "", GRID);
      },
    ),
    { numRuns: sweep(100, 10) },
  );
});

test("[FH-06] the chunks of an array that was appended to are copied byte for byte, the short last one too", async () => {
  const store = new MemoryStore();
  const array = await createArray(store, "a", { dtype: "<f8", shape: [0, 3], chunkLength: 100 });
  for (const rows of [250, 70, 13])
    await array.append(Float64Array.from({ length: rows * 3 }, (_, i) => Math.sqrt(i) + rows));
  await array.close();
  const archive = await open(store, "a");
  if (archive.kind !== "array") throw new TypeError(archive.kind);
  const [plan] = (await planOne(archive, GRID)).arrays;
  expect(plan).toMatchObject({ action: "copy", chunks: 4, chunkShape: [100, 3] });
  expect(plan?.notes).toEqual([expect.stringContaining("array.rectilinear_chunks")]);
  const result = await convert(archive, { store, path: "zarr" }, GRID);
  expect(result).toMatchObject({ chunksCopied: 4, chunksPadded: 0, chunksRecoded: 0 });
  expect((await documentAt(store, "zarr/zarr.json"))["chunk_grid"]).toEqual({
    name: "rectilinear",
    configuration: { kind: "inline", chunk_shapes: [[[100, 3], 33], 3] },
  });
  let k = 0;
  for await (const { bytes } of archive.encodedChunks(0, archive.nchunks))
    expect(await store.get(`zarr/c/${k++}/0`)).toEqual(bytes.slice());
  expect(k).toBe(4);

  const back = await convert(
    await zarrSource(await openZarr(store, "zarr")),
    { store, path: "back" },
    { to: "blz" },
  );
  expect(back).toMatchObject({ arrays: 1, nbytes: archive.nbytes });
  const again = await open(store, "back");
  if (again.kind !== "array") throw new TypeError(again.kind);
  expect(await again.getBytes()).toEqual(await archive.getBytes());
});

test("chunks of many lengths in the middle come back as superchunks of one length", async () => {
  const store = new MemoryStore();
  const { createZarr } = await import("../../../src/zarr/write/create.ts");
  const values = Float64Array.from({ length: 1000 }, (_, i) => i / 3);
  const zarr = await createZarr(store, "zarr", {
    shape: [1000],
    dataType: "float64",
    chunkShape: [1],
    chunkGrid: {
      name: "rectilinear",
      configuration: { kind: "inline", chunk_shapes: [[[100, 4], 37, 63, [5, 10], 450]] },
    },
  });
  await zarr.set(null, values);
  await convert(await zarrSource(await openZarr(store, "zarr")), { store, path: "back" }, { to: "blz" });
  const back = await open(store, "back");
  if (back.kind !== "array") throw new TypeError(back.kind);
  expect(new Float64Array((await back.getBytes()).slice().buffer)).toEqual(values);
});

test("rows of a last chunk that do not count are cut off, not copied", async () => {
  const store = new MemoryStore();
  await putCarray(store, "c", numbers(20), 8, { dtype: "uint16", shape: [20] });
  // As after a resize in bcolz: the last chunk still holds the removed rows.
  const sizes = new TextDecoder().decode((await store.get("c/meta/sizes")) ?? new Uint8Array());
  await store.put(
    "c/meta/sizes",
    new TextEncoder().encode(sizes.replace("[20]", "[18]").replace("40", "36")),
  );
  const archive = await open(store, "c");
  const result = await convert(archive, { store, path: "zarr" }, { ...GRID, verify: true });
  expect(result).toMatchObject({ chunksCopied: 2, chunksRecoded: 1, chunksPadded: 0 });
  expect(await (await openZarrArray(store, "zarr")).getBytes()).toEqual(numbers(20).slice(0, 36));
});

test("an array without a short chunk gets the same shards as always", async () => {
  const store = new MemoryStore();
  await putBloscpack(store, "x.blp", numbers(64), 32, { dtype: "<u2", shape: [64] });
  const archive = await open(store, "x.blp");
  await convert(archive, { store, path: "plain" });
  await convert(archive, { store, path: "unequal" }, GRID);
  for (const key of ["zarr.json", "c/0"])
    expect(await store.get(`unequal/${key}`)).toEqual(await store.get(`plain/${key}`));
  expect((await keysOf(store)).filter((key) => key.startsWith("unequal/"))).toHaveLength(2);
});
