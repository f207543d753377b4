/** In which order inner chunks lie in a shard. Pure. */
import { at } from "../../bytes/at.ts";

/** Row by row; column by column; along a Morton curve, so that neighbours in every dimension lie near one another; or as they come. */
export type ChunkOrder = "row-major" | "column-major" | "morton" | "as-written";

/** The slots of a grid in the order in which their chunks are stored; `written` are those that come, in their order. */
export function orderSlots(written: Iterable<number>, grid: readonly number[], order: ChunkOrder): number[] {
  const slots = [...written];
  if (order === "as-written") return slots;
  if (order === "row-major") return slots.sort((a, b) => a - b);
  const keyOf = order === "morton" ? mortonKey : columnMajorKey;
  const keys = new Map(slots.map((slot) => [slot, keyOf(slot, grid)]));
  return slots.sort((a, b) => {
    const [left = 0n, right = 0n] = [keys.get(a), keys.get(b)];
    return left < right ? -1 : left > right ? 1 : 0;
  });
}

/** The coordinates of a slot of a grid in C order. */
function positionOf(slot: number, grid: readonly number[]): number[] {
  const position = new Array<number>(grid.length).fill(0);
  let rest = slot;
  for (let d = grid.length - 1; d >= 0; d--) {
    position[d] = rest % at(grid, d);
    rest = Math.floor(rest / at(grid, d));
  }
  return position;
}

/** The slot that the position has in Fortran order. */
function columnMajorKey(slot: number, grid: readonly number[]): bigint {
  const position = positionOf(slot, grid);
  return grid.reduceRight((key, n, d) => key * BigInt(n) + BigInt(at(position, d)), 0n);
}

/** The bits of the position's coordinates, interleaved; the first dimension has the lowest bit. */
function mortonKey(slot: number, grid: readonly number[]): bigint {
  const position = positionOf(slot, grid);
  const bits = Math.max(1, ...grid.map((n) => Math.ceil(Math.log2(Math.max(2, n)))));
  let key = 0n;
  let place = 0n;
  for (let bit = 0; bit < bits; bit++) {
    for (const coordinate of position) {
      if (Math.floor(coordinate / 2 ** bit) % 2 === 1) key |= 1n << place;
      place++;
    }
  }
  return key;
}
