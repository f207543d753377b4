/** Finds the archives that a view of a folder shows. */
import type { OpenOptions } from "../archive/kinds/types.ts";
import { findArchives, isZarrFolder } from "../archive/open/discover.ts";
import { open } from "../archive/open/open.ts";
import { SuperchunkError } from "../errors.ts";
import type { ReadableStore } from "../store/types.ts";
import { namePaths } from "../zarr/document/node-names.ts";
import type { ViewEntry } from "./view-tree.ts";

/** What `findViewEntries` of the entry does. */
export async function findViewEntries(
  store: ReadableStore,
  path = "",
  options: OpenOptions = {},
): Promise<ViewEntry[]> {
  const keys: string[] = [];
  const refused = new Map<string, SuperchunkError>();
  for await (const found of findArchives(store, path, options)) {
    keys.push(found.path);
    if (found.error !== undefined) refused.set(found.path, found.error);
  }
  if (keys.length === 0) {
    for await (const { kind } of findArchives(store, path, { ...options, isOther: isZarrFolder }))
      if (kind === "other") throw onlyZarr(store.describe(path));
    throw new SuperchunkError("NOT_FOUND", "no archive lies in the folder", {
      path: store.describe(path),
    });
  }
  const below = (key: string): string =>
    path === "" || key === path ? key.slice(path.length) : key.slice(path.length + 1);
  const named = namePaths(keys.map(below).filter((name) => name !== ""));
  return keys.map((key) => ({
    node: named.get(below(key)) ?? below(key),
    source: store.describe(key),
    open: async (opening) => {
      const error = refused.get(key);
      if (error !== undefined) throw error;
      return open(store, key, { openPlace: options.openPlace, ...opening });
    },
  }));
}

function onlyZarr(path: string): SuperchunkError {
  return new SuperchunkError(
    "UNSUPPORTED",
    "this is Zarr already, which its readers open as it lies; it is archives that are shown as Zarr, and referred to",
    { path, expected: "an archive, or a folder of archives", found: "Zarr" },
  );
}
