/**
 * What is known of a damaged array folder: from its metadata as far as they can be read, from the caller, and from its
 * chunks if neither says. Reads only. @see FORMAT.md [FZ] [FA]
 */

import { elementsOf } from "../../bytes/arrays.ts";
import { badArgument, SuperchunkError } from "../../errors.ts";
import { parseDType } from "../../format/dtype.ts";
import { parseSizes, parseStorage, type StoredSizes, type StoredStorage } from "../../format/folder.ts";
import { parseLayout, type StoredLayout } from "../../format/layout.ts";
import { parseCarrayChunkName, superchunkName } from "../../format/naming.ts";
import type { DType, JsonObject, JsonValue } from "../../format/types.ts";
import { NO_PLACES, type Placing, parsePlaces } from "../../places/declared.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore } from "../../store/types.ts";
import { fieldSize } from "../../values/values.ts";
import { parseAttributes } from "../kinds/array-folder.ts";
import { suggestsCarray } from "../open/open-array-folder.ts";
import { dataFolders, encodeJson } from "../places/layout-files.ts";
import { PROLOGUE } from "../places/sequence.ts";
import { isFlaw, readHeaderAt } from "./chunk-check.ts";
import { numbersIn } from "./columns.ts";
import { findFileChunks } from "./file-chunks.ts";

/** What the caller says of an archive with damaged metadata. Readable metadata take precedence. */
export interface GivenFacts {
  /** numpy's type string, or a list of fields. */
  readonly dtype?: JsonValue | undefined;
  readonly shape?: readonly number[] | undefined;
  /** Rows of a chunk. */
  readonly chunklen?: number | undefined;
  /** For a Bloscpack file: memory order of the items (default `C`). */
  readonly order?: "C" | "F" | undefined;
}

/** A column of the array, whose items are in one folder. */
export interface KnownColumn {
  /** Undefined if the array has a single folder. */
  readonly name: string | undefined;
  readonly folder: string;
  readonly rowBytes: number;
}

export interface KnownArray {
  readonly kind: "carray" | "blz-superchunk";
  readonly dtype: DType;
  readonly rowShape: readonly number[];
  readonly rows: number | undefined;
  readonly chunklen: number;
  readonly columns: readonly KnownColumn[];
  readonly storage: StoredStorage | undefined;
  readonly sizes: StoredSizes | undefined;
  readonly layout: StoredLayout | undefined;
  /** Places are known only together with the layout. */
  readonly placing: Placing;
  readonly dflt: JsonValue;
  readonly attrs: JsonObject;
  /** The attributes' bytes, if they cannot be parsed. */
  readonly damagedAttributes: Uint8Array | undefined;
}

/**
 * Examines an array folder. Problems that do not prevent reading are added to `problems`, as text.
 * @throws NOT_FOUND if no part of an array exists; INCOMPLETE if something is missing that the caller must supply, and
 * the codes of damage; BAD_ARGUMENT
 */
export async function examineFolder(
  store: ReadableStore,
  path: string,
  facts: GivenFacts,
  problems: string[],
): Promise<KnownArray> {
  const get = (name: string): Promise<Uint8Array | undefined> => store.get(joinKey(path, name));
  const pathOf = (name: string): string => store.describe(joinKey(path, name));
  /** The parsed content of a file; undefined if it is missing or damaged. */
  const read = <S, T>(name: string, stored: S | undefined, parse: (stored: S) => T): T | undefined => {
    try {
      if (stored !== undefined) return parse(stored);
      problems.push(`${pathOf(name)} is missing`);
    } catch (error) {
      if (!isFlaw(error) || error.code === "UNSUPPORTED") throw error;
      problems.push(error.message);
    }
    return undefined;
  };
  const sizes = read("meta/sizes", await get("meta/sizes"), (bytes) =>
    parseSizes(bytes, pathOf("meta/sizes")),
  );
  const layout = sizes && read("meta/sizes", sizes.raw, (raw) => parseLayout(raw, pathOf("meta/sizes")));
  const text = layout?.storage === undefined ? await get("meta/storage") : encodeJson(layout.storage);
  const storage = read("meta/storage", text, (bytes) => parseStorage(bytes, pathOf("meta/storage")));
  const placing = storage === undefined ? NO_PLACES : parsePlaces(storage.raw, pathOf("meta/storage"));
  const isPlaced = layout?.places !== undefined || placing.places.length > 0;
  if (isPlaced && (layout === undefined || storage === undefined))
    throw new SuperchunkError(
      "UNSUPPORTED",
      "superchunks of the array are in other places, and meta/sizes or meta/storage, which together say where, is damaged. Put a copy from a backup in its place",
      { path: pathOf(""), field: "layout.places" },
    );
  const files = await dataFiles(store, path);
  if (
    sizes === undefined &&
    storage === undefined &&
    files.superchunk === undefined &&
    files.carray === undefined
  )
    throw new SuperchunkError("NOT_FOUND", "found no array here, nor part of one", { path: pathOf("") });
  const isCarray =
    layout === undefined &&
    storage?.superchunk === undefined &&
    (files.carray !== undefined ||
      (files.superchunk === undefined && storage !== undefined && suggestsCarray(storage.raw)));
  const shape = sizes?.shape ?? facts.shape;
  if (shape?.length === 0) throw badArgument("shape", "[]", "one or more lengths");
  const dtype = storage?.dtype ?? (facts.dtype === undefined ? undefined : parseGivenDType(facts.dtype));
  const sample = await firstChunk(store, isCarray ? files.carray : files.superchunk);
  if (dtype === undefined) throw noDType(pathOf("meta/storage"), sizes, sample);
  const declared = storage?.raw["superchunk"] as JsonObject | undefined;
  const isPlain =
    isCarray || declared?.["columns"] === false || (files.superchunk !== undefined && !files.columns);
  const hasColumns = dtype.kind === "struct" && !isPlain;
  const field = hasColumns ? dtype.fields.find(({ name }) => name === files.column) : undefined;
  const itemBytes = field === undefined ? dtype.itemSize : fieldSize(field);
  const given = storage?.chunklen ?? facts.chunklen;
  const rowShape = shape?.slice(1) ?? rowShapeOf(sample, (given ?? 0) * itemBytes, problems);
  const rowBytes = elementsOf(rowShape) * itemBytes;
  const chunklen = given ?? chunklenOf(sample, rowBytes, shape?.[0], pathOf("meta/storage"));
  const attrsName = isCarray ? "__attrs__" : "meta/attributes";
  const attrsBytes = await get(attrsName);
  const attrs =
    attrsBytes === undefined || attrsBytes.length === 0
      ? {}
      : read(attrsName, attrsBytes, (bytes) => parseAttributes(bytes, pathOf(attrsName)));
  return {
    kind: isCarray ? "carray" : "blz-superchunk",
    dtype,
    rowShape,
    rows: shape?.[0],
    chunklen,
    columns: dataFolders(path, dtype, hasColumns).map(({ folder, field }) => ({
      name: field?.name,
      folder,
      rowBytes: elementsOf(rowShape) * (field === undefined ? dtype.itemSize : fieldSize(field)),
    })),
    storage,
    sizes,
    layout,
    placing,
    dflt: storage?.dflt ?? null,
    attrs: attrs ?? {},
    damagedAttributes: attrs === undefined ? attrsBytes : undefined,
  };
}

/** The kinds of files in `data`, with the first of each. */
interface DataFiles {
  readonly carray: string | undefined;
  readonly superchunk: string | undefined;
  /** True if there are column folders and no superchunk beside them; and the first folder that has a superchunk. */
  readonly columns: boolean;
  readonly column: string | undefined;
}

async function dataFiles(store: ReadableStore, path: string): Promise<DataFiles> {
  const data = joinKey(path, "data");
  const [chunk] = await numbersIn(store, data, parseCarrayChunkName);
  const [number] = await numbersIn(store, data);
  const carray = chunk === undefined ? undefined : joinKey(data, `__${chunk}.blp`);
  if (number !== undefined)
    return { carray, superchunk: joinKey(data, superchunkName(number)), columns: false, column: undefined };
  let folders = false;
  for await (const { name, kind } of store.list(data)) {
    if (kind !== "folder") continue;
    folders = true;
    const [first] = await numbersIn(store, joinKey(data, name));
    if (first === undefined) continue;
    return { carray, superchunk: joinKey(data, name, superchunkName(first)), columns: true, column: name };
  }
  return { carray, superchunk: undefined, columns: folders, column: undefined };
}

/** Decoded bytes and typesize of the first readable chunk. */
interface Sample {
  readonly nbytes: number;
  readonly typesize: number;
}

async function firstChunk(store: ReadableStore, key: string | undefined): Promise<Sample | undefined> {
  if (key === undefined) return undefined;
  if (/\.blp$/.test(key)) {
    const size = (await store.stat(key))?.size ?? 0;
    return readHeaderAt(store, key, PROLOGUE, size);
  }
  const file = await findFileChunks(store, key, { maxNbytes: 0x7fff_ffff, scan: false });
  for (const { offset } of file?.places ?? []) {
    const header = offset === undefined ? undefined : await readHeaderAt(store, key, offset, file?.size ?? 0);
    if (header !== undefined) return header;
  }
  return undefined;
}

/** A row shape that the bytes of a full chunk allow, if no metadata give one. */
function rowShapeOf(sample: Sample | undefined, flatBytes: number, problems: string[]): number[] {
  const items = sample === undefined || flatBytes === 0 ? 1 : sample.nbytes / flatBytes;
  if (!Number.isInteger(items) || items <= 1) return [];
  problems.push(
    `the shape of a row is unknown: its ${items} items are taken as one dimension; give {shape} for another`,
  );
  return [items];
}

/** Rows of a chunk, derived from the first one, if no metadata give them. */
function chunklenOf(
  sample: Sample | undefined,
  rowBytes: number,
  rows: number | undefined,
  path: string,
): number {
  const found = sample === undefined || rowBytes === 0 ? undefined : sample.nbytes / rowBytes;
  if (found !== undefined && Number.isInteger(found) && found >= 1) return found;
  if (found === undefined && rows !== undefined) return Math.max(1, rows);
  throw new SuperchunkError(
    "INCOMPLETE",
    `the number of rows per chunk is unknown${found === undefined ? "" : `: the first one has ${sample?.nbytes} bytes, and a row ${rowBytes}`}. Give {chunklen}, or another {dtype} or {shape}`,
    { path, field: "chunklen" },
  );
}

function parseGivenDType(dtype: JsonValue): DType {
  try {
    return parseDType(dtype, "");
  } catch (error) {
    if (!isFlaw(error)) throw error;
    throw new SuperchunkError("BAD_ARGUMENT", `dtype: ${error.summary}`, { field: "dtype", found: dtype });
  }
}

function noDType(path: string, sizes: StoredSizes | undefined, sample: Sample | undefined): SuperchunkError {
  const items = sizes === undefined ? 0 : elementsOf(sizes.shape);
  const size = items > 0 && sizes?.nbytes !== undefined ? sizes.nbytes / items : sample?.typesize;
  const hint = size === undefined ? "" : ` (an item has ${size} bytes, it seems)`;
  return new SuperchunkError(
    "INCOMPLETE",
    `the dtype of the chunks is unknown${hint}. Give {dtype}, for example {dtype: "<f8"}; {chunklen} and {shape} too if they would be wrong`,
    { path, field: "dtype" },
  );
}
