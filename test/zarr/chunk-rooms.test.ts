/** New shards in stores that have memory for their chunks: the same bytes, and only the first chunk is copied. */
import { expect, test } from "vitest";
import { encodeHere } from "../../src/codec/index.ts";
import type { ChunkEncoder } from "../../src/codec/types.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { mapAhead } from "../../src/store/pool.ts";
import { offerRooms, readPieces } from "../../src/store/source.ts";
import type { ObjectInfo, PutOptions, PutSource } from "../../src/store/types.ts";
import { createZarr } from "../../src/zarr/write/create.ts";

const LITTLE = { name: "bytes", configuration: { endian: "little" } };
const BLOSC = {
  name: "blosc",
  configuration: { cname: "lz4", clevel: 5, shuffle: "shuffle", typesize: 4, blocksize: 0 },
};
const spec = {
  shape: [8000],
  dataType: "int32",
  chunkShape: [500],
  shardShape: [8000],
  codecs: [LITTLE, BLOSC],
} as const;
// Chunks 3, 4 and the last one hold only the fill value.
const values = Int32Array.from({ length: 8000 }, (_, i) =>
  (i >= 1500 && i < 2500) || i >= 7500 ? 0 : (i * i) >> 3,
);
const WRITTEN = 13;

/** Has one place, in which each piece follows the previous one. */
class RoomyStore extends MemoryStore {
  /** For each piece whether it was made in the store's memory. */
  readonly inPlace: boolean[] = [];
  asked = 0;

  override put(key: string, source: PutSource, options?: PutOptions): Promise<ObjectInfo> {
    const memory = new Uint8Array(100_000);
    let filled = 0;
    offerRooms(source, {
      take: (length) => {
        this.asked++;
        return memory.subarray(filled, filled + length).fill(0xee);
      },
    });
    const { inPlace } = this;
    async function* taken(): AsyncGenerator<Uint8Array> {
      for await (const piece of readPieces(source)) {
        const isHere = piece.buffer === memory.buffer && piece.byteOffset === filled;
        inPlace.push(isHere);
        if (!isHere) memory.set(piece, filled);
        filled += piece.length;
        yield memory.slice(filled - piece.length, filled);
      }
    }
    return super.put(key, source instanceof Uint8Array ? source : taken(), options);
  }
}

async function write(store: MemoryStore, changes: object = {}, encoder?: ChunkEncoder): Promise<Uint8Array> {
  const array = await createZarr(store, "", { ...spec, ...changes }, { encoder });
  await array.set(null, values);
  expect(await array.get()).toMatchObject({ data: values });
  return (await store.get("c/0")) ?? new Uint8Array();
}

test("chunks encoded in a row are made in the store's memory; those left out leave no gap", async () => {
  const store = new RoomyStore();
  const bytes = await write(store, {}, encodeHere);
  expect(Buffer.compare(bytes, await write(new MemoryStore()))).toBe(0);
  // The first was made before the store was asked, and the index is not a chunk.
  expect(store.inPlace).toEqual([false, ...new Array(WRITTEN - 1).fill(true), false]);
});

test.each([
  ["several at a time: the end of the one before is unknown", {}, { ...encodeHere, parallel: 4 }],
  ["with the index in front, whose length is known last", { indexLocation: "start" }, undefined],
  ["by other codecs", { codecs: [LITTLE, { name: "gzip", configuration: { level: 1 } }] }, undefined],
] as const)("other shards ask for no memory: %s", async (_, changes, encoder) => {
  const store = new RoomyStore();
  const bytes = await write(store, changes, encoder);
  expect(Buffer.compare(bytes, await write(new MemoryStore(), changes))).toBe(0);
  expect(store.asked).toBe(0);
});

test("a result that was not started ahead is started on request", async () => {
  const log: string[] = [];
  const results = mapAhead([1, 2, 3], 0, async (item) => {
    log.push(`begin ${item}`);
    return item;
  });
  for await (const item of results) log.push(`use ${item}`);
  expect(log).toEqual(["begin 1", "use 1", "begin 2", "use 2", "begin 3", "use 3"]);
});
