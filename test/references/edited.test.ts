/** References to arrays after random changes: they give the values, and an update keeps none that no longer holds. */
import { expect, test } from "vitest";
import { open } from "../../src/archive/open/open.ts";
import type { JsonObject } from "../../src/format/types.ts";
import { defaultContainer } from "../../src/references/containers/containers.ts";
import { openReferences } from "../../src/references/kerchunk/open-references.ts";
import { writeKerchunk } from "../../src/references/kerchunk/write-kerchunk.ts";
import { type PlannedChunk, planReferences, type ReferencePlan } from "../../src/references/plan/plan.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { createArray, openWritable } from "../../src/write/array/create.ts";
import fc from "../property.ts";
import { sweep } from "../scope.ts";
import { readThroughView } from "../view/read-view.ts";

const STEP = fc.oneof(
  fc.record({ append: fc.integer({ min: 1, max: 30 }) }),
  fc.record({ set: fc.nat(1000), step: fc.integer({ min: 1, max: 9 }) }),
);

const located = { locate: (key: string): string => `https://host.invalid/${key}`, guard: false, node: "a" };

async function chunksOf(plan: ReferencePlan): Promise<PlannedChunk[]> {
  const chunks: PlannedChunk[] = [];
  const counts = { virtual: 0, padded: 0, recoded: 0, inlined: 0 };
  for await (const chunk of plan.arrays[0]?.chunks(counts) ?? []) chunks.push(chunk);
  return chunks;
}

async function valuesOf(source: MemoryStore, plan: ReferencePlan): Promise<number[]> {
  const target = new MemoryStore();
  async function* plans(): AsyncGenerator<ReferencePlan> {
    yield plan;
  }
  const containers = [defaultContainer("https://host.invalid/")];
  const opening = { containers, openContainer: () => source };
  await writeKerchunk(plans(), target, "set.json", { form: "json", ...opening });
  const store = await openReferences(target, "set.json", opening);
  const bytes = await readThroughView(store, "a", "<i4");
  return [...new Int32Array(bytes.slice().buffer)];
}

test("references follow an array that is appended to and set, and those that an update keeps still hold", async () => {
  const steps = fc.array(STEP, { minLength: 2, maxLength: 7 });
  await fc.assert(
    fc.asyncProperty(steps, fc.boolean(), async (given, reopens) => {
      const store = new MemoryStore();
      let array = await createArray(store, "a", { dtype: "<i4", chunkLength: 3, superchunkLength: 4 });
      const wanted: number[] = [];
      let before: { readonly document: JsonObject; readonly chunks: readonly PlannedChunk[] } | undefined;
      for (const [i, step] of given.entries()) {
        const { append = 0, set = 0, step: apart = 1 } = { append: 0, set: 0, step: 1, ...step };
        const rows = Int32Array.from({ length: append }, (_, k) => 1000 * i + k);
        if (append > 0) await array.append(rows);
        else if (wanted.length > 0) {
          const start = set % wanted.length;
          await array.set([{ start, stop: wanted.length, step: apart }], -i);
          for (let row = start; row < wanted.length; row += apart) wanted[row] = -i;
        }
        wanted.push(...rows);
        await array.flush();
        if (reopens) {
          await array.close();
          array = await openWritable(store, "a");
        }
        const plan = await planReferences(await open(store, "a"), located);
        const [planned] = plan.arrays;
        if (planned === undefined || wanted.length === 0) continue;
        const chunks = await chunksOf(plan);
        const known = before === undefined ? 0 : (planned.chunksOf(before.document) ?? 0);
        const first = known === 0 ? 0 : await planned.firstInObject(known - 1);
        expect(chunks.slice(0, first)).toEqual(before?.chunks.slice(0, first) ?? []);
        before = { document: planned.document, chunks };
        expect(await valuesOf(store, plan)).toEqual(wanted);
      }
      await array.close();
    }),
    { numRuns: sweep(200, 15) },
  );
});
