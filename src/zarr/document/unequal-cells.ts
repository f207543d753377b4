/** Cells of unequal lengths along the first axis, one after the other. Pure. */
import { at } from "../../bytes/at.ts";

/** Cells of one length that follow one another along an axis, in items. */
export interface LengthRun {
  readonly length: number;
  readonly times: number;
}

/** Runs as few as they can be, without those that have no cells. */
export function mergeRuns(runs: Iterable<LengthRun>): readonly LengthRun[] {
  const merged: { length: number; times: number }[] = [];
  for (const { length, times } of runs) {
    const last = merged.at(-1);
    if (last?.length === length) last.times += times;
    else if (times > 0) merged.push({ length, times });
  }
  return merged;
}

/** Where cells of unequal lengths begin and end. */
export class UnequalCells {
  readonly runs: readonly LengthRun[];
  /** All cells. */
  readonly count: number;
  /** Items of the longest cell along the axis. */
  readonly longest: number;
  /** For each run, its first cell and the items in front of it. */
  readonly #starts: readonly { readonly cell: number; readonly item: number }[];

  constructor(runs: Iterable<LengthRun>) {
    this.runs = mergeRuns(runs);
    let cell = 0;
    let item = 0;
    let longest = 1;
    this.#starts = this.runs.map(({ length, times }) => {
      const start = { cell, item };
      cell += times;
      item += times * length;
      longest = Math.max(longest, length);
      return start;
    });
    this.count = cell;
    this.longest = longest;
  }

  /** Items of a cell along the axis. */
  lengthOf(cell: number): number {
    return at(this.runs, this.#runOf(cell)).length;
  }

  /** Items in front of a cell along the axis. */
  startOf(cell: number): number {
    const run = this.#runOf(cell);
    const { cell: first, item } = at(this.#starts, run);
    return item + (cell - first) * at(this.runs, run).length;
  }

  #runOf(cell: number): number {
    let low = 0;
    let high = this.#starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (at(this.#starts, middle).cell <= cell) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}
