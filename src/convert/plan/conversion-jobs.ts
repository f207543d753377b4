/**
 * Plans the conversion of one archive: its arrays, its groups, and what is refused.
 *
 * Reads metadata and first headers only. Must not write.
 */
import type { Archive, ArrayArchive, OpenOptions, TableArchive } from "../../archive/kinds/types.ts";
import { at } from "../../bytes/arrays.ts";
import { isSuperchunkError, type SuperchunkError } from "../../errors.ts";
import { keepFloats } from "../../format/json-float.ts";
import type { DType, JsonObject } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import { groupDocument } from "../../zarr/document/make-v3.ts";
import { nameNodes, type Renaming } from "../../zarr/document/node-names.ts";
import type { StructField } from "../../zarr/document/struct-fields.ts";
import type { LayoutOptions, OpenedSource, Target } from "../pipeline.ts";
import {
  addAttributes,
  checkDimensionNames,
  chooseColumns,
  nameDimensions,
  noColumns,
  type SourceArray,
  sourceOfArray,
  sourceOfBytes,
  warningsOf,
} from "../sources/source-array.ts";
import { findMinuteBars, meaningOf } from "../sources/zipline.ts";
import { type ArrayJob, planArray } from "./array-job.ts";

/** An array that cannot be converted, and why. */
export interface RefusedArray {
  readonly node: string;
  readonly source: SourceArray;
  readonly error: SuperchunkError;
}

export interface ConversionJobs {
  readonly archive: Archive;
  readonly arrays: readonly ArrayJob[];
  readonly refused: readonly RefusedArray[];
  /** Documents of groups by path, the outermost first. */
  readonly groups: ReadonlyMap<string, JsonObject>;
  readonly renamed: readonly Renaming[];
  readonly notes: readonly string[];
}

/** Where the groups of the plan are collected. */
export interface MadeGroups {
  readonly groups: Map<string, JsonObject>;
  readonly renamed: Renaming[];
  readonly notes: string[];
}

/** Where the parts of the plan are collected. */
interface Collected extends MadeGroups {
  readonly arrays: ArrayJob[];
  readonly refused: RefusedArray[];
}

export interface JobOptions extends LayoutOptions, OpenOptions {
  /** True if other arrays may be beside these in the result: dimension names then include lengths. */
  readonly isMember?: boolean | undefined;
}

/**
 * Plans an archive. Refused arrays are listed; other errors are thrown, and `BAD_ARGUMENT` if dimension names fit none of its arrays.
 */
export async function planJobs(archive: Archive, options: JobOptions): Promise<ConversionJobs> {
  const found: Collected = {
    arrays: [],
    refused: [],
    groups: new Map(),
    renamed: [],
    notes: warningsOf(archive, options.columns),
  };
  if (archive.kind === "bytes") await addArray(found, { node: "" }, sourceOfBytes(archive, options), options);
  else if (archive.kind === "table") await addColumns(found, { node: "" }, archive, archive.names, options);
  else await addArchive(found, { node: "" }, archive, options);
  const { dimensionNames, isMember = false } = options;
  const path = archive.store.describe(archive.path);
  const shapes = found.arrays.map(({ source }) => source.shape);
  found.notes.push(...checkDimensionNames(dimensionNames, shapes, path, isMember));
  return { archive, ...found, arrays: nameJobs(found.arrays, found.groups, isMember) };
}

/** The arrays with names for all dimensions. */
export function nameJobs(
  arrays: readonly ArrayJob[],
  groups: ReadonlyMap<string, JsonObject>,
  isMember: boolean,
): ArrayJob[] {
  const named = (form: "document" | "chunkDocument"): JsonObject[] =>
    nameDimensions(
      arrays.map((job) => ({
        document: job[form],
        isColumn: groups.size > 0 && job.source.shape.length > 0,
      })),
      isMember,
    );
  const [documents, chunkDocuments] = [named("document"), named("chunkDocument")];
  return arrays.map((job, i) => ({
    ...job,
    document: at(documents, i),
    chunkDocument: at(chunkDocuments, i),
  }));
}

/** Throws the first refusal, so that nothing is written unless everything can be. */
export function assertConvertible({ refused: [first] }: ConversionJobs): void {
  if (first !== undefined) throw first.error;
}

/** Where an archive goes, and its original name if the node's differs. */
interface NamedPlace {
  readonly node: string;
  readonly name?: string | undefined;
}

interface ArchiveOptions extends LayoutOptions, OpenOptions {
  /** Attributes that say what a column means; the column's own take precedence. */
  readonly added?: JsonObject | undefined;
}

async function addArchive(
  found: Collected,
  place: NamedPlace,
  archive: ArrayArchive,
  options: ArchiveOptions,
): Promise<void> {
  if (archive.columnNames.length > 0) await addColumns(found, place, archive, archive.columnNames, options);
  else {
    const source = sourceOfArray(archive, options);
    const attrs = keepFloats({ ...options.added, ...source.attrs }, source.attrs);
    await addArray(found, place, { ...source, attrs }, options);
  }
}

async function addColumns(
  found: Collected,
  place: NamedPlace,
  archive: TableArchive | ArrayArchive,
  names: readonly string[],
  options: LayoutOptions & OpenOptions,
): Promise<void> {
  const wanted = place.node === "" ? chooseColumns(archive, names, options.columns) : names;
  // The meaning of columns depends on all of them, even those that are not opened.
  const stored = archive.kind === "table" ? (archive.metadata["names"] as readonly string[]) : names;
  const bars = await findMinuteBars(archive, stored, options);
  const meaning = meaningOf(stored, archive.attrs, bars?.ratio);
  const { path, attrs } = archive;
  const members = addGroup(found, place, { path, attrs, added: meaning.table }, wanted);
  for (const [column, to] of members)
    await addArchive(found, to, archive.column(column), { ...options, added: meaning.columns[column] });
}

/** Adds a group with members of these names; returns the place of each member. */
export function addGroup(
  found: MadeGroups,
  { node, name }: NamedPlace,
  { path, attrs, added }: { path: string; attrs: JsonObject; added: JsonObject },
  names: readonly string[],
): (readonly [string, NamedPlace])[] {
  const nodes = nameNodes(names);
  const { attributes, notes } = addAttributes(attrs, {
    ...added,
    column_order: names.map((column) => nodes.get(column) ?? column),
    ...(name === undefined ? {} : { superchunk: { name } }),
  });
  found.notes.push(...notes);
  found.groups.set(node, groupDocument(attributes));
  return names.map((column) => {
    const to = nodes.get(column) ?? column;
    const place = joinKey(node, to);
    if (to !== column) found.renamed.push({ from: joinKey(path, column.replaceAll("/", "%2F")), to: place });
    return [column, { node: place, name: to === column ? undefined : column }];
  });
}

/** Throws `BAD_ARGUMENT` for a source of which no columns can be chosen. */
export function refuseColumns(
  source: OpenedSource,
  { format, isHierarchy }: Pick<Target, "format" | "isHierarchy">,
  portable?: boolean,
): void {
  const isGroup = isHierarchy && source.kind === "group";
  if (source.kind !== "bytes" && source.kind !== "array" && !isGroup) return;
  if ("columnNames" in source && source.columnNames.length > 0) return;
  const isStruct = source.kind === "array" && source.dtype.kind === "struct";
  if (isStruct && isHierarchy && hasSubArrays(source.dtype) && portable !== true) return;
  if (isStruct && ["parquet", "arrow"].includes(format) && source.shape.length === 1) return;
  const whole = isGroup ? "a group of Zarr is copied whole" : "it has no columns";
  const why = isStruct ? `${format} keeps structs whole, so no field can be chosen` : whole;
  throw noColumns(source, why);
}

/** A note on one node of several. */
export function noteOn(node: string, note: string): string {
  return node === "" ? note : `${node}: ${note}`;
}

/** True for a struct with a field that is a sub-array, at any depth. */
export function hasSubArrays(dtype: DType): boolean {
  return (
    dtype.kind === "struct" &&
    dtype.fields.some((field) => field.shape.length > 0 || hasSubArrays(field.dtype))
  );
}

/** Loads the code that splits structs; a page that shows other arrays does not need it. */
export const loadFields = (): Promise<typeof import("../../zarr/document/struct-fields.ts")> =>
  import("../../zarr/document/struct-fields.ts");

/** Adds the fields of structs as members of a group, because Zarr has no data type for them as one array. */
async function addFields(
  found: Collected,
  place: NamedPlace,
  source: SourceArray,
  fields: readonly StructField[],
  options: LayoutOptions & OpenOptions,
): Promise<void> {
  const { archive, attrs } = source;
  const { fieldsIn } = await loadFields();
  const names = fields.map(({ name }) => name);
  const wanted = place.node === "" ? chooseColumns(archive, names, options.columns) : names;
  for (const [name, to] of addGroup(found, place, { path: archive.path, attrs, added: {} }, wanted)) {
    const field = at(fields, names.indexOf(name));
    const own = { ...source, field, attrs: {} };
    if (field.dtype.kind === "struct") await addFields(found, to, own, fieldsIn(field.dtype, field), options);
    else await addArray(found, to, own, options);
  }
}

async function addArray(
  found: Collected,
  place: NamedPlace,
  source: SourceArray,
  options: LayoutOptions & OpenOptions,
): Promise<void> {
  const { dtype, field, fillValue } = source;
  if (field === undefined && options.portable !== true && hasSubArrays(dtype)) {
    const { FIELDS_APART, fieldsIn } = await loadFields();
    const fields = fieldsIn(dtype, { offset: 0, shape: [], strides: [], fillValue });
    found.notes.push(noteOn(place.node, FIELDS_APART));
    await addFields(found, place, source, fields, options);
    return;
  }
  const { node, name } = place;
  if (node === "" && options.columns !== undefined) throw noColumns(source.archive, "it has no columns");
  try {
    found.arrays.push(await planArray(node, source, options, name));
  } catch (error) {
    if (!isSuperchunkError(error, "UNSUPPORTED")) throw error;
    found.refused.push({ node, source, error });
  }
}
