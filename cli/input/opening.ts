/** Opens a typed path or address: an archive, or a Zarr array or group, also inside of a hierarchy; and chooses its columns. */
import { existsSync } from "node:fs";
import { stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import {
  type Archive,
  type BytesArchive,
  isSuperchunkError,
  type OpenAnyOptions,
  type Readable,
  type ReadableArray,
  type ReadableTable,
  SuperchunkError,
} from "../../src/index.ts";
import { consolidate, open } from "../../src/node/index.ts";
import type { GroupArrays, ZarrArray, ZarrGroup } from "../../src/zarr.ts";
import { wrongUse } from "../failure.ts";

export type FoundAtPath =
  | { readonly archive: Archive; readonly node?: never }
  | { readonly node: ZarrArray | ZarrGroup; readonly archive?: never };

/** What commands work with. A group is opened with all arrays below it. */
export type Subject = BytesArchive | ReadableArray | ReadableTable | GroupArrays;

/** For a group: arrays that cannot be read are skipped, with a warning. */
interface SubjectOptions {
  readonly skipUnreadable?: boolean;
}

/** Opens a path; `close()` of the result releases the store. Throws `NOT_FOUND`, `UNSUPPORTED`, and the codes of damage. */
export async function openPath(path: string, options: OpenAnyOptions & SubjectOptions): Promise<Subject> {
  // A user who names columns does not need the others.
  const { skipUnreadable = options.columns !== undefined, ...settings } = options;
  const opened = await open(path, settings);
  try {
    return await (opened.kind === "group" ? opened.arrays({ skipUnreadable }) : opened);
  } catch (error) {
    await opened.close();
    if (!isSuperchunkError(error) || opened.kind !== "group") throw error;
    const { code, summary, details } = error;
    throw new SuperchunkError(code, `${summary}; --column chooses arrays that can be read`, details);
  }
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

/** The archive at a path, else the Zarr node. Throws as {@link openPath}. */
export async function findAt(path: string, options: OpenAnyOptions): Promise<FoundAtPath> {
  const opened = await open(path, options);
  return isZarr(opened) ? { node: opened } : { archive: opened };
}

function isZarr(opened: Readable): opened is ZarrArray | ZarrGroup {
  return opened.dialect.startsWith("zarr") || opened.dialect === "hdf5" || opened.dialect === "blosc2";
}

/** True for a folder of the file system; false for files, URLs and paths that do not exist. */
export async function isFolder(path: string): Promise<boolean> {
  if (/^https?:\/\//i.test(path)) return false;
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}

/** True if a path can be a set of references, by its name or the content of its folder. */
export function mayBeReferences(path: string): boolean {
  const isNamed = /\.(?:json|parq|icechunk)\/*(?:\?.*)?$/i.test(path);
  return isNamed || isReferences(path) || existsSync(`${path}.containers.json`);
}

/** The warning for references that are older than a change of their sources; undefined if none has changed. */
export function behindText(changed: readonly string[]): string | undefined {
  const [first] = changed;
  if (first === undefined) return undefined;
  const others = changed.length > 1 ? ` and ${changed.length - 1} more` : "";
  return `the references are out of date: readers get what was there before a change of ${first}${others}; "superchunk virtualize" with --update writes them again`;
}

/** The warning for a Zarr group on this machine below which other readers do not find all nodes; undefined for anything else. */
export async function behindMetadata(path: string, signal: AbortSignal): Promise<string | undefined> {
  if (!(await isFolder(path))) return undefined;
  try {
    const { changed, made } = await consolidate(path, { signal, dryRun: true });
    const nameOf = (group: string): string => (group === "" ? path : join(path, group));
    const found = [
      ...made.map((group) => `${nameOf(group)} has no zarr.json`),
      ...changed.map(
        (group) => `the consolidated metadata of ${nameOf(group)} do not list the nodes that are there`,
      ),
    ];
    const others = found.length > 1 ? `, and ${found.length - 1} more` : "";
    return (
      found[0] && `${found[0]}${others}; other readers do not find all nodes until "superchunk consolidate"`
    );
  } catch (error) {
    // Not a group of Zarr v3, or unreadable, which the rest of the report says.
    if (!isSuperchunkError(error)) throw error;
    return undefined;
  }
}

/** True for a folder that is a set of references (Parquet form of kerchunk, or an Icechunk repository), or is inside of a kerchunk set. */
export function isReferences(path: string): boolean {
  const has = (folder: string, name: string): boolean => existsSync(join(folder, name));
  if (has(path, "snapshots") && (has(path, "repo") || has(path, "refs"))) return true;
  for (let folder = resolve(path); ; folder = dirname(folder)) {
    // A group of Zarr v2 has this document too, but also its own.
    if (has(folder, ".zmetadata")) return !has(folder, ".zgroup") && !has(folder, ".zarray");
    if (folder === dirname(folder)) return false;
  }
}

/** Names of separately stored columns: of a table, an array with column folders, or a group; else none. */
export function columnNamesOf(archive: Subject): readonly string[] {
  if (archive.kind === "table" || archive.kind === "group") return archive.names;
  return archive.kind === "array" ? archive.columnNames : [];
}

export function noColumns(archive: Subject): SuperchunkError {
  return wrongUse(
    "column",
    `this is ${archive.kind === "bytes" ? "plain bytes" : "one array"} without columns; leave out --column`,
    { path: archive.store.describe(archive.path) },
  );
}
