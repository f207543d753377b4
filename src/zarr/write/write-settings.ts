/**
 * Settings for writing an array, for all calls or a single one; their checks before anything is written, because untyped
 * callers can pass anything; and the possible orders of the inner chunks in a shard. Pure.
 */

import { at, unravel } from "../../bytes/arrays.ts";
import type { ChunkEncoder } from "../../codec/types.ts";
import { badArgument, type ErrorDetails, SuperchunkError } from "../../errors.ts";
import type { WritableStore } from "../../store/types.ts";
import type { ItemView } from "../../values/copy-items.ts";
import type { ArrayModel } from "../document/model.ts";

/**
 * How changed inner chunks get into an existing shard:
 * - `rewrite`: a new object of kept and new chunks; readers see the old one or the new one, whole.
 * - `append`: new chunks and a new index after the old contents; bytes that an index names are never reused.
 * - `fixed`: a chunk that fits its old place goes there, others to the end; readers meanwhile may see half a change.
 */
export type ShardStrategy = "rewrite" | "append" | "fixed";

/** Options of writing to an array. */
export interface WriteSettings {
  /** How changed inner chunks get into an existing shard (default `rewrite`). */
  readonly strategy?: ShardStrategy | undefined;
  /** Unused bytes of a shard above which `append` and `fixed` rewrite it (default: no limit for `append`, 64 MiB for `fixed`). */
  readonly maxUnused?: number | undefined;
  /** Order of the inner chunks in a shard that is written whole (default `row-major`). */
  readonly chunkOrder?: ChunkOrder | undefined;
  /** Stores chunks that hold only the fill value (default false). */
  readonly writeEmptyChunks?: boolean | undefined;
  /** Encodes Blosc chunks, for example a pool of threads (default: the calling thread). */
  readonly encoder?: ChunkEncoder | undefined;
  /** Takes over whole shards, for example threads that encode and write them (default: none). */
  readonly shardWriter?: ShardWriter | undefined;
}

/** Options of a single call; omitted ones are those of the array. */
export interface SetOptions extends WriteSettings {
  readonly signal?: AbortSignal | undefined;
}

const STRATEGIES: readonly unknown[] = ["rewrite", "append", "fixed"] satisfies readonly ShardStrategy[];
const ORDERS: readonly unknown[] = [
  "row-major",
  "column-major",
  "morton",
  "as-written",
] satisfies readonly ChunkOrder[];

/** Throws `BAD_ARGUMENT` for an unknown strategy or order, and a limit that is not a number of bytes. */
export function checkWriteSettings(settings: SetOptions & Pick<WriteSettings, "chunkOrder">): void {
  const { strategy, maxUnused, chunkOrder } = settings;
  if (strategy !== undefined && !STRATEGIES.includes(strategy))
    throw badArgument("strategy", strategy, '"rewrite", "append" or "fixed"');
  if (chunkOrder !== undefined && !ORDERS.includes(chunkOrder))
    throw badArgument("chunkOrder", chunkOrder, '"row-major", "column-major", "morton" or "as-written"');
  if (maxUnused !== undefined && !(typeof maxUnused === "number" && maxUnused >= 0))
    throw badArgument("maxUnused", maxUnused, "a number of bytes of 0 or more");
}

/** Most chunks of a shard that can be written: its index then takes 1 GB. */
const MAX_CAPACITY = 2 ** 26;

/** Throws `LIMIT` for a shard with too many chunks to write; `place` is what asks for them. */
export function checkCapacity(capacity: number, place: Pick<ErrorDetails, "path" | "field">): void {
  if (capacity <= MAX_CAPACITY) return;
  throw new SuperchunkError(
    "LIMIT",
    `a shard of ${capacity} chunks is not written; at most ${MAX_CAPACITY}`,
    { ...place, expected: MAX_CAPACITY, found: capacity },
  );
}

/** A shard with values for every item that is inside the array. */
export interface WholeShard {
  readonly model: ArrayModel;
  /** Key of its object. */
  readonly key: string;
  /** First item of the array that the shard holds, and the number of items inside the array along each dimension. */
  readonly start: readonly number[];
  readonly counts: readonly number[];
  /** In memory byte order. They stay unchanged until the shard is written. */
  readonly items: ItemView;
  readonly chunkOrder: ChunkOrder;
  readonly writeEmptyChunks: boolean;
  /** Aborts when nothing needs the shard any more. */
  readonly signal: AbortSignal | undefined;
}

/** Encodes and writes whole shards outside the calling thread. */
export interface ShardWriter {
  /** Most shards that it takes over at a time. */
  readonly parallel: number;
  /**
   * Writes a shard as `set` would, and resolves with true; false means that it does not take the shard, and the caller writes
   * it as usual. Once this settles, nothing is written any longer, even after a failure or an abort.
   * @throws as `set`; the reason of the signal if it aborted before the shard was written
   */
  write(store: WritableStore, shard: WholeShard): Promise<boolean>;
}

/** Row by row; column by column; along a Morton curve, which keeps neighbours in every dimension close together; or in order of arrival. */
export type ChunkOrder = "row-major" | "column-major" | "morton" | "as-written";

/** The slots of a grid in the order in which their chunks are stored; `written` are the ones present, in the order given. */
export function orderSlots(written: Iterable<number>, grid: readonly number[], order: ChunkOrder): number[] {
  const slots = [...written];
  if (order === "as-written") return slots;
  if (order === "row-major") return slots.sort((a, b) => a - b);
  const keyOf = order === "morton" ? mortonKey : columnMajorKey;
  const keys = new Map(slots.map((slot) => [slot, keyOf(slot, grid)]));
  return slots.sort((a, b) => {
    const [left = 0n, right = 0n] = [keys.get(a), keys.get(b)];
    return left < right ? -1 : left > right ? 1 : 0;
  });
}

/** The position's slot in Fortran order. */
function columnMajorKey(slot: number, grid: readonly number[]): bigint {
  const position = unravel(slot, grid);
  return grid.reduceRight((key, n, d) => key * BigInt(n) + BigInt(at(position, d)), 0n);
}

/** The interleaved bits of the position's coordinates; the first dimension has the lowest bit. */
function mortonKey(slot: number, grid: readonly number[]): bigint {
  const position = unravel(slot, grid);
  const bits = Math.max(1, ...grid.map((n) => Math.ceil(Math.log2(Math.max(2, n)))));
  let key = 0n;
  let place = 0n;
  for (let bit = 0; bit < bits; bit++)
    for (const coordinate of position) {
      if (Math.floor(coordinate / 2 ** bit) % 2 === 1) key |= 1n << place;
      place++;
    }
  return key;
}
