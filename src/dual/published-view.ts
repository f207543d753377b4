/**
 * What of an array is visible as Zarr, and which chunks differ from a commit. Pure: compares layouts, reads nothing.
 */

import { LayoutIndex } from "../archive/places/layout-files.ts";
import { countChunks, type Run, type StoredLayout } from "../format/layout.ts";
import type { Committed } from "../write/array/root.ts";

/** What is visible as Zarr. */
export interface PublishedView {
  /** The first `known` chunks of this commit are visible, except those in `stale`. */
  readonly committed: Committed;
  /** Number of visible rows. */
  readonly rows: number;
  readonly known: number;
  /** Chunks below `known` that are not up to date, in ascending order. */
  readonly stale: readonly number[];
}

/** A view that shows the first rows of a commit completely. */
export function publishAll(committed: Committed, rows: number, chunklen: number): PublishedView {
  return { committed, rows, known: Math.ceil(rows / chunklen), stale: [] };
}

/** True if the view shows these rows of a commit. */
export function isPublished(view: PublishedView | undefined, { layout }: Committed, rows: number): boolean {
  return view?.committed.layout === layout && view.rows === rows && view.stale.length === 0;
}

/** The same view after chunks moved from their places in `before` to those in `now`. Undefined if nothing is known any longer. */
export function followMove(
  view: PublishedView | undefined,
  before: Committed,
  now: Committed,
): PublishedView | undefined {
  if (view === undefined || view.committed === before) return view && { ...view, committed: now };
  if (view.committed.layout.epoch !== before.layout.epoch) return undefined;
  const known = Math.min(view.known, countChunks(before.layout.runs));
  return { committed: now, rows: view.rows, known, stale: [...unpublishedChunks(view, before, known)] };
}

/** Chunks of a commit below `end` that may differ from those of the view, in ascending order. */
export function unpublishedChunks(
  view: PublishedView | undefined,
  { layout }: Committed,
  end: number,
): Iterable<number> {
  if (view === undefined || view.committed.layout.epoch !== layout.epoch) return range(0, end);
  const { committed, known, stale } = view;
  const changed = changedChunks(committed.layout, known, layout, end);
  return stale.length === 0 ? changed : joinNumbers(stale, [...changed], end);
}

/** Groups ascending chunks by the shard that holds them. */
export function* groupByShard(
  chunks: Iterable<number>,
  superchunklen: number,
): Generator<readonly [shard: number, chunks: readonly number[]]> {
  let group: number[] = [];
  let shard = -1;
  for (const chunk of chunks) {
    const own = Math.floor(chunk / superchunklen);
    if (own !== shard && group.length > 0) {
      yield [shard, group];
      group = [];
    }
    shard = own;
    group.push(chunk);
  }
  if (group.length > 0) yield [shard, group];
}

function joinNumbers(a: readonly number[], b: readonly number[], end: number): number[] {
  return [...new Set([...a, ...b])].filter((chunk) => chunk < end).sort((one, other) => one - other);
}

/**
 * Chunks below `end`, in ascending order, that `after` has and the first `known` chunks of `before` do not have at the
 * same place. They may have changed; some may only have moved.
 */
function* changedChunks(
  before: StoredLayout,
  known: number,
  after: StoredLayout,
  end: number,
): Generator<number> {
  const [old, now] = [new LayoutIndex(before), new LayoutIndex(after)];
  const same = Math.min(sharedChunks(before.runs, after.runs), known, end);
  const patched = new Set<number>();
  for (const { patches } of [before, after])
    for (const { chunks } of patches)
      for (const chunk of chunks) if (chunk >= 0 && chunk < same) patched.add(chunk);
  const isMoved = (chunk: number): boolean => {
    const [a, b] = [old.find(chunk), now.find(chunk)];
    return a.number !== b.number || a.inFile !== b.inFile;
  };
  for (const chunk of [...patched].sort((a, b) => a - b)) if (isMoved(chunk)) yield chunk;
  for (let chunk = same; chunk < end; chunk++) if (chunk >= known || isMoved(chunk)) yield chunk;
}

/** Number of leading chunks that both lists of runs have in the same superchunks. */
function sharedChunks(a: readonly Run[], b: readonly Run[]): number {
  for (const [i, run] of a.entries()) {
    const other = b[i];
    if (
      other !== undefined &&
      other.first === run.first &&
      other.count === run.count &&
      other.chunks === run.chunks
    )
      continue;
    const before = countChunks(a.slice(0, i));
    if (other === undefined || other.first !== run.first || other.chunks !== run.chunks) return before;
    return before + Math.min(run.count, other.count) * run.chunks;
  }
  return countChunks(a);
}

export function* range(first: number, end: number): Generator<number> {
  for (let i = first; i < end; i++) yield i;
}
