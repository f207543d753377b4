/** A damaged array as the journal of a change in place says that it is, file by file as far as that can be. Reads only. */
import type { JournalWrite } from "../../format/journal.ts";
import type { StoredLayout } from "../../format/layout.ts";
import type { ReadableStore } from "../../store/types.ts";
import { arrayJournalKey, readArrayJournal } from "../journal/array-journal.ts";
import { withWrites } from "../journal/journal.ts";
import { isFlaw } from "./chunk-check.ts";

/**
 * The store with the changes of a journal made, where the layout names one: file by file, since one that is gone or cut short
 * must not cost the others what was set in them.
 */
export async function withInterruptedChanges(
  store: ReadableStore,
  path: string,
  { layout, folders }: { readonly layout: StoredLayout | undefined; readonly folders: readonly string[] },
  { problems, lost }: { readonly problems: string[]; readonly lost: string[] },
): Promise<ReadableStore> {
  if (layout?.journal === undefined) return store;
  const shown = store.describe(arrayJournalKey(path, layout.journal));
  const give = (error: unknown, where: string): void => {
    if (!isFlaw(error)) throw error;
    problems.push(error.message);
    lost.push(`values that were set in place last, as far as they were not written yet${where}`);
  };
  const fitting = new Map<string, readonly JournalWrite[]>();
  try {
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
