/** Which archives paths stand for, and the names of their nodes: for what is served, and what is referred to. */

import { basename, resolve } from "node:path";
import type { OpenOptions } from "../archive/kinds/types.ts";
import { open as openIn } from "../archive/open/open.ts";
import { isArchive } from "../convert/sources/items.ts";
import { SuperchunkError } from "../errors.ts";
import type { ReadableStore } from "../store/types.ts";
import { findViewEntries, type ViewEntry } from "../view/view-tree.ts";
import { locate } from "./locate.ts";
import { openArchive } from "./open.ts";
import { decoderOf } from "./threads/threads.ts";

/** The archives of paths, with the stores that they lie in. */
export interface ServedEntries {
  readonly entries: readonly ViewEntry[];
  /** The places of the paths; `name` is empty for a single folder of archives, whose names then stand by themselves. */
  readonly places: readonly { readonly name: string; readonly store: ReadableStore; readonly path: string }[];
  close(): Promise<void>;
}

/**
 * A single folder of archives is the root itself; an archive, and each of several paths, has its own name below it.
 * Throws `NOT_FOUND` where a path or archives in it are missing, `BAD_ARGUMENT` for two paths of one name. What `isOther` takes of
 * these errors stands for a place without archives that has other things to show.
 */
export async function locateEntries(
  paths: readonly string[],
  signal: AbortSignal | undefined,
  isOther?: (error: unknown) => boolean,
): Promise<ServedEntries> {
  const stores: ReadableStore[] = [];
  const close = async (): Promise<void> => {
    for (const store of stores) await store.close?.();
  };
  const entries: ViewEntry[] = [];
  const places: ServedEntries["places"][number][] = [];
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
        const openAgain = isRemote(typed)
          ? (options: OpenOptions) => openArchive(typed, options)
          : (options: OpenOptions) => openIn(store, path, { ...options, decoder: decoderOf() });
        entries.push({ node: name, source: store.describe(path), open: openAgain });
        places.push({ name, store, path });
        continue;
      }
      const found = await findViewEntries(store, path, { signal }).catch((error: unknown) => {
        if (isOther?.(error) === true) return undefined;
        throw error;
      });
      places.push({ name: paths.length === 1 && found !== undefined ? "" : name, store, path });
      for (const entry of found ?? [])
        entries.push(paths.length === 1 ? entry : { ...entry, node: `${name}/${entry.node}` });
    }
  } catch (error) {
    await close();
    throw error;
  }
  return { entries, places, close };
}

function isRemote(typed: string): boolean {
  return /^[a-z][a-z0-9+.-]+:\/\//i.test(typed);
}

function nameOf(typed: string): string {
  if (!isRemote(typed)) return basename(resolve(typed));
  const parts = new URL(typed).pathname.split("/").filter((part) => part !== "");
  return decodeURIComponent(parts.at(-1) ?? "archive");
}
