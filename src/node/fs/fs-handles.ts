/**
 * Files open for reading, a limited number at a time.
 *
 * Knows when a path leads to another file than before; must not know roots, nor links before the last part of a path. A link
 * in the last part is refused.
 */
import * as fs from "node:fs";
import { breathe } from "../../store/pool.ts";
import { lstat } from "./fs-folders.ts";
import { isAbsence, isHandleShortage, notAFile, systemCode } from "./fs-open.ts";

/** Does not follow links, and does not block on a pipe. Windows has neither flag. */
const READ_FLAGS = fs.constants.O_RDONLY | (fs.constants.O_NOFOLLOW ?? 0) | (fs.constants.O_NONBLOCK ?? 0);

/** A file open for reading, and its facts at the time of opening. */
export interface Handle {
  readonly fd: number;
  readonly size: number;
  /** With exact times if files are steady. */
  readonly info: fs.Stats | fs.BigIntStats;
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
  readonly #isSteady: boolean;
  /** Path to handle, least recently used first. */
  readonly #open = new Map<string, Handle>();

  /** Files in use now. */
  #busy = 0;
  readonly #awaitingRelease: (() => void)[] = [];
  /** Number of the current turn: a stretch of code that runs without interruption. Counted only if a file is checked in it. */
  #turn = 0;
  #endsTurn = false;

  /** `limit` is the number of files kept open, from 0. With `steady` the path of an open file is not checked again. */
  constructor(limit: number, steady = false) {
    this.#limit = limit;
    this.#isSteady = steady;
  }

  /**
   * Opens the file at a path, or returns the open one if the path still leads to the same unchanged file (one `lstat`). Give
   * it back with {@link release}. With `inTurn` a file that was already checked in this turn is not checked again, so that
   * several synchronous reads see the same file.
   */
  acquire(path: string, inTurn = false): Handle | NotAFile {
    const kept = this.#open.get(path);
    if (kept !== undefined) {
      if (this.#isSteady || (inTurn && kept.turn === this.#turn) || isSameFile(lstat(path), kept.info)) {
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
    if (this.#isSteady) return;
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
      const info = fs.fstatSync(fd, { bigint: this.#isSteady });
      if (info.isFile()) return { fd, size: Number(info.size), info, uses: 1, turn: -1, dropped: false };
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
    await breathe();
    signal?.throwIfAborted();
    return readFullySync(fd, offset, target);
  }
  let done = 0;
  while (done < target.length) {
    signal?.throwIfAborted();
    const got = await readOnce(fd, target, done, Math.min(MAX_CALL, target.length - done), offset + done);
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

/** New memory to read into, not cleared: a separate buffer, at offset 0. */
export function allocateTarget(length: number): Uint8Array {
  const slow = Buffer.allocUnsafeSlow(length);
  return new Uint8Array(slow.buffer, slow.byteOffset, length);
}

function readOnce(
  fd: number,
  target: Uint8Array,
  at: number,
  length: number,
  position: number,
): Promise<number> {
  return new Promise((resolve, reject) => {
    fs.read(fd, target, at, length, position, (error, got) => (error ? reject(error) : resolve(got)));
  });
}
