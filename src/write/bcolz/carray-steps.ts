/**
 * The steps of changes to carrays, alone or as columns of a table. Growing writes chunk files first and `meta/sizes` after,
 * shrinking the reverse; every state between is the old or the new array.
 * @see FORMAT.md [FA-09] [FA-10]
 */

import type { LongOptions, Progress } from "../../archive/kinds/types.ts";
import { PROLOGUE } from "../../archive/places/sequence.ts";
import { at, elementsOf } from "../../bytes/arrays.ts";
import { SuperchunkError } from "../../errors.ts";
import { encodeFileHeader } from "../../format/encode-file.ts";
import { headerOfVersion1 } from "../../format/header.ts";
import { memberText } from "../../format/json.ts";
import type { JsonObject } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { PutSource, WritableStore } from "../../store/types.ts";
import type { BloscpackCompression } from "../bloscpack/bloscpack-options.ts";
import { cutPieces, encodePieces } from "../bloscpack/pieces.ts";
import { repeatRow } from "../rows/rows.ts";
import { type CarraySettings, defaultRowOf } from "./carray-settings.ts";
import { type CarrayState, chunkFileKey, chunksOf } from "./carray-state.ts";
import { chunksFrom, commitRedo, dropStaged, type RedoColumn, stagedKey, utf8 } from "./redo.ts";

export interface CarrayWriteOptions extends LongOptions, Pick<BloscpackCompression, "encoder"> {}

/** Rows whose chunk files exist but do not count yet. */
export interface StagedRows {
  /** All rows of the array, once committed. */
  readonly rows: number;
  readonly rowsAppended: number;
  /** Compressed bytes of new full chunks, as bcolz counts them. */
  readonly cbytes: number;
  /** New files, besides the old last one. */
  readonly keys: readonly string[];
}

/** The first step of shrinking: replaces `sizes`. Returns the rows that the last chunk then holds. */
async function commitShrink(
  { store, path, settings, archive, sizes, sizesVersion, ...state }: CarrayState,
  rows: number,
  options: CarrayWriteOptions,
): Promise<Uint8Array> {
  const { chunklen, rowBytes } = settings;
  const last = Math.floor(rows / chunklen) * chunklen * rowBytes;
  const tail = await archive.readBytes(last, rows * rowBytes, { signal: options.signal });
  let cbytes = sizes.cbytes ?? 0;
  for (const index of await chunksFrom(store, path, chunksOf(rows, chunklen))) {
    if (index >= chunksOf(state.rows, chunklen)) continue;
    const info = await store.stat(chunkFileKey(path, index), options);
    cbytes -= Math.max(0, (info?.size ?? 0) - PROLOGUE);
  }
  const bytes = sizesBytes(sizes.raw, settings, rows, Math.max(0, cbytes));
  await store.put(joinKey(path, "meta/sizes"), bytes, { ifVersion: sizesVersion });
  return tail;
}

/** The second step: rewrites the last file and removes the others. */
async function cleanShrunk(
  { store, path, settings }: CarrayState,
  rows: number,
  tail: Uint8Array,
  options: CarrayWriteOptions,
): Promise<void> {
  const { chunklen, encode } = settings;
  for await (const { chunk } of encodePieces(onePiece(tail), encode, options.encoder))
    await store.put(chunkFileKey(path, Math.floor(rows / chunklen)), [FILE_HEADER, chunk]);
  for (const index of await chunksFrom(store, path, chunksOf(rows, chunklen)))
    await store.delete(chunkFileKey(path, index));
}

/** Writes the chunk files of an append: the rows of a short last chunk, and the new ones. */
async function stageAppend(
  state: CarrayState,
  data: PutSource,
  options: CarrayWriteOptions,
): Promise<StagedRows> {
  const { chunklen, rowBytes } = state.settings;
  const whole = Math.floor(state.rows / chunklen) * chunklen;
  const tail =
    whole === state.rows
      ? new Uint8Array(0)
      : await state.archive.readBytes(whole * rowBytes, state.rows * rowBytes, { signal: options.signal });
  const info =
    tail.length === 0
      ? undefined
      : await state.store.stat(chunkFileKey(state.path, Math.floor(state.rows / chunklen)), options);
  return stageRows(state, data, options, { bytes: tail, version: info?.version });
}

/** The commit of an append: the rows count from here on. */
export async function commitRows(state: CarrayState, staged: StagedRows): Promise<void> {
  const { store, path, sizes, settings, sizesVersion } = state;
  await store.sync?.(staged.keys);
  const bytes = sizesBytes(sizes.raw, settings, staged.rows, (sizes.cbytes ?? 0) + staged.cbytes);
  await store.put(joinKey(path, "meta/sizes"), bytes, { ifVersion: sizesVersion });
}

/** Precedes the one chunk of a file. */
const FILE_HEADER = encodeFileHeader(headerOfVersion1(1));

type GrowingCarray = Pick<CarrayState, "store" | "path" | "settings" | "rows">;

/** The rows of a short last chunk, and the version of its file, if there is one. */
interface Tail {
  readonly bytes: Uint8Array;
  readonly version?: string | undefined;
}

/** Writes the chunk files of rows after the existing ones. If it fails, it removes them: no commit has named them. */
export async function stageRows(
  carray: GrowingCarray,
  data: PutSource,
  options: CarrayWriteOptions,
  tail?: Tail,
): Promise<StagedRows> {
  const keys: string[] = [];
  try {
    return await putRows(carray, data, options, { keys, tail });
  } catch (error) {
    for (const key of keys) await carray.store.delete(key).catch(() => undefined);
    throw error;
  }
}

/** The same, and leaves the files if it fails: another process may have made them too. Adds new files to `keys` as they are made. */
export async function putRows(
  { store, path, settings, rows }: GrowingCarray,
  data: PutSource,
  options: CarrayWriteOptions,
  { keys = [], tail }: { readonly keys?: string[]; readonly tail?: Tail | undefined } = {},
): Promise<StagedRows> {
  const { chunklen, rowBytes, encode } = settings;
  const { bytes: short = new Uint8Array(0), version } = tail ?? {};
  const chunkBytes = chunklen * rowBytes;
  const first = Math.floor(rows / chunklen);
  const pieces = wholeRows(cutPieces(data, chunkBytes, options.signal, short), rowBytes);
  let index = first;
  let cbytes = 0;
  let nbytes = 0;
  for await (const made of encodePieces(pieces, encode, options.encoder)) {
    nbytes += made.nbytes;
    if (made.nbytes === short.length && index === first && short.length > 0) continue; // nothing was added to it
    const replaces = index === first && version !== undefined;
    const key = chunkFileKey(path, index);
    // A chunk that already counts must never be incomplete; the others are made durable before they count.
    await store.put(key, [FILE_HEADER, made.chunk], {
      durable: replaces || store.sync === undefined,
      ...(replaces ? { ifVersion: version } : {}),
    });
    if (!replaces) keys.push(key);
    if (made.nbytes === chunkBytes) cbytes += made.chunk.length;
    index++;
    options.onProgress?.({ done: nbytes - short.length, total: nbytes - short.length });
  }
  const rowsAppended = (nbytes - short.length) / rowBytes;
  return { rows: rows + rowsAppended, rowsAppended, cbytes, keys };
}

async function* wholeRows(pieces: AsyncIterable<Uint8Array>, rowBytes: number): AsyncGenerator<Uint8Array> {
  for await (const piece of pieces) {
    if (piece.length % rowBytes !== 0)
      throw new SuperchunkError(
        "BAD_ARGUMENT",
        `the bytes to append end inside a row: a row has ${rowBytes} bytes, and ${piece.length % rowBytes} are left over`,
        { field: "data", expected: `a multiple of ${rowBytes}`, found: piece.length },
      );
    yield piece;
  }
}

async function* onePiece(piece: Uint8Array): AsyncGenerator<Uint8Array> {
  if (piece.length > 0) yield piece;
}

/** A carray, with its column name in a table. */
export interface NamedState {
  readonly name: string | undefined;
  readonly state: CarrayState;
}

/**
 * Appends rows to all columns, given as bytes for each. Durable when resolved.
 * @throws BAD_ARGUMENT if the lengths differ: then nothing is appended; CONFLICT if another writer was faster
 */
export async function appendRows(
  columns: readonly NamedState[],
  sources: readonly PutSource[],
  options: CarrayWriteOptions,
): Promise<void> {
  const staged: StagedRows[] = [];
  try {
    for (const [i, { state }] of columns.entries())
      staged.push(await stageAppend(state, at(sources, i), options));
    checkLengths(
      columns.map(({ name = "" }) => name),
      staged.map(({ rowsAppended }) => rowsAppended),
    );
  } catch (error) {
    for (const [i, { keys }] of staged.entries())
      for (const key of keys)
        await at(columns, i)
          .state.store.delete(key)
          .catch(() => undefined);
    throw error;
  }
  if (staged.every(({ rowsAppended }) => rowsAppended === 0)) return;
  // The first column's `sizes` commits a table.
  for (let i = columns.length - 1; i >= 0; i--) await commitRows(at(columns, i).state, at(staged, i));
}

/** Throws `BAD_ARGUMENT` if columns have different lengths. */
export function checkLengths(names: readonly string[], lengths: readonly number[]): void {
  const other = lengths.findIndex((length) => length !== lengths[0]);
  if (other < 0) return;
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    `the columns have different lengths: "${names[0]}" ${lengths[0]} rows, "${names[other]}" ${lengths[other]}`,
    { field: at(names, other), expected: lengths[0], found: lengths[other] },
  );
}

/**
 * Makes all columns `rows` long: removes rows, or appends each column's default value. Removed rows never reappear. Columns may
 * differ in length.
 */
export async function resizeRows(
  states: readonly CarrayState[],
  rows: number,
  options: CarrayWriteOptions,
): Promise<void> {
  // In a table, the first column is cut first and grows last: its length is the table's.
  const cut = states.filter((state) => state.rows > rows);
  const tails: Uint8Array[] = [];
  for (const state of cut) tails.push(await commitShrink(state, rows, options));
  for (const [i, state] of cut.entries()) await cleanShrunk(state, rows, at(tails, i), options);
  const { onProgress, ...rest } = options;
  const grown = states.filter((state) => state.rows < rows);
  const total = grown.reduce((sum, state) => sum + (rows - state.rows) * state.settings.rowBytes, 0);
  let before = 0;
  for (const state of grown.reverse()) {
    const count = rows - state.rows;
    const progress = onProgress && (({ done }: Progress) => onProgress({ done: before + done, total }));
    const data = repeatRow(
      defaultRowOf(state.settings.dtype, state.settings.rowShape, state.settings.dflt),
      count,
    );
    await commitRows(state, await stageAppend(state, data, { ...rest, onProgress: progress }));
    before += count * state.settings.rowBytes;
  }
}

/** New chunks for a carray: in order, each whole but the last. */
export interface StagedChange {
  /** Indices of the chunks, or the first index if they are consecutive. */
  readonly indices?: readonly number[];
  readonly first?: number;
  /** Their decoded bytes. A piece's memory may be reused once the next is requested. */
  readonly pieces: AsyncIterable<Uint8Array>;
  /** Rows that stay valid while chunks are put in place. */
  readonly meanwhile: number;
  /** Rows afterwards, and their shape if it changes. */
  readonly rows: number;
  readonly rowShape?: readonly number[];
}

/** Replaces chunks in all columns atomically. Resolves with their bytes. @see docs/writing.md [FA-12] */
export async function stageChunks(
  store: WritableStore,
  path: string,
  changes: readonly (StagedChange & { readonly state: CarrayState })[],
  options: CarrayWriteOptions,
): Promise<number> {
  let written = 0;
  const columns: RedoColumn[] = [];
  try {
    for (const [i, change] of changes.entries()) {
      const { state, pieces, indices, first = 0, meanwhile, rows, rowShape } = change;
      const settings = {
        ...state.settings,
        ...(rowShape && { rowShape, rowBytes: elementsOf(rowShape) * state.settings.dtype.itemSize }),
      };
      let cbytes = state.sizes.cbytes ?? 0;
      let count = 0;
      for await (const { chunk } of encodePieces(pieces, settings.encode, options.encoder)) {
        const index = indices === undefined ? first + count : at(indices, count);
        count++;
        const old = await store.stat(chunkFileKey(state.path, index), options);
        cbytes += chunk.length - (old === undefined ? 0 : old.size - PROLOGUE);
        const { size } = await store.put(stagedKey(path, i, index), [FILE_HEADER, chunk], {
          durable: store.sync === undefined,
        });
        written += size;
      }
      const { raw } = state.sizes;
      const meta = state.sizesText;
      columns.push({
        folder: state.path.slice(path.length).replace(/^\//, ""),
        before: meta,
        meanwhile: meanwhile === state.rows ? meta : sizesText(raw, state.settings, meanwhile, cbytes),
        after: sizesText(raw, settings, rows, Math.max(0, cbytes)),
      });
    }
  } catch (error) {
    await dropStaged(store, path).catch(() => undefined); // only the first error is thrown
    throw error;
  }
  await commitRedo(store, path, columns);
  return written;
}

/** `meta/sizes` for this many rows; other members stay as they are. */
export function sizesBytes(...facts: Parameters<typeof sizesText>): Uint8Array {
  return utf8(sizesText(...facts));
}

function sizesText(
  raw: JsonObject,
  { rowShape, rowBytes }: Pick<CarraySettings, "rowShape" | "rowBytes">,
  rows: number,
  cbytes: number,
): string {
  return `${memberText({ ...raw, shape: [rows, ...rowShape], nbytes: rows * rowBytes, cbytes })}\n`;
}
