/** A Zarr array open for writing: whole chunks, and parts of them. */

import { at, combine, elementsOf, IS_LITTLE_ENDIAN } from "../../bytes/arrays.ts";
import { SuperchunkError } from "../../errors.ts";
import type { DType } from "../../format/types.ts";
import { runPooled } from "../../store/pool.ts";
import { withRooms } from "../../store/source.ts";
import type { StoreOptions, WritableStore } from "../../store/types.ts";
import { type ItemView, swapItems } from "../../values/copy-items.ts";
import { putItem } from "../../values/item-bytes.ts";
import { type Extent, resolveSelection, type Selection, stridesOf } from "../../values/selection.ts";
import { NUMBER_ARRAYS } from "../../values/values.ts";
import { leafOf, type ShardingSerializer, shardIndexOf, stagesOf } from "../codecs/chain.ts";
import { type AxisSegment, partOfView, segmentsOf, shapeAt, startAt } from "../document/chunk-grid.ts";
import type { ArrayModel } from "../document/model.ts";
import { ZarrArray } from "../read/array.ts";
import type { ReadSettings } from "../read/leaf.ts";
import { emptyEntries } from "../read/shard-index.ts";
import { type ChunkEncoding, encodeChunk } from "./encode-chunk.ts";
import {
  applyPlan,
  planShardWrite,
  putConditionOf,
  removeObject,
  retryRaced,
  withObjectLock,
} from "./shard-apply.ts";
import {
  type InnerChunk,
  type Region,
  RegionMerge,
  type ShardChanges,
  shardChangesOf,
  shardPieces,
} from "./shard-changes.ts";
import { checkCapacity, checkWriteSettings, type SetOptions, type WriteSettings } from "./write-settings.ts";

const MAX_UNUSED = 64 << 20;
/** Objects that the calling thread writes at a time: one waits for the store while another is encoded. */
const CONCURRENCY = 4;
/** The first shards of a call are not offered to the shard writer: this many are done before it has started. */
const KEPT = 2;

/** An array in a store that can write. */
export class WritableZarrArray extends ZarrArray {
  declare readonly store: WritableStore;
  readonly #settings: WriteSettings;
  readonly #regions: RegionMerge;
  /** Keys of the objects written into since the last `flush`. */
  readonly #patched = new Set<string>();
  readonly #hasCustom: boolean;

  constructor(store: WritableStore, model: ArrayModel, settings: WriteSettings & ReadSettings = {}) {
    super(store, model, settings);
    checkWriteSettings(settings);
    const unwritten = leafOf(model.chain).stages.find(({ isReadOnly }) => isReadOnly);
    if (unwritten !== undefined)
      throw new SuperchunkError(
        "UNSUPPORTED",
        unwritten.dataType === undefined
          ? `its chunks are encoded with "${unwritten.name}", which superchunk reads, and does not write; "superchunk convert --to blz" makes an array without it`
          : `its values have variable length ("${unwritten.name}"), and superchunk does not write such values; write them with zarr-python`,
        {
          path: store.describe(model.metadataKeys[0] ?? model.path),
          field: "filters",
          found: unwritten.name,
        },
      );
    this.#settings = settings;
    this.#hasCustom = stagesOf(model.chain).some(({ isCustom }) => isCustom);
    this.#regions = new RegionMerge(model, this.reading, this.storedFill, store.describe(model.path));
  }

  /**
   * Writes values to a selection: as many as it has items, in C order, or one for all. Concurrent writes to the same objects are detected
   * (always if the store has conditional puts), and the write is repeated on top of them. Durable when this resolves, except for shards
   * that are written into (strategies `append` and `fixed`): see {@link flush}. Throws `BAD_ARGUMENT`, `CONFLICT` if others are always
   * faster.
   */
  async set(selection: Selection | null, values: SelectionValues, options: SetOptions = {}): Promise<void> {
    const extents = resolveSelection(selection, this.shape);
    const counts = extents.map((extent) => extent.count);
    await this.#write(extents, viewValues(values, this.storedDType, counts), options);
  }

  /** Writes items as bytes in the byte order of `dtype`: as many as are selected, or one for all. */
  async setBytes(selection: Selection | null, bytes: Uint8Array, options: SetOptions = {}): Promise<void> {
    const extents = resolveSelection(selection, this.shape);
    const counts = extents.map((extent) => extent.count);
    const stored = this.toStoredOrder(bytes);
    const isOne = bytes.length === this.dtype.itemSize;
    const view = isOne
      ? { bytes: stored, offset: 0, strides: counts.map(() => 0) }
      : viewBytes(stored, this.dtype, counts);
    await this.#write(extents, view, options);
  }

  /** Writes the fill value to a selection. Chunks that then hold nothing else are removed. */
  async fill(selection: Selection | null, options: SetOptions = {}): Promise<void> {
    const extents = resolveSelection(selection, this.shape);
    const strides = extents.map(() => 0);
    await this.#write(extents, { bytes: this.storedFill, offset: 0, strides }, options);
  }

  /**
   * Makes the writes of the strategies `append` and `fixed` durable. Everything else is durable when `set` resolves.
   *
   * Throws `IO`, `NO_SPACE` if that fails: values set since the last flush may then be lost. If the store could not write to the disk, it
   * fails from then on: open the array again, and set the values again.
   */
  async flush({ signal }: StoreOptions = {}): Promise<void> {
    const patched = [...this.#patched];
    const there: string[] = [];
    for (const key of patched) if ((await this.store.stat(key, { signal })) !== undefined) there.push(key); // others may delete shards
    this.#patched.clear();
    try {
      await this.store.sync?.(there, { signal }); // even an empty list: it fails if an earlier sync failed
    } catch (error) {
      for (const key of patched) this.#patched.add(key);
      throw error;
    }
  }

  /** Rewrites the shard at a grid position without its unused bytes. Throws `BAD_ARGUMENT` if there are no shards. */
  async compactShard(position: readonly number[], options: SetOptions = {}): Promise<void> {
    const { serializer, stages } = this.model.chain;
    if (serializer.kind === "bytes" || stages.length > 0)
      throw new SuperchunkError("BAD_ARGUMENT", "the array has no shards to compact", {
        path: this.store.describe(this.path),
      });
    this.assertPosition(position);
    checkWriteSettings(options);
    const nothing = async (): Promise<ReadonlyMap<number, undefined>> => new Map();
    await this.#updateShard(position, serializer, nothing, { ...options, strategy: "rewrite" });
  }

  /** Throws `BAD_ARGUMENT` if it is not a position in the grid of chunks, or of shards. */
  assertPosition(position: readonly number[]): void {
    const counts = this.model.axes.map(({ count }) => count);
    const isInside =
      position.length === counts.length &&
      position.every((place, d) => Number.isInteger(place) && place >= 0 && place < at(counts, d));
    if (isInside) return;
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `[${position.join(", ")}] is not a position of the grid, which has ${counts.join(" x ")} chunks or shards`,
      { path: this.store.describe(this.path), field: "position", expected: counts, found: position },
    );
  }

  /** Returns items in the byte order in which the array stores them: the same, or a copy. */
  toStoredOrder(items: Uint8Array): Uint8Array {
    return this.isSwapped ? swapItems(items.slice(), this.dtype) : items;
  }

  /** Returns the settings for encoding the chunks of this array. */
  encodeSettings(options: WriteSettings = {}): ChunkEncoding {
    const { writeEmptyChunks = this.#settings.writeEmptyChunks ?? false } = options;
    return {
      fill: this.storedFill,
      // Without a fill value (version 2), other programs read anything where a chunk is not stored.
      writeEmptyChunks: writeEmptyChunks || this.fillValue === null,
      chunkOrder: options.chunkOrder ?? this.#settings.chunkOrder ?? "row-major",
      encoder: options.encoder ?? this.#settings.encoder,
    };
  }

  async #write(extents: readonly Extent[], source: ItemView, options: SetOptions): Promise<void> {
    checkWriteSettings(options);
    if (extents.some((extent) => extent.count === 0)) return;
    const lists = this.model.axes.map((axis, d) => [
      ...segmentsOf(axis, extents[d] ?? { start: 0, count: 1, step: 1 }),
    ]);
    // The shard writer does not know an encoder that is passed to this call alone.
    const shardWriter =
      options.shardWriter ?? (options.encoder === undefined ? this.#settings.shardWriter : undefined);
    let begun = 0;
    await runPooled(
      combine(lists),
      Math.max(CONCURRENCY, KEPT + (shardWriter?.parallel ?? 0)),
      (segments, signal) => {
        const offeredTo = begun++ < KEPT ? undefined : shardWriter;
        return this.#writeChunk(segments, source, { ...options, shardWriter: offeredTo, signal });
      },
      options.signal,
    );
  }

  async #writeChunk(segments: readonly AxisSegment[], source: ItemView, options: SetOptions): Promise<void> {
    const { axes, chain } = this.model;
    const position = segments.map(({ chunk }) => chunk);
    const region = { start: startAt(axes, position), shape: shapeAt(axes, position) };
    const view = partOfView(source, segments);
    const { serializer, stages } = chain;
    const whole = this.#regions.coversAll(segments, region);
    if (serializer.kind === "sharding" && stages.length === 0) {
      const settings = this.encodeSettings(options);
      const made = shardChangesOf(
        this.model,
        serializer,
        { segments, view, region },
        settings,
        this.#regions,
      );
      const offer = (key: string): Promise<boolean> => this.#offerShard(key, segments, view, region, options);
      if (whole) await this.#putShard(position, serializer, made, offer, options);
      else
        await this.#updateShard(position, serializer, () => this.#encodeAll(made.changes, options), options);
      return;
    }
    const key = this.model.chunkKey(position);
    await this.#retry(key, async () => {
      const version = (await this.store.stat(key, { signal: options.signal }))?.version;
      const items = await this.#regions.merge(segments, view, region, options.signal);
      const bytes = await encodeChunk(chain, items, region.shape, this.encodeSettings(options));
      const target = { key, version, signal: options.signal };
      if (bytes !== undefined) await this.store.put(key, bytes, putConditionOf(target));
      else if (version !== undefined) await removeObject(this.store, target);
    });
  }

  /** Offers a whole shard to the shard writer; returns true if it was written. */
  async #offerShard(
    key: string,
    segments: readonly AxisSegment[],
    items: ItemView,
    { start }: Region,
    options: SetOptions,
  ): Promise<boolean> {
    const { shardWriter, signal } = options;
    // The shard writer gets values in memory byte order, which these are not, and does not have the caller's own codecs.
    if (shardWriter === undefined || this.isSwapped || this.#hasCustom) return false;
    const { chunkOrder, writeEmptyChunks } = this.encodeSettings(options);
    const counts = segments.map(({ count }) => count);
    return shardWriter.write(this.store, {
      model: this.model,
      key,
      start,
      counts,
      items,
      chunkOrder,
      writeEmptyChunks,
      signal,
    });
  }

  /** Writes a shard of which nothing is kept: it is not read, and is written while it is encoded. */
  async #putShard(
    position: readonly number[],
    serializer: ShardingSerializer,
    { grid, changes }: ShardChanges,
    offer: (key: string) => Promise<boolean>,
    options: SetOptions,
  ): Promise<void> {
    const key = this.model.chunkKey(position);
    this.#checkCapacity(key, grid);
    const settings = this.encodeSettings(options);
    await withObjectLock(this.store, key, async () => {
      try {
        if (await offer(key)) return;
        const { pieces, useRooms } = shardPieces(changes, grid, serializer, settings, options.signal);
        try {
          const first = await pieces.next();
          if (first.done === true) await removeObject(this.store, { key, signal: options.signal });
          else {
            const source = withRooms(startingWith(first.value, pieces), useRooms);
            await this.store.put(key, source, { signal: options.signal });
          }
        } finally {
          await pieces.return(undefined);
        }
      } finally {
        // Also after a failure: the new object may have its name already.
        this.reading.cache.forget(key);
      }
    });
  }

  /** Changes inner chunks of a shard by the requested strategy. */
  async #updateShard(
    position: readonly number[],
    serializer: ShardingSerializer,
    encode: () => Promise<ReadonlyMap<number, Uint8Array | undefined>>,
    options: SetOptions,
  ): Promise<void> {
    const { axes, chain } = this.model;
    const index = shardIndexOf(chain, serializer, shapeAt(axes, position));
    const { grid, layout } = index;
    const key = this.model.chunkKey(position);
    this.#checkCapacity(key, grid);
    const { chunkOrder } = this.encodeSettings(options);
    const strategy = options.strategy ?? this.#settings.strategy ?? "rewrite";
    const unlimited = strategy === "append" ? Number.POSITIVE_INFINITY : MAX_UNUSED;
    const maxUnused = options.maxUnused ?? this.#settings.maxUnused ?? unlimited;
    await this.#retry(key, async () => {
      const known = await this.reading.cache.open(key, index);
      const updates = await encode();
      const target = { key, ...index, chunkOrder, version: known?.version, signal: options.signal };
      const state = known ?? { size: 0, entries: emptyEntries(elementsOf(grid)) };
      const plan = planShardWrite(
        state,
        updates,
        layout,
        known === undefined ? "rewrite" : strategy,
        maxUnused,
      );
      if (plan.kind === "delete" && known === undefined) return;
      if ((await applyPlan(this.store, target, plan)) === "patched") this.#patched.add(key);
    });
  }

  #checkCapacity(key: string, grid: readonly number[]): void {
    checkCapacity(elementsOf(grid), { path: this.store.describe(key), field: "chunk_shape" });
  }

  /** Repeats work, based on what is stored then, if another writer was faster. */
  async #retry(key: string, work: () => Promise<void>): Promise<void> {
    const attempt = async (): Promise<void> => {
      this.reading.cache.forget(key);
      try {
        await work();
      } finally {
        this.reading.cache.forget(key);
      }
    };
    await withObjectLock(this.store, key, () => retryRaced(attempt));
  }

  /** The changed inner chunks by slot; undefined for those left out. */
  async #encodeAll(
    changes: readonly InnerChunk[],
    options: SetOptions,
  ): Promise<Map<number, Uint8Array | undefined>> {
    // The slots are inserted first, because chunks encoded elsewhere return in any order.
    const updates = new Map<number, Uint8Array | undefined>(changes.map(({ slot }) => [slot, undefined]));
    await runPooled(
      changes,
      this.encodeSettings(options).encoder?.parallel ?? 1,
      async ({ slot, encode }, signal) => {
        updates.set(slot, await encode(signal));
      },
      options.signal,
    );
    return updates;
  }
}

async function* startingWith<T>(first: T, rest: AsyncIterable<T>): AsyncGenerator<T> {
  yield first;
  yield* rest;
}

/**
 * Values of a selection in C order: a typed array, a list, a container as returned by `get`; or one value for all (for structs an object
 * with the fields).
 */
export type SelectionValues =
  | ArrayLike<unknown>
  | Iterable<unknown>
  | Readonly<Record<string, unknown>>
  | number
  | bigint
  | boolean
  | string;

/** A view of the items, with strides of 0 if one value is repeated. Throws `BAD_ARGUMENT` for another number of values. */
function viewValues(values: SelectionValues, dtype: DType, counts: readonly number[]): ItemView {
  const count = elementsOf(counts);
  const { itemSize } = dtype;
  if (isSingle(values)) return repeatValue(values, dtype, counts);
  const raw = rawItems(values, dtype);
  if (raw !== undefined) {
    checkCount(raw.length / itemSize, count);
    return { bytes: raw, offset: 0, strides: stridesOf(counts) };
  }
  const list = Array.from(values as Iterable<unknown>);
  // A pair of parts, or the bytes of one raw item, if it cannot be one value for each item.
  if (list.length !== count && (dtype.kind === "complex" || dtype.kind === "void"))
    return repeatValue(values, dtype, counts);
  checkCount(list.length, count);
  const bytes = new Uint8Array(count * itemSize);
  const view = new DataView(bytes.buffer);
  list.forEach((value, i) => {
    putItem(view, i * itemSize, dtype, value);
  });
  return { bytes, offset: 0, strides: stridesOf(counts) };
}

/** A view of items that are bytes already, in the byte order of `dtype`. Throws `BAD_ARGUMENT` for another length. */
function viewBytes(bytes: Uint8Array, dtype: DType, counts: readonly number[]): ItemView {
  checkCount(bytes.length / dtype.itemSize, elementsOf(counts));
  return { bytes, offset: 0, strides: stridesOf(counts) };
}

function repeatValue(value: unknown, dtype: DType, counts: readonly number[]): ItemView {
  const item = new Uint8Array(dtype.itemSize);
  putItem(new DataView(item.buffer), 0, dtype, value);
  return { bytes: item, offset: 0, strides: counts.map(() => 0) };
}

/** True for anything but a list. */
function isSingle(values: SelectionValues): boolean {
  return typeof values !== "object" || !(Symbol.iterator in values || "length" in values);
}

/** The bytes of a typed array of exactly the dtype, without checking each item. */
function rawItems(values: SelectionValues, dtype: DType): Uint8Array | undefined {
  if (!ArrayBuffer.isView(values)) return undefined;
  const { buffer, byteOffset, byteLength } = values as Uint8Array;
  const own = NUMBER_ARRAYS[`${"unit" in dtype ? "int" : dtype.kind}${dtype.itemSize}`];
  if (values.constructor.name !== own?.name) return undefined;
  const bytes = new Uint8Array(buffer, byteOffset, byteLength);
  const little = dtype.byteOrder !== "big";
  return little === IS_LITTLE_ENDIAN || dtype.itemSize === 1 ? bytes : swapItems(bytes.slice(), dtype);
}

function checkCount(found: number, expected: number): void {
  if (found === expected) return;
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    `the selection has ${expected} items, but ${found} values are given`,
    { field: "values", expected, found },
  );
}
