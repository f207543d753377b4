/** Which chunks of an array lie elsewhere in one layout than in another. Pure. */
import { LayoutIndex } from "../../archive/places/layout-files.ts";
import { countChunks, type Run, type StoredLayout } from "../../format/layout.ts";

/**
 * Chunks below `end`, in ascending order, that `before` (its first `known` chunks) does not have at the same place as
 * `after`: all that may have changed, and perhaps some that have only moved.
 */
export function* changedChunks(
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
