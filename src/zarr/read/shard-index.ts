/**
 * The index of a shard: (offset, nbytes) as uint64 for each inner chunk, encoded by a chain of fixed-size codecs.
 *
 * Knows the bytes of the index; must not know stores or what chunks hold.
 * @see https://zarr-specs.readthedocs.io/en/latest/v3/codecs/sharding-indexed/index.html
 */
import { at, elementsOf, hex32 } from "../../bytes/arrays.ts";
import { CRC32C_POLYNOMIAL, crc32c } from "../../bytes/checksum.ts";
import { SuperchunkError } from "../../errors.ts";
import type { JsonObject } from "../../format/types.ts";
import {
  asExtension,
  asIntegers,
  asList,
  badMember,
  below,
  type FieldPlace,
  showJson,
  unsupportedMember,
} from "../document/metadata-fields.ts";

const ENTRY = 16;
const CRC = 4;
/** Both numbers of an absent chunk. */
const ABSENT = 0xffff_ffff_ffff_ffffn;

/** How an index is stored. */
export interface ShardIndexLayout {
  readonly location: "start" | "end";
  readonly endian: "little" | "big";
  /** How many crc32c follow; 0 or 1 in practice. */
  readonly checksums: number;
  /** Stored order of the index array's dimensions (those of the grid, and the pair); undefined if they are in order. */
  readonly order: readonly number[] | undefined;
}

/** The number of inner chunks of a shard along each dimension, and how their index is stored. */
export interface ShardIndex {
  readonly grid: readonly number[];
  readonly layout: ShardIndexLayout;
}

/** The usual layout: at the end, little-endian, with a crc32c. */
export const DEFAULT_INDEX: ShardIndexLayout = {
  location: "end",
  endian: "little",
  checksums: 1,
  order: undefined,
};

/** Where an inner chunk is in its shard, in bytes from the shard's start. */
export interface ShardEntry {
  readonly offset: number;
  readonly nbytes: number;
}

/** By slot, that is in C order of the grid of inner chunks; undefined for absent ones. */
export type ShardEntries = readonly (ShardEntry | undefined)[];

/** The layout that a sharding configuration asks for. Throws `BAD_FIELD`, `UNSUPPORTED` for codecs whose size varies. */
export function parseIndexCodecs(
  configuration: JsonObject,
  dimensions: number,
  place: FieldPlace,
): ShardIndexLayout {
  const location = configuration["index_location"] ?? "end";
  if (location !== "start" && location !== "end")
    throw badMember(below(place, "index_location"), '"start" or "end"', location);
  const at = below(place, "index_codecs");
  let endian: "little" | "big" | undefined;
  let order: readonly number[] | undefined;
  let checksums = 0;
  asList(configuration["index_codecs"], at).forEach((entry, i) => {
    const here = below(at, String(i));
    const { name, configuration: inside } = asExtension(entry, here);
    if (name === "crc32c" && endian !== undefined) checksums++;
    else if (name === "bytes" && endian === undefined) {
      const value = inside["endian"];
      if (value !== "little" && value !== "big")
        throw badMember(below(here, "configuration.endian"), '"little" or "big"', value);
      endian = value;
    } else if (name === "transpose" && endian === undefined && order === undefined) {
      order = asIntegers(inside["order"], 0, below(here, "configuration.order"), dimensions + 1);
      if ([...order].sort((a, b) => a - b).some((d, k) => d !== k))
        throw badMember(below(here, "configuration.order"), `each of 0 to ${dimensions} once`, order);
    } else if (name === "bytes" || name === "transpose" || name === "crc32c") {
      throw badMember(here, "a chain of transpose, bytes and crc32c in this order", entry);
    } else {
      throw unsupportedMember(
        here,
        `is ${showJson(name)}: the codecs of a shard index must give the same size for every index (bytes, crc32c, transpose)`,
        entry,
      );
    }
  });
  if (endian === undefined) throw badMember(at, 'a list with "bytes"', configuration["index_codecs"]);
  return { location, endian, checksums, order };
}

/** Bytes of an index of `capacity` chunks. */
export function shardIndexLength(capacity: number, layout: ShardIndexLayout = DEFAULT_INDEX): number {
  return capacity * ENTRY + layout.checksums * CRC;
}

/** An index of `capacity` absent chunks. */
export function emptyEntries(capacity: number): (ShardEntry | undefined)[] {
  return new Array<ShardEntry | undefined>(capacity).fill(undefined);
}

/** The bytes of an index; `grid` is the number of inner chunks along each dimension (default: one dimension). */
export async function encodeShardIndex(
  entries: ShardEntries,
  grid: readonly number[] = [entries.length],
  layout: ShardIndexLayout = DEFAULT_INDEX,
): Promise<Uint8Array> {
  const length = shardIndexLength(entries.length, layout);
  const bytes = new Uint8Array(length);
  const view = new DataView(bytes.buffer);
  const little = layout.endian === "little";
  const wordAt = wordPlaces(grid, layout);
  entries.forEach((entry, slot) => {
    setWord(view, wordAt(slot, 0), entry?.offset, little);
    setWord(view, wordAt(slot, 1), entry?.nbytes, little);
  });
  for (let end = entries.length * ENTRY; end < length; end += CRC)
    view.setUint32(end, await sumOf(bytes.subarray(0, end)), true);
  return bytes;
}

/** Writes a number of 8 bytes, or that of an absent chunk, in two halves, because a BigInt takes several times as long. */
function setWord(view: DataView, at: number, value: number | undefined, little: boolean): void {
  const high = value === undefined ? 0xffff_ffff : Math.floor(value / 2 ** 32);
  const low = value === undefined ? 0xffff_ffff : value >>> 0;
  view.setUint32(at, little ? low : high, little);
  view.setUint32(at + 4, little ? high : low, little);
}

/** The shard that an index belongs to. */
interface IndexedShard {
  /** Name of the shard in messages. */
  readonly path: string;
  /** Byte of the object where the shard starts, for messages (default 0); not 0 for a nested shard. */
  readonly start?: number;
  /** Bytes of the shard. */
  readonly size: number;
  readonly grid: readonly number[];
  /** Default {@link DEFAULT_INDEX}. */
  readonly layout?: ShardIndexLayout;
}

/**
 * Decodes the entries of an index. Throws `CHECKSUM_MISMATCH`, `TRUNCATED`, and `BAD_FIELD` for an entry that is half absent,
 * outside the shard, inside the index, or overlaps another one.
 */
export async function decodeShardIndex(bytes: Uint8Array, shard: IndexedShard): Promise<ShardEntries> {
  const { grid, layout = DEFAULT_INDEX, size, start = 0 } = shard;
  const capacity = elementsOf(grid);
  const length = shardIndexLength(capacity, layout);
  const base = layout.location === "start" ? 0 : size - length;
  if (bytes.length !== length || size < length) {
    const found = Math.min(bytes.length, size);
    throw new SuperchunkError(
      "TRUNCATED",
      `an index of ${capacity} chunks takes ${length} bytes, but the shard has ${found}. The file is truncated, or is not a shard of this array`,
      { path: shard.path, offset: start, field: "shard index", expected: length, found },
    );
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let end = length - CRC; end >= capacity * ENTRY; end -= CRC) {
    const stored = view.getUint32(end, true);
    const computed = await sumOf(bytes.subarray(0, end));
    if (stored === computed) continue;
    throw new SuperchunkError(
      "CHECKSUM_MISMATCH",
      `the crc32c of the shard index at byte ${start + base + end} is 0x${hex32(stored)}, but its bytes give 0x${hex32(computed)}. The index is damaged; look for another copy`,
      {
        path: shard.path,
        offset: start + base + end,
        field: "shard index",
        expected: `0x${hex32(stored)}`,
        found: `0x${hex32(computed)}`,
      },
    );
  }
  const little = layout.endian === "little";
  const wordAt = wordPlaces(grid, layout);
  const room =
    layout.location === "start" ? { from: BigInt(length), to: BigInt(size) } : { from: 0n, to: BigInt(base) };
  const entries: (ShardEntry | undefined)[] = [];
  for (let slot = 0; slot < capacity; slot++) {
    const offset = view.getBigUint64(wordAt(slot, 0), little);
    const nbytes = view.getBigUint64(wordAt(slot, 1), little);
    if (offset === ABSENT && nbytes === ABSENT) {
      entries.push(undefined);
      continue;
    }
    const half = offset === ABSENT || nbytes === ABSENT;
    if (half || (nbytes > 0n && offset < room.from) || offset + nbytes > room.to)
      throw badEntry(shard, { slot, at: base + wordAt(slot, 0), offset, nbytes, half }, room);
    entries.push({ offset: Number(offset), nbytes: Number(nbytes) });
  }
  refuseOverlaps(entries, shard, (slot) => base + wordAt(slot, 0));
  return entries;
}

/** Where the two numbers of a slot are in the index. */
function wordPlaces(
  grid: readonly number[],
  { order }: ShardIndexLayout,
): (slot: number, word: 0 | 1) => number {
  if (order === undefined) return (slot, word) => slot * ENTRY + word * 8;
  const shape = [...grid, 2];
  const strides = new Array<number>(shape.length).fill(0);
  let stride = 8;
  for (const d of [...order].reverse()) {
    strides[d] = stride;
    stride *= at(shape, d);
  }
  return (slot, word) => {
    let place = word * at(strides, grid.length);
    let rest = slot;
    for (let d = grid.length - 1; d >= 0; d--) {
      const n = at(grid, d);
      place += (rest % n) * at(strides, d);
      rest = Math.floor(rest / n);
    }
    return place;
  };
}

function refuseOverlaps(entries: ShardEntries, shard: IndexedShard, placeOf: (slot: number) => number): void {
  const used: { slot: number; offset: number; end: number }[] = [];
  let isAscending = true;
  for (const [slot, entry] of entries.entries()) {
    if (entry === undefined || entry.nbytes === 0) continue;
    const last = used.at(-1);
    isAscending &&= last === undefined || entry.offset >= last.end;
    used.push({ slot, offset: entry.offset, end: entry.offset + entry.nbytes });
  }
  if (isAscending) return;
  used.sort((a, b) => a.offset - b.offset);
  for (const [i, { slot, offset, end }] of used.entries()) {
    const before = used[i - 1];
    if (before === undefined || offset >= before.end) continue;
    throw new SuperchunkError(
      "BAD_FIELD",
      `entry ${slot} of the shard index (bytes ${offset} to ${end}) overlaps entry ${before.slot} (bytes ${before.offset} to ${before.end}). The index is damaged; look for another copy`,
      {
        path: shard.path,
        chunk: slot,
        offset: (shard.start ?? 0) + placeOf(slot),
        field: "shard index",
        expected: `from ${before.end}`,
        found: offset,
      },
    );
  }
}

/** A stored entry, and its byte in the shard. */
interface StoredEntry {
  readonly slot: number;
  readonly at: number;
  readonly offset: bigint;
  readonly nbytes: bigint;
  /** True if only one of the two numbers says that the chunk is absent. */
  readonly half: boolean;
}

function badEntry(
  { path, start = 0 }: IndexedShard,
  { slot, at: place, offset, nbytes, half }: StoredEntry,
  room: { readonly from: bigint; readonly to: bigint },
): SuperchunkError {
  const reason = half
    ? "of which only one is 2^64-1"
    : `outside of the bytes ${room.from} to ${room.to} that chunks may have`;
  return new SuperchunkError(
    "BAD_FIELD",
    `entry ${slot} of the shard index is (${offset}, ${nbytes}), ${reason}. The index is damaged; look for another copy`,
    {
      path,
      chunk: slot,
      offset: start + place,
      field: "shard index",
      expected: `${room.from} to ${room.to}`,
      found: `${offset}+${nbytes}`,
    },
  );
}

/** The crc32c of an index. A page computes that of a small one without loading the library. */
async function sumOf(index: Uint8Array): Promise<number> {
  if (index.length > 4096) return crc32c(index);
  let sum = -1;
  for (const byte of index) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit++) sum = (sum >>> 1) ^ (-(sum & 1) & CRC32C_POLYNOMIAL);
  }
  return ~sum >>> 0;
}
