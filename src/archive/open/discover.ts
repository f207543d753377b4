/** Finds the archives inside a folder, and the conversions to places there that have not ended, by their records. */
import { isSuperchunkError, type SuperchunkError } from "../../errors.ts";
import { startsAsJournal } from "../../format/header.ts";
import { objectOf, parseJson } from "../../format/json.ts";
import { CONVERT_RECORD, HELD_NAMES, recordKey, ZARR_DOCUMENTS } from "../../format/naming.ts";
import type { JsonObject } from "../../format/types.ts";
import { joinKey, refuseListed, showListed, splitKey } from "../../store/key.ts";
import type { ListEntry, ReadableStore, StoreOptions } from "../../store/types.ts";
import type { OpenOptions } from "../kinds/types.ts";
import { filesOfArchive, isOwnFile } from "./open.ts";

/** Suffix of a file that a conversion has made but not compared yet. Such a file is not an archive. */
export const UNVERIFIED = ".superchunk-unverified";

/** An archive that was found: its key, and whether it is a file, a folder, or another kind that the caller asked for. */
export interface FoundArchive {
  readonly path: string;
  readonly kind: "file" | "folder" | "other";
  /** Names of the files in the folder that have the archive's metadata. */
  readonly metadata?: readonly string[];
  /** Names of files in the folder that are not part of the archive; those of superchunk are not listed. */
  readonly others?: readonly string[];
  /** Set if its name prevents opening it; `path` is then the form that messages use. */
  readonly error?: SuperchunkError;
}

/** Options of {@link findArchives}. */
export interface FindOptions extends OpenOptions {
  /**
   * Recognises folders of other kinds, which are reported as `other` and not searched (default: none). With it, HDF5
   * files and Blosc2 frames are found as well.
   */
  readonly isOther?: ((entries: readonly ListEntry[], path: string) => boolean) | undefined;
  /** Called with the key of each file that is neither an archive nor in one, except those of superchunk. */
  readonly onFile?: ((key: string) => void) | undefined;
  /** Called for each conversion to a place below that was begun and has not ended. Its incomplete archives are not yielded. */
  readonly onUnfinished?: ((conversion: UnfinishedConversion) => void) | undefined;
}

/**
 * Walks a folder and yields every archive in it, in name order; the inside of an archive is not searched. A file counts
 * by its first bytes, or by the name `.blp`, so that damaged ones are reported and not passed over. What cannot be
 * examined is yielded too, so that `open` reports why. Needs a store that can list.
 */
export function findArchives(
  store: ReadableStore,
  path = "",
  options: FindOptions = {},
): AsyncGenerator<FoundArchive> {
  return walk(store, path, options, new Set());
}

/** `begun`: keys of incomplete archives, which are passed over. */
async function* walk(
  store: ReadableStore,
  path: string,
  options: FindOptions,
  begun: Set<string>,
): AsyncGenerator<FoundArchive> {
  options.signal?.throwIfAborted();
  const entries: ListEntry[] = [];
  try {
    for await (const entry of store.list(path, options)) entries.push(entry);
  } catch (error) {
    const unlisted = isSuperchunkError(error, "UNSUPPORTED") && (await findUnlisted(store, path, options));
    if (!unlisted) throw error;
    yield unlisted;
    return;
  }
  const names = entries.flatMap(({ name, kind }) => (kind === "object" ? [name] : []));
  for await (const found of unfinishedIn(store, path, names, options)) {
    options.onUnfinished?.(found);
    for (const node of found.begun) begun.add(joinKey(found.path, node));
  }
  const files = await filesOfArchive(store, path, entries, options);
  if (files !== undefined) {
    const { metadata, others } = files;
    yield { path, kind: "folder", metadata, ...(others.length === 0 ? {} : { others }) };
    return;
  }
  if (options.isOther?.(entries, path) === true) {
    yield { path, kind: "other" };
    return;
  }
  entries.sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const { name, kind } of entries) {
    if (kind === "object" && name.endsWith(UNVERIFIED)) continue;
    const refusal = refuseListed(name, store.describe(path));
    if (refusal !== undefined) {
      // Only the name of such a file is known.
      const isFile = kind === "object";
      if (!isFile || name.endsWith(".blp"))
        yield { path: showListed(path, name), kind: isFile ? "file" : "folder", error: refusal };
      continue;
    }
    const key = joinKey(path, name);
    if (begun.has(key)) continue;
    try {
      if (kind === "folder") yield* walk(store, key, options, begun);
      else if (name.endsWith(".blp")) yield { path: key, kind: "file" };
      else {
        const start = await readMagic(store, key, options);
        if (start.startsWith("blpk")) yield { path: key, kind: "file" };
        else if (
          options.isOther !== undefined &&
          (start.startsWith(HDF5) ||
            start.startsWith(BLOSC2) ||
            (HELD_NAMES.test(name) && !OTHERS.test(start)))
        )
          yield { path: key, kind: "other" };
        else if (!isOwnFile(name, entries)) options.onFile?.(key);
      }
    } catch (error) {
      if (!isSuperchunkError(error)) throw error;
      // A dead link or a pipe is an archive only by its name.
      const isOpaque = kind === "object" && (error.code === "INCOMPLETE" || error.code === "UNSUPPORTED");
      if (isOpaque && !/\.(?:blp|blz|bcolz|zarr)$/.test(name)) continue;
      // What cannot be examined (a link out of the folder, a folder without permission or just removed, a path that is too long) must not hide the others.
      if (!isOpaque && !["UNSAFE_PATH", "IO", "LIMIT", "NOT_FOUND", "UNSUPPORTED"].includes(error.code))
        throw error;
      yield { path: key, kind: kind === "folder" ? "folder" : "file" };
    }
  }
}

/** The archive at `path`, or the node that the caller asks for, in a store that lists no folders, as web servers do; undefined if there is neither. */
async function findUnlisted(
  store: ReadableStore,
  path: string,
  options: FindOptions,
): Promise<FoundArchive | undefined> {
  const isThere = async (name: string): Promise<boolean> =>
    (await store.stat(joinKey(path, name), options)) !== undefined;
  for (const name of ["meta/sizes", "__rootdirs__", "meta/storage"])
    if (await isThere(name)) return { path, kind: "folder" };
  for (const name of [...ZARR_DOCUMENTS, SPARSE_FRAME, STORE_FILE])
    if ((await isThere(name)) && options.isOther?.([{ name, kind: "object" }], path) === true)
      return { path, kind: "other" };
  return undefined;
}

/** True for a folder with the document of a Zarr node or of a sparse Blosc2 frame. */
export function isZarrFolder(entries: readonly ListEntry[]): boolean {
  return isBlosc2Folder(entries) || hasObject(entries, ZARR_DOCUMENTS);
}

/** True for the folder of a sparse Blosc2 frame or a Blosc2 store, which are shown as Zarr. */
export function isBlosc2Folder(entries: readonly ListEntry[]): boolean {
  return hasObject(entries, [SPARSE_FRAME, STORE_FILE]);
}

function hasObject(entries: readonly ListEntry[], names: readonly string[]): boolean {
  return entries.some(({ name, kind }) => kind === "object" && names.includes(name));
}

/** The file of a sparse Blosc2 frame that is not a chunk. */
const SPARSE_FRAME = "chunks.b2frame";
/** A file that every Blosc2 store folder has. */
const STORE_FILE = "embed.b2e";

/** The first four bytes of an HDF5 file, as text. */
const HDF5 = "\x89HDF";
/** The first four bytes of a Blosc2 frame. */
const BLOSC2 = "\x9e\xa8b2";
/** How files of other formats begin whose names are those of HDF5 files: classic netCDF, and MATLAB before 7.3. */
const OTHERS = /^(?:CDF|MATLAB [4-6])/;

/** The first eight bytes of a file; empty for a journal, which begins like an archive. */
async function readMagic(store: ReadableStore, key: string, options: OpenOptions): Promise<string> {
  const head = (await store.getRange(key, { offset: 0, length: 8 }, options)) ?? new Uint8Array(0);
  return startsAsJournal(head) ? "" : String.fromCharCode(...head);
}

/**
 * True if what was found at `where` (as messages name it) is a link out of the searched folder, or a circular one. Such
 * links are not followed, and do not mean that an archive is damaged.
 */
export function isUnfollowed(error: unknown, where: string): error is SuperchunkError {
  return isSuperchunkError(error, "UNSAFE_PATH") && error.details.path === where;
}

/** A conversion that was begun and has not ended: it was interrupted, or is running. */
export interface UnfinishedConversion {
  /** Key of the destination. */
  readonly path: string;
  /** True if its record is in the folder of the destination; otherwise the record is beside it. */
  readonly isFolder: boolean;
  /** What is converted, as paths or addresses; empty if the record does not say. */
  readonly sources: readonly string[];
  /** The format; undefined if the record does not say. */
  readonly to: string | undefined;
  /** How it continues. What was to be replaced can only be replaced, after its old content was removed. */
  readonly kind: "conversion" | "repair" | "plan" | "replacement";
  /** True if several sources become archives of their own below the destination. */
  readonly isMany: boolean;
  /** Paths below the destination of archives that may be incomplete; `""` is the destination itself. */
  readonly begun: readonly string[];
}

/** Implements the exported `findUnfinished`. */
export async function findUnfinished(
  store: ReadableStore,
  path: string,
  options: StoreOptions = {},
): Promise<UnfinishedConversion | undefined> {
  for (const key of new Set([recordKey(path, true), recordKey(path, false)])) {
    const found = await readRecord(store, key, path, options);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The conversions whose records are in a folder: of that folder, and of what is in it. */
export async function* unfinishedIn(
  store: ReadableStore,
  folder: string,
  names: readonly string[],
  options: StoreOptions,
): AsyncGenerator<UnfinishedConversion> {
  for (const name of names.toSorted()) {
    if (!name.startsWith(".") || !name.endsWith(CONVERT_RECORD)) continue;
    const of = name.slice(1, -CONVERT_RECORD.length);
    const found = await readRecord(store, joinKey(folder, name), joinKey(folder, of), options);
    if (found !== undefined) yield found;
  }
}

async function readRecord(
  store: ReadableStore,
  key: string,
  path: string,
  options: StoreOptions,
): Promise<UnfinishedConversion | undefined> {
  const bytes = await store.get(key, options);
  if (bytes === undefined) return undefined;
  let record: JsonObject = {};
  try {
    record = objectOf(parseJson(bytes, store.describe(key)));
  } catch (error) {
    // A power loss may leave such a record.
    if (!isSuperchunkError(error)) throw error;
  }
  const { sources, options: settings, begun, done } = record;
  const { to, repair } = objectOf(settings);
  const isFolder = splitKey(key).name === CONVERT_RECORD;
  const started = Object.keys(objectOf(begun));
  const ended = new Set(Object.keys(objectOf(done)));
  return {
    path,
    isFolder,
    sources: Array.isArray(sources) ? sources.map(String) : [],
    to: typeof to === "string" ? to : undefined,
    kind:
      record["plan"] !== undefined
        ? "plan"
        : record["replacing"] !== undefined
          ? "replacement"
          : repair === undefined
            ? "conversion"
            : "repair",
    isMany: [...started, ...ended].some((node) => node !== ""),
    // A Zarr hierarchy has documents only where everything is complete.
    begun: isFolder ? [] : started.filter((node) => !ended.has(node)),
  };
}
