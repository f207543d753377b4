/**
 * What comes after the chunks of a data file that is a shard as well: a padded copy of a short last chunk, where there is
 * one, and the index. Makes it, checks it, and proves that it is one.
 *
 * Knows the bytes; must not know files beyond reading them. @see FORMAT.md [FL-02] [FL-03] [FL-05]
 */
import { openBlpkFile } from "../archive/places/blpk-file.ts";
import { isEqual } from "../bytes/arrays.ts";
import { CRC32C_OF_SUMMED, crc32c } from "../bytes/checksum.ts";
import { decode, decodeHeader, encodeHere } from "../codec/index.ts";
import { mayBePadded } from "../convert/plan/array-job.ts";
import { chunksOfCells } from "../convert/sources/chunk-source.ts";
import { isSuperchunkError } from "../errors.ts";
import type { ReadableStore } from "../store/types.ts";
import {
  decodeShardIndex,
  emptyEntries,
  encodeShardIndex,
  type ShardEntries,
  type ShardEntry,
  shardIndexLength,
} from "../zarr/read/shard-index.ts";
import { readIndex, type StoredShard } from "./shard-file.ts";
import { type LinkedShard, slotOf } from "./shards.ts";

const ENTRY = shardIndexLength(1) - shardIndexLength(0);
const CHUNK_HEADER = 16;

/** The bytes that are added to a file. */
export interface Tail {
  /** To be written one after the other. */
  readonly pieces: readonly Uint8Array[];
  /** Bytes of all pieces. */
  readonly length: number;
  readonly crc32c: number;
  /** Bytes of the padded copy at the start. */
  readonly padded: number;
}

/** Makes the tail of a file of `size` bytes. Reads the last chunk where it may be short. */
export async function makeTail(shard: LinkedShard, size: number, signal: AbortSignal): Promise<Tail> {
  const whole = await wholeLastChunk(shard, signal);
  const { chunks, layout } = shard;
  const entries = emptyEntries(layout.shards.capacity);
  for (const [k, { offset, ctbytes }] of chunks.entries())
    entries[slotOf(shard, k)] = { offset, nbytes: ctbytes };
  if (whole !== undefined) entries[slotOf(shard, chunks.length - 1)] = { offset: size, nbytes: whole.length };
  const index = await encodeShardIndex(entries);
  if (whole === undefined)
    return { pieces: [index], length: index.length, crc32c: CRC32C_OF_SUMMED, padded: 0 };
  const pieces = [whole, index];
  const length = whole.length + index.length;
  return { pieces, length, crc32c: await crc32c(...pieces), padded: whole.length };
}

/** The padded last chunks, each made once however often its shard is looked at. */
const wholeLastChunks = new WeakMap<LinkedShard, Promise<Uint8Array | undefined>>();

/** A short last chunk of the array at its full length; undefined where the file's last chunk is whole. */
async function wholeLastChunk(shard: LinkedShard, signal: AbortSignal): Promise<Uint8Array | undefined> {
  if (!mayBeShort(shard)) return undefined;
  let whole = wholeLastChunks.get(shard);
  if (whole === undefined) {
    whole = makeWholeLastChunk(shard, signal);
    wholeLastChunks.set(shard, whole);
  }
  return whole;
}

async function makeWholeLastChunk(shard: LinkedShard, signal: AbortSignal): Promise<Uint8Array | undefined> {
  const { job, layout } = shard;
  const last = shard.first + shard.chunks.length - 1;
  const counts = { copied: 0, padded: 0, recoded: 0, oddTypesize: 0 };
  const cells = { first: last, end: last + 1 };
  const work = { job, layout, counts, signal, encoder: encodeHere, onChunk: () => {} };
  for await (const chunk of chunksOfCells(work, cells)) if (counts.padded > 0) return chunk;
  return undefined;
}

/** True for the file with the array's last chunk, where not all of its rows count. */
function mayBeShort({ job, layout, first, chunks }: LinkedShard): boolean {
  return mayBePadded(job, layout, first + chunks.length - 1);
}

/**
 * Reads the tail of a shard and says what is wrong with it; undefined where the index leads to every chunk. Throws only what
 * the store throws.
 */
export async function checkTail(
  shard: LinkedShard,
  stored: StoredShard,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { capacity } = shard.layout.shards;
  if (stored.size < shardIndexLength(capacity)) return "the file is shorter than an index";
  let entries: ShardEntries;
  try {
    entries = await readIndex(stored, capacity, signal);
  } catch (error) {
    if (isSuperchunkError(error)) return error.summary.replace(/(?:\. The index is damaged; .*)$/, "");
    throw error;
  }
  const last = shard.chunks.length - 1;
  const wanted = new Map(shard.chunks.map((chunk, k) => [slotOf(shard, k), { ...chunk, k }]));
  for (const [slot, found] of entries.entries()) {
    const place = wanted.get(slot);
    if (place === undefined && found === undefined) continue;
    const isShort = place?.k === last && mayBeShort(shard);
    const isSame = place !== undefined && found?.offset === place.offset && found.nbytes === place.ctbytes;
    if (isSame && !(isShort && (await wholeLastChunk(shard, signal)) !== undefined)) continue;
    if (found !== undefined && isShort) {
      const reason = await checkPadded(shard, stored, found, signal);
      if (reason === undefined) continue;
      return `entry ${slot} of the shard index: ${reason}`;
    }
    const [is, expected] = [
      showPlace(found?.offset, found?.nbytes),
      showPlace(place?.offset, place?.ctbytes),
    ];
    return `entry ${slot} of the shard index leads to ${is}, but the archive has ${expected}`;
  }
  return undefined;
}

function showPlace(offset: number | undefined, nbytes: number | undefined): string {
  return offset === undefined ? "no chunk" : `${nbytes} bytes at byte ${offset}`;
}

/** Says what is wrong with the padded copy of the last chunk. */
async function checkPadded(
  shard: LinkedShard,
  { store, key }: StoredShard,
  { offset, nbytes }: ShardEntry,
  signal: AbortSignal,
): Promise<string | undefined> {
  const whole = await wholeLastChunk(shard, signal);
  if (whole === undefined) return "it leads to another chunk than the archive's own whole one";
  const bytes = await store.getRange(key, { offset, length: nbytes }, { signal });
  const expectedNbytes = shard.layout.cellBytes;
  try {
    const found = bytes ?? new Uint8Array(0);
    if (decodeHeader(found, found.length).nbytes !== expectedNbytes)
      return "the padded copy of the last chunk has another length than a whole chunk";
    if (isEqual(found, whole)) return undefined;
    const [copy, own] = [await decode(found, { expectedNbytes }), await decode(whole, { expectedNbytes })];
    return isEqual(copy, own)
      ? undefined
      : "the padded copy of the last chunk has other values than the chunk";
  } catch (error) {
    if (isSuperchunkError(error)) return `the padded copy of the last chunk: ${error.summary}`;
    throw error;
  }
}

/** What follows the first `size` bytes of a file, to its end. */
export interface FoundTail {
  readonly size: number;
  readonly bytes: Uint8Array;
}

/** True where a tail is a whole index, perhaps after one chunk: the padded copy of a short last one. */
export async function isIndexTail(tail: FoundTail, path: string): Promise<boolean> {
  return (await entriesOfTail(tail, path)) !== undefined;
}

/**
 * True where a tail is such an index, all of its entries lead to chunks of that very file, or to the copy, and the file says
 * that all of its chunks begin before the tail. A record alone proves nothing: its maker may have chosen any file. Throws
 * what reading throws, but for damage: what cannot be read proves nothing. [FL-05]
 */
export async function isIndexOfFile(store: ReadableStore, key: string, tail: FoundTail): Promise<boolean> {
  const entries = await entriesOfTail(tail, store.describe(key));
  if (entries === undefined) return false;
  const { size, bytes } = tail;
  try {
    const { starts } = await openBlpkFile(store, key, size + bytes.length, Number.POSITIVE_INFINITY);
    const own = new Set(starts);
    return (
      starts.length > 0 &&
      starts.every((start) => start < size) &&
      entries.every(({ offset, nbytes }) => offset === size || (own.has(offset) && offset + nbytes <= size))
    );
  } catch (error) {
    if (isSuperchunkError(error) && error.isDamage) return false;
    throw error;
  }
}

/** The chunks that the index of a tail names: those before it, and the copy if there is one, which fills what is between. */
async function entriesOfTail(
  { size, bytes }: FoundTail,
  path: string,
): Promise<readonly ShardEntry[] | undefined> {
  for (const copy of [0, firstChunkLength(bytes)]) {
    const capacity = (bytes.length - copy - shardIndexLength(0)) / ENTRY;
    if (!Number.isInteger(capacity) || capacity < 1) continue;
    try {
      const shard = { path, size: size + bytes.length, grid: [capacity] };
      const all = await decodeShardIndex(bytes.subarray(copy), shard);
      const entries = all.filter((entry) => entry !== undefined);
      const added = entries.filter(({ offset, nbytes }) => offset + nbytes > size);
      const isRight =
        copy === 0
          ? added.length === 0
          : added.length === 1 && added.every((each) => each.offset === size && each.nbytes === copy);
      if (entries.length > 0 && isRight) return entries;
    } catch (error) {
      if (!isSuperchunkError(error) || !error.isDamage) throw error;
    }
  }
  return undefined;
}

/** Bytes of the chunk at the start of a tail; 0 where there is none. */
function firstChunkLength(bytes: Uint8Array): number {
  if (bytes.length < CHUNK_HEADER) return 0;
  try {
    return decodeHeader(bytes.subarray(0, CHUNK_HEADER), bytes.length).ctbytes;
  } catch (error) {
    if (isSuperchunkError(error)) return 0;
    throw error;
  }
}
