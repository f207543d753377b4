/**
 * A folder of the file system as a store with every capability.
 *
 * Knows how its parts make up the store contract; must not know what the files hold.
 */
import * as fs from "node:fs";
import { dirname, relative } from "node:path";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { checkCount, splitKey } from "../../store/key.ts";
import { rethrowAfter, runPooled } from "../../store/pool.ts";
import { eachPiece, offerRooms, type PieceRooms } from "../../store/source.ts";
import type {
  DeleteOptions,
  Draft,
  LeftoverOptions,
  ObjectInfo,
  PutOptions,
  PutSource,
  StoreOptions,
  WritableStore,
} from "../../store/types.ts";
import { assertMayBegin, joinPath, renameWhenFree, SYNC_WIDTH, syncBytes } from "./fs-folders.ts";
import { copyPlain, isAbsence, isHandleShortage, lstat, openPlain, systemCode } from "./fs-handles.ts";
import { type FileStoreOptions, FolderReader } from "./fs-reader.ts";
import {
  assertVersion,
  DirectAccess,
  DirectWriter,
  draftFile,
  isTemporary,
  type Publication,
  STAGE,
  temporaryName,
  writeFully,
  writeIntoFile,
} from "./fs-write.ts";
import { type LockOptions, removeUnlessHeld, withLock } from "./lock.ts";

/** Mark of the name under which a writer claims an object. Listings hide such names. */
const CLAIM = "0".repeat(16);

/**
 * A folder as a store. The folder need not exist; the first put creates it.
 *
 * No operation leaves the root. A symbolic link is followed if its target stays under the root. It is refused with `UNSAFE_PATH` if it
 * leads elsewhere, or back to a folder on the way to it, and with `INCOMPLETE` if its target is gone. A pipe, a socket or a device is
 * refused with `UNSUPPORTED`. Lists name all of these, so that none looks as if it had never been stored. Reads see a file as it is at the
 * call: open handles are compared with the path each time. Durable means synced with its folder entries. Windows cannot sync folders, so a
 * crash right after a write may lose a new entry (never the old object); macOS also flushes the drive's cache. `ifAbsent` is exact, on
 * file systems without hard links (FAT, exFAT) only among writers that use this store, as `ifVersion` is. A delete is durable after a `sync` of
 * any keys, or of none. Once the sync of a folder, or of a file that has its name, has failed, every later `sync`, durable `put`, `rename`
 * and `link` of this store fails with `IO`: earlier writes may be lost, and no later sync would report that.
 */
export class FileStore extends FolderReader implements WritableStore {
  /** False if all files go through the system's page cache. */
  readonly directWrites: boolean;
  readonly #direct: DirectAccess;
  readonly #mark: string | undefined;

  constructor(root: string, options: FileStoreOptions = {}) {
    super(root, options);
    const { directWrites = process.env["SUPERCHUNK_DIRECT"] !== "0" } = options;
    this.directWrites = directWrites;
    this.#mark = options.mark;
    this.#direct = new DirectAccess(directWrites ? undefined : 0);
  }

  async put(key: string, source: PutSource, options: PutOptions = {}): Promise<ObjectInfo> {
    return (await this.draft(key, source, options)).publish();
  }

  /** A put in two steps: first the slow part; the draft then publishes the name. */
  async draft(key: string, source: PutSource, options: PutOptions = {}): Promise<Draft> {
    const { signal, durable = true } = options;
    // The scratch objects of long operations have such names: they are read again soon, and then deleted.
    const temporary = isTemporary(splitKey(key).name);
    return this.#draft(key, options, (file, path) =>
      writeSource(file, source, { path, durable, temporary, direct: this.#direct, signal }),
    );
  }

  async claim<T>(key: string, work: () => Promise<T>, options?: LockOptions): Promise<T> {
    const { folder, name } = splitKey(key);
    // Later puts find it, and sync only what is in it.
    const make = (): Promise<string> => this.folders.make(folder, true);
    const parent = await this.explain(folder, "creating the folder", true, make);
    return withLock(joinPath(parent, temporaryName(name, CLAIM)), this.describe(key), work, options);
  }

  /** Closes an object that is kept open for reading, before another thread replaces it. Windows refuses to replace open files. */
  async closeFile(key: string): Promise<void> {
    this.checkKey(key);
    await this.explain(key, "closing", true, () => {
      const path = this.folders.locate(key);
      if (path !== undefined) this.handles.drop(path);
    });
  }

  /** Removes the rest of a put by another thread that has ended, whose store had this mark. */
  async removeTemporary(key: string, mark: string): Promise<void> {
    this.checkKey(key);
    await this.explain(key, "removing what an interrupted write left", true, async () => {
      const { folder, name } = splitKey(key);
      const parent = this.folders.find(folder);
      if (parent !== undefined)
        await fs.promises.rm(joinPath(parent, temporaryName(name, mark)), { force: true });
    });
  }

  async delete(key: string, { ifVersion, signal }: DeleteOptions = {}): Promise<void> {
    this.checkKey(key);
    signal?.throwIfAborted();
    if (ifVersion === undefined) return this.#delete(key);
    await this.claim(key, async () => {
      assertVersion(this.describe(key), ifVersion, this.describeObject(key)?.version);
      await this.#delete(key);
    });
  }

  async #delete(key: string): Promise<void> {
    await this.explain(key, "deleting", true, async () => {
      const path = this.folders.locate(key);
      const info = path === undefined ? undefined : lstat(path);
      if (path === undefined || info === undefined) return;
      if (info.isDirectory()) return this.#deleteFolder(path);
      this.handles.drop(path);
      await fs.promises.rm(path, { force: true });
      this.folders.noteRemoval(dirname(path));
    });
  }

  async rename(from: string, to: string, options?: StoreOptions): Promise<void> {
    this.checkKey(from);
    this.checkKey(to);
    options?.signal?.throwIfAborted();
    const source = await this.explain(from, "looking at it", false, () => this.folders.locate(from));
    if (source === undefined || lstat(source) === undefined) throw this.#missing(from);
    await this.explain(to, `renaming ${this.describe(from)} to it`, true, async () => {
      const { folder, name } = splitKey(to);
      this.folders.durability.assert();
      const parent = await this.folders.make(folder, true);
      const target = joinPath(parent, name);
      this.handles.dropAll(); // all files under a folder move with it
      try {
        await renameWhenFree(() => fs.promises.rename(source, target));
      } finally {
        this.folders.forget();
      }
      await this.folders.sync(parent);
      const left = this.folders.find(splitKey(from).folder);
      if (left !== undefined && left !== parent) await this.folders.sync(left);
    });
  }

  async sync(keys: readonly string[], options?: StoreOptions): Promise<void> {
    const parents = new Set<string>();
    const addParent = async (key: string): Promise<void> => void parents.add(await this.#syncObject(key));
    await runPooled(keys, SYNC_WIDTH, addParent, options?.signal);
    await this.explain("", "syncing folders", true, async () => {
      await runPooled(parents, SYNC_WIDTH, (parent) => this.folders.sync(parent));
      await this.folders.syncPending();
    });
  }

  async link(from: string, to: string, kind: "hard" | "symbolic" | "copy"): Promise<void> {
    this.checkKey(to);
    const source = this.realPath(from);
    if (source === undefined) throw this.#missing(from);
    if (kind === "copy") {
      // Copies over the empty temporary, sharing blocks if the file system can.
      const draft = await this.#draft(to, { ifAbsent: true }, (_file, temporary) =>
        copyPlain(source, temporary, fs.constants.COPYFILE_FICLONE),
      );
      await draft.publish();
      return;
    }
    await this.explain(to, `linking it to ${source}`, true, async () => {
      const { folder, name } = splitKey(to);
      this.folders.durability.assert();
      const parent = await this.folders.make(folder, true);
      const target = joinPath(parent, name);
      if (kind === "hard") await fs.promises.link(source, target);
      else await fs.promises.symlink(relative(parent, source), target);
      await this.folders.sync(parent);
    });
  }

  async writeRange(key: string, offset: number, bytes: Uint8Array, options?: StoreOptions): Promise<void> {
    checkCount(offset, "offset", key);
    options?.signal?.throwIfAborted();
    const path = this.realPath(key);
    if (path === undefined) throw this.#missing(key);
    await this.explain(key, "writing into it", true, async () => {
      const file = this.#openExisting(path, fs.constants.O_WRONLY);
      try {
        await writeIntoFile(file, bytes, offset, options?.signal);
      } finally {
        fs.closeSync(file);
      }
    });
  }

  async removeLeftovers(folder: string, options?: LeftoverOptions): Promise<void> {
    this.checkFolder(folder);
    options?.signal?.throwIfAborted();
    await this.explain(folder, "removing leftovers of interrupted writes", true, async () => {
      const path = this.folders.find(folder);
      if (path === undefined) return;
      try {
        for await (const { name } of await fs.promises.opendir(path))
          if (isTemporary(name, options?.names)) await removeUnlessHeld(joinPath(path, name));
      } catch (error) {
        if (!isAbsence(error)) throw error; // another process has removed the folder since
      }
    });
  }

  async #draft(key: string, options: PutOptions, write: Publication["write"]): Promise<Draft> {
    this.checkKey(key);
    await assertMayBegin(this.describe(key), options);
    const { durable = true, ifAbsent = false, ifVersion, signal } = options;
    const { folder, name } = splitKey(key);
    let hasBegun = false;
    const begin = async (): Promise<Draft> =>
      draftFile({
        folder: await this.folders.make(folder, durable),
        name,
        shown: this.describe(key),
        durableIn: durable ? this.folders : undefined,
        ifAbsent: ifAbsent ? (work) => this.claim(key, work) : undefined,
        ifVersion,
        signal,
        mark: this.#mark,
        write: (file, path) => {
          hasBegun = true;
          return write(file, path);
        },
        findVersion: () => this.describeObject(key)?.version,
        beforeReplace: (path) => this.handles.drop(path),
        freeHandles: () => this.handles.dropAll(),
      });
    const draft = await this.explain(key, "writing", true, async () => {
      try {
        return await begin();
      } catch (error) {
        if (hasBegun || !isAbsence(error)) throw error;
        // A remembered folder was removed. It is created again, unless the whole root was removed.
        this.folders.forget();
        if (this.folders.find("") === undefined) throw error;
        return begin();
      }
    });
    const publish = (): Promise<ObjectInfo> => this.explain(key, "writing", true, draft.publish);
    return {
      publish: () => {
        if (ifVersion === undefined) return publish();
        // No file system can compare and swap, so only one writer at a time compares the version and renames.
        return this.claim(key, publish).catch(rethrowAfter(() => draft.discard()));
      },
      discard: () => this.explain(key, "removing what was not published", true, draft.discard),
    };
  }

  async #deleteFolder(path: string): Promise<void> {
    try {
      await fs.promises.rmdir(path);
    } catch (error) {
      const code = systemCode(error);
      if (code !== "ENOTEMPTY" && code !== "EEXIST" && code !== "ENOENT") throw error; // EEXIST: Solaris
      if (code !== "ENOENT") return this.folders.forget();
    }
    this.folders.forgetRemoved(path);
    this.folders.noteRemoval(dirname(path));
  }

  /** Makes an object's bytes durable. Resolves with the folder of its entry. */
  async #syncObject(key: string): Promise<string> {
    this.checkKey(key);
    return this.explain(key, "syncing", true, async () => {
      let path = this.folders.locate(key);
      let file: number;
      try {
        if (path === undefined) throw this.#missing(key);
        file = this.#openToSync(path);
      } catch (error) {
        if (!isSuperchunkError(error, "UNSAFE_PATH") && !isAbsence(error)) throw error;
        path = this.realPath(key);
        if (path === undefined) throw this.#missing(key);
        file = this.#openToSync(path);
      }
      try {
        await this.folders.durability.syncFile(path, file);
      } finally {
        fs.closeSync(file);
      }
      return dirname(path);
    });
  }

  /** Windows can only sync a file opened for writing; other systems can also sync a file without write permission. */
  #openToSync(path: string): number {
    return this.#openExisting(
      path,
      process.platform === "win32" ? fs.constants.O_RDWR : fs.constants.O_RDONLY,
    );
  }

  #openExisting(path: string, access: number): number {
    try {
      return openPlain(path, access);
    } catch (error) {
      if (!isHandleShortage(error)) throw error;
      this.handles.dropAll();
      return openPlain(path, access);
    }
  }

  #missing(key: string): SuperchunkError {
    return new SuperchunkError("NOT_FOUND", "the object does not exist", { path: this.describe(key) });
  }
}

// Writes pieces to an open file, one after the other.
//
// Knows short writes, gathering and write-behind; must not know names.

/** Small pieces are gathered to at most this many bytes before they are written. */
const GATHER = 1 << 20;
/** A piece of at least this size is written without gathering, if its producer cannot reuse it. */
const BIG = 128 << 10;
/** Most bytes of such pieces that may wait to be written. */
const MAX_PENDING = 16 << 20;
/**
 * After this many bytes, a sync is started in parallel with the writing, so that the final sync has little left to do.
 * Measured on 512 MiB: 10 to 15 % less time than with one sync at the end.
 */
const SYNC_EVERY = 32 << 20;

export interface FileWriteOptions {
  /** Path of the file. */
  readonly path: string;
  /** The caller will sync the file, so long files are synced on the way. */
  readonly durable: boolean;
  /** The file is read again soon and then deleted, so it should stay in the cache. */
  readonly temporary: boolean;
  readonly direct: DirectAccess;
  readonly signal: AbortSignal | undefined;
}

/** Writes the pieces of a file. */
interface SourceWriter {
  /** Bytes written so far. */
  readonly size: number;
  /** Memory for pieces that then need not be copied. */
  readonly rooms?: PieceRooms;
  /** Once this has returned, or what it returned resolves, the producer may reuse the piece. */
  write(piece: Uint8Array): Promise<void> | undefined;
  /** Writes the rest. */
  finish(): Promise<void>;
  /** Resolves when no write is under way, also after a failure. */
  settle(): Promise<void>;
}

/** Writes a whole source from the start of a file. Resolves with its size. No write is under way when the promise settles. */
async function writeSource(file: number, source: PutSource, options: FileWriteOptions): Promise<number> {
  const { signal } = options;
  const writer = chooseWriter(file, source, options);
  if (writer.rooms !== undefined) offerRooms(source, writer.rooms);
  try {
    await eachPiece(source, (piece) => writer.write(piece), signal);
    await writer.finish();
  } catch (error) {
    await writer.settle().catch(() => undefined); // the file must not be closed during a write
    throw error;
  }
  await writer.settle();
  signal?.throwIfAborted();
  return writer.size;
}

function chooseWriter(file: number, source: PutSource, options: FileWriteOptions): SourceWriter {
  const { path, durable, temporary, direct } = options;
  const length = knownLength(source);
  return length >= STAGE && !temporary && direct.isWorthTrying
    ? new DirectWriter(file, path, direct)
    : new PieceWriter(file, length, durable);
}

/** Bytes of a source; infinite if unknown before reading. */
function knownLength(source: PutSource): number {
  if (source instanceof Uint8Array) return source.length;
  if (!Array.isArray(source)) return Number.POSITIVE_INFINITY;
  return source.reduce((sum, piece: Uint8Array) => sum + piece.length, 0);
}

/** The queue of writes to one file: each begins after the previous one. */
class PieceWriter implements SourceWriter {
  size = 0;
  readonly #file: number;
  /** Size of the buffer for gathered bytes. */
  readonly #room: number;
  /** The pieces are a list, and none is reused. */
  readonly #isList: boolean;
  readonly #durable: boolean;
  /** The gathered bytes; a second buffer is filled while the first is written. */
  #gathered: Uint8Array | undefined;
  #spare: Uint8Array | undefined;
  #filled = 0;
  #tail: Promise<void> = Promise.resolve();
  #pending = 0;
  /** The sync in parallel with the writing. */
  #syncing: Promise<void> | undefined;
  #unsynced = 0;
  #failure: { readonly error: unknown } | undefined;

  /** `length`: total bytes of all pieces, infinite if unknown. */
  constructor(file: number, length: number, durable: boolean) {
    this.#file = file;
    this.#room = Math.min(GATHER, length);
    this.#isList = Number.isFinite(length);
    this.#durable = durable;
  }

  async write(piece: Uint8Array): Promise<void> {
    this.#throwFailure();
    if (piece.length < BIG || !this.#isList) return this.#gather(piece);
    await this.#flush();
    this.#enqueue(piece);
    if (this.#pending > MAX_PENDING) await this.#tail;
    this.#throwFailure();
  }

  async finish(): Promise<void> {
    await this.#flush();
    await this.settle();
    this.#throwFailure();
  }

  /** Waits for everything that was started, also failed writes. */
  async settle(): Promise<void> {
    await this.#tail;
    await this.#syncing;
  }

  #throwFailure(): void {
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  async #gather(piece: Uint8Array): Promise<void> {
    for (let at = 0; at < piece.length; ) {
      if (this.#filled === this.#room) await this.#flush();
      const part = piece.subarray(at, at + this.#room - this.#filled);
      this.#gathered ??= new Uint8Array(this.#room);
      this.#gathered.set(part, this.#filled);
      this.#filled += part.length;
      at += part.length;
    }
  }

  async #flush(): Promise<void> {
    if (this.#gathered === undefined || this.#filled === 0) return;
    const full = this.#gathered;
    await this.#tail; // so that the spare buffer is free
    this.#enqueue(full.subarray(0, this.#filled));
    this.#gathered = this.#spare;
    this.#spare = full;
    this.#filled = 0;
  }

  #enqueue(bytes: Uint8Array): void {
    const position = this.size;
    this.size += bytes.length;
    this.#pending += bytes.length;
    this.#tail = this.#tail.then(async () => {
      try {
        if (this.#failure === undefined) await writeFully(this.#file, bytes, position);
      } catch (error) {
        this.#failure ??= { error };
      }
      this.#pending -= bytes.length;
      this.#unsynced += bytes.length;
      if (this.#durable && this.#unsynced >= SYNC_EVERY && this.#syncing === undefined) this.#startSync();
    });
  }

  #startSync(): void {
    this.#unsynced = 0;
    this.#syncing = syncBytes(this.#file).then(
      () => {
        this.#syncing = undefined;
      },
      (error: unknown) => {
        // The system reports a failed write-back only once; a later sync would succeed although bytes are lost.
        this.#failure ??= { error };
      },
    );
  }
}
