/** The chunks of a broken array that are whole, from the first on without a gap. Reads only. */

import { LayoutIndex } from "../../archive/places/layout-files.ts";
import { SuperchunkError } from "../../errors.ts";
import type { StoredLayout } from "../../format/layout.ts";
import { superchunkName } from "../../format/naming.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore } from "../../store/types.ts";
import type { StoredChunk } from "../array/superchunk-file.ts";
import type { ColumnLayout } from "../layout/columns.ts";
import { type Broken, numbersIn } from "./broken-array.ts";
import { readChunk, type Salvaged, salvage } from "./salvage.ts";

/** A chunk that is whole. */
export interface Found {
  readonly key: string;
  readonly offset: number;
  readonly file: Salvaged;
  readonly nbytes: number;
}

/** For each column the chunks that are whole, from the first on without a gap. */
export async function findChunks(
  store: ReadableStore,
  broken: Broken,
  problems: string[],
): Promise<Found[][]> {
  const lists: Found[][] = [];
  for (const column of broken.columns) {
    const chunkBytes = broken.settings.chunklen * column.rowBytes;
    lists.push(
      broken.layout === undefined
        ? await inOrderOfNumbers(store, column, chunkBytes, problems)
        : await byLayout(store, column, chunkBytes, broken.layout, problems),
    );
  }
  return lists;
}

/** Superchunks that nothing gives a place: without a layout the search ended in front of them, and all their rows are lost. */
export async function findUnplaced(
  store: ReadableStore,
  { layout, columns }: Broken,
  found: readonly (readonly Found[])[],
): Promise<string[]> {
  const unplaced: string[] = [];
  if (layout !== undefined) return unplaced;
  for (const [i, { folder }] of columns.entries()) {
    const placed = new Set(found[i]?.map(({ key }) => key));
    for (const number of await numbersIn(store, folder)) {
      const key = joinKey(folder, superchunkName(number));
      if (!placed.has(key)) unplaced.push(store.describe(key));
    }
  }
  return unplaced;
}

async function inOrderOfNumbers(
  store: ReadableStore,
  { folder }: ColumnLayout,
  chunkBytes: number,
  problems: string[],
): Promise<Found[]> {
  const found: Found[] = [];
  for (const [i, number] of (await numbersIn(store, folder)).entries()) {
    const key = joinKey(folder, superchunkName(number));
    if (number !== i + 1) {
      problems.push(`${store.describe(joinKey(folder, superchunkName(i + 1)))} is missing`);
      break;
    }
    const file = await look(store, key, chunkBytes, problems);
    if (file === undefined) break;
    for (const { offset, header } of file.places) found.push({ key, offset, file, nbytes: header.nbytes });
    // A short chunk is the last one; in the middle of a file it ends the search as well.
    if (file.problems.length > 0 || file.places.some(({ header }) => header.nbytes !== chunkBytes)) break;
  }
  return wholeOnes(found, chunkBytes);
}

async function byLayout(
  store: ReadableStore,
  { folder }: ColumnLayout,
  chunkBytes: number,
  layout: StoredLayout,
  problems: string[],
): Promise<Found[]> {
  const index = new LayoutIndex(layout);
  const files = new Map<number, Salvaged | undefined>();
  const found: Found[] = [];
  for (let i = 0; i < index.nchunks; i++) {
    const { number, inFile } = index.find(i);
    const key = joinKey(folder, superchunkName(number));
    if (!files.has(number)) files.set(number, await look(store, key, chunkBytes, problems));
    const file = files.get(number);
    const place = file?.places[inFile];
    if (file === undefined || place === undefined) break;
    found.push({ key, offset: place.offset, file, nbytes: place.header.nbytes });
  }
  return wholeOnes(found, chunkBytes);
}

async function look(
  store: ReadableStore,
  key: string,
  chunkBytes: number,
  problems: string[],
): Promise<Salvaged | undefined> {
  const path = store.describe(key);
  const file = await salvage(store, key, chunkBytes);
  if (file === undefined) problems.push(`${path} is missing, or its header cannot be read`);
  else problems.push(...file.problems.map((problem) => `${path}: ${problem}`));
  return file;
}

/** Only the last chunk may be shorter. */
function wholeOnes(found: readonly Found[], chunkBytes: number): Found[] {
  const short = found.findIndex(({ nbytes }) => nbytes !== chunkBytes);
  return short < 0 ? [...found] : found.slice(0, short + 1);
}

/** Rows that all columns have; not more than were counted. */
export function countRows(found: readonly (readonly Found[])[], { columns, settings, rows }: Broken): number {
  let least = rows ?? Number.MAX_SAFE_INTEGER;
  columns.forEach(({ rowBytes }, i) => {
    if (rowBytes === 0) return;
    const bytes = (found[i] ?? []).reduce((sum, chunk) => sum + chunk.nbytes, 0);
    least = Math.min(least, Math.floor(bytes / rowBytes));
  });
  return least === Number.MAX_SAFE_INTEGER || settings.chunklen === 0 ? 0 : least;
}

/** Reads a chunk that was found. Throws `STALE` where it is there no longer. */
export async function reread(
  store: ReadableStore,
  { key, offset, file, nbytes }: Found,
): Promise<StoredChunk> {
  const size = (await store.stat(key))?.size ?? 0;
  const chunk = await readChunk(store, key, offset, size, file.header, nbytes);
  if (chunk !== undefined) return chunk;
  throw new SuperchunkError("STALE", "the file changed while it was repaired; run it again", {
    path: store.describe(key),
  });
}
