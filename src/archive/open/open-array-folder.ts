/** Opens an array that is a folder: `carray` or `blz-superchunk`. */
import { joinKey } from "../../store/key.ts";
import type { ReadableStore } from "../../store/types.ts";
import {
  type ArrayFace,
  type FolderMetadata,
  nestedArray,
  plainArray,
  readFolder,
} from "../kinds/array-folder.ts";
import type { ArrayArchive, OpenOptions } from "../kinds/types.ts";
import { CarraySequence } from "../places/carray-sequence.ts";
import { PickleSequence } from "../places/sequence.ts";
import { SuperchunkSequence } from "../places/superchunk-sequence.ts";
import { findLayout } from "./folder-layout.ts";
import { hasLayout, openLiveArray } from "./open-live-array.ts";

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
  const { layout, attrs, attrsKey, groups } = await findLayout(folder, options);
  const face: ArrayFace = {
    dialect: layout === "carray" ? "carray" : "blz-superchunk",
    attrs,
    metadataKeys: [joinKey(path, "meta/sizes"), joinKey(path, "meta/storage"), attrsKey],
    sequence: (dataFolder, rowBytes) => {
      const nbytes = (folder.shape[0] ?? 0) * rowBytes;
      const chunkBytes = folder.chunklen * rowBytes;
      const counted = folder.heldRows * rowBytes;
      return layout === "carray"
        ? new CarraySequence(store, path, { nbytes, counted, chunkBytes, rowBytes })
        : new SuperchunkSequence(store, dataFolder, nbytes, chunkBytes);
    },
    // bcolz has one object a chunk, and a file for each row; superchunks have a row for each of chunklen.
    pickles: (dataFolder) => {
      const nbytes = folder.shape[0] ?? 0;
      return new PickleSequence(
        layout === "carray"
          ? new CarraySequence(store, path, { nbytes, counted: folder.heldRows, chunkBytes: 1, rowBytes: 1 })
          : new SuperchunkSequence(store, dataFolder, nbytes, folder.chunklen, { isUnsized: true }),
      );
    },
  };
  if (layout === "nested" && folder.dtype.kind === "struct")
    return nestedArray(folder, folder.dtype, face, groups);
  return plainArray(folder, face);
}
