/** `repairArray` for paths and addresses: with a lock. */

import { join, resolve } from "node:path";
import { type RepairOptions, type RepairReport, repairArray as repairIn } from "../convert/run/repair.ts";
import { acquireLock, type FileLock, type LockOptions } from "./fs/lock.ts";
import { closing, isBucketAddress, locate, locateTarget } from "./locate.ts";
import { placeOpener } from "./open.ts";

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
