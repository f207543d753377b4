/** References to the chunks of HDF5 files: in every form, with the values that h5py and PyTables wrote; and what is refused. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { copyFile, mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { FileStore } from "../../src/node/fs/fs-store.ts";
import { open } from "../../src/node/open.ts";
import { virtualize } from "../../src/node/virtualize.ts";
import { runCli } from "../cli/harness.ts";
import { repositoryRoot } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";

const fixtures = join(repositoryRoot, "fixtures");
const values = JSON.parse(readFileSync(join(fixtures, "hdf5/values.json"), "utf8")) as Readonly<
  Record<string, { readonly shape: readonly number[]; readonly sha256: string }>
>;

/** Digests of arrays of a set, by their paths. */
async function readSet(set: string, nodes: readonly string[]): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  const root = await open(set, { authorize: ["local"] });
  if (root.kind !== "group") throw new Error(root.kind);
  for (const node of nodes) {
    const array = await root.open(node);
    if (array.kind !== "array") throw new Error(node);
    found[node] = createHash("sha256")
      .update(await array.getBytes())
      .digest("hex");
  }
  await root.close();
  return found;
}

function wanted(file: string, nodes: readonly string[]): Record<string, string | undefined> {
  return Object.fromEntries(nodes.map((node) => [node, values[`${file}/${node}`]?.sha256]));
}

describe("virtualize of HDF5", () => {
  const nodes = [
    "g/blosc-lz4",
    "g/blosc-zstd",
    "g/deflate",
    "contiguous",
    "endless-both",
    "sparse",
    "text",
    "complex",
  ];

  it.each([
    { set: "set.json", options: { to: "kerchunk" } },
    { set: "set2.json", options: { to: "kerchunk", zarrFormat: 2 } },
    { set: "set.parq", options: { to: "kerchunk-parquet" } },
  ] as const)("writes $set, whose chunks are stored in the file", async ({ set: name, options }) => {
    const file = "h5py-latest.h5";
    const set = join(temporaryFolder(), name);
    const result = await virtualize(join(fixtures, "hdf5", file), set, options);
    expect(result).toMatchObject({ virtual: 606, padded: 0, recoded: 0, inlined: 0 });
    expect(await readSet(set, nodes)).toEqual(wanted(file, nodes));
    const left = Object.fromEntries(result.failures.map(({ node, message }) => [node, message]));
    expect(Object.keys(left).sort()).toEqual(
      ["elsewhere", "endless-blosc", "g/loop", "g/random", "lzf", "table", "variable", "virtual"].sort(),
    );
    // A filter that made nothing smaller was left out of these chunks.
    expect(left["g/random"]).toMatch(/h5py-latest\.h5\/g\/random: .*10 of 10.*superchunk convert/);
  });

  it("names the codecs of Zarr v3, and those of numcodecs for filters without a name there", async () => {
    const set = join(temporaryFolder(), "set.json");
    await virtualize(join(fixtures, "hdf5/h5py-latest.h5"), set, { to: "kerchunk" });
    const { refs } = JSON.parse(await readFile(set, "utf8")) as { refs: Record<string, string> };
    const codecs = (node: string): unknown =>
      (JSON.parse(refs[`${node}/zarr.json`] ?? "") as { codecs: { name: string }[] }).codecs.map(
        (codec) => codec.name,
      );
    expect(codecs("g/blosc-lz4")).toEqual(["bytes", "blosc"]);
    expect(codecs("g/deflate")).toEqual([
      "bytes",
      "numcodecs.shuffle",
      "numcodecs.zlib",
      "numcodecs.fletcher32",
    ]);
    expect(codecs("contiguous")).toEqual(["bytes"]);
  });

  it("refers to one dataset by its path, and stores small chunks if requested", async () => {
    const set = join(temporaryFolder(), "prices.json");
    const { code, out } = await runCli([
      "virtualize",
      join(fixtures, "hdf5/pytables.h5/prices"),
      set,
      "--json",
    ]);
    expect({ code, result: JSON.parse(out) as object }).toMatchObject({
      code: 0,
      result: { virtual: 6, sampled: 3 },
    });
    expect(await readSet(set, ["prices"])).toEqual(wanted("pytables.h5", ["prices"]));
    const inline = await virtualize(join(fixtures, "hdf5/pytables.h5/prices"), `${set}.inline.json`, {
      to: "kerchunk",
      inline: 1 << 20,
    });
    expect(inline).toMatchObject({ virtual: 0, inlined: 6 });
    for (const [field, value] of [
      ["columns", ["close"]],
      ["portable", true],
      ["dimensionNames", ["x"]],
    ] as const)
      await expect(
        virtualize(join(fixtures, "hdf5/pytables.h5/prices"), `${set}.c.json`, {
          to: "kerchunk",
          [field]: value,
        }),
      ).rejects.toMatchObject({
        code: "BAD_ARGUMENT",
        details: { field },
        message: expect.stringContaining(`are referenced whole`),
      });
    const pytables = join(fixtures, "hdf5/pytables.h5");
    const { err } = await runCli(["virtualize", pytables, `${set}.d.json`, "--dimension-names", "x"]);
    expect(err).toContain("leave out --dimension-names");
  });

  it("names dimensions after their scales", async () => {
    const set = join(temporaryFolder(), "scales.json");
    await virtualize(join(fixtures, "hdf5/scales.h5"), set, { to: "kerchunk" });
    const { refs } = JSON.parse(await readFile(set, "utf8")) as { refs: Record<string, string> };
    expect(JSON.parse(refs["g/v/zarr.json"] ?? "")).toMatchObject({ dimension_names: ["x", "y"] });
  });

  it("says in notes on several files which of them is meant", async () => {
    const files = ["odd.h5", "tutorial.h5"].map((name) => join(fixtures, "hdf5", name));
    const { err, out } = await runCli(["virtualize", ...files, join(temporaryFolder(), "two.json")]);
    expect(err).toContain("note: odd.h5: attributes that JSON cannot hold are left out: claims\n");
    expect(err).toContain("note: tutorial.h5: detector/readout: attributes that JSON cannot hold");
    expect(out).toMatch(/^\d+ arrays, \d+ not referenced: /);
  });

  it("takes several files at once, and does not join them", async () => {
    const files = ["hdf5/pytables.h5", "hdf5/user-block.h5"].map((name) => join(fixtures, name));
    const set = join(temporaryFolder(), "two.json");
    expect(await virtualize(files, set, { to: "kerchunk" })).toMatchObject({ arrays: 4, failures: [] });
    expect(await readSet(set, ["pytables.h5/prices"])).toEqual({
      "pytables.h5/prices": values["pytables.h5/prices"]?.sha256,
    });
    const datasets = ["pytables.h5/prices", "user-block.h5/x"].map((name) => join(fixtures, "hdf5", name));
    await expect(virtualize(datasets, `${set}.json`, { to: "kerchunk", concat: true })).rejects.toMatchObject(
      {
        code: "UNSUPPORTED",
        details: { field: "concat" },
      },
    );
  });

  it.each([
    ["hdf5/pytables-blosc2.h5/square", "filter 32026"],
    ["hdf5/blosc2.h5", "filter 32026"],
    ["hdf5/summed.h5/zlib", "shuffled after a checksum"],
    ["blosc2/lz4.b2nd", "chunks of Blosc2"],
    ["blosc2/sparse.b2nd", "chunks of Blosc2"],
    ["blosc2-stores/tree.b2z", "chunks of Blosc2"],
    ["blosc2-stores/tree.b2d", "chunks of Blosc2"],
  ])("refuses %s, whose chunks no reader of Zarr decodes", async (path, reason) => {
    const set = join(temporaryFolder(), "no.json");
    await expect(virtualize(join(fixtures, path), set, { to: "kerchunk" })).rejects.toMatchObject({
      code: "UNSUPPORTED",
      details: { field: "chunks" },
      message: expect.stringMatching(new RegExp(`${reason}.*superchunk convert`)),
    });
  });

  it("closes its file if another path has no archives", async () => {
    const folder = temporaryFolder();
    const file = join(folder, "own.h5");
    await copyFile(join(fixtures, "hdf5/tutorial.h5"), file);
    await mkdir(join(folder, "empty"));
    const close = vi.spyOn(FileStore.prototype, "close");
    try {
      const paths = [file, join(folder, "empty")];
      const writing = virtualize(paths, join(folder, "no.json"), { to: "kerchunk" });
      await expect(writing).rejects.toMatchObject({ code: "NOT_FOUND" });
      const closed = close.mock.contexts.map((store) => (store as FileStore).describe("own.h5"));
      expect(closed).toContain(file);
    } finally {
      close.mockRestore();
    }
  });
});
