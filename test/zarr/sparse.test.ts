/** Arrays that claim far more than is stored: functions that examine them take time only for what is stored. */

import { expect, test } from "vitest";
import { compareZarr } from "../../src/convert/run/compare.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { createZarr } from "../../src/zarr/write/create.ts";
import { convert } from "../../src/zarr.ts";
import { SPECIFICATIONS } from "./arrays.ts";

const json = (value: object): Uint8Array => new TextEncoder().encode(JSON.stringify(value));
const part = (start: number, stop: number) => ({ start, stop, step: 1 });

test.each(Object.entries(SPECIFICATIONS))(
  "the missing chunks of %s are counted as they are listed",
  async (_, specification) => {
    const store = new MemoryStore();
    const array = await createZarr(store, "a", specification);
    const listed = async (): Promise<number> => {
      let count = 0;
      for await (const _chunk of array.listMissing()) count++;
      return count;
    };
    expect(await array.countMissing()).toBe(await listed());
    await array.set([part(3, 5), part(15, 17)], 4);
    expect(await array.countMissing()).toBe(await listed());
    expect(await listed()).toBeGreaterThan(0);
  },
);

/** Version 2, one item in a chunk, four of 2^40 stored. */
async function makeSparse(): Promise<MemoryStore> {
  const store = new MemoryStore();
  const document = { zarr_format: 2, shape: [2 ** 40], chunks: [1], dtype: ">i2", fill_value: 258 };
  await store.put("s/.zarray", json({ ...document, compressor: null, filters: null, order: "C" }));
  for (const at of [0, 7, 2 ** 39, 2 ** 40 - 1]) await store.put(`s/${at}`, Uint8Array.of(1, at % 251));
  return store;
}

test("a conversion of an array of 2^40 chunks is compared by its stored chunks, and every stored value counts", async () => {
  const store = await makeSparse();
  const source = await openZarrArray(store, "s");
  expect(await source.countMissing()).toBe(2 ** 40 - 4);
  const result = await convert(source, { store, path: "t" }, { verify: true });
  expect(result).toMatchObject({ chunksCopied: 4, verified: true });
  const compare = async (): Promise<void> => compareZarr(source, await openZarrArray(store, "t"), {});
  await compare();
  const key = `t/c/${2 ** 39}`;
  const stored = (await store.get(key)) as Uint8Array;
  await store.put(key, Uint8Array.of(9, 9));
  await expect(compare()).rejects.toMatchObject({
    code: "BAD_FIELD",
    message: expect.stringContaining(`of the chunk or shard at item ${2 ** 39}`) as string,
  });
  // What only one side has is compared too, from either side.
  await store.delete(key);
  await expect(compare()).rejects.toMatchObject({ code: "BAD_FIELD", details: { field: "values" } });
  await store.put(key, stored);
  await store.put("t/c/5", Uint8Array.of(0, 0));
  await expect(compare()).rejects.toMatchObject({ code: "BAD_FIELD", details: { field: "values" } });
  await store.delete("t/c/5");
  await compare();
  const document = JSON.parse(new TextDecoder().decode(await store.get("t/zarr.json"))) as object;
  await store.put("t/zarr.json", json({ ...document, fill_value: 259 }));
  await expect(compare()).rejects.toMatchObject({
    code: "BAD_FIELD",
    message: expect.stringContaining("of the fill value") as string,
  });
});
