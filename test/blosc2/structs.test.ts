/** Structs that Zarr has no data type for, in frames and HDF5: as a group of their fields, or with their items changed. */
import { createHash } from "node:crypto";
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { arraySource, readBatches, readOnce } from "../../cli/values/value-source.ts";
import { elementsOf } from "../../src/bytes/arrays.ts";
import { convert, planConversion } from "../../src/convert/run/convert.ts";
import { openArray, serveView } from "../../src/node/index.ts";
import { open } from "../../src/open/open.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import type { StructArray } from "../../src/values/values.ts";
import { openZarr } from "../../src/zarr/read/open.ts";
import { runCli } from "../cli/harness.ts";
import { repositoryRoot } from "../fixtures/manifest.ts";
import { temporaryFolder } from "../folder.ts";

const folder = join(repositoryRoot, "fixtures/structs");
const files = ["rows.b2nd", "square.b2nd", "uneven.b2nd", "padded.b2nd", "complex.b2nd", "indexed.h5"];
const store = new MemoryStore(
  new Map(files.map((name) => [name, new Uint8Array(readFileSync(join(folder, name)))])),
);
const fields = Object.entries(
  JSON.parse(readFileSync(join(folder, "fields.json"), "utf8")) as Readonly<
    Record<string, { readonly shape: readonly number[]; readonly sha256: string }>
  >,
);

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** The values of a field: of an array of its own, or of the structs that it is a field of. */
async function fieldOf(root: MemoryStore, path: string): Promise<object> {
  const node = await openZarr(root, "");
  if (node.kind === "array" && path !== "") {
    const { data, shape } = await node.get();
    const values = (data as StructArray).field(path) as unknown as Uint8Array;
    return { shape, sha256: sha256(new Uint8Array(values.buffer, values.byteOffset, values.byteLength)) };
  }
  const array = path === "" ? node : await openZarr(root, path);
  if (array.kind !== "array") throw new Error(path);
  return { shape: array.shape, sha256: sha256(await array.getBytes()) };
}

test.each(files)("%s becomes Zarr with the values of every field", async (name) => {
  const target = new MemoryStore();
  const report = await convert(
    await open(store, name),
    { store: target, path: "" },
    { to: "zarr", verify: true },
  );
  expect(report).toMatchObject({ verified: true, failed: 0 });
  const own = fields.filter(([path]) => path === name || path.startsWith(`${name}/`));
  expect(own.length).toBeGreaterThan(0);
  for (const [path, expected] of own)
    expect({ path, ...(await fieldOf(target, path.slice(name.length + 1))) }).toEqual({ path, ...expected });
});

test("the plan has a line for each field, and says why; where nothing may be encoded, the array is refused", async () => {
  for await (const { plan } of planConversion(await open(store, "square.b2nd"))) {
    expect(plan?.groups).toEqual(["", "cell"]);
    expect(plan?.arrays).toMatchObject(
      [
        { node: "id", action: "recode", shape: [20, 50], nbytes: 4000, reason: /sub-arrays/ },
        { node: "speed", shape: [20, 50, 3], chunkShape: [4, 10, 3], shardShape: [8, 20, 3], nbytes: 24_000 },
        { node: "cell/grid", shape: [20, 50, 2, 2], nbytes: 8000 },
        { node: "cell/charge" },
        { node: "name", shape: [20, 50], nbytes: 5000 },
      ].map(
        (line) =>
          expect.objectContaining(
            "reason" in line ? { ...line, reason: expect.stringMatching(line.reason) as string } : line,
          ) as object,
      ),
    );
  }
  const to = { store: new MemoryStore(), path: "" };
  await expect(
    convert(await open(store, "square.b2nd"), to, { to: "zarr", recode: false }),
  ).rejects.toMatchObject({
    code: "UNSUPPORTED",
    message: expect.stringContaining("its items have sub-arrays") as string,
  });
});

test("values of such structs are read as they were written, and their fields are served as arrays", async () => {
  const rows = await openArray(join(folder, "rows.b2nd"));
  expect(await rows.get([7])).toEqual({
    id: 7,
    speed: [3, 22 / 7, 23 / 7],
    cell: {
      grid: [
        [28, 29],
        [30, 31],
      ],
      charge: 10.5,
    },
    name: "p7",
  });
  await rows.close();
  const served = await serveView([join(folder, "rows.b2nd")]);
  try {
    const grid = await openArray(`${served.url}rows.b2nd/cell/grid`);
    expect(grid.shape).toEqual([1000, 2, 2]);
    expect(sha256(await grid.getBytes())).toBe(Object.fromEntries(fields)["rows.b2nd/cell/grid"]?.sha256);
    await grid.close();
    const list = await served.view.list("rows.b2nd");
    expect(list.find(({ path }) => path.endsWith("speed"))).toMatchObject({
      shape: [1000, 3],
      nbytes: 24_000,
    });
  } finally {
    await served.close();
  }
});

test("the rows of several fields are read once", async () => {
  const array = await openArray(join(folder, "rows.b2nd"));
  const { dtype } = array;
  if (dtype.kind !== "struct") throw new Error(dtype.kind);
  const reads = vi.spyOn(array, "get");
  const get = readOnce(array);
  const sources = dtype.fields.map((field) => arraySource(field.name, array, [], { field, get }));
  for await (const { lists } of readBatches(sources, 0, 10, {}))
    expect(lists.map(({ length }) => length)).toEqual(
      sources.map(({ rowShape }) => 10 * elementsOf(rowShape)),
    );
  expect(reads).toHaveBeenCalledTimes(1);
  await array.close();
});

test("fields are printed as columns, of any rows, in every format", async () => {
  for (const path of [join(folder, "rows.b2nd"), join(folder, "indexed.h5/Rows")]) {
    const cat = async (...options: readonly string[]): Promise<string> =>
      (await runCli(["cat", path, ...options])).out;
    expect(await cat("--column", "id", "--tail", "2")).toBe(" id\n998\n999\n");
    expect(await cat("--column", "name", "--column", "speed", "--slice", "7::500", "--format", "csv")).toBe(
      "name,speed.0,speed.1,speed.2\np7,3,3.142857142857143,3.2857142857142856\np507,217.28571428571428,217.42857142857142,217.57142857142858\n",
    );
    expect(JSON.parse(await cat("--column", "speed", "--slice", "7", "--format", "json"))).toEqual([
      { speed: [3, 22 / 7, 23 / 7] },
    ]);
    const refused = await runCli(["cat", path, "--column", "none", "--tail", "1"]);
    expect(refused.err).toContain('no column "none"; expected one of id, speed');
  }
  const npy = await runCli([
    "cat",
    join(folder, "indexed.h5/Rows"),
    "--column",
    "id",
    "--slice",
    "::250",
    "--format",
    "npy",
  ]);
  expect([...new Int32Array(Uint8Array.from(npy.bytes.subarray(-16)).buffer)]).toEqual([0, 250, 500, 750]);
  const two = await runCli([
    "cat",
    join(folder, "rows.b2nd"),
    "--column",
    "id",
    "--column",
    "name",
    "--format",
    "raw",
  ]);
  expect(two.err).toContain("--format raw prints one array; choose a column with --column (id, name)");
});

test("indexes of PyTables are read, and left out of what they are no part of", async () => {
  const path = join(folder, "indexed.h5");
  for (const command of [["ls"], ["ls", "--json"], ["ls", "--csv"], ["chunks"]]) {
    const { code, out, err } = await runCli([...command, path]);
    expect([code, out.includes("Rows"), out.includes("_i_Rows")]).toEqual([0, true, false]);
    expect(err).toContain(
      `not listed, unless you name it: an index of PyTables, which only PyTables reads: ${path}/_i_Rows\n`,
    );
  }
  const info = JSON.parse((await runCli(["info", path, "--json"])).out);
  const columns = info.columns as { name: string; nbytes: number }[];
  expect(columns.map(({ name }) => name)).toEqual(["Rows", "prices"]);
  expect(info.nbytes).toBe(columns.reduce((sum, { nbytes }) => sum + nbytes, 0));
  const named = await runCli(["ls", `${path}/_i_Rows`]);
  expect([named.out.includes("_i_Rows/id/sorted"), named.err]).toEqual([true, ""]);
  const target = join(temporaryFolder(), "out.zarr");
  const { code, err } = await runCli(["convert", path, target]);
  expect([code, err]).toEqual([0, expect.stringMatching(/_i_Rows: an index of PyTables is left out/)]);
  expect((await runCli(["ls", target])).out).not.toContain("_i_");
  const files = await runCli(["convert", path, join(temporaryFolder(), "files"), "--to", "npy"]);
  expect(files.err).toMatch(/_i_Rows: an index of PyTables is left out/);
  expect(files.out).toContain("converted 2 arrays");
  const alone = await runCli(["convert", `${path}/_i_Rows/id`, join(temporaryFolder(), "alone.zarr")]);
  expect(alone.code).toBe(0);
});

test("verify checks indexes of PyTables, and lists only what is damaged in them", async () => {
  const path = join(temporaryFolder(), "indexed.h5");
  cpSync(join(folder, "indexed.h5"), path);
  const { code, out, err } = await runCli(["verify", path]);
  expect([code, out.includes("_i_Rows"), out]).toEqual([
    0,
    false,
    expect.stringMatching(/12 archives: 12 ok/),
  ]);
  expect(err).toContain(
    `verified, listed only if damaged: an index of PyTables, which only PyTables reads: ${path}/_i_Rows`,
  );
  expect((await runCli(["verify", "--json", path])).out).toContain("_i_Rows/id/sorted");
  const chunks = JSON.parse((await runCli(["chunks", "--json", `${path}/_i_Rows/id`])).out) as {
    offset: number;
  }[];
  const bytes = readFileSync(path);
  bytes.fill(0xff, chunks[0]?.offset, Number(chunks[0]?.offset) + 8);
  writeFileSync(path, bytes);
  const damaged = await runCli(["verify", path]);
  expect([damaged.code, damaged.out]).toEqual([3, expect.stringMatching(/DAMAGED\s+\S+_i_Rows\/id\//)]);
});
