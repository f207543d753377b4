/**
 * Makes a plain array one that keeps itself a Zarr array. Its full superchunks get their index, by copying their chunks once; then
 * one commit says what the array is, and whoever opens it next makes it visible. @see FORMAT.md [FY-08]
 */
import type { LongOptions } from "../../array/types.ts";
import type { ArrayWriter } from "../../array/write/array-writer.ts";
import { layOutColumns } from "../../array/write/columns.ts";
import { fold, settleNames } from "../../array/write/compact.ts";
import type { ArrayMirror } from "../../array/write/mirror.ts";
import { storageOf } from "../../array/write/settings.ts";
import { commitStorage } from "../../array/write/storage-commit.ts";
import { SuperchunkError } from "../../errors.ts";
import { LINK_RECORD, superchunkName } from "../../format/naming.ts";
import { joinKey } from "../../store/key.ts";
import { ColumnShards } from "./column-shards.ts";
import { MirrorDocuments } from "./documents.ts";
import { zarrMirrors } from "./maker.ts";
import type { MirrorFiles } from "./types.ts";
import { indexOfPlaces } from "./zarr-mirror.ts";

/** Gives superchunks their index, and shows nothing. */
const TAILS_ONLY: ArrayMirror = {
  makeTail: indexOfPlaces,
  beforeCommit: async () => undefined,
  afterCommit: async () => undefined,
  noteMoved: () => undefined,
  setAttributes: async () => undefined,
  close: async () => undefined,
};

/**
 * Says of an array that is open for writing that it keeps itself a Zarr array from the next opening on. Broken off, it is a
 * plain array, some of whose superchunks have an index behind their chunks.
 *
 * @throws CONFLICT where it is linked, or a Zarr array is in the way; UNSUPPORTED for what Zarr cannot hold as it is stored
 */
export async function beginMirror(
  writer: ArrayWriter,
  files: MirrorFiles,
  options: LongOptions = {},
): Promise<void> {
  const { root } = writer;
  const record = joinKey(root.path, LINK_RECORD);
  if ((await root.store.stat(record)) !== undefined) {
    throw new SuperchunkError("CONFLICT", 'it is linked as it was; "superchunk unlink" it first', {
      path: root.store.describe(record),
      field: "zarr",
    });
  }
  const settings = { ...writer.settings, zarr: true };
  if (settings.reserve !== undefined) {
    throw new SuperchunkError(
      "UNSUPPORTED",
      "its chunks have a reserve to be changed in place, which the shards of a Zarr array cannot be; make an array without",
      { path: root.store.describe(root.path), field: "reserve" },
    );
  }
  await zarrMirrors({ files }).check(root, settings);
  const columns = new MirrorDocuments(root, settings, layOutColumns(root.path, settings)).columns.map(
    (column) => new ColumnShards(root.store, root.path, files, column),
  );
  const hasIndex = async (number: number): Promise<boolean> => {
    for (const column of columns) {
      const key = `${column.column.folder}/${superchunkName(number)}`;
      const info = await root.store.stat(key, { signal: options.signal });
      if (info === undefined || (await column.readFull(key, info.size)) === undefined) return false;
    }
    return true;
  };
  writer.files.mirror = TAILS_ONLY;
  try {
    await fold(writer, { ...options, walkable: true, isKept: hasIndex });
    await settleNames(writer);
    await root.settled();
    writer.settings = { ...settings, revision: settings.revision + 1 };
    await writer.recommit({ storage: storageOf(writer.settings), revision: writer.settings.revision });
    await commitStorage(writer);
  } finally {
    writer.files.mirror = undefined;
  }
}
