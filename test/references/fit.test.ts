/** Chunks whose length is not that of their rows: one rule decides what happens to them, in references as in copies. */
import { describe, expect, it } from "vitest";
import { open } from "../../src/archive/open/open.ts";
import { decode } from "../../src/codec/index.ts";
import { parseDType } from "../../src/format/dtype.ts";
import { joinPlans } from "../../src/references/plan/join.ts";
import type { PlannedChunk } from "../../src/references/plan/plan.ts";
import { type PlanOptions, planReferences } from "../../src/references/plan/plan.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { createCarray } from "../../src/write/bcolz/bcolz-create.ts";
import { type ArraySettings, putBloscpack } from "../convert/to-zarr/make-archive.ts";

const LOCATED = { locate: (key: string) => `https://host.invalid/${key}`, guard: false, node: "x" } as const;

/** Items 0, 1, 2 … in chunks of four, of which an array of the given shape has the first. */
async function planOf(
  items: number,
  settings: Omit<ArraySettings, "dtype">,
  options: PlanOptions = {},
): ReturnType<typeof planReferences> {
  const store = new MemoryStore();
  const bytes = new Uint8Array(Int32Array.from({ length: items }, (_, i) => i).buffer);
  await putBloscpack(store, "a.blp", bytes, 16, { dtype: "<i4", ...settings });
  return planReferences(await open(store, "a.blp"), { ...LOCATED, ...options });
}

async function chunksIn({ arrays: [array] }: Awaited<ReturnType<typeof planOf>>): Promise<{
  readonly grid: unknown;
  readonly kinds: readonly string[];
  readonly last: readonly number[];
}> {
  if (array === undefined) throw new Error("no array");
  const chunks: PlannedChunk[] = [];
  for await (const chunk of array.chunks({ virtual: 0, padded: 0, recoded: 0, inlined: 0 }))
    chunks.push(chunk);
  const items = await decode(await array.sample(array.count - 1));
  return {
    grid: (array.document["chunk_grid"] as { readonly configuration: unknown }).configuration,
    kinds: chunks.map((chunk) => (chunk.kind === "native" ? chunk.reason : chunk.kind)),
    last: [...new Int32Array(items.slice().buffer)],
  };
}

const RECTILINEAR = { kind: "inline", chunk_shapes: [[4, 2]] };

describe("the last chunk of an array whose rows end inside it", () => {
  it("is padded in a regular grid, and referenced unchanged in a rectilinear one", async () => {
    expect(await chunksIn(await planOf(6, { shape: [6] }))).toEqual({
      grid: { chunk_shape: [4] },
      kinds: ["virtual", "padded"],
      last: [4, 5, 0, 0],
    });
    expect(await chunksIn(await planOf(6, { shape: [6] }, { rectilinear: true }))).toEqual({
      grid: RECTILINEAR,
      kinds: ["virtual", "virtual"],
      last: [4, 5],
    });
  });

  it("is padded in Fortran order, whose grid stays regular", async () => {
    const fortran = { shape: [2, 3], order: "F" } as const;
    const regular = await chunksIn(await planOf(6, fortran));
    expect(regular).toEqual({
      grid: { chunk_shape: [2, 2] },
      kinds: ["virtual", "padded"],
      last: [4, 5, 0, 0],
    });
    expect(await chunksIn(await planOf(6, fortran, { rectilinear: true }))).toEqual(regular);
  });

  it("is cut if the writer padded it and the grid is rectilinear, and refused if others follow", async () => {
    const store = new MemoryStore();
    const data = new Uint8Array(Int32Array.from({ length: 8 }, (_, i) => i).buffer);
    await createCarray(store, "", { dtype: parseDType("<i4", "test"), data }, { chunkLength: 4 });
    // A folder whose last chunk is whole, though not all of its rows count.
    await store.put("meta/sizes", new TextEncoder().encode('{"shape": [6], "nbytes": 24, "cbytes": 64}'));
    const grown = await planReferences(await open(store, ""), { ...LOCATED, rectilinear: true });
    expect(await chunksIn(grown)).toEqual({ grid: RECTILINEAR, kinds: ["virtual", "recoded"], last: [4, 5] });
    const joined = joinPlans([grown, await planOf(4, { shape: [4] })], { ...LOCATED, rectilinear: true });
    await expect(chunksIn(joined)).rejects.toMatchObject({
      code: "UNSUPPORTED",
      details: { chunk: 1, field: "concat" },
    });
  });
});
