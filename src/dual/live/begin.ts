/**
 * Makes a plain array one that keeps itself a Zarr array. Its full superchunks get their index, by copying their chunks once; then
 * one commit says what the array is, and whoever opens it next makes it visible. @see FORMAT.md [FY-08]
 */
import type { LongOptions } from "../../archive/kinds/types.ts";
import { SuperchunkError } from "../../errors.ts";
import { countChunks } from "../../format/layout.ts";
import { LINK_RECORD, superchunkName } from "../../format/naming.ts";
import type { JsonObject } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { ArrayWriter } from "../../write/array/array-writer.ts";
import { fold, planFold, settleNames } from "../../write/array/compact.ts";
import { commitStorage } from "../../write/array/storage-commit.ts";
import { layOutColumns } from "../../write/layout/columns.ts";
import { storageOf } from "../../write/layout/settings.ts";
import { ColumnShards } from "./column-shards.ts";
import { MirrorDocuments } from "./documents.ts";
import { IDLE_MIRROR } from "./idle.ts";
import { zarrMirrors } from "./maker.ts";
import type { MirrorFiles } from "./types.ts";

/** Bytes of an entry in the index of a shard, which has one for each chunk that fits. */
const INDEX_ENTRY = 16;

/** What {@link beginMirror} would do. */
export interface MirrorPlan {
  /** Keys of the documents. */
  readonly documents: readonly string[];
  /** Full superchunks that there will be, each of them a shard. */
  readonly full: number;
  /** Superchunks of them, and the open end, that are written anew once by copying their chunks. */
  readonly rewritten: number;
  /** Chunks of the open end, which is a shard of its own. */
  readonly open: number;
  /** Bytes that are written, about: superchunks with their index, the open end, documents. */
  readonly bytes: number;
}

/** Plans {@link beginMirror} from the metadata and the heads and indexes of superchunks. Writes nothing; throws the same. */
export async function planMirror(
  writer: ArrayWriter,
  attrs: JsonObject,
  files: MirrorFiles,
  options: LongOptions = {},
): Promise<MirrorPlan> {
  const { documents, hasIndex } = await prepare(writer, files, options);
  const { committed } = writer;
  const { superchunklen } = writer.settings;
  const { rewritten } = await planFold(writer, true, hasIndex);
  const chunks = countChunks(committed.layout.runs);
  const copied = rewritten.reduce(
    (sum, place) => sum + Math.min(superchunklen, chunks - place * superchunklen),
    0,
  );
  const open = chunks % superchunklen;
  const listed = documents.list(committed.rows, attrs);
  const perChunk = chunks === 0 ? 0 : committed.cbytes / chunks;
  const shards = rewritten.length + (open > 0 ? 1 : 0);
  const indexes = shards * writer.columns.length * superchunklen * INDEX_ENTRY;
  return {
    documents: listed.map(([key]) => key),
    full: Math.floor(chunks / superchunklen),
    rewritten: rewritten.length,
    open,
    bytes: listed.reduce(
      (sum, [, { length }]) => sum + length,
      indexes + Math.round(perChunk * (copied + open)),
    ),
  };
}

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
  const { settings, hasIndex } = await prepare(writer, files, options);
  writer.files.mirror = IDLE_MIRROR;
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

/** What an array is made with that keeps itself a Zarr array, checked, and which of its superchunks are shards already. */
async function prepare(
  writer: ArrayWriter,
  files: MirrorFiles,
  options: LongOptions,
): Promise<{
  readonly settings: ArrayWriter["settings"];
  readonly documents: MirrorDocuments;
  readonly hasIndex: (number: number) => Promise<boolean>;
}> {
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
  const documents = new MirrorDocuments(root, settings, layOutColumns(root.path, settings));
  const columns = documents.columns.map((column) => new ColumnShards(root.store, root.path, files, column));
  const hasIndex = async (number: number): Promise<boolean> => {
    for (const column of columns) {
      const key = `${column.column.folder}/${superchunkName(number)}`;
      const info = await root.store.stat(key, { signal: options.signal });
      if (info === undefined || (await column.readFull(key, info.size)) === undefined) return false;
    }
    return true;
  };
  return { settings, documents, hasIndex };
}
