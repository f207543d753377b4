/** From what a person types to a store and a key: paths, `file:`, `http(s):` and `s3:` URLs. */
import { existsSync, statSync } from "node:fs";
import { realpath } from "node:fs/promises";
import { basename, dirname, join, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { badArgument, SuperchunkError } from "../errors.ts";
import { HttpStore } from "../store/http.ts";
import { isPlainPath, splitKey } from "../store/key.ts";
import type { ReadableStore, WritableStore } from "../store/types.ts";
import { withCoalescing } from "../store/wrappers/coalescing.ts";
import { statIfThere } from "./fs/fs-open.ts";
import { FileStore } from "./fs/fs-store.ts";
import { parseS3Address, S3Store } from "./s3/s3-store.ts";

/** A place in a store. */
export interface Location {
  readonly store: ReadableStore;
  /** Key in the store; `""` is its root. */
  readonly path: string;
}

/** A path into an HDF5 file, a store of Blosc2 or a set of references: the folder that it is in, and what follows. */
const HELD = /^(?:(.*?)\/)?([^/]+\.(?:h5|hdf5?|he5|h5ad|nc4?|mat|loom|b2[dz]|json|parq)\/.+)$/i;

/** Finds the store and key of an existing path or URL. Throws `NOT_FOUND`, `UNSUPPORTED` (another scheme), `BAD_ARGUMENT` (empty). */
export async function locate(location: string): Promise<Location> {
  refuseEmptyPath(location);
  const scheme = /^([a-z][a-z0-9+.-]+):\/\//i.exec(location)?.[1]?.toLowerCase();
  if (scheme === "http" || scheme === "https") return locateUrl(location);
  if (scheme === "s3") return locateS3(location);
  if (scheme !== undefined && scheme !== "file") throw unknownScheme(scheme, location);
  return locatePath(resolve(scheme === "file" ? fileURLToPath(location) : location), location);
}

/** A set of references with the folder that it lies in: its containers lie beside it, also where the set is a folder itself. */
export async function locateBeside(location: string): Promise<Location> {
  if (isRemote(location)) return locate(location.replace(/\/+(?=\?|$)/, ""));
  const full = resolve(/^file:/i.test(location) ? fileURLToPath(location) : location);
  const set = fileAbove(full) ?? setAbove(full) ?? full;
  return {
    store: new FileStore(dirname(set)),
    path: `${basename(set)}${full.slice(set.length).replaceAll(sep, "/")}`,
  };
}

/** The folder of a set of references in Parquet that a path on this machine is, or is in; undefined if there is none. */
export function setAbove(path: string): string | undefined {
  if (isRemote(path)) return undefined;
  const has = (folder: string, name: string): boolean => existsSync(join(folder, name));
  const full = resolve(/^file:/i.test(path) ? fileURLToPath(path) : path);
  for (let folder = full; ; folder = dirname(folder)) {
    // A group of Zarr v2 has such a document too, and one of its own.
    if (has(folder, ".zmetadata"))
      return has(folder, ".zgroup") || has(folder, ".zarray") ? undefined : folder;
    if (folder === dirname(folder)) return undefined;
  }
}

async function locatePath(path: string, typed: string): Promise<Location> {
  try {
    if (statSync(path).isDirectory()) return inBlosc2Folder(path) ?? { store: new FileStore(path), path: "" };
    // Who names a link means what it leads to; links inside of an archive are another matter.
    const real = await realpath(path);
    refuseName(basename(real), typed);
    return { store: new FileStore(dirname(real)), path: basename(real) };
  } catch (cause) {
    if (cause instanceof SuperchunkError) throw cause;
    const held = inBlosc2Folder(path);
    if (held !== undefined) return held;
    const file = fileAbove(path);
    if (file !== undefined)
      return { store: new FileStore(dirname(file)), path: `${basename(file)}${path.slice(file.length)}` };
    // Node.js puts this character in the place of bytes that are not UTF-8, also in what is typed.
    const advice = path.includes("\ufffd")
      ? "; names that are not UTF-8 cannot be opened: rename the file or folder first"
      : "";
    throw new SuperchunkError("NOT_FOUND", `no such file or folder${advice}`, { path: typed, cause });
  }
}

/** What is in a store of Blosc2 that is a folder is read by the store: its arrays have paths without the endings of files. */
function inBlosc2Folder(path: string): Location | undefined {
  const [, held = "", inside] = /^(.*?\.b2d)[\\/](.+)$/i.exec(path) ?? [];
  if (inside === undefined || statIfThere(held)?.isDirectory() !== true) return undefined;
  return { store: new FileStore(dirname(held)), path: `${basename(held)}/${inside.replaceAll("\\", "/")}` };
}

/** The file that a path goes on after: `bars.h5` of `bars.h5/group/prices`; undefined if there is none. */
function fileAbove(path: string): string | undefined {
  for (let above = dirname(path); above !== dirname(above); above = dirname(above)) {
    const found = statIfThere(above);
    if (found !== undefined) return found.isFile() ? above : undefined;
  }
  return undefined;
}

/** What is opened with a store, or something else, that has no other user; where it cannot be opened, that is closed. */
export async function closeOnFailure<T>(store: { close?(): Promise<void> }, opening: Promise<T>): Promise<T> {
  try {
    return await opening;
  } catch (error) {
    await store.close?.();
    throw error;
  }
}

/** A writable place, which need not exist: a folder, or `s3://bucket/prefix`. */
export interface WritableLocation {
  readonly store: WritableStore;
  readonly path: string;
}

/** What a place that may be read begins with: an address as it is, a folder with its whole path. */
export function addressOf(place: string): string {
  return isAddress(place) ? place : `file://${resolve(place)}/`;
}

/** True for what has a scheme, `file://` among them; false for paths. */
export function isAddress(location: string): boolean {
  return /^[a-z][a-z0-9+.-]+:\/\//i.test(location);
}

/** True for addresses that are not those of files. */
export function isRemote(location: string): boolean {
  return isAddress(location) && !/^file:/i.test(location);
}

/** True for addresses that begin with `s3://`. */
export function isS3Address(location: string): boolean {
  return /^s3:\/\//i.test(location);
}

/**
 * Finds the store for a destination, which need not exist: rooted there, or for a `file` in the folder above.
 *
 * @throws UNSUPPORTED for addresses that cannot be written; BAD_ARGUMENT for an empty path, and a name that cannot be a key
 */
export function locateTarget(location: string, kind: "folder" | "file" = "folder"): WritableLocation {
  if (isS3Address(location)) {
    const { prefix = "", ...where } = parseS3Address(location);
    if (kind === "folder") return { store: new S3Store({ ...where, prefix }), path: "" };
    const { folder, name } = splitKey(prefix);
    return { store: new S3Store({ ...where, prefix: folder }), path: name };
  }
  const path = localPath(location);
  if (kind === "folder") return { store: new FileStore(path), path: "" };
  refuseName(basename(path), location);
  return { store: new FileStore(dirname(path)), path: basename(path) };
}

/** Refuses no path, and an empty one: it would be the current folder, and usually comes from an empty variable. Throws `BAD_ARGUMENT`. */
export function refuseEmptyPath(location: unknown): void {
  if (typeof location !== "string" && !(location instanceof URL))
    throw badArgument("the path", location, "a path or an address");
  if (location !== "") return;
  throw new SuperchunkError("BAD_ARGUMENT", "the path is empty; give one, or . for the current folder", {
    field: "path",
    found: location,
  });
}

/** Options that are true or false, and those that are numbers of 0 or more, in every call that has them. */
const BOOLEANS = words(
  "breakLock concat directMemory immutable looksAtAll overwrite portable readOnly recode resume skipFailed verify writeEmptyChunks zarr",
);
const COUNTS = words("cachedEntries concurrency jobs maxGap threads");

/**
 * Refuses options that are not among `known`, names separated by spaces, and values of another type: without types, a slip would pass.
 * Throws `BAD_ARGUMENT`.
 */
export function checkOptions(options: unknown, known: string): void {
  if (typeof options !== "object" || options === null) throw badArgument("options", options, "an object");
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined) continue;
    if (!words(known).includes(name)) throw unknownOption(name, value, words(known));
    if (BOOLEANS.includes(name) && typeof value !== "boolean")
      throw badArgument(name, value, "true or false");
    if (COUNTS.includes(name) && !(typeof value === "number" && value >= 0))
      throw badArgument(name, value, "a number of 0 or more");
    if (name === "signal" && typeof value?.throwIfAborted !== "function")
      throw badArgument(name, value, "an AbortSignal");
    if (/^on[A-Z]/.test(name) && typeof value !== "function") throw badArgument(name, value, "a function");
  }
}

function words(text: string): string[] {
  return text.split(" ");
}

function unknownOption(name: string, found: unknown, known: readonly string[]): SuperchunkError {
  const start = name.slice(0, 4).toLowerCase();
  const near = known.filter((each) => each.toLowerCase().startsWith(start));
  const advice = near.length > 0 ? `did you mean ${near.join(" or ")}?` : `there are ${known.join(", ")}`;
  return new SuperchunkError("BAD_ARGUMENT", `unknown option "${name}"; ${advice}`, { field: name, found });
}

/** Refuses the name of a file that cannot be a key. Throws `BAD_ARGUMENT`. */
function refuseName(name: string, location: string): void {
  if (isPlainPath(name)) return;
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    "names of files with a backslash, or with half a character, are not taken; give it another name",
    { path: location, field: "path", found: name },
  );
}

/** The absolute path of what is to be written on this machine. */
function localPath(location: string): string {
  refuseEmptyPath(location);
  const scheme = /^([a-z][a-z0-9+.-]+):\/\//i.exec(location)?.[1]?.toLowerCase();
  if (scheme === "http" || scheme === "https")
    throw new SuperchunkError("UNSUPPORTED", "nothing can be written to http(s):// addresses", {
      path: location,
    });
  if (scheme !== undefined && scheme !== "file") throw unknownScheme(scheme, location);
  return resolve(scheme === "file" ? fileURLToPath(location) : location);
}

const PUBLIC: Readonly<Record<string, string>> = {
  gs: "https://storage.googleapis.com/BUCKET/KEY",
  az: "https://ACCOUNT.blob.core.windows.net/CONTAINER/KEY",
};

function unknownScheme(scheme: string, location: string): SuperchunkError {
  const web = PUBLIC[scheme];
  return new SuperchunkError(
    "UNSUPPORTED",
    `addresses that start with ${scheme}:// are not known; give a path, or an http(s):// or s3:// address${web === undefined ? "" : `: what is public there is at ${web} too`}`,
    // Neither a password nor a token.
    { path: location.replace(/\?.*$/s, "").replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/]*@/i, "$1") },
  );
}

/** The last part of the prefix is the key, so that an archive that is a file has one. */
function locateS3(location: string): Location {
  const { prefix = "", ...where } = parseS3Address(location);
  const { folder, path } = splitHeld(prefix);
  return { store: withCoalescing(new S3Store({ ...where, prefix: folder })), path };
}

/** A key, and the folder that it is in; a file or store that holds others is named in the key: `bars.h5/group/prices`. */
function splitHeld(whole: string): { readonly folder: string; readonly path: string } {
  const [, folder = "", path] = HELD.exec(whole) ?? [];
  if (path !== undefined) return { folder, path };
  const { folder: above, name } = splitKey(whole);
  return { folder: above, path: name };
}

/** The last part of the URL's path is the key, so that an archive that is a file has one. */
function locateUrl(location: string): Location {
  const url = URL.canParse(location) ? new URL(location) : undefined;
  if (url === undefined || !isEncoded(url.pathname))
    // The address is not repeated: it may hold a password.
    throw new SuperchunkError("BAD_ARGUMENT", "the http(s):// address is not a valid URL", { field: "path" });
  const parts = url.pathname.split("/").filter((part) => part !== "");
  const { folder, path } = splitHeld(parts.join("/"));
  url.pathname = folder === "" ? "/" : `/${folder}/`;
  return { store: withCoalescing(new HttpStore(url.href)), path: decodeURIComponent(path) };
}

function isEncoded(path: string): boolean {
  try {
    decodeURIComponent(path);
    return true;
  } catch {
    return false;
  }
}
