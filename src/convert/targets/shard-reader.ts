/**
 * Reads the inner chunks of a shard back: the index with its checksum, then each chunk's range.
 *
 * Knows the layout of shards; must not know what the chunks hold.
 */
import { SuperchunkError } from "../../errors.ts";
import type { ReadableStore, StoreOptions } from "../../store/types.ts";
import { decodeShardIndex, type ShardEntry, shardIndexLength } from "../../zarr/read/shard-index.ts";

/** Neighbouring chunks are read together up to this many bytes. */
const READ_AT_ONCE = 2 * 1024 * 1024;

/** An opened shard: where its chunks are. */
export interface OpenShard {
  readonly key: string;
  /** By slot; undefined for absent chunks. */
  readonly entries: readonly (ShardEntry | undefined)[];
}

/**
 * Reads and checks the index at the end of a shard. Throws `NOT_FOUND`, `TRUNCATED`, `CHECKSUM_MISMATCH`,
 * `BAD_FIELD`.
 */
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
 * The chunks in the given slots, in that order, neighbours in one read. Each is a view that is valid until the
 * next one is asked for. Throws `INCOMPLETE` for an absent chunk, `TRUNCATED` for a short read.
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
        {
          path,
          offset: start,
          expected: length,
          found: bytes?.length ?? 0,
        },
      );
    }
    for (const { offset, nbytes } of run) yield bytes.subarray(offset - start, offset - start + nbytes);
  }
}
