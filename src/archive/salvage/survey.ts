/**
 * A damaged archive of any dialect, looked through: what is known of it, which chunks are whole, which rows are holes; and the
 * archive that can be read of it once it is said what becomes of the holes. Reads only.
 */
import { SuperchunkError } from "../../errors.ts";
import { parseRootdirs } from "../../format/folder.ts";
import type { RowSpan } from "../../format/layout.ts";
import type { JsonObject } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import type { ReadableStore } from "../../store/types.ts";
import { readAttributes } from "../kinds/array-folder.ts";
import { ColumnTable } from "../kinds/table-archive.ts";
import type { ArrayArchive } from "../kinds/types.ts";
import { isFlaw } from "./chunk-check.ts";
import { type Hole, type HolePolicy, keptRows, lengthOf, listHoles } from "./holes.ts";

import { type Survey, type SurveyOptions, showArray, surveyArray } from "./survey-array.ts";
import { surveyFile } from "./survey-file.ts";

export type { Survey, SurveyOptions } from "./survey-array.ts";

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
  // Other folders with arrays in them are no tables: those of bcolz have attributes of their own.
  if (parts.has("__rootdirs__") || (parts.has("__attrs__") && (await hasColumnFolders(store, path, parts))))
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
    whole: [...surveys.values()].reduce((sum, survey) => sum + survey.whole, 0),
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
