/**
 * Types of a Zarr view stored in the archive's own files: what it requires of the place it works in, what callers pass
 * and what they get.
 */
import type { LongOptions } from "../archive/kinds/types.ts";
import type { DType } from "../format/types.ts";
import type { ReadableStore, WritableStore } from "../store/types.ts";

/** How the Zarr array's chunk keys refer to the data files. */
export type LinkKind = "hard" | "symbolic" | "copy";

/** A path of a data file, or of the Zarr array (`zarr.json`, `c/0`), as a store key. */
export interface FilePlace {
  readonly side: "data" | "zarr";
  readonly key: string;
}

/** What is at a place; links are not followed. */
export interface FileFacts {
  readonly kind: "file" | "link" | "folder" | "other";
  /** Bytes. */
  readonly size: number;
  /** Permission bits. */
  readonly mode: number;
  /** Number of hard links to the same bytes. */
  readonly links: number;
  /** Two names with the same identity are the same file. */
  readonly identity: string;
}

/** Bytes `[start, end)` of a file. */
export interface FileRange {
  readonly start: number;
  readonly end: number;
}

/** A file that replaces a shard. */
export interface ShardReplacement {
  readonly key: string;
  /** Byte ranges of the old file that stay where they are. */
  readonly kept: readonly FileRange[];
  readonly writes: readonly { readonly offset: number; readonly bytes: Uint8Array }[];
  /** Size in bytes. Ranges neither kept nor written become holes. */
  readonly size: number;
}

/** File operations beyond those of a store. Unless a member says otherwise, its effect is durable only after `sync`. */
export interface DualFiles {
  describe(at: FilePlace): string;
  inspect(at: FilePlace): Promise<FileFacts | undefined>;
  /** Reads `length` bytes at each offset of a data file and joins them; undefined if the file ends before. */
  readEach(key: string, offsets: readonly number[], length: number): Promise<Uint8Array | undefined>;
  /** Writes the pieces at `offset`, truncates the file after them, and sets its mode; durable when resolved. */
  writeTail(at: FilePlace, offset: number, pieces: readonly Uint8Array[], mode: number): Promise<void>;
  /** Durable when resolved. */
  truncate(at: FilePlace, size: number): Promise<void>;
  setMode(at: FilePlace, mode: number): Promise<void>;
  /** Creates `to` and its folders. `CONFLICT` if it exists. */
  link(from: FilePlace, to: FilePlace, kind: LinkKind): Promise<void>;
  /** True if `to` is a symbolic link that leads to `from`. */
  leadsTo(to: FilePlace, from: FilePlace): Promise<boolean>;
  /** Removes a file, a link or an empty folder; no error if there is none. */
  remove(at: FilePlace): Promise<void>;
  /** Makes the folder entries of these places durable, and the folders that were made for links. */
  sync(places: readonly FilePlace[]): Promise<void>;
  /**
   * Atomically replaces an old shard by a new file without write permission. Durable when resolved, with the number of
   * bytes written or copied.
   */
  replace(replacement: ShardReplacement): Promise<number>;
}

/** Where an archive is linked. */
export interface LinkSite {
  /** The folder that is, or becomes, the Zarr array or group. */
  readonly target: WritableStore;
  /** The archive's store. Keys of the side `data` belong to it. */
  readonly source: ReadableStore;
  readonly files: DualFiles;
  /** Path from the target to the root of the archive's store, as the record keeps it; `.` if they are the same. */
  readonly data: string;
}

/** How the shards of a node are read. */
export interface ShardForm {
  /** Path of the Zarr array below the archive. */
  readonly node: string;
  /** Number of dimensions after the rows. */
  readonly dimensions: number;
  /** Inner chunks of a shard. */
  readonly capacity: number;
  /** Decoded size of a whole inner chunk in bytes. */
  readonly chunkBytes: number;
  /** Data type, shape of an inner chunk and byte order, as JSON. */
  readonly item: string;
}

/** Options of linking. */
export interface LinkOptions extends LongOptions {
  /** Default `hard`. `copy` leaves the data files unchanged. */
  readonly kind?: LinkKind | undefined;
  /** Dtype of the values in an archive of plain bytes (default uint8), and their shape. */
  readonly dtype?: DType | undefined;
  readonly shape?: readonly number[] | undefined;
  readonly dimensionNames?: readonly (string | null)[] | undefined;
}

/** What linking does to one data file. */
export type LinkAction = "link" | "repair" | "keep";

/** One data file of a {@link LinkPlan}. */
export interface PlannedLink {
  /** Name of the data file in messages. */
  readonly file: string;
  /** Key of the shard in the Zarr array. */
  readonly shard: string;
  readonly chunks: number;
  /** Bytes of the file without what linking adds. */
  readonly size: number;
  /** Bytes added: the index, and before it the padded copy of a short last chunk, if there is one. */
  readonly added: number;
  /** True if a short last chunk gets a padded copy. */
  readonly padded: boolean;
  readonly action: LinkAction;
  /** Why it is repaired. */
  readonly reason?: string;
}

/** What linking would do. */
export interface LinkPlan {
  readonly source: string;
  readonly destination: string;
  readonly kind: LinkKind;
  /** Keys of the documents to write. */
  readonly documents: readonly string[];
  readonly files: readonly PlannedLink[];
  /** Bytes added to the data files, or to the copies. */
  readonly added: number;
  /** True if everything is linked already, and correct. */
  readonly done: boolean;
  /** True for an array that keeps itself a Zarr array; its files are not listed. */
  readonly live?: true;
  readonly notes: readonly string[];
}

/** Result of linking. */
export interface LinkResult extends LinkPlan {
  readonly seconds: number;
}

/** What undoing did. */
export interface UnlinkResult {
  /** Data files restored to their earlier state. */
  readonly files: number;
  /** Bytes cut off. */
  readonly removed: number;
  /** Data files that another program has replaced since; they were left alone. */
  readonly replaced: readonly string[];
  readonly notes: readonly string[];
}
