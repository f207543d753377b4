/** Real processes, killed at random moments of appending. */
import * as fs from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, expect, test } from "vitest";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { create as createArray, edit as openWritable } from "../../src/node/edit.ts";
import { STAGE } from "../../src/node/fs/fs-write.ts";
import { open } from "../../src/node/index.ts";
import { temporaryFolder } from "../folder.ts";
import { sweep } from "../scope.ts";
import { bundleWriting } from "./bundle.ts";
import { runAndKill } from "./killed-child.ts";
import { randomFrom } from "./random.ts";

const KILLS = Number(process.env["KILLS"] ?? sweep(100, 4));

let folder: string;
let entry: string;
beforeAll(async () => {
  folder = temporaryFolder();
  entry = join(folder, "superchunk.mjs");
  await bundleWriting(entry);
});
const loop = fileURLToPath(new URL("./append-loop.mjs", import.meta.url));

/** Runs the loop until it is killed, some time after its first output; returns the rows that it acknowledged. */
async function acknowledgedRows(
  path: string,
  delay: number,
  modify: "patch" | "in-place",
  most = 37,
): Promise<number> {
  const said = await runAndKill([loop, path, entry, modify, String(most)], delay);
  const last = [...said.matchAll(/(?:open|flushed) (\d+)\n/g)].pop();
  return Number(last?.[1] ?? 0);
}

test.each([
  ["patch", KILLS],
  ["in-place", KILLS / 2],
] as const)(
  "after a SIGKILL at any moment all acknowledged rows are there and nothing is damaged: %s",
  async (modify, kills) => {
    const path = join(folder, modify);
    const array = await createArray(path, {
      dtype: "<i4",
      chunkLength: modify === "patch" ? 16 : 64,
      superchunkLength: 8,
      threads: 0,
    });
    await array.close();
    const random = randomFrom(1);
    let total = 0;
    // On a busy machine many are killed before they have done anything, and prove nothing.
    for (let kill = 0; kill < kills || total <= kills; kill++) {
      const acknowledged = await acknowledgedRows(path, random() * 40, modify);
      const reader = (await open(path, { threads: 0 })) as ArrayArchive;
      const rows = reader.shape[0] ?? 0;
      expect(rows).toBeGreaterThanOrEqual(acknowledged);
      // At most one append was under way.
      expect(rows - acknowledged).toBeLessThan(37);
      const bytes = await reader.getBytes();
      const values = new Int32Array(bytes.buffer, bytes.byteOffset, rows);
      // All of one sign: what was set was set as a whole.
      const sign = Math.sign(values[0] ?? 1);
      expect(values.every((value, i) => value === sign * (i + 1))).toBe(true);
      expect((await reader.verify()).findings).toEqual([]);
      await reader.close();
      total = rows;
    }
    // The lock of the dead process is taken over, and what it left is removed.
    const writer = await openWritable(path, { threads: 0 });
    await writer.compact();
    await writer.close();
    const compacted = (await open(path, { threads: 0 })) as ArrayArchive;
    expect((await compacted.verify()).findings).toEqual([]);
    await compacted.close();
    const files = fs.readdirSync(join(path, "data"));
    expect(files.sort()).toEqual(
      Array.from(
        { length: Math.ceil(total / (modify === "patch" ? 128 : 512)) },
        (_, i) => `__${i + 1}__.bin`,
      ).sort(),
    );
    expect(fs.readdirSync(join(path, "meta")).sort()).toEqual(["attributes", "sizes", "storage"]);
  },
);

test("the same holds for long superchunks, written past the cache", async () => {
  const path = join(folder, "long");
  const most = 1_200_000;
  // Stored, so that a superchunk is as long as its rows.
  const cparams = { cname: "lz4", clevel: 0, shuffle: "noshuffle" } as const;
  const array = await createArray(path, {
    dtype: "<i4",
    chunkLength: 65_536,
    superchunkLength: 16,
    compressor: cparams,
  });
  await array.close();
  const random = randomFrom(2);
  let total = 0;
  for (let kill = 0; kill < KILLS / 20 || total < most; kill++) {
    const acknowledged = await acknowledgedRows(path, random() * (200 + 100 * kill), "patch", most);
    const reader = (await open(path, { threads: 0 })) as ArrayArchive;
    const rows = reader.shape[0] ?? 0;
    expect(rows).toBeGreaterThanOrEqual(acknowledged);
    expect(rows - acknowledged).toBeLessThan(most);
    const bytes = await reader.getBytes();
    const values = new Int32Array(bytes.buffer, bytes.byteOffset, rows);
    expect(values.findIndex((value, i) => value !== i + 1)).toBe(-1);
    expect((await reader.verify()).findings).toEqual([]);
    await reader.close();
    total = rows;
  }
  const data = join(path, "data");
  const sizes = fs.readdirSync(data).map((name) => fs.statSync(join(data, name)).size);
  expect(Math.max(...sizes)).toBeGreaterThan(2 * STAGE);
});
