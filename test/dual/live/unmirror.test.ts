/** Removing the Zarr view of an array, whatever its documents and its state say. */
import * as fs from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { ArrayArchive, ArraySlice } from "../../../src/archive/kinds/types.ts";
import { create as createArray, edit as openWritable } from "../../../src/node/edit.ts";
import { link, open, unlink, verifyLinkAt } from "../../../src/node/index.ts";
import { temporaryFolder } from "./support.ts";

const ROWS = Array.from({ length: 9 }, (_, i) => i);
const FORM = '{"node":"data","dimensions":0,"capacity":2,"chunkBytes":8,"item":""}';
const STATE = `{"superchunk_mirror":1,"high":0,"forms":[${FORM}]}`;

async function made(): Promise<string> {
  const root = join(temporaryFolder(), "array");
  const dtype = [
    ["a", "<i4"],
    ["c", "<i4"], // stored in data/c, which in a node would be its shards
  ];
  const array = await createArray(root, {
    dtype,
    chunkLength: 2,
    superchunkLength: 2,
    zarr: true,
    threads: 0,
  });
  await array.append(ROWS.map((i) => [i, i * 7]));
  await array.close();
  return root;
}

async function columnOf(root: string, name: string): Promise<readonly unknown[]> {
  const archive = (await open(root)) as ArrayArchive;
  const { data } = (await archive.column(name).get()) as ArraySlice;
  await archive.close();
  return [...(data as Iterable<unknown>)];
}

test.each([
  ["the root's document is not JSON", "zarr.json", "{"],
  ["the root's document contains nothing", "zarr.json", '{"node_type":"group","consolidated_metadata":null}'],
  [
    "the root's document names data/ and other places",
    "zarr.json",
    '{"node_type":"group","consolidated_metadata":{"metadata":{"data":{},"../x":{},"":{}}}}',
  ],
  ["the state names data/", "meta/zarr", STATE],
])("unlink removes the view and nothing else, if %s", async (_, key, text) => {
  const root = await made();
  fs.writeFileSync(join(root, key), text);
  await unlink(root);
  expect(fs.readdirSync(root).sort()).toEqual(["data", "meta"]);
  expect(await columnOf(root, "a")).toEqual(ROWS);
  expect(await columnOf(root, "c")).toEqual(ROWS.map((i) => i * 7));
});

test.each([
  ["superchunk_mirror", '{"superchunk_mirror":18446744073709551615}'],
  ["high", '{"superchunk_mirror":1,"high":18446744073709551615}'],
  ["generation", '{"superchunk_mirror":1,"high":0,"generation":[18446744073709551615]}'],
  ["forms", '{"superchunk_mirror":1,"high":0,"forms":{"n":18446744073709551615}}'],
])(
  "[FY-06] a state whose %s has an integer of more than 53 bits is damaged, and says so",
  async (field, text) => {
    const root = await made();
    fs.writeFileSync(join(root, "meta", "zarr"), text);
    await expect(openWritable(root)).rejects.toMatchObject({
      code: "BAD_FIELD",
      message: expect.stringContaining("18446744073709551615") as string,
      details: { field },
    });
  },
);

const FOREIGN = {
  zarr_format: 3,
  node_type: "array",
  shape: [4],
  data_type: "float64",
  chunk_grid: { name: "regular", configuration: { chunk_shape: [4] } },
  chunk_key_encoding: { name: "default", configuration: { separator: "/" } },
  fill_value: 0,
  codecs: [{ name: "bytes", configuration: { endian: "little" } }],
  attributes: {},
};

/** Puts another program's Zarr array below an array, named in the consolidated metadata; returns its files. */
function putForeign(root: string, name: string): () => readonly Buffer[] {
  const folder = join(root, name);
  fs.mkdirSync(join(folder, "c"), { recursive: true });
  const files = [join(folder, "zarr.json"), join(folder, "c", "0")];
  fs.writeFileSync(files[0] ?? "", JSON.stringify(FOREIGN));
  fs.writeFileSync(files[1] ?? "", new Uint8Array(Float64Array.of(1, 2, 3, 4).buffer));
  const key = join(root, "zarr.json");
  const document = JSON.parse(fs.readFileSync(key, "utf8")) as {
    consolidated_metadata: { metadata: Record<string, unknown> };
  };
  document.consolidated_metadata.metadata[name] = FOREIGN;
  fs.writeFileSync(key, JSON.stringify(document));
  return () => files.map((file) => fs.readFileSync(file));
}

test("[FY-10] unlink leaves the Zarr arrays of other programs, consolidated as they are, and reports them", async () => {
  const root = await made();
  const files = putForeign(root, "theirs");
  const before = files();
  const { notes } = await unlink(root);
  expect(files()).toEqual(before);
  expect(notes).toContain(`left: ${join(root, "theirs")}, which the array did not make`);
  expect(fs.readdirSync(root).sort()).toEqual(["data", "meta", "theirs"]);
});

test.each([
  ["that is whole", (): void => undefined],
  ["whose metadata are damaged", (root: string): void => fs.writeFileSync(join(root, "meta", "sizes"), "{")],
])("[FY-10] overwriting an array %s leaves the Zarr arrays of other programs", async (_, damage) => {
  const root = await made();
  const files = putForeign(root, "theirs");
  const document = JSON.parse(fs.readFileSync(join(root, "zarr.json"), "utf8")) as object;
  const before = files();
  expect(document).toMatchObject({ attributes: { column_order: ["a", "c"] } });
  damage(root);
  const options = { dtype: "<i4", overwrite: true, zarr: false, threads: 0 } as const;
  await (await createArray(root, options)).close();
  expect(files()).toEqual(before);
  expect(fs.readdirSync(root).sort()).toEqual(["data", "meta", "theirs"]);
});

test("[FY-10] what another program put in the place of an old column survives writers, verify, new columns and unlink", async () => {
  const root = await made();
  const int = { kind: "int", itemSize: 4, byteOrder: "little" } as const;
  const array = await openWritable(root, { threads: 0 });
  await array.addColumn({ name: "old", dtype: int });
  await array.deleteColumn("old");
  await array.close();
  expect(fs.existsSync(join(root, "old", "zarr.json"))).toBe(false);
  const files = putForeign(root, "old");
  const before = files();
  await link(root);
  const again = await openWritable(root, { threads: 0 });
  await again.append([[9, 63]]);
  await expect(again.addColumn({ name: "old", dtype: int })).rejects.toMatchObject({ code: "CONFLICT" });
  await again.close();
  expect(files()).toEqual(before);
  expect(await verifyLinkAt(root)).toEqual([]);
  const { notes } = await unlink(root);
  expect(notes).toContain(`left: ${join(root, "old")}, which the array did not make`);
  expect(files()).toEqual(before);
});

test("[FY-09] the document of an old column that a killed writer left is removed", async () => {
  const root = await made();
  const int = { kind: "int", itemSize: 4, byteOrder: "little" } as const;
  const array = await openWritable(root, { threads: 0 });
  await array.addColumn({ name: "old", dtype: int });
  await array.flush();
  const document = fs.readFileSync(join(root, "old", "zarr.json"));
  await array.deleteColumn("old");
  await array.close();
  fs.writeFileSync(join(root, "old", "zarr.json"), document);
  expect(await verifyLinkAt(root)).toMatchObject([{ code: "LINK", path: join(root, "old", "zarr.json") }]);
  await link(root);
  expect(fs.existsSync(join(root, "old", "zarr.json"))).toBe(false);
  expect(await verifyLinkAt(root)).toEqual([]);
});

test("[FY-06] a state that names a node in a folder of the archive is damaged", async () => {
  const root = await made();
  fs.writeFileSync(join(root, "meta", "zarr"), STATE);
  await expect(openWritable(root, { threads: 0 })).rejects.toMatchObject({
    code: "BAD_FIELD",
    details: { path: join(root, "meta", "zarr"), field: "forms" },
  });
  expect(await columnOf(root, "c")).toEqual(ROWS.map((i) => i * 7));
});
