/** Several archives as one array, and what follows an array that grows. */
import { describe, expect, it } from "vitest";
import { open } from "../../src/archive/open/open.ts";
import { isSuperchunkError } from "../../src/errors.ts";
import { openReferences } from "../../src/references/kerchunk/open-references.ts";
import { writeKerchunk } from "../../src/references/kerchunk/write-kerchunk.ts";
import { joinPlans } from "../../src/references/plan/join.ts";
import { type PlanOptions, planReferences, type ReferencePlan } from "../../src/references/plan/plan.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { putBloscpack } from "../convert/to-zarr/make-archive.ts";
import { documentOf, readThroughView } from "../view/read-view.ts";

const locate = (key: string): string => `https://host.invalid/${key}`;

async function planOf(store: MemoryStore, name: string, options: PlanOptions): Promise<ReferencePlan> {
  return planReferences(await open(store, name), { ...options, locate, guard: false, node: "x" });
}

async function join(
  rows: readonly number[],
  options: PlanOptions = {},
): Promise<{
  document: Record<string, unknown>;
  values: number[];
}> {
  const source = new MemoryStore();
  let next = 0;
  const plans: ReferencePlan[] = [];
  for (const [i, count] of rows.entries()) {
    const values = Array.from({ length: count }, () => next++);
    const bytes = new Uint8Array(Int32Array.from(values).buffer);
    await putBloscpack(source, `part${i}.blp`, bytes, 16, { dtype: "<i4", shape: [count] });
    plans.push(await planOf(source, `part${i}.blp`, options));
  }
  const target = new MemoryStore();
  async function* all(): AsyncGenerator<ReferencePlan> {
    yield joinPlans(plans, { ...options, locate, guard: false });
  }
  const { containers } = await writeKerchunk(all(), target, "set.json", {
    form: "json",
    openContainer: () => source,
  });
  const store = await openReferences(target, "set.json", { containers, openContainer: () => source });
  const document = await documentOf(store, "x");
  if (options.rectilinear === true) return { document, values: [] };
  const bytes = await readThroughView(store, "x", "<i4");
  return { document, values: [...new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4)] };
}

describe("archives joined along the first dimension", () => {
  it("are one regular array if every chunk but the last is whole", async () => {
    const { document, values } = await join([8, 4, 6]);
    expect(document["shape"]).toEqual([18]);
    expect(document["chunk_grid"]).toEqual({ name: "regular", configuration: { chunk_shape: [4] } });
    expect(values).toEqual(Array.from({ length: 18 }, (_, i) => i));
  });

  it("are refused with the reason if a short chunk would be in the middle", async () => {
    const error = await join([6, 8]).catch((caught: unknown) => caught);
    expect(isSuperchunkError(error, "UNSUPPORTED") && error.message).toMatch(
      /a regular grid has no short chunk in the middle; join with a rectilinear grid/,
    );
  });

  it("get a rectilinear grid if requested", async () => {
    const { document } = await join([6, 8, 3], { rectilinear: true });
    expect(document["shape"]).toEqual([17]);
    expect(document["chunk_grid"]).toEqual({
      name: "rectilinear",
      configuration: { kind: "inline", chunk_shapes: [[4, 2, [4, 2], 3]] },
    });
  });
});
