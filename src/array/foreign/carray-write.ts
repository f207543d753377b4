/**
 * Makes carrays, appends to them, cuts and enlarges them, so that bcolz 1.2 and bcolz-zipline go on opening them.
 *
 * bcolz counts rows by `meta/sizes` alone, and takes from the last chunk no more than that. So growing writes chunk files
 * first and `sizes` then, shrinking the other way round, and every state between is the old array or the new one. One
 * writer at a time. @see FORMAT.md [FA-09] [FA-10]
 */
import { SuperchunkError } from "../../errors.ts";
import { encodeHeader } from "../../format/header.ts";
import { memberText } from "../../format/json-members.ts";
import { parseCarrayChunkName } from "../../format/naming.ts";
import type { DType, JsonObject, JsonObjectInput, JsonValue } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { PutSource, WritableStore } from "../../store/types.ts";
import { PROLOGUE } from "../carray-sequence.ts";
import { elementsOf } from "../selection.ts";
import type { LongOptions } from "../types.ts";
import type { BloscpackCompression } from "./bloscpack-options.ts";
import { checkCount } from "./bloscpack-options.ts";
import {
  type CarrayCompression,
  type CarraySettings,
  checkCarrayDType,
  checkChunklen,
  chooseChunklen,
  defaultRowOf,
  storageText,
  typesizeOf,
} from "./carray-settings.ts";
import { type CarrayState, chunkKey, chunksOf, claimCarray } from "./carray-state.ts";
import { cutPieces } from "./cut-pieces.ts";
import { encodePieces } from "./encode-pieces.ts";

/** Options of all that writes carrays. */
export interface CarrayWriteOptions extends LongOptions, Pick<BloscpackCompression, "encoder"> {}

/** Options of {@link createCarray}. */
export interface CarrayOptions extends CarrayWriteOptions {
  readonly cparams?: CarrayCompression | undefined;
  /** Rows of a chunk; default: as bcolz chooses it, by `expectedlen`. */
  readonly chunklen?: number | undefined;
  /** Rows that the array will have, about; needed for a good chunk length where `data` are a stream. */
  readonly expectedlen?: number | undefined;
  /** Default value (zeros where absent). */
  readonly dflt?: JsonValue | undefined;
  readonly attrs?: JsonObjectInput | undefined;
}

/** Rows of one dtype. */
export interface CarraySource {
  readonly dtype: DType;
  /** Shape of a row; empty (the default) for single values. */
  readonly rowShape?: readonly number[] | undefined;
  /** The rows' bytes: C order, in the byte order of the dtype. */
  readonly data: PutSource;
}

/** What was written. */
export interface CarrayResult {
  readonly rows: number;
  readonly rowsAppended: number;
}

/** Rows whose chunk files are there, and not yet counted. */
export interface StagedRows {
  /** All rows of the array, once committed. */
  readonly rows: number;
  readonly rowsAppended: number;
  /** Compressed bytes of new full chunks, as bcolz counts them. */
  readonly cbytes: number;
  /** New files, beside the old last one. */
  readonly keys: readonly string[];
}

/**
 * Makes a carray in a folder that has none.
 *
 * @throws CONFLICT where there is an array; BAD_ARGUMENT, LIMIT, UNSUPPORTED
 */
export async function createCarray(
  store: WritableStore,
  path: string,
  source: CarraySource,
  options: CarrayOptions = {},
): Promise<CarrayResult> {
  const sizesKey = joinKey(path, "meta/sizes");
  for (const name of ["meta/sizes", "__rootdirs__"]) {
    if ((await store.stat(joinKey(path, name), options)) === undefined) continue;
    throw new SuperchunkError("CONFLICT", "there is an array or a table in the folder already", {
      path: store.describe(path),
    });
  }
  const { dtype, rowShape = [], data } = source;
  checkCarrayDType(dtype, rowShape);
  const rowBytes = elementsOf(rowShape) * dtype.itemSize;
  const { cname = "lz4", clevel = 5, shuffle = "shuffle" } = options.cparams ?? {};
  const known = data instanceof Uint8Array ? Math.floor(data.length / rowBytes) : undefined;
  const expectedlen = checkCount(
    "expectedlen",
    options.expectedlen ?? known ?? 0,
    0,
    Number.MAX_SAFE_INTEGER,
  );
  const chunklen = checkChunklen(options.chunklen ?? chooseChunklen(expectedlen, rowBytes), rowBytes);
  const encode = { cname, clevel: checkCount("clevel", clevel, 0, 9), shuffle, typesize: typesizeOf(dtype) };
  const dflt = options.dflt ?? null;
  defaultRowOf(dtype, rowShape, dflt); // a default value that does not fit is told before anything is written
  const settings: CarraySettings = {
    dtype,
    rowShape,
    rowBytes,
    chunklen,
    encode,
    dflt,
  };
  const staged = await stageRows(
    { store, path, settings, rows: 0 },
    data,
    new Uint8Array(0),
    undefined,
    options,
  );
  if (staged.rows === 0) {
    // bcolz opens no array without the folder, and most stores make none for nothing.
    await store.put(chunkKey(path, 0), new Uint8Array(0));
    await store.delete(chunkKey(path, 0));
  }
  const text = storageText(dtype, encode, chunklen, expectedlen || staged.rows, dflt);
  await store.put(joinKey(path, "__attrs__"), utf8(`${memberText(options.attrs ?? {})}\n`));
  await store.put(joinKey(path, "meta/storage"), utf8(text));
  await store.sync?.(staged.keys);
  const cbytes = staged.cbytes + chunklen * rowBytes;
  await store.put(sizesKey, sizesBytes({}, settings, staged.rows, cbytes), { ifAbsent: true });
  return { rows: staged.rows, rowsAppended: staged.rows };
}

/**
 * Appends rows. Durable when resolved.
 *
 * @throws BAD_ARGUMENT where the bytes are no whole rows; CONFLICT where another writer was faster; NOT_FOUND,
 * UNSUPPORTED, and the codes of damage
 */
export async function appendToCarray(
  store: WritableStore,
  path: string,
  data: PutSource,
  options: CarrayWriteOptions = {},
): Promise<CarrayResult> {
  const state = await claimCarray(store, path, options);
  const staged = await stageAppend(state, data, options);
  if (staged.rowsAppended > 0) await commitRows(state, staged);
  return { rows: staged.rows, rowsAppended: staged.rowsAppended };
}

/** Cuts off the last `count` rows, as bcolz's `trim`. @throws as {@link resizeCarray} */
export async function trimCarray(
  store: WritableStore,
  path: string,
  count: number,
  options: CarrayWriteOptions = {},
): Promise<CarrayResult> {
  const state = await claimCarray(store, path, options);
  return resizeState(state, state.rows - checkCount("count", count, 0, state.rows), options);
}

/**
 * Makes the array `rows` long: cuts rows off, or appends default values. What was cut off never shows again.
 *
 * @throws BAD_ARGUMENT, CONFLICT, NOT_FOUND, UNSUPPORTED, and the codes of damage
 */
export async function resizeCarray(
  store: WritableStore,
  path: string,
  rows: number,
  options: CarrayWriteOptions = {},
): Promise<CarrayResult> {
  checkCount("rows", rows, 0, Number.MAX_SAFE_INTEGER);
  return resizeState(await claimCarray(store, path, options), rows, options);
}

/** The same for a carray that has been read. */
export async function resizeState(
  state: CarrayState,
  rows: number,
  options: CarrayWriteOptions,
): Promise<CarrayResult> {
  const result = { rows, rowsAppended: rows - state.rows };
  if (rows >= state.rows) {
    const total = (rows - state.rows) * state.settings.rowBytes;
    const { onProgress } = options;
    const staged = await stageAppend(state, defaultRows(state.settings, rows - state.rows), {
      ...options,
      ...(onProgress === undefined ? {} : { onProgress: ({ done }) => onProgress({ done, total }) }),
    });
    if (staged.rowsAppended > 0) await commitRows(state, staged);
    return result;
  }
  const tail = await commitShrink(state, rows, options);
  await cleanShrunk(state, rows, tail, options);
  return result;
}

/** The first step of shrinking: `sizes`. Gives what the last chunk then holds. */
export async function commitShrink(
  { store, path, settings, archive, sizes, sizesVersion, ...state }: CarrayState,
  rows: number,
  options: CarrayWriteOptions,
): Promise<Uint8Array> {
  const { chunklen, rowBytes } = settings;
  const last = Math.floor(rows / chunklen) * chunklen * rowBytes;
  const tail = await archive.readBytes(last, rows * rowBytes, options);
  let cbytes = sizes.cbytes ?? 0;
  for (const index of await chunksFrom(store, path, chunksOf(rows, chunklen))) {
    if (index >= chunksOf(state.rows, chunklen)) continue;
    const info = await store.stat(chunkKey(path, index), options);
    cbytes -= Math.max(0, (info?.size ?? 0) - PROLOGUE);
  }
  const bytes = sizesBytes(sizes.raw, settings, rows, Math.max(0, cbytes));
  await store.put(joinKey(path, "meta/sizes"), bytes, { ifVersion: sizesVersion });
  return tail;
}

/** The second step: the files without the rows that were cut off. */
export async function cleanShrunk(
  { store, path, settings }: CarrayState,
  rows: number,
  tail: Uint8Array,
  options: CarrayWriteOptions,
): Promise<void> {
  const { chunklen, encode } = settings;
  for await (const { chunk } of encodePieces(onePiece(tail), encode, options.encoder))
    await store.put(chunkKey(path, Math.floor(rows / chunklen)), [FILE_HEADER, chunk], {
      stablePieces: true,
    });
  for (const index of await chunksFrom(store, path, chunksOf(rows, chunklen)))
    await store.delete(chunkKey(path, index));
}

/** Numbers of the chunk files that are there, from one on, the last first. */
async function chunksFrom(store: WritableStore, path: string, first: number): Promise<number[]> {
  const found: number[] = [];
  for await (const { name } of store.list(joinKey(path, "data"))) {
    const index = parseCarrayChunkName(name);
    if (index !== undefined && index >= first) found.push(index);
  }
  return found.sort((a, b) => b - a);
}

/** Writes the chunk files of an append: the rows of a short last chunk and those behind it. */
export async function stageAppend(
  state: CarrayState,
  data: PutSource,
  options: CarrayWriteOptions,
): Promise<StagedRows> {
  const { chunklen, rowBytes } = state.settings;
  const whole = Math.floor(state.rows / chunklen) * chunklen;
  const tail =
    whole === state.rows
      ? new Uint8Array(0)
      : await state.archive.readBytes(whole * rowBytes, state.rows * rowBytes, options);
  const info =
    tail.length === 0
      ? undefined
      : await state.store.stat(chunkKey(state.path, Math.floor(state.rows / chunklen)), options);
  return stageRows(state, data, tail, info?.version, options);
}

/** The commit of an append: the rows count from here on. */
export async function commitRows(state: CarrayState, staged: StagedRows): Promise<void> {
  const { store, path, sizes, settings, sizesVersion } = state;
  await store.sync?.(staged.keys);
  const bytes = sizesBytes(sizes.raw, settings, staged.rows, (sizes.cbytes ?? 0) + staged.cbytes);
  await store.put(joinKey(path, "meta/sizes"), bytes, { ifVersion: sizesVersion });
}

const FILE_HEADER = encodeHeader({
  version: 1,
  headerLength: 16,
  offsets: false,
  metadata: false,
  checksum: "None",
  typesize: 0,
  chunkSize: -1,
  lastChunk: -1,
  nchunks: 1,
  maxAppChunks: 0,
  metaSize: 0,
});

type Place = Pick<CarrayState, "store" | "path" | "settings" | "rows">;

async function stageRows(
  { store, path, settings, rows }: Place,
  data: PutSource,
  tail: Uint8Array,
  tailVersion: string | undefined,
  options: CarrayWriteOptions,
): Promise<StagedRows> {
  const { chunklen, rowBytes, encode } = settings;
  const chunkBytes = chunklen * rowBytes;
  const first = Math.floor(rows / chunklen);
  const pieces = wholeRows(cutPieces(data, chunkBytes, options.signal, tail), rowBytes);
  const keys: string[] = [];
  let index = first;
  let cbytes = 0;
  let nbytes = 0;
  try {
    for await (const made of encodePieces(pieces, encode, options.encoder)) {
      nbytes += made.nbytes;
      if (made.nbytes === tail.length && index === first && tail.length > 0) continue; // nothing was added to it
      const replaces = index === first && tailVersion !== undefined;
      const key = chunkKey(path, index);
      // What counts already must never be less than whole; the rest is made durable before it counts.
      await store.put(key, [FILE_HEADER, made.chunk], {
        stablePieces: true,
        durable: replaces || store.sync === undefined,
        ...(replaces ? { ifVersion: tailVersion } : {}),
      });
      if (!replaces) keys.push(key);
      if (made.nbytes === chunkBytes) cbytes += made.chunk.length;
      index++;
      options.onProgress?.({ done: nbytes - tail.length, total: nbytes - tail.length });
    }
  } catch (error) {
    // No commit has named them: what is no whole append leaves nothing behind.
    for (const key of keys) await store.delete(key).catch(() => undefined);
    throw error;
  }
  const rowsAppended = (nbytes - tail.length) / rowBytes;
  return { rows: rows + rowsAppended, rowsAppended, cbytes, keys };
}

async function* wholeRows(pieces: AsyncIterable<Uint8Array>, rowBytes: number): AsyncGenerator<Uint8Array> {
  for await (const piece of pieces) {
    if (piece.length % rowBytes !== 0) {
      throw new SuperchunkError(
        "BAD_ARGUMENT",
        `the bytes to append are no whole rows: a row has ${rowBytes} bytes, and ${piece.length % rowBytes} are left over`,
        { field: "data", expected: `a multiple of ${rowBytes}`, found: piece.length },
      );
    }
    yield piece;
  }
}

async function* onePiece(piece: Uint8Array): AsyncGenerator<Uint8Array> {
  if (piece.length > 0) yield piece;
}

/** Rows made at once, in bytes. */
const BATCH = 1 << 20;

function* defaultRows(settings: CarraySettings, rows: number): Generator<Uint8Array> {
  if (rows === 0) return;
  const { dtype, rowShape, rowBytes, dflt } = settings;
  const row = defaultRowOf(dtype, rowShape, dflt);
  const batch = Math.max(1, Math.min(rows, Math.floor(BATCH / rowBytes)));
  const bytes = new Uint8Array(batch * rowBytes);
  for (let at = 0; at < bytes.length; at += rowBytes) bytes.set(row, at);
  for (let left = rows; left > 0; left -= batch) yield bytes.subarray(0, Math.min(left, batch) * rowBytes);
}

function sizesBytes(
  raw: JsonObject,
  { rowShape, rowBytes }: CarraySettings,
  rows: number,
  cbytes: number,
): Uint8Array {
  const sizes = { ...raw, shape: [rows, ...rowShape], nbytes: rows * rowBytes, cbytes };
  return utf8(`${memberText(sizes)}\n`);
}

function utf8(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}
