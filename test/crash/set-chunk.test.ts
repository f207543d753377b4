/** Chunks of one file changed in place, with a power cut before every step. */
import { expect, test } from "vitest";
import type { BytesArchive } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/archive/open/open.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { createArray } from "../../src/write/array/create.ts";
import { compactFile, setChunk } from "../../src/write/in-place/set-chunk.ts";
import { withCounting } from "../store/counting.ts";
import { VolatileStore } from "../store/volatile.ts";
import { randomFrom } from "./random.ts";

const NBYTES = 2000;
const KEY = "__1__.bin";

/** Compresses to nothing, a little, or not at all. */
function data(kind: "zeros" | "ramp" | "noise", seed: number): Uint8Array {
  const random = randomFrom(seed);
  return Uint8Array.from({ length: NBYTES }, (_, i) =>
    kind === "zeros" ? 0 : kind === "ramp" ? (i >> 4) + seed : random() * 256,
  );
}

async function superchunk(): Promise<Uint8Array> {
  const store = new MemoryStore();
  const array = await createArray(store, "", { dtype: "|u1", chunkLength: NBYTES, superchunkLength: 6 });
  for (let i = 0; i < 4; i++) await array.append(data("ramp", i));
  await array.close();
  return (await store.get("data/__1__.bin")) ?? new Uint8Array(0);
}

async function read(store: MemoryStore): Promise<string> {
  const archive = (await open(store, KEY)) as BytesArchive;
  expect((await archive.verify()).findings).toEqual([]);
  return Buffer.from(await archive.readBytes(0, archive.nbytes)).toString("base64");
}

const CHANGES = [
  { index: 1, bytes: data("zeros", 0) }, // smaller: in its slot
  { index: 1, bytes: data("ramp", 9) }, // in the slot's reserve
  { index: 2, bytes: data("noise", 1) }, // larger: to the end
  { index: 3, bytes: data("noise", 2) }, // the last one, which has no more space after it
  { index: 2, bytes: data("ramp", 3) },
] as const;

test("[F1.4-01] a chunk that was moved or has reserve makes the file version 4, and compacting makes it version 3 again", async () => {
  const file = await superchunk();
  const store = new MemoryStore([[KEY, file]]);
  const rows = Array.from({ length: 4 }, (_, i) => data("ramp", i));
  const expected = (): string => Buffer.concat(rows).toString("base64");
  expect(await setChunk(store, KEY, 0, data("ramp", 0))).toEqual({ inSlot: true, version: 3 });
  expect(await store.get(KEY)).toEqual(file);
  const outcomes: boolean[] = [];
  for (const { index, bytes } of CHANGES) {
    const { inSlot, version } = await setChunk(store, KEY, index, bytes);
    rows[index] = bytes;
    outcomes.push(inSlot);
    expect(version).toBe(4);
    expect((await store.get(KEY))?.[4]).toBe(4);
    expect(await read(store)).toBe(expected());
  }
  expect(outcomes).toEqual([true, true, false, false, true]);
  await compactFile(store, KEY);
  expect((await store.get(KEY))?.[4]).toBe(3);
  expect(await read(store)).toBe(expected());
  const walked = (await store.get(KEY)) ?? new Uint8Array(0);
  // Back to back, with nothing after them: what a walk without the offsets finds.
  const view = new DataView(walked.buffer);
  let at = 32 + 6 * 8;
  for (let i = 0; i < 4; i++) {
    expect(view.getBigInt64(32 + 8 * i, true)).toBe(BigInt(at));
    at += view.getUint32(at + 12, true) + 4;
  }
  expect(at).toBe(walked.length);
});

test("a power cut before any step leaves the old or the new chunk", async () => {
  let image = new Map([[KEY, await superchunk()]]);
  let cuts = 0;
  for (const { index, bytes } of CHANGES) {
    const whole = new MemoryStore(image);
    const old = await read(whole);
    await setChunk(whole, KEY, index, bytes);
    const anew = await read(whole);
    const seen = new Set<string>();
    for (let failAt = 1, isDone = false; !isDone; failAt++) {
      for (let seed = 0; seed < 6; seed++) {
        const store = new VolatileStore(image, { failAt, random: randomFrom(failAt * 100 + seed) });
        try {
          await setChunk(store, KEY, index, bytes);
          isDone = true;
        } catch (error) {
          if (!store.isDead) throw error;
          cuts++;
        }
        const after = store.image();
        const label = `chunk ${index}, power cut before step ${failAt}, seed ${seed}`;
        const counted = withCounting(new MemoryStore(after));
        const archive = (await open(counted.store, KEY)) as BytesArchive;
        const found = Buffer.from(await archive.readBytes(0, archive.nbytes)).toString("base64");
        expect(isDone ? [anew] : [old, anew], label).toContain(found);
        expect((await archive.verify()).findings, label).toEqual([]);
        expect(counted.counts.writes, label).toBe(0);
        seen.add(found);
        // The next change completes the interrupted one.
        const next = new MemoryStore(after);
        await setChunk(next, KEY, 0, data("zeros", 0));
        const zeroed = Buffer.from(found, "base64");
        zeroed.fill(0, 0, NBYTES);
        expect(await read(next), label).toBe(zeroed.toString("base64"));
      }
    }
    expect(seen).toEqual(new Set([old, anew]));
    image = new Map([[KEY, (await whole.get(KEY)) ?? new Uint8Array(0)]]);
  }
  expect(cuts).toBeGreaterThan(100);
});

test("what cannot be changed in place is refused", async () => {
  const store = new MemoryStore([[KEY, await superchunk()]]);
  await expect(setChunk(store, KEY, 4, data("zeros", 0))).rejects.toMatchObject({ code: "BAD_ARGUMENT" });
  await expect(setChunk(store, KEY, 0, new Uint8Array(3))).rejects.toMatchObject({ code: "BAD_ARGUMENT" });
  await expect(setChunk(store, "none", 0, new Uint8Array(3))).rejects.toMatchObject({ code: "NOT_FOUND" });
});
