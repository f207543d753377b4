/** Fill values of items that are lists themselves: a complex number is one value, not a row of two. */

import { expect, test } from "vitest";
import { open } from "../../../src/archive/open/open.ts";
import { zarrSource } from "../../../src/convert/sources/items.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import { openZarr, openZarrArray } from "../../../src/zarr/read/open.ts";
import { createZarr } from "../../../src/zarr/write/create.ts";
import { convert } from "../../../src/zarr.ts";

test.each([2, 3])("complex numbers in rows of %i go to bcolz and back with their fill value", async (n) => {
  const store = new MemoryStore();
  const dataType = "complex64";
  await createZarr(store, "z", { shape: [5, n], dataType, chunkShape: [2, n], fillValue: [0.5, -2] });
  const zarr = await openZarrArray(store, "z");
  for (const format of ["bcolz", "blz"] as const) {
    await convert(
      await zarrSource(await openZarr(store, "z")),
      { store, path: format },
      { to: format, verify: true },
    );
    await convert(await open(store, format), { store, path: `${format}-z` });
    const again = await openZarrArray(store, `${format}-z`);
    expect(again.model.fillItem).toEqual(zarr.model.fillItem);
    expect(await again.getBytes()).toEqual(await zarr.getBytes());
  }
});

test.each([2, 3])(
  "a column of complex numbers in rows of %i is a superchunk field with its default",
  async (n) => {
    const store = new MemoryStore();
    const group = { zarr_format: 3, node_type: "group", attributes: {} };
    await store.put("t/zarr.json", new TextEncoder().encode(JSON.stringify(group)));
    const spec = { shape: [5, n], dataType: "complex128", chunkShape: [2, n], fillValue: [0.5, -2] };
    await createZarr(store, "t/c", spec);
    await convert(
      await zarrSource(await openZarr(store, "t")),
      { store, path: "back" },
      { to: "blz", verify: true },
    );
    const back = await open(store, "back");
    const pair = [0.5, -2];
    expect(back).toMatchObject({ kind: "array", shape: [5], fillValue: [new Array(n).fill(pair)] });
  },
);

test("a group with a column of structs is refused by bcolz before anything is written", async () => {
  const store = new MemoryStore();
  const put = (key: string, document: object): Promise<unknown> =>
    store.put(key, new TextEncoder().encode(JSON.stringify({ zarr_format: 2, ...document })));
  await put("t/.zgroup", {});
  for (const [name, dtype] of [
    ["a", "<i4"],
    ["b", [["x", "<i4"]]],
  ] as const) {
    const stored = { compressor: null, filters: null, fill_value: null, order: "C" };
    await put(`t/${name}/.zarray`, { shape: [5], chunks: [2], dtype, ...stored });
  }
  const node = await openZarr(store, "t");
  await expect(
    convert(await zarrSource(node), { store, path: "back" }, { to: "bcolz" }),
  ).rejects.toMatchObject({
    code: "UNSUPPORTED",
    message: expect.stringContaining("does not open a column of a structured dtype"),
  });
  expect(await store.get("back/a/meta/storage")).toBeUndefined();
});
