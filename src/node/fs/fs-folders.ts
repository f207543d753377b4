/**
 * Folders under a root, none of which is outside of it.
 *
 * Knows symbolic links: one whose target is under the root is followed, any other is refused. A folder is examined once and
 * remembered. Against a process that replaces folders by links while an archive is open, only file permissions protect. Must
 * not know what the folders hold.
 */
import * as fs from "node:fs";
import { dirname, resolve, sep } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { formatBytes } from "../../bytes/arrays.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { splitKey } from "../../store/key.ts";
import { rethrowAfter, runPooled } from "../../store/pool.ts";
import type { PutOptions } from "../../store/types.ts";
import { explainError, ifThere, isAbsence, lstat, statIfThere, systemCode } from "./fs-handles.ts";

/** Most folders to remember; then all are forgotten. */
const MAX_REMEMBERED = 4096;

export class Folders {
  /** Absolute path of the root as given; it may be a symbolic link, and need not exist yet. */
  readonly root: string;
  readonly durability: Durability = new Durability();
  /** Folder key to real path. */
  readonly #known = new Map<string, string>();
  /** Folders that got or lost an entry that is not synced yet. */
  readonly #unsynced = new Set<string>();
  /** The root and folders above it that were made here, outermost first. */
  #made: string[] = [];

  constructor(root: string) {
    this.root = resolve(root);
  }

  /** Name of a key in messages: its path. */
  describe(key: string): string {
    if (key === "") return this.root;
    return `${this.root}${this.root.endsWith(sep) ? "" : sep}${sep === "/" ? key : key.replaceAll("/", sep)}`;
  }

  /**
   * The real path of a folder, or undefined if there is none.
   *
   * @throws UNSAFE_PATH if a link on the way leads out of the root
   */
  find(folder: string): string | undefined {
    const known = this.#known.get(folder);
    if (known !== undefined) return known;
    const found = this.#examine(folder);
    if (found !== undefined) this.#remember(folder, found);
    return found;
  }

  #remember(folder: string, path: string): void {
    if (this.#known.size >= MAX_REMEMBERED) this.#known.clear();
    this.#known.set(folder, path);
  }

  /** The path of an object in its real folder, or undefined if the folder does not exist. The object need not exist. */
  locate(key: string): string | undefined {
    const { folder, name } = splitKey(key);
    const parent = this.find(folder);
    return parent === undefined ? undefined : joinPath(parent, name);
  }

  /**
   * The real path of the target of a symbolic link at `path`, or undefined if the link itself has been removed.
   *
   * @throws UNSAFE_PATH if the target is out of the root, or the link forms a loop; INCOMPLETE if the target does not exist:
   * it is lost, and must not look as if it had never been stored
   */
  follow(path: string, key: string): string | undefined {
    let real: string;
    try {
      real = fs.realpathSync.native(path);
    } catch (error) {
      if (isAbsence(error)) {
        if (lstat(path)?.isSymbolicLink() !== true) return undefined;
        throw this.#deadLink(path, key, error);
      }
      if (systemCode(error) !== "ELOOP") throw error;
      throw new SuperchunkError("UNSAFE_PATH", "symbolic links form a loop", {
        path: this.describe(key),
        cause: error,
      });
    }
    const root = this.find("");
    if (root !== undefined && (real === root || real.startsWith(root.endsWith(sep) ? root : root + sep)))
      return real;
    throw new SuperchunkError(
      "UNSAFE_PATH",
      `a symbolic link leads out of ${this.root}, to ${real}; open the archive where it really is, or copy it with its links resolved`,
      { path: this.describe(key), expected: `a path under ${root ?? this.root}`, found: real },
    );
  }

  /**
   * The real path of a folder, which is created with its parents if missing. With `durable`, the new entries are synced;
   * otherwise they wait for {@link syncPending}.
   */
  async make(folder: string, durable: boolean): Promise<string> {
    const known = this.#known.get(folder);
    if (known !== undefined) return known;
    if (folder === "") await this.#makeRoot(this.root, durable);
    else {
      const { folder: above, name } = splitKey(folder);
      const parent = await this.make(above, durable);
      const there = this.find(folder);
      if (there !== undefined) return there;
      const path = joinPath(parent, name);
      if (await this.#makeOne(path, parent, durable)) {
        this.#remember(folder, path);
        return path;
      }
    }
    const made = this.find(folder);
    if (made !== undefined) return made;
    throw notAFolder(this.describe(folder));
  }

  /** Notes a removed entry for {@link syncPending}. `path`: the folder's real path. */
  noteRemoval(path: string): void {
    this.#unsynced.add(path);
  }

  /** Makes the entries of a folder durable, by its real path. If that fails, the next {@link syncPending} tries again. */
  async sync(path: string): Promise<void> {
    await this.durability.syncFolder(path).catch(rethrowAfter(() => this.#unsynced.add(path)));
  }

  /** Makes durable all entries that folders got or lost without a sync. */
  async syncPending(): Promise<void> {
    this.durability.assert();
    await runPooled(this.#unsynced, SYNC_WIDTH, async (path) => {
      try {
        await this.sync(path);
      } catch (error) {
        if (!isAbsence(error)) throw error; // a removed folder needs no sync
      }
      this.#unsynced.delete(path);
    });
  }

  /** Forgets all folders, after one was renamed or removed. */
  forget(): void {
    this.#known.clear();
  }

  /** Forgets a removed folder, which needs no sync any more. */
  forgetRemoved(path: string): void {
    this.#unsynced.delete(path);
    this.forget();
  }

  #deadLink(path: string, key: string, cause: unknown): SuperchunkError {
    const target = fs.readlinkSync(path);
    return new SuperchunkError(
      "INCOMPLETE",
      `a symbolic link to ${target}, where nothing is; bring that file back, or remove the link`,
      { path: this.describe(key), expected: target, cause },
    );
  }

  #examine(folder: string): string | undefined {
    if (folder === "") {
      const real = ifThere(() => fs.realpathSync.native(this.root));
      return real !== undefined && fs.statSync(real).isDirectory() ? real : undefined;
    }
    const path = this.locate(folder);
    if (path === undefined) return undefined;
    const info = lstat(path);
    if (info?.isDirectory()) return path;
    if (!info?.isSymbolicLink()) return undefined;
    const real = this.follow(path, folder);
    if (real === undefined || !fs.statSync(real).isDirectory()) return undefined;
    this.#assertAhead(folder, real);
    return real;
  }

  /** Refuses a link to one of its own parent folders: walking through it would never end. */
  #assertAhead(folder: string, real: string): void {
    for (let above = folder; above !== ""; ) {
      above = splitKey(above).folder;
      if (this.find(above) !== real) continue;
      throw new SuperchunkError(
        "UNSAFE_PATH",
        `a symbolic link forms a loop, back to ${this.describe(above)}; give the path without it`,
        { path: this.describe(folder) },
      );
    }
  }

  async #makeRoot(path: string, durable: boolean): Promise<void> {
    const parent = dirname(path);
    if (parent === path || lstat(path) !== undefined) return;
    await this.#makeRoot(parent, durable);
    if (await this.#makeOne(path, parent, durable)) this.#made.push(path);
  }

  /** Removes the root, and folders above it, that were made here and are empty: what was to be written there was refused, or failed. */
  removeUnused(): void {
    for (const folder of this.#made.reverse()) removeFolder(folder);
    if (this.#made.length > 0) this.forget();
    this.#made = [];
  }

  /** As {@link makeFolder}. */
  async #makeOne(path: string, parent: string, durable: boolean): Promise<boolean> {
    if (!makeFolder(path)) return false;
    if (!durable) {
      this.#unsynced.add(parent);
      return true;
    }
    // If it stayed, the next call would take it for durable.
    await this.sync(parent).catch(rethrowAfter(() => removeFolder(path)));
    return true;
  }
}

/** Returns false if the path exists already: another writer created it, or a file is in the way; the caller checks which. */
export function makeFolder(path: string): boolean {
  try {
    fs.mkdirSync(path);
    return true;
  } catch (error) {
    if (systemCode(error) === "ENOTDIR") throw notAFolder(dirname(path));
    if (systemCode(error) !== "EEXIST") throw error;
    return false;
  }
}

/** The error for a path that has to be a folder, and is a file, or a link to where nothing is, as to a disk that is not mounted. */
export function notAFolder(path: string): SuperchunkError {
  const target = statIfThere(path) === undefined ? fs.readlinkSync(path) : undefined;
  const reason =
    target === undefined
      ? "this is a file, but a folder is needed; choose another path, or move the file away"
      : `a symbolic link to ${target}, where nothing is; bring that folder back, or choose another path`;
  const found = target === undefined ? "a file" : "a link";
  return new SuperchunkError("CONFLICT", reason, { path, expected: "a folder", found });
}

/** A folder's path with one more part. */
export function joinPath(folder: string, name: string): string {
  return folder.endsWith(sep) ? folder + name : folder + sep + name;
}

/** The part of a local path below a folder as a key. */
export function keyOf(path: string): string {
  return path.replaceAll(sep, "/");
}

/** Waits between tries to rename, in milliseconds: 630 together. */
const WAITS = [10, 20, 40, 80, 160, 320];

/**
 * Runs a rename. Windows refuses it while any program has one of the files open, and virus scanners and indexers open new files for a
 * moment. So it is tried again there.
 */
export async function renameWhenFree(rename: () => void | Promise<void>): Promise<void> {
  for (const wait of process.platform === "win32" ? WAITS : []) {
    try {
      return await rename();
    } catch (error) {
      if (!["EPERM", "EACCES", "EBUSY"].includes(systemCode(error) ?? "")) throw error;
    }
    await delay(wait);
  }
  return rename();
}

/** Removes a folder that was made for a file, unless it is used. */
export function removeFolder(path: string): void {
  try {
    fs.rmdirSync(path);
  } catch {
    // The reason why the file could not be created is the error to report.
  }
}

/** Does work that makes an archive in a folder. If it fails, removes the empty folders that it made, also those above. */
export async function orWithoutFolders<T>(path: string | undefined, work: () => Promise<T>): Promise<T> {
  const made = path === undefined ? [] : ["meta", "data"].map((name) => resolve(path, name));
  for (let folder = resolve(path ?? "/"); !fs.existsSync(folder); folder = dirname(folder)) made.push(folder);
  try {
    return await work();
  } catch (error) {
    for (const folder of made) removeFolder(folder);
    throw error;
  }
}

/** Files and folders to sync at a time: libuv's default number of threads. */
export const SYNC_WIDTH: number = 4;

// Makes written data durable, and keeps track of failures.
//
// Systems report a failed write-back only once: a later sync of the same file or folder succeeds although data are lost. So after a
// failed sync of a folder, or of a file that already has its name, nothing below the root is called durable any more. A new file
// without a name does not count: it is removed, and the next try writes all of it. Must not know what is in files.

/** The system's sync, for a new file that has no name yet. All others are synced by {@link Durability}. */
export const syncAll: (file: number) => Promise<void> = promisify(fs.fsync);
/** The same for the bytes alone, without times. */
export const syncBytes: (file: number) => Promise<void> = promisify(fs.fdatasync);

/** Opens only folders, and never blocks. Windows has neither flag, and is never asked to sync a folder. */
const FOLDER = fs.constants.O_RDONLY | (fs.constants.O_DIRECTORY ?? 0) | (fs.constants.O_NONBLOCK ?? 0);

/** `details.field` of the error of a failed sync. */
const FIELD = "sync";

/** True if an error means that earlier writes may be lost. */
function isLostWrite(error: unknown): error is SuperchunkError {
  return isSuperchunkError(error) && error.details.field === FIELD;
}

/** Tracks what is durable below one root. */
class Durability {
  #failure: SuperchunkError | undefined;

  /** Throws `IO` if an earlier sync failed. */
  assert(): void {
    if (this.#failure === undefined) return;
    const { path, found } = this.#failure.details;
    throw lost(
      "IO",
      `no write can be called durable any more, because an earlier sync failed (${String(found)})`,
      path,
      this.#failure,
    );
  }

  /** Notes a sync that failed in another thread. Ignores other errors. */
  note(error: unknown): void {
    if (isLostWrite(error)) this.#failure ??= error;
  }

  /**
   * Makes the entries of a folder durable. Does nothing on Windows, which cannot sync folders: a crash of the machine right
   * after may lose the entry, never the old object.
   *
   * @throws IO, or NO_SPACE, if that failed, and IO from then on
   */
  async syncFolder(path: string): Promise<void> {
    this.assert();
    if (process.platform === "win32") return;
    // Only calls that wait for the disk leave the thread.
    const folder = fs.openSync(path, FOLDER);
    try {
      await this.#sync(path, syncAll, folder, isUnknown);
    } finally {
      fs.closeSync(folder);
    }
  }

  /** The same for the bytes of an open file that has its name; with `data`, without its times. */
  async syncFile(path: string, file: number, data = false): Promise<void> {
    this.assert();
    await this.#sync(path, data ? syncBytes : syncAll, file, () => false);
  }

  async #sync(
    path: string,
    sync: (file: number) => Promise<void>,
    file: number,
    isHarmless: (error: unknown) => boolean,
  ): Promise<void> {
    try {
      await sync(file);
    } catch (error) {
      if (isHarmless(error)) return;
      const explained = explainError(error, path, "syncing", true);
      const { code, summary } = isSuperchunkError(explained)
        ? explained
        : { code: "IO" as const, summary: String(explained) };
      this.#failure ??= lost(code, summary, path, error);
      throw this.#failure;
    }
    // The system may have reported the loss of these bytes to another sync meanwhile.
    this.assert();
  }
}

/** Makes the entries of a folder durable synchronously, if the system can. */
export function syncFolderNow(path: string): void {
  if (process.platform === "win32") return;
  const folder = fs.openSync(path, FOLDER);
  try {
    fs.fsyncSync(folder);
  } catch (error) {
    if (!isUnknown(error)) throw error;
  } finally {
    fs.closeSync(folder);
  }
}

/** Some network and FUSE file systems cannot sync folders, and answer with one of these two codes. */
function isUnknown(error: unknown): boolean {
  return systemCode(error) === "EINVAL" || systemCode(error) === "ENOTSUP";
}

function lost(
  code: SuperchunkError["code"],
  what: string,
  path: string | undefined,
  cause: unknown,
): SuperchunkError {
  const found = isLostWrite(cause) ? cause.details.found : systemCode(cause);
  return new SuperchunkError(
    code,
    `${what}. What was written since the last flush may be lost, though it can still be read: the system reports this only once. Check the disk, mount it again, open the data again, run "superchunk verify", and write what was not flushed again`,
    { ...(path === undefined ? {} : { path }), field: FIELD, found, cause },
  );
}

/** Bytes of a file from which the free room is looked at. */
const WORTH_A_LOOK = 64 << 20;

/**
 * Throws the reason of an abort, or `LIMIT` if the disk has no room for a file of that size: an array without chunks may be a file that
 * takes years to write.
 */
export async function assertMayBegin(
  path: string,
  { signal, size = 0 }: Pick<PutOptions, "signal" | "size">,
): Promise<void> {
  signal?.throwIfAborted();
  const free = size < WORTH_A_LOOK ? undefined : await freeBytesAt(dirname(path));
  if (free === undefined || size <= free) return;
  throw new SuperchunkError(
    "LIMIT",
    `this file would have ${size} bytes (${formatBytes(size)}), but the disk has ${formatBytes(free)} free. Choose another disk, a part of the values, or a format that compresses them, such as Zarr`,
    { path, field: "size", expected: free, found: size },
  );
}

/** The free bytes of the file system where a folder is, or will be; undefined if that does not say. */
async function freeBytesAt(folder: string): Promise<number | undefined> {
  try {
    const { blocks, bavail, bsize } = await fs.promises.statfs(folder);
    // Some file systems over a network report nothing.
    return blocks === 0 ? undefined : bavail * bsize;
  } catch (error) {
    const above = dirname(folder);
    return isAbsence(error) && above !== folder ? freeBytesAt(above) : undefined;
  }
}
