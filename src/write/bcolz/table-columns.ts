/**
 * Adds, removes and renames columns of a table. Replacing `__rootdirs__` is the commit: a new folder is complete before it, an
 * old one is removed after it. @see FORMAT.md [FT-06]
 */

import { refuseSymbolic } from "../../archive/places/linked.ts";
import { at } from "../../bytes/arrays.ts";
import { SuperchunkError } from "../../errors.ts";
import { MAX_COLUMNS, tooManyColumns } from "../../format/folder.ts";
import type { DType, Field } from "../../format/types.ts";
import { joinKey } from "../../store/key.ts";
import { walkKeys } from "../../store/tree.ts";
import type { StoreOptions, WritableStore } from "../../store/types.ts";
import type { Extent } from "../../values/selection.ts";
import { type ChangeCost, touchedChunks } from "../editable.ts";
import type { ColumnLayout } from "../layout/columns.ts";
import {
  type CarrayOptions,
  checkNames,
  commitColumns,
  createCarray,
  makeDataFolder,
  type NewTableColumn,
  readTable,
  type TableState,
  tableColumnNamed,
} from "./bcolz-create.ts";
import { type CarrayState, readCarray } from "./carray-state.ts";

interface AddColumnOptions extends Omit<CarrayOptions, "attrs"> {
  /** Position among the columns, from 0 (default: the last). */
  readonly position?: number | undefined;
}

/**
 * Adds a column with as many rows as the table has.
 * @throws CONFLICT if there is such a column, or an array in its folder; BAD_ARGUMENT for another number of rows
 */
export async function addColumn(
  store: WritableStore,
  path: string,
  column: NewTableColumn,
  options: AddColumnOptions = {},
): Promise<void> {
  await refuseSymbolic(store, path, options);
  const state = await readTable(store, path, options);
  const { name, options: own, ...source } = column;
  checkNew(state, name);
  if (state.columns.length >= MAX_COLUMNS) throw tooManyColumns(store.describe(path), MAX_COLUMNS + 1);
  const [first] = state.columns;
  const expected = first === undefined ? undefined : (await readCarray(store, first.folder, options)).rows;
  const folder = joinKey(path, name);
  const { position = state.columns.length, ...settings } = options;
  const rows = await createCarray(store, folder, source, {
    ...settings,
    ...own,
    expectedLength: own?.expectedLength ?? settings.expectedLength ?? expected,
  });
  if (expected !== undefined && rows !== expected) {
    await removeFolder(store, folder);
    throw new SuperchunkError("BAD_ARGUMENT", `the column has ${rows} rows, but the table ${expected}`, {
      path: store.describe(path),
      field: name,
      expected,
      found: rows,
    });
  }
  const columns = [...state.columns];
  columns.splice(position, 0, { name, folder });
  try {
    await commitColumns(state, columns);
  } catch (error) {
    // A failed commit may still have arrived. If it has not, the folder would block the next attempt.
    const now = await readTable(store, path).catch(() => undefined);
    if (now?.columns.every((each) => each.folder !== folder) === true)
      await removeFolder(store, folder).catch(() => undefined);
    throw error;
  }
}

/** Removes a column; the last one cannot be removed. @throws NOT_FOUND, BAD_ARGUMENT, CONFLICT */
export async function deleteColumn(store: WritableStore, path: string, name: string): Promise<void> {
  await refuseSymbolic(store, path);
  const state = await readTable(store, path);
  const column = tableColumnNamed(state, name);
  if (state.columns.length === 1)
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `"${name}" is the only column, and bcolz does not open a table without columns`,
      { path: store.describe(path), field: name },
    );
  await commitColumns(
    state,
    state.columns.filter((each) => each !== column),
  );
  await removeFolder(store, column.folder);
}

/**
 * Renames a column and its folder, because bcolz looks only for a folder of that name.
 * @throws NOT_FOUND; CONFLICT if there is such a column, or an array in its folder; BAD_ARGUMENT
 */
export async function renameColumn(
  store: WritableStore,
  path: string,
  from: string,
  to: string,
): Promise<void> {
  await refuseSymbolic(store, path);
  const state = await readTable(store, path);
  const column = tableColumnNamed(state, from);
  checkNew(state, to);
  const folder = joinKey(path, to);
  if ((await store.stat(joinKey(folder, "meta/sizes"))) !== undefined)
    throw new SuperchunkError("CONFLICT", "there is an array in the folder that the column would have", {
      path: store.describe(folder),
    });
  const keys = await keysOf(store, column.folder);
  // `sizes` comes last: without it the folder is not an array.
  const sizes = joinKey(column.folder, "meta/sizes");
  const copied: string[] = [];
  if (!keys.some((key) => key.startsWith(`${column.folder}/data/`))) await makeDataFolder(store, folder);
  for (const key of [...keys.filter((each) => each !== sizes), sizes]) {
    const target = `${folder}${key.slice(column.folder.length)}`;
    await copyObject(store, key, target);
    copied.push(target);
  }
  await store.sync?.(copied);
  await commitColumns(
    state,
    state.columns.map((each) => (each === column ? { name: to, folder } : each)),
  );
  await removeFolder(store, column.folder);
}

function checkNew(state: TableState, name: string): void {
  checkNames([name]);
  if (!state.columns.some((each) => each.name === name)) return;
  throw new SuperchunkError("CONFLICT", `there is a column "${name}" already`, {
    path: state.store.describe(state.path),
    field: name,
  });
}

/** Copies an object, replacing one that an interrupted attempt left. */
async function copyObject(store: WritableStore, from: string, to: string): Promise<void> {
  if (store.link !== undefined) {
    await store.delete(to);
    await store.link(from, to, "copy");
    return;
  }
  const bytes = await store.get(from);
  if (bytes !== undefined) await store.put(to, bytes);
}

async function keysOf(store: WritableStore, folder: string): Promise<string[]> {
  const keys: string[] = [];
  for await (const key of walkKeys(store, folder)) keys.push(key);
  return keys;
}

/** Removes a column's files and folders; other files there stay. */
async function removeFolder(store: WritableStore, folder: string): Promise<void> {
  // Without `sizes` no reader opens it, even if this is interrupted.
  await store.delete(joinKey(folder, "meta/sizes"));
  for (const key of await keysOf(store, folder)) {
    const name = key.slice(folder.length + 1);
    if (/^(?:data\/__\d+\.blp|meta\/(?:sizes|storage)|__attrs__)$/.test(name)) await store.delete(key);
  }
  for (const part of ["data", "meta"]) await store.delete(joinKey(folder, part));
  await store.delete(folder);
}

// The columns of a bcolz table, or the single carray, as they are now, and what changes to them would cost. Writes nothing.

/** A carray, and where its values are in a row of the table. */
export interface CarrayColumn extends ColumnLayout {
  readonly state: CarrayState;
}

/** Reads the columns in these folders. A column without a name is a single carray. */
export async function readColumns(
  store: WritableStore,
  folders: readonly { readonly name: string | undefined; readonly folder: string }[],
  options: StoreOptions,
): Promise<{ readonly columns: readonly CarrayColumn[]; readonly dtype: DType }> {
  const columns: CarrayColumn[] = [];
  let offset = 0;
  for (const { name, folder } of folders) {
    const state = await readCarray(store, folder, options);
    const { dtype, rowBytes } = state.settings;
    const fieldBytes = name === undefined ? dtype.itemSize : rowBytes;
    columns.push({ name, folder, itemSize: dtype.itemSize, rowBytes, offset, fieldBytes, state });
    offset += fieldBytes;
  }
  const first = at(columns, 0);
  if (first.name === undefined) return { columns, dtype: first.state.settings.dtype };
  const fields = columns.map(({ name = "", offset: from, state: { settings } }): Field => {
    return { name, dtype: settings.dtype, shape: settings.rowShape, offset: from };
  });
  return { columns, dtype: { kind: "struct", itemSize: offset, byteOrder: "none", fields } };
}

/** The cost of another shape: more rows rewrite the last chunk of each column, fewer rows the chunk that is cut. */
export function costOfColumnsResize(
  columns: readonly CarrayColumn[],
  shapeBefore: readonly number[],
  shape: readonly number[],
): ChangeCost {
  const isMoved = shape.slice(1).join() !== shapeBefore.slice(1).join();
  const [rows, rowsBefore] = [at(shape, 0), at(shapeBefore, 0)];
  let [chunksRewritten, nbytesRewritten] = [0, 0];
  for (const { state } of columns) {
    const { chunklen, rowBytes } = state.settings;
    const kept = Math.min(rows, rowsBefore);
    const first = isMoved ? 0 : rows === rowsBefore ? kept : kept - (kept % chunklen);
    chunksRewritten += Math.ceil(kept / chunklen) - Math.ceil(first / chunklen);
    nbytesRewritten += (kept - first) * rowBytes;
  }
  return { chunksRewritten, nbytesRewritten };
}

/** The cost of setting values in these rows. */
export function costOfColumnsSet(columns: readonly CarrayColumn[], rows: Extent): ChangeCost {
  let [chunksRewritten, nbytesRewritten] = [0, 0];
  for (const { state } of columns) {
    const { chunklen, rowBytes } = state.settings;
    for (const chunk of touchedChunks(rows, chunklen)) {
      chunksRewritten++;
      nbytesRewritten += Math.min(chunklen, state.rows - chunk * chunklen) * rowBytes;
    }
  }
  return { chunksRewritten, nbytesRewritten };
}
