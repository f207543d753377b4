/**
 * Surveys a damaged archive of any dialect: what is known of it, which chunks are intact, which rows are holes. Also
 * opens what is readable, once it is decided what becomes of the holes. Reads only.
 */
import { elementsOf, pushAll } from "../../bytes/arrays.ts";
import { SuperchunkError } from "../../errors.ts";
import { formatDType, parseDType } from "../../format/dtype.ts";
import { parseRootdirs } from "../../format/folder.ts";
import { mergeSpans, type RowSpan } from "../../format/layout.ts";
import type { DType, JsonObject } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore } from "../../store/types.ts";
import { readAttributes } from "../kinds/array-folder.ts";
import { ColumnTable } from "../kinds/column-archives.ts";
import type { Archive, ArrayArchive, Hole, HolePolicy, OpenOptions } from "../kinds/types.ts";
import { explainNoArchive } from "../open/no-archive.ts";
import { FILLED, isNumpy, metadataObject, showFile } from "../open/open-file.ts";
import { withJournal } from "../places/journal.ts";
import { isFlaw, type Losses, readOrNote } from "./chunk-check.ts";
import { bytesOf, type FoundColumn, findBloscpackChunks } from "./columns.ts";
import { findFileChunks } from "./file-chunks.ts";
import { countRows, keptRows, listHoles, mapSpans, type SalvagedColumn, salvagedSequence } from "./holes.ts";
import type { GivenFacts } from "./known.ts";
import {
  countIntact,
  encodingOf,
  fillOf,
  nameSome,
  type Survey,
  type SurveyOptions,
  showArray,
  surveyArray,
} from "./survey-array.ts";

export type { Survey, SurveyOptions } from "./survey-array.ts";

/**
 * Surveys the archive at a key of a store: reads and checks every chunk. Progress counts chunks, column after column.
 * @throws NOT_FOUND; INCOMPLETE and the codes of damage if something is missing that the options must supply;
 * UNSUPPORTED for what is not an archive; BAD_ARGUMENT
 */
export async function surveyArchive(
  store: ReadableStore,
  path: string,
  options: SurveyOptions,
): Promise<Survey> {
  const parts = new Set<string>();
  for await (const { name } of store.list(path, { signal: options.signal })) parts.add(name);
  if (parts.has("meta") || parts.has("data")) return surveyArray(store, path, options);
  // A folder of arrays is a table only with attributes, which bcolz always writes.
  if (parts.has("__rootdirs__") || (parts.has("__attrs__") && (await hasColumnFolders(store, path, parts))))
    return surveyTable(store, path, [...parts], options);
  if (path !== "" && (await store.stat(path)) !== undefined) return surveyFile(store, path, options);
  if (parts.size === 0) throw await explainNoArchive(store, path, undefined, options);
  throw new SuperchunkError(
    "UNSUPPORTED",
    'the folder is not an archive, nor what is left of one; "superchunk ls" lists the archives inside a folder, and "superchunk plan --for repair" saves what is intact of all of them',
    { path: store.describe(path) },
  );
}

async function hasColumnFolders(
  store: ReadableStore,
  path: string,
  names: ReadonlySet<string>,
): Promise<boolean> {
  for (const name of names) if (await isArrayFolder(store, joinKey(path, name))) return true;
  return false;
}

/** True for a folder that is an array, or what is left of one. */
export async function isArrayFolder(store: ReadableStore, path: string): Promise<boolean> {
  for await (const { name, kind } of store.list(path))
    if (kind === "folder" && (name === "meta" || name === "data")) return true;
  return false;
}

/** Surveys a table: each column is a separate array, with as many rows as the longest. */
async function surveyTable(
  store: ReadableStore,
  path: string,
  entries: readonly string[],
  options: SurveyOptions,
): Promise<Survey> {
  const problems: string[] = [];
  const lost: string[] = [];
  const { names, dirs } = await tableColumns(store, path, entries, { problems, lost });
  const surveys = new Map<string, Survey>();
  for (const name of names) {
    const folder = joinKey(path, dirs[name] ?? name);
    try {
      surveys.set(name, await surveyArray(store, folder, options));
    } catch (error) {
      if (!isFlaw(error) && !(error instanceof SuperchunkError && error.code === "NOT_FOUND")) throw error;
      lost.push(`column "${name}": ${error.message}`);
    }
  }
  if (surveys.size === 0)
    throw new SuperchunkError("INCOMPLETE", `no column of the table can be read: ${lost.join("; ")}`, {
      path: store.describe(path),
    });
  const rows = Math.max(...[...surveys.values()].map((survey) => survey.rows));
  const holes: Hole[] = [];
  for (const [name, { columns, problems: own, lost: gone }] of surveys) {
    pushAll(problems, own);
    for (const text of gone) lost.push(`column "${name}": ${text}`);
    const named = columns.map((column) => ({ ...column, name }));
    pushAll(holes, listHoles(named, rows));
  }
  const [first] = surveys.values();
  const kept = (policy: HolePolicy): RowSpan[] => keptRows(holes, rows, policy);
  const attrs = await readOrNote({ problems, lost }, "the attributes", () =>
    readAttributes(store, joinKey(path, "__attrs__"), {}),
  );
  return {
    dialect: "ctable",
    rows,
    rowsBefore: first?.rowsBefore,
    holes,
    intact: countIntact([...surveys.values()].flatMap((survey) => survey.columns)),
    problems,
    lost,
    known: undefined,
    columns: [],
    store,
    kept,
    open: (policy) => {
      const rowSpans = kept(policy);
      const columns = new Map<string, ArrayArchive>();
      for (const [name, { known, columns: own }] of surveys) {
        const folder = joinKey(path, dirs[name] ?? name);
        if (known !== undefined)
          columns.set(name, showArray({ store, path: folder }, known, own, rowSpans, options));
      }
      const length = countRows(rowSpans);
      const metadata = { names: [...columns.keys()], dirs };
      return new ColumnTable({
        dialect: "ctable",
        store,
        path,
        attrs: attrs ?? {},
        metadata,
        warnings: [],
        metadataKeys: [],
        columns,
        length,
      });
    },
  };
}

/** The columns that `__rootdirs__` names; if it cannot be read, the folders that are arrays, in name order. */
async function tableColumns(
  store: ReadableStore,
  path: string,
  entries: readonly string[],
  { problems, lost }: Losses,
): Promise<{ readonly names: readonly string[]; readonly dirs: Readonly<Record<string, string>> }> {
  const key = joinKey(path, "__rootdirs__");
  const bytes = await store.get(key);
  try {
    if (bytes !== undefined) return parseRootdirs(bytes, store.describe(key));
    problems.push(`${store.describe(key)} is missing`);
  } catch (error) {
    if (!isFlaw(error) || error.code === "UNSAFE_PATH") throw error;
    problems.push(error.message);
  }
  lost.push("the order of the columns; they are sorted by name");
  const names: string[] = [];
  for (const name of [...entries].sort())
    if (await isArrayFolder(store, joinKey(path, name))) names.push(name);
  return { names, dirs: {} };
}

/** Surveys one file: plain bytes, or a numpy array. */
async function surveyFile(given: ReadableStore, key: string, options: SurveyOptions): Promise<Survey> {
  const problems: string[] = [];
  const lost: string[] = [];
  const head = (await given.getRange(key, { offset: 0, length: 32 })) ?? new Uint8Array(0);
  const loss = "a change in place that was not finished";
  const changed = await readOrNote({ problems, lost }, loss, () => withJournal(given, key, head, options));
  const store = changed ?? given;
  const path = store.describe(key);
  const { signal, onProgress, scan = false } = options;
  const file = await findFileChunks(store, key, { maxNbytes: 0x7fff_ffff, scan, signal, onProgress });
  if (file === undefined) throw new SuperchunkError("NOT_FOUND", "no such file", { path });
  if (file.size === 0)
    throw new SuperchunkError("TRUNCATED", "the file is empty; look for a complete copy", { path });
  const metadata = givenMetadata(metadataObject(file.metadata), options);
  if (file.lostMetadata && !isNumpy(metadata))
    throw new SuperchunkError(
      "INCOMPLETE",
      `${file.problems.join("; ")}. The dtype of the chunks is unknown: give {dtype}, for example {dtype: "<f8"}, and {shape}; {dtype: "|u1"} for plain bytes`,
      { path, field: "metadata" },
    );
  if (file.lostMetadata) lost.push("the metadata");
  const { isArray, dtype, order, shape, nbytes } = fileItems(metadata, path);
  const found = await findBloscpackChunks(store, file, nbytes, options);
  if (found.slots.length === 0 && nbytes !== 0 && (file.header === undefined || file.rest !== undefined))
    throw noChunks(found, { key, path, isScanned: options.scan === true });
  pushAll(problems, found.problems);
  if (found.unplaced.length > 0) lost.push(`chunks whose position is unknown: ${nameSome(found.unplaced)}`);
  const dimensions = shape ?? [Math.floor(bytesOf(found) / dtype.itemSize)];
  const stored = order === "F" ? [...dimensions].reverse() : dimensions;
  const rowBytes = isArray ? elementsOf(stored.slice(1)) * dtype.itemSize : 1;
  const fill = fillOf(dtype, [], options.fill ?? null, { problems, isGiven: options.fill !== undefined });
  const encoding = await encodingOf(store, found);
  const column: SalvagedColumn = { name: undefined, key, found, rowBytes, fill, ...encoding };
  const rows = Math.floor((nbytes ?? bytesOf(found)) / Math.max(1, rowBytes));
  const holes = listHoles([column], rows);
  const { version } = file.header ?? {};
  const dialect = version === 1 || version === 2 ? (`bloscpack-${version}` as const) : "bloscpack-3";
  const hasRows = order === "C" && dimensions.length > 0;
  const kept = (policy: HolePolicy): RowSpan[] => {
    if (holes.length > 0 && policy !== "fill" && isArray && !hasRows)
      throw new SuperchunkError(
        "UNSUPPORTED",
        `the rows of ${order === "F" ? "an array in Fortran order" : "an array without dimensions"} cannot be ${policy === "cut" ? "cut off" : "dropped"}: give {holes: "fill"}`,
        { path, field: "holes" },
      );
    return keptRows(holes, rows, policy);
  };
  return {
    dialect,
    rows,
    rowsBefore: nbytes === undefined ? undefined : rows,
    holes,
    intact: countIntact([column]),
    problems,
    lost,
    known: undefined,
    columns: [column],
    store,
    kept,
    open: (policy) => {
      const spans = kept(policy);
      const sequence = salvagedSequence(store, column, spans);
      const now = hasRows ? [countRows(spans), ...dimensions.slice(1)] : dimensions;
      const filled = mapSpans(mergeSpans(policy === "fill" ? holes : []), spans);
      const noted: JsonObject =
        filled.length === 0 ? {} : { [FILLED]: filled.map(({ from, to }) => [from, to]) };
      const own = { ...metadata, ...(isArray ? { shape: now } : {}), ...noted };
      const value = Object.keys(own).length === 0 ? undefined : own;
      return showFile({ store: sequence.store, key, dialect, sequence, metadata: value }, options);
    },
  };
}

/** The items of a file. `shape` and `nbytes` are undefined if the metadata do not give a shape. */
interface FileItems {
  readonly isArray: boolean;
  readonly dtype: DType;
  readonly order: "C" | "F";
  readonly shape: readonly number[] | undefined;
  readonly nbytes: number | undefined;
}

function fileItems(metadata: JsonObject, path: string): FileItems {
  const order = metadata["order"] === "F" ? "F" : "C";
  const shape = metadata["shape"] as readonly number[] | undefined;
  const bytes: DType = { kind: "uint", itemSize: 1, byteOrder: "none" };
  if (!isNumpy(metadata)) return { isArray: false, dtype: bytes, order, shape, nbytes: undefined };
  const dtype = parseDType(metadata["dtype"] ?? "|u1", path);
  const nbytes = shape && elementsOf(shape) * dtype.itemSize;
  return { isArray: true, dtype, order, shape, nbytes };
}

/** The error for a file in which no chunk was found. */
function noChunks(
  found: FoundColumn,
  { key, path, isScanned }: { readonly key: string; readonly path: string; readonly isScanned: boolean },
): SuperchunkError {
  const reasons = found.problems.join("; ").replaceAll(`${path}: `, "");
  const advice = isScanned
    ? "a search of the whole file found no chunk: look for a complete copy"
    : "{scan: true} searches the whole file for chunks";
  return new SuperchunkError(
    /\.blp$/i.test(key) ? "INCOMPLETE" : "UNSUPPORTED",
    `it is not an archive, or all its chunks are lost: ${reasons}${reasons.includes("{scan: true}") ? "" : `; ${advice}`}`,
    { path },
  );
}

/** A file's metadata as stored; if they do not describe an array, with what the caller says. */
function givenMetadata(stored: JsonObject, { dtype, shape, order = "C" }: GivenFacts): JsonObject {
  if ((dtype === undefined && shape === undefined) || isNumpy(stored)) return stored;
  const parsed = formatDType(parseDType(dtype ?? "|u1", "dtype"));
  return { order, ...stored, container: "numpy", dtype: parsed, ...(shape === undefined ? {} : { shape }) };
}

/**
 * Opens the archive at a key without its damaged chunks, or with the default value in their place; returns the result
 * of `openWhole` if nothing is damaged. Reads and checks every chunk first. Losses go to `onDamage`.
 */
export async function openDamaged<Other extends object>(
  store: ReadableStore,
  path: string,
  options: OpenOptions,
  openWhole: () => Promise<Archive | Other>,
): Promise<Archive | Other> {
  let whole: Archive | Other | undefined;
  try {
    whole = await openWhole();
    // Only its name identifies a file whose first bytes are lost.
    if (!isOpened(whole) && !/\.blp$/i.test(path)) return whole;
    if (isOpened(whole) && whole.kind === "array" && whole.dtype.kind === "object") return whole;
  } catch (error) {
    if (!isFlaw(error) || error.code === "UNSUPPORTED") throw error;
  }
  const survey = await surveyArchive(store, path, options);
  const { holes, problems, lost } = survey;
  if (whole !== undefined && isOpened(whole) && holes.length + lost.length === 0) return whole;
  const archive = await survey.open(options.damaged === "skip" ? "drop" : "fill");
  options.onDamage?.({ path: store.describe(path), holes, problems, lost });
  return archive;
}

function isOpened(opened: Archive | object): opened is Archive {
  return "kind" in opened;
}
