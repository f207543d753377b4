/** Images of OME-NGFF 0.4 in Zarr v2 become images of version 0.5 in Zarr v3. Compared with what ome-zarr 0.18 writes for each version. */
import { expect, test } from "vitest";
import { convert } from "../../../src/convert/run/convert.ts";
import { open } from "../../../src/open/open.ts";
import { MemoryStore } from "../../../src/store/memory.ts";

type Json = Readonly<Record<string, unknown>>;

const text = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value));

function imageOf(version: Json, paths: readonly string[]): Json {
  const axes = ["c", "y", "x"].map((name) => ({ name, type: name === "c" ? "channel" : "space" }));
  const levels = paths.map((path) => ({
    path,
    coordinateTransformations: [{ type: "scale", scale: [1, 2, 2] }],
  }));
  return { axes, datasets: levels, name: "image", ...version };
}

/** A hierarchy of Zarr v2: attributes of groups, and arrays of shape [2, 4, 4]. */
async function hierarchyOf(
  groups: Readonly<Record<string, Json>>,
  arrays: readonly string[],
): Promise<MemoryStore> {
  const store = new MemoryStore();
  const at = (path: string, name: string): string => (path === "" ? name : `${path}/${name}`);
  for (const [path, attributes] of Object.entries(groups)) {
    await store.put(at(path, ".zgroup"), text({ zarr_format: 2 }));
    await store.put(at(path, ".zattrs"), text(attributes));
  }
  for (const path of arrays)
    await store.put(
      `${path}/.zarray`,
      text({
        ...{ zarr_format: 2, shape: [2, 4, 4], chunks: [2, 4, 4], dtype: "<u2", order: "C" },
        ...{ compressor: null, filters: null, fill_value: 0 },
      }),
    );
  return store;
}

async function converted(
  store: MemoryStore,
): Promise<{ documentOf(path: string): Promise<Json>; notes: readonly string[] }> {
  const target = new MemoryStore();
  const { notes } = await convert(await open(store, ""), { store: target, path: "" }, { to: "zarr" });
  const documentOf = async (path: string): Promise<Json> => {
    const bytes = await target.get(path === "" ? "zarr.json" : `${path}/zarr.json`);
    return JSON.parse(new TextDecoder().decode(bytes)) as Json;
  };
  return { documentOf, notes };
}

const MOVED = expect.stringContaining('OME-NGFF metadata of version 0.4 are in the attribute "ome"');

test("an image, its labels and other attributes", async () => {
  const omero = { channels: [{ label: "a" }], version: "0.4" };
  const store = await hierarchyOf(
    {
      "": { multiscales: [imageOf({ version: "0.4" }, ["s0", "s1"])], omero, mine: 1 },
      labels: { labels: ["cells"] },
      "labels/cells": {
        multiscales: [imageOf({ version: "0.4" }, ["s0"])],
        "image-label": { version: "0.4", colors: [{ "label-value": 1 }] },
      },
    },
    ["s0", "s1", "labels/cells/s0", "other"],
  );
  const { documentOf, notes } = await converted(store);
  expect((await documentOf(""))["attributes"]).toEqual({
    mine: 1,
    ome: {
      version: "0.5",
      multiscales: [imageOf({}, ["s0", "s1"])],
      omero: { channels: [{ label: "a" }] },
    },
  });
  expect((await documentOf("labels"))["attributes"]).toEqual({ ome: { version: "0.5", labels: ["cells"] } });
  expect((await documentOf("labels/cells"))["attributes"]).toEqual({
    ome: {
      version: "0.5",
      multiscales: [imageOf({}, ["s0"])],
      "image-label": { colors: [{ "label-value": 1 }] },
    },
  });
  for (const path of ["s0", "s1", "labels/cells/s0"])
    expect((await documentOf(path))["dimension_names"]).toEqual(["c", "y", "x"]);
  expect((await documentOf("other"))["dimension_names"]).not.toEqual(["c", "y", "x"]);
  expect(notes.filter((note) => note.includes("NGFF"))).toEqual([MOVED, MOVED, MOVED]);
});

test("plates, wells, and the series of a file", async () => {
  const image = { multiscales: [imageOf({}, ["0"])] };
  const plate = { version: "0.4", columns: [{ name: "1" }], rows: [{ name: "A" }], wells: [{ path: "A/1" }] };
  const well = { version: "0.4", images: [{ path: "0" }] };
  const store = await hierarchyOf(
    {
      "": { "bioformats2raw.layout": 3 },
      OME: { series: ["p"] },
      p: { plate },
      "p/A": {},
      "p/A/1": { well },
      "p/A/1/0": image,
    },
    ["p/A/1/0/0"],
  );
  const { documentOf } = await converted(store);
  const omeOf = async (path: string): Promise<unknown> =>
    ((await documentOf(path))["attributes"] as Json)["ome"];
  const { version: _, ...plateNow } = plate;
  expect(await omeOf("")).toEqual({ version: "0.5", "bioformats2raw.layout": 3 });
  expect(await omeOf("OME")).toEqual({ version: "0.5", series: ["p"] });
  expect(await omeOf("p")).toEqual({ version: "0.5", plate: plateNow });
  expect(await omeOf("p/A")).toBeUndefined();
  expect(await omeOf("p/A/1")).toEqual({ version: "0.5", well: { images: [{ path: "0" }] } });
  expect(await omeOf("p/A/1/0")).toEqual({ version: "0.5", multiscales: [imageOf({}, ["0"])] });
});

test.each<[string, Json]>([
  ["an older version", { multiscales: [imageOf({ version: "0.3" }, ["s0"])] }],
  [
    "axes without names",
    { multiscales: [{ ...imageOf({ version: "0.4" }, ["s0"]), axes: ["c", "y", "x"] }] },
  ],
  ["levels without transformations", { multiscales: [{ ...imageOf({}, []), datasets: [{ path: "s0" }] }] }],
  ["no images", { multiscales: [] }],
  ["labels of another program", { labels: ["low", "high"] }],
  ["a well that is not one", { well: "A1" }],
  ["an image with a plate that is not one", { multiscales: [imageOf({}, ["s0"])], plate: 3 }],
])("attributes stay as they are: %s", async (_, attributes) => {
  const { documentOf, notes } = await converted(await hierarchyOf({ "": attributes }, ["s0"]));
  expect((await documentOf(""))["attributes"]).toEqual(attributes);
  expect(notes).toEqual([]);
});

test("images of version 0.5 stay as they are", async () => {
  const store = await hierarchyOf({ "": { multiscales: [imageOf({}, ["s0"])] } }, ["s0"]);
  const first = new MemoryStore();
  await convert(await open(store, ""), { store: first, path: "" }, { to: "zarr" });
  const second = new MemoryStore();
  const { notes } = await convert(await open(first, ""), { store: second, path: "" }, { to: "zarr" });
  expect((await open(second, "")).attrs).toEqual((await open(first, "")).attrs);
  expect(notes).toEqual([]);
});
