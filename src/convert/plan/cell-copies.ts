/** Which cells of a grid are chunks of the source as they lie there. Pure; must not know archives. */
import type { CellGrid, CellRange } from "./grid.ts";

/** Cells `cell`, `cell` + 1, … that are the chunks `chunk`, `chunk` + 1, … of the source. */
export interface CellCopies {
  readonly cell: number;
  readonly chunk: number;
  readonly times: number;
}

/** A run of cells: chunks of the source from number `chunk` on, or none of them where that is undefined. */
export interface CellSegment extends CellRange {
  readonly chunk: number | undefined;
}

/** Cell `k` is chunk `k`, of all cells. */
export function copyAll({ count }: CellGrid): readonly CellCopies[] {
  return [{ cell: 0, chunk: 0, times: count }];
}

/** Cells that are copied. */
export function countCopies(copies: readonly CellCopies[]): number {
  return copies.reduce((sum, { times }) => sum + times, 0);
}

/** Adds cells after those that are there, to the last run of them where they go on with it. */
export function addCopies(copies: CellCopies[], { cell, chunk, times }: CellCopies): void {
  if (times <= 0) return;
  const last = copies.at(-1);
  if (last !== undefined && last.cell + last.times === cell && last.chunk + last.times === chunk)
    copies[copies.length - 1] = { ...last, times: last.times + times };
  else copies.push({ cell, chunk, times });
}

/** A range of cells in runs that are copied or not, in order. */
export function* cellSegments(
  copies: readonly CellCopies[],
  { first, end }: CellRange,
): Generator<CellSegment> {
  let at = first;
  for (const { cell, chunk, times } of copies.slice(firstBehind(copies, first))) {
    if (cell >= end) break;
    if (at < cell) yield { first: at, end: cell, chunk: undefined };
    const from = Math.max(at, cell);
    at = Math.min(end, cell + times);
    yield { first: from, end: at, chunk: chunk + from - cell };
  }
  if (at < end) yield { first: at, end, chunk: undefined };
}

/** Number of the first run that does not end before `cell`: there may be thousands, and they are asked for shard by shard. */
function firstBehind(copies: readonly CellCopies[], cell: number): number {
  let low = 0;
  let high = copies.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const run = copies[middle];
    if (run !== undefined && run.cell + run.times <= cell) low = middle + 1;
    else high = middle;
  }
  return low;
}
