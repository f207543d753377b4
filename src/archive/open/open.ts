/** `open`: opens any archive from any store, recognised by content. */
import { isSuperchunkError } from "../../errors.ts";
import { asReadable, type ForeignStore } from "../../store/foreign.ts";
import { checkKey, checkLater, joinKey, readBeginning } from "../../store/key.ts";
import type { ListEntry, ObjectHead, ReadableStore } from "../../store/types.ts";
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
export async function openArchive(
  store: ReadableStore | ForeignStore,
  path = "",
  options: OpenOptions = {},
): Promise<Archive> {
  await checkLater(options, "open");
  return open(store, path, options);
}

/** {@link openArchive} for callers that have no unknown options. */
export async function open(
  store: ReadableStore | ForeignStore,
  path = "",
  options: OpenOptions = {},
): Promise<Archive> {
  const source = archiveStore(store);
  const found = await findArchive(source, path, options);
  if ("kind" in found) return found;
  const { explainNoArchive } = await import("./no-archive.ts");
  throw await explainNoArchive(source, path, found.file, options);
}

/** The store for reading archives: on a network, one that caches the first bytes of objects. */
export function archiveStore(store: ReadableStore | ForeignStore): ReadableStore {
  const given = asReadable(store);
  return given.getHead === undefined ? given : withHeads(given);
}

/** What is not an archive: a file with its first bytes, a node of another format, or neither. */
export interface NoArchive<Node = never> {
  readonly file: ObjectHead | undefined;
  readonly node?: Node;
}

/**
 * The archive at a key, or what is there instead. `openNode` opens what a caller expects in a folder that is not an
 * array of an archive: it is asked before the table and the file. Throws the codes of damage.
 */
export async function findArchive<Node = never>(
  source: ReadableStore,
  path: string,
  options: OpenOptions,
  openNode?: () => Promise<Node | undefined>,
): Promise<Archive | NoArchive<Node>> {
  if (path !== "") checkKey(path);
  const openWhole = () => findWhole(source, path, options, openNode);
  if (options.damaged === undefined || options.damaged === "stop") return openWhole();
  const { openDamaged } = await import("../salvage/survey.ts");
  return openDamaged(source, path, options, openWhole);
}

async function findWhole<Node>(
  source: ReadableStore,
  path: string,
  options: OpenOptions,
  openNode?: () => Promise<Node | undefined>,
): Promise<Archive | NoArchive<Node>> {
  // Over a network each lookup costs a request, so the one that the name suggests comes first.
  const looksLikeFile = /\.(?:blp|blosc|bin)$/i.test(path);
  const first = looksLikeFile ? undefined : await openFolder(source, path, options, openNode);
  if (first !== undefined) return first;
  const file = path === "" ? undefined : await readBeginning(source, path, MAGIC.length, options);
  if (file !== undefined && MAGIC.every((byte, i) => file.bytes[i] === byte))
    return openFile(source, path, options, file.info);
  const folder = looksLikeFile ? await openFolder(source, path, options, openNode) : undefined;
  return folder ?? { file };
}

let folders: typeof import("./open-array-folder.ts") | undefined;

/**
 * Loads the code that opens folders; a page that opens a file does not load it. It is kept, because importing it again
 * costs as much as reading a file.
 */
const loadFolders = async () => (folders ??= await import("./open-array-folder.ts"));

async function openFolder<Node>(
  store: ReadableStore,
  path: string,
  options: OpenOptions,
  openNode?: () => Promise<Node | undefined>,
): Promise<Archive | NoArchive<Node> | undefined> {
  const get = (name: string): Promise<Uint8Array | undefined> => store.get(joinKey(path, name), options);
  const asTable = async (): Promise<Archive | undefined> => {
    const rootdirs = await get("__rootdirs__");
    return rootdirs && (await loadFolders()).openTableFolder(store, path, rootdirs, options);
  };
  // A caller that names columns expects a table.
  const isTableFirst = options.columns !== undefined;
  const table = isTableFirst ? await asTable() : undefined;
  if (table !== undefined) return table;
  const [sizes, storage] = await Promise.all([get("meta/sizes"), get("meta/storage")]);
  if (sizes !== undefined || storage !== undefined)
    return (await loadFolders()).openArrayFolder(store, path, { sizes, storage }, options);
  const node = await openNode?.();
  if (node !== undefined) return { file: undefined, node };
  return isTableFirst ? undefined : asTable();
}

/** Files of an archive's folder and of `meta/` that are not data. */
const PARTS = /^(?:__(?:attrs|rootdirs)__|sizes|storage|attributes|lock|zarr(?:\.json)?)$/;
/** Files that superchunk makes in folders, besides hidden ones. */
const OWN_FILES = /^superchunk-link\.json$|(?:^|\.)superchunk-index$/;

/** True for a file that superchunk makes in a folder with these entries: a journal and a lock are beside the file that they are for. */
export function isOwnFile(name: string, entries: readonly ListEntry[]): boolean {
  const [, file] = /^(.+)\.(?:journal|lock)$/.exec(name) ?? [];
  return name.startsWith(".") || OWN_FILES.test(name) || entries.some((entry) => entry.name === file);
}

/** The files with the metadata of an archive in a folder. */
export const METADATA_FILES = [
  "meta/sizes",
  "meta/storage",
  "meta/attributes",
  "__attrs__",
  "__rootdirs__",
] as const;

/** Names of files in the folder of an archive. */
interface FolderFiles {
  /** Those of {@link METADATA_FILES} that exist. */
  readonly metadata: readonly string[];
  /** Files that are not part of the archive. */
  readonly others: readonly string[];
}

/** The files in the folder of an archive; undefined for other folders. */
export async function filesOfArchive(
  store: ReadableStore,
  path: string,
  entries: readonly ListEntry[],
  options: OpenOptions,
): Promise<FolderFiles | undefined> {
  const parts: string[] = [];
  const others: string[] = [];
  // A name may be one that no key can have.
  const add = ({ name, kind }: ListEntry, prefix: string): void => {
    if (kind === "object" && PARTS.test(name)) parts.push(`${prefix}${name}`);
    else if (kind === "object" && !isOwnFile(name, entries)) others.push(`${prefix}${name}`);
  };
  // A table that has lost its __rootdirs__ is damaged, and not a folder of arrays.
  const isArchive = (): boolean =>
    parts.some((name) => /^(?:__(?:rootdirs|attrs)__|meta\/(?:sizes|storage))$/.test(name));
  for (const entry of entries) add(entry, "");
  if (entries.some((entry) => entry.name === "meta" && entry.kind === "folder"))
    try {
      for await (const entry of store.list(joinKey(path, "meta"), options)) add(entry, "meta/");
    } catch (error) {
      // Opening it says why.
      if (!isArchive() || !isSuperchunkError(error)) throw error;
    }
  if (!isArchive()) return undefined;
  return { metadata: METADATA_FILES.filter((name) => parts.includes(name)), others };
}
