/**
 * The files of an archive that is also a Zarr array: what linking and live views need of a file system beyond a store.
 *
 * Knows modes, inodes, hard links, and how to copy unchanged bytes, by sharing blocks if the file system can; must not know
 * what is in a file, or in which order files change. Calls that the kernel answers from memory are synchronous; only calls
 * that wait for the disk leave the thread.
 */
import * as fs from "node:fs";
import { dirname, relative } from "node:path";
import { promisify } from "node:util";
import type { DualFiles, FilePlace, FileRange } from "../../dual/types.ts";
import { SuperchunkError } from "../../errors.ts";
import { splitKey } from "../../store/key.ts";
import { Folders, joinPath } from "../fs/fs-folders.ts";
import {
  copyPlain,
  explaining,
  lacksHardLinks,
  lstat,
  lstatIfThere,
  openPlain,
  readFully,
  readFullySync,
  systemCode,
} from "../fs/fs-handles.ts";
import type { FolderReader } from "../fs/fs-reader.ts";
import { draftFile, newMark, writeFully, writeFullySync } from "../fs/fs-write.ts";

const nextTurn: () => Promise<void> = promisify(setImmediate);

/** Bytes that are copied at a time. */
const PIECE = 4 << 20;
const READ_ONLY_MODE = 0o444;

/** The files below two folders: the archive's and the Zarr array's, which may be the same. */
export function dualFiles(dataRoot: string, zarrRoot: string = dataRoot): DualFiles {
  const data = new Folders(dataRoot);
  return folderFiles(data, zarrRoot === dataRoot ? data : new Folders(zarrRoot));
}

/** The files below a store's folder, which shares the store's record of what is durable. */
export function dualFilesOf({ folders }: FolderReader): DualFiles {
  return folderFiles(folders, folders);
}

function folderFiles(data: Folders, zarr: Folders): DualFiles {
  function describe({ side, key }: FilePlace): string {
    return sideOf(side).describe(key);
  }

  function sideOf(side: FilePlace["side"]): Folders {
    return side === "data" ? data : zarr;
  }

  function locate({ side, key }: FilePlace): string | undefined {
    const folders = sideOf(side);
    return key === "" ? folders.find("") : folders.locate(key);
  }

  function existing(at: FilePlace): string {
    const path = locate(at);
    if (path !== undefined) return path;
    throw new SuperchunkError("NOT_FOUND", "no such file", { path: describe(at) });
  }

  function hardLink(source: string, target: string, from: FilePlace): void {
    try {
      fs.linkSync(source, target);
    } catch (error) {
      const code = systemCode(error);
      if (code !== "EXDEV" && !lacksHardLinks(error)) throw error;
      throw new SuperchunkError(
        "UNSUPPORTED",
        code === "EXDEV"
          ? `hard links cannot lead to another file system; link on the archive's own, or use {link: "symbolic"} or {link: "copy"}`
          : `this file system does not support hard links (${code}); use {link: "symbolic"} or {link: "copy"}`,
        { path: describe(from), found: code, cause: error },
      );
    }
  }

  /** Opens a file that is not a link, changes it, and makes the change durable. Several calls at a time share the disk's work. */
  async function changeFile(at: FilePlace, doing: string, change: (file: number) => void): Promise<void> {
    await explain(at, doing, true, async () => {
      const { durability } = sideOf(at.side);
      durability.assert();
      const path = existing(at);
      const file = openPlain(path, fs.constants.O_RDWR);
      try {
        change(file);
        await durability.syncFile(path, file, true);
      } finally {
        fs.closeSync(file);
      }
    });
  }

  function explain<T>(
    at: FilePlace,
    doing: string,
    writing: boolean,
    work: () => T | Promise<T>,
  ): Promise<T> {
    return explaining(describe(at), doing, writing, work);
  }
  return {
    describe,
    async inspect(at) {
      return explain(at, "looking at it", false, async () => {
        const path = locate(at);
        const info = path === undefined ? undefined : lookUp(path);
        if (info === undefined) return undefined;
        return {
          kind: kindOf(info),
          size: Number(info.size),
          mode: Number(info.mode) & 0o7777,
          links: Number(info.nlink),
          identity: `${info.dev}:${info.ino}`,
        };
      });
    },
    async readEach(key, offsets, length) {
      return explain({ side: "data", key }, "reading", false, async () => {
        const path = data.locate(key);
        if (path === undefined || lookUp(path)?.isFile() !== true) return undefined;
        const bytes = readEachOf(path, offsets, length);
        await nextTurn(); // lets other work waiting for the disk continue
        return bytes;
      });
    },
    async writeTail(at, offset, pieces, mode) {
      await changeFile(at, "writing after its chunks", (file) => {
        let end = offset;
        for (const piece of pieces) {
          writeFullySync(file, piece, end);
          end += piece.length;
        }
        // A longer old tail is cut off only after the new one is written.
        if (fs.fstatSync(file).size !== end) fs.ftruncateSync(file, end);
        fs.fchmodSync(file, mode);
      });
    },
    async truncate(at, size) {
      await changeFile(at, "cutting off what linking added", (file) => fs.ftruncateSync(file, size));
    },
    async setMode(at, mode) {
      await explain(at, "changing its permissions", true, () => fs.chmodSync(existing(at), mode));
    },
    async link(from, to, kind) {
      await explain(to, `linking it to ${describe(from)}`, true, async () => {
        const source = existing(from);
        const { folder, name } = splitKey(to.key);
        const parent = await sideOf(to.side).make(folder, false);
        const target = joinPath(parent, name);
        if (kind === "hard") hardLink(source, target, from);
        else if (kind === "symbolic") fs.symlinkSync(relative(parent, source), target);
        else await copyPlain(source, target, fs.constants.COPYFILE_EXCL | fs.constants.COPYFILE_FICLONE);
      });
    },
    async leadsTo(to, from) {
      return explain(to, "reading the link", false, async () => {
        const path = locate(to);
        const source = locate(from);
        if (path === undefined || source === undefined || lookUp(path)?.isSymbolicLink() !== true)
          return false;
        return fs.readlinkSync(path) === relative(dirname(path), source);
      });
    },
    async remove(at) {
      await explain(at, "removing it", true, async () => {
        const path = locate(at);
        const info = path === undefined ? undefined : lookUp(path);
        if (path === undefined || info === undefined) return;
        if (!info.isDirectory()) return fs.rmSync(path, { force: true });
        try {
          fs.rmdirSync(path);
        } catch (error) {
          const code = systemCode(error);
          if (code !== "ENOTEMPTY" && code !== "EEXIST" && code !== "ENOENT") throw error; // EEXIST: Solaris
        }
        sideOf(at.side).forget();
      });
    },
    async sync(places) {
      const parents = new Map<string, Folders>();
      for (const { side, key } of places) {
        const folders = sideOf(side);
        const folder = folders.find(splitKey(key).folder);
        if (folder !== undefined) parents.set(folder, folders);
      }
      const syncs = [...parents].map(([folder, folders]) => folders.sync(folder));
      const sides = new Set([data, zarr]);
      await Promise.all([...syncs, ...[...sides].map((side) => side.syncPending())]);
    },
    async replace({ key, kept, writes, size }) {
      const folders = zarr;
      const { folder, name } = splitKey(key);
      let written = 0;
      await explain({ side: "zarr", key }, "writing it again", true, async () => {
        const parent = await folders.make(folder, true);
        const draft = await draftFile({
          folder: parent,
          name,
          shown: folders.describe(key),
          durableIn: folders,
          write: async (file, temporary) => {
            if (kept.length > 0) written += await keepBytes(joinPath(parent, name), temporary, file, kept);
            for (const { offset, bytes } of writes) {
              await writeFully(file, bytes, offset);
              written += bytes.length;
            }
            fs.ftruncateSync(file, size);
            fs.fchmodSync(file, READ_ONLY_MODE);
          },
        });
        await draft.publish();
      });
      return written;
    },
  };
}

function kindOf(info: fs.Stats | fs.BigIntStats): "file" | "folder" | "link" | "other" {
  if (info.isFile()) return "file";
  if (info.isDirectory()) return "folder";
  return info.isSymbolicLink() ? "link" : "other";
}

/** Uses bigints, which take twice as long, only if the inode number needs them. */
function lookUp(path: string): fs.Stats | fs.BigIntStats | undefined {
  const info = lstat(path);
  return info === undefined || Number.isSafeInteger(info.ino) ? info : lstatIfThere(path);
}

/** `length` bytes at each of the offsets, one after the other; undefined if the file is too short. */
function readEachOf(path: string, offsets: readonly number[], length: number): Uint8Array | undefined {
  const file = openPlain(path);
  try {
    const bytes = new Uint8Array(offsets.length * length);
    const isWhole = offsets.every(
      (offset, i) => readFullySync(file, offset, bytes, i * length, length) === length,
    );
    return isWhole ? bytes : undefined;
  } finally {
    fs.closeSync(file);
  }
}

/** Copies ranges of one file to another, sharing blocks if possible. Returns the bytes that had to be copied. */
async function keepBytes(
  from: string,
  to: string,
  file: number,
  kept: readonly FileRange[],
): Promise<number> {
  const source = openPlain(from);
  try {
    if (await shareBlocks(from, to)) return 0;
    const longest = kept.reduce((most, { start, end }) => Math.max(most, end - start), 0);
    const buffer = new Uint8Array(Math.min(PIECE, longest));
    let copied = 0;
    for (const { start, end } of kept)
      for (let at = start; at < end; ) {
        const read = await readFully(source, at, buffer.subarray(0, Math.min(buffer.length, end - at)));
        if (read === 0) break; // the plan follows this file's own index, which does not lead past its end
        await writeFully(file, buffer.subarray(0, read), at);
        at += read;
        copied += read;
      }
    return copied;
  } finally {
    fs.closeSync(source);
  }
}

/** For each device, whether its files can share blocks. */
const SHARING = new Map<number, boolean>();

/** Makes a file equal to another one without copying bytes. Returns false if the file system cannot. */
async function shareBlocks(from: string, to: string): Promise<boolean> {
  const { dev } = await fs.promises.stat(from);
  const can = SHARING.get(dev) ?? (await tryToShare(from, to));
  SHARING.set(dev, can);
  if (can) await fs.promises.copyFile(from, to, fs.constants.COPYFILE_FICLONE_FORCE);
  return can;
}

/** Tries it on a separate temporary file, because a failed attempt removes its target. */
async function tryToShare(from: string, to: string): Promise<boolean> {
  const trial = to.replace(/[0-9a-f]{16}\.tmp$/, `${newMark()}.tmp`);
  try {
    await fs.promises.copyFile(from, trial, fs.constants.COPYFILE_FICLONE_FORCE);
    return true;
  } catch {
    return false; // copying will report the error again
  } finally {
    await fs.promises.rm(trial, { force: true });
  }
}
