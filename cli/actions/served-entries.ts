/** Which archives `serve` shows, and under which names. */

import { basename, resolve } from "node:path";
import {
  type OpenOptions,
  openArchive as openIn,
  type ReadableStore,
  SuperchunkError,
} from "../../src/index.ts";
import { decoderOf, locate, openArchive } from "../../src/node/index.ts";
import { findViewEntries, isArchive, type ViewEntry } from "../../src/zarr.ts";

/** The archives of the typed paths, with the stores that they lie in. */
export interface ServedEntries {
  readonly entries: readonly ViewEntry[];
  close(): Promise<void>;
}

/**
 * A single folder of archives is the root itself; an archive, and each of several paths, has its own name below it.
 * Throws `NOT_FOUND` where a path or archives in it are missing, `BAD_ARGUMENT` for two paths of one name.
 */
export async function locateEntries(paths: readonly string[], signal: AbortSignal): Promise<ServedEntries> {
  const stores: ReadableStore[] = [];
  const close = async (): Promise<void> => {
    for (const store of stores) await store.close?.();
  };
  const entries: ViewEntry[] = [];
  const names = new Set<string>();
  try {
    for (const typed of paths) {
      const { store, path } = await locate(typed);
      stores.push(store);
      const name = nameOf(typed);
      if (names.has(name))
        throw new SuperchunkError(
          "BAD_ARGUMENT",
          `two paths have the name "${name}"; serve them one by one`,
          {
            path: typed,
            field: "paths",
          },
        );
      names.add(name);
      if (await isArchive(store, path, { signal })) {
        // A server's objects are remembered by version: only a store of its own takes new ones for right.
        const openAnew = isRemote(typed)
          ? (options: OpenOptions) => openArchive(typed, options)
          : (options: OpenOptions) => openIn(store, path, { ...options, decoder: decoderOf() });
        entries.push({ node: name, source: store.describe(path), open: openAnew });
        continue;
      }
      for (const entry of await findViewEntries(store, path, { signal }))
        entries.push(paths.length === 1 ? entry : { ...entry, node: `${name}/${entry.node}` });
    }
  } catch (error) {
    await close();
    throw error;
  }
  return { entries, close };
}

function isRemote(typed: string): boolean {
  return /^[a-z][a-z0-9+.-]+:\/\//i.test(typed);
}

function nameOf(typed: string): string {
  if (!isRemote(typed)) return basename(resolve(typed));
  const parts = new URL(typed).pathname.split("/").filter((part) => part !== "");
  return decodeURIComponent(parts.at(-1) ?? "archive");
}
