/**
 * Compacting: full superchunks and one last one, named by position, without patches; on request with other settings. Nothing
 * else may be planned. Readers find their rows at every step. @see FORMAT.md [FG-05] [FG-10]
 */

import type { LongOptions } from "../../archive/kinds/types.ts";
import { linkOrCopy } from "../../archive/places/journal.ts";
import { at, elementsOf } from "../../bytes/arrays.ts";
import { isSuperchunkError } from "../../errors.ts";
import { type BlpkHeader, decodeFileHeader } from "../../format/header.ts";
import { countChunks, type Run } from "../../format/layout.ts";
import { superchunkName } from "../../format/naming.ts";
import { joinField } from "../../values/copy-items.ts";
import { encodeItem } from "../../values/item-bytes.ts";
import type { CompactPlan } from "../editable.ts";
import type { ColumnLayout } from "../layout/columns.ts";
import { appendRun, placesOf } from "../layout/runs.ts";
import { type ArraySettings, type ChunkSettings, settleSettings, storageOf } from "../layout/settings.ts";
import { reshapeRows } from "../rows/rows.ts";
import type { ArrayWriter, MirrorMaker } from "./array-writer.ts";
import { commitStorage, grow } from "./changes.ts";
import type { StoredChunk } from "./superchunk-file.ts";

/**
 * Which superchunks folding the array keeps, by position, and which positions it rewrites: those in pieces, patched, or with
 * chunks that do not count. With `walkable`, also those of version 4. Full ones for which `isKept` is false are rewritten too.
 */
export async function planFold(
  writer: ArrayWriter,
  walkable = false,
  isKept: (number: number) => Promise<boolean> = async () => true,
): Promise<{ kept: Map<number, number>; rewritten: number[] }> {
  const { superchunklen } = writer.settings;
  const { layout } = writer.committed;
  const patched = new Set<number>();
  for (const { chunks } of layout.patches)
    for (const chunk of chunks) if (chunk >= 0) patched.add(Math.floor(chunk / superchunklen));
  const total = countChunks(layout.runs);
  const kept = new Map<number, number>();
  for (const { number, first, chunks } of placesOf(layout.runs)) {
    const place = Math.floor(first / superchunklen);
    const isWhole = first % superchunklen === 0 && chunks === Math.min(superchunklen, total - first);
    if (!isWhole || patched.has(place)) continue;
    if (walkable && layout.isMoved === true && (await isOfVersion4(writer, number))) continue;
    if (chunks === superchunklen && !(await isKept(number))) continue;
    if (chunks === superchunklen || (await countInFile(writer, number)) === chunks) kept.set(place, number);
  }
  const rewritten: number[] = [];
  for (let place = 0; place * superchunklen < total; place++) if (!kept.has(place)) rewritten.push(place);
  return { kept, rewritten };
}

/** Chunks in a superchunk, counted or not. */
async function countInFile(writer: ArrayWriter, number: number): Promise<number | undefined> {
  const [column] = writer.columns;
  return column && (await readHeader(writer, column, number))?.nchunks;
}

/** True if a superchunk is not walkable in some column. */
async function isOfVersion4(writer: ArrayWriter, number: number): Promise<boolean> {
  for (const column of writer.columns)
    if ((await readHeader(writer, column, number))?.version === 4) return true;
  return false;
}

async function readHeader(
  { root: { store } }: ArrayWriter,
  { folder }: ColumnLayout,
  number: number,
): Promise<BlpkHeader | undefined> {
  const key = `${folder}/${superchunkName(number)}`;
  const head = await store.getRange(key, { offset: 0, length: 32 });
  return head && decodeFileHeader(head, store.describe(key));
}

interface FoldOptions extends LongOptions {
  /** Makes all superchunks version 3 without reserve (default false). */
  readonly walkable?: boolean;
  /** False for full superchunks, by number, to rewrite although they are in order (default: none). */
  readonly isKept?: (number: number) => Promise<boolean>;
}

/** Rewrites the superchunks that need it by copying chunks, and commits. */
export async function fold(
  writer: ArrayWriter,
  { walkable = false, isKept, ...options }: FoldOptions = {},
): Promise<void> {
  const { files } = writer;
  const kept = files.keepsReserve;
  files.keepsReserve = kept && !walkable;
  try {
    await foldAll(writer, walkable, options, isKept);
  } finally {
    files.keepsReserve = kept;
  }
}

async function foldAll(
  writer: ArrayWriter,
  walkable: boolean,
  options: LongOptions,
  isKept: FoldOptions["isKept"],
): Promise<void> {
  const { layout } = writer.committed;
  const { superchunklen } = writer.settings;
  const { kept, rewritten } = await planFold(writer, walkable, isKept);
  if (rewritten.length === 0) {
    if (walkable && layout.isMoved === true) await writer.recommit({ isMoved: false });
    return;
  }
  const total = countChunks(layout.runs);
  let runs: readonly Run[] = [];
  for (let place = 0; place * superchunklen < total; place++) {
    options.signal?.throwIfAborted();
    const first = place * superchunklen;
    const end = Math.min(total, first + superchunklen);
    let number = kept.get(place);
    if (number === undefined) {
      const columns: StoredChunk[][] = [];
      for (let i = 0; i < writer.columns.length; i++) columns.push(await writer.copied(i, first, end));
      number = await writer.publishNow({ number: writer.files.takeLoose(), first, columns });
    }
    runs = appendRun(runs, number, end - first);
    options.onProgress?.({ done: end, total, label: "chunks" });
  }
  await writer.recommit({ runs, patches: [], ...(walkable ? { isMoved: false } : {}) });
}

/** Rewrites all rows with other settings, possibly another row shape, and commits. */
export async function recode(
  writer: ArrayWriter,
  settings: ArraySettings,
  options: LongOptions,
): Promise<void> {
  const before = writer.settings;
  const { rows } = writer.committed;
  const source = writer.source();
  const { columns } = writer;
  const { edition, files } = writer;
  const kept = files.keepsReserve;
  files.keepsReserve = false;
  try {
    await writer.rollBack();
    writer.restart(settings);
    await writer.prepare();
    const { dtype } = before;
    const isReshaped = settings.rowShape.join() !== before.rowShape.join();
    const reshaping = {
      before: before.rowShape,
      after: settings.rowShape,
      fill: encodeItem(dtype, before.dflt),
    };
    const heldBytes = elementsOf(before.rowShape) * dtype.itemSize;
    if (writer.rowBytes === 0) writer.appendNothing(rows);
    else if (heldBytes === 0) await grow(writer, rows, options);
    for (let index = 0; heldBytes > 0 && writer.rowBytes > 0 && index * before.chunklen < rows; index++) {
      options.signal?.throwIfAborted();
      const decoded = await source.decoded(index);
      const held = Math.min(before.chunklen, rows - index * before.chunklen);
      const items = new Uint8Array(held * heldBytes);
      columns.forEach((column, i) => {
        joinField(at(decoded, i), column, items, dtype.itemSize);
      });
      await writer.append(isReshaped ? reshapeRows(items, reshaping) : items);
      options.onProgress?.({
        done: (index * before.chunklen + held) * writer.rowBytes,
        total: rows * writer.rowBytes,
      });
    }
    writer.edition = edition + 1;
    await writer.commit({ storage: storageOf(settings) });
  } catch (error) {
    await writer.rollBack(before);
    throw error;
  } finally {
    files.keepsReserve = kept;
  }
  await commitStorage(writer);
}

/**
 * Renames every superchunk by its position. The array must be folded. Before a name is reused, a commit begins a new epoch:
 * readers of an older one look again before they trust a name.
 */
export async function settleNames(writer: ArrayWriter): Promise<void> {
  const places = [...placesOf(writer.committed.layout.runs)];
  const moved = places
    .map((place, i) => ({ ...place, own: i + 1 }))
    // Superchunks in other places keep their names: only this array's layout leads to them.
    .filter(({ number, own }) => number !== own && writer.root.placed?.table.of(number) === undefined);
  if (moved.length === 0) return;
  await writer.recommit({ epoch: writer.committed.layout.epoch + 1 });
  await writer.root.settled();
  for (const { number, own } of moved) {
    writer.root.placed?.table.set(own, undefined);
    writer.files.adopt(own, await writer.files.bytesOf(number, writer.columns));
    for (const { folder } of writer.columns)
      await linkOrCopy(
        writer.root.store,
        `${folder}/${superchunkName(number)}`,
        `${folder}/${superchunkName(own)}`,
      );
  }
  const names = new Map(moved.map(({ number, own }) => [number, own]));
  let runs: readonly Run[] = [];
  for (const { number, chunks } of places) runs = appendRun(runs, names.get(number) ?? number, chunks);
  await writer.recommit({ runs, plain: places.length });
}

/** Makes the committed array compact, on request with other settings. Throws errors of settling the settings, and of the mirror. */
export async function compactAll(
  writer: ArrayWriter,
  changes: ChunkSettings,
  options: LongOptions,
): Promise<void> {
  await writer.prepare();
  const foldAndSettle = async (): Promise<void> => {
    await fold(writer, { ...options, walkable: true });
    await settleNames(writer);
    await writer.root.settled();
  };
  if (Object.values(changes).every((value) => value === undefined)) return foldAndSettle();
  const { settings } = writer;
  const chosen = settleSettings({ ...settings, revision: settings.revision + 1 }, changes, settings);
  const { mirror } = writer.files;
  const admitted = (await mirror?.admit(chosen, changes.superchunkLength === undefined)) ?? chosen;
  await changeWithMirror(writer, async () => {
    await recode(writer, admitted, options);
    await foldAndSettle();
  });
}

/** Runs a change of settings or columns; a mirror shows it afterwards. */
export function changeWithMirror(
  { files: { mirror } }: ArrayWriter,
  step: () => Promise<void>,
): Promise<void> {
  return mirror === undefined ? step() : mirror.change(step);
}

/**
 * What `compact` would do, according to the metadata and the headers of superchunks. Throws errors of settling the settings,
 * and of the mirror.
 */
export async function planCompaction(
  writer: ArrayWriter,
  changes: ChunkSettings,
  mirror: MirrorMaker | undefined,
): Promise<CompactPlan> {
  const { settings, committed, root } = writer;
  const { zarr } = settings;
  const isRecoded = Object.values(changes).some((value) => value !== undefined);
  if (isRecoded) {
    const wanted = settleSettings(settings, changes, settings);
    const isFree = changes.superchunkLength === undefined;
    if (zarr) await mirror?.checkChange(root, { before: settings, wanted, isFree });
  }
  const { kept, rewritten } = await planFold(writer, true);
  const superchunks = kept.size + rewritten.length;
  const { placed } = root;
  const moved = [...kept].filter(
    ([place, number]) => number !== place + 1 && placed?.table.of(number) === undefined,
  ).length;
  return {
    isRecoded,
    isShownAnew: isRecoded && zarr,
    superchunks,
    superchunksWritten: isRecoded ? superchunks : rewritten.length,
    superchunksRenamed: isRecoded ? 0 : moved,
    cbytes: committed.cbytes,
  };
}

// When superchunks are put in order without a request: if there are too many patches, and if it is cheap.

/** With more entries in the patch map, or more patches, they are folded into the superchunks. */
const MAX_PATCHED_CHUNKS = 65536;
const MAX_PATCHES = 1024;
/** Bytes that may be copied to restore the plain layout, even if the session wrote less. */
const CHEAP_FOLD = 1 << 20;

/** Folds patches into the superchunks if `meta/sizes` would become long. */
export async function foldMany(writer: ArrayWriter): Promise<void> {
  const { patches } = writer.committed.layout;
  const entries = patches.reduce((sum, { chunks }) => sum + chunks.length, 0);
  if (patches.length > MAX_PATCHES || entries > MAX_PATCHED_CHUNKS) await fold(writer);
}

/**
 * Restores the plain layout at the end of a session if that costs little. All rows are committed, so a failure does not affect
 * them, and the next writer tries again. Throws only `CONFLICT`.
 */
export async function tidy(writer: ArrayWriter): Promise<void> {
  try {
    await foldCheap(writer);
  } catch (error) {
    if (!isSuperchunkError(error) || error.code === "CONFLICT") throw error;
    writer.root.warnings.push(`the superchunks were not put in order: ${error.message}`);
  }
}

async function foldCheap(writer: ArrayWriter): Promise<void> {
  if (writer.files.sessionBytes === 0) return;
  const { rewritten } = await planFold(writer);
  const { rows, cbytes, layout } = writer.committed;
  const chunks = Math.max(1, Math.ceil(rows / writer.settings.chunklen));
  const bytes = (rewritten.length * writer.settings.superchunklen * cbytes) / chunks;
  if (layout.patches.length > 0 || bytes > Math.max(CHEAP_FOLD, writer.files.sessionBytes)) return;
  await fold(writer);
  if (writer.root.store.link !== undefined) await settleNames(writer);
}
