/** The small JSON files of BLZ roots, carrays and tables: `meta/sizes`, `meta/storage`, `__rootdirs__`. @see FORMAT.md [FZ] [FA] [FT] */
import { defined, elementsOf } from "../bytes/arrays.ts";
import { SuperchunkError } from "../errors.ts";
import { parseDType } from "./dtype.ts";
import { CHECKSUM_NAMES } from "./header.ts";
import { badStored, isObject, parseJson } from "./json.ts";
import { isCount } from "./json-float.ts";
import { checkStoredName } from "./naming.ts";
import type { DType, JsonObject, JsonValue } from "./types.ts";

/** Most dimensions of an array, as in numpy 2. */
export const MAX_DIMENSIONS = 64;

/** Most columns of a table. [FT-07] */
export const MAX_COLUMNS = 10_000;
/** Most values in `meta/storage` and `__rootdirs__`: the largest dtype and the most columns have fewer. [FJ-05] */
const MAX_VALUES = 500_000;

/** Supported version of this library's additions. [FZ-09] */
const DECLARED_VERSION = 1;
/** Known read features, which a reader must know. [FZ-09] */
const READ_FEATURES: readonly string[] = ["layout", "places"];

/** `meta/sizes`. */
export interface StoredSizes {
  /** At least one dimension; the first counts rows. */
  readonly shape: readonly number[];
  /** Uncompressed bytes, as the writer counted them. */
  readonly nbytes?: number;
  /** Compressed bytes as the writer counted them. Unreliable, because programs count them differently. [FA-07] */
  readonly cbytes?: number;
  readonly raw: JsonObject;
}

/** How the writer asked Blosc to compress. A chunk's header says how it really is compressed. */
interface StoredCompression {
  readonly clevel?: number;
  readonly shuffle?: "noshuffle" | "shuffle" | "bitshuffle";
  readonly cname?: string;
}

/** This library's additions, declared in `meta/storage`. [FZ-09] */
interface SuperchunkDeclaration {
  readonly version: number;
  /** Chunks of a full superchunk. */
  readonly superchunklen: number;
  readonly readFeatures: readonly string[];
  readonly writeFeatures: readonly string[];
}

/** `meta/storage`. */
export interface StoredStorage {
  readonly dtype: DType;
  /** Rows of a chunk. */
  readonly chunklen: number;
  readonly expectedlen?: number;
  readonly cparams: StoredCompression;
  /** Default value; null if there is none. */
  readonly dflt: JsonValue;
  readonly superchunk?: SuperchunkDeclaration;
  readonly raw: JsonObject;
}

interface StoredRootdirs {
  readonly names: readonly string[];
  /** Folder of each name, relative to the table's folder. */
  readonly dirs: Readonly<Record<string, string>>;
}

/** Parses `meta/sizes`. Throws `BAD_FIELD`, and errors of {@link parseJson}. [FA-05] */
export function parseSizes(bytes: Uint8Array, path: string): StoredSizes {
  const raw = parseObject(bytes, path);
  const lengths = listOf(raw, "shape", path);
  const shape = lengths.map((length, i) => {
    if (isCount(lengths, i)) return length as number;
    throw badStored(path, "shape", "integers from 0 to 2^53 - 1", raw["shape"]);
  });
  if (shape.length === 0 || shape.length > MAX_DIMENSIONS)
    throw badStored(path, "shape", `1 to ${MAX_DIMENSIONS} dimensions`, shape.length);
  if (!Number.isSafeInteger(elementsOf(shape)))
    throw badStored(path, "shape", "at most 2^53 - 1 values", raw["shape"]);
  return {
    shape,
    ...defined({ nbytes: optionalCount(raw, "nbytes", path), cbytes: optionalCount(raw, "cbytes", path) }),
    raw,
  };
}

/**
 * Parses `meta/storage` of bcolz, blz and the BLZ document. Throws `BAD_FIELD`, `LIMIT`, and `UNSUPPORTED` for an unknown dtype
 * or declared read feature. [FA-06] [FZ-09]
 */
export function parseStorage(bytes: Uint8Array, path: string): StoredStorage {
  const raw = parseObject(bytes, path, MAX_VALUES);
  const stored = raw["dtype"];
  if (stored === undefined) throw badStored(path, "dtype", "a dtype", "nothing");
  const chunklen = countOf(raw["chunklen"], "chunklen", path);
  if (chunklen < 1) throw badStored(path, "chunklen", "at least 1", chunklen);
  return {
    dtype: parseDType(stored, path),
    chunklen,
    ...defined({ expectedlen: optionalCount(raw, "expectedlen", path) }),
    cparams: parseCompression(raw, path),
    dflt: raw["dflt"] ?? null,
    ...defined({ superchunk: parseDeclaration(raw["superchunk"], path) }),
    raw,
  };
}

/** `cparams` of bcolz and the BLZ document, `bparams` of blz. */
function parseCompression(raw: JsonObject, path: string): StoredCompression {
  const stored = raw["cparams"] ?? raw["bparams"] ?? {};
  if (!isObject(stored)) throw badStored(path, "cparams", "an object", stored);
  const { cname } = stored;
  if (cname !== undefined && cname !== null && typeof cname !== "string")
    throw badStored(path, "cname", "a string", cname);
  const clevel = optionalCount(stored, "clevel", path);
  if (clevel !== undefined && clevel > 9) throw badStored(path, "clevel", "0 to 9", clevel);
  const shuffle = parseShuffle(stored["shuffle"], path);
  return defined({ clevel, shuffle, cname: cname ?? undefined });
}

/** bcolz writes 0, 1 or 2; blz and the BLZ document false or true. */
function parseShuffle(stored: JsonValue | undefined, path: string): StoredCompression["shuffle"] {
  if (stored === undefined || stored === null) return undefined;
  if (stored === false || stored === 0) return "noshuffle";
  if (stored === true || stored === 1) return "shuffle";
  if (stored === 2) return "bitshuffle";
  throw badStored(path, "shuffle", "false, true, 0, 1 or 2", stored);
}

function parseDeclaration(stored: JsonValue | undefined, path: string): SuperchunkDeclaration | undefined {
  if (stored === undefined) return undefined;
  if (!isObject(stored)) throw badStored(path, "superchunk", "an object", stored);
  const version = countOf(stored["version"], "superchunk.version", path);
  if (version !== DECLARED_VERSION) throw newer(path, "superchunk.version", DECLARED_VERSION, version);
  const superchunklen = countOf(stored["superchunklen"], "superchunk.superchunklen", path);
  if (superchunklen < 1) throw badStored(path, "superchunk.superchunklen", "at least 1", superchunklen);
  checkDeclared(stored, path);
  const readFeatures = featuresOf(stored, "readFeatures", path);
  const unknown = readFeatures.find((feature) => !READ_FEATURES.includes(feature));
  if (unknown !== undefined) throw newer(path, "superchunk.readFeatures", READ_FEATURES, unknown);
  return { version, superchunklen, readFeatures, writeFeatures: featuresOf(stored, "writeFeatures", path) };
}

/** Checks the members that writers need, if present. */
function checkDeclared(stored: JsonObject, path: string): void {
  const { checksum, columns } = stored;
  if (checksum !== undefined && !CHECKSUM_NAMES.some((name) => name === checksum))
    throw badStored(path, "checksum", `one of ${CHECKSUM_NAMES.join(", ")}`, checksum);
  if (columns !== undefined && typeof columns !== "boolean")
    throw badStored(path, "superchunk.columns", "true or false", columns);
  optionalCount(stored, "revision", path);
}

/** The error for an array that needs a newer version. */
function newer(path: string, field: string, expected: unknown, found: unknown): SuperchunkError {
  return new SuperchunkError(
    "UNSUPPORTED",
    `${field} has ${JSON.stringify(found)}, which this version of superchunk cannot read. Look for a newer superchunk`,
    { path, field, expected, found },
  );
}

function featuresOf(stored: JsonObject, key: string, path: string): string[] {
  const list = stored[key];
  if (list === undefined) return [];
  if (Array.isArray(list) && list.every((feature): feature is string => typeof feature === "string"))
    return list;
  throw badStored(path, `superchunk.${key}`, "a list of strings", list);
}

/**
 * Parses `__rootdirs__`. Throws `UNSAFE_PATH` for names and folders outside the table, `BAD_FIELD` for duplicates, `LIMIT` for
 * too many columns. [FT-01] [FT-02] [FT-07]
 */
export function parseRootdirs(bytes: Uint8Array, path: string): StoredRootdirs {
  const raw = parseObject(bytes, path, MAX_VALUES);
  const stored = raw["dirs"] ?? {};
  if (!isObject(stored)) throw badStored(path, "dirs", "an object", stored);
  const names: string[] = [];
  const dirs: Record<string, string> = Object.create(null);
  const folders = new Set<string>();
  const given = listOf(raw, "names", path);
  if (given.length > MAX_COLUMNS) throw tooManyColumns(path, given.length);
  for (const name of given) {
    if (typeof name !== "string") throw badStored(path, "names", "a list of strings", name);
    checkStoredName(name, path, "names");
    if (Object.hasOwn(dirs, name)) throw badStored(path, "names", "names that differ", name);
    const dir = Object.hasOwn(stored, name) ? stored[name] : name;
    if (typeof dir !== "string") throw badStored(path, "dirs", "a folder for each name", dir);
    const folder = folderOf(dir, name);
    checkStoredName(folder, path, "dirs");
    if (folders.has(folder)) throw badStored(path, "dirs", "folders that differ", folder);
    folders.add(folder);
    names.push(name);
    dirs[name] = folder;
  }
  return { names, dirs };
}

/** The error for a table with more than {@link MAX_COLUMNS} columns. */
export function tooManyColumns(path: string | undefined, found: number): SuperchunkError {
  return new SuperchunkError(
    "LIMIT",
    `the table has ${found} columns; superchunk takes at most ${MAX_COLUMNS}`,
    {
      ...(path === undefined ? {} : { path }),
      field: "names",
      expected: `at most ${MAX_COLUMNS} columns`,
      found,
    },
  );
}

/**
 * carray and the first BLZ stored the path of the column's folder as the user spelled it when creating the table. Only its last
 * part, the column's name, matters; bcolz and BLZ 0.6 use no more of it either. [FT-01]
 */
function folderOf(given: string, name: string): string {
  const end = given.slice(-name.length - 1);
  return end === `/${name}` || end === `\\${name}` ? name : given;
}

function parseObject(bytes: Uint8Array, path: string, mostValues?: number): JsonObject {
  const value = parseJson(bytes, path, mostValues === undefined ? {} : { mostValues });
  if (isObject(value)) return value;
  throw badStored(path, "JSON", "an object", value);
}

function listOf(raw: JsonObject, key: string, path: string): readonly JsonValue[] {
  const list = raw[key];
  if (Array.isArray(list)) return list;
  throw badStored(path, key, "a list", list);
}

function countOf(value: JsonValue | undefined, field: string, path: string): number {
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0) return value;
  throw badStored(path, field, "an integer from 0 to 2^53 - 1", value);
}

function optionalCount(raw: JsonObject, key: string, path: string): number | undefined {
  const value = raw[key];
  return value === undefined || value === null ? undefined : countOf(value, key, path);
}
