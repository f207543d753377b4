/** `open`: opens any archive from any store, recognised by content. */
import { SuperchunkError } from "../../errors.ts";
import { ZARR_DOCUMENTS } from "../../format/naming.ts";
import { asReadable, type ForeignStore } from "../../store/foreign.ts";
import { checkKey, hasEntries, joinKey, readBeginning } from "../../store/key.ts";
import type { ReadableStore } from "../../store/types.ts";
import { withHeads } from "../../store/wrappers/heads.ts";
import type { Archive, OpenOptions } from "../kinds/types.ts";
import { openFile } from "./open-file.ts";

const MAGIC = [0x62, 0x6c, 0x70, 0x6b]; // "blpk"

/**
 * Opens the archive at a key of a store: a Bloscpack file, or the root folder of an array or a table.
 *
 * `store` is one of this library's stores, or any zarrita store that has `getRange`. Throws `NOT_FOUND` if nothing is there, `UNSUPPORTED`
 * for anything else, and the codes of damage.
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

/** The store for reading archives: on a network, one that caches the first bytes of objects. */
export function archiveStore(store: ReadableStore | ForeignStore): ReadableStore {
  const given = asReadable(store);
  return given.getHead === undefined ? given : withHeads(given);
}

/** What is not an archive: a file with its first bytes, or no file. */
export interface NoArchive {
  readonly file: FileBeginning | undefined;
}

type FileBeginning = NonNullable<Awaited<ReturnType<typeof readBeginning>>>;

/** The archive at a key, or what is there instead. Throws the codes of damage. */
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
  // Over a network each lookup costs a request, so the one that the name suggests comes first.
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
  // Not "blpk": opening it as such a file reports what is wrong.
  return openFile(source, path, options, file.info).then(
    () => new RangeError(`${source.describe(path)} became an archive while it was opened`),
    (error: unknown) => error,
  );
}

let folders: typeof import("./open-array-folder.ts") | undefined;

/**
 * Loads the code that opens folders; a page that opens a file does not load it. It is kept, because importing it again
 * costs as much as reading a file.
 */
const loadFolders = async () => (folders ??= await import("./open-array-folder.ts"));

async function openFolder(
  store: ReadableStore,
  path: string,
  options: OpenOptions,
): Promise<Archive | undefined> {
  const get = (name: string): Promise<Uint8Array | undefined> => store.get(joinKey(path, name), options);
  const asTable = async (): Promise<Archive | undefined> => {
    const rootdirs = await get("__rootdirs__");
    return rootdirs && (await loadFolders()).openTable(store, path, rootdirs, options);
  };
  // A caller that names columns expects a table.
  const isTableFirst = options.columns !== undefined;
  const table = isTableFirst ? await asTable() : undefined;
  if (table !== undefined) return table;
  const [sizes, storage] = await Promise.all([get("meta/sizes"), get("meta/storage")]);
  if (sizes !== undefined || storage !== undefined)
    return (await loadFolders()).openArrayFolder(store, path, { sizes, storage }, options);
  return isTableFirst ? undefined : asTable();
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

/** Files directly in the archive's folder, and those in its `meta`. */
const PARTS = [
  {
    end: /^(.*)[\\/](?:zarr\.json|\.zarray|\.zgroup|\.zattrs|\.zmetadata)$/,
    what: "a document of a Zarr array or group",
  },
  { end: /^(.*)[\\/]__(?:rootdirs|attrs)__$/, what: "a part of an archive" },
  { end: /^(.*)[\\/]meta[\\/](?:sizes|storage|attributes)$/, what: "a part of an archive" },
] as const;

/** The error for a file that is part of an array or archive; undefined for others. `path` is the file's name in messages. */
export function refusePart(path: string): SuperchunkError | undefined {
  for (const { end, what } of PARTS) {
    const folder = end.exec(path)?.[1];
    if (folder === undefined) continue;
    return new SuperchunkError(
      "UNSUPPORTED",
      `it is ${what}, and not all of it; name the folder: ${folder}`,
      { path, expected: folder },
    );
  }
  return undefined;
}

/** What to do about a folder that is not an archive; `path` is its name in messages. */
export function adviseOnFolder(path: string): string {
  return /[\\/](?:meta|data)$/.test(path)
    ? "If it is a part of one, name the folder above it"
    : '"superchunk ls" lists the archives inside a folder';
}
