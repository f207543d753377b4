/**
 * The reading half of the file-system store.
 *
 * Knows how keys become open files; must not know how files are written.
 */

import * as fs from "node:fs";
import { availableParallelism, hostname } from "node:os";
import { checkOptionNames } from "../../bytes/arrays.ts";
import { SuperchunkError } from "../../errors.ts";
import {
  checkCount,
  checkFolder,
  checkKey,
  checkRange,
  type ResolvedRange,
  resolveRange,
} from "../../store/key.ts";
import { pauseIfDue } from "../../store/pool.ts";
import type {
  ByteRange,
  ListEntry,
  ListOptions,
  ObjectHead,
  ObjectInfo,
  ReadableStore,
  StoreOptions,
} from "../../store/types.ts";
import { NO_FILE, WorkerPool } from "../threads/worker-pool.ts";
import { Folders, joinPath } from "./fs-folders.ts";
import {
  allocateTarget,
  cutAtEnd,
  describeFile,
  explainError,
  explaining,
  type Handle,
  Handles,
  isAbsence,
  lstat,
  lstatIfThere,
  type NotAFile,
  notAFile,
  readFully,
  readFullySync,
  systemCode,
} from "./fs-handles.ts";
import { isTemporary } from "./fs-write.ts";
import { type HeadJob, type HeadReply, readHeads } from "./head-reads.ts";

/**
 * Names that Windows refuses, or takes for something else: a colon names a stream of another file, `CON` and its like are devices, with
 * any extension, and a dot or a space at the end is dropped.
 */
const NOT_ON_WINDOWS =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is refused
  /[:*?"<>|\x01-\x1f]|(?:^|\/)(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])[ .]*(?:\.|\/|$)|[ .](?:\/|$)/i;
const NAMES_ON_WINDOWS =
  'Windows allows none of : * ? " < > | and control characters in names, no dot or space at their end, and no names of devices, such as CON and NUL; give it another name, or use another system';

/** Options of a `FileStore`. */
export interface FileStoreOptions {
  /** Files kept open for reading, from 0; default 64. Windows, which refuses to replace open files, keeps none. */
  readonly maxOpenFiles?: number;
  /**
   * Writes long files past the page cache if the file system allows that: faster, but a read soon after the write goes to the disk. Default
   * true, unless the environment variable SUPERCHUNK_DIRECT is `0`. Linux only.
   */
  readonly directWrites?: boolean;
  /**
   * 16 hexadecimal digits for the names of temporary files, random by default. They identify the files that a dead writer left. With a
   * mark, the store puts each object only once at a time.
   */
  readonly mark?: string | undefined;
}

/** A folder as a read-only store; see `FileStore` for its guarantees. */
export class FolderReader implements ReadableStore {
  /** The folders below the root, and what is durable in them. */
  readonly folders: Folders;
  protected readonly handles: Handles;
  /** Files whose beginnings were requested. */
  #headsAsked = 0;

  constructor(root: string, options: FileStoreOptions) {
    checkOptionNames(options, "directWrites mark maxOpenFiles");
    const limit = options.maxOpenFiles ?? 64;
    if (root === "" || root.includes("\0"))
      throw new SuperchunkError("BAD_ARGUMENT", "the root of a file store must be the path of a folder", {
        found: root,
      });
    checkCount(limit, "maxOpenFiles", root);
    this.folders = new Folders(root);
    this.handles = new Handles(limit);
  }

  get root(): string {
    return this.folders.root;
  }

  describe(key: string): string {
    return this.folders.describe(key);
  }

  async get(key: string, options?: StoreOptions): Promise<Uint8Array | undefined> {
    return this.#read(key, options, ({ size }) => ({ offset: 0, length: size }));
  }

  async getRange(key: string, range: ByteRange, options?: StoreOptions): Promise<Uint8Array | undefined> {
    const path = this.describe(key);
    checkRange(range, path); // also if the object does not exist
    return this.#read(key, options, ({ size }) => resolveRange(range, size, path));
  }

  async stat(key: string, options?: StoreOptions): Promise<ObjectInfo | undefined> {
    options?.signal?.throwIfAborted();
    return this.explain(key, "looking at it", false, () => this.describeObject(key));
  }

  async isFolder(key: string, options?: StoreOptions): Promise<boolean> {
    options?.signal?.throwIfAborted();
    return this.explain(key, "looking at it", false, () => {
      const path = this.realPath(key);
      return path !== undefined && lstat(path)?.isDirectory() === true;
    });
  }

  async identify(folder: string): Promise<readonly string[]> {
    const path = this.folders.find(folder);
    if (path === undefined) return [];
    // Disks use the same inodes, and machines number their devices differently: the time that it was made tells disks apart.
    const { ino, birthtimeNs } = fs.lstatSync(path, { bigint: true });
    return [`inode ${ino}, made ${birthtimeNs}`, `${hostname()}:${fs.realpathSync(path)}`];
  }

  async *list(folder: string, options?: ListOptions): AsyncIterable<ListEntry> {
    this.checkFolder(folder);
    try {
      options?.signal?.throwIfAborted();
      const path = this.folders.find(folder);
      if (path === undefined) return;
      let hasOthers = false;
      for await (const entry of entriesOf(path)) {
        options?.signal?.throwIfAborted();
        if (entry.name.includes(REPLACEMENT)) {
          hasOthers = true;
          continue;
        }
        const kind = this.#classify(entry, joinPath(path, entry.name));
        if (kind === undefined) continue;
        if (kind === "folder" || options?.sizes !== true) yield { name: entry.name, kind };
        else {
          const size = fs.statSync(joinPath(path, entry.name), { throwIfNoEntry: false })?.size;
          yield { name: entry.name, kind, ...(size === undefined ? {} : { size }) };
        }
      }
      if (hasOthers) yield* this.#listBytes(path);
    } catch (error) {
      if (isAbsence(error)) return; // removed meanwhile
      throw explainError(error, this.describe(folder), "listing the folder", false);
    }
  }

  async readInto(
    key: string,
    offset: number,
    target: Uint8Array,
    options?: StoreOptions,
  ): Promise<number | undefined> {
    checkCount(offset, "offset", key);
    options?.signal?.throwIfAborted();
    const handle = await this.#acquireSoon(key);
    if (handle === undefined) return undefined;
    try {
      return await readFully(handle.fd, offset, cutAtEnd(target, handle, offset), options?.signal);
    } catch (error) {
      throw explainError(error, this.describe(key), "reading", false);
    } finally {
      this.handles.release(handle);
    }
  }

  readIntoSync(key: string, offset: number, target: Uint8Array): number | undefined {
    checkCount(offset, "offset", key);
    const handle = this.#acquireNow(key);
    if (handle === undefined) return undefined;
    try {
      return readFullySync(handle.fd, offset, cutAtEnd(target, handle, offset));
    } catch (error) {
      throw explainError(error, this.describe(key), "reading", false);
    } finally {
      this.handles.release(handle);
    }
  }

  async getHeads(
    keys: readonly string[],
    length: number,
    options?: StoreOptions,
  ): Promise<readonly (ObjectHead | undefined)[]> {
    checkCount(length, "length", keys[0] ?? "");
    options?.signal?.throwIfAborted();
    const job = { paths: keys.map((key) => this.#locateNow(key)), length };
    this.#headsAsked += keys.length;
    const threads = this.#headsAsked > FEW ? await startThreads() : undefined;
    const found = threads === undefined ? readHeads(job) : await threads.run(job, []);
    options?.signal?.throwIfAborted();
    for (const [i, key] of keys.entries()) {
      if (found[i] !== undefined) continue;
      // A link, a missing file, or one that cannot be read: the methods for single objects find out which.
      const info = await this.stat(key, options);
      const bytes =
        length === 0 ? new Uint8Array(0) : await this.getRange(key, { offset: 0, length }, options);
      found[i] = info && bytes && { bytes, info };
    }
    return found;
  }

  /** Closes the files kept open, and removes folders that were made for nothing. The store stays usable. */
  async close(): Promise<void> {
    this.handles.dropAll();
    this.folders.removeUnused();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Size and version of the file of a key; undefined if there is none. */
  protected describeObject(key: string): ObjectInfo | undefined {
    this.checkKey(key);
    const path = this.folders.locate(key);
    let info = path === undefined ? undefined : lstatIfThere(path);
    if (path === undefined || info === undefined) return undefined;
    const isLink = info.isSymbolicLink();
    if (isLink) {
      const real = this.folders.follow(path, key);
      info = real === undefined ? undefined : lstatIfThere(real);
    }
    if (info === undefined || info.isDirectory()) return undefined;
    if (!info.isFile()) throw notAFile(path);
    return isLink ? { ...describeFile(info), isLink } : describeFile(info);
  }

  /** The real path of a key, following a link in its last part; undefined if it does not exist. */
  protected realPath(key: string): string | undefined {
    this.checkKey(key);
    const path = this.folders.locate(key);
    const info = path === undefined ? undefined : lstat(path);
    if (path === undefined || info === undefined) return undefined;
    return info.isSymbolicLink() ? this.folders.follow(path, key) : path;
  }

  /** Refuses invalid keys, on Windows also those that it would take for something else. */
  protected checkKey(key: string): void {
    checkKey(key);
    if (process.platform === "win32" && NOT_ON_WINDOWS.test(key))
      throw new SuperchunkError("UNSAFE_PATH", NAMES_ON_WINDOWS, { path: this.describe(key), found: key });
  }

  /** The same for a folder; `""` is the root. */
  protected checkFolder(folder: string): void {
    checkFolder(folder);
    if (folder !== "") this.checkKey(folder);
  }

  /** Runs an action, and converts a system failure to an error that names the key's path. */
  protected explain<T>(key: string, doing: string, writing: boolean, act: () => T | Promise<T>): Promise<T> {
    return explaining(this.describe(key), doing, writing, act);
  }

  /** The path of a key in its real folder; undefined if the folder does not exist. */
  #locateNow(key: string): string | undefined {
    this.checkKey(key);
    try {
      return this.folders.locate(key);
    } catch (error) {
      throw explainError(error, this.describe(key), "looking at it", false);
    }
  }

  /** Opens the file of a key, checking it once per turn; undefined if there is none. */
  #acquireNow(key: string): Handle | undefined {
    this.checkKey(key);
    try {
      const path = this.folders.locate(key);
      const opened = path === undefined ? "absent" : this.handles.acquire(path, true);
      if (path === undefined || opened !== "link") return this.#accept(opened, key);
      const real = this.folders.follow(path, key);
      return real === undefined ? undefined : this.#accept(this.handles.acquire(real, true), key);
    } catch (error) {
      throw explainError(error, this.describe(key), "opening", false);
    }
  }

  /** The same, but waits if too many files are open. */
  async #acquireSoon(key: string): Promise<Handle | undefined> {
    this.checkKey(key);
    try {
      const path = this.folders.locate(key);
      const opened = path === undefined ? "absent" : await this.handles.acquireSoon(path);
      if (path === undefined || opened !== "link") return this.#accept(opened, key);
      const real = this.folders.follow(path, key);
      return real === undefined ? undefined : this.#accept(await this.handles.acquireSoon(real), key);
    } catch (error) {
      throw explainError(error, this.describe(key), "opening", false);
    }
  }

  #accept(opened: Handle | NotAFile, key: string): Handle | undefined {
    if (opened === "absent") return undefined;
    if (opened !== "link") return opened;
    throw new SuperchunkError("UNSAFE_PATH", "a symbolic link changed while it was followed", {
      path: this.describe(key),
    });
  }

  async #read(
    key: string,
    options: StoreOptions | undefined,
    choose: (handle: Handle) => ResolvedRange,
  ): Promise<Uint8Array | undefined> {
    options?.signal?.throwIfAborted();
    const handle = await this.#acquireSoon(key);
    if (handle === undefined) return undefined;
    try {
      const { offset, length } = choose(handle);
      const target = this.#allocate(key, length);
      const got = await readFully(handle.fd, offset, target, options?.signal);
      return got === length ? target : target.slice(0, got); // the file was truncated meanwhile
    } catch (error) {
      throw explainError(error, this.describe(key), "reading", false);
    } finally {
      this.handles.release(handle);
    }
  }

  #allocate(key: string, length: number): Uint8Array {
    try {
      return allocateTarget(length);
    } catch (error) {
      throw new SuperchunkError(
        "LIMIT",
        `${length} bytes do not fit into memory at once; read ranges of it`,
        { path: this.describe(key), found: length, cause: error },
      );
    }
  }

  /**
   * The entries whose names may not be UTF-8. Each invalid byte becomes half a surrogate pair, so that different names stay
   * different and no key can have such a name.
   */
  *#listBytes(path: string): Generator<ListEntry> {
    for (const raw of fs.readdirSync(path, { encoding: "buffer" })) {
      const text = raw.toString();
      if (!text.includes(REPLACEMENT)) continue;
      const isText = Buffer.from(text).equals(raw);
      const at = Buffer.concat([Buffer.from(joinPath(path, "")), raw]);
      const info = fs.statSync(at, { throwIfNoEntry: false }) ?? fs.lstatSync(at, { throwIfNoEntry: false });
      if (info !== undefined && !(isText && isTemporary(text)))
        yield { name: isText ? text : escapeBytes(raw), kind: info.isDirectory() ? "folder" : "object" };
    }
  }

  /**
   * The kind of a folder entry; undefined for temporaries. Entries that cannot be read (a broken link, a link out of the root
   * or in a loop, a pipe, a socket, a device) are listed too; otherwise they would look as if they had never been stored.
   */
  #classify(entry: fs.Dirent, path: string): ListEntry["kind"] | undefined {
    if (entry.isFile()) return isTemporary(entry.name) ? undefined : "object";
    if (entry.isDirectory()) return "folder";
    if (!entry.isSymbolicLink()) return "object";
    try {
      return fs.statSync(path, { throwIfNoEntry: false })?.isDirectory() === true ? "folder" : "object";
    } catch (error) {
      if (systemCode(error) === undefined) throw error;
      return "object";
    }
  }
}

/** Entries to read per synchronous call: for most folders another thread would take longer. */
const ENTRIES = 256;

/** The entries of a folder, in the system's order. */
async function* entriesOf(path: string): AsyncGenerator<fs.Dirent> {
  const folder = fs.opendirSync(path, { bufferSize: ENTRIES });
  try {
    for (let entry = folder.readSync(); entry !== null; entry = folder.readSync()) {
      yield entry;
      await pauseIfDue();
    }
  } finally {
    folder.closeSync();
  }
}

/** Node.js's replacement for bytes that are not UTF-8. A name may contain the character itself. */
const REPLACEMENT = "\ufffd";

/** A name that is not UTF-8 as text: U+DC80 to U+DCFF for each invalid byte, as in Python. */
function escapeBytes(name: Uint8Array): string {
  let text = "";
  for (let at = 0; at < name.length; ) {
    const length = [1, 2, 3, 4].find((count) => isText(name.subarray(at, at + count)));
    text +=
      length === undefined
        ? String.fromCharCode(0xdc00 + (name[at] as number))
        : Buffer.from(name.subarray(at, at + length)).toString();
    at += length ?? 1;
  }
  return text;
}

/** True for bytes that are complete UTF-8 characters. */
function isText(bytes: Uint8Array): boolean {
  return Buffer.from(Buffer.from(bytes).toString()).equals(bytes);
}

// Reads the beginnings of very many files in separate threads, so that several disk accesses wait at a time.
//
// Knows when threads pay off; must not know roots.

/** Files to check before threads are started: checking them takes about as long as the start. */
const FEW = 4096;
/** A disk answers several requests in parallel faster than one by one; more threads than this only take memory. */
const MAX_THREADS = 4;
/** The threads produce short-lived garbage; a larger heap would only add to the memory of the process. */
const LIMITS = { maxYoungGenerationSizeMb: 1, maxOldGenerationSizeMb: 32 };

let pool: WorkerPool<HeadJob, HeadReply> | undefined;

async function startThreads(): Promise<WorkerPool<HeadJob, HeadReply> | undefined> {
  const size = Math.min(MAX_THREADS, Math.max(2, availableParallelism()));
  const url = import.meta.url ? new URL("./head-worker.js", import.meta.url) : NO_FILE;
  pool ??= new WorkerPool<HeadJob, HeadReply>(size, url, LIMITS);
  return (await pool.start()) ? pool : undefined;
}
