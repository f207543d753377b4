/** Creates arrays at paths, and opens them for writing: with a lock, and worker threads that encode. */

import { join, resolve } from "node:path";
import { type RepairOptions, type RepairReport, repairArray as repairIn } from "../convert/run/repair.ts";
import { liveViews } from "../dual/live.ts";
import type { MirrorCosts } from "../dual/live-view.ts";
import type { WritableStore } from "../store/types.ts";
import type { MirrorMaker } from "../write/array/array-writer.ts";
import {
  type CreateOptions,
  createArray as createIn,
  openWritable as openIn,
  type WriteOptions,
} from "../write/array/create.ts";
import type { WritableArray } from "../write/array/writable-array.ts";
import type { PublishPolicy } from "../write/editable.ts";
import { dualFiles, dualFilesOf } from "./dual/files.ts";
import { FileStore } from "./fs/fs-store.ts";
import { acquireLock, type FileLock, type LockOptions } from "./fs/lock.ts";
import { closing, isBucketAddress, locate, locateTarget } from "./locate.ts";
import { placeOpener } from "./open.ts";
import { encoderOf, type ThreadOptions } from "./threads/threads.ts";

/** Options of {@link openWritable}. */
export interface WritePathOptions extends WriteOptions, LockOptions, ThreadOptions, MirrorPathOptions {}

/** Options of {@link createArray}. */
export interface CreatePathOptions extends CreateOptions, LockOptions, ThreadOptions, MirrorPathOptions {}

/** Options for arrays whose folder is kept as a Zarr array as well (`zarr` of {@link CreateOptions}). */
export interface MirrorPathOptions {
  /**
   * When flushed rows become visible as Zarr: at every flush (default), with every full superchunk, or at a flush that many seconds after
   * the last time. `close` publishes everything. Each time, the open end of the array and every superchunk with changed values are written
   * as shards: publishing less often writes fewer bytes.
   */
  readonly publish?: PublishPolicy | undefined;
  /** Counts the cost of publishing. */
  readonly mirrorCosts?: MirrorCosts | undefined;
  /** Compares every chunk of every shard on opening, and repairs differences (default false). */
  readonly looksAtAll?: boolean | undefined;
}

/**
 * Creates an array in a folder, which need not exist, or at an address in a bucket, and opens it for writing.
 *
 * @throws CONFLICT if something exists there, or another writer holds the lock; BAD_ARGUMENT, LIMIT, UNSUPPORTED; NO_SPACE,
 * READ_ONLY, IO
 */
export function createArray(path: string, options: CreatePathOptions): Promise<WritableArray> {
  const { store } = locateTarget(path);
  return createIn(store, "", { ...options, ...writing(store, path, options) });
}

/**
 * Opens the array in a folder, or at an address in a bucket, for writing, and completes or removes what an interrupted writer left.
 *
 * @throws NOT_FOUND; CONFLICT if another writer holds the lock; READ_ONLY, UNSUPPORTED, and the codes of damage
 */
export async function openWritable(path: string, options: WritePathOptions = {}): Promise<WritableArray> {
  const { store } = locateTarget(path);
  const isThere = (await store.stat("meta/sizes")) !== undefined;
  // Without an array there is nothing to lock, and no folder is created.
  return openIn(store, "", { ...options, ...(isThere ? writing(store, path, options) : {}) });
}

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
 * @throws NOT_FOUND; UNSUPPORTED for anything but an archive; CONFLICT if a writer holds the lock; INCOMPLETE if rows would be lost or made
 * up, and the options do not say which; the codes of damage; NO_SPACE, IO
 */
export async function repairArray(path: string, options: RepairPathOptions = {}): Promise<RepairReport> {
  const { into, breakLock, allow, ...rest } = options;
  // The store of an S3 address for reading cannot write.
  const isHere = into === undefined && options.dryRun !== true;
  const { store, path: key } = isHere && isBucketAddress(path) ? locateTarget(path) : await locate(path);
  return closing(store, async () => {
    const isFile = key !== "";
    const target = into === undefined ? undefined : isFile ? locateTarget(into, "file") : locateTarget(into);
    const lock = isBucketAddress(into ?? path)
      ? undefined
      : (): Promise<FileLock> => acquireLock(join(resolve(into ?? path), "meta", "lock"), { breakLock });
    try {
      return await repairIn(store, key, {
        ...rest,
        openPlace: options.openPlace ?? placeOpener({ allow }),
        ...(lock === undefined || isFile ? {} : { lock }),
        ...(target === undefined ? {} : { into: target }),
      });
    } finally {
      await target?.store.close?.();
    }
  });
}

/** Settings that follow from the path. The array owns the store, whose resources are released with the lock. */
function writing(
  store: WritableStore,
  path: string,
  options: WritePathOptions,
): Pick<WriteOptions, "encoder" | "lock" | "mirror"> {
  // Buckets have no locks: only conditional commits protect two writers from each other.
  const acquire = isBucketAddress(path)
    ? undefined
    : (options.lock ?? (() => acquireLock(join(resolve(path), "meta", "lock"), options)));
  return {
    encoder: options.encoder ?? encoderOf(options),
    lock: async () => {
      const lock = await acquire?.();
      return {
        async release() {
          await store.close?.();
          await lock?.release();
        },
      };
    },
    mirror: options.mirror ?? mirrorOf(store, path, options),
  };
}

/** Keeps an array at a path a Zarr array as well; undefined in a bucket, where objects have only one name. */
export function mirrorOf(
  store: WritableStore,
  path: string,
  { publish, mirrorCosts, looksAtAll }: MirrorPathOptions,
): MirrorMaker | undefined {
  if (isBucketAddress(path)) return undefined;
  return liveViews({
    files: store instanceof FileStore ? dualFilesOf(store) : dualFiles(resolve(path)),
    publish,
    costs: mirrorCosts,
    all: looksAtAll,
  });
}
