/** `convert` and `planConversion` for paths and addresses. */
import * as fs from "node:fs";
import { realpath } from "node:fs/promises";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import type { Archive } from "../archive/kinds/types.ts";
import { findArchives } from "../archive/open/discover.ts";
import { open as openArchiveIn } from "../archive/open/open.ts";
import type { ConvertOptions, ConvertResult, ConvertSource, PlanEntry } from "../convert/pipeline.ts";
import { convertWith, planConversion as planIn } from "../convert/run/convert.ts";
import { assertApart } from "../convert/run/destination.ts";
import { isArchive } from "../convert/sources/items.ts";
import { isSuperchunkError, refuseUnknown, SuperchunkError } from "../errors.ts";
import { type Mount, MountedStore } from "../store/mounted.ts";
import { DOCUMENT } from "../zarr/document/metadata-v3.ts";
import type { ZarrArray } from "../zarr/read/array.ts";
import type { ZarrGroup } from "../zarr/read/group.ts";
import { type OpenZarrOptions, openZarr as openIn } from "../zarr/read/open.ts";
import {
  type CreateZarrOptions,
  createZarr as createIn,
  openZarrWriter as openWriterIn,
  type ZarrSpecification,
} from "../zarr/write/create.ts";
import { refuseDual } from "../zarr/write/node-document.ts";
import type { WritableZarrArray } from "../zarr/write/writable-array.ts";
import { FileStore } from "./fs/fs-store.ts";
import { findMembership, type Membership } from "./hierarchy.ts";
import {
  closeOnFailure,
  isAddress,
  isS3Address,
  type Location,
  locate,
  locateTarget,
  refuseEmptyPath,
  type WritableLocation,
} from "./locate.ts";
import { open, placeOpener } from "./open.ts";
import { helpersFor } from "./threads/convert-helpers.ts";
import { useNativeDigests } from "./threads/native-digest.ts";
import { decoderOf, encoderOf, shardWriterOf, type ThreadOptions } from "./threads/threads.ts";

/** Names of the options of {@link convert}. */
const KNOWN =
  "allow blosc chunksPerShard columns concat damaged dimensionNames directMemory dtype encoder grid jobs onDamage onProgress onReceipt openPlace overwrite parquet portable recode resume shape shardSize signal skipFailed threads to verify workerUrl".split(
    " ",
  );

/** Options of `convert` for paths and addresses. */
export interface ConvertPathOptions extends ConvertOptions, ThreadOptions {
  /** Join the archives along the first dimension, in the order given; those of a folder in the order of their names. */
  readonly concat?: boolean | undefined;
  /** Of a set of references, and of arrays with places: what may be read, as `open` takes it. */
  readonly allow?: readonly string[] | undefined;
}

/**
 * Converts what is at a path or an address, or at several, into another format at a destination: an archive, a Zarr array or
 * group, or a folder with many of them. Several sources become the entries of one folder, under their own names. Threads
 * encode what has to be recoded (`threads: 0` turns that off). Zarr that goes into a Zarr group becomes a member of it: groups
 * that are missing in between are made, and the consolidated metadata of the groups above list it.
 *
 * @throws CONFLICT where the destination is taken, is a source, or lies in one, in a Zarr array, or in a linked archive; BAD_ARGUMENT
 * where two sources have the same
 * name; NOT_FOUND, UNSUPPORTED, READ_ONLY, and the codes of damage
 */
export async function convert(
  sources: string | readonly string[],
  destination: string,
  options: ConvertPathOptions = {},
): Promise<ConvertResult> {
  refuseUnknown(options, KNOWN);
  const { source, close } = await findSources(sources, destination, options);
  try {
    const target = locateDestination(destination, options);
    try {
      const above = await membershipOf(destination, options);
      const isInGroup = above !== undefined;
      const encoder = options.encoder ?? encoderOf(options);
      // Threads are not told which places may be read.
      const isAlone = "kind" in source || options.allow !== undefined || options.openPlace !== undefined;
      const helpers = isAlone ? undefined : helpersFor([sources].flat(), destination, options);
      const openPlace = options.openPlace ?? placeOpener(options);
      let result: ConvertResult;
      try {
        result = await convertWith(
          source,
          { ...target, isInGroup },
          { ...options, encoder, openPlace },
          helpers,
        );
      } finally {
        await helpers?.end();
      }
      return above === undefined ? result : { ...result, notes: [...result.notes, ...(await above.join())] };
    } finally {
      await target.store.close?.();
    }
  } finally {
    await close();
  }
}

/** What {@link convert} would do, source by source, without writing anything. */
export async function* planConversion(
  sources: string | readonly string[],
  destination: string,
  options: ConvertPathOptions = {},
): AsyncGenerator<PlanEntry> {
  const { source, close } = await findSources(sources, destination, options);
  try {
    const { path, store } = locateDestination(destination, options);
    await store.close?.();
    yield* planIn(
      source,
      { path, isInGroup: (await membershipOf(destination, options)) !== undefined },
      { ...options, openPlace: options.openPlace ?? placeOpener(options) },
    );
  } finally {
    await close();
  }
}

export function locateDestination(destination: string, { to = "zarr" }: ConvertOptions): WritableLocation {
  const isFolder = to === "zarr" || to === "zarr3-transformer";
  return isFolder ? locateTarget(destination) : locateTarget(destination, "file");
}

/** The hierarchy that the destination lies in. */
export async function membershipOf(
  destination: string,
  { to = "zarr", signal }: ConvertOptions,
): Promise<Membership | undefined> {
  if (to !== "zarr") return undefined;
  if (isS3Address(destination)) return findMembership(destination, { signal });
  const path = /^file:/i.test(destination) ? fileURLToPath(destination) : destination;
  return findMembership(await realLocation(path), { signal });
}

/** What is converted, and what releases it. */
export interface FoundSources {
  readonly source: ConvertSource;
  close(): Promise<void>;
}

/** One archive or node as it is; folders and several sources as all that lies in them; or all joined. */
export async function findSources(
  sources: string | readonly string[],
  destination: string,
  options: ConvertPathOptions,
): Promise<FoundSources> {
  const paths = typeof sources === "string" ? [sources] : sources;
  for (const path of [...paths, destination]) refuseEmptyPath(path);
  for (const path of paths) await refuseOverlap(path, destination);
  if (options.concat === true) return openInOrder(paths, options);
  const [only] = paths;
  const found = paths.length > 1 || only === undefined ? undefined : await openOne(only, options);
  if (found !== undefined) return found;
  const { store, path } = await locateSources(paths);
  return { source: { store, path }, close: async () => store.close?.() };
}

/** What is at a path; undefined for a folder in which archives may lie. */
async function openOne(
  path: string,
  { to, signal, damaged, onDamage, allow }: ConvertPathOptions,
): Promise<FoundSources | undefined> {
  try {
    const source = await open(path, { signal, damaged, onDamage, allow });
    return { source, close: () => source.close() };
  } catch (error) {
    if (!isSuperchunkError(error, "UNSUPPORTED") || /^https?:/i.test(path) || to === "zarr3-transformer")
      throw error;
    const { store, path: key } = await locate(path);
    try {
      if (await isArchive(store, key, { signal })) throw error;
      return undefined;
    } finally {
      await store.close?.();
    }
  }
}

/** One folder as it is; several sources as the entries of one folder, under their own names. */
export async function locateSources(paths: readonly string[]): Promise<Location> {
  const [only] = paths;
  if (paths.length === 1 && only !== undefined) return locate(only);
  const mounts = new Map<string, Mount>();
  for (const path of paths) {
    const name = nameOf(path);
    if (mounts.has(name)) {
      throw new SuperchunkError(
        "BAD_ARGUMENT",
        `two sources have the name "${name}", under which each would be in the result; convert them one by one`,
        { path, field: "src" },
      );
    }
    mounts.set(name, await locate(path));
  }
  return { store: new MountedStore(mounts), path: "" };
}

function nameOf(path: string): string {
  if (!/^(?:https?|s3):\/\//i.test(path)) return basename(resolve(path));
  return decodeURIComponent(new URL(path).pathname.split("/").findLast((part) => part !== "") ?? "archive");
}

/** Opens the archives as they are given, and those of a folder in the order of their names, all in one store. */
async function openInOrder(paths: readonly string[], options: ConvertPathOptions): Promise<FoundSources> {
  const { signal, damaged, onDamage, openPlace = placeOpener(options) } = options;
  const mounts = new Map<string, Mount>();
  // Names may be the same: archives of one name for each year, in a folder each.
  for (const [i, path] of paths.entries()) mounts.set(`${i}`, await locate(path));
  const store = new MountedStore(mounts);
  try {
    const archives: Archive[] = [];
    for (const name of mounts.keys()) {
      const keys: string[] = [];
      if (await isArchive(store, name, { signal })) keys.push(name);
      else
        for await (const { path, error } of findArchives(store, name, { signal })) {
          if (error !== undefined) throw error;
          keys.push(path);
        }
      if (keys.length === 0)
        throw new SuperchunkError("NOT_FOUND", "the folder holds no archive", {
          path: store.describe(name),
        });
      for (const key of keys.sort())
        archives.push(
          await openArchiveIn(store, key, {
            signal,
            damaged,
            onDamage,
            openPlace,
            decoder: decoderOf(options),
          }),
        );
    }
    return { source: archives, close: () => store.close() };
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** Throws `CONFLICT` where the destination is the source, lies in it, or contains it. */
async function refuseOverlap(source: string, destination: string): Promise<void> {
  assertApart(await realLocation(source), await realLocation(destination));
}

/** The absolute path without symbolic links, also of what does not exist yet; of an address, that without settings. */
async function realLocation(path: string): Promise<string> {
  if (isAddress(path)) return path.replace(/\?.*$/s, "").replace(/\/+$/, "");
  const full = resolve(path);
  try {
    return await realpath(full);
  } catch {
    const parent = dirname(full);
    return parent === full ? full : join(await realLocation(parent), basename(full));
  }
}

// Zarr nodes at paths and URLs: with worker threads that decode and encode.

/** Options of {@link openZarr}. */
export interface OpenZarrPathOptions extends OpenZarrOptions, ThreadOptions {}

/** Options of {@link createZarr} and {@link openZarrWriter}. */
export interface ZarrWriterPathOptions extends CreateZarrOptions, ThreadOptions {}

/**
 * Opens the Zarr array or group in a folder, or at an `http(s):` or `s3:` address; worker threads decode where many
 * chunks are read (`threads: 0` turns that off). The node's `store.close()` releases what it holds open.
 *
 * @throws NOT_FOUND, UNSUPPORTED, BAD_ARGUMENT, and the codes of damage
 */
export async function openZarr(
  location: string,
  options: OpenZarrPathOptions = {},
): Promise<ZarrArray | ZarrGroup> {
  useNativeDigests();
  const { store, path } = await locate(location);
  return closeOnFailure(
    store,
    openIn(store, path, { ...options, decoder: options.decoder ?? decoderOf(options) }),
  );
}

/**
 * Makes a Zarr v3 array in a folder, which need not exist, or at an `s3:` address; worker threads encode its chunks. Its
 * `store.close()` releases what it holds open.
 *
 * @throws CONFLICT where something is there already, also an archive; BAD_FIELD for a specification that contradicts itself; UNSUPPORTED;
 * NO_SPACE, READ_ONLY, IO
 */
export function createZarr(
  location: string,
  specification: ZarrSpecification,
  options: ZarrWriterPathOptions = {},
): Promise<WritableZarrArray> {
  useNativeDigests();
  const { store, path } = locateTarget(location);
  const create = async (): Promise<WritableZarrArray> => {
    await refuseColumn(location, options);
    return createIn(store, path, specification, withThreads(options));
  };
  return closeOnFailure(store, create());
}

/**
 * Opens the Zarr array in a folder, or at an `s3:` address, to write to it.
 *
 * @throws as {@link openZarr}, and CONFLICT for an array that is an archive as well
 */
export function openZarrWriter(
  location: string,
  options: ZarrWriterPathOptions = {},
): Promise<WritableZarrArray> {
  useNativeDigests();
  const { store, path } = locateTarget(location);
  const openWriter = async (): Promise<WritableZarrArray> => {
    await refuseColumn(location, options);
    return openWriterIn(store, path, withThreads(options));
  };
  return closeOnFailure(store, openWriter());
}

/** Refuses a folder in an archive that is a Zarr group: the store of the folder alone does not see what is above it. */
async function refuseColumn(location: string, { signal }: ZarrWriterPathOptions): Promise<void> {
  if (isS3Address(location)) return;
  const folder = resolve(location);
  let root = folder;
  while (fs.existsSync(join(dirname(root), DOCUMENT)) && dirname(root) !== root) root = dirname(root);
  if (root === folder) return;
  const store = new FileStore(root);
  try {
    await refuseDual(store, relative(root, folder).split(sep).join("/"), { signal });
  } finally {
    await store.close();
  }
}

function withThreads(options: ZarrWriterPathOptions): CreateZarrOptions {
  return {
    ...options,
    decoder: options.decoder ?? decoderOf(options),
    encoder: options.encoder ?? encoderOf(options),
    // Threads would encode without an encoder that the caller chose.
    shardWriter: options.shardWriter ?? (options.encoder === undefined ? shardWriterOf(options) : undefined),
  };
}
