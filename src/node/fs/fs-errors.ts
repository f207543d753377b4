/**
 * Errors of the operating system as errors of this library.
 *
 * Knows the codes of libuv; must not know what was being stored.
 */
import { type ErrorCode, isSuperchunkError, SuperchunkError } from "../../errors.ts";

/** The code of a system error (`ENOENT`), where it is one. */
export function systemCode(error: unknown): string | undefined {
  const code: unknown = error instanceof Error && "code" in error ? error.code : undefined;
  return typeof code === "string" ? code : undefined;
}

/** True where the error says that there is nothing at a path, or that a part of the path is not a folder. */
export function isAbsence(error: unknown): boolean {
  const code = systemCode(error);
  return code === "ENOENT" || code === "ENOTDIR";
}

/** True where too many files are open, in this process or on this machine. */
export function isHandleShortage(error: unknown): boolean {
  const code = systemCode(error);
  return code === "EMFILE" || code === "ENFILE";
}

/** What a system code means, and what to do about it. */
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
  ["ELOOP", ["UNSAFE_PATH", "symbolic links lead in a circle, or appeared where there was none"]],
  ["EMLINK", ["LIMIT", "the file has as many hard links as the file system allows"]],
  ["EXDEV", ["UNSUPPORTED", "the two paths lie on different file systems; copy instead"]],
  ["EMFILE", ["LIMIT", 'too many open files in this process; raise the limit ("ulimit -n")']],
  ["ENFILE", ["LIMIT", "too many open files on this machine"]],
  ["EFBIG", ["LIMIT", "the file is larger than the file system or the process limit allows"]],
  ["ENAMETOOLONG", ["LIMIT", "the path is longer than the file system allows"]],
]);

/**
 * A system error with the code, the path and the advice that fit; an error of this library, and an abort, is handed
 * back as it is. `doing` completes "while …". Reading what one may not read is `IO`, writing it `READ_ONLY`.
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
