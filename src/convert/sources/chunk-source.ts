/**
 * The encoded chunks of a shard, taken from an archive: copied after checking their headers, or recoded.
 *
 * Knows archives and the codec; must not know where the chunks go.
 */
import type { ChunkPlace } from "../../archive/places/sequence.ts";
import { at } from "../../bytes/arrays.ts";
import { decode } from "../../codec/decode/decode.ts";
import { blockLength, decodeHeader, readBlockTable, typesizeFor } from "../../codec/header.ts";
import type { ChunkEncoder, ChunkHeader, EncodeOptions } from "../../codec/types.ts";
import { placedError, SuperchunkError } from "../../errors.ts";
import type { ReadableStore } from "../../store/types.ts";
import type { ChunkCounts } from "../pipeline.ts";
import {
  type ArrayJob,
  bytesOfCell,
  cellSegments,
  fitOf,
  type JobLayout,
  rowBytesOfCell,
  takenBytes,
} from "../plan/array-job.ts";
import { type CellRange, cellItems, cellStart } from "../plan/grid.ts";
import type { SourceArchive } from "./source-array.ts";

/** Source bytes decoded at a time when chunks are recoded. */
const BATCH = 8 * 1024 * 1024;

export interface ChunkWork {
  readonly job: ArrayJob;
  readonly layout: JobLayout;
  readonly counts: ChunkCounts;
  readonly encoder: ChunkEncoder;
  readonly signal: AbortSignal;
  /** Called with the uncompressed bytes of each finished chunk. */
  readonly onChunk: (nbytes: number) => void;
  /** See `encodedChunks`. */
  readonly buffers?: Uint8Array[] | undefined;
}

/** Yields the chunks of the given cells, in order. Each is valid until the next one is requested. */
export async function* chunksOfCells(work: ChunkWork, range: CellRange): AsyncGenerator<Uint8Array> {
  for (const { first, end, chunk } of cellSegments(work.layout.copies, range)) {
    const cells = { first, end };
    if (chunk === undefined) yield* recodeChunks(work, cells);
    else yield* copyChunks(work, cells, chunk);
  }
}

async function* copyChunks(
  work: ChunkWork,
  { first, end }: CellRange,
  chunk: number,
): AsyncGenerator<Uint8Array> {
  const { job, layout, counts, signal, buffers } = work;
  const { archive } = job.source;
  const shift = chunk - first;
  let index = first;
  for await (const { place, bytes } of archive.encodedChunks(chunk, end + shift, { signal, buffers })) {
    const header = decodeHeader(bytes, bytes.length);
    checkHeader(work, index, { ...place, index: index + shift }, header);
    if (isOdd(job, header.typesize)) counts.oddTypesize++;
    await placeFailure(archive.store, place, checkStreams(bytes, header));
    const fit = fitOf(job, layout, index, header);
    counts[fit]++;
    if (fit === "copied") yield bytes;
    else {
      const fitting = fitTo(work, bytesOfCell(job, layout, index), bytes, header);
      yield await placeFailure(archive.store, place, fitting);
    }
    work.onChunk(cellItems(layout.cells, index) * job.source.dtype.itemSize);
    index++;
  }
  if (index !== end) throw tooFewChunks(job.source.archive, end - first, index - first);
}

/** True for a typesize that no writer has a reason to choose. */
function isOdd({ source: { archive, dtype } }: ArrayJob, typesize: number): boolean {
  // For plain bytes, the writer guessed a size; bcolz 1.2 gives strings the size of a character.
  if (archive.kind === "bytes") return false;
  if (dtype.kind === "bytes" && typesize === 1) return false;
  if (dtype.kind === "unicode" && (typesize === 4 || typesize === 1)) return false;
  return typesize !== typesizeFor(dtype.itemSize);
}

/**
 * Throws if the header does not fit the metadata. Only a chunk with fewer rows than a whole one may differ: it may be as long
 * as a whole one.
 */
function checkHeader(
  { job, layout }: ChunkWork,
  cell: number,
  { key, index: chunk }: Pick<ChunkPlace, "key" | "index">,
  header: ChunkHeader,
): void {
  const { archive } = job.source;
  const needed = rowBytesOfCell(job, layout, cell);
  const most = Math.max(needed, archive.chunkBytesAt?.(chunk) ?? archive.chunkBytes);
  if (header.nbytes >= needed && header.nbytes <= most) return;
  throw new SuperchunkError(
    "BAD_FIELD",
    `nbytes at byte 4 of the chunk is ${header.nbytes}, but by the array's metadata it should be ${needed}; run "superchunk verify"`,
    { path: archive.store.describe(key), chunk, field: "nbytes", expected: needed, found: header.nbytes },
  );
}

/**
 * Looks for damage without decoding: every known writer fills a block with its streams, and no stream is empty. A chunk that differs is
 * decoded. Throws as `decode`.
 */
export async function checkStreams(
  chunk: Uint8Array,
  header: ChunkHeader = decodeHeader(chunk),
): Promise<void> {
  if (header.memcpyed) return;
  const { starts, ends } = readBlockTable(chunk, header);
  const view = new DataView(chunk.buffer, chunk.byteOffset, chunk.length);
  for (let block = 0; block < header.nblocks; block++) {
    let [next, size] = [at(starts, block), 1];
    const end = at(ends, block);
    const isWhole = blockLength(header, block) === header.blocksize;
    for (let left = header.split && isWhole ? header.typesize : 1; left > 0 && size > 0; left--) {
      size = next + 4 > end ? 0 : view.getInt32(next, true);
      next += 4 + size;
    }
    if (size <= 0 || next !== end) return void (await decode(chunk));
  }
}

let encoding: typeof import("../../codec/index.ts") | undefined;

/** Loads the encoder; a page that shows whole chunks does not need it. */
const loadEncoding = async () => (encoding ??= await import("../../codec/index.ts"));

/** Re-encodes a chunk: pads a short one with the fill value to a whole one, or removes excess rows. */
async function fitTo(
  { job, encoder }: ChunkWork,
  cellBytes: number,
  bytes: Uint8Array,
  header: ChunkHeader,
): Promise<Uint8Array> {
  const settings = encodeSettingsOf(job, header);
  const fillItem = job.type.fill.item;
  if (header.nbytes < cellBytes) {
    const padding = padItems(new Uint8Array(0), cellBytes - header.nbytes, fillItem);
    const { extendChunk } = await loadEncoding();
    const extended = await extendChunk(bytes, padding, settings);
    if (extended !== undefined) return extended;
  }
  const items = await decode(bytes, { expectedNbytes: header.nbytes });
  return encoder.encode(padItems(items, cellBytes, fillItem), settings);
}

function padItems(items: Uint8Array, length: number, fillItem: Uint8Array): Uint8Array {
  const whole = new Uint8Array(length);
  whole.set(items.length > length ? items.subarray(0, length) : items);
  if (fillItem.some((byte) => byte !== 0))
    for (let at = items.length; at < length; at += fillItem.length) whole.set(fillItem, at);
  return whole;
}

function encodeSettingsOf(job: ArrayJob, header?: ChunkHeader): EncodeOptions {
  const { clevel, cname, shuffle, typesize } = job.blosc;
  const from = header ?? { compressor: cname, shuffle, typesize };
  return {
    cname: (from.compressor === "snappy" ? "lz4" : from.compressor) as "lz4",
    clevel,
    shuffle: from.shuffle,
    typesize: from.typesize,
  };
}

async function* recodeChunks(
  { job, layout, counts, signal, onChunk, encoder }: ChunkWork,
  { first, end }: CellRange,
): AsyncGenerator<Uint8Array> {
  async function* wholeCells(): AsyncGenerator<Uint8Array> {
    let cell = first;
    for await (const items of recodedCells(job, layout, { first, end }, signal))
      yield padItems(items, bytesOfCell(job, layout, cell++), job.type.fill.item);
  }
  let cell = first;
  const { encodeAhead } = await loadEncoding();
  for await (const chunk of encodeAhead(wholeCells(), encodeSettingsOf(job), encoder)) {
    counts.recoded++;
    yield chunk;
    onChunk(cellItems(layout.cells, cell++) * takenBytes(job));
  }
}

/**
 * Decoded items of the given cells in Zarr's form, without padding. Cells are consecutive in stored order, so they are read in
 * large runs and cut.
 */
export async function* recodedCells(
  { source, type }: ArrayJob,
  { cells }: JobLayout,
  { first, end }: CellRange,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const { archive, dtype } = source;
  let at = cellStart(cells, first) * dtype.itemSize;
  for (let cell = first; cell < end; ) {
    const sizes: number[] = [];
    let length = 0;
    do {
      const size = cellItems(cells, cell++) * dtype.itemSize;
      sizes.push(size);
      length += size;
    } while (cell < end && length < BATCH);
    const run = await archive.readBytes(at, at + length, { signal });
    at += length;
    let from = 0;
    for (const size of sizes) {
      const items = run.subarray(from, from + size);
      from += size;
      yield type.transform === undefined ? items : type.transform.apply(items);
    }
  }
}

/** The error for an archive that has fewer chunks than its metadata count. */
export function tooFewChunks(
  { store, path }: Pick<SourceArchive, "store" | "path">,
  expected: number,
  found: number,
): SuperchunkError {
  return new SuperchunkError(
    "INCOMPLETE",
    `chunks counted: ${expected}; found: ${found}; run "superchunk verify"`,
    { path: store.describe(path), field: "nchunks", expected, found },
  );
}

/** Awaits `work` on the chunk at `place`. If it fails, the error names object, chunk and offset. */
export async function placeFailure<T>(store: ReadableStore, place: ChunkPlace, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw placedError(error, store.describe(place.key), place);
  }
}
