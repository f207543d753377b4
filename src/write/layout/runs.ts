/** Arithmetic of layouts: pure, without any store. @see FORMAT.md [FG-02] */
import { at, countLeading } from "../../bytes/arrays.ts";
import { countChunks, type Patch, type Reservation, type Run } from "../../format/layout.ts";

/** The first `chunks` chunks of the runs. */
export function truncateRuns(runs: readonly Run[], chunks: number): Run[] {
  const kept: Run[] = [];
  let left = chunks;
  for (const run of runs) {
    if (left <= 0) break;
    const whole = Math.min(run.count, Math.floor(left / run.chunks));
    if (whole > 0) kept.push({ ...run, count: whole });
    left -= whole * run.chunks;
    if (whole === run.count) continue;
    if (left > 0) kept.push({ first: run.first + whole, count: 1, chunks: left });
    break;
  }
  return kept;
}

/** The runs with one more superchunk at the end. */
export function appendRun(runs: readonly Run[], number: number, chunks: number): Run[] {
  const last = runs[runs.length - 1];
  if (last !== undefined && last.chunks === chunks && last.first + last.count === number)
    return [...runs.slice(0, -1), { ...last, count: last.count + 1 }];
  return [...runs, { first: number, count: 1, chunks }];
}

/** A superchunk in the layout. */
export interface RunPlace {
  readonly number: number;
  /** Its first chunk in the array. */
  readonly first: number;
  readonly chunks: number;
}

/** The superchunks of the runs, in order. */
export function* placesOf(runs: readonly Run[]): Generator<RunPlace> {
  let first = 0;
  for (const run of runs)
    for (let i = 0; i < run.count; i++, first += run.chunks)
      yield { number: run.first + i, first, chunks: run.chunks };
}

/** The runs with one superchunk replaced by another. */
export function replaceNumber(runs: readonly Run[], from: number, to: number): Run[] {
  return runs.flatMap((run) => {
    const at = from - run.first;
    if (at < 0 || at >= run.count) return [run];
    const parts = [
      { ...run, count: at },
      { ...run, first: to, count: 1 },
      { ...run, first: from + 1, count: run.count - at - 1 },
    ];
    return parts.filter(({ count }) => count > 0);
  });
}

/** The last superchunk of the runs, and the runs before it. */
function splitLast(
  runs: readonly Run[],
): { before: Run[]; last: { number: number; chunks: number } } | undefined {
  const run = runs[runs.length - 1];
  if (run === undefined) return undefined;
  const before = runs.slice(0, -1);
  if (run.count > 1) before.push({ ...run, count: run.count - 1 });
  return { before, last: { number: run.first + run.count - 1, chunks: run.chunks } };
}

/** The patches without the chunks that `isDropped` selects; a patch that no longer replaces anything is removed. */
export function dropPatched(patches: readonly Patch[], isDropped: (chunk: number) => boolean): Patch[] {
  const kept: Patch[] = [];
  for (const patch of patches) {
    if (!patch.chunks.some((chunk) => chunk >= 0 && isDropped(chunk))) {
      kept.push(patch);
      continue;
    }
    const chunks = patch.chunks.map((chunk) => (chunk >= 0 && isDropped(chunk) ? -1 : chunk));
    if (chunks.some((chunk) => chunk >= 0)) kept.push({ ...patch, chunks });
  }
  return kept;
}

/** Numbers of the superchunks that `old` names and `now` does not. */
export function* removedNumbers(
  old: { readonly runs: readonly Run[]; readonly patches: readonly Patch[] },
  now: { readonly runs: readonly Run[]; readonly patches: readonly Patch[] },
): Generator<number> {
  const kept = [...now.runs].sort((a, b) => a.first - b.first);
  const keptPatches = new Set(now.patches.map(({ number }) => number));
  const isKept = (number: number): boolean => keptPatches.has(number) || findRun(kept, number);
  for (const { first, count } of old.runs)
    for (let i = 0; i < count; i++) if (!isKept(first + i)) yield first + i;
  for (const { number } of old.patches) if (!isKept(number)) yield number;
}

/** True if a run of the sorted list has the number. */
function findRun(sorted: readonly Run[], number: number): boolean {
  const run = sorted[countLeading(sorted.length, (i) => at(sorted, i).first <= number) - 1];
  return run !== undefined && number < run.first + run.count;
}

/** The runs of full superchunks at the front, and their chunks. */
export function fullRuns(
  runs: readonly Run[],
  superchunklen: number,
): { readonly runs: readonly Run[]; readonly chunks: number } {
  const end = runs.findIndex((run) => run.chunks < superchunklen);
  const full = end < 0 ? runs : runs.slice(0, end);
  return { runs: full, chunks: countChunks(full) };
}

/**
 * Decides which superchunks at the end are merged with `pending` whole chunks and `short` short ones after them: those that are
 * not larger, as in a binary counter. So each chunk is copied only a few times, and few small superchunks remain. Returns the
 * runs before, and the whole chunks of the merged superchunk.
 */
export function mergeTail(
  runs: readonly Run[],
  pending: number,
  short: number,
  superchunklen: number,
): { readonly before: readonly Run[]; readonly whole: number } {
  let before: readonly Run[] = runs;
  let whole = pending;
  for (let last = splitLast(before); pending > 0 && last !== undefined; last = splitLast(before)) {
    const { chunks } = last.last;
    if (chunks >= superchunklen || chunks > whole || chunks + whole + short > superchunklen) break;
    whole += chunks;
    before = last.before;
  }
  return { before, whole };
}

/** The runs with several superchunks replaced by one; undefined if these are no longer consecutive in the runs. */
export function replacePlaces(
  runs: readonly Run[],
  replaced: readonly RunPlace[],
  number: number,
): Run[] | undefined {
  const gone = new Map(replaced.map((place) => [place.number, place]));
  const chunks = replaced.reduce((sum, place) => sum + place.chunks, 0);
  let found = 0;
  let kept: Run[] = [];
  for (const place of placesOf(runs)) {
    const same = gone.get(place.number);
    if (same === undefined) kept = appendRun(kept, place.number, place.chunks);
    else if (same.first !== place.first || same.chunks !== place.chunks) return undefined;
    else if (++found === 1) kept = appendRun(kept, number, chunks);
  }
  return found === replaced.length ? kept : undefined;
}

// The numbers reserved by writers that append to one array concurrently. [FG-16]

/** How long a writer's id is kept after it lost its numbers, so that it can learn the outcome of its last commit. */
const KEPT_MS = 24 * 3600 * 1000;

/** The reservations at a time. Expired ones have no numbers any longer; `lost` are the numbers that they had. */
export function liveReservations(
  writers: readonly Reservation[] | undefined,
  now: number,
): { readonly kept: readonly Reservation[]; readonly lost: readonly Reservation[] } {
  const all = writers ?? [];
  const lost = all.filter(({ until, count }) => until < now && count > 0);
  const kept = all
    .filter(({ until }) => until + KEPT_MS >= now)
    .map((each) => (each.until < now ? { ...each, count: 0 } : each));
  return { kept, lost };
}

/** The reservations with one writer's added, replaced or removed. */
export function withReservation(
  writers: readonly Reservation[],
  name: string,
  own: Reservation | undefined,
): readonly Reservation[] {
  const index = writers.findIndex(({ writer }) => writer === name);
  const others = writers.filter(({ writer }) => writer !== name);
  // Each keeps its position, which decides the writers' turns.
  return own === undefined ? others : others.toSpliced(index < 0 ? others.length : index, 0, own);
}
