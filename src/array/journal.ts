/**
 * Changes of a file in place that happen wholly or not at all.
 *
 * The journal lies beside the file as `NAME.journal`. It counts only while the file says version 4, which is durable
 * before the first other byte changes, and goes back to 3 after the last: so a foreign reader refuses the file while
 * it is between two states, and a journal beside a file of version 3 is a leftover. @see FORMAT.md [FR]
 */
import { SuperchunkError } from "../errors.ts";
import { HEADER_V3 } from "../format/header.ts";
import { decodeJournal, encodeJournal, type JournalWrite } from "../format/journal.ts";
import { resolveRange } from "../store/range.ts";
import type { ReadableStore, StoreOptions, WritableStore } from "../store/types.ts";

/** A store that can change files in place. */
export type InPlaceStore = WritableStore & Required<Pick<WritableStore, "writeRange" | "sync">>;

const BUSY = 4;
const WHOLE = 3;

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
    "this store cannot change a file in place; append without inPlace, which makes a new file",
    { path: store.describe(key), field: "inPlace" },
  );
}

/**
 * Commits and makes a change: durable when resolved. `writes` are for the file as version 3 has it; the version byte
 * among them is left to this function.
 *
 * @throws CONFLICT where another change in place is under way
 */
export async function changeInPlace(
  store: InPlaceStore,
  key: string,
  writes: readonly JournalWrite[],
): Promise<void> {
  await store.put(journalKey(key), await encodeJournal(writes), { ifAbsent: true });
  await redo(store, key, writes);
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

async function redo(store: InPlaceStore, key: string, writes: readonly JournalWrite[]): Promise<void> {
  const { at } = HEADER_V3.version;
  await store.writeRange(key, at, Uint8Array.of(BUSY));
  await store.sync([key]);
  for (const { offset, bytes } of writes) {
    if (offset > at || offset + bytes.length <= at) await store.writeRange(key, offset, bytes);
    else {
      const busy = bytes.slice();
      busy[at - offset] = BUSY;
      await store.writeRange(key, offset, busy);
    }
  }
  await store.sync([key]);
  const version = versionAfter(writes);
  if (version !== BUSY) {
    await store.writeRange(key, at, Uint8Array.of(version));
    await store.sync([key]);
  }
  await store.delete(journalKey(key));
}

/** The version that the writes give the file; 3 where they do not touch it. A file that stays of version 4 may be changed twice. */
function versionAfter(writes: readonly JournalWrite[]): number {
  const { at } = HEADER_V3.version;
  let version = WHOLE;
  for (const { offset, bytes } of writes) {
    if (offset <= at && offset + bytes.length > at) version = bytes[at - offset] ?? WHOLE;
  }
  return version;
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
  let end = (await store.stat(key, options))?.size ?? 0;
  for (const { offset, bytes } of writes) {
    // Nothing may be read that neither the file nor the journal has.
    if (offset > end) {
      throw new SuperchunkError(
        "BAD_FIELD",
        `the journal writes at byte ${offset}, but the file ends at byte ${end}. The journal is damaged or of another file`,
        { path, field: "offset", expected: `at most ${end}`, found: offset },
      );
    }
    end = Math.max(end, offset + bytes.length);
  }
  return overlay(store, key, [
    ...writes,
    { offset: HEADER_V3.version.at, bytes: Uint8Array.of(versionAfter(writes)) },
  ]);
}

/** A store in which the bytes of one object are written over. Only what reading an archive needs. */
function overlay(store: ReadableStore, key: string, writes: readonly JournalWrite[]): ReadableStore {
  const end = writes.reduce((most, { offset, bytes }) => Math.max(most, offset + bytes.length), 0);
  const stat: ReadableStore["stat"] = async (asked, options) => {
    const info = await store.stat(asked, options);
    return asked !== key || info === undefined ? info : { ...info, size: Math.max(info.size, end) };
  };
  const getRange: ReadableStore["getRange"] = async (asked, range, options) => {
    if (asked !== key) return store.getRange(asked, range, options);
    const info = await stat(key, options);
    if (info === undefined) return undefined;
    const { offset, length } = resolveRange(range, info.size, store.describe(key));
    const bytes = new Uint8Array(length);
    const found = await store.getRange(key, { offset, length }, options);
    if (found === undefined) return undefined;
    bytes.set(found);
    for (const write of writes) {
      const from = Math.max(offset, write.offset);
      const to = Math.min(offset + length, write.offset + write.bytes.length);
      if (from < to) bytes.set(write.bytes.subarray(from - write.offset, to - write.offset), from - offset);
    }
    return bytes;
  };
  return {
    describe: (asked) => store.describe(asked),
    get: (asked, options) =>
      asked === key
        ? getRange(key, { offset: 0, length: Number.MAX_SAFE_INTEGER }, options)
        : store.get(asked, options),
    getRange,
    stat,
    list: (folder, options) => store.list(folder, options),
    ...(store.close === undefined ? {} : { close: () => store.close?.() ?? Promise.resolve() }),
  };
}
