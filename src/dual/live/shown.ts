/**
 * What is visible as Zarr beside what is committed: which chunks are behind. Pure.
 *
 * Chunks are told apart by their places, which mean the same bytes within an epoch only [FG-05]. So where what is shown is
 * behind and the chunks get other places, those that had changed before are noted by their numbers.
 */

import { countChunks } from "../../format/layout.ts";
import type { Committed } from "../../write/array/commit-line.ts";
import { changedChunks } from "./changed-chunks.ts";

/** What is visible as Zarr. */
export interface Shown {
  /** Its first `known` chunks are those that are shown, but for `behind`. */
  readonly committed: Committed;
  /** The first ones. */
  readonly rows: number;
  readonly known: number;
  /** Chunks below `known`, in ascending order. */
  readonly behind: readonly number[];
}

/** The first rows of a commit, all of them as it has them. */
export function showAll(committed: Committed, rows: number, chunklen: number): Shown {
  return { committed, rows, known: Math.ceil(rows / chunklen), behind: [] };
}

/** True where these rows of a commit are shown. */
export function isShown(shown: Shown | undefined, { layout }: Committed, rows: number): boolean {
  return shown?.committed.layout === layout && shown.rows === rows && shown.behind.length === 0;
}

/** The same, where the chunks of `before` got the places of `now`. Undefined where nothing is known any more. */
export function noteMove(shown: Shown | undefined, before: Committed, now: Committed): Shown | undefined {
  if (shown === undefined || shown.committed === before) return shown && { ...shown, committed: now };
  if (shown.committed.layout.epoch !== before.layout.epoch) return undefined;
  const known = Math.min(shown.known, countChunks(before.layout.runs));
  return { committed: now, rows: shown.rows, known, behind: [...candidates(shown, before, known)] };
}

/** Chunks below `end`, in ascending order: all of a commit that may be others than what is shown. */
export function candidates(shown: Shown | undefined, { layout }: Committed, end: number): Iterable<number> {
  if (shown === undefined || shown.committed.layout.epoch !== layout.epoch) return numbersTo(end);
  const { committed, known, behind } = shown;
  const changed = changedChunks(committed.layout, known, layout, end);
  return behind.length === 0 ? changed : joinNumbers(behind, [...changed], end);
}

function joinNumbers(a: readonly number[], b: readonly number[], end: number): number[] {
  return [...new Set([...a, ...b])].filter((chunk) => chunk < end).sort((one, other) => one - other);
}

function* numbersTo(end: number): Generator<number> {
  for (let i = 0; i < end; i++) yield i;
}
