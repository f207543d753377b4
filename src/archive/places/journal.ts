/**
 * Atomic changes in place.
 *
 * The journal of a file is stored beside it as `NAME.journal`. It counts only while the file says version 4. That version is
 * durable before any other byte changes, and becomes 3 again after the last. So a foreign reader refuses a file between two
 * states, and a journal beside a file of version 3 is a leftover.
 *
 * The journal of an array holds what one commit changes in all superchunks of all columns. It is stored in `meta/` under a name
 * made from its digest, and counts only while `meta/sizes` names that digest. So replacing `meta/sizes` is the commit here too.
 *
 * The writes of a committed journal can be repeated with the same result. @see FORMAT.md [FR] [FG-12]
 */

import { addTo } from "../../bytes/arrays.ts";
import { type ErrorCode, SuperchunkError } from "../../errors.ts";
import { BUSY_VERSION, HEADER_V3 } from "../../format/header.ts";
import {
  decodeArrayJournal,
  decodeJournal,
  encodeJournal,
  type JournalWrite,
  journalName,
} from "../../format/journal.ts";
import { objectOf } from "../../format/json.ts";
import { hasNumber, type StoredLayout } from "../../format/layout.ts";
import { superchunkName } from "../../format/naming.ts";
import type { JsonObject } from "../../format/types.ts";
import { joinKey, resolveRange } from "../../store/key.ts";
import type { ReadableStore, StoreOptions, WritableStore } from "../../store/types.ts";

export type InPlaceStore = WritableStore & Required<Pick<WritableStore, "writeRange" | "sync">>;

/**
 * Throws `CONFLICT` if a file has more than one name: writing into it would change the other names too, such as a copy
 * made with `cp -al` or the shard of a linked archive.
 */
export async function requireOneName(store: ReadableStore, key: string): Promise<void> {
  const links = (await store.stat(key))?.links ?? 1;
  if (links <= 1) return;
  throw new SuperchunkError(
    "CONFLICT",
    `the file has ${links} names (hard links), and a change in place would change them all. "superchunk unlink" undoes a link to Zarr; otherwise do not change it in place, or make the file an independent copy (cp FILE COPY && mv COPY FILE)`,
    { path: store.describe(key), field: "links", expected: 1, found: links },
  );
}

export function journalKey(key: string): string {
  return `${key}.journal`;
}

/** The store, if it can change files in place; else throws `UNSUPPORTED`. */
export function requireInPlace(store: WritableStore, key: string): InPlaceStore {
  const { writeRange, sync } = store;
  if (writeRange !== undefined && sync !== undefined) return store as InPlaceStore;
  throw new SuperchunkError(
    "UNSUPPORTED",
    "this store cannot change a file in place; without in place, a new file is made",
    { path: store.describe(key), field: "inPlace" },
  );
}

/**
 * Commits and makes a change; durable when resolved. `writes` apply to the file as of version 3; this function handles
 * the version byte among them.
 * @throws CONFLICT if another change in place is under way, or if the file has other names
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
 * Finishes an interrupted change, or removes the leftover of one that completed or never began. A writer calls it
 * before anything else. Resolves with true if there was something to finish.
 */
export async function finishInterrupted(store: InPlaceStore, key: string): Promise<boolean> {
  const journal = await store.get(journalKey(key));
  if (journal === undefined) return false;
  if ((await versionOf(store, key)) !== BUSY_VERSION) {
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
 * The store as it will be after an interrupted change of `key` is finished; the same store if there is none. Writes
 * nothing. Looks for the journal only if the file says version 4.
 */
export async function withJournal(
  store: ReadableStore,
  key: string,
  head: Uint8Array,
  options: StoreOptions,
): Promise<ReadableStore> {
  if (head[HEADER_V3.version.at] !== BUSY_VERSION) return store;
  const journal = await store.get(journalKey(key), options);
  if (journal === undefined) return store;
  const path = store.describe(journalKey(key));
  const writes = await decodeJournal(journal, path);
  return withWrites(store, new Map([[key, writes]]), path, options);
}

/**
 * The store with a journal's writes applied, and with the versions that they give the files. `path` names the journal.
 * @throws BAD_FIELD for writes that leave a hole: every byte read must be in the file or the journal
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
      if (offset > end)
        throw new SuperchunkError(
          "BAD_FIELD",
          `the journal writes at byte ${offset} of ${store.describe(key)}, but that file ends at byte ${end}. The journal is damaged, or belongs to another file`,
          { path, field: "offset", expected: `at most ${end}`, found: offset },
        );
      end = Math.max(end, offset + bytes.length);
    }
    const version = { offset: HEADER_V3.version.at, bytes: Uint8Array.of(versionAfter(writes)) };
    made.set(key, [...writes, version]);
  }
  return overlayStore(store, (key) => made.get(key));
}

/** Stores that show other bytes than their objects hold. */
const overlays = new WeakSet<ReadableStore>();

/**
 * The store as it is after `writesOf(key)` are applied to each object; later writes win. Supports only what reading an archive needs.
 */
export function overlayStore(
  store: ReadableStore,
  writesOf: (key: string) => readonly JournalWrite[] | undefined,
): ReadableStore {
  const stat: ReadableStore["stat"] = async (key, options) => {
    const info = await store.stat(key, options);
    const writes = writesOf(key);
    if (writes === undefined || info === undefined) return info;
    const end = writes.reduce((most, { offset, bytes }) => Math.max(most, offset + bytes.length), 0);
    return { ...info, size: Math.max(info.size, end) };
  };
  const getRange: ReadableStore["getRange"] = async (key, range, options) => {
    const writes = writesOf(key);
    if (writes === undefined) return store.getRange(key, range, options);
    const info = await stat(key, options);
    if (info === undefined) return undefined;
    const { offset, length } = resolveRange(range, info.size, store.describe(key));
    const found = await store.getRange(key, { offset, length }, options);
    if (found === undefined) return undefined;
    const bytes = new Uint8Array(length);
    bytes.set(found);
    for (const write of writes) {
      const from = Math.max(offset, write.offset);
      const to = Math.min(offset + length, write.offset + write.bytes.length);
      if (from < to) bytes.set(write.bytes.subarray(from - write.offset, to - write.offset), from - offset);
    }
    return bytes;
  };
  const overlay: ReadableStore = {
    describe: (key) => store.describe(key),
    get: (key, options) =>
      writesOf(key) === undefined
        ? store.get(key, options)
        : getRange(key, { offset: 0, length: Number.MAX_SAFE_INTEGER }, options),
    getRange,
    stat,
    list: (folder, options) => store.list(folder, options),
    ...(store.close === undefined ? {} : { close: () => store.close?.() ?? Promise.resolve() }),
  };
  overlays.add(overlay);
  return overlay;
}

export type JournalFiles = ReadonlyMap<string, readonly JournalWrite[]>;

/** Prefix of journal names in `meta/`. */
export const JOURNAL_PREFIX = "journal-";

export function arrayJournalKey(path: string, name: string): string {
  return joinKey(path, "meta", `${JOURNAL_PREFIX}${name.slice(0, 16)}`);
}

/**
 * Reads the journal that a layout names, if it names one. `folders` are those of the columns, in order.
 * @throws INCOMPLETE if it is missing; BAD_FIELD for a superchunk that the layout does not count; the codes of damage
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
  if (bytes === undefined)
    throw new SuperchunkError(
      "INCOMPLETE",
      'the journal that meta/sizes names is missing: a change in place was interrupted, and what was left to do is lost. Look for a complete copy, or run "superchunk repair"',
      { path: shown, field: "layout.journal", expected: "a file", found: "nothing" },
    );
  const name = journalName(bytes);
  if (name !== layout.journal)
    throw new SuperchunkError(
      "CHECKSUM_MISMATCH",
      `the journal ends with ${name}, but meta/sizes names ${layout.journal}. A change in place was interrupted, and what was left to do cannot be read; look for a complete copy, or run "superchunk repair"`,
      { path: shown, field: "layout.journal", expected: layout.journal, found: name },
    );
  const files = new Map<string, JournalWrite[]>();
  for (const { number, column, offset, bytes: data } of await decodeArrayJournal(bytes, shown)) {
    const folder = folders[column];
    if (folder === undefined || !hasNumber(layout, number)) {
      const found = `superchunk ${number} of column ${column}`;
      throw new SuperchunkError(
        "BAD_FIELD",
        `the journal writes into ${found}, which meta/sizes does not count. One of the files is damaged, or belongs to another array; run "superchunk repair", or look for another copy`,
        { path: shown, field: "number", expected: "a superchunk that meta/sizes counts", found },
      );
    }
    const file = joinKey(folder, superchunkName(number));
    addTo(files, file, { offset, bytes: data });
  }
  return files;
}

/**
 * Makes sure that the files hold what the archive says, for callers that refer to places in them. Throws `CONFLICT` if
 * a change in place was interrupted, so that its journal is applied on reading.
 */
export function requireSettled({ store, path, metadata }: Settled): void {
  const { layout } = objectOf(metadata["sizes"]);
  if (!overlays.has(store) && objectOf(layout)["journal"] === undefined) return;
  throw new SuperchunkError(
    "CONFLICT",
    'a change in place was interrupted, and is not complete yet. The next change completes it: "superchunk compact" of an array, "superchunk append --in-place" of a Bloscpack file',
    { path: store.describe(path), field: "journal" },
  );
}

interface Settled {
  readonly store: ReadableStore;
  readonly path: string;
  readonly metadata: JsonObject;
}

const WHOLE = 3;
const { at: VERSION_AT } = HEADER_V3.version;
/** Bytes copied at a time. */
const PIECE = 4 << 20;

type Writes = readonly JournalWrite[];

/** The version that the writes give the file; 3 if they do not touch it. A file that keeps version 4 may be changed twice. */
function versionAfter(writes: Writes): number {
  let version = WHOLE;
  for (const { offset, bytes } of writes)
    if (offset <= VERSION_AT && offset + bytes.length > VERSION_AT)
      version = bytes[VERSION_AT - offset] ?? WHOLE;
  return version;
}

/**
 * Makes the writes; durable when resolved. A file that has other names by now, and any file in a store that cannot
 * write in place, is replaced as a whole: the other names keep their bytes.
 */
export async function redoWrites(store: WritableStore, files: ReadonlyMap<string, Writes>): Promise<void> {
  const { writeRange, sync } = store;
  const here: [string, Writes][] = [];
  for (const [key, writes] of files) {
    const links = (await store.stat(key))?.links ?? 1;
    if (writeRange !== undefined && sync !== undefined && links <= 1) here.push([key, writes]);
    else await replaceFile(store, key, writes);
  }
  if (here.length === 0) return;
  const write = async (key: string, offset: number, bytes: Uint8Array): Promise<void> =>
    store.writeRange?.(key, offset, bytes);
  const keys = here.map(([key]) => key);
  for (const key of keys) await write(key, VERSION_AT, Uint8Array.of(BUSY_VERSION));
  await store.sync?.(keys);
  for (const [key, writes] of here)
    for (const { offset, bytes } of writes) await write(key, offset, keptBusy(offset, bytes));
  await store.sync?.(keys);
  const whole = here.filter(([, writes]) => versionAfter(writes) !== BUSY_VERSION);
  for (const [key, writes] of whole) await write(key, VERSION_AT, Uint8Array.of(versionAfter(writes)));
  if (whole.length > 0) await store.sync?.(whole.map(([key]) => key));
}

/** The bytes, with version 4 if they include the version byte. */
function keptBusy(offset: number, bytes: Uint8Array): Uint8Array {
  if (offset > VERSION_AT || offset + bytes.length <= VERSION_AT) return bytes;
  const busy = bytes.slice();
  busy[VERSION_AT - offset] = BUSY_VERSION;
  return busy;
}

async function replaceFile(store: WritableStore, key: string, writes: Writes): Promise<void> {
  const version = { offset: VERSION_AT, bytes: Uint8Array.of(versionAfter(writes)) };
  const done = overlayStore(store, (asked) => (asked === key ? [...writes, version] : undefined));
  await store.put(key, copyOf(done, key), { durable: true });
}

const NO_LINK: readonly ErrorCode[] = ["UNSUPPORTED", "READ_ONLY", "IO"];

/** Gives an object a second name, in place of what has it: a hard link if the store makes them, else a durable copy. */
export async function linkOrCopy(store: WritableStore, from: string, to: string): Promise<void> {
  await store.delete(to);
  try {
    if (store.link !== undefined) return await store.link(from, to, "hard");
  } catch (error) {
    // Some file systems have no hard links; if nothing can be written, the copy says so.
    if (!(error instanceof SuperchunkError) || !NO_LINK.includes(error.code)) throw error;
  }
  await store.put(to, copyOf(store, from), { durable: true });
}

export async function* copyOf(store: ReadableStore, key: string): AsyncGenerator<Uint8Array> {
  const size = (await store.stat(key))?.size ?? 0;
  for (let offset = 0; offset < size; offset += PIECE)
    yield (await store.getRange(key, { offset, length: PIECE })) ?? new Uint8Array(0);
}
