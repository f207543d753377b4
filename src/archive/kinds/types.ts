/** The public types of an opened archive. The implementations are in the files beside this one. */
import type { Compressor, Shuffle } from "../../codec/types.ts";
import type { ErrorDetails } from "../../errors.ts";
import type { RowSpan } from "../../format/layout.ts";
import type { ChecksumName, Dialect, DType, JsonObject, JsonValue, ZarrDialect } from "../../format/types.ts";
import type { OpenPlace } from "../../places/placed-store.ts";
import type { ArrowOptions } from "../../scan/arrow-batches.ts";
import type { Indices, OuterEntry, PickOptions } from "../../scan/pick.ts";
import type { ScanBatch, ScanColumns, ScanRowsOptions } from "../../scan/scan.ts";
import type { ObjectInfo, ReadableStore, StoreOptions } from "../../store/types.ts";
import type { ArraySlice, Selected, Selection, ValueTypes } from "../../values/selection.ts";
import type { ChunkPlace } from "../places/sequence.ts";
import type { ChunkDecoder } from "../read/chunk-fetch.ts";

export type { ArraySlice };

/** Progress of a long operation. */
export interface Progress {
  /** Done and total, in bytes of uncompressed data unless the call says otherwise. */
  readonly done: number;
  readonly total: number;
  /** The current item. */
  readonly label?: string;
  /** Unit of done and total, if it is not the call's usual one: the sources of a conversion, a survey of damage. */
  readonly unit?: "bytes" | "archives" | "chunks";
  /** True while sources are searched: `total` is what was found so far. */
  readonly isOpen?: boolean;
}

/** Options of long operations. */
export interface LongOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
}

/** Options of reading values. */
export interface ReadOptions extends LongOptions {
  /**
   * Returns the result in a `SharedArrayBuffer` (default false; never for float16, which is widened). Threads that decode a Zarr array then
   * write straight into the result and allocate its memory themselves; allocation takes about as long as decoding. Values are the same.
   * APIs that refuse shared memory (`crypto.subtle`, `Blob`, `TextDecoder` of browsers) need a copy. Throws `UNSUPPORTED` if the engine has
   * no shared memory.
   */
  readonly shared?: boolean | undefined;
}

/** Options of reading encoded chunks. */
export interface EncodedChunksOptions extends LongOptions {
  /**
   * Buffers to read into: one that is used is taken out, and put back when the next chunk is requested. A caller that
   * stops reading keeps the one that holds the last chunk.
   */
  readonly buffers?: Uint8Array[] | undefined;
}

/** What is missing from an archive that was opened with `damaged`. */
export interface DamageReport {
  /** Name in messages. */
  readonly path: string;
  /** Every chunk that is missing or damaged, with its rows. */
  readonly holes: readonly Hole[];
  /** Other problems that were worked around, as text. */
  readonly problems: readonly string[];
  /** Losses other than rows, as text. */
  readonly lost: readonly string[];
}

export interface OpenOptions {
  /**
   * What reading does with a missing or damaged chunk (default `stop`: an error). `skip` leaves its rows out; `fill` returns the default
   * value. With either, opening reads and checks every chunk, and reports losses to `onDamage`.
   */
  readonly damaged?: "stop" | "skip" | "fill" | undefined;
  /** Called once for each archive that has losses. */
  readonly onDamage?: ((report: DamageReport) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Check digests before a payload is used (default true). */
  readonly verify?: boolean | undefined;
  /** Decodes chunks when many are read (default: the calling thread). */
  readonly decoder?: ChunkDecoder | undefined;
  /** Opens the places of an array whose superchunks are also stored outside its folder. Without it, such an array is refused. */
  readonly openPlace?: OpenPlace | undefined;
  /** Columns of a table to open, each at the cost of some requests (default: all). `names` lists only these; `openColumns` opens others. */
  readonly columns?: readonly string[] | undefined;
}

/** Options of {@link ArrayArchive.chunks}. */
export interface ChunksOptions extends LongOptions {
  /**
   * Gives each slice its own memory. By default a slice is valid until the next one is requested: its memory is then reused, and a kept
   * view is empty or unchanged, but never shows another slice's values. New memory for each slice takes longer than decoding it.
   */
  readonly keep?: boolean | undefined;
}

/** Options of {@link ChunkedArchive.listChunks}. */
export interface ListChunksOptions extends LongOptions {
  /** First chunk, and the end, exclusive (default: all). */
  readonly first?: number | undefined;
  readonly end?: number | undefined;
  /**
   * Awaited before any data of an object is read, each time a chunk is in another object than the chunk before. With `info`,
   * one request has brought the object's first bytes and its metadata, both of the same version. Objects come in the order of
   * their chunks. Arrays that a writer may change list chunks in lots: then several objects are announced before the first
   * chunk. An object is announced again if chunks of other objects come between its own, or a writer made the read start again.
   */
  readonly onObject?: ((key: string, info?: ObjectInfo) => Promise<void> | void) | undefined;
  /** Read stored digests, which follow the chunks (default true). False reads headers only, and returns no digests. */
  readonly digests?: boolean | undefined;
}

/** Place, Blosc header and digest of a chunk, as `chunks` prints them. */
export interface ChunkInfo extends ChunkPlace {
  readonly ctbytes: number;
  readonly typesize: number;
  readonly blocksize: number;
  readonly compressor: Compressor;
  readonly shuffle: Shuffle;
  readonly memcpyed: boolean;
  readonly checksum: ChecksumName;
  /** Digest in hexadecimal, as stored; undefined without a checksum. */
  readonly digest: string | undefined;
  /** Name of the object in messages; absent if it is in the archive's own folder. */
  readonly address?: string;
}

/** How an archive is chunked and compressed. */
export interface ChunkSummary
  extends Pick<ReadableSummary, "nchunks" | "chunkLength" | "chunkBytes" | "clevel" | "typesize"> {
  readonly cname?: Compressor;
  readonly shuffle?: Shuffle;
  /** Checksum of every chunk; absent for dialects without checksums, and for an array without chunks. */
  readonly checksum?: ChecksumName;
}

/** How any array is chunked and compressed. Members that only Zarr has are absent for archives. */
export interface ReadableSummary {
  /** Chunks of the grid, including those not stored; inner chunks if there are shards. */
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
  /** Codecs of a chunk in encoding order, named as in the array's document. */
  readonly codecs?: readonly string[];
  readonly checksum?: string;
}

/** A stored chunk of any array, as far as known without reading it. */
export interface ReadableChunk {
  /** Index in C order of the grid of (inner) chunks. */
  readonly index: number;
  readonly key: string;
  /** Name of the object in messages; only for arrays of superchunks, and absent if the object is in the archive's own folder. */
  readonly address?: string;
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
  /** First item along each dimension, and shape; Zarr only. */
  readonly start?: readonly number[];
  readonly shape?: readonly number[];
  /** Slot in the index of the innermost shard. Zarr only; undefined if the chunk is an object by itself. */
  readonly slot?: number | undefined;
}

/** A chunk of the grid that is not stored. It reads as the fill value. */
export interface AbsentChunk {
  /** Index in C order of the grid of (inner) chunks. */
  readonly index: number;
  readonly start: readonly number[];
  readonly shape: readonly number[];
  /** Key of the object that would hold it. */
  readonly key: string;
  /** Slot in the index of the innermost shard that would hold it. */
  readonly slot: number | undefined;
}

/** An encoded chunk, not decoded. Its digest has been checked (unless opened with `verify: false`). */
export interface EncodedChunk {
  readonly place: ChunkPlace;
  /** Exactly the Blosc chunk: a view that is valid until the next chunk is requested. */
  readonly bytes: Uint8Array;
  /** The same object for all chunks that came with one read: their bytes were all in memory when the first was returned. */
  readonly read?: object | undefined;
}

/** Something that `verify` found. `chunk` is the index of the chunk; in a Zarr shard, its slot. */
export interface Finding
  extends Pick<ErrorDetails, "path" | "chunk" | "offset" | "field" | "expected" | "found"> {
  readonly severity: "error" | "warning";
  readonly code: string;
  readonly message: string;
}

/** What `verify` checked and found. */
export interface VerifyReport {
  readonly ok: boolean;
  /** Stored chunks that were read. */
  readonly chunks: number;
  /** Bytes of their values. */
  readonly nbytes: number;
  /** Stored bytes of the chunks. */
  readonly cbytes: number;
  /** Compared checksums of chunks, and for Zarr of indexes of shards that are objects, and of members of zip archives. */
  readonly digests: number;
  readonly findings: readonly Finding[];
  /** Chunks after damage in the tables that locate them, which were not looked for; absent if there are none. `repairArray` with `dryRun` looks for them. */
  readonly unreached?: number;
  /**
   * What was stored but not checked, and why; absent if everything was checked. Headers, sizes, digests and payloads are always checked;
   * the meaning of Python objects is not. [FD-05]
   */
  readonly unchecked?: string;
}

/** What all that can be opened has in common. */
interface ReadableBase {
  readonly dialect: Dialect | ZarrDialect;
  readonly store: ReadableStore;
  /** Key of the file or folder in the store; `""` is the store's root. */
  readonly path: string;
  /** User attributes (user metadata of a Bloscpack file). */
  readonly attrs: JsonObject;
  /** All metadata, as stored. */
  readonly metadata: JsonObject;
  /** Harmless oddities, as text. */
  readonly warnings: readonly string[];
  /** Uncompressed bytes. */
  readonly nbytes: number;
  /** Bytes that the archive takes in its store: compressed data, headers, tables, digests and metadata. */
  storedBytes(options?: OpenOptions): Promise<number>;
  /** Reads everything and checks every header, size, offset, digest and payload. Findings are returned, not thrown. */
  verify(options?: LongOptions): Promise<VerifyReport>;
  /** Releases the store if `open` made it. */
  close(): Promise<void>;
  /** Closes it, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** An n-dimensional array of any format: the members that archives and Zarr arrays share. */
export interface ReadableArray<Types extends ValueTypes = ValueTypes> extends ReadableBase {
  readonly kind: "array";
  readonly dtype: DType;
  /** For Zarr arrays with values of variable length, which become items as long as the longest: what they are. */
  readonly variable?: "text" | "bytes" | undefined;
  readonly shape: readonly number[];
  /** Memory order of the stored values. Always `C` for Zarr, where each chunk has its own order. */
  readonly order: "C" | "F";
  /** Default value as stored; undefined if the dialect has none. */
  readonly fillValue: JsonValue | undefined;
  /** Names of the dimensions, if a Zarr array has them. */
  readonly dimensionNames?: readonly (string | null)[] | undefined;
  readonly nchunks: number;
  /** Rows of a chunk if chunks end on rows (of the stored order), else undefined. */
  readonly chunkLength: number | undefined;
  /** Uncompressed bytes of a chunk, or of a run of rows that reads well together. */
  readonly chunkBytes: number;
  /** Field names of a nested dtype stored as column folders, else empty. */
  readonly columnNames: readonly string[];
  /** Opens one column of a nested dtype. Throws `NOT_FOUND`. */
  column(name: string): ReadableArray;
  summary(options?: OpenOptions): Promise<ReadableSummary>;
  /**
   * Reads the selected values; a scalar if every dimension has an integer. Throws `BAD_ARGUMENT`, `LIMIT` for more than memory holds, and
   * the codes of damage.
   */
  get<const S extends Selection | null | undefined = null>(
    selection?: S,
    options?: ReadOptions,
  ): Promise<Selected<S, Types>>;
  /** Reads the same as bytes: C order, stored byte order, struct items as stored. */
  getBytes(selection?: Selection | null, options?: ReadOptions): Promise<Uint8Array>;
  /**
   * Yields the values in order, in slices of whole rows (a chunk, or about 16 MiB) with all dimensions. Each is valid until the next is
   * requested, unless `keep` is set.
   */
  chunks(options?: ChunksOptions): AsyncIterable<ArraySlice<Types>>;
  /** Yields all decoded bytes in C order, piece by piece, in constant memory. Each piece is valid until the next one is requested. */
  streamBytes(options?: LongOptions): AsyncIterable<Uint8Array>;
  /**
   * Yields the rows that match a filter. A struct's columns are its fields; other arrays have one, `value`. See {@link ReadableTable.scan}.
   */
  scan<const Columns extends ScanColumns = readonly string[]>(
    options?: ScanRowsOptions<Columns>,
  ): AsyncGenerator<ScanBatch<Columns>>;
  /** Yields the same rows as an Arrow stream. See {@link ReadableTable.arrowBatches}. */
  arrowBatches(options?: ArrowOptions): AsyncGenerator<Uint8Array>;
  /**
   * Reads the outer product of the entries, like `oindex` of numpy and Zarr: `oindex([[9, 1, 1], mask, slice(null, null, -1)])`. An entry
   * is an index, a slice (its step may be negative), null, a list of indices, or a boolean for each item of the dimension. Each chunk is
   * decoded once.
   * @throws BAD_ARGUMENT for entries that do not fit the shape, LIMIT for more than memory holds, and the codes of reading
   */
  oindex(entries: readonly OuterEntry[] | null, options?: PickOptions): Promise<ArraySlice<Types>>;
  /**
   * Reads the items at coordinates, like Zarr's `vindex`: one list for each dimension, all of one length. Each chunk is decoded once.
   * @throws BAD_ARGUMENT for coordinates that do not fit the shape, LIMIT for more than memory holds, and the codes of reading
   */
  vindex(coordinates: readonly Indices[], options?: PickOptions): Promise<ArraySlice<Types>>;
  /** Lists the stored chunks in order, or those `[first, end)` of the grid. */
  listChunks(options?: Omit<ListChunksOptions, "digests" | "onObject">): AsyncIterable<ReadableChunk>;
  /** Lists the chunks that are not stored. Absent if every chunk is stored, as in archives. */
  listMissing?(options?: LongOptions): AsyncIterable<AbsentChunk>;
  /** Counts the chunks that are not stored, at the cost of listing the stored ones. Absent like {@link listMissing}. */
  countMissing?(options?: LongOptions): Promise<number>;
}

/** Columns of equal length: a table, or the arrays of a Zarr group. */
export interface ReadableTable extends ReadableBase {
  readonly kind: "table";
  readonly names: readonly string[];
  /** Rows of the shortest column. */
  readonly length: number;
  /** Throws `NOT_FOUND`. */
  column(name: string): ReadableArray;
  /**
   * Yields the rows that match a filter, in order and in batches, with their row numbers and the values of the requested columns. Skips
   * chunks whose bounds rule out a match; bounds come from an index beside the table, or from an earlier scan.
   * @throws BAD_ARGUMENT for a filter that does not fit; NOT_FOUND for a missing column; UNSUPPORTED for a column that cannot be compared;
   * the codes of reading
   */
  scan<const Columns extends ScanColumns = readonly string[]>(
    options?: ScanRowsOptions<Columns>,
  ): AsyncGenerator<ScanBatch<Columns>>;
  /**
   * Yields the rows that match a filter as an Arrow IPC stream: the schema, one message for each batch, then the end. Each piece is a whole
   * message, so `tableFromIPC(pieces)` of flechette and `RecordBatchReader.from(pieces)` of apache-arrow use the values without a copy.
   * @throws UNSUPPORTED for a dtype without a type in Arrow, and for a string that is not UTF-8; the codes of `scan`
   */
  arrowBatches(options?: ArrowOptions): AsyncGenerator<Uint8Array>;
}

interface ArchiveBase extends ReadableBase {
  readonly dialect: Dialect;
}

/** A linear sequence of bytes, cut into chunks. Common to arrays and plain bytes. */
export interface ChunkedArchive extends ArchiveBase {
  readonly nchunks: number;
  /** Uncompressed bytes of every chunk except the last, which may be shorter. If `chunkStarts` is present, those of the longest chunk. */
  readonly chunkBytes: number;
  /**
   * First uncompressed byte of each chunk, and the end, for a file with chunks of unequal length (chunk-size -1). Absent for other
   * archives. [FS-04]
   */
  readonly chunkStarts?: Float64Array | undefined;
  /** Reads the headers of the first file and the first chunk to learn how the archive is compressed. */
  summary(options?: OpenOptions): Promise<ChunkSummary>;
  /** Reads the decoded bytes `[start, end)` in stored byte order and stored memory order. */
  readBytes(start: number, end: number, options?: LongOptions): Promise<Uint8Array>;
  /**
   * Yields all decoded bytes in C order and stored byte order, piece by piece, in constant memory. Each piece is valid until the next one
   * is requested.
   */
  streamBytes(options?: LongOptions): AsyncIterable<Uint8Array>;
  /** Yields the encoded chunks `[first, end)` in order, with headers and digests checked. Adjacent chunks are fetched in one read. */
  encodedChunks(first?: number, end?: number, options?: EncodedChunksOptions): AsyncIterable<EncodedChunk>;
  /**
   * Yields the places of the chunks `[first, end)` in order (default: all), without reading their headers. Compressed sizes are absent if
   * only the headers have them.
   */
  chunkPlaces(first?: number, end?: number, options?: OpenOptions): Promise<readonly ChunkPlace[]>;
  /** Lists places and headers of the chunks, in order. */
  listChunks(options?: ListChunksOptions): AsyncIterable<ChunkInfo>;
}

/** A file of plain bytes. */
export interface BytesArchive extends ChunkedArchive {
  readonly kind: "bytes";
}

/**
 * An n-dimensional array whose values form one linear sequence. If the array has column folders (`columnNames`), `encodedChunks` and
 * `listChunks` are refused: each column has its own chunks.
 */
export interface ArrayArchive<Types extends ValueTypes = ValueTypes>
  extends ReadableArray<Types>,
    ChunkedArchive {
  readonly dialect: Dialect;
  column(name: string): ArrayArchive;
  summary(options?: OpenOptions): Promise<ChunkSummary>;
  listChunks(options?: ListChunksOptions): AsyncIterable<ChunkInfo>;
  /**
   * Number of the commit that rows are read from; absent for arrays that no writer can change meanwhile. When files of the opened commit
   * are gone, reading moves to a newer commit with the same rows, or throws `STALE`.
   */
  readonly generation?: number;
  /**
   * Moves to the newest commit of rows or columns. Returns true if there was a newer one. Attributes are read again; columns taken from the
   * array move along. Absent if no writer is expected.
   * @throws NOT_FOUND if the array has been removed; the codes of opening
   */
  refresh?(options?: StoreOptions): Promise<boolean>;
  /** Rows that a repair filled because their chunks were lost, until they are set; absent if there are none. */
  readonly filled?: readonly RowSpan[] | undefined;
}

/** A table: columns of equal length. */
export interface TableArchive extends ReadableTable {
  readonly dialect: Dialect;
  column(name: string): ArrayArchive;
  /**
   * Opens the same table with these columns, regardless of those opened before. Over a network, each column costs three requests and the
   * table none. Absent if opening read all columns (`damaged`).
   * @throws NOT_FOUND for a column that the table does not have; the codes of opening
   */
  readonly openColumns?:
    | ((names: readonly string[], options?: StoreOptions) => Promise<TableArchive>)
    | undefined;
}

/** An archive of the `blpk` family. */
export type Archive = BytesArchive | ArrayArchive | TableArchive;

/** What replaces a missing or damaged chunk. */
export type HolePolicy = "fill" | "drop" | "cut";

/** Rows that cannot be read. */
export interface Hole {
  /** Name of the column, for tables and nested arrays. */
  readonly column?: string;
  /** Index of the chunk in its column. */
  readonly chunk: number;
  /** Rows `[from, to)`; for plain bytes, bytes. */
  readonly from: number;
  readonly to: number;
  /** Name in messages. */
  readonly path: string;
  /** Byte in the file, if known. */
  readonly offset?: number;
  /** Code of the error that a reader gets. */
  readonly code: string;
  /** One sentence, without the path. */
  readonly reason: string;
}

// What all kinds of archives have in common.

export interface StoredParts {
  readonly dialect: Dialect;
  readonly store: ReadableStore;
  readonly path: string;
  readonly attrs: JsonObject;
  readonly metadata: JsonObject;
  readonly warnings: readonly string[];
  /** Keys of the metadata objects, for `storedBytes`. */
  readonly metadataKeys: readonly string[];
  /** What `verify` looks at again; undefined if readers notice changes themselves. */
  readonly identity?: Identity | undefined;
}

/** The object that another archive in the same place would replace, and its version when it was opened, if that is known. */
export interface Identity {
  readonly key: string;
  readonly version?: string;
}
