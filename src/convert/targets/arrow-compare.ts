/** Compares an Arrow file with its source, value by value, through flechette: a reader that shares nothing with the writer. Must not write. */
import { type Batch, type DataType, tableFromIPC } from "@uwdata/flechette";
import { at } from "../../bytes/at.ts";
import { fromHalf } from "../../parquet/statistics.ts";
import type { ReadableStore } from "../../store/types.ts";
import type { TableColumn } from "./table-columns.ts";
import { differs, firstDifference } from "./table-compare.ts";

/** Length of the magic and what fills it up, where the schema begins. */
const START = 8;
/** Before a message: a mark, and the length of its metadata. */
const PREFIX = 8;

/** Throws `BAD_FIELD` for the first value of a file that is not the source's, and for another number of rows. */
export async function compareArrow(
  columns: readonly TableColumn[],
  store: ReadableStore,
  key: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  const path = store.describe(key);
  const read = async (offset: number, length: number): Promise<Uint8Array> => {
    const bytes = await store.getRange(key, { offset, length }, { signal });
    if (bytes?.length === length) return bytes;
    throw differs(path, "length", { expected: offset + length, found: offset + (bytes?.length ?? 0) });
  };
  const [rows = 1] = columns[0]?.column.shape ?? [];
  let schema: Uint8Array | undefined;
  let row = 0;
  for (let offset = START; ; ) {
    signal?.throwIfAborted();
    const metadata = viewOf(await read(offset, PREFIX)).getInt32(4, true);
    if (metadata === 0) break;
    const head = await read(offset, PREFIX + metadata);
    const length = head.length + bodyLength(head.subarray(PREFIX));
    if (schema === undefined) schema = head;
    else {
      const table = tableFromIPC([schema, await read(offset, length)]);
      for (const [i, column] of columns.entries()) {
        const [batch] = table.getChildAt(i).data;
        const bytes = await column.column.rows(row, Math.min(rows, row + table.numRows), signal);
        const values = batch === undefined ? [] : valuesOf(batch);
        const found = firstDifference(column, bytes, values, table.numRows);
        if (found !== undefined) throw differs(path, column.schema.node.name, { offset: row + found });
      }
      row += table.numRows;
    }
    offset += length;
  }
  if (row !== rows) throw differs(path, "rows", { expected: rows, found: row });
}

function viewOf({ buffer, byteOffset, byteLength }: Uint8Array): DataView {
  return new DataView(buffer, byteOffset, byteLength);
}

/** Bytes after the metadata of a message: its fourth field. */
function bodyLength(metadata: Uint8Array): number {
  const view = viewOf(metadata);
  const table = view.getUint32(0, true);
  const offsets = table - view.getInt32(table, true);
  const field = view.getUint16(offsets, true) > 10 ? view.getUint16(offsets + 10, true) : 0;
  return field === 0 ? 0 : Number(view.getBigInt64(table + field, true));
}

/** The values as they are stored: dates as counts, strings as bytes, decimals with their point. */
function valuesOf(batch: Batch<unknown>): ArrayLike<unknown> {
  const type = batch.type as DataType & { readonly stride?: number; readonly precision?: number };
  const { length, validity, offsets, children } = batch;
  const values = batch.values as unknown as { readonly [i: number]: number | bigint } & Uint8Array;
  const isThere = (i: number): boolean =>
    validity === undefined || validity.length === 0 || ((at(validity, i >> 3) >> (i & 7)) & 1) === 1;
  const make = (value: (i: number) => unknown): unknown[] =>
    Array.from({ length }, (_, i) => (isThere(i) ? value(i) : null));
  const parts = (children ?? []).map(valuesOf);
  switch (type.typeId) {
    case TYPE.utf8:
    case TYPE.binary:
      return make((i) => values.subarray(Number(offsets?.[i]), Number(offsets?.[i + 1])));
    case TYPE.fixedBinary: {
      const width = type.stride ?? 0;
      return make((i) => values.subarray(i * width, (i + 1) * width));
    }
    case TYPE.bool:
      return make((i) => ((at(values, i >> 3) >> (i & 7)) & 1) === 1);
    case TYPE.decimal:
      return make((i) => Number(values[2 * i]) / 1000);
    case TYPE.fixedList: {
      const stride = type.stride ?? 0;
      return make((i) => Array.prototype.slice.call(parts[0], i * stride, (i + 1) * stride));
    }
    case TYPE.struct: {
      const names = (type as { readonly children: readonly { readonly name: string }[] }).children;
      return make((i) => Object.fromEntries(names.map(({ name }, j) => [name, parts[j]?.[i]])));
    }
    case TYPE.float:
      return type.precision === 0 ? make((i) => fromHalf(at(values, i))) : values;
    default:
      return validity === undefined || validity.length === 0 ? values : make((i) => values[i]);
  }
}

/** Arrow's numbers of the types that are written, but for those whose values are numbers in a row. */
const TYPE = {
  float: 3,
  binary: 4,
  utf8: 5,
  bool: 6,
  decimal: 7,
  struct: 13,
  fixedBinary: 15,
  fixedList: 16,
};
