/**
 * Brings an array in order that another program broke: finds the chunks that are whole, counts anew, and says what it did
 * and what is gone. Nothing is made up: rows end where the first chunk is missing.
 */
import { decode } from "../../codec/index.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { parseSizes, parseStorage, type StoredStorage } from "../../format/folder.ts";
import { parseJson } from "../../format/json.ts";
import { FIRST_LOOSE, parseLayout, type StoredLayout } from "../../format/layout.ts";
import { parseSuperchunkName, superchunkName } from "../../format/naming.ts";
import type { ChecksumName, JsonObject } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore, WritableStore } from "../../store/types.ts";
import { arrayJournalKey, readArrayJournal } from "../array-journal.ts";
import { encodeJson, ZARR_FEATURE } from "../generation.ts";
import { withWrites } from "../journal.ts";
import { LayoutIndex } from "../layout-files.ts";
import { elementsOf } from "../selection.ts";
import type { LongOptions } from "../types.ts";
import { newArrayId } from "./array-id.ts";
import { ArrayWriter } from "./array-writer.ts";
import { type ColumnLayout, layOutColumns } from "./columns.ts";
import { settleNames } from "./compact.ts";
import { createArray, type WriterLock } from "./create.ts";
import type { Reserve } from "./reserve.ts";
import { ArrayRoot } from "./root.ts";
import { readChunk, type Salvaged, salvage } from "./salvage.ts";
import { type ArraySettings, settleSettings, storageOf } from "./settings.ts";
import { commitStorage } from "./storage-commit.ts";
import type { StoredChunk } from "./superchunk-file.ts";

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

/** What is known of the broken array. */
interface Broken {
  readonly storage: StoredStorage;
  readonly settings: ArraySettings;
  readonly columns: readonly ColumnLayout[];
  readonly layout: StoredLayout | undefined;
  readonly rows: number | undefined;
  readonly attrs: JsonObject;
}

/** A chunk that is whole, of each column. */
interface Found {
  readonly key: string;
  readonly offset: number;
  readonly file: Salvaged;
  readonly nbytes: number;
}

/**
 * Repairs the array at a key of a store, or says what that would do.
 *
 * @throws NOT_FOUND; INCOMPLETE and the codes of damage where `meta/storage` cannot be read, without which nothing can;
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
    const shown = await withChanges(store, path, broken, problems);
    const found = await findChunks(shown, broken, problems);
    const { chunklen } = broken.settings;
    const rows = countRows(found, broken);
    const lost: string[] = [];
    if (broken.rows !== undefined && rows < broken.rows)
      lost.push(`rows ${rows} to ${broken.rows - 1}: no whole chunk was found for row ${rows}`);
    const chunks = Math.ceil(rows / chunklen);
    const superfluous = found.reduce((most, list) => Math.max(most, list.length), 0) - chunks;
    if (superfluous > 0)
      lost.push(`${superfluous} chunks behind row ${rows}, which not all columns have or which do not count`);
    if (options.dryRun === true) return { rowsBefore: broken.rows, rows, problems, lost };
    if (options.into === undefined) await repairInPlace(store, shown, path, broken, found, rows, options);
    else await repairInto(shown, options.into, broken, found, rows, options);
    return { rowsBefore: broken.rows, rows, problems, lost };
  } finally {
    await lock?.release();
  }
}

/** The store as the array's journal says that it is, where a change in place was interrupted. */
async function withChanges(
  store: ReadableStore,
  path: string,
  { layout, columns }: Broken,
  problems: string[],
): Promise<ReadableStore> {
  if (layout?.journal === undefined) return store;
  const shown = store.describe(arrayJournalKey(path, layout.journal));
  try {
    const folders = columns.map(({ folder }) => folder);
    return await withWrites(store, await readArrayJournal(store, path, layout, folders), shown);
  } catch (error) {
    if (!isSuperchunkError(error)) throw error;
    problems.push(error.message);
    return store;
  }
}

async function examine(store: ReadableStore, path: string, problems: string[]): Promise<Broken> {
  const get = (name: string): Promise<Uint8Array | undefined> => store.get(joinKey(path, "meta", name));
  const sizesPath = store.describe(joinKey(path, "meta/sizes"));
  const storagePath = store.describe(joinKey(path, "meta/storage"));
  const [sizesBytes, storageBytes, attrsBytes] = [
    await get("sizes"),
    await get("storage"),
    await get("attributes"),
  ];
  let shape: readonly number[] | undefined;
  let layout: StoredLayout | undefined;
  try {
    if (sizesBytes === undefined) problems.push(`${sizesPath} is missing`);
    else {
      const sizes = parseSizes(sizesBytes, sizesPath);
      shape = sizes.shape;
      layout = parseLayout(sizes.raw, sizesPath);
    }
  } catch (error) {
    if (!isSuperchunkError(error)) throw error;
    problems.push(error.message);
  }
  const text = layout?.storage === undefined ? storageBytes : encodeJson(layout.storage);
  if (text === undefined) {
    const exists = sizesBytes !== undefined;
    throw new SuperchunkError(
      exists ? "INCOMPLETE" : "NOT_FOUND",
      exists ? "the file is missing, without which nothing tells what the chunks hold" : "there is no array",
      { path: storagePath },
    );
  }
  const storage = parseStorage(text, storagePath);
  const { dtype, chunklen } = storage;
  const declared = storage.raw["superchunk"] as JsonObject | undefined;
  const hasColumns =
    dtype.kind === "struct" && declared?.["columns"] !== false && !(await isPlain(store, path));
  let rowShape = shape?.slice(1);
  const checksum = await firstFile(
    store,
    path,
    dtype.kind === "struct" && hasColumns ? dtype.fields[0]?.name : undefined,
  );
  rowShape ??= checksum === undefined ? [] : rowShapeOf(checksum.chunkSize, chunklen * dtype.itemSize);
  const settings = settleSettings(
    {
      dtype,
      rowShape,
      hasColumns,
      dflt: storage.dflt,
      revision: (layout?.revision ?? 0) + 1,
      zarr: storage.superchunk?.writeFeatures.includes(ZARR_FEATURE) === true,
    },
    {
      cparams: {
        cname: storage.cparams.cname as "lz4" | undefined,
        clevel: storage.cparams.clevel,
        shuffle: storage.cparams.shuffle,
      },
      chunklen,
      superchunklen: storage.superchunk?.superchunklen,
      checksum: (declared?.["checksum"] as ChecksumName | undefined) ?? checksum?.checksum ?? "crc32",
      expectedlen: storage.expectedlen,
      reserve: declared?.["reserve"] as Reserve | undefined,
    },
  );
  const columns = layOutColumns(path, { dtype, rowShape, hasColumns });
  return { storage, settings, columns, layout, rows: shape?.[0], attrs: readAttrs(attrsBytes, problems) };
}

function readAttrs(bytes: Uint8Array | undefined, problems: string[]): JsonObject {
  if (bytes === undefined) return {};
  try {
    const value = parseJson(bytes, "meta/attributes");
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as JsonObject;
    problems.push("meta/attributes is no JSON object");
  } catch (error) {
    if (!isSuperchunkError(error)) throw error;
    problems.push(error.message);
  }
  return {};
}

/** A shape that the bytes of a chunk allow, where no metadata tell it. */
function rowShapeOf(chunkBytes: number, scalarBytes: number): number[] {
  const items = chunkBytes / scalarBytes;
  return Number.isInteger(items) && items > 1 ? [items] : [];
}

async function isPlain(store: ReadableStore, path: string): Promise<boolean> {
  for await (const { name } of store.list(joinKey(path, "data")))
    if (parseSuperchunkName(name) !== undefined) return true;
  return false;
}

async function firstFile(
  store: ReadableStore,
  path: string,
  column: string | undefined,
): Promise<Salvaged["header"] | undefined> {
  const folder = joinKey(path, "data", column ?? "");
  for (const number of await numbersIn(store, folder)) {
    const found = await salvage(store, joinKey(folder, superchunkName(number)), Number.MAX_SAFE_INTEGER);
    if (found !== undefined) return found.header;
  }
  return undefined;
}

async function numbersIn(store: ReadableStore, folder: string): Promise<number[]> {
  const numbers: number[] = [];
  for await (const { name, kind } of store.list(folder)) {
    const number = parseSuperchunkName(name);
    if (number !== undefined && kind === "object") numbers.push(number);
  }
  return numbers.sort((a, b) => a - b);
}

/** For each column the chunks that are whole, from the first on without a gap. */
async function findChunks(store: ReadableStore, broken: Broken, problems: string[]): Promise<Found[][]> {
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
    if (found.some((chunk, k) => k < found.length - 1 && chunk.nbytes !== chunkBytes)) break;
    if (file.problems.length > 0) break;
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
function countRows(found: readonly (readonly Found[])[], { columns, settings, rows }: Broken): number {
  let least = rows ?? Number.MAX_SAFE_INTEGER;
  columns.forEach(({ rowBytes }, i) => {
    if (rowBytes === 0) return;
    const bytes = (found[i] ?? []).reduce((sum, chunk) => sum + chunk.nbytes, 0);
    least = Math.min(least, Math.floor(bytes / rowBytes));
  });
  return least === Number.MAX_SAFE_INTEGER || settings.chunklen === 0 ? 0 : least;
}

async function repairInto(
  store: ReadableStore,
  into: { readonly store: WritableStore; readonly path: string },
  broken: Broken,
  found: readonly (readonly Found[])[],
  rows: number,
  options: RepairOptions,
): Promise<void> {
  const { settings, attrs } = broken;
  const {
    cname,
    clevel,
    shuffle,
    chunklen,
    superchunklen,
    checksum,
    expectedlen,
    reserve,
    dflt,
    dtype,
    rowShape,
  } = settings;
  const target = await createArray(into.store, into.path, {
    dtype,
    shape: [0, ...rowShape],
    columns: settings.hasColumns,
    cparams: { cname, clevel, shuffle },
    chunklen,
    superchunklen,
    checksum,
    expectedlen,
    reserve,
    dflt,
    attrs,
    lock: options.lock,
  });
  await target.fill((writer) => copyRows(store, writer, broken, found, rows, options));
  await target.close();
}

/** All chunks are copied into new superchunks, and one commit makes them the array. */
async function repairInPlace(
  store: WritableStore,
  shown: ReadableStore,
  path: string,
  broken: Broken,
  found: readonly (readonly Found[])[],
  rows: number,
  options: RepairOptions,
): Promise<void> {
  const { settings, columns, rows: rowsBefore = 0 } = broken;
  const numbers = new Set<number>();
  for (const { folder } of columns) for (const number of await numbersIn(store, folder)) numbers.add(number);
  const highest = [...numbers].reduce((most, number) => Math.max(most, number), 0);
  const plain = [...numbers]
    .filter((number) => number < FIRST_LOOSE)
    .reduce((most, number) => Math.max(most, number), 0);
  const { journal: _journal, isMoved: _isMoved, ...unchanged } = broken.layout ?? {};
  const before: StoredLayout = {
    id: newArrayId(),
    generation: 0,
    epoch: 0,
    edition: 0,
    ...unchanged,
    revision: settings.revision,
    next: Math.max(FIRST_LOOSE, highest + 1, broken.layout?.next ?? 0),
    plain: Math.max(plain, broken.layout?.plain ?? 0),
    runs: [],
    patches: [],
  };
  const root = new ArrayRoot(store, path, await store.get(joinKey(path, "meta/sizes")));
  const writer = new ArrayWriter(root, settings, { layout: before, rows: 0, cbytes: 0 });
  writer.edition = before.edition + 1;
  await copyRows(shown, writer, broken, found, rows, options);
  writer.isDirty = true;
  await writer.commit({ storage: storageOf(settings) });
  await commitStorage(writer);
  writer.removeNumbers([...numbers].filter((number) => !isNamed(writer.committed.layout, number)));
  await writer.root.settled();
  await settleNames(writer);
  await writer.root.settled();
  options.onProgress?.({ done: rows, total: Math.max(rows, rowsBefore), label: "rows" });
}

function isNamed({ runs }: StoredLayout, number: number): boolean {
  return runs.some(({ first, count }) => number >= first && number < first + count);
}

/** Appends the rows that were found; whole chunks as they are. */
async function copyRows(
  store: ReadableStore,
  writer: ArrayWriter,
  broken: Broken,
  found: readonly (readonly Found[])[],
  rows: number,
  options: LongOptions,
): Promise<void> {
  const { chunklen } = broken.settings;
  await writer.prepare();
  if (elementsOf(broken.settings.rowShape) === 0) writer.appendNothing(rows);
  for (let index = 0; index * chunklen < rows && writer.rowBytes > 0; index++) {
    options.signal?.throwIfAborted();
    const held = Math.min(chunklen, rows - index * chunklen);
    const chunks: StoredChunk[] = [];
    for (const list of found) {
      const chunk = list[index];
      if (chunk !== undefined) chunks.push(await reread(store, chunk));
    }
    const isWhole =
      held === chunklen &&
      chunks.every(({ nbytes }, i) => nbytes === chunklen * (broken.columns[i]?.rowBytes ?? 0));
    if (isWhole) await writer.addChunk(chunks.map(({ bytes, nbytes }) => writer.withDigest(bytes, nbytes)));
    else {
      writer.buffer.load(await Promise.all(chunks.map(({ bytes }) => decode(bytes))), held);
      writer.isDirty = true;
    }
    options.onProgress?.({ done: index * chunklen + held, total: rows, label: "rows" });
  }
}

async function reread(store: ReadableStore, { key, offset, file, nbytes }: Found): Promise<StoredChunk> {
  const size = (await store.stat(key))?.size ?? 0;
  const chunk = await readChunk(store, key, offset, size, file.header, nbytes);
  if (chunk !== undefined) return chunk;
  throw new SuperchunkError("STALE", "the file changed while it was repaired; run it again", {
    path: store.describe(key),
  });
}
