/** Folders of numbered superchunks: arrays, and tables as arrays of structs whose fields are stored apart. */
import { at, elementsOf } from "../../bytes/arrays.ts";
import type { DType, Field, JsonValue } from "../../format/types.ts";
import { createArray } from "../../write/array/create.ts";
import type { ColumnTable } from "../pipeline.ts";
import { type Column, compressionOf, isCutByRows, offeredRows } from "../sources/columns.ts";
import { type CopyingEncoder, offerChunks } from "../sources/offered-chunks.ts";
import { whyNotRows } from "./bcolz.ts";
import { type ColumnFormat, isFolderDocument, type PieceContext } from "./column-target.ts";

/** Approximate bytes of table rows assembled at a time. */
const BATCH_BYTES = 4 << 20;

export const BLZ: ColumnFormat = {
  format: "blz",
  isDocument: isFolderDocument,

  whyRecoded(piece) {
    const reason = whyNotRows(piece);
    if (reason !== undefined) return reason;
    const isMixed = piece.table !== undefined && commonChunkLength(piece.columns) === undefined;
    return isMixed ? "the chunks of its columns are of different lengths" : undefined;
  },

  whyRefused({ columns }) {
    return columns.some(({ shape }) => shape.length === 0)
      ? "an array without dimensions has no rows, as superchunks would have it; convert it to npy or bloscpack"
      : undefined;
  },

  async write({ key, columns, table }, context) {
    if (table !== undefined) await writeStructs(context, table, columns, key);
    else await writeArray(context, at(columns, 0), key);
  },
};

/** The chunk length that all columns share, if there is one and the chunks can be copied. */
function commonChunkLength(columns: readonly Column[]): number | undefined {
  const lengths = new Set(columns.map(({ chunks }) => chunks?.chunkLength));
  const rows = new Set(columns.map(({ shape }) => shape[0]));
  const [length] = lengths;
  return lengths.size === 1 && rows.size === 1 && columns.every(isCutByRows) ? length : undefined;
}

async function writeArray(context: PieceContext, column: Column, key: string): Promise<void> {
  const encoder = context.copying();
  const data = context.watch(offeredRows(column, encoder, context.signal));
  const { dtype, shape, attrs, chunks, settings } = column;
  // Rows without bytes cannot be counted by the bytes appended.
  const isCounted = column.nbytes > 0;
  const array = await createArray(context.store, key, {
    dtype,
    shape: [isCounted ? 0 : at(shape, 0), ...shape.slice(1)],
    fillValue: oneFill(context, column),
    attrs,
    // Separate fields would cut the chunks of a struct in other places.
    ...(chunks === undefined ? {} : { columns: false }),
    compressor: compressionOf(settings),
    chunkLength: chunks?.chunkLength,
    checksum: settings.checksum === "None" ? undefined : settings.checksum,
    expectedLength: shape[0],
    encoder,
    signal: context.signal,
  });
  await finish(array, async () => (isCounted ? array.append(data) : undefined));
}

/** Writes a table as one array of structs, each field a folder. */
async function writeStructs(
  context: PieceContext,
  table: ColumnTable,
  columns: readonly Column[],
  key: string,
): Promise<void> {
  const rows = Math.min(...columns.map(({ shape }) => at(shape, 0)));
  const fields: Field[] = [];
  let itemSize = 0;
  for (const { name, dtype, shape } of columns) {
    const dimensions = shape.slice(1);
    fields.push({ name, dtype, shape: dimensions, offset: itemSize });
    itemSize += elementsOf(dimensions) * dtype.itemSize;
  }
  const dtype: DType = { kind: "struct", itemSize, byteOrder: "none", fields };
  const [first] = columns;
  for (const { name, attrs } of columns)
    if (Object.keys(attrs).length > 0) context.note(`${name}: attributes of columns are not carried over`);
  const fills = columns.map(rowFill);
  const chunkLength = commonChunkLength(columns);
  const encoder = context.copying();
  const array = await createArray(context.store, key, {
    dtype,
    shape: 0,
    fillValue: columns.some(({ fillValue }) => (fillValue ?? null) === null) ? null : fills,
    attrs: table.attrs,
    compressor: first && compressionOf(first.settings),
    chunkLength,
    expectedLength: rows,
    encoder,
    signal: context.signal,
  });
  const parts =
    chunkLength === undefined
      ? batchesOf(context, columns, rows, itemSize)
      : chunkRows(context, columns, encoder);
  await finish(array, async () => {
    for await (const { bytes, count } of parts) {
      const items = new Uint8Array(count * itemSize);
      fields.forEach(({ offset }, i) => {
        const own = bytes[i];
        if (own !== undefined) interleave(items, own, itemSize, offset, count);
      });
      await array.append(items);
      context.advance(items.length);
    }
  });
}

/** Rows of all columns, as one array of bytes for each column. */
interface RowPart {
  readonly count: number;
  readonly bytes: readonly Uint8Array[];
}

async function* batchesOf(
  { signal }: PieceContext,
  columns: readonly Column[],
  rows: number,
  itemSize: number,
): AsyncGenerator<RowPart> {
  const batch = Math.max(1, Math.floor(BATCH_BYTES / Math.max(1, itemSize)));
  for (let start = 0; start < rows; start += batch) {
    const end = Math.min(rows, start + batch);
    const bytes: Uint8Array[] = [];
    for (const column of columns) bytes.push(await column.rows(start, end, signal));
    yield { count: end - start, bytes };
  }
}

/** Yields chunk by chunk and offers each; the chunks of all columns have the same rows. */
async function* chunkRows(
  { signal }: PieceContext,
  columns: readonly Column[],
  encoder: CopyingEncoder,
): AsyncGenerator<RowPart> {
  const streams = columns.flatMap(({ chunks }) =>
    chunks === undefined ? [] : [offerChunks(chunks, encoder, signal)[Symbol.asyncIterator]()],
  );
  try {
    for (;;) {
      const bytes: Uint8Array[] = [];
      for (const stream of streams) {
        const next = await stream.next();
        if (next.done !== true) bytes.push(next.value);
      }
      const [column] = columns;
      const rowBytes = column === undefined ? 1 : elementsOf(column.shape.slice(1)) * column.dtype.itemSize;
      if (bytes.length === 0) return;
      yield { count: (bytes[0]?.length ?? 0) / rowBytes, bytes };
    }
  } finally {
    for (const stream of streams) await stream.return?.();
  }
}

/** The fill value of an item. blz 0.6 stores one for a row: a nested list. */
function oneFill(context: PieceContext, { fillValue, dtype, path }: Column): JsonValue | undefined {
  if (dtype.kind === "struct" || !Array.isArray(fillValue)) return fillValue;
  if (dtype.kind === "complex" && isPair(fillValue)) return fillValue;
  const [first, ...others] = flatten(fillValue as readonly JsonValue[]);
  if (others.every((other) => other === first)) return first;
  context.note(`${path}: the fill value differs within a row, and is not carried over`);
  return undefined;
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

function flatten(values: readonly JsonValue[]): JsonValue[] {
  return values.flatMap((value) => (Array.isArray(value) ? flatten(value as readonly JsonValue[]) : [value]));
}

/** Copies a column's bytes into rows of structs. */
function interleave(
  rows: Uint8Array,
  column: Uint8Array,
  rowSize: number,
  offset: number,
  count: number,
): void {
  const size = column.length / count;
  for (let row = 0; row < count; row++)
    rows.set(column.subarray(row * size, (row + 1) * size), row * rowSize + offset);
}

/** Closes an array; if writing failed, nothing of it is committed. */
async function finish(
  array: { close(): Promise<void>; abandon(): Promise<void> },
  write: () => Promise<void>,
): Promise<void> {
  try {
    await write();
    await array.close();
  } catch (error) {
    await array.abandon().catch(() => undefined); // only the first error is thrown
    throw error;
  }
}
