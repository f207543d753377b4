/**
 * Rewrites the intact parts of a damaged array of superchunks as a new array, or in place with one commit. Replaced files are
 * set aside before that commit, and no byte of them is removed before the result was read back.
 */

import { showGeneration } from "../../archive/kinds/live-array.ts";
import type { ArrayArchive, HolePolicy, LongOptions } from "../../archive/kinds/types.ts";
import { arrayJournalKey, linkOrCopy } from "../../archive/places/journal.ts";
import { encodeJson, readGeneration, ZARR_FEATURE } from "../../archive/places/layout-files.ts";
import { numbersIn } from "../../archive/salvage/columns.ts";
import { countRows, mapSpans } from "../../archive/salvage/holes.ts";
import type { KnownArray } from "../../archive/salvage/known.ts";
import type { Survey } from "../../archive/salvage/survey.ts";
import { elementsOf } from "../../bytes/arrays.ts";
import { decode } from "../../codec/index.ts";
import { SuperchunkError } from "../../errors.ts";
import {
  EMPTY_LAYOUT,
  FIRST_LOOSE,
  hasNumber,
  mergeSpans,
  type RowSpan,
  type StoredLayout,
} from "../../format/layout.ts";
import { superchunkName } from "../../format/naming.ts";
import { PlacedStore } from "../../places/placed-store.ts";
import { joinKey } from "../../store/key.ts";
import { removeTree } from "../../store/tree.ts";
import type { WritableStore } from "../../store/types.ts";
import { ArrayWriter } from "../array/array-writer.ts";
import { commitStorage } from "../array/changes.ts";
import { settleNames, tidy } from "../array/compact.ts";
import { removeNew, type WriteOptions } from "../array/create.ts";
import { ArrayRoot, newArrayId } from "../array/root.ts";
import type { StoredChunk } from "../array/superchunk-file.ts";
import { clearPlace } from "../layout/clear-place.ts";
import { type ArraySettings, settleStored, storageOf, storedOptions } from "../layout/settings.ts";

export type ArraySurvey = Survey & { readonly known: KnownArray };

/** How to handle holes and replaced files. */
interface RebuildOptions extends LongOptions {
  readonly policy: HolePolicy;
  /** Removes set-aside files once the result is durable and was read back (default false). */
  readonly discard?: boolean | undefined;
}

/** The settings that the array was written with, as far as they are known. */
function knownSettings({ known, columns, store }: ArraySurvey, path: string): ArraySettings {
  const { dtype, rowShape, dflt, layout, storage, chunklen } = known;
  const stored = storage === undefined ? {} : storedOptions(storage);
  const [first] = columns;
  const isKnown = first?.found.slots.some(({ place }) => place !== undefined) === true;
  return settleStored(
    {
      dtype,
      rowShape,
      hasColumns: first?.name !== undefined,
      dflt,
      revision: (layout?.revision ?? 0) + 1,
      zarr: storage?.superchunk?.writeFeatures.includes(ZARR_FEATURE) === true,
    },
    {
      ...(isKnown ? { compressor: first.encoding } : {}),
      ...stored,
      chunkLength: chunklen,
      checksum: stored.checksum ?? (isKnown ? first.checksum : "crc32"),
    },
    store.describe(joinKey(path, "meta/storage")),
  );
}

/** Rows of the result that are filled: by this repair, and by an earlier one. */
function filledRows({ holes, known }: ArraySurvey, kept: readonly RowSpan[], policy: HolePolicy): RowSpan[] {
  const filled = [...(known.layout?.filled ?? []), ...(policy === "fill" ? holes : [])];
  return mapSpans(mergeSpans(filled), kept);
}

/**
 * Copies everything that stays into an array at an empty place. Its first commit, after every row is there, makes it an array:
 * an interrupted copy does not open. Resolves with the filled rows.
 */
export async function repairInto(
  survey: ArraySurvey,
  path: string,
  into: { readonly store: WritableStore; readonly path: string },
  options: RebuildOptions & Pick<WriteOptions, "lock">,
): Promise<readonly RowSpan[]> {
  const settings = { ...knownSettings(survey, path), revision: 0, zarr: false };
  const lock = await options.lock?.();
  try {
    await clearPlace(into.store, into.path, undefined);
    const root = new ArrayRoot(into.store, into.path, undefined);
    const layout = { ...EMPTY_LAYOUT, id: newArrayId() };
    const writer = new ArrayWriter(root, settings, { layout, rows: 0, cbytes: 0 });
    try {
      await copyRows(writer, survey, options);
      const { attrs } = survey.known;
      await into.store.put(root.key("meta/attributes"), encodeJson(attrs), { durable: true });
      writer.filled = filledRows(survey, survey.kept(options.policy), options.policy);
      writer.isDirty = true;
      await writer.commit({ storage: storageOf(settings) });
      await commitStorage(writer);
    } catch (error) {
      await writer.rollBack().catch(() => undefined); // only the first error is thrown
      await root.settled().catch(() => undefined);
      await removeNew(into.store, into.path, into.store, { id: layout.id }).catch(() => undefined);
      throw error;
    }
    await tidy(writer);
    await root.settled();
    return writer.filled;
  } finally {
    await lock?.release();
  }
}

/**
 * Copies everything that stays into new superchunks; one commit makes them the array. Resolves with the filled rows, and with
 * the key of the folder that received the replaced files.
 */
export async function repairInPlace(
  store: WritableStore,
  survey: ArraySurvey,
  path: string,
  options: RebuildOptions,
): Promise<{ readonly filled: readonly RowSpan[]; readonly aside: string | undefined }> {
  const { known } = survey;
  const settings = { ...knownSettings(survey, path), placing: known.placing };
  const folders = known.columns.map(({ folder }) => folder);
  const numbers = new Set<number>();
  const places = [undefined, ...(store instanceof PlacedStore ? store.names : [])];
  for (const folder of folders)
    for (const place of places) {
      const own = store instanceof PlacedStore ? store.at(place, folder) : { store, key: folder };
      for (const number of await numbersIn(own.store, own.key)) numbers.add(number);
    }
  const highest = [...numbers].reduce((most, number) => Math.max(most, number), 0);
  const plain = [...numbers]
    .filter((number) => number < FIRST_LOOSE)
    .reduce((most, number) => Math.max(most, number), 0);
  const { journal: _journal, isMoved: _isMoved, ...unchanged } = known.layout ?? {};
  const before: StoredLayout = {
    id: newArrayId(),
    ...EMPTY_LAYOUT,
    ...unchanged,
    revision: settings.revision,
    next: Math.max(FIRST_LOOSE, highest + 1, known.layout?.next ?? 0),
    plain: Math.max(plain, known.layout?.plain ?? 0),
    runs: [],
    patches: [],
  };
  const root = new ArrayRoot(store, path, await store.get(joinKey(path, "meta/sizes")));
  const writer = new ArrayWriter(root, settings, { layout: before, rows: 0, cbytes: 0 });
  writer.edition = before.edition + 1;
  await copyRows(writer, survey, options);
  writer.filled = filledRows(survey, survey.kept(options.policy), options.policy);
  writer.isDirty = true;
  // From the commit on, the next writer treats the old superchunks as leftovers, so they get their second names before.
  const replaced = folders.flatMap((folder) =>
    [...numbers].map((number) => joinKey(folder, superchunkName(number))),
  );
  const journal = known.layout?.journal;
  if (journal !== undefined) replaced.push(arrayJournalKey(path, journal));
  const meta = ["sizes", "storage", ...(known.damagedAttributes === undefined ? [] : ["attributes"])];
  const aside = await setAside(store, path, [...replaced, ...meta.map((name) => root.key("meta", name))]);
  await writer.commit({ storage: storageOf(settings) });
  await commitStorage(writer);
  if (known.damagedAttributes !== undefined)
    await store.put(root.key("meta/attributes"), encodeJson(known.attrs), { durable: true });
  await checkRebuilt(store, path, aside);
  const unused = [...numbers].filter((number) => !hasNumber(writer.committed.layout, number));
  writer.files.remove(unused, writer.columns);
  await writer.root.settled();
  await settleNames(writer);
  await writer.root.settled();
  if (options.discard === true && aside !== undefined) {
    await removeTree(store, aside);
    await store.delete(aside);
  }
  return { filled: writer.filled, aside: options.discard === true ? undefined : aside };
}

/** Reads and checks the whole array. Throws `IO` if anything is wrong. */
async function checkRebuilt(store: WritableStore, path: string, aside: string | undefined): Promise<void> {
  const array = showGeneration(await readGeneration(store, path, undefined, {}), {});
  const { findings } = await array.verify();
  const found = findings.find(({ severity }) => severity === "error");
  if (found === undefined) return;
  const where = aside === undefined ? "" : `; what was there is in ${store.describe(aside)}`;
  throw new SuperchunkError("IO", `what was written does not read back correctly: ${found.message}${where}`, {
    path: found.path ?? store.describe(path),
  });
}

/** Appends the rows that stay; whole chunks are copied. */
async function copyRows(writer: ArrayWriter, survey: ArraySurvey, options: RebuildOptions): Promise<void> {
  const { policy, signal, onProgress } = options;
  const rows = countRows(survey.kept(policy));
  const { chunklen, rowShape } = writer.settings;
  const array = (await survey.open(policy)) as ArrayArchive;
  const names = array.columnNames;
  const columns = names.length === 0 ? [array] : names.map((name) => array.column(name));
  await writer.prepare();
  if (elementsOf(rowShape) === 0) writer.appendNothing(rows);
  for (let index = 0; index * chunklen < rows && writer.rowBytes > 0; index++) {
    signal?.throwIfAborted();
    const held = Math.min(chunklen, rows - index * chunklen);
    const chunks: (readonly [StoredChunk])[] = [];
    const whole: Uint8Array[] = [];
    for (const column of columns)
      for await (const { place, bytes } of column.encodedChunks(index, index + 1, { signal })) {
        chunks.push([writer.chunks.withDigest(bytes.slice(), place.nbytes)]);
        if (held < chunklen) whole.push(await decode(bytes));
      }
    if (held === chunklen) await writer.addChunks(chunks);
    else {
      writer.buffer.load(whole, held);
      writer.isDirty = true;
    }
    onProgress?.({ done: index * chunklen + held, total: rows, label: "rows" });
  }
}

// Keeps what a repair replaces, under `lost+found` in the array's root. @see FORMAT.md [FZ-10]

/** Folder in the root of an array for what repairs set aside. Readers ignore it. */
const LOST_AND_FOUND = "lost+found";

/**
 * Gives objects of the array at `root` a second name, or copies them if the store has no links, before anything replaces them.
 * Durable when resolved, with the folder's key; undefined if there was nothing to keep.
 */
export async function setAside(
  store: WritableStore,
  root: string,
  keys: readonly string[],
): Promise<string | undefined> {
  const folder = await newFolder(store, root);
  const kept: string[] = [];
  for (const key of keys) {
    if ((await store.stat(key)) === undefined) continue;
    const target = joinKey(folder, root === "" ? key : key.slice(root.length + 1));
    await linkOrCopy(store, key, target);
    kept.push(target);
  }
  if (kept.length === 0) return undefined;
  await store.sync?.(kept);
  return folder;
}

/** An empty folder named by the time. */
async function newFolder(store: WritableStore, root: string): Promise<string> {
  const time = new Date()
    .toISOString()
    .replace(/\.\d+Z$/, "Z")
    .replaceAll(":", "");
  for (let i = 0; ; i++) {
    const folder = joinKey(root, LOST_AND_FOUND, i === 0 ? time : `${time}-${i}`);
    let isTaken = false;
    for await (const _ of store.list(folder)) isTaken = true;
    if (!isTaken) return folder;
  }
}
