/**
 * The steps of which changes of carrays consist, alone or as columns of a table: growing writes chunk files first and
 * `meta/sizes` then, shrinking the other way round, and every state between is the old array or the new one.
 * @see FORMAT.md [FA-09] [FA-10]
 */

import type { LongOptions } from "../../archive/kinds/types.ts";
import { PROLOGUE } from "../../archive/places/carray-sequence.ts";
import { SuperchunkError } from "../../errors.ts";
import { encodeHeader, headerOfVersion1 } from "../../format/header.ts";
import { memberText } from "../../format/json-members.ts";
import { parseCarrayChunkName } from "../../format/naming.ts";
import type { JsonObject } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { PutSource, WritableStore } from "../../store/types.ts";
import type { BloscpackCompression } from "../bloscpack/bloscpack-options.ts";
import { cutPieces } from "../bloscpack/cut-pieces.ts";
import { encodePieces } from "../bloscpack/encode-pieces.ts";
import type { CarraySettings } from "./carray-settings.ts";
import { type CarrayState, chunkKey, chunksOf } from "./carray-state.ts";

/** Options of all that writes carrays. */
export interface CarrayWriteOptions extends LongOptions, Pick<BloscpackCompression, "encoder"> {}

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

/** In front of the one chunk of a file. */
const FILE_HEADER = encodeHeader(headerOfVersion1(1));

type Place = Pick<CarrayState, "store" | "path" | "settings" | "rows">;

/** Writes the chunk files of rows behind those that are there: `tail` are the rows of a short last chunk. */
export async function stageRows(
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

/** `meta/sizes` for so many rows: other members stay as they are. */
export function sizesBytes(
  raw: JsonObject,
  { rowShape, rowBytes }: CarraySettings,
  rows: number,
  cbytes: number,
): Uint8Array {
  const sizes = { ...raw, shape: [rows, ...rowShape], nbytes: rows * rowBytes, cbytes };
  return utf8(`${memberText(sizes)}\n`);
}

/** A text as it is stored. */
export function utf8(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}
