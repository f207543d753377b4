/** Finds the archives for a view of a folder. */
import type { OpenOptions } from "../archive/kinds/types.ts";
import { findArchives, isBlosc2Folder, isZarrFolder } from "../archive/open/discover.ts";
import { open } from "../archive/open/open.ts";
import { checkOptions } from "../bytes/check-options.ts";
import { SuperchunkError } from "../errors.ts";
import type { ListEntry, ReadableStore } from "../store/types.ts";
import { foldersAbove, namePaths } from "../zarr/document/node-names.ts";
import type { ZarrArray } from "../zarr/read/array.ts";
import type { ZarrGroup } from "../zarr/read/group.ts";
import type { ViewEntry } from "./view-tree.ts";

/** What is found besides archives. */
interface FindEntriesOptions extends OpenOptions {
  /** HDF5 files, and frames and stores of Blosc2 (default false). */
  readonly shown?: boolean | undefined;
  /** Called with the name in messages of each folder of Zarr that holds no archive, which is not among the entries. */
  readonly onZarr?: ((source: string) => void) | undefined;
  /** Called with the key of each file that is neither an archive nor in one. */
  readonly onFile?: ((key: string) => void) | undefined;
}

/** Implements `findViewEntries` of the entry. */
export async function findViewEntries(
  store: ReadableStore,
  path = "",
  given: FindEntriesOptions = {},
): Promise<ViewEntry[]> {
  checkOptions(given, "columns damaged decoder onDamage onFile onZarr openPlace shown signal verify");
  const { shown, onZarr, ...options } = given;
  const keys: string[] = [];
  const refused = new Map<string, SuperchunkError>();
  const others = new Set<string>();
  const zarr: string[] = [];
  const isOther = (entries: readonly ListEntry[], key: string): boolean => {
    if (isBlosc2Folder(entries)) return true;
    if (isZarrFolder(entries)) zarr.push(key);
    return false;
  };
  for await (const found of findArchives(store, path, {
    ...options,
    isOther: shown === true ? isOther : undefined,
  })) {
    keys.push(found.path);
    if (found.kind === "other") others.add(found.path);
    if (found.error !== undefined) refused.set(found.path, found.error);
  }
  if (keys.length === 0) {
    for await (const { kind } of findArchives(store, path, { ...options, isOther: isBlosc2Folder }))
      if (kind === "other") throw cannotBeReferenced(store.describe(path));
    for await (const { kind } of findArchives(store, path, { ...options, isOther: isZarrFolder }))
      if (kind === "other") throw onlyZarr(store.describe(path));
    throw new SuperchunkError("NOT_FOUND", "the folder holds no archive", { path: store.describe(path) });
  }
  const ofZarr = new Set(zarr);
  const ofArchives = new Set([...keys, ...foldersAbove(keys)]);
  for (const folder of zarr) {
    const isOutermost = !foldersAbove([folder]).some((above) => ofZarr.has(above));
    if (isOutermost && !ofArchives.has(folder)) onZarr?.(store.describe(folder));
  }
  const below = (key: string): string =>
    path === "" || key === path ? key.slice(path.length) : key.slice(path.length + 1);
  const named = namePaths(keys.map(below).filter((name) => name !== ""));
  const openOther = async (key: string): Promise<ZarrArray | ZarrGroup> => {
    const { openInFile } = await import("../open/open-node.ts");
    return (await openInFile(store, key, options)) ?? Promise.reject(notHeld(store.describe(key)));
  };
  return keys.map((key) => ({
    node: named.get(below(key)) ?? below(key),
    source: store.describe(key),
    ...(others.has(key) ? { view: viewOfNode(() => openOther(key)) } : {}),
    open: async (opening) => {
      const error = refused.get(key);
      if (error !== undefined) throw error;
      return open(store, key, { openPlace: options.openPlace, ...opening });
    },
  }));
}

/** Shows a node that is not an archive, opened on request. */
export function viewOfNode(openNode: () => Promise<ZarrArray | ZarrGroup>): NonNullable<ViewEntry["view"]> {
  return async (options) => (await import("./nodes-view.ts")).planNodesView(await openNode(), options);
}

function notHeld(path: string): SuperchunkError {
  return new SuperchunkError("BAD_MAGIC", "neither an HDF5 file nor a frame or store of Blosc2", { path });
}

function cannotBeReferenced(path: string): SuperchunkError {
  return new SuperchunkError(
    "UNSUPPORTED",
    'the folder has HDF5 files, or frames and stores of Blosc2, but no archives: name the HDF5 files themselves, such as FOLDER/*.h5; chunks of Blosc2 cannot be referenced unchanged, but "superchunk convert" converts them to Zarr',
    { path, expected: "an archive, or a folder of archives", found: "HDF5 or Blosc2" },
  );
}

function onlyZarr(path: string): SuperchunkError {
  return new SuperchunkError(
    "UNSUPPORTED",
    'this is Zarr already, and Zarr readers open it directly: there is nothing to serve or to reference. "superchunk view" shows it; over HTTP any file server can serve it',
    { path, expected: "an archive, or a folder of archives", found: "Zarr" },
  );
}
