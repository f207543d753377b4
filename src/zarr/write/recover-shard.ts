/**
 * Recovers a shard after an interrupted append, using its last intact index.
 *
 * An append never reuses a byte that an earlier index names, so the bytes up to the end of that index are the earlier shard.
 * @see FORMAT.md [FH-08]
 */

import { elementsOf } from "../../bytes/arrays.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import type { ReadableStore, StoreOptions } from "../../store/types.ts";
import { innerGrid, permute, type ShardingSerializer } from "../codecs/chain.ts";
import { shapeAt } from "../document/chunk-grid.ts";
import { checkLength } from "../read/shard-cache.ts";
import { decodeShardIndex, type ShardIndexLayout, shardIndexLength } from "../read/shard-index.ts";
import { applyPlan, planShardWrite, type ShardState, withObjectLock } from "./shard-apply.ts";
import type { WritableZarrArray } from "./writable-array.ts";

/** Findings of `shards.recover`. */
export interface ShardRecovery {
  /** Bytes of the shard up to the end of its last intact index. */
  readonly size: number;
  /** Bytes after it that were removed: those of the interrupted append. */
  readonly dropped: number;
  /** Chunks that the index names. */
  readonly chunks: number;
}

/**
 * Recovers the shard at a grid position after a process was killed, or power was lost, during an append. The shard is rewritten with
 * what its last intact index names, without unused bytes. An intact shard stays as it is. Chunks are not decoded; `verify` does that.
 *
 * Throws `BAD_ARGUMENT` for an array without shards and a position outside the grid, `NOT_FOUND` for a missing shard, `UNSUPPORTED`
 * for indexes at the start, without a crc32c, or of the same size as those of nested shards, `INCOMPLETE` without an intact index,
 * `CONFLICT` if another writer is at work.
 */
export async function recoverShard(
  array: WritableZarrArray,
  position: readonly number[],
  { signal }: StoreOptions = {},
): Promise<ShardRecovery> {
  const { store, model } = array;
  const { chain, axes } = model;
  const { serializer } = chain;
  if (serializer.kind === "bytes" || chain.stages.length > 0)
    throw new SuperchunkError("BAD_ARGUMENT", "the array has no shards to recover", {
      path: store.describe(array.path),
    });
  array.assertPosition(position);
  const key = model.chunkKey(position);
  const path = store.describe(key);
  const layout = serializer.index;
  const grid = innerGrid(serializer, permute(shapeAt(axes, position), chain.order));
  return withObjectLock(store, key, async () => {
    const info = await store.stat(key, { signal });
    if (info === undefined) throw new SuperchunkError("NOT_FOUND", "no such shard", { path });
    const earlier = await findEarlierShard(store, key, info.size, { grid, serializer }, signal);
    const found = { size: earlier.size, dropped: info.size - earlier.size };
    const chunks = earlier.entries.filter((entry) => entry !== undefined).length;
    if (found.dropped > 0) {
      const plan = planShardWrite(earlier, new Map(), layout, "rewrite", 0);
      const target = { key, grid, layout, version: info.version, signal };
      await applyPlan(store, { ...target, chunkOrder: "row-major" }, plan);
    }
    return { ...found, chunks };
  });
}

/** Bytes searched at a time, besides those of an index. */
const WINDOW = 4 << 20;
const ABSENT = 0xffff_ffff_ffff_ffffn;

/** Refuses shards whose nested shards have an index of the same size: one could be mistaken for the other. */
function refuseTwins(outer: ShardingSerializer, grid: readonly number[], path: string): void {
  const length = shardIndexLength(elementsOf(grid), outer.index);
  let { chunkShape } = outer;
  for (let { inner } = outer; inner.serializer.kind === "sharding"; inner = inner.serializer.inner) {
    const nested = innerGrid(inner.serializer, permute(chunkShape, inner.order));
    if (shardIndexLength(elementsOf(nested), inner.serializer.index) === length)
      throw new SuperchunkError(
        "UNSUPPORTED",
        "the shards inside of this shard have indexes of the same size, so that an earlier index is not known from theirs; look for another copy of the shard",
        {
          path,
          field: "index_codecs",
          expected: `nested indexes of other than ${length} bytes`,
          found: length,
        },
      );
    ({ chunkShape } = inner.serializer);
  }
}

/**
 * The shard up to its last intact index, searching back from the object's end. Throws `UNSUPPORTED` for an index at the start
 * or without a crc32c, `INCOMPLETE` if there is none.
 */
export async function findEarlierShard(
  store: ReadableStore,
  key: string,
  size: number,
  { grid, serializer }: { readonly grid: readonly number[]; readonly serializer: ShardingSerializer },
  signal?: AbortSignal,
): Promise<ShardState> {
  const path = store.describe(key);
  refuseTwins(serializer, grid, path);
  const layout = serializer.index;
  if (layout.location !== "end" || layout.checksums === 0 || layout.order !== undefined)
    throw new SuperchunkError(
      "UNSUPPORTED",
      "an earlier index can only be recognised by its crc32c, after its chunks, with pairs in order; look for another copy of the shard",
      { path, field: "index_codecs", expected: "an index at the end with a crc32c", found: layout },
    );
  const length = shardIndexLength(elementsOf(grid), layout);
  const place = { key, path, offset: 0, nbytes: size };
  for (let end = size; end >= length; end -= WINDOW) {
    signal?.throwIfAborted();
    const start = Math.max(0, end - length - WINDOW + 1);
    const range = { offset: start, length: end - start };
    const bytes = checkLength(await store.getRange(key, range, { signal }), range.length, place, start);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    for (let at = bytes.length - length; at >= 0; at--) {
      if (!mayBeIndex(view, at, length, start + at, layout)) continue;
      const shard = { path, start: 0, size: start + at + length, grid, layout };
      try {
        return { size: shard.size, entries: await decodeShardIndex(bytes.subarray(at, at + length), shard) };
      } catch (error) {
        if (!isSuperchunkError(error) || !error.isDamage) throw error;
      }
    }
  }
  throw new SuperchunkError(
    "INCOMPLETE",
    "the shard has no intact index, neither at its end nor before; look for another copy",
    { path, field: "shard index", expected: `an index of ${length} bytes`, found: size },
  );
}

/**
 * True if every entry is absent or before the index, and at least one is present: then checksums are computed in few places only.
 */
function mayBeIndex(
  view: DataView,
  at: number,
  length: number,
  dataEnd: number,
  layout: ShardIndexLayout,
): boolean {
  const isLittle = layout.endian === "little";
  // Long runs of one byte look like entries everywhere, but this sum cannot be an index's.
  const sum = view.getInt32(at + length - 4);
  if (sum === 0 || sum === -1) return false;
  const end = at + length - 4 * layout.checksums;
  let isEmpty = true;
  for (let entry = at; entry < end; entry += 16) {
    const offset = view.getBigUint64(entry, isLittle);
    const nbytes = view.getBigUint64(entry + 8, isLittle);
    if (offset === ABSENT && nbytes === ABSENT) continue;
    if (nbytes === 0n || offset + nbytes > dataEnd) return false;
    isEmpty = false;
  }
  return !isEmpty;
}
