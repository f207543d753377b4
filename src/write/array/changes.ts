/**
 * Growing, shrinking and deleting rows. Each is planned on an {@link ArrayWriter} with nothing else planned; the caller
 * commits. Also moves superchunks to other places, which commits by itself.
 */
import type { LongOptions } from "../../archive/kinds/types.ts";
import { encodeJson } from "../../archive/places/layout-files.ts";
import { joinBytes } from "../../bytes/arrays.ts";
import { checkOptions } from "../../bytes/check-options.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { mergeSpans, type Run, type StoredLayout, withoutSpan } from "../../format/layout.ts";
import { parseSuperchunkName } from "../../format/naming.ts";
import { checkPlacing, givenPlaces, HOME, placeNamed } from "../../places/declared.ts";
import { clearPlaceOf, hasMark, openAllPlaces, putMark } from "../../places/open-places.ts";
import { type PlacedKey, PlacedStore, type PlaceOpening } from "../../places/placed-store.ts";
import { sizeOfObjects } from "../../store/key.ts";
import { isWritable, type ReadableStore } from "../../store/types.ts";
import { joinField, repeatItem, splitField } from "../../values/copy-items.ts";
import { encodeItem } from "../../values/item-bytes.ts";
import type { MoveChoice, Moved, PlaceChanges, PlaceInfo } from "../editable.ts";
import { superchunkKeys } from "../layout/columns.ts";
import { appendRun, dropPatched, liveReservations, placesOf, truncateRuns } from "../layout/runs.ts";
import { type ArraySettings, storageOf } from "../layout/settings.ts";
import type { ArrayWriter } from "./array-writer.ts";
import type { ArrayRoot } from "./root.ts";
import type { StoredChunk } from "./superchunk-file.ts";

/** Adds rows of the default value until there are `rows`. Progress is in uncompressed bytes. */
export async function grow(writer: ArrayWriter, rows: number, options: LongOptions): Promise<void> {
  if (writer.rowBytes === 0) {
    writer.appendNothing(rows - writer.rows);
    return;
  }
  const { dtype, dflt, chunklen } = writer.settings;
  const item = encodeItem(dtype, dflt);
  const { buffer } = writer;
  const before = writer.rows;
  const total = (rows - before) * writer.rowBytes;
  const fill = Math.min(rows - writer.rows, chunklen - buffer.rows);
  const repeat = (count: number): Uint8Array => repeatItem(item, new Uint8Array(count * writer.rowBytes));
  if (buffer.rows > 0) await writer.append(repeat(fill));
  const whole = Math.floor((rows - writer.rows) / chunklen);
  if (whole > 0) {
    const items = repeat(chunklen);
    const { superchunklen } = writer.settings;
    const columns: StoredChunk[][] = [];
    for (const column of writer.columns) {
      const data = new Uint8Array(chunklen * column.rowBytes);
      splitField(items, dtype.itemSize, column, data, 0);
      const chunk = await writer.chunks.encode(data, column.itemSize);
      columns.push(repeatChunk(chunk, Math.min(whole, superchunklen)));
    }
    for (let left = whole; left > 0; ) {
      options.signal?.throwIfAborted();
      const count = Math.min(left, superchunklen - (writer.wholeChunks % superchunklen));
      await writer.addChunks(columns.map((chunks) => chunks.slice(0, count)));
      left -= count;
      options.onProgress?.({ done: (writer.rows - before) * writer.rowBytes, total });
    }
  }
  const rest = rows - writer.rows;
  if (rest > 0) await writer.append(repeat(rest));
}

/** Bytes of equal chunks that are laid out contiguously, so that a superchunk of them is written in few pieces. */
const MAX_LAID = 4 << 20;

function repeatChunk({ bytes, digest, nbytes }: StoredChunk, count: number): StoredChunk[] {
  const length = bytes.length + digest.length;
  const laid = Math.max(1, Math.min(count, Math.floor(MAX_LAID / length)));
  const room = repeatItem(joinBytes([bytes, digest]), new Uint8Array(laid * length));
  const chunks = Array.from({ length: laid }, (_, i) => ({
    bytes: room.subarray(i * length, i * length + bytes.length),
    digest: room.subarray(i * length + bytes.length, (i + 1) * length),
    nbytes,
  }));
  return Array.from({ length: count }, (_, i) => chunks[i % laid] as StoredChunk);
}

/** Keeps the first `rows` rows. No chunk that counts contains rows that were cut off. */
export async function shrink(writer: ArrayWriter, rows: number): Promise<void> {
  writer.edition++;
  writer.isDirty = true;
  writer.filled = withoutSpan(writer.filled, { from: rows, to: Number.POSITIVE_INFINITY });
  if (writer.rowBytes === 0) {
    writer.buffer.rows = rows;
    return;
  }
  const { chunklen } = writer.settings;
  const whole = Math.floor(rows / chunklen);
  const short = rows % chunklen;
  if (whole < writer.wholeChunks) {
    const columns = short > 0 ? await writer.source().decoded(whole) : [];
    writer.buffer.load(columns, short);
    writer.runs = truncateRuns(writer.runs, whole);
    writer.patches = dropPatched(writer.patches, (chunk) => chunk >= whole);
  } else writer.buffer.rows = short;
}

/** Deletes the rows `[start, end)`; later rows move up and are rewritten. Progress is in uncompressed bytes. */
export async function deleteRows(
  writer: ArrayWriter,
  start: number,
  end: number,
  options: LongOptions,
): Promise<void> {
  const { rows } = writer;
  if (end <= start) return;
  if (writer.rowBytes === 0) {
    await shrink(writer, rows - (end - start));
    return;
  }
  const { chunklen, dtype } = writer.settings;
  const source = writer.source();
  const moved = withoutSpan(writer.filled, { from: 0, to: end });
  await shrink(writer, start);
  const shift = end - start;
  writer.filled = mergeSpans([
    ...writer.filled,
    ...moved.map(({ from, to }) => ({ from: from - shift, to: to - shift })),
  ]);
  const total = (rows - end) * writer.rowBytes;
  for (let index = Math.floor(end / chunklen); index * chunklen < rows; index++) {
    options.signal?.throwIfAborted();
    const columns = await source.decoded(index);
    const held = Math.min(chunklen, rows - index * chunklen);
    const items = new Uint8Array(held * writer.rowBytes);
    writer.columns.forEach((column, i) => {
      joinField(columns[i] ?? new Uint8Array(0), column, items, dtype.itemSize);
    });
    const from = Math.max(0, end - index * chunklen);
    await writer.append(items.subarray(from * writer.rowBytes));
    options.onProgress?.({ done: (writer.rows - start) * writer.rowBytes, total });
  }
}

// Changes `meta/storage` together with the rows. The commit has the new storage in `meta/sizes`; then the file is replaced, and
// another commit removes the storage from `meta/sizes`. @see FORMAT.md [FG-07]

/**
 * Finishes what a commit with `layout.storage` began, in this session or in an interrupted one. The array is complete without
 * this step, so a failure is only a warning, and a later call tries again.
 */
export async function commitStorage(writer: ArrayWriter): Promise<void> {
  const { storage } = writer.committed.layout;
  if (storage === undefined) return;
  const { root } = writer;
  try {
    await root.assertOurs();
    await root.store.put(root.key("meta/storage"), encodeJson(storage), { durable: true });
    await writer.recommit({}, true);
  } catch (error) {
    if (!isSuperchunkError(error) || error.code === "CONFLICT") throw error;
    root.warnings.push(error.message);
  }
}

/** Commits other settings over the same superchunks. Durable when resolved. */
export async function commitSettings(writer: ArrayWriter, settings: ArraySettings): Promise<void> {
  writer.settings = { ...settings, revision: settings.revision + 1 };
  await writer.recommit({ storage: storageOf(writer.settings), revision: writer.settings.revision });
  await commitStorage(writer);
}

// Moves superchunks between places: copied under a new number, checked, committed; the commit removes the old ones. So a name still
// means one file, and a crash leaves at most a copy that no commit names, which the next writer removes. @see FORMAT.md [FG-21]

/** A superchunk, and the array's chunks in it. */
interface Holder {
  readonly number: number;
  readonly chunks: readonly number[];
}

/** Limits of superchunks and stored bytes committed together. */
const MOVED_TOGETHER = 64;
const MOVED_BYTES = 256 << 20;

/**
 * Moves superchunks to the place with this name. Nothing may be planned. Progress is in superchunks.
 * @throws NOT_FOUND for an unknown name; BAD_ARGUMENT for a superchunk that does not exist
 */
export async function moveSuperchunks(
  writer: ArrayWriter,
  choice: MoveChoice,
  target: string,
  options: LongOptions,
): Promise<Moved> {
  const to = placeNamed(writer.settings.placing, target)?.name;
  const { placed } = writer.root;
  const moved = { superchunks: 0, bytes: 0 };
  if (placed === undefined) return moved;
  await writer.prepare();
  const all = await chooseHolders(writer, choice);
  const chosen = all.filter(({ number }) => placed.table.of(number) !== to);
  let copies = new Map<number, number>();
  let waiting = 0;
  const commit = async (): Promise<void> => {
    if (copies.size > 0) await commitCopies(writer, copies);
    moved.superchunks += copies.size;
    copies = new Map();
    waiting = 0;
  };
  for (const [i, { number, chunks }] of chosen.entries()) {
    options.signal?.throwIfAborted();
    // A damaged superchunk is reported and stays where it is.
    const source = writer.source();
    for (let column = 0; column < writer.columns.length; column++)
      for await (const _ of source.fetchedEach(column, chunks));
    const { number: copy, bytes } = await writer.files.copy(number, to, writer.columns, options.signal);
    copies.set(number, copy);
    moved.bytes += bytes;
    waiting += bytes;
    if (copies.size >= MOVED_TOGETHER || waiting >= MOVED_BYTES) await commit();
    options.onProgress?.({ done: i + 1, total: chosen.length, label: "superchunks" });
  }
  await commit();
  await writer.root.settled();
  return moved;
}

async function commitCopies(writer: ArrayWriter, copies: ReadonlyMap<number, number>): Promise<void> {
  const { layout } = writer.committed;
  let runs: readonly Run[] = [];
  for (const { number, chunks } of placesOf(layout.runs))
    runs = appendRun(runs, copies.get(number) ?? number, chunks);
  const patches = layout.patches.map((patch) => ({
    ...patch,
    number: copies.get(patch.number) ?? patch.number,
  }));
  await writer.recommit({ runs, patches });
}

/** The superchunks that match a choice, with the patches of their chunks. */
async function chooseHolders(
  { committed: { layout }, columns, root }: ArrayWriter,
  { superchunks, keepLast = 0, writtenBefore }: MoveChoice,
): Promise<Holder[]> {
  const all = [...placesOf(layout.runs)];
  const [from, last] = superchunks ?? [0, Number.POSITIVE_INFINITY];
  const isThere = Number.isInteger(from) && from >= 0 && last >= from && from < all.length;
  if (superchunks !== undefined && !(isThere && (last < all.length || last === Number.POSITIVE_INFINITY)))
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `superchunks ${from} to ${last === Number.POSITIVE_INFINITY ? "the end" : last} are not all there: the array has ${all.length}, counted from 0; nothing was moved`,
      { field: "superchunks", expected: `at most ${all.length - 1}`, found: superchunks },
    );
  const end = Math.min(last + 1, all.length - keepLast);
  const chosen = all.slice(from, Math.max(from, end));
  const [start, final] = [chosen[0], chosen.at(-1)];
  if (start === undefined || final === undefined) return [];
  const holders: Holder[] = chosen.map(({ number, first, chunks }) => ({
    number,
    chunks: Array.from({ length: chunks }, (_, i) => first + i),
  }));
  for (const { number, chunks } of layout.patches) {
    const counted = chunks.filter((chunk) => chunk >= 0);
    const [first = -1] = counted;
    if (first >= start.first && first < final.first + final.chunks) holders.push({ number, chunks: counted });
  }
  if (writtenBefore === undefined) return holders;
  const old: Holder[] = [];
  for (const holder of holders) {
    let newest = 0;
    for (const key of superchunkKeys(columns, [holder.number]))
      newest = Math.max(newest, (await root.store.stat(key))?.modified ?? Number.POSITIVE_INFINITY);
    if (newest < writtenBefore) old.push(holder);
  }
  return old;
}

// Listing and changing the places themselves.

/**
 * Adds and removes places in one commit. Nothing may be planned.
 * @throws CONFLICT for a place that holds superchunks, and while others append; UNSUPPORTED for an array that keeps itself a Zarr
 * array, or is open for changes in place
 */
export async function changePlaces(
  writer: ArrayWriter,
  changes: PlaceChanges,
  { openPlace, placeAddress }: PlaceOpening,
): Promise<void> {
  checkOptions(changes, "add remove rule");
  const { add: given = [], remove = [], rule } = changes;
  const { settings, root, committed } = writer;
  const { placing } = settings;
  const { layout } = committed;
  for (const name of remove) refuseUsed(root, layout, placeNamed(placing, name)?.name);
  const add = givenPlaces(given, placing.places, placeAddress);
  const places = [...placing.places.filter(({ name }) => !remove.includes(name)), ...add];
  const changed = {
    ...settings,
    placing: checkPlacing({ places, rule: rule ?? placing.rule }),
    revision: settings.revision + 1,
  };
  refuseZarrPlaces(root.store, root.path, changed);
  refuseOthers(writer);
  const { store: before, placed } = root;
  const array = { path: root.path, id: layout.id, spans: layout.places ?? [] };
  // Those that are open were permitted, perhaps by being added before.
  const named = new Set([...add.map(({ name }) => name), ...(placed?.names ?? [])]);
  const home = placed?.home ?? before;
  if (!isWritable(home)) throw new RangeError("an array can only be written in a store that can write");
  const store = await openAllPlaces(home, array, changed.placing, { openPlace, named });
  try {
    for (const place of add) if (store instanceof PlacedStore) await putMark(store, place);
    writer.relocate(changed, store);
    await writer.recommit({ storage: storageOf(changed), revision: changed.revision });
  } catch (error) {
    writer.relocate(settings, before);
    if (store instanceof PlacedStore) await store.closePlaces(before);
    throw error;
  }
  await commitStorage(writer);
  for (const name of remove) if (placed !== undefined) await clearPlaceOf(placed, name);
  await placed?.closePlaces(store);
}

/** The places of an array, `data` first. */
export async function listPlaces({
  root,
  settings,
  columns,
  committed: { layout },
}: ArrayWriter): Promise<PlaceInfo[]> {
  const { placed } = root;
  const all = [...placesOf(layout.runs)];
  const infos: PlaceInfo[] = [];
  for (const place of [undefined, ...settings.placing.places]) {
    const isThere = (number: number): boolean => placed?.table.of(number) === place?.name;
    const spans: [number, number][] = [];
    for (const [i, { number }] of all.entries()) {
      if (!isThere(number)) continue;
      const last = spans.at(-1);
      if (last?.[1] === i - 1) last[1] = i;
      else spans.push([i, i]);
    }
    const patches = layout.patches.filter(({ number }) => isThere(number));
    const numbers = new Set([...all, ...patches].map(({ number }) => number).filter(isThere));
    const folders = columns.map(
      ({ folder }) => placed?.at(place?.name, folder) ?? { store: root.store, key: folder },
    );
    const bytes = await bytesOf(folders, numbers);
    const isNone = bytes === 0 && numbers.size > 0;
    const isAbsent = isNone && place !== undefined && placed !== undefined && !(await hasMark(placed, place));
    infos.push({
      name: place?.name ?? HOME,
      prefix: place?.prefix,
      superchunks: spans.reduce((sum, [first, last]) => sum + last - first + 1, 0),
      spans,
      patches: patches.length,
      bytes: isAbsent ? undefined : bytes,
      isAbsent,
    });
  }
  return infos;
}

/** Stored bytes of superchunks in folders; undefined if these must not be read. */
async function bytesOf(
  folders: readonly PlacedKey[],
  numbers: ReadonlySet<number>,
): Promise<number | undefined> {
  let bytes = 0;
  try {
    for (const folder of folders) bytes += await bytesIn(folder, numbers);
  } catch (error) {
    if (isSuperchunkError(error) && !error.isDamage) return undefined;
    throw error;
  }
  return bytes;
}

async function bytesIn({ store, key }: PlacedKey, numbers: ReadonlySet<number>): Promise<number> {
  let bytes = 0;
  try {
    for await (const { name, size } of store.list(key, { sizes: true }))
      if (numbers.has(parseSuperchunkName(name) ?? 0)) bytes += size ?? 0;
    return bytes;
  } catch (error) {
    if (!isSuperchunkError(error, "UNSUPPORTED")) throw error;
    // A web server cannot list, so each superchunk is requested.
    return sizeOfObjects(store, superchunkKeys([{ folder: key }], numbers), undefined);
  }
}

function refuseUsed(root: ArrayRoot, { places = [] }: StoredLayout, name: string | undefined): void {
  const count = places.reduce((sum, span) => sum + (span.place === name ? span.count : 0), 0);
  if (name !== undefined && count === 0) return;
  throw new SuperchunkError(
    "CONFLICT",
    name === undefined
      ? `"${HOME}" is the folder of the array itself, and stays`
      : `${count} superchunks are in the place "${name}"; move them to another one first`,
    { path: root.store.describe(root.path), field: "place", found: name },
  );
}

/** Throws `UNSUPPORTED` for a Zarr array with places: its shards are names of files in its own folder. */
export function refuseZarrPlaces(store: ReadableStore, path: string, { zarr, placing }: ArraySettings): void {
  if (!zarr || placing.places.length === 0) return;
  throw new SuperchunkError(
    "UNSUPPORTED",
    "an array that is kept a Zarr array as well has all superchunks in its own folder, where Zarr readers look for them; make it without places, or without Zarr",
    { path: store.describe(path), field: "places" },
  );
}

/** Throws while others append, who know the present places only, or chunks are changed in place. */
function refuseOthers({ root: { store, path }, committed, changes }: ArrayWriter): void {
  const { kept } = liveReservations(committed.layout.writers, Date.now());
  const isShared = kept.some(({ count }) => count > 0);
  if (!isShared && changes === undefined) return;
  throw new SuperchunkError(
    isShared ? "CONFLICT" : "UNSUPPORTED",
    isShared
      ? "other writers append to the array, and know only the places that it has now; change them when these writers are done"
      : "the places of an array cannot be changed while it is open for changes in place; open it without them",
    { path: store.describe(path), field: "places" },
  );
}
