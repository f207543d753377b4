/**
 * Columns of tables in the types of Parquet and Arrow, and the metadata beside their types.
 *
 * Knows sources, and dates and prices of zipline; must not know files. @see docs/parquet-format.md [PM]
 */
import { at, elementsOf, stepsOf } from "../../bytes/arrays.ts";
import { SuperchunkError } from "../../errors.ts";
import { formatDType } from "../../format/dtype.ts";
import { stringifyJson } from "../../format/json.ts";
import { JsonFloat } from "../../format/json-float.ts";
import type { JsonObject } from "../../format/types.ts";
import { PRODUCER_VERSION } from "../../parquet/file.ts";
import { type ColumnSchema, columnSchema, type Leaf, type SchemaOptions } from "../../parquet/schema.ts";
import { isDailyBars } from "../../scan/daily-bars.ts";
import { OWN_KEYS } from "../../tables/column-type.ts";
import type { ConvertOptions } from "../pipeline.ts";
import type { Column } from "../sources/columns.ts";
import { notesOnAttributes } from "../sources/source-array.ts";
import { findMinuteBars, PRICES } from "../sources/zipline.ts";
import type { Piece } from "./column-target.ts";

/** Units of a price of 1 in daily bars. */
const DAILY_SCALE = 1000;

/** Column name for an array, which has none. */
const ONLY_COLUMN = "value";

/** Why prices stay as they are, although another type was asked for. */
const NOT_BARS =
  "its numbers stay as they are, because the table lacks the attributes of zipline's daily bars; with the option zipline they become prices";

/** A column, its type, and the bytes of a row. */
export interface SchemaColumn {
  readonly column: Column;
  readonly schema: ColumnSchema;
  readonly rowBytes: number;
}

/** The options that decide types, as the record of a conversion stores them. */
export function typeSettings({ parquet }: ConvertOptions): JsonObject {
  return {
    strings: parquet?.strings ?? "utf8",
    zipline: parquet?.zipline ?? null,
    prices: parquet?.prices ?? "raw",
  };
}

/** A column as it is written. @throws UNSUPPORTED for a dtype without a type */
export function tableColumn(column: Column, piece: Piece, options: ConvertOptions): SchemaColumn {
  const [, ...rowShape] = column.shape;
  const scale = priceScale(piece, options);
  const as = scale === undefined ? undefined : ziplineType(column.name, scale, options);
  const { strings, compatible, prices = "raw", zipline } = options.parquet ?? {};
  const widensHalves = compatible && options.to !== "arrow";
  const types = { strings, as, widensHalves, isRow: column.name === "" };
  const schema = columnSchema(column.name || ONLY_COLUMN, column.dtype, rowShape, types, column.path);
  const isMissed =
    scale === undefined && zipline !== false && prices !== "raw" && PRICES.includes(column.name);
  const notes = isMissed ? [...schema.notes, `column "${column.name}": ${NOT_BARS}`] : schema.notes;
  return { column, schema: { ...schema, notes }, rowBytes: elementsOf(rowShape) * column.dtype.itemSize };
}

/** Notes on what the types of columns in Parquet, or their names, do not show. */
export function notesOn({ notes, nodes, leaves }: ColumnSchema, { columns }: Piece): readonly string[] {
  const spans = leaves.flatMap(({ path, logical }) =>
    logical.kind === "duration"
      ? [`column "${path[0]}": Parquet has no durations; they are integers that count ${logical.unit}`]
      : [],
  );
  const names = columns.flatMap(columnsOf).map(({ name }) => name);
  const isSame = (a: string, b: string): boolean => a < b && a.toLowerCase() === b.toLowerCase();
  const alike = nodes.flatMap(({ name }) => {
    const other = names.find((each) => isSame(each, name));
    if (other === undefined) return [];
    return `columns "${other}" and "${name}" differ only in case: DuckDB renames one of them, and Spark reads neither`;
  });
  return [...new Set([...spans, ...notes, ...alike])];
}

export function notTextNote({ path }: Leaf): string {
  return `column "${path[0]}": its strings are not all UTF-8, so it becomes a column of bytes`;
}

/** Notes on attributes that change, or that files of tables cannot have. */
export function notesOnTable(piece: Piece): readonly string[] {
  const attrs = attrsOf(piece);
  const lost = OWN_KEYS.filter((name) => Object.hasOwn(attrs, name)).map(
    (name) => `the attribute "${name}" is left out, because files of tables use its name for something else`,
  );
  return [...lost, ...notesOnAttributes(attrs)];
}

function attrsOf({ columns, table }: Piece): JsonObject {
  return table?.attrs ?? columns[0]?.attrs ?? {};
}

/** A file without columns has no rows, and DuckDB does not open it. */
export function whyNoTable({ columns }: Piece): string | undefined {
  return columns.length === 0 ? "it has no columns, so a file of this format would hold nothing" : undefined;
}

/** Name of the column added to minute bars. */
const MINUTE = "minute";
/** Rows whose minutes are computed at a time. */
const MINUTE_ROWS = 1 << 18;

/**
 * Adds to zipline's minute bars their minutes, which are not stored: row i is a minute of session i / minutes_per_day, counted
 * from its opening, as the bundle's `metadata.json` says. Rows after an early close are included, with zeros.
 */
export async function withMinutes(piece: Piece, { parquet, signal }: ConvertOptions): Promise<Piece> {
  const { table, columns } = piece;
  if (table === undefined || parquet?.zipline === false) return piece;
  const bars = await findMinuteBars(table, table.names, { signal });
  const [rows = 0] = columns[0]?.shape ?? [];
  if (bars === undefined) return piece;
  const { opens, minutesPerDay, ratio } = bars;
  if (opens === undefined || opens.length * minutesPerDay < rows) {
    const note = `${table.store.describe(table.path)}: no column of minutes is added, because metadata.json has ${opens === undefined ? "no" : "too few"} session openings (market_opens); docs/parquet.md says how to add them`;
    return { ...piece, priceScale: ratio, note };
  }
  const minutes = (start: number, stop: number): Uint8Array => {
    const counts = BigInt64Array.from({ length: stop - start }, (_, i) => {
      const session = Math.floor((start + i) / minutesPerDay);
      return BigInt(at(opens, session) + ((start + i) % minutesPerDay));
    });
    return new Uint8Array(counts.buffer);
  };
  const axis: Column = {
    name: MINUTE,
    dtype: { kind: "datetime", itemSize: 8, byteOrder: "little", unit: "m", scale: 1 },
    shape: [rows],
    nbytes: rows * 8,
    order: "C",
    attrs: {},
    settings: {},
    path: table.store.describe(table.path),
    async *stream() {
      for (const [first, end] of stepsOf(0, rows, MINUTE_ROWS)) yield minutes(first, end);
    },
    rows: async (start, stop) => minutes(start, stop),
  };
  return { ...piece, columns: [axis, ...columns], priceScale: ratio };
}

/**
 * How many units a price of 1 is; undefined for tables that are not zipline's: its daily bars have the attributes that it uses to find
 * rows, or the caller says so.
 */
function priceScale({ priceScale: own, table }: Piece, { parquet }: ConvertOptions): number | undefined {
  if (own !== undefined || table === undefined || parquet?.zipline === false) return own;
  return parquet?.zipline === true || isDailyBars(table.names, table.attrs) ? DAILY_SCALE : undefined;
}

/** The type of a zipline column; undefined if it stays a number. */
function ziplineType(name: string, scale: number, { parquet }: ConvertOptions): SchemaOptions["as"] {
  if (name === "day") return "day";
  const prices = parquet?.prices ?? "raw";
  if (!PRICES.includes(name) || prices === "raw") return undefined;
  if (scale === DAILY_SCALE) return prices;
  throw new SuperchunkError(
    "UNSUPPORTED",
    `a price of 1 is stored as ${scale} in this table; only thousandths become decimals or doubles: leave out {prices}`,
    { path: name, field: "prices", expected: DAILY_SCALE, found: scale },
  );
}

export function pandasMetadata(
  columns: readonly SchemaColumn[],
  rows: number,
  notText: ReadonlySet<Leaf> = new Set(),
): string {
  const nodes = columns.flatMap(({ schema }) => schema.nodes);
  const described = nodes.map((node) => {
    const [pandas, numpy] = pandasType(node, notText);
    return { name: node.name, field_name: node.name, pandas_type: pandas, numpy_type: numpy, metadata: null };
  });
  return stringifyJson({
    index_columns: [{ kind: "range", name: null, start: 0, stop: rows, step: 1 }],
    column_indexes: [],
    columns: described,
    creator: { library: "superchunk", version: PRODUCER_VERSION },
    pandas_version: "1.0.0",
  });
}

/** The names of a type in pandas' metadata: its own, and numpy's. */
function pandasType(
  node: ColumnSchema["nodes"][number],
  notText: ReadonlySet<Leaf>,
): readonly [pandas: string, numpy: string] {
  if (!("leaf" in node)) return [node.list === undefined ? "object" : "list", "object"];
  const { dtype } = node.leaf;
  switch (dtype.kind) {
    case "int":
    case "uint":
    case "float":
      return [`${dtype.kind}${8 * dtype.itemSize}`, `${dtype.kind}${8 * dtype.itemSize}`];
    case "bool":
      return ["bool", "bool"];
    case "datetime":
      return ["Y", "M", "W", "D"].includes(dtype.unit) ? ["date", "object"] : ["datetime", "datetime64[ns]"];
    case "timedelta":
      return ["timedelta", "timedelta64[ns]"];
    case "bytes":
    case "unicode":
      return [notText.has(node.leaf) ? "bytes" : "unicode", "object"];
    default:
      return ["object", "object"];
  }
}

/** Attributes, and what the types do not express. */
export function metadataOf(piece: Piece, options: ConvertOptions): Map<string, string> {
  const { columns, table } = piece;
  const attrs = attrsOf(piece);
  const texts = Object.keys(attrs)
    .filter((name) => !OWN_KEYS.includes(name))
    .map((name) => [name, stringifyJson(JsonFloat.memberOf(attrs, name))] as const);
  const metadata = new Map(texts);
  const described = columns.flatMap(columnsOf).map(({ name, dtype, shape, attrs: own, fillValue }) => ({
    name: name || ONLY_COLUMN,
    dtype: formatDType(dtype),
    shape,
    ...(table === undefined || Object.keys(own).length === 0 ? {} : { attrs: own }),
    ...(fillValue === undefined ? {} : { fill_value: fillValue }),
  }));
  const scale = priceScale(piece, options);
  if (scale !== undefined && (options.parquet?.prices ?? "raw") === "raw")
    metadata.set("zipline.price_scale", String(scale));
  metadata.set("superchunk", stringifyJson({ columns: described }));
  return metadata;
}

/** The columns that an array of structs becomes; else the column itself. */
function columnsOf(column: Column): readonly Column[] {
  const { name, dtype, shape } = column;
  if (name !== "" || dtype.kind !== "struct" || shape.length !== 1) return [column];
  const own = { ...column, fillValue: undefined };
  return dtype.fields.map((field) => ({ ...own, ...field, shape: [...shape, ...field.shape] }));
}
