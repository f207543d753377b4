/**
 * Folders under a root, none of which lies outside it.
 *
 * Knows symbolic links: one whose target stays under the root is followed, any other is refused. A folder is examined
 * once and remembered; against a process that exchanges folders for links while an archive is open, file permissions
 * are the defence. Must not know what the folders hold.
 */
import * as fs from "node:fs";
import { dirname, resolve, sep } from "node:path";
import { SuperchunkError } from "../../errors.ts";
import { splitKey } from "../../store/key.ts";
import { isAbsence, systemCode } from "./fs-errors.ts";
import { Durability } from "./fs-sync.ts";

/** Folders remembered; past it the memory starts anew. */
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
   * The real path of a folder, or undefined where there is none.
   *
   * @throws UNSAFE_PATH where a link on the way leads out of the root
   */
  find(folder: string): string | undefined {
    const known = this.#known.get(folder);
    if (known !== undefined) return known;
    const found = this.#examine(folder);
    if (found === undefined) return undefined;
    if (this.#known.size >= MAX_REMEMBERED) this.#known.clear();
    this.#known.set(folder, found);
    return found;
  }

  /** The path of an object in its real folder, or undefined where there is no such folder. The object need not exist. */
  locate(key: string): string | undefined {
    const { folder, name } = splitKey(key);
    const parent = this.find(folder);
    return parent === undefined ? undefined : joinPath(parent, name);
  }

  /**
   * The real path behind a symbolic link at `path`, or undefined where the link itself is gone meanwhile.
   *
   * @throws UNSAFE_PATH where it leads out of the root, or in a circle; INCOMPLETE where it leads to nothing: what it
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
      throw new SuperchunkError("UNSAFE_PATH", "symbolic links lead in a circle", {
        path: this.describe(key),
        cause: error,
      });
    }
    const root = this.find("");
    if (root !== undefined && (real === root || real.startsWith(root.endsWith(sep) ? root : root + sep)))
      return real;
    throw new SuperchunkError(
      "UNSAFE_PATH",
      `a symbolic link leads out of ${this.root}, to ${real}; open the archive where it really lies, or copy it with its links resolved`,
      { path: this.describe(key), expected: `a path under ${root ?? this.root}`, found: real },
    );
  }

  /**
   * The real path of a folder, made with its parents where missing. With `durable`, the new entries are synced;
   * without, they wait for {@link syncPending}.
   */
  async make(folder: string, durable: boolean): Promise<string> {
    const known = this.find(folder);
    if (known !== undefined) return known;
    let path: string;
    if (folder === "") {
      path = this.root;
      await this.#makeRoot(path, durable);
    } else {
      const { folder: above, name } = splitKey(folder);
      const parent = await this.make(above, durable);
      path = joinPath(parent, name);
      await this.#makeOne(path, parent, durable);
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
    for (const path of this.#unsynced) {
      try {
        await this.sync(path);
      } catch (error) {
        if (!isAbsence(error)) throw error; // of a folder that somebody removed nothing is left to be durable
      }
      this.#unsynced.delete(path);
    }
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
        `a symbolic link leads in a circle, back to ${this.describe(above)}; name what is meant without it`,
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

  async #makeOne(path: string, parent: string, durable: boolean): Promise<void> {
    try {
      fs.mkdirSync(path);
    } catch (error) {
      if (systemCode(error) !== "EEXIST") throw error;
      return; // another writer made it, or a file is in the way: the caller looks
    }
    if (!durable) {
      this.#unsynced.add(parent);
      return;
    }
    try {
      await this.sync(parent);
    } catch (error) {
      removeFolder(path); // found there the next time, it would pass for durable
      throw error;
    }
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

/** What is at a path itself, links not followed; undefined where nothing is. */
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
