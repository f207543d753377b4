/** `open`, `openArray` and `openTable` for paths and addresses. */

import { dirname, relative, resolve } from "node:path";
import type { Archive, ReadableArray, TableArchive } from "../archive/kinds/types.ts";
import { open as openArchiveIn } from "../archive/open/open.ts";
import type { ChunkDecoder } from "../archive/read/chunk-fetch.ts";
import { checkOptions } from "../bytes/check-options.ts";
import { isSuperchunkError } from "../errors.ts";
import {
  asArray,
  asReadableArray,
  asTable,
  type FollowableArray,
  type OpenArrayOptions,
  openAs,
  placesAllowed,
  type Readable,
  withColumn,
} from "../open/open.ts";
import type { OpenAnyOptions } from "../open/open-node.ts";
import type { OpenPlace } from "../places/placed-store.ts";
import type { PlaceAccess } from "../references/containers/container-reader.ts";
import { asReadable } from "../store/foreign.ts";
import type { StoreOptions } from "../store/types.ts";
import type { ValuesOf } from "../values/selection.ts";
import type { GroupArrays } from "../zarr/read/group.ts";
import { keyOf } from "./fs/fs-folders.ts";
import { isFolder } from "./fs/fs-handles.ts";
import { FileStore } from "./fs/fs-store.ts";
import {
  allowedAddresses,
  closeOnFailure,
  isBucketAddress,
  type Location,
  locate,
  locateBeside,
  refuseEmptyPath,
  setAbove,
} from "./locate.ts";
import { loadNativeBlosc } from "./threads/native-blosc.ts";
import { bloscOf, decoderOf, type ThreadOptions } from "./threads/threads.ts";

/** Options of `open` for paths and addresses. */
export interface OpenPathOptions extends OpenAnyOptions, ThreadOptions {}

/** Options of `openArray` for paths and addresses. */
export interface OpenArrayPathOptions<Name extends string = string>
  extends OpenArrayOptions<Name>,
    ThreadOptions {}

/** The options of {@link open}. */
const OPTIONS =
  "allow authorize blosc cachedEntries columns concurrency containers credentials customCodecs damaged decoder directMemory immutable maxGap measureText onDamage openContainer openPlace signal threads verify workerUrl";

/**
 * Opens anything at a path, or at an `http(s):`, `s3:`, `gs:` or `az:` address: an archive, a Zarr array or group of any version (also a node inside a
 * hierarchy of zarr 2.13 to 2.18), a set of kerchunk references. Its `close()` releases the store too.
 *
 * If many chunks are read, worker threads decode them (`threads: 0` turns that off).
 *
 * @throws BAD_ARGUMENT, NOT_FOUND, UNSUPPORTED, and the codes of damage
 */
export async function open(location: string, options: OpenPathOptions = {}): Promise<Readable> {
  refuseEmptyPath(location);
  checkOptions(options, OPTIONS);
  const decoder = await decoderFor(options);
  const settings: OpenAnyOptions = { ...options, ...accessOf(options), decoder };
  const openAt = async ({ store, path }: Location): Promise<Readable> => {
    const opened = await closeOnFailure(store, openAs(store, path, settings));
    // An archive's own `close` releases its store; for a node, the library has to release it.
    return "ownStore" in opened ? opened.ownStore(store) : opened;
  };
  const { containers, authorize, allow } = options;
  const isSet =
    [containers, authorize, allow].some((given) => given !== undefined) ||
    // The containers are beside a set, even if the set is a folder, as in kerchunk's Parquet form.
    setAbove(location) !== undefined;
  try {
    return await openAt(isSet ? await locateBeside(location) : await locate(location));
  } catch (error) {
    if (!isSuperchunkError(error, "NOT_FOUND") && !isSuperchunkError(error, "UNSUPPORTED")) throw error;
    const repository = await openRepository(location, settings);
    if (repository !== undefined) return repository;
    // Nodes of the older storage transformer have no folders of their own, so they are opened from a folder above.
    const above = await openInside(await locateAbove(location), settings);
    if (above === undefined) throw error;
    return above;
  }
}

/**
 * Opens only an archive at a path or an address, for access to its encoded chunks or for writing to it.
 *
 * @throws UNSUPPORTED for Zarr and anything else that is not an archive; and as {@link open}
 */
export async function openArchive(location: string, options: OpenPathOptions = {}): Promise<Archive> {
  checkOptions(options, OPTIONS);
  const decoder = await decoderFor(options);
  const { store, path } = await locate(location);
  const openPlace = options.openPlace ?? placeOpener(options);
  return closeOnFailure(store, openArchiveIn(store, path, { ...options, openPlace, decoder }));
}

async function decoderFor(options: OpenPathOptions): Promise<ChunkDecoder> {
  if (options.decoder !== undefined) return options.decoder;
  if (bloscOf(options) === "native") await loadNativeBlosc(); // or throws why it cannot
  return decoderOf(options);
}

/**
 * Opens the array at a path or an address, or its `column`. With `dtype`, values have the type of that name.
 *
 * @throws BAD_ARGUMENT if it is not an array, has another dtype, or is a table and no column is named; NOT_FOUND for a missing column; and
 * as {@link open}
 */
export async function openArray<const Name extends string = string>(
  location: string,
  options: OpenArrayPathOptions<Name> = {},
): Promise<FollowableArray<ValuesOf<Name>>> {
  checkOptions(options, `column dtype ${OPTIONS}`);
  const opened = await open(location, withColumn(options));
  const reopen = async (more: StoreOptions): Promise<ReadableArray<ValuesOf<Name>>> => {
    const again = await open(location, { ...withColumn(options), ...more });
    return closeOnFailure(again, asReadableArray<Name>(again, options));
  };
  return closeOnFailure(opened, asArray(opened, options, reopen));
}

/**
 * Opens a table at a path or an address: a ctable, or a Zarr group whose arrays are all directly below it and of equal length.
 *
 * @throws BAD_ARGUMENT for anything else; and as {@link open}
 */
export async function openTable(
  location: string,
  options: OpenPathOptions = {},
): Promise<TableArchive | (GroupArrays & { readonly length: number })> {
  const opened = await open(location, options);
  return closeOnFailure(opened, asTable(opened));
}

/** Adds folders and buckets to the ways of access. */
export function accessOf<A extends PlaceAccess>(access: A): A & Pick<PlaceAccess, "openContainer" | "allow"> {
  return {
    ...access,
    openContainer:
      access.openContainer ??
      (async (...container) => (await import("./references.ts")).openContainer(...container)),
    allow: access.allow?.flatMap(allowedAddresses),
  };
}

/**
 * Returns an opener of the places that `containers` and `allow` permit, for `openPlace` of functions that take a store. Functions that take
 * a path, such as `open` and `edit`, make one by themselves.
 */
export function placeOpener(access: PlaceAccess): OpenPlace {
  return placesAllowed(accessOf(access));
}

/** Opens an Icechunk repository, or a node in one; undefined if there is none. */
async function openRepository(location: string, options: OpenAnyOptions): Promise<Readable | undefined> {
  if (/^https?:/i.test(location)) return undefined;
  const [{ isIcechunk, openReferences }, { openZarr }] = await Promise.all([
    import("./references.ts"),
    import("../zarr/read/open.ts"),
  ]);
  let repository = location;
  for (; !(await isIcechunk(repository)); repository = dirname(repository))
    // The search ends at the root of the file system.
    if (isBucketAddress(location) || dirname(dirname(repository)) === dirname(repository)) return undefined;
  const inside = keyOf(relative(repository, location));
  const { allow, authorize, containers, credentials, openContainer, signal } = options;
  const places = { allow, authorize, containers, credentials, openContainer, signal };
  const references = await openReferences(repository, { ...places, form: "icechunk" });
  const store = asReadable(references, repository.replace(/\?.*$/s, ""));
  return (await closeOnFailure(store, openZarr(store, inside, options))).ownStore(store);
}

/** The Zarr node at a path inside of a store; undefined if there is none. */
async function openInside({ store, path }: Location, options: OpenAnyOptions): Promise<Readable | undefined> {
  const { openZarr } = await import("../zarr/read/open.ts");
  try {
    return (await openZarr(store, path, options)).ownStore(store);
  } catch (error) {
    await store.close?.();
    if (isSuperchunkError(error, "NOT_FOUND")) return undefined;
    throw error;
  }
}

async function locateAbove(path: string): Promise<Location> {
  const [, origin, rest = ""] = /^(https?:\/\/[^/]+|(?:s3|gs|az):\/\/[^/?]+)\/?(.*)$/is.exec(path) ?? [];
  if (origin !== undefined) {
    const [key = "", query] = rest.split("?");
    const { store } = await locate(`${origin}/${query === undefined ? "" : `?${query}`}`);
    const names = key.split("/").filter((name) => name !== "");
    return { store, path: (isBucketAddress(origin) ? names : names.map(decodeURIComponent)).join("/") };
  }
  const full = resolve(path);
  for (let folder = dirname(full); ; folder = dirname(folder))
    if (isFolder(folder)) return { store: new FileStore(folder), path: keyOf(relative(folder, full)) };
}
