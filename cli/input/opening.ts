/** Opens what a typed path or address stands for: an archive, or a Zarr array or group, also inside of a hierarchy. */
import { stat } from "node:fs/promises";
import { dirname, relative, resolve, sep } from "node:path";
import type { Archive, OpenOptions } from "../../src/archive/kinds/types.ts";
import { isSuperchunkError } from "../../src/errors.ts";
import { decoderOf, FileStore, type Location, locate, open } from "../../src/node/index.ts";
import type { Readable } from "../../src/open/readable.ts";
import { describeGroup } from "../../src/open/zarr-group.ts";
import { ZarrReadable } from "../../src/open/zarr-readable.ts";
import { openZarr, type ZarrArray, type ZarrGroup } from "../../src/zarr.ts";

/** What is at a path. */
export type Found =
  | { readonly archive: Archive; readonly node?: never }
  | { readonly node: ZarrArray | ZarrGroup; readonly archive?: never };

/**
 * Opens what is there; its `close()` releases the store. Throws `NOT_FOUND`, `UNSUPPORTED`, and the codes of damage.
 */
export async function openPath(path: string, options: OpenOptions): Promise<Readable> {
  const { archive, node } = await findAt(path, options);
  if (archive !== undefined) return archive;
  const release = async (): Promise<void> => node.store.close?.();
  try {
    return node.kind === "array" ? new ZarrReadable(node, release) : await describeGroup(node, release);
  } catch (error) {
    await release();
    throw error;
  }
}

/**
 * The archive at a path, else the Zarr node. Nodes of the older storage transformer have no folder of their own: they are
 * looked for from the folders above. Throws as {@link openPath}.
 */
export async function findAt(path: string, options: OpenOptions): Promise<Found> {
  try {
    return { archive: await open(path, options) };
  } catch (error) {
    if (!isSuperchunkError(error, "NOT_FOUND") && !isSuperchunkError(error, "UNSUPPORTED")) throw error;
    const node =
      (await nodeAt(() => locate(path), options)) ?? (await nodeAt(() => locateAbove(path), options));
    if (node === undefined) throw error;
    return { node };
  }
}

/** Undefined where there is no Zarr node. */
async function nodeAt(
  locateNode: () => Promise<Location>,
  { signal }: OpenOptions,
): Promise<ZarrArray | ZarrGroup | undefined> {
  let location: Location | undefined;
  try {
    location = await locateNode();
    return await openZarr(location.store, location.path, { signal, decoder: decoderOf({}) });
  } catch (error) {
    await location?.store.close?.();
    if (isSuperchunkError(error, "NOT_FOUND")) return undefined;
    throw error;
  }
}

async function locateAbove(path: string): Promise<Location> {
  const [, origin, rest = ""] = /^(https?:\/\/[^/]+|s3:\/\/[^/?]+)\/?(.*)$/is.exec(path) ?? [];
  if (origin !== undefined) {
    const [key = "", query] = rest.split("?");
    const { store } = await locate(`${origin}/${query === undefined ? "" : `?${query}`}`);
    const names = key.split("/").filter((name) => name !== "");
    return { store, path: (origin.startsWith("s3") ? names : names.map(decodeURIComponent)).join("/") };
  }
  const full = resolve(path);
  for (let folder = dirname(full); ; folder = dirname(folder)) {
    if (await isFolder(folder))
      return { store: new FileStore(folder), path: relative(folder, full).split(sep).join("/") };
  }
}

/** True for a folder of the file system; false for files, URLs and what is not there. */
export async function isFolder(path: string): Promise<boolean> {
  if (/^https?:\/\//i.test(path)) return false;
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}
