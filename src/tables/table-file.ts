/**
 * Tables in files of other formats, as rows of a struct, for `create` and `append`. A format module returns columns and values; this
 * one converts them to bytes. Must not know the formats. @see docs/parquet.md
 */
import { at } from "../bytes/arrays.ts";
import { SuperchunkError } from "../errors.ts";
import { formatDType } from "../format/dtype.ts";
import type { DType, Field } from "../format/types.ts";
import type { ReadableStore } from "../store/types.ts";
import { joinField, splitField } from "../values/copy-items.ts";
import { ATTOSECONDS, putRow } from "../values/item-bytes.ts";
import { fieldSize, swapBytes } from "../values/values.ts";
import {
  type Attributes,
  emptyNotes,
  numberOf,
  type Shaped,
  type StructType,
  structOf,
  type TableColumn,
  type Turn,
} from "./column-type.ts";

/** Values of some rows, column by column; null or undefined for a missing value. */
export interface TableRows {
  readonly length: number;
  readonly columns: readonly ArrayLike<unknown>[];
  /** The bytes of a column of floats, the lowest first, which are the caller's; undefined if there are none. NaN keeps its bits in them. */
  bytesOf?(column: number): Uint8Array | undefined;
  /** The line of a text file at which a row begins, counted from 1. */
  lineOf?(row: number): number;
}

export interface TableFile {
  readonly path: string;
  readonly columns: readonly TableColumn[];
  readonly rows: number;
  /** True if reading some columns takes about as long as reading all. */
  readonly isText?: true;
  /** Notes on the types that were found; once rows were read, also on their missing texts. */
  readonly notes: string[];
  /** User attributes, which only files of this library have. */
  readonly attrs?: Attributes;
  /** Blosc chunks built from the file's own streams; undefined if there are none for these columns. */
  openChunks?(names: readonly string[]): Promise<TableChunks | undefined>;
  /** Yields the rows in order, with the named columns in the given order. Only these are decoded. May be called repeatedly. */
  read(names: readonly string[], signal: AbortSignal | undefined): AsyncIterable<TableRows>;
}

/** A chunk and its decoded values. */
export interface MadeChunk {
  readonly chunk: Uint8Array;
  readonly items: Uint8Array;
}

/** Chunks of a file's columns that need no compression. */
export interface TableChunks {
  readonly rows: number;
  /** The chunk of rows `[first, end)` of a column; undefined if there is none. */
  chunk(name: string, first: number, end: number): Promise<MadeChunk | undefined>;
  close(): Promise<void>;
}

/** Opens a store for one reading, after which it is closed, and returns the path of the file in it. */
export type OpenFile = () => Promise<{ readonly store: ReadableStore; readonly path: string }>;

/** Options of opening a table. */
export interface TableOptions {
  /** Types for the columns, if they are known: text is parsed for them, and other columns need no type. */
  readonly as?: StructType | undefined;
  /** The columns that are read; default: those of `as`, or all. */
  readonly columns?: readonly string[] | undefined;
  readonly signal?: AbortSignal | undefined;
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
  const seen = dtype.fields.map((): Seen => ({ nulls: 0 }));
  const found = dtype.fields.map(({ name }) => columnNamed(table, name));
  const turns = dtype.fields.map((field, i) => turnOf(at(found, i), field, path, at(seen, i)));
  const isCopied = dtype.fields.map((field, i) => isSameFloat(at(found, i), field));
  const names = dtype.fields.map(({ name }) => name);
  let first = 0;
  for await (const { length, columns: values, bytesOf, lineOf } of table.read(names, signal)) {
    signal?.throwIfAborted();
    const bytes = new Uint8Array(length * dtype.itemSize);
    const view = new DataView(bytes.buffer);
    for (const [i, field] of dtype.fields.entries()) {
      const stored = isCopied[i] === true ? bytesOf?.(i) : undefined;
      if (stored?.length === length * fieldSize(field)) {
        putFloats(bytes, dtype.itemSize, field, stored);
        continue;
      }
      const own = values[i] ?? [];
      const turn = turns[i];
      const put = putterOf(view, field, turn, at(seen, i));
      let row = 0;
      try {
        for (; row < length; row++) put(row * dtype.itemSize + field.offset, own[row]);
      } catch (error) {
        const where = lineOf === undefined ? `row ${first + row}` : `line ${lineOf(row)}`;
        throw misfit(error, { path, where, field: field.name, found: own[row] }, field.dtype);
      }
    }
    yield bytes;
    first += length;
  }
  // An empty value of a text file is the empty string, and columns whose length was looked for have their note.
  for (const [i, { name }] of table.isText === true ? [] : dtype.fields.entries())
    for (const note of emptyNotes(name, at(seen, i).nulls))
      if (!table.notes.some((each) => each.replace(/ \d+ .*/, "") === note.replace(/ \d+ .*/, "")))
        table.notes.push(note);
}

/** True if the floats of a column are stored in a field as they are. */
function isSameFloat(column: Shaped, { dtype, shape }: Field): boolean {
  const isFloat = dtype.kind === "float" && column.dtype.kind === "float";
  return isFloat && column.dtype.itemSize === dtype.itemSize && column.shape.join() === shape.join();
}

/** Copies floats to the field of each row. */
function putFloats(rows: Uint8Array, itemSize: number, field: Field, floats: Uint8Array): void {
  if (field.dtype.byteOrder === "big") swapBytes(floats, field.dtype.itemSize);
  joinField(floats, { offset: field.offset, fieldBytes: fieldSize(field) }, rows, itemSize);
}

/** The missing texts of a column, which become empty. */
interface Seen {
  nulls: number;
}

/** Most bytes of columns that are kept until they are read. */
const MOST_KEPT = 64 << 20;

/**
 * Reads columns of a struct of the table one after the other. A text is split for all columns at once, so those that follow are kept,
 * as many as fit in memory.
 */
export function columnReader(
  table: TableFile,
  { fields }: StructType,
): (name: string, signal: AbortSignal | undefined) => AsyncGenerator<Uint8Array> {
  const kept = new Map<string, readonly Uint8Array[]>();
  return async function* read(name, signal) {
    const ready = kept.get(name);
    kept.delete(name);
    if (ready !== undefined) return yield* ready;
    let bytes = 0;
    const isKept = (field: Field): boolean => {
      bytes += table.rows * fieldSize(field);
      return bytes <= MOST_KEPT;
    };
    const first = fields.findIndex((field) => field.name === name);
    const after = table.isText === true ? fields.slice(first + 1).filter(isKept) : [];
    const struct = structOf([...fields.slice(first, first + 1), ...after]);
    const found = struct.fields.map((): Uint8Array[] => []);
    for await (const items of packedRows(table, struct, signal)) {
      for (const [i, field] of struct.fields.entries())
        found[i]?.push(fieldOf(items, struct.itemSize, field));
      yield* found[0]?.splice(0) ?? [];
    }
    for (const [i, field] of after.entries()) kept.set(field.name, found[i + 1] ?? []);
  };
}

function fieldOf(items: Uint8Array, itemSize: number, field: Field): Uint8Array {
  const size = fieldSize(field);
  if (size === itemSize) return items;
  const out = new Uint8Array((items.length / itemSize) * size);
  splitField(items, itemSize, { offset: field.offset, fieldBytes: size }, out, 0);
  return out;
}

/** The column with a name. Throws `NOT_FOUND`. */
export function columnNamed<Column extends { readonly name: string }>(
  { columns, path }: { readonly columns: readonly Column[]; readonly path: string },
  name: string,
): Column {
  const found = columns.find((column) => column.name === name);
  if (found !== undefined) return found;
  const there = columns.map((column) => column.name).join(", ");
  throw new SuperchunkError("NOT_FOUND", `no column "${name}" in the file; expected one of ${there}`, {
    path,
    field: name,
  });
}

type Refuse = (reason: string) => SuperchunkError;

/**
 * The conversion of a column's values to a field: the parts of groups in the order of the fields, times in its unit. Undefined if values
 * are used unchanged.
 *
 * @throws BAD_ARGUMENT if only one of the two is a time or a struct, or rows have other dimensions
 */
function turnOf(column: TableColumn, field: Field, path: string, seen: Seen): Turn | undefined {
  const [from, to] = [column.dtype, field.dtype];
  const refuse: Refuse = (reason) =>
    new SuperchunkError("BAD_ARGUMENT", `column "${field.name}" ${reason}`, {
      path,
      field: field.name,
      expected: formatDType(to),
      found: formatDType(from),
    });
  const isPlain = field.shape.length === 0 && !isNested(to);
  return isPlain && column.shape.length === 0 && from.kind !== "struct"
    ? valueTurn(from, to, refuse)
    : nestedTurn(column, field, refuse, seen);
}

/** The same for lists and groups. Also replaces nulls in them, and a null in place of one. */
function nestedTurn(from: Shaped, to: Shaped, refuse: Refuse, seen: Seen): Turn {
  const [length, ...rest] = to.shape;
  if (from.shape.length !== to.shape.length || from.shape[0] !== length)
    throw refuse(
      `has rows of [${from.shape.join()}] values in the file, and of [${to.shape.join()}] in the archive`,
    );
  if (length !== undefined) {
    const turn = nestedTurn({ ...from, shape: from.shape.slice(1) }, { ...to, shape: rest }, refuse, seen);
    return (value) => Array.from((value ?? { length }) as ArrayLike<unknown>, turn);
  }
  if (!isNested(to.dtype)) {
    const turn = valueTurn(from.dtype, to.dtype, refuse);
    return (value) => {
      if (value == null) return nothingOf(to.dtype, seen);
      return turn === undefined ? value : turn(value);
    };
  }
  const half = { dtype: numberOf("float", 8), shape: [] };
  const wanted =
    to.dtype.kind === "struct" ? to.dtype.fields : ["real", "imag"].map((name) => ({ ...half, name }));
  const own = from.dtype.kind === "struct" ? from.dtype.fields : from.dtype.kind === "complex" ? wanted : [];
  const turns = wanted.map((part) => {
    const found = own.find(({ name }) => name === part.name);
    if (found === undefined || own.length !== wanted.length)
      throw refuse(`is ${from.dtype.kind} in the file, with other fields than in the archive`);
    return [part.name, nestedTurn(found, part, refuse, seen)] as const;
  });
  return (value) =>
    typeof (value ?? {}) === "object"
      ? turns.map(([name, turn]) => turn((value as Readonly<Record<string, unknown>> | null)?.[name]))
      : value;
}

/** The conversion of times to another unit, and of text to bytes; undefined if values are used unchanged. */
function valueTurn(from: DType, to: DType, refuse: Refuse): Turn | undefined {
  const isTime = from.kind === "datetime" || from.kind === "timedelta";
  const isWrong = from.kind === "struct" || (isTime ? from.kind : to.kind) !== to.kind;
  if (isWrong || (!isTime && (to.kind === "datetime" || to.kind === "timedelta")))
    throw refuse(`is ${from.kind} in the file, and ${to.kind} in the archive`);
  if (from.kind === "bool" && to.kind === "float") return Number;
  if ((from.kind === "int" || from.kind === "uint") && to.kind === "float")
    return (value) => exactFloat(value, to.itemSize, refuse);
  if (to.kind === "bytes")
    return (value) => (typeof value === "string" ? bytesOf(value, to.itemSize) : value);
  if (!isTime || (to.kind !== "datetime" && to.kind !== "timedelta")) return undefined;
  if (from.unit === to.unit && from.scale === to.scale) return undefined;
  // Years and months are counted where values are written, from dates.
  const isMonths = to.kind === "datetime" && (to.unit === "Y" || to.unit === "M");
  const [own, wanted] = [ATTOSECONDS[from.unit], isMonths ? 10n ** 15n : ATTOSECONDS[to.unit]];
  if (own === undefined || wanted === undefined)
    throw refuse("has units that cannot be turned into one another; leave the column out ({columns})");
  const [length, unit] = [own * BigInt(from.scale), isMonths ? wanted : wanted * BigInt(to.scale)];
  return (value) => {
    if (typeof value !== "number" && typeof value !== "bigint") return value;
    const time = BigInt(value) * length;
    if (time % unit !== 0n) throw refuse(`has a time that is more exact than the archive's ${to.unit}`);
    return isMonths ? new Date(Number(time / unit)) : time / unit;
  };
}

/** An integer as a float of so many bytes. @throws BAD_ARGUMENT if the float cannot hold all digits */
function exactFloat(value: unknown, size: number, refuse: Refuse): unknown {
  const most = 2 ** (size === 8 ? 53 : size === 4 ? 24 : 11);
  // The next integer may have been rounded to the limit itself.
  if (Math.abs(Number(value)) < most) return Number(value);
  let odd = BigInt(value as bigint);
  while (odd % 2n === 0n) odd /= 2n;
  if (odd > -most && odd < most) return Number(value);
  throw refuse(`has the integer ${value}, of which a float of ${size} bytes loses digits`);
}

/** A text of the file as bytes of UTF-8. @throws BAD_ARGUMENT if it is too long */
function bytesOf(text: string, size: number): Uint8Array {
  const bytes = new TextEncoder().encode(text);
  if (bytes.length <= size) return bytes;
  const message = `the text takes ${bytes.length} bytes of UTF-8, and a string of the archive has ${size}`;
  throw new SuperchunkError("BAD_ARGUMENT", message, { expected: size, found: bytes.length });
}

/** Writes a value of the file at a place of the rows. */
function putterOf(
  view: DataView,
  { dtype, shape }: Field,
  turn: Turn | undefined,
  seen: Seen,
): (place: number, value: unknown) => void {
  if (turn !== undefined && (shape.length > 0 || isNested(dtype)))
    return (place, value) => putRow(view, place, dtype, shape, turn(value));
  return (place, value) => {
    if (value == null) putRow(view, place, dtype, shape, nothingOf(dtype, seen));
    else putRow(view, place, dtype, shape, turn === undefined ? value : turn(value));
  };
}

/** The error of a value that its field cannot hold, with its place. */
function misfit(
  error: unknown,
  place: { readonly path: string; readonly where: string; readonly field: string; readonly found: unknown },
  dtype: DType,
): unknown {
  if (!(error instanceof SuperchunkError)) return error;
  const { path, field, found: value } = place;
  const column = `column "${field}"`;
  const what = error.summary.startsWith(column) ? error.summary : `${column}: ${error.summary}`;
  // Parquet's times of twelve bytes, which Spark writes, are in ns and have all years.
  const isFar = typeof value === "bigint" && dtype.kind === "datetime" && dtype.unit === "ns";
  const advice = isFar
    ? "; ns count from 1677 to 2262, and create can give the column the unit us ({dtype})"
    : "";
  return new SuperchunkError(error.code, `${place.where}, ${what}${advice}`, {
    path,
    field,
    found: value == null || typeof value === "object" ? String(value) : value,
    cause: error,
  });
}

/** The value for a null: NaN, NaT, the empty string. @throws BAD_ARGUMENT for other types, which have none */
function nothingOf({ kind }: DType, seen: Seen): unknown {
  if (kind === "float") return Number.NaN;
  if (kind === "datetime" || kind === "timedelta") return "NaT";
  if (kind === "bytes" || kind === "unicode") {
    seen.nulls++;
    return "";
  }
  const isNumber = ["int", "uint", "bool"].includes(kind);
  const advice = `fill it; create can ${isNumber ? "make the column a float ({dtype}), or " : ""}leave it out ({columns})`;
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    `the value is missing, and ${kind} has no value for that; ${advice}`,
  );
}

/** The columns of a file that are read. @throws NOT_FOUND for a name that it lacks, UNSUPPORTED for one that it has twice */
export function wantedOf<Column extends { readonly name: string }>(
  all: readonly Column[],
  { as, columns }: TableOptions,
  path: string,
): readonly Column[] {
  if (all.length === 0) throw new SuperchunkError("UNSUPPORTED", "the file has no columns", { path });
  const names = columns ?? as?.fields.map(({ name }) => name);
  for (const name of names ?? []) columnNamed({ columns: all, path }, name);
  const wanted = all.filter(({ name }) => names?.includes(name) !== false);
  const twice = wanted.find(({ name }, i) => wanted.findIndex((each) => each.name === name) < i)?.name;
  if (twice === undefined) return wanted;
  throw new SuperchunkError("UNSUPPORTED", `the file has two columns "${twice}"; rename one`, { path });
}

function isNested({ kind }: DType): boolean {
  return kind === "struct" || kind === "complex";
}
