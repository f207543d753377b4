/** Arrow files and streams as tables: columns of values, and lists of fixed size. Reads batch by batch. */
import type { Table } from "@uwdata/flechette";
import { type AnyType, rawValues, readBatches } from "../arrow/read.ts";
import { TYPE } from "../arrow/schema.ts";
import type { TimeUnit } from "../format/types.ts";
import {
  BOOL,
  decimalNotes,
  type FoundType,
  isWanted,
  keptLength,
  knownText,
  noCounterpart,
  numberOf,
  type OpenFile,
  sizedType,
  type TableColumn,
  type TableFile,
  type TableOptions,
  type TableRows,
  textOf,
  timeOf,
} from "./table-file.ts";

const UNITS = ["s", "ms", "us", "ns"] as const satisfies readonly TimeUnit[];

/** @throws UNSUPPORTED for structs, maps and lists of several lengths */
export async function openArrowTable(open: OpenFile, { as, signal }: TableOptions): Promise<TableFile> {
  let [path, rows] = ["", 0];
  let fields: readonly { readonly name: string; readonly type: AnyType }[] = [];
  const longest = new Map<string, number>();
  for await (const { table, where } of batchesOf(open, signal)) {
    path = where;
    fields = table.schema.fields.filter(({ name }) => isWanted(as, name));
    rows += table.numRows;
    for (const { name, type } of fields)
      if (typeof dtypeOf(name, type, path) === "string" && knownText(as, name) === undefined)
        for (const value of valuesOf(table, name, type))
          longest.set(name, Math.max(longest.get(name) ?? 0, keptLength(value, name, path)));
  }
  const columns = fields.map(({ name, type }): TableColumn => {
    const [, shape] = listed(type);
    const found = dtypeOf(name, type, path);
    const known = typeof found === "string" ? knownText(as, name) : undefined;
    return { name, dtype: known ?? sizedType(found, longest.get(name) ?? 0), shape };
  });
  async function* read(names: readonly string[], call: AbortSignal | undefined): AsyncGenerator<TableRows> {
    const wanted = names.flatMap((name) => fields.find((field) => field.name === name) ?? []);
    for await (const { table } of batchesOf(open, call))
      if (table.numRows > 0)
        yield { length: table.numRows, columns: wanted.map(({ name, type }) => valuesOf(table, name, type)) };
  }
  const notes = fields.flatMap(({ name, type }) =>
    decimalNotes(name, (type.typeId as number) === TYPE.decimal ? type.precision : undefined),
  );
  return { path, columns, rows, notes, read };
}

async function* batchesOf(
  open: OpenFile,
  signal: AbortSignal | undefined,
): AsyncGenerator<{ readonly table: Table; readonly where: string }> {
  const { store, path } = await open();
  try {
    for await (const table of readBatches(store, path, signal)) yield { table, where: store.describe(path) };
  } finally {
    await store.close?.();
  }
}

/** The values of a column in one batch; strings as text. */
function valuesOf(table: Table, name: string, type: AnyType): unknown[] {
  const isText = (type.typeId as number) === TYPE.utf8;
  return table
    .getChild(name)
    .data.flatMap((batch) => Array.from(rawValues(batch), (value) => (isText ? textOf(value) : value)));
}

/** The item type of lists of fixed size, and the dimensions of a row. */
function listed(type: AnyType): readonly [item: AnyType, shape: readonly number[]] {
  const [child] = type.children ?? [];
  if ((type.typeId as number) !== TYPE.fixedList || child === undefined) return [type, []];
  const [item, shape] = listed(child.type);
  return [item, [type.stride ?? 0, ...shape]];
}

function dtypeOf(name: string, given: AnyType, path: string): FoundType {
  const [type, shape] = listed(given);
  const ofRow = (found: "text" | "binary", lists: string): FoundType => {
    if (shape.length > 0) throw noCounterpart(name, lists, path);
    return found;
  };
  switch (type.typeId as number) {
    case TYPE.int:
      return numberOf(type.signed === false ? "uint" : "int", (type.bitWidth ?? 0) / 8);
    case TYPE.float:
      return numberOf("float", [2, 4, 8][type.precision ?? 2] ?? 8);
    case TYPE.decimal:
      return numberOf("float", 8);
    case TYPE.bool:
      return BOOL;
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
      return ofRow("text", "lists of strings");
    case TYPE.binary:
    case LARGE_BINARY:
    case BINARY_VIEW:
      return ofRow("binary", "lists of bytes");
    default:
      throw noCounterpart(name, "a struct, a map or a list of several lengths", path);
  }
}

/** Strings in other layouts, as pandas and Polars write them. */
const [DICTIONARY, LARGE_BINARY, LARGE_UTF8, BINARY_VIEW, UTF8_VIEW] = [-1, 19, 20, 23, 24];
