/**
 * What a folder with a Zarr view remembers on disk: the record of a link, and the state of a live view.
 *
 * The record (`superchunk-link.json`) says what the data files were, so that a link can be undone to the last byte, or
 * completed. It is durable before the first byte changes, and goes last. The state (`meta/zarr`) says what a live view must
 * know of the past. Knows both forms as JSON; must not know when they are written. @see FORMAT.md [FL-04] [FY-06]
 */
import { ZARR_FEATURE } from "../archive/places/generation.ts";
import { isSuperchunkError, SuperchunkError } from "../errors.ts";
import { formatDType, parseDType } from "../format/dtype.ts";
import { MAX_DIMENSIONS, parseStorage } from "../format/folder.ts";
import { parseJson, stringifyJson } from "../format/json.ts";
import type { StoredLayout } from "../format/layout.ts";
import { LINK_RECORD } from "../format/naming.ts";
import type { JsonObject, JsonValue } from "../format/types.ts";
import { checkKey, joinKey } from "../store/key.ts";
import type { ReadableStore, StoreOptions } from "../store/types.ts";
import { isObject, showJson } from "../zarr/document/metadata-fields.ts";
import type { LinkKind, LinkOptions, ShardForm } from "./types.ts";

/** Name of a live view's state, in the array's folder. */
export const LIVE_STATE = "meta/zarr";
/** Both forms have had this version only. */
const VERSION = 1;
/** What a link makes: `zarr.json` of a node, and shards below its `c`. */
const DOCUMENT = /^(?:.+\/)?zarr\.json$/;
const SHARD = /^(?<node>.+\/)?c(?:\/(?:0|[1-9]\d*))+$/;
const KINDS = ["hard", "symbolic", "copy"] as const satisfies readonly LinkKind[];
/** Folders of the archive itself, in which no node lies. */
const ARCHIVES_OWN: readonly string[] = ["data", "meta"];

/** One data file, as it was and as it becomes. Sizes in bytes. */
export interface RecordedFile {
  /** Key in the archive's store. */
  readonly path: string;
  /** Key of the shard, in the target. */
  readonly link: string;
  /** Of the file as it was. */
  readonly size: number;
  readonly mode: number;
  /** Of what is added, and its crc32c. */
  readonly tail: number;
  readonly crc32c: number;
}

/** The options that decide what the Zarr array says. */
export type RecordedOptions = Pick<LinkOptions, "dtype" | "shape" | "dimensionNames">;

/** A link's record. */
export interface LinkRecord {
  readonly kind: LinkKind;
  /** Path from the target to the root of the archive's store. */
  readonly data: string;
  /** Key of the archive in its store. */
  readonly archive: string;
  readonly files: readonly RecordedFile[];
  /** Keys of the documents, in the order in which they are published. */
  readonly documents: readonly string[];
  /** crc32c of each document by its key: what it was when it was linked. The first records had none. */
  readonly sums: ReadonlyMap<string, number>;
  /** What was asked beside the kind, so that a repair asks the same. */
  readonly options: RecordedOptions;
  /** Keys of folders that linking makes, outer ones first; `""` is the target itself. */
  readonly folders: readonly string[];
}

/** What a live view must know of the past. */
export interface LiveState {
  /** No shard that is a data file now was ever read past this byte when it was not. */
  readonly high: number;
  /** The commit that all shards and documents show; undefined while a writer is at work, or where one was killed. */
  readonly published: Pick<StoredLayout, "id" | "generation"> | undefined;
  /** Every form that shards may have had under these keys, once there was more than one. */
  readonly forms: readonly ShardForm[];
}

/** The record as bytes. */
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
      return { path, link, size, mode: mode.toString(8), tail, crc32c: hexOf(crc32c) };
    }),
    documents: [...documents],
    sums: Object.fromEntries([...sums].map(([key, sum]) => [key, hexOf(sum)])),
    options: {
      ...(dtype === undefined ? {} : { dtype: formatDType(dtype) }),
      ...(shape === undefined ? {} : { shape: [...shape] }),
      ...(dimensionNames === undefined ? {} : { dimension_names: [...dimensionNames] }),
    },
    folders: [...folders],
  };
  return new TextEncoder().encode(`${stringifyJson(json, { indent: 2 })}\n`);
}

function hexOf(sum: number): string {
  return sum.toString(16).padStart(8, "0");
}

/** The state as bytes. */
export function encodeLiveState({ high, published, forms }: LiveState): Uint8Array {
  const json: JsonObject = {
    superchunk_mirror: VERSION,
    high,
    ...(published === undefined ? {} : { generation: published.generation, id: published.id }),
    ...(forms.length === 0 ? {} : { forms: forms.map((form): JsonObject => ({ ...form })) }),
  };
  return new TextEncoder().encode(`${stringifyJson(json)}\n`);
}

/**
 * An object that is absent more often than not: it is looked for first, since failing to open a file takes as long as looking
 * for it ten times.
 */
export async function getIfThere(
  store: ReadableStore,
  key: string,
  options: StoreOptions,
): Promise<Uint8Array | undefined> {
  return (await store.stat(key, options)) === undefined ? undefined : store.get(key, options);
}

/**
 * The record of a link, or undefined where nothing is linked.
 *
 * @throws BAD_FIELD where it is damaged: nothing must be cut off on its word; UNSUPPORTED for a newer version
 */
export async function readLinkRecord(
  target: ReadableStore,
  signal?: AbortSignal,
): Promise<LinkRecord | undefined> {
  const bytes = await getIfThere(target, LINK_RECORD, { signal });
  if (bytes === undefined) return undefined;
  const fields = new Fields(target.describe(LINK_RECORD), "Nothing was changed");
  const json = fields.versioned(bytes, "superchunk_link");
  const kind = KINDS.find((each) => each === json["kind"]);
  if (kind === undefined) throw fields.bad("kind", json["kind"], KINDS.join(", "));
  const documents = fields.list(json["documents"], "documents").map((value) => {
    // Undoing removes what lies there: it must be a key that only links give.
    const key = fields.key(value, "documents");
    if (DOCUMENT.test(key)) return key;
    throw fields.bad("documents", key, "keys of zarr.json");
  });
  const sums = fields.object(json["sums"] ?? {}, "sums");
  return {
    kind,
    data: fields.text(json["data"], "data"),
    archive: fields.text(json["archive"], "archive"),
    files: fields.list(json["files"], "files").map((file) => parseFile(file, documents, fields)),
    documents,
    sums: new Map(Object.entries(sums).map(([key, sum]) => [key, fields.sum(sum, "sums")])),
    options: parseOptions(fields.object(json["options"], "options"), fields),
    folders: fields
      .list(json["folders"], "folders")
      .map((key) => (key === "" ? "" : fields.key(key, "folders"))),
  };
}

function parseFile(value: JsonValue, documents: readonly string[], fields: Fields): RecordedFile {
  const file = fields.object(value, "files");
  const link = fields.key(file["link"], "files.link");
  const match = SHARD.exec(link);
  if (match === null || !documents.includes(`${match.groups?.["node"] ?? ""}zarr.json`)) {
    throw fields.bad("files.link", link, "the key of a shard, c/0 for example, of an array in documents");
  }
  const mode = fields.text(file["mode"], "files.mode");
  if (!/^[0-7]{1,4}$/.test(mode)) throw fields.bad("files.mode", mode, "an octal mode");
  return {
    path: fields.key(file["path"], "files.path"),
    link,
    size: fields.count(file["size"], "files.size"),
    mode: Number.parseInt(mode, 8),
    tail: fields.count(file["tail"], "files.tail"),
    crc32c: fields.sum(file["crc32c"], "files.crc32c"),
  };
}

function parseOptions(options: JsonObject, fields: Fields): RecordedOptions {
  const { dtype, shape, dimension_names: names } = options;
  const list = (value: JsonValue, name: string) => fields.list(value, `options.${name}`);
  return {
    ...(dtype === undefined ? {} : { dtype: parseDType(dtype, fields.path) }),
    ...(shape === undefined
      ? {}
      : { shape: list(shape, "shape").map((n) => fields.count(n, "options.shape")) }),
    ...(names === undefined
      ? {}
      : {
          dimensionNames: list(names, "dimension_names").map((name) =>
            name === null ? null : fields.text(name, "options.dimension_names"),
          ),
        }),
  };
}

/**
 * The state that earlier writers left; undefined where there is none.
 *
 * @throws BAD_FIELD where it is damaged; UNSUPPORTED for a newer version
 */
export async function readLiveState(store: ReadableStore, path: string): Promise<LiveState | undefined> {
  const key = joinKey(path, LIVE_STATE);
  const bytes = await store.get(key);
  if (bytes === undefined) return undefined;
  const fields = new Fields(
    store.describe(key),
    'The file is damaged; run "superchunk unlink" and "superchunk link"',
  );
  const json = fields.versioned(bytes, "superchunk_mirror");
  const high = fields.count(json["high"], "high");
  const generation =
    json["generation"] === undefined ? undefined : fields.count(json["generation"], "generation");
  const id = json["id"] === undefined ? undefined : fields.text(json["id"], "id");
  const { forms = [] } = json;
  if (!Array.isArray(forms) || !forms.every(isForm))
    throw fields.bad("forms", forms, "a list of node, dimensions, capacity, chunkBytes and item");
  const published = generation === undefined || id === undefined ? undefined : { id, generation };
  return { high, published, forms };
}

/** True where all shards and documents show this commit. A repaired array may count generations again, under another id. */
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

/** True for the path of a node that a live view may show: the archive, or below it in no folder of its own. */
export function isNodePath(path: string): boolean {
  if (path === "") return true;
  const parts = path.split("/");
  return !parts.some((part) => ["", ".", ".."].includes(part)) && !ARCHIVES_OWN.includes(parts[0] ?? "");
}

/** True where an array says that it keeps itself a Zarr array. What cannot be read says so to the reader that opens it. [FY-01] */
export async function isLive(store: ReadableStore, path: string): Promise<boolean> {
  const key = joinKey(path, "meta/storage");
  const bytes = await store.get(key);
  if (bytes === undefined) return false;
  // Most arrays are plain: JSON that has no such string as it is, and escapes nothing, is not parsed.
  const text = new TextDecoder().decode(bytes);
  if (!text.includes(ZARR_FEATURE) && !text.includes("\\")) return false;
  try {
    return parseStorage(bytes, store.describe(key)).superchunk?.writeFeatures.includes(ZARR_FEATURE) === true;
  } catch (error) {
    if (isSuperchunkError(error)) return false;
    throw error;
  }
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

/** The members of a state file, typed; `advice` says what to do where one is damaged. */
class Fields {
  readonly path: string;
  readonly #advice: string;

  constructor(path: string, advice: string) {
    this.path = path;
    this.#advice = advice;
  }

  /** The object that the bytes are, of a version that is known. */
  versioned(bytes: Uint8Array, field: string): JsonObject {
    const json = parseJson(bytes, this.path);
    const version = isObject(json) ? json[field] : undefined;
    if (isObject(json) && version === VERSION) return json;
    throw new SuperchunkError(
      typeof version === "number" && version > VERSION ? "UNSUPPORTED" : "BAD_FIELD",
      `${field} is ${showJson(version)}; this version of superchunk knows ${VERSION}. Look for a newer superchunk. ${this.#advice}`,
      { path: this.path, field, expected: VERSION, found: version },
    );
  }

  object(value: JsonValue | undefined, field: string): JsonObject {
    if (isObject(value)) return value;
    throw this.bad(field, value, "an object");
  }

  list(value: JsonValue | undefined, field: string): readonly JsonValue[] {
    if (Array.isArray(value)) return value;
    throw this.bad(field, value, "a list");
  }

  text(value: JsonValue | undefined, field: string): string {
    if (typeof value === "string") return value;
    throw this.bad(field, value, "a string");
  }

  count(value: JsonValue | undefined, field: string): number {
    if (isCount(value)) return value;
    throw this.bad(field, value, "an integer from 0");
  }

  /** A key of a store. Throws `UNSAFE_PATH` too. */
  key(value: JsonValue | undefined, field: string): string {
    const key = this.text(value, field);
    checkKey(key);
    return key;
  }

  /** A crc32c. */
  sum(value: JsonValue | undefined, field: string): number {
    const text = this.text(value, field);
    if (/^[0-9a-f]{8}$/.test(text)) return Number.parseInt(text, 16);
    throw this.bad(field, text, "8 hexadecimal digits");
  }

  bad(field: string, found: unknown, expected: string): SuperchunkError {
    return new SuperchunkError(
      "BAD_FIELD",
      `${field} is ${showJson(found)}; expected ${expected}. ${this.#advice}`,
      { path: this.path, field, expected, found },
    );
  }
}
