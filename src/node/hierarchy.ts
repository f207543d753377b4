/**
 * The Zarr hierarchy that a path lies in: groups above it, and the metadata of other nodes that they repeat.
 *
 * Knows paths and locks; what is written is up to `zarr/write/node-document.ts`.
 */
import { join, parse, relative, resolve, sep } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { isSuperchunkError, type SuperchunkError } from "../errors.ts";
import type { StoreOptions, WritableStore } from "../store/types.ts";
import {
  type Consolidation,
  consolidateGroup,
  findHierarchy,
  joinHierarchy,
} from "../zarr/write/node-document.ts";
import { FileStore } from "./fs/fs-store.ts";
import { acquireLock } from "./fs/lock.ts";
import { isS3Address, locateTarget } from "./locate.ts";
import { parseS3Address, S3Store } from "./s3/s3-store.ts";

/** Keeps the writers of one machine apart that bring the metadata of a hierarchy up to date. */
const LOCK = ".superchunk-metadata.lock";
/** Tries, and the longest wait before the next one: together some 20 seconds, in which hundreds of writers have their turn. */
const TRIES = 400;
const LONGEST_WAIT_MS = 100;

/** A place that is to be a node of a hierarchy that is there. */
export interface Membership {
  /**
   * Makes the missing groups above, and lets the consolidated metadata of all groups above list the node. Resolves with what is
   * worth a note.
   */
  join(): Promise<readonly string[]>;
}

/** The hierarchy above a path or `s3:` address without symbolic links; undefined if there is none. Throws `CONFLICT` for a place in an array or an archive. */
export async function findMembership(
  location: string,
  options: StoreOptions = {},
): Promise<Membership | undefined> {
  const { store, path } = wholeStore(location);
  const root = await findHierarchy(store, path, options).finally(() => store.close?.());
  if (root === undefined) return undefined;
  return {
    join: async () => {
      const change = (): Promise<string[]> => joinHierarchy(store, root, path, options);
      try {
        const made = await inTurn(lockIn(store, root), change, options.signal);
        return made.map((group) => `${store.describe(group)}: created the missing Zarr group`);
      } catch (error) {
        if (!isSuperchunkError(error)) throw error;
        return [
          `${store.describe(root)}: its metadata do not list the new node (${error.summary}); "superchunk consolidate" does that`,
        ];
      } finally {
        await store.close?.();
      }
    },
  };
}

/**
 * Updates the consolidated metadata of the Zarr v3 group at a path or `s3:` address to list all nodes below it. Groups below with
 * consolidated metadata are updated too.
 *
 * @throws NOT_FOUND, UNSUPPORTED for an array; CONFLICT for an archive that is a Zarr group as well, or if other writers keep changing it;
 * READ_ONLY, NO_SPACE, IO
 */
export async function consolidate(location: string, options: StoreOptions = {}): Promise<Consolidation> {
  const { store, path } = locateTarget(location);
  const lock = isS3Address(location) ? undefined : join(resolve(location), LOCK);
  try {
    // Without a node there is nothing to lock, and no folder is made.
    if ((await store.stat("zarr.json", options)) === undefined)
      return await consolidateGroup(store, path, options);
    return await inTurn(lock, () => consolidateGroup(store, path, options), options.signal);
  } finally {
    await store.close?.();
  }
}

/** The store of a whole disk or bucket, and the key of a place in it: the groups above the place are in it. */
function wholeStore(location: string): { readonly store: WritableStore; readonly path: string } {
  if (isS3Address(location)) {
    const { prefix = "", ...bucket } = parseS3Address(location);
    return { store: new S3Store(bucket), path: prefix };
  }
  const full = resolve(location);
  const { root } = parse(full);
  return { store: new FileStore(root), path: relative(root, full).split(sep).join("/") };
}

function lockIn(store: WritableStore, root: string): string | undefined {
  return store instanceof FileStore ? join(store.describe(root), LOCK) : undefined;
}

/** Runs a change that other writers may be faster with, under a lock where there can be one, until it is done. */
async function inTurn<T>(
  lock: string | undefined,
  change: () => Promise<T>,
  signal: AbortSignal | undefined,
): Promise<T> {
  let conflict: SuperchunkError | undefined;
  for (let tries = 0; tries < TRIES; tries++) {
    signal?.throwIfAborted();
    try {
      const held = lock === undefined ? undefined : await acquireLock(lock);
      try {
        return await change();
      } finally {
        await held?.release();
      }
    } catch (error) {
      if (!isSuperchunkError(error, "CONFLICT")) throw error;
      conflict = error;
    }
    await delay(Math.random() * LONGEST_WAIT_MS, undefined, { signal });
  }
  throw conflict;
}
