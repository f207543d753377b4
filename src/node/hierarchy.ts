/**
 * The Zarr hierarchy around a path: the groups above it, and their copies of other nodes' metadata.
 *
 * Knows paths and locks; `zarr/write/node-document.ts` decides what is written.
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

/** Serializes the writers of one machine that update the metadata of a hierarchy. */
const LOCK = ".superchunk-metadata.lock";
/** Number of tries, and the longest wait between them: together some 20 seconds, enough for hundreds of writers. */
const TRIES = 400;
const LONGEST_WAIT_MS = 100;

/** A place that will be a node of an existing hierarchy. */
export interface Membership {
  /**
   * Creates the missing groups above, and adds the node to the consolidated metadata of all groups above. Resolves with notes
   * for the user.
   */
  join(): Promise<readonly string[]>;
}

/**
 * The hierarchy above a path without symbolic links, or an `s3:` address; undefined if there is none. Throws `CONFLICT` for a place in an
 * array or an archive.
 */
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
    // Without a node there is nothing to lock, and no folder is created.
    if ((await store.stat("zarr.json", options)) === undefined)
      return await consolidateGroup(store, path, options);
    return await inTurn(lock, () => consolidateGroup(store, path, options), options.signal);
  } finally {
    await store.close?.();
  }
}

/** The store of a whole disk or bucket, and the key of a place in it, so that it includes the groups above. */
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

/** Repeats a change until no other writer was faster, under a lock if one is possible. */
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
