/**
 * A damaged archive of any dialect, looked through: what is known of it, which chunks are whole, which rows are holes; and the
 * archive that can be read of it once it is said what becomes of the holes. Reads only.
 */
import { SuperchunkError } from "../../errors.ts";
import { formatDType, parseDType } from "../../format/dtype.ts";
import { parseRootdirs } from "../../format/folder.ts";
import type { RowSpan } from "../../format/layout.ts";
import type { DType, JsonObject, JsonValue } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore } from "../../store/types.ts";
import { encodeItem, putRow } from "../../values/item-bytes.ts";
import { elementsOf } from "../../values/selection.ts";
import { fieldSize } from "../../values/values.ts";
import { withJournal } from "../journal/journal.ts";
import {
  type ArrayFace,
  type ArrayFolder,
  nestedArray,
  plainArray,
  readAttributes,
} from "../kinds/array-folder.ts";
import { ColumnTable } from "../kinds/table-archive.ts";
import type { Archive, ArrayArchive, OpenOptions } from "../kinds/types.ts";
import { asObject, isNumpy, showFile } from "../open/open-file.ts";
import { isFlaw, readHeaderAt } from "./chunk-check.ts";
import { type FoundColumn, findBloscpackChunks, findCarrayChunks, findSuperchunkChunks } from "./columns.ts";
import { findFileChunks } from "./file-chunks.ts";
import {
  type Hole,
  type HolePolicy,
  keptRows,
  lengthOf,
  listHoles,
  type SalvagedColumn,
  SalvagedSequence,
} from "./holes.ts";
import { withInterruptedChanges } from "./interrupted.ts";
import { examineFolder, type KnownArray, type ToldFacts } from "./known.ts";

/** How a damaged archive is looked through. */
export interface SurveyOptions extends OpenOptions, ToldFacts {
  /** Search for Blosc headers where nothing else tells where chunks are (default false). */
  readonly scan?: boolean | undefined;
  /** What stands in filled rows (default: the array's default value, else zeros). */
  readonly fill?: JsonValue | undefined;
}

/** What was found of a damaged archive. */
export interface Survey {
  readonly dialect: Archive["dialect"];
  readonly kind: Archive["kind"];
  /** Rows that there should be; of plain bytes the bytes. */
  readonly rows: number;
  /** Rows that the metadata count; undefined where they do not tell. */
  readonly rowsBefore: number | undefined;
  readonly holes: readonly Hole[];
  /** What is wrong and can be helped, in words. */
  readonly problems: readonly string[];
  /** What is gone besides rows, in words. */
  readonly lost: readonly string[];
  /** The array, where it is one folder. */
  readonly known: KnownArray | undefined;
  /** The columns' chunks, where it is one folder. */
  readonly columns: readonly SalvagedColumn[];
  /** The store as the archive's journal says that it is. */
  readonly store: ReadableStore;
  /** Rows that stay by a policy. */
  kept(policy: HolePolicy): readonly RowSpan[];
  /** The archive as it is read by a policy. Throws `UNSUPPORTED` where that cannot be. */
  open(policy: HolePolicy): Archive;
}

/**
 * Looks through the archive at a key of a store: reads and checks every chunk.
 *
 * @throws NOT_FOUND; INCOMPLETE and the codes of damage where something is missing that the options must tell; UNSUPPORTED for
 * what is not an archive; BAD_ARGUMENT
 */
export async function surveyArchive(
  store: ReadableStore,
  path: string,
  options: SurveyOptions = {},
): Promise<Survey> {
  const parts = new Set<string>();
  for await (const { name } of store.list(path, { signal: options.signal })) parts.add(name);
  if (parts.has("meta") || parts.has("data")) return surveyArray(store, path, options);
  if (parts.has("__rootdirs__") || (await hasColumnFolders(store, path, parts)))
    return surveyTable(store, path, [...parts], options);
  if (path !== "" && (await store.stat(path)) !== undefined) return surveyFile(store, path, options);
  throw new SuperchunkError(
    parts.size === 0 ? "NOT_FOUND" : "UNSUPPORTED",
    parts.size === 0
      ? "there is no such file or folder"
      : 'the folder is not an archive, nor what is left of one; "superchunk ls" lists the archives inside a folder',
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

/** An array that is a folder: its columns have one length, and one length of chunks. */
export async function surveyArray(
  given: ReadableStore,
  path: string,
  options: SurveyOptions,
): Promise<Survey> {
  const problems: string[] = [];
  const lost: string[] = [];
  const known = await examineFolder(given, path, options, problems);
  const { rows: told, chunklen, layout, dtype, rowShape } = known;
  const folders = known.columns.map(({ folder }) => folder);
  const store = await withInterruptedChanges(given, path, { layout, folders }, { problems, lost });
  const fill = fillOf(dtype, rowShape, options.fill ?? known.dflt, {
    problems,
    isTold: options.fill !== undefined,
  });
  const columns: SalvagedColumn[] = [];
  for (const { name, folder: key, rowBytes } of known.columns) {
    const nbytes = told === undefined ? undefined : told * rowBytes;
    const facts = { key, chunkBytes: chunklen * rowBytes, nbytes, scan: options.scan === true };
    const found =
      rowBytes === 0
        ? { slots: [], chunkBytes: 0, unplaced: [], problems: [] }
        : known.kind === "carray"
          ? await findCarrayChunks(store, facts)
          : await findSuperchunkChunks(store, {
              ...facts,
              layout,
              superchunklen: known.storage?.superchunk?.superchunklen,
            });
    problems.push(...found.problems);
    if (found.unplaced.length > 0) lost.push(unplacedText(known, found));
    columns.push({
      name,
      key,
      found,
      rowBytes,
      fill: fieldOf(fill, dtype, name),
      ...(await encodingOf(store, found)),
    });
  }
  const rows = told ?? Math.max(0, ...columns.map(rowsOf));
  if (known.damagedAttributes !== undefined) lost.push("the attributes");
  const holes = listHoles(columns, rows);
  return {
    dialect: known.kind,
    kind: "array",
    rows,
    rowsBefore: known.sizes?.shape[0],
    holes,
    problems,
    lost,
    known,
    columns,
    store,
    kept: (policy) => keptRows(holes, rows, policy),
    open: (policy) => showArray(store, path, known, columns, keptRows(holes, rows, policy), options),
  };
}

/** What is told of data that have no place: files that a carray does not count are left over from a trim, mostly. */
function unplacedText({ kind, rows }: KnownArray, { unplaced }: FoundColumn): string {
  const names = nameSome(unplaced);
  if (kind === "carray") return `files beyond the ${rows} rows that meta/sizes counts: ${names}`;
  return `superchunks that nothing gives a place: ${names}`;
}

/** Paths that a report names, of a list. */
const NAMED = 5;

/** The first few of a list that may be long. */
export function nameSome(paths: readonly string[]): string {
  const more = paths.length - NAMED;
  return `${paths.slice(0, NAMED).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

function rowsOf({ found, rowBytes }: SalvagedColumn): number {
  const last = found.slots.length - 1;
  const bytes = last < 0 ? 0 : last * found.chunkBytes + (found.slots[last]?.nbytes ?? 0);
  return rowBytes === 0 ? 0 : Math.floor(bytes / rowBytes);
}

/** How the whole chunks of a column are compressed: those that are made are so too. */
async function encodingOf(
  store: ReadableStore,
  { slots }: FoundColumn,
): Promise<Pick<SalvagedColumn, "encoding" | "checksum">> {
  const place = slots.find((slot) => slot.place !== undefined)?.place;
  if (place === undefined) return { encoding: {}, checksum: "None" };
  const header = await readHeaderAt(store, place.key, place.offset, place.offset + place.available);
  const encoding =
    header === undefined
      ? {}
      : { cname: header.compressor, shuffle: header.shuffle, typesize: header.typesize };
  return { encoding, checksum: place.checksum };
}

/** The value that fills, as one stored item, or as one row where the default value is one. */
function fillOf(
  dtype: DType,
  rowShape: readonly number[],
  value: JsonValue,
  { problems, isTold }: { readonly problems: string[]; readonly isTold: boolean },
): Uint8Array {
  if (dtype.kind === "object") return new Uint8Array(0);
  try {
    return encodeItem(dtype, value);
  } catch (error) {
    if (isTold) throw error;
  }
  try {
    const bytes = new Uint8Array(elementsOf(rowShape) * dtype.itemSize);
    putRow(new DataView(bytes.buffer), 0, dtype, rowShape, value);
    return bytes;
  } catch {
    problems.push("the default value does not fit the dtype; zeros fill");
    return new Uint8Array(dtype.itemSize);
  }
}

/** What of the value that fills is a column's. */
function fieldOf(fill: Uint8Array, dtype: DType, name: string | undefined): Uint8Array {
  if (name === undefined || dtype.kind !== "struct") return fill;
  const field = dtype.fields.find((each) => each.name === name);
  return field === undefined ? fill : fill.subarray(field.offset, field.offset + fieldSize(field));
}

function showArray(
  store: ReadableStore,
  path: string,
  known: KnownArray,
  columns: readonly SalvagedColumn[],
  kept: readonly RowSpan[],
  options: SurveyOptions,
): ArrayArchive {
  const sequences = new Map<string, SalvagedSequence>();
  let shown = store;
  for (const column of columns) {
    const sequence = new SalvagedSequence(shown, column, kept);
    sequences.set(column.key, sequence);
    shown = sequence.store;
  }
  const rows = lengthOf(kept);
  const folder: ArrayFolder = {
    store: shown,
    path,
    dtype: known.dtype,
    shape: [rows, ...known.rowShape],
    heldRows: rows,
    chunklen: known.chunklen,
    clevel: known.storage?.cparams.clevel,
    dflt: known.dflt,
    metadata: { sizes: known.sizes?.raw ?? {}, storage: known.storage?.raw ?? {} },
    warnings: [],
    verify: options.verify ?? true,
    decoder: options.decoder,
  };
  const face: ArrayFace = {
    dialect: known.kind,
    attrs: known.attrs,
    metadataKeys: [],
    sequence: (dataFolder) => {
      const sequence = sequences.get(dataFolder);
      if (sequence === undefined) throw new RangeError(`no column ${dataFolder}`);
      return sequence;
    },
  };
  if (known.columns[0]?.name !== undefined && known.dtype.kind === "struct")
    return nestedArray(folder, known.dtype, face);
  return plainArray(folder, face);
}

/** A table: each column is an array of its own, of as many rows as the longest has. */
async function surveyTable(
  store: ReadableStore,
  path: string,
  entries: readonly string[],
  options: SurveyOptions,
): Promise<Survey> {
  const problems: string[] = [];
  const lost: string[] = [];
  const { names, dirs } = await tableColumns(store, path, entries, problems);
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
    problems.push(...own);
    lost.push(...gone.map((text) => `column "${name}": ${text}`));
    holes.push(
      ...listHoles(
        columns.map((column) => ({ ...column, name })),
        rows,
      ),
    );
  }
  const [first] = surveys.values();
  const kept = (policy: HolePolicy): RowSpan[] => keptRows(holes, rows, policy);
  const attrs = await tableAttributes(store, path, problems, lost);
  return {
    dialect: "ctable",
    kind: "table",
    rows,
    rowsBefore: first?.rowsBefore,
    holes,
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
        if (known !== undefined) columns.set(name, showArray(store, folder, known, own, rowSpans, options));
      }
      const length = lengthOf(rowSpans);
      const metadata = { names: [...columns.keys()], dirs };
      return new ColumnTable({
        store,
        path,
        attrs,
        metadata,
        warnings: [],
        metadataKeys: [],
        columns,
        length,
      });
    },
  };
}

/** The columns that `__rootdirs__` names; where that cannot be read, the folders that are arrays, in the order of their names. */
async function tableColumns(
  store: ReadableStore,
  path: string,
  entries: readonly string[],
  problems: string[],
): Promise<{ readonly names: readonly string[]; readonly dirs: Readonly<Record<string, string>> }> {
  const key = joinKey(path, "__rootdirs__");
  const bytes = await store.get(key);
  try {
    if (bytes !== undefined) return parseRootdirs(bytes, store.describe(key));
    problems.push(`${store.describe(key)} is missing; the columns are taken in the order of their names`);
  } catch (error) {
    if (!isFlaw(error) || error.code === "UNSAFE_PATH") throw error;
    problems.push(`${error.message}; the columns are taken in the order of their names`);
  }
  const names: string[] = [];
  for (const name of [...entries].sort())
    if (await isArrayFolder(store, joinKey(path, name))) names.push(name);
  return { names, dirs: {} };
}

async function tableAttributes(
  store: ReadableStore,
  path: string,
  problems: string[],
  lost: string[],
): Promise<JsonObject> {
  try {
    return (await readAttributes(store, joinKey(path, "__attrs__"), {})) ?? {};
  } catch (error) {
    if (!isFlaw(error)) throw error;
    problems.push(error.message);
    lost.push("the attributes");
    return {};
  }
}

/** One file: plain bytes, or a numpy array. */
async function surveyFile(given: ReadableStore, key: string, options: SurveyOptions): Promise<Survey> {
  const scan = options.scan === true;
  const head = (await given.getRange(key, { offset: 0, length: 32 })) ?? new Uint8Array(0);
  const problems: string[] = [];
  const lost: string[] = [];
  let store = given;
  try {
    store = await withJournal(given, key, head, options);
  } catch (error) {
    if (!isFlaw(error)) throw error;
    problems.push(error.message);
    lost.push("a change in place that was not finished");
  }
  const path = store.describe(key);
  const file = await findFileChunks(store, key, { maxNbytes: 0x7fff_ffff, scan });
  if (file === undefined) throw new SuperchunkError("NOT_FOUND", "there is no such file", { path });
  const metadata = toldMetadata(asObject(file.metadata), options);
  if (file.lostMetadata && !isNumpy(metadata)) {
    throw new SuperchunkError(
      "INCOMPLETE",
      `${file.problems.join("; ")}. Nothing else tells what the chunks hold: give it with --dtype, for example --dtype "<f8", and --shape; --dtype "|u1" for plain bytes`,
      { path, field: "metadata" },
    );
  }
  if (file.lostMetadata) lost.push("the metadata");
  const isArray = isNumpy(metadata);
  const dtype: DType = isArray
    ? parseDType(metadata["dtype"] ?? "|u1", path)
    : { kind: "uint", itemSize: 1, byteOrder: "none" };
  const shape = metadata["shape"] as readonly number[] | undefined;
  const told = isArray && shape !== undefined ? elementsOf(shape) * dtype.itemSize : undefined;
  const found = await findBloscpackChunks(store, file, told);
  if (found.slots.length === 0 && told !== 0 && file.header === undefined)
    throw new SuperchunkError(
      /\.blp$/i.test(key) ? "INCOMPLETE" : "UNSUPPORTED",
      `it is not an archive, or no chunk of it was found: ${found.problems.join("; ")}. --scan searches the whole file for chunks`,
      { path },
    );
  problems.push(...found.problems);
  if (found.unplaced.length > 0) lost.push(`chunks that nothing gives a place: ${nameSome(found.unplaced)}`);
  const order = metadata["order"] === "F" ? "F" : "C";
  const dimensions = shape ?? [Math.floor(bytesOf(found) / dtype.itemSize)];
  const stored = order === "F" ? [...dimensions].reverse() : dimensions;
  const rowBytes = isArray ? elementsOf(stored.slice(1)) * dtype.itemSize : 1;
  const fill = fillOf(dtype, [], options.fill ?? null, { problems, isTold: options.fill !== undefined });
  const column: SalvagedColumn = {
    name: undefined,
    key,
    found,
    rowBytes,
    fill,
    ...(await encodingOf(store, found)),
  };
  const rows = Math.floor((told ?? bytesOf(found)) / Math.max(1, rowBytes));
  const holes = listHoles([column], rows);
  const header = file.header;
  const dialect =
    header?.version === 1 ? "bloscpack-1" : header?.version === 2 ? "bloscpack-2" : "bloscpack-3";
  const kept = (policy: HolePolicy): RowSpan[] => {
    if (holes.length > 0 && policy !== "fill" && isArray && (order === "F" || dimensions.length === 0))
      throw new SuperchunkError(
        "UNSUPPORTED",
        `the rows of ${order === "F" ? "an array in Fortran order" : "an array without dimensions"} cannot be ${policy === "cut" ? "cut off" : "dropped"}: take --holes fill`,
        { path, field: "holes" },
      );
    return keptRows(holes, rows, policy);
  };
  return {
    dialect,
    kind: isArray ? "array" : "bytes",
    rows,
    rowsBefore: told === undefined ? undefined : rows,
    holes,
    problems,
    lost,
    known: undefined,
    columns: [column],
    store,
    kept,
    open: (policy) => {
      const spans = kept(policy);
      const sequence = new SalvagedSequence(store, column, spans);
      const now =
        order === "F" || dimensions.length === 0 ? dimensions : [lengthOf(spans), ...dimensions.slice(1)];
      const own = isArray ? { ...metadata, shape: now } : metadata;
      const value = file.metadata === undefined && !isArray ? undefined : own;
      return showFile({ store: sequence.store, key, dialect, sequence, metadata: value }, options);
    },
  };
}

/** Metadata of a file as they are, with what the caller says. */
function toldMetadata(stored: JsonObject, { dtype, shape }: ToldFacts): JsonObject {
  if (dtype === undefined && shape === undefined) return stored;
  const told = dtype ?? stored["dtype"] ?? "|u1";
  const parsed = formatDType(parseDType(told, "--dtype"));
  return {
    order: "C",
    ...stored,
    container: "numpy",
    dtype: parsed,
    ...(shape === undefined ? {} : { shape }),
  };
}

function bytesOf({ slots, chunkBytes }: FoundColumn): number {
  const last = slots.length - 1;
  return last < 0 ? 0 : last * chunkBytes + (slots[last]?.nbytes ?? 0);
}
