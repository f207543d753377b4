/** Arrow files and streams as tables: columns of values, lists of one length, and structs of both. Reads batch by batch. */
import type { Table } from "@uwdata/flechette";
import { type AnyType, floatBytes, rawValues, readBatches } from "../arrow/read.ts";
import { TIME_UNITS, TYPE } from "../arrow/schema.ts";
import { at } from "../bytes/arrays.ts";
import { isSuperchunkError, SuperchunkError } from "../errors.ts";
import {
  BOOL,
  decimalNotes,
  describedIn,
  type Finder,
  type FoundType,
  findColumn,
  noCounterpart,
  numberOf,
  timeOf,
  zoneNotes,
} from "./column-type.ts";
import { type OpenFile, type TableFile, type TableOptions, type TableRows, wantedOf } from "./table-file.ts";

/** @throws UNSUPPORTED for maps, unions, intervals and lists of several lengths */
export async function openArrowTable(open: OpenFile, options: TableOptions): Promise<TableFile> {
  const { as, signal } = options;
  let [path, rows] = ["", 0];
  let attrs: TableFile["attrs"];
  const notes: string[] = [];
  const found = new Map<string, Finder>();
  for await (const { table, where } of batchesOf(open, signal)) {
    if (attrs === undefined) {
      path = where;
      const described = describedIn(table.schema.metadata ?? new Map(), path);
      attrs = described.attrs;
      for (const { name, type } of wantedOf(table.schema.fields, options, path)) {
        notes.push(...notesOf(name, type));
        const column = { name, type: typeOf(name, type, path) };
        found.set(name, findColumn(column, described.columns, as, path));
      }
    }
    rows += table.numRows;
    for (const [name, { measure }] of found)
      if (measure !== undefined) for (const value of columnValues(table, name, path)) measure.see(value);
  }
  const results = new Map([...found].map(([name, { result }]) => [name, result()]));
  notes.push(...[...results.values()].flatMap((each) => each.notes ?? []));
  async function* read(names: readonly string[], call: AbortSignal | undefined): AsyncGenerator<TableRows> {
    for await (const { table } of batchesOf(open, call)) {
      const columns = names.map((name) => {
        const turn = results.get(name)?.turn;
        const values = columnValues(table, name, path);
        return turn === undefined ? values : values.map(turn);
      });
      const bytesOf = (column: number): Uint8Array | undefined => {
        const name = names[column] as string;
        const [batch] = table.getChild(name).data;
        return batch === undefined || results.get(name)?.turn !== undefined ? undefined : floatBytes(batch);
      };
      if (table.numRows > 0) yield { length: table.numRows, columns, bytesOf };
    }
  }
  const columns = [...results.values()].map(({ column }) => column);
  return { path, columns, rows, notes, read, ...(attrs === undefined ? {} : { attrs }) };
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

/** The values of a column in one batch, as stored. Throws `BAD_FIELD` if they contradict one another. */
function columnValues(table: Table, name: string, path: string): unknown[] {
  const { data, length } = table.getChild(name);
  try {
    if (length !== table.numRows) throw new RangeError(`${length} rows, and ${table.numRows} in the batch`);
    return data.flatMap((batch) => Array.from(rawValues(batch)));
  } catch (cause) {
    const reason = isSuperchunkError(cause) ? cause.summary : String((cause as Error).message);
    const summary = `column "${name}" is damaged (${reason}); look for another copy`;
    throw new SuperchunkError("BAD_FIELD", summary, { path, field: name, cause });
  }
}

/** Notes on a column's values that lose something. */
function notesOf(name: string, type: AnyType): readonly string[] {
  return [
    ...decimalNotes(name, (type.typeId as number) === TYPE.decimal ? type.precision : undefined),
    ...(type.timezone == null ? [] : [zoneNotes(name)]),
    ...(type.children ?? []).flatMap((child) => notesOf(name, child.type)),
  ];
}

function typeOf(name: string, type: AnyType, path: string): FoundType {
  switch (type.typeId as number) {
    case TYPE.int:
      return numberOf(type.signed === false ? "uint" : "int", (type.bitWidth ?? 0) / 8);
    case TYPE.float:
      return numberOf("float", [2, 4, 8][type.precision ?? 2] ?? 8);
    case TYPE.decimal:
      return { kind: "decimal", scale: type.scale ?? 0 };
    case TYPE.bool:
      return BOOL;
    case TYPE.date:
      return timeOf("datetime", type.unit === 0 ? "D" : "ms");
    case TYPE.timestamp:
      return timeOf("datetime", TIME_UNITS[type.unit ?? 0] ?? "s");
    case TYPE.duration:
    case TYPE.time:
      return timeOf("timedelta", TIME_UNITS[type.unit ?? 0] ?? "s");
    case TYPE.fixedBinary:
      if (type.stride === 0) throw noCounterpart(name, "of values without bytes", path);
      return { kind: "void", itemSize: type.stride ?? 0, byteOrder: "none" };
    case TYPE.fixedList:
      return { kind: "list", item: typeOf(name, at(type.children ?? [], 0).type, path), length: type.stride };
    case TYPE.list:
    case TYPE.largeList:
      return { kind: "list", item: typeOf(name, at(type.children ?? [], 0).type, path) };
    case TYPE.struct: {
      const parts = (type.children ?? []).map((each) => ({ ...each, type: typeOf(name, each.type, path) }));
      if (parts.length === 0) throw noCounterpart(name, "a struct without fields", path);
      return { kind: "group", parts };
    }
    case TYPE.dictionary:
      return typeOf(name, type.dictionary ?? type, path);
    case NULL:
      return "null";
    case TYPE.utf8:
    case TYPE.largeUtf8:
    case TYPE.utf8View:
      return "text";
    case TYPE.binary:
    case TYPE.largeBinary:
    case TYPE.binaryView:
      return "binary";
    default:
      throw noCounterpart(name, OTHERS[type.typeId as number] ?? `of Arrow's type ${type.typeId}`, path);
  }
}

/** Types that numpy lacks. */
const OTHERS: Readonly<Record<number, string>> = {
  [TYPE.interval]: "of intervals, of integers of 128 bits, or of decimals with a negative scale",
  ...{ [TYPE.union]: "of a union", 17: "a map", 21: "of intervals" },
  ...{ 22: "run-end encoded", 25: "a list view", 26: "a list view" },
};

const NULL = 1;
