import { join } from "node:path";
import { expect, test } from "vitest";
import { parsePublish } from "../../cli/input/array-options.ts";
import { parseDType } from "../../src/format/dtype.ts";
import { create as createArray } from "../../src/node/edit.ts";
import { FileStore } from "../../src/node/index.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { temporaryFolder } from "../folder.ts";
import { runCli } from "./harness.ts";

async function makeFolder(): Promise<string> {
  const folder = temporaryFolder();
  return folder;
}

test.each([
  // Rows that a reader of Zarr sees when the next piece is requested; pieces end inside rows.
  ["flush", [0, 2, 5, 8]],
  ["full", [0, 0, 4, 8]],
  ["0.000001", [0, 2, 5, 8]],
  ["3600", [0, 0, 0, 0]],
] as const)("--publish %s shows rows when it says so, and all rows at the end", async (when, expected) => {
  const path = join(await makeFolder(), "live");
  const dtype = parseDType("<i4", "test");
  const settings = { dtype, chunkLength: 2, superchunkLength: 2, zarr: true };
  const publish = when === "full" ? "full" : "flush";
  const array = await createArray(path, { ...settings, publish });
  const store = new FileStore(path);
  const seen: (number | undefined)[] = [];
  const values = Int32Array.from({ length: 9 }, (_, i) => i);
  const bytes = new Uint8Array(values.buffer);
  const pieces = async function* (): AsyncGenerator<Uint8Array> {
    for (const [start, end] of [
      [0, 11],
      [11, 22],
      [22, 35],
      [35, 36],
    ] as const) {
      seen.push((await openZarrArray(store, "")).shape[0]);
      yield bytes.subarray(start, end);
    }
  };
  await array.append(pieces(), { publish: parsePublish(when) });
  await array.close();
  expect(seen).toEqual(expected);
  const { data } = (await (await openZarrArray(store, "")).get()) as { data: Int32Array };
  expect(data).toEqual(values);
  await store.close?.();
});

test("the commands accept it only for arrays of superchunks, and say what is held back if rows are not whole", async () => {
  const folder = await makeFolder();
  const live = join(folder, "live");
  const rows = new Uint8Array(Int32Array.of(1, 2, 3).buffer);
  const made = ["create", live, "--from", "-", "--dtype", "<i4", "--zarr", "--publish", "5"];
  expect(await runCli(made, { stdin: rows })).toMatchObject({ code: 0 });
  expect(await runCli(["append", live, "-", "--publish", "flush"], { stdin: rows })).toMatchObject({
    code: 0,
  });
  expect(JSON.parse((await runCli(["cat", live, "--format", "json"])).out)).toEqual([1, 2, 3, 1, 2, 3]);
  const cut = await runCli(["append", live, "-", "--publish", "full"], { stdin: rows.subarray(0, 10) });
  expect(cut).toMatchObject({
    code: 2,
    err: expect.stringContaining("rows that were visible before stay") as string,
  });
  const carray = join(folder, "carray");
  const other = ["create", carray, "--as", "carray", "--from", "-", "--dtype", "<i4"];
  expect(await runCli([...other, "--publish", "flush"], { stdin: rows })).toMatchObject({ code: 2 });
  expect(await runCli(other, { stdin: rows })).toMatchObject({ code: 0 });
  const refused = await runCli(["append", carray, "-", "--publish", "flush"], { stdin: rows });
  expect(refused).toMatchObject({
    code: 2,
    err: expect.stringContaining("--publish is for arrays of superchunks") as string,
  });
  expect(await runCli(["append", live, "-", "--publish", "often"], { stdin: rows })).toMatchObject({
    code: 2,
  });
});
