/**
 * Where the chunks of a shard of its own lie: pure.
 *
 * No byte that an index under the same key has led to is used for anything else. While rows are only appended, whole chunks
 * lie where the full superchunk will have them, so that it can take the shard's place; whatever is there for a time (the
 * padded copy of a short last chunk) lies behind all that a full superchunk can reach, with a hole between.
 * @see FORMAT.md [FY-03] [FY-04]
 */
import { emptyEntries, type ShardEntry } from "../../zarr/read/shard-index.ts";
import { firstChunkOffset, type PublishedShard } from "./shard-file.ts";
import type { FileRange } from "./types.ts";

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
  readonly entries: readonly (ShardEntry | undefined)[];
  readonly isNatural: boolean;
  readonly kept: readonly FileRange[];
  readonly writes: readonly { readonly offset: number; readonly bytes: Uint8Array }[];
  /** End of the chunks: the index comes here. */
  readonly end: number;
}

/** Zeros that stand for a chunk that is gone: as long as Blosc's header, and no reader can decode them. */
const GONE_CHUNK = new Uint8Array(16);
/** Blosc adds at most its header; digests have at most 64 bytes. */
const MAX_OVERHEAD = 16 + 64;
const PAGE = 4096;

/** The byte that no full superchunk reaches. */
export function farOffset({ capacity, chunkBytes }: ShardFacts): number {
  const most = firstChunkOffset(capacity) + capacity * (chunkBytes + MAX_OVERHEAD + 16) + 4;
  return Math.ceil(most / PAGE) * PAGE;
}

/** Chunks at the front that lie as in a superchunk, and where they end, digests included. */
export function naturalEnd(
  entries: readonly (ShardEntry | undefined)[],
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
 * order, in their slots. `high`: bytes in front of it may have been led to by earlier files of this key.
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
    // What lies behind the limit is a padded copy, which any chunk may follow.
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
function rangesOf(entries: readonly (ShardEntry | undefined)[]): FileRange[] {
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
