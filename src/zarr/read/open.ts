/**
 * Opens Zarr nodes of every version, depending on what is at their path.
 *
 * Knows where documents are; the metadata modules know what they mean.
 */
import type { OpenOptions } from "../../archive/kinds/types.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { parseDType } from "../../format/dtype.ts";
import { isObject, parseJson } from "../../format/json.ts";
import { V2_DOCUMENTS } from "../../format/naming.ts";
import type { JsonValue, ZarrDialect } from "../../format/types.ts";
import { BESIDE, foldersOnly, joinKey } from "../../store/key.ts";
import type { ReadableStore } from "../../store/types.ts";
import { stagesOf } from "../codecs/chain.ts";
import { DOCUMENT } from "../document/make-v3.ts";
import type { V2Node } from "../document/metadata-v2.ts";
import { DESCR, isEntryDocument, parseDocument } from "../document/metadata-v3.ts";
import type { ArrayModel, GroupModel } from "../document/model.ts";
import { ZarrArray } from "./array.ts";
import { type GroupAccess, ZarrGroup } from "./group.ts";
import type { ReadSettings } from "./leaf.ts";

/** Options of opening a Zarr array or group. */
export interface OpenZarrOptions extends ReadSettings, Pick<OpenOptions, "damaged" | "onDamage"> {
  readonly signal?: AbortSignal | undefined;
  /**
   * False: an array with text or bytes of variable length is opened without reading it for the longest value (default true). Its `dtype`
   * has no length then, `nbytes` is NaN, and values cannot be read.
   */
  readonly measureText?: boolean | undefined;
  /** Dialect of the nodes, if a store shows another format as Zarr. */
  readonly dialect?: ZarrDialect | undefined;
}

/**
 * Opens the array or group at a path of a store: Zarr v3, Zarr v2, or the experimental version 3 of zarr 2.13 to 2.18, whose
 * nodes have paths below their hierarchy's root.
 *
 * Throws `NOT_FOUND` for a missing node, `BAD_FIELD` and `TRUNCATED` for damaged documents, `UNSUPPORTED` for features that are
 * not known here.
 */
export async function openZarr(
  store: ReadableStore,
  path = "",
  options: OpenZarrOptions = {},
): Promise<ZarrArray | ZarrGroup> {
  const found = (await openOwn(store, path, options)) ?? (await openBelowRoot(store, path, options));
  if (found !== undefined) return found;
  throw new SuperchunkError(
    "NOT_FOUND",
    `no Zarr node: found no ${DOCUMENT}, ${V2_DOCUMENTS.array} or ${V2_DOCUMENTS.group}`,
    { path: store.describe(path), expected: DOCUMENT },
  );
}

/** The node that documents at the path itself describe; undefined if there are none. Throws like {@link openZarr}. */
export async function openOwn(
  store: ReadableStore,
  path: string,
  options: OpenZarrOptions,
): Promise<ZarrArray | ZarrGroup | undefined> {
  const read = (name: string): Promise<JsonValue | undefined> =>
    readDocument(store, joinKey(path, name), options.signal);
  return (await openV3(store, path, options)) ?? openV2Node(store, path, options, read);
}

/** Opens the array at a path. Throws like {@link openZarr}, and `BAD_ARGUMENT` for a group. */
export async function openZarrArray(
  store: ReadableStore,
  path = "",
  options: OpenZarrOptions = {},
): Promise<ZarrArray> {
  const node = await openZarr(store, path, options);
  if (node.kind === "array") return node;
  throw new SuperchunkError("BAD_ARGUMENT", "the node is a group; name one of its arrays", {
    path: store.describe(path),
    expected: "array",
    found: "group",
  });
}

/** A document as JSON; undefined if there is none. */
async function readDocument(
  store: ReadableStore,
  key: string,
  signal: AbortSignal | undefined,
): Promise<JsonValue | undefined> {
  const bytes = await store.get(key, { signal });
  return bytes === undefined ? undefined : parseJson(bytes, store.describe(key));
}

async function openV3(
  store: ReadableStore,
  path: string,
  options: OpenZarrOptions,
): Promise<ZarrArray | ZarrGroup | undefined> {
  const key = joinKey(path, DOCUMENT);
  const document = await readDocument(store, key, options.signal);
  if (document === undefined) return undefined;
  if (isEntryDocument(document)) return openHierarchy(store, path, document, "", options);
  const parse = (each: JsonValue): ArrayModel | GroupModel =>
    parseDocument(each, path, store.describe(key), options.customCodecs);
  return makeV3(store, await parseNode(store, document, parse, options), options);
}

/** Data types of values of variable length, in versions 2 and 3. */
const VARIABLE = /^(string|(variable_length_)?bytes|\|O)$/;

/** The model of a node; of an array with values of variable length, after its chunks were looked at. */
async function parseNode<T extends ArrayModel | GroupModel>(
  store: ReadableStore,
  document: JsonValue,
  parse: (document: JsonValue) => T,
  options: OpenZarrOptions,
): Promise<T | ArrayModel> {
  if (!isObject(document)) return parse(document);
  const { data_type: type = document["dtype"] } = document;
  if (!VARIABLE.test(String(isObject(type) ? type["name"] : type))) return parse(document);
  const { variableModel } = await import("./variable.ts");
  return variableModel(store, document, { ...options, parse });
}

/** The array; if its damaged chunks are skipped or filled, it is surveyed first. */
async function openModel(
  store: ReadableStore,
  model: ArrayModel,
  options: OpenZarrOptions,
): Promise<ZarrArray> {
  for (const stage of stagesOf(model.chain)) await stage.check?.();
  const array = new ZarrArray(store, model, options);
  if ((options.damaged ?? "stop") === "stop") return array;
  const { openDamagedArray } = await import("./damaged.ts");
  return openDamagedArray(array, options);
}

async function makeV3(
  store: ReadableStore,
  model: ArrayModel | GroupModel,
  options: OpenZarrOptions,
): Promise<ZarrArray | ZarrGroup> {
  if (!("consolidated" in model)) {
    const shown = { ...model, shownAs: options.dialect };
    const descr = options.dialect && model.document[DESCR];
    if (!isObject(descr)) return openModel(store, shown, options);
    const dtype = parseDType(descr["dtype"] ?? null, store.describe(model.path));
    return openModel(store, { ...shown, dtype, isRaw: true }, options);
  }
  const access: GroupAccess = {
    members: () => membersOf(store, model, options.signal),
    open: (name) => openMember(store, joinKey(model.path, name), options),
  };
  return new ZarrGroup(store, { ...model, dialect: options.dialect ?? model.dialect }, access);
}

/** Nodes directly below a group: those that its metadata list, or without a list those in its folder. */
async function* membersOf(
  store: ReadableStore,
  { path, consolidated }: GroupModel,
  signal: AbortSignal | undefined,
): AsyncGenerator<string> {
  if (consolidated !== undefined) {
    yield* Object.keys(consolidated).filter((name) => !name.includes("/"));
    return;
  }
  for await (const { name, kind } of store.list(path, { signal }))
    if (kind === "folder" && (await isNode(store, joinKey(path, name), signal))) yield name;
}

async function isNode(
  store: ReadableStore,
  folder: string,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  return (await hasAny(store, folder, [DOCUMENT], signal)) || (await isBareGroup(store, folder, signal));
}

/** Opens a node below a group, which may be a group without a document. */
async function openMember(
  store: ReadableStore,
  path: string,
  options: OpenZarrOptions,
): Promise<ZarrArray | ZarrGroup> {
  try {
    return await openZarr(store, path, options);
  } catch (error) {
    if (!isSuperchunkError(error, "NOT_FOUND") || !(await isBareGroup(store, path, options.signal)))
      throw error;
    const document = { zarr_format: 3, node_type: "group" };
    return makeV3(store, parseDocument(document, path, store.describe(path)), options);
  }
}

/** True for a folder that holds no document, but nodes: zarrita makes no groups above an array. */
export async function isBareGroup(
  store: ReadableStore,
  folder: string,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  for (const name of (await foldersOnly(store, folder, signal, BESIDE)) ?? [])
    if (await isNode(store, joinKey(folder, name), signal)) return true;
  return false;
}

/** `read` returns the node's own documents by name. */
async function openV2Node(
  store: ReadableStore,
  path: string,
  options: OpenZarrOptions,
  read: (name: string) => Promise<JsonValue | undefined>,
): Promise<ZarrArray | ZarrGroup | undefined> {
  const array = await read(V2_DOCUMENTS.array);
  const group = array ?? (await read(V2_DOCUMENTS.group));
  if (group === undefined) return undefined;
  // On demand: pages that show another version do not load it.
  const v2 = await import("../document/metadata-v2.ts");
  const nodeOf = async (document: JsonValue, name: string): Promise<V2Node> => ({
    path,
    document,
    dialect: options.dialect,
    codecs: options.customCodecs,
    attributes: await read(V2_DOCUMENTS.attributes),
    name: store.describe(joinKey(path, name)),
  });
  if (array !== undefined) {
    const own = await nodeOf(array, V2_DOCUMENTS.array);
    const parse = (document: JsonValue): ArrayModel => v2.parseV2Array({ ...own, document });
    return openModel(store, await parseNode(store, array, parse, options), options);
  }
  const node = await nodeOf(group, V2_DOCUMENTS.group);
  const all = await read(V2_DOCUMENTS.consolidated);
  if (all === undefined)
    return new ZarrGroup(store, v2.parseV2Group(node), {
      members: () => foldersWith(store, path, [V2_DOCUMENTS.array, V2_DOCUMENTS.group], options.signal),
      open: (name) => openZarr(store, joinKey(path, name), options),
    });
  const documents = v2.parseV2Consolidated(all, store.describe(joinKey(path, V2_DOCUMENTS.consolidated)));
  return new ZarrGroup(store, v2.parseV2Group(node, documents), {
    members: () => v2.consolidatedMembers(documents),
    async open(name) {
      const below = (key: string): Promise<JsonValue | undefined> =>
        Promise.resolve(documents[joinKey(name, key)] ?? v2.consolidatedBelow(documents, name, key));
      const member = await openV2Node(store, joinKey(path, name), options, below);
      return member ?? openZarr(store, joinKey(path, name), options);
    },
  });
}

/** Opens a node of a hierarchy whose root is one of the folders above. */
async function openBelowRoot(
  store: ReadableStore,
  path: string,
  options: OpenZarrOptions,
): Promise<ZarrArray | ZarrGroup | undefined> {
  const parts = path.split("/").filter((part) => part !== "");
  for (let depth = parts.length - 1; depth >= 0; depth--) {
    const base = parts.slice(0, depth).join("/");
    const document = await readDocument(store, joinKey(base, DOCUMENT), options.signal);
    if (document === undefined || !isEntryDocument(document)) continue;
    return openHierarchy(store, base, document, parts.slice(depth).join("/"), options);
  }
  return undefined;
}

async function openHierarchy(
  store: ReadableStore,
  base: string,
  entry: JsonValue,
  path: string,
  options: OpenZarrOptions,
): Promise<ZarrArray | ZarrGroup> {
  const { openInHierarchy } = await import("./hierarchy.ts");
  const { signal, customCodecs: codecs } = options;
  const read = (key: string): Promise<JsonValue | undefined> => readDocument(store, key, signal);
  const openOne = (model: ArrayModel): Promise<ZarrArray> => openModel(store, model, options);
  return openInHierarchy({ store, base, entry, codecs, signal, read, openModel: openOne }, path);
}

/** Subfolders that have one of the documents. */
async function* foldersWith(
  store: ReadableStore,
  folder: string,
  documents: readonly string[],
  signal: AbortSignal | undefined,
): AsyncGenerator<string> {
  for await (const { name, kind } of store.list(folder, { signal })) {
    if (kind !== "folder") continue;
    if (await hasAny(store, joinKey(folder, name), documents, signal)) yield name;
  }
}

/** True if a folder has one of the documents, or if that cannot be determined: opening it then reports the reason. */
async function hasAny(
  store: ReadableStore,
  folder: string,
  documents: readonly string[],
  signal: AbortSignal | undefined,
): Promise<boolean> {
  try {
    for (const document of documents) {
      const key = joinKey(folder, document);
      // The version in the result of `stat` can cost a request.
      const found = await (store.sizeOf?.(key, { signal }) ?? store.stat(key, { signal }));
      if (found !== undefined) return true;
    }
  } catch (error) {
    if (!isSuperchunkError(error)) throw error;
    return true;
  }
  return false;
}
