/** Several writers of one array: acknowledged rows are there once, whichever writer is killed, delayed, or loses answers. */
import { expect, test } from "vitest";
import type { ArrayArchive } from "../../src/archive/kinds/types.ts";
import { open } from "../../src/archive/open/open.ts";
import { isSuperchunkError, SuperchunkError } from "../../src/errors.ts";
import { parseLayout, type StoredLayout } from "../../src/format/layout.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import type { WritableStore } from "../../src/store/types.ts";
import { interceptStore } from "../../src/store/wrappers/intercept.ts";
import { createArray, openWritable } from "../../src/write/array/create.ts";
import { openShared } from "../../src/write/array/open-shared.ts";
import type { Clock } from "../../src/write/array/shared-commits.ts";
import { imageOf } from "../crash/images.ts";
import { randomFrom } from "../crash/random.ts";
import { COLD, placesIn, SLOW } from "../places/prefixed.ts";
import { sweep } from "../scope.ts";
import { expectOnce } from "./acknowledged.ts";

const SEEDS = sweep(600, 4);

/** The actions of the writers in a run, added up. */
const totals = { commits: 0, killed: 0, lost: 0, late: 0, failed: 0, givenBack: 0 };

/** A clock that only tests move; pauses let others go on. */
function clockOf(random: () => number): Clock & { at: number } {
  const clock = {
    at: 1_000_000,
    now: () => clock.at,
    random,
    pause: async (ms: number) => {
      clock.at += ms;
      await turn();
    },
  };
  return clock;
}

const turn = (): Promise<void> => new Promise(setImmediate);

/**
 * A store as one writer sees it: calls take time, fail, lose their answers, or arrive after the writer considered
 * them lost.
 */
function shaky(
  store: MemoryStore,
  random: () => number,
  life: { isDead: boolean },
  risk: number,
): WritableStore {
  const fail = (what: string): SuperchunkError => new SuperchunkError("IO", what);
  return interceptStore<WritableStore>(store, {
    async onCall(call, proceed) {
      for (let n = Math.floor(random() * 4); n > 0; n--) await turn();
      if (life.isDead) throw fail("the writer is dead");
      const writes = call.method === "put" || call.method === "delete";
      const dice = random();
      if (!writes || dice > risk * 4) return proceed();
      if (dice < risk) {
        totals.killed++;
        life.isDead = true;
        // What it had sent may arrive.
        if (random() < 0.5) await proceed().catch(() => undefined);
        throw fail("the writer is dead");
      }
      if (dice < 2 * risk) {
        totals.failed++;
        throw fail("the storage failed");
      }
      if (dice < 3 * risk) {
        await proceed();
        totals.lost++;
        throw fail("the answer is lost");
      }
      totals.late++;
      void (async () => {
        for (let n = Math.floor(random() * 40); n > 0; n--) await turn();
        await proceed();
      })().catch(() => undefined);
      throw fail("no answer, and it comes later");
    },
    onSync: (_call, proceed) => proceed(),
    onList: () => undefined,
  });
}

async function layoutOf(store: MemoryStore): Promise<StoredLayout> {
  const sizes = JSON.parse(new TextDecoder().decode(await store.get("meta/sizes")));
  return parseLayout(sizes, "sizes") as StoredLayout;
}

async function play(seed: number, places: readonly (typeof COLD)[]): Promise<void> {
  const random = randomFrom(seed);
  const pick = (n: number): number => Math.floor(random() * n);
  const store = new MemoryStore();
  const openPlace = placesIn(store);
  const clock = clockOf(random);
  const chunklen = 1 + pick(5);
  const first = await createArray(store, "", {
    dtype:
      random() < 0.3
        ? [
            ["a", "<i4"],
            ["b", "<i4"],
          ]
        : "<i4",
    chunkLength: chunklen,
    superchunkLength: 1 + pick(6),
    compressor: { cname: "lz4", clevel: 1 },
    ...{ places, openPlace, placeBy: seed % 3 === 0 ? "size" : "round" },
  });
  const { itemSize } = first.dtype;
  await first.close();
  await (await openShared(store, "", { clock, openPlace })).close();

  const sent: number[] = [];
  const acknowledged: number[] = [];
  const lease = 1 + 20 * random();
  const risk = random() < 0.2 ? 0 : 0.01;
  const encode = (values: readonly number[]): Uint8Array => {
    const bytes = new Uint8Array(values.length * itemSize);
    const view = new DataView(bytes.buffer);
    for (const [i, value] of values.entries())
      for (let at = 0; at < itemSize; at += 4) view.setInt32(i * itemSize + at, value, true);
    return bytes;
  };
  const write = async (writer: number): Promise<void> => {
    let serial = 0;
    for (let life = 0; life < 4 && serial < 60; life++) {
      const state = { isDead: false };
      const own = shaky(store, random, state, risk);
      const array = await openShared(own, "", { clock, lease, openPlace: placesIn(own) }).catch(
        () => undefined,
      );
      if (array === undefined) continue;
      // Rows that wait here, and are lost with their writer.
      let waiting: number[] = [];
      while (!state.isDead && serial < 60) {
        const whole = random() < 0.4;
        const rows = Array.from(
          { length: whole ? chunklen * (1 + pick(3)) : 1 + pick(7) },
          () => 1000 * writer + ++serial,
        );
        sent.push(...rows);
        waiting.push(...rows);
        if (random() < 0.1) clock.at += 2000 * lease * random();
        try {
          await array.append(encode(rows));
          await array.flush();
          acknowledged.push(...waiting);
          waiting = [];
          totals.commits++;
        } catch (error) {
          if (!isSuperchunkError(error)) throw error;
        }
      }
      if (!state.isDead)
        await array.close().then(
          () => acknowledged.push(...waiting),
          () => array.abandon(),
        );
    }
  };
  await Promise.all([1, 2, 3, 4].map(write));
  for (let n = 0; n < 50; n++) await turn();

  const archive = await open(store, "", { openPlace });
  if (archive.kind !== "array") throw new Error("not an array");
  expect((await archive.verify()).ok).toBe(true);
  const bytes = await archive.getBytes();
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const found = Array.from({ length: bytes.length / itemSize }, (_, i) => view.getInt32(i * itemSize, true));
  expectOnce(found, { acknowledged, sent });
  for (const writer of [1, 2, 3, 4]) {
    const own = found.filter((value) => Math.floor(value / 1000) === writer);
    expect(own, "rows of one writer in their order").toEqual([...own].sort((a, b) => a - b));
  }

  // Leftovers are removed: reservations with the next commit after their lease, files by the next single writer.
  clock.at += 3000 * lease;
  totals.givenBack += (await layoutOf(store)).writers?.filter(({ count }) => count > 0).length ?? 0;
  const last = await openShared(store, "", { clock, openPlace });
  await last.append(encode([1]));
  await last.close();
  expect((await layoutOf(store)).writers?.filter(({ count }) => count > 0) ?? []).toEqual([]);
  await (await openWritable(store, "", { openPlace })).close();
  const files = [...(await imageOf(store)).keys()].filter((key) => key.endsWith(".bin"));
  if (places.length > 0 && found.length > 100)
    for (const { name } of places) expect(files.some((key) => key.startsWith(`${name}/`))).toBe(true);
  const { runs } = await layoutOf(store);
  if (itemSize === 4) expect(files.length).toBe(runs.reduce((sum, { count }) => sum + count, 0));
  const whole = await open(store, "", { openPlace });
  expect(whole.kind === "array" && whole.shape[0]).toBe(found.length + 1);
}

test("[FG-16] [FG-17] acknowledged rows are there once, with writers that are killed, delayed, and lose answers", async () => {
  for (let seed = 1; seed <= SEEDS; seed++) {
    await play(seed, seed % 2 === 0 ? [COLD, SLOW] : []).catch((error: unknown) => {
      throw new Error(`seed ${seed}`, { cause: error });
    });
  }
  for (const count of Object.values(totals)) expect(count).toBeGreaterThan(0);
});

test("[FG-18] a single writer leaves what others have reserved until the reservation expires, and then removes it", async () => {
  const clock = clockOf(randomFrom(1));
  clock.at = Date.now();
  const store = new MemoryStore();
  await (await createArray(store, "", { dtype: "<i4", chunkLength: 2 })).close();
  const writer = await openShared(store, "", { clock, lease: 600 });
  await writer.append(Int32Array.of(1, 2));
  await writer.flush();
  const [reserved] = (await layoutOf(store)).writers ?? [];
  const key = `data/__${reserved?.first}__.bin`;
  await store.put(key, new Uint8Array(3));
  await (await openWritable(store, "")).close();
  expect(await store.stat(key)).toBeDefined();
  // Its lease expires: the files are removed, and it reserves again for the rows that it has.
  clock.at -= 3_600_000;
  await writer.append(Int32Array.of(3, 4));
  await writer.flush();
  const [late] = (await layoutOf(store)).writers ?? [];
  await store.put(`data/__${late?.first}__.bin`, new Uint8Array(3));
  await (await openWritable(store, "")).close();
  expect(await store.stat(`data/__${late?.first}__.bin`)).toBeUndefined();
  expect((await layoutOf(store)).writers?.[0]?.count).toBe(0);
  clock.at = Date.now();
  await writer.append(Int32Array.of(5));
  await writer.close();
  const archive = await open(store, "");
  expect(
    Array.from((archive.kind === "array" ? await archive.get() : undefined)?.data as Int32Array),
  ).toEqual([1, 2, 3, 4, 5]);
  expect((await layoutOf(store)).writers ?? []).toEqual([]);
});

test("[FG-17] rows of one flush are adjacent, small superchunks are joined, and the size is that of the files", async () => {
  const random = randomFrom(5);
  const store = new MemoryStore();
  const clock = clockOf(random);
  await (await createArray(store, "", { dtype: "<i4", chunkLength: 4, superchunkLength: 32 })).close();
  const writers = await Promise.all([0, 1].map(() => openShared(store, "", { clock })));
  for (let k = 0; k < 120; k++)
    await Promise.all(
      writers.map(async (writer, w) => {
        await writer.append(Int32Array.from({ length: k % 3 === 0 ? 8 : 4 }, () => 1000 * w + k));
        await writer.flush();
      }),
    );
  const sizes = JSON.parse(new TextDecoder().decode(await store.get("meta/sizes")));
  const { runs } = await layoutOf(store);
  expect(runs.length).toBeLessThan(60);
  await Promise.all(writers.map((writer) => writer.close()));
  let bytes = 0;
  for (const { first, count } of runs)
    for (let i = 0; i < count; i++) bytes += (await store.stat(`data/__${first + i}__.bin`))?.size ?? 0;
  expect(sizes.cbytes).toBe(bytes);
  const archive = await open(store, "");
  const found = (archive.kind === "array" ? await archive.get() : undefined)?.data as Int32Array;
  const changes = found.filter((value, i) => i === 0 || found[i - 1] !== value);
  expect(new Set(changes).size).toBe(changes.length);
});

test("[FZ-09] shared arrays are read as before and refuse other verbs, and arrays that cannot be shared say why", async () => {
  const store = new MemoryStore();
  await (await createArray(store, "", { dtype: "<i4", chunkLength: 4 })).close();
  const writer = await openShared(store, "");
  await expect(writer.set(null, 1)).rejects.toMatchObject({ code: "UNSUPPORTED" });
  await expect(writer.get()).rejects.toMatchObject({ code: "UNSUPPORTED" });
  await writer.append(Int32Array.of(1, 2, 3));
  expect(writer.shape).toEqual([3]);
  const alone = await openWritable(store, "");
  await alone.append(Int32Array.of(9));
  await writer.flush();
  await expect(alone.flush()).rejects.toMatchObject({ code: "CONFLICT" });
  await alone.abandon();
  const again = await openWritable(store, "");
  await again.compact({ chunkLength: 8 });
  await again.close();
  await writer.append(Int32Array.of(4));
  await expect(writer.flush()).rejects.toMatchObject({
    code: "CONFLICT",
    details: { field: "layout.revision" },
  });
  await writer.abandon();
  const storage = JSON.parse(new TextDecoder().decode(await store.get("meta/storage")));
  expect(storage.superchunk.writeFeatures).toEqual(["shared"]);
  await expect(openShared(store, "", { lease: 0 })).rejects.toMatchObject({ code: "BAD_ARGUMENT" });
});

test("[FG-17] a writer whose last answer was lost, and whose entry has lapsed, does not append its rows again", async () => {
  const store = new MemoryStore();
  const clock = clockOf(randomFrom(1));
  await (await createArray(store, "", { dtype: "<i4", chunkLength: 4, superchunkLength: 2 })).close();
  let losesAnswers = false;
  const losing = interceptStore<WritableStore>(store, {
    async onCall({ method, key }, proceed) {
      const answer = await proceed();
      if (losesAnswers && method === "put" && key === "meta/sizes")
        throw new SuperchunkError("IO", "the answer is lost");
      return answer;
    },
    onSync: (_call, proceed) => proceed(),
    onList: () => undefined,
  });
  const one = await openShared(losing, "", { clock, lease: 1 });
  await one.append(Int32Array.of(1, 2, 3, 4));
  await one.flush();
  losesAnswers = true;
  await one.append(Int32Array.of(5, 6, 7, 8));
  await expect(one.flush()).rejects.toMatchObject({ code: "IO" });
  losesAnswers = false;
  clock.at += 25 * 3600 * 1000;
  const two = await openShared(store, "", { clock });
  await two.append(Int32Array.of(9));
  await two.close();
  await expect(one.flush()).rejects.toMatchObject({
    code: "STALE",
    message: expect.stringContaining("it is not known whether the last rows were committed") as string,
    details: { field: "layout.writers" },
  });
  const array = (await open(store)) as ArrayArchive;
  expect([...((await array.get()).data as Int32Array)]).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
});
