/** What a Zarr view in the archive's own files asks of the place it works in, and what callers ask and learn. Types only. */
import type { LongOptions } from "../archive/kinds/types.ts";
import type { DType } from "../format/types.ts";
import type { Draft, PutOptions, PutSource, ReadableStore, WritableStore } from "../store/types.ts";

/** How the chunk keys of the Zarr array name the data files. */
export type LinkKind = "hard" | "symbolic" | "copy";

/** A path: of a data file, or of the Zarr array (`zarr.json`, `c/0`). Keys as stores have them. */
export interface FilePlace {
  readonly side: "data" | "zarr";
  readonly key: string;
}

/** What lies at a place; links are not followed. */
export interface FileFacts {
  readonly kind: "file" | "link" | "folder" | "other";
  /** Bytes. */
  readonly size: number;
  /** Permission bits. */
  readonly mode: number;
  /** Names that the same bytes have. */
  readonly links: number;
  /** Two names with the same identity are the same file. */
  readonly identity: string;
}

/** Bytes `[start, end)` of a file. */
export interface FileRange {
  readonly start: number;
  readonly end: number;
}

/** A file that takes the place of a shard. */
export interface ShardReplacement {
  readonly key: string;
  /** Bytes of the old file that stay where they are. */
  readonly kept: readonly FileRange[];
  readonly writes: readonly { readonly offset: number; readonly bytes: Uint8Array }[];
  /** What is neither kept nor written is a hole. */
  readonly size: number;
}

/** What files can do beyond a store. Every member is durable only after `sync`, unless it says otherwise. */
export interface DualFiles {
  describe(at: FilePlace): string;
  inspect(at: FilePlace): Promise<FileFacts | undefined>;
  /** `length` bytes at each of the offsets of a data file, joined; undefined where it ends before. */
  readEach(key: string, offsets: readonly number[], length: number): Promise<Uint8Array | undefined>;
  /** Writes pieces at `offset`, so that the file ends with them, and then sets its mode; durable when resolved. */
  writeTail(at: FilePlace, offset: number, pieces: readonly Uint8Array[], mode: number): Promise<void>;
  /** Cuts the file off; durable when resolved. */
  truncate(at: FilePlace, size: number): Promise<void>;
  setMode(at: FilePlace, mode: number): Promise<void>;
  /** Makes `to`, with its folders. `CONFLICT` where it exists. */
  link(from: FilePlace, to: FilePlace, kind: LinkKind): Promise<void>;
  /** True where `to` is a symbolic link that leads to `from`. */
  leadsTo(to: FilePlace, from: FilePlace): Promise<boolean>;
  /** Removes a file, a link, or a folder without entries; no error where there is none. */
  remove(at: FilePlace): Promise<void>;
  /** Makes the entries of the folders of these places durable, and folders that were made for links. */
  sync(places: readonly FilePlace[]): Promise<void>;
  /**
   * Puts a new file, without permission to be written to, in the place of an old shard, at once. Durable when resolved, with
   * the bytes that were written or copied.
   */
  replace(replacement: ShardReplacement): Promise<number>;
}

/** Where documents are put. */
export interface LinkTarget extends WritableStore {
  /** Puts an object in two steps: what takes long first, and its name when the draft is published. */
  draft?(key: string, source: PutSource, options?: PutOptions): Promise<Draft>;
}

/** Where an archive is linked. */
export interface LinkSite {
  /** The folder that is, or becomes, the Zarr array or group. */
  readonly target: LinkTarget;
  /** The archive's store: keys of the side `data` are its keys. */
  readonly source: ReadableStore;
  readonly files: DualFiles;
  /** Path from the target to the root of the archive's store, as the record keeps it: `.` where they are one. */
  readonly data: string;
}

/** How the shards of a node are read. */
export interface ShardForm {
  /** Path of the Zarr array below the archive. */
  readonly node: string;
  /** After the rows. */
  readonly dimensions: number;
  /** Inner chunks of a shard. */
  readonly capacity: number;
  /** Of a whole inner chunk, decoded. */
  readonly chunkBytes: number;
  /** Data type, shape of an inner chunk and byte order, as JSON. */
  readonly item: string;
}

/** How an archive is linked. */
export interface LinkOptions extends LongOptions {
  /** Default `hard`. `copy` leaves the data files unchanged. */
  readonly kind?: LinkKind | undefined;
  /** Dtype of the values in an archive of plain bytes (default uint8), and their shape. */
  readonly dtype?: DType | undefined;
  readonly shape?: readonly number[] | undefined;
  readonly dimensionNames?: readonly (string | null)[] | undefined;
}

/** What is to be done to one data file. */
export type LinkAction = "link" | "repair" | "keep";

/** One data file of a {@link LinkPlan}. */
export interface PlannedLink {
  /** How messages name the data file. */
  readonly file: string;
  /** Key of the shard in the Zarr array. */
  readonly shard: string;
  readonly chunks: number;
  /** Bytes of the file without what linking adds. */
  readonly size: number;
  /** Bytes that are added: the padded copy of a short last chunk, where there is one, and the index. */
  readonly added: number;
  /** True where a short last chunk gets a padded copy. */
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
  /** Keys of the documents that are written. */
  readonly documents: readonly string[];
  readonly files: readonly PlannedLink[];
  /** Bytes added to the data files, or to the copies. */
  readonly added: number;
  /** True if everything is linked already, and correct. */
  readonly done: boolean;
  readonly notes: readonly string[];
}

/** Result of linking. */
export interface LinkResult extends LinkPlan {
  readonly seconds: number;
}

/** What undoing did. */
export interface UnlinkResult {
  /** Data files that are as they were before. */
  readonly files: number;
  /** Bytes that were cut off. */
  readonly removed: number;
  /** Data files that another program has replaced since; they were left alone. */
  readonly replaced: readonly string[];
  readonly notes: readonly string[];
}
