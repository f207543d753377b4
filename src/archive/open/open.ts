/** `open`: any archive from any store, told apart by content. */
import { SuperchunkError } from "../../errors.ts";
import { parseRootdirs, parseSizes } from "../../format/folder.ts";
import { hasEntries } from "../../store/entries.ts";
import { asReadable, type ForeignStore } from "../../store/foreign.ts";
import { checkKey, joinKey } from "../../store/key.ts";
import { runPooled } from "../../store/pool.ts";
import type { ReadableStore } from "../../store/types.ts";
import { withHeads } from "../../store/wrappers/heads.ts";
import { readAttributes } from "../kinds/array-folder.ts";
import { ColumnTable, noColumn } from "../kinds/table-archive.ts";
import type { Archive, ArrayArchive, OpenOptions, TableArchive } from "../kinds/types.ts";
import { openArrayFolder } from "./open-array-folder.ts";
import { openFile } from "./open-file.ts";
import { readBeginning } from "./stored-size.ts";

/** What Zarr's versions have at the place of a node. */
const ZARR_DOCUMENTS = ["zarr.json", ".zarray", ".zgroup"];
const MAGIC = [0x62, 0x6c, 0x70, 0x6b]; // "blpk"

/**
 * Opens the archive at a key of a store: a Bloscpack file, or the root folder of an array or a table.
 *
 * `store` is one of this library's, or any store of zarrita's that has `getRange`. Throws `NOT_FOUND` where there is
 * nothing, `UNSUPPORTED` where there is something else, and the codes of damage.
 */
export async function open(
  store: ReadableStore | ForeignStore,
  path = "",
  options: OpenOptions = {},
): Promise<Archive> {
  const source = archiveStore(store);
  const found = await findArchive(source, path, options);
  if ("kind" in found) return found;
  throw await explainNoArchive(source, path, found, options);
}

/** The store that archives are read from: on a network one that keeps the beginnings of objects. */
export function archiveStore(store: ReadableStore | ForeignStore): ReadableStore {
  const given = asReadable(store);
  return given.getHead === undefined ? given : withHeads(given);
}

/** What is not an archive: a file with its first bytes, or no file. */
export interface NoArchive {
  readonly file: FileBeginning | undefined;
}

type FileBeginning = NonNullable<Awaited<ReturnType<typeof readBeginning>>>;

/** The archive at a key, or what is there in its place. Throws the codes of damage. */
export async function findArchive(
  source: ReadableStore,
  path: string,
  options: OpenOptions,
): Promise<Archive | NoArchive> {
  if (path !== "") checkKey(path);
  const openWhole = (): Promise<Archive | NoArchive> => findWhole(source, path, options);
  if (options.damaged === undefined || options.damaged === "stop") return openWhole();
  const { openDamaged } = await import("../salvage/survey.ts");
  return openDamaged(source, path, options, openWhole);
}

async function findWhole(
  source: ReadableStore,
  path: string,
  options: OpenOptions,
): Promise<Archive | NoArchive> {
  // Over a network each question costs a request: what the name suggests is asked for first.
  const looksLikeFile = /\.(?:blp|blosc|bin)$/i.test(path);
  const first = looksLikeFile ? undefined : await openFolder(source, path, options);
  if (first !== undefined) return first;
  const file = path === "" ? undefined : await readBeginning(source, path, MAGIC.length, options);
  if (file !== undefined && MAGIC.every((byte, i) => file.bytes[i] === byte))
    return openFile(source, path, options, file.info);
  const folder = looksLikeFile ? await openFolder(source, path, options) : undefined;
  return folder ?? { file };
}

/** The error for what is not an archive. */
export async function explainNoArchive(
  source: ReadableStore,
  path: string,
  { file }: NoArchive,
  options: OpenOptions,
): Promise<unknown> {
  if (file === undefined) return nothingThere(source, path, options);
  const part = refusePart(source.describe(path));
  if (part !== undefined) return part;
  // Not "blpk": reading it as such a file says what is wrong with it.
  return openFile(source, path, options, file.info).then(
    () => new RangeError(`${source.describe(path)} became an archive while it was opened`),
    (error: unknown) => error,
  );
}

async function openFolder(
  store: ReadableStore,
  path: string,
  options: OpenOptions,
): Promise<Archive | undefined> {
  const get = (name: string): Promise<Uint8Array | undefined> => store.get(joinKey(path, name), options);
  const [sizes, storage] = await Promise.all([get("meta/sizes"), get("meta/storage")]);
  if (sizes !== undefined || storage !== undefined)
    return openArrayFolder(store, path, { sizes, storage }, options);
  const rootdirs = await get("__rootdirs__");
  return rootdirs && openTable(store, path, rootdirs, options);
}

async function nothingThere(
  store: ReadableStore,
  path: string,
  options: OpenOptions,
): Promise<SuperchunkError> {
  const where = { path: store.describe(path) };
  for (const name of ZARR_DOCUMENTS) {
    if ((await store.stat(joinKey(path, name), options)) === undefined) continue;
    return new SuperchunkError(
      "UNSUPPORTED",
      'it is a Zarr array or group, and not an archive; "superchunk info", "ls", "cat", "verify" and "convert" take it, and so does "open" of the library',
      { ...where, expected: "__rootdirs__, or meta/sizes and meta/storage", found: name },
    );
  }
  if (await hasEntries(store, path, options)) {
    return new SuperchunkError(
      "UNSUPPORTED",
      `the folder is not an archive: it has neither __rootdirs__, nor meta/sizes and meta/storage, nor zarr.json, .zarray or .zgroup of Zarr. ${adviseOnFolder(where.path)}`,
      {
        ...where,
        expected: `__rootdirs__, meta/sizes and meta/storage, or ${ZARR_DOCUMENTS.join(", ")}`,
        found: "none of them",
      },
    );
  }
  const isEmpty = store.isFolder !== undefined && (path === "" || (await store.isFolder(path, options)));
  const what = isEmpty ? "the folder is empty; an archive would be in it" : "no such file or folder";
  const reason = store.explainAbsence?.();
  if (reason !== undefined) return new SuperchunkError("NOT_FOUND", `${what}: ${reason}`, where);
  return new SuperchunkError("NOT_FOUND", what, where);
}

/** Files directly in the folder that is meant, and those in its `meta`. */
const PARTS = [
  {
    end: /^(.*)[\\/](?:zarr\.json|\.zarray|\.zgroup|\.zattrs|\.zmetadata)$/,
    what: "a document of a Zarr array or group",
  },
  { end: /^(.*)[\\/]__(?:rootdirs|attrs)__$/, what: "a part of an archive" },
  { end: /^(.*)[\\/]meta[\\/](?:sizes|storage|attributes)$/, what: "a part of an archive" },
] as const;

/** The error for a file that is a part of something; undefined for others. `path`: as messages name the file. */
export function refusePart(path: string): SuperchunkError | undefined {
  for (const { end, what } of PARTS) {
    const folder = end.exec(path)?.[1];
    if (folder === undefined) continue;
    return new SuperchunkError(
      "UNSUPPORTED",
      `it is ${what}, and not all of it; name the folder: ${folder}`,
      {
        path,
        expected: folder,
      },
    );
  }
  return undefined;
}

/** What to do about a folder that is not an archive; `path` as messages name it. */
export function adviseOnFolder(path: string): string {
  return /[\\/](?:meta|data)$/.test(path)
    ? "If it is a part of one, name the folder above it"
    : '"superchunk ls" lists the archives inside a folder';
}

/** Columns that are opened at a time: after one that fails, no further one is. */
const COLUMNS_AT_ONCE = 64;

/** Opens the table at `path`, whose `__rootdirs__` has been read. */
export async function openTable(
  store: ReadableStore,
  path: string,
  rootdirs: Uint8Array,
  options: OpenOptions,
): Promise<TableArchive> {
  const rootdirsKey = joinKey(path, "__rootdirs__");
  const { names, dirs } = parseRootdirs(rootdirs, store.describe(rootdirsKey));
  const all = names.map((name) => ({ name, folder: joinKey(path, dirs[name] ?? name) }));
  const { columns: wanted } = options;
  const folders = wanted === undefined ? all : all.filter(({ name }) => wanted.includes(name));
  const unknown = wanted?.find((name) => !names.includes(name));
  if (unknown !== undefined) throw noColumn(unknown, names, store.describe(path));
  const opened = new Array<ArrayArchive | undefined>(folders.length).fill(undefined);
  await runPooled(
    folders.entries(),
    COLUMNS_AT_ONCE,
    async ([i, { folder }]) => {
      opened[i] = await openColumn(store, folder, options);
    },
    options.signal,
  );
  // Writers change column after column: of an interrupted change, the first or the last one shows the rows that all have.
  const ends = [all[0], all.at(-1)].filter((end) => end !== undefined && !folders.includes(end));
  const endRows = await Promise.all(ends.map((end) => storedRows(store, end?.folder ?? "", options)));
  const length = Math.min(...opened.map(rowsOf), ...endRows);
  const columns = new Map<string, ArrayArchive>();
  const unfinished: string[] = [];
  for (const [i, { name, folder }] of folders.entries()) {
    const column = opened[i];
    if (column === undefined) continue;
    const longer = rowsOf(column) > length;
    if (longer)
      unfinished.push(
        `column "${name}" has ${rowsOf(column)} rows, but the table's shortest has ${length}: an append or a resize did not finish. superchunk does not show the rows beyond; bcolz shows them in the column, and its next append puts rows side by side that do not belong together. "superchunk resize ${store.describe(path)} ${length}" cuts them off, and so does the next append by superchunk`,
      );
    columns.set(name, longer ? await openColumn(store, folder, options, length) : column);
  }
  const attrsKey = joinKey(path, "__attrs__");
  const attrs = (await readAttributes(store, attrsKey, options)) ?? {};
  return new ColumnTable({
    store,
    path,
    attrs,
    metadata: { names, dirs },
    warnings: unfinished,
    unfinished,
    metadataKeys: [rootdirsKey, attrsKey],
    columns,
    length: Number.isFinite(length) ? length : 0,
  });
}

/** Rows of a column that is not opened, from its `meta/sizes`; a missing one is found where the column is opened. */
async function storedRows(store: ReadableStore, folder: string, options: OpenOptions): Promise<number> {
  const key = joinKey(folder, "meta/sizes");
  const sizes = await store.get(key, options);
  const rows = sizes === undefined ? undefined : parseSizes(sizes, store.describe(key)).shape[0];
  return rows ?? Number.POSITIVE_INFINITY;
}

function rowsOf(column: ArrayArchive | undefined): number {
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
  const [sizes, storage] = await Promise.all([
    store.get(joinKey(folder, "meta/sizes"), options),
    store.get(joinKey(folder, "meta/storage"), options),
  ]);
  if (sizes === undefined && storage === undefined) {
    throw new SuperchunkError(
      "INCOMPLETE",
      "the column's folder is missing or has no metadata, but __rootdirs__ names it. Look for a whole copy of the table",
      {
        path: store.describe(folder),
        field: "__rootdirs__",
        expected: "meta/sizes and meta/storage",
        found: "nothing",
      },
    );
  }
  return openArrayFolder(store, folder, { sizes, storage }, options, rows);
}
