/** Links archives at paths: `superchunk link` and `unlink`. */

import * as fs from "node:fs";
import { basename, join, relative, resolve } from "node:path";
import type { Archive, Finding } from "../../archive/kinds/types.ts";
import { open } from "../../archive/open/open.ts";
import { linkArchive, planLink } from "../../dual/link.ts";
import { isLive, readLinkRecord } from "../../dual/state.ts";
import type { LinkOptions, LinkPlan, LinkResult, LinkSite, UnlinkResult } from "../../dual/types.ts";
import { unlinkArchive } from "../../dual/undo.ts";
import { verifyLink } from "../../dual/verify.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { LINK_RECORD, ZARR_DOCUMENTS } from "../../format/naming.ts";
import type { StoredPlace } from "../../places/declared.ts";
import { checkLater } from "../../store/key.ts";
import { isFolder } from "../fs/fs-handles.ts";
import { FileStore } from "../fs/fs-store.ts";
import { acquireLock, type LockOptions } from "../fs/lock.ts";
import { closing, givenPath, isRemote, locate } from "../locate.ts";
import { dualFiles } from "./files.ts";

/** Options of {@link link}. */
export interface LinkPathOptions extends LinkOptions, LockOptions {
  /**
   * Makes an array of superchunks stay a Zarr array through all later changes, as if created with `zarr` (default false). Full superchunks
   * without an index are written once more, by copying their chunks.
   */
  readonly live?: boolean | undefined;
}

/**
 * Makes the archive at a path a Zarr v3 array (a table: a group) in place: in an array's own folder, or for a single file in the folder
 * `destination`. Completes an interrupted link, and repairs a damaged one.
 *
 * @throws BAD_ARGUMENT if a destination is missing or not allowed; UNSUPPORTED for what cannot be a shard, with the reason; CONFLICT if a
 * writer holds the archive, an object is in the way, or a data file has other names; READ_ONLY, NO_SPACE, IO; the codes of damage
 */
export async function link(
  path: string,
  destination?: string,
  options: LinkPathOptions = {},
): Promise<LinkResult> {
  await checkLater(options, "link");
  const place = givenPath(path);
  const live = await liveAt(place, destination, options);
  if (live === undefined)
    return atPath(place, destination, options, true, (archive, site) => linkArchive(archive, site, options));
  return live.isLive ? live.room.renewLive(place, options) : live.room.beginLiveAt(place, options);
}

/** Returns what {@link link} would do. Writes nothing. */
export async function planLinkAt(
  path: string,
  destination?: string,
  options: LinkPathOptions = {},
): Promise<LinkPlan> {
  await checkLater(options, "link");
  const place = givenPath(path);
  const live = await liveAt(place, destination, options);
  if (live === undefined)
    return atPath(place, destination, options, false, (archive, site) => planLink(archive, site, options));
  return live.isLive ? live.room.planRenewal(place, options) : live.room.planLiveAt(place, options);
}

/**
 * What handles live arrays, if the path is one or will become one; undefined for an archive that is linked once.
 *
 * @throws UNSUPPORTED for an address, because objects of a store cannot have a second name; BAD_ARGUMENT for options that a
 * live array does not have
 */
async function liveAt(
  path: string,
  destination: string | undefined,
  options: LinkPathOptions,
): Promise<{ readonly isLive: boolean; readonly room: Awaited<ReturnType<typeof loadLive>> } | undefined> {
  if (isRemote(path)) throw onlyFiles(path);
  if (destination === undefined && (await isLiveAt(path))) return { isLive: true, room: await loadLive() };
  if (options.live !== true) return undefined;
  assertPlainLive(path, destination, options);
  return { isLive: false, room: await loadLive() };
}

/** True if the folder is a live array, which keeps itself a Zarr array. Does not load the code that writes arrays. */
async function isLiveAt(path: string): Promise<boolean> {
  const store = new FileStore(resolve(path));
  try {
    return await isLive(store);
  } catch (error) {
    if (isSuperchunkError(error)) return false; // a file, or unreadable; opening it will report why
    throw error;
  } finally {
    await store.close();
  }
}

/** The error for an address: objects of a store cannot have a second name. */
function onlyFiles(path: string): SuperchunkError {
  return new SuperchunkError(
    "UNSUPPORTED",
    'only files can be linked; "superchunk convert" makes a Zarr copy of it',
    { path: path.replace(/\?.*$/s, "") },
  );
}

/** Checks the options for a live array, which has its own folder and is linked by hard links. Throws `BAD_ARGUMENT`. */
function assertPlainLive(path: string, destination: string | undefined, options: LinkPathOptions): void {
  const { kind = "hard", dtype, shape, dimensionNames } = options;
  const field =
    destination !== undefined
      ? "destination"
      : kind !== "hard"
        ? "kind"
        : [dtype, shape, dimensionNames].some((each) => each !== undefined)
          ? "dtype, shape and dimension names"
          : undefined;
  if (field === undefined) return;
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    `an array that stays a Zarr array is linked in its own folder by hard links, with its own dtype; leave out ${field}`,
    { path, field },
  );
}

async function atPath<T>(
  path: string,
  destination: string | undefined,
  options: LinkPathOptions,
  writes: boolean,
  work: (archive: Archive, site: LinkSite) => Promise<T>,
): Promise<T> {
  const { store, path: key } = await locate(path);
  return closing(store, async () => {
    if (!(store instanceof FileStore)) throw onlyFiles(path);
    const root = store.describe("");
    if (key !== "" && destination === undefined)
      throw new SuperchunkError(
        "BAD_ARGUMENT",
        `name a folder for the Zarr array: superchunk link ${basename(path)} FOLDER`,
        { path, field: "dst" },
      );
    if (key === "" && destination !== undefined && resolve(destination) !== root)
      throw new SuperchunkError(
        "BAD_ARGUMENT",
        'a folder becomes a Zarr array in place and takes no destination; "superchunk convert" makes a copy elsewhere',
        { path, field: "dst" },
      );
    const target = key === "" ? root : resolve(destination ?? "");
    const site: LinkSite = {
      target: target === root ? store : new FileStore(target),
      source: store,
      files: dualFiles(root, target),
      data: dataPath(target, root),
    };
    const lock = writes ? await lockFolder(root, key, options) : undefined;
    try {
      return await work(await openSource(store, key, options), site);
    } finally {
      await lock?.release();
      if (target !== root) await site.target.close?.();
    }
  });
}

/** Refuses places: shards are names of files in the array's own folder. */
function refusePlace({ name, prefix }: StoredPlace): never {
  throw new SuperchunkError(
    "UNSUPPORTED",
    `superchunks of the array are in the place "${name}", and Zarr readers look for all of them in its folder; "superchunk place --move all --to data" brings them there; "superchunk serve" and "virtualize" present them as Zarr where they are`,
    { field: "place", found: prefix },
  );
}

/** Opens the archive to link. Throws `UNSUPPORTED` for an array that is itself Zarr. */
async function openSource(store: FileStore, key: string, { signal }: LinkPathOptions): Promise<Archive> {
  try {
    return await open(store, key, { signal, openPlace: refusePlace });
  } catch (error) {
    const isZarr =
      isSuperchunkError(error, "UNSUPPORTED") && ZARR_DOCUMENTS.includes(String(error.details.found));
    if (!isZarr) throw error;
    throw new SuperchunkError(
      "UNSUPPORTED",
      'this is already a Zarr array or group: any Zarr reader opens it. "superchunk link" makes Zarr arrays of archives (folders of bcolz and blz, Bloscpack files); "superchunk convert --to blz" makes an archive of Zarr',
      error.details,
    );
  }
}

/**
 * Undoes {@link link} at the folder of the Zarr array.
 *
 * @throws NOT_FOUND if nothing is linked; CONFLICT if a data file has other names; READ_ONLY, IO; BAD_FIELD if the record is damaged
 */
export async function unlink(path: string, options: LinkPathOptions = {}): Promise<UnlinkResult> {
  await checkLater(options, "link");
  const place = givenPath(path);
  if (isRemote(place)) throw onlyFiles(place);
  if (await isLiveAt(place)) return (await loadLive()).endLiveAt(place, options);
  return atSite(place, async (site) => {
    const record = await readLinkRecord(site.target, options.signal);
    const lock = await lockFolder(site.source.describe(""), record?.archive ?? "", options);
    return closing({ close: async () => lock?.release() }, async () => {
      // A link that was killed before it wrote a record left an unnamed document. The lock keeps other writers out.
      if (record === undefined && lock !== undefined) await site.target.removeLeftovers?.("");
      return unlinkArchive(site, options);
    });
  });
}

/** Lists the faults of a linked archive's Zarr view; undefined if nothing is linked at the path. */
export async function verifyLinkAt(
  path: string,
  options: LinkPathOptions = {},
): Promise<readonly Finding[] | undefined> {
  await checkLater(options, "link");
  const place = givenPath(path);
  if (!isFolder(place)) return undefined;
  if (!fs.existsSync(join(place, LINK_RECORD))) return (await loadLive()).verifyLiveAt(place, options);
  return atSite(place, (site) => verifyLink(site, options));
}

/** The code that writes arrays is loaded only for live arrays. */
function loadLive(): Promise<typeof import("./live.ts")> {
  return import("./live.ts");
}

/** Lets `use` work with the Zarr array at a path and the files that it was made of. */
async function atSite<T>(path: string, use: (site: LinkSite) => Promise<T>): Promise<T> {
  const root = resolve(path);
  if (!isFolder(root))
    throw new SuperchunkError(
      "NOT_FOUND",
      "the folder does not exist; name the folder that is the Zarr array",
      { path },
    );
  const target = new FileStore(root);
  const record = await readLinkRecord(target);
  const data = resolve(root, record?.data ?? ".");
  const source = new FileStore(data);
  const site = { target, source, files: dualFiles(data, root), data: dataPath(root, data) };
  return closing(target, () => closing(source, () => use(site)));
}

/** Locks the array against writers. A folder without `meta/` (a table, a folder of files) has no writer of ours. */
async function lockFolder(
  root: string,
  key: string,
  options: LockOptions,
): Promise<{ release(): Promise<void> } | undefined> {
  if (key !== "" || !isFolder(join(root, "meta"))) return undefined;
  return acquireLock(join(root, "meta", "lock"), options);
}

/** The path as the record stores it: with `/`, and `.` if both folders are the same. */
function dataPath(target: string, root: string): string {
  return relative(target, root).replaceAll("\\", "/") || ".";
}
