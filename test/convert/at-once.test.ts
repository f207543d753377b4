/** Two conversions to one destination at the same time: one is refused, and nothing of it is in the other's result. */
import { describe, expect, it } from "vitest";
import { open } from "../../src/archive/open/open.ts";
import { isSuperchunkError } from "../../src/errors.ts";
import { openArray } from "../../src/index.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { type ConvertFormat, type ConvertResult, convert } from "../../src/zarr.ts";
import { putCarray } from "./to-zarr/make-archive.ts";

const countTo = (last: number): number[] => Array.from({ length: 1000 }, (_, i) => Math.sign(last) * (i + 1));

/** Converts the values 1, 2, … 1000, or -1, -2, … to "out". */
async function convertTo(last: number, store: MemoryStore, to: ConvertFormat): Promise<ConvertResult> {
  const source = new MemoryStore();
  const values = new Uint8Array(Int32Array.from(countTo(last)).buffer);
  await putCarray(source, "a", values, 100, { dtype: "int32", shape: [1000] });
  return convert(await open(source, "a"), { store, path: "out" }, { to });
}

async function valuesIn(store: MemoryStore): Promise<number[]> {
  const array = await openArray(store, "out");
  expect((await array.verify()).ok).toBe(true);
  return Array.from((await array.get()).data as Int32Array);
}

describe("two conversions that begin at the same time", () => {
  const formats = [
    "zarr",
    "zarr3-transformer",
    "bcolz",
    "blz",
    "npy",
    "bloscpack",
    "b2nd",
    "parquet",
    "arrow",
  ];

  it.each(formats as ConvertFormat[])("to %s", async (to) => {
    const store = new MemoryStore();
    const results = await Promise.allSettled([1000, -1000].map((last) => convertTo(last, store, to)));
    const refused = results.filter((result) => result.status === "rejected");
    expect(refused.map(({ reason }) => isSuperchunkError(reason, "CONFLICT"))).toEqual([true]);
    if (to === "npy" || to === "parquet" || to === "arrow") return;
    expect(await valuesIn(store)).toEqual(countTo(results[0]?.status === "fulfilled" ? 1000 : -1000));
  });
});

it("a conversion that looked at the destination before another began and ended there is refused", async () => {
  class Late extends MemoryStore {
    #isLate = true;
    override async put(...put: Parameters<MemoryStore["put"]>): ReturnType<MemoryStore["put"]> {
      const isFirst = this.#isLate;
      this.#isLate = false;
      if (isFirst) await convertTo(1000, this, "zarr");
      return super.put(...put);
    }
  }
  const store = new Late();
  await expect(convertTo(-1000, store, "zarr")).rejects.toMatchObject({ code: "CONFLICT" });
  expect(await valuesIn(store)).toEqual(countTo(1000));
  expect(await store.stat("out/.superchunk-convert.json")).toBeUndefined();
});
