/**
 * What is visible as Zarr beside what is committed: which chunks are not published yet. Pure.
 *
 * Chunks are known by their places, which mean the same bytes within an epoch only [FG-05]. So where the view is older than
 * the commit and the chunks get other places, those that had changed before are noted by their numbers.
 */
import { LayoutIndex } from "../archive/places/layout-files.ts";
import { countChunks, type Run, type StoredLayout } from "../format/layout.ts";
import type { Committed } from "../write/array/commit-line.ts";

/** What is visible as Zarr. */
export interface PublishedView {
  /** Its first `known` chunks are those that are shown, but for `stale`. */
  readonly committed: Committed;
  /** The first ones. */
  readonly rows: number;
  readonly known: number;
  /** Chunks below `known`, in ascending order. */
  readonly stale: readonly number[];
}

/** A view of the first rows of a commit, all of them as it has them. */
export function publishAll(committed: Committed, rows: number, chunklen: number): PublishedView {
  return { committed, rows, known: Math.ceil(rows / chunklen), stale: [] };
}

/** True where the view shows these rows of a commit. */
export function isPublished(view: PublishedView | undefined, { layout }: Committed, rows: number): boolean {
  return view?.committed.layout === layout && view.rows === rows && view.stale.length === 0;
}

/** The same view, where the chunks of `before` got the places of `now`. Undefined where nothing is known any more. */
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

/** Chunks of a commit below `end`, in ascending order: all that may differ from those of the view. */
export function unpublishedChunks(
  view: PublishedView | undefined,
  { layout }: Committed,
  end: number,
): Iterable<number> {
  if (view === undefined || view.committed.layout.epoch !== layout.epoch) return numbersTo(end);
  const { committed, known, stale } = view;
  const changed = changedChunks(committed.layout, known, layout, end);
  return stale.length === 0 ? changed : joinNumbers(stale, [...changed], end);
}

function joinNumbers(a: readonly number[], b: readonly number[], end: number): number[] {
  return [...new Set([...a, ...b])].filter((chunk) => chunk < end).sort((one, other) => one - other);
}

function* numbersTo(end: number): Generator<number> {
  for (let i = 0; i < end; i++) yield i;
}

/**
 * Chunks below `end`, in ascending order, that `before` (its first `known` chunks) does not have at the same place as
 * `after`: all that may have changed, and perhaps some that have only moved.
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

/** Chunks at the front that both lists of runs have in the same superchunks. */
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
