/**
 * Changes of a file in place that happen wholly or not at all.
 *
 * The journal lies beside the file as `NAME.journal`. It counts only while the file says version 4, which is durable
 * before the first other byte changes, and goes back to 3 after the last: so a foreign reader refuses the file while
 * it is between two states, and a journal beside a file of version 3 is a leftover. @see FORMAT.md [FR]
 */
import { SuperchunkError } from "../../errors.ts";
import { HEADER_V3 } from "../../format/header.ts";
import { decodeJournal, encodeJournal, type JournalWrite } from "../../format/journal.ts";
import type { ReadableStore, StoreOptions, WritableStore } from "../../store/types.ts";
import { overlayStore } from "./overlay.ts";
import { redoWrites, versionAfter } from "./redo.ts";

/** A store that can change files in place. */
export type InPlaceStore = WritableStore & Required<Pick<WritableStore, "writeRange" | "sync">>;

const BUSY = 4;

/**
 * Makes sure that a file has one name only. Throws `CONFLICT` where it has more: what is written into it would change what
 * the other names stand for, as a copy made with `cp -al` or the shard of a linked archive.
 */
export async function requireOneName(store: ReadableStore, key: string): Promise<void> {
  const links = (await store.stat(key))?.links ?? 1;
  if (links <= 1) return;
  throw new SuperchunkError(
    "CONFLICT",
    `the file has ${links} names (hard links), and a change in place would change them all. "superchunk unlink" takes a link to Zarr back; else do it without in place, or give the file bytes of its own (cp FILE COPY && mv COPY FILE)`,
    { path: store.describe(key), field: "links", expected: 1, found: links },
  );
}

/** Key of the journal of a file. */
export function journalKey(key: string): string {
  return `${key}.journal`;
}

/** The store, if it can change files in place. Throws `UNSUPPORTED`. */
export function requireInPlace(store: WritableStore, key: string): InPlaceStore {
  const { writeRange, sync } = store;
  if (writeRange !== undefined && sync !== undefined) return store as InPlaceStore;
  throw new SuperchunkError(
    "UNSUPPORTED",
    "this store cannot change a file in place; do it without in place, which makes a new file",
    { path: store.describe(key), field: "inPlace" },
  );
}

/**
 * Commits and makes a change: durable when resolved. `writes` are for the file as version 3 has it; the version byte
 * among them is left to this function.
 *
 * @throws CONFLICT where another change in place is under way, and where the file has other names
 */
export async function changeInPlace(
  store: InPlaceStore,
  key: string,
  writes: readonly JournalWrite[],
): Promise<void> {
  await requireOneName(store, key);
  await store.put(journalKey(key), await encodeJournal(writes), { ifAbsent: true });
  await redo(store, key, writes);
}

async function redo(store: InPlaceStore, key: string, writes: readonly JournalWrite[]): Promise<void> {
  await redoWrites(store, new Map([[key, writes]]));
  await store.delete(journalKey(key));
}

/**
 * Finishes a change that was interrupted, or removes what is left of one that was over or never begun. Called by a
 * writer before anything else; resolves with true where there was something to finish.
 */
export async function finishInterrupted(store: InPlaceStore, key: string): Promise<boolean> {
  const journal = await store.get(journalKey(key));
  if (journal === undefined) return false;
  if ((await versionOf(store, key)) !== BUSY) {
    await store.delete(journalKey(key));
    return false;
  }
  await redo(store, key, await decodeJournal(journal, store.describe(journalKey(key))));
  return true;
}

async function versionOf(store: ReadableStore, key: string): Promise<number | undefined> {
  const { at } = HEADER_V3.version;
  return (await store.getRange(key, { offset: at, length: 1 }))?.[0];
}

/**
 * The store as it will be once an interrupted change of `key` is finished; the same store where there is none. Writes
 * nothing. Asks for the journal only where the file says version 4.
 */
export async function withJournal(
  store: ReadableStore,
  key: string,
  head: Uint8Array,
  options: StoreOptions = {},
): Promise<ReadableStore> {
  if (head[HEADER_V3.version.at] !== BUSY) return store;
  const journal = await store.get(journalKey(key), options);
  if (journal === undefined) return store;
  const path = store.describe(journalKey(key));
  const writes = await decodeJournal(journal, path);
  return withWrites(store, new Map([[key, writes]]), path, options);
}

/**
 * The store as it is once a journal's writes are made, with the versions that they give the files. `path` names the journal.
 *
 * @throws BAD_FIELD for writes that leave a hole: nothing may be read that neither the file nor the journal has
 */
export async function withWrites(
  store: ReadableStore,
  files: ReadonlyMap<string, readonly JournalWrite[]>,
  path: string,
  options: StoreOptions = {},
): Promise<ReadableStore> {
  const made = new Map<string, readonly JournalWrite[]>();
  for (const [key, writes] of files) {
    let end = (await store.stat(key, options))?.size ?? 0;
    for (const { offset, bytes } of writes) {
      if (offset > end) {
        throw new SuperchunkError(
          "BAD_FIELD",
          `the journal writes at byte ${offset} of ${store.describe(key)}, but that ends at byte ${end}. The journal is damaged or of another file`,
          { path, field: "offset", expected: `at most ${end}`, found: offset },
        );
      }
      end = Math.max(end, offset + bytes.length);
    }
    const version = { offset: HEADER_V3.version.at, bytes: Uint8Array.of(versionAfter(writes)) };
    made.set(key, [...writes, version]);
  }
  return overlayStore(store, (key) => made.get(key));
}
