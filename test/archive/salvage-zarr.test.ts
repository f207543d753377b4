/** Sharded Zarr arrays of the corpus, damaged: every inner chunk that can be read is in the copy, and all others are named. */
import * as fs from "node:fs";
import { join, relative } from "node:path";
import { expect, test } from "vitest";
import type { Progress } from "../../src/archive/kinds/types.ts";
import { repairArray } from "../../src/convert/run/repair.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { countPositions } from "../../src/zarr/document/chunk-grid.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { loadFixtures } from "../fixtures/manifest.ts";

const arrays = loadFixtures("zarr3-sharded").map((fixture) => [fixture.path, fixture] as const);

test.each(arrays)(
  "%s: what can be read is saved, what cannot is named and reads as the fill value",
  async (_, fixture) => {
    const image = new Map<string, Uint8Array>();
    for (const entry of fs.readdirSync(fixture.file, { recursive: true, withFileTypes: true })) {
      const path = join(entry.parentPath, entry.name);
      if (entry.isFile()) image.set(relative(fixture.file, path), new Uint8Array(fs.readFileSync(path)));
    }
    const key = fixture.arrayPath;
    const array = await openZarrArray(new MemoryStore(image), key);
    const whole = await array.getBytes();
    const chunks = [];
    for await (const chunk of array.listChunks()) chunks.push(chunk);
    const [chunk] = chunks;
    if (chunk === undefined) throw new Error("the array has no chunk");
    const shard = image.get(chunk.key) ?? new Uint8Array(0);
    const damages = {
      "a byte of an inner chunk": shard.map((byte, i) =>
        i === chunk.offset + (chunk.ctbytes >> 1) ? byte ^ 0xff : byte,
      ),
      "the index": shard.map((byte, i) => (i < 32 || i >= shard.length - 32 ? 0x5a : byte)),
      "the end": shard.subarray(0, shard.length - 1),
    };
    for (const [name, bytes] of Object.entries(damages)) {
      const damaged = new MemoryStore(new Map(image).set(chunk.key, bytes));
      const target = new MemoryStore();
      const into = { store: target, path: key };
      const seen: Progress[] = [];
      const onProgress = (progress: Progress): void => void seen.push(progress);
      const plan = await repairArray(damaged, key, { dryRun: true, onProgress });
      expect(seen.at(-1)?.total, name).toBe(countPositions(array.model.axes));
      expect(seen.map(({ done, unit }) => [done, unit])).toEqual(seen.map((_, i) => [i + 1, "chunks"]));
      if (plan.holes.length > 0)
        await expect(repairArray(damaged, key, { into }), name).rejects.toMatchObject({
          details: { field: "holes", expected: ["fill"] },
          message: expect.stringMatching(/\{holes: "fill"\}(?!.*drop)/),
        });
      const { holes, rows, whole: saved } = await repairArray(damaged, key, { into, holes: "fill" });
      expect(rows).toBe(array.shape[0] ?? 1);
      expect(saved + plan.holes.length, name).toBe(array.nchunks);
      // The damaged array, where it can be read, and the copy have the same values; all of the copy can be read.
      const copy = await openZarrArray(target, key);
      const found = await copy.getBytes();
      const bad = new Set(holes.map((hole) => hole.chunk));
      expect(bad.size, name).toBe(holes.length);
      expect((await copy.verify()).findings, name).toEqual([]);
      // Without a checksum a changed byte may decode to other values unnoticed.
      const isUnseen = name === "a byte of an inner chunk" && holes.length === 0;
      if (holes.length === 0 && !isUnseen)
        expect(Buffer.from(found).equals(Buffer.from(whole)), name).toBe(true);
      const source = await openZarrArray(damaged, key);
      let compared = 0;
      for (const { start, index } of chunks) {
        if (start === undefined || bad.has(index)) continue;
        const region = start.map((from, i) => ({
          start: from,
          stop: Math.min(array.shape[i] ?? 0, from + (array.chunkShape[i] ?? 1)),
          step: 1,
        }));
        expect(await copy.getBytes(region), `${name}, chunk ${index}`).toEqual(await source.getBytes(region));
        if (!(isUnseen && index === chunk.index))
          expect(await copy.getBytes(region), `${name}, chunk ${index}`).toEqual(
            await array.getBytes(region),
          );
        compared++;
      }
      expect(compared, name).toBe(chunks.filter(({ index }) => !bad.has(index)).length);
    }
  },
);
