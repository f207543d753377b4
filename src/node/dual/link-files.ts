/**
 * The files of a link: what linking needs of a file system beyond a store.
 *
 * Knows modes, inodes and hard links; must not know what is linked, or in which order. What the kernel answers from its
 * memory is asked at once; only what waits for the disk leaves the thread.
 */
import * as fs from "node:fs";
import { dirname, relative } from "node:path";
import { promisify } from "node:util";
import type { FileFacts, LinkFiles, LinkKind, LinkPlace } from "../../dual/link/types.ts";
import { SuperchunkError } from "../../errors.ts";
import { splitKey } from "../../store/key.ts";
import { explainError, isAbsence, systemCode } from "../fs/fs-errors.ts";
import { Folders, joinPath } from "../fs/fs-folders.ts";
import { copyPlain, openPlain } from "../fs/fs-open.ts";
import { writeFullySync } from "../fs/fs-write.ts";
import { SteadyStore } from "../fs/steady-store.ts";

const nextTurn: () => Promise<void> = promisify(setImmediate);

/**
 * The files below two folders: the archive's, and the Zarr array's. They may be one. `opened`: where the data files are open
 * already, and stay so.
 */
export function linkFilesIn(dataRoot: string, zarrRoot: string, opened?: SteadyStore): LinkFiles {
  const data = new Folders(dataRoot);
  return new FolderLinkFiles(data, zarrRoot === dataRoot ? data : new Folders(zarrRoot), opened);
}

/** The same below folders that are given; they may be one. */
export function linkFilesBelow(data: Folders, zarr: Folders): LinkFiles {
  return new FolderLinkFiles(data, zarr, undefined);
}

class FolderLinkFiles implements LinkFiles {
  readonly #data: Folders;
  readonly #zarr: Folders;
  readonly #opened: SteadyStore | undefined;

  constructor(data: Folders, zarr: Folders, opened: SteadyStore | undefined) {
    this.#data = data;
    this.#zarr = zarr;
    this.#opened = opened;
  }

  describe({ side, key }: LinkPlace): string {
    return this.#side(side).describe(key);
  }

  async inspect(at: LinkPlace): Promise<FileFacts | undefined> {
    return this.#explain(at, "looking at it", false, async () => {
      const path = this.#locate(at);
      const info = path === undefined ? undefined : lookUp(path);
      if (info === undefined) return undefined;
      const kind = info.isFile()
        ? "file"
        : info.isDirectory()
          ? "folder"
          : info.isSymbolicLink()
            ? "link"
            : "other";
      return {
        kind,
        size: Number(info.size),
        mode: Number(info.mode) & 0o7777,
        links: Number(info.nlink),
        identity: `${info.dev}:${info.ino}`,
      };
    });
  }

  async readEach(key: string, offsets: readonly number[], length: number): Promise<Uint8Array | undefined> {
    const opened = this.#opened ?? new SteadyStore(this.#data.root);
    try {
      const bytes = opened.readEach(key, offsets, length);
      await nextTurn(); // what waits for the disk meanwhile goes on
      return bytes;
    } finally {
      if (opened !== this.#opened) await opened.close();
    }
  }

  async writeTail(at: LinkPlace, offset: number, pieces: readonly Uint8Array[], mode: number): Promise<void> {
    await this.#change(at, "writing behind its chunks", (file) => {
      let end = offset;
      for (const piece of pieces) {
        writeFullySync(file, piece, end);
        end += piece.length;
      }
      // What a longer tail left is cut off only once the new one is there.
      if (fs.fstatSync(file).size !== end) fs.ftruncateSync(file, end);
      fs.fchmodSync(file, mode);
    });
  }

  async truncate(at: LinkPlace, size: number): Promise<void> {
    await this.#change(at, "cutting off what linking added", (file) => fs.ftruncateSync(file, size));
  }

  async setMode(at: LinkPlace, mode: number): Promise<void> {
    await this.#explain(at, "changing its permissions", true, () => fs.chmodSync(this.#existing(at), mode));
  }

  async link(from: LinkPlace, to: LinkPlace, kind: LinkKind): Promise<void> {
    await this.#explain(to, `linking it to ${this.describe(from)}`, true, async () => {
      const source = this.#existing(from);
      const { folder, name } = splitKey(to.key);
      const parent = await this.#side(to.side).make(folder, false);
      const target = joinPath(parent, name);
      if (kind === "hard") this.#hardLink(source, target, from);
      else if (kind === "symbolic") fs.symlinkSync(relative(parent, source), target);
      else await copyPlain(source, target, fs.constants.COPYFILE_EXCL | fs.constants.COPYFILE_FICLONE);
    });
  }

  async leadsTo(to: LinkPlace, from: LinkPlace): Promise<boolean> {
    return this.#explain(to, "reading the link", false, async () => {
      const path = this.#locate(to);
      const source = this.#locate(from);
      if (path === undefined || source === undefined || lookUp(path)?.isSymbolicLink() !== true) return false;
      return fs.readlinkSync(path) === relative(dirname(path), source);
    });
  }

  async remove(at: LinkPlace): Promise<void> {
    await this.#explain(at, "removing it", true, async () => {
      const path = this.#locate(at);
      const info = path === undefined ? undefined : lookUp(path);
      if (path === undefined || info === undefined) return;
      if (!info.isDirectory()) return fs.rmSync(path, { force: true });
      try {
        fs.rmdirSync(path);
      } catch (error) {
        const code = systemCode(error);
        if (code !== "ENOTEMPTY" && code !== "EEXIST" && code !== "ENOENT") throw error; // EEXIST: Solaris
      }
      this.#side(at.side).forget();
    });
  }

  async sync(places: readonly LinkPlace[]): Promise<void> {
    const parents = new Map<string, Folders>();
    for (const { side, key } of places) {
      const folders = this.#side(side);
      const folder = folders.find(splitKey(key).folder);
      if (folder !== undefined) parents.set(folder, folders);
    }
    const syncs = [...parents].map(([folder, folders]) => folders.sync(folder));
    const sides = new Set([this.#data, this.#zarr]);
    await Promise.all([...syncs, ...[...sides].map((side) => side.syncPending())]);
  }

  #side(side: LinkPlace["side"]): Folders {
    return side === "data" ? this.#data : this.#zarr;
  }

  #locate({ side, key }: LinkPlace): string | undefined {
    const folders = this.#side(side);
    return key === "" ? folders.find("") : folders.locate(key);
  }

  #existing(at: LinkPlace): string {
    const path = this.#locate(at);
    if (path !== undefined) return path;
    throw new SuperchunkError("NOT_FOUND", "there is no such file", { path: this.describe(at) });
  }

  #hardLink(source: string, target: string, from: LinkPlace): void {
    try {
      fs.linkSync(source, target);
    } catch (error) {
      const code = systemCode(error);
      if (!["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EXDEV"].includes(code ?? "")) throw error;
      throw new SuperchunkError(
        "UNSUPPORTED",
        code === "EXDEV"
          ? "hard links cannot lead to another file system; link on the archive's own, or use --link symbolic or --link copy"
          : `this file system makes no hard links (${code}); use --link symbolic or --link copy`,
        { path: this.describe(from), found: code, cause: error },
      );
    }
  }

  /** Opens a file that is no link, changes it, and makes that durable: several at once share the disk's work. */
  async #change(at: LinkPlace, doing: string, change: (file: number) => void): Promise<void> {
    await this.#explain(at, doing, true, async () => {
      const { durability } = this.#side(at.side);
      durability.assert();
      const path = this.#existing(at);
      const file = openPlain(path, { access: fs.constants.O_RDWR });
      try {
        change(file);
        await durability.syncFile(path, file, true);
      } finally {
        fs.closeSync(file);
      }
    });
  }

  async #explain<T>(at: LinkPlace, doing: string, writing: boolean, work: () => T | Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw explainError(error, this.describe(at), doing, writing);
    }
  }
}

/** With bigints, which take twice as long, only where the inode's number needs one. */
function lookUp(path: string): fs.Stats | fs.BigIntStats | undefined {
  try {
    const info = fs.lstatSync(path, { throwIfNoEntry: false });
    return info === undefined || Number.isSafeInteger(info.ino)
      ? info
      : fs.lstatSync(path, { bigint: true, throwIfNoEntry: false });
  } catch (error) {
    if (isAbsence(error)) return undefined;
    throw error;
  }
}
