/** In which order inner chunks lie in a shard. Pure. */

/** Row by row; along a Morton curve, so that neighbours in every dimension lie near one another; or as they come. */
export type ChunkOrder = "row-major" | "morton" | "as-written";

/** The slots of a grid in the order in which their chunks are stored; `written` are those that come, in their order. */
export function orderSlots(written: Iterable<number>, grid: readonly number[], order: ChunkOrder): number[] {
  const slots = [...written];
  if (order === "as-written") return slots;
  if (order === "row-major") return slots.sort((a, b) => a - b);
  const keys = new Map(slots.map((slot) => [slot, mortonKey(slot, grid)]));
  return slots.sort((a, b) => {
    const left = keys.get(a) ?? 0n;
    const right = keys.get(b) ?? 0n;
    return left < right ? -1 : left > right ? 1 : 0;
  });
}

/** The bits of the position's coordinates, interleaved; the first dimension has the lowest bit. */
function mortonKey(slot: number, grid: readonly number[]): bigint {
  const position = new Array<number>(grid.length).fill(0);
  let rest = slot;
  for (let d = grid.length - 1; d >= 0; d--) {
    const n = grid[d] ?? 1;
    position[d] = rest % n;
    rest = Math.floor(rest / n);
  }
  const bits = Math.max(1, ...grid.map((n) => Math.ceil(Math.log2(Math.max(2, n)))));
  let key = 0n;
  let at = 0n;
  for (let bit = 0; bit < bits; bit++) {
    for (const coordinate of position) {
      if (Math.floor(coordinate / 2 ** bit) % 2 === 1) key |= 1n << at;
      at++;
    }
  }
  return key;
}
