/** Zarr arrays whose shape changes: nothing that was cut off reappears, and readers see the old shape or the new one. */
import { describe, expect, it } from "vitest";
import { create, edit } from "../../src/edit/edit.ts";
import { MemoryStore } from "../../src/store/memory.ts";
import { interceptStore } from "../../src/store/wrappers/intercept.ts";
import { openZarrArray } from "../../src/zarr/read/open.ts";
import { imageOf } from "../crash/images.ts";
import { randomFrom } from "../crash/random.ts";
import { sweep } from "../scope.ts";
import { VolatileStore } from "../store/volatile.ts";

/** The items of a cube, by their position; absent ones have the fill value. */
type Model = Map<string, number>;

const FILL = -1;

function* positionsIn(shape: readonly number[]): Generator<readonly number[]> {
  const [n = 0, ...rest] = shape;
  if (shape.length === 0) yield [];
  else for (let i = 0; i < n; i++) for (const each of positionsIn(rest)) yield [i, ...each];
}

function listOf(model: Model, shape: readonly number[]): number[] {
  return [...positionsIn(shape)].map((position) => model.get(position.join()) ?? FILL);
}

async function numbered(store: MemoryStore, shape: number[], chunkShape: number[], shardShape?: number[]) {
  const array = await create(store, "a", {
    ...{ format: "zarr", dtype: "<i4", shape, chunkShape, fillValue: FILL },
    ...(shardShape === undefined ? {} : { shardShape }),
  });
  const count = shape.reduce((product, n) => product * n, 1);
  await array.set(
    null,
    Int32Array.from({ length: count }, (_, i) => i),
  );
  await array.flush();
  return array;
}

async function valuesOf(store: MemoryStore): Promise<string> {
  const found = await openZarrArray(store, "a");
  const { data } = (await found.get()) as { data: Int32Array };
  return JSON.stringify([found.shape, ...data]);
}

describe("the shape of a Zarr array", () => {
  it("shows the fill value where an array grows again, also where a chunk was cut along two dimensions", async () => {
    const store = new MemoryStore();
    const array = await numbered(store, [4, 4], [4, 4]);
    await array.resize([2, 2]);
    await array.resize([4, 4]);
    expect(await valuesOf(store)).toBe(
      JSON.stringify([
        [4, 4],
        ...[0, 1, FILL, FILL, 4, 5, FILL, FILL, FILL, FILL, FILL, FILL, FILL, FILL, FILL, FILL],
      ]),
    );
  });

  it.each([undefined, [4, 6, 4]])(
    "has the values of a model after any changes (shards: %j)",
    async (shards) => {
      for (let seed = 0; seed < sweep(60, 7); seed++) {
        const random = randomFrom(seed);
        const length = (): number => Math.floor(random() * 9);
        let shape = [4, 5, 6];
        const store = new MemoryStore();
        const array = await numbered(store, shape, [2, 3, 4], shards);
        let model: Model = new Map([...positionsIn(shape)].map((each, i) => [each.join(), i]));
        for (let change = 0; change < 6; change++) {
          const next = shape.map((n) => (random() < 0.3 ? n : length()));
          await array.resize(next);
          model = new Map(
            [...model].filter(([key]) => key.split(",").every((i, d) => Number(i) < (next[d] ?? 0))),
          );
          shape = next;
          expect(await valuesOf(store), `seed ${seed}`).toBe(
            JSON.stringify([shape, ...listOf(model, shape)]),
          );
        }
      }
    },
  );

  it.each([[[4, 7]], [[9, 1]], [[1, 1]], [[9, 9]]])(
    "changes to %j in one step, at every power cut",
    async (to) => {
      const made = new MemoryStore();
      await (await numbered(made, [6, 5], [4, 4])).close();
      const start = [...(await imageOf(made))];
      const before = await valuesOf(new MemoryStore(start));
      const whole = new MemoryStore(start);
      const shapes = new Set<string>();
      const seen = interceptStore(whole, {
        onCall: async ({ method, key }, proceed) => {
          const result = await proceed();
          if (method === "put" && key === "a/zarr.json") shapes.add(await valuesOf(whole));
          return result;
        },
      });
      const array = await edit(seen, "a");
      await array.resize(to);
      await array.close();
      const after = await valuesOf(whole);
      expect([...shapes]).toEqual([after]);
      for (let failAt = 1; ; failAt++) {
        const disk = new VolatileStore(start, { failAt, random: randomFrom(failAt) });
        const isDone = await edit(disk, "a").then(
          (late) =>
            late.resize(to).then(
              () => true,
              () => false,
            ),
          () => false,
        );
        const store = new MemoryStore(disk.image());
        expect(isDone ? [after] : [before, after], `cut at ${failAt}`).toContain(await valuesOf(store));
        if (!disk.isDead) break;
      }
    },
  );
});
