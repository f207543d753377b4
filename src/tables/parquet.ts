/** Parquet files as tables, read with hyparquet: columns of values, lists of one length, and groups of both. */
import { type ParquetScan, parquetSchema, type SchemaElement, type SchemaTree } from "hyparquet";
import { type AnyType, schemaIn } from "../arrow/read.ts";
import { TIME_UNITS, TYPE } from "../arrow/schema.ts";
import { isSuperchunkError, SuperchunkError } from "../errors.ts";
import { openParquet } from "../parquet/open.ts";
import {
  BOOL,
  decimalNotes,
  describedIn,
  type FoundType,
  findColumn,
  noCounterpart,
  numberOf,
  type TableColumn,
  type Turn,
  timeOf,
  zoneNotes,
} from "./column-type.ts";
import { chunkRowsOf, PageColumn } from "./parquet-chunks.ts";
import {
  type OpenFile,
  type TableChunks,
  type TableFile,
  type TableOptions,
  type TableRows,
  wantedOf,
} from "./table-file.ts";

type Turns = ReadonlyMap<string, Turn | undefined>;

/** Rows that are read at a time. */
const ROWS = 65_536;

/** @throws UNSUPPORTED for maps, lists of several lengths, and what hyparquet cannot read */
export async function openParquetTable(open: OpenFile, options: TableOptions): Promise<TableFile> {
  const { as, signal } = options;
  const { store, path: key } = await open();
  try {
    const path = store.describe(key);
    const scan = await openParquet(store, key, signal);
    const { key_value_metadata: pairs = [] } = scan.metadata;
    const metadata = new Map(
      pairs.flatMap(({ key: name, value }) => (value === undefined ? [] : [[name, value]])),
    );
    const arrow = arrowTypes(metadata.get("ARROW:schema"));
    const described = describedIn(metadata, path);
    const columns: TableColumn[] = [];
    const turns = new Map<string, Turn | undefined>();
    const notes: string[] = [];
    const nodes = parquetSchema(scan.metadata).children.map((node) => ({ name: node.element.name, node }));
    for (const { name, node } of wantedOf(nodes, options, path)) {
      notes.push(...notesOf(node, name));
      refuseWidePages(scan, name, path);
      const type = nodeType(node, name, arrow.get(name), path);
      const { measure, result } = findColumn({ name, type }, described.columns, as, path);
      if (measure !== undefined)
        for (const [rowStart, rowEnd] of steps(scan.ranges)) {
          signal?.throwIfAborted();
          const values = await readColumn(scan, { column: name, rowStart, rowEnd }, path);
          for (let i = 0; i < values.length; i++) measure.see(values[i]);
        }
      const { column, turn, notes: seen = [] } = result();
      notes.push(...seen);
      columns.push(column);
      turns.set(name, turn);
    }
    const rows = scan.ranges.reduce((sum, { rowStart, rowEnd }) => sum + rowEnd - rowStart, 0);
    return {
      path,
      columns,
      rows,
      notes,
      attrs: described.attrs,
      read: (names, call) => readRows(open, { names, turns }, call),
      openChunks: (names) => openChunks(open, columns, names),
    };
  } finally {
    await store.close?.();
  }
}

/** Reads values of a column as stored. @throws UNSUPPORTED, and BAD_FIELD for damage */
async function readColumn(
  scan: ParquetScan,
  rows: { readonly column: string; readonly rowStart: number; readonly rowEnd: number },
  path: string,
): Promise<ArrayLike<unknown>> {
  try {
    return await scan.readColumn(rows);
  } catch (cause) {
    if (isSuperchunkError(cause) || !(cause instanceof Error) || cause.name === "AbortError") throw cause;
    const isUnknown = /unsupported|not supported/.test(cause.message);
    throw new SuperchunkError(
      isUnknown ? "UNSUPPORTED" : "BAD_FIELD",
      isUnknown
        ? `column "${rows.column}" cannot be read: ${cause.message}; write it with a codec of snappy, gzip, lz4, zstd or none`
        : `column "${rows.column}" is damaged: ${cause.message}; look for another copy of the file`,
      { path, field: rows.column, cause },
    );
  }
}

/** Throws `UNSUPPORTED` for pages of DuckDB that hyparquet reads wrong: their first number needs 33 bits. */
function refuseWidePages({ metadata }: ParquetScan, column: string, path: string): void {
  if (metadata.created_by?.startsWith("DuckDB") !== true) return;
  const chunks = metadata.row_groups.flatMap(({ columns }) => columns.map((each) => each.meta_data));
  const isWide = chunks.some(
    (own) =>
      own?.path_in_schema[0] === column &&
      own.type === "INT32" &&
      own.encodings.includes("DELTA_BINARY_PACKED") &&
      Number(own.statistics?.max_value) >= 2 ** 31,
  );
  if (!isWide) return;
  const message = `column "${column}" has unsigned numbers from 2^31 on that DuckDB packed as differences, which are not read; write it with parquet_version V1`;
  throw new SuperchunkError("UNSUPPORTED", message, { path, field: column });
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
        const values = await readColumn(scan, { column, rowStart, rowEnd }, store.describe(path));
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

/** The type of a node. `arrow` is its type in Arrow's schema, which distinguishes durations from integers. */
function nodeType(node: SchemaTree, name: string, arrow: AnyType | undefined, path: string): FoundType {
  const { element, children } = node;
  const { converted_type: converted, logical_type: logical } = element;
  const [first, ...others] = children;
  if (converted === "MAP" || converted === "MAP_KEY_VALUE") throw noCounterpart(name, "a map", path);
  if (logical?.type === "VARIANT") throw noCounterpart(name, "a variant", path);
  const inner = arrow?.children ?? [];
  const partOf = (child: SchemaTree): FoundType =>
    nodeType(child, name, inner.find((each) => each.name === child.element.name)?.type, path);
  if (first === undefined) {
    const value = dtypeOf(element, name, arrow, path);
    return element.repetition_type === "REPEATED" ? { kind: "list", item: value } : value;
  }
  if (converted === "LIST" && others.length === 0 && first.element.repetition_type === "REPEATED") {
    const [item, ...more] = first.children;
    if (item === undefined) return nodeType(first, name, inner[0]?.type, path);
    const length = arrow?.stride; // Only lists of a fixed size have one.
    if (more.length === 0) return { kind: "list", item: nodeType(item, name, inner[0]?.type, path), length };
  }
  if (converted === "LIST" || element.repetition_type === "REPEATED")
    throw noCounterpart(name, "a list in an old form", path);
  // hyparquet loses a field of this name.
  if (children.some((child) => child.element.name === "__proto__"))
    throw noCounterpart(name, 'a struct with a field "__proto__"', path);
  return {
    kind: "group",
    parts: children.map((child) => ({ name: child.element.name, type: partOf(child) })),
  };
}

/** Notes on a column's values that lose something. */
function notesOf({ element, children }: SchemaTree, name: string): readonly string[] {
  const { logical_type: logical } = element;
  return [
    ...decimalNotes(name, logical?.type === "DECIMAL" ? logical.precision : undefined),
    ...(logical?.type === "TIMESTAMP" && logical.isAdjustedToUTC ? [zoneNotes(name)] : []),
    ...children.flatMap((child) => notesOf(child, name)),
  ];
}

const UNITS = { MILLIS: "ms", MICROS: "us", NANOS: "ns" } as const;

function dtypeOf(element: SchemaElement, name: string, arrow: AnyType | undefined, path: string): FoundType {
  if ((arrow?.typeId as number) === TYPE.duration)
    return timeOf("timedelta", TIME_UNITS[arrow?.unit ?? 0] ?? "s");
  if ((arrow?.typeId as number) === TYPE.interval) throw noCounterpart(name, "of integers of 128 bits", path);
  const { type, logical_type: logical, converted_type: converted, type_length: length = 0 } = element;
  if (logical?.type === "DECIMAL") return { kind: "decimal", scale: logical.scale };
  if (logical?.type === "NULL") return "null";
  if (converted === "INTERVAL" || converted === "BSON")
    throw noCounterpart(name, `of type ${converted}`, path);
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
      return ["STRING", "ENUM", "JSON"].includes(logical?.type ?? "") ||
        ["UTF8", "ENUM", "JSON"].includes(converted ?? "")
        ? "text"
        : "binary";
    default:
      throw noCounterpart(name, "of a type without values", path);
  }
}

/** The types of columns in Arrow's schema, which pyarrow, pandas and this library put into the metadata; without it, none. */
function arrowTypes(text = ""): ReadonlyMap<string, AnyType> {
  try {
    const { fields } = schemaIn(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)));
    return new Map(fields.map(({ name, type }) => [name, type as AnyType]));
  } catch {
    // Without these metadata, columns are what Parquet says.
    return new Map();
  }
}
