/** What a user of an opened archive sees. The implementations are beside this file. */
import type { Compressor, Shuffle } from "../../codec/types.ts";
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

/** How far a long operation is. */
export interface Progress {
  /** Done and total, in bytes of uncompressed data unless the call says otherwise. */
  readonly done: number;
  readonly total: number;
  /** What is being worked on. */
  readonly label?: string;
  /** What done and total count, where it is not what the call usually counts: the sources of a conversion, a look at damage. */
  readonly unit?: "bytes" | "archives" | "chunks";
}

/** Options of all that may take long. */
export interface LongOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
}

/** Options of reading values. */
export interface ReadOptions extends LongOptions {
  /**
   * The result is in a `SharedArrayBuffer` (default false; float16 excepted, which is widened). Threads that decode a Zarr
   * array then write straight into it and get its memory from the system themselves, which takes about as long as the
   * decoding. Values are the same; what takes no shared memory (`crypto.subtle`, `Blob`, `TextDecoder` of browsers) needs a
   * copy. Throws `UNSUPPORTED` where the engine has no shared memory.
   */
  readonly shared?: boolean | undefined;
}

/** Options of reading encoded chunks. */
export interface EncodedChunksOptions extends LongOptions {
  /**
   * Buffers that may be read into: one that is used is taken out, and put back when the next chunk is asked for. Who stops
   * reading keeps the one that holds the last chunk.
   */
  readonly buffers?: Uint8Array[] | undefined;
}

/** What is gone of an archive that was opened with `damaged`. */
export interface DamageReport {
  /** How messages name the archive. */
  readonly path: string;
  /** Every chunk that is missing or damaged, with its rows. */
  readonly holes: readonly Hole[];
  /** What is wrong besides and was helped, in words. */
  readonly problems: readonly string[];
  /** What is gone besides rows, in words. */
  readonly lost: readonly string[];
}

export interface OpenOptions {
  /**
   * What is read where a chunk of an archive is missing or damaged (default `stop`: an error): `skip`, nothing, so that its rows
   * are not there; `fill`, the default value. Then opening reads and checks every chunk, and tells `onDamage` what is gone.
   */
  readonly damaged?: "stop" | "skip" | "fill" | undefined;
  /** Called once for each archive of which something is gone. */
  readonly onDamage?: ((report: DamageReport) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Check digests before a payload is used (default true). */
  readonly verify?: boolean | undefined;
  /** What decodes where many chunks are read (default: the calling thread). */
  readonly decoder?: ChunkDecoder | undefined;
  /** Opens the places of an array whose superchunks lie in others than its folder; without it such an array is refused. */
  readonly openPlace?: OpenPlace | undefined;
  /** The columns of a table that are opened, each at the cost of some requests (default: all); `names` has no others, `openColumns` opens them. */
  readonly columns?: readonly string[] | undefined;
}

/** Options of {@link ArrayArchive.chunks}. */
export interface ChunksOptions extends LongOptions {
  /**
   * The values of a slice are the caller's own. By default they are valid until the next slice is asked for: then their memory is
   * used for another one, and what was kept of it is empty, or as it was, but never another slice's values. New memory for each
   * slice takes longer than its values take to decode.
   */
  readonly keep?: boolean | undefined;
}

/** Options of {@link ChunkedArchive.listChunks}. */
export interface ListChunksOptions extends LongOptions {
  /** First chunk, and the one behind the last (default: all). */
  readonly first?: number | undefined;
  readonly end?: number | undefined;
  /**
   * Awaited before anything of an object is read, whenever the object is another than that of the chunk before; or, with
   * `info`, after one look brought its beginning and what the store tells of it, which then is of the same bytes. Objects
   * come in the order of their chunks, each ahead of all of its own. Chunks may come in lots (arrays that a writer may
   * change meanwhile): then several objects are announced before the first chunk of the first of them. An object is
   * announced again where chunks of others lie between its own, and where a writer made the read start again.
   */
  readonly onObject?: ((key: string, info?: ObjectInfo) => Promise<void> | void) | undefined;
  /** Read stored digests, which lie behind the chunks (default true); false reads headers only, and gives none. */
  readonly digests?: boolean | undefined;
}

/** What `chunks` prints of a chunk: its place, its Blosc header and its digest. */
export interface ChunkInfo extends ChunkPlace {
  readonly ctbytes: number;
  readonly typesize: number;
  readonly blocksize: number;
  readonly compressor: Compressor;
  readonly shuffle: Shuffle;
  readonly memcpyed: boolean;
  readonly checksum: ChecksumName;
  /** Stored digest in hexadecimal, as stored; undefined without a checksum. */
  readonly digest: string | undefined;
  /** How messages name the object, where it lies in another place than the archive's folder; else absent. */
  readonly address?: string;
}

/** How an archive is cut and compressed. */
export interface ChunkSummary {
  readonly nchunks: number;
  /** Rows in a chunk, for arrays cut along rows. */
  readonly chunkLength?: number;
  /** Uncompressed bytes in a chunk, for Bloscpack files. */
  readonly chunkBytes?: number;
  readonly cname?: Compressor;
  readonly clevel?: number;
  readonly shuffle?: Shuffle;
  readonly typesize?: number;
  /** Of every chunk; absent for dialects without, and for an array without chunks. */
  readonly checksum?: ChecksumName;
}

/** How any array is cut and compressed; what only Zarr has is absent for archives. */
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

/** A stored chunk of any array, as far as is known without reading it. */
export interface ReadableChunk {
  /** In C order of the grid of (inner) chunks. */
  readonly index: number;
  readonly key: string;
  /** How messages name the object, where it lies in another place than the archive's folder: of arrays of superchunks only. */
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
  /** First item by dimension, and shape: of Zarr only. */
  readonly start?: readonly number[];
  readonly shape?: readonly number[];
  /** Slot in the index of the innermost shard: of Zarr only, undefined for an object of its own. */
  readonly slot?: number | undefined;
}

/** A chunk of the grid that is not stored: it reads as the fill value. */
export interface AbsentChunk {
  /** In C order of the grid of (inner) chunks. */
  readonly index: number;
  readonly start: readonly number[];
  readonly shape: readonly number[];
  /** Key of the object that would hold it. */
  readonly key: string;
  /** Slot in the index of the innermost shard that would hold it. */
  readonly slot: number | undefined;
}

/** An encoded chunk, digest checked (unless opened with `verify: false`), not decoded. */
export interface EncodedChunk {
  readonly place: ChunkPlace;
  /** Exactly the Blosc chunk. A view that is valid until the next one is asked for. */
  readonly bytes: Uint8Array;
  /** The same for chunks that one read brought: the bytes of all of them were there when the first was handed out. */
  readonly read?: object | undefined;
}

/** Something that `verify` found. */
export interface Finding {
  readonly severity: "error" | "warning";
  readonly code: string;
  readonly message: string;
  readonly path?: string;
  /** Index of the chunk; in a shard of Zarr, its slot. */
  readonly chunk?: number;
  readonly offset?: number;
  readonly field?: string;
  readonly expected?: unknown;
  readonly found?: unknown;
}

/** What `verify` did and found. */
export interface VerifyReport {
  readonly ok: boolean;
  readonly chunks: number;
  readonly nbytes: number;
  readonly cbytes: number;
  readonly digests: number;
  readonly findings: readonly Finding[];
  /**
   * What is stored and was not checked, and why; absent where everything was. Headers, sizes, digests and payloads always are:
   * what Python objects mean is not. [FD-05]
   */
  readonly unchecked?: string;
}

/** What is the same for whatever can be opened. */
interface ReadableBase {
  readonly dialect: Dialect | ZarrDialect;
  readonly store: ReadableStore;
  /** Key of the file or folder in the store; `""` is the store's root. */
  readonly path: string;
  /** User attributes (user metadata of a Bloscpack file). */
  readonly attrs: JsonObject;
  /** Everything that the metadata say, as stored. */
  readonly metadata: JsonObject;
  /** What is odd but harmless, in words. */
  readonly warnings: readonly string[];
  /** Uncompressed bytes. */
  readonly nbytes: number;
  /** Compressed bytes, headers, tables, digests and metadata included: what it takes in its store. */
  storedBytes(options?: OpenOptions): Promise<number>;
  /** Reads everything, checks every header, size, offset, digest and payload; does not throw for what it finds. */
  verify(options?: LongOptions): Promise<VerifyReport>;
  /** Releases the store where `open` made it. */
  close(): Promise<void>;
  /** The same, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** An n-dimensional array of any format: what archives and Zarr arrays have in common. */
export interface ReadableArray<Types extends ValueTypes = ValueTypes> extends ReadableBase {
  readonly kind: "array";
  readonly dtype: DType;
  readonly shape: readonly number[];
  /** Memory order in which the values are stored; `C` for Zarr, whose chunks tell their own. */
  readonly order: "C" | "F";
  /** Default value as stored; undefined where the dialect has none. */
  readonly fillValue: JsonValue | undefined;
  /** Names of the dimensions, of Zarr arrays that have them. */
  readonly dimensionNames?: readonly (string | null)[] | undefined;
  readonly nchunks: number;
  /** Rows of a chunk where chunks end on rows (of the stored order), else undefined. */
  readonly chunkLength: number | undefined;
  /** Uncompressed bytes of a chunk, or of the rows that are well read together. */
  readonly chunkBytes: number;
  /** Field names of a nested dtype stored as column folders, else empty. */
  readonly columnNames: readonly string[];
  /** One column of a nested dtype. Throws `NOT_FOUND`. */
  column(name: string): ReadableArray;
  summary(options?: OpenOptions): Promise<ReadableSummary>;
  /**
   * The selected values; a scalar where there is an integer for each dimension. Throws `BAD_ARGUMENT`, `LIMIT` for more than
   * memory holds, and the codes of damage.
   */
  get<const S extends Selection | null | undefined = null>(
    selection?: S,
    options?: ReadOptions,
  ): Promise<Selected<S, Types>>;
  /** The same as bytes: C order, stored byte order, items of a struct as stored. */
  getBytes(selection?: Selection | null, options?: ReadOptions): Promise<Uint8Array>;
  /** Values in order, in slices of whole rows: chunk by chunk, or about 16 MiB. Slices have all dimensions; each is valid until the next one is asked for, unless `keep` is set. */
  chunks(options?: ChunksOptions): AsyncIterable<ArraySlice<Types>>;
  /** All decoded bytes in C order, piece by piece, with flat memory. Each piece is valid until the next one is asked for. */
  streamBytes(options?: LongOptions): AsyncIterable<Uint8Array>;
  /** The rows that a filter takes: of a struct its fields are the columns, of other arrays `value` is the only one. See {@link ReadableTable.scan}. */
  scan<const Columns extends ScanColumns = readonly string[]>(
    options?: ScanRowsOptions<Columns>,
  ): AsyncGenerator<ScanBatch<Columns>>;
  /** The same rows as a stream of Arrow. See {@link ReadableTable.arrowBatches}. */
  arrowBatches(options?: ArrowOptions): AsyncGenerator<Uint8Array>;
  /**
   * The items of the outer product of the entries, as numpy's and Zarr's `oindex`: `oindex([[9, 1, 1], mask, slice(null, null, -1)])`.
   * An entry is an index, a slice whose step may be negative, null, indices, or booleans for all items of the dimension. Each chunk
   * is decoded once.
   *
   * @throws BAD_ARGUMENT for entries that do not fit the shape, LIMIT for more than memory holds, and the codes of reading
   */
  oindex(entries: readonly OuterEntry[] | null, options?: PickOptions): Promise<ArraySlice<Types>>;
  /**
   * The items at coordinates, as Zarr's `vindex`: a list for each dimension, all of one length. Each chunk is decoded once.
   *
   * @throws BAD_ARGUMENT for coordinates that do not fit the shape, LIMIT for more than memory holds, and the codes of reading
   */
  vindex(coordinates: readonly Indices[], options?: PickOptions): Promise<ArraySlice<Types>>;
  /** Stored chunks, in order. */
  listChunks(options?: LongOptions): AsyncIterable<ReadableChunk>;
  /** Chunks that are not stored; absent where every chunk is, as in archives. */
  listMissing?(options?: LongOptions): AsyncIterable<AbsentChunk>;
  /** How many these are; costs what listing the stored ones does. Absent like {@link listMissing}. */
  countMissing?(options?: LongOptions): Promise<number>;
}

/** Columns of one length: a table, or the arrays of a Zarr group. */
export interface ReadableTable extends ReadableBase {
  readonly kind: "table";
  readonly names: readonly string[];
  /** Rows: those of the shortest column. */
  readonly length: number;
  /** Throws `NOT_FOUND`. */
  column(name: string): ReadableArray;
  /**
   * The rows that a filter takes, in batches and in order, with their numbers and the values of the columns asked for. Chunks that
   * cannot hold such a row are not read, where their bounds are known: from an index beside the table, or from an earlier scan.
   *
   * @throws BAD_ARGUMENT for a filter that does not fit; NOT_FOUND for a column that is not there; UNSUPPORTED for one that cannot
   * be compared; the codes of reading
   */
  scan<const Columns extends ScanColumns = readonly string[]>(
    options?: ScanRowsOptions<Columns>,
  ): AsyncGenerator<ScanBatch<Columns>>;
  /**
   * The rows that a filter takes as a stream of Arrow (IPC): first the schema, then a message for each batch, last the end. Each piece
   * is whole, so that `tableFromIPC(pieces)` of flechette and `RecordBatchReader.from(pieces)` of apache-arrow take the values where
   * they lie.
   *
   * @throws UNSUPPORTED for a dtype without a type in Arrow, and for a string that is not UTF-8; the codes of `scan`
   */
  arrowBatches(options?: ArrowOptions): AsyncGenerator<Uint8Array>;
}

interface ArchiveBase extends ReadableBase {
  readonly dialect: Dialect;
}

/** Values in one linear sequence of bytes, cut into chunks. Common to arrays and plain bytes. */
export interface ChunkedArchive extends ArchiveBase {
  readonly nchunks: number;
  /** Uncompressed bytes of every chunk but the last, which may be shorter; of the longest where `chunkStarts` is there. */
  readonly chunkBytes: number;
  /**
   * Of a file whose chunks have unequal lengths (chunk-size -1): the first uncompressed byte of each, and the end. Absent
   * elsewhere. [FS-04]
   */
  readonly chunkStarts?: Float64Array | undefined;
  /** Reads the first file's and the first chunk's header to learn how the archive is compressed. */
  summary(options?: OpenOptions): Promise<ChunkSummary>;
  /** Decoded bytes in stored byte order and stored memory order, `[start, end)`. */
  readBytes(start: number, end: number, options?: LongOptions): Promise<Uint8Array>;
  /**
   * All decoded bytes in C order, stored byte order, piece by piece, with flat memory. Each piece is valid until the
   * next one is asked for.
   */
  streamBytes(options?: LongOptions): AsyncIterable<Uint8Array>;
  /** Encoded chunks `[first, end)` in order, headers and digests checked, neighbouring chunks in one read. */
  encodedChunks(first?: number, end?: number, options?: EncodedChunksOptions): AsyncIterable<EncodedChunk>;
  /**
   * Places of the chunks `[first, end)`, in order, without reading their headers (default: all). Compressed sizes are left out
   * where only headers have them.
   */
  chunkPlaces(first?: number, end?: number, options?: OpenOptions): Promise<readonly ChunkPlace[]>;
  /** Places and headers of the chunks, in order. */
  listChunks(options?: ListChunksOptions): AsyncIterable<ChunkInfo>;
}

/** A file of plain bytes. */
export interface BytesArchive extends ChunkedArchive {
  readonly kind: "bytes";
}

/**
 * An n-dimensional array whose values lie in one linear sequence. Where it has column folders (`columnNames`),
 * `encodedChunks` and `listChunks` are refused: each column has its own.
 */
export interface ArrayArchive<Types extends ValueTypes = ValueTypes>
  extends ReadableArray<Types>,
    ChunkedArchive {
  readonly dialect: Dialect;
  column(name: string): ArrayArchive;
  summary(options?: OpenOptions): Promise<ChunkSummary>;
  listChunks(options?: ListChunksOptions): AsyncIterable<ChunkInfo>;
  /**
   * Number of the commit that the rows are read from, of arrays that a writer may change meanwhile; else absent. It is a
   * newer one than was opened once files of that are gone: the rows are the same, or reading throws `STALE`.
   */
  readonly generation?: number;
  /**
   * Moves on to the newest commit of rows or columns: true where that is another one. Attributes are read again; columns
   * that were taken from the array move on with it. Absent where no writer is reckoned with.
   *
   * @throws NOT_FOUND where the array has been removed; the codes of opening
   */
  refresh?(options?: StoreOptions): Promise<boolean>;
  /** Rows that a repair filled because their chunks were gone, until they are set; absent where there are none. */
  readonly filled?: readonly RowSpan[] | undefined;
}

/** A table: columns of one length. */
export interface TableArchive extends ReadableTable {
  readonly dialect: Dialect;
  column(name: string): ArrayArchive;
  /**
   * The same table with these columns, whichever it was opened with: over a network three requests for each, and none for the table.
   * Absent where all were read to open it (`damaged`).
   *
   * @throws NOT_FOUND for a column that the table does not have; the codes of opening
   */
  readonly openColumns?:
    | ((names: readonly string[], options?: StoreOptions) => Promise<TableArchive>)
    | undefined;
}

/** An archive of the `blpk` family. */
export type Archive = BytesArchive | ArrayArchive | TableArchive;

/** What stands where a chunk is missing or damaged. */
export type HolePolicy = "fill" | "drop" | "cut";

/** Rows that cannot be had. */
export interface Hole {
  /** Column, of tables and nested arrays. */
  readonly column?: string;
  /** Index of the chunk in its column. */
  readonly chunk: number;
  /** Rows `[from, to)`; of plain bytes the bytes. */
  readonly from: number;
  readonly to: number;
  /** How messages name the file. */
  readonly path: string;
  readonly offset?: number;
  readonly code: string;
  readonly reason: string;
}
