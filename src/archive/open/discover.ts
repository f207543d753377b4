/** Finds the archives inside a folder. */
import { isSuperchunkError, type SuperchunkError } from "../../errors.ts";
import { startsAsJournal } from "../../format/header.ts";
import { ZARR_DOCUMENTS } from "../../format/naming.ts";
import { joinKey, refuseListed, showListed } from "../../store/key.ts";
import type { ListEntry, ReadableStore } from "../../store/types.ts";
import type { OpenOptions } from "../kinds/types.ts";

/** What the name of a file ends with that a conversion has made and not compared yet: it is not an archive. */
export const UNVERIFIED = ".superchunk-unverified";

/** An archive that was found: its key, and whether it is a file or a folder, or something else that was asked for. */
export interface FoundArchive {
  readonly path: string;
  readonly kind: "file" | "folder" | "other";
  /** Set for what cannot be looked into because of its name; `path` is then as messages show it. */
  readonly error?: SuperchunkError;
}

/** Options of {@link findArchives}. */
export interface FindOptions extends OpenOptions {
  /** Tells folders of another kind, which are found too, as `other`, and not searched (default: none); HDF5 files and frames of Blosc2 are found with them. */
  readonly isOther?: ((entries: readonly ListEntry[]) => boolean) | undefined;
}

/**
 * Walks a folder and finds every archive in it, in the order of their names; the inside of an archive is not
 * searched. Files count by their first bytes, and by the name `.blp` (so that damaged ones are reported and not
 * passed over). What cannot be looked into is given too, for `open` to say why. Needs a store that can list.
 */
export async function* findArchives(
  store: ReadableStore,
  path = "",
  options: FindOptions = {},
): AsyncGenerator<FoundArchive> {
  options.signal?.throwIfAborted();
  const entries: ListEntry[] = [];
  for await (const entry of store.list(path, options)) entries.push(entry);
  if (await isArchiveFolder(store, path, entries, options)) {
    yield { path, kind: "folder" };
    return;
  }
  if (options.isOther?.(entries) === true) {
    yield { path, kind: "other" };
    return;
  }
  entries.sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const { name, kind } of entries) {
    if (kind === "object" && name.endsWith(UNVERIFIED)) continue;
    const refusal = refuseListed(name, store.describe(path));
    if (refusal !== undefined) {
      // A file by its name alone: what else it may be is not known.
      const isFile = kind === "object";
      if (!isFile || name.endsWith(".blp"))
        yield { path: showListed(path, name), kind: isFile ? "file" : "folder", error: refusal };
      continue;
    }
    const key = joinKey(path, name);
    try {
      if (kind === "folder") yield* findArchives(store, key, options);
      else if (name.endsWith(".blp")) yield { path: key, kind: "file" };
      else {
        const start = await readStart(store, key, options);
        if (start === "blpk") yield { path: key, kind: "file" };
        else if (
          options.isOther !== undefined &&
          (start === HDF5 || start === BLOSC2 || HDF5_NAME.test(name))
        )
          yield { path: key, kind: "other" };
      }
    } catch (error) {
      if (!isSuperchunkError(error)) throw error;
      // A dead link and a pipe are archives only by their names.
      const isOpaque = kind === "object" && (error.code === "INCOMPLETE" || error.code === "UNSUPPORTED");
      if (isOpaque && !name.endsWith(".blp")) continue;
      // What cannot be looked into (a link that leads out, a folder without permission) must not hide the others.
      if (!isOpaque && error.code !== "UNSAFE_PATH" && error.code !== "IO") throw error;
      yield { path: key, kind: kind === "folder" ? "folder" : "file" };
    }
  }
}

/** True for a folder with the document of a Zarr node, or of a sparse frame of Blosc2. */
export function isZarrFolder(entries: readonly ListEntry[]): boolean {
  return isShownFolder(entries) || hasObject(entries, ZARR_DOCUMENTS);
}

/** True for the folder of a sparse frame or a store of Blosc2, which are shown as Zarr. */
export function isShownFolder(entries: readonly ListEntry[]): boolean {
  return hasObject(entries, [SPARSE_FRAME, STORE_FILE]);
}

function hasObject(entries: readonly ListEntry[], names: readonly string[]): boolean {
  return entries.some(({ name, kind }) => kind === "object" && names.includes(name));
}

async function isArchiveFolder(
  store: ReadableStore,
  path: string,
  entries: readonly ListEntry[],
  options: OpenOptions,
): Promise<boolean> {
  if (entries.some((entry) => entry.name === "__rootdirs__" && entry.kind === "object")) return true;
  if (!entries.some((entry) => entry.name === "meta" && entry.kind === "folder")) return false;
  for await (const { name, kind } of store.list(joinKey(path, "meta"), options)) {
    if (kind === "object" && (name === "sizes" || name === "storage")) return true;
  }
  return false;
}

/** The file of a sparse frame of Blosc2 that is not a chunk. */
const SPARSE_FRAME = "chunks.b2frame";
/** A file that every folder of a store of Blosc2 has. */
const STORE_FILE = "embed.b2e";

/** The first four bytes of an HDF5 file, as text. */
const HDF5 = "\x89HDF";
/** And of a frame of Blosc2. */
const BLOSC2 = "\x9e\xa8b2";
/** Names of HDF5 files that begin with something else: a user block, or damage; and of stores of Blosc2, which are zip archives. */
const HDF5_NAME = /\.(?:h5|hdf5?|he5|b2z)$/i;

/** The first four bytes of a file; nothing for the journal beside an archive, which begins as that does. */
async function readStart(store: ReadableStore, key: string, options: OpenOptions): Promise<string> {
  const head = (await store.getRange(key, { offset: 0, length: 8 }, options)) ?? new Uint8Array(0);
  return startsAsJournal(head) ? "" : String.fromCharCode(...head.subarray(0, 4));
}

/**
 * True if what was found at `where` (as messages name it) is a link out of the searched folder, or in a circle, which is not
 * followed: then nothing is known to be wrong with any archive.
 */
export function isUnfollowed(error: unknown, where: string): error is SuperchunkError {
  return isSuperchunkError(error, "UNSAFE_PATH") && error.details.path === where;
}
