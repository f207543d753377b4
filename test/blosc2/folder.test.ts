/** Folders with frames and stores of Blosc2 and HDF5 files in them, as other programs leave them. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { convert } from "../../src/convert/run/convert.ts";
import { findReadables } from "../../src/open/find-readables.ts";
import { openArray } from "../../src/open/open.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { interceptStore } from "../../src/store/wrappers/intercept.ts";
import { repositoryRoot } from "../fixtures/manifest.ts";

const fixtures = join(repositoryRoot, "fixtures");

/** A data set as nnU-Net leaves it, next to stores, a sparse frame and an HDF5 file. */
function dataSet(): MemoryStore {
  const images = new Map<string, Uint8Array>();
  const add = (from: string, to: string): void => {
    const path = join(fixtures, from);
    if (statSync(path).isFile()) images.set(to, new Uint8Array(readFileSync(path)));
    else for (const name of readdirSync(path)) add(`${from}/${name}`, `${to}/${name}`);
  };
  add("blosc2/lz4.b2nd", "set/plans/case_000.b2nd");
  add("blosc2/padded.b2nd", "set/plans/case_000_seg.b2nd");
  // Never opened: unpickling can run any code.
  images.set("set/plans/case_000.pkl", new TextEncoder().encode("cos\nsystem\n"));
  images.set("set/dataset.json", new TextEncoder().encode("{}"));
  add("blosc2/sparse.b2nd", "set/sparse.b2nd");
  add("blosc2-stores/tree.b2z", "set/tree.b2z");
  add("blosc2-stores/tree.b2d", "set/tree.b2d");
  add("hdf5/pytables.h5", "set/bars.h5");
  return new MemoryStore(images);
}

async function sums(
  store: MemoryStore,
  strip = (path: string): string => path,
): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for await (const { path, array } of findReadables(store))
    if (array !== undefined)
      found[strip(path)] = createHash("sha256")
        .update(await array.getBytes())
        .digest("hex");
  return found;
}

test("a folder of frames, stores and HDF5 files becomes a Zarr hierarchy with the same names, and pickles are never loaded", async () => {
  const store = dataSet();
  const read: string[] = [];
  const watched = interceptStore(store, {
    onCall: (call, proceed) => {
      // The first bytes of every file identify it.
      const { length } = (call.args[1] ?? {}) as { readonly length?: number };
      if (call.method === "get" || (call.method === "getRange" && length !== 8)) read.push(call.key);
      return proceed();
    },
    onSync: (_, proceed) => proceed(),
    onList: () => undefined,
  });
  const target = new MemoryStore();
  const report = await convert(
    { store: watched, path: "set" },
    { store: target, path: "out" },
    { to: "zarr" },
  );
  expect(report).toMatchObject({ arrays: 12, failures: [] });
  const expected = await sums(store, (path) => path.replace(/^set/, "out"));
  expect(Object.keys(expected).length).toBeGreaterThan(8);
  expect(await sums(target)).toEqual(expected);
  expect(read.filter((key) => key.endsWith(".pkl"))).toEqual([]);
  // And back, under the original names.
  const back = new MemoryStore();
  await convert({ store: target, path: "out/plans" }, { store: back, path: "plans" }, { to: "b2nd" });
  const original = await openArray(store, "set/plans/case_000.b2nd");
  const again = await openArray(back, "plans/case_000.b2nd");
  expect(await again.getBytes()).toEqual(await original.getBytes());
});

test("the same folder becomes files of other formats, named without their old extensions", async () => {
  const target = new MemoryStore();
  await convert({ store: dataSet(), path: "set" }, { store: target, path: "out" }, { to: "npy" });
  const names: string[] = [];
  const walk = async (folder: string): Promise<void> => {
    for await (const { name, kind } of target.list(folder)) {
      if (kind === "folder") await walk(`${folder}/${name}`);
      else names.push(`${folder}/${name}`);
    }
  };
  await walk("out");
  expect(names).toContain("out/plans/case_000.npy");
  expect(names).toContain("out/plans/case_000_seg.npy");
  expect(names.some((name) => /out\/bars\.h5\/prices\.npy/.test(name))).toBe(true);
});
