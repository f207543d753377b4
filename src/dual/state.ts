/**
 * What a folder with a Zarr view stores about it: the record of a link, and the state of a live view.
 *
 * The record (`superchunk-link.json`) describes the data files before the link, so that a link can be undone to the last byte,
 * or completed. It is durable before the first byte changes, and is removed last. The state (`meta/zarr`) holds what a live
 * view must know of the past. Knows both forms as JSON; must not know when they are written. @see FORMAT.md [FL-04] [FY-06]
 */

import { ZARR_FEATURE } from "../archive/places/layout-files.ts";
import { hex32 } from "../bytes/arrays.ts";
import { SuperchunkError, valueOr } from "../errors.ts";
import { formatDType, parseDType } from "../format/dtype.ts";
import { MAX_DIMENSIONS, parseStorage } from "../format/folder.ts";
import { isObject, parseJson, stringifyJson } from "../format/json.ts";
import type { StoredLayout } from "../format/layout.ts";
import { LINK_RECORD, LIVE_STATE } from "../format/naming.ts";
import type { JsonObject, JsonValue } from "../format/types.ts";
import { checkKey, joinKey } from "../store/key.ts";
import type { ReadableStore, StoreOptions } from "../store/types.ts";
import {
  asInteger,
  asIntegers,
  asList,
  asObject,
  asText,
  badMember,
  below,
  type FieldPlace,
  showJson,
} from "../zarr/document/metadata-fields.ts";
import type { FilePlace, LinkKind, LinkOptions, ShardForm } from "./types.ts";

/** The only version so far, of both forms. */
const VERSION = 1;
/** What a link makes: the `zarr.json` of a node, and shards below its `c`. */
const DOCUMENT = /^(?:.+\/)?zarr\.json$/;
const SHARD = /^(?<node>.+\/)?c(?:\/(?:0|[1-9]\d*))+$/;
const KINDS = ["hard", "symbolic", "copy"] as const satisfies readonly LinkKind[];
/** Folders of the archive itself, which cannot contain nodes. */
const ARCHIVES_OWN: readonly string[] = ["data", "meta"];

/** One data file, before and after linking. Sizes in bytes. */
export interface RecordedFile {
  /** Key in the archive's store. */
  readonly path: string;
  /** Key of the shard, in the target. */
  readonly link: string;
  /** Size of the file before linking. */
  readonly size: number;
  readonly mode: number;
  /** Size and crc32c of the added bytes. */
  readonly tail: number;
  readonly crc32c: number;
}

/** The options that determine the Zarr documents. */
export type RecordedOptions = Pick<LinkOptions, "dtype" | "shape" | "dimensionNames">;

export interface LinkRecord {
  readonly kind: LinkKind;
  /** Path from the target to the root of the archive's store. */
  readonly data: string;
  readonly archive: string;
  readonly files: readonly RecordedFile[];
  /** Keys of the documents, in publication order. */
  readonly documents: readonly string[];
  /** crc32c of each document when it was linked, by key. The first records have none. */
  readonly sums: ReadonlyMap<string, number>;
  /** The options besides the kind, so that a repair uses the same. */
  readonly options: RecordedOptions;
  /** Keys of the folders that linking made, outer ones first; `""` is the target itself. */
  readonly folders: readonly string[];
}

/** What a live view must know of the past. */
export interface LiveState {
  /** No shard that is now a data file was ever read past this byte before it became one. */
  readonly high: number;
  /** The commit that all shards and documents show; undefined while a writer is at work, or if one was killed. */
  readonly published: Pick<StoredLayout, "id" | "generation"> | undefined;
  /** Every form that shards under these keys may have had, if there was more than one. */
  readonly forms: readonly ShardForm[];
}

export function encodeLinkRecord({ files, sums, options, ...record }: LinkRecord): Uint8Array {
  const { kind, data, archive, documents, folders } = record;
  const { dtype, shape, dimensionNames } = options;
  const json: JsonObject = {
    superchunk_link: VERSION,
    kind,
    data,
    archive,
    files: files.map(({ mode, crc32c, ...file }) => {
      const { path, link, size, tail } = file;
      return { path, link, size, mode: mode.toString(8), tail, crc32c: hex32(crc32c) };
    }),
    documents: [...documents],
    sums: Object.fromEntries([...sums].map(([key, sum]) => [key, hex32(sum)])),
    options: {
      ...(dtype === undefined ? {} : { dtype: formatDType(dtype) }),
      ...(shape === undefined ? {} : { shape: [...shape] }),
      ...(dimensionNames === undefined ? {} : { dimension_names: [...dimensionNames] }),
    },
    folders: [...folders],
  };
  return new TextEncoder().encode(`${stringifyJson(json, { indent: 2 })}\n`);
}

export function encodeLiveState({ high, published, forms }: LiveState): Uint8Array {
  const json: JsonObject = {
    superchunk_mirror: VERSION,
    high,
    ...(published === undefined ? {} : { generation: published.generation, id: published.id }),
    ...(forms.length === 0 ? {} : { forms: forms.map((form): JsonObject => ({ ...form })) }),
  };
  return new TextEncoder().encode(`${stringifyJson(json)}\n`);
}

/** Gets an object that is usually absent. It calls `stat` first, because failing to open a file takes ten times as long. */
export async function getIfThere(
  store: ReadableStore,
  key: string,
  options: StoreOptions,
): Promise<Uint8Array | undefined> {
  return (await store.stat(key, options)) === undefined ? undefined : store.get(key, options);
}

/**
 * The record of a link; undefined if nothing is linked.
 * @throws BAD_FIELD if it is damaged: then nothing must be cut off because of it; UNSUPPORTED for a newer version
 */
export async function readLinkRecord(
  target: ReadableStore,
  signal?: AbortSignal,
): Promise<LinkRecord | undefined> {
  const bytes = await getIfThere(target, LINK_RECORD, { signal });
  if (bytes === undefined) return undefined;
  const file: StateFile = { path: target.describe(LINK_RECORD), advice: "Nothing was changed" };
  const json = versioned(bytes, "superchunk_link", file);
  const place = (field: string): FieldPlace => ({ ...file, field });
  const list = (name: string): readonly JsonValue[] => asList(json[name], place(name));
  const kind = KINDS.find((each) => each === json["kind"]);
  if (kind === undefined) throw badMember(place("kind"), KINDS.join(", "), json["kind"]);
  const documents = list("documents").map((value) => {
    // Undoing removes these objects, so only keys that links create are accepted.
    const key = asKey(value, place("documents"));
    if (DOCUMENT.test(key)) return key;
    throw badMember(place("documents"), "keys of zarr.json", key);
  });
  const sums = Object.entries(asObject(json["sums"] ?? {}, place("sums")));
  return {
    kind,
    data: asText(json["data"], place("data")),
    archive: asText(json["archive"], place("archive")),
    files: list("files").map((each) => parseFile(asObject(each, place("files")), documents, file)),
    documents,
    sums: new Map(sums.map(([key, sum]) => [key, asSum(sum, place("sums"))])),
    options: parseOptions(asObject(json["options"], place("options")), place("options")),
    folders: list("folders").map((key) => (key === "" ? "" : asKey(key, place("folders")))),
  };
}

function parseFile(json: JsonObject, documents: readonly string[], file: StateFile): RecordedFile {
  const place = (name: string): FieldPlace => ({ ...file, field: `files.${name}` });
  const link = asKey(json["link"], place("link"));
  const match = SHARD.exec(link);
  if (match === null || !documents.includes(`${match.groups?.["node"] ?? ""}zarr.json`))
    throw badMember(place("link"), "the key of a shard, such as c/0, of an array in documents", link);
  const mode = asText(json["mode"], place("mode"));
  if (!/^[0-7]{1,4}$/.test(mode)) throw badMember(place("mode"), "an octal mode", mode);
  return {
    path: asKey(json["path"], place("path")),
    link,
    size: asInteger(json["size"], 0, place("size")),
    mode: Number.parseInt(mode, 8),
    tail: asInteger(json["tail"], 0, place("tail")),
    crc32c: asSum(json["crc32c"], place("crc32c")),
  };
}

function parseOptions(options: JsonObject, place: FieldPlace): RecordedOptions {
  const { dtype, shape, dimension_names: names } = options;
  const at = below(place, "dimension_names");
  return {
    ...(dtype === undefined ? {} : { dtype: parseDType(dtype, place.path) }),
    ...(shape === undefined ? {} : { shape: asIntegers(shape, 0, below(place, "shape")) }),
    ...(names === undefined
      ? {}
      : { dimensionNames: asList(names, at).map((name) => (name === null ? null : asText(name, at))) }),
  };
}

/**
 * The state that earlier writers left; undefined if there is none.
 * @throws BAD_FIELD if it is damaged; UNSUPPORTED for a newer version
 */
export async function readLiveState(store: ReadableStore, path: string): Promise<LiveState | undefined> {
  const key = joinKey(path, LIVE_STATE);
  const bytes = await store.get(key);
  if (bytes === undefined) return undefined;
  const file: StateFile = {
    path: store.describe(key),
    advice: 'The file is damaged; run "superchunk unlink" and "superchunk link"',
  };
  const json = versioned(bytes, "superchunk_mirror", file);
  const place = (field: string): FieldPlace => ({ ...file, field });
  const count = (name: string): number => asInteger(json[name], 0, place(name));
  const high = count("high");
  const generation = json["generation"] === undefined ? undefined : count("generation");
  const id = json["id"] === undefined ? undefined : asText(json["id"], place("id"));
  const { forms = [] } = json;
  if (!Array.isArray(forms) || !forms.every(isForm))
    throw badMember(place("forms"), "a list of node, dimensions, capacity, chunkBytes and item", forms);
  const published = generation === undefined || id === undefined ? undefined : { id, generation };
  return { high, published, forms };
}

/** True if all shards and documents show this commit. A repaired array may reuse generation numbers, with another id. */
export function showsCommit({ published }: LiveState, { id, generation }: StoredLayout): boolean {
  return published?.id === id && published.generation === generation;
}

function isForm(value: JsonValue): value is JsonObject & ShardForm {
  if (!isObject(value)) return false;
  const { node, dimensions, capacity, chunkBytes, item } = value;
  return (
    typeof node === "string" &&
    isNodePath(node) &&
    typeof item === "string" &&
    isCount(dimensions) &&
    dimensions <= MAX_DIMENSIONS &&
    isCount(capacity) &&
    isCount(chunkBytes)
  );
}

/** True for the path of a node that a live view may use: the archive itself, or a path below it outside its own folders. */
export function isNodePath(path: string): boolean {
  if (path === "") return true;
  const parts = path.split("/");
  return !parts.some((part) => ["", ".", ".."].includes(part)) && !ARCHIVES_OWN.includes(parts[0] ?? "");
}

/**
 * True if the array in a store's root says that it keeps itself a Zarr array. Unreadable metadata give false: opening the array reports
 * the error. [FY-01]
 */
export async function isLive(store: ReadableStore): Promise<boolean> {
  const key = "meta/storage";
  const bytes = await store.get(key);
  if (bytes === undefined) return false;
  // Most arrays are plain. JSON without this string, and without escapes, need not be parsed.
  const text = new TextDecoder().decode(bytes);
  if (!text.includes(ZARR_FEATURE) && !text.includes("\\")) return false;
  return valueOr(
    false,
    "any",
    () => parseStorage(bytes, store.describe(key)).superchunk?.writeFeatures.includes(ZARR_FEATURE) === true,
  );
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

type StateFile = Pick<FieldPlace, "path" | "advice">;

/** Parses the bytes as an object of a known version. */
function versioned(bytes: Uint8Array, field: string, file: StateFile): JsonObject {
  const { path, advice } = file;
  const json = asObject(parseJson(bytes, path), { ...file, field: "the file" });
  const version = json[field];
  if (version === VERSION) return json;
  throw new SuperchunkError(
    typeof version === "number" && version > VERSION ? "UNSUPPORTED" : "BAD_FIELD",
    `${field} is ${showJson(version)}; this version of superchunk knows ${VERSION}. Look for a newer superchunk. ${advice}`,
    { path, field, expected: VERSION, found: version },
  );
}

/** A store key. Also throws `UNSAFE_PATH`. */
function asKey(value: JsonValue | undefined, place: FieldPlace): string {
  const key = asText(value, place);
  checkKey(key);
  return key;
}

function asSum(value: JsonValue | undefined, place: FieldPlace): number {
  const text = asText(value, place);
  if (/^[0-9a-f]{8}$/.test(text)) return Number.parseInt(text, 16);
  throw badMember(place, "8 hexadecimal digits", text);
}

/** Where a recorded file is as data, and where as a shard. */
export function sidesOf({ path, link }: Pick<RecordedFile, "path" | "link">): {
  readonly data: FilePlace;
  readonly shard: FilePlace;
} {
  return { data: { side: "data", key: path }, shard: { side: "zarr", key: link } };
}
