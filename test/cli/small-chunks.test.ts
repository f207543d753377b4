/** Rows that arrived in small pieces, of many lengths, become large chunks again: by the command, through Zarr and back. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { encodeNpyHeader } from "../../src/format/npy.ts";
import { temporaryFolder } from "../dual/link/support.ts";
import { runCli } from "./harness.ts";

const ROWS = 130;
const PIECES = 6;
const INT = { kind: "int", itemSize: 4, byteOrder: "little" } as const;

const rowsOf = (piece: number): Int32Array =>
  Int32Array.from({ length: ROWS }, (_, i) => (piece * ROWS + i) ** 2);
const ALL = Array.from({ length: PIECES }, (_, piece) => [...rowsOf(piece)]).flat();

async function putPieces(folder: string): Promise<string[]> {
  const files: string[] = [];
  for (let piece = 0; piece < PIECES; piece++) {
    const file = join(folder, `${piece}.npy`);
    const values = new Uint8Array(rowsOf(piece).buffer);
    await writeFile(file, Buffer.concat([encodeNpyHeader(INT, [ROWS]), values]));
    files.push(file);
  }
  return files;
}

async function run(...args: string[]): Promise<string> {
  const { code, out, err } = await runCli(args);
  expect(code, err).toBe(0);
  return out;
}

const valuesAt = async (path: string): Promise<unknown> =>
  JSON.parse(await run("cat", path, "--format", "json"));
const chunksAt = async (path: string): Promise<number> =>
  (await run("chunks", path)).trim().split("\n").length - 1;

test("an array appended to in lengths other than its chunks' is compacted into large chunks", async () => {
  const folder = temporaryFolder();
  const root = join(folder, "array");
  await run("create", root, "--dtype", "<i4", "--shape", "0", "--chunklen", "20", "--superchunklen", "3");
  for (const file of await putPieces(folder)) await run("append", root, file);
  await run("set", root, "--slice", "0:1", "--value", "0");
  expect(await chunksAt(root)).toBe(39);
  await run("convert", root, join(folder, "grown.zarr"), "--grid", "rectilinear", "--verify");
  expect(await valuesAt(join(folder, "grown.zarr"))).toEqual(ALL);
  await run("compact", root, "--chunklen", "500", "--codec", "zstd");
  expect(await chunksAt(root)).toBe(2);
  expect(await valuesAt(root)).toEqual(ALL);
  await run("convert", root, join(folder, "large.zarr"), "--grid", "rectilinear", "--verify");
  expect(await valuesAt(join(folder, "large.zarr"))).toEqual(ALL);
  await run("verify", root, join(folder, "grown.zarr"), join(folder, "large.zarr"));
});

test("files with short last chunks become one rectilinear array without padding, which then gets large chunks", async () => {
  const folder = temporaryFolder();
  const zarr = join(folder, "all.zarr");
  const files: string[] = [];
  for (const file of await putPieces(folder)) {
    await run("compress", file, `${file}.blp`, "--chunk-size", "200");
    files.push(`${file}.blp`);
  }
  const done = await run("convert", ...files, zarr, "--concat", "--grid", "rectilinear", "--verify");
  expect(done).toContain("18 chunks copied, 0 recoded");
  expect(await run("info", zarr)).toContain("[50,2],30,[50,2],30");
  expect(await valuesAt(zarr)).toEqual(ALL);
  const back = join(folder, "back");
  await run("convert", zarr, back, "--to", "blz", "--verify");
  await run("compact", back, "--chunklen", "400");
  expect(await chunksAt(back)).toBe(2);
  expect(await valuesAt(back)).toEqual(ALL);
  await run("verify", zarr, back);
});
