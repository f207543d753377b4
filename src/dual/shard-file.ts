/**
 * A shard under its key: a data file, a separate file, or the note that the shard was removed. Also the tail of a data
 * file that is a shard as well: the padded copy of a short last chunk, if there is one, and the index.
 *
 * No byte that an index under the same key has led to is used for anything else. While rows are only appended, whole
 * chunks are stored where the full superchunk will have them, so it can replace the shard. Temporary data (the padded
 * copy of a short last chunk) is stored past all that a full superchunk can reach, after a hole. A separate file begins
 * with {@link OWN_HEAD}, which no index leads to. Must not know files beyond reading them.
 * @see FORMAT.md [FL-02] [FL-03] [FL-05] [FY-02] to [FY-05]
 */

import { openBlpkFile } from "../archive/places/blpk-file.ts";
import { isEqual, roundUp } from "../bytes/arrays.ts";
import { CRC32C_OF_SUMMED, crc32c } from "../bytes/checksum.ts";
import { decode, decodeHeader, encodeHere, HEADER_LENGTH } from "../codec/index.ts";
import { mayBePadded } from "../convert/plan/array-job.ts";
import { chunksOfCells } from "../convert/sources/chunk-source.ts";
import { isSuperchunkError, resultOr, SuperchunkError, valueOr } from "../errors.ts";
import { FILE_HEADER_LENGTH } from "../format/header.ts";
import type { ReadableStore } from "../store/types.ts";
import type { ChunkSpan } from "../write/array/superchunk-file.ts";
import {
  decodeShardIndex,
  emptyEntries,
  encodeShardIndex,
  type ShardEntries,
  type ShardEntry,
  shardIndexLength,
} from "../zarr/read/shard-index.ts";
import { type LinkedShard, slotOf } from "./shards.ts";
import type { FileFacts, FilePlace, FileRange, LinkSite, ShardReplacement } from "./types.ts";

const ENTRY = shardIndexLength(1) - shardIndexLength(0);

/** The bytes added to a file. */
export interface Tail {
  /** To be written one after the other. */
  readonly pieces: readonly Uint8Array[];
  readonly length: number;
  readonly crc32c: number;
  /** Bytes of the padded copy at the start. */
  readonly padded: number;
}

/** Makes the tail of a file of `size` bytes. Reads the last chunk if it may be short. */
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

/** Cached padded last chunks: each is made once, however often its shard is checked. */
const wholeLastChunks = new WeakMap<LinkedShard, Promise<Uint8Array | undefined>>();

/** The array's short last chunk padded to full length; undefined if the file's last chunk is whole. */
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

/** True for the file with the array's last chunk, if not all of its rows count. */
function mayBeShort({ job, layout, first, chunks }: LinkedShard): boolean {
  return mayBePadded(job, layout, first + chunks.length - 1);
}

/**
 * Reads the tail of a shard and returns what is wrong with it; undefined if the index leads to every chunk. Throws only
 * errors of the store.
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

/** Returns what is wrong with the padded copy of the last chunk. */
async function checkPadded(
  shard: LinkedShard,
  { store, key }: StoredShard,
  { offset, nbytes }: ShardEntry,
  signal: AbortSignal,
): Promise<string | undefined> {
  const whole = await wholeLastChunk(shard, signal);
  if (whole === undefined) return "it leads to a chunk other than the archive's own";
  const bytes = await store.getRange(key, { offset, length: nbytes }, { signal });
  const expectedNbytes = shard.layout.cellBytes;
  try {
    const found = bytes ?? new Uint8Array(0);
    if (decodeHeader(found, found.length).nbytes !== expectedNbytes)
      return "the padded copy of the last chunk does not have the length of a full chunk";
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

/** The bytes of a file from `size` to its end. */
interface FoundTail {
  readonly size: number;
  readonly bytes: Uint8Array;
}

/** True if a tail is a complete index, possibly after one chunk: the padded copy of a short last chunk. */
export async function isIndexTail(tail: FoundTail, path: string): Promise<boolean> {
  return (await entriesOfTail(tail, path)) !== undefined;
}

/**
 * True if a tail is such an index, all its entries lead to chunks of this file or to the copy, and the file itself says
 * that all of its chunks begin before the tail. A record alone proves nothing, because its maker may have named any
 * file. Throws errors of the store; damage means false. [FL-05]
 */
export async function isIndexOfFile(store: ReadableStore, key: string, tail: FoundTail): Promise<boolean> {
  const entries = await entriesOfTail(tail, store.describe(key));
  if (entries === undefined) return false;
  const { size, bytes } = tail;
  return resultOr(false, "damage", async () => {
    const { starts } = await openBlpkFile(store, key, size + bytes.length, Number.POSITIVE_INFINITY);
    const own = new Set(starts);
    return (
      starts.length > 0 &&
      starts.every((start) => start < size) &&
      entries.every(({ offset, nbytes }) => offset === size || (own.has(offset) && offset + nbytes <= size))
    );
  });
}

/**
 * Entries of the index in a tail. They name the chunks before the tail, and the copy if there is one, which must fill
 * the space before the index.
 */
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

/** Bytes of the chunk at the start of a tail; 0 if there is none. */
function firstChunkLength(bytes: Uint8Array): number {
  if (bytes.length < HEADER_LENGTH) return 0;
  return valueOr(0, "any", () => decodeHeader(bytes.subarray(0, HEADER_LENGTH), bytes.length).ctbytes);
}

const OWN_HEAD = "superchunk shard";
/** Replaces a removed chunk: as long as a Blosc header, and no reader can decode it. */
const GONE_CHUNK = new Uint8Array(16);
/** Blosc adds at most its header; digests have at most 64 bytes. */
const MAX_OVERHEAD = 16 + 64;
const PAGE = 4096;
/**
 * Distance between permanent and temporary data: readers join ranges up to 1 MiB apart, and decode what a shorter file gives. [FY-03]
 */
const APART = (1 << 20) + PAGE;

/** The write permission bits of everybody, and of the owner. */
export const WRITE_BITS = 0o222;
export const OWNER_WRITES = 0o200;

/** Removes all write permissions: a program that writes through a hard link would destroy the other formats. */
export function withoutWriting(mode: number): number {
  return mode & ~WRITE_BITS;
}

export interface StoredShard {
  readonly store: ReadableStore;
  readonly key: string;
  readonly size: number;
}

/** The index of a full superchunk whose chunks are stored at these places. */
export function indexOfPlaces(places: readonly ChunkSpan[]): Promise<Uint8Array> {
  return encodeShardIndex(places.map(({ offset, nbytes }) => ({ offset, nbytes })));
}

/**
 * The index at the end of a shard of `capacity` chunks.
 * @throws TRUNCATED, CHECKSUM_MISMATCH and BAD_FIELD if it has no valid index
 */
async function readIndex(
  { store, key, size }: StoredShard,
  capacity: number,
  signal?: AbortSignal,
): Promise<ShardEntries> {
  const length = Math.min(size, shardIndexLength(capacity));
  const bytes = await store.getRange(key, { offset: size - length, length }, { signal });
  return decodeShardIndex(bytes ?? new Uint8Array(0), { path: store.describe(key), size, grid: [capacity] });
}

/** What is stored under the key of a shard. Sizes in bytes. */
export interface PublishedShard {
  /** No index under this key ever led past this byte, as far as the file itself says. */
  readonly size: number;
  /** Entries of its index, by slot; empty if the shard was removed. */
  readonly entries: ShardEntries;
  /** True if all whole chunks are stored where the full superchunk will have them, and no other bytes ever were. */
  readonly isNatural: boolean;
  /** False for the note of a removed shard. */
  readonly isShard: boolean;
}

function firstChunkOffset(capacity: number): number {
  return FILE_HEADER_LENGTH + 8 * capacity;
}

/** The first bytes of a separate shard file. */
export function ownHead(isNatural: boolean): Uint8Array {
  const head = new Uint8Array(FILE_HEADER_LENGTH);
  new TextEncoder().encodeInto(OWN_HEAD, head);
  head[OWN_HEAD.length] = isNatural ? 1 : 0;
  return head;
}

/** The note that a shard was removed. It is too short to be taken for a shard. */
export function goneNote(size: number): Uint8Array {
  return new TextEncoder().encode(`gone ${size}\n`);
}

/**
 * Reads what is stored under the key of a shard of `capacity` chunks.
 * @throws the codes of damage, if it has no valid index
 */
export async function readPublished(stored: StoredShard, capacity: number): Promise<PublishedShard> {
  const { store, key, size } = stored;
  const head = (await store.getRange(key, { offset: 0, length: FILE_HEADER_LENGTH })) ?? new Uint8Array(0);
  const text = new TextDecoder().decode(head);
  const gone = /^gone (\d{1,16})\n$/.exec(text);
  if (gone !== null) return { size: Number(gone[1]), entries: [], isNatural: false, isShard: false };
  const entries = await readIndex(stored, capacity);
  const isNatural = text.startsWith(OWN_HEAD) && head[OWN_HEAD.length] === 1;
  return { size, entries, isNatural, isShard: true };
}

/** What all shards of a column have in common. Sizes in bytes. */
export interface ShardFacts {
  /** Chunks of a full superchunk. */
  readonly capacity: number;
  /** Decoded size of a whole chunk. */
  readonly chunkBytes: number;
  readonly digestLength: number;
}

/** A chunk to be stored in a shard. */
export interface NewChunk {
  readonly slot: number;
  readonly bytes: Uint8Array;
  /** True for temporary data: a padded copy. */
  readonly isPassing: boolean;
}

/** Contents of a new shard file. */
interface ShardPlan extends Pick<ShardReplacement, "kept" | "writes"> {
  readonly entries: ShardEntries;
  readonly isNatural: boolean;
  /** End of the chunks, where the index starts. */
  readonly end: number;
}

/** The first byte that no full superchunk reaches. */
export function farOffset({ capacity, chunkBytes }: ShardFacts): number {
  const most = firstChunkOffset(capacity) + capacity * (chunkBytes + MAX_OVERHEAD + 16) + 4;
  return roundUp(most, PAGE);
}

/** Counts the leading chunks that are stored as in a superchunk, and returns where they end, digests included. */
function naturalEnd(
  entries: ShardEntries,
  { capacity, digestLength }: Pick<ShardFacts, "capacity" | "digestLength">,
): { count: number; end: number } {
  let end = firstChunkOffset(capacity);
  let count = 0;
  for (const entry of entries) {
    if (entry?.offset !== end) break;
    end += entry.nbytes + digestLength;
    count++;
  }
  return { count, end };
}

/**
 * Plans the file that replaces `base` (undefined if there was none), with `chunks` (ascending) in their slots. Earlier
 * files of this key may have led readers to bytes before `high`.
 */
export function planShard(
  base: PublishedShard | undefined,
  chunks: readonly NewChunk[],
  facts: ShardFacts,
  high: number,
): ShardPlan {
  const entries = base?.isShard === true ? [...base.entries] : emptyEntries(facts.capacity);
  const limit = farOffset(facts);
  let isNatural = base === undefined || base.isNatural;
  let far = Math.max(limit + APART, base?.size ?? 0, isNatural ? 0 : high);
  const natural = naturalEnd(entries, facts);
  const kept = rangesOf(entries);
  const writes: { offset: number; bytes: Uint8Array }[] = [];
  for (const { slot, bytes, isPassing } of chunks) {
    const before = entries[slot];
    // Anything past the limit is a padded copy, which any chunk may replace.
    if (before !== undefined && before.offset < limit) isNatural = false;
    if (!isPassing && (slot !== natural.count || natural.end + bytes.length > limit)) isNatural = false;
    let offset = far;
    if (isNatural && !isPassing) {
      offset = natural.end;
      natural.end += bytes.length + facts.digestLength;
      natural.count++;
    } else far += bytes.length;
    writes.push({ offset, bytes });
    entries[slot] = { offset, nbytes: bytes.length };
  }
  // Readers with an earlier shape may still ask for these chunks. Absent entries would read as the fill value, so
  // unreadable ones are stored.
  if (base?.isShard === false)
    for (const [slot, entry] of entries.entries()) {
      if (entry !== undefined) continue;
      writes.push({ offset: far, bytes: GONE_CHUNK });
      entries[slot] = { offset: far, nbytes: GONE_CHUNK.length };
      far += GONE_CHUNK.length;
    }
  return { entries, isNatural, kept, writes, end: far };
}

/** True if a full superchunk with these entries can replace a shard: no data that readers used has moved. */
export function canTakeOver(base: PublishedShard, full: PublishedShard, facts: ShardFacts): boolean {
  const limit = farOffset(facts);
  if (!base.isNatural || full.size > limit) return false;
  return base.entries.every((entry, slot) => {
    if (entry === undefined || entry.offset >= limit + APART) return true;
    const other = full.entries[slot];
    return other?.offset === entry.offset && other.nbytes === entry.nbytes;
  });
}

/** The byte ranges that an index leads to, with close ranges joined. */
function rangesOf(entries: ShardEntries): FileRange[] {
  const sorted = entries
    .flatMap((entry) =>
      entry === undefined ? [] : [{ start: entry.offset, end: entry.offset + entry.nbytes }],
    )
    .sort((a, b) => a.start - b.start);
  const joined: { start: number; end: number }[] = [];
  for (const range of sorted) {
    const last = joined[joined.length - 1];
    // This includes the digests between chunks.
    if (last !== undefined && range.start - last.end <= PAGE) last.end = Math.max(last.end, range.end);
    else joined.push(range);
  }
  return joined;
}

/** What is at the place of a data file. Throws `INCOMPLETE` if nothing is. */
export async function factsOf({ files }: LinkSite, at: FilePlace): Promise<FileFacts> {
  const facts = await files.inspect(at);
  if (facts !== undefined) return facts;
  throw new SuperchunkError("INCOMPLETE", "the data file no longer exists", { path: files.describe(at) });
}

/**
 * Refuses a file that cannot be written without changing another file's bytes. `link` is what is at its shard's key.
 * @throws CONFLICT if it has names that linking did not give it; UNSUPPORTED if it is a symbolic link; INCOMPLETE
 */
export async function assertOwnNames(
  site: LinkSite,
  data: FilePlace,
  link: FileFacts | undefined,
): Promise<FileFacts> {
  const facts = await factsOf(site, data);
  const path = site.files.describe(data);
  if (facts.kind !== "file")
    throw new SuperchunkError(
      "UNSUPPORTED",
      "it is not a file but a link to one elsewhere, which must not be changed; replace it by the file, or convert instead",
      { path, expected: "a file", found: facts.kind },
    );
  const own = link?.kind === "file" && link.identity === facts.identity ? 2 : 1;
  if (facts.links > own)
    throw new SuperchunkError(
      "CONFLICT",
      `the file has ${facts.links - own} more hard link${facts.links - own > 1 ? "s" : ""} elsewhere (a backup made with "cp -al", perhaps), which would be changed with it; make it an independent copy ("cp" it and rename the copy over it), or link with copies (--link copy)`,
      { path, field: "hard links", expected: own, found: facts.links },
    );
  return facts;
}

/** Gives the owner write permission, if it is missing. */
export async function allowWriting({ files }: LinkSite, at: FilePlace, mode: number): Promise<void> {
  if ((mode & OWNER_WRITES) === 0) await files.setMode(at, mode | OWNER_WRITES);
}
