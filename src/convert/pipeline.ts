/**
 * The one pipeline for all conversions between formats: source, plan, tasks, run, verify, finish.
 *
 * A source says what is there. A target says what becomes of it: which chunks it copies, restreams or recodes, which
 * objects it makes, and which documents make them visible. The runner (`run/`) does the rest for all of them: it finds
 * and opens sources, keeps the record that a later run resumes from, runs the tasks, compares values where asked, and
 * publishes the documents. Types, and how failures are reported.
 */

import type {
  Archive,
  LongOptions,
  OpenOptions,
  ReadableArray,
  ReadableTable,
} from "../archive/kinds/types.ts";
import { isUnfollowed } from "../archive/open/discover.ts";
import type { ChunkEncoder } from "../codec/types.ts";
import { type ErrorCode, isSuperchunkError, type SuperchunkError } from "../errors.ts";
import type { DType, JsonObject, JsonValue } from "../format/types.ts";
import type { ReadableStore, WritableStore } from "../store/types.ts";
import type { Selection } from "../values/selection.ts";
import type { Renaming } from "../zarr/document/node-names.ts";
import type { ZarrArray } from "../zarr/read/array.ts";
import type { ZarrGroup } from "../zarr/read/group.ts";
import type { ShardSizing } from "./plan/grid.ts";

/** Formats that can be written. */
export type ConvertFormat =
  | "zarr"
  | "zarr3-transformer"
  | "npy"
  | "bloscpack"
  | "bcolz"
  | "blz"
  | "parquet"
  | "arrow"
  | "b2nd";

/** Options that decide the bytes of a Zarr result. */
export interface LayoutOptions extends ShardSizing {
  /**
   * `rectilinear`: an array with a short last chunk gets a grid of unequal chunks, each an object. Nothing is then padded, and joined
   * archives are not recoded. Few readers support such grids. Default `regular`.
   */
  readonly grid?: "regular" | "rectilinear" | undefined;
  /** Uses only data types that every Zarr v3 reader supports: dates become int64, strings and structs get an extra dimension. */
  readonly portable?: boolean | undefined;
  /** Dtype of the values in an archive of plain bytes; default uint8. */
  readonly dtype?: DType | undefined;
  /** Shape of the values in an archive of plain bytes, in C order; default one dimension. */
  readonly shape?: readonly number[] | undefined;
  /**
   * Names of the dimensions, for arrays with that many dimensions; `null` means the default: the attribute `_ARRAY_DIMENSIONS`, `row` for
   * the rows of columns, else `dim_0`, `dim_1`, or `dim_0_8000` beside arrays of other lengths.
   */
  readonly dimensionNames?: readonly (string | null)[] | undefined;
  /** Recodes chunks that cannot be copied (default true); false throws `UNSUPPORTED` instead. */
  readonly recode?: boolean | undefined;
  /** Columns of a table or a nested array to include. Default all. */
  readonly columns?: readonly string[] | undefined;
}

/** What decides the bytes of a Parquet file. `strings`, `zipline` and `prices` count for Arrow files too. */
export interface ParquetOptions {
  /** False: no statistics, so streams are copied without reading their values. Default true. */
  readonly statistics?: boolean | undefined;
  /** True: plain pages and no 16-bit floats, for older readers (Spark); columns with shuffled bytes are recoded for that. */
  readonly compatible?: boolean | undefined;
  /** Rows of a row group, rounded to whole chunks of the column with the longest ones, at least one. Default 2^20. Parquet only. */
  readonly rowGroupRows?: number | undefined;
  /** `utf8` (default): numpy strings become strings; `fixed`: they stay bytes, with their zero padding. */
  readonly strings?: "utf8" | "fixed" | undefined;
  /**
   * True: the table is daily bars of zipline, so `day` becomes a date, and `prices` applies. Default: decided by the table's
   * attributes and columns.
   */
  readonly zipline?: boolean | undefined;
  /** How zipline's prices are written: thousandths as stored (`raw`, default), decimals with three places, or doubles. */
  readonly prices?: "raw" | "decimal" | "double" | undefined;
  /**
   * Writes a folder of files instead of one file. `rows`: `part-00000.parquet` and so on, whole row groups with about 512 MiB of values
   * each. For zipline's daily bars also one for each asset (`symbol`: `id=24/data.parquet`) or each year (`year=2014/data.parquet`).
   * Parquet only.
   */
  readonly partition?: "rows" | "symbol" | "year" | undefined;
}

/** Options of a conversion. */
export interface ConvertOptions
  extends LayoutOptions,
    LongOptions,
    Partial<Pick<OpenOptions, "damaged" | "onDamage" | "openPlace">> {
  /** The format to write. Default `zarr`: Zarr v3 with shards. */
  readonly to?: ConvertFormat | undefined;
  /**
   * Continues an unfinished conversion of the same source with the same options. Of several sources, also one that ended: those that
   * failed are tried again, and what is there is kept.
   */
  readonly resume?: boolean | undefined;
  /** Replaces the result of an earlier conversion. */
  readonly overwrite?: boolean | undefined;
  /** Takes the place over from another conversion, which must have died. One on this host is found dead without it. */
  readonly breakLock?: boolean | undefined;
  /** Reads the whole result back and compares it with the source, before it becomes visible. */
  readonly verify?: boolean | undefined;
  /**
   * Compares what an earlier conversion with the same options made with its source, and writes nothing. A source that is equal is `kept`,
   * any other `failed`.
   */
  readonly verifyOnly?: boolean | undefined;
  /** Options that decide the bytes of Parquet files, and the types of Arrow files. */
  readonly parquet?: ParquetOptions | undefined;
  /** Encodes chunks that cannot be copied (default: the calling thread). */
  readonly encoder?: ChunkEncoder | undefined;
  /**
   * Skips arrays of a Zarr group that cannot be read or converted; `failures` names them. Default false: the first one throws. In a folder
   * of sources they are always skipped.
   */
  readonly skipFailed?: boolean | undefined;
  /** Number of sources converted at a time, if many go into one hierarchy. Default 4. */
  readonly jobs?: number | undefined;
  /** Called for each object that is written. Receipts cost a checksum of all bytes written. */
  readonly onReceipt?: ((receipt: Receipt) => void) | undefined;
}

/** A place in a store: one source, or a folder of sources. */
export interface SourceLocation {
  readonly store: ReadableStore;
  /** Key in the store; `""` is its root. */
  readonly path: string;
}

/**
 * What can be converted: an open archive or Zarr node, columns that the caller describes, several archives (joined along the first
 * dimension), a place where all archives and Zarr nodes are found, or a list of sources.
 */
export type ConvertSource =
  | OpenedSource
  | readonly Archive[]
  | SourceLocation
  | { readonly items: AsyncIterable<SourceItem>; readonly names: readonly string[] };

/** Destination of a conversion. */
export interface Destination {
  readonly store: WritableStore;
  /** Key of the file or folder to make; default `""`, the store's root. */
  readonly path?: string | undefined;
  /** For `zarr3-transformer`: path of the node in the hierarchy at `path`; default its root. */
  readonly node?: string | undefined;
  /** True if the place is inside a Zarr group. Dimension names then include lengths, so that they never collide. */
  readonly isInGroup?: boolean | undefined;
}

/** One open source. */
export type OpenedSource = Archive | JoinedArchives | ZarrArray | ZarrGroup | ColumnArray | ColumnTable;

/** An array of any format: the members needed to write its values. */
export interface ColumnArray
  extends Pick<
    ReadableArray,
    "kind" | "store" | "path" | "dtype" | "shape" | "nbytes" | "attrs" | "fillValue" | "streamBytes"
  > {
  getBytes(selection?: Selection | null, options?: LongOptions): Promise<Uint8Array>;
}

/** Arrays of equal length side by side. */
export interface ColumnTable extends Pick<ReadableTable, "kind" | "store" | "path" | "attrs" | "names"> {
  column(name: string): ColumnArray;
}

/** Archives of one store that become one, their rows one after the other. */
export interface JoinedArchives {
  readonly kind: "joined";
  readonly archives: readonly Archive[];
}

/** Where a source was found. */
export interface FoundAt {
  readonly key: string;
  readonly isZarr: boolean;
}

/** One source of a conversion, found but not open. */
export interface SourceItem {
  /** Name in messages. */
  readonly path: string;
  /** Path below the destination, without a file's extension; `""` is the destination itself. */
  readonly node: string;
  /** Path in the source, if `node` differs from it. */
  readonly renamedFrom?: string;
  /** Other losses, as text. */
  readonly notes: readonly string[];
  /** Location in the store of the searched place, so that the source can be opened again without a search. */
  readonly found?: FoundAt;
  /** Names of the files with metadata in the folder of an archive, as its listing showed them. */
  readonly metadata?: readonly string[] | undefined;
  open(signal?: AbortSignal): Promise<OpenedSource>;
  /** Changes when the source does; used if the target does not look closer. */
  fingerprint?(): Promise<JsonValue>;
}

/**
 * Treatment of a run of chunks. `restream`: compressed streams are copied, and new ones added; `recode`: chunks are decoded and encoded.
 */
export type ChunkAction = "copy" | "restream" | "recode";

/** Consecutive chunks of the result with the same treatment. */
export interface ChunkRun {
  readonly first: number;
  readonly count: number;
  readonly action: ChunkAction;
  /** Why the chunks are not copied. */
  readonly reason?: string;
}

/** Treatment of an array: chunks copied, compressed streams copied, some or all chunks recoded, only described (no values), or refused. */
export type PlannedAction = "copy" | "restream" | "mixed" | "recode" | "empty" | "refuse";

/** One array of a {@link ConversionPlan}. */
export interface PlannedArray {
  /** Path in the destination, relative to the conversion's own; `""` is that path itself. For files and folders: the key. */
  readonly node: string;
  /** Name of the source in messages. */
  readonly source: string;
  readonly action: PlannedAction;
  /** The code of the refusal. */
  readonly code?: ErrorCode;
  /** Why chunks are recoded, or the array is refused. */
  readonly reason?: string;
  /** Uncompressed bytes. */
  readonly nbytes: number;
  /** Chunks in the result. */
  readonly chunks: number;
  readonly shards: number;
  /** In items of the result; absent if refused. */
  readonly shape?: readonly number[];
  readonly dataType?: JsonValue;
  readonly chunkShape?: readonly number[];
  readonly shardShape?: readonly number[];
  /** Treatment of each run of chunks; absent if it is known only as chunks are read. */
  readonly runs?: readonly ChunkRun[];
  /** What could not be preserved, as text. */
  readonly notes: readonly string[];
}

/** What a conversion of one source would do: JSON that depends only on the source and the options. */
export interface ConversionPlan {
  readonly source: string;
  /** `array`: a single array; `group`: an array for each column. */
  readonly kind: "array" | "group";
  readonly arrays: readonly PlannedArray[];
  /** Paths of the groups, outermost first. */
  readonly groups: readonly string[];
  readonly renamed: readonly Renaming[];
  /** Uncompressed bytes of all arrays. */
  readonly nbytes: number;
}

/** How a failure is reported. */
export interface Failure {
  readonly code: ErrorCode;
  readonly message: string;
}

/** Plan of one source, or the reason why it has none. */
export interface PlanEntry extends Partial<Failure> {
  readonly path: string;
  /** Path below the destination. */
  readonly node: string;
  readonly notes: readonly string[];
  readonly plan?: ConversionPlan;
  /** With `resume`: an earlier run has converted it, so that nothing is left to do. */
  readonly kept?: true;
  /** On the first entry: the groups above the destination that will be created, if there are any. */
  readonly missingGroups?: readonly string[];
}

/** A node that was left out of a conversion. */
export interface NodeFailure extends Failure {
  /** Path in the destination, relative to the conversion's own. */
  readonly node: string;
  /** Name of the source in messages. */
  readonly path: string;
}

/** Outcome of one source. */
export interface ConvertEntry extends Partial<Failure> {
  /** Name of the source in messages. */
  readonly path: string;
  /** Path in the destination, relative to the conversion's own. */
  readonly node: string;
  /** `kept`: an earlier run had converted it, or with `resume` it was there already; with `verifyOnly`, it is equal to its source. */
  readonly status: "converted" | "kept" | "failed";
  readonly result?: SourceResult;
}

/** Result of converting one source. */
export interface SourceResult {
  readonly arrays: number;
  readonly groups: number;
  /** Chunks whose bytes were copied unchanged. */
  readonly chunksCopied: number;
  /** Short last chunks that were padded to full length, as Zarr requires. */
  readonly chunksPadded: number;
  /** Chunks that were decoded and encoded again. */
  readonly chunksRecoded: number;
  /** Chunks whose compressed streams were copied into another frame; absent for formats that keep chunks. */
  readonly chunksRestreamed?: number;
  readonly shards: number;
  /** Shards among them that an earlier, unfinished run had written. */
  readonly shardsKept: number;
  /** Bytes of objects and documents written. */
  readonly bytesWritten: number;
  /** Uncompressed bytes converted. */
  readonly nbytes: number;
  readonly seconds: number;
  /** True if the result was read back and compared. */
  readonly verified: boolean;
  /** What could not be preserved, as text. */
  readonly notes: readonly string[];
  readonly renamed: readonly Renaming[];
}

/** Result of a conversion: sums over the converted sources, and an entry for each source. */
export interface ConvertResult extends SourceResult {
  readonly converted: number;
  readonly kept: number;
  readonly failed: number;
  /** Entries in the order of the sources. */
  readonly entries: readonly ConvertEntry[];
  /** Nodes of Zarr groups that were left out, with `skipFailed`. */
  readonly failures: readonly NodeFailure[];
}

/** The making of one object of the result. As JSON, so that another process can run it from the plan. */
export interface Task {
  /** Key of the object. */
  readonly key: string;
  /** The part of the array that it holds, in the target's terms: a shard's number, or a position in a grid. */
  readonly part: readonly number[];
  /** Uncompressed bytes, for progress. */
  readonly nbytes: number;
}

/** Proof that an object was written. */
export interface Receipt {
  readonly key: string;
  /** Stored bytes. */
  readonly size: number;
  /** Checksum of the stored bytes, as 8 hexadecimal digits. */
  readonly crc32c: string;
}

/** What happened to chunks so far. */
export interface ChunkCounts {
  copied: number;
  padded: number;
  recoded: number;
  /** Chunks whose compressed streams were copied into another frame. */
  restreamed?: number;
  /** Chunks whose typesize is not the item size of their array: readable, but odd. */
  oddTypesize: number;
}

/** What a task needs to run. */
export interface TaskContext {
  /** The destination. Documents put there stay hidden until the array was compared. */
  readonly store: WritableStore;
  readonly encoder: ChunkEncoder;
  readonly signal: AbortSignal | undefined;
  readonly counts: ChunkCounts;
  /** Reports uncompressed bytes as done. */
  advance(nbytes: number): void;
  /** Reports a loss, as text. */
  note(text: string): void;
}

/** A document: an object that makes others visible. */
export interface Document {
  readonly key: string;
  readonly bytes: Uint8Array;
}

/** One array (or a table that is one object) being converted. It becomes visible when its documents are published. */
export interface ArrayRun {
  /** Path below the source's place. */
  readonly node: string;
  /** Name of its source in messages. */
  readonly path: string;
  /** Number of arrays that it represents: the columns of a table. */
  readonly arrays: number;
  /** Uncompressed bytes. */
  readonly nbytes: number;
  readonly notes: readonly string[];
  /** Key of its file or folder in the destination. */
  readonly root: string;
  /** True if its objects are shards, which a later run keeps one by one. */
  readonly keepsTasks: boolean;
  tasks(signal: AbortSignal | undefined): Iterable<Task> | AsyncIterable<Task>;
  /** Writes the task's object, atomically and always with the same bytes. Returns false if the task has no object. */
  run(task: Task, context: TaskContext): Promise<boolean>;
  /** Documents that make it visible, if known in advance. An array whose documents exist is finished. */
  readonly documents: readonly Document[];
  /** Makes the documents that depend on the objects of its tasks, once all of these exist. May be repeated. */
  conclude?(context: TaskContext): Promise<void>;
  /** Compares every value with the source. Throws `BAD_FIELD` if one differs, and the codes of damage. */
  compare(store: ReadableStore, signal: AbortSignal | undefined): Promise<void>;
}

/** A node that cannot be opened or converted. */
export interface FailedNode {
  readonly path: string;
  /** Name in messages. */
  readonly source: string;
  readonly error: SuperchunkError;
}

/** One source with its place, as planned by a target; nothing is written yet. */
export interface SourceRun {
  readonly plan: ConversionPlan;
  /** The plan by the headers of all chunks, for a dry run; undefined if `plan` needs none. */
  detailed?(): Promise<ConversionPlan>;
  readonly arrays: readonly ArrayRun[];
  /** Why it cannot be converted as a whole; thrown before anything is written. */
  readonly refusal: SuperchunkError | undefined;
  readonly failed: readonly FailedNode[];
  readonly notes: readonly string[];
  /** True if arrays that fail are skipped and the others continue. */
  readonly skipsFailed: boolean;
  /** Changes when the source does. */
  fingerprint(): Promise<JsonValue>;
  /** Throws `STALE` if the source was replaced or has grown since it was opened. Set by the runner. */
  assertUnchanged?(): Promise<void>;
  /**
   * Checks its place: throws `CONFLICT` if it is taken, or empties it if that is allowed. Returns what to delete if the source fails:
   * folders that do not exist yet, and the mark of an emptied folder, which is always deleted. For a hierarchy, the runner does this.
   */
  claim?(store: WritableStore): Promise<readonly string[]>;
  /** Its files or folders, refused if the destination takes two of their names for one. Zarr's names differ in more than case. */
  folders?(): readonly string[];
  /** Documents of groups, the innermost first, without the skipped nodes. */
  groups(left: ReadonlySet<string>): readonly Document[];
  /** Documents by path below the source's, for the root document that repeats them all. */
  described(left: ReadonlySet<string>): Iterable<readonly [node: string, document: JsonObject]>;
}

/** Where one source goes. */
export interface TargetPlace {
  /** Path below the conversion's destination. */
  readonly node: string;
  /** The key of the destination and this path together. */
  readonly key: string;
  /** Path of the node in a hierarchy of the older transformer at the destination. */
  readonly inHierarchy: string;
  /** True if arrays of other sources may be beside it. */
  readonly isMember: boolean;
}

/** A format that can be written. */
export interface Target {
  readonly format: ConvertFormat;
  /**
   * True: the destination is one hierarchy, which is taken, resumed and replaced as a whole; it contains the record, and
   * folders become groups. False: each source gets its own file or folder beside what exists.
   */
  readonly isHierarchy: boolean;
  /** Extension of its files; undefined for folders. */
  readonly ending?: string | undefined;
  /** The options that decide the result, as the record stores them. */
  settings(options: ConvertOptions): JsonObject;
  /** True for objects that make others visible: they are published last, and never before a requested comparison. */
  isDocument(key: string): boolean;
  /** Plans a source. Reads metadata and first headers only. Throws errors of reading; a refusal is a member of the result. */
  plan(source: OpenedSource, place: TargetPlace, options: ConvertOptions): Promise<SourceRun>;
}

/**
 * Code and message of the failure of what was found at `where`. A link that is not followed is not damage: its code is
 * `UNSUPPORTED`. Throws like {@link assertSkippable}.
 */
export function failureOf(error: unknown, where?: string): Failure {
  const { code, message, details } = assertSkippable(error);
  const isElsewhere = details.field === "container" || (where !== undefined && isUnfollowed(error, where));
  return { code: isElsewhere ? "UNSUPPORTED" : code, message };
}

/** False for errors of a full or read-only destination, and for errors that are not an archive's fault. */
export function isSkippable(error: unknown): error is SuperchunkError {
  return isSuperchunkError(error) && error.code !== "NO_SPACE" && error.code !== "READ_ONLY";
}

/** Returns an error that {@link isSkippable}; rethrows others. */
export function assertSkippable(error: unknown): SuperchunkError {
  if (!isSkippable(error)) throw error;
  return error;
}
