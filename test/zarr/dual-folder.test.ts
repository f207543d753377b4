/** Folders that are both archives and Zarr arrays are written to only as archives. */

import * as fs from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parseDType } from "../../src/format/dtype.ts";
import { create as createArray } from "../../src/node/edit.ts";
import { create, edit, FileStore, link, open, unlink } from "../../src/node/index.ts";
import { createTable } from "../../src/write/bcolz/bcolz-create.ts";
import { compressArray } from "../../src/write/bloscpack/bloscpack-write.ts";
import { temporaryFolder } from "../folder.ts";
import { openZarrWriter as openWriterIn } from "./writer.ts";

function makeFolder(): string {
  const folder = temporaryFolder();
  return folder;
}

const refusal = (name: string): object => ({
  code: "CONFLICT",
  details: { field: name },
  message: expect.stringMatching(/superchunk set.*superchunk convert/s),
});

test("a linked array cannot be written as Zarr, by a path or a store; unlinked it is an archive, and no Zarr array is created in it", async () => {
  const root = join(makeFolder(), "prices");
  const array = await createArray(root, { dtype: "<i4", chunkLength: 4 });
  await array.append(Int32Array.from({ length: 10 }, (_, i) => i));
  await array.close();
  await link(root);
  await expect(edit(root, { format: "zarr" })).rejects.toMatchObject({ code: "UNSUPPORTED" });
  await expect(openWriterIn(new FileStore(join(root, "..")), "prices")).rejects.toMatchObject({
    code: "CONFLICT",
  });
  expect((await open(root)).kind).toBe("array");
  await unlink(root);
  await expect(create(root, { format: "zarr", shape: [3], dtype: "int32" })).rejects.toMatchObject(
    refusal("meta/storage"),
  );
  expect(fs.existsSync(join(root, "zarr.json"))).toBe(false);
});

test("an array that keeps itself a Zarr array, and each of its columns, cannot be written as Zarr", async () => {
  const root = join(makeFolder(), "live");
  const array = await createArray(root, { dtype: [["a", "<i4"]], shape: 5, chunkLength: 4, zarr: true });
  await array.close();
  for (const [folder, path] of [
    [root, "a"],
    [join(root, ".."), "live/a"],
  ] as const) {
    await expect(openWriterIn(new FileStore(folder), path)).rejects.toMatchObject(refusal("meta/storage"));
  }
  await expect(edit(join(root, "a"))).rejects.toMatchObject(refusal("meta/storage"));
});

test("a column of a linked table, and the folder of a linked file, cannot be written as Zarr", async () => {
  const folder = makeFolder();
  const dtype = parseDType("<i4", "test");
  await createTable(new FileStore(join(folder, "table")), "", [
    { name: "x", dtype, data: new Uint8Array(40) },
  ]);
  await link(join(folder, "table"));
  await expect(edit(join(folder, "table", "x"), { format: "zarr" })).rejects.toMatchObject({
    code: "UNSUPPORTED",
  });
  const blp = join(folder, "a.blp");
  await compressArray({ dtype, shape: [10], data: new Uint8Array(40) }, new FileStore(folder), "a.blp");
  await link(blp, join(folder, "a.zarr"));
  await expect(edit(join(folder, "a.zarr"))).rejects.toMatchObject(refusal("superchunk-link.json"));
});
