/**
 * The index of a Zarr v3 shard: for each inner chunk (offset, nbytes) as uint64 little-endian, then crc32c.
 *
 * Knows the bytes of the index; must not know stores or what chunks hold.
 * @see https://zarr-specs.readthedocs.io/en/latest/v3/codecs/sharding-indexed/index.html
 */
import { crc32c } from "../bytes/checksum.ts";
import { SuperchunkError } from "../errors.ts";

/** Offset and nbytes of a chunk that a shard does not have. */
const ABSENT = 0xffff_ffff_ffff_ffffn;
const ENTRY = 16;
const CRC = 4;

/** Where an inner chunk lies in its shard, in bytes. */
export interface ShardEntry {
  readonly offset: number;
  readonly nbytes: number;
}

/** Bytes of an index of `capacity` entries, checksum included. */
export function shardIndexLength(capacity: number): number {
  return capacity * ENTRY + CRC;
}

/** An index being filled. Slots that are never set are absent chunks. */
export class ShardIndex {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;

  constructor(capacity: number) {
    this.#bytes = new Uint8Array(shardIndexLength(capacity)).fill(0xff);
    this.#view = new DataView(this.#bytes.buffer);
  }

  set(slot: number, offset: number, nbytes: number): void {
    this.#view.setBigUint64(slot * ENTRY, BigInt(offset), true);
    this.#view.setBigUint64(slot * ENTRY + 8, BigInt(nbytes), true);
  }

  /** The finished index with its crc32c. */
  async encode(): Promise<Uint8Array> {
    const sum = await crc32c(this.#bytes.subarray(0, this.#bytes.length - CRC));
    this.#view.setUint32(this.#bytes.length - CRC, sum, true);
    return this.#bytes;
  }
}

/**
 * Entries of an index read from the end of a shard of `shardSize` bytes; undefined for absent chunks.
 * Throws `CHECKSUM_MISMATCH`, `TRUNCATED`, and `BAD_FIELD` for a half absent entry or one outside of the shard.
 */
export async function decodeShardIndex(
  bytes: Uint8Array,
  capacity: number,
  shardSize: number,
  path: string,
): Promise<(ShardEntry | undefined)[]> {
  const length = shardIndexLength(capacity);
  if (bytes.length !== length || shardSize < length) {
    throw new SuperchunkError(
      "TRUNCATED",
      `an index of ${capacity} chunks takes ${length} bytes, but the shard has ${Math.min(bytes.length, shardSize)}; convert it again`,
      { path, field: "shard index", expected: length, found: Math.min(bytes.length, shardSize) },
    );
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const stored = view.getUint32(length - CRC, true);
  const computed = await crc32c(bytes.subarray(0, length - CRC));
  if (stored !== computed) {
    throw new SuperchunkError(
      "CHECKSUM_MISMATCH",
      `the crc32c of the shard index is ${hex(stored)}, but its bytes give ${hex(computed)}; convert it again`,
      { path, offset: shardSize - CRC, field: "shard index", expected: hex(stored), found: hex(computed) },
    );
  }
  const entries: (ShardEntry | undefined)[] = [];
  for (let slot = 0; slot < capacity; slot++) {
    const offset = view.getBigUint64(slot * ENTRY, true);
    const nbytes = view.getBigUint64(slot * ENTRY + 8, true);
    if (offset === ABSENT && nbytes === ABSENT) {
      entries.push(undefined);
      continue;
    }
    const end = shardSize - length;
    if (offset === ABSENT || nbytes === ABSENT || offset + nbytes > BigInt(end)) {
      throw new SuperchunkError(
        "BAD_FIELD",
        `entry ${slot} of the shard index is (${offset}, ${nbytes}), outside of the ${end} bytes in front of the index`,
        {
          path,
          offset: end + slot * ENTRY,
          field: "shard index",
          expected: `at most ${end}`,
          found: `${offset}+${nbytes}`,
        },
      );
    }
    entries.push({ offset: Number(offset), nbytes: Number(nbytes) });
  }
  return entries;
}

function hex(value: number): string {
  return `0x${value.toString(16).padStart(8, "0")}`;
}
