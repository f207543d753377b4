/** Parquet files as tables, read with hyparquet: columns of values, and lists of fixed length. Nested groups are not supported. */
import { type ParquetScan, parquetSchema, type SchemaElement, type SchemaTree } from "hyparquet";
import { SuperchunkError } from "../errors.ts";
import { parseDType } from "../format/dtype.ts";
import { isObject, parseJson } from "../format/json.ts";
import type { DType, TimeUnit } from "../format/types.ts";
import { durationsOf, openParquet } from "../parquet/open.ts";
import { chunkRowsOf, PageColumn } from "./parquet-chunks.ts";
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
  type TableChunks,
  type TableColumn,
  type TableFile,
  type TableOptions,
  type TableRows,
  textOf,
  timeOf,
} from "./table-file.ts";

type Turns = Map<string, (value: unknown) => unknown>;

/** Rows that are read at a time. */
const ROWS = 65_536;

/** A column and its type, without lengths that depend on the values. */
interface FoundColumn {
  readonly name: string;
  readonly dtype: FoundType;
  readonly isList: boolean;
}

/** @throws UNSUPPORTED for groups and maps, and for lists of several lengths */
export async function openParquetTable(open: OpenFile, { as, signal }: TableOptions): Promise<TableFile> {
  const { store, path: key } = await open();
  try {
    const path = store.describe(key);
    const scan = await openParquet(store, key, signal);
    const durations = durationsOf(scan.metadata);
    const found = parquetSchema(scan.metadata)
      .children.filter(({ element }) => isWanted(as, element.name))
      .map((node) => columnOf(node, path, durations.get(node.element.name)));
    const written = describedTypes(scan.metadata.key_value_metadata, path);
    const notes = scan.metadata.schema.flatMap(({ name, precision }) =>
      isWanted(as, name) ? decimalNotes(name, precision) : [],
    );
    const columns: TableColumn[] = [];
    // Described strings of bytes stay as they are.
    const turns: Turns = new Map();
    for (const column of found) {
      const { name, dtype } = column;
      const known = written.get(name);
      const text = typeof dtype === "string" && !column.isList ? knownText(as, name) : undefined;
      const isKnown = known !== undefined && isSameKind(known.dtype, column);
      if (dtype === "text" && (!isKnown || known.dtype.kind === "unicode")) turns.set(name, textOf);
      else if (isKnown && known.dtype.kind === "unicode") turns.set(name, textOfPoints);
      if (isKnown) columns.push(known);
      else if (text !== undefined) columns.push({ name, dtype: text, shape: [] });
      else columns.push(await measured(column, scan, path, signal));
    }
    const rows = scan.ranges.reduce((sum, { rowStart, rowEnd }) => sum + rowEnd - rowStart, 0);
    return {
      ...{ path, columns, rows, notes },
      read: (names, call) => readRows(open, { names, turns }, call),
      openChunks: (names) => openChunks(open, columns, names),
    };
  } finally {
    await store.close?.();
  }
}

async function openChunks(
  open: OpenFile,
  columns: readonly TableColumn[],
  names: readonly string[],
): Promise<TableChunks | undefined> {
  const { store, path: key } = await open();
  let isUsed = false;
  try {
    const scan = await openParquet(store, key, undefined);
    const found = new Map<string, PageColumn>();
    for (const { name, dtype, shape } of columns) {
      const column = names.includes(name) && shape.length === 0;
      const pages = column ? PageColumn.of(scan, { store, key }, name, dtype) : undefined;
      if (pages !== undefined) found.set(name, pages);
    }
    const rows = await chunkRowsOf([...found.values()]);
    isUsed = rows !== undefined;
    if (rows === undefined) return undefined;
    return {
      rows,
      chunk: async (name, first, end) => found.get(name)?.chunk(first, end),
      close: async () => store.close?.(),
    };
  } finally {
    if (!isUsed) await store.close?.();
  }
}

async function* readRows(
  open: OpenFile,
  { names, turns }: { readonly names: readonly string[]; readonly turns: Turns },
  signal: AbortSignal | undefined,
): AsyncGenerator<TableRows> {
  const { store, path } = await open();
  try {
    const scan = await openParquet(store, path, signal);
    for (const [rowStart, rowEnd] of steps(scan.ranges)) {
      const columns: ArrayLike<unknown>[] = [];
      for (const column of names) {
        signal?.throwIfAborted();
        const values = await scan.readColumn({ column, rowStart, rowEnd });
        const turn = turns.get(column);
        columns.push(turn === undefined ? values : Array.from(values, turn));
      }
      yield { length: rowEnd - rowStart, columns };
    }
  } finally {
    await store.close?.();
  }
}

function* steps(
  ranges: readonly { readonly rowStart: number; readonly rowEnd: number }[],
): Generator<readonly [number, number]> {
  for (const { rowStart, rowEnd } of ranges)
    for (let first = rowStart; first < rowEnd; first += ROWS) yield [first, Math.min(rowEnd, first + ROWS)];
}

/** Finds lengths from the values: the longest string, or the one length of lists. */
async function measured(
  { name, dtype, isList }: FoundColumn,
  scan: ParquetScan,
  path: string,
  signal: AbortSignal | undefined,
): Promise<TableColumn> {
  if (typeof dtype !== "string" && !isList) return { name, dtype, shape: [] };
  let longest = 0;
  let length: number | undefined;
  for (const [rowStart, rowEnd] of steps(scan.ranges)) {
    signal?.throwIfAborted();
    for (const value of Array.from(await scan.readColumn({ column: name, rowStart, rowEnd }))) {
      const items = isList ? (value as readonly unknown[] | null) : [value];
      if (isList) {
        length ??= items?.length;
        if (items?.length !== length)
          throw new SuperchunkError(
            "UNSUPPORTED",
            `the lists of column "${name}" are not of one length; leave the column out`,
            { path, field: name },
          );
      }
      if (typeof dtype === "string")
        for (const item of items ?? [])
          longest = Math.max(longest, keptLength(dtype === "text" ? textOf(item) : item, name, path));
    }
  }
  return { name, dtype: sizedType(dtype, longest), shape: isList ? [length ?? 0] : [] };
}

function columnOf(node: SchemaTree, path: string, unit: TimeUnit | undefined): FoundColumn {
  const { name } = node.element;
  const [list] = node.children;
  if (list === undefined) return { name, dtype: dtypeOf(node.element, path, unit), isList: false };
  const [element] = list.children;
  const isList =
    node.children.length === 1 && list.element.repetition_type === "REPEATED" && list.children.length === 1;
  if (isList && element !== undefined && element.children.length === 0)
    return { name, dtype: dtypeOf(element.element, path, unit), isList };
  throw noCounterpart(name, "a group or a map", path);
}

const UNITS = { MILLIS: "ms", MICROS: "us", NANOS: "ns" } as const;

function dtypeOf(element: SchemaElement, path: string, unit: TimeUnit | undefined): FoundType {
  if (unit !== undefined) return timeOf("timedelta", unit);
  const { type, logical_type: logical, converted_type: converted, type_length: length = 0 } = element;
  if (logical?.type === "DECIMAL" || converted === "DECIMAL") return numberOf("float", 8);
  switch (type) {
    case "BOOLEAN":
      return BOOL;
    case "FLOAT":
      return numberOf("float", 4);
    case "DOUBLE":
      return numberOf("float", 8);
    case "INT96":
      return timeOf("datetime", "ns");
    case "INT32":
    case "INT64": {
      if (logical?.type === "DATE" || converted === "DATE") return timeOf("datetime", "D");
      if (logical?.type === "TIMESTAMP" || logical?.type === "TIME")
        return timeOf(logical.type === "TIME" ? "timedelta" : "datetime", UNITS[logical.unit]);
      const old = /^TIME(STAMP)?_(MILLIS|MICROS)$/.exec(converted ?? "");
      if (old !== null)
        return timeOf(old[1] === undefined ? "timedelta" : "datetime", UNITS[old[2] as "MILLIS"]);
      if (logical?.type === "INTEGER")
        return numberOf(logical.isSigned ? "int" : "uint", logical.bitWidth / 8);
      const named = /^(U?)INT_(\d+)$/.exec(converted ?? "");
      if (named !== null) return numberOf(named[1] === "U" ? "uint" : "int", Number(named[2]) / 8);
      return numberOf("int", type === "INT32" ? 4 : 8);
    }
    case "FIXED_LEN_BYTE_ARRAY":
      if (logical?.type === "FLOAT16") return numberOf("float", 2);
      return { kind: "void", itemSize: length, byteOrder: "none" };
    case "BYTE_ARRAY":
      return logical?.type === "STRING" || ["UTF8", "ENUM", "JSON"].includes(converted ?? "")
        ? "text"
        : "binary";
    default:
      throw noCounterpart(element.name, "of a type without values", path);
  }
}

/** The dtypes that this library stores in the files that it writes. */
function describedTypes(
  metadata: readonly { readonly key: string; readonly value?: string }[] | undefined,
  path: string,
): Map<string, TableColumn> {
  const text = metadata?.find(({ key }) => key === "superchunk")?.value;
  const types = new Map<string, TableColumn>();
  if (text === undefined) return types;
  const described = parseJson(text, path);
  const columns = isObject(described) && Array.isArray(described["columns"]) ? described["columns"] : [];
  for (const each of columns) {
    if (!isObject(each) || typeof each["name"] !== "string" || !Array.isArray(each["shape"])) continue;
    const shape = each["shape"].slice(1).map(Number);
    types.set(each["name"], { name: each["name"], dtype: parseDType(each["dtype"] ?? null, path), shape });
  }
  return types;
}

/** The text of characters of four bytes, which are not UTF-8. */
function textOfPoints(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(textOfPoints);
  if (!(value instanceof Uint8Array)) return value;
  return String.fromCodePoint(...new Uint32Array(value.slice().buffer)).replace(/\0+$/, "");
}

/** True if the stored dtype matches the column's type. zipline's dates, for example, have another type in Parquet. */
function isSameKind({ kind }: DType, { dtype }: FoundColumn): boolean {
  if (dtype === "text") return kind === "bytes" || kind === "unicode";
  if (dtype === "binary") return kind === "bytes";
  if (kind === "timedelta") return dtype.kind === "int";
  if (kind === "datetime") return false;
  return kind === dtype.kind || (dtype.kind === "void" && (kind === "bytes" || kind === "unicode"));
}
