import { describe, expect, test } from "vitest";
import type { ChunkInfo } from "../../src/archive/kinds/types.ts";
import { openArchive } from "../../src/node/index.ts";
import { loadArchives } from "../fixtures/manifest.ts";

const rows = loadArchives().filter(({ refuse }) => !refuse);

describe.each(rows)("$path", ({ file }) => {
  test("places reported without chunk headers match those of the listed chunks", async () => {
    const archive = await openArchive(file);
    try {
      const parts =
        archive.kind === "table"
          ? archive.names.map((name) => archive.column(name))
          : archive.kind === "array" && archive.columnNames.length > 0
            ? archive.columnNames.map((name) => archive.column(name))
            : [archive];
      for (const part of parts) {
        const listed: ChunkInfo[] = [];
        for await (const chunk of part.listChunks({ digests: false })) listed.push(chunk);
        const places = await part.chunkPlaces();
        expect(places.map(({ index, key, offset, nbytes }) => ({ index, key, offset, nbytes }))).toEqual(
          listed.map(({ index, key, offset, nbytes }) => ({ index, key, offset, nbytes })),
        );
        for (const [i, { ctbytes }] of places.entries())
          if (ctbytes !== undefined) expect(ctbytes).toBe(listed[i]?.ctbytes);
        expect(await part.chunkPlaces(1, 2)).toEqual(places.slice(1, 2));
      }
    } finally {
      await archive.close();
    }
  });
});
