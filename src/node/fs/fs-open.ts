/**
 * Opening files that others may have put there: plain files only.
 *
 * A pipe blocks whoever opens it until its other end comes, and opening a device can have effects of its own. So each
 * path is looked at first, and what is open is looked at again, because the path may have changed in between. Must not
 * know what the files hold.
 */
import * as fs from "node:fs";
import { SuperchunkError } from "../../errors.ts";
import { systemCode } from "./fs-errors.ts";

/** Without waiting for the other end of a pipe. Windows has no such flag. */
const AT_ONCE = fs.constants.O_NONBLOCK ?? 0;
const NOT_THROUGH_LINKS = fs.constants.O_NOFOLLOW ?? 0;

/** How a file is opened. */
export interface OpenFlags {
  /** `O_RDONLY` (the default), `O_WRONLY` or `O_RDWR`. */
  readonly access?: number;
  /** True for a path that the user named: a link then means what it leads to. */
  readonly follows?: boolean;
}

/**
 * Opens a file that exists.
 *
 * @throws UNSUPPORTED for a pipe, a socket and a device, at once; UNSAFE_PATH for a link that is not to be followed;
 * the system's error where it cannot be opened
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
    if (systemCode(error) === "ENXIO") throw notAFile(path, error); // it became a socket or a pipe in between
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
export function readPlain(path: string, flags: OpenFlags = {}): Buffer {
  const file = openPlain(path, flags);
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

/** The error for what is at a path and is neither a file nor a folder. */
export function notAFile(path: string, cause?: unknown): SuperchunkError {
  return new SuperchunkError(
    "UNSUPPORTED",
    "this is a pipe, a socket or a device; only plain files are read and written",
    { path, expected: "a plain file", ...(cause === undefined ? {} : { cause }) },
  );
}

/** Folders are left to the system, which has a code for them. */
function refuseOther(info: fs.Stats, path: string): void {
  if (info.isFile() || info.isDirectory()) return;
  if (!info.isSymbolicLink()) throw notAFile(path);
  throw new SuperchunkError("UNSAFE_PATH", "this is a symbolic link, where only a plain file is opened", {
    path,
    expected: "a plain file",
  });
}
