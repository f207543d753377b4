/**
 * The store contract: a flat map from keys to bytes, as a file system, memory, HTTP or an object store has it.
 *
 * Keys are `/`-separated, without a leading or trailing `/`, without empty parts, `.` and `..`; every store
 * checks them on entry (`UNSAFE_PATH`). Absent is `undefined`, failed is a throw; an abort throws the signal's reason. Bytes handed out are the
 * caller's own: fresh, or never written again by the store.
 */

/** Options of every call that may take long. */
export interface StoreOptions {
  readonly signal?: AbortSignal | undefined;
}

/** A part of an object: from a start, or the last bytes. A range beyond the end is cut off at the end. */
export type ByteRange =
  | { readonly offset: number; readonly length: number }
  | { readonly suffixLength: number };

/** What a store knows of an object without reading it. */
export interface ObjectInfo {
  /** Bytes. */
  readonly size: number;
  /** Changes whenever the bytes do: an ETag, or size, time and inode. Compared for equality only. */
  readonly version: string;
  /** When the bytes were last written, in milliseconds since 1970; absent where the store does not know. */
  readonly modified?: number;
  /** Names that the same bytes have; absent where the store does not know, or knows only one. */
  readonly links?: number;
  /** True where the key is a symbolic link to the object. */
  readonly isLink?: true;
  /** Strong ETag as the server sent it, quotes included; absent for what has none. */
  readonly etag?: string;
}

/** The first bytes of an object; fewer than asked where it has no more. */
export interface ObjectHead {
  readonly bytes: Uint8Array;
  /** Undefined where the answer does not tell the object's size. */
  readonly info: ObjectInfo | undefined;
}

/** One entry of a folder listing. */
export interface ListEntry {
  /** Last part of the key. */
  readonly name: string;
  readonly kind: "object" | "folder";
  /** Bytes of an object, where the listing says so. */
  readonly size?: number;
}

/** Options of a listing. */
export interface ListOptions extends StoreOptions {
  /** Say the sizes of objects also where that takes a look at each (default false); stores that cannot leave them out. */
  readonly sizes?: boolean | undefined;
}

/** What reading needs. */
export interface ReadableStore {
  /** How messages name the object at `key`: a path, a URL. */
  describe(key: string): string;
  get(key: string, options?: StoreOptions): Promise<Uint8Array | undefined>;
  /** The bytes of the range that exist; fewer than asked only at the object's end. */
  getRange(key: string, range: ByteRange, options?: StoreOptions): Promise<Uint8Array | undefined>;
  stat(key: string, options?: StoreOptions): Promise<ObjectInfo | undefined>;
  /** Entries directly under a folder (`""` is the root), in no promised order; none where the folder does not exist. */
  list(folder: string, options?: ListOptions): AsyncIterable<ListEntry>;
  /**
   * Capability: reads into the caller's buffer without a copy. Resolves with the bytes read, fewer than
   * `target.length` only at the object's end; undefined where the object does not exist.
   */
  readInto?(
    key: string,
    offset: number,
    target: Uint8Array,
    options?: StoreOptions,
  ): Promise<number | undefined>;
  /** Capability: the same at once, for small reads where a promise costs more than the read. */
  readIntoSync?(key: string, offset: number, target: Uint8Array): number | undefined;
  /**
   * Capability of a store that makes its objects: one in pieces, each valid until the next is asked for; undefined where the
   * object does not exist.
   */
  getPieces?(key: string, options?: StoreOptions): Promise<Iterable<Uint8Array> | undefined>;
  /**
   * Capability of a store that makes shards: some of a shard's inner chunks, by their places in the grid in C order, without making
   * the shard; undefined for one that is absent. Undefined in place of all where the store had rather make the shard.
   */
  getInner?(
    key: string,
    slots: readonly number[],
    options?: StoreOptions,
  ): Promise<readonly (Uint8Array | undefined)[] | undefined>;
  /** Capability of a store that makes shards: why it encodes an array's chunks; undefined where it copies their streams. */
  whyEncoded?(folder: string, options?: StoreOptions): Promise<string | undefined>;
  /** Capability of a store that makes objects: the bytes of what those of an array are made of, without making them. */
  storedBytes?(folder: string): Promise<number>;
  /** Capability: the first bytes, with what `stat` tells where the answer tells it, in one request. */
  getHead?(key: string, length: number, options?: StoreOptions): Promise<ObjectHead | undefined>;
  /** Capability of stores that have folders: true where a key leads to one, and not to an object. */
  isFolder?(key: string, options?: StoreOptions): Promise<boolean>;
  /** Capability: what a folder has and no copy of it: on a disk its inode, and where it lies on which machine; else its address. */
  identify?(folder: string): Promise<readonly string[]>;
  /**
   * Capability: the same for many objects, for walks over thousands of them; undefined for one that is not there. What
   * `info` tells is of the very object that the bytes are of; length 0 looks at the objects and reads nothing. `info`
   * is absent only where {@link getHead} has none.
   */
  getHeads?(
    keys: readonly string[],
    length: number,
    options?: StoreOptions,
  ): Promise<readonly (ObjectHead | undefined)[]>;
  /**
   * Capability: reads of an object fail with `STALE` where it changed since its first read, so that the caller need not
   * compare versions. Asked for at each read: a store may stop doing so.
   */
  readonly pinsVersions?: boolean;
  /**
   * Capability of a store that remembers versions: the next read of the object is its first again. For writers that
   * write on top of what others wrote.
   */
  unpin?(key: string): void;
  /**
   * True where `stat` reads the whole object, because the store has no other way to learn a size. A reader that needs only
   * a part of an object then does without its size and version.
   */
  readonly readsToStat?: boolean;
  /** What an error adds where an object is absent for a reason that the store knows, such as a web page in its place. */
  explainAbsence?(): string | undefined;
  /** Releases what the store holds open. */
  close?(): Promise<void>;
}

/** How an object is put. */
export interface PutOptions extends StoreOptions {
  /** Fails with `CONFLICT` where the object exists. */
  readonly ifAbsent?: boolean;
  /** Fails with `CONFLICT` unless the object has this version. */
  readonly ifVersion?: string;
  /** Durable when resolved (default true, where the store can). */
  readonly durable?: boolean;
  /** It will be read again soon, and then deleted (default false): a store may keep it where reading is fastest. */
  readonly temporary?: boolean;
  /**
   * The maker never writes into a piece that it handed over (default false). The store may then ask for the next
   * pieces while it still writes earlier ones; without it, big pieces are written before the next is asked for.
   */
  readonly stablePieces?: boolean;
}

/** Bytes to put: at once, or piece by piece; a piece may be used again by its maker once the next is asked for. */
export type PutSource = Uint8Array | AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

/** Memory of a store for the pieces of one object. */
export interface PieceRooms {
  /**
   * Memory for the next piece, of at least `length` bytes; undefined where there is none just now. A piece that begins where
   * its room does is not copied. The room is the store's again when that piece is handed over, or another room is taken.
   */
  take(length: number): Uint8Array<ArrayBuffer> | undefined;
}

/** A source that can make its pieces in the store's memory. */
export interface RoomySource extends AsyncIterable<Uint8Array> {
  /** Has the pieces that are yet to be made put into these rooms, as far as they fit. */
  useRooms(rooms: PieceRooms): void;
}

/** An object that is written, durable where it is to be, and that no reader sees yet. Either member ends it. */
export interface Draft {
  /** Gives it its name; throws what `put` throws, and the draft is gone then. */
  publish(): Promise<ObjectInfo>;
  /** Removes it. */
  discard(): Promise<void>;
}

/** What writing needs. Members with `?` are capabilities that a store may lack. */
export interface WritableStore extends ReadableStore {
  /** Whole or not at all: a reader sees the old object or the new one, also after a crash. */
  put(key: string, source: PutSource, options?: PutOptions): Promise<ObjectInfo>;
  /** Deletes an object, or a folder without entries; no error where there is none, a folder with entries stays. */
  delete(key: string, options?: StoreOptions): Promise<void>;
  /** Atomic; replaces the target, unless that is a folder with entries (`CONFLICT`). Keys name objects or folders. */
  rename?(from: string, to: string, options?: StoreOptions): Promise<void>;
  /**
   * Makes objects and their folder entries durable, and what was deleted; without keys, that alone. Once it failed because
   * the system could not write, it fails from then on (`IO`), and so does what is to be durable: systems tell a lost write only once.
   */
  sync?(keys: readonly string[], options?: StoreOptions): Promise<void>;
  /** A second name for the same bytes; `CONFLICT` where `to` exists. */
  link?(from: string, to: string, kind: "hard" | "symbolic" | "copy"): Promise<void>;
  /** Writes into an existing object in place, extending it where needed. Not atomic. */
  writeRange?(key: string, offset: number, bytes: Uint8Array, options?: StoreOptions): Promise<void>;
  /**
   * Removes what interrupted puts left directly in a folder (listings hide it). Only for who holds the archive's
   * lock: the puts of others that are still under way would fail.
   */
  removeLeftovers?(folder: string, options?: StoreOptions): Promise<void>;
}

/** True where the store can write. */
export function isWritable(store: ReadableStore): store is WritableStore {
  return "put" in store && typeof (store as Partial<WritableStore>).put === "function";
}
