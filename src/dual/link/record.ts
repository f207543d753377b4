/**
 * The record of a link: what the data files were before, so that it can be undone to the last byte, and completed where
 * it was broken off. It is durable before the first byte changes, and goes last. @see FORMAT.md [FL-04]
 */
import { SuperchunkError } from "../../errors.ts";
import { formatDType, parseDType } from "../../format/dtype.ts";
import { parseJson, stringifyJson } from "../../format/json.ts";
import { LINK_RECORD } from "../../format/naming.ts";
import type { JsonObject, JsonValue } from "../../format/types.ts";
import { checkKey } from "../../store/key.ts";
import type { ReadableStore, StoreOptions } from "../../store/types.ts";
import { showJson } from "../../zarr/document/metadata-fields.ts";
import type { LinkKind, LinkOptions } from "./types.ts";

export { LINK_RECORD };

const VERSION = 1;
/** What a link makes: `zarr.json` of a node, and shards below its `c`. */
const DOCUMENT = /^(?:.+\/)?zarr\.json$/;
const SHARD = /^(?<node>.+\/)?c(?:\/(?:0|[1-9]\d*))+$/;
const KINDS: readonly string[] = ["hard", "symbolic", "copy"] satisfies readonly LinkKind[];

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
  /** crc32c of each document by its key: what it was when it was linked. */
  readonly sums: ReadonlyMap<string, number>;
  /** What was asked beside the kind, so that a repair asks the same. */
  readonly options: RecordedOptions;
  /** Keys of folders that linking makes, outer ones first; `""` is the target itself. */
  readonly folders: readonly string[];
}

/** The record as bytes. */
export function encodeLinkRecord(record: LinkRecord): Uint8Array {
  const { kind, data, archive, files, documents, sums, options, folders } = record;
  const json: JsonObject = {
    superchunk_link: VERSION,
    kind,
    data,
    archive,
    files: files.map(({ path, link, size, mode, tail, crc32c }) => ({
      path,
      link,
      size,
      mode: mode.toString(8),
      tail,
      crc32c: hexOf(crc32c),
    })),
    documents: [...documents],
    sums: Object.fromEntries([...sums].map(([key, sum]) => [key, hexOf(sum)])),
    options: {
      ...(options.dtype === undefined ? {} : { dtype: formatDType(options.dtype) }),
      ...(options.shape === undefined ? {} : { shape: [...options.shape] }),
      ...(options.dimensionNames === undefined ? {} : { dimension_names: [...options.dimensionNames] }),
    },
    folders: [...folders],
  };
  return new TextEncoder().encode(`${stringifyJson(json, { indent: 2 })}\n`);
}

function hexOf(sum: number): string {
  return sum.toString(16).padStart(8, "0");
}

/**
 * An object that is absent more often than not: it is looked for first, since failing to open a file takes as long as looking
 * for it ten times.
 */
export async function getIfThere(
  target: ReadableStore,
  key: string,
  options: StoreOptions,
): Promise<Uint8Array | undefined> {
  return (await target.stat(key, options)) === undefined ? undefined : target.get(key, options);
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
  const path = target.describe(LINK_RECORD);
  const json = objectOf(parseJson(bytes, path), "the record", path);
  if (json["superchunk_link"] !== VERSION) {
    throw new SuperchunkError(
      "UNSUPPORTED",
      `the record has version ${String(json["superchunk_link"])}; this version of superchunk knows ${VERSION}. Look for a newer superchunk`,
      { path, field: "superchunk_link", expected: VERSION, found: json["superchunk_link"] },
    );
  }
  const kind = textOf(json["kind"], "kind", path);
  if (!KINDS.includes(kind)) throw bad(path, "kind", KINDS.join(", "), kind);
  const documents = listOf(json["documents"], "documents", path).map((key) => documentOf(key, path));
  return {
    kind: kind as LinkKind,
    data: textOf(json["data"], "data", path),
    archive: textOf(json["archive"], "archive", path),
    files: listOf(json["files"], "files", path).map((file) =>
      parseFile(objectOf(file, "files", path), documents, path),
    ),
    documents,
    sums: new Map(
      Object.entries(objectOf(json["sums"] ?? {}, "sums", path)).map(([key, sum]) => [
        key,
        numberOf(sum, 16, 0xffff_ffff, "sums", path),
      ]),
    ),
    options: parseOptions(objectOf(json["options"], "options", path), path),
    folders: listOf(json["folders"], "folders", path).map((key) =>
      key === "" ? "" : keyOf(key, "folders", path),
    ),
  };
}

function parseOptions(options: JsonObject, path: string): RecordedOptions {
  const { dtype, shape, dimension_names: names } = options;
  return {
    ...(dtype === undefined ? {} : { dtype: parseDType(dtype, path) }),
    ...(shape === undefined
      ? {}
      : { shape: listOf(shape, "options.shape", path).map((n) => countOf(n, "options.shape", path)) }),
    ...(names === undefined
      ? {}
      : {
          dimensionNames: listOf(names, "options.dimension_names", path).map((name) =>
            name === null ? null : textOf(name, "options.dimension_names", path),
          ),
        }),
  };
}

function parseFile(file: JsonObject, documents: readonly string[], path: string): RecordedFile {
  return {
    path: keyOf(file["path"], "files.path", path),
    link: shardOf(file["link"], documents, path),
    size: countOf(file["size"], "files.size", path),
    mode: numberOf(file["mode"], 8, 0o7777, "files.mode", path),
    tail: countOf(file["tail"], "files.tail", path),
    crc32c: numberOf(file["crc32c"], 16, 0xffff_ffff, "files.crc32c", path),
  };
}

function objectOf(value: JsonValue | undefined, field: string, path: string): JsonObject {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as JsonObject;
  throw bad(path, field, "an object", value);
}

function listOf(value: JsonValue | undefined, field: string, path: string): readonly JsonValue[] {
  if (Array.isArray(value)) return value;
  throw bad(path, field, "a list", value);
}

function textOf(value: JsonValue | undefined, field: string, path: string): string {
  if (typeof value === "string") return value;
  throw bad(path, field, "a string", value);
}

function keyOf(value: JsonValue | undefined, field: string, path: string): string {
  const key = textOf(value, field, path);
  checkKey(key);
  return key;
}

/** Undoing removes what lies there: it must be a key that only links give. */
function documentOf(value: JsonValue | undefined, path: string): string {
  const key = keyOf(value, "documents", path);
  if (DOCUMENT.test(key)) return key;
  throw bad(path, "documents", "keys of zarr.json", key);
}

/** As {@link documentOf}: a shard of a node whose document is the link's too. */
function shardOf(value: JsonValue | undefined, documents: readonly string[], path: string): string {
  const key = keyOf(value, "files.link", path);
  const match = SHARD.exec(key);
  if (match !== null && documents.includes(`${match.groups?.["node"] ?? ""}zarr.json`)) return key;
  throw bad(path, "files.link", "the key of a shard, c/0 for example, of an array in documents", key);
}

function countOf(value: JsonValue | undefined, field: string, path: string): number {
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0) return value;
  throw bad(path, field, "an integer from 0", value);
}

function numberOf(
  value: JsonValue | undefined,
  radix: 8 | 16,
  most: number,
  field: string,
  path: string,
): number {
  const text = textOf(value, field, path);
  const digits = radix === 8 ? /^[0-7]{1,4}$/ : /^[0-9a-f]{8}$/;
  const number = Number.parseInt(text, radix);
  if (digits.test(text) && number <= most) return number;
  throw bad(path, field, radix === 8 ? "an octal mode" : "8 hexadecimal digits", text);
}

function bad(path: string, field: string, expected: string, found: unknown): SuperchunkError {
  return new SuperchunkError(
    "BAD_FIELD",
    `${field} in the record of the link is ${showJson(found)}; expected ${expected}. Nothing was changed`,
    { path, field, expected, found },
  );
}
