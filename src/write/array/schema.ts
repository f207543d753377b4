/**
 * Adds, renames and deletes columns of an array whose fields are stored in one folder each. Nothing else may be planned, and
 * the array must be folded. @see FORMAT.md [FG-07]
 */

import { linkOrCopy } from "../../archive/places/journal.ts";
import { at, elementsOf } from "../../bytes/arrays.ts";
import { notNamed, SuperchunkError } from "../../errors.ts";
import { givenDType } from "../../format/given-dtype.ts";
import { superchunkName } from "../../format/naming.ts";
import type { Field, JsonValue } from "../../format/types.ts";
import { sizeOfObjects } from "../../store/key.ts";
import { repeatItem } from "../../values/copy-items.ts";
import { encodeItem, storedTimes } from "../../values/item-bytes.ts";
import { fieldSize } from "../../values/values.ts";
import { cutPieces } from "../bloscpack/pieces.ts";
import { checkColumn, checkColumnName, type NewColumn } from "../editable.ts";
import { assertApart, type ColumnLayout, layOutColumns, superchunkKeys } from "../layout/columns.ts";
import { placesOf } from "../layout/runs.ts";
import { type ArraySettings, storageOf } from "../layout/settings.ts";
import { readRows, repeatRow } from "../rows/rows.ts";
import type { ArrayWriter } from "./array-writer.ts";
import { commitStorage } from "./changes.ts";
import { formOf, type StoredChunk, totalLength } from "./superchunk-file.ts";

/** Adds a column after the others, with one of `values` for each row, or the default value in all. */
export async function addColumn(writer: ArrayWriter, column: NewColumn, values: unknown): Promise<void> {
  checkColumn(column);
  const fields = fieldsOf(writer);
  const { name, shape = [] } = column;
  const dtype = givenDType(column.dtype, writer.root.store.describe(writer.root.path));
  const dflt = storedTimes(dtype, (column.fillValue ?? null) as JsonValue);
  if (fields.some((field) => field.name === name)) throw taken(name);
  const settings = withFields(writer, [...fields, { name, dtype, shape, offset: 0 }], (dflts) => [
    ...dflts,
    dflt,
  ]);
  const added = layOutColumns(writer.root.path, settings)[fields.length];
  if (added === undefined) throw new RangeError("the column was not laid out");
  await assertApartFrom(writer, added);
  await writer.files.mirror?.admit(settings);
  await beginEpoch(writer);
  const rowShape = [...settings.rowShape, ...shape];
  const row = repeatItem(encodeItem(dtype, dflt), new Uint8Array(elementsOf(rowShape) * dtype.itemSize));
  const rows = readRows(values ?? repeatRow(row, writer.committed.rows), { dtype, rowShape });
  const bytes = await writeColumn(writer, settings, added, rows);
  await changeFields(writer, settings, bytes);
}

export async function renameColumn(writer: ArrayWriter, from: string, to: string): Promise<void> {
  checkColumnName(to);
  const fields = fieldsOf(writer);
  const index = findField(fields, from);
  if (from === to) return;
  if (fields.some((field) => field.name === to)) throw taken(to);
  const renamed = fields.map((field, i) => (i === index ? { ...field, name: to } : field));
  const settings = withFields(writer, renamed, (dflts) => dflts);
  const old = writer.columns[index];
  const added = layOutColumns(writer.root.path, settings)[index];
  if (old === undefined || added === undefined) throw new RangeError("the column was not laid out");
  await assertApartFrom(writer, added);
  await writer.files.mirror?.admit(settings);
  await beginEpoch(writer);
  const keys = keysOf(writer, old);
  for (const [i, key] of keysOf(writer, added).entries())
    await linkOrCopy(writer.root.store, at(keys, i), key);
  await changeFields(writer, settings, 0);
  writer.root.remove(keys);
}

/** Removes a column; the last one cannot be removed. */
export async function deleteColumn(writer: ArrayWriter, name: string): Promise<void> {
  const fields = fieldsOf(writer);
  const index = findField(fields, name);
  if (fields.length === 1)
    throw new SuperchunkError("BAD_ARGUMENT", `"${name}" is the only column; delete the array instead`, {
      field: name,
    });
  const rest = fields.filter((_, i) => i !== index);
  const settings = withFields(writer, rest, (dflts) => dflts.filter((_, i) => i !== index));
  await writer.files.mirror?.admit(settings);
  const keys = keysOf(writer, at(writer.columns, index));
  const bytes = await sizeOfObjects(writer.root.store, keys, undefined);
  await changeFields(writer, settings, -bytes);
  writer.root.remove(keys);
}

/** Keys of a column's part of the superchunks, in order. */
function keysOf(writer: ArrayWriter, column: ColumnLayout): string[] {
  const numbers = [...placesOf(writer.committed.layout.runs)].map(({ number }) => number);
  return [...superchunkKeys([column], numbers)];
}

/** Throws `CONFLICT` if the file system treats a new column's folder name as that of an existing column. */
function assertApartFrom({ root, columns }: ArrayWriter, { folder }: ColumnLayout): Promise<void> {
  return assertApart(root.store, [...columns.map((column) => column.folder), folder]);
}

/** Begins a new epoch: a column of the same name may have used names in the folder before. */
async function beginEpoch(writer: ArrayWriter): Promise<void> {
  await writer.recommit({ epoch: writer.committed.layout.epoch + 1 });
  await writer.root.settled();
}

/** Commits other fields over the same superchunks. */
async function changeFields(writer: ArrayWriter, settings: ArraySettings, bytes: number): Promise<void> {
  const before = writer.settings;
  const { committed, edition } = writer;
  writer.committed = { ...committed, cbytes: committed.cbytes + bytes };
  try {
    await writer.rollBack(settings);
    await writer.recommit({
      storage: storageOf(settings),
      revision: settings.revision,
      edition: edition + 1,
    });
  } catch (error) {
    writer.committed = committed;
    await writer.rollBack(before);
    throw error;
  }
  await commitStorage(writer);
}

/** Writes a column's part of every superchunk; returns its bytes. Throws `BAD_ARGUMENT` for another number of rows. */
async function writeColumn(
  writer: ArrayWriter,
  settings: ArraySettings,
  column: ColumnLayout,
  rows: AsyncIterable<Uint8Array>,
): Promise<number> {
  const { chunklen } = settings;
  const total = writer.committed.rows;
  const chunkBytes = chunklen * column.rowBytes;
  // Rows without bytes make no pieces.
  const pieces = cutPieces(rows, Math.max(1, chunkBytes));
  let isWhole = true;
  let bytes = 0;
  let row = 0;
  for (const { first, count, chunks } of writer.committed.layout.runs)
    for (let i = 0; i < count; i++) {
      const stored: StoredChunk[] = [];
      for (let k = 0; k < chunks; k++) {
        const held = Math.min(chunklen, total - row);
        const data = (await pieces.next()).value ?? new Uint8Array(0);
        if (data.length < held * column.rowBytes) throw otherRows(total, "fewer");
        isWhole &&= data.length === held * column.rowBytes;
        stored.push(await writer.chunks.encode(data.subarray(0, held * column.rowBytes), column.itemSize));
        row += held;
      }
      const file = await writer.files.makePieces(stored, formOf(column, settings));
      const key = `${column.folder}/${superchunkName(first + i)}`;
      await writer.root.store.delete(key);
      await writer.root.publish(key, file);
      bytes += totalLength(file);
    }
  if (!isWhole || (await pieces.next()).done !== true) throw otherRows(total, "more");
  return bytes;
}

function fieldsOf(writer: ArrayWriter): readonly Field[] {
  const { dtype, hasColumns } = writer.settings;
  if (hasColumns && dtype.kind === "struct") return dtype.fields;
  throw new SuperchunkError(
    "UNSUPPORTED",
    "the array has no columns: only an array of a nested dtype, stored as column folders, has",
    { path: writer.root.store.describe(writer.root.path), field: "dtype" },
  );
}

function findField(fields: readonly Field[], name: string): number {
  const index = fields.findIndex((field) => field.name === name);
  if (index >= 0) return index;
  const names = fields.map((field) => field.name);
  throw notNamed("column", name, names);
}

/** The settings with other fields, packed contiguously. */
function withFields(
  { settings }: ArrayWriter,
  fields: readonly Field[],
  change: (dflts: readonly JsonValue[]) => readonly JsonValue[],
): ArraySettings {
  let itemSize = 0;
  const packed = fields.map((field) => {
    const offset = itemSize;
    itemSize += fieldSize(field);
    return { ...field, offset };
  });
  const { dtype, dflt } = settings;
  const count = dtype.kind === "struct" ? dtype.fields.length : 0;
  const dflts = Array.isArray(dflt) ? (dflt as readonly JsonValue[]) : new Array<JsonValue>(count).fill(null);
  const changed = change(dflts);
  return {
    ...settings,
    dtype: { kind: "struct", itemSize, byteOrder: "none", fields: packed },
    dflt: changed.every((value) => value === null) ? null : changed,
    revision: settings.revision + 1,
  };
}

function taken(name: string): SuperchunkError {
  return new SuperchunkError("CONFLICT", `there is a column "${name}" already`, { field: name });
}

function otherRows(expected: number, found: "fewer" | "more"): SuperchunkError {
  return new SuperchunkError(
    "BAD_ARGUMENT",
    `the column has ${found} rows than the array, which has ${expected}; nothing was changed`,
    { field: "values", expected, found },
  );
}
