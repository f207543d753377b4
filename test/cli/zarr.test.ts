/** The commands that read, on Zarr arrays and groups: the corpus, damaged copies, Zarr v2, and addresses. */

import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { create as createIn } from "../../src/edit/edit.ts";
import { create, FileStore } from "../../src/node/index.ts";
import { createZarr } from "../../src/zarr/write/create.ts";
import { convert } from "../../src/zarr.ts";
import { openFixture } from "../convert/to-zarr/read-back.ts";
import { type ArrayFixture, corpusFolder, loadFixtures, parseExactJson } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";
import { serveObjects } from "../store/server.ts";
import { runCli } from "./harness.ts";

const rows = loadFixtures("zarr3-sharded", "zarr3-transformer", "zarr3-rectilinear").filter(
  (row): row is ArrayFixture => row.kind === "array",
);
/** The array of a transformer hierarchy has no folder of its own. */
const pathOf = (row: ArrayFixture): string => join(row.file, row.arrayPath);
const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

async function makeFolder(): Promise<string> {
  const folder = temporaryFolder();
  return folder;
}

async function serveFolder(folder: string): Promise<string> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((each) => each.isFile());
  const entries = files.map((each) => {
    const file = join(each.parentPath, each.name);
    return [`served/${file.slice(folder.length + 1)}`, new Uint8Array(readFileSync(file))] as const;
  });
  const server = await serveObjects(entries);
  onTestFinished(() => server.close());
  return new URL("served", server.url.endsWith("/") ? server.url : `${server.url}/`).href;
}

describe.each(rows)("$path", (row) => {
  test("info --json matches the manifest", async () => {
    const { code, out, err } = await runCli(["info", pathOf(row), "--json"]);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    const found = parseExactJson(out) as Record<string, unknown>;
    expect(found).toMatchObject({
      dialect: row.dialect === "zarr3-transformer" ? "zarr3-transformer" : "zarr3",
      kind: "array",
      dtype: row.dtype,
      shape: row.shape,
      order: "C",
      attrs: row.attrs,
      checksum: row.checksum,
      fillValue: row.fillValue,
    });
    const { chunk_shape: chunkShape, shard_shape: shardShape, chunk_grid: grid } = row.chunks;
    const chunks = found["chunks"] as Record<string, unknown>;
    // The producer's configuration gives the dimensions as stored; ours gives the array's.
    const isTransposed = row.notes.includes("transpose");
    const turned = [...((chunkShape ?? []) as readonly number[])].reverse();
    if (chunkShape !== undefined) expect(chunks["chunkShape"]).toEqual(isTransposed ? turned : chunkShape);
    if (shardShape !== undefined) expect(chunks["shardShape"]).toEqual(shardShape);
    if (grid !== undefined)
      expect(grid).toMatchObject({ configuration: { chunk_shapes: chunks["chunkShapes"] } });
  });

  test("cat gives the bytes, and verify finds nothing, in the folder and over HTTP", async () => {
    const raw = await runCli(["cat", pathOf(row), "--format", "raw"]);
    expect(raw.code).toBe(0);
    expect(sha256(raw.bytes)).toBe(row.sha256);
    expect((await runCli(["verify", row.file])).code).toBe(0);
    const address = [await serveFolder(row.file), row.arrayPath].filter((part) => part !== "").join("/");
    const remote = await runCli(["cat", address, "--format", "raw"]);
    expect(sha256(remote.bytes)).toBe(row.sha256);
    expect(await runCli(["verify", address])).toMatchObject({ code: 0 });
  });

  test("stored and missing chunks together are those of the grid, each once", async () => {
    const { chunks } = JSON.parse((await runCli(["info", pathOf(row), "--json"])).out) as {
      chunks: { nchunks: number };
    };
    const list = async (...flags: string[]): Promise<number[]> => {
      const { out } = await runCli(["chunks", pathOf(row), "--json", ...flags]);
      return (JSON.parse(out) as { index: number }[]).map(({ index }) => index);
    };
    const all = [...(await list()), ...(await list("--missing"))].sort((a, b) => a - b);
    expect(all).toEqual(Array.from({ length: chunks.nchunks }, (_, i) => i));
  });
});

test("ls lists hierarchies as trees, groups first, and counts missing chunks", async () => {
  const { code, out } = await runCli(["ls", join(corpusFolder, "zarr3-transformer"), "--missing", "--json"]);
  expect(code).toBe(0);
  const found = JSON.parse(out) as { path: string; kind: string; missing?: number }[];
  const names = found.map(({ path, kind, missing }) => [
    path.slice(corpusFolder.length + 1).replaceAll("\\", "/"),
    kind,
    missing,
  ]);
  expect(names).toEqual([
    ["zarr3-transformer/f8-2d-missing", "group", undefined],
    ["zarr3-transformer/f8-2d-missing/arr", "array", 3],
    ["zarr3-transformer/i4-1d", "group", undefined],
    ["zarr3-transformer/i4-1d/arr", "array", 0],
    ["zarr3-transformer/u2-dot-group", "group", undefined],
    ["zarr3-transformer/u2-dot-group/grp", "group", undefined],
    ["zarr3-transformer/u2-dot-group/grp/sub", "group", undefined],
    ["zarr3-transformer/u2-dot-group/grp/sub/arr", "array", 0],
  ]);
  const archives = await runCli(["ls", join(corpusFolder, "carray"), "--missing", "--json"]);
  expect(new Set((JSON.parse(archives.out) as { missing: unknown }[]).map(({ missing }) => missing))).toEqual(
    new Set([null]),
  );
  const text = await runCli(["ls", corpusFolder]);
  expect(text.out).toMatch(/^zarr3 +<f8 +1000 .*zp-f8-1d-blosc-lz4$/m);
  expect(text.out).toMatch(/^carray +/m);
});

test("a group of columns is shown like a table, its arrays by name, locally and over HTTP", async () => {
  const folder = await makeFolder();
  const table = await openFixture("ctable/bcolz-daily-equities");
  await convert(table, { store: new FileStore(folder) });
  const original = join(corpusFolder, "ctable", "bcolz-daily-equities");
  const part = ["--slice", "3:9", "--format", "csv"];
  const expected = (await runCli(["cat", original, ...part])).out;
  const address = await serveFolder(folder);
  for (const path of [folder, address]) {
    expect((await runCli(["cat", path, ...part])).out).toBe(expected);
    const facts = JSON.parse((await runCli(["info", path, "--json"])).out) as {
      columns: { name: string }[];
    };
    expect(facts).toMatchObject({ kind: "group", dialect: "zarr3", shape: [226] });
    expect(facts.columns.map(({ name }) => name)).toEqual(table.kind === "table" ? table.names : []);
    expect((await runCli(["cat", `${path}/close`, "--slice", "0"])).out).toBe(
      (await runCli(["cat", original, "--column", "close", "--slice", "0"])).out,
    );
    const listed = await runCli(["ls", path, "--json"]);
    expect(JSON.parse(listed.out)).toHaveLength(8);
    expect((await runCli(["verify", path])).out).toContain("7 archives: 7 ok");
  }
  const chunks = JSON.parse(
    (await runCli(["chunks", folder, "--column", "close", "--json"])).out,
  ) as object[];
  expect(chunks[1]).toMatchObject({ column: "close", index: 1, start: [64], cname: "lz4", slot: 1 });
  expect(await runCli(["cat", folder, "--format", "npy"])).toMatchObject({
    code: 2,
    err: expect.stringContaining("choose an array with --column (open, high") as string,
  });
});

test("a group without arrays has no values to print, no chunks, and nothing to convert", async () => {
  const folder = await makeFolder();
  writeFileSync(join(folder, "zarr.json"), '{"zarr_format": 3, "node_type": "group"}');
  const printed = await runCli(["cat", folder]);
  expect(printed).toMatchObject({ code: 2, out: "" });
  expect(printed.err).toContain("the group holds no arrays");
  expect(await runCli(["chunks", folder])).toMatchObject({ code: 0, out: "no chunks\n", err: "" });
  expect(JSON.parse((await runCli(["chunks", folder, "--json"])).out)).toEqual([]);
  const converted = await runCli(["convert", folder, `${folder}.npy`, "--to", "npy"]);
  expect(converted.code).toBe(1);
  expect(converted.err).toContain(`${folder}: found neither an archive nor a Zarr array to convert`);
});

test("a group of arrays of unequal length asks for the name of one of them", async () => {
  const folder = await makeFolder();
  writeFileSync(join(folder, "zarr.json"), JSON.stringify({ zarr_format: 3, node_type: "group" }));
  for (const name of ["zp-f8-1d-blosc-lz4", "zrs-bool-crc32c"])
    cpSync(join(corpusFolder, "zarr3-sharded", name), join(folder, name), { recursive: true });
  expect(await runCli(["cat", folder])).toMatchObject({
    code: 2,
    err: expect.stringContaining("not of one length") as string,
  });
  expect(await runCli(["cat", folder, "--column", "zrs-bool-crc32c", "--slice", "1"])).toMatchObject({
    code: 0,
    out: "false\n",
  });
});

describe("damage", () => {
  async function damagedCopy(name: string, change: (folder: string) => void): Promise<string> {
    const folder = await makeFolder();
    cpSync(join(corpusFolder, name), folder, { recursive: true });
    change(folder);
    return folder;
  }
  const flip = (file: string, at: number): void => {
    const bytes = readFileSync(file);
    const place = at < 0 ? bytes.length + at : at;
    bytes[place] = (bytes[place] ?? 0) ^ 1;
    writeFileSync(file, bytes);
  };

  test("of an index is reported with shard, field, expected and found, and does not hide the other shards", async () => {
    const folder = await damagedCopy("zarr3-sharded/zp-f8-1d-blosc-lz4", (path) =>
      flip(join(path, "c", "1"), -1),
    );
    const { code, out } = await runCli(["verify", folder, "--json"]);
    expect(code).toBe(3);
    const { archives } = JSON.parse(out) as { archives: { chunks: number; findings: object[] }[] };
    expect(archives[0]?.chunks).toBe(6);
    expect(archives[0]?.findings).toEqual([
      expect.objectContaining({
        severity: "error",
        code: "CHECKSUM_MISMATCH",
        path: join(folder, "c", "1"),
        field: "shard index",
        expected: expect.stringMatching(/^0x/) as string,
        found: expect.stringMatching(/^0x/) as string,
      }),
    ]);
    expect((await runCli(["cat", folder])).code).toBe(3);
    expect((await runCli(["chunks", folder])).code).toBe(3);
  });

  test("of an inner chunk is reported with its slot", async () => {
    const folder = await damagedCopy("zarr3-sharded/zrs-bool-crc32c", (path) =>
      flip(join(path, "c", "1"), 17),
    );
    const { code, out } = await runCli(["verify", folder, "--json"]);
    expect(code).toBe(3);
    const { archives } = JSON.parse(out) as { archives: { findings: object[] }[] };
    expect(archives[0]?.findings).toEqual([
      expect.objectContaining({ code: "CHECKSUM_MISMATCH", chunk: 2, path: join(folder, "c", "1") }),
    ]);
  });

  test("of one array's document does not hide the other arrays of a group", async () => {
    const folder = await damagedCopy("zarr3-sharded", (path) => {
      writeFileSync(join(path, "zarr.json"), JSON.stringify({ zarr_format: 3, node_type: "group" }));
      writeFileSync(join(path, "zrs-bool-crc32c", "zarr.json"), "{");
    });
    const { code, out } = await runCli(["verify", folder]);
    expect(code).toBe(3);
    expect(out).toContain("6 archives: 5 ok, 1 damaged");
    const listed = await runCli(["ls", folder]);
    expect(listed.code).toBe(3);
    expect(listed.out).toMatch(/^DAMAGED .*zrs-bool-crc32c/m);
    const chunks = await runCli(["chunks", folder]);
    expect(chunks.code).toBe(3);
    expect(chunks.out).toMatch(/^archive .*zp-u2-2d-missing$/m);
  });
});

test("Zarr v2 is read like v3, including its consolidated metadata", async () => {
  const folder = await makeFolder();
  const store = new FileStore(folder);
  const put = (key: string, value: object): Promise<unknown> =>
    store.put(key, new TextEncoder().encode(JSON.stringify(value)));
  const array = {
    zarr_format: 2,
    shape: [4],
    chunks: [2],
    dtype: ">i2",
    compressor: null,
    fill_value: 5,
    filters: null,
    order: "C",
  };
  await put(".zgroup", { zarr_format: 2 });
  await put("x/.zarray", array);
  await put("x/.zattrs", { unit: "m" });
  await store.put("x/0", Uint8Array.of(0, 1, 0, 2));
  await put(".zmetadata", {
    zarr_consolidated_format: 1,
    metadata: { ".zgroup": { zarr_format: 2 }, "x/.zarray": array, "x/.zattrs": { unit: "m" } },
  });
  for (const path of [folder, await serveFolder(folder)]) {
    expect((await runCli(["cat", path, "--column", "x"])).out).toBe("1\n2\n5\n5\n");
    expect(JSON.parse((await runCli(["info", `${path}/x`, "--json"])).out)).toMatchObject({
      dialect: "zarr2",
      dtype: ">i2",
      fillValue: 5,
      attrs: { unit: "m" },
      chunks: { nchunks: 2, chunkLength: 2, codecs: ["bytes"] },
    });
    expect((await runCli(["chunks", path, "--missing"])).out).toMatch(/^ +1 +2 +- +(?:served\/)?x\/1$/m);
  }
});

test("an image of OME-NGFF has levels, and no rows", async () => {
  const folder = await makeFolder();
  const store = new FileStore(folder);
  const attrs = { ome: { version: "0.5", multiscales: [{ datasets: [{ path: "s0" }, { path: "s1" }] }] } };
  for (const [path, own] of [["image", attrs] as const, ["table", {}] as const]) {
    const group = await createIn(store, path, { format: "zarr", kind: "group", attrs: own });
    for (const [name, n] of [["s0", 8] as const, ["s1", 4] as const])
      await createZarr(store, `${path}/${name}`, { shape: [2, n], dataType: "uint8", chunkShape: [2, n] });
    await group.close();
  }
  const rowsOf = async (name: string): Promise<unknown> => {
    const { out } = await runCli(["info", join(folder, name)]);
    expect(out).toMatch(/^s0 +\|u1 +2 x 8/m);
    expect(JSON.parse((await runCli(["info", join(folder, name), "--json"])).out)).toMatchObject({
      shape: name === "image" ? [] : [2],
    });
    return /^rows .*/m.exec(out)?.[0];
  };
  expect([await rowsOf("image"), await rowsOf("table")]).toEqual([undefined, "rows     2"]);
});

test("a folder that is both an archive and Zarr is treated as the archive, and the view is named", async () => {
  const folder = await makeFolder();
  cpSync(join(corpusFolder, "blz-superchunk", "f8-default"), folder, { recursive: true });
  expect((await runCli(["link", folder])).code).toBe(0);
  const { out } = await runCli(["info", folder, "--json"]);
  expect(JSON.parse(out)).toMatchObject({ dialect: "blz-superchunk", views: ["zarr3"] });
  expect(JSON.parse((await runCli(["ls", folder, "--json"])).out)).toHaveLength(1);
});

test("chunks --missing of an archive whose file is missing is an error, not an empty list", async () => {
  const folder = await makeFolder();
  const source = join(corpusFolder, "carray/bcolz-f8-chunks");
  for (const name of readdirSync(source, { recursive: true, withFileTypes: true }).filter((e) =>
    e.isFile(),
  )) {
    const file = join(name.parentPath, name.name);
    cpSync(file, join(folder, "a", file.slice(source.length)));
  }
  expect((await runCli(["chunks", join(folder, "a"), "--missing"])).out).toBe("no missing chunks\n");
  rmSync(join(folder, "a", "data", "__3.blp"));
  const { code, out, err } = await runCli(["chunks", join(folder, "a"), "--missing"]);
  expect([code, out]).toEqual([3, ""]);
  expect(err).toContain("__3.blp");
});

test("a group whose arrays are in subgroups is not a table, whatever their lengths", async () => {
  const folder = await makeFolder();
  const store = new FileStore(folder);
  await store.put("zarr.json", new TextEncoder().encode(`{"zarr_format": 3, "node_type": "group"}`));
  await store.put("deep/zarr.json", new TextEncoder().encode(`{"zarr_format": 3, "node_type": "group"}`));
  for (const path of ["a", "deep/b"])
    await createZarr(store, path, { shape: [2], dataType: "int8", chunkShape: [2] });
  const { code, err } = await runCli(["cat", folder]);
  expect(code).toBe(2);
  expect(err).toContain(
    "the arrays of this group are not all directly in it, unlike those of a table; choose",
  );
  expect((await runCli(["cat", folder, "--column", "deep/b"])).out).toBe("0\n0\n");
});

test("append, resize, set and attrs change an array in a group, and its copy in consolidated metadata", async () => {
  const folder = await makeFolder();
  const consolidated =
    '"consolidated_metadata": {"kind": "inline", "must_understand": false, "metadata": {}}';
  writeFileSync(join(folder, "zarr.json"), `{"zarr_format": 3, "node_type": "group", ${consolidated}}`);
  const path = join(folder, "x");
  await (await create(path, { format: "zarr", dtype: "<i4", shape: [3], chunkLength: 2 })).close();
  const run = async (...argv: string[]): Promise<string> => {
    const { code, out, err } = await runCli(argv);
    expect([code, argv[0], code === 0 ? "" : err]).toEqual([0, argv[0], ""]);
    return out;
  };
  const raw = join(folder, "more");
  writeFileSync(raw, Buffer.from(Int32Array.of(7, 8).buffer));
  expect(JSON.parse(await run("append", path, raw, "--json"))).toMatchObject({ rowsBefore: 3, rows: 5 });
  await run("set", path, "--slice", "0:2", "--value", "4");
  expect(JSON.parse(await run("resize", path, "7", "--dry-run", "--json"))).toMatchObject({
    rowsBefore: 5,
    rows: 7,
  });
  await run("resize", path, "4");
  await run("resize", path, "5");
  await run("attrs", path, "--set", "unit=EUR");
  expect(JSON.parse(await run("cat", path, "--format", "json"))).toEqual([4, 4, 0, 7, 0]);
  const document = JSON.parse(readFileSync(join(path, "zarr.json"), "utf8"));
  const root = JSON.parse(readFileSync(join(folder, "zarr.json"), "utf8"));
  expect(root.consolidated_metadata.metadata.x).toEqual(document);
  expect([document.shape, document.attributes]).toEqual([[5], { unit: "EUR" }]);
});

describe("chunks of HDF5 and Blosc2 files are listed with their places in the file", () => {
  test("plain values are the bytes there", async () => {
    const file = "fixtures/hdf5/h5py-latest.h5";
    const { out } = await runCli(["chunks", `${file}/big-endian`, "--json"]);
    const [{ file: name, offset, cbytes }] = JSON.parse(out);
    const { bytes } = await runCli(["cat", `${file}/big-endian`, "--format", "raw"]);
    expect(name).toBe("h5py-latest.h5");
    expect(
      readFileSync(file)
        .subarray(offset, offset + cbytes)
        .equals(bytes),
    ).toBe(true);
  });

  test.each([
    ["blosc2/lz4.b2nd", ""],
    ["blosc2/uneven.b2nd", ""],
    ["hdf5/h5py-latest.h5", "/g/blosc-lz4"],
  ])("damage at the place of a chunk of %s is found in it", async (fixture, inside) => {
    const file = join(await makeFolder(), fixture.replace(/.*\//, ""));
    cpSync(join("fixtures", fixture), file);
    const { out } = await runCli(["chunks", file + inside, "--json"]);
    const { offset, cbytes, start } = JSON.parse(out)[2];
    const before = JSON.parse((await runCli(["cat", file + inside, "--json"])).out);
    const image = readFileSync(file);
    writeFileSync(file, image.fill(0x55, offset, offset + cbytes));
    const [row = 0, column = 0] = start;
    const at = async (r: number, c: number): Promise<string> =>
      (await runCli(["cat", file + inside, "--slice", `${r},${c}`, "--json"])).out.trim();
    expect(await at(row, column)).not.toBe(JSON.stringify(before[row][column]));
    expect(await at(0, 0)).toBe(JSON.stringify(before[0][0]));
  });

  test("a chunk that is made of other data has none", async () => {
    const { out } = await runCli(["chunks", "fixtures/blosc2-tables/deleted.b2z/price", "--json"]);
    expect(JSON.parse(out)).toMatchObject([{ offset: null }]);
    const table = await runCli(["chunks", "fixtures/blosc2-tables/deleted.b2z/price"]);
    expect(table.out).toMatch(/c\/0 +- +464/);
  });
});

describe("a hierarchy of the older transformer", () => {
  const made = (): string => {
    const root = join(temporaryFolder(), "t");
    cpSync(join(corpusFolder, "zarr3-transformer/i4-1d"), root, { recursive: true });
    return root;
  };

  test("repair of one of its arrays is refused, and names the command for the hierarchy, as verify does", async () => {
    const root = made();
    const { code, err } = await runCli(["repair", join(root, "arr"), `${root}-copy`]);
    expect([code, err]).toEqual([1, expect.stringContaining(`superchunk repair ${root} DST`)]);
    const chunk = join(root, "data/root/arr/c1");
    writeFileSync(chunk, readFileSync(chunk).fill(0xff, 20, 30));
    const verified = await runCli(["verify", root]);
    expect([verified.code, verified.out]).toEqual([
      3,
      expect.stringContaining(`superchunk repair ${root} DST`),
    ]);
  });

  test("[FK-02] data without a document are damage, which no command passes over, and repair copies them", async () => {
    const root = made();
    cpSync(join(root, "data/root/arr"), join(root, "data/root/group/other"), { recursive: true });
    rmSync(join(root, "meta/root/arr.array.json"));
    const { code, out } = await runCli(["verify", root]);
    expect(code).toBe(3);
    for (const name of ["arr", "group"])
      expect(out).toMatch(
        new RegExp(`^DAMAGED  .*/${name}\\n {2}error INCOMPLETE: .*document .* is missing`, "m"),
      );
    expect((await runCli(["convert", root, `${root}.zarr`])).code).toBe(3);
    const repaired = await runCli(["repair", root, `${root}-copy`]);
    expect([repaired.code, repaired.err]).toEqual([3, expect.stringContaining("lost: ")]);
    const names = (folder: string): string[] =>
      readdirSync(folder, { recursive: true, encoding: "utf8" }).sort();
    expect(names(`${root}-copy`)).toEqual(names(root).filter((name) => !/^meta/.test(name)));
  });

  test("a folder that an array left empty when it was removed is not damage", async () => {
    const root = made();
    mkdirSync(join(root, "data/root/removed"));
    const { code, out } = await runCli(["verify", root]);
    expect([code, out]).toEqual([0, expect.stringContaining("1 archive: 1 ok")]);
  });
});
