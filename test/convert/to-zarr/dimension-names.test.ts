/**
 * Dimensions have names by every route: xarray opens no Zarr v3 array without, and dimensions with one name have one
 * length there. [FE-10]
 */

import { expect, test } from "vitest";
import { open } from "../../../src/archive/open/open.ts";
import type { JsonObject } from "../../../src/format/types.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import type { ReadableStore } from "../../../src/store/types.ts";
import { zarrTreeView } from "../../../src/view/view-tree.ts";
import { openZarr } from "../../../src/zarr/read/open.ts";
import { convert, findViewEntries, planReferences, type ViewOptions } from "../../../src/zarr.ts";
import { putCarray } from "./make-archive.ts";

/** Three arrays and a table in folders; `e` is as long as `a`. */
async function makeFolder(): Promise<MemoryStore> {
  const store = new MemoryStore();
  const put = (key: string, shape: readonly number[]): Promise<void> => {
    const items = shape.reduce((product, n) => product * n, 1);
    const settings = { dtype: "float64", shape };
    return putCarray(store, key, new Uint8Array(8 * items), 16 * (items / (shape[0] ?? 1)), settings);
  };
  await put("in/a", [60]);
  await put("in/b", [40]);
  await put("in/deep/c", [60, 3]);
  await put("in/deep/e", [60]);
  await put("in/t/x", [50]);
  await put("in/t/y", [50, 2]);
  await store.put("in/t/__rootdirs__", new TextEncoder().encode('{"names": ["x", "y"]}'));
  return store;
}

async function namesIn(get: (key: string) => Promise<Uint8Array | undefined>): Promise<JsonObject> {
  const bytes = await get("zarr.json");
  const { consolidated_metadata: all } = JSON.parse(new TextDecoder().decode(bytes)) as {
    consolidated_metadata: { metadata: Record<string, JsonObject> };
  };
  const arrays = Object.entries(all.metadata).filter(([, { node_type: type }]) => type === "array");
  return Object.fromEntries(arrays.map(([node, document]) => [node, document["dimension_names"] ?? null]));
}

async function converted(
  source: { readonly store: ReadableStore; readonly path: string },
  options: ViewOptions = {},
): Promise<JsonObject> {
  const store = new MemoryStore();
  await convert(source, { store }, options);
  return namesIn((key) => store.get(key));
}

test("arrays of a folder share dimension names if their lengths are equal, and columns share their rows', in conversions and views alike", async () => {
  const store = await makeFolder();
  const names = await converted({ store, path: "in" });
  expect(names).toEqual({
    a: ["dim_0_60"],
    b: ["dim_0_40"],
    "deep/c": ["dim_0_60", "dim_1_3"],
    "deep/e": ["dim_0_60"],
    "t/x": ["row"],
    "t/y": ["row", "dim_1"],
  });
  const view = zarrTreeView(await findViewEntries(store, "in"));
  expect(await namesIn((key) => view.get(key))).toEqual(names);
  const plan = await planReferences(await open(store, "in/deep/c"), { node: "deep/c", isMember: true });
  expect(plan.arrays.map(({ document }) => document["dimension_names"])).toEqual([names["deep/c"]]);
});

test("an array on its own has plain names, and one that is put into a group has lengths in them", async () => {
  const store = await makeFolder();
  const nameOf = async (isInGroup: boolean): Promise<unknown> => {
    const target = new MemoryStore();
    await convert({ store, path: "in/deep/c" }, { store: target, isInGroup });
    return (JSON.parse(new TextDecoder().decode(await target.get("zarr.json"))) as JsonObject)[
      "dimension_names"
    ];
  };
  expect(await nameOf(false)).toEqual(["dim_0", "dim_1"]);
  expect(await nameOf(true)).toEqual(["dim_0_60", "dim_1_3"]);
});

test("given names apply to the arrays that they fit; if they fit no array of an archive they are refused", async () => {
  const store = await makeFolder();
  const options = { dimensionNames: ["time"] };
  expect(await converted({ store, path: "in" }, options)).toMatchObject({
    a: ["time"],
    "deep/c": ["dim_0_60", "dim_1_3"],
    "t/x": ["time"],
    "t/y": ["row", "dim_1"],
  });
  expect(await converted({ store, path: "in/t" }, options)).toEqual({ x: ["time"], y: ["row", "dim_1"] });
  await expect(converted({ store, path: "in/deep/c" }, options)).rejects.toMatchObject({
    code: "BAD_ARGUMENT",
    details: { field: "dimensionNames" },
  });
});

test("given names apply to Zarr arrays as they do to archives", async () => {
  const zarr = new MemoryStore();
  await convert({ store: await makeFolder(), path: "in" }, { store: zarr, path: "z" });
  const again = async (dimensionNames: readonly string[]): Promise<JsonObject> => {
    const store = new MemoryStore();
    await convert(await openZarr(zarr, "z"), { store }, { dimensionNames });
    return namesIn((key) => store.get(key));
  };
  expect(await again(["z", "y"])).toMatchObject({
    a: ["dim_0_60"],
    "deep/c": ["z", "y"],
    "t/x": ["row"],
    "t/y": ["z", "y"],
  });
  await expect(again(["t", "z", "y"])).rejects.toMatchObject({ details: { field: "dimensionNames" } });
});
