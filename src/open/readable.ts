/**
 * What archives and Zarr nodes have in common for those who only look at them. Archives are such things as they are.
 *
 * Types only.
 */
import type {
  ArraySlice,
  BytesArchive,
  LongOptions,
  OpenOptions,
  VerifyReport,
} from "../archive/kinds/types.ts";
import type { Dialect, DType, JsonObject, JsonValue } from "../format/types.ts";
import type { ReadableStore } from "../store/types.ts";
import type { Selection } from "../values/selection.ts";
import type { ZarrDialect } from "../zarr/document/model.ts";
import type { MissingChunk } from "../zarr/read/list-chunks.ts";

interface ReadableBase {
  readonly dialect: Dialect | ZarrDialect;
  readonly store: ReadableStore;
  readonly path: string;
  readonly attrs: JsonObject;
  readonly warnings: readonly string[];
  /** Uncompressed bytes. */
  readonly nbytes: number;
  storedBytes(options?: OpenOptions): Promise<number>;
  verify(options?: LongOptions): Promise<VerifyReport>;
  close(): Promise<void>;
}

/** How an array is cut and compressed; what only Zarr has is absent for archives. */
export interface ReadableSummary {
  /** Chunks of the grid, those included that are not stored; inner chunks of shards. */
  readonly nchunks: number;
  /** Rows in a chunk, for arrays cut along rows. */
  readonly chunkLength?: number;
  /** Uncompressed bytes in a chunk, for Bloscpack files. */
  readonly chunkBytes?: number;
  /** Shape of an (inner) chunk; the first of unequal ones. */
  readonly chunkShape?: readonly number[];
  /** Shape of a shard; the first of unequal ones. */
  readonly shardShape?: readonly number[];
  /** Shards of the grid. */
  readonly nshards?: number;
  /** Lengths of unequal chunks along each dimension, as stored. */
  readonly chunkShapes?: JsonValue;
  readonly cname?: string;
  readonly clevel?: number;
  readonly shuffle?: string;
  readonly typesize?: number;
  /** Codecs of a chunk in the order of encoding, in the words of the array's document. */
  readonly codecs?: readonly string[];
  readonly checksum?: string;
}

/** A stored chunk, as far as is known without reading it. */
export interface ReadableChunk {
  /** In C order of the grid of (inner) chunks. */
  readonly index: number;
  readonly key: string;
  readonly offset: number;
  /** Uncompressed bytes. */
  readonly nbytes: number;
  /** Stored bytes. */
  readonly ctbytes: number;
  readonly typesize: number | undefined;
  readonly blocksize: number | undefined;
  readonly compressor: string;
  readonly shuffle: string | undefined;
  readonly memcpyed: boolean | undefined;
  readonly checksum: string;
  readonly digest: string | undefined;
  /** First item by dimension, and slot in the shard's index: of Zarr only. */
  readonly start?: readonly number[];
  readonly slot?: number | undefined;
}

/** A chunk of the grid that is not stored. */
export interface AbsentChunk extends MissingChunk {
  readonly index: number;
}

/** An n-dimensional array. */
export interface ReadableArray extends ReadableBase {
  readonly kind: "array";
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly order: "C" | "F";
  readonly fillValue: JsonValue | undefined;
  readonly dimensionNames?: readonly (string | null)[] | undefined;
  readonly nchunks: number;
  /** Rows that are well read together, if any. */
  readonly chunkLength: number | undefined;
  /** Uncompressed bytes of such rows. */
  readonly chunkBytes: number;
  readonly columnNames: readonly string[];
  column(name: string): ReadableArray;
  summary(options?: OpenOptions): Promise<ReadableSummary>;
  get(selection?: Selection | null, options?: LongOptions): Promise<ArraySlice | unknown>;
  getBytes(selection?: Selection | null, options?: LongOptions): Promise<Uint8Array>;
  streamBytes(options?: LongOptions): AsyncIterable<Uint8Array>;
  /** Stored chunks, in order. */
  listChunks(options?: LongOptions): AsyncIterable<ReadableChunk>;
  /** Chunks that are not stored; absent where every chunk is, as in archives. */
  listMissing?(options?: LongOptions): AsyncIterable<AbsentChunk>;
  /** How many these are; costs what listing the stored ones does. Absent like {@link listMissing}. */
  countMissing?(options?: LongOptions): Promise<number>;
}

/** Columns of one length. */
export interface ReadableTable extends ReadableBase {
  readonly kind: "table";
  readonly names: readonly string[];
  /** Rows. */
  readonly length: number;
  column(name: string): ReadableArray;
}

/** A Zarr group. */
export interface ReadableGroup extends ReadableBase {
  readonly kind: "group";
  /** Paths of the arrays below, relative to the group. */
  readonly names: readonly string[];
  /** Rows, where the arrays are directly below and of one length, as those of a table; else undefined. */
  readonly length: number | undefined;
  column(name: string): ReadableArray;
}

/** Anything that can be looked at. */
export type Readable = BytesArchive | ReadableArray | ReadableTable | ReadableGroup;
