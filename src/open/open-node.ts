/**
 * Opens what is not an archive: a Zarr array or group of any version, a set of references, an HDF5 or a Blosc2 file. Each
 * reader is imported on demand, and none needs the code of archives.
 */
import type { OpenOptions } from "../archive/kinds/types.ts";
import { isSuperchunkError, SuperchunkError } from "../errors.ts";
import { HDF5_NAMES, HELD_NAMES } from "../format/naming.ts";
import type { OpenReferencesOptions } from "../references/kerchunk/open-references.ts";
import { asReadable } from "../store/foreign.ts";
import { joinKey, splitKey } from "../store/key.ts";
import type { ReadableStore } from "../store/types.ts";
import type { ZarrArray } from "../zarr/read/array.ts";
import type { ZarrGroup } from "../zarr/read/group.ts";
import type { ReadSettings } from "../zarr/read/leaf.ts";
import type { OpenZarrOptions } from "../zarr/read/open.ts";

/** Options of {@link open}. */
export interface OpenAnyOptions
  extends OpenOptions,
    ReadSettings,
    Pick<OpenZarrOptions, "measureText">,
    Pick<OpenReferencesOptions, "containers" | "authorize" | "allow" | "credentials" | "openContainer"> {}

/** The first bytes of an HDF5 file. */
const HDF5 = [0x89, 0x48, 0x44, 0x46];
/** The first bytes of a Blosc2 frame. */
const BLOSC2 = [0x9e, 0xa8, 0x62, 0x32];

/** Blosc2 stores: a zip archive, a folder, or a frame. */
const BLOSC2_STORES = /\.b2[dez](?=\/|$)/i;

/** Like {@link openInFile} for a path recognised by its name; undefined for other names, and if the name is misleading. */
export async function openNamed(
  store: ReadableStore,
  path: string,
  options: OpenAnyOptions,
): Promise<ZarrArray | ZarrGroup | undefined> {
  if (!HELD_NAMES.test(path)) return undefined;
  if (HDF5_NAMES.test(path) || BLOSC2_STORES.test(path)) return openInside(store, path, undefined, options);
  const { openBlosc2 } = await import("../blosc2/open.ts");
  return openBlosc2(store, path, options);
}

/** Like {@link open}, but for an HDF5 file or a Blosc2 file or store; undefined for everything else. Throws the same errors. */
export async function openInFile(
  store: ReadableStore,
  path: string,
  options: OpenAnyOptions,
): Promise<ZarrArray | ZarrGroup | undefined> {
  const isFile = path !== "" && (await isThere(store, path, options));
  return openInside(store, path, isFile ? await headOf(store, path, options) : undefined, options);
}

function headOf(
  store: ReadableStore,
  path: string,
  options: OpenAnyOptions,
): Promise<Uint8Array | undefined> {
  return store.getRange(path, { offset: 0, length: 4 }, options);
}

/** Opens a Zarr folder that was found, or what is shown as one: an HDF5 file, a Blosc2 frame or store. */
export async function openFound(
  store: ReadableStore,
  path: string,
  options: OpenAnyOptions,
): Promise<ZarrArray | ZarrGroup> {
  const { openZarr } = await import("../zarr/read/open.ts");
  const isFile = path !== "" && (await isThere(store, path, options));
  try {
    if (!isFile) return await openZarr(store, path, options);
  } catch (error) {
    if (!isSuperchunkError(error, "NOT_FOUND")) throw error;
    // Stores of Blosc2 can be folders.
    const held = await openInside(store, path, undefined, options);
    if (held === undefined) throw error;
    return held;
  }
  const head = await headOf(store, path, options);
  const held = await openInside(store, path, head, options);
  if (held !== undefined) return held;
  if (head?.length === 0)
    throw new SuperchunkError("TRUNCATED", "the file is empty; look for a complete copy", {
      path: store.describe(path),
    });
  throw new SuperchunkError(
    "BAD_MAGIC",
    "it has the name of an HDF5 or Blosc2 file, but does not begin like one: it is damaged, or something else; look for another copy",
    { path: store.describe(path) },
  );
}

/**
 * Opens an HDF5 file's root, or the node that a path after the file's name leads to, or a Blosc2 frame; undefined for other files.
 */
export async function openInside(
  store: ReadableStore,
  path: string,
  head: Uint8Array | undefined,
  options: OpenAnyOptions,
): Promise<ZarrArray | ZarrGroup | undefined> {
  const begins = (start: readonly number[]): boolean => start.every((byte, i) => head?.[i] === byte);
  if (begins(HDF5) || HDF5_NAMES.test(path)) {
    const { openHdf5Node } = await import("../hdf5/zarr-view.ts");
    return openHdf5Node(store, path, options);
  }
  const has = async (name: string) => head === undefined && isThere(store, joinKey(path, name), options);
  if (BLOSC2_STORES.test(path) || (await has("embed.b2e"))) {
    const { openBlosc2Store } = await import("../blosc2/stores.ts");
    const held = await openBlosc2Store(store, path, options);
    if (held !== undefined) return held;
  }
  // A sparse frame is a folder.
  if (!begins(BLOSC2) && !(await has("chunks.b2frame"))) return undefined;
  const { openBlosc2 } = await import("../blosc2/open.ts");
  return openBlosc2(store, path, options);
}

/** The Zarr array whose documents are at the path; undefined for everything else. */
export async function openOwnArray(
  store: ReadableStore,
  path: string,
  options: OpenAnyOptions,
): Promise<ZarrArray | undefined> {
  const { openOwn } = await import("../zarr/read/open.ts");
  const node = await openOwn(store, path, options);
  return node?.kind === "array" ? node : undefined;
}

/** The Zarr node at a path, also inside a set of references; undefined if there is none. */
export async function openNode(
  store: ReadableStore,
  path: string,
  options: OpenAnyOptions,
): Promise<ZarrArray | ZarrGroup | undefined> {
  const { openZarr } = await import("../zarr/read/open.ts");
  try {
    return await openZarr(store, path, options);
  } catch (error) {
    if (!isSuperchunkError(error, "NOT_FOUND")) throw error;
  }
  for (let set = path, inside = ""; ; ) {
    // A group of Zarr v2 has such a document too, but also its own.
    const isSet =
      (await isThere(store, joinKey(set, ".zmetadata"), options)) &&
      (inside === "" || !(await isThere(store, joinKey(set, ".zgroup"), options)));
    if (isSet) return openSet(store, set, inside, options);
    if (set === "") return undefined;
    const { folder, name } = splitKey(set);
    inside = joinKey(name, inside);
    set = folder;
  }
}

export async function isThere(
  store: ReadableStore,
  key: string,
  { signal }: OpenAnyOptions,
): Promise<boolean> {
  return (await store.stat(key, { signal })) !== undefined;
}

/** A node in a set of references; undefined for JSON that is not such a set. */
export async function openSet(
  store: ReadableStore,
  path: string,
  inside: string,
  options: OpenAnyOptions,
): Promise<ZarrArray | ZarrGroup | undefined> {
  const [{ openReferences, noNode }, { openZarr }] = await Promise.all([
    import("../references/kerchunk/open-references.ts"),
    import("../zarr/read/open.ts"),
  ]);
  const references = asReadable(await openReferences(store, path, options), store.describe(path));
  try {
    const node = await openZarr(references, inside, options);
    return node.ownStore({
      close: async () => void (await Promise.all([references.close?.(), store.close?.()])),
    });
  } catch (error) {
    await references.close?.();
    if (!isSuperchunkError(error, "NOT_FOUND")) throw error;
    if (inside !== "") throw noNode(store.describe(path), inside);
    return undefined;
  }
}
