/** A writer and a reader in two processes: the reader gets what the writer reports as existing. */
import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, expect, test } from "vitest";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { isSuperchunkError } from "../../src/errors.ts";
import { create as createArray } from "../../src/node/edit.ts";
import { open } from "../../src/node/index.ts";
import { bundleWriting } from "../crash/bundle.ts";
import { SEED } from "../crash/random.ts";
import { temporaryFolder } from "../folder.ts";
import { sweep } from "../scope.ts";

/** Minimum number of writer steps: it continues until the reader has seen enough of them, however slow that is. */
const STEPS = sweep(150, 18);
const GENERATIONS = 6;

let folder: string;
let entry: string;

beforeAll(async () => {
  folder = temporaryFolder();
  entry = join(folder, "superchunk.mjs");
  await bundleWriting(entry);
});
const loop = fileURLToPath(new URL("./changing-loop.mjs", import.meta.url));

/** What the writer printed, by generation, and how it ended. */
interface Writer {
  readonly told: Map<number, string>;
  readonly isDone: () => boolean;
  /** No more steps are needed than there must be. */
  readonly stop: () => void;
  readonly ended: Promise<void>;
}

function watch(child: ChildProcess): Writer {
  const told = new Map<number, string>();
  let [text, failure, isDone] = ["", "", false];
  child.stderr?.on("data", (data: Buffer) => {
    failure += data.toString();
  });
  child.stdout?.on("data", (data: Buffer) => {
    text += data.toString();
    const lines = text.split("\n");
    text = lines.pop() ?? "";
    for (const line of lines) {
      const [generation, hash] = line.split(" ");
      told.set(Number(generation), hash ?? "");
    }
  });
  const ended = new Promise<void>((resolve, reject) => {
    child.on("close", (code) => {
      isDone = true;
      if (code === 0) resolve();
      else reject(new Error(`the writer ended with ${code}: ${failure}`));
    });
  });
  return { told, isDone: () => isDone, stop: () => void child.stdin?.end(), ended };
}

/** The rows, by one way of reading or another; undefined if they are gone. */
async function hashOf(array: ArrayArchive, way: number): Promise<string | undefined> {
  const hash = createHash("sha256");
  try {
    if (way === 0) hash.update(await array.getBytes());
    else if (way === 1) for await (const part of array.streamBytes()) hash.update(part);
    else
      for (let start = 0; start < (array.shape[0] ?? 0); start += 37)
        hash.update(await array.getBytes([{ start, stop: start + 37, step: 1 }]));
  } catch (error) {
    if (isSuperchunkError(error, "STALE")) return undefined;
    throw error;
  }
  return hash.digest("hex");
}

test.each(["patch", "in-place"] as const)(
  "through appends, merges, sets, shrinks, deletions and compactions a reader in another process gets its generation's rows, or STALE: %s",
  async (modify) => {
    const path = join(folder, modify);
    await (
      await createArray(path, { dtype: "<i4", chunkLength: 16, superchunkLength: 4, threads: 0 })
    ).close();
    const argv = [loop, path, entry, modify, String(STEPS), String(1 + SEED)];
    const writer = watch(spawn(process.execPath, argv, { stdio: "pipe" }));
    const read: { readonly generation: number; readonly hash: string }[] = [];
    let array = (await open(path, { threads: 0 })) as ArrayArchive;
    // Rows that are found again in a later generation are those of the opened one.
    let opened = array.generation ?? -1;
    const moveOn = async (): Promise<void> => {
      await array.refresh?.();
      opened = array.generation ?? -1;
    };
    let [refound, stale] = [0, 0];
    const seen = new Set<number>();
    for (let turn = 0, isLast = false; !isLast; turn++) {
      isLast = writer.isDone();
      if (isLast || turn % 4 === 3) await moveOn();
      if (turn % 50 === 49) {
        await array.close();
        array = (await open(path, { threads: 0 })) as ArrayArchive;
        opened = array.generation ?? -1;
      }
      const hash = await hashOf(array, turn % 3);
      if (hash !== undefined) {
        read.push({ generation: opened, hash });
        seen.add(opened);
      } else {
        stale++;
        await moveOn();
      }
      if (array.generation !== opened) refound++;
      if (seen.size >= GENERATIONS && stale + refound > 0) writer.stop();
    }
    await writer.ended;
    await array.close();
    // Compacting commits more than once, always the same rows.
    const generations = [...writer.told.keys()].sort((a, b) => a - b);
    const wrong = read.filter(({ generation, hash }) => {
      const told = generations.find((each) => each >= generation);
      return told === undefined || writer.told.get(told) !== hash;
    });
    expect(wrong).toEqual([]);
    expect(seen.size).toBeGreaterThanOrEqual(GENERATIONS);
    expect(stale + refound).toBeGreaterThan(0);
    expect(read.at(-1)?.generation).toBe(generations.at(-1));
  },
);
