/**
 * Files open for reading, a limited number at a time, and what the system says of files.
 *
 * Knows when a path leads to another file than before; must not know roots, nor links before the last part of a path. A link
 * in the last part is refused.
 */
import * as fs from "node:fs";
import { type ErrorCode, isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { pauseIfDue } from "../../store/pool.ts";
import type { ObjectInfo } from "../../store/types.ts";

/** Does not follow links, and does not block on a pipe. Windows has neither flag. */
const READ_FLAGS = fs.constants.O_RDONLY | (fs.constants.O_NOFOLLOW ?? 0) | (fs.constants.O_NONBLOCK ?? 0);

/** What Node.js knows of a file. Not its own type, because pages import this package's types without those of Node.js. */
type Facts = { readonly [fact in "dev" | "ino" | "nlink" | "size" | "mtimeMs"]: number };

/** A file open for reading, and its facts at the time of opening. */
export interface Handle {
  readonly fd: number;
  readonly size: number;
  readonly info: Facts;
  /** Reads under way. */
  uses: number;
  /** The turn in which the path was last checked. */
  turn: number;
  /** True once it is not kept any more: it is closed after the last read. */
  dropped: boolean;
}

/** What is at a path that is not a file to read. */
export type NotAFile = "absent" | "link";

/** The most recently read files, kept open. */
export class Handles {
  readonly #limit: number;
  /** Path to handle, least recently used first. */
  readonly #open = new Map<string, Handle>();

  /** Files in use now. */
  #busy = 0;
  readonly #awaitingRelease: (() => void)[] = [];
  /** Number of the current turn: a stretch of code that runs without interruption. Counted only if a file is checked in it. */
  #turn = 0;
  #endsTurn = false;

  /**
   * `limit` is the number of files kept open, from 0. Windows keeps none: it refuses to replace a file that any store or process has
   * open.
   */
  constructor(limit: number) {
    this.#limit = process.platform === "win32" ? 0 : limit;
  }

  /**
   * Opens the file at a path, or returns the open one if the path still leads to the same unchanged file (one `lstat`). Give
   * it back with {@link release}. With `inTurn` a file that was already checked in this turn is not checked again, so that
   * several synchronous reads see the same file.
   */
  acquire(path: string, inTurn = false): Handle | NotAFile {
    const kept = this.#open.get(path);
    if (kept !== undefined) {
      if ((inTurn && kept.turn === this.#turn) || isSameFile(lstat(path), kept.info)) {
        if (inTurn) this.#mark(kept);
        this.#open.delete(path);
        this.#open.set(path, kept);
        kept.uses++;
        this.#busy++;
        return kept;
      }
      this.drop(path);
    }
    const handle = this.#openFile(path);
    if (typeof handle === "string") return handle;
    if (inTurn) this.#mark(handle);
    this.#busy++;
    if (this.#open.size >= this.#limit) this.#dropOldest();
    if (this.#limit > 0) this.#open.set(path, handle);
    else handle.dropped = true;
    return handle;
  }

  /** Notes that a file was checked in this turn, which ends with the code that runs now. */
  #mark(handle: Handle): void {
    handle.turn = this.#turn;
    if (this.#endsTurn) return;
    this.#endsTurn = true;
    queueMicrotask(() => {
      this.#turn++;
      this.#endsTurn = false;
    });
  }

  release(handle: Handle): void {
    handle.uses--;
    this.#busy--;
    closeUnused(handle);
    if (this.#awaitingRelease.length > 0) for (const resolve of this.#awaitingRelease.splice(0)) resolve();
  }

  /**
   * Like {@link acquire}, but if the process has too many open files and some of them are being read here, waits for one of
   * them to be released.
   */
  async acquireSoon(path: string): Promise<Handle | NotAFile> {
    for (;;) {
      try {
        return this.acquire(path);
      } catch (error) {
        if (!isHandleShortage(error) || this.#busy === 0) throw error;
        await new Promise<void>((resolve) => this.#awaitingRelease.push(resolve));
      }
    }
  }

  /** Closes the file at a path before it is replaced or removed, as soon as no read uses it. */
  drop(path: string): void {
    const handle = this.#open.get(path);
    if (handle === undefined) return;
    this.#open.delete(path);
    handle.dropped = true;
    closeUnused(handle);
  }

  /** Closes all files, as soon as no read uses them. */
  dropAll(): void {
    for (const path of [...this.#open.keys()]) this.drop(path);
  }

  #dropOldest(): void {
    const [oldest] = this.#open.keys();
    if (oldest !== undefined) this.drop(oldest);
  }

  #openFile(path: string): Handle | NotAFile {
    const seen = lstat(path);
    if (seen === undefined || seen.isDirectory()) return "absent";
    if (seen.isSymbolicLink()) return "link";
    if (!seen.isFile()) throw notAFile(path);
    let fd: number;
    try {
      fd = this.#openWithRoom(path);
    } catch (error) {
      const code = systemCode(error);
      if (isAbsence(error)) return "absent";
      if (code === "ELOOP" || code === "EMLINK") return "link"; // EMLINK: FreeBSD
      if (code === "ENXIO") throw notAFile(path, error); // it became a socket meanwhile
      throw error;
    }
    try {
      const info = fs.fstatSync(fd);
      if (info.isFile()) return { fd, size: info.size, info, uses: 1, turn: -1, dropped: false };
      if (!info.isDirectory()) throw notAFile(path);
    } catch (error) {
      fs.closeSync(fd);
      throw error;
    }
    fs.closeSync(fd);
    return "absent";
  }

  #openWithRoom(path: string): number {
    try {
      return fs.openSync(path, READ_FLAGS);
    } catch (error) {
      if (!isHandleShortage(error)) throw error;
      this.dropAll();
      return fs.openSync(path, READ_FLAGS);
    }
  }
}

/** An open file keeps its inode from being reused, so an equal inode is the same file. */
function isSameFile(a: fs.Stats | undefined, b: Handle["info"]): boolean {
  return (
    a !== undefined && a.ino === b.ino && a.dev === b.dev && a.size === b.size && a.mtimeMs === b.mtimeMs
  );
}

function closeUnused(handle: Handle): void {
  if (handle.dropped && handle.uses === 0) fs.closeSync(handle.fd);
}

// Reads from an open file until the buffer is full or the file ends.
//
// Knows short reads; must not know paths.

/** Bytes per call: below the system's limit (2 GiB), and small enough to notice an abort. */
const MAX_CALL = 64 << 20;

/** Up to this many bytes, a call in another thread takes several times as long as the read itself. */
const SMALL = 16 << 10;

/** Fills `target` from `offset`. Resolves with the bytes read, fewer than its length only at the end of the file. */
export async function readFully(
  fd: number,
  offset: number,
  target: Uint8Array,
  signal?: AbortSignal,
): Promise<number> {
  signal?.throwIfAborted();
  if (target.length <= SMALL) {
    await pauseIfDue();
    signal?.throwIfAborted();
    return readFullySync(fd, offset, target);
  }
  let done = 0;
  while (done < target.length) {
    signal?.throwIfAborted();
    const length = Math.min(MAX_CALL, target.length - done);
    const got = await new Promise<number>((resolve, reject) => {
      fs.read(fd, target, done, length, offset + done, (error, read) =>
        error ? reject(error) : resolve(read),
      );
    });
    if (got === 0) break;
    done += got;
  }
  return done;
}

/** The same synchronously, for `length` bytes of the target from `at`; by default all of it. */
export function readFullySync(
  fd: number,
  offset: number,
  target: Uint8Array,
  at = 0,
  length: number = target.length - at,
): number {
  let done = 0;
  while (done < length) {
    const got = fs.readSync(fd, target, at + done, Math.min(MAX_CALL, length - done), offset + done);
    if (got === 0) break;
    done += got;
  }
  return done;
}

/** What is at the path itself, with exact times; undefined if it does not exist. */
export function lstatIfThere(path: string): fs.BigIntStats | undefined {
  return ifThere(() => fs.lstatSync(path, { bigint: true, throwIfNoEntry: false }));
}

/** The part of the target that the file can fill: requesting more would cost another call just to see the end. */
export function cutAtEnd(target: Uint8Array, { size }: Handle, offset: number): Uint8Array {
  const room = Math.max(0, size - offset);
  return room >= target.length ? target : target.subarray(0, room);
}

/** New memory to read into, not cleared: a separate buffer, at offset 0. */
export function allocateTarget(length: number): Uint8Array {
  const slow = Buffer.allocUnsafeSlow(length);
  return new Uint8Array(slow.buffer, slow.byteOffset, length);
}

// Opens files that others may have put there: plain files only.
//
// Opening a pipe blocks until its other end is opened, and opening a device can have side effects. So each path is checked
// before opening, and the open file is checked again, because the path may have changed in between. Must not know what the
// files hold.

/** Does not wait for the other end of a pipe. Windows has no such flag. */
const AT_ONCE = fs.constants.O_NONBLOCK ?? 0;
const NOT_THROUGH_LINKS = fs.constants.O_NOFOLLOW ?? 0;

/**
 * Opens a file that exists, with `O_RDONLY`, `O_WRONLY` or `O_RDWR`.
 *
 * @throws UNSUPPORTED for a pipe, a socket and a device, immediately; UNSAFE_PATH for a link; the system's error if it cannot be
 * opened
 */
export function openPlain(path: string, access: number = fs.constants.O_RDONLY): number {
  refuseOther(fs.lstatSync(path), path);
  let file: number;
  try {
    file = fs.openSync(path, access | AT_ONCE | NOT_THROUGH_LINKS);
  } catch (error) {
    if (systemCode(error) === "ENXIO") throw notAFile(path, error); // it became a socket or a pipe meanwhile
    throw error;
  }
  try {
    refuseOther(fs.fstatSync(file), path);
    return file;
  } catch (error) {
    fs.closeSync(file);
    throw error;
  }
}

/** All bytes of a plain file. Throws as {@link openPlain}. */
export function readPlain(path: string): Buffer {
  const file = openPlain(path);
  try {
    return fs.readFileSync(file);
  } finally {
    fs.closeSync(file);
  }
}

/** Copies a plain file, as `fs.copyFile` does with the same mode. Throws as {@link openPlain}. */
export async function copyPlain(from: string, to: string, mode: number): Promise<void> {
  refuseOther(fs.lstatSync(from), from);
  await fs.promises.copyFile(from, to, mode);
}

/** The error for a path that is neither a file nor a folder. */
export function notAFile(path: string, cause?: unknown): SuperchunkError {
  return new SuperchunkError(
    "UNSUPPORTED",
    "this is a pipe, a socket or a device; only plain files are read and written",
    { path, expected: "a plain file", ...(cause === undefined ? {} : { cause }) },
  );
}

/** Folders pass: the system's own error describes them. */
function refuseOther(info: fs.Stats, path: string): void {
  if (info.isFile() || info.isDirectory()) return;
  if (!info.isSymbolicLink()) throw notAFile(path);
  throw new SuperchunkError("UNSAFE_PATH", "this is a symbolic link, where only a plain file is opened", {
    path,
    expected: "a plain file",
  });
}

// Converts errors of the operating system to errors of this library.
//
// Knows the codes of libuv; must not know what was being stored.

/** The code of a system error (`ENOENT`); undefined for other errors. */
export function systemCode(error: unknown): string | undefined {
  const code: unknown = error instanceof Error && "code" in error ? error.code : undefined;
  return typeof code === "string" ? code : undefined;
}

/** True if a hard link failed because the file system has none: FAT, exFAT, many network drives. Windows says `EISDIR`. */
export function lacksHardLinks(error: unknown): boolean {
  return ["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EISDIR"].includes(systemCode(error) ?? "");
}

/** True if the error means that the path does not exist, or that a part of it is not a folder. */
export function isAbsence(error: unknown): boolean {
  const code = systemCode(error);
  return code === "ENOENT" || code === "ENOTDIR";
}

/** What `look` returns; undefined if it fails because nothing is there. */
export function ifThere<T>(look: () => T | undefined): T | undefined {
  try {
    return look();
  } catch (error) {
    if (isAbsence(error)) return undefined;
    throw error;
  }
}

/** What is at the path itself, without following links; undefined if it does not exist. */
export function lstat(path: string): fs.Stats | undefined {
  return ifThere(() => fs.lstatSync(path, { throwIfNoEntry: false }));
}

/** Identifies the bytes of a file: size, time of change in nanoseconds, inode. */
export function describeFile(
  info: Pick<fs.BigIntStats, "size" | "mtimeNs" | "ino" | "nlink" | "ctimeNs">,
): ObjectInfo {
  const stamp = `${info.size}-${info.mtimeNs}`;
  const version = `${stamp}-${info.ino}`;
  const links = info.nlink > 1n ? { links: Number(info.nlink) } : {};
  const modified = Number(info.mtimeNs) / 1e6;
  return { size: Number(info.size), version, stamp, modified, changed: `${info.ctimeNs}`, ...links };
}

/** The same of a file before it gets its name, which is a change of it. */
export function describeUnnamed(info: fs.BigIntStats): ObjectInfo {
  const { changed: _, ...facts } = describeFile(info);
  return facts;
}

/** What is at a path; undefined if it does not exist, or a part of the path is a file. */
export function statIfThere(path: string): fs.Stats | undefined {
  try {
    return ifThere(() => fs.statSync(path, { throwIfNoEntry: false }));
  } catch (error) {
    throw explainError(error, path, "looking at it", false);
  }
}

/** True for a folder, also one that a link leads to. */
export function isFolder(path: string): boolean {
  return statIfThere(path)?.isDirectory() === true;
}

/** True if too many files are open, in this process or on this machine. */
export function isHandleShortage(error: unknown): boolean {
  const code = systemCode(error);
  return code === "EMFILE" || code === "ENFILE";
}

/** Windows answers with the codes of missing permission here too. */
const OR_OPEN = process.platform === "win32" ? ", and whether another program has the file open" : "";

/** The meaning of each system code, and advice. */
const MEANINGS: ReadonlyMap<string, readonly [ErrorCode, string]> = new Map([
  ["ENOSPC", ["NO_SPACE", "the storage is full; free space and run it again"]],
  ["EDQUOT", ["NO_SPACE", "the disk quota is used up; free space and run it again"]],
  ["EROFS", ["READ_ONLY", "the file system is mounted read-only"]],
  ["EACCES", ["READ_ONLY", `permission denied; check owner and mode of the file and its folder${OR_OPEN}`]],
  [
    "EPERM",
    ["READ_ONLY", `not permitted; check owner, mode and attributes of the file and its folder${OR_OPEN}`],
  ],
  ["EBUSY", ["IO", "the system or another program uses it; close it there, and run this again"]],
  ["ENOENT", ["NOT_FOUND", "there is nothing at this path"]],
  ["ENOTDIR", ["CONFLICT", "a part of the path is a file, where a folder is needed"]],
  ["EISDIR", ["CONFLICT", "a folder is in the way"]],
  ["EEXIST", ["CONFLICT", "the path exists already"]],
  ["ENOTEMPTY", ["CONFLICT", "a folder with entries is in the way"]],
  ["ELOOP", ["UNSAFE_PATH", "symbolic links form a loop, or appeared while the path was read"]],
  ["EMLINK", ["LIMIT", "the file has as many hard links as the file system allows"]],
  ["EXDEV", ["UNSUPPORTED", "the two paths are on different file systems; copy instead"]],
  ["EMFILE", ["LIMIT", 'too many open files in this process; raise the limit ("ulimit -n")']],
  ["ENFILE", ["LIMIT", "too many open files on this machine"]],
  ["EFBIG", ["LIMIT", "the file is larger than the file system or the process limit allows"]],
  ["ENAMETOOLONG", ["LIMIT", "the path is longer than the file system allows"]],
]);

/**
 * Converts a system error to one with a code, the path and advice. An error of this library, and an abort, is returned
 * unchanged. `doing` completes "while …". Missing permission is `IO` for reading, `READ_ONLY` for writing.
 */
export function explainError(error: unknown, path: string, doing: string, writing: boolean): unknown {
  if (isSuperchunkError(error)) return error;
  const code = systemCode(error);
  if (code === undefined || !("syscall" in (error as Error))) return error;
  const [kind, advice] = MEANINGS.get(code) ?? ["IO", "the storage failed"];
  const chosen = kind === "READ_ONLY" && !writing ? "IO" : kind;
  return new SuperchunkError(chosen, `${advice} (${code} while ${doing})`, {
    path,
    found: code,
    cause: error,
  });
}

/** Runs an action, and converts a system failure to an error that names the path. */
export async function explaining<T>(
  path: string,
  doing: string,
  writing: boolean,
  act: () => T | Promise<T>,
): Promise<T> {
  try {
    return await act();
  } catch (error) {
    throw explainError(error, path, doing, writing);
  }
}
