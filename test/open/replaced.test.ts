/** A handle whose array was replaced by another one says so in `verify`, and does not report damage. */
import { copyFileSync, cpSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { MemoryStore, open } from "../../src/index.ts";
import { convert, create, open as openPath } from "../../src/node/index.ts";
import type { ConvertFormat } from "../../src/zarr.ts";
import { temporaryFolder } from "../folder.ts";
import { withCounting } from "../store/counting.ts";

const STALE = { code: "STALE", message: expect.stringContaining("has taken its place") as string };

async function makeArray(folder: string, name: string, length: number): Promise<void> {
  const array = await create(join(folder, name), { dtype: "float64", chunkLength: 100 });
  await array.append(Float64Array.from({ length }, (_, i) => Math.sqrt(i * length)));
  await array.close();
}

test.each(["zarr", "b2nd"] satisfies ConvertFormat[])("as %s", async (to) => {
  const folder = temporaryFolder();
  const at = (name: string): string => join(folder, `${name}.${to}`);
  for (const [name, length] of [
    ["a", 1000],
    ["b", 3000],
  ] as const) {
    await makeArray(folder, name, length);
    await convert(join(folder, name), at(name), { to });
  }
  const opened = await openPath(at("a"));
  expect(await opened.verify()).toMatchObject({ ok: true });
  rmSync(at("a"), { recursive: true });
  cpSync(at("b"), at("a"), { recursive: true });
  await expect(opened.verify()).rejects.toMatchObject(STALE);
  const again = await openPath(at("a"));
  expect(await again.verify()).toMatchObject({ ok: true });
  for (const each of [opened, again]) await each.close?.();
});

test("in an HDF5 file", async () => {
  const file = join(temporaryFolder(), "x.h5");
  const fixture = (name: string): string => join("fixtures/hdf5/small", name);
  copyFileSync(fixture("filters-latest.h5"), file);
  const opened = await openPath(file);
  if (opened.kind !== "group") throw new TypeError(opened.kind);
  await opened.verify();
  rmSync(file);
  copyFileSync(fixture("tree-latest.h5"), file);
  await expect(opened.verify()).rejects.toMatchObject({ code: "STALE" });
});

test("in Zarr v2, where damage of the array that was opened stays damage, and an intact one costs no request more", async () => {
  const inner = new MemoryStore();
  const put = async (compressor: object | null, chunks: number): Promise<void> => {
    const document = {
      zarr_format: 2,
      shape: [100],
      chunks: [chunks],
      dtype: "<f8",
      order: "C",
      fill_value: 0,
    };
    const text = JSON.stringify({ ...document, filters: null, compressor });
    await inner.put("z/.zarray", new TextEncoder().encode(text));
  };
  const { store, counts, reset } = withCounting(inner);
  await put(null, 50);
  for (const i of [0, 1]) await inner.put(`z/${i}`, new Uint8Array(400));
  const opened = await open(store, "z");
  reset();
  expect(await opened.verify()).toMatchObject({ ok: true });
  expect(counts.log.filter((each) => each.startsWith("get z/.zarray"))).toEqual([]);
  await inner.put("z/1", new Uint8Array(399));
  expect(await opened.verify()).toMatchObject({ ok: false });
  await put({ id: "zlib", level: 1 }, 50);
  await expect(opened.verify()).rejects.toMatchObject(STALE);
});
