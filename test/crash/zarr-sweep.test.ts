/**
 * The power is cut at every step of a writer of a Zarr array: what was promised to be durable is there, and nothing
 * is wrong.
 */
import { expect, test } from "vitest";
import type { ArraySlice } from "../../src/archive/kinds/types.ts";
import { isSuperchunkError } from "../../src/errors.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { createZarr } from "../../src/zarr/write/create.ts";
import { recoverShard } from "../../src/zarr/write/recover-shard.ts";
import type { ShardStrategy } from "../../src/zarr/write/write-settings.ts";
import { VolatileStore } from "../store/volatile.ts";
import { openZarrWriter } from "../zarr/writer.ts";
import { randomFrom } from "./random.ts";

const [ITEMS, SHARD, CHUNK, FILL] = [768, 256, 64, -1];
/** A chunk whose bytes did not all reach the disk is detected by its checksum. */
const spec = {
  ...{ shape: [ITEMS], dataType: "int32", chunkShape: [CHUNK], shardShape: [SHARD], fillValue: FILL },
  codecs: [{ name: "bytes", configuration: { endian: "little" } }, { name: "crc32c" }],
};
/** What is set, from a first item on; every second write is flushed. A shard of fill values is deleted. */
const SETS: readonly (readonly [start: number, count: number, value: number])[] = [
  ...([
    [0, 768, 1],
    [30, 300, 2],
    [270, 50, 3],
    [256, 256, FILL],
    [480, 160, 4],
  ] as const),
  ...([
    [512, 256, FILL],
    [0, 64, 5],
    [10, 758, 6],
    [0, 256, FILL],
    [80, 640, 7],
  ] as const),
];

/** What each item may be after a power cut: its value when it was last made durable, or any value set since. */
class Allowed {
  readonly #items = Array.from({ length: ITEMS }, () => [FILL]);

  set([start, count, value]: readonly [number, number, number]): void {
    for (let i = start; i < start + count; i++) this.#items[i]?.push(value);
  }

  makeDurable(start = 0, count: number = ITEMS): void {
    for (const values of this.#items.slice(start, start + count)) values.splice(0, values.length - 1);
  }

  of(item: number): readonly number[] {
    return this.#items[item] ?? [];
  }
}

/** Writes until the power fails. */
async function write(store: VolatileStore, strategy: ShardStrategy, allowed: Allowed): Promise<void> {
  const array = await openZarrWriter(store, "a", { strategy });
  for (const [i, change] of SETS.entries()) {
    const [start, count, value] = change;
    allowed.set(change);
    await array.set([{ start, stop: start + count, step: 1 }], value);
    if (strategy === "rewrite") allowed.makeDurable(start, count);
    if (i % 2 === 0) continue;
    await array.flush();
    allowed.makeDurable();
  }
}

/** Items of a shard; undefined if it is damaged. */
async function readShard(store: MemoryStore, shard: number): Promise<Int32Array | undefined> {
  const range = [{ start: shard * SHARD, stop: (shard + 1) * SHARD, step: 1 }];
  try {
    return ((await (await openZarrArray(store, "a")).get(range)) as ArraySlice).data as Int32Array;
  } catch (error) {
    if (isSuperchunkError(error) && error.isDamage) return undefined;
    throw error;
  }
}

/** True if a shard has an index again; its chunks may still be damaged. */
async function recover(store: MemoryStore, shard: number): Promise<boolean> {
  try {
    return (await recoverShard(await openZarrWriter(store, "a"), [shard])).dropped > 0;
  } catch (error) {
    if (isSuperchunkError(error, "INCOMPLETE")) return false;
    throw error;
  }
}

test.each(["rewrite", "append", "fixed"] as const)(
  "[FH-08] %s: after a power cut a read gives what was flushed, or what was set since, or an error",
  async (strategy) => {
    const empty = new MemoryStore();
    await createZarr(empty, "a", spec);
    const documents = [["a/zarr.json", (await empty.get("a/zarr.json")) ?? new Uint8Array(0)]] as const;
    let damaged = 0;
    let recovered = 0;
    for (let failAt = 1, isOver = false; !isOver; failAt++) {
      for (let seed = 0; seed < 2; seed++) {
        const store = new VolatileStore(documents, {
          failAt,
          random: randomFrom(1000 * seed + failAt),
        });
        const allowed = new Allowed();
        await write(store, strategy, allowed).catch((error: unknown) => {
          if (!store.isDead) throw error;
        });
        isOver = !store.isDead;
        const left = new MemoryStore(store.image());
        for (let shard = 0; shard < ITEMS / SHARD; shard++) {
          let items = await readShard(left, shard);
          if (items === undefined) {
            damaged++;
            if (strategy === "append" && (await recover(left, shard))) recovered++;
            items = await readShard(left, shard);
          }
          const wrong = [...(items ?? [])].filter(
            (value, i) => !allowed.of(shard * SHARD + i).includes(value),
          );
          if (wrong.length > 0)
            expect(wrong, `power cut at step ${failAt}, seed ${seed}, shard ${shard}`).toEqual([]);
        }
      }
    }
    if (strategy === "rewrite") expect(damaged).toBe(0);
    else expect(damaged).toBeGreaterThan(0);
    expect(recovered > 0).toBe(strategy === "append");
  },
);
