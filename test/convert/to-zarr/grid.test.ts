import { describe, expect, it } from "vitest";
import {
  cellItems,
  cellShape,
  chooseCells,
  chooseShards,
  fullCellItems,
  indexSlot,
  matchCells,
  shardCells,
  shardPosition,
} from "../../../src/convert/plan/grid.ts";
import fc from "../../property.ts";

const product = (values: readonly number[]): number => values.reduce((total, n) => total * n, 1);
const shapes = fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 1, maxLength: 4 });

/** Flat C-order index of every item of a box, clipped to the array. */
function itemsInBox(shape: readonly number[], from: readonly number[], size: readonly number[]): number[] {
  let found = [0];
  shape.forEach((extent, axis) => {
    const next: number[] = [];
    const start = from[axis] ?? 0;
    for (const base of found) {
      for (let i = start; i < Math.min(extent, start + (size[axis] ?? 1)); i++) next.push(base * extent + i);
    }
    found = next;
  });
  return found;
}

describe("cells", () => {
  it("are the runs of the chunks, item for item, whenever a match is found", () => {
    fc.assert(
      fc.property(shapes, fc.integer({ min: 1, max: 300 }), (shape, chunkItems) => {
        const cells = matchCells(shape, chunkItems);
        if (cells === undefined) return;
        const box = cellShape(cells);
        const counts = shape.map((n, axis) => Math.ceil(n / (box[axis] ?? 1)));
        let at = 0;
        for (let index = 0; index < cells.count; index++) {
          let rest = index;
          const from = new Array<number>(shape.length).fill(0);
          for (let axis = shape.length - 1; axis >= 0; axis--) {
            from[axis] = (rest % (counts[axis] ?? 1)) * (box[axis] ?? 1);
            rest = Math.floor(rest / (counts[axis] ?? 1));
          }
          const items = itemsInBox(shape, from, box);
          expect(items).toEqual(Array.from({ length: cellItems(cells, index) }, (_, i) => at + i));
          if (index < cells.count - 1) expect(items).toHaveLength(Math.min(chunkItems, product(shape)));
          at += items.length;
        }
        expect(at).toBe(product(shape));
      }),
    );
  });

  it("match chunks smaller than a row if they divide it, and no others", () => {
    expect(matchCells([10, 100, 100], 2500)).toMatchObject({ axis: 1, length: 25, count: 40 });
    expect(matchCells([10, 100, 100], 3000)).toBeUndefined();
    expect(matchCells([10, 100], 250)).toBeUndefined();
    expect(matchCells([1000], 300)).toMatchObject({ axis: 0, length: 300, count: 4 });
    expect(matchCells([50], 300)).toMatchObject({ axis: 0, length: 50, count: 1 });
    expect(matchCells([5], 0.5)).toBeUndefined();
  });

  it("chosen from scratch cover the array and are no larger than requested, unless one item is", () => {
    fc.assert(
      fc.property(
        shapes,
        fc.integer({ min: 1, max: 16 }),
        fc.integer({ min: 16, max: 2000 }),
        (shape, itemSize, target) => {
          const cells = chooseCells(shape, itemSize, target);
          let total = 0;
          for (let index = 0; index < cells.count; index++) total += cellItems(cells, index);
          expect(total).toBe(product(shape));
          expect(fullCellItems(cells) * itemSize).toBeLessThanOrEqual(Math.max(target, itemSize));
        },
      ),
    );
  });
});

describe("shards", () => {
  it("hold every cell once, in contiguous runs, in the slot and at the position that Zarr computes", () => {
    fc.assert(
      fc.property(
        shapes,
        fc.integer({ min: 1, max: 40 }),
        fc.integer({ min: 1, max: 9 }),
        fc.boolean(),
        (shape, target, chunksPerShard, reversed) => {
          const cells = chooseCells(shape, 1, target);
          const shards = chooseShards(cells, 1, { chunksPerShard });
          const box = cellShape(cells);
          const turn = (values: readonly number[]): readonly number[] =>
            reversed ? [...values].reverse() : values;
          const counts = shape.map((n, axis) => Math.ceil(n / (box[axis] ?? 1)));
          expect(shards.capacity).toBeLessThanOrEqual(chunksPerShard);
          expect(shards.capacity).toBe(product(shards.cells));
          expect(shards.shape).toEqual(box.map((n, axis) => n * (shards.cells[axis] ?? 1)));
          let next = 0;
          for (let shard = 0; shard < shards.count; shard++) {
            const { first, end } = shardCells(shards, shard);
            expect(first).toBe(next);
            next = end;
            const position = shardPosition(shards, shard);
            for (let cell = first; cell < end; cell++) {
              let rest = cell;
              const at = counts.map(() => 0);
              for (let axis = counts.length - 1; axis >= 0; axis--) {
                at[axis] = rest % (counts[axis] ?? 1);
                rest = Math.floor(rest / (counts[axis] ?? 1));
              }
              expect(at.map((n, axis) => Math.floor(n / (shards.cells[axis] ?? 1)))).toEqual(position);
              const inside = turn(at.map((n, axis) => n % (shards.cells[axis] ?? 1)));
              const slot = inside.reduce((sum, n, axis) => sum * (turn(shards.cells)[axis] ?? 1) + n, 0);
              expect(indexSlot(shards, cell - first, reversed)).toBe(slot);
            }
          }
          expect(next).toBe(cells.count);
        },
      ),
    );
  });

  it("consist of whole chunks, about 128 MiB unless requested otherwise", () => {
    const cells = matchCells([954 * 131_072], 131_072);
    expect(cells && chooseShards(cells, 8)).toMatchObject({
      capacity: 128,
      count: 8,
      lastCount: 954 - 7 * 128,
    });
    expect(cells && chooseShards(cells, 8, { shardSize: 3_000_000 })).toMatchObject({
      capacity: 2,
      count: 477,
    });
    expect(cells && chooseShards(cells, 8, { shardSize: 1 })).toMatchObject({ capacity: 1, count: 954 });
  });

  it("have an index of bounded size, however small the chunks are", () => {
    const cells = matchCells([10_000_000], 10);
    expect(cells && chooseShards(cells, 1).capacity).toBe(65_536);
  });

  it.each([0, -1, 1.5, Number.NaN])("refuse %s chunks or bytes", (value) => {
    const cells = matchCells([100], 10);
    if (cells === undefined) throw new Error("no match");
    expect(() => chooseShards(cells, 1, { chunksPerShard: value })).toThrow(
      expect.objectContaining({ code: "BAD_ARGUMENT" }),
    );
    expect(() => chooseShards(cells, 1, { shardSize: value })).toThrow(
      expect.objectContaining({ code: "BAD_ARGUMENT" }),
    );
  });
});
