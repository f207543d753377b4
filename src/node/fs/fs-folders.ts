/**
 * Folders under a root, none of which lies outside it.
 *
 * Knows symbolic links: one whose target stays under the root is followed, any other is refused. A folder is examined
 * once and remembered; against a process that exchanges folders for links while an archive is open, file permissions
 * are the defence. Must not know what the folders hold.
 */
import * as fs from "node:fs";
import { dirname, resolve, sep } from "node:path";
import { promisify } from "node:util";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { splitKey } from "../../store/key.ts";
import { runPooled } from "../../store/pool.ts";
import { explainError, isAbsence, systemCode } from "./fs-open.ts";

/** Folders remembered; beyond it the memory starts empty again. */
const MAX_REMEMBERED = 4096;

/** The folders under one root. */
export class Folders {
  /** Absolute path of the root as given; it may be a symbolic link, and need not exist yet. */
  readonly root: string;
  readonly durability: Durability = new Durability();
  /** Folder key to real path. */
  readonly #known = new Map<string, string>();
  /** Folders that got or lost an entry, which is not synced yet. */
  readonly #unsynced = new Set<string>();

  constructor(root: string) {
    this.root = resolve(root);
  }

  /** How messages name a key: its path. */
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
   * The real path behind a symbolic link at `path`, or undefined if the link itself is gone meanwhile.
   *
   * @throws UNSAFE_PATH if it leads out of the root, or in a circle; INCOMPLETE if it leads to nothing: what it
   * stood for is lost, and must not pass for what was never stored
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
   * The real path of a folder, made with its parents where missing. With `durable`, the new entries are synced;
   * without, they wait for {@link syncPending}.
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
    throw new SuperchunkError("CONFLICT", "a file is in the way of the folder", {
      path: this.describe(folder),
    });
  }

  /** Remembers that an entry of a folder is gone, for {@link syncPending}. `path`: the folder's real path. */
  noteRemoval(path: string): void {
    this.#unsynced.add(path);
  }

  /** Makes the entries of a folder durable, by its real path; where that fails, the next {@link syncPending} does it. */
  async sync(path: string): Promise<void> {
    try {
      await this.durability.syncFolder(path);
    } catch (error) {
      this.#unsynced.add(path);
      throw error;
    }
  }

  /** Makes durable which entries folders got, where they were made without it, and lost. */
  async syncPending(): Promise<void> {
    this.durability.assert();
    await runPooled(this.#unsynced, SYNC_WIDTH, async (path) => {
      try {
        await this.sync(path);
      } catch (error) {
        if (!isAbsence(error)) throw error; // of a folder that somebody removed nothing is left to be durable
      }
      this.#unsynced.delete(path);
    });
  }

  /** Forgets what is known: after a folder was renamed or removed. */
  forget(): void {
    this.#known.clear();
  }

  /** Forgets a folder that was removed: there is nothing of it to sync. */
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
      const real = realPath(this.root);
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

  /** Refuses a link to a folder that lies on the way to it: whoever walks through it comes back to it, without an end. */
  #assertAhead(folder: string, real: string): void {
    for (let above = folder; above !== ""; ) {
      above = splitKey(above).folder;
      if (this.find(above) !== real) continue;
      throw new SuperchunkError(
        "UNSAFE_PATH",
        `a symbolic link forms a loop, back to ${this.describe(above)}; name what is meant without it`,
        { path: this.describe(folder) },
      );
    }
  }

  async #makeRoot(path: string, durable: boolean): Promise<void> {
    const parent = dirname(path);
    if (parent === path || lstat(path) !== undefined) return;
    await this.#makeRoot(parent, durable);
    await this.#makeOne(path, parent, durable);
  }

  /** False if something is there already: another writer made it, or a file is in the way, so the caller looks. */
  async #makeOne(path: string, parent: string, durable: boolean): Promise<boolean> {
    try {
      fs.mkdirSync(path);
    } catch (error) {
      if (systemCode(error) !== "EEXIST") throw error;
      return false;
    }
    if (!durable) {
      this.#unsynced.add(parent);
      return true;
    }
    try {
      await this.sync(parent);
    } catch (error) {
      removeFolder(path); // found there the next time, it would pass for durable
      throw error;
    }
    return true;
  }
}

/** A folder's path with one more part. */
export function joinPath(folder: string, name: string): string {
  return folder.endsWith(sep) ? folder + name : folder + sep + name;
}

function removeFolder(path: string): void {
  try {
    fs.rmdirSync(path);
  } catch {
    // What kept from making it is the error to tell.
  }
}

/** What is at a path itself, links not followed; undefined if nothing is. */
export function lstat(path: string): fs.Stats | undefined {
  try {
    return fs.lstatSync(path, { throwIfNoEntry: false });
  } catch (error) {
    if (isAbsence(error)) return undefined;
    throw error;
  }
}

function realPath(path: string): string | undefined {
  try {
    return fs.realpathSync.native(path);
  } catch (error) {
    if (isAbsence(error)) return undefined;
    throw error;
  }
}

/** Files and folders synced at a time: as many as libuv has threads for by default. */
export const SYNC_WIDTH: number = 4;

// Bringing what was written to the disk, and what may be said of it afterwards.
//
// Systems tell a failed write-back once: a later sync of the same file or folder succeeds over what is lost. So where a sync of a
// folder failed, or of a file that has its name already, nothing more below the root is called durable. A new file that has no name
// yet is not meant: it is removed, and who tries again writes all of it. Must not know what is in files.

/** The system's own, for a new file that has no name yet; all others are synced by {@link Durability}. */
export const syncAll: (file: number) => Promise<void> = promisify(fs.fsync);
/** The same for the bytes alone: times need not be durable. */
export const syncBytes: (file: number) => Promise<void> = promisify(fs.fdatasync);

/** Opens a folder and nothing else, and waits for nothing. Windows has neither flag, and is not asked. */
const FOLDER = fs.constants.O_RDONLY | (fs.constants.O_DIRECTORY ?? 0) | (fs.constants.O_NONBLOCK ?? 0);

/** `details.field` of the error of a sync that failed. */
const FIELD = "sync";

/** True if an error says that something may be lost that was written before. */
function isLostWrite(error: unknown): error is SuperchunkError {
  return isSuperchunkError(error) && error.details.field === FIELD;
}

/** What below one root is durable. */
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

  /** Takes note of a sync that failed elsewhere, in another thread. Other errors are none of it. */
  note(error: unknown): void {
    if (isLostWrite(error)) this.#failure ??= error;
  }

  /**
   * Makes the entries of a folder durable. On Windows, which cannot sync a folder, it does nothing: there a crash of the
   * machine right after may lose the entry, never the old object.
   *
   * @throws IO, or NO_SPACE, where that failed, and IO from then on
   */
  async syncFolder(path: string): Promise<void> {
    this.assert();
    if (process.platform === "win32") return;
    // Only what waits for the disk leaves the thread.
    const folder = fs.openSync(path, FOLDER);
    try {
      await this.#sync(path, syncAll, folder, isUnknown);
    } finally {
      fs.closeSync(folder);
    }
  }

  /** The same for the bytes of an open file that has its name; `data`: its times need not be. */
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
      const told = explainError(error, path, "syncing", true);
      const { code, summary } = isSuperchunkError(told)
        ? told
        : { code: "IO" as const, summary: String(told) };
      this.#failure ??= lost(code, summary, path, error);
      throw this.#failure;
    }
    // What another sync was told meanwhile may be about these bytes as well.
    this.assert();
  }
}

/** Makes the entries of a folder durable at once, where the system can do that. */
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

/** Some network and FUSE file systems know no sync of folders, and say so with these two. */
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
