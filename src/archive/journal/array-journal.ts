/**
 * The journal of an array: what one commit changes in place, in however many superchunks of however many columns.
 *
 * It lies in `meta/` under a name made of its digest, and counts only while `meta/sizes` names it by its digest: so the replacement of `meta/sizes`
 * is the commit here too. @see FORMAT.md [FR-04] [FG-12]
 */
import { SuperchunkError } from "../../errors.ts";
import { decodeArrayJournal, type JournalWrite, journalName } from "../../format/journal.ts";
import { hasNumber, type StoredLayout } from "../../format/layout.ts";
import { superchunkName } from "../../format/naming.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore, StoreOptions } from "../../store/types.ts";
import { isOverlay } from "./overlay.ts";

/** Writes by key of the file. */
export type JournalFiles = ReadonlyMap<string, readonly JournalWrite[]>;

/** Beginning of the names of journals in `meta/`. */
export const JOURNAL_PREFIX = "journal-";

/** Key of the journal with this name. */
export function arrayJournalKey(path: string, name: string): string {
  return joinKey(path, "meta", `${JOURNAL_PREFIX}${name.slice(0, 16)}`);
}

/**
 * Reads the journal that a layout names; none where it names none. `folders` are those of the columns, in order.
 *
 * @throws INCOMPLETE where it is not there; BAD_FIELD for a superchunk that the layout does not count; the codes of damage
 */
export async function readArrayJournal(
  store: ReadableStore,
  path: string,
  layout: StoredLayout,
  folders: readonly string[],
  options: StoreOptions = {},
): Promise<JournalFiles> {
  if (layout.journal === undefined) return new Map();
  const key = arrayJournalKey(path, layout.journal);
  const bytes = await store.get(key, options);
  const shown = store.describe(key);
  if (bytes === undefined) throw missingJournal(shown);
  const name = journalName(bytes);
  if (name !== layout.journal) throw otherJournal(shown, layout.journal, name);
  const files = new Map<string, JournalWrite[]>();
  for (const { number, column, offset, bytes: data } of await decodeArrayJournal(bytes, shown)) {
    const folder = folders[column];
    if (folder === undefined || !hasNumber(layout, number))
      throw notCounted(shown, `superchunk ${number} of column ${column}`);
    const file = joinKey(folder, superchunkName(number));
    const writes = files.get(file);
    if (writes === undefined) files.set(file, [{ offset, bytes: data }]);
    else writes.push({ offset, bytes: data });
  }
  return files;
}

/**
 * Makes sure that the files hold what the archive says, for who refers to places in them. Throws `CONFLICT` where a change in
 * place was interrupted, and its journal is read over them.
 */
export function requireSettled({ store, path, metadata }: Settled): void {
  const { layout } = objectOf(metadata["sizes"]);
  if (!isOverlay(store) && objectOf(layout)["journal"] === undefined) return;
  throw new SuperchunkError(
    "CONFLICT",
    'a change in place was interrupted, and the files do not hold yet what the archive says. The next change finishes it: "superchunk compact" of an array, "superchunk append --in-place" of a Bloscpack file',
    { path: store.describe(path), field: "journal" },
  );
}

/** What is known of an opened archive. */
interface Settled {
  readonly store: ReadableStore;
  readonly path: string;
  readonly metadata: JsonObject;
}

function objectOf(value: JsonValue | undefined): JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonObject) : {};
}

function missingJournal(path: string): SuperchunkError {
  return new SuperchunkError(
    "INCOMPLETE",
    'the journal is missing that meta/sizes names: a change in place was interrupted, and what was left to do is lost. Look for a whole copy, or run "superchunk repair"',
    { path, field: "layout.journal", expected: "a file", found: "nothing" },
  );
}

function otherJournal(path: string, expected: string, found: string): SuperchunkError {
  return new SuperchunkError(
    "CHECKSUM_MISMATCH",
    `the journal ends with ${found}, but meta/sizes names ${expected}. A change in place was interrupted, and what was left to do cannot be read; look for a whole copy, or run "superchunk repair"`,
    { path, field: "layout.journal", expected, found },
  );
}

function notCounted(path: string, found: string): SuperchunkError {
  return new SuperchunkError(
    "BAD_FIELD",
    `the journal writes into ${found}, which meta/sizes does not count. One of the files is damaged or of another array; run "superchunk repair", or look for another copy`,
    { path, field: "number", expected: "a superchunk that meta/sizes counts", found },
  );
}
