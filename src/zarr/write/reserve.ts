/**
 * Writes the inner chunks of one shard in any order, by several workers at once: the index is at the start, and a slot is
 * reserved for each chunk.
 *
 * One worker reserves, all write, one finishes. A reservation is plain data and can be sent to other threads or processes.
 * Nothing is visible under the shard's key before it is finished.
 */

import { elementsOf } from "../../bytes/arrays.ts";
import { SuperchunkError } from "../../errors.ts";
import type { WritableStore } from "../../store/types.ts";
import { innerGrid, permute, unpermute } from "../codecs/chain.ts";
import { shapeAt } from "../document/chunk-grid.ts";
import {
  emptyEntries,
  encodeShardIndex,
  type ShardEntry,
  type ShardIndexLayout,
  shardIndexLength,
} from "../read/shard-index.ts";
import { encodeChunk, turnItems } from "./encode-chunk.ts";
import type { WritableZarrArray } from "./writable-array.ts";

/** The reserved space for all inner chunks of a shard. Plain data. */
export interface ShardReservation {
  /** Key that the finished shard gets. */
  readonly key: string;
  /** Key under which it is written. */
  readonly temporaryKey: string;
  readonly grid: readonly number[];
  readonly layout: ShardIndexLayout;
  /** Most bytes of an encoded chunk. */
  readonly slotBytes: number;
}

/** A written slot, to pass to `shards.finish`. */
export interface WrittenSlot extends ShardEntry {
  readonly slot: number;
}

/** What codecs may add to incompressible data. */
const OVERHEAD = 1.01;
const OVERHEAD_BYTES = 1024;

/**
 * Reserves space for the shard at a grid position. `slotBytes` is the most bytes of an encoded chunk (default: enough for
 * incompressible values).
 *
 * Throws `BAD_ARGUMENT` for an array whose shards do not have their index at the start, `UNSUPPORTED` for a store that cannot
 * write into objects.
 */
export async function reserveShard(
  array: WritableZarrArray,
  position: readonly number[],
  slotBytes?: number,
): Promise<ShardReservation> {
  const { axes, chain } = array.model;
  const { serializer, stages } = chain;
  if (serializer.kind === "bytes" || stages.length > 0 || serializer.index.location !== "start")
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      "slots can only be reserved in shards with their index at the start",
      { path: array.store.describe(array.path), field: "index_location", expected: "start" },
    );
  needsWriteRange(array.store, array.path);
  array.assertPosition(position);
  if (slotBytes !== undefined && !(Number.isSafeInteger(slotBytes) && slotBytes > 0))
    throw new SuperchunkError("BAD_ARGUMENT", `slotBytes is ${slotBytes}, expected a number of bytes`, {
      field: "slotBytes",
      expected: "a positive integer",
      found: slotBytes,
    });
  const key = array.model.chunkKey(position);
  const chunkBytes = elementsOf(serializer.chunkShape) * array.dtype.itemSize;
  const reservation: ShardReservation = {
    key,
    temporaryKey: array.store.rename === undefined ? key : `${key}.writing`,
    grid: innerGrid(serializer, permute(shapeAt(axes, position), chain.order)),
    layout: serializer.index,
    slotBytes: slotBytes ?? Math.ceil(chunkBytes * OVERHEAD) + OVERHEAD_BYTES,
  };
  // Zeros are not a valid index: an early reader gets an error, if there is a checksum.
  await array.store.put(reservation.temporaryKey, new Uint8Array(firstSlot(reservation)));
  return reservation;
}

/** Encodes the values of one inner chunk, in C order and the byte order of the array's dtype, for {@link writeReserved}. */
export async function encodeInnerChunk(array: WritableZarrArray, items: Uint8Array): Promise<Uint8Array> {
  const { serializer, order } = array.model.chain;
  if (serializer.kind === "bytes") throw new SuperchunkError("BAD_ARGUMENT", "the array has no shards");
  const expected = elementsOf(serializer.chunkShape) * array.dtype.itemSize;
  if (items.length !== expected)
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `an inner chunk has ${expected} bytes of values, but ${items.length} are given; a chunk at the array's edge has full length too`,
      { path: array.store.describe(array.path), field: "items", expected, found: items.length },
    );
  const shape = unpermute(serializer.chunkShape, order);
  const settings = { ...array.encodeSettings(), writeEmptyChunks: true };
  const turned = turnItems(array.toStoredOrder(items), shape, order, array.dtype.itemSize);
  const bytes = await encodeChunk(serializer.inner, turned, serializer.chunkShape, settings);
  return bytes ?? new Uint8Array(0);
}

/** Writes an encoded chunk into its slot. Workers may do this in any order, at the same time. Throws `LIMIT` if it does not fit. */
export async function writeReserved(
  store: WritableStore,
  reservation: ShardReservation,
  slot: number,
  encoded: Uint8Array,
): Promise<WrittenSlot> {
  const { slotBytes, temporaryKey, grid } = reservation;
  const capacity = elementsOf(grid);
  if (!Number.isInteger(slot) || slot < 0 || slot >= capacity)
    throw new SuperchunkError("BAD_ARGUMENT", `slot ${slot} is not one of the shard's ${capacity}`, {
      field: "slot",
      expected: `0 to ${capacity - 1}`,
      found: slot,
    });
  if (encoded.length > slotBytes)
    throw new SuperchunkError(
      "LIMIT",
      `the chunk has ${encoded.length} bytes, but ${slotBytes} are reserved for it`,
      {
        path: store.describe(temporaryKey),
        chunk: slot,
        field: "slotBytes",
        expected: slotBytes,
        found: encoded.length,
      },
    );
  const offset = firstSlot(reservation) + slot * slotBytes;
  await needsWriteRange(store, temporaryKey).call(store, temporaryKey, offset, encoded);
  return { slot, offset, nbytes: encoded.length };
}

/**
 * Writes the index and gives the shard its name. Chunks that are not in `written` are absent. Throws `BAD_ARGUMENT` for slots
 * that {@link writeReserved} did not return, or that are repeated, before anything is written.
 */
export async function finishReserved(
  store: WritableStore,
  reservation: ShardReservation,
  written: Iterable<WrittenSlot>,
): Promise<void> {
  const { grid, layout, key, temporaryKey } = reservation;
  const entries = emptyEntries(elementsOf(grid));
  for (const each of written) {
    const { slot, offset, nbytes } = each;
    const isOwn =
      Number.isInteger(slot) &&
      slot >= 0 &&
      slot < entries.length &&
      offset === firstSlot(reservation) + slot * reservation.slotBytes &&
      Number.isInteger(nbytes) &&
      nbytes >= 0 &&
      nbytes <= reservation.slotBytes;
    if (!isOwn || entries[slot] !== undefined)
      throw new SuperchunkError(
        "BAD_ARGUMENT",
        `${JSON.stringify(each)} is ${isOwn ? "given twice" : "no slot of this reservation"}; give what writeReserved gave, each once`,
        { path: store.describe(key), field: "written", found: slot },
      );
    entries[slot] = { offset, nbytes };
  }
  const index = await encodeShardIndex(entries, grid, layout);
  await needsWriteRange(store, temporaryKey).call(store, temporaryKey, 0, index);
  await store.sync?.([temporaryKey]);
  if (temporaryKey !== key) await store.rename?.(temporaryKey, key);
}

function firstSlot({ grid, layout }: ShardReservation): number {
  return shardIndexLength(elementsOf(grid), layout);
}

function needsWriteRange(store: WritableStore, key: string): NonNullable<WritableStore["writeRange"]> {
  if (store.writeRange !== undefined) return store.writeRange;
  throw new SuperchunkError("UNSUPPORTED", "the store cannot write into objects, which reserved slots need", {
    path: store.describe(key),
  });
}
