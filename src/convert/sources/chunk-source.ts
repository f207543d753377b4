/**
 * The encoded chunks of a shard, taken from an archive: copied after checking their headers, or recoded.
 *
 * Knows archives and the codec. Also: the shards that these chunks become, as files.
 */
import { type ChunkPlace, placeFailure } from "../../archive/places/sequence.ts";
import { decode } from "../../codec/decode/decode.ts";
import { decodeHeader } from "../../codec/header.ts";
import type { ChunkEncoder, ChunkHeader, EncodeOptions } from "../../codec/types.ts";
import { SuperchunkError } from "../../errors.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore, StoreOptions } from "../../store/types.ts";
import { chunkKey } from "../../zarr/document/make-v3.ts";
import {
  decodeShardIndex,
  emptyEntries,
  encodeShardIndex,
  type ShardEntry,
  shardIndexLength,
} from "../../zarr/read/shard-index.ts";
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
import { type CellRange, cellItems, cellStart, shardPosition } from "../plan/grid.ts";

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
  if (index !== end) throw missing(job, end - first, index - first);
}

/** True for a typesize that no writer has a reason to choose. */
function isOdd({ source: { archive, dtype } }: ArrayJob, typesize: number): boolean {
  // For plain bytes, the writer guessed a size; bcolz 1.2 gives strings the size of a character.
  if (archive.kind === "bytes") return false;
  if (dtype.kind === "bytes" && typesize === 1) return false;
  if (dtype.kind === "unicode" && (typesize === 4 || typesize === 1)) return false;
  return typesize !== (dtype.itemSize > 255 ? 1 : dtype.itemSize);
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
    `nbytes at byte 4 of the chunk is ${header.nbytes}, but the array's metadata asks for ${needed}; run "superchunk verify"`,
    { path: archive.store.describe(key), chunk, field: "nbytes", expected: needed, found: header.nbytes },
  );
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
  const settings = settingsOf(job, header);
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
  if (fillItem.some((byte) => byte !== 0)) {
    for (let at = items.length; at < length; at += fillItem.length) whole.set(fillItem, at);
  }
  return whole;
}

function settingsOf(job: ArrayJob, header?: ChunkHeader): EncodeOptions {
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
  for await (const chunk of encodeAhead(wholeCells(), settingsOf(job), encoder)) {
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

function missing({ source: { archive } }: ArrayJob, expected: number, found: number): SuperchunkError {
  return new SuperchunkError(
    "INCOMPLETE",
    `${expected} chunks are counted, but ${found} were found; run "superchunk verify"`,
    { path: archive.store.describe(archive.path), field: "nchunks", expected, found },
  );
}

// The shards of a conversion as files: their keys, and their bytes written and read back. The chunks lie back to back, then comes the
// index with its checksum.
//
// Writes with flat memory: large chunks go through as they are, small ones are gathered. Must not know what the chunks hold.

/** Neighbouring chunks are read together up to this many bytes. */
const READ_AT_ONCE = 2 * 1024 * 1024;

interface OpenShard {
  readonly key: string;
  /** By slot; undefined for absent chunks. */
  readonly entries: readonly (ShardEntry | undefined)[];
}

/** Reads and checks the index at the end of a shard. Throws `NOT_FOUND`, `TRUNCATED`, `CHECKSUM_MISMATCH`, `BAD_FIELD`. */
export async function openShard(
  store: ReadableStore,
  key: string,
  capacity: number,
  options: StoreOptions = {},
): Promise<OpenShard> {
  const path = store.describe(key);
  const info = await store.stat(key, options);
  const index = info && (await store.getRange(key, { suffixLength: shardIndexLength(capacity) }, options));
  if (info === undefined || index === undefined) {
    throw new SuperchunkError("NOT_FOUND", "the shard is not there; convert again", { path });
  }
  return { key, entries: await decodeShardIndex(index, { path, size: info.size, grid: [capacity] }) };
}

/**
 * The chunks in the given slots, in that order; neighbours share one read. Each is a view that is valid until the next one is
 * requested. Throws `INCOMPLETE` for an absent chunk, `TRUNCATED` for a short read.
 */
export async function* readShardChunks(
  store: ReadableStore,
  { key, entries }: OpenShard,
  slots: readonly number[],
  options: StoreOptions = {},
): AsyncGenerator<Uint8Array> {
  const path = store.describe(key);
  for (let at = 0; at < slots.length; ) {
    const run: ShardEntry[] = [];
    let length = 0;
    for (; at < slots.length; at++) {
      const slot = slots[at] ?? -1;
      const entry = entries[slot];
      if (entry === undefined)
        throw new SuperchunkError("INCOMPLETE", `chunk ${slot} is absent from the shard; convert again`, {
          path,
          chunk: slot,
        });
      const last = run.at(-1);
      if (
        last !== undefined &&
        (entry.offset !== last.offset + last.nbytes || length + entry.nbytes > READ_AT_ONCE)
      )
        break;
      run.push(entry);
      length += entry.nbytes;
    }
    const start = run[0]?.offset ?? 0;
    const bytes = await store.getRange(key, { offset: start, length }, options);
    if (bytes === undefined || bytes.length !== length) {
      throw new SuperchunkError(
        "TRUNCATED",
        `${length} bytes are asked for from byte ${start}, but ${bytes?.length ?? 0} came`,
        { path, offset: start, expected: length, found: bytes?.length ?? 0 },
      );
    }
    for (const { offset, nbytes } of run) yield bytes.subarray(offset - start, offset - start + nbytes);
  }
}

/** Small chunks are gathered up to this many bytes, so that a piece costs few promises and system calls. */
const GATHER = 512 * 1024;
const SMALL = 4 * 1024;

/**
 * The pieces of a shard, with chunks in the given order; `slotOf(k)` is the index slot of the k-th. A chunk's memory may be
 * reused once the next one is requested; so may a piece's.
 */
export async function* shardPieces(
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  capacity: number,
  slotOf: (k: number) => number = (k) => k,
): AsyncGenerator<Uint8Array> {
  const entries = emptyEntries(capacity);
  let gathered = new Uint8Array(SMALL);
  let filled = 0;
  let offset = 0;
  let k = 0;
  for await (const chunk of chunks) {
    entries[slotOf(k++)] = { offset, nbytes: chunk.length };
    offset += chunk.length;
    if (filled + chunk.length > GATHER && filled > 0) {
      yield gathered.subarray(0, filled);
      filled = 0;
    }
    if (chunk.length >= GATHER) {
      yield chunk;
      continue;
    }
    if (filled + chunk.length > gathered.length) gathered = grow(gathered, filled, chunk.length);
    gathered.set(chunk, filled);
    filled += chunk.length;
  }
  if (filled > 0) yield gathered.subarray(0, filled);
  yield await encodeShardIndex(entries);
}

/** A larger buffer. It grows in steps, because with very many small arrays the full size would be most of their cost. */
function grow(gathered: Uint8Array, filled: number, more: number): Uint8Array<ArrayBuffer> {
  const large = new Uint8Array(Math.min(GATHER, Math.max(4 * gathered.length, filled + more)));
  large.set(gathered.subarray(0, filled));
  return large;
}

/** Key of a shard; for a grid of single chunks, of the chunk; for an array without dimensions, of its only object. */
export function shardKey(prefix: string, job: ArrayJob, layout: JobLayout, shard: number): string {
  if (!layout.sharded && !layout.unequal) return joinKey(prefix, job.node, chunkKey([]));
  return joinKey(prefix, job.node, chunkKey(shardPlace(job, layout, shard)));
}

export function shardPlace(job: ArrayJob, layout: JobLayout, shard: number): number[] {
  const stored = shardPosition(layout.shards, shard);
  const position = job.source.shape.length === 0 ? [] : layout.reversed ? stored.reverse() : stored;
  return [...position, ...job.type.itemShape.map(() => 0)];
}
