/** Folders of numbered superchunks: arrays, and tables as arrays of structs whose fields are stored apart. */
import { at, elementsOf } from "../../bytes/arrays.ts";
import { parseSuperchunkName } from "../../format/naming.ts";
import type { Field, JsonValue } from "../../format/types.ts";
import { joinField } from "../../values/copy-items.ts";
import { type ArrayOptions, settleArray } from "../../write/array/create.ts";
import { commitSuperchunks, stageSuperchunks } from "../../write/array/stage.ts";
import { layOutColumns } from "../../write/layout/columns.ts";
import type { ArraySettings } from "../../write/layout/settings.ts";
import {
  type Column,
  compressionOf,
  isCutByRows,
  offeredRows,
  type RowRange,
  rowBytesOf,
} from "../sources/columns.ts";
import { type CopyingEncoder, offerChunks } from "../sources/offered-chunks.ts";
import { whyNotRows } from "./bcolz.ts";
import type { ColumnFormat, Piece } from "./column-target.ts";
import { isFolderDocument, otherRows, rowTasks, storedBytes } from "./folder-tasks.ts";

/** Approximate bytes of table rows assembled at a time. */
const BATCH_BYTES = 4 << 20;

export const BLZ: ColumnFormat = {
  format: "blz",
  isDocument: isFolderDocument,
  folders: (piece) => layOutColumns(piece.key, settingsOf(piece)).map(({ folder }) => folder),

  whyRecoded(piece) {
    const reason = whyNotRows(piece);
    if (reason !== undefined) return reason;
    const isMixed = piece.table !== undefined && commonChunkLength(piece.columns) === undefined;
    return isMixed ? "the chunks of its columns are of different lengths" : undefined;
  },

  whyRefused({ columns, table }) {
    if (columns.some(({ shape }) => shape.length === 0))
      return "superchunks hold rows, and an array without dimensions has none; convert it to npy or bloscpack";
    return table !== undefined && columns.every((column) => rowBytesOf(column) === 0)
      ? "an array of structs cannot have rows of zero bytes, as all columns have here; convert them one by one"
      : undefined;
  },

  tasks(piece, options) {
    const { chunklen, superchunklen, dtype, rowShape } = settingsOf(piece);
    const rowBytes = elementsOf(rowShape) * dtype.itemSize;
    return rowTasks(piece, { rowsApart: chunklen * superchunklen, rowBytes }, options);
  },

  /** The superchunks of some rows, in the folders of all columns. */
  async write(piece, context, [first = 0, end = 0]) {
    const { key, columns, table } = piece;
    const { store, signal } = context;
    const encoder = context.copying();
    const column = at(columns, 0);
    const data =
      table === undefined
        ? offeredRows(column, encoder, signal, [first, end])
        : structRows(columns, [first, end], encoder, signal);
    const made = { store, path: key, settings: settingsOf(piece) };
    const last = await stageSuperchunks(made, first, context.watch(data), { encoder, signal });
    if (last !== end) throw otherRows(column, end - first, last - first);
  },

  async conclude(piece, context) {
    const { key, columns, table } = piece;
    const { store, options, note } = context;
    const settings = settingsOf(piece);
    for (const column of columns)
      if (table === undefined && oneFill(column).isLost === true)
        note(`${column.path}: the fill value differs within a row, and is not carried over`);
      else if (table !== undefined && Object.keys(column.attrs).length > 0)
        note(`${column.name}: attributes of columns are not carried over`);
    const rows = rowsOf(columns);
    const count = Math.ceil(rows / (settings.chunklen * settings.superchunklen));
    let cbytes = 0;
    for (const { folder, rowBytes } of layOutColumns(key, settings)) {
      const numbers = { numberOf: parseSuperchunkName, first: 1, count: rowBytes === 0 ? 0 : count };
      cbytes += await storedBytes(context, folder, numbers);
    }
    const described = {
      attrs: table === undefined ? columns[0]?.attrs : table.attrs,
      replaces: options.overwrite === true,
    };
    await commitSuperchunks({ store, path: key, settings }, { rows, cbytes }, described);
  },
};

/** The chunk length that all columns share, if there is one and the chunks can be copied. */
function commonChunkLength(columns: readonly Column[]): number | undefined {
  const lengths = new Set(columns.map(({ chunks }) => chunks?.chunkLength));
  const rows = new Set(columns.map(({ shape }) => shape[0]));
  const [length] = lengths;
  return lengths.size === 1 && rows.size === 1 && columns.every(isCutByRows) ? length : undefined;
}

function rowsOf(columns: readonly Column[]): number {
  return Math.min(...columns.map(({ shape }) => at(shape, 0)));
}

function settingsOf({ key, columns, table }: Piece): ArraySettings {
  const options = table === undefined ? arrayOptions(at(columns, 0)) : structOptions(columns);
  const compressor = compressionOf(at(columns, 0).settings);
  return settleArray({ ...options, compressor, expectedLength: rowsOf(columns) }, key).settings;
}

function arrayOptions(column: Column): ArrayOptions {
  const { dtype, shape, chunks, settings } = column;
  return {
    dtype,
    shape: [0, ...shape.slice(1)],
    fillValue: oneFill(column).fill,
    // Separate fields would cut the chunks of a struct in other places.
    ...(chunks === undefined ? {} : { columns: false }),
    chunkLength: chunks?.chunkLength,
    checksum: settings.checksum === "None" ? undefined : settings.checksum,
  };
}

/** A table as one array of structs, each field a folder. */
function structOptions(columns: readonly Column[]): ArrayOptions {
  const fields: Field[] = [];
  let itemSize = 0;
  for (const column of columns) {
    const { name, dtype, shape } = column;
    fields.push({ name, dtype, shape: shape.slice(1), offset: itemSize });
    itemSize += rowBytesOf(column);
  }
  return {
    dtype: { kind: "struct", itemSize, byteOrder: "none", fields },
    fillValue: columns.some(({ fillValue }) => (fillValue ?? null) === null) ? null : columns.map(rowFill),
    chunkLength: commonChunkLength(columns),
  };
}

/** Rows of a table as structs. */
async function* structRows(
  columns: readonly Column[],
  range: RowRange,
  encoder: CopyingEncoder,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  const sizes = columns.map(rowBytesOf);
  const itemSize = sizes.reduce((sum, size) => sum + size, 0);
  const length = commonChunkLength(columns);
  const parts =
    length === undefined
      ? batchesOf(columns, range, itemSize, signal)
      : chunkRows(columns, [range[0] / length, Math.ceil(range[1] / length)], encoder, signal);
  for await (const { bytes, count } of parts) {
    const items = new Uint8Array(count * itemSize);
    let offset = 0;
    for (const [i, own] of bytes.entries()) {
      const fieldBytes = at(sizes, i);
      joinField(own, { offset, fieldBytes }, items, itemSize);
      offset += fieldBytes;
    }
    yield items;
  }
}

/** Rows of all columns, as one array of bytes for each column. */
interface RowPart {
  readonly count: number;
  readonly bytes: readonly Uint8Array[];
}

async function* batchesOf(
  columns: readonly Column[],
  [first, last]: RowRange,
  itemSize: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<RowPart> {
  const batch = Math.max(1, Math.floor(BATCH_BYTES / Math.max(1, itemSize)));
  for (let start = first; start < last; start += batch) {
    const end = Math.min(last, start + batch);
    const bytes: Uint8Array[] = [];
    for (const column of columns) bytes.push(await column.rows(start, end, signal));
    yield { count: end - start, bytes };
  }
}

/** Yields chunk by chunk and offers each; the chunks of all columns have the same rows. */
async function* chunkRows(
  columns: readonly Column[],
  range: readonly [first: number, end: number],
  encoder: CopyingEncoder,
  signal: AbortSignal | undefined,
): AsyncGenerator<RowPart> {
  const streams = columns.flatMap(({ chunks }) =>
    chunks === undefined ? [] : [offerChunks(chunks, encoder, signal, range)[Symbol.asyncIterator]()],
  );
  try {
    for (;;) {
      const bytes: Uint8Array[] = [];
      for (const stream of streams) {
        const next = await stream.next();
        if (next.done !== true) bytes.push(next.value);
      }
      if (bytes.length === 0) return;
      yield { count: at(bytes, 0).length / rowBytesOf(at(columns, 0)), bytes };
    }
  } finally {
    for (const stream of streams) await stream.return?.();
  }
}

/** The fill value of an item. blz 0.6 stores one for a row, a nested list; it is lost if the items of the list differ. */
function oneFill({ fillValue, dtype }: Column): {
  readonly fill?: JsonValue | undefined;
  readonly isLost?: true;
} {
  if (dtype.kind === "struct" || !Array.isArray(fillValue)) return { fill: fillValue };
  if (dtype.kind === "complex" && isPair(fillValue)) return { fill: fillValue };
  const [first, ...others] = fillValue.flat(Number.POSITIVE_INFINITY) as JsonValue[];
  return others.every((other) => other === first) ? { fill: first } : { isLost: true };
}

/** The same as the default value of a field; a list that is a single item is not mistaken for a row of items. */
function rowFill({ fillValue = null, dtype, shape }: Column): JsonValue {
  const isList = dtype.kind === "struct" || (dtype.kind === "complex" && isPair(fillValue));
  if (!isList || !Array.isArray(fillValue) || shape.length < 2) return fillValue;
  return shape
    .slice(1)
    .reduceRight<JsonValue>((part, length) => new Array<JsonValue>(length).fill(part), fillValue);
}

function isPair(value: JsonValue): boolean {
  return Array.isArray(value) && value.length === 2 && !value.some((part) => Array.isArray(part));
}
