/** Finds the sources of a conversion below a folder, and assigns each its place in the destination. */
import type { Archive, OpenOptions } from "../../archive/kinds/types.ts";
import { type FoundArchive, findArchives, isZarrFolder } from "../../archive/open/discover.ts";
import { filesOfArchive, METADATA_FILES, open } from "../../archive/open/open.ts";
import { textDigest } from "../../bytes/checksum.ts";
import { isSuperchunkError, notNamed, SuperchunkError } from "../../errors.ts";
import { stringifyJson } from "../../format/json.ts";
import { keepFloats } from "../../format/json-float.ts";
import { HELD_ENDS } from "../../format/naming.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import { openFound } from "../../open/open-node.ts";
import { joinKey } from "../../store/key.ts";
import type { ListEntry, ReadableStore, StoreOptions } from "../../store/types.ts";
import { namePaths } from "../../zarr/document/node-names.ts";
import type { ZarrArray } from "../../zarr/read/array.ts";
import { COLUMN_ORDER, isIndexGroup, orderNames, type ZarrGroup } from "../../zarr/read/group.ts";
import {
  assertSkippable,
  type ColumnArray,
  type ColumnTable,
  type ConvertOptions,
  type FoundAt,
  type OpenedSource,
  type SourceItem,
  type SourceLocation,
} from "../pipeline.ts";
import { chooseColumns, PYTABLES_INDEX } from "./source-array.ts";
import { withoutMeaning } from "./zipline.ts";

/** Called for everything that a search looks at, with the number of sources found so far. */
interface Watched {
  readonly onFound?: ((found: number, path: string) => void) | undefined;
}

/** The columns that the caller wants. Other members of a group are not opened. */
type Chosen = Pick<ConvertOptions, "columns">;

/** Ends of names that the names of converted arrays lack. */
const ENDS = new RegExp(`\\.(?:zarr|${HELD_ENDS})$`, "i");

/** True if `path` is an archive; false for a folder of archives. Needs a store that can list for folders. */
export async function isArchive(
  store: ReadableStore,
  path: string,
  options: StoreOptions = {},
): Promise<boolean> {
  if (path !== "" && (await store.stat(path, options)) !== undefined) return true;
  try {
    for await (const found of findArchives(store, path, options)) return found.path === path;
  } catch (error) {
    // A store that cannot list, like HTTP's, has no folder of archives that could be searched.
    if (isSuperchunkError(error, "UNSUPPORTED")) return true;
    throw error;
  }
  return false;
}

/**
 * Every archive and every outermost Zarr node at or below a place, in key order. Names stay as they are, extensions included,
 * except for names that Zarr reserves (see `node-names.ts`).
 */
export async function* findNodes(
  { store, path }: SourceLocation,
  { onFound, ...options }: OpenOptions & Watched,
): AsyncGenerator<SourceItem> {
  const { found, notes: onFiles } = await findAll({ store, path }, { ...options, onFound });
  const named = namePaths([...found].map(([key, { error }]) => destinationName(pathBelow(key, path), error)));
  for (const [i, [key, { kind, error, others, metadata }]] of [...found]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .entries()) {
    const own = (signal?: AbortSignal): OpenOptions => ({ ...options, signal });
    const from = destinationName(pathBelow(key, path), error);
    const node = named.get(from) ?? from;
    yield {
      path: store.describe(key),
      node,
      ...(node === from ? {} : { renamedFrom: from }),
      notes: [...(i === 0 ? onFiles : []), ...notesOnFiles(store.describe(key), others)],
      ...(error === undefined ? { found: { key, isZarr: kind === "other" } } : {}),
      metadata,
      open(signal) {
        if (error !== undefined) return Promise.reject(error);
        return kind === "other" ? openFound(store, key, own(signal)) : open(store, key, own(signal));
      },
    };
  }
}

/** The archives at or below a place by their keys, and notes on the other files there. */
async function findAll(
  { store, path }: SourceLocation,
  { signal, onFound }: OpenOptions & Watched,
): Promise<{ readonly found: Map<string, FoundArchive>; readonly notes: readonly string[] }> {
  const found = new Map<string, FoundArchive>();
  const files: string[] = [];
  let count = 0;
  const onFile = (key: string): void => {
    if (count++ < NAMED) files.push(pathBelow(key, path));
    onFound?.(found.size, store.describe(key));
  };
  for await (const each of findArchives(store, path, { signal, isOther: isZarrFolder, onFile })) {
    found.set(each.path, each);
    onFound?.(found.size, store.describe(each.path));
  }
  return { found, notes: notesOnFiles(store.describe(path), files, count) };
}

/** Files that a note names. */
const NAMED = 5;

function notesOnFiles(
  path: string,
  files: readonly string[] = [],
  count: number = files.length,
): readonly string[] {
  if (count === 0) return [];
  const more = count > NAMED ? `, … (${count} in all)` : "";
  return [`${path}: files that are not carried over: ${files.slice(0, NAMED).join(", ")}${more}`];
}

/** The same for an opened archive. None if its store cannot list. */
export async function notesOnArchive(
  { store, path }: SourceLocation,
  signal: AbortSignal | undefined,
): Promise<readonly string[]> {
  try {
    const entries: ListEntry[] = [];
    for await (const entry of store.list(path, { signal })) entries.push(entry);
    const files = await filesOfArchive(store, path, entries, { signal });
    return notesOnFiles(store.describe(path), files?.others);
  } catch (error) {
    if (!isSuperchunkError(error)) throw error;
    return [];
  }
}

/** A name that was refused is not allowed in the destination either: its backslashes are replaced. */
function destinationName(name: string, error: SuperchunkError | undefined): string {
  return error === undefined ? name : name.replaceAll("\\", "_");
}

function pathBelow(key: string, folder: string): string {
  return key === folder ? "" : folder === "" ? key : key.slice(folder.length + 1);
}

/** Everything at or below a place, in name order: archives, Zarr arrays, groups that are tables. */
export async function* findColumns(
  { store, path }: SourceLocation,
  { columns, onFound, ...options }: OpenOptions & Chosen & Watched,
): AsyncGenerator<SourceItem> {
  const { found: all, notes: onFiles } = await findAll({ store, path }, { ...options, onFound });
  for (const [i, found] of [...all.values()].entries()) {
    const node = pathBelow(found.path, path);
    const where = store.describe(found.path);
    const notes = [...(i === 0 ? onFiles : []), ...notesOnFiles(where, found.others)];
    const openOwn = (): Promise<ZarrArray | ZarrGroup> => openFound(store, found.path, options);
    if (found.kind === "other") yield* zarrItems({ store, path: found.path, node, columns }, openOwn, notes);
    else if (found.error === undefined)
      yield {
        ...archiveItem(store, found.path, node, () => open(store, found.path, options), notes),
        metadata: found.metadata,
      };
    else yield { ...failedItem(where, destinationName(node, found.error), found.error), notes };
  }
}

export function archiveItem(
  store: ReadableStore,
  path: string,
  node: string,
  openArchive: () => Promise<Archive>,
  notes: readonly string[] = [],
): SourceItem {
  return {
    path: store.describe(path),
    node: node.replace(/\.(?:blp|bcolz|blz)$/i, ""),
    fingerprint: () => metadataVersions(store, path),
    open: openArchive,
    found: { key: path, isZarr: false },
    notes,
  };
}

/** The arrays of a node, and its groups that are tables; other groups become folders. Returns the notes that no item has. */
export async function* zarrItems(
  at: SourceLocation & Chosen & { readonly node: string },
  openNode: () => Promise<ZarrArray | ZarrGroup>,
  lost: readonly string[] = [],
): AsyncGenerator<SourceItem, readonly string[]> {
  const { store, path, node } = at;
  let found: ZarrArray | ZarrGroup;
  let split: string | undefined;
  try {
    found = await openNode();
    split = found.kind === "array" ? undefined : await whySplit(found, at);
  } catch (error) {
    if (!isSuperchunkError(error)) throw error;
    yield failedItem(store.describe(path), node, error);
    return lost;
  }
  if (node !== "" && isIndexGroup(found)) return [...lost, `${store.describe(path)}: ${PYTABLES_INDEX}`];
  if (split === undefined) {
    const source = zarrSource(found, at);
    source.catch(() => undefined); // thrown when it is opened
    yield {
      path: store.describe(path),
      node: node.replace(ENDS, ""),
      fingerprint: async () => fingerprintZarr(found, at),
      open: () => source,
      found: { key: path, isZarr: true },
      notes: lost,
    };
    return [];
  }
  if (found.kind === "array") return lost;
  const group = found;
  let notes = [
    ...lost,
    ...(split === "" || node !== ""
      ? []
      : [
          `${store.describe(path)}: ${split}, so the arrays are converted one by one, not as columns of one table`,
        ]),
    ...(Object.keys(group.attrs).length > 0
      ? [`${store.describe(path)}: attributes of the group are not carried over: a folder has none`]
      : []),
  ];
  // Indexes come first, because the note on them goes to the next item.
  const isIndex = (name: string): number => Number(name.startsWith("_i_"));
  for (const name of [...(await group.members())].sort((a, b) => isIndex(b) - isIndex(a))) {
    const member = { ...at, path: joinKey(path, name), node: joinKey(node, name) };
    notes = [...(yield* zarrItems(member, () => group.open(name), notes))];
  }
  return notes;
}

/** A source found earlier, without another search. With `asColumns`, a Zarr node is opened as columns. */
export function itemAt(
  store: ReadableStore,
  { key, isZarr }: FoundAt,
  node: string,
  { asColumns, columns, ...options }: OpenOptions & Chosen & { readonly asColumns: boolean },
): SourceItem {
  const openOwn = (signal?: AbortSignal): Promise<ZarrArray | ZarrGroup> =>
    openFound(store, key, { ...options, signal });
  if (!isZarr) return { ...archiveItem(store, key, node, () => open(store, key, options)), node };
  return {
    path: store.describe(key),
    node,
    notes: [],
    fingerprint: async () => fingerprintZarr(await openOwn(), { columns }),
    open: async (signal) => (asColumns ? zarrSource(await openOwn(signal), { columns }) : openOwn(signal)),
  };
}

/** A source that was found but cannot be opened. */
function failedItem(path: string, node: string, error: SuperchunkError): SourceItem {
  return { path, node, notes: [], open: () => Promise.reject(error) };
}

/**
 * Collects all sources before anything is written, and checks that no two go to the same place. Throws `NOT_FOUND`, `BAD_ARGUMENT`.
 */
export async function collectSources(
  items: AsyncIterable<SourceItem>,
  missing: SuperchunkError,
): Promise<SourceItem[]> {
  const all: SourceItem[] = [];
  const byNode = new Map<string, string>();
  for await (const item of items) {
    const other = byNode.get(item.node);
    if (other !== undefined)
      throw new SuperchunkError(
        "BAD_ARGUMENT",
        `${other} would go to the same place, "${item.node}"; convert one of them by itself`,
        { path: item.path, field: "src" },
      );
    byNode.set(item.node, item.path);
    all.push(item);
  }
  if (all.length === 0) throw missing;
  return all;
}

/** Sizes and versions of a Zarr node's documents, and of all below a group. */
export async function fingerprintZarr(node: ZarrArray | ZarrGroup, only: Chosen = {}): Promise<JsonValue> {
  if (node.kind === "array") return documentVersions(node);
  const all: JsonValue[] = [];
  for (const name of await membersOf(node, only)) all.push(await fingerprintZarr(await node.open(name)));
  return all;
}

async function documentVersions({ store, model }: ZarrArray): Promise<JsonObject> {
  return Object.fromEntries(await versionsOf(store, model.metadataKeys));
}

/** Remembers the state of a source. Resolves with a check that throws `STALE` if the source has been replaced, or has grown, since. */
export async function watchSource(source: OpenedSource, path: string): Promise<() => Promise<void>> {
  const parts = await stateOf(source);
  const state = async (): Promise<string> => stringifyJson(await Promise.all(parts.map((part) => part())));
  const before = await state();
  return async () => {
    if ((await state()) === before) return;
    const message = "it was replaced, or has grown, while it was converted; convert again";
    throw new SuperchunkError("STALE", message, { path });
  };
}

/** Reads a part of the present state of a source. */
type StatePart = () => Promise<JsonValue>;

/**
 * Sizes and versions of the objects that describe a source, and the members of its groups: they change when it is replaced or grows. Nothing
 * over a network, where stores refuse other versions themselves, and for an array that keeps to the generation that it opened.
 */
async function stateOf(source: OpenedSource): Promise<StatePart[]> {
  if (source.kind === "joined") return (await Promise.all(source.archives.map(stateOf))).flat();
  const { store, path } = source;
  if (store.pinsVersions === true || ("generation" in source && source.generation !== undefined)) return [];
  if ("model" in source) return [() => documentVersions(source)];
  if (source.kind === "group") {
    // A member that cannot be opened is not converted, so it must not become readable.
    const partsOf = (name: string): Promise<StatePart[]> =>
      source
        .open(name)
        .then(stateOf)
        .catch(() => [() => source.open(name).then(Boolean)]);
    const parts = (await Promise.all((await source.members()).map(partsOf))).flat();
    return [() => source.members(), ...parts.map((part) => () => part().catch(() => null))];
  }
  const columns = source.kind === "table" ? source.names.map((name) => source.column(name)) : [];
  return [() => metadataVersions(store, path), ...(await Promise.all(columns.map(stateOf))).flat()];
}

/** Sizes and versions of the objects with an archive's metadata, or of its file, by key. */
export async function metadataVersions(
  store: ReadableStore,
  path: string,
  options: StoreOptions = {},
): Promise<Readonly<Record<string, string>>> {
  return Object.fromEntries(await versionsAt(store, path, options));
}

/**
 * The same as a map: for the engine, objects whose members have other names each time take far longer. `metadata` are the files with
 * metadata in the folder, if they are known; the others are not looked for.
 */
export async function versionsAt(
  store: ReadableStore,
  path: string,
  { metadata, ...options }: StoreOptions & Pick<SourceItem, "metadata"> = {},
): Promise<ReadonlyMap<string, string>> {
  const file = await versionsOf(store, metadata === undefined ? [path] : [], options);
  // Below a file there are no objects, so no requests are made.
  return file.size > 0 ? file : versionsOf(store, keysOf(path, metadata), options);
}

/** Keys that an archive's metadata can have, and the key of its file. */
export function metadataKeys(path: string): readonly string[] {
  return [path, ...keysOf(path)];
}

function keysOf(path: string, names: readonly string[] = METADATA_FILES): readonly string[] {
  return names.map((name) => joinKey(path, name));
}

async function versionsOf(
  store: ReadableStore,
  keys: readonly string[],
  options: StoreOptions = {},
): Promise<Map<string, string>> {
  const versions = new Map<string, string>();
  for (const key of keys) {
    const info = key === "" ? undefined : await store.stat(key, options);
    if (info !== undefined) versions.set(key, `${info.size} ${info.stamp ?? info.version}`);
  }
  return versions;
}

/**
 * A Zarr array or group to be converted back. Columns are in the order of the attribute `column_order`, else in name order.
 * @throws UNSUPPORTED for a group without arrays, or with groups in it
 */
export async function zarrSource(
  node: ZarrArray | ZarrGroup,
  only: Chosen = {},
): Promise<ColumnArray | ColumnTable> {
  if (node.kind === "array") return node;
  const path = node.store.describe(node.path);
  const columns = new Map<string, ZarrArray>();
  for (const name of orderNames(await membersOf(node, only), node.attrs)) {
    const member = await node.open(name);
    if (member.kind === "group")
      throw new SuperchunkError(
        "UNSUPPORTED",
        `the group has a group "${name}" in it, but a table has only columns; convert each group by itself`,
        { path, field: name },
      );
    columns.set(name, member);
  }
  if (columns.size === 0)
    throw new SuperchunkError("UNSUPPORTED", "the group has no arrays to be columns of a table", { path });
  return {
    kind: "table",
    store: node.store,
    path: node.path,
    attrs: withoutOrder(node.attrs),
    names: [...columns.keys()],
    column(name) {
      const column = columns.get(name);
      if (column !== undefined) return column;
      throw notNamed("column", name, [...columns.keys()], path);
    },
  };
}

/**
 * Undefined for a group of one or more arrays of equal length and nothing else: it can be a table. Otherwise why its arrays are no columns,
 * empty for a group that is not of arrays alone. A group with an array that cannot be opened is not one, so that its other arrays are not lost with it.
 * @throws NOT_FOUND for a group of arrays without the chosen ones
 */
async function whySplit(group: ZarrGroup, only: Chosen): Promise<string | undefined> {
  const lengths = new Set<number | undefined>();
  const names = await membersOf(group, only);
  let unreadable: string | undefined;
  for (const name of names) {
    try {
      const member = await group.open(name);
      if (member.kind === "group") return "";
      lengths.add(member.shape[0]);
    } catch (error) {
      assertSkippable(error);
      unreadable ??= name;
    }
  }
  chooseColumns(group, names, only.columns);
  if (unreadable !== undefined) return `the array "${unreadable}" cannot be read`;
  if (lengths.size < 2) return lengths.has(undefined) || lengths.size === 0 ? "" : undefined;
  return `the arrays have ${[...lengths].map((length) => length ?? "no").join(" and ")} rows`;
}

/** The chosen members of a group; all of one that has none of them, such as a group of groups. */
async function membersOf(group: ZarrGroup, { columns }: Chosen): Promise<readonly string[]> {
  const all = await group.members();
  if (!columns?.some((name) => all.includes(name))) return all;
  return chooseColumns(group, all, columns);
}

function withoutOrder(attrs: JsonObject): JsonObject {
  const { [COLUMN_ORDER]: _, ...others } = attrs;
  return withoutMeaning(keepFloats(others, attrs));
}

/** A digest of facts about a source, which changes when they do. */
export function digestOf(facts: JsonValue): Promise<string> {
  return textDigest(stringifyJson(facts));
}
