/**
 * The store contract: a flat map from keys to bytes, as a file system, memory, HTTP or an object store has it.
 *
 * Keys are `/`-separated, without a leading or trailing `/`, without empty parts, `.` and `..`; every store
 * checks them on entry (`UNSAFE_PATH`). Absent is `undefined`, failed is a throw; an abort throws the signal's reason. Bytes handed out are the
 * caller's own: fresh, or never written again by the store.
 */

/** Options of long operations. */
export interface StoreOptions {
  readonly signal?: AbortSignal | undefined;
}

/** A part of an object: from a start, or the last bytes. A range is cut off at the object's end. */
export type ByteRange =
  | { readonly offset: number; readonly length: number }
  | { readonly suffixLength: number };

/** What a store knows of an object without reading it. */
export interface ObjectInfo {
  /** For an object that is made from a file: the version that it had when the file was opened. */
  readonly opened?: string;
  /** Bytes. */
  readonly size: number;
  /** Changes whenever the bytes do: an ETag, or size, time and inode. Compare only for equality. */
  readonly version: string;
  /** The version for comparisons on other machines, where the same file may have another inode; absent if `version` is the same there. */
  readonly stamp?: string;
  /** Last write of the bytes, in milliseconds since 1970; absent if the store does not know. */
  readonly modified?: number;
  /** Last change of a file or of its attributes, in nanoseconds: unlike `modified`, no program can set it. Absent if the store does not know. */
  readonly changed?: string;
  /** Number of names of the same bytes; absent if the store does not know, or knows only one. */
  readonly links?: number;
  /** True if the key is a symbolic link to the object. */
  readonly isLink?: true;
  /** Strong ETag as the server sent it, quotes included; absent if there is none. */
  readonly etag?: string;
}

/** The first bytes of an object; fewer than requested only if it has no more. */
export interface ObjectHead {
  readonly bytes: Uint8Array;
  /** Undefined if the answer does not give the object's size. */
  readonly info: ObjectInfo | undefined;
}

/** One entry of a folder listing. */
export interface ListEntry {
  /** Last part of the key. */
  readonly name: string;
  readonly kind: "object" | "folder";
  /** Bytes of an object, if the listing has them. */
  readonly size?: number;
}

/** Options of a listing. */
export interface ListOptions extends StoreOptions {
  /**
   * Reports the sizes of objects even if each needs a separate request (default false). Stores that know
   * sizes anyway always report them.
   */
  readonly sizes?: boolean | undefined;
}

/** The members that reading needs. */
export interface ReadableStore {
  /** Returns the name of the object at `key` in messages: a path, a URL. */
  describe(key: string): string;
  get(key: string, options?: StoreOptions): Promise<Uint8Array | undefined>;
  /** Reads the existing bytes of the range; fewer than requested only at the object's end. */
  getRange(key: string, range: ByteRange, options?: StoreOptions): Promise<Uint8Array | undefined>;
  stat(key: string, options?: StoreOptions): Promise<ObjectInfo | undefined>;
  /** Lists the entries directly under a folder (`""` is the root), in no particular order; none if the folder does not exist. */
  list(folder: string, options?: ListOptions): AsyncIterable<ListEntry>;
  /**
   * Capability: reads into the caller's buffer without a copy. Resolves with the number of bytes read, fewer than `target.length` only at
   * the object's end; undefined if the object does not exist.
   */
  readInto?(
    key: string,
    offset: number,
    target: Uint8Array,
    options?: StoreOptions,
  ): Promise<number | undefined>;
  /** Capability: synchronous `readInto`, for small reads where a promise costs more than the read. */
  readIntoSync?(key: string, offset: number, target: Uint8Array): number | undefined;
  /** Capability: reads the first bytes, and the facts of `stat` if the answer has them, in one request. */
  getHead?(key: string, length: number, options?: StoreOptions): Promise<ObjectHead | undefined>;
  /** Capability of stores with folders: returns true if a key is a folder and not an object. */
  isFolder?(key: string, options?: StoreOptions): Promise<boolean>;
  /** Capability: returns what identifies a folder but no copy: on a disk inode and time of birth, or path and machine; else its address. */
  identify?(folder: string): Promise<readonly string[]>;
  /**
   * Capability: {@link getHead} for many objects, for walks over thousands; undefined for a missing object. `info` describes the same object
   * as the bytes; length 0 reads no bytes. `info` is absent only if {@link getHead} has none.
   */
  getHeads?(
    keys: readonly string[],
    length: number,
    options?: StoreOptions,
  ): Promise<readonly (ObjectHead | undefined)[]>;
  /**
   * Capability: reads of an object fail with `STALE` if it has changed since its first read, so that the caller need not compare versions.
   * Checked at each read: a store may stop doing so.
   */
  readonly pinsVersions?: boolean;
  /**
   * Capability of a store that remembers versions: treats the next read of the object as its first. For writers that build on the writes of
   * others.
   */
  unpin?(key: string): void;
  /** Capability of such a store: the same objects, without what it remembers of them. Closing it closes no connection of this store. */
  renew?(): ReadableStore;
  /**
   * True if `stat` reads the whole object, because the store cannot learn a size otherwise. A reader that needs only a part of an object
   * then does without its size and version.
   */
  readonly readsToStat?: boolean;
  /** Capability of such a store: the size of an object, without reading it. */
  sizeOf?(key: string, options?: StoreOptions): Promise<number | undefined>;
  /** Capability of a store of a file's chunks: where the data of an object, or of an inner chunk, are; undefined if they are made of others. */
  filePlace?(key: string, slot?: number): Promise<FilePlace | undefined>;
  /** Text for errors about an absent object, if the store knows a reason, such as a web page at its address. */
  explainAbsence?(): string | undefined;
  /** Releases the resources of the store. */
  close?(): Promise<void>;
}

/** A store that generates its objects from other data, for example shards from the chunks of a frame. */
export interface GeneratingStore extends ReadableStore {
  /** Yields an object in pieces, each valid until the next is requested; undefined if the object does not exist. */
  getPieces?(key: string, options?: StoreOptions): Promise<Iterable<Uint8Array> | undefined>;
  /**
   * Returns some inner chunks of a shard, by grid position in C order, without generating the shard; undefined for an absent chunk.
   * Returns undefined as a whole if the store prefers to generate the shard.
   */
  getInner(
    key: string,
    slots: readonly number[],
    options?: StoreOptions,
  ): Promise<readonly (Uint8Array | undefined)[] | undefined>;
  /** True if its arrays have all of their chunks: a list of them would only take memory. */
  readonly hasAllChunks?: boolean;
  /** Says why it encodes some of an array's chunks, or the chunk at a key; undefined if it copies their streams. */
  whyEncoded(key: string): Promise<string | undefined>;
  /** Names of attributes that a node has in its file and not here, because JSON has no form for them. */
  attributesLeft?(folder: string): Promise<readonly string[]>;
  /** Compares an array's data with checksums of the file that holds them, if it has any. Resolves with their number. @throws CHECKSUM_MISMATCH */
  compareSums?(folder: string, options?: StoreOptions): Promise<number>;
  /** Bytes of the data that an array's objects are generated from, without generating them. */
  storedBytes(folder: string): Promise<number>;
}

/** Where the data of a chunk are in the file that holds them. `ctbytes` is absent if they share their bytes with other chunks. */
export interface FilePlace {
  readonly key: string;
  readonly offset: number;
  readonly ctbytes?: number;
}

export function isGenerating(store: ReadableStore): store is GeneratingStore {
  return "getInner" in store;
}

/** Names of attributes that a node has in its file, but not in the store, because JSON has no form for them. */
export async function attributesLeft(store: ReadableStore, folder: string): Promise<readonly string[]> {
  const { attributesLeft: read }: Pick<GeneratingStore, "attributesLeft"> = store as GeneratingStore;
  return (await read?.call(store, folder)) ?? [];
}

/** True for a store that says which chunks it encodes. */
export function saysEncoded(
  store: ReadableStore,
): store is ReadableStore & Pick<GeneratingStore, "whyEncoded"> {
  return "whyEncoded" in store;
}

/** Options of a deletion. */
export interface DeleteOptions extends StoreOptions {
  /** Fails with `CONFLICT` unless the object has this version. */
  readonly ifVersion?: string | undefined;
}

/** Options of a put. */
export interface PutOptions extends DeleteOptions {
  /** Fails with `CONFLICT` if the object exists. */
  readonly ifAbsent?: boolean;
  /** Durable when resolved (default true, if the store supports it). */
  readonly durable?: boolean;
  /** Bytes that the object will have at least, if known. A store that has no room for them fails with `LIMIT` before it writes. */
  readonly size?: number | undefined;
}

/** Bytes to put: at once, in a list, or piece by piece. A producer of pieces may reuse one once the next is requested. */
export type PutSource = Uint8Array | AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

/** An object that is written, and durable if requested, but not yet visible to readers. Either method ends it. */
export interface Draft {
  /** Gives it its name. Throws what `put` throws; the draft is then removed. */
  publish(): Promise<ObjectInfo>;
  /** Removes it. */
  discard(): Promise<void>;
}

/** How an object is claimed. */
export interface ClaimOptions {
  /** Takes the claim of another writer, which must have died. */
  readonly breakLock?: boolean | undefined;
}

/** The members that writing needs. Members with `?` are capabilities that a store may lack. */
export interface WritableStore extends ReadableStore {
  /** Writes an object atomically: a reader sees the old object or the new one, also after a crash. */
  put(key: string, source: PutSource, options?: PutOptions): Promise<ObjectInfo>;
  /** Deletes an object or an empty folder. A missing one is not an error; a folder with entries stays. */
  delete(key: string, options?: DeleteOptions): Promise<void>;
  /** Renames an object or a folder atomically. Replaces the target, unless that is a folder with entries (`CONFLICT`). */
  rename?(from: string, to: string, options?: StoreOptions): Promise<void>;
  /**
   * Makes objects, their folder entries, and deletions durable; without keys, deletions alone. Once the system has failed to write, `sync`
   * and durable writes always fail (`IO`), because a system reports a lost write only once.
   */
  sync?(keys: readonly string[], options?: StoreOptions): Promise<void>;
  /** Adds a second name for the same bytes; `CONFLICT` if `to` exists. */
  link?(from: string, to: string, kind: "hard" | "symbolic" | "copy"): Promise<void>;
  /**
   * Runs `work` while no other writer, in any process, has claimed the key; `CONFLICT` if one has, with its process, host and time as
   * `found`. With `breakLock`, takes the claim from it. Throws `STALE` after `work` if the claim was taken from this one meanwhile.
   */
  claim?<T>(key: string, work: () => Promise<T>, options?: ClaimOptions): Promise<T>;
  /** Writes into an existing object in place, extending it if needed. Not atomic. */
  writeRange?(key: string, offset: number, bytes: Uint8Array, options?: StoreOptions): Promise<void>;
  /**
   * Removes the remains of interrupted puts directly in a folder (listings hide them). Only for the holder of the archive's lock: it makes
   * unfinished puts of others fail. Claims of writers that may be alive stay.
   */
  removeLeftovers?(folder: string, options?: LeftoverOptions): Promise<void>;
}

/** Options of `removeLeftovers`. */
export interface LeftoverOptions extends StoreOptions {
  /** Only the remains of puts of these objects. */
  readonly names?: ReadonlySet<string> | undefined;
}

export function isWritable(store: ReadableStore): store is WritableStore {
  return "put" in store && typeof (store as Partial<WritableStore>).put === "function";
}
