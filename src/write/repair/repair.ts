/**
 * Brings an array in order that another program broke: finds the chunks that are whole, counts anew, and says what it did
 * and what is gone. Nothing is made up: rows end where the first chunk is missing.
 */

import { arrayJournalKey, readArrayJournal } from "../../archive/journal/array-journal.ts";
import { withWrites } from "../../archive/journal/journal.ts";
import type { LongOptions } from "../../archive/kinds/types.ts";
import { isSuperchunkError } from "../../errors.ts";
import type { JournalWrite } from "../../format/journal.ts";
import type { ReadableStore, WritableStore } from "../../store/types.ts";
import type { WriterLock } from "../array/create.ts";
import { type Broken, examine } from "./broken-array.ts";
import { repairInPlace, repairInto } from "./rebuild.ts";
import { countRows, findChunks, findUnplaced } from "./whole-chunks.ts";

/** Files that a report names, of a list. */
const NAMED = 5;

/** Where the repaired array goes. */
export interface RepairOptions extends LongOptions {
  /** A place where nothing is; without it the array is repaired where it lies, by one commit. */
  readonly into?: { readonly store: WritableStore; readonly path: string } | undefined;
  readonly lock?: (() => Promise<WriterLock>) | undefined;
  /** Only look: say what is wrong, and what would be gone (default false). */
  readonly dryRun?: boolean | undefined;
}

/** What a repair found and did. */
export interface RepairReport {
  /** Rows that `meta/sizes` counted; undefined where it could not be read. */
  readonly rowsBefore: number | undefined;
  readonly rows: number;
  /** What was found wrong, in words, in order. */
  readonly problems: readonly string[];
  /** What is gone, in words. */
  readonly lost: readonly string[];
}

/**
 * Repairs the array at a key of a store, or says what that would do.
 *
 * @throws NOT_FOUND; UNSUPPORTED for another archive; INCOMPLETE and the codes of damage where `meta/storage` cannot be read, without which nothing can;
 * CONFLICT, NO_SPACE, IO
 */
export async function repairArray(
  store: WritableStore,
  path: string,
  options: RepairOptions = {},
): Promise<RepairReport> {
  const isLocked = options.into === undefined && options.dryRun !== true;
  const lock = isLocked ? await options.lock?.() : undefined;
  try {
    const problems: string[] = [];
    const broken = await examine(store, path, problems);
    const lost: string[] = [];
    const shown = await withChanges(store, path, broken, { problems, lost });
    const found = await findChunks(shown, broken, problems);
    const { chunklen } = broken.settings;
    const rows = countRows(found, broken);
    if (broken.rows !== undefined && rows < broken.rows)
      lost.push(`rows ${rows} to ${broken.rows - 1}: no whole chunk was found for row ${rows}`);
    const chunks = Math.ceil(rows / chunklen);
    const superfluous = found.reduce((most, list) => Math.max(most, list.length), 0) - chunks;
    if (superfluous > 0)
      lost.push(`${superfluous} chunks behind row ${rows}, which not all columns have or which do not count`);
    const unplaced = await findUnplaced(store, broken, found);
    if (unplaced.length > 0) lost.push(`superchunks that nothing gives a place: ${nameSome(unplaced)}`);
    if (broken.damagedAttributes !== undefined)
      lost.push(
        `the attributes${options.into === undefined ? "; what is there of them is kept as meta/attributes.damaged" : ""}`,
      );
    if (options.dryRun === true) return { rowsBefore: broken.rows, rows, problems, lost };
    if (options.into === undefined) await repairInPlace(store, shown, path, broken, found, rows, options);
    else await repairInto(shown, options.into, broken, found, rows, options);
    return { rowsBefore: broken.rows, rows, problems, lost };
  } finally {
    await lock?.release();
  }
}

/**
 * The store as the array's journal says that it is, where a change in place was interrupted: file by file, since one that is
 * gone or cut short must not cost the others what was set in them.
 */
async function withChanges(
  store: ReadableStore,
  path: string,
  { layout, columns }: Broken,
  { problems, lost }: { readonly problems: string[]; readonly lost: string[] },
): Promise<ReadableStore> {
  if (layout?.journal === undefined) return store;
  const shown = store.describe(arrayJournalKey(path, layout.journal));
  const give = (error: unknown, where: string): void => {
    if (!isSuperchunkError(error)) throw error;
    problems.push(error.message);
    lost.push(`values that were set in place last, as far as they were not written yet${where}`);
  };
  const fitting = new Map<string, readonly JournalWrite[]>();
  try {
    const folders = columns.map(({ folder }) => folder);
    for (const [key, writes] of await readArrayJournal(store, path, layout, folders)) {
      try {
        await withWrites(store, new Map([[key, writes]]), shown);
        fitting.set(key, writes);
      } catch (error) {
        give(error, `: ${store.describe(key)}`);
      }
    }
  } catch (error) {
    give(error, "");
  }
  return withWrites(store, fitting, shown);
}

/** The first few of a list that may be long. */
function nameSome(paths: readonly string[]): string {
  const more = paths.length - NAMED;
  return `${paths.slice(0, NAMED).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}
