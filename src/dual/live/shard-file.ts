/**
 * A shard as it lies under its key: a data file, a file of its own, or the note that there is none any more.
 *
 * A file of its own begins with {@link OWN_HEAD}, which no index leads to. @see FORMAT.md [FY-02] [FY-05]
 */

import { SuperchunkError } from "../../errors.ts";
import type { ReadableStore } from "../../store/types.ts";
import type { ChunkPlace } from "../../write/array/mirror.ts";
import {
  decodeShardIndex,
  encodeShardIndex,
  type ShardEntry,
  shardIndexLength,
} from "../../zarr/read/shard-index.ts";

/** Bytes of a superchunk's header, in front of its offsets. */
const HEADER_LENGTH = 32;
const OWN_HEAD = "superchunk shard";
const GONE = "gone ";

/** What lies under the key of a shard. Sizes in bytes. */
export interface PublishedShard {
  /** No index of this key ever led behind this byte, as far as the file itself tells. */
  readonly size: number;
  /** Entries of its index, by slot; none where there is no shard any more. */
  readonly entries: readonly (ShardEntry | undefined)[];
  /** All whole chunks lie where the full superchunk will have them, and no other bytes ever did. */
  readonly isNatural: boolean;
  /** True where it has chunks. */
  readonly isShard: boolean;
}

/** Where the first chunk of a superchunk of `capacity` chunks lies. */
export function firstChunkOffset(capacity: number): number {
  return HEADER_LENGTH + 8 * capacity;
}

/** The first bytes of a shard of its own. */
export function ownHead(isNatural: boolean): Uint8Array {
  const head = new Uint8Array(HEADER_LENGTH);
  new TextEncoder().encodeInto(OWN_HEAD, head);
  head[OWN_HEAD.length] = isNatural ? 1 : 0;
  return head;
}

/** The file that says that there is no shard any more: too short to be taken for one. */
export function goneNote(size: number): Uint8Array {
  return new TextEncoder().encode(`${GONE}${size}\n`);
}

/**
 * Reads what lies under the key of a shard of `size` bytes.
 *
 * @throws the codes of damage, where it has no right index
 */
export async function readPublished(
  store: ReadableStore,
  key: string,
  size: number,
  capacity: number,
): Promise<PublishedShard> {
  const head = (await store.getRange(key, { offset: 0, length: HEADER_LENGTH })) ?? new Uint8Array(0);
  const text = new TextDecoder().decode(head);
  const gone = /^gone (\d{1,16})\n$/.exec(text);
  if (gone !== null) return { size: Number(gone[1]), entries: [], isNatural: false, isShard: false };
  const length = shardIndexLength(capacity);
  const path = store.describe(key);
  if (size < length)
    throw new SuperchunkError(
      "TRUNCATED",
      `the shard of ${size} bytes is shorter than its index of ${length}`,
      {
        path,
        field: "shard index",
        expected: length,
        found: size,
      },
    );
  const bytes = await store.getRange(key, { offset: size - length, length });
  const entries = await decodeShardIndex(bytes ?? new Uint8Array(0), { path, size, grid: [capacity] });
  const isNatural = text.startsWith(OWN_HEAD) && head[OWN_HEAD.length] === 1;
  return { size, entries, isNatural, isShard: true };
}

/** The index of a full superchunk, whose chunks lie at these places. */
export function indexOfPlaces(places: readonly ChunkPlace[]): Promise<Uint8Array> {
  return encodeShardIndex(places.map(({ offset, nbytes }) => ({ offset, nbytes })));
}
