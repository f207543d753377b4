/** Opens an array whose layout is in `meta/sizes`. @see FORMAT.md [FG] */
import { at } from "../../bytes/at.ts";
import { isSuperchunkError } from "../../errors.ts";
import { VIEW_IS_BEHIND } from "../../format/layout.ts";
import type { JsonObject } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore } from "../../store/types.ts";
import {
  type ArrayFace,
  type FolderMetadata,
  nestedArray,
  plainArray,
  readAttributes,
} from "../kinds/array-folder.ts";
import { LiveArray, LiveState, type Opened } from "../kinds/live-array.ts";
import type { ArrayArchive, OpenOptions } from "../kinds/types.ts";
import { type Generation, isViewBehind, readGeneration } from "../places/generation.ts";
import { LayoutSequence, OpenedFiles } from "../places/layout-files.ts";

/** Opens the array at `path`, whose metadata have been read. */
export async function openLiveArray(
  store: ReadableStore,
  path: string,
  found: FolderMetadata,
  options: OpenOptions,
): Promise<ArrayArchive> {
  const { verify, decoder } = options;
  const reopen = async (
    rows: number | undefined,
    first?: FolderMetadata,
    signal?: AbortSignal,
  ): Promise<Opened> => {
    const read = await readGeneration(store, path, first, { verify, decoder, signal }, rows);
    const generation = await withViewWarning(store, path, read, signal);
    const attrs = (await readAttributes(store, joinKey(path, "meta/attributes"), { signal })) ?? {};
    const { layout, sizes } = generation;
    const files = new OpenedFiles();
    return { array: showGeneration(generation, attrs, files), layout, sizes, files };
  };
  const opened = await reopen(undefined, found, options.signal);
  return new LiveArray(new LiveState(store, path, opened, (rows, signal) => reopen(rows, undefined, signal)));
}

/** Warns where Zarr readers see something else. A view whose state cannot be read is left to `verify`. */
async function withViewWarning(
  store: ReadableStore,
  path: string,
  generation: Generation,
  signal: AbortSignal | undefined,
): Promise<Generation> {
  try {
    if (!(await isViewBehind(store, path, generation, { signal }))) return generation;
  } catch (error) {
    if (isSuperchunkError(error) && error.isDamage) return generation;
    throw error;
  }
  const { folder } = generation;
  return { ...generation, folder: { ...folder, warnings: [...folder.warnings, VIEW_IS_BEHIND] } };
}

/** One generation as an array that knows of no other. */
export function showGeneration(
  generation: Generation,
  attrs: JsonObject,
  opened?: OpenedFiles,
): ArrayArchive {
  const { folder, layout, hasColumns } = generation;
  const { store, path, dtype } = folder;
  const key = (name: string): string => joinKey(path, "meta", name);
  const face: ArrayFace = {
    dialect: "blz-superchunk",
    attrs,
    metadataKeys: [key("sizes"), key("storage"), key("attributes")],
    sequence: (dataFolder, rowBytes) =>
      new LayoutSequence(store, {
        folder: dataFolder,
        layout,
        heldRows: folder.heldRows,
        rows: at(folder.shape, 0),
        rowBytes,
        chunklen: folder.chunklen,
        sizesPath: store.describe(key("sizes")),
        opened,
      }),
  };
  if (hasColumns && dtype.kind === "struct") return nestedArray(folder, dtype, face);
  return plainArray(folder, face);
}
