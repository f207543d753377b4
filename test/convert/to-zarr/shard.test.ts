import { describe, expect, it } from "vitest";
import { openShard, piecesOfShard, readShardChunks } from "../../../src/convert/targets/shard-files.ts";
import { MemoryStore } from "../../../src/store/memory.ts";
import { decodeShardIndex, encodeShardIndex, shardIndexLength } from "../../../src/zarr/read/shard-index.ts";
import fc from "../../property.ts";
import { sweep } from "../../scope.ts";

const filled = (length: number, byte: number): Uint8Array => new Uint8Array(length).fill(byte);

async function collect(pieces: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const parts: number[] = [];
  for await (const piece of pieces) parts.push(...piece);
  return Uint8Array.from(parts);
}

describe("a shard index", () => {
  it("is offset and nbytes as uint64 little-endian, all ones if absent, then the crc32c", async () => {
    const bytes = await encodeShardIndex([{ offset: 0, nbytes: 0x0102 }, undefined]);
    // crc32c by google-crc32c 1.9.0 of the preceding 32 bytes.
    expect(Buffer.from(bytes).toString("hex")).toBe(
      `${"00".repeat(8)}0201${"00".repeat(6)}${"ff".repeat(16)}85e36e23`,
    );
    expect(await decodeShardIndex(bytes, { path: "x", size: 1000, grid: [2] })).toEqual([
      { offset: 0, nbytes: 0x0102 },
      undefined,
    ]);
  });

  it("is refused with any byte changed", async () => {
    const bytes = await encodeShardIndex([{ offset: 0, nbytes: 10 }, { offset: 10, nbytes: 20 }, undefined]);
    for (let at = 0; at < bytes.length; at++) {
      const damaged = bytes.slice();
      damaged[at] = (damaged[at] ?? 0) ^ 1;
      await expect(decodeShardIndex(damaged, { path: "x", size: 1000, grid: [3] })).rejects.toMatchObject({
        code: "CHECKSUM_MISMATCH",
        details: { path: "x" },
      });
    }
  });

  it("is refused if an entry points outside the chunks, or is only half absent", async () => {
    for (const [offset, nbytes] of [
      [0, 949],
      [948, 1],
      [2 ** 53, 1],
    ] as const) {
      const index = await encodeShardIndex([undefined, { offset, nbytes }, undefined]);
      await expect(decodeShardIndex(index, { path: "x", size: 1000, grid: [3] })).rejects.toMatchObject({
        code: "BAD_FIELD",
      });
    }
    expect(shardIndexLength(3)).toBe(52);
  });

  it("is refused if the shard is shorter than the index", async () => {
    await expect(
      decodeShardIndex(new Uint8Array(10), { path: "x", size: 10, grid: [3] }),
    ).rejects.toMatchObject({
      code: "TRUNCATED",
    });
  });
});

describe("a shard", () => {
  const chunks = [
    filled(3, 1),
    filled(600_000, 2),
    filled(5, 3),
    filled(7, 4),
    filled(300_000, 5),
    filled(300_000, 6),
  ];

  it("is its chunks back to back, then the index, and reads back", async () => {
    const store = new MemoryStore();
    await store.put("s", piecesOfShard(chunks, 8));
    const open = await openShard(store, "s", 8);
    expect(open.entries.slice(6)).toEqual([undefined, undefined]);
    const found: Uint8Array[] = [];
    for await (const chunk of readShardChunks(store, open, [0, 1, 2, 3, 4, 5])) found.push(chunk.slice());
    expect(found.map((chunk, i) => Buffer.compare(chunk, chunks[i] ?? filled(0, 0)))).toEqual(
      chunks.map(() => 0),
    );
    await expect(collect(readShardChunks(store, open, [6]))).rejects.toMatchObject({ code: "INCOMPLETE" });
  });

  it("has its chunks whole although their maker reuses one buffer for all", async () => {
    const buffer = new Uint8Array(9);
    async function* reused(): AsyncGenerator<Uint8Array> {
      for (const byte of [1, 2, 3]) yield buffer.subarray(0, byte).fill(byte);
    }
    expect([...(await collect(piecesOfShard(reused(), 3))).subarray(0, 6)]).toEqual([1, 2, 2, 3, 3, 3]);
  });

  it("puts the entries into the requested slots", async () => {
    const store = new MemoryStore();
    await store.put(
      "s",
      piecesOfShard([filled(1, 1), filled(2, 2)], 2, (k) => 1 - k),
    );
    expect((await openShard(store, "s", 2)).entries).toEqual([
      { offset: 1, nbytes: 2 },
      { offset: 0, nbytes: 1 },
    ]);
  });
});

describe("many chunks of any size", () => {
  it("come back from the shard unchanged", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.oneof(fc.integer({ min: 1, max: 50_000 }), fc.integer({ min: 400_000, max: 600_000 })), {
          minLength: 1,
          maxLength: 12,
        }),
        async (sizes) => {
          const chunks = sizes.map((size, i) => filled(size, i + 1));
          const store = new MemoryStore();
          await store.put("s", piecesOfShard(chunks, chunks.length));
          const open = await openShard(store, "s", chunks.length);
          let k = 0;
          for await (const chunk of readShardChunks(store, open, [...chunks.keys()]))
            expect(Buffer.compare(chunk, chunks[k++] ?? chunk)).toBe(0);
          expect(k).toBe(chunks.length);
        },
      ),
      { numRuns: sweep(30, 10) },
    );
  });
});
