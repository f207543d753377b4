/**
 * Types of columns in files of other formats, and the dtypes that they become: lengths come from the values, and dtypes of this library's own
 * files from their metadata. Must not know the formats. @see docs/parquet.md
 */
import { at, elementsOf } from "../bytes/arrays.ts";
import { SuperchunkError } from "../errors.ts";
import { parseDType } from "../format/dtype.ts";
import { isObject, jsonOrText, parseJson } from "../format/json.ts";
import type { DType, Field, JsonInput, JsonObject, TimeUnit } from "../format/types.ts";
import { UnicodeStringArray } from "../values/values.ts";

export type StructType = DType & { readonly kind: "struct" };

/** A dtype, and the dimensions of a row. */
export type Shaped = Pick<Field, "dtype" | "shape">;

/** Makes one value of another. */
export type Turn = (value: unknown) => unknown;

/** A column of a file, with its numpy type. */
export interface TableColumn {
  readonly name: string;
  readonly dtype: DType;
  /** Dimensions of a row. */
  readonly shape: readonly number[];
}

export function structOf(columns: readonly TableColumn[]): StructType {
  let offset = 0;
  const fields = columns.map(({ name, dtype, shape }): Field => {
    const field = { name, dtype, shape, offset };
    offset += elementsOf(shape) * dtype.itemSize;
    return field;
  });
  return { kind: "struct", itemSize: offset, byteOrder: "none", fields };
}

/** A mark of byte order at the start of a value is one of its characters. */
const TEXT = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Decodes bytes as text; other values are returned unchanged. @throws UNSUPPORTED for bytes that are not UTF-8 */
function textOf(value: unknown, name: string, path: string): unknown {
  if (!(value instanceof Uint8Array)) return value;
  try {
    return TEXT.decode(value);
  } catch (cause) {
    throw new SuperchunkError(
      "UNSUPPORTED",
      `column "${name}" has a text that is not UTF-8; a column of bytes keeps it (--dtype '[["${name}","|S${value.length}"]]')`,
      { path, field: name, found: value, cause },
    );
  }
}

/**
 * The type of a file's column: a dtype; text or bytes, whose length depends on the longest value; nulls alone, which have the type of the
 * rows; a decimal, a list or a group of those.
 */
export type FoundType =
  | DType
  | "text"
  | "binary"
  | "null"
  | { readonly kind: "decimal"; readonly scale: number }
  /** A length is known only for lists of a fixed size. */
  | { readonly kind: "list"; readonly item: FoundType; readonly length?: number | undefined }
  | { readonly kind: "group"; readonly parts: readonly FoundPart[] };

/** A named column or part of a group. */
export interface FoundPart {
  readonly name: string;
  readonly type: FoundType;
}

/** True if lengths depend on the values. */
function isOpen(type: FoundType): boolean {
  if (typeof type === "string") return true;
  if (type.kind === "list") return type.length === undefined || isOpen(type.item);
  return type.kind === "group" && type.parts.some((part) => isOpen(part.type));
}

/** A column's dtype and the dimensions of a row, from what is known of the type and the values that were seen. */
interface Measure {
  /** @throws UNSUPPORTED for lists of several lengths, and for values that numpy's strings would cut */
  see(value: unknown): void;
  result(): Shaped;
}

/** @param seen counts the nulls that become the empty string */
function measureOf(type: FoundType, name: string, path: string, seen: { nulls: number }): Measure {
  if (type === "null") throw noCounterpart(name, "of nulls alone (give it a type: {dtype})", path);
  if (typeof type === "string") {
    let longest = 0;
    return {
      see(value) {
        if (value == null) seen.nulls++;
        longest = Math.max(
          longest,
          keptLength(type === "text" ? textOf(value, name, path) : value, name, path),
        );
      },
      result: () => ({ dtype: sizedType(type, longest), shape: [] }),
    };
  }
  if (type.kind === "group") {
    const parts = type.parts.map((part) => ({
      name: part.name,
      own: measureOf(part.type, name, path, seen),
    }));
    const twice = parts.find((part, i) => parts.findIndex((each) => each.name === part.name) < i)?.name;
    if (twice !== undefined) throw noCounterpart(name, `a struct with two fields "${twice}"`, path);
    return {
      see(value) {
        for (const part of parts) part.own.see((value as JsonObject | null | undefined)?.[part.name]);
      },
      result: () => ({
        dtype: structOf(parts.map((part) => ({ name: part.name, ...part.own.result() }))),
        shape: [],
      }),
    };
  }
  if (type.kind !== "list") {
    const dtype = type.kind === "decimal" ? numberOf("float", 8) : type;
    return { see: () => undefined, result: () => ({ dtype, shape: [] }) };
  }
  const item = measureOf(type.item, name, path, seen);
  let { length } = type;
  return {
    see(value) {
      if (value == null) {
        if (isOpen(type.item)) item.see(undefined);
        return;
      }
      const list = Array.from(value as ArrayLike<unknown>);
      length ??= list.length;
      if (list.length !== length)
        throw new SuperchunkError(
          "UNSUPPORTED",
          `the lists of column "${name}" are not of one length; name the other columns with {columns}`,
          { path, field: name },
        );
      if (isOpen(type.item)) list.forEach(item.see);
    },
    result() {
      const { dtype, shape } = item.result();
      if ((length ?? 0) === 0) throw noCounterpart(name, "of empty lists", path);
      return { dtype, shape: [length ?? 0, ...shape] };
    },
  };
}

/** A column whose dtype is found: at once, or from its values. */
export interface Finder {
  /** Has to see all values; undefined if the dtype is known without them. */
  readonly measure: Measure | undefined;
  /** The column, and what makes a stored value one of it. */
  result(): {
    readonly column: TableColumn;
    readonly turn: Turn | undefined;
    /** Notes on values that were seen. */
    readonly notes?: readonly string[];
  };
}

/**
 * @param described dtypes that the file describes
 * @param as types that the rows will get
 */
export function findColumn(
  { name, type }: FoundPart,
  described: ReadonlyMap<string, Shaped>,
  as: StructType | undefined,
  path: string,
): Finder {
  const text: Turn = (value) => textOf(value, name, path);
  const known = ({ dtype, shape }: Shaped, turn: Turn | undefined): Finder => ({
    measure: undefined,
    result: () => ({ column: { name, dtype, shape }, turn }),
  });
  const shaped = described.get(name);
  const dtype = shaped && describedType(type, shaped);
  if (shaped !== undefined && dtype !== undefined)
    return known({ ...shaped, dtype }, readerOf(type, dtype, text));
  const target = as?.fields.find((field) => field.name === name);
  if (type === "null" && target !== undefined) return known(target, () => null);
  const isText = ["bytes", "unicode", "void"].includes(target?.dtype.kind ?? "");
  if (typeof type === "string" && target !== undefined && isText && target.shape.length === 0)
    return known(target, type === "text" && target.dtype.kind !== "bytes" ? text : undefined);
  const seen = { nulls: 0 };
  const measure = measureOf(type, name, path, seen);
  return {
    measure: isOpen(type) ? measure : undefined,
    result() {
      const own = measure.result();
      const column = { name, ...own };
      return { column, turn: readerOf(type, own.dtype, text), notes: emptyNotes(name, seen.nulls) };
    },
  };
}

/** User attributes by name. */
export type Attributes = Readonly<Record<string, JsonInput>>;

/** The dtypes and attributes that this library stores in the files that it writes. */
export function describedIn(
  metadata: ReadonlyMap<string, string>,
  path: string,
): { readonly columns: ReadonlyMap<string, Shaped>; readonly attrs: Attributes } {
  const found = new Map<string, Shaped>();
  const text = metadata.get("superchunk");
  if (text === undefined) return { columns: found, attrs: {} };
  const described = parseJson(text, path);
  const columns = isObject(described) && Array.isArray(described["columns"]) ? described["columns"] : [];
  for (const each of columns)
    if (isObject(each) && typeof each["name"] === "string" && Array.isArray(each["shape"]))
      found.set(each["name"], {
        dtype: parseDType(each["dtype"] ?? null, path),
        shape: each["shape"].slice(1).map(Number),
      });
  // Another program may have added any text.
  const own = [...metadata].filter(([name]) => !OWN_KEYS.includes(name));
  const attrs = Object.fromEntries(own.map(([name, value]) => [name, jsonOrText(value, path)]));
  return { columns: found, attrs };
}

/** The keys of metadata that are not attributes. */
export const OWN_KEYS: readonly string[] = ["superchunk", "pandas", "ARROW:schema", "zipline.price_scale"];

/**
 * The dtype of a described column, if the file's column has its type: zipline's prices, for example, may have another one in the file. Times have
 * the units of the file. Other programs may have kept the description, but not the type.
 */
function describedType(type: FoundType, { dtype, shape }: Shaped): DType | undefined {
  const [length, ...rest] = shape;
  if (typeof type === "object" && type.kind === "list") {
    const isSame = length !== undefined && (type.length ?? length) === length;
    return isSame ? describedType(type.item, { dtype, shape: rest }) : undefined;
  }
  const { kind } = dtype;
  if (length !== undefined) return undefined;
  if (type === "text") return kind === "bytes" || kind === "unicode" ? dtype : undefined;
  if (type === "binary") return kind === "bytes" ? dtype : undefined;
  if (type === "null") return undefined;
  if (type.kind === "group") {
    const names = type.parts.map(({ name }) => name).join("\0");
    if (dtype.kind === "complex") return names === "real\0imag" ? dtype : undefined;
    if (dtype.kind !== "struct" || names !== dtype.fields.map(({ name }) => name).join("\0"))
      return undefined;
    const fields = dtype.fields.flatMap((field, i) => {
      const own = describedType(at(type.parts, i).type, field);
      return own === undefined ? [] : [{ ...field, dtype: own }];
    });
    return fields.length === dtype.fields.length ? { ...dtype, fields } : undefined;
  }
  if (type.kind === "datetime" && isSeconds(dtype)) return dtype;
  if (type.kind === "datetime" || type.kind === "timedelta") return kind === type.kind ? type : undefined;
  if (type.kind === "decimal" || dtype.itemSize !== type.itemSize) return undefined;
  // Times in units that the format lacks are integers.
  if (kind === "datetime" || kind === "timedelta") return type.kind === "int" ? dtype : undefined;
  return kind === type.kind || (type.kind === "void" && (kind === "bytes" || kind === "unicode"))
    ? dtype
    : undefined;
}

/** True for days of zipline, which are seconds in its tables, and dates in files. */
function isSeconds({ kind, itemSize }: DType): boolean {
  return kind === "uint" && itemSize === 4;
}

/** What makes a stored value of the file one of a column with this dtype; undefined if it already is. Nulls stay. */
function readerOf(type: FoundType, dtype: DType, text: Turn): Turn | undefined {
  const turn = readerOfValue(type, dtype, text);
  return turn && ((value) => (value == null ? value : turn(value)));
}

function readerOfValue(type: FoundType, dtype: DType, text: Turn): Turn | undefined {
  if (type === "binary" || type === "null") return undefined;
  // Described strings of bytes stay as they are.
  if (type === "text") return dtype.kind === "unicode" ? text : undefined;
  if (type.kind === "list") {
    const turn = readerOf(type.item, dtype, text);
    return turn && ((list) => Array.from(list as ArrayLike<unknown>, turn));
  }
  if (type.kind === "group") {
    const fields = dtype.kind === "struct" ? dtype.fields : [];
    const turns = fields.flatMap((field, i) => {
      const turn = readerOf(at(type.parts, i).type, field.dtype, text);
      return turn === undefined ? [] : [[field.name, turn] as const];
    });
    if (turns.length === 0) return undefined;
    return (group) => {
      const parts = { ...(group as Record<string, unknown>) };
      for (const [name, turn] of turns) parts[name] = turn(parts[name]);
      return parts;
    };
  }
  if (type.kind === "void" && dtype.kind === "unicode") return textOfPoints;
  if (type.kind === "datetime" && isSeconds(dtype)) return (days) => Number(days) * 86_400;
  if (type.kind !== "decimal") return undefined;
  return (value) => decimalOf(value, type.scale);
}

/** The double nearest to a decimal, from its digits: a number, or the bytes of one, the highest first. */
function decimalOf(value: unknown, scale: number): number {
  const digits = value instanceof Uint8Array ? signedOf(value) : (value as number | bigint);
  const number = Number(digits);
  // A quotient of two exact numbers is the nearest double. Parsing rounds correctly, too, but takes longer.
  if (Number.isSafeInteger(number) && scale <= 22) return number / 10 ** scale;
  return Number(`${digits}e-${scale}`);
}

/** The number in two's complement that some bytes are. */
function signedOf(bytes: Uint8Array): bigint {
  let value = 0n;
  for (const byte of bytes) value = (value << 8n) | BigInt(byte);
  return BigInt.asIntN(8 * bytes.length, value);
}

/** The text of characters of four bytes, which are not UTF-8. */
function textOfPoints(value: unknown): string {
  const bytes = value as Uint8Array;
  return new UnicodeStringArray(bytes, bytes.length, true).get(0);
}

/**
 * The length of a value of column `name`, in characters or bytes.
 *
 * @throws UNSUPPORTED for a value that ends in zeros, which strings of numpy drop
 */
function keptLength(value: unknown, name: string, path: string): number {
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
  return [`column "${name}": decimals of ${precision} digits; float64 keeps 15`];
}

/** A note on nulls that strings of numpy do not have; none if there are none. */
export function emptyNotes(name: string, nulls: number): readonly string[] {
  if (nulls === 0) return [];
  return [
    `column "${name}": ${nulls} missing value${nulls === 1 ? " becomes" : "s become"} the empty string`,
  ];
}

export function zoneNotes(name: string): string {
  return `column "${name}": times with a time zone; they are stored in UTC, without the zone`;
}

/** Number of characters or bytes of a value. */
export function textLength(value: unknown): number {
  if (typeof value === "string") return [...value].length;
  return value instanceof Uint8Array ? value.length : 0;
}

/** The dtype of a column whose longest string has `longest` characters or bytes. */
export function sizedType(found: "text" | "binary", longest: number): DType {
  const length = Math.max(1, longest);
  return found === "text"
    ? { kind: "unicode", itemSize: 4 * length, byteOrder: "little" }
    : { kind: "bytes", itemSize: length, byteOrder: "none" };
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
    `column "${name}" is ${what}, which no column of an archive holds; name the others with {columns}`,
    { path, field: name },
  );
}
