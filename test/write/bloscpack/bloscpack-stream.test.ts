/** Files for a pipe, and files with a reserve. */
import { describe, expect, it } from "vitest";
import type { BytesArchive } from "../../../src/archive/kinds/types.ts";
import { open } from "../../../src/archive/open/open.ts";
import { parseDType } from "../../../src/format/dtype.ts";
import { decodeFileHeader } from "../../../src/format/header.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import { compressArray, compressBytes, packBytes } from "../../../src/write/bloscpack/bloscpack-write.ts";
import { compactFile, setChunk } from "../../../src/write/in-place/set-chunk.ts";
import { randomFrom } from "../../crash/random.ts";

const KEY = "a.blp";
const ramp = (length: number): Uint8Array => Uint8Array.from({ length }, (_, i) => i >> 5);

/** Pieces that do not end where chunks do. */
async function* cut(data: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < data.length; at += 333) yield data.subarray(at, at + 333);
}

async function contentsOf(store: MemoryStore): Promise<Uint8Array> {
  const archive = (await open(store, KEY)) as BytesArchive;
  expect((await archive.verify()).findings).toEqual([]);
  return archive.readBytes(0, archive.nbytes);
}

describe("stream", () => {
  it.each([0, 1, 999, 1000, 1001, 5000, 12_345])(
    "[F1.3-09] %i bytes of unknown length have -1 for unknown fields, and no offsets",
    async (length) => {
      const store = new MemoryStore();
      const data = ramp(length);
      const options = { stream: true, chunkSize: 1000, checksum: "sha1" } as const;
      const { nchunks, nbytes } = await compressBytes(cut(data), store, KEY, options);
      expect([nchunks, nbytes]).toEqual([Math.max(1, Math.ceil(length / 1000)), length]);
      const file = (await store.get(KEY)) ?? new Uint8Array(0);
      expect(decodeFileHeader(file, KEY)).toMatchObject({
        version: 3,
        offsets: false,
        nchunks: -1,
        lastChunk: -1,
        chunkSize: 1000,
        maxAppChunks: 0,
      });
      expect(await contentsOf(store)).toEqual(data);
    },
  );

  it("delivers a chunk before the next one is requested", async () => {
    let asked = 0;
    async function* source(): AsyncGenerator<Uint8Array> {
      for (; asked < 100; asked++) yield ramp(1000);
    }
    const store = new MemoryStore();
    const pieces = packBytes(source(), { store, key: "scratch" }, { stream: true, chunkSize: 1000 });
    let seen = 0;
    for await (const piece of pieces) if (piece.length > 0 && ++seen === 3) break;
    expect(asked).toBeLessThan(10);
  });

  it("writes the sizes that are known", async () => {
    const store = new MemoryStore();
    const data = ramp(4000);
    const array = { dtype: parseDType("<i4", KEY), shape: [1000], data: cut(data) };
    await compressArray(array, store, KEY, { stream: true, chunkSize: 1200 });
    const file = (await store.get(KEY)) ?? new Uint8Array(0);
    expect(decodeFileHeader(file, KEY)).toMatchObject({ offsets: false, nchunks: 4, lastChunk: 400 });
    expect(await contentsOf(store)).toEqual(data);
  });
});

describe("reserve", () => {
  it("[F1.4-03] is space in which a longer chunk fits, and is removed by compacting", async () => {
    const store = new MemoryStore();
    const data = ramp(5000);
    await compressBytes(data, store, KEY, { chunkSize: 1000, reserve: 4000, typesize: 1 });
    const reserved = (await store.get(KEY)) ?? new Uint8Array(0);
    expect(reserved[4]).toBe(4);
    // As much as a chunk can need, and no more.
    expect(reserved.length).toBe(32 + 8 * 55 + 5 * (1000 + 16 + 4));
    expect(await contentsOf(store)).toEqual(data);
    const random = randomFrom(1);
    const noise = Uint8Array.from({ length: 1000 }, () => random() * 256);
    expect(await setChunk(store, KEY, 2, noise)).toEqual({ inSlot: true, version: 4 });
    expect((await store.get(KEY))?.length).toBe(reserved.length);
    data.set(noise, 2000);
    expect(await contentsOf(store)).toEqual(data);
    await compactFile(store, KEY);
    expect((await store.get(KEY))?.[4]).toBe(3);
    expect(await contentsOf(store)).toEqual(data);
  });

  it("needs offsets", async () => {
    const options = { reserve: "10%", offsets: false } as const;
    await expect(compressBytes(ramp(10), new MemoryStore(), KEY, options)).rejects.toMatchObject({
      code: "BAD_ARGUMENT",
      details: { field: "reserve" },
    });
  });
});
