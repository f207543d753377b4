/** The archives of typed paths in the order in which they are joined, all in one store. */

import type { Archive } from "../../src/archive/kinds/types.ts";
import { findArchives } from "../../src/archive/open/discover.ts";
import { open } from "../../src/archive/open/open.ts";
import { SuperchunkError } from "../../src/errors.ts";
import { decoderOf, locate } from "../../src/node/index.ts";
import { type Mount, MountedStore } from "../../src/store/mounted.ts";
import { isArchive } from "../../src/zarr.ts";

/** Opened archives, and what closes them. */
export interface OrderedArchives {
  readonly archives: readonly Archive[];
  close(): Promise<void>;
}

/**
 * Opens the archives as they are typed, and those of a folder in the order of their names. Throws `NOT_FOUND` where a
 * path has none.
 */
export async function openInOrder(paths: readonly string[], signal: AbortSignal): Promise<OrderedArchives> {
  const mounts = new Map<string, Mount>();
  // Names may be the same: archives of one name for each year, in a folder each.
  for (const [i, path] of paths.entries()) mounts.set(`${i}`, await locate(path));
  const store = new MountedStore(mounts);
  try {
    const keys: string[] = [];
    for (const name of mounts.keys()) {
      if (await isArchive(store, name, { signal })) keys.push(name);
      else {
        const below: string[] = [];
        for await (const { path, error } of findArchives(store, name, { signal })) {
          if (error !== undefined) throw error;
          below.push(path);
        }
        if (below.length === 0)
          throw new SuperchunkError("NOT_FOUND", "there is no archive in the folder", {
            path: store.describe(name),
          });
        keys.push(...below.sort());
      }
    }
    const archives: Archive[] = [];
    for (const key of keys) archives.push(await open(store, key, { signal, decoder: decoderOf() }));
    return { archives, close: () => store.close() };
  } catch (error) {
    await store.close();
    throw error;
  }
}
