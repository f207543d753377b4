/**
 * Reads sets of kerchunk references: finds the value of a key of the Zarr store.
 *
 * Knows both forms; must not know where objects are. Everything in a set is checked before it is used.
 */

import type { ColumnData } from "hyparquet";
import { addTo, at, elementsOf, isShape } from "../../bytes/arrays.ts";
import { decodeStreamSync, prepare } from "../../codec/index.ts";
import { isSuperchunkError, SuperchunkError } from "../../errors.ts";
import { joinKey } from "../../store/key.ts";
import { keepMade } from "../../store/pool.ts";
import type { ReadableStore, StoreOptions } from "../../store/types.ts";
import type { Guard } from "../containers/guard.ts";
import { chunkCounts, fromBase64 } from "./kerchunk-forms.ts";

/** A place in an object; without a length, the whole object. */
export interface StoredReference {
  readonly location: string;
  readonly offset: number;
  readonly length: number | undefined;
  readonly guard: Guard | undefined;
}

/** The value of a key: bytes, or a place. */
export type StoredValue = Uint8Array | StoredReference;

/** A set of references. */
export interface ReferenceIndex {
  find(key: string, options?: StoreOptions): Promise<StoredValue | undefined>;
  /** Locations of the objects, one for each reference. */
  locations(options?: StoreOptions): AsyncIterable<string>;
  /** All keys; absent if the set has no list of them. */
  keys?(): Iterable<string>;
}

/** Parsed text of a set in JSON. */
interface JsonSet {
  readonly version?: unknown;
  readonly refs?: unknown;
  readonly guards?: unknown;
  readonly templates?: unknown;
  readonly gen?: unknown;
}

/**
 * Parses a set in JSON: kerchunk's version 1, or the bare object of version 0. Throws `BAD_FIELD` for text that is neither,
 * `UNSUPPORTED` for templates, because a short template can expand to any number of references.
 */
export function parseKerchunkJson(text: string, path: string): ReferenceIndex {
  let set: JsonSet;
  try {
    set = JSON.parse(text) as JsonSet;
  } catch (cause) {
    throw new SuperchunkError("BAD_FIELD", "this is not JSON, so not a set of references", { path, cause });
  }
  if (!isObject(set)) throw bad(path, "refs", "the set of references is not an object", set);
  if (set.templates !== undefined || set.gen !== undefined)
    throw new SuperchunkError(
      "UNSUPPORTED",
      "references made with templates or generators are not read; write them out with fsspec first",
      { path, field: set.gen === undefined ? "templates" : "gen" },
    );
  const refs = set.refs === undefined ? set : set.refs;
  if (!isObject(refs)) throw bad(path, "refs", "refs is not an object", refs);
  if (set.refs !== undefined && set.version !== 1)
    throw new SuperchunkError("UNSUPPORTED", `references of version ${String(set.version)} are not read`, {
      path,
      field: "version",
      expected: 1,
      found: set.version,
    });
  // In a bare object, "guards" is a key of the store.
  const guards = set.refs === undefined ? undefined : set.guards;
  if (guards !== undefined && !isObject(guards)) throw bad(path, "guards", "guards is not an object", guards);
  return jsonIndex(refs, guards, path);
}

function jsonIndex(refs: Members, guards: Members | undefined, path: string): ReferenceIndex {
  const guardOf = (location: string): Guard | undefined => {
    if (guards === undefined || !Object.hasOwn(guards, location)) return undefined;
    const value = guards[location];
    if (!Array.isArray(value)) throw bad(path, "guards", "a guard is not a list", value);
    const [size, modified, etag] = value as readonly unknown[];
    return toGuard(size, modified, etag, path);
  };
  return {
    async find(key) {
      if (!Object.hasOwn(refs, key)) return undefined;
      const value = refs[key];
      if (typeof value === "string")
        return value.startsWith("base64:")
          ? fromBase64(value.slice(7), `${path}: ${key}`)
          : new TextEncoder().encode(value);
      if (isObject(value)) return new TextEncoder().encode(JSON.stringify(value));
      if (!Array.isArray(value) || (value.length !== 1 && value.length !== 3))
        throw bad(path, key, "a reference is neither text nor [url] nor [url, offset, length]", value);
      const [location, offset, length] = value as readonly unknown[];
      if (typeof location !== "string") throw bad(path, key, "a reference has no address", location);
      return {
        location,
        offset: count(offset ?? 0, path, key),
        length: length === undefined ? undefined : count(length, path, key),
        guard: guardOf(location),
      };
    },
    async *locations() {
      for (const value of Object.values(refs))
        if (Array.isArray(value) && typeof value[0] === "string") yield value[0];
    },
    keys: () => Object.keys(refs),
  };
}

type Members = Readonly<Record<string, unknown>>;

/** Decoded files of rows to keep. */
const KEPT_FILES = 8;

/** Opens a set in Parquet below `prefix` of a store. Throws `NOT_FOUND` if there is none, `BAD_FIELD`. */
export async function openKerchunkParquet(
  store: ReadableStore,
  prefix: string,
  options: StoreOptions = {},
): Promise<ReferenceIndex> {
  const key = joinKey(prefix, ".zmetadata");
  const path = store.describe(key);
  const bytes = await store.get(key, options);
  if (bytes === undefined)
    throw new SuperchunkError("NOT_FOUND", "no set of references was found here", { path });
  let document: { readonly metadata?: unknown; readonly record_size?: unknown } | null;
  try {
    document = JSON.parse(new TextDecoder().decode(bytes)) as typeof document;
  } catch (cause) {
    throw new SuperchunkError("BAD_FIELD", "this is not JSON", { path, cause });
  }
  const metadata = document?.metadata;
  if (!isObject(metadata)) throw bad(path, "metadata", "metadata is not an object", metadata);
  const recordSize = count(document?.record_size, path, "record_size");
  if (recordSize === 0) throw bad(path, "record_size", "record_size is 0", 0);
  return parquetIndex(store, prefix, metadata, recordSize);
}

function parquetIndex(
  store: ReadableStore,
  prefix: string,
  metadata: Members,
  recordSize: number,
): ReferenceIndex {
  const files = new Map<string, Promise<ParquetRows | undefined>>();
  const decodeFile = async (file: string, options?: StoreOptions): Promise<ParquetRows | undefined> => {
    const bytes = await store.get(file, options);
    return bytes && decodeParquetRows(bytes, store.describe(file));
  };
  /** True if the first file that is there has no guards, which superchunk's have. Known once one was found. */
  let hasNoGuards: boolean | undefined;
  const isOfKerchunk = async (options: StoreOptions): Promise<boolean> => {
    for (const file of filesOf(metadata, prefix, recordSize)) {
      if (hasNoGuards !== undefined) break;
      const rows = await decodeFile(file, options);
      if (rows !== undefined) hasNoGuards ??= rows.value("object_size", 0) === undefined;
    }
    return hasNoGuards === true;
  };
  /**
   * Undefined for a file without a reference, which kerchunk leaves out. The file is read without the caller's signal, because
   * other callers may wait for it.
   */
  const open = async (file: string, options: StoreOptions): Promise<ParquetRows | undefined> => {
    const rows = await keepMade(files, file, () => decodeFile(file), KEPT_FILES);
    if (rows !== undefined || (await isOfKerchunk(options))) return rows;
    files.delete(file);
    throw new SuperchunkError("INCOMPLETE", "this file of references is missing", {
      path: store.describe(file),
    });
  };
  /** The `.zmetadata` of a group, which is the only list of its members. */
  const consolidated = (group: string): Uint8Array | undefined => {
    const front = group === "" ? "" : `${group}/`;
    if (group !== "" && !Object.hasOwn(metadata, joinKey(group, ".zgroup"))) return undefined;
    const below = Object.entries(metadata).filter(([key]) => key.startsWith(front));
    const documents = Object.fromEntries(below.map(([key, document]) => [key.slice(front.length), document]));
    return new TextEncoder().encode(JSON.stringify({ zarr_consolidated_format: 1, metadata: documents }));
  };
  return {
    async find(key, options = {}) {
      if (Object.hasOwn(metadata, key)) return new TextEncoder().encode(JSON.stringify(metadata[key]));
      const slash = key.lastIndexOf("/");
      const node = key.slice(0, Math.max(0, slash));
      if (key === joinKey(node, ".zmetadata")) return consolidated(node);
      const array = metadata[joinKey(node, ".zarray")];
      if (!isObject(array)) return undefined;
      const row = rowOf(key.slice(slash + 1), array);
      if (row === undefined) return undefined;
      const number = Math.floor(row / recordSize);
      const file = joinKey(prefix, node, `refs.${number}.parq`);
      const path = store.describe(file);
      const rows = await open(file, options);
      if (rows === undefined) return undefined;
      const at = row % recordSize;
      if (at >= rows.count) throw bad(path, "rows", `has no row for chunk ${key}`, rows.count);
      const raw = rows.value("raw", at);
      if (raw instanceof Uint8Array) return raw.slice();
      const location = rows.value("path", at);
      if (location === null || location === undefined) return undefined;
      if (typeof location !== "string") throw bad(path, "path", "is not a string", location);
      const length = count(rows.value("size", at), path, "size");
      const guarded = rows.value("object_size", at);
      return {
        location,
        offset: count(rows.value("offset", at), path, "offset"),
        length: length === 0 ? undefined : length,
        guard:
          guarded !== undefined && Number(guarded) >= 0
            ? toGuard(guarded, orNull(rows.value("last_modified", at)), rows.value("etag", at), path)
            : undefined,
      };
    },
    async *locations(options = {}) {
      for (const file of filesOf(metadata, prefix, recordSize)) {
        const rows = await open(file, options);
        for (let at = 0; at < (rows?.count ?? 0); at++) {
          const location = rows?.value("path", at);
          if (typeof location === "string") yield location;
        }
      }
    },
  };
}

/** The files of a set, of which some may be absent. */
function* filesOf(metadata: Members, prefix: string, recordSize: number): Generator<string> {
  for (const [name, array] of Object.entries(metadata)) {
    if (!/(?:^|\/)\.zarray$/.test(name) || !isObject(array)) continue;
    // One row for each chunk.
    const rows = elementsOf(gridOf(array) ?? [0]);
    const node = name.slice(0, -".zarray".length);
    for (let number = 0; number * recordSize < rows; number++)
      yield joinKey(prefix, `${node}refs.${number}.parq`);
  }
}

/** Number of chunks of an array along each axis; undefined if its document does not say. */
function gridOf({ shape, chunks }: Members): readonly number[] | undefined {
  if (!isShape(shape) || !isShape(chunks) || shape.length !== chunks.length) return undefined;
  return chunkCounts({ shape, chunk_grid: { configuration: { chunk_shape: chunks } } });
}

/** Row of a chunk in the files of its array; undefined if the name is not a chunk of it. */
function rowOf(name: string, array: Members): number | undefined {
  const grid = gridOf(array);
  if (grid === undefined) return undefined;
  if (grid.length === 0) return name === "0" ? 0 : undefined;
  const parts = name.split(".");
  if (parts.length !== grid.length || !parts.every((part) => /^(?:0|[1-9]\d{0,15})$/.test(part)))
    return undefined;
  let row = 0;
  for (const [axis, part] of parts.entries()) {
    const n = at(grid, axis);
    if (Number(part) >= n) return undefined;
    row = row * n + Number(part);
  }
  return row;
}

function orNull(value: unknown): unknown {
  return value === undefined || Number(value) < 0 ? null : value;
}

function toGuard(size: unknown, modified: unknown, etag: unknown, path: string): Guard {
  return {
    size: count(size, path, "guards"),
    ...(modified === null || modified === undefined ? {} : { lastModified: count(modified, path, "guards") }),
    ...(typeof etag === "string" ? { etag } : {}),
  };
}

function count(value: unknown, path: string, field: string): number {
  const number = typeof value === "bigint" ? Number(value) : value;
  if (Number.isSafeInteger(number) && (number as number) >= 0) return number as number;
  throw bad(path, field, "a count is not a whole number, 0 or more", value);
}

function isObject<T>(value: T): value is T & Members {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

function bad(path: string, field: string, reason: string, found: unknown): SuperchunkError {
  return new SuperchunkError("BAD_FIELD", reason, {
    path,
    field,
    found: typeof found === "object" ? typeof found : found,
  });
}

export interface ParquetRows {
  readonly count: number;
  /** The value of a column in a row; undefined if there is none. */
  value(column: string, row: number): unknown;
}

/** Decodes a file. Throws `BAD_FIELD` for what is not Parquet. `path` is its name in messages. */
export async function decodeParquetRows(bytes: Uint8Array, path: string): Promise<ParquetRows> {
  const [{ parquetRead }] = await Promise.all([import("hyparquet"), prepare("zstd")]);
  const pieces: ColumnData[] = [];
  try {
    await parquetRead({
      file: bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) as ArrayBuffer,
      utf8: false,
      compressors: { ZSTD: (input, length) => decodeStreamSync("zstd", input, length) },
      onChunk: (piece) => void pieces.push(piece),
    });
  } catch (cause) {
    if (isSuperchunkError(cause)) throw cause;
    throw new SuperchunkError("BAD_FIELD", "this file of references is not Parquet that can be read", {
      path,
      cause,
    });
  }
  const byColumn = new Map<string, ColumnData[]>();
  for (const piece of pieces) addTo(byColumn, piece.columnName, piece);
  return {
    count: pieces.reduce((most, { rowEnd }) => Math.max(most, rowEnd), 0),
    value(column, row) {
      const piece = byColumn.get(column)?.find(({ rowStart, rowEnd }) => row >= rowStart && row < rowEnd);
      return piece?.columnData[row - piece.rowStart];
    },
  };
}
