/** Opens an array that is a folder: `carray` or `blz-superchunk`. */
import { carrayChunkName, superchunkName } from "../format/naming.ts";
import type { JsonObject } from "../format/types.ts";
import { joinKey } from "../store/key.ts";
import type { ReadableStore } from "../store/types.ts";
import {
  type ArrayFace,
  type ArrayFolder,
  checkColumnName,
  type FolderMetadata,
  nestedArray,
  plainArray,
  readAttributes,
  readFolder,
} from "./array-folder.ts";
import { CarraySequence, measureHeld } from "./carray-sequence.ts";
import { hasLayout, openLiveArray } from "./open-live-array.ts";
import { elementsOf } from "./selection.ts";
import { SuperchunkSequence } from "./superchunk-sequence.ts";
import type { ArrayArchive, OpenOptions } from "./types.ts";

export { readAttributes } from "./array-folder.ts";

type Layout = "carray" | "blz-superchunk" | "nested";

/** Opens an array folder. `rows` shows only that many of its rows (a table's length). */
export async function openArrayFolder(
  store: ReadableStore,
  path: string,
  found: FolderMetadata,
  options: OpenOptions,
  rows?: number,
): Promise<ArrayArchive> {
  if (hasLayout(found)) return openLiveArray(store, path, found, options);
  const folder = readFolder(store, path, found, options, rows);
  const layout = await findLayout(folder, options);
  const plainRow = elementsOf(folder.shape.slice(1)) * folder.dtype.itemSize;
  const counted = folder.heldRows * plainRow;
  const held =
    layout === "carray" && folder.dtype.kind !== "object"
      ? await measureHeld(store, path, counted, folder.chunklen * plainRow, plainRow, options.signal)
      : counted;
  const attrsKey = joinKey(path, layout === "carray" ? "__attrs__" : "meta/attributes");
  const face: ArrayFace = {
    dialect: layout === "carray" ? "carray" : "blz-superchunk",
    attrs: await readAttributes(store, attrsKey, options),
    metadataKeys: [joinKey(path, "meta/sizes"), joinKey(path, "meta/storage"), attrsKey],
    sequence: (dataFolder, rowBytes) => {
      const nbytes = (folder.shape[0] ?? 0) * rowBytes;
      const chunkBytes = folder.chunklen * rowBytes;
      return layout === "carray"
        ? new CarraySequence(store, path, nbytes, held, chunkBytes)
        : new SuperchunkSequence(store, dataFolder, nbytes, chunkBytes);
    },
  };
  if (layout === "nested" && folder.dtype.kind === "struct") return nestedArray(folder, folder.dtype, face);
  return plainArray(folder, face);
}

/**
 * Tells the layouts apart by the files that are there: both documents have the same `meta`. An array without rows
 * has no data files; bcolz always writes `__attrs__`, and only bcolz has `quantize`, only blz `bparams`.
 */
async function findLayout(folder: ArrayFolder, options: OpenOptions): Promise<Layout> {
  const { store, path, dtype, metadata } = folder;
  const exists = async (key: string): Promise<boolean> =>
    (await store.stat(joinKey(path, key), options)) !== undefined;
  const storage = metadata["storage"] as JsonObject;
  if (storage["superchunk"] === undefined) {
    if (await exists(`data/${carrayChunkName(0)}`)) return "carray";
  }
  if (await exists(`data/${superchunkName(1)}`)) return "blz-superchunk";
  if (dtype.kind === "struct") {
    const [first] = dtype.fields;
    if (first !== undefined) {
      checkColumnName(first.name, store.describe(path));
      if (await exists(`data/${first.name}/${superchunkName(1)}`)) return "nested";
    }
  }
  const cparams = storage["cparams"] as JsonObject | undefined;
  if (
    storage["superchunk"] === undefined &&
    (storage["bparams"] !== undefined || cparams?.["quantize"] !== undefined || (await exists("__attrs__")))
  ) {
    return "carray";
  }
  return "blz-superchunk";
}
