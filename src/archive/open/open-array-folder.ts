/**
 * Opens a folder: an array (`carray` or `blz-superchunk`), or a table, which has a carray for each column.
 *
 * The layouts are recognised by the objects that only one of them has. As few objects as possible are read: over a
 * network each costs a request. @see FORMAT.md [FA-01]
 */
import { at } from "../../bytes/arrays.ts";
import { notNamed, SuperchunkError } from "../../errors.ts";
import { parseRootdirs, parseSizes } from "../../format/folder.ts";
import { carrayChunkName, checkStoredName, superchunkName } from "../../format/naming.ts";
import type { DType, JsonObject } from "../../format/types.ts";
import { checkLater, joinKey, statFile } from "../../store/key.ts";
import { runPooled } from "../../store/pool.ts";
import type { ReadableStore } from "../../store/types.ts";
import {
  type ArrayFace,
  type ArrayFolder,
  type ColumnGroups,
  type FolderMetadata,
  hasLayout,
  nestedArray,
  plainArray,
  readAttributes,
  readFolder,
  readFolderMetadata,
} from "../kinds/array-folder.ts";
import { ColumnTable } from "../kinds/column-archives.ts";
import type { ArrayArchive, OpenOptions, TableArchive } from "../kinds/types.ts";
import { superchunkSequence } from "../places/blpk-sequence.ts";
import { carraySequence, pickleSequence } from "../places/sequence.ts";

interface ColumnOptions {
  /** Shows only this many of its rows: the table's length (default: all). */
  readonly rows?: number | undefined;
}

/** Opens an array folder; `column` is set for a column of a table. */
export async function openArrayFolder(
  store: ReadableStore,
  path: string,
  found: FolderMetadata,
  options: OpenOptions,
  column?: ColumnOptions,
): Promise<ArrayArchive> {
  if (hasLayout(found)) {
    const { openLiveArray } = await import("../kinds/live-array.ts");
    return openLiveArray(store, path, found, options);
  }
  const folder = readFolder(store, path, found, options, column?.rows);
  // An append leaves it as it is.
  const key = joinKey(path, "meta/storage");
  // Where that costs a request, a replacement since the opening is only noticed by its contents.
  const isCostly = store.pinsVersions === true || store.readsToStat === true;
  const version = isCostly ? undefined : (await store.stat(key, options))?.version;
  const { layout, attrs, attrsKey, groups } = await findLayout(folder, options, column !== undefined);
  const face: ArrayFace = {
    dialect: layout === "carray" ? "carray" : "blz-superchunk",
    attrs,
    metadataKeys: [joinKey(path, "meta/sizes"), key, attrsKey],
    identity: version === undefined ? { key } : { key, version },
    sequence: (dataFolder, rowBytes) => {
      const nbytes = at(folder.shape, 0) * rowBytes;
      const chunkBytes = folder.chunklen * rowBytes;
      const counted = folder.heldRows * rowBytes;
      return layout === "carray"
        ? carraySequence(store, path, { nbytes, counted, chunkBytes, rowBytes })
        : superchunkSequence(store, dataFolder, nbytes, chunkBytes);
    },
    // bcolz stores one object per chunk and file. Superchunks store a pickle of `chunklen` rows per chunk.
    pickles: (dataFolder, rowBytes) => {
      const nbytes = at(folder.shape, 0);
      return pickleSequence(
        layout === "carray"
          ? carraySequence(store, path, { nbytes, counted: folder.heldRows, chunkBytes: 1, rowBytes: 1 })
          : superchunkSequence(store, dataFolder, nbytes, folder.chunklen, { isUnsized: true }),
        nbytes * rowBytes,
      );
    },
  };
  if (layout === "nested" && folder.dtype.kind === "struct")
    return nestedArray(folder, folder.dtype, face, groups);
  return plainArray(folder, face);
}

/** A folder's layout, its attributes, and the key where they are or would be. */
interface FoundLayout {
  readonly layout: "carray" | "blz-superchunk" | "nested";
  readonly attrs: JsonObject;
  readonly attrsKey: string;
  /** In a nested layout, the fields that are stored as folders of fields again. */
  readonly groups?: ColumnGroups;
}

/**
 * Finds the layout of a folder without a layout in `meta/sizes`. It first tries what the metadata suggest: bcolz and
 * BLZ 0.6 always write `__attrs__`; an array of superchunks has `meta/attributes` if it has attributes. Only if that is
 * missing do the data files decide. Columns of tables are carrays even if a bcolz wrote them that does not record
 * `quantize`. Throws `BAD_FIELD` for invalid attributes.
 */
async function findLayout(
  folder: ArrayFolder,
  options: OpenOptions,
  isColumn: boolean,
): Promise<FoundLayout> {
  const { store, path, metadata } = folder;
  const keys = { carray: joinKey(path, "__attrs__"), superchunks: joinKey(path, "meta/attributes") };
  const read = (key: string): Promise<JsonObject | undefined> => readAttributes(store, key, options);
  const storage = metadata["storage"] as JsonObject;
  const isDeclared = storage["superchunk"] !== undefined;
  const suggested = !isDeclared && (isColumn || suggestsCarray(storage)) ? "carray" : "superchunks";
  const attrs = await read(keys[suggested]);
  const asCarray = async (): Promise<FoundLayout> => ({
    layout: "carray",
    attrs: (suggested === "carray" ? attrs : await read(keys.carray)) ?? {},
    attrsKey: keys.carray,
  });
  const asSuperchunks = async (layout: "blz-superchunk" | "nested"): Promise<FoundLayout> => ({
    layout,
    attrs: (suggested === "carray" ? await read(keys.superchunks) : attrs) ?? {},
    attrsKey: keys.superchunks,
  });
  if (suggested === "carray" && attrs !== undefined) return asCarray();
  const isSimple = folder.dtype.kind !== "struct";
  if (suggested === "superchunks" && isSimple && (isDeclared || attrs !== undefined))
    return asSuperchunks("blz-superchunk");
  const exists = async (...parts: string[]): Promise<boolean> =>
    (await statFile(store, joinKey(path, "data", ...parts), options)) !== undefined;
  const hasChunkFile = async (): Promise<boolean> => !isDeclared && exists(carrayChunkName(0));
  if (suggested === "carray" && (await hasChunkFile())) return asCarray();
  if (await exists(superchunkName(1))) return asSuperchunks("blz-superchunk");
  const [column] = folder.dtype.kind === "struct" ? folder.dtype.fields : [];
  if (column !== undefined) {
    const storagePath = store.describe(joinKey(path, "meta/storage"));
    const hasData = async (parts: readonly string[]): Promise<boolean> => {
      checkStoredName(parts.at(-1) ?? "", storagePath, "dtype");
      return exists(...parts, superchunkName(1));
    };
    const groups = await findGroups(folder.dtype, [], hasData);
    if (groups !== undefined) return { ...(await asSuperchunks("nested")), groups };
  }
  if (suggested === "superchunks" && (await hasChunkFile())) return asCarray();
  // There are no rows and so no data files: what only bcolz and BLZ 0.6 write marks a carray.
  if (suggested === "carray") return asCarray();
  const found = isDeclared || attrs !== undefined ? undefined : await read(keys.carray);
  if (found !== undefined) return { layout: "carray", attrs: found, attrsKey: keys.carray };
  return asSuperchunks("blz-superchunk");
}

/**
 * The struct fields that are stored as folders of their own fields; undefined if the first field has no data in either
 * form. `parts` is the folder below `data`. [FZ-04]
 */
async function findGroups(
  dtype: DType,
  parts: readonly string[],
  hasData: (parts: readonly string[]) => Promise<boolean>,
): Promise<ColumnGroups | undefined> {
  if (dtype.kind !== "struct") return undefined;
  const groups = new Map<string, ColumnGroups>();
  for (const [i, field] of dtype.fields.entries()) {
    const own = [...parts, field.name];
    const isAsked = i === 0 || field.dtype.kind === "struct";
    if (!isAsked || (await hasData(own))) continue;
    const inner = await findGroups(field.dtype, own, hasData);
    if (inner !== undefined) groups.set(field.name, inner);
    else if (i === 0) return undefined;
  }
  return groups;
}

/** BLZ 0.6 writes `bparams`, bcolz `quantize`. Either means one chunk per file, but not in documents of other programs. */
export function suggestsCarray(storage: JsonObject): boolean {
  const cparams = storage["cparams"] as JsonObject | undefined;
  return storage["bparams"] !== undefined || cparams?.["quantize"] !== undefined;
}

/** Columns opened at a time. After one fails, no further one is opened. */
const COLUMNS_AT_ONCE = 64;

/** Opens the table at `path`, whose `__rootdirs__` has been read. `known` is the same table, opened with other columns. */
export async function openTableFolder(
  store: ReadableStore,
  path: string,
  rootdirs: Uint8Array,
  options: OpenOptions,
  known?: Pick<TableArchive, "attrs" | "length">,
): Promise<TableArchive> {
  const rootdirsKey = joinKey(path, "__rootdirs__");
  const { names, dirs } = parseRootdirs(rootdirs, store.describe(rootdirsKey));
  const all = names.map((name) => ({ name, folder: joinKey(path, dirs[name] ?? name) }));
  const { columns: wanted } = options;
  if (wanted !== undefined && !Array.isArray(wanted))
    throw new SuperchunkError("BAD_ARGUMENT", `columns is ${String(wanted)}, expected a list of names`, {
      path: store.describe(path),
      field: "columns",
    });
  const folders = wanted === undefined ? all : all.filter(({ name }) => wanted.includes(name));
  const unknown = wanted?.find((name) => !names.includes(name));
  if (unknown !== undefined) throw notNamed("column", unknown, names, store.describe(path));
  const opened = new Array<ArrayArchive | undefined>(folders.length).fill(undefined);
  await runPooled(
    folders.entries(),
    COLUMNS_AT_ONCE,
    async ([i, { folder }]) => {
      opened[i] = await openColumn(store, folder, options);
    },
    options.signal,
  );
  // Writers change one column after another. After an interruption, the first or the last column shows how many rows
  // all of them have.
  const ends = known === undefined ? [all[0], all.at(-1)] : [];
  const others = new Set(ends.filter((end) => end !== undefined && !folders.includes(end)));
  const endRows = await Promise.all([...others].map((end) => storedRows(store, end?.folder ?? "", options)));
  const most = known?.length ?? Number.POSITIVE_INFINITY;
  const length = Math.min(most, ...opened.map(lengthOf), ...endRows);
  const columns = new Map<string, ArrayArchive>();
  const unfinished: string[] = [];
  for (const [i, { name, folder }] of folders.entries()) {
    const column = opened[i];
    if (column === undefined) continue;
    const longer = lengthOf(column) > length;
    if (longer)
      unfinished.push(
        `column "${name}" has ${lengthOf(column)} rows, but the table's shortest has ${length}: an append or a resize did not finish. superchunk does not show the rows beyond that; bcolz does, and its next append misaligns the rows. "superchunk resize ${store.describe(path)} ${length}", or the next append by superchunk, cuts them off`,
      );
    columns.set(name, longer ? await openColumn(store, folder, options, length) : column);
  }
  const attrsKey = joinKey(path, "__attrs__");
  const attrs = known?.attrs ?? (await readAttributes(store, attrsKey, options)) ?? {};
  const table: ColumnTable = new ColumnTable({
    dialect: "ctable",
    store,
    path,
    attrs,
    metadata: { names, dirs },
    warnings: unfinished,
    unfinished,
    metadataKeys: [rootdirsKey, attrsKey],
    columns,
    length: Number.isFinite(length) ? length : 0,
    openColumns: async (columns, own = {}) => {
      await checkLater(own, "openColumns");
      return openTableFolder(store, path, rootdirs, { ...options, columns, signal: own.signal }, table);
    },
  });
  return table;
}

/** Rows of a column that is not opened, from its `meta/sizes`. If that is missing, opening the column reports it. */
async function storedRows(store: ReadableStore, folder: string, options: OpenOptions): Promise<number> {
  const key = joinKey(folder, "meta/sizes");
  const sizes = await store.get(key, options);
  const rows = sizes === undefined ? undefined : parseSizes(sizes, store.describe(key)).shape[0];
  return rows ?? Number.POSITIVE_INFINITY;
}

function lengthOf(column: ArrayArchive | undefined): number {
  const rows = column?.shape[0];
  if (rows === undefined) throw new RangeError("a column has at least one dimension");
  return rows;
}

async function openColumn(
  store: ReadableStore,
  folder: string,
  options: OpenOptions,
  rows?: number,
): Promise<ArrayArchive> {
  const found = await readFolderMetadata(store, folder, options);
  if (found.sizes === undefined && found.storage === undefined)
    throw new SuperchunkError(
      "INCOMPLETE",
      "the column's folder is missing or has no metadata, but __rootdirs__ names it. Look for a complete copy of the table",
      {
        path: store.describe(folder),
        field: "__rootdirs__",
        expected: "meta/sizes and meta/storage",
        found: "nothing",
      },
    );
  return openArrayFolder(store, folder, found, options, { rows });
}
