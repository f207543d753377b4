/**
 * Tables in files of other formats, as rows of a struct, for `create` and `append`. A format module returns columns and values; this
 * one converts them to bytes. Must not know the formats. @see docs/parquet.md
 */
import { elementsOf } from "../bytes/arrays.ts";
import { SuperchunkError } from "../errors.ts";
import { formatDType } from "../format/dtype.ts";
import type { DType, Field, TimeUnit } from "../format/types.ts";
import type { ReadableStore } from "../store/types.ts";
import { putRow } from "../values/item-bytes.ts";

export type StructType = DType & { readonly kind: "struct" };

/** A column of a file, with its numpy type. */
export interface TableColumn {
  readonly name: string;
  readonly dtype: DType;
  /** Dimensions of a row. */
  readonly shape: readonly number[];
}

/** Values of some rows, column by column; null or undefined for a missing value. */
export interface TableRows {
  readonly length: number;
  readonly columns: readonly ArrayLike<unknown>[];
  /** The line of a text file at which a row begins, counted from 1. */
  lineOf?(row: number): number;
}

/** A table in a file. */
export interface TableFile {
  readonly path: string;
  readonly columns: readonly TableColumn[];
  readonly rows: number;
  /** Notes on the types that were found. */
  readonly notes?: readonly string[];
  /** Blosc chunks built from the file's own streams; undefined if there are none for these columns. */
  openChunks?(names: readonly string[]): Promise<TableChunks | undefined>;
  /** Yields the rows in order, with the named columns in the given order. Only these are decoded. May be called repeatedly. */
  read(names: readonly string[], signal: AbortSignal | undefined): AsyncIterable<TableRows>;
}

/** Chunks of a file's columns that need no compression. */
export interface TableChunks {
  /** Rows of a chunk. */
  readonly rows: number;
  /** The chunk of rows `[first, end)` of a column; undefined if there is none. */
  chunk(
    name: string,
    first: number,
    end: number,
  ): Promise<{ readonly chunk: Uint8Array; readonly items: Uint8Array } | undefined>;
  close(): Promise<void>;
}

/** Opens a store for one reading, after which it is closed, and returns the path of the file in it. */
export type OpenFile = () => Promise<{ readonly store: ReadableStore; readonly path: string }>;

/** Options of opening a table. */
export interface TableOptions {
  /** Types for the columns, if they are known: text is parsed for them, and other columns need no type. */
  readonly as?: StructType | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** The struct of a table's rows. */
export function structOf(columns: readonly TableColumn[]): StructType {
  let offset = 0;
  const fields = columns.map(({ name, dtype, shape }): Field => {
    const field = { name, dtype, shape, offset };
    offset += elementsOf(shape) * dtype.itemSize;
    return field;
  });
  return { kind: "struct", itemSize: offset, byteOrder: "none", fields };
}

/** Takes chunks, and returns them when encoding of their items is requested. */
export interface ChunkTaker {
  offer(items: Uint8Array, chunk: Uint8Array): void;
}

/** Yields the same rows. Before each piece, `taker` gets the file's chunks that begin in it. */
export async function* offering(
  pieces: AsyncIterable<Uint8Array>,
  table: TableFile,
  dtype: StructType,
  offer: { readonly taker: ChunkTaker; readonly chunkRows: number; readonly firstRow: number },
): AsyncGenerator<Uint8Array> {
  const { taker, chunkRows, firstRow } = offer;
  const names = dtype.fields.map(({ name }) => name);
  const chunks = await table.openChunks?.(names);
  try {
    let [row, next] = [0, firstRow];
    for await (const piece of pieces) {
      row += piece.length / dtype.itemSize;
      for (; chunks !== undefined && next < row; next += chunkRows)
        for (const name of names) {
          const made = await chunks.chunk(name, next, Math.min(table.rows, next + chunkRows));
          if (made !== undefined) taker.offer(made.items, made.chunk);
        }
      yield piece;
    }
  } finally {
    await chunks?.close();
  }
}

/**
 * Yields the rows of a table as items of a struct. Columns are matched to fields by name.
 *
 * @throws BAD_ARGUMENT for a value that its field cannot hold, and for a null if the field has none; NOT_FOUND for a missing
 * column
 */
export async function* packedRows(
  table: TableFile,
  dtype: StructType,
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const { path } = table;
  const turns = dtype.fields.map((field) => turnOf(columnNamed(table, field.name), field, path));
  const names = dtype.fields.map(({ name }) => name);
  let first = 0;
  for await (const { length, columns: values, lineOf } of table.read(names, signal)) {
    signal?.throwIfAborted();
    const bytes = new Uint8Array(length * dtype.itemSize);
    const view = new DataView(bytes.buffer);
    for (const [i, field] of dtype.fields.entries()) {
      const own = values[i] ?? [];
      const turn = turns[i];
      for (let row = 0; row < length; row++) {
        const value = turn === undefined || own[row] == null ? own[row] : turn(own[row]);
        const where = (): string => (lineOf === undefined ? `row ${first + row}` : `line ${lineOf(row)}`);
        putValue(view, row * dtype.itemSize + field.offset, field, value, { path, where });
      }
    }
    yield bytes;
    first += length;
  }
}

/** The column with a name. Throws `NOT_FOUND`. */
export function columnNamed(
  { columns, path }: Pick<TableFile, "columns" | "path">,
  name: string,
): TableColumn {
  const found = columns.find((column) => column.name === name);
  if (found !== undefined) return found;
  const there = columns.map((column) => column.name).join(", ");
  throw new SuperchunkError("NOT_FOUND", `no column "${name}" in the file; there are ${there}`, {
    path,
    field: name,
  });
}

/** Nanoseconds of the units between which times are converted. */
const NANOSECONDS: Partial<Record<TimeUnit, bigint>> = {
  W: 604_800_000_000_000n,
  D: 86_400_000_000_000n,
  h: 3_600_000_000_000n,
  m: 60_000_000_000n,
  s: 1_000_000_000n,
  ms: 1_000_000n,
  us: 1000n,
  ns: 1n,
};

/**
 * The conversion of a file's values to a field with another unit; undefined if values are used unchanged.
 *
 * @throws BAD_ARGUMENT if only one of the two is a time, or rows have other dimensions
 */
function turnOf(column: TableColumn, field: Field, path: string): ((value: unknown) => unknown) | undefined {
  const [from, to] = [column.dtype, field.dtype];
  const refuse = (reason: string): SuperchunkError =>
    new SuperchunkError("BAD_ARGUMENT", `column "${field.name}" ${reason}`, {
      path,
      field: field.name,
      expected: formatDType(to),
      found: formatDType(from),
    });
  if (column.shape.join() !== field.shape.join())
    throw refuse(
      `has rows of [${column.shape.join()}] values in the file, and of [${field.shape.join()}] in the archive`,
    );
  const isTime = from.kind === "datetime" || from.kind === "timedelta";
  if (!isTime && to.kind !== "datetime" && to.kind !== "timedelta") return undefined;
  if (!isTime || from.kind !== to.kind)
    throw refuse(`is ${from.kind} in the file, and ${to.kind} in the archive`);
  if (from.unit === to.unit && from.scale === to.scale) return undefined;
  const [own, wanted] = [NANOSECONDS[from.unit], NANOSECONDS[to.unit]];
  if (own === undefined || wanted === undefined)
    throw refuse("has units that cannot be turned into one another");
  const [length, unit] = [own * BigInt(from.scale), wanted * BigInt(to.scale)];
  return (value) => {
    if (typeof value !== "number" && typeof value !== "bigint") return value;
    const time = BigInt(value) * length;
    if (time % unit !== 0n) throw refuse(`has a time that is more exact than the archive's ${to.unit}`);
    return time / unit;
  };
}

function putValue(
  view: DataView,
  place: number,
  field: Field,
  value: unknown,
  { path, where }: { readonly path: string; readonly where: () => string },
): void {
  try {
    putRow(view, place, field.dtype, field.shape, value ?? nothingOf(field));
  } catch (error) {
    if (!(error instanceof SuperchunkError)) throw error;
    const said =
      value == null
        ? `the value is missing, and ${field.dtype.kind} has no value for that; fill it, or leave the column out`
        : error.summary;
    throw new SuperchunkError(error.code, `${where()}, column "${field.name}": ${said}`, {
      path,
      field: field.name,
      found: value == null || typeof value === "object" ? String(value) : value,
      cause: error,
    });
  }
}

/** The value for a null: NaN, NaT, the empty string. Other types have none, and nulls are refused. */
function nothingOf({ dtype, shape }: Field): unknown {
  if (shape.length > 0) return null;
  if (dtype.kind === "float") return Number.NaN;
  if (dtype.kind === "datetime" || dtype.kind === "timedelta") return "NaT";
  return dtype.kind === "bytes" || dtype.kind === "unicode" ? "" : null;
}

const TEXT = new TextDecoder();

/** Decodes bytes as text, also in lists; other values are returned unchanged. */
export function textOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(textOf);
  return value instanceof Uint8Array ? TEXT.decode(value) : value;
}

/** The type of a file's column: a dtype; or text or bytes, whose length depends on the longest value. */
export type FoundType = DType | "text" | "binary";

/**
 * The same, of a value of column `name`.
 *
 * @throws UNSUPPORTED for a value that ends in zeros, which strings of numpy drop
 */
export function keptLength(value: unknown, name: string, path: string): number {
  const length = textLength(value);
  const isCut =
    typeof value === "string" ? value.endsWith("\0") : value instanceof Uint8Array && value.at(-1) === 0;
  if (!isCut) return length;
  throw new SuperchunkError(
    "UNSUPPORTED",
    typeof value === "string"
      ? `column "${name}" has a value that ends in a zero character, which numpy strings do not keep; to drop it, give the type: --dtype '[["${name}","<U${length}"]]'`
      : `column "${name}" has a value that ends in a zero byte, which numpy strings do not keep; give the type: |V keeps it, |S drops it (--dtype '[["${name}","|V${length}"]]')`,
    { path, field: name, found: value },
  );
}

/** A note on decimals that have more digits than float64; none for others. */
export function decimalNotes(name: string, precision: number | undefined): readonly string[] {
  if (precision === undefined || precision <= 15) return [];
  return [`column "${name}" has decimals of ${precision} digits; float64 keeps 15`];
}

/** Number of characters or bytes of a value. */
export function textLength(value: unknown): number {
  if (typeof value === "string") return [...value].length;
  return value instanceof Uint8Array ? value.length : 0;
}

/** The dtype of a column whose longest string has `longest` characters or bytes. */
export function sizedType(found: FoundType, longest: number): DType {
  const length = Math.max(1, longest);
  if (found === "text") return { kind: "unicode", itemSize: 4 * length, byteOrder: "little" };
  return found === "binary" ? { kind: "bytes", itemSize: length, byteOrder: "none" } : found;
}

/** The string type that a column will become, if it is known, so that its longest value need not be found. */
export function knownText(as: TableOptions["as"], name: string): DType | undefined {
  const field = as?.fields.find((each) => each.name === name);
  const isText = ["bytes", "unicode", "void"].includes(field?.dtype.kind ?? "");
  return isText && field?.shape.length === 0 ? field.dtype : undefined;
}

export function isWanted(as: TableOptions["as"], name: string): boolean {
  return as === undefined || as.fields.some((field) => field.name === name);
}

export function numberOf(kind: "int" | "uint" | "float", itemSize: number): DType {
  return { kind, itemSize, byteOrder: itemSize === 1 ? "none" : "little" };
}

export function timeOf(kind: "datetime" | "timedelta", unit: TimeUnit): DType {
  return { kind, itemSize: 8, byteOrder: "little", unit, scale: 1 };
}

export const BOOL: DType = { kind: "bool", itemSize: 1, byteOrder: "none" };

export function noCounterpart(name: string, what: string, path: string): SuperchunkError {
  return new SuperchunkError(
    "UNSUPPORTED",
    `column "${name}" is ${what}, which no column of an archive holds; leave it out of the file`,
    { path, field: name },
  );
}
