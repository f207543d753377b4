/** The archives of a typed path: itself, or all under a folder. */

import { realpathSync } from "node:fs";
import { join } from "node:path";
import {
  type FoundReadable,
  findReadables,
  isSuperchunkError,
  type OpenAnyOptions,
  type OpenOptions,
  openArchive as openIn,
  SuperchunkError,
} from "../../src/index.ts";
import { FileStore, locate, placeOpener } from "../../src/node/index.ts";
import type { ZarrGroup } from "../../src/zarr.ts";
import { type FoundAtPath, findAt, isFolder, isReferences, openPath, type Subject } from "./opening.ts";
import { isBucketAddress } from "./units.ts";

/** An archive, a Zarr array, or a Zarr group, which is followed by the nodes in it. */
export interface NamedArchive {
  /** Name: the path as typed, and the path below that. */
  readonly path: string;
  /** Set for a group: it has no chunks of its own. */
  readonly group?: ZarrGroup;
  /** Set if it is already known to be unreadable. */
  readonly error?: unknown;
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
  options: { readonly signal: AbortSignal; readonly allow?: readonly string[] | undefined },
): AsyncIterable<NamedArchive> {
  const { signal } = options;
  if (isBucketAddress(path)) {
    yield* archivesInBucket(path, options);
    return;
  }
  if (!(await isFolder(path)) || isReferences(path)) {
    yield* archiveOrNodes(path, options);
    return;
  }
  const store = new FileStore(path);
  const openPlace = placeOpener(options);
  try {
    let count = 0;
    for await (const found of findReadables(store, "", { signal })) {
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
    if (count === 0) throw noArchive(path);
  } finally {
    await store.close();
  }
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
  const { signal } = opening;
  const { store, path } = await locate(address);
  try {
    const [base = address, query] = address.split("?");
    const suffix = query === undefined ? "" : `?${query}`;
    let count = 0;
    for await (const found of findReadables(store, path, { signal })) {
      count++;
      const below = path === "" ? found.path : found.path.slice(path.length + 1);
      const own = below === "" ? base : `${base.replace(/\/+$/, "")}/${below}`;
      yield nameFound(own, found, (options) => openPath(`${own}${suffix}`, { ...opening, ...options }));
    }
    if (count === 0) yield* nodesInside(address, opening);
  } finally {
    await store.close?.();
  }
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
  { group, array, error }: FoundReadable,
  openArchive: (options: OpenOptions) => Promise<Subject>,
  where?: string,
): NamedArchive {
  const named = { path, ...(where === undefined ? {} : { where }) };
  if (error !== undefined) return { ...named, error, open: () => Promise.reject(error) };
  if (array !== undefined) return { path, open: async () => array };
  if (group === undefined) return { ...named, open: openArchive };
  return { path, group, open: ({ columns }) => group.arrays({ skipUnreadable: columns !== undefined }) };
}

function noArchive(path: string): SuperchunkError {
  return new SuperchunkError(
    "NOT_FOUND",
    "no archive in this folder or below; superchunk knows .blp files, the folders of bcolz, BLZ and superchunk, Zarr, Blosc2 and HDF5",
    { path },
  );
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
