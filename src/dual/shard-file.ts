/**
 * A shard as it lies under its key: a data file, a file of its own, or the note that there is none any more; and where the
 * chunks of a file of its own go.
 *
 * No byte that an index under the same key has led to is used for anything else. While rows are only appended, whole chunks
 * lie where the full superchunk will have them, so that it can take the shard's place; whatever is there for a time (the
 * padded copy of a short last chunk) lies past all that a full superchunk can reach, with a hole between. A file of its own
 * begins with {@link OWN_HEAD}, which no index leads to. @see FORMAT.md [FY-02] to [FY-05]
 */

import type { ReadableStore } from "../store/types.ts";
import type { ChunkPlace } from "../write/array/superchunk-file.ts";
import {
  decodeShardIndex,
  emptyEntries,
  encodeShardIndex,
  type ShardEntries,
  shardIndexLength,
} from "../zarr/read/shard-index.ts";
import type { FileRange } from "./types.ts";

/** Bytes of a superchunk's header, before its offsets. */
const HEADER_LENGTH = 32;
const OWN_HEAD = "superchunk shard";
/** Zeros in the place of a chunk that is gone: as long as Blosc's header, and no reader can decode them. */
const GONE_CHUNK = new Uint8Array(16);
/** Blosc adds at most its header; digests have at most 64 bytes. */
const MAX_OVERHEAD = 16 + 64;
const PAGE = 4096;

/** The permission to write, of anyone and of the owner. */
export const WRITE_BITS = 0o222;
export const OWNER_WRITES = 0o200;

/** Permission bits without those to write: programs that write through hard links would destroy the other formats. */
export function withoutWriting(mode: number): number {
  return mode & ~WRITE_BITS;
}

/** A shard in a store, of `size` bytes. */
export interface StoredShard {
  readonly store: ReadableStore;
  readonly key: string;
  readonly size: number;
}

/** The index of a full superchunk, whose chunks lie at these places. */
export function indexOfPlaces(places: readonly ChunkPlace[]): Promise<Uint8Array> {
  return encodeShardIndex(places.map(({ offset, nbytes }) => ({ offset, nbytes })));
}

/**
 * The index at the end of a shard of `capacity` chunks.
 *
 * @throws TRUNCATED, CHECKSUM_MISMATCH and BAD_FIELD where it has no right one
 */
export async function readIndex(
  { store, key, size }: StoredShard,
  capacity: number,
  signal?: AbortSignal,
): Promise<ShardEntries> {
  const length = Math.min(size, shardIndexLength(capacity));
  const bytes = await store.getRange(key, { offset: size - length, length }, { signal });
  return decodeShardIndex(bytes ?? new Uint8Array(0), { path: store.describe(key), size, grid: [capacity] });
}

/** What lies under the key of a shard. Sizes in bytes. */
export interface PublishedShard {
  /** No index of this key ever led past this byte, as far as the file itself says. */
  readonly size: number;
  /** Entries of its index, by slot; none where the shard is gone. */
  readonly entries: ShardEntries;
  /** All whole chunks lie where the full superchunk will have them, and no other bytes ever did. */
  readonly isNatural: boolean;
  /** True where it has chunks. */
  readonly isShard: boolean;
}

/** Where the first chunk of a superchunk of `capacity` chunks lies. */
function firstChunkOffset(capacity: number): number {
  return HEADER_LENGTH + 8 * capacity;
}

/** The first bytes of a shard of its own. */
export function ownHead(isNatural: boolean): Uint8Array {
  const head = new Uint8Array(HEADER_LENGTH);
  new TextEncoder().encodeInto(OWN_HEAD, head);
  head[OWN_HEAD.length] = isNatural ? 1 : 0;
  return head;
}

/** The file that says that the shard is gone: too short to be taken for one. */
export function goneNote(size: number): Uint8Array {
  return new TextEncoder().encode(`gone ${size}\n`);
}

/**
 * Reads what lies under the key of a shard of `capacity` chunks.
 *
 * @throws the codes of damage, where it has no right index
 */
export async function readPublished(stored: StoredShard, capacity: number): Promise<PublishedShard> {
  const { store, key, size } = stored;
  const head = (await store.getRange(key, { offset: 0, length: HEADER_LENGTH })) ?? new Uint8Array(0);
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
  /** A whole chunk, decoded. */
  readonly chunkBytes: number;
  readonly digestLength: number;
}

/** A chunk that is to be in a shard. */
export interface NewChunk {
  readonly slot: number;
  readonly bytes: Uint8Array;
  /** It is there for a time: a padded copy. */
  readonly isPassing: boolean;
}

/** What a new file of a shard holds. */
export interface ShardPlan {
  readonly entries: ShardEntries;
  readonly isNatural: boolean;
  readonly kept: readonly FileRange[];
  readonly writes: readonly { readonly offset: number; readonly bytes: Uint8Array }[];
  /** End of the chunks: the index comes here. */
  readonly end: number;
}

/** The byte that no full superchunk reaches. */
export function farOffset({ capacity, chunkBytes }: ShardFacts): number {
  const most = firstChunkOffset(capacity) + capacity * (chunkBytes + MAX_OVERHEAD + 16) + 4;
  return Math.ceil(most / PAGE) * PAGE;
}

/** Chunks at the front that lie as in a superchunk, and where they end, digests included. */
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
 * Plans the file that takes the place of `base` (undefined: there never was one), with the chunks of `chunks`, in ascending
 * order, in their slots. `high`: bytes before it may have been led to by earlier files of this key.
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
  let far = Math.max(limit, base?.size ?? 0, isNatural ? 0 : high);
  const natural = naturalEnd(entries, facts);
  const kept = rangesOf(entries);
  const writes: { offset: number; bytes: Uint8Array }[] = [];
  for (const { slot, bytes, isPassing } of chunks) {
    const before = entries[slot];
    // What lies past the limit is a padded copy, which any chunk may follow.
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
  // Chunks that readers with a former shape may ask for are not missing, which would be the fill value to them.
  if (base?.isShard === false)
    for (const [slot, entry] of entries.entries()) {
      if (entry !== undefined) continue;
      writes.push({ offset: far, bytes: GONE_CHUNK });
      entries[slot] = { offset: far, nbytes: GONE_CHUNK.length };
      far += GONE_CHUNK.length;
    }
  return { entries, isNatural, kept, writes, end: far };
}

/** True where a full superchunk of these entries can take the place of a shard: nothing that was read lies elsewhere. */
export function canTakeOver(base: PublishedShard, full: PublishedShard, facts: ShardFacts): boolean {
  const limit = farOffset(facts);
  if (!base.isNatural || full.size > limit) return false;
  return base.entries.every((entry, slot) => {
    if (entry === undefined || entry.offset >= limit) return true;
    const other = full.entries[slot];
    return other?.offset === entry.offset && other.nbytes === entry.nbytes;
  });
}

/** The bytes that an index leads to, neighbours as one. */
function rangesOf(entries: ShardEntries): FileRange[] {
  const sorted = entries
    .flatMap((entry) =>
      entry === undefined ? [] : [{ start: entry.offset, end: entry.offset + entry.nbytes }],
    )
    .sort((a, b) => a.start - b.start);
  const joined: { start: number; end: number }[] = [];
  for (const range of sorted) {
    const last = joined[joined.length - 1];
    // The digests between two chunks come along.
    if (last !== undefined && range.start - last.end <= PAGE) last.end = Math.max(last.end, range.end);
    else joined.push(range);
  }
  return joined;
}
