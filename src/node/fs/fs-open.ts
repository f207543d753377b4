/**
 * Opens files that others may have put there: plain files only.
 *
 * Opening a pipe blocks until its other end is opened, and opening a device can have side effects. So each path is checked
 * before opening, and the open file is checked again, because the path may have changed in between. Must not know what the
 * files hold.
 */
import * as fs from "node:fs";
import { type ErrorCode, isSuperchunkError, SuperchunkError } from "../../errors.ts";

/** Does not wait for the other end of a pipe. Windows has no such flag. */
const AT_ONCE = fs.constants.O_NONBLOCK ?? 0;
const NOT_THROUGH_LINKS = fs.constants.O_NOFOLLOW ?? 0;

/** How a file is opened. */
interface OpenFlags {
  /** `O_RDONLY` (the default), `O_WRONLY` or `O_RDWR`. */
  readonly access?: number;
  /** True for a path that the user named: a link is then followed. */
  readonly follows?: boolean;
}

/**
 * Opens a file that exists.
 *
 * @throws UNSUPPORTED for a pipe, a socket and a device, immediately; UNSAFE_PATH for a link, unless it is to be followed;
 * the system's error if it cannot be opened
 */
export function openPlain(
  path: string,
  { access = fs.constants.O_RDONLY, follows = false }: OpenFlags = {},
): number {
  refuseOther(follows ? fs.statSync(path) : fs.lstatSync(path), path);
  let file: number;
  try {
    file = fs.openSync(path, access | AT_ONCE | (follows ? 0 : NOT_THROUGH_LINKS));
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

/** True if the error means that the path does not exist, or that a part of it is not a folder. */
export function isAbsence(error: unknown): boolean {
  const code = systemCode(error);
  return code === "ENOENT" || code === "ENOTDIR";
}

/** What is at a path; undefined if it does not exist, or a part of the path is a file. */
export function statIfThere(path: string): fs.Stats | undefined {
  try {
    return fs.statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    if (isAbsence(error)) return undefined;
    throw error;
  }
}

/** True if too many files are open, in this process or on this machine. */
export function isHandleShortage(error: unknown): boolean {
  const code = systemCode(error);
  return code === "EMFILE" || code === "ENFILE";
}

/** The meaning of each system code, and advice. */
const MEANINGS: ReadonlyMap<string, readonly [ErrorCode, string]> = new Map([
  ["ENOSPC", ["NO_SPACE", "the storage is full; free space and run it again"]],
  ["EDQUOT", ["NO_SPACE", "the disk quota is used up; free space and run it again"]],
  ["EROFS", ["READ_ONLY", "the file system is mounted read-only"]],
  ["EACCES", ["READ_ONLY", "permission denied; check owner and mode of the file and its folder"]],
  ["EPERM", ["READ_ONLY", "not permitted; check owner, mode and attributes of the file and its folder"]],
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
