/** The archives at paths, and the names of their nodes, for serving and for references. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import type { OpenOptions } from "../archive/kinds/types.ts";
import { open as openIn } from "../archive/open/open.ts";
import { isArchive } from "../convert/sources/items.ts";
import { SuperchunkError } from "../errors.ts";
import { HELD_NAMES } from "../format/naming.ts";
import { openInFile } from "../open/open-node.ts";
import type { ReadableStore } from "../store/types.ts";
import { findViewEntries, viewOfNode } from "../view/find-entries.ts";
import type { ViewEntry } from "../view/view-tree.ts";
import type { ZarrArray } from "../zarr/read/array.ts";
import type { ZarrGroup } from "../zarr/read/group.ts";
import { assertNamesDiffer, isAddress, isBucketAddress, locate, nameOf, setAbove } from "./locate.ts";
import { type OpenPathOptions, open, openArchive } from "./open.ts";
import { decoderOf } from "./threads/threads.ts";

/** The archives at paths, and their stores. */
interface ServedEntries {
  readonly entries: readonly ViewEntry[];
  /** The places of the paths. `name` is empty for a single folder of archives, whose names have no prefix. */
  readonly places: readonly { readonly name: string; readonly store: ReadableStore; readonly path: string }[];
  close(): Promise<void>;
}

/** What is accepted besides archives. */
interface EntryOptions {
  /** Tells which errors of a place without archives mean that the place has other content. */
  readonly isOther?: ((error: unknown) => boolean) | undefined;
  /** How sets of references are opened; if absent, they are not looked for. */
  readonly sets?: OpenPathOptions | undefined;
  /** True if there are other paths, which have their own names below the root. */
  readonly isAmong?: boolean | undefined;
  /** Called with the key of each file in a folder that is neither an archive nor in one. */
  readonly onFile?: ((key: string) => void) | undefined;
  /** Called with each folder of Zarr that is left out, because it needs no view. */
  readonly onZarr?: ((source: string) => void) | undefined;
}

/**
 * A single folder of archives is the root itself; an archive, and each of several paths, has its own name below the root.
 * Throws `NOT_FOUND` if a path is missing or has no archives, `BAD_ARGUMENT` for two paths of one name.
 */
export async function locateEntries(
  paths: readonly string[],
  { signal, openPlace }: Pick<OpenOptions, "signal" | "openPlace">,
  { isOther, sets, isAmong = paths.length > 1, onFile, onZarr }: EntryOptions,
): Promise<ServedEntries> {
  const stores: { close?(): Promise<void> }[] = [];
  const close = async (): Promise<void> => {
    for (const store of stores) await store.close?.();
  };
  const entries: ViewEntry[] = [];
  const places: ServedEntries["places"][number][] = [];
  assertNamesDiffer(paths.map(nameOf));
  const add = async (typed: string): Promise<void> => {
    const name = nameOf(typed);
    if (sets !== undefined && (await isSet(typed))) {
      const node = await open(typed, { ...sets, signal });
      stores.push(node);
      if ("ownStore" in node) {
        entries.push(nodeEntry(name, node));
        return;
      }
    }
    const { store, path } = await locate(typed);
    stores.push(store);
    // An address is judged by its name alone, because each check is a request.
    if (sets !== undefined && (!isAddress(typed) || HELD_NAMES.test(path))) {
      const node = await openInFile(store, path, { signal });
      if (node !== undefined) {
        entries.push(nodeEntry(name, node));
        if (node.path === "") places.push({ name, store, path });
        return;
      }
    }
    if (await isArchive(store, path, { signal })) {
      // A store over HTTP remembers the versions of objects. Only a new store accepts newer ones.
      const openAgain = isAddress(typed)
        ? (options: OpenOptions) => openArchive(typed, { openPlace, ...options })
        : (options: OpenOptions) => openIn(store, path, { openPlace, ...options, decoder: decoderOf() });
      entries.push({ node: name, source: store.describe(path), open: openAgain });
      places.push({ name, store, path });
      return;
    }
    const found = await findViewEntries(store, path, {
      signal,
      openPlace,
      onFile,
      onZarr,
      shown: sets !== undefined,
    }).catch((error: unknown) => {
      if (isOther?.(error) === true) return undefined;
      throw error;
    });
    places.push({ name: isAmong || found === undefined ? name : "", store, path });
    for (const entry of found ?? [])
      entries.push(!isAmong ? entry : { ...entry, node: `${name}/${entry.node}` });
  };
  try {
    for (const typed of paths) await add(typed);
  } catch (error) {
    await close();
    throw error;
  }
  return { entries, places, close };
}

/** True for a path that is, or is in, a set of references or an Icechunk repository. */
async function isSet(typed: string): Promise<boolean> {
  if (/\.(?:json|parq)(?:[/?]|$)/i.test(typed) || setAbove(typed) !== undefined) return true;
  if (isAddress(typed)) return isBucketAddress(typed) && (await import("./references.ts")).isIcechunk(typed);
  const has = (name: string): boolean => existsSync(join(typed, name));
  return has("snapshots") && (has("repo") || has("refs"));
}

/** Throws `UNSUPPORTED` for a set of references or an Icechunk repository: the page of `view` reads only what is stored at its paths. */
export async function refuseSets(paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    const node = (await isSet(path)) ? await open(path).catch(() => undefined) : undefined; // reported later
    await node?.close();
    if (node !== undefined && "ownStore" in node)
      throw new SuperchunkError(
        "UNSUPPORTED",
        'the page cannot read what a set of references refers to; drop the set on a page together with those files, or use "superchunk info"',
        { path },
      );
  }
}

/** A set of references, an HDF5 file, or a Blosc2 file or store. It shows the state at opening, because it is not opened again. */
function nodeEntry(node: string, opened: ZarrArray | ZarrGroup): ViewEntry {
  const source = opened.store.describe(opened.path);
  return {
    node,
    source,
    open: () =>
      Promise.reject(
        new SuperchunkError("UNSUPPORTED", "this is shown as Zarr, and is not an archive", { path: source }),
      ),
    view: viewOfNode(() => Promise.resolve(opened)),
  };
}
