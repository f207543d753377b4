/**
 * Converts a typed location to a store and a key: paths, `file:`, `http(s):`, `s3:`, `gs:` and `az:` URLs. Also finds the Zarr hierarchy
 * that a location is in.
 */

import { existsSync, statSync } from "node:fs";
import { realpath } from "node:fs/promises";
import { basename, dirname, join, parse, relative, resolve, sep } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { checkOptions } from "../bytes/check-options.ts";
import { badArgument, isSuperchunkError, SuperchunkError } from "../errors.ts";
import { HELD_ENDS } from "../format/naming.ts";
import type { StoredPlace } from "../places/declared.ts";
import { HttpStore } from "../store/http.ts";
import { isPlainPath, joinKey, splitKey } from "../store/key.ts";
import { rethrowAfter } from "../store/pool.ts";
import type { ReadableStore, StoreOptions, WritableStore } from "../store/types.ts";
import { withCoalescing } from "../store/wrappers/coalescing.ts";
import {
  type ConsolidateOptions,
  type Consolidation,
  consolidateGroup,
  findHierarchy,
  joinHierarchy,
} from "../zarr/write/node-document.ts";
import { bucketStore, parseBucketAddress } from "./buckets/address.ts";
import { environmentOfS3 } from "./buckets/s3.ts";
import { keyOf } from "./fs/fs-folders.ts";
import { isAbsence, isFolder, lstat, statIfThere } from "./fs/fs-handles.ts";
import { FileStore } from "./fs/fs-store.ts";
import { acquireLock } from "./fs/lock.ts";

/** A place in a store. */
export interface Location {
  readonly store: ReadableStore;
  /** Key in the store; `""` is its root. */
  readonly path: string;
}

/** A path into an HDF5 file, a store of Blosc2 or a set of references: the folder of that, and the rest. */
const HELD = new RegExp(`^(?:(.*?)/)?([^/]+\\.(?:${HELD_ENDS}|json|parq)/.+)$`, "i");

/** True for addresses that begin with `s3://`, `gs://` or `az://`. */
export function isBucketAddress(location: string): boolean {
  return /^(?:s3|gs|az):\/\//i.test(location);
}

/** Finds the store and key of an existing path or URL. Throws `NOT_FOUND`, `UNSUPPORTED` (another scheme), `BAD_ARGUMENT` (empty). */
export async function locate(location: string): Promise<Location> {
  const scheme = schemeOf(location);
  if (scheme === "http" || scheme === "https") return locateUrl(location);
  if (isBucketAddress(location)) {
    const address = parseBucketAddress(location);
    const { folder, path } = splitHeld(address.prefix);
    return { store: withCoalescing(bucketStore(address, folder)), path };
  }
  if (scheme !== undefined && scheme !== "file") throw unknownScheme(scheme, location);
  return locatePath(resolve(givenPath(location)), location);
}

/** Throws `UNSUPPORTED` for a folder, where a file is read. */
export function refuseFolder(location: string): void {
  if (isRemote(location) || !isFolder(givenPath(location))) return;
  throw new SuperchunkError("UNSUPPORTED", "this is a folder; give a file, such as one in it", {
    path: location,
    expected: "a file",
    found: "a folder",
  });
}

/** A set of references, and its folder, which has the file of containers too, even if the set is itself a folder. */
export async function locateBeside(location: string): Promise<Location> {
  if (isRemote(location)) return locate(location.replace(/\/+(?=\?|$)/, ""));
  const full = resolve(givenPath(location));
  const set = fileAbove(full) ?? setAbove(full) ?? full;
  return besideOf(set, full);
}

/** `path` in the folder of `file`, which is the path or a file above it. */
function besideOf(file: string, path: string): Location {
  return { store: new FileStore(dirname(file)), path: `${basename(file)}${keyOf(path.slice(file.length))}` };
}

/** The folder of a set of references in Parquet that a local path is, or is in; undefined if there is none. */
export function setAbove(path: string): string | undefined {
  if (isRemote(path)) return undefined;
  const has = (folder: string, name: string): boolean => existsSync(join(folder, name));
  const full = resolve(givenPath(path));
  for (let folder = full; ; folder = dirname(folder)) {
    // A group of Zarr v2 has this document too, but also its own.
    if (has(folder, ".zmetadata"))
      return has(folder, ".zgroup") || has(folder, ".zarray") ? undefined : folder;
    if (folder === dirname(folder)) return undefined;
  }
}

async function locatePath(path: string, typed: string): Promise<Location> {
  try {
    if (statSync(path).isDirectory()) return inBlosc2Folder(path) ?? { store: new FileStore(path), path: "" };
    // A link named by the user is followed; links inside of an archive are checked.
    const real = await realpath(path);
    refuseName(basename(real), typed);
    return { store: new FileStore(dirname(real)), path: basename(real) };
  } catch (cause) {
    if (cause instanceof SuperchunkError) throw cause;
    const held = inBlosc2Folder(path);
    if (held !== undefined) return held;
    const file = fileAbove(path);
    if (file !== undefined) return besideOf(file, path);
    // A link that leads nowhere, or to itself, and a folder that may not be searched are not the same as nothing.
    if (!isAbsence(cause) || lstat(path) !== undefined)
      await new FileStore(dirname(path)).stat(basename(path));
    // Node.js replaces bytes that are not UTF-8 by this character, also in typed arguments.
    const advice = path.includes("\ufffd")
      ? "; names that are not UTF-8 cannot be opened: rename the file or folder first"
      : "";
    throw new SuperchunkError("NOT_FOUND", `no such file or folder${advice}`, { path: typed, cause });
  }
}

/** A Blosc2 store that is a folder opens its own content: its arrays have paths without file extensions. */
function inBlosc2Folder(path: string): Location | undefined {
  const [, held = "", inside] = /^(.*?\.b2d)[\\/](.+)$/i.exec(path) ?? [];
  if (inside === undefined || statIfThere(held)?.isDirectory() !== true) return undefined;
  return { store: new FileStore(dirname(held)), path: `${basename(held)}/${inside.replaceAll("\\", "/")}` };
}

/** The file in the middle of a path: `bars.h5` of `bars.h5/group/prices`; undefined if there is none. */
function fileAbove(path: string): string | undefined {
  for (let above = dirname(path); above !== dirname(above); above = dirname(above)) {
    const found = statIfThere(above);
    if (found !== undefined) return found.isFile() ? above : undefined;
  }
  return undefined;
}

/** Closes the store (or other resource) if opening something with it fails. It must have no other user. */
export async function closeOnFailure<T>(store: { close?(): Promise<void> }, opening: Promise<T>): Promise<T> {
  return opening.catch(rethrowAfter(() => store.close?.()));
}

/** Lets `use` work with what was opened, and closes it. */
export async function closing<T extends { close?(): Promise<void> }, R>(
  opened: T,
  use: (opened: T) => Promise<R>,
): Promise<R> {
  try {
    return await use(opened);
  } finally {
    await opened.close?.();
  }
}

/** A writable place, which need not exist: a folder, or a prefix in a bucket. */
export interface WritableLocation {
  readonly store: WritableStore;
  readonly path: string;
}

/** The start of the locations in an allowed place: an address unchanged, a folder as an absolute `file://` URL. */
export function addressOf(place: string): string {
  if (isAddress(place)) return place;
  const path = keyOf(resolve(place)).replace(/^[a-z]:/i, (drive) => `/${drive.toUpperCase()}`);
  return `file://${path.replace(/\/?$/, "/")}`;
}

/** The reverse: the path of a folder or a file from its location, which is not encoded. */
export function pathOf(location: string): string {
  const path = location.slice("file://".length);
  return resolve(sep === "/" ? path : path.replace(/^\/(?=[a-z]:)/i, ""));
}

/** The absolute path without symbolic links, also of a path that does not exist yet; an address without its settings. */
export async function realLocation(path: string): Promise<string> {
  if (isAddress(path)) return path.replace(/\?.*$/s, "").replace(/\/+$/, "");
  const full = resolve(path);
  try {
    return await realpath(full);
  } catch {
    const parent = dirname(full);
    return parent === full ? full : join(await realLocation(parent), basename(full));
  }
}

/** Refuses a new place in the folder of an array: the one at `root`, or another, whose clean-up would take it for its own. Throws `BAD_ARGUMENT`. */
export async function refuseInside({ name, prefix }: StoredPlace, root: string): Promise<void> {
  if (isRemote(prefix) && !isBucketAddress(prefix)) return;
  const home = wholeStore(await realLocation(root));
  const { store, path } = wholeStore(await realLocation(isRemote(prefix) ? prefix : pathOf(prefix)));
  try {
    const own = home.store.describe(home.path);
    for (let folder = path; folder !== ""; { folder } = splitKey(folder)) {
      const above = store.describe(folder);
      const files = ["meta/storage", "meta/sizes", "__rootdirs__"].map((file) =>
        store.stat(`${folder}/${file}`),
      );
      if (above !== own && (await Promise.all(files)).every((found) => found === undefined)) continue;
      throw new SuperchunkError(
        "BAD_ARGUMENT",
        `the place "${name}" (${prefix}) is in the folder of ${above === own ? "the array itself" : `the array ${above}`}; give a folder outside of it`,
        { path: root, field: "place", expected: "a folder outside of arrays", found: prefix },
      );
    }
  } finally {
    for (const each of [store, home.store]) await each.close?.();
  }
}

/**
 * The addresses of a place that may be read. A bucket in S3 is allowed at Amazon and at the server that the AWS tools would ask, unless the
 * address names a server.
 */
export function allowedAddresses(place: string): readonly string[] {
  const address = addressOf(place);
  const { endpoint } = environmentOfS3();
  if (endpoint === undefined || !/^s3:\/\/[^?]*$/i.test(address)) return [address];
  return [address, `${address}?endpoint=${encodeURIComponent(endpoint)}`];
}

/** True for a location with a scheme, including `file://`; false for paths. */
export function isAddress(location: string): boolean {
  return /^[a-z][a-z0-9+.-]+:\/\//i.test(location);
}

/** The last part of a path or an address: the name of what is there. */
export function nameOf(location: string): string {
  if (!isRemote(location)) return basename(localPath(location));
  return decodeURIComponent(
    new URL(location).pathname.split("/").findLast((part) => part !== "") ?? "archive",
  );
}

/** Throws `BAD_ARGUMENT` if two paths have the same name, under which both would be in the result. */
export function assertNamesDiffer(names: readonly string[]): void {
  const seen = new Set<string>();
  const twice = names.find((name) => seen.size === seen.add(name).size);
  if (twice === undefined) return;
  const reason = `two paths have the name "${twice}", under which both would be in the result`;
  throw new SuperchunkError("BAD_ARGUMENT", `${reason}; give them one by one`, { field: "paths" });
}

/** True for addresses other than `file://`. */
export function isRemote(location: string): boolean {
  return isAddress(location) && !/^file:/i.test(location);
}

/**
 * Returns the store for a destination, which need not exist: rooted at the destination, or for a `file` at its folder.
 *
 * @throws UNSUPPORTED for addresses that cannot be written; BAD_ARGUMENT for an empty path, and a name that cannot be a key
 */
export function locateTarget(location: string, kind: "folder" | "file" = "folder"): WritableLocation {
  if (isBucketAddress(location)) {
    const address = parseBucketAddress(location);
    if (kind === "folder") return { store: bucketStore(address), path: "" };
    const { folder, name } = splitKey(address.prefix);
    return { store: bucketStore(address, folder), path: name };
  }
  const path = localPath(location);
  if (kind === "folder") return { store: new FileStore(path), path: "" };
  refuseName(basename(path), location);
  return { store: new FileStore(dirname(path)), path: basename(path) };
}

/**
 * Refuses a missing or empty path: an empty one would mean the current folder, and usually comes from an empty variable. Refuses an address
 * that lost a slash too, as in programs that tidy paths: its data would go to a folder "s3:". Throws `BAD_ARGUMENT`.
 */
export function refuseEmptyPath(location: unknown): void {
  if (typeof location !== "string" && !(location instanceof URL))
    throw badArgument("the path", location, "a path or an address");
  const [, scheme, rest] = /^(https?|s3|gs|az):\/(?!\/)(.*)$/is.exec(String(location)) ?? [];
  if (scheme !== undefined)
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `the address lacks a slash: write ${scheme}://${rest}, or ./${scheme}:/${rest} for a folder of that name`,
      { field: "path", found: location },
    );
  if (location !== "") return;
  throw new SuperchunkError("BAD_ARGUMENT", "the path is empty; give one, or . for the current folder", {
    field: "path",
    found: location,
  });
}

/** A path or an address as text; of a `file:` address, its path, because a lock and a link are looked for there. Throws `BAD_ARGUMENT`. */
export function givenPath(location: string | URL): string {
  refuseEmptyPath(location);
  const text = String(location);
  if (!/^file:\/\//i.test(text)) return text;
  try {
    return fileURLToPath(text);
  } catch {
    throw badArgument("the path", text, "file:/// and an absolute path");
  }
}

/** Refuses a file name that cannot be a key. Throws `BAD_ARGUMENT`. */
function refuseName(name: string, location: string): void {
  if (isPlainPath(name)) return;
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    "names of files with a backslash, or with half a character, are not taken; give it another name",
    { path: location, field: "path", found: name },
  );
}

/** The absolute local path of a destination. */
function localPath(location: string): string {
  const scheme = schemeOf(location);
  if (scheme === "http" || scheme === "https")
    throw new SuperchunkError("UNSUPPORTED", "nothing can be written to http(s):// addresses", {
      path: location,
    });
  if (scheme !== undefined && scheme !== "file") throw unknownScheme(scheme, location);
  return resolve(givenPath(location));
}

/** The scheme before `://` of an address, in lower case; undefined for a path. Throws `BAD_ARGUMENT` for an empty one. */
function schemeOf(location: string): string | undefined {
  refuseEmptyPath(location);
  return /^([a-z][a-z0-9+.-]+):\/\//i.exec(location)?.[1]?.toLowerCase();
}

function unknownScheme(scheme: string, location: string): SuperchunkError {
  return new SuperchunkError(
    "UNSUPPORTED",
    `addresses that start with ${scheme}:// are not known; give a path, or an address that starts with http(s)://, s3://, gs:// or az://`,
    // Removes password and token.
    { path: location.replace(/\?.*$/s, "").replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/]*@/i, "$1") },
  );
}

/** Splits a path into folder and key. The key includes a file or store that holds others: `bars.h5/group/prices`. */
function splitHeld(whole: string): { readonly folder: string; readonly path: string } {
  const [, folder = "", path] = HELD.exec(whole) ?? [];
  if (path !== undefined) return { folder, path };
  const { folder: above, name } = splitKey(whole);
  return { folder: above, path: name };
}

/** The last part of the URL's path is the key, because a single-file archive needs one. */
function locateUrl(location: string): Location {
  const url = URL.canParse(location) ? new URL(location) : undefined;
  if (url === undefined || decodePath(url.pathname) === undefined)
    // The message does not repeat the address, which may contain a password.
    throw new SuperchunkError("BAD_ARGUMENT", "the http(s):// address is not a valid URL", { field: "path" });
  const parts = url.pathname.split("/").filter((part) => part !== "");
  const { folder, path } = splitHeld(parts.join("/"));
  url.pathname = folder === "" ? "/" : `/${folder}/`;
  return { store: withCoalescing(new HttpStore(url.href)), path: decodeURIComponent(path) };
}

/** The path of an address without its encoding; undefined if that is not valid. */
export function decodePath(path: string): string | undefined {
  try {
    return decodeURIComponent(path);
  } catch {
    return undefined;
  }
}

// The Zarr hierarchy around a path: the groups above it, and their copies of other nodes' metadata.
//
// Knows paths and locks; `zarr/write/node-document.ts` decides what is written.

/** Serializes the writers of one machine that update the metadata of a hierarchy. */
const LOCK = ".superchunk-metadata.lock";
/** Number of tries, and the longest wait between them: together some 20 seconds, enough for hundreds of writers. */
const TRIES = 400;
const LONGEST_WAIT_MS = 100;

/** A place that will be a node of an existing hierarchy. */
export interface Membership {
  /** Names of the groups above that do not exist yet. */
  readonly missing: readonly string[];
  /**
   * Creates the missing groups above, and adds the node to the consolidated metadata of all groups above. Resolves with notes
   * for the user.
   */
  join(): Promise<readonly string[]>;
}

/**
 * The hierarchy above a path without symbolic links, or an address in a bucket, or above a node below these; undefined if there is none. Throws `CONFLICT` for a place in an
 * array or an archive.
 */
export async function findMembership(
  location: string,
  options: StoreOptions,
  node = "",
): Promise<Membership | undefined> {
  const { store, path: base } = wholeStore(location);
  const path = joinKey(base, node);
  const found = await findHierarchy(store, path, options).finally(() => store.close?.());
  if (found === undefined) return undefined;
  const { root } = found;
  return {
    missing: found.missing.map((group) => store.describe(group)),
    join: async () => {
      const change = (): Promise<string[]> => joinHierarchy(store, root, path, options);
      try {
        const made = await inTurn(lockIn(store, root), change, options.signal);
        return made.map((group) => `${store.describe(group)}: created the missing Zarr group`);
      } catch (error) {
        if (!isSuperchunkError(error)) throw error;
        return [
          `${store.describe(root)}: its metadata do not list the new node (${error.summary}); "superchunk consolidate" does that`,
        ];
      } finally {
        await store.close?.();
      }
    },
  };
}

/**
 * Updates the consolidated metadata of the Zarr v3 group at a path or an address in a bucket to list all nodes below it. Groups below with
 * consolidated metadata are updated too, and missing groups between the nodes are created. `dryRun` returns what is missing.
 *
 * @throws NOT_FOUND, UNSUPPORTED for an array; CONFLICT for an archive that is a Zarr group as well, or if other writers keep changing it;
 * READ_ONLY, NO_SPACE, IO
 */
export async function consolidate(
  location: string,
  options: ConsolidateOptions = {},
): Promise<Consolidation> {
  checkOptions(options, "dryRun signal");
  const { store, path } = locateTarget(location);
  const lock = isBucketAddress(location) ? undefined : join(resolve(location), LOCK);
  return closing(store, async () => {
    // Without a node or a change there is nothing to lock, and no folder is created.
    if (options.dryRun === true || (await store.stat("zarr.json", options)) === undefined)
      return await consolidateGroup(store, path, options);
    return await inTurn(lock, () => consolidateGroup(store, path, options), options.signal);
  });
}

/** The store of a whole disk or bucket, and the key of a place in it, so that it includes the groups above. */
function wholeStore(location: string): { readonly store: WritableStore; readonly path: string } {
  if (isBucketAddress(location)) {
    const address = parseBucketAddress(location);
    return { store: bucketStore(address, ""), path: address.prefix };
  }
  const full = resolve(location);
  const { root } = parse(full);
  return { store: new FileStore(root), path: keyOf(relative(root, full)) };
}

function lockIn(store: WritableStore, root: string): string | undefined {
  return store instanceof FileStore ? join(store.describe(root), LOCK) : undefined;
}

/** Repeats a change until no other writer was faster, under a lock if one is possible. */
async function inTurn<T>(
  lock: string | undefined,
  change: () => Promise<T>,
  signal: AbortSignal | undefined,
): Promise<T> {
  let conflict: SuperchunkError | undefined;
  for (let tries = 0; tries < TRIES; tries++) {
    signal?.throwIfAborted();
    try {
      const held = lock === undefined ? undefined : await acquireLock(lock);
      try {
        return await change();
      } finally {
        await held?.release();
      }
    } catch (error) {
      if (!isSuperchunkError(error, "CONFLICT")) throw error;
      conflict = error;
    }
    await delay(Math.random() * LONGEST_WAIT_MS, undefined, { signal });
  }
  throw conflict;
}
