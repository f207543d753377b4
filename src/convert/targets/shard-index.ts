/**
 * The index of the shards that conversions write: at the end, little-endian, with its crc32c, one dimension.
 *
 * @see https://zarr-specs.readthedocs.io/en/latest/v3/codecs/sharding-indexed/index.html
 */
import {
  DEFAULT_INDEX,
  decodeShardIndex as decodeIndex,
  encodeShardIndex,
  shardIndexLength as lengthOfIndex,
  type ShardEntry,
} from "../../zarr/read/shard-index.ts";

export type { ShardEntry };

/** Bytes of an index of `capacity` entries, checksum included. */
export function shardIndexLength(capacity: number): number {
  return lengthOfIndex(capacity);
}

/** An index being filled. Slots that are never set are absent chunks. */
export class ShardIndex {
  readonly #entries: (ShardEntry | undefined)[];

  constructor(capacity: number) {
    this.#entries = new Array<ShardEntry | undefined>(capacity).fill(undefined);
  }

  set(slot: number, offset: number, nbytes: number): void {
    this.#entries[slot] = { offset, nbytes };
  }

  /** The finished index with its crc32c. */
  encode(): Promise<Uint8Array> {
    return encodeShardIndex(this.#entries, [this.#entries.length]);
  }
}

/**
 * Entries of an index read from the end of a shard of `shardSize` bytes; undefined for absent chunks.
 * Throws `CHECKSUM_MISMATCH`, `TRUNCATED`, and `BAD_FIELD` for an entry that is half absent, outside of the shard, or
 * over another one.
 */
export async function decodeShardIndex(
  bytes: Uint8Array,
  capacity: number,
  shardSize: number,
  path: string,
): Promise<readonly (ShardEntry | undefined)[]> {
  return decodeIndex(bytes, { path, start: 0, size: shardSize, grid: [capacity], layout: DEFAULT_INDEX });
}
