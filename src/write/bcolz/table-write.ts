/**
 * Makes tables of carrays, appends rows to them and cuts them, so that bcolz 1.2 and bcolz-zipline go on opening them.
 *
 * bcolz takes a table's length from its first column. So the files of all columns come first, then the `sizes` of all
 * columns but the first, and that of the first is the commit; when rows are cut off, the first column's comes first. One
 * writer at a time. @see FORMAT.md [FT-05]
 */

import { refuseSymbolic } from "../../archive/places/linked.ts";
import { SuperchunkError } from "../../errors.ts";
import { MAX_COLUMNS, tooManyColumns } from "../../format/folder.ts";
import { memberText } from "../../format/json-members.ts";
import { checkStoredName } from "../../format/naming.ts";
import { joinKey } from "../../store/key.ts";
import type { PutSource, WritableStore } from "../../store/types.ts";
import { checkCount } from "../bloscpack/bloscpack-options.ts";
import { type CarrayState, claimCarray, readCarray } from "./carray-state.ts";
import {
  type CarrayWriteOptions,
  cleanShrunk,
  commitRows,
  commitShrink,
  type StagedRows,
  stageAppend,
} from "./carray-steps.ts";
import { type CarrayOptions, type CarraySource, createCarray, resizeState } from "./carray-write.ts";
import { readTable } from "./table-state.ts";

/** A column to be made. */
export interface NewTableColumn extends CarraySource {
  readonly name: string;
  /** Its own settings, where they differ from the table's. */
  readonly options?:
    | Pick<CarrayOptions, "cparams" | "chunklen" | "expectedlen" | "dflt" | "attrs">
    | undefined;
}

/** What was done to a table. */
export interface TableResult {
  readonly rows: number;
  readonly rowsAppended: number;
}

/**
 * Makes a table in a folder that has none. It is there once `__rootdirs__` is.
 *
 * @throws CONFLICT where there is something; BAD_ARGUMENT for columns of different lengths; LIMIT, UNSUPPORTED
 */
export async function createTable(
  store: WritableStore,
  path: string,
  columns: readonly NewTableColumn[],
  options: CarrayOptions = {},
): Promise<TableResult> {
  const rootdirs = joinKey(path, "__rootdirs__");
  for (const key of [rootdirs, joinKey(path, "meta/sizes")]) {
    if ((await store.stat(key, options)) === undefined) continue;
    throw new SuperchunkError("CONFLICT", "there is a table or an array in the folder already", {
      path: store.describe(path),
    });
  }
  checkNames(columns.map(({ name }) => name));
  const { attrs, ...settings } = options;
  const lengths: number[] = [];
  for (const { name, options: own, ...source } of columns) {
    const { rows } = await createCarray(store, joinKey(path, name), source, { ...settings, ...own });
    lengths.push(rows);
  }
  checkLengths(
    columns.map(({ name }) => name),
    lengths,
  );
  await store.put(joinKey(path, "__attrs__"), utf8(`${memberText(attrs ?? {})}\n`));
  await store.put(rootdirs, utf8(`${memberText({ names: columns.map(({ name }) => name) })}\n`), {
    ifAbsent: true,
  });
  return { rows: lengths[0] ?? 0, rowsAppended: lengths[0] ?? 0 };
}

/**
 * Appends rows: for every column its bytes. Durable when resolved.
 *
 * @throws BAD_ARGUMENT where a column is missing or the lengths differ; nothing has been appended then. CONFLICT where
 * another writer was faster; NOT_FOUND, UNSUPPORTED, and the codes of damage
 */
export async function appendToTable(
  store: WritableStore,
  path: string,
  columns: Readonly<Record<string, PutSource>>,
  options: CarrayWriteOptions = {},
): Promise<TableResult> {
  const { names, states, rows } = await openColumns(store, path, options);
  const unknown = Object.keys(columns).find((name) => !names.includes(name));
  const missing = names.find((name) => !Object.hasOwn(columns, name));
  if (unknown !== undefined || missing !== undefined) {
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      unknown === undefined
        ? `there are no values for the column "${missing}"`
        : `the table has no column "${unknown}"; it has ${names.join(", ")}`,
      { path: store.describe(path), field: unknown ?? missing ?? "", expected: names },
    );
  }
  const staged: StagedRows[] = [];
  try {
    for (const [i, state] of states.entries())
      staged.push(await stageAppend(state, columns[names[i] ?? ""] ?? new Uint8Array(0), options));
    checkLengths(
      names,
      staged.map(({ rowsAppended }) => rowsAppended),
    );
  } catch (error) {
    for (const { keys } of staged) for (const key of keys) await store.delete(key).catch(() => undefined);
    throw error;
  }
  const rowsAppended = staged[0]?.rowsAppended ?? 0;
  if (rowsAppended > 0) {
    for (let i = states.length - 1; i >= 0; i--) {
      const [state, rowsOf] = [states[i], staged[i]];
      if (state !== undefined && rowsOf !== undefined) await commitRows(state, rowsOf);
    }
  }
  return { rows: rows + rowsAppended, rowsAppended };
}

/** Cuts off the last `count` rows of all columns. @throws as {@link resizeTable} */
export async function trimTable(
  store: WritableStore,
  path: string,
  count: number,
  options: CarrayWriteOptions = {},
): Promise<TableResult> {
  const opened = await openColumns(store, path, options);
  return resizeColumns(opened, opened.rows - checkCount("count", count, 0, opened.rows), options);
}

/**
 * Makes all columns `rows` long: cuts rows off, or appends each column's default value.
 *
 * @throws BAD_ARGUMENT, CONFLICT, NOT_FOUND, UNSUPPORTED, and the codes of damage
 */
export async function resizeTable(
  store: WritableStore,
  path: string,
  rows: number,
  options: CarrayWriteOptions = {},
): Promise<TableResult> {
  checkCount("rows", rows, 0, Number.MAX_SAFE_INTEGER);
  return resizeColumns(await openColumns(store, path, options), rows, options);
}

interface OpenedColumns {
  readonly names: readonly string[];
  readonly states: readonly CarrayState[];
  readonly rows: number;
}

/** Reads all columns, and cuts those that an interrupted writer left longer than the shortest. */
async function openColumns(
  store: WritableStore,
  path: string,
  options: CarrayWriteOptions,
): Promise<OpenedColumns> {
  await refuseSymbolic(store, path, options);
  const { columns } = await readTable(store, path, options);
  const states: CarrayState[] = [];
  for (const { folder } of columns) states.push(await claimCarray(store, folder, options));
  await store.removeLeftovers?.(path, options);
  const rows = states.reduce((least, state) => Math.min(least, state.rows), states[0]?.rows ?? 0);
  // The first column before the others: its length is the table's.
  for (const [i, state] of states.entries()) {
    if (state.rows === rows) continue;
    await resizeState(state, rows, options);
    states[i] = await readCarray(store, state.path, options);
  }
  return { names: columns.map(({ name }) => name), states, rows };
}

async function resizeColumns(
  { states, rows: before }: OpenedColumns,
  rows: number,
  options: CarrayWriteOptions,
): Promise<TableResult> {
  const result = { rows, rowsAppended: rows - before };
  if (rows >= before) {
    // The last column first: the table's length is that of the first.
    for (const state of [...states].reverse()) await resizeState(state, rows, options);
    return result;
  }
  const tails: Uint8Array[] = [];
  for (const state of states) tails.push(await commitShrink(state, rows, options));
  for (const [i, state] of states.entries())
    await cleanShrunk(state, rows, tails[i] ?? new Uint8Array(0), options);
  return result;
}

/** Names that bcolz takes: Python identifiers that do not begin with an underscore. Throws `BAD_ARGUMENT`, and `LIMIT` for too many. */
export function checkNames(names: readonly string[]): void {
  if (names.length > MAX_COLUMNS) throw tooManyColumns(undefined, names.length);
  for (const [i, name] of names.entries()) {
    const isPlain = /^[\p{L}][\p{L}\p{N}_]*$/u.test(name);
    if (isPlain && names.indexOf(name) === i) {
      checkStoredName(name, name, "names");
      continue;
    }
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      isPlain
        ? `there are two columns "${name}"`
        : `"${name}" is no name of a column: bcolz takes letters, digits and underscores, a letter first`,
      { field: "names", found: name },
    );
  }
  if (names.length === 0)
    throw new SuperchunkError("BAD_ARGUMENT", "a table has one column at least", { field: "names" });
}

function checkLengths(names: readonly string[], lengths: readonly number[]): void {
  const other = lengths.findIndex((length) => length !== lengths[0]);
  if (other < 0) return;
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    `the columns have different lengths: "${names[0]}" ${lengths[0]} rows, "${names[other]}" ${lengths[other]}`,
    { field: names[other] ?? "", expected: lengths[0], found: lengths[other] },
  );
}

function utf8(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}
