/** A Zarr array with the face of an archive. Knows both faces; must not know documents. */

import type { ArraySlice, LongOptions, VerifyReport } from "../archive/kinds/types.ts";
import { SuperchunkError } from "../errors.ts";
import type { DType, JsonObject, JsonValue } from "../format/types.ts";
import type { ReadableStore } from "../store/types.ts";
import type { Selection } from "../values/selection.ts";
import { elementsOf } from "../values/selection.ts";
import { type Chain, leafOf } from "../zarr/codecs/chain.ts";
import { countPositions } from "../zarr/document/chunk-grid.ts";
import type { ZarrDialect } from "../zarr/document/model.ts";
import type { ZarrArray } from "../zarr/read/array.ts";
import type { AbsentChunk, ReadableArray, ReadableChunk, ReadableSummary } from "./readable.ts";

/** A Zarr array to be looked at. */
export class ZarrReadable implements ReadableArray {
  readonly kind = "array";
  readonly dialect: ZarrDialect;
  readonly store: ReadableStore;
  readonly path: string;
  readonly attrs: JsonObject;
  readonly warnings: readonly string[];
  readonly nbytes: number;
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly order = "C";
  readonly fillValue: JsonValue;
  readonly dimensionNames: readonly (string | null)[] | undefined;
  readonly nchunks: number;
  readonly chunkLength: number | undefined;
  readonly chunkBytes: number;
  readonly columnNames: readonly string[] = [];
  readonly #array: ZarrArray;
  /** Chunks along each dimension. */
  readonly #counts: readonly number[];
  readonly #release: () => Promise<void>;

  /** `release` is called by `close`. */
  constructor(array: ZarrArray, release: () => Promise<void> = async () => undefined) {
    const { model, chunkShape } = array;
    this.#array = array;
    this.#release = release;
    this.dialect = array.dialect;
    this.store = array.store;
    this.path = array.path;
    this.attrs = array.attrs;
    this.warnings = array.warnings;
    this.nbytes = array.nbytes;
    this.dtype = array.dtype;
    this.shape = array.shape;
    this.fillValue = array.fillValue;
    this.dimensionNames = array.dimensionNames;
    this.#counts = model.axes.map(({ count, extent }, d) =>
      array.shardShape === undefined ? count : Math.ceil(extent / (chunkShape[d] ?? 1)),
    );
    this.nchunks = this.#counts.reduce((product, count) => product * count, 1);
    this.chunkLength = chunkShape[0];
    this.chunkBytes = elementsOf([chunkShape[0] ?? 1, ...this.shape.slice(1)]) * this.dtype.itemSize;
  }

  column(name: string): ReadableArray {
    throw new SuperchunkError("NOT_FOUND", `no column "${name}": an array of Zarr has none`, {
      path: this.store.describe(this.path),
      field: name,
    });
  }

  async summary(): Promise<ReadableSummary> {
    const { chunkShape, shardShape, model } = this.#array;
    const unequal = model.axes.some(({ lengths }) => lengths.length > 1);
    const isCutByRows = chunkShape.slice(1).every((length, d) => length >= (this.shape[d + 1] ?? 1));
    const blosc = leafOf(model.chain).stages.find(({ isBlosc }) => isBlosc)?.v3?.["configuration"];
    const settings = (blosc ?? {}) as {
      readonly cname?: string;
      readonly clevel?: number;
      readonly shuffle?: string;
      readonly typesize?: number;
    };
    const { cname = this.#lastCodec(), clevel, shuffle, typesize } = settings;
    return {
      nchunks: this.nchunks,
      ...(isCutByRows && !unequal && chunkShape[0] !== undefined ? { chunkLength: chunkShape[0] } : {}),
      chunkShape,
      ...(unequal ? { chunkShapes: gridOf(model.document) } : {}),
      ...(shardShape === undefined ? {} : { shardShape, nshards: countPositions(model.axes) }),
      ...(cname === undefined ? {} : { cname }),
      ...(clevel === undefined ? {} : { clevel }),
      ...(shuffle === undefined ? {} : { shuffle }),
      ...(typesize === undefined ? {} : { typesize }),
      codecs: this.#codecs(),
      checksum: this.#checksum(),
    };
  }

  /** Names of the codecs of an innermost chunk. */
  #codecs(): string[] {
    const { order, stages } = leafOf(this.#array.model.chain);
    return [...(order === undefined ? [] : ["transpose"]), "bytes", ...stages.map(({ name }) => name)];
  }

  #lastCodec(): string | undefined {
    return leafOf(this.#array.model.chain).stages.findLast(({ name }) => name !== "crc32c")?.name;
  }

  #checksum(): string {
    return this.#codecs().includes("crc32c") ? "crc32c" : "None";
  }

  get(selection?: Selection | null, options?: LongOptions): Promise<ArraySlice | unknown> {
    return this.#array.get(selection, options);
  }

  getBytes(selection?: Selection | null, options?: LongOptions): Promise<Uint8Array> {
    return this.#array.getBytes(selection, options);
  }

  streamBytes(options?: LongOptions): AsyncIterable<Uint8Array> {
    return this.#array.streamBytes(options);
  }

  storedBytes(options?: LongOptions): Promise<number> {
    return this.#array.storedBytes(options);
  }

  async *listChunks(options: LongOptions = {}): AsyncGenerator<ReadableChunk> {
    const { cname = "none", shuffle, typesize, checksum = "None" } = await this.summary();
    for await (const { start, shape, key, offset, nbytes, slot } of this.#array.listChunks(options)) {
      // Chunks of a shard may lie outside of the array as a whole.
      if (start.some((first, d) => first >= (this.shape[d] ?? 1))) continue;
      yield {
        index: this.#indexOf(start),
        key,
        offset,
        nbytes: elementsOf(shape) * this.dtype.itemSize,
        ctbytes: nbytes,
        typesize,
        blocksize: undefined,
        compressor: cname,
        shuffle,
        memcpyed: undefined,
        checksum,
        digest: undefined,
        start,
        slot,
      };
    }
  }

  async *listMissing(options: LongOptions = {}): AsyncGenerator<AbsentChunk> {
    for await (const chunk of this.#array.listMissing(options))
      yield { ...chunk, index: this.#indexOf(chunk.start) };
  }

  /** A grid can have more chunks than anybody counts one by one, and few of them stored. */
  async countMissing(options: LongOptions = {}): Promise<number> {
    let count = 0;
    if (isShardCompressed(this.#array.model.chain)) {
      // Such a shard is listed as one chunk.
      for await (const _ of this.#array.listMissing(options)) count++;
      return count;
    }
    for await (const _ of this.listChunks(options)) count++;
    return this.nchunks - count;
  }

  /** In C order of the grid. */
  #indexOf(start: readonly number[]): number {
    const { model, chunkShape, shardShape } = this.#array;
    let index = 0;
    model.axes.forEach((axis, d) => {
      const first = start[d] ?? 0;
      const at = shardShape === undefined ? axis.chunkOf(first) : first / (chunkShape[d] ?? 1);
      index = index * (this.#counts[d] ?? 1) + at;
    });
    return index;
  }

  verify(options?: LongOptions): Promise<VerifyReport> {
    return this.#array.verify(options);
  }

  close(): Promise<void> {
    return this.#release();
  }
}

function gridOf(document: JsonObject): JsonValue {
  const grid = document["chunk_grid"] as { readonly configuration?: JsonObject } | undefined;
  return grid?.configuration?.["chunk_shapes"] ?? null;
}

/** True where shards at any depth are compressed as a whole. */
function isShardCompressed({ serializer, stages }: Chain): boolean {
  return serializer.kind === "sharding" && (stages.length > 0 || isShardCompressed(serializer.inner));
}
