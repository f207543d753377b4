/**
 * Appends to a Bloscpack file: fills up the last chunk, adds chunks, and fills the spare offsets.
 *
 * By default a new file is written and renamed over the old one, so no reader sees an intermediate state. In place, only what
 * changes is written, protected by a journal. @see FORMAT.md [F1.3-08] [FR]
 */

import type { LongOptions } from "../../archive/kinds/types.ts";
import {
  changeInPlace,
  finishInterrupted,
  type InPlaceStore,
  requireInPlace,
  requireOneName,
} from "../../archive/places/journal.ts";
import { at, elementsOf } from "../../bytes/arrays.ts";
import { loadDigest } from "../../bytes/checksum.ts";
import { SuperchunkError } from "../../errors.ts";
import { encodeFileHeader, encodeOffsets } from "../../format/encode-file.ts";
import { OFFSET_LENGTH } from "../../format/header.ts";
import type { JournalWrite } from "../../format/journal.ts";
import type { ChecksumName, DType, JsonInput, JsonObjectInput } from "../../format/types.ts";
import type { PutSource, WritableStore } from "../../store/types.ts";
import {
  type BloscpackCompression,
  type BloscpackMetadataOptions,
  bloscpackHeader,
  type Chunking,
  type CountOrFactor,
  cutBytes,
  settleChunkSize,
  settleCount,
} from "./bloscpack-options.ts";
import { type BloscpackState, growableArray, readBloscpackState, storedSizes } from "./bloscpack-state.ts";
import { encodeChunks, membersOf, numpyMetadata, packHead, packMetadata } from "./bloscpack-write.ts";
import { type SpooledChunks, scratchBeside, spoolChunks } from "./chunk-spool.ts";
import { cutPieces } from "./pieces.ts";

/**
 * Appends bytes or rows to the Bloscpack file at a key.
 *
 * A numpy array gets a new shape. Files without offsets are rewritten.
 * @throws LIMIT if the offset table is full (`grow` enlarges it), BAD_ARGUMENT if bytes are not whole rows, CONFLICT if another
 * writer was faster, UNSUPPORTED, NOT_FOUND, and the codes of damage
 */
export async function appendToBloscpack(
  store: WritableStore,
  key: string,
  source: PutSource,
  options: BloscpackAppendOptions = {},
): Promise<BloscpackAppendResult> {
  if (store.writeRange !== undefined && store.sync !== undefined)
    await finishInterrupted(requireInPlace(store, key), key);
  const state = await readBloscpackState(store, key, { signal: options.signal });
  checkArray(state, options);
  const plan = planAppend(state, options);
  if (options.inPlace === true) {
    checkInPlace(state, options);
    return appendInPlace(plan, source, requireInPlace(store, key));
  }
  const spool = await spoolChunks(newChunks(plan, source), scratchBeside(store, key));
  try {
    const kept = Math.max(0, state.nchunks - 1);
    const nbytes = state.nbytes - state.last.length + spool.nbytes;
    if (nbytes > state.nbytes || options.metadata !== undefined)
      return await rewrite(plan, kept, spool, options);
    return { nchunks: state.nchunks, nbytes, bytesAppended: 0, chunksAdded: 0, ...copied([]) };
  } finally {
    await spool.dispose();
  }
}

/**
 * What an append of `length` bytes would do; writes nothing.
 * @throws as {@link appendToBloscpack}
 */
export async function forecastAppend(
  store: WritableStore,
  key: string,
  length: number,
  options: BloscpackAppendOptions,
): Promise<BloscpackAppendResult> {
  const state = await readBloscpackState(store, key, { signal: options.signal });
  checkArray(state, options);
  const { chunkSize } = planAppend(state, options);
  const nbytes = state.nbytes + length;
  const nchunks = length === 0 ? state.nchunks : Math.max(1, Math.ceil(nbytes / Math.max(1, chunkSize)));
  await newSection(state, nbytes, options);
  if (options.inPlace === true) {
    checkInPlace(state, options);
    checkRoom(state, nchunks, true);
  } else if (state.header.offsets) spareEntries(state, nchunks, options);
  const isWritten = options.inPlace !== true && (length > 0 || options.metadata !== undefined);
  return {
    nchunks,
    nbytes,
    bytesAppended: length,
    chunksAdded: nchunks - state.nchunks,
    ...copied(isWritten ? await storedSizes(state, Math.max(0, state.nchunks - 1)) : []),
  };
}

function copied(
  sizes: readonly number[] | Float64Array,
): Pick<BloscpackAppendResult, "chunksCopied" | "bytesCopied"> {
  let bytesCopied = 0;
  for (const size of sizes) bytesCopied += size;
  return { chunksCopied: sizes.length, bytesCopied };
}

/** Rewrites the file: the first `kept` chunks as stored, and the others after them. */
export async function rewrite(
  plan: AppendPlan,
  kept: number,
  spool: SpooledChunks,
  options: BloscpackAppendOptions,
): Promise<BloscpackAppendResult> {
  const { state, chunkSize } = plan;
  const { store, key, archive, header } = state;
  const nbytes = kept * chunkSize + spool.nbytes;
  const result = {
    nchunks: kept + spool.sizes.length,
    nbytes,
    bytesAppended: nbytes - state.nbytes,
    chunksAdded: kept + spool.sizes.length - state.nchunks,
  };
  const cut: Chunking =
    kept === 0 && spool.sizes.length === 1
      ? // Like bloscpack: a chunk that is filled up keeps the header's chunk-size.
        {
          nchunks: 1,
          chunkSize: state.nbytes === 0 ? cutBytes(nbytes, chunkSize).chunkSize : chunkSize,
          lastChunk: spool.lastNbytes,
        }
      : { nchunks: result.nchunks, chunkSize, lastChunk: spool.lastNbytes };
  const maxAppChunks = header.offsets ? spareEntries(state, result.nchunks, options) : 0;
  const section = await newSection(state, nbytes, options, plan.shape);
  const sizes = await storedSizes(state, kept);
  const { offsets, checksum, typesize } = header;
  const allSizes = joined(sizes, spool.sizes);
  const head = packHead(cut, { offsets, checksum, typesize, maxAppChunks, section, sizes: allSizes });
  const digest = await loadDigest(checksum);
  async function* pieces(): AsyncGenerator<Uint8Array> {
    yield head;
    let i = 0;
    for await (const { bytes } of archive.encodedChunks(0, kept, { signal: options.signal })) {
      const sum = digest(bytes);
      if (bytes.length + sum.length !== sizes[i++])
        throw new SuperchunkError("STALE", "the file changed while it was appended to", {
          path: store.describe(key),
        });
      yield bytes;
      if (sum.length > 0) yield sum;
    }
    yield* spool.pieces();
  }
  await store.put(key, pieces(), { ifVersion: state.version, signal: options.signal });
  return { ...result, ...copied(sizes) };
}

function* joined(first: Iterable<number>, second: Iterable<number>): Generator<number> {
  yield* first;
  yield* second;
}

/** Spare offsets of the new file: what the chunks leave of the old table, or of a larger one. */
function spareEntries(state: BloscpackState, nchunks: number, options: BloscpackAppendOptions): number {
  if (nchunks <= state.entries) return state.entries - nchunks;
  if (options.grow !== true) checkRoom(state, nchunks);
  return settleCount("max-app-chunks", options.maxAppChunks, nchunks);
}

/** In place, a table cannot grow: the chunks begin directly after it. */
function checkRoom(
  { entries, nchunks: before, store, key }: BloscpackState,
  nchunks: number,
  inPlace = false,
): void {
  if (nchunks <= entries) return;
  const [room, wanted] = [entries - before, nchunks - before];
  const advice = inPlace
    ? "Append without --in-place, with --grow (grow: true), which rewrites the file with a larger table"
    : "Append with --grow (grow: true), which writes the file with a larger table";
  throw new SuperchunkError(
    "LIMIT",
    `the offsets table has room for ${room} more ${room === 1 ? "chunk" : "chunks"}, but ${wanted} ${wanted === 1 ? "is" : "are"} needed; nothing was changed. ${advice}`,
    { path: store.describe(key), offset: 24, field: "max-app-chunks", expected: wanted, found: room },
  );
}

/** The metadata section of the new file; for an array, with its new shape. */
async function newSection(
  state: BloscpackState,
  nbytes: number,
  options: BloscpackAppendOptions,
  shape?: readonly number[],
): Promise<Uint8Array | undefined> {
  const own = growableArray(state);
  const array =
    own && shape ? { ...own, shape, rowBytes: elementsOf(shape.slice(1)) * own.dtype.itemSize } : own;
  if (array === undefined && options.metadata === undefined) return state.section;
  const { codec, level } = options.metadataOptions ?? {};
  const { checksum, level: oldLevel, maxMetaSize } = state.sectionOptions ?? {};
  const value = array === undefined ? (options.metadata ?? null) : newMetadata(state, array, nbytes, options);
  const settings = { checksum, codec, level: level ?? oldLevel };
  try {
    return await packMetadata(value, { ...settings, maxMetaSize });
  } catch (error) {
    if (
      options.grow !== true ||
      !(error instanceof SuperchunkError) ||
      error.details.field !== "max-meta-size"
    )
      throw error;
    return packMetadata(value, settings);
  }
}

function newMetadata(
  state: BloscpackState,
  { dtype, shape, rowBytes }: NonNullable<ReturnType<typeof growableArray>>,
  nbytes: number,
  options: BloscpackAppendOptions,
): JsonObjectInput {
  const path = state.store.describe(state.key);
  if (rowBytes === 0 ? nbytes > 0 : nbytes % rowBytes !== 0)
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `the bytes to append are not whole rows: a row has ${rowBytes} bytes, and the array would have ${nbytes}`,
      { path, field: "shape", expected: `a multiple of ${rowBytes}`, found: nbytes },
    );
  const rows = rowBytes === 0 ? at(shape, 0) : nbytes / rowBytes;
  const own = numpyMetadata(dtype, [rows, ...shape.slice(1)], "C");
  const { dtype: stored, ...rest } = state.metadata as JsonObjectInput;
  const extra = membersOf(options.metadata ?? rest);
  // The dtype's spelling is kept: versions before 0.7.2 had another one.
  const shared = { shape: own["shape"] ?? null, order: "C", container: "numpy" };
  const layout = { dtype: stored ?? own["dtype"] ?? null, ...shared };
  const [given, before] = [extra, state.metadata] as readonly JsonObjectInput[];
  for (const [field, after] of Object.entries(layout)) {
    const [found, ...known] = [given?.[field], before?.[field], after].map((value) => JSON.stringify(value));
    if (found !== undefined && !known.includes(found))
      throw new SuperchunkError(
        "BAD_ARGUMENT",
        `the new metadata have the ${field} ${found}, and an append keeps ${known[0]}; leave it out`,
        { path, field, expected: known[0], found },
      );
  }
  return { ...own, ...(extra as JsonObjectInput), ...layout };
}

/** Refuses values that cannot follow the file's own. */
function checkArray(state: BloscpackState, { array }: BloscpackAppendOptions): void {
  if (array === undefined) return;
  const own = growableArray(state);
  if (own === undefined) return;
  const isSame =
    JSON.stringify(own.dtype) === JSON.stringify(array.dtype) &&
    JSON.stringify(own.shape.slice(1)) === JSON.stringify(array.shape.slice(1)) &&
    own.shape.length === array.shape.length;
  if (isSame) return;
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    `rows of shape [${array.shape.slice(1).join(", ")}] and dtype ${describe(array.dtype)} do not fit an array of rows of shape [${own.shape.slice(1).join(", ")}] and dtype ${describe(own.dtype)}`,
    {
      path: state.store.describe(state.key),
      field: "dtype",
      expected: describe(own.dtype),
      found: describe(array.dtype),
    },
  );
}

function describe(dtype: DType): string {
  return String(numpyMetadata(dtype, [], "C")["dtype"]);
}

function checkInPlace(state: BloscpackState, options: BloscpackAppendOptions): void {
  const path = state.store.describe(state.key);
  const refuse = (what: string, field: string): never => {
    throw new SuperchunkError("UNSUPPORTED", `${what}; append without --in-place, which makes a new file`, {
      path,
      field,
    });
  };
  const { header, file, nchunks, archive, nbytes } = state;
  if (archive.kind === "array")
    refuse(
      "the file holds a numpy array, whose shape and data cannot change in one step for its readers",
      "inPlace",
    );
  if (options.metadata !== undefined) refuse("metadata are not changed in place", "metadata");
  if (header.version !== 3) refuse(`a file of version ${header.version} is not changed in place`, "version");
  if (!header.offsets) refuse("the file has no offsets", "options");
  if (nbytes === 0) refuse("the file holds nothing yet and so has no chunk-size", "chunk-size");
  const { starts } = file;
  for (let i = 1; i < nchunks; i++)
    if (at(starts, i) < at(starts, i - 1)) refuse("the chunks are not in order in the file", "offsets");
}

// An append in place: bytes after the end of the file are written first, where no reader looks; then the journal takes the
// rest, and is the commit. Foreign readers refuse the file meanwhile. @see FORMAT.md [FR]

/**
 * Appends. Throws `CONFLICT` if the file has other names, before anything is written: in a linked file, bytes after the end
 * would follow the shard's index.
 */
async function appendInPlace(
  plan: AppendPlan,
  source: PutSource,
  store: InPlaceStore,
): Promise<BloscpackAppendResult> {
  const { state } = plan;
  const { file, key, header } = state;
  await requireOneName(store, key);
  const first = Math.max(0, state.nchunks - 1);
  const writes: JournalWrite[] = [];
  const starts: number[] = [];
  let end = at(file.starts, first);
  let lastNbytes = 0;
  let nbytes = state.nbytes - state.last.length;
  const put = async (bytes: Uint8Array): Promise<void> => {
    const inside = Math.max(0, Math.min(bytes.length, file.size - end));
    if (inside > 0) writes.push({ offset: end, bytes: bytes.slice(0, inside) });
    if (inside < bytes.length) await store.writeRange(key, end + inside, bytes.subarray(inside));
    end += bytes.length;
  };
  for await (const chunk of newChunks(plan, source)) {
    starts.push(end);
    checkRoom(state, first + starts.length, true);
    await put(chunk.bytes);
    await put(chunk.digest);
    lastNbytes = chunk.nbytes;
    nbytes += chunk.nbytes;
  }
  const nchunks = first + starts.length;
  const result = {
    nchunks,
    nbytes,
    bytesAppended: nbytes - state.nbytes,
    chunksAdded: nchunks - state.nchunks,
    chunksCopied: 0,
    bytesCopied: 0,
  };
  if (result.bytesAppended === 0) return result;
  const { offsets, metadata, checksum, typesize } = header;
  const cut = { nchunks, chunkSize: plan.chunkSize, lastChunk: lastNbytes };
  const maxAppChunks = state.entries - nchunks;
  writes.push({ offset: state.tableAt + first * OFFSET_LENGTH, bytes: encodeOffsets(starts) });
  writes.push({
    offset: 0,
    bytes: encodeFileHeader(bloscpackHeader(cut, { offsets, metadata, checksum, typesize, maxAppChunks })),
  });
  // Bytes after the old end are durable before the journal says that they count.
  await store.sync([key]);
  await changeInPlace(store, key, writes);
  return result;
}

// The options of an append to a Bloscpack file, and the plan made from them.

/** Options of `appendToBloscpack`. Compression defaults to that of the file's last chunk, at clevel 7. */
export interface BloscpackAppendOptions extends BloscpackCompression, LongOptions {
  /** Changes the file in place (default false: a new file is renamed over it). Plain bytes only. */
  readonly inPlace?: boolean | undefined;
  /** Rewrites the file with a larger offsets table if the table is full (default false: `LIMIT`). */
  readonly grow?: boolean | undefined;
  /** Room in the larger table (default `10x`). */
  readonly maxAppChunks?: CountOrFactor | undefined;
  /** Uncompressed bytes of a chunk, for a file that is still empty (default 1 MiB). */
  readonly chunkSize?: number | undefined;
  /** User metadata to replace the old. */
  readonly metadata?: JsonInput | undefined;
  /** Codec and level of the metadata; checksum and room stay unchanged. */
  readonly metadataOptions?: Pick<BloscpackMetadataOptions, "codec" | "level"> | undefined;
  /** Layout of bytes that come from an array: must be the file's own dtype and row shape. */
  readonly array?: { readonly dtype: DType; readonly shape: readonly number[] } | undefined;
}

/** Result of an append. Sizes in bytes. */
export interface BloscpackAppendResult {
  readonly nchunks: number;
  readonly nbytes: number;
  readonly bytesAppended: number;
  readonly chunksAdded: number;
  /** Chunks copied unchanged into the new file, and their stored bytes; 0 in place. */
  readonly chunksCopied: number;
  readonly bytesCopied: number;
}

interface AppendPlan {
  readonly state: BloscpackState;
  readonly compression: BloscpackCompression & Pick<LongOptions, "onProgress" | "signal">;
  readonly chunkSize: number;
  readonly checksum: ChecksumName;
  /** Shape of the whole array, if the row shape changes. */
  readonly shape?: readonly number[];
}

/** Completes the settings. */
export function planAppend(state: BloscpackState, options: BloscpackAppendOptions): AppendPlan {
  const { lastHeader, header, nbytes, archive } = state;
  const itemSize = archive.kind === "array" ? archive.dtype.itemSize : 1;
  const { signal, onProgress, encoder } = options;
  return {
    state,
    chunkSize: nbytes === 0 ? settleChunkSize(options.chunkSize, itemSize) : state.chunkSize,
    checksum: header.checksum,
    compression: {
      typesize: options.typesize ?? (header.typesize > 0 ? header.typesize : lastHeader?.typesize),
      clevel: options.clevel,
      cname: options.cname ?? (nbytes === 0 ? undefined : lastHeader?.compressor),
      shuffle: options.shuffle ?? (nbytes === 0 ? undefined : lastHeader?.shuffle),
      encoder,
      signal,
      onProgress,
    },
  };
}

/** The last chunk filled up, and those after it. */
function newChunks(plan: AppendPlan, source: PutSource): ReturnType<typeof encodeChunks> {
  const { state, compression, chunkSize, checksum } = plan;
  const pieces = cutPieces(source, chunkSize, compression.signal, state.last);
  return encodeChunks(pieces, checksum, undefined, compression);
}
