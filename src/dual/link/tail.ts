/**
 * What stands behind the chunks of a linked file: a padded copy of a short last chunk, where there is one, and the index.
 *
 * Knows the bytes; must not know files beyond reading them. @see FORMAT.md [FL-02] [FL-03]
 */

import { CRC32C_OF_SUMMED, crc32c } from "../../bytes/checksum.ts";
import { isEqual } from "../../bytes/equal.ts";
import { decode, decodeHeader, encodeHere } from "../../codec/index.ts";
import { mayBePadded } from "../../convert/plan/chunk-fit.ts";
import { chunksOfCells } from "../../convert/sources/chunk-source.ts";
import { isSuperchunkError } from "../../errors.ts";
import type { ReadableStore } from "../../store/types.ts";
import {
  decodeShardIndex,
  emptyEntries,
  encodeShardIndex,
  shardIndexLength,
} from "../../zarr/read/shard-index.ts";
import { type LinkedShard, slotOf } from "./shards.ts";

/** The bytes that are added to a file. */
export interface Tail {
  /** One behind the other. */
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
  const index = emptyEntries(layout.shards.capacity);
  for (const [k, { offset, ctbytes }] of chunks.entries())
    index[slotOf(shard, k)] = { offset, nbytes: ctbytes };
  if (whole !== undefined) index[slotOf(shard, chunks.length - 1)] = { offset: size, nbytes: whole.length };
  const entries = await encodeShardIndex(index);
  if (whole === undefined)
    return { pieces: [entries], length: entries.length, crc32c: CRC32C_OF_SUMMED, padded: 0 };
  const pieces = [whole, entries];
  const length = whole.length + entries.length;
  return { pieces, length, crc32c: await crc32c(...pieces), padded: whole.length };
}

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

/** Made once for each shard, however often it is looked at. */
const wholeLastChunks = new WeakMap<LinkedShard, Promise<Uint8Array | undefined>>();

async function makeWholeLastChunk(shard: LinkedShard, signal: AbortSignal): Promise<Uint8Array | undefined> {
  const { job, layout } = shard;
  const last = shard.first + shard.chunks.length - 1;
  const counts = { copied: 0, padded: 0, recoded: 0, oddTypesize: 0 };
  const cells = { first: last, end: last + 1 };
  for await (const chunk of chunksOfCells(job, layout, cells, counts, signal, () => {}, encodeHere))
    if (counts.padded > 0) return chunk;
  return undefined;
}

/** True for the file with the array's last chunk, where not all of its rows count. */
function mayBeShort({ job, layout, first, chunks }: LinkedShard): boolean {
  return mayBePadded(job, layout, first + chunks.length - 1);
}

/**
 * Reads the tail of a shard of `size` bytes and says what is wrong with it; undefined where the index leads to every chunk.
 * Throws only what the store throws.
 */
export async function checkTail(
  shard: LinkedShard,
  store: ReadableStore,
  key: string,
  size: number,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { capacity } = shard.layout.shards;
  const length = shardIndexLength(capacity);
  if (size < length) return "the file is shorter than an index";
  const bytes = await store.getRange(key, { offset: size - length, length }, { signal });
  let entries: Awaited<ReturnType<typeof decodeShardIndex>>;
  try {
    entries = await decodeShardIndex(bytes ?? new Uint8Array(0), {
      path: store.describe(key),
      size,
      grid: [capacity],
    });
  } catch (error) {
    if (isSuperchunkError(error)) return error.summary.replace(/(?:\. The index is damaged; .*)$/, "");
    throw error;
  }
  const wanted = new Map(
    shard.chunks.map(({ offset, ctbytes }, k) => [slotOf(shard, k), { offset, nbytes: ctbytes, k }]),
  );
  for (const [slot, found] of entries.entries()) {
    const place = wanted.get(slot);
    if (place === undefined && found === undefined) continue;
    const same = place !== undefined && found?.offset === place.offset && found.nbytes === place.nbytes;
    const isLast = place?.k === shard.chunks.length - 1;
    if (same && !(isLast && (await isShort(shard, signal)))) continue;
    if (found !== undefined && isLast && mayBeShort(shard)) {
      const reason = await checkPadded(shard, store, key, found, signal);
      if (reason === undefined) continue;
      return `entry ${slot} of the shard index: ${reason}`;
    }
    const text = (at: { offset: number; nbytes: number } | undefined): string =>
      at === undefined ? "no chunk" : `${at.nbytes} bytes at byte ${at.offset}`;
    return `entry ${slot} of the shard index leads to ${text(found)}, but the archive has ${text(place)}`;
  }
  return undefined;
}

async function isShort(shard: LinkedShard, signal: AbortSignal): Promise<boolean> {
  return mayBeShort(shard) && (await wholeLastChunk(shard, signal)) !== undefined;
}

/** Says what is wrong with the padded copy of the last chunk. */
async function checkPadded(
  shard: LinkedShard,
  store: ReadableStore,
  key: string,
  { offset, nbytes }: { readonly offset: number; readonly nbytes: number },
  signal: AbortSignal,
): Promise<string | undefined> {
  const whole = await wholeLastChunk(shard, signal);
  if (whole === undefined) return "it leads to another chunk than the archive's own whole one";
  const bytes = await store.getRange(key, { offset, length: nbytes }, { signal });
  try {
    const found = bytes ?? new Uint8Array(0);
    if (decodeHeader(found, found.length).nbytes !== shard.layout.cellBytes)
      return "the padded copy of the last chunk has another length than a whole chunk";
    if (isEqual(found, whole)) return undefined;
    const expectedNbytes = shard.layout.cellBytes;
    const [copy, own] = [await decode(found, { expectedNbytes }), await decode(whole, { expectedNbytes })];
    return isEqual(copy, own)
      ? undefined
      : "the padded copy of the last chunk has other values than the chunk";
  } catch (error) {
    if (isSuperchunkError(error)) return `the padded copy of the last chunk: ${error.summary}`;
    throw error;
  }
}
