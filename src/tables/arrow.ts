/** Arrow files and streams as tables: columns of values, and lists of fixed size. Read batch by batch. */
import type { Table } from "@uwdata/flechette";
import { type AnyType, rawValues, readBatches, TYPE } from "../arrow/read.ts";
import { SuperchunkError } from "../errors.ts";
import type { DType, TimeUnit } from "../format/types.ts";
import type { ReadableStore } from "../store/types.ts";
import {
  numberOf,
  type TableColumn,
  type TableFile,
  type TableOptions,
  type TableRows,
  textOf,
  unicodeOf,
} from "./table-file.ts";

const UNITS = ["s", "ms", "us", "ns"] as const satisfies readonly TimeUnit[];

/** @throws UNSUPPORTED for structs, maps and lists of several lengths */
export async function openArrowTable(
  store: ReadableStore,
  key: string,
  { as, signal }: TableOptions,
): Promise<TableFile> {
  const path = store.describe(key);
  let rows = 0;
  let fields: readonly { readonly name: string; readonly type: AnyType }[] = [];
  const longest = new Map<string, number>();
  for await (const table of readBatches(store, key, signal)) {
    fields = table.schema.fields.filter(
      ({ name }) => as === undefined || as.fields.some((field) => field.name === name),
    );
    rows += table.numRows;
    for (const { name, type } of fields)
      if (typeof dtypeOf(name, type, path) === "string")
        for (const value of valuesOf(table, name, type))
          longest.set(name, Math.max(longest.get(name) ?? 0, lengthOf(value)));
  }
  const columns = fields.map(({ name, type }): TableColumn => {
    const [item, shape] = listed(type);
    const found = dtypeOf(name, type, path);
    const itemSize = Math.max(1, longest.get(name) ?? 0);
    const dtype = found === "text" ? unicodeOf(itemSize) : found === "binary" ? bytesOf(itemSize) : found;
    return { name, dtype: item === type ? dtype : (dtypeOf(name, item, path) as DType), shape };
  });
  async function* read(): AsyncGenerator<TableRows> {
    for await (const table of readBatches(store, key, signal))
      if (table.numRows > 0)
        yield { length: table.numRows, columns: fields.map(({ name, type }) => valuesOf(table, name, type)) };
  }
  return { path, columns, rows, read };
}

function bytesOf(itemSize: number): DType {
  return { kind: "bytes", itemSize, byteOrder: "none" };
}

/** The values of a column of one batch; strings as text. */
function valuesOf(table: Table, name: string, type: AnyType): unknown[] {
  const isText = (type.typeId as number) === TYPE.utf8;
  return table
    .getChild(name)
    .data.flatMap((batch) => Array.from(rawValues(batch), (value) => (isText ? textOf(value) : value)));
}

function lengthOf(value: unknown): number {
  if (typeof value === "string") return [...value].length;
  return value instanceof Uint8Array ? value.length : 0;
}

/** The items of lists of fixed size, and the dimensions of a row. */
function listed(type: AnyType): readonly [item: AnyType, shape: readonly number[]] {
  const [child] = type.children ?? [];
  if ((type.typeId as number) !== TYPE.fixedList || child === undefined) return [type, []];
  const [item, shape] = listed(child.type);
  return [item, [type.stride ?? 0, ...shape]];
}

function dtypeOf(name: string, given: AnyType, path: string): DType | "text" | "binary" {
  const [type, shape] = listed(given);
  const refuse = (what: string): never => {
    throw new SuperchunkError(
      "UNSUPPORTED",
      `column "${name}" is ${what}, which no column of an archive holds; leave it out of the file`,
      {
        path,
        field: name,
      },
    );
  };
  switch (type.typeId as number) {
    case TYPE.int:
      return numberOf(type.signed === false ? "uint" : "int", (type.bitWidth ?? 0) / 8);
    case TYPE.float:
      return numberOf("float", [2, 4, 8][type.precision ?? 2] ?? 8);
    case TYPE.decimal:
      return numberOf("float", 8);
    case TYPE.bool:
      return { kind: "bool", itemSize: 1, byteOrder: "none" };
    case TYPE.date:
      return timeOf("datetime", type.unit === 0 ? "D" : "ms");
    case TYPE.timestamp:
    case TYPE.duration:
      return timeOf(type.typeId === TYPE.duration ? "timedelta" : "datetime", UNITS[type.unit ?? 0] ?? "s");
    case TYPE.fixedBinary:
      return { kind: "void", itemSize: type.stride ?? 0, byteOrder: "none" };
    case TYPE.utf8:
    case LARGE_UTF8:
    case DICTIONARY:
    case UTF8_VIEW:
      return shape.length === 0 ? "text" : refuse("lists of strings");
    case TYPE.binary:
    case LARGE_BINARY:
    case BINARY_VIEW:
      return shape.length === 0 ? "binary" : refuse("lists of bytes");
    default:
      return refuse("a struct, a map or a list of several lengths");
  }
}

/** Strings in other layouts, as pandas and Polars write them. */
const [DICTIONARY, LARGE_BINARY, LARGE_UTF8, BINARY_VIEW, UTF8_VIEW] = [-1, 19, 20, 23, 24];

function timeOf(kind: "datetime" | "timedelta", unit: TimeUnit): DType {
  return { kind, itemSize: 8, byteOrder: "little", unit, scale: 1 };
}
