/** Real processes that append to one array on a disk, killed at random moments. */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, expect, test } from "vitest";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { create, edit, open } from "../../src/node/index.ts";
import { temporaryFolder } from "../folder.ts";
import { sweep } from "../scope.ts";
import { bundleWriting } from "./bundle.ts";
import { runAndKill } from "./killed-child.ts";
import { randomFrom } from "./random.ts";

const ROUNDS = sweep(40, 2);
const WRITERS = 3;
const loop = fileURLToPath(new URL("./shared-loop.mjs", import.meta.url));

let folder: string;
let entry: string;
beforeAll(async () => {
  folder = temporaryFolder();
  entry = join(folder, "superchunk.mjs");
  await bundleWriting(entry);
});

test("[FG-17] [FG-18] after processes that share an array are killed, the acknowledged rows of all are there once, in the order of each process", async () => {
  const path = join(folder, "shared");
  await (await create(path, { dtype: "<i4", chunkLength: 16, superchunkLength: 8, threads: 0 })).close();
  const random = randomFrom(3);
  /** For each process: its first number, and the one after its last acknowledged. */
  const lives: { first: number; end: number }[] = [];
  for (let round = 0; round < ROUNDS || lives.every(({ first, end }) => first === end); round++) {
    await Promise.all(
      Array.from({ length: WRITERS }, async () => {
        const life = { first: lives.length * 1_000_000, end: 0 };
        lives.push(life);
        const said = await runAndKill([loop, path, entry, String(life.first)], random() * 300);
        life.end = Number([...said.matchAll(/flushed (\d+)\n/g)].pop()?.[1] ?? life.first);
      }),
    );
    const reader = (await open(path, { threads: 0 })) as ArrayArchive;
    expect((await reader.verify()).ok).toBe(true);
    const found = (await reader.get()).data as Int32Array;
    await reader.close();
    expect(new Set(found).size).toBe(found.length);
    for (const { first, end } of lives) {
      const own = found.filter((value) => value >= first && value < first + 1_000_000);
      expect(own.length).toBeGreaterThanOrEqual(end - first);
      own.forEach((value, i) => void expect(value).toBe(first + i));
    }
  }
  const alone = await edit(path, { threads: 0 });
  await alone.append(Int32Array.of(-1));
  await alone.close();
});
