/**
 * Makes the writes of a committed journal: again and again, if need be, with the same outcome.
 *
 * The files say version 4, durably, before the first other byte changes, and their own version again after the last:
 * programs that know no journals refuse them meanwhile. @see FORMAT.md [FR-02]
 */
import { HEADER_V3 } from "../../format/header.ts";
import type { JournalWrite } from "../../format/journal.ts";
import type { ReadableStore, WritableStore } from "../../store/types.ts";
import { overlayStore } from "./overlay.ts";

const BUSY = 4;
const WHOLE = 3;
const { at: VERSION_AT } = HEADER_V3.version;
/** Bytes that are copied at a time. */
const PIECE = 4 << 20;

type Writes = readonly JournalWrite[];

/** The version that the writes give the file; 3 where they do not touch it. A file that stays of version 4 may be changed twice. */
export function versionAfter(writes: Writes): number {
  let version = WHOLE;
  for (const { offset, bytes } of writes) {
    if (offset <= VERSION_AT && offset + bytes.length > VERSION_AT)
      version = bytes[VERSION_AT - offset] ?? WHOLE;
  }
  return version;
}

/**
 * Makes the writes; durable when resolved. A file that got another name meanwhile, and any file of a store that cannot
 * write in place, is replaced as a whole: the other name keeps its bytes.
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
  for (const key of keys) await write(key, VERSION_AT, Uint8Array.of(BUSY));
  await store.sync?.(keys);
  for (const [key, writes] of here)
    for (const { offset, bytes } of writes) await write(key, offset, keptBusy(offset, bytes));
  await store.sync?.(keys);
  const whole = here.filter(([, writes]) => versionAfter(writes) !== BUSY);
  for (const [key, writes] of whole) await write(key, VERSION_AT, Uint8Array.of(versionAfter(writes)));
  if (whole.length > 0) await store.sync?.(whole.map(([key]) => key));
}

/** The bytes, with version 4 where they hold the version. */
function keptBusy(offset: number, bytes: Uint8Array): Uint8Array {
  if (offset > VERSION_AT || offset + bytes.length <= VERSION_AT) return bytes;
  const busy = bytes.slice();
  busy[VERSION_AT - offset] = BUSY;
  return busy;
}

async function replaceFile(store: WritableStore, key: string, writes: Writes): Promise<void> {
  const version = { offset: VERSION_AT, bytes: Uint8Array.of(versionAfter(writes)) };
  const done = overlayStore(store, (asked) => (asked === key ? [...writes, version] : undefined));
  await store.put(key, copyOf(done, key), { durable: true });
}

/** Bytes of an object, piece by piece. */
export async function* copyOf(store: ReadableStore, key: string): AsyncGenerator<Uint8Array> {
  const size = (await store.stat(key))?.size ?? 0;
  for (let offset = 0; offset < size; offset += PIECE)
    yield (await store.getRange(key, { offset, length: PIECE })) ?? new Uint8Array(0);
}
