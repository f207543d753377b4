/** Chunks that a caller asks for by number, beyond those that an archive has. */
import { expect, test } from "vitest";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/archive/open/open.ts";
import { create } from "../../src/edit/edit.ts";
import { MemoryStore } from "../../src/store/memory.ts";

async function listed<T>(items: AsyncIterable<T>): Promise<number> {
  let count = 0;
  for await (const _ of items) count++;
  return count;
}

test.each(["blz", "bcolz", "bloscpack"] as const)(
  "%s: numbers that no chunk can have are refused, and those beyond the end name no chunk",
  async (format) => {
    const store = new MemoryStore();
    const made = await create(store, "a", { format, dtype: "<f8", data: [1, 2, 3], chunkLength: 2 });
    await made.close();
    const archive = (await open(store, "a")) as ArrayArchive;
    for (const [first, end] of [
      [-1, 1],
      [0.5, 1],
      [0, Number.NaN],
      [-(2 ** 53), 1],
      ["0", 1],
    ] as [number, number][]) {
      const refusal = {
        code: "BAD_ARGUMENT",
        message: expect.stringContaining("expected the numbers of chunks, 0 or more") as string,
      };
      await expect(archive.chunkPlaces(first, end)).rejects.toMatchObject(refusal);
      await expect(listed(archive.encodedChunks(first, end))).rejects.toMatchObject(refusal);
    }
    for (const [first, end, count] of [
      [0, 9, 2],
      [1, 2 ** 40, 1],
      [2, 9, 0],
      [1, 0, 0],
    ] as const) {
      expect((await archive.chunkPlaces(first, end)).length).toBe(count);
      expect(await listed(archive.encodedChunks(first, end))).toBe(count);
    }
  },
);
