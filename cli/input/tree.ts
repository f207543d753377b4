/** The archives of a typed path: itself, or all under a folder. */

import { existsSync, realpathSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import {
  type FoundReadable,
  findReadables,
  findUnfinished,
  isSuperchunkError,
  type JsonObject,
  type OpenAnyOptions,
  type OpenOptions,
  openArchive as openIn,
  SuperchunkError,
  type UnfinishedConversion,
} from "../../src/index.ts";
import { FileStore, locate, placeOpener } from "../../src/node/index.ts";
import type { ZarrGroup } from "../../src/zarr.ts";
import type { Context } from "../context.ts";
import { firstNames } from "../output/layout.ts";
import { quoted } from "../values/cell-text.ts";
import { type FoundAtPath, findAt, isFolder, isReferences, openPath, type Subject } from "./opening.ts";
import { isAddress, isBucketAddress } from "./units.ts";

/** An archive, a Zarr array, or a Zarr group, which is followed by the nodes in it. */
export interface NamedArchive {
  /** Name: the path as typed, and the path below that. */
  readonly path: string;
  /** Set for what is in an index of a PyTables table. */
  readonly isIndex?: true | undefined;
  /** Set for a group: it has no chunks of its own. */
  readonly group?: ZarrGroup;
  /** Set if it is already known to be unreadable. */
  readonly error?: unknown;
  /** Set for a conversion to the path that has not ended. It cannot be opened. */
  readonly unfinished?: UnfinishedConversion;
  /** Name in errors. */
  readonly where?: string;
  /** The searched folder, and the key in it. */
  readonly inFolder?: { readonly root: string; readonly key: string };
  open(options: OpenOptions): Promise<Subject>;
}

/**
 * Finds the archives and Zarr nodes at or under `path`. A file that cannot be opened is yielded with its error. Throws
 * `NOT_FOUND` for a folder without any.
 */
export async function* archivesUnder(
  path: string,
  {
    onPacked: tell,
    ...options
  }: OpenAnyOptions & { readonly signal: AbortSignal; readonly onPacked?: (path: string) => void },
): AsyncIterable<NamedArchive> {
  const { signal, measureText } = options;
  if (isBucketAddress(path)) {
    yield* archivesInBucket(path, options);
    return;
  }
  const own = isAddress(path) ? undefined : await unfinishedAt(path, signal);
  if (own !== undefined) yield unfinished(path, own);
  if (!(await isFolder(path)) || isReferences(path)) {
    if (own === undefined || existsSync(path)) yield* archiveOrNodes(path, options);
    return;
  }
  const store = new FileStore(path);
  const openPlace = placeOpener(options);
  try {
    let count = own === undefined ? 0 : 1;
    const waiting: NamedArchive[] = [];
    const onUnfinished = (conversion: UnfinishedConversion): void => {
      if (conversion.path !== "") waiting.push(unfinished(join(path, conversion.path), conversion));
    };
    const packed: string[] = [];
    const onPacked = (key: string): void => {
      packed.push(join(path, key));
      tell?.(join(path, key));
    };
    for await (const found of findReadables(store, "", { signal, measureText, onUnfinished, onPacked })) {
      count += waiting.length;
      yield* waiting.splice(0);
      const isBegun = (node: string): boolean => node === "" || `${found.path}/`.startsWith(`${node}/`);
      if (own?.begun.some(isBegun) === true) continue;
      count++;
      const named = nameFound(
        found.path === "" ? path : join(path, found.path),
        found,
        // Each archive may close its store, so it opens the files again. The store's root is kept, so that links cannot lead out of
        // the folder.
        (options) => openIn(store, found.path, { openPlace, ...options }),
        store.describe(found.path),
      );
      const isPlain = found.array === undefined && found.group === undefined && found.error === undefined;
      yield isPlain ? { ...named, inFolder: { root: path, key: found.path } } : named;
    }
    if (count + waiting.length === 0) throw noArchive(path, packed);
    yield* waiting;
  } finally {
    await store.close();
  }
}

/** The conversion to a path, whose record may be beside it. */
async function unfinishedAt(path: string, signal: AbortSignal): Promise<UnfinishedConversion | undefined> {
  const full = resolve(path);
  const folder = dirname(full);
  if (folder === full || !(await isFolder(folder))) return undefined;
  const store = new FileStore(folder);
  try {
    return await findUnfinished(store, basename(full), { signal });
  } catch (error) {
    // What is wrong with the path itself is reported by opening it.
    if (!isSuperchunkError(error)) throw error;
    return undefined;
  } finally {
    await store.close();
  }
}

function unfinished(path: string, conversion: UnfinishedConversion): NamedArchive {
  const open = (): Promise<never> => Promise.reject(new RangeError("there is nothing to open"));
  return { path, unfinished: conversion, open };
}

/** Says in one line that a conversion has not ended, how to continue it, and how to discard it. */
export function unfinishedText(path: string, conversion: UnfinishedConversion): string {
  const { kind, sources, to, isFolder, isMany } = conversion;
  const from = sources.map(quoted).join(" ") || "SRC";
  const what = `${kind === "repair" ? "a repair" : "a conversion"} of ${from} was interrupted, or is running`;
  // Of many sources, the folder may have held other files before.
  const own = isMany ? `what it wrote in ${quoted(path)},` : quoted(path);
  const discard = `to discard it, remove ${isFolder ? quoted(path) : `${own} and ${besideOf(path)}`}`;
  if (kind === "plan") return `${what}: "superchunk run" and "superchunk finish" continue its plan`;
  if (kind === "repair") return `${what}: the same command continues it; ${discard}`;
  if (to === "zarr3-transformer") return `${what}; ${discard}, and convert again`;
  const format = to === undefined || to === "zarr" ? "" : ` --to ${to}`;
  const command = `superchunk convert ${from} ${quoted(path)}${format}`;
  const how =
    kind === "replacement"
      ? `to begin it again: ${command} --overwrite`
      : `to continue it: ${command} --resume, with the same options`;
  return `${what}; ${how}; ${discard}`;
}

/** The same for `--json`. */
export function unfinishedJson(path: string, conversion: UnfinishedConversion): JsonObject {
  const { kind, sources, to = null } = conversion;
  return { path, unfinished: { kind, sources, to, message: unfinishedText(path, conversion) } };
}

/** What an interrupted conversion leaves beside its destination, as a shell names it. */
function besideOf(path: string): string {
  return `${quoted(join(dirname(path), `.${basename(path)}.`))}*`;
}

/** A file, or an address that cannot be listed: an archive, or a Zarr node and the members that it lists. */
async function* archiveOrNodes(path: string, opening: OpenAnyOptions): AsyncIterable<NamedArchive> {
  let found: FoundAtPath;
  try {
    found = await findAt(path, opening);
  } catch (error) {
    yield nameFound(path, { path, error }, () => openPath(path, opening));
    return;
  }
  const { archive, node } = found;
  if (archive !== undefined) {
    yield { path, open: async () => archive };
    return;
  }
  try {
    for await (const each of findReadables(node)) {
      const own = each.path === "" ? path : `${path.replace(/\/+$/, "")}/${each.path}`;
      yield nameFound(own, each, (options) => openPath(own, { ...opening, ...options }));
    }
  } finally {
    await node.store.close?.();
  }
}

/** The archives at or under an address in a bucket. Folders are recognized by listing. */
async function* archivesInBucket(address: string, opening: OpenAnyOptions): AsyncIterable<NamedArchive> {
  const { signal, measureText } = opening;
  const { store, path } = await locate(address);
  try {
    const [base = address, query] = address.split("?");
    const suffix = query === undefined ? "" : `?${query}`;
    const nameOf = (key: string): string => {
      const below = path === "" ? key : key.slice(path.length + 1);
      return below === "" ? base : `${base.replace(/\/+$/, "")}/${below}`;
    };
    let count = 0;
    const waiting: NamedArchive[] = [];
    const onUnfinished = (conversion: UnfinishedConversion): void =>
      void waiting.push(unfinished(nameOf(conversion.path), conversion));
    for await (const found of findReadables(store, path, { signal, measureText, onUnfinished })) {
      count++;
      yield* waiting.splice(0);
      const own = nameOf(found.path);
      yield nameFound(own, found, (options) => openPath(`${own}${suffix}`, { ...opening, ...options }));
    }
    if (count + waiting.length === 0) yield* nodesInside(address, opening);
    yield* waiting;
  } finally {
    await store.close?.();
  }
}

/** Says in one line which packed files of a folder were not opened. */
function packedText(paths: readonly string[]): string {
  const [files, them] = paths.length === 1 ? ["a packed file", "it"] : ["packed files", "them"];
  return `not opened: ${files}, which may hold archives: ${firstNames(paths)}; unpack ${them} first`;
}

/** Paths that were left out while others were listed. */
export interface LeftOut {
  /** Packed files. */
  readonly packed: string[];
  /** Outermost groups of the indexes of PyTables' tables, in which `isInIndex` found something. */
  readonly indexes: string[];
}

/** What is done with indexes by commands that list. */
export const NOT_LISTED = "not listed, unless you name it";

/** Notes the index that something is in. False for what is in none. */
export function isInIndex({ path, isIndex }: NamedArchive, { indexes }: LeftOut): boolean {
  if (isIndex !== true) return false;
  if (!indexes.some((each) => path.startsWith(`${each}/`))) indexes.push(path);
  return true;
}

/** Says in one line each what was left out, after what was printed so far. `how`: what was done with indexes instead. */
export async function noteLeftOut(
  { packed, indexes }: LeftOut,
  how: string,
  context: Context,
): Promise<void> {
  await context.out.flush();
  if (packed.length > 0) context.message(packedText(packed));
  if (indexes.length === 0) return;
  const what = indexes.length === 1 ? "an index" : "indexes";
  context.message(`${how}: ${what} of PyTables, which only PyTables reads: ${firstNames(indexes)}`);
}

/** A node of an older transformer's hierarchy, which is not a folder. Throws `NOT_FOUND` if there is none. */
async function* nodesInside(address: string, opening: OpenAnyOptions): AsyncIterable<NamedArchive> {
  for await (const named of archiveOrNodes(address, opening)) {
    if (named.error !== undefined) throw noArchive(address);
    yield named;
  }
}

/** A Zarr node is already open, in a store that outlives it; an archive is opened on request. */
function nameFound(
  path: string,
  { group, array, error, isIndex }: FoundReadable,
  openArchive: (options: OpenOptions) => Promise<Subject>,
  where?: string,
): NamedArchive {
  const named = { path, isIndex, ...(where === undefined ? {} : { where }) };
  if (error !== undefined) return { ...named, error, open: () => Promise.reject(error) };
  if (array !== undefined) return { path, isIndex, open: async () => array };
  if (group === undefined) return { ...named, open: openArchive };
  return {
    path,
    isIndex,
    group,
    open: ({ columns }) => group.arrays({ skipUnreadable: columns !== undefined }),
  };
}

function noArchive(path: string, packed: readonly string[] = []): SuperchunkError {
  const known =
    packed.length > 0
      ? packedText(packed)
      : "superchunk knows .blp files, the folders of bcolz, BLZ and superchunk, Zarr, Blosc2 and HDF5";
  return new SuperchunkError("NOT_FOUND", `no archive in this folder or below; ${known}`, { path });
}

/**
 * True if the object at `where` (its name in messages) is a link out of the searched folder or a loop, which is not followed.
 * This is not an error of an archive.
 */
export function isUnfollowed(error: unknown, where: string): error is SuperchunkError {
  return isSuperchunkError(error, "UNSAFE_PATH") && error.details.path === where;
}

/** Says briefly why a link is not followed. */
export function unfollowedText({ details: { found } }: SuperchunkError): string {
  return typeof found === "string"
    ? `a link out of the folder, to ${found}: not followed`
    : "a link that forms a loop: not followed";
}

/** The path with links resolved; unchanged for an address, and for a node in a file. */
export function realPathOf(path: string): string {
  try {
    return realpathSync.native(path);
  } catch {
    return path;
  }
}
