/**
 * The layout in `meta/sizes` of an array that this library writes: the superchunks that make up the array, in order, with the
 * number of chunks that count in each. Bytes <-> plain objects. @see FORMAT.md [FG]
 */
import { defined } from "../bytes/arrays.ts";
import { badStored, isObject, stringifyJson } from "./json.ts";
import { isCount } from "./json-float.ts";
import type { JsonObject, JsonValue } from "./types.ts";

/** Consecutively numbered superchunks in each of which the same number of chunks counts. [FG-02] */
export interface Run {
  /** Number of the first superchunk. */
  readonly first: number;
  /** Number of superchunks in the run. */
  readonly count: number;
  /** Number of leading chunks of each that count. */
  readonly chunks: number;
}

/** A superchunk whose chunks replace chunks of the array. [FG-04] */
export interface Patch {
  readonly number: number;
  /** For each of its chunks, the array's chunk that it replaces; -1 if it no longer replaces any. */
  readonly chunks: readonly number[];
}

/** The layout of one generation. */
export interface StoredLayout {
  /** Counts commits. [FG-01] */
  readonly generation: number;
  /** Identifies the array as long as it exists, to distinguish it from another one at the same place. [FG-01] */
  readonly id: string;
  /** Increases before a number is used again: within an epoch, a name means one file. [FG-05] */
  readonly epoch: number;
  /** Increases when existing rows change or are removed. [FG-06] */
  readonly edition: number;
  /** No file has this number or a higher one. [FG-03] */
  readonly next: number;
  /** The highest number below {@link FIRST_LOOSE} that was used in this epoch. [FG-03] */
  readonly plain: number;
  readonly runs: readonly Run[];
  readonly patches: readonly Patch[];
  /** The `superchunk.revision` of the matching `meta/storage`. [FG-07] */
  readonly revision: number;
  /** The next `meta/storage`, if both files change together. [FG-07] */
  readonly storage?: JsonObject;
  /** Digest of the journal with this generation's changes in place; absent once they are made. [FG-12] */
  readonly journal?: string;
  /** True if some superchunk may be of version 4, so that only its offsets locate its chunks. [FG-12] */
  readonly isMoved?: boolean;
  /** Reservations of writers that append concurrently; absent if there are none. [FG-16] */
  readonly writers?: readonly Reservation[];
  /** Rows that a repair filled because their chunks were lost, in order, until they are set. [FG-15] */
  readonly filled?: readonly RowSpan[];
  /** Superchunks stored outside `data`; absent if there are none. [FG-20] */
  readonly places?: readonly PlaceSpan[];
}

/** Consecutively numbered superchunks in one place. [FG-20] */
export interface PlaceSpan {
  /** Number of the first superchunk. */
  readonly first: number;
  readonly count: number;
  /** Name of the place, as `meta/storage` declares it. */
  readonly place: string;
}

/** Superchunk numbers that one of several writers has reserved. [FG-16] */
export interface Reservation {
  readonly writer: string;
  /** The first free number; the writer has taken those below it. */
  readonly first: number;
  /** How many numbers from there on; 0 once they were given back. */
  readonly count: number;
  /** When they may be taken back, in milliseconds since 1970. */
  readonly until: number;
  /** Number of commits of rows by this writer, which tells whether a commit without an answer arrived. */
  readonly commits: number;
}

/** Rows `[from, to)`. */
export interface RowSpan {
  readonly from: number;
  readonly to: number;
}

/** Facts of the array that {@link parseLayout} needs, and that {@link encodeSizes} writes beside the layout. */
interface SizesFacts {
  readonly shape: readonly number[];
  readonly nbytes: number;
  readonly cbytes: number;
}

/**
 * Lower numbers are positions: superchunk p is `__p__`. From here on, numbers are free for superchunks without a final
 * position. [FG-03]
 */
export const FIRST_LOOSE = 1_000_000_001;
/** Highest number: a name has up to 15 digits. */
const LAST_NUMBER = 999_999_999_999_999;

/** The layout of an array before its first commit. */
export const EMPTY_LAYOUT: Omit<StoredLayout, "id"> = {
  generation: 0,
  epoch: 0,
  edition: 0,
  revision: 0,
  next: FIRST_LOOSE,
  plain: 0,
  runs: [],
  patches: [],
};

/** Parses the layout in a parsed `meta/sizes`; undefined if there is none. Throws `BAD_FIELD`. [FG-01] */
export function parseLayout(sizes: JsonObject, path: string): StoredLayout | undefined {
  const stored = sizes["layout"];
  if (stored === undefined) return undefined;
  if (!isObject(stored)) throw badStored(path, "layout", "an object", stored);
  const { id, storage, journal, moved = false } = stored;
  if (typeof id !== "string" || id === "") throw badStored(path, "layout.id", "a string", id);
  if (storage !== undefined && !isObject(storage))
    throw badStored(path, "layout.storage", "an object", storage);
  if (journal !== undefined && !(typeof journal === "string" && /^[0-9a-f]{64}$/.test(journal)))
    throw badStored(path, "layout.journal", "64 hexadecimal digits", journal);
  if (typeof moved !== "boolean") throw badStored(path, "layout.moved", "true or false", moved);
  const layout: StoredLayout = {
    generation: countIn(sizes, "generation", "generation", path),
    id,
    epoch: countIn(stored, "epoch", "layout.epoch", path),
    edition: countIn(stored, "edition", "layout.edition", path),
    revision: countIn(stored, "revision", "layout.revision", path),
    next: numberIn(stored, "next", "layout.next", path),
    plain: countIn(stored, "plain", "layout.plain", path),
    runs: listOf(stored["superchunks"], "layout.superchunks", path).map((run) => parseRun(run, path)),
    patches: listOf(stored["patches"] ?? [], "layout.patches", path).map((patch) => parsePatch(patch, path)),
    ...defined({ storage, journal }),
    ...(moved ? { isMoved: true } : {}),
    ...parseWriters(stored, path),
    ...parseFilled(sizes, path),
    ...parsePlaces(stored, path),
  };
  checkNumbers(layout, path);
  return layout;
}

/** Reservations of writers. Throws `BAD_FIELD`. [FG-16] */
function parseWriters(layout: JsonObject, path: string): Pick<StoredLayout, "writers"> {
  const field = "layout.writers";
  if (layout["writers"] === undefined) return {};
  const writers = listOf(layout["writers"], field, path).map((stored): Reservation => {
    const list = listOf(stored, field, path);
    const [writer] = list;
    if (typeof writer !== "string" || writer === "" || list.length !== 5)
      throw badStored(path, field, "[name, number, count, until, commits]", stored);
    const [first, count] = [numberIn(list, 1, field, path), countIn(list, 2, field, path)];
    if (first + count - 1 > LAST_NUMBER) throw badStored(path, field, `numbers up to ${LAST_NUMBER}`, stored);
    return {
      writer,
      first,
      count,
      until: countIn(list, 3, field, path),
      commits: countIn(list, 4, field, path),
    };
  });
  if (new Set(writers.map(({ writer }) => writer)).size < writers.length)
    throw badStored(path, field, "each writer once", layout["writers"]);
  return { writers };
}

/** Places of superchunks that are not in `data`. Throws `BAD_FIELD`. [FG-20] */
function parsePlaces(layout: JsonObject, path: string): Pick<StoredLayout, "places"> {
  const field = "layout.places";
  const stored = layout["places"];
  if (stored === undefined) return {};
  const places = listOf(stored, field, path).map((span): PlaceSpan => {
    const list = listOf(span, field, path);
    const [first, count] = [numberIn(list, 0, field, path), countIn(list, 1, field, path)];
    const place = list[2];
    if (typeof place !== "string" || count < 1 || first + count - 1 > LAST_NUMBER || list.length !== 3)
      throw badStored(path, field, "[number, count, name of a place]", span);
    return { first, count, place };
  });
  [...places]
    .sort((a, b) => a.first - b.first)
    .reduce((end, { first, count }) => {
      if (first < end) throw badStored(path, field, "each superchunk once", first);
      return first + count;
    }, 0);
  return places.length === 0 ? {} : { places };
}

/** Rows that a repair filled: ordered spans that do not overlap. Throws `BAD_FIELD`. [FG-15] */
export function parseFilled(sizes: JsonObject, path: string): Pick<StoredLayout, "filled"> {
  const stored = sizes["filled"];
  if (stored === undefined) return {};
  let before = 0;
  const filled = listOf(stored, "filled", path).map((span) => {
    const list = listOf(span, "filled", path);
    const [from, to] = [countIn(list, 0, "filled", path), countIn(list, 1, "filled", path)];
    if (from < before || to <= from || list.length !== 2)
      throw badStored(path, "filled", "[from, to] in order, each after the one before it", span);
    before = to;
    return { from, to };
  });
  return filled.length === 0 ? {} : { filled };
}

function parseRun(stored: JsonValue, path: string): Run {
  const field = "layout.superchunks";
  const list = listOf(stored, field, path);
  const run = {
    first: numberIn(list, 0, field, path),
    count: countIn(list, 1, field, path),
    chunks: countIn(list, 2, field, path),
  };
  if (run.count < 1 || run.chunks < 1) throw badStored(path, field, "[number, count, chunks] from 1", stored);
  if (run.first + run.count - 1 > LAST_NUMBER || !Number.isSafeInteger(run.count * run.chunks))
    throw badStored(path, field, `numbers up to ${LAST_NUMBER}`, stored);
  return run;
}

function parsePatch(stored: JsonValue, path: string): Patch {
  const field = "layout.patches";
  const list = listOf(stored, field, path);
  const chunks = listOf(list[1], field, path);
  return {
    number: numberIn(list, 0, field, path),
    chunks: chunks.map((chunk, i) => (chunk === -1 ? -1 : countIn(chunks, i, field, path))),
  };
}

/**
 * Checks that no file is used twice or has a free number, and that no chunk is replaced twice or is after the last one. [FG-02]
 * [FG-04] [FG-14]
 */
function checkNumbers({ runs, patches, next, writers = [] }: StoredLayout, path: string): void {
  const spans = [
    ...writers.filter(({ count }) => count > 0).map(({ first, count }) => ({ first, end: first + count })),
    ...runs.map(({ first, count }) => ({ first, end: first + count })),
    ...patches.map(({ number }) => ({ first: number, end: number + 1 })),
  ].sort((a, b) => a.first - b.first);
  spans.forEach((span, i) => {
    const before = spans[i - 1];
    if (before !== undefined && before.end > span.first)
      throw badStored(path, "layout.superchunks", "each superchunk once", span.first);
  });
  const last = spans.at(-1);
  if (last !== undefined && next < last.end)
    throw badStored(
      path,
      "layout.next",
      `at least ${last.end}, for superchunk ${last.end - 1} is there`,
      next,
    );
  const nchunks = countChunks(runs);
  const replaced = new Set<number>();
  for (const { chunks } of patches)
    for (const chunk of chunks) {
      if (chunk < 0) continue;
      if (chunk >= nchunks) throw badStored(path, "layout.patches", `chunks below ${nchunks}`, chunk);
      if (replaced.has(chunk)) throw badStored(path, "layout.patches", "each chunk once", chunk);
      replaced.add(chunk);
    }
}

export function countChunks(runs: readonly Run[]): number {
  return runs.reduce((sum, run) => sum + run.count * run.chunks, 0);
}

/** True if a layout counts the superchunk. */
export function hasNumber(
  { runs, patches }: { readonly runs: readonly Run[]; readonly patches: readonly Patch[] },
  number: number,
): boolean {
  return (
    runs.some(({ first, count }) => number >= first && number < first + count) ||
    patches.some((patch) => patch.number === number)
  );
}

/** `meta/sizes` as bytes, with the layout in addition to the members of the BLZ document. [FG-01] */
export function encodeSizes(facts: SizesFacts, layout: StoredLayout): Uint8Array {
  const { generation, id, epoch, edition, revision, next, plain, runs, patches, storage, journal } = layout;
  const sizes: JsonObject = {
    shape: facts.shape,
    nbytes: facts.nbytes,
    cbytes: facts.cbytes,
    generation,
    ...encodeFilled(layout.filled),
    layout: {
      id,
      epoch,
      edition,
      revision,
      next,
      plain,
      superchunks: runs.map(({ first, count, chunks }) => [first, count, chunks]),
      patches: patches.map(({ number, chunks }) => [number, chunks]),
      ...defined({ storage, journal }),
      ...(layout.isMoved === true ? { moved: true } : {}),
      ...encodeWriters(layout.writers),
      ...encodePlaces(layout.places),
    },
  };
  return new TextEncoder().encode(`${stringifyJson(sizes, { python: true })}\n`);
}

function encodePlaces(places: readonly PlaceSpan[] = []): JsonObject {
  if (places.length === 0) return {};
  return { places: places.map(({ first, count, place }) => [first, count, place]) };
}

function encodeWriters(writers: readonly Reservation[] = []): JsonObject {
  if (writers.length === 0) return {};
  return {
    writers: writers.map(({ writer, first, count, until, commits }) => [
      writer,
      first,
      count,
      until,
      commits,
    ]),
  };
}

/** The member `filled` of a metadata object; empty if no row is filled. [FG-15] */
export function encodeFilled(filled: readonly RowSpan[] = []): JsonObject {
  return filled.length === 0 ? {} : { filled: filled.map(({ from, to }) => [from, to]) };
}

/** The warning about an array that keeps itself a Zarr array, when its Zarr view does not show the last commit. [FY-06] */
export const VIEW_IS_BEHIND =
  'the Zarr view is out of date: Zarr readers may see some values from before the last change and some from after it. A writer is at work, or was killed; the next writer, or "superchunk link", updates the view';

export function filledText({ from, to }: RowSpan): string {
  const rows = to - from === 1 ? `row ${from} holds` : `rows ${from} to ${to - 1} hold`;
  return `${rows} a fill value: a repair found no intact chunk for ${to - from === 1 ? "it" : "them"}`;
}

/** Spans in order, with adjacent and overlapping ones joined; empty ones are dropped. */
export function mergeSpans(spans: readonly RowSpan[]): RowSpan[] {
  const merged: { from: number; to: number }[] = [];
  for (const { from, to } of [...spans].sort((a, b) => a.from - b.from)) {
    const last = merged.at(-1);
    if (to <= from) continue;
    if (last !== undefined && from <= last.to) last.to = Math.max(last.to, to);
    else merged.push({ from, to });
  }
  return merged;
}

/** What remains of spans without the rows of another one. */
export function withoutSpan(spans: readonly RowSpan[], { from, to }: RowSpan): RowSpan[] {
  return spans.flatMap((span) =>
    [
      { from: span.from, to: Math.min(span.to, from) },
      { from: Math.max(span.from, to), to: span.to },
    ].filter((part) => part.from < part.to),
  );
}

function listOf(value: JsonValue | undefined, field: string, path: string): readonly JsonValue[] {
  if (Array.isArray(value)) return value;
  throw badStored(path, field, "a list", value);
}

function countIn(
  container: JsonObject | readonly JsonValue[],
  name: string | number,
  field: string,
  path: string,
): number {
  const value = (container as Readonly<Record<string, JsonValue | undefined>>)[name];
  if (isCount(container, name)) return value as number;
  throw badStored(path, field, "an integer from 0 to 2^53 - 1", value);
}

function numberIn(
  container: JsonObject | readonly JsonValue[],
  name: string | number,
  field: string,
  path: string,
): number {
  const number = countIn(container, name, field, path);
  if (number >= 1 && number <= LAST_NUMBER) return number;
  throw badStored(path, field, `a number from 1 to ${LAST_NUMBER}`, number);
}
