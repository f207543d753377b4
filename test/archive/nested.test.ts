/** Arrays whose fields are stored in a folder each. */
import { expect, it } from "vitest";
import type { ArrayArchive, ArraySlice } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/archive/open/open.ts";
import { type ChunkDecoder, callingThread } from "../../src/archive/read/chunk-fetch.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { createArray } from "../../src/write/array/create.ts";

const ROWS = 105;
/** An int32 and a float64 in each row. */
const rows = new Uint8Array(ROWS * 12);
for (let row = 0; row < ROWS; row++) {
  const view = new DataView(rows.buffer, row * 12);
  view.setInt32(0, row * 7, true);
  view.setFloat64(4, row / 8, true);
}

async function made(): Promise<MemoryStore> {
  const store = new MemoryStore();
  const dtype = [
    ["a", "<i4"],
    ["b", "<f8"],
  ];
  const array = await createArray(store, "n", { dtype, chunkLength: 10, superchunkLength: 4 });
  await array.append(rows);
  await array.close();
  return store;
}

it("a scan hands the chunks of all columns to the decoder at once, so that the threads have work", async () => {
  const asked: number[] = [];
  const decoder: ChunkDecoder = {
    decodeChunks(store, places, run) {
      asked.push(run.chunks);
      return callingThread.decodeChunks(store, places, run);
    },
  };
  const archive = (await open(await made(), "n", { decoder })) as ArrayArchive;
  const pieces: Uint8Array[] = [];
  const done: number[] = [];
  for await (const piece of archive.streamBytes({ onProgress: (progress) => done.push(progress.done) }))
    pieces.push(piece.slice());
  expect(Buffer.compare(Buffer.concat(pieces), rows)).toBe(0);
  expect(asked).toEqual([11, 11]);
  expect(done.at(-1)).toBe(rows.length);
});

it("slices of a scan hold the rows of one chunk each, and do not change later", async () => {
  const archive = (await open(await made(), "n")) as ArrayArchive;
  const slices: ArraySlice[] = [];
  for await (const slice of archive.chunks({ keep: true })) slices.push(slice);
  expect(slices.map(({ shape }) => shape)).toEqual([...Array.from({ length: 10 }, () => [10]), [5]]);
  const whole = (await archive.get(null)) as ArraySlice;
  const at = (slice: ArraySlice | undefined, i: number): unknown =>
    slice !== undefined && "get" in slice.data ? slice.data.get(i) : undefined;
  for (let row = 0; row < ROWS; row++) {
    expect(at(slices[Math.floor(row / 10)], row % 10)).toEqual(at(whole, row));
    expect(at(whole, row)).toBeDefined();
  }
});

it("a scan that is left early or aborted ends the scans of its columns too", async () => {
  const archive = (await open(await made(), "n")) as ArrayArchive;
  for await (const _ of archive.streamBytes()) break;
  const controller = new AbortController();
  const reason = new Error("enough");
  const scan = async (): Promise<void> => {
    for await (const _ of archive.streamBytes({ signal: controller.signal })) controller.abort(reason);
  };
  await expect(scan()).rejects.toBe(reason);
  expect(Buffer.compare(await archive.getBytes(null), rows)).toBe(0);
});

it("chunks and places are those of the columns: the array itself lists none, and says so", async () => {
  const archive = (await open(await made(), "n")) as ArrayArchive;
  const refused = { code: "UNSUPPORTED", message: expect.stringContaining("the columns a, b") as string };
  const list = async (): Promise<void> => {
    for await (const _ of archive.listChunks()) break;
  };
  await expect(list()).rejects.toMatchObject(refused);
  const listed: number[] = [];
  for (const name of archive.columnNames ?? [])
    for await (const { nbytes } of archive.column(name).listChunks()) listed.push(nbytes);
  expect(listed.reduce((sum, nbytes) => sum + nbytes, 0)).toBe(rows.length);
});
