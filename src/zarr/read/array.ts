/** An opened Zarr array: its facts, its values, its chunks. */

import type {
  AbsentChunk,
  ChunksOptions,
  ListChunksOptions,
  LongOptions,
  OpenOptions,
  ReadableArray,
  ReadableChunk,
  ReadableSummary,
  ReadOptions,
  VerifyReport,
} from "../../archive/kinds/types.ts";
import { at, defined, elementsOf, fillResult, type PrepareMemory } from "../../bytes/arrays.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import type { DType, JsonObject, JsonValue, ZarrDialect } from "../../format/types.ts";
import { arrowBatches, oindex, scan, vindex } from "../../scan/begin.ts";
import { checkLater, sizeOfObjects } from "../../store/key.ts";
import { isGenerating, type ReadableStore } from "../../store/types.ts";
import { swapItems } from "../../values/copy-items.ts";
import {
  type ArraySlice,
  type Extent,
  resolveSelection,
  type Selected,
  type Selection,
  selectedOf,
  stridesOf,
} from "../../values/selection.ts";
import { toValues } from "../../values/values.ts";
import { type Chain, leafOf, unpermute } from "../codecs/chain.ts";
import { isChecksum } from "../codecs/stage.ts";
import { countPositions, type GridAxis } from "../document/chunk-grid.ts";
import { hasByteOrder, withByteOrder } from "../document/data-type.ts";
import type { ArrayModel, GroupModel } from "../document/model.ts";
import type { ReadSettings } from "./leaf.ts";
import { ChunkReading } from "./reading.ts";

// How a Zarr array is cut and compressed, and the numbers of its chunks. Knows models; must not read chunks.

/** Shape of the smallest separately encoded piece: an inner chunk, or a chunk; the first of unequal ones. */
function chunkShapeOf({ chain, axes }: ArrayModel): readonly number[] {
  return innermostShape(
    chain,
    axes.map((axis) => at(axis.lengths, 0)),
  );
}

/** Shape of a shard, the first of unequal ones; undefined for an array without shards. */
function shardShapeOf({ chain, axes }: ArrayModel): readonly number[] | undefined {
  if (chain.serializer.kind === "bytes") return undefined;
  return axes.map((axis) => at(axis.lengths, 0));
}

function innermostShape({ serializer, order }: Chain, shape: readonly number[]): readonly number[] {
  if (serializer.kind === "bytes") return shape;
  return unpermute(innermostShape(serializer.inner, serializer.chunkShape), order);
}

/** One dimension of the grid of (inner) chunks. */
interface ChunkAxis {
  readonly axis: GridAxis;
  /** Items of an inner chunk; undefined without inner chunks. */
  readonly length: number | undefined;
  readonly count: number;
}

function chunkAxes(model: ArrayModel): readonly ChunkAxis[] {
  if (shardShapeOf(model) === undefined)
    return model.axes.map((axis) => ({ axis, length: undefined, count: axis.count }));
  return chunkShapeOf(model).flatMap((length, d) => {
    const axis = model.axes[d];
    return axis === undefined ? [] : [{ axis, length, count: Math.ceil(axis.extent / length) }];
  });
}

/** Number of (inner) chunks of the grid, including those not stored. */
function countChunks(model: ArrayModel): number {
  return chunkAxes(model).reduce((product, { count }) => product * count, 1);
}

/** Returns the number of an (inner) chunk in C order of the grid, given its first item. */
export function numberChunks(model: ArrayModel): (start: readonly number[]) => number {
  const axes = chunkAxes(model);
  return (start) =>
    axes.reduce((index, { axis, length, count }, d) => {
      const first = at(start, d);
      return index * count + (length === undefined ? axis.chunkOf(first) : first / length);
    }, 0);
}

/** How the array is cut and compressed, in its document's terms. */
function summaryOf(model: ArrayModel): ReadableSummary {
  const { axes, shape, chain } = model;
  const chunkShape = chunkShapeOf(model);
  const shardShape = shardShapeOf(model);
  const unequal = axes.some(({ lengths }) => lengths.length > 1);
  const isCutByRows = chunkShape.slice(1).every((length, d) => length >= at(shape, d + 1));
  const { order, stages } = leafOf(chain);
  const names = stages.map(({ name }) => name);
  const isVariable = stages[0]?.dataType !== undefined;
  const codecs = [...(order === undefined ? [] : ["transpose"]), ...(isVariable ? [] : ["bytes"]), ...names];
  const plain = names.includes("shuffle") ? { shuffle: "shuffle" } : {};
  const blosc = stages.find(({ isBlosc }) => isBlosc)?.v3?.["configuration"];
  const settings = (blosc ?? plain) as Pick<ReadableSummary, "cname" | "clevel" | "shuffle" | "typesize">;
  const { clevel, shuffle, typesize } = settings;
  const cname =
    settings.cname ??
    names.slice(Number(isVariable)).findLast((name) => name !== "shuffle" && !isChecksum(name));
  return {
    nchunks: countChunks(model),
    ...(isCutByRows && !unequal && chunkShape[0] !== undefined ? { chunkLength: chunkShape[0] } : {}),
    chunkShape,
    ...(unequal ? { chunkShapes: gridOf(model.document) } : {}),
    ...(shardShape === undefined ? {} : { shardShape, nshards: countPositions(axes) }),
    ...defined({ cname, clevel, shuffle, typesize }),
    codecs,
    checksum: names.findLast(isChecksum) ?? "None",
  };
}

function gridOf(document: JsonObject): JsonValue {
  const grid = document["chunk_grid"] as { readonly configuration?: JsonObject } | undefined;
  return grid?.configuration?.["chunk_shapes"] ?? null;
}

/** True if shards at any depth are compressed as a whole: such a shard is listed as one chunk. */
function isShardCompressed({ serializer, stages }: Chain): boolean {
  return serializer.kind === "sharding" && (stages.length > 0 || isShardCompressed(serializer.inner));
}

/** A stored chunk of a Zarr array. */
export interface ZarrChunk extends ReadableChunk {
  /** First item of the chunk in the array, by dimension. */
  readonly start: readonly number[];
  readonly shape: readonly number[];
  /** Slot in the index of the innermost shard that was read; undefined if the chunk is an object by itself. */
  readonly slot: number | undefined;
  /** Version of the object when its size or index was read. */
  readonly version: string;
}

/** What arrays and groups have in common. */
export abstract class ZarrNode {
  readonly dialect: ZarrDialect;
  readonly store: ReadableStore;
  readonly path: string;
  readonly attrs: JsonObject;
  /** The document as stored; empty for a group that is known only from its members. */
  readonly metadata: JsonObject;
  readonly warnings: readonly string[];
  #owned: { close?(): Promise<void> } | undefined;

  constructor(
    store: ReadableStore,
    model: (ArrayModel | GroupModel) & Pick<ArrayModel, "shownAs">,
    warnings: readonly string[],
  ) {
    this.store = store;
    this.dialect = model.shownAs ?? model.dialect;
    this.path = model.path;
    this.attrs = model.attributes;
    this.metadata = model.document;
    this.warnings = warnings;
  }

  /** Releases the store if `open` of `superchunk/node` made it; else the store stays open. */
  async close(): Promise<void> {
    await this.#owned?.close?.();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Makes `close` close the store, or whatever else the node was opened with. */
  ownStore(owned: { close?(): Promise<void> } | undefined): this {
    this.#owned = owned;
    return this;
  }
}

/** A Zarr array of any version, sharded or not. */
export class ZarrArray extends ZarrNode implements ReadableArray {
  readonly kind: "array" = "array";
  /** Dtype of the values in memory. */
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly order = "C";
  readonly fillValue: JsonValue;
  readonly dimensionNames: readonly (string | null)[] | undefined;
  /** Bytes of all values; NaN for values of variable length that were not measured. */
  readonly nbytes: number;
  readonly variable: "text" | "bytes" | undefined;
  readonly columnNames: readonly string[] = [];
  /** Contents of the document, for writers and converters. */
  readonly model: ArrayModel;
  protected readonly reading: ChunkReading;
  /** In stored byte order. */
  protected readonly storedFill: Uint8Array;
  protected readonly storedDType: DType;
  protected readonly isSwapped: boolean;
  readonly #prepare: PrepareMemory | undefined;

  constructor(store: ReadableStore, model: ArrayModel, settings: ReadSettings = {}) {
    super(store, model, model.warnings);
    this.model = model;
    this.dtype = model.dtype;
    this.shape = model.shape;
    this.fillValue = model.fillValue;
    this.dimensionNames = model.dimensionNames;
    this.variable = model.variable;
    this.nbytes = model.isUnmeasured === true ? Number.NaN : elementsOf(model.shape) * model.dtype.itemSize;
    const { endian } = leafOf(model.chain).serializer;
    this.isSwapped = model.dialect === "zarr3" && endian === "big" && hasByteOrder(model.dtype);
    this.storedDType = this.isSwapped ? withByteOrder(model.dtype, "big") : model.dtype;
    this.storedFill = this.isSwapped ? swapItems(model.fillItem.slice(), model.dtype) : model.fillItem;
    this.#prepare = settings.decoder?.prepareResult;
    this.reading = new ChunkReading(store, model, this.storedFill, settings);
  }

  /** Shape of the smallest separately encoded piece: an inner chunk, or a chunk; the first of unequal ones. */
  get chunkShape(): readonly number[] {
    return chunkShapeOf(this.model);
  }

  /** Shape of a shard, the first of unequal ones; undefined for an array without shards. */
  get shardShape(): readonly number[] | undefined {
    return shardShapeOf(this.model);
  }

  /** Chunks of the grid, including those not stored; inner chunks if there are shards. */
  get nchunks(): number {
    return countChunks(this.model);
  }

  /** Rows of an (inner) chunk. */
  get chunkLength(): number | undefined {
    return this.chunkShape[0];
  }

  /** Uncompressed bytes of as many rows as a chunk has. */
  get chunkBytes(): number {
    return elementsOf([...this.chunkShape.slice(0, 1), ...this.shape.slice(1)]) * this.dtype.itemSize;
  }

  column(name: string): ZarrArray {
    throw new SuperchunkError("NOT_FOUND", `no column "${name}": a Zarr array has none`, {
      path: this.store.describe(this.path),
      field: name,
    });
  }

  /** Returns how the array is chunked and compressed. */
  async summary(options: OpenOptions = {}): Promise<ReadableSummary> {
    await checkLater(options, "open");
    return summaryOf(this.model);
  }

  /**
   * Reads the selected values; a scalar if every entry is an integer. Chunks that are not stored have the fill value. Throws
   * `BAD_ARGUMENT`, `LIMIT` for more than memory holds, `UNSUPPORTED` for `shared` if the engine has no shared memory, and for damage an
   * error that names the shard and the entry.
   */
  async get<const S extends Selection | null | undefined = null>(
    selection?: S,
    options: ReadOptions = {},
  ): Promise<Selected<S>> {
    const extents = resolveSelection(selection, this.shape);
    const bytes = await this.#read(extents, options);
    const data = this.#toValues(bytes, elementsOf(extents.map((extent) => extent.count)));
    return selectedOf<S>(data, extents);
  }

  /** Reads the same as bytes: C order, items in the byte order of `dtype`. */
  async getBytes(selection?: Selection | null, options: ReadOptions = {}): Promise<Uint8Array> {
    const bytes = await this.#read(resolveSelection(selection, this.shape), options);
    return this.isSwapped ? swapItems(bytes, this.dtype) : bytes;
  }

  /**
   * Reads the same as {@link getBytes} into the caller's memory, which must have exactly the bytes of the selection. Saves allocating new
   * memory, which takes longer than filling it; threads that decode write straight into a `SharedArrayBuffer`. After an error, some of the
   * target may have been written. Throws `BAD_ARGUMENT` for a target of another size, and as {@link get}.
   */
  async readInto(
    target: ArrayBufferView,
    selection?: Selection | null,
    options: LongOptions = {},
  ): Promise<void> {
    await checkLater(options, "long");
    const extents = resolveSelection(selection, this.shape);
    const expected = elementsOf(extents.map((extent) => extent.count)) * this.dtype.itemSize;
    if (target.byteLength !== expected)
      throw new SuperchunkError(
        "BAD_ARGUMENT",
        `the selection has ${expected} bytes, but the target ${target.byteLength}`,
        { field: "target", expected, found: target.byteLength },
      );
    const bytes = new Uint8Array(target.buffer, target.byteOffset, target.byteLength);
    await this.#readTo(bytes, extents, options);
    if (this.isSwapped) swapItems(bytes, this.dtype);
  }

  /** Yields the values in order, in slices of about 16 MiB: whole chunks of rows, if these fit into memory. Slices have all dimensions. */
  async *chunks(options: ChunksOptions = {}): AsyncGenerator<ArraySlice> {
    await checkLater(options, "chunks");
    for await (const selection of this.#slabs(options))
      yield (await this.get(selection, { signal: options.signal })) as ArraySlice; // of all dimensions
  }

  /** Yields all values as bytes in C order, piece by piece, in constant memory. */
  async *streamBytes(options: LongOptions = {}): AsyncGenerator<Uint8Array> {
    await checkLater(options, "long");
    for await (const selection of this.#slabs(options))
      yield await this.getBytes(selection, { signal: options.signal });
  }

  readonly scan: ReadableArray["scan"] = scan;
  readonly arrowBatches: ReadableArray["arrowBatches"] = arrowBatches;
  readonly oindex: ReadableArray["oindex"] = oindex;
  readonly vindex: ReadableArray["vindex"] = vindex;

  /** Lists the stored chunks, with their places and sizes, without reading them. */
  async *listChunks(options: Omit<ListChunksOptions, "onObject"> = {}): AsyncGenerator<ZarrChunk> {
    await checkLater(options, "listStored");
    const { first = 0, end = this.nchunks, signal, onProgress } = options;
    let done = 0;
    const { cname = "none", shuffle, typesize, checksum = "None" } = summaryOf(this.model);
    const indexOf = numberChunks(this.model);
    const facts = { typesize, blocksize: undefined, compressor: cname, shuffle, memcpyed: undefined };
    const { listStoredChunks } = await import("./stored-chunks.ts");
    for await (const stored of listStoredChunks(this.store, this.model, this.reading.cache, signal)) {
      const { start, shape, key, offset, nbytes: ctbytes, slot, version } = stored;
      // A shard may have slots for chunks outside the array.
      if (start.some((first, d) => first >= at(this.shape, d))) continue;
      const index = indexOf(start);
      if (index < first || index >= end) continue;
      const nbytes = elementsOf(shape) * this.dtype.itemSize;
      const place = { index, key, offset, nbytes, ctbytes, start, shape, slot, version };
      yield { ...place, ...facts, checksum, digest: undefined };
      onProgress?.({ done: ++done, total: Math.min(end, this.nchunks) - first });
    }
  }

  /** Lists the chunks of the grid that are not stored and read as the fill value, without reading values. */
  async *listMissing(options: LongOptions = {}): AsyncGenerator<AbsentChunk> {
    await checkLater(options, "long");
    const indexOf = numberChunks(this.model);
    const { cache } = this.reading;
    const { listMissingChunks } = await import("./stored-chunks.ts");
    for await (const chunk of listMissingChunks(this.store, this.model, cache, options.signal))
      yield { ...chunk, index: indexOf(chunk.start) };
  }

  /** Counts the chunks of {@link listMissing} without listing them: a grid can be huge and almost empty. */
  async countMissing(options: LongOptions = {}): Promise<number> {
    let count = 0;
    if (isShardCompressed(this.model.chain)) {
      for await (const _ of this.listMissing(options)) count++;
      return count;
    }
    for await (const _ of this.listChunks(options)) count++;
    return this.nchunks - count;
  }

  /**
   * Bytes that the array takes in its store, documents included; a shard counts once, with its holes. For a Blosc2 frame: those of its
   * files.
   */
  async storedBytes(options: OpenOptions = {}): Promise<number> {
    await checkLater(options, "open");
    if (isGenerating(this.store)) return this.store.storedBytes(this.path);
    const { storedKeys } = await import("./stored-chunks.ts");
    return sizeOfObjects(this.store, storedKeys(this.store, this.model, options.signal), options.signal);
  }

  /** Reads and decodes every stored chunk. Findings are returned, not thrown. */
  async verify(options: LongOptions = {}): Promise<VerifyReport> {
    const { store, model, nbytes, reading } = this;
    const { verifyChunks } = await import("./verify.ts");
    return verifyChunks({ store, model, nbytes, reading }, options);
  }

  async #read(extents: readonly Extent[], options: ReadOptions): Promise<Uint8Array> {
    await checkLater(options, "read");
    const counts = extents.map((extent) => extent.count);
    const path = this.store.describe(this.path);
    const length = elementsOf(counts) * this.dtype.itemSize;
    const allocation = { path, shared: options.shared, prepare: this.#prepare };
    return fillResult(length, allocation, (bytes) => this.#readTo(bytes, extents, options));
  }

  #toValues(bytes: Uint8Array, count: number): ReturnType<typeof toValues> {
    try {
      return toValues(bytes, this.storedDType, count);
    } catch (error) {
      throw isSuperchunkError(error) ? error.at({ path: this.store.describe(this.path) }) : error;
    }
  }

  async #readTo(bytes: Uint8Array, extents: readonly Extent[], options: LongOptions): Promise<void> {
    const { signal, onProgress } = options;
    signal?.throwIfAborted();
    if (bytes.length === 0) return;
    const strides = stridesOf(extents.map((extent) => extent.count));
    await this.reading.read(extents, { bytes, offset: 0, strides }, signal);
    onProgress?.({ done: bytes.length, total: bytes.length });
  }

  /** Consecutive parts; progress is reported when the next one is requested. */
  async *#slabs({ signal, onProgress }: LongOptions): AsyncGenerator<Selection> {
    const { shape, chunkShape, dtype, nbytes } = this;
    let done = 0;
    for (const { selection, items } of slabsOf({ shape, chunkShape, itemSize: dtype.itemSize })) {
      signal?.throwIfAborted();
      yield selection;
      done += items * dtype.itemSize;
      onProgress?.({ done, total: nbytes });
    }
  }
}

/** Approximate bytes read at a time: whole chunks of rows, as many as fit. */
const SLAB_BYTES = 16 << 20;
/** Chunks of rows larger than this are read in parts, so their chunks are read more than once. */
const MOST_BYTES = 128 << 20;

interface SlabbedArray {
  readonly shape: readonly number[];
  readonly chunkShape: readonly number[];
  readonly itemSize: number;
}

/** A part of an array, and its number of values. */
interface Slab {
  readonly selection: Selection;
  readonly items: number;
}

/** Consecutive parts in C order that cover all values: rows of whole chunks if these fit into memory. */
export function* slabsOf(array: SlabbedArray): Generator<Slab> {
  if (elementsOf(array.shape) > 0) yield* slabsBelow(array, []);
}

/** The slabs of one entry of the leading dimensions. */
function* slabsBelow(array: SlabbedArray, front: readonly number[]): Generator<Slab> {
  const { shape, chunkShape, itemSize } = array;
  const d = front.length;
  const length = shape[d];
  const fixed = front.map((start) => ({ start, stop: start + 1, step: 1 }));
  if (length === undefined) {
    yield { selection: fixed, items: 1 };
    return;
  }
  const rowItems = elementsOf(shape.slice(d + 1));
  const rowBytes = Math.max(1, rowItems * itemSize);
  if (rowBytes > MOST_BYTES && d + 1 < shape.length) {
    for (let i = 0; i < length; i++) yield* slabsBelow(array, [...front, i]);
    return;
  }
  const step = rowsAtOnce(rowBytes, at(chunkShape, d));
  for (let start = 0; start < length; start += step) {
    const stop = Math.min(length, start + step);
    yield { selection: [...fixed, { start, stop, step: 1 }], items: (stop - start) * rowItems };
  }
}

function rowsAtOnce(rowBytes: number, chunkRows: number): number {
  if (rowBytes * chunkRows > MOST_BYTES) return Math.max(1, Math.floor(MOST_BYTES / rowBytes));
  return Math.max(1, Math.floor(SLAB_BYTES / rowBytes / chunkRows)) * chunkRows;
}
