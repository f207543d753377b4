/** `convert`, `planConversion` and `repairArray` for paths and addresses. */
import { existsSync } from "node:fs";
import { rmdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { Archive } from "../archive/kinds/types.ts";
import { findArchives } from "../archive/open/discover.ts";
import { open as openArchiveIn } from "../archive/open/open.ts";
import { checkOptions } from "../bytes/check-options.ts";
import type { ConvertOptions, ConvertResult, ConvertSource, PlanEntry } from "../convert/pipeline.ts";
import { convert as convertIn, planConversion as planIn } from "../convert/run/convert.ts";
import { refuseOverlapping } from "../convert/run/destination.ts";
import { type RepairOptions, type RepairReport, repairArray as repairIn } from "../convert/run/repair.ts";
import { isArchive } from "../convert/sources/items.ts";
import { badArgument, isSuperchunkError, SuperchunkError } from "../errors.ts";
import { type Mount, mountedStore, unreadableMount } from "../store/mounted.ts";
import { orWithoutFolders } from "./fs/fs-folders.ts";
import { statIfThere } from "./fs/fs-handles.ts";
import { acquireLock, type FileLock, type LockOptions } from "./fs/lock.ts";
import {
  assertNamesDiffer,
  closing,
  findMembership,
  givenPath,
  isAddress,
  isBucketAddress,
  type Location,
  locate,
  locateTarget,
  type Membership,
  nameOf,
  realLocation,
  type WritableLocation,
} from "./locate.ts";
import { open, placeOpener } from "./open.ts";
import { helpersFor } from "./threads/convert-helpers.ts";
import { decoderOf, encoderOf, type ThreadOptions } from "./threads/threads.ts";

/** The options of {@link convert}. */
export const CONVERT_OPTIONS =
  "allow blosc breakLock chunksPerShard columns concat damaged dimensionNames directMemory dtype encoder grid jobs onDamage onProgress onReceipt openPlace overwrite parquet portable recode resume shape shardSize signal skipFailed threads to verify verifyOnly workerUrl";

/** Options of `convert` for paths and addresses. */
export interface ConvertPathOptions extends ConvertOptions, ThreadOptions {
  /** Joins the archives along the first dimension, in the order given, or in name order for those of a folder. */
  readonly concat?: boolean | undefined;
  /** What references and arrays with places may read, as in `open`. */
  readonly allow?: readonly string[] | undefined;
}

/**
 * Converts one or several sources, at paths or addresses, to another format: an archive, a Zarr array or group, or a folder with many of
 * them. Several sources become the entries of one folder, under their own names. Threads encode the chunks that must be recoded
 * (`threads: 0` turns that off). Zarr converted into a Zarr group becomes a member of the group: missing groups in between are created, and
 * the consolidated metadata of the groups above list it. Without a group above, the nearest folder whose name ends in `.zarr` becomes one.
 *
 * @throws CONFLICT if the destination is taken, is a source, or is inside a source, a Zarr array or a linked archive; BAD_ARGUMENT if two
 * sources have the same name; NOT_FOUND, UNSUPPORTED, READ_ONLY, and the codes of damage
 */
export async function convert(
  sources: string | readonly string[],
  destination: string,
  options: ConvertPathOptions = {},
): Promise<ConvertResult> {
  checkOptions(options, CONVERT_OPTIONS);
  const [from, to] = [[sources].flat().map(givenPath), givenPath(destination)];
  return closing(await findSources(from, to, options), ({ source }) => {
    const target = locateDestination(to, options);
    return closing(target.store, async () => {
      const above = await membershipOf(to, options);
      const placed = { ...target, isInGroup: above !== undefined };
      const encoder = options.encoder ?? encoderOf(options);
      // Helper threads do not know which places may be read, and only convert.
      const isPlaced = options.allow !== undefined || options.openPlace !== undefined;
      const isAlone = "kind" in source || isPlaced || options.verifyOnly === true;
      const helpers = isAlone ? undefined : helpersFor(from, to, options);
      const openPlace = options.openPlace ?? placeOpener(options);
      const settings = { ...options, encoder, openPlace };
      const folder = target.store.describe(target.path);
      const isNew = !isBucketAddress(to) && !existsSync(folder);
      const join = async (node?: string): Promise<readonly string[]> =>
        (await (node === undefined ? above : await membershipOf(to, options, node))?.join()) ?? [];
      return convertIn(source, placed, settings, helpers, join).finally(async () => {
        await helpers?.end();
        // If nothing was converted, the new folder is empty; one with entries is not removed.
        if (isNew) await rmdir(folder).catch(() => undefined);
      });
    });
  });
}

/** Yields what {@link convert} would do with each source. Writes nothing. */
export async function* planConversion(
  sources: string | readonly string[],
  destination: string,
  options: ConvertPathOptions = {},
): AsyncGenerator<PlanEntry> {
  checkOptions(options, CONVERT_OPTIONS);
  const [from, to] = [[sources].flat().map(givenPath), givenPath(destination)];
  const target = locateDestination(to, options);
  const { source, close } = await findSources(from, to, options);
  try {
    const above = await membershipOf(to, options);
    const settings = { ...options, openPlace: options.openPlace ?? placeOpener(options) };
    let missing = above?.missing ?? [];
    for await (const entry of planIn(source, { ...target, isInGroup: above !== undefined }, settings)) {
      yield missing.length === 0 ? entry : { ...entry, missingGroups: missing };
      missing = [];
    }
  } finally {
    await target.store.close?.();
    await close();
  }
}

export function locateDestination(destination: string, { to = "zarr" }: ConvertOptions): WritableLocation {
  const isFolder = to === "zarr" || to === "zarr3-transformer";
  return isFolder ? locateTarget(destination) : locateTarget(destination, "file");
}

/** The hierarchy that contains the destination, or a node below it. */
export async function membershipOf(
  destination: string,
  { to = "zarr", signal }: ConvertOptions,
  node = "",
): Promise<Membership | undefined> {
  if (to !== "zarr") return undefined;
  if (isBucketAddress(destination)) return findMembership(destination, { signal }, node);
  return findMembership(await realLocation(givenPath(destination)), { signal }, node);
}

/** The opened sources, and their release. */
interface FoundSources {
  readonly source: ConvertSource;
  close(): Promise<void>;
}

/** Throws `CONFLICT` if the destination is a source, is inside one, or contains one. */
export async function refuseOverlaps(sources: readonly string[], destination: string): Promise<void> {
  const to = await realLocation(destination);
  for (const path of sources) refuseOverlapping(await realLocation(path), to);
}

/** Opens one archive or node; or everything in folders and several sources; or all archives joined. */
export async function findSources(
  sources: string | readonly string[],
  destination: string,
  options: ConvertPathOptions,
): Promise<FoundSources> {
  const paths = [sources].flat();
  if (paths.length === 0) throw badArgument("the list of sources", "empty", "at least one path");
  await refuseOverlaps(paths, destination);
  if (options.concat === true) return openInOrder(paths, options);
  const [only] = paths;
  const found = paths.length > 1 || only === undefined ? undefined : await openOne(only, options);
  if (found !== undefined) return found;
  const { store, path } = await locateSources(paths, options.skipFailed);
  return { source: { store, path }, close: async () => store.close?.() };
}

/** Opens a path; undefined for a folder in which archives may be. */
async function openOne(path: string, options: ConvertPathOptions): Promise<FoundSources | undefined> {
  const { to, signal, damaged, onDamage, allow, openPlace } = options;
  try {
    const decoder = decoderOf(options);
    const source = await open(path, { signal, damaged, onDamage, allow, openPlace, decoder });
    return { source, close: () => source.close() };
  } catch (error) {
    if (!isSuperchunkError(error, "UNSUPPORTED") || /^https?:/i.test(path) || to === "zarr3-transformer")
      throw error;
    // Inside a file: not a folder of archives.
    if (!isAddress(path) && statIfThere(path) === undefined) throw error;
    const { store, path: key } = await locate(path);
    if (await closing(store, () => isArchive(store, key, { signal }))) throw error;
    return undefined;
  }
}

/** One folder as it is; several sources as the entries of one folder, under their own names. With `skipMissing`, a missing one, and a loop of links, fail when they are read. */
export async function locateSources(paths: readonly string[], skipMissing = false): Promise<Location> {
  const [only] = paths;
  if (paths.length === 1 && only !== undefined) return locate(only);
  assertNamesDiffer(paths.map(nameOf));
  const mounts = new Map<string, Mount>();
  const missing = (error: unknown): Mount => {
    if (!skipMissing || !(isSuperchunkError(error, "NOT_FOUND") || isSuperchunkError(error, "UNSAFE_PATH")))
      throw error;
    return unreadableMount(error);
  };
  for (const path of paths) mounts.set(nameOf(path), await locate(path).catch(missing));
  return { store: mountedStore(mounts), path: "" };
}

/** Opens archives in the given order, and those of a folder in name order, all in one store. */
async function openInOrder(paths: readonly string[], options: ConvertPathOptions): Promise<FoundSources> {
  const { signal, damaged, onDamage, openPlace = placeOpener(options) } = options;
  const decoder = decoderOf(options);
  const mounts = new Map<string, Mount>();
  // Names may repeat: archives with the same name, in a folder for each year.
  for (const [i, path] of paths.entries()) mounts.set(`${i}`, await locate(path));
  const store = mountedStore(mounts);
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
        throw new SuperchunkError(
          "NOT_FOUND",
          "found no archive to join, which is a Bloscpack file, an array of superchunks, a carray or a table of these; convert Zarr to one of these first",
          { path: store.describe(name), field: "concat" },
        );
      for (const key of keys.sort())
        archives.push(await openArchiveIn(store, key, { signal, damaged, onDamage, openPlace, decoder }));
    }
    return { source: archives, close: async () => store.close?.() };
  } catch (error) {
    await store.close?.();
    throw error;
  }
}

const REPAIR_OPTIONS =
  "allow breakLock chunklen discard dryRun dtype fill holes into onProgress openPlace order scan shape signal";

/** Options of {@link repairArray}. */
export interface RepairPathOptions extends Omit<RepairOptions, "into" | "lock">, LockOptions {
  /** An empty path or address in a bucket; without it, the array is repaired in place. */
  readonly into?: string | undefined;
  /** Places outside the array's folder that hold superchunks and may be read, as in `open`. */
  readonly allow?: readonly string[] | undefined;
}

/**
 * Repairs the archive at a path or an address in a bucket into another one, or in place for an array of superchunks, and reports its changes and
 * losses.
 *
 * @throws NOT_FOUND; UNSUPPORTED for anything but an archive; CONFLICT if a writer holds the lock, or `into` is inside the archive; INCOMPLETE if rows would be lost or made
 * up, and the options do not say which; the codes of damage; NO_SPACE, IO
 */
export async function repairArray(path: string, options: RepairPathOptions = {}): Promise<RepairReport> {
  checkOptions(options, REPAIR_OPTIONS);
  const { into: target, breakLock, allow, ...rest } = options;
  const at = givenPath(path);
  const into = target === undefined ? undefined : givenPath(target);
  if (into !== undefined) await refuseOverlaps([at], into);
  // The store of an S3 address for reading cannot write.
  const isHere = into === undefined && options.dryRun !== true;
  const { store, path: key } =
    isHere && isBucketAddress(at)
      ? locateTarget(at)
      : await locate(at).catch((error: unknown) => refuseNode(error, at));
  return closing(store, async () => {
    const isFile = key !== "";
    const dst = into === undefined ? undefined : isFile ? locateTarget(into, "file") : locateTarget(into);
    const lock = isBucketAddress(into ?? at)
      ? undefined
      : (): Promise<FileLock> => acquireLock(join(resolve(into ?? at), "meta", "lock"), { breakLock });
    try {
      return await orWithoutFolders(lock === undefined || isFile ? undefined : into, () =>
        repairIn(store, key, {
          ...rest,
          breakLock,
          openPlace: options.openPlace ?? placeOpener({ allow }),
          ...(lock === undefined || isFile ? {} : { lock }),
          ...(dst === undefined ? {} : { into: dst }),
        }),
      );
    } finally {
      await dst?.store.close?.();
    }
  });
}

/** Throws that a node of a hierarchy of zarr 2.13 to 2.18, which is not a folder, is not repaired alone; the error that was caught for others. */
async function refuseNode(error: unknown, path: string): Promise<never> {
  if (!isSuperchunkError(error, "NOT_FOUND")) throw error;
  const node = await open(path).catch((failure: unknown) => {
    throw isSuperchunkError(failure, "NOT_FOUND") ? error : failure; // its document may be damaged
  });
  await node.close?.();
  if (node.dialect !== "zarr3-transformer") throw error;
  const root = node.store.describe("").replace(/\/+$/, "");
  throw new SuperchunkError(
    "UNSUPPORTED",
    `the node is repaired with its hierarchy, because both share folders: superchunk repair ${root} DST`,
    { path, field: "hierarchy", expected: root },
  );
}
