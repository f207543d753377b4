/**
 * The values that a conversion reads, how they are stored, and the attributes and dimension names that it gives them.
 *
 * What an archive stores always takes precedence over what is added. Must not know chunks of Zarr, or stores.
 */

import type { ArrayArchive, BytesArchive, ChunkedArchive } from "../../archive/kinds/types.ts";
import { at, defined, elementsOf, isShape } from "../../bytes/arrays.ts";
import { notNamed, SuperchunkError } from "../../errors.ts";
import { isObject } from "../../format/json.ts";
import { keepFloats } from "../../format/json-float.ts";
import type { DType, JsonObject, JsonValue } from "../../format/types.ts";
import { joinKey, splitKey } from "../../store/key.ts";
import type { LengthRun } from "../../zarr/document/chunk-grid.ts";
import type { StructField } from "../../zarr/document/struct-fields.ts";
import type { ZarrType } from "../../zarr/document/zarr-dtype.ts";
import type { LayoutOptions, OpenedSource } from "../pipeline.ts";
import type { CellCopies } from "../plan/grid.ts";

/** What is read of an archive. */
export type SourceArchive = Pick<
  ChunkedArchive,
  | "store"
  | "path"
  | "nbytes"
  | "nchunks"
  | "chunkBytes"
  | "chunkStarts"
  | "summary"
  | "readBytes"
  | "encodedChunks"
  | "chunkPlaces"
  | "listChunks"
> & {
  readonly kind: "array" | "bytes";
  /** Set if several archives are read as one. */
  readonly joinedFrom?: readonly SourceArchive[];
  /** Uncompressed bytes of a whole chunk around chunk `index`, if that is not `chunkBytes` everywhere. */
  readonly chunkBytesAt?: (index: number) => number;
};

export interface SourceArray {
  readonly archive: SourceArchive;
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly order: "C" | "F";
  readonly fillValue: JsonValue | undefined;
  readonly attrs: JsonObject;
  /** Rows of a chunk according to the metadata. */
  readonly chunkLength: number | undefined;
  /** The only field of its items to read; absent: whole items. */
  readonly field?: StructField;
  /** Absent if all its chunks have `chunkBytes`, except the last. */
  readonly uneven?: UnevenChunks;
}

/** Chunks of which some are short, or not on the borders of a regular grid. */
export interface UnevenChunks {
  /** Why they do not make a regular grid. */
  readonly reason: string;
  /** Cells of `chunkBytes` that are unchanged chunks. */
  readonly copies: readonly CellCopies[];
  /** Rows of each chunk; undefined if chunks are not cut along the first axis. */
  readonly lengths: readonly LengthRun[] | undefined;
}

/** The array in an archive. Throws `BAD_ARGUMENT` for a `dtype` or `shape` that does not fit. */
export function sourceOfArray(archive: ArrayArchive, options: LayoutOptions): SourceArray {
  if (options.dtype !== undefined || options.shape !== undefined)
    throw wrongOption(
      archive,
      options.dtype === undefined ? "shape" : "dtype",
      "is given, but the archive stores its own; the option is for archives of plain bytes",
    );
  const { dtype, shape, order, fillValue, attrs, chunkLength } = archive;
  const stored = order === "F" ? [...shape].reverse() : shape;
  return { archive, dtype, shape, order, fillValue, attrs, chunkLength, ...unevenOf(archive, dtype, stored) };
}

/** Describes an archive whose chunks have unequal lengths. `stored` is the shape in stored axis order. */
function unevenOf(
  { chunkStarts, nchunks }: ChunkedArchive,
  { itemSize }: DType,
  stored: readonly number[],
): { readonly uneven?: UnevenChunks } {
  if (chunkStarts === undefined || nchunks < 2) return {};
  const rowBytes = itemSize * elementsOf(stored.slice(1));
  const isCutInRows = rowBytes > 0 && chunkStarts.every((start) => start % rowBytes === 0);
  const lengths = Array.from(chunkStarts.subarray(1), (end, i) => ({
    length: (end - at(chunkStarts, i)) / rowBytes,
    times: 1,
  }));
  // An empty chunk is not a cell of any grid.
  const isGrid = isCutInRows && lengths.every(({ length }) => length > 0);
  return {
    uneven: {
      reason:
        "its chunks are of unequal lengths, which the regular grid of Zarr cannot have (--grid rectilinear can)",
      copies: [],
      lengths: isGrid ? lengths : undefined,
    },
  };
}

/** Plain bytes as an array: uint8, or what `dtype` and `shape` say. Throws `BAD_ARGUMENT` if sizes disagree. */
export function sourceOfBytes(archive: BytesArchive, options: LayoutOptions): SourceArray {
  const dtype: DType = options.dtype ?? { kind: "uint", itemSize: 1, byteOrder: "none" };
  if (dtype.itemSize === 0 || archive.nbytes % dtype.itemSize !== 0)
    throw wrongOption(
      archive,
      "dtype",
      `has items of ${dtype.itemSize} bytes, but the ${archive.nbytes} bytes of the archive are not a multiple of that`,
    );
  const items = archive.nbytes / dtype.itemSize;
  const shape = options.shape ?? [items];
  if (!isShape(shape) || elementsOf(shape) !== items)
    throw wrongOption(
      archive,
      "shape",
      `is [${shape}], but the archive has ${items} items of ${dtype.itemSize} bytes`,
    );
  const rowBytes = elementsOf(shape.slice(1)) * dtype.itemSize;
  const rows = archive.chunkBytes / rowBytes;
  const uneven = unevenOf(archive, dtype, shape);
  const isCutInRows = uneven.uneven === undefined && Number.isInteger(rows) && rows > 0;
  const chunkLength = isCutInRows ? rows : undefined;
  return {
    archive,
    dtype,
    shape,
    order: "C",
    fillValue: undefined,
    attrs: archive.attrs,
    chunkLength,
    ...uneven,
  };
}

export const PYTABLES_INDEX =
  "an index of PyTables is left out, because only PyTables reads it; the rows of its table are carried over";

function wrongOption(
  archive: Pick<ChunkedArchive, "store" | "path">,
  field: string,
  reason: string,
): SuperchunkError {
  return new SuperchunkError("BAD_ARGUMENT", `${field} ${reason}`, {
    path: archive.store.describe(archive.path),
    field,
  });
}

/** The attribute for what Zarr's metadata cannot express: numpy's dtype, a column's stored name. */
const OWN_ATTRIBUTE = "superchunk";
/** Where xarray keeps dimension names of Zarr v2 arrays; Zarr v3 has a member for them. */
const STORED_DIMENSIONS = "_ARRAY_DIMENSIONS";

type Names = readonly (string | null)[];

interface ValueDescription {
  readonly attributes: JsonObject;
  readonly dimensionNames: Names | undefined;
  readonly notes: readonly string[];
}

/** Attributes of an array, and its dimension names: the given ones if they fit, or stored ones. */
export function describeValues(
  source: Pick<SourceArray, "attrs" | "shape">,
  type: ZarrType,
  given: Names | undefined,
  originalName: string | undefined,
): ValueDescription {
  const { attrs, shape } = source;
  const own: JsonObject = { ...defined({ dtype: type.original, name: originalName }) };
  const { attributes, notes } = addAttributes(attrs, {
    ...type.attributes,
    ...(Object.keys(own).length > 0 ? { [OWN_ATTRIBUTE]: own } : {}),
  });
  const stored = takeNames(attributes, shape.length);
  const names = given?.length === shape.length ? given : stored;
  return { attributes, dimensionNames: names && [...names, ...type.itemShape.map(() => null)], notes };
}

/** An array of a hierarchy, as far as its dimension names depend on it. */
interface NamedArray {
  readonly document: JsonObject;
  /** True for a column: it shares its rows with the others of its group. */
  readonly isColumn: boolean;
}

/**
 * The documents of the arrays of one group, with a name for every dimension: xarray does not open an array without. Existing
 * names are kept. Rows of columns are `row`, other dimensions `dim_0`, `dim_1`. In xarray, dimensions with the same name must
 * have the same length. So if lengths differ, or if `isMember` says that other arrays may be beside or above these, the name
 * includes the length: `dim_0_8000`.
 */
export function nameDimensions(arrays: readonly NamedArray[], isMember = false): JsonObject[] {
  const lengths = new Map<number, Set<number>>();
  for (const { document, isColumn } of arrays)
    for (const [axis, length] of storedShape(document).entries())
      if (axis > 0 || !isColumn) lengths.set(axis, (lengths.get(axis) ?? new Set()).add(length));
  return arrays.map(({ document, isColumn }) => {
    const stored = document["dimension_names"] as Names | undefined;
    const names = storedShape(document).map((length, axis) => {
      if (typeof stored?.[axis] === "string") return stored[axis];
      if (isColumn && axis === 0) return "row";
      const isShared = (!isMember || isColumn) && lengths.get(axis)?.size === 1;
      return isShared ? `dim_${axis}` : `dim_${axis}_${length}`;
    });
    return { ...document, dimension_names: names };
  });
}

function storedShape(document: JsonObject): readonly number[] {
  return document["shape"] as readonly number[];
}

/**
 * Throws `BAD_ARGUMENT` if the names that the caller gave fit none of the arrays; returns notes on single arrays that they do
 * not fit.
 */
export function checkDimensionNames(
  given: Names | undefined,
  shapes: readonly (readonly number[])[],
  path: string,
  isMember: boolean,
): string[] {
  const [unfit] = shapes.filter(({ length }) => length !== given?.length);
  if (given === undefined || unfit === undefined) return [];
  const summary = `the given dimension names (${given.join(", ")}) do not fit: the number of dimensions is ${unfit.length}`;
  if (isMember || shapes.some(({ length }) => length === given.length))
    return [`${summary}: arrays with another number of dimensions get default names`];
  throw new SuperchunkError("BAD_ARGUMENT", summary, {
    path,
    field: "dimensionNames",
    expected: unfit.length,
    found: given.length,
  });
}

/** The archive's attributes together with added ones; notes name added ones that had to give way. */
export function addAttributes(
  attrs: JsonObject,
  added: JsonObject,
): { attributes: Record<string, JsonValue>; notes: string[] } {
  const notes = Object.keys(added)
    .filter((name) => Object.hasOwn(attrs, name))
    .map(
      (name) =>
        `the archive's own attribute "${name}" is kept instead of the one that the conversion would add`,
    );
  return {
    attributes: keepFloats({ ...added, ...attrs }, attrs),
    notes: [...notes, ...notesOnAttributes(attrs)],
  };
}

/** Python writes NaN and infinities bare, which JSON does not allow: strict Zarr readers would refuse the whole document. */
export function notesOnAttributes(attrs: JsonObject): readonly string[] {
  return Object.entries(attrs).flatMap(([name, value]) => {
    const found = findNonFinite(value);
    return found === undefined
      ? []
      : [
          `the attribute "${name}" holds ${found}, which JSON has no number for; it becomes the string "${found}"`,
        ];
  });
}

function findNonFinite(value: JsonValue): number | undefined {
  if (typeof value === "number") return Number.isFinite(value) ? undefined : value;
  if (typeof value !== "object" || value === null) return undefined;
  for (const member of Object.values(value) as readonly JsonValue[]) {
    const found = findNonFinite(member);
    if (found !== undefined) return found;
  }
  return undefined;
}

/**
 * Removes the attribute in which xarray keeps dimension names, if the format has no member for them, and returns the names. Zarr v3 has
 * one, and there netCDF refuses the attribute when xarray writes the array again.
 */
export function takeNames(attributes: Record<string, JsonValue>, dimensions: number): Names | undefined {
  const value = attributes[STORED_DIMENSIONS];
  if (!Array.isArray(value) || value.length !== dimensions) return undefined;
  if (!value.every((name) => name === null || typeof name === "string")) return undefined;
  delete attributes[STORED_DIMENSIONS];
  return value as Names;
}

/** The warnings about an archive and its columns: of rows that a repair filled, for example. Zarr nodes have none. */
export function warningsOf(source: OpenedSource, columns: readonly string[] | undefined): string[] {
  if (!("warnings" in source) || "model" in source || "open" in source) return [];
  const all = source.kind === "table" ? source.names : source.kind === "array" ? source.columnNames : [];
  const names = all.filter((name) => columns?.includes(name) ?? true);
  const below = (name: string): string[] =>
    source.kind === "bytes" ? [] : source.column(name).warnings.map((text) => `column ${name}: ${text}`);
  return [...source.warnings, ...names.flatMap(below)];
}

/** The requested columns, in the table's order. Throws `NOT_FOUND` for one that does not exist. */
export function chooseColumns(
  source: Pick<SourceArchive, "store" | "path">,
  names: readonly string[],
  columns: readonly string[] | undefined,
): readonly string[] {
  const { store, path } = source;
  if (columns !== undefined && !Array.isArray(columns))
    throw wrongOption(source, "columns", `is ${String(columns)}, expected a list of names`);
  const unknown = columns?.find((column) => !names.includes(column));
  if (unknown === undefined) return names.filter((name) => columns?.includes(name) ?? true);
  throw notNamed("column", unknown, names, store.describe(path));
}

/** The error for a source of which no columns can be chosen. */
export function noColumns(
  { store, path }: Pick<SourceArchive, "store" | "path">,
  why: string,
): SuperchunkError {
  const details = { path: store.describe(path), field: "columns" };
  return new SuperchunkError("BAD_ARGUMENT", `${why}; leave out {columns}`, details);
}

// Images of OME-NGFF: what version 0.4 has among the attributes of Zarr v2 is in one attribute of Zarr v3, `ome`, in version 0.5, with one
// version; and the names of the axes are those of each array's dimensions. @see https://ngff.openmicroscopy.org/0.5/

/** Attributes of version 0.4 that are now in `ome`. */
const NAMES = /^(?:multiscales|omero|labels|image-label|plate|well|bioformats2raw\.layout|series)$/;
/** The group with the order of the images of a file, below the file's own. */
const SERIES_GROUP = "OME";

/** What a conversion found out about images. */
export interface NgffNodes {
  /** The attributes that moved, by the path of their group. */
  readonly moved: Map<string, readonly string[]>;
  /** Names of the dimensions of the arrays of images, by path. */
  readonly axes: Map<string, readonly string[]>;
}

/** The attributes of a group in the form of version 0.5; undefined if they are not those of version 0.4. Groups come before their members. */
export function moveNgff(
  attrs: JsonObject,
  path: string,
  { moved, axes }: NgffNodes,
): JsonObject | undefined {
  if (attrs["ome"] !== undefined) return undefined;
  const { folder, name } = splitKey(path);
  const above = path === "" ? [] : (moved.get(folder) ?? []);
  const isOwn = {
    multiscales: isList(attrs["multiscales"], isMultiscale),
    plate: isVersioned(attrs["plate"]) && isList(attrs["plate"]["wells"], hasPath),
    well: isVersioned(attrs["well"]) && isList(attrs["well"]["images"], hasPath),
    labels: name === "labels" && above.includes("multiscales") && isList(attrs["labels"], isText),
    "bioformats2raw.layout": attrs["bioformats2raw.layout"] === 3,
    series:
      name === SERIES_GROUP && above.includes("bioformats2raw.layout") && isList(attrs["series"], isText),
  };
  if (!Object.values(isOwn).includes(true)) return undefined;
  // An attribute in another form belongs to an older version, or to another program.
  if (Object.entries(isOwn).some(([each, isValid]) => attrs[each] !== undefined && !isValid))
    return undefined;
  const names = Object.keys(attrs).filter((each) => NAMES.test(each));
  moved.set(path, names);
  for (const image of (attrs["multiscales"] ?? []) as readonly JsonObject[])
    for (const { path: below } of image["datasets"] as readonly JsonObject[])
      axes.set(
        joinKey(path, String(below)),
        (image["axes"] as readonly JsonObject[]).map((axis) => String(axis["name"])),
      );
  const inside = names.map((each): [string, JsonValue] => {
    const value = attrs[each] as JsonValue;
    return [
      each,
      each === "multiscales" ? (value as readonly JsonObject[]).map(withoutVersion) : withoutVersion(value),
    ];
  });
  const rest = Object.fromEntries(Object.entries(attrs).filter(([each]) => !names.includes(each)));
  return keepFloats({ ...rest, ome: { version: "0.5", ...Object.fromEntries(inside) } }, attrs);
}

function withoutVersion(value: JsonValue): JsonValue {
  if (!isObject(value)) return value;
  const { version: _, ...rest } = value;
  return keepFloats(rest, value);
}

function isList(value: JsonValue | undefined, isItem: (item: JsonValue) => boolean): boolean {
  return Array.isArray(value) && value.length > 0 && (value as readonly JsonValue[]).every(isItem);
}

function isText(value: JsonValue | undefined): value is string {
  return typeof value === "string";
}

function hasPath(value: JsonValue): boolean {
  return isObject(value) && isText(value["path"]);
}

/** True for an object of version 0.4, in which `version` is optional. */
function isVersioned(value: JsonValue | undefined): value is JsonObject {
  return isObject(value) && ["0.4", undefined].includes(value["version"] as string | undefined);
}

/** True for an image as version 0.4 describes it: older versions have no axes with names, or no transformations. */
function isMultiscale(value: JsonValue): boolean {
  if (!isVersioned(value)) return false;
  const isAxis = (axis: JsonValue): boolean => isObject(axis) && isText(axis["name"]);
  const isLevel = (level: JsonValue): boolean =>
    isObject(level) && hasPath(level) && isList(level["coordinateTransformations"], isObject);
  return isList(value["axes"], isAxis) && isList(value["datasets"], isLevel);
}
