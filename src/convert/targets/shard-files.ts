/**
 * The shards of a conversion as files: their keys, and their bytes written and read back. The chunks are stored back to back, followed by
 * the index with its checksum.
 *
 * Writes with flat memory: large chunks go through as they are, small ones are gathered. Must not know what the chunks hold.
 */
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
import type { ArrayJob, JobLayout } from "../plan/array-job.ts";
import { shardPosition } from "../plan/grid.ts";

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
  if (info === undefined || index === undefined)
    throw new SuperchunkError("NOT_FOUND", "the shard is not there; convert again", { path });
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
    if (bytes === undefined || bytes.length !== length)
      throw new SuperchunkError(
        "TRUNCATED",
        `expected ${length} bytes from byte ${start} on, found ${bytes?.length ?? 0}`,
        { path, offset: start, expected: length, found: bytes?.length ?? 0 },
      );
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
export async function* piecesOfShard(
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
