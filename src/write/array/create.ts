/** Creates an array on a store, and opens one for writing. @see FORMAT.md [FG] */

import { readAttributes } from "../../archive/kinds/array-folder.ts";
import { JOURNAL_PREFIX } from "../../archive/places/journal.ts";
import {
  encodeJson,
  type Generation,
  readGeneration,
  SHARED_FEATURE,
  unknownWriteFeatures,
  ZARR_FEATURE,
} from "../../archive/places/layout-files.ts";
import { refuseSymbolic } from "../../archive/places/linked.ts";
import type { ChunkEncoder } from "../../codec/types.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { givenDType } from "../../format/given-dtype.ts";
import { objectOf, parseJson } from "../../format/json.ts";
import { EMPTY_LAYOUT, encodeSizes, type StoredLayout } from "../../format/layout.ts";
import {
  INDEX_NAME,
  LINK_RECORD,
  parseSuperchunkName,
  superchunkName,
  whyUnsafe,
} from "../../format/naming.ts";
import type { DType, JsonObject, JsonObjectInput, JsonValue } from "../../format/types.ts";
import {
  checkPlacing,
  givenPlaces,
  NO_PLACES,
  type PlaceRule,
  parsePlaces,
  type StoredPlace,
} from "../../places/declared.ts";
import { clearPlaceOf, openAllPlaces, putMark } from "../../places/open-places.ts";
import { PlacedStore, type PlaceOpening } from "../../places/placed-store.ts";
import { joinKey } from "../../store/key.ts";
import { isWritable, type ListEntry, type ReadableStore, type WritableStore } from "../../store/types.ts";
import { givenShape, type WriterLock } from "../editable.ts";
import { type Adoption, planAdoption } from "../layout/adopt.ts";
import { clearPlace } from "../layout/clear-place.ts";
import { assertColumnsApart } from "../layout/columns.ts";
import { liveReservations } from "../layout/runs.ts";
import {
  type ArraySettings,
  type ChunkSettings,
  type ReserveOptions,
  settleSettings,
  settleStored,
  storageOf,
  storedOptions,
} from "../layout/settings.ts";
import { ArrayWriter, type MirrorMaker } from "./array-writer.ts";
import { commitStorage, grow, refuseZarrPlaces } from "./changes.ts";
import { ArrayRoot, newArrayId, openOwnPlaces } from "./root.ts";
import { WritableArray } from "./writable-array.ts";

/** How an array is opened for writing. */
export interface WriteOptions extends PlaceOpening {
  /** Encodes chunks, or chooses an encoder for a compressor; default: in the calling thread. */
  readonly encoder?: ChunkEncoder | undefined;
  /** Keeps other writers out. Without one, the commits alone do: the slower of two writers fails with `CONFLICT`. */
  readonly lock?: (() => Promise<WriterLock>) | undefined;
  /**
   * Where `set` writes changed chunks. `patch` (default): into new superchunks; no file changes. `in-place`: into their slots if they fit,
   * else to the end of their file, with a journal. Those files become version 4, which Bloscpack refuses. A chunk that no commit has named
   * yet, and anything beyond about 16 MiB in one flush, still go into new superchunks. Open readers get `STALE`. Needs a store that can
   * write in place.
   */
  readonly modify?: "patch" | "in-place" | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Writes nothing, and takes no lock (default false): for plans. */
  readonly readOnly?: boolean | undefined;
  /** Keeps arrays created with `zarr` as Zarr arrays; without it they are opened for reading only. */
  readonly mirror?: MirrorMaker | undefined;
  /** Transfers places owned by another folder to this one (default false: `CONFLICT`). The other folder must not be written any more. */
  readonly ownPlaces?: boolean | undefined;
}

/** Options of a new array. */
export interface ArrayOptions extends ChunkSettings, ReserveOptions, WriteOptions {
  /** As numpy spells it (`<f8`, `int32`, `[["a","<i4"],["v","<f4",[3]]]`), or parsed. */
  readonly dtype: JsonValue | DType;
  /** Number of rows, followed by the shape of a row; default: no rows of single values. Rows are filled with the default value. */
  readonly shape?: number | readonly number[] | undefined;
  /** Default value; default zero, empty, NaT. In bcolz and Bloscpack dates are zero too, 1970. */
  readonly fillValue?: JsonValue | undefined;
  /** User attributes. */
  readonly attrs?: JsonObjectInput | undefined;
  /** `blz`: stores each field of a struct in a folder of its own (default true), so that it can be read without the others. */
  readonly columns?: boolean | undefined;
  /** `blz`: every writer also keeps the folder as a Zarr v3 array; with columns, as a group (default false). */
  readonly zarr?: boolean | undefined;
  /**
   * `blz`: folders (`file:`, `s3:`, `gs:`, `az:`; in Node.js also paths) that hold superchunks besides the array's own folder, with or without names. Readers must permit them
   * with `allow`; here they are permitted.
   */
  readonly places?: readonly (string | StoredPlace)[] | undefined;
  /** `blz` with `places`: which place a new superchunk goes to (default `round`). */
  readonly placeBy?: PlaceRule | undefined;
  /** Replaces an existing archive (default false: `CONFLICT`). */
  readonly overwrite?: boolean | undefined;
}

/**
 * Creates an array at a key of a store (`""` is its root) and opens it for writing. Creation is atomic: the array exists,
 * empty, or not at all.
 * @throws CONFLICT if something is there already; BAD_ARGUMENT, LIMIT, UNSUPPORTED; NO_SPACE, IO
 */
export async function createArray(
  store: WritableStore,
  path: string,
  options: ArrayOptions,
): Promise<WritableArray> {
  const { settings, rows } = settleArray(options, store.describe(path));
  assertMirror(store, path, settings, options);
  refuseZarrPlaces(store, path, settings);
  const lock = await options.lock?.();
  const id = newArrayId();
  let isBegun = false;
  let placed = store;
  try {
    if (options.overwrite === true) await refusePlaced(store, path);
    if (options.overwrite === true) await options.mirror?.clear(store, path);
    await clearPlace(store, path, options.overwrite === true, viewNames(settings));
    await assertColumnsApart(store, path, settings);
    if (settings.zarr) await options.mirror?.check({ store, path }, settings);
    const attributesKey = joinKey(path, "meta/attributes");
    const attributes = encodeJson(options.attrs ?? {});
    const attrs = parseJson(attributes, store.describe(attributesKey)) as JsonObject;
    isBegun = true;
    await store.put(attributesKey, attributes, { durable: true });
    const layout: StoredLayout = { ...EMPTY_LAYOUT, generation: 1, id, storage: storageOf(settings) };
    const array = { path, id, spans: [] };
    const named = new Set(settings.placing.places.map(({ name }) => name));
    placed = await openAllPlaces(store, array, settings.placing, { ...options, named });
    for (const place of settings.placing.places)
      if (placed instanceof PlacedStore) await putMark(placed, place);
    const sizes = encodeSizes({ shape: [0, ...settings.rowShape], nbytes: 0, cbytes: 0 }, layout);
    await store.put(joinKey(path, "meta/sizes"), sizes, { durable: true, ifAbsent: true });
    const root = new ArrayRoot(placed, path, sizes);
    const writer = new ArrayWriter(root, settings, { layout, rows: 0, cbytes: 0 }, options);
    await commitStorage(writer);
    await writer.prepare();
    if (settings.zarr) writer.files.mirror = await options.mirror?.open(writer, attrs);
    if (rows > 0) {
      await grow(writer, rows, { signal: options.signal });
      await writer.commit();
    }
    const closing = closingLock(lock, () => root.placed?.closePlaces());
    const { mirror, openPlace, placeAddress } = options;
    return new WritableArray(writer, attrs, { lock: closing, mirror, openPlace, placeAddress });
  } catch (error) {
    // The first error says what failed.
    if (isBegun) await removeNew(store, path, placed, { ...options, id }).catch(() => undefined);
    if (placed instanceof PlacedStore) await placed.closePlaces();
    await lock?.release();
    throw error;
  }
}

/** The settings of a new array at `path`, and its rows. Throws `BAD_ARGUMENT`, `LIMIT`, `UNSUPPORTED`. */
export function settleArray(
  options: ArrayOptions,
  path: string,
): { readonly settings: ArraySettings; readonly rows: number } {
  const [rows = 0, ...rowShape] = givenShape(options.shape ?? 0);
  const dtype = givenDType(options.dtype);
  const hasColumns = dtype.kind === "struct" && options.columns !== false;
  for (const { name } of hasColumns ? dtype.fields : []) {
    const reason = whyUnsafe(name);
    if (reason === undefined) continue;
    const summary = `the name of column ${JSON.stringify(name)} ${reason}, and columns are folders; rename it, or keep all columns in one folder (--no-columns, columns: false)`;
    throw new SuperchunkError("BAD_ARGUMENT", summary, { path, field: "dtype" });
  }
  const base = {
    dtype,
    rowShape,
    hasColumns,
    dflt: options.fillValue ?? null,
    revision: 0,
    zarr: options.zarr === true,
    placing: checkPlacing({
      places: givenPlaces(options.places ?? [], [], options.placeAddress),
      rule: options.placeBy ?? NO_PLACES.rule,
    }),
  };
  const expected = options.expectedLength === undefined && rows > 0 ? { expectedLength: rows } : {};
  return { settings: settleSettings(base, { ...options, ...expected }), rows };
}

/** Names of what makes an array a Zarr array too, which is checked by itself. */
function viewNames({ zarr, dtype }: ArraySettings): readonly string[] {
  if (!zarr) return [];
  return ["zarr.json", "c", ...(dtype.kind === "struct" ? dtype.fields.map(({ name }) => name) : [])];
}

/** Removes an array that could not be filled, with its Zarr view and what is in its places; not one with another id. */
export async function removeNew(
  store: WritableStore,
  path: string,
  placed: WritableStore,
  { mirror, id }: Pick<WriteOptions, "mirror"> & { readonly id?: string },
): Promise<void> {
  const sizes = await store.get(joinKey(path, "meta/sizes"));
  if (sizes !== undefined && !new TextDecoder().decode(sizes).includes(id ?? "")) return;
  await mirror?.clear(store, path);
  if (placed instanceof PlacedStore) for (const name of placed.names) await clearPlaceOf(placed, name);
  await clearPlace(store, path, true);
  for (const name of ["data", "meta/attributes", "meta"]) await store.delete(joinKey(path, name));
}

/**
 * Opens the array at a key of a store for writing, and repairs what an interrupted writer left. An array that another program
 * wrote as the BLZ document describes is adopted: one commit lists its superchunks. [FG-11]
 * @throws NOT_FOUND, CONFLICT (another writer holds the lock), READ_ONLY (the store cannot write, or the array has unknown
 * write features), UNSUPPORTED (an archive of another kind, or one that cannot be adopted as it is), and the codes of damage
 */
export async function openWritable(
  store: ReadableStore,
  path: string,
  options: WriteOptions = {},
): Promise<WritableArray> {
  if (!isWritable(store)) throw readOnly(store, path, "the store cannot write");
  let root: ArrayRoot | undefined;
  const lock = closingLock(await options.lock?.(), () => root?.placed?.closePlaces());
  try {
    await refuseSymbolic(store, path, { signal: options.signal });
    const { settings, committed, sizes, isForeign } = await readWritable(store, path, options);
    const { mirror, openPlace, placeAddress, readOnly = false } = options;
    if (!readOnly || options.modify === "in-place") assertMirror(store, path, settings, options);
    const attrs = (await readAttributes(store, joinKey(path, "meta/attributes"), options)) ?? {};
    const { layout } = committed;
    const placed = await openOwnPlaces(store, { path, layout }, settings.placing, options);
    root = new ArrayRoot(placed, path, sizes);
    const writer = new ArrayWriter(root, settings, committed, options);
    if (options.modify === "in-place") await refuseInPlace(store, path, settings);
    if (!readOnly) {
      if (isForeign) await writer.recommit({});
      await recover(writer);
      if (settings.zarr) writer.files.mirror = await mirror?.open(writer, attrs);
    }
    return new WritableArray(writer, attrs, { lock, isReadOnly: readOnly, mirror, openPlace, placeAddress });
  } catch (error) {
    await lock.release();
    throw error;
  }
}

/** An array as its next writer finds it. */
interface WritableState extends Adoption {
  /** True if {@link planAdoption} made the state from another program's array; it is not committed. */
  readonly isForeign: boolean;
}

/** Reads the state that a writer starts from; writes nothing. Throws like {@link openWritable}. */
export async function readWritable(
  store: ReadableStore,
  path: string,
  { signal }: Pick<WriteOptions, "signal"> = {},
): Promise<WritableState> {
  let generation: Generation;
  try {
    generation = await readGeneration(store, path, undefined, { signal, metadata: true });
  } catch (error) {
    if (!isSuperchunkError(error, "NOT_FOUND")) throw error;
    return { ...(await planAdoption(store, path, { signal })), isForeign: true };
  }
  const { layout, folder, storage, sizes } = generation;
  const unknown = unknownWriteFeatures(storage);
  if (unknown.length > 0)
    throw readOnly(
      store,
      path,
      `the array has the features ${unknown.join(", ")}, which this version of superchunk cannot write; it can be read. Look for a newer superchunk`,
    );
  const { cbytes: cbytesStored = 0 } = folder.metadata["sizes"] as JsonObject;
  const cbytes = Number(cbytesStored);
  const committed = { layout, rows: folder.heldRows, cbytes };
  const storedIn = layout.storage === undefined ? "meta/storage" : "meta/sizes";
  const settings = storedSettings(generation, store.describe(joinKey(path, storedIn)));
  return { settings, committed, sizes, isForeign: false };
}

/** The settings that a generation was written with, stored at `path`. */
function storedSettings({ storage, folder, hasColumns }: Generation, path: string): ArraySettings {
  const { revision = 0 } = storage.raw["superchunk"] as JsonObject;
  return settleStored(
    {
      dtype: folder.dtype,
      rowShape: folder.shape.slice(1),
      hasColumns,
      dflt: storage.dflt,
      revision: Number(revision),
      zarr: storage.superchunk?.writeFeatures.includes(ZARR_FEATURE) === true,
      shared: storage.superchunk?.writeFeatures.includes(SHARED_FEATURE) === true,
      placing: parsePlaces(storage.raw, path),
    },
    storedOptions(storage),
    path,
  );
}

/**
 * Refuses an array whose files are also shards of a Zarr array, which would change with them. Throws `CONFLICT` for a linked
 * one, `UNSUPPORTED` for one created so.
 */
async function refuseInPlace(
  store: ReadableStore,
  path: string,
  { zarr }: Pick<ArraySettings, "zarr">,
): Promise<void> {
  if (zarr) throw neverChanging(store, path);
  const key = joinKey(path, LINK_RECORD);
  if ((await store.stat(key)) === undefined) return;
  throw new SuperchunkError(
    "CONFLICT",
    'the array is linked to Zarr, and a change of its files in place would make the index of the shards wrong. Run "superchunk unlink" first, or do not change it in place',
    { path: store.describe(key), field: "modify" },
  );
}

/** A lock that closes something else before it is released. */
export function closingLock(
  lock: WriterLock | undefined,
  close: () => Promise<void> | undefined,
): WriterLock {
  return {
    async release() {
      await close();
      await lock?.release();
    },
  };
}

/** Refuses to overwrite an array whose superchunks in other places would be left without a name. Throws `UNSUPPORTED`. */
async function refusePlaced(store: WritableStore, path: string): Promise<void> {
  const key = joinKey(path, "meta/storage");
  const bytes = await store.get(key);
  if (bytes === undefined) return;
  let places: readonly StoredPlace[];
  try {
    ({ places } = parsePlaces(objectOf(parseJson(bytes, store.describe(key))), store.describe(key)));
  } catch (error) {
    if (isSuperchunkError(error)) return; // a damaged array can be overwritten
    throw error;
  }
  if (places.length === 0) return;
  throw new SuperchunkError(
    "UNSUPPORTED",
    `the array that is there has the places ${places.map(({ name }) => `"${name}"`).join(", ")}; an array with places is not overwritten, because superchunks would stay there. Move them back to data, and remove the places`,
    { path: store.describe(path), field: "overwrite" },
  );
}

/** Throws `UNSUPPORTED` if the writer could not keep an array with the Zarr feature a Zarr array. */
function assertMirror(
  store: ReadableStore,
  path: string,
  { zarr, reserve }: ArraySettings,
  { mirror, modify }: WriteOptions,
): void {
  if (!zarr || (mirror !== undefined && modify !== "in-place" && reserve === undefined)) return;
  if (mirror !== undefined) throw neverChanging(store, path);
  throw new SuperchunkError(
    "UNSUPPORTED",
    "the folder of the array is a Zarr array as well, which only a writer on a file system can keep up to date; open it by its path, with the functions of superchunk/node",
    { path: store.describe(path), field: "zarr" },
  );
}

function neverChanging(store: ReadableStore, path: string): SuperchunkError {
  return new SuperchunkError(
    "UNSUPPORTED",
    "the folder of the array is a Zarr array as well, whose shards are its files. A Zarr reader that has read the index of a shard reads where it leads, so no byte of it may ever change: it takes neither a reserve nor changes in place. Leave these out, or unlink it first",
    { path: store.describe(path), field: "zarr" },
  );
}

function readOnly(store: ReadableStore, path: string, summary: string): SuperchunkError {
  return new SuperchunkError("READ_ONLY", summary, { path: store.describe(path) });
}

// What a writer does before it writes: finishes what an interrupted one began, and removes what it left. Idempotent.
// @see FORMAT.md [FG-09]

/** Restores the folder and the places to the last commit. Returns the removed objects, as messages name them. */
export async function recover(writer: ArrayWriter): Promise<readonly string[]> {
  const { store, placed } = writer.root;
  await writer.finishChanges();
  await commitStorage(writer);
  const { kept } = liveReservations(writer.committed.layout.writers, Date.now());
  const isAlone = kept.every(({ count }) => count === 0);
  const data = { store, key: writer.root.key("data") };
  const superfluous = await findSuperfluous(writer, data, undefined, isAlone);
  for (const name of placed?.names ?? []) {
    const folder = placed?.folderIn(name);
    if (folder !== undefined && isWritable(folder.store))
      superfluous.push(
        ...(await findSuperfluous(writer, { store: folder.store, key: folder.key }, name, isAlone)),
      );
  }
  const meta = writer.root.key("meta");
  await store.removeLeftovers?.(meta);
  // Of the index, which an append also writes. Those who append together may be doing that now.
  if (isAlone) await store.removeLeftovers?.(writer.root.path, { names: new Set([INDEX_NAME]) });
  for (const name of await namesIn(store, meta, "object"))
    if (name.startsWith(JOURNAL_PREFIX)) superfluous.push({ store, key: joinKey(meta, name) });
  if (superfluous.length === 0) return [];
  // A writer that is wrongly believed dead must not commit what is removed now.
  await writer.recommit({ writers: kept });
  for (const each of superfluous) await each.store.delete(each.key);
  await store.sync?.([writer.root.key("meta/sizes")]);
  return superfluous.map((each) => each.store.describe(each.key));
}

/** An object that no commit names. */
interface Superfluous {
  readonly store: WritableStore;
  readonly key: string;
}

/** Objects in a place's superchunk folder that are not named there. */
async function findSuperfluous(
  writer: ArrayWriter,
  { store, key: data }: Superfluous,
  place: string | undefined,
  isAlone: boolean,
): Promise<Superfluous[]> {
  const front = writer.root.key("data");
  const folders = new Set(writer.columns.map(({ folder }) => `${data}${folder.slice(front.length)}`));
  const known = namedFiles(writer, place);
  const found: Superfluous[] = [];
  const home = writer.root.placed?.home;
  // The array's store looks for a superchunk in the place where it is named to be.
  const own = place === undefined && home !== undefined && isWritable(home) ? home : store;
  const below = (await namesIn(own, data, "folder")).map((name) => joinKey(data, name));
  for (const folder of [data, ...below]) {
    // Leftovers of puts belong to writers that append together, if there are any.
    if (isAlone) await own.removeLeftovers?.(folder);
    for (const name of await namesIn(own, folder, "object")) {
      // Beside superchunks, a place has the mark of the array.
      if (place !== undefined && parseSuperchunkName(name) === undefined) continue;
      if (!folders.has(folder) || !known.has(name)) found.push({ store: own, key: joinKey(folder, name) });
    }
  }
  return found;
}

/** The names of a folder's entries of one kind; none if the store cannot list. */
async function namesIn(store: WritableStore, folder: string, wanted: ListEntry["kind"]): Promise<string[]> {
  const names: string[] = [];
  try {
    for await (const { name, kind } of store.list(folder)) if (kind === wanted) names.push(name);
  } catch (error) {
    if (!isSuperchunkError(error, "UNSUPPORTED")) throw error;
  }
  return names;
}

/** The names of superchunks in a place that the layout counts or writers have reserved. */
function namedFiles(writer: ArrayWriter, place: string | undefined): { has(name: string): boolean } {
  const { runs, patches, writers } = writer.committed.layout;
  const { placed } = writer.root;
  const { kept } = liveReservations(writers, Date.now());
  const isIn = (
    number: number,
    spans: readonly { readonly first: number; readonly count: number }[],
  ): boolean => spans.some(({ first, count }) => number >= first && number < first + count);
  const names = new Set<string>();
  for (const { number } of patches) names.add(superchunkName(number));
  return {
    has(name) {
      const number = parseSuperchunkName(name) ?? Number.NaN;
      // Only a writer's commit says in which place a reserved number is.
      if (isIn(number, kept)) return true;
      return placed?.table.of(number) === place && (names.has(name) || isIn(number, runs));
    },
  };
}
