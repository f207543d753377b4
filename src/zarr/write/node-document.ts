/**
 * Changes the documents of Zarr v3 nodes, and their copies in the consolidated metadata of the groups above.
 *
 * A node's own document is authoritative. If a process is killed between it and a copy, the next writer corrects the copy. Zarr
 * writers are refused in folders that are also archives, because a write would change one view alone. Must not know chunks.
 * @see FORMAT.md [FL-04] [FY-01]
 */
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { jsonBytes, parseJson, stringifyJson } from "../../format/json.ts";
import { LINK_RECORD } from "../../format/naming.ts";
import type { JsonInput, JsonObject } from "../../format/types.ts";
import { foldersOnly, joinKey, splitKey } from "../../store/key.ts";
import type { StoreOptions, WritableStore } from "../../store/types.ts";
import { DOCUMENT } from "../document/make-v3.ts";
import { isBareGroup } from "../read/open.ts";

/** How often a copy is changed again because the writer of another node was faster. */
const MAX_TRIES = 20;

/** Throws `UNSUPPORTED` for the compressor that zarr-python cannot decode. `before`: that of an array, which may keep it. */
export function refuseSnappy(
  { store, path }: { readonly store: WritableStore; readonly path: string },
  cname: unknown,
  before?: string,
): void {
  if (cname !== "snappy" || before === cname) return;
  throw new SuperchunkError(
    "UNSUPPORTED",
    'zarr-python cannot decode Blosc chunks with snappy, which this Zarr array would have; choose another compressor (an existing array gets it by "superchunk compact PATH --codec lz4")',
    { path: store.describe(path), field: "cname", found: "snappy" },
  );
}

/** A JSON object whose floats stay floats. */
export type NodeDocument = Readonly<Record<string, JsonInput>>;

interface StoredDocument {
  readonly document: NodeDocument;
  readonly version: string;
}

/** Reads the document of a node. Throws `NOT_FOUND`, and the codes of damage. */
export async function readDocument(
  store: WritableStore,
  path: string,
  options: StoreOptions = {},
): Promise<StoredDocument> {
  const found = await findDocument(store, path, options);
  if (found !== undefined) return found;
  throw new SuperchunkError("NOT_FOUND", "no Zarr node is here", { path: store.describe(path) });
}

async function findDocument(
  store: WritableStore,
  path: string,
  options: StoreOptions = {},
): Promise<StoredDocument | undefined> {
  const key = joinKey(path, DOCUMENT);
  const info = await store.stat(key, options);
  const bytes = info === undefined ? undefined : await store.get(key, options);
  if (info === undefined || bytes === undefined) return undefined;
  return {
    document: parseJson(bytes, store.describe(key), { floats: "kept" }) as NodeDocument,
    version: info.version,
  };
}

/**
 * Replaces the document of a node. Durable when resolved. If the array becomes smaller (`shrinks`), the copies are written
 * first, so that no reader trusts a shape whose chunks are gone. Else the node's own document is the commit: resolves with the error if
 * the copies then stayed behind.
 * @throws CONFLICT if another writer was faster
 */
export async function putDocument(
  store: WritableStore,
  path: string,
  before: StoredDocument,
  document: NodeDocument,
  shrinks = false,
): Promise<SuperchunkError | undefined> {
  const own = () => put(store, path, document, { ifVersion: before.version });
  const update = () => updateCopies(store, path, copyWriter(store, path, document), shrinks);
  if (shrinks) {
    await update();
    await own();
    return undefined;
  }
  await own();
  return update().then(
    () => undefined,
    (error: unknown) => behind(store, path, error),
  );
}

/**
 * A document as it is stored. NaN and infinities that another program wrote stay what they are, although strict JSON has none: a change
 * of something else must not change an attribute.
 */
function encodeAsStored(document: NodeDocument): Uint8Array {
  return jsonBytes(document, { indent: 2, bare: true });
}

/** A document as its readers parse it: with plain numbers for floats. */
export function asRead(document: NodeDocument, name: string): JsonObject {
  return parseJson(encodeAsStored(document), name) as JsonObject;
}

/** The error for copies that stayed behind. Other failures than of the store are rethrown. */
function behind(store: WritableStore, path: string, error: unknown): SuperchunkError {
  if (!isSuperchunkError(error)) throw error;
  const what = `the change is stored in ${store.describe(joinKey(path, DOCUMENT))}, but the metadata of the groups above could not be updated, and may still show the state before it (${error.message})`;
  return new SuperchunkError(
    error.code,
    `${what}. Do not repeat the change; the next writer of this node updates them, and "superchunk consolidate" of the group does`,
    { path: store.describe(path), field: "consolidated_metadata", cause: error },
  );
}

/** Creates a node at an empty path. Throws `CONFLICT` if there is one. */
export async function addDocument(store: WritableStore, path: string, document: NodeDocument): Promise<void> {
  await put(store, path, document, { ifAbsent: true });
  await updateCopies(store, path, copyWriter(store, path, document), false).catch((error: unknown) => {
    throw behind(store, path, error);
  });
}

function dropCopies(copies: Map<string, JsonInput>, name: string): void {
  for (const each of [...copies.keys()])
    if (each === name || each.startsWith(`${name}/`)) copies.delete(each);
}

/** Hides a node and everything below it from readers. Its chunks still exist. */
export async function removeDocument(store: WritableStore, path: string): Promise<void> {
  await updateCopies(store, path, dropCopies, true);
  await store.delete(joinKey(path, DOCUMENT));
  await store.sync?.([]);
}

/** Makes the copies in the groups above match the node's document. */
export async function mendCopies(store: WritableStore, path: string): Promise<void> {
  const { document } = await readDocument(store, path);
  await updateCopies(store, path, copyWriter(store, path, document), false);
}

async function put(
  store: WritableStore,
  path: string,
  document: NodeDocument,
  condition: { readonly ifVersion: string } | { readonly ifAbsent: boolean },
): Promise<void> {
  await store.put(joinKey(path, DOCUMENT), encodeAsStored(document), { durable: true, ...condition });
}

/** Changes the copies that a group has, in which the node has this name. */
type CopyChange = (copies: Map<string, JsonInput>, name: string) => void | Promise<void>;

/**
 * Puts the copy of a node, and copies of the groups above it that are not listed: other programs that did not list them, or a kill. zarr-python opens
 * no group that lists a node without the groups above it, so the node is not listed either if these have no document.
 */
function copyWriter(store: WritableStore, path: string, document: NodeDocument): CopyChange {
  return async (copies, name) => {
    const missing: [name: string, document: NodeDocument][] = [];
    for (let { folder } = splitKey(name); folder !== ""; { folder } = splitKey(folder)) {
      if (copies.has(folder)) continue;
      const group = await findDocument(store, path.slice(0, path.length - name.length) + folder);
      if (group === undefined) return;
      missing.unshift([folder, copyOf(group.document)]);
    }
    for (const [group, copy] of missing) copies.set(group, copy);
    setCopy(copies, name, document);
  };
}

/** The copy of a group keeps its own list of copies. */
function setCopy(copies: Map<string, JsonInput>, name: string, document: NodeDocument): void {
  const { consolidated_metadata: _, ...own } = document;
  const former = copies.get(name);
  const list = isObject(former) ? former["consolidated_metadata"] : undefined;
  copies.set(name, list === undefined ? own : { ...own, consolidated_metadata: list });
}

/** Changes the copies in all groups above a node, from the nearest to the root or the reverse. */
async function updateCopies(
  store: WritableStore,
  path: string,
  change: CopyChange,
  isRootFirst: boolean,
): Promise<void> {
  if (path === "") return;
  const folders: string[] = [];
  for (let { folder } = splitKey(path); ; { folder } = splitKey(folder)) {
    folders.push(folder);
    if (folder === "") break;
  }
  if (isRootFirst) folders.reverse();
  for (const folder of folders) {
    const name = path.slice(folder === "" ? 0 : folder.length + 1);
    for (let tries = 1; ; tries++) {
      try {
        await updateCopiesIn(store, folder, (copies) => change(copies, name));
        break;
      } catch (error) {
        // The writer of another node of the group was faster.
        if (!isSuperchunkError(error, "CONFLICT") || tries === MAX_TRIES) throw error;
      }
    }
  }
}

async function updateCopiesIn(
  store: WritableStore,
  folder: string,
  change: (copies: Map<string, JsonInput>) => void,
): Promise<void> {
  const stored = await findDocument(store, folder);
  const consolidated = stored?.document["consolidated_metadata"];
  if (stored === undefined || !isObject(consolidated) || !isObject(consolidated["metadata"])) return;
  const copies = new Map(Object.entries(consolidated["metadata"]));
  const before = stringifyJson(Object.fromEntries(copies));
  await change(copies);
  const metadata = Object.fromEntries(copies);
  if (stringifyJson(metadata) === before) return;
  const document = { ...stored.document, consolidated_metadata: { ...consolidated, metadata } };
  await put(store, folder, document, { ifVersion: stored.version });
}

function isObject(value: JsonInput | undefined): value is NodeDocument {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !("toJSON" in value);
}

const STORAGE = "meta/storage";

/**
 * Refuses a path in or below an archive: one that is linked to Zarr, one that keeps itself a Zarr array, or their columns. Only
 * file systems have links, so other stores are not asked.
 * @throws CONFLICT
 */
export async function refuseDual(
  store: WritableStore,
  path: string,
  { signal }: StoreOptions,
): Promise<void> {
  if (store.link === undefined) return;
  for (let folder = path; ; folder = splitKey(folder).folder) {
    for (const name of [LINK_RECORD, STORAGE]) {
      const key = joinKey(folder, name);
      if ((await store.stat(key, { signal })) === undefined) continue;
      throw new SuperchunkError("CONFLICT", reasonOf(name), { path: store.describe(folder), field: name });
    }
    if (folder === "") return;
  }
}

function reasonOf(name: string): string {
  return name === LINK_RECORD
    ? 'it is an archive that is linked to Zarr: written as Zarr, the archive would keep its old values, or be damaged. Change the archive ("superchunk set", "append", `edit`) and run "superchunk link" again, or remove the link ("superchunk unlink"), or write to a copy ("superchunk convert")'
    : 'there is an archive in the folder: written as Zarr, it would keep its old values. Change the archive itself ("superchunk set", "append", `edit`), whose Zarr view follows where it has one, or write to a copy ("superchunk convert")';
}

/** The group that a path is in, or will be. */
interface Hierarchy {
  readonly root: string;
  /** Groups from the path to the root that have no document. */
  readonly missing: readonly string[];
}

/**
 * The outermost group that contains a path; undefined if there is none. A folder that does not exist, or has no files in it,
 * may be a group whose document is missing; without any group, the nearest such folder whose name ends in `.zarr` is the root.
 * @throws CONFLICT for a path in an array, or in an archive that is also a Zarr group
 */
export async function findHierarchy(
  store: WritableStore,
  path: string,
  options: StoreOptions,
): Promise<Hierarchy | undefined> {
  let outermost: string | undefined;
  let named: string | undefined;
  const absent: string[] = [];
  for (let folder = path; folder !== ""; ) {
    folder = splitKey(folder).folder;
    const found = await findDocument(store, folder, options);
    if (found !== undefined && found.document["node_type"] !== "group")
      throw new SuperchunkError("CONFLICT", "the place is inside a Zarr array; choose another", {
        path: store.describe(folder),
        field: "destination",
      });
    if (found !== undefined) outermost = folder;
    else if ((await foldersOnly(store, folder, options.signal)) === undefined) break;
    else {
      absent.push(folder);
      if (/\.zarr$/i.test(folder)) named ??= folder;
    }
  }
  const root = outermost ?? named;
  if (root === undefined) return undefined;
  await refuseDual(store, path, options);
  return { root, missing: absent.filter((folder) => folder.length >= root.length) };
}

/**
 * Creates the missing groups from `root` to a node, and adds the node and everything below it to the consolidated metadata of all
 * groups above; other existing nodes are not added, except to a root that is created. Resolves with the paths of the created groups.
 * @throws CONFLICT if another writer was faster: try again
 */
export async function joinHierarchy(
  store: WritableStore,
  root: string,
  path: string,
  options: StoreOptions = {},
): Promise<string[]> {
  const below = new Map<string, NodeDocument>();
  await collectNodes(store, path, below, options);
  const made: string[] = [];
  if (below.size === 0) return made;
  const nodes = new Map<string, NodeDocument>();
  const ensure = async (folder: string): Promise<NodeDocument> => {
    const found = await findDocument(store, folder, options);
    if (found === undefined) made.push(folder);
    return found?.document ?? makeGroup(store, folder);
  };
  for (let { folder } = splitKey(path); folder.length > root.length; { folder } = splitKey(folder))
    nodes.set(folder, await ensure(folder));
  await ensure(root);
  if (made.includes(root)) {
    await consolidateGroup(store, root, options);
    return made;
  }
  const change = (copies: Map<string, JsonInput>, name: string): void => {
    const above = path.slice(0, path.length - name.length);
    dropCopies(copies, name);
    for (const [node, document] of [...nodes, ...below])
      if (node.startsWith(above)) copies.set(node.slice(above.length), copyOf(document));
    const sorted = [...copies].sort(([a], [b]) => (a < b ? -1 : 1));
    copies.clear();
    for (const [node, document] of sorted) copies.set(node, document);
  };
  await updateCopies(store, path, change, false);
  return made;
}

const EMPTY_GROUP: NodeDocument = { zarr_format: 3, node_type: "group", attributes: {} };

async function makeGroup(store: WritableStore, path: string): Promise<NodeDocument> {
  await put(store, path, EMPTY_GROUP, { ifAbsent: true });
  return EMPTY_GROUP;
}

/** Adds the documents of a node and of everything below it, by path. `make` creates the groups that are missing among them. */
async function collectNodes(
  store: WritableStore,
  path: string,
  into: Map<string, NodeDocument>,
  options: StoreOptions,
  make?: (path: string) => Promise<NodeDocument>,
): Promise<void> {
  const { signal } = options;
  signal?.throwIfAborted();
  let document = (await findDocument(store, path, options))?.document;
  if (document === undefined) {
    if (make === undefined || !(await isBareGroup(store, path, signal))) return;
    document = await make(path);
  }
  into.set(path, document);
  if (document["node_type"] !== "group") return;
  for await (const { name, kind } of store.list(path, options))
    if (kind === "folder") await collectNodes(store, joinKey(path, name), into, options, make);
}

/** A document as consolidated metadata repeat it: a group gets an empty list. */
function copyOf(document: NodeDocument): NodeDocument {
  const { consolidated_metadata: _, ...own } = document;
  if (own["node_type"] !== "group") return own;
  return { ...own, consolidated_metadata: { kind: "inline", must_understand: false, metadata: {} } };
}

/** What `consolidate` did, or would do. */
export interface Consolidation {
  /** Nodes that the group's metadata list now. */
  readonly nodes: number;
  /** Groups whose metadata were changed: the requested one, and those below that list their nodes too. */
  readonly changed: readonly string[];
  /** Groups that were created, because there were nodes below them. */
  readonly made: readonly string[];
}

/** Options of `consolidate`. */
export interface ConsolidateOptions extends StoreOptions {
  /** Changes nothing, and returns as `changed` the groups whose metadata list other nodes than there are. */
  readonly dryRun?: boolean | undefined;
}

/**
 * Lists all nodes below a Zarr v3 group in its consolidated metadata, and likewise in those of groups below that have any. Creates groups
 * that are missing between them.
 * @throws NOT_FOUND without a Zarr v3 node; UNSUPPORTED for an array; CONFLICT if another writer was faster, and for an
 * archive that is also a Zarr group
 */
export async function consolidateGroup(
  store: WritableStore,
  path: string,
  { dryRun = false, ...options }: ConsolidateOptions = {},
): Promise<Consolidation> {
  await refuseDual(store, path, options);
  const { document } = await readDocument(store, path, options);
  if (document["node_type"] !== "group")
    throw new SuperchunkError("UNSUPPORTED", "it is an array; only groups have metadata of other nodes", {
      path: store.describe(path),
      field: "node_type",
    });
  const nodes = new Map<string, NodeDocument>();
  const [changed, made]: [string[], string[]] = [[], []];
  await collectNodes(store, path, nodes, options, async (group) => {
    made.push(group);
    return dryRun ? EMPTY_GROUP : makeGroup(store, group);
  });
  for (const [group, own] of [...nodes].reverse()) {
    const stored = own["consolidated_metadata"];
    if ((dryRun || group !== path) && !isObject(stored)) continue;
    const prefix = group === "" ? "" : `${group}/`;
    const metadata = Object.fromEntries(
      [...nodes]
        .filter(([node]) => node !== group && node.startsWith(prefix))
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([node, each]) => [node.slice(prefix.length), copyOf(each)]),
    );
    const consolidated = { kind: "inline", must_understand: false, metadata };
    const isRight = dryRun
      ? namesIn(stored) === namesIn(consolidated)
      : stringifyJson(stored ?? null) === stringifyJson(consolidated);
    if (isRight) continue;
    changed.push(group);
    if (dryRun) continue;
    const { version } = await readDocument(store, group, options);
    await put(store, group, { ...own, consolidated_metadata: consolidated }, { ifVersion: version });
  }
  return { nodes: nodes.size - 1, changed, made };
}

/** The nodes that consolidated metadata list, as one text. */
function namesIn(consolidated: JsonInput | undefined): string {
  const metadata = isObject(consolidated) ? consolidated["metadata"] : undefined;
  return stringifyJson(isObject(metadata) ? Object.keys(metadata).sort() : []);
}
