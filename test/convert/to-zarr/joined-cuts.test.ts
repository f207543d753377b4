/** Archives joined where their chunks are off the borders of one grid: what is still copied, and what is reported. */

import { describe, expect, it } from "vitest";
import type { Archive } from "../../../src/archive/kinds/types.ts";
import { open } from "../../../src/archive/open/open.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import { openZarrArray } from "../../../src/zarr/read/open.ts";
import { convert } from "../../../src/zarr.ts";
import fc from "../../property.ts";
import { sweep } from "../../scope.ts";
import { putBloscpack } from "./make-archive.ts";
import { planOne } from "./plan-one.ts";
import { documentAt } from "./read-back.ts";

const RECTILINEAR = { grid: "rectilinear" } as const;

/** Archives of int32 rows of `width` items that continue counting from one to the next. */
async function archivesOf(
  parts: readonly { readonly rows: number; readonly chunk: number }[],
  width = 1,
): Promise<{ archives: Archive[]; values: number[] }> {
  const store = new MemoryStore();
  const archives: Archive[] = [];
  const values: number[] = [];
  for (const [i, { rows, chunk }] of parts.entries()) {
    const own = Int32Array.from({ length: rows * width }, (_, k) => values.length + k);
    const shape = width === 1 ? [rows] : [rows, width];
    const bytes = new Uint8Array(own.buffer);
    await putBloscpack(store, `part${i}.blp`, bytes, chunk * width * 4, { dtype: "<i4", shape });
    archives.push(await open(store, `part${i}.blp`));
    values.push(...own);
  }
  return { archives, values };
}

/** Payloads of all chunks, one archive after the other. */
async function chunksOf(archives: readonly Archive[]): Promise<Uint8Array[]> {
  const chunks: Uint8Array[] = [];
  for (const archive of archives) {
    if (archive.kind !== "array") throw new TypeError(archive.kind);
    for await (const { bytes } of archive.encodedChunks(0, archive.nchunks)) chunks.push(bytes.slice());
  }
  return chunks;
}

async function valuesIn(target: MemoryStore): Promise<number[]> {
  const array = await openZarrArray(target);
  expect((await array.verify()).findings).toEqual([]);
  return [...new Int32Array((await array.getBytes()).slice().buffer)];
}

const parts = fc.array(
  fc.record({ rows: fc.integer({ min: 1, max: 30 }), chunk: fc.integer({ min: 1, max: 8 }) }),
  { minLength: 1, maxLength: 6 },
);

describe("archives of any rows and chunks, joined", () => {
  it("have all values one after another, in shards of any size, and every whole chunk on a border is copied", async () => {
    await fc.assert(
      fc.asyncProperty(
        parts,
        fc.constantFrom(1, 3),
        fc.integer({ min: 1, max: 5 }),
        async (cut, width, chunksPerShard) => {
          const { archives, values } = await archivesOf(cut, width);
          const target = new MemoryStore();
          const result = await convert(archives, { store: target }, { chunksPerShard, verify: true });
          expect(await valuesIn(target)).toEqual(values);
          const rows = cut.find((part) => part.rows > part.chunk)?.chunk ?? Number.POSITIVE_INFINITY;
          let first = 0;
          let fitting = 0;
          for (const part of cut) {
            if (first % rows === 0 && part.chunk === rows) fitting += Math.floor(part.rows / rows);
            first += part.rows;
          }
          expect(result.chunksCopied).toBeGreaterThanOrEqual(fitting);
        },
      ),
      { numRuns: sweep(150, 15) },
    );
  });

  it("[FH-06] keep every chunk byte for byte in a rectilinear grid", async () => {
    await fc.assert(
      fc.asyncProperty(parts, fc.constantFrom(1, 3), async (cut, width) => {
        const { archives, values } = await archivesOf(cut, width);
        const target = new MemoryStore();
        const result = await convert(archives, { store: target }, { ...RECTILINEAR, verify: true });
        expect(await valuesIn(target)).toEqual(values);
        const chunks = await chunksOf(archives);
        expect(result).toMatchObject({
          chunksCopied: chunks.length,
          chunksPadded: 0,
          chunksRecoded: 0,
        });
        const document = await documentAt(target, "zarr.json");
        const isUnequal = (document["chunk_grid"] as { name: string }).name === "rectilinear";
        for (const [k, chunk] of isUnequal ? chunks.entries() : [])
          expect(await target.get(width === 1 ? `c/${k}` : `c/${k}/0`)).toEqual(chunk);
      }),
      { numRuns: sweep(150, 15) },
    );
  });
});

describe("the report on chunks off the grid", () => {
  it("gives how many are copied and how many not, and why, in the plan and with the result", async () => {
    const { archives } = await archivesOf([
      { rows: 10, chunk: 4 },
      { rows: 8, chunk: 4 },
    ]);
    const note =
      "chunks copied: 2 of 5; the rest is recompressed: the last chunk of memory:part0.blp is short, with 10 rows " +
      "in all, and Zarr's regular grid has no short chunk in the middle";
    const [plan] = (await planOne(archives)).arrays;
    expect(plan).toMatchObject({ action: "mixed", chunks: 5, chunkShape: [4], notes: [note] });
    const result = await convert(archives, { store: new MemoryStore() });
    expect(result).toMatchObject({
      chunksCopied: 2,
      chunksRecoded: 3,
      notes: expect.arrayContaining([note]),
    });
  });

  it("says what a rectilinear grid requires of readers, if nothing is recompressed", async () => {
    const { archives } = await archivesOf([
      { rows: 10, chunk: 4 },
      { rows: 9, chunk: 3 },
    ]);
    const [plan] = (await planOne(archives, RECTILINEAR)).arrays;
    expect(plan).toMatchObject({ action: "copy", chunks: 6 });
    expect(plan?.notes).toEqual([expect.stringMatching(/unequal lengths.*array\.rectilinear_chunks/)]);
    const target = new MemoryStore();
    await convert(archives, { store: target }, RECTILINEAR);
    expect((await documentAt(target, "zarr.json"))["chunk_grid"]).toEqual({
      name: "rectilinear",
      configuration: { kind: "inline", chunk_shapes: [[[4, 2], 2, [3, 3]]] },
    });
  });

  it("names chunks that end inside a row, for which no grid exists", async () => {
    const store = new MemoryStore();
    const bytes = new Uint8Array(Int32Array.from({ length: 18 }, (_, i) => i).buffer);
    for (const key of ["a.blp", "b.blp"])
      await putBloscpack(store, key, bytes, 16, { dtype: "<i4", shape: [6, 3] });
    const archives = await Promise.all(["a.blp", "b.blp"].map((key) => open(store, key)));
    const [plan] = (await planOne(archives, RECTILINEAR)).arrays;
    expect(plan).toMatchObject({ action: "recode" });
    const target = new MemoryStore();
    await convert(archives, { store: target }, { ...RECTILINEAR, verify: true });
    expect((await valuesIn(target)).slice(17, 20)).toEqual([17, 0, 1]);
  });

  it("is the same after an interruption, with the chunks that are copied and those that are not", async () => {
    const { archives, values } = await archivesOf([
      { rows: 10, chunk: 4 },
      { rows: 30, chunk: 4 },
    ]);
    const target = new MemoryStore();
    const abort = new AbortController();
    const broken = convert(
      archives,
      { store: target },
      {
        chunksPerShard: 1,
        signal: abort.signal,
        onProgress: ({ done }) => done > 60 && abort.abort(new Error("enough")),
      },
    );
    await expect(broken).rejects.toThrow("enough");
    const result = await convert(
      archives,
      { store: target },
      {
        chunksPerShard: 1,
        resume: true,
        verify: true,
      },
    );
    expect(result.shardsKept).toBeGreaterThan(0);
    expect(await valuesIn(target)).toEqual(values);
  });
});
