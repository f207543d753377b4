/**
 * Publishes a file: complete under its name, or not at all.
 *
 * The only place where a written file gets its name: the temporary beside the target is written, synced and closed, then
 * renamed (or linked, if the name must be new), then the folder is synced. Only calls that wait for the disk leave the
 * thread. Must not know what is written.
 */

import { randomBytes } from "node:crypto";
import * as fs from "node:fs";
import { SuperchunkError } from "../../errors.ts";
import type { Draft, ObjectInfo } from "../../store/types.ts";
import { type Folders, joinPath, syncAll } from "./fs-folders.ts";
import { isHandleShortage, systemCode } from "./fs-open.ts";

/** `.name.<mark>.tmp`; the mark is 16 hexadecimal digits. */
const TEMPORARY = /^\..*\.[0-9a-f]{16}\.tmp$/s;
/** Most bytes of a name that leave room for the dots, the mark and `.tmp` in the 255 bytes of most file systems. */
const MAX_NAME = 255 - 22;

/** A file to publish. */
export interface Publication {
  /** Real path of the folder. */
  readonly folder: string;
  readonly name: string;
  /** Path as messages name it. */
  readonly shown: string;
  /** Set if the file must be durable when published: the folders that its folder belongs to. */
  readonly durableIn: Folders | undefined;
  readonly ifAbsent: boolean;
  readonly ifVersion: string | undefined;
  readonly signal: AbortSignal | undefined;
  /** Mark of the temporary's name, instead of a random one: 16 hexadecimal digits. */
  readonly mark?: string | undefined;
  /** Returns the version that readers see under the name now, following links. */
  findVersion(): string | undefined;
  /** Writes the bytes into the temporary, which is empty and open for reading and writing. */
  write(file: number, path: string): Promise<unknown>;
  /** Called right before the name is replaced, to close open handles of the old file. */
  beforeReplace(path: string): void;
  /** Called if too many files are open; the opening is then tried once more. */
  freeHandles(): void;
}

/** True for the name of a temporary file of a put. */
export function isTemporary(name: string): boolean {
  return TEMPORARY.test(name);
}

/** Bytes of a mark. */
const MARK = 8;
/** Random bytes for the next marks: drawing them one by one takes about as long as everything else in writing a small file. */
let drawn = Buffer.alloc(0);

/** 16 random hexadecimal digits that identify the temporaries of one writer. */
export function newMark(): string {
  if (drawn.length < MARK) drawn = randomBytes(128 * MARK);
  const mark = drawn.toString("hex", 0, MARK);
  drawn = drawn.subarray(MARK);
  return mark;
}

/** The name of a temporary for a file. */
export function temporaryName(name: string, mark: string = newMark()): string {
  let kept = name;
  while (Buffer.byteLength(kept) > MAX_NAME) kept = kept.slice(0, -1);
  return `.${kept}.${mark}.tmp`;
}

/** Identifies the bytes of a file: size, time of change in nanoseconds, inode. */
export function describeFile(info: Pick<fs.BigIntStats, "size" | "mtimeNs" | "ino" | "nlink">): ObjectInfo {
  const version = `${info.size}-${info.mtimeNs}-${info.ino}`;
  const links = info.nlink > 1n ? { links: Number(info.nlink) } : {};
  return { size: Number(info.size), version, modified: Number(info.mtimeNs) / 1e6, ...links };
}

/**
 * Publishes a file. On any failure or abort the temporary is removed and the old file stays.
 *
 * `ifAbsent` is exact: creating the hard link fails if the name exists. `ifVersion` is best effort, because no file system
 * can compare and swap: the version is compared right before the rename, and a write in between is overwritten. This is why
 * the array layer has a lock.
 *
 * @throws CONFLICT if a condition fails; UNSUPPORTED for `ifAbsent` on a file system without hard links (FAT)
 */
export async function publishFile(publication: Publication): Promise<ObjectInfo> {
  return (await draftFile(publication)).publish();
}

/** The first half of {@link publishFile}: everything but the name. The draft's second half fails in the same ways. */
export async function draftFile(publication: Publication): Promise<Draft> {
  const { folder, name, durableIn } = publication;
  const target = joinPath(folder, name);
  durableIn?.durability.assert(); // early, so that nothing is written in vain
  if (publication.ifAbsent || publication.ifVersion !== undefined) checkTarget(publication, target);
  const temporary = joinPath(folder, temporaryName(name, publication.mark));
  const file = openNew(temporary, publication);
  const removing = <T>(work: Promise<T>): Promise<T> =>
    work.catch(async (error: unknown) => {
      await fs.promises.rm(temporary, { force: true }).catch(() => undefined); // the first error is the one to report
      throw error;
    });
  const info = await removing(writeNew(file, temporary, publication));
  return {
    publish: async () => {
      await removing(giveName(temporary, target, publication));
      if (publication.ifAbsent) await fs.promises.rm(temporary, { force: true });
      await durableIn?.sync(folder);
      return info;
    },
    discard: () => fs.promises.rm(temporary, { force: true }),
  };
}

async function writeNew(file: number, path: string, publication: Publication): Promise<ObjectInfo> {
  try {
    await publication.write(file, path);
    if (publication.durableIn !== undefined) await syncAll(file);
    return describeFile(fs.fstatSync(file, { bigint: true }));
  } finally {
    fs.closeSync(file);
  }
}

async function giveName(temporary: string, target: string, publication: Publication): Promise<void> {
  publication.signal?.throwIfAborted();
  checkTarget(publication, target);
  publication.beforeReplace(target);
  if (publication.ifAbsent) await linkNew(temporary, target, publication.shown);
  else fs.renameSync(temporary, target);
}

function openNew(path: string, publication: Publication): number {
  publication.signal?.throwIfAborted();
  try {
    return fs.openSync(path, "wx+");
  } catch (error) {
    if (!isHandleShortage(error)) throw error;
    publication.freeHandles();
    return fs.openSync(path, "wx+");
  }
}

function checkTarget(publication: Publication, target: string): void {
  const { shown, ifAbsent, ifVersion } = publication;
  const info = fs.lstatSync(target, { throwIfNoEntry: false });
  if (info?.isDirectory())
    throw new SuperchunkError(
      "CONFLICT",
      "a folder is there, where a file is to be written; name another place, or remove it",
      { path: shown },
    );
  if (ifAbsent && info !== undefined) {
    throw new SuperchunkError("CONFLICT", "the object exists already", { path: shown });
  }
  if (ifVersion === undefined) return;
  const found = publication.findVersion();
  if (found !== ifVersion) {
    throw new SuperchunkError("CONFLICT", "another writer changed the object", {
      path: shown,
      expected: ifVersion,
      found,
    });
  }
}

async function linkNew(temporary: string, target: string, shown: string): Promise<void> {
  try {
    await fs.promises.link(temporary, target);
  } catch (error) {
    const code = systemCode(error);
    if (code === "EEXIST") {
      // Over NFS the reply to a successful link can get lost, and the call be repeated.
      if (isSame(temporary, target)) return;
      throw new SuperchunkError("CONFLICT", "the object exists already", { path: shown, cause: error });
    }
    if (code === "EPERM" || code === "ENOTSUP" || code === "EOPNOTSUPP" || code === "ENOSYS") {
      throw new SuperchunkError(
        "UNSUPPORTED",
        `this file system makes no hard links (${code}), and without them a file cannot be made under a new name at once; use another file system`,
        { path: shown, cause: error },
      );
    }
    throw error;
  }
}

function isSame(a: string, b: string): boolean {
  const [one, other] = [a, b].map((path) => fs.lstatSync(path, { bigint: true, throwIfNoEntry: false }));
  return one !== undefined && other !== undefined && one.ino === other.ino && one.dev === other.dev;
}
