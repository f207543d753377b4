/**
 * Maps numpy types to Parquet columns: physical and logical type, and the conversion of each value.
 *
 * Structs are groups, sub-arrays and further dimensions are lists, complex numbers are groups of two. Dates are nullable, for
 * NaT. Knows types; must not know values or files. @see docs/parquet-format.md [PT]
 */
import { elementsOf } from "../bytes/arrays.ts";
import { SuperchunkError } from "../errors.ts";
import { formatDType } from "../format/dtype.ts";
import type { DType, TimeUnit } from "../format/types.ts";
import { ThriftStruct } from "./thrift.ts";

/** Physical types, by their numbers. */
const PHYSICAL = { boolean: 0, int32: 1, int64: 2, float: 4, double: 5, bytes: 6, fixed: 7 } as const;
const REPETITION = { required: 0, optional: 1, repeated: 2 } as const;
const CONVERTED = { utf8: 0, list: 3, decimal: 5, date: 6, uint8: 11, int8: 15 } as const;

/** How values are compared, and what their bytes mean. */
export type ValueKind =
  | "bool"
  | "int32"
  | "uint32"
  | "int64"
  | "uint64"
  | "half"
  | "float"
  | "double"
  | "fixed"
  | "text";

/** How an item is converted to a value. */
export type ValueConversion =
  /** The item's bytes are the value. */
  | { readonly kind: "direct" }
  /** A small integer, or a float of two bytes, is widened to four bytes. */
  | { readonly kind: "widen" }
  | { readonly kind: "bool" }
  /** Days since 1970, from a date whose unit is a day or longer. */
  | { readonly kind: "days"; readonly unit: TimeUnit; readonly scale: number }
  /** An eight-byte integer, multiplied. */
  | { readonly kind: "multiply"; readonly factor: bigint }
  /** A four-byte unsigned integer, widened to eight bytes, or divided and stored as a double. */
  | { readonly kind: "price"; readonly divisor: number | undefined }
  /** Strings of bytes, or of four-byte characters, without trailing zeros. */
  | { readonly kind: "text"; readonly isUnicode: boolean };

export type Logical =
  | { readonly kind: "none" | "string" | "date" | "half" }
  | { readonly kind: "integer"; readonly bits: 8 | 16 | 32 | 64; readonly signed: boolean }
  | { readonly kind: "timestamp"; readonly unit: "ms" | "us" | "ns" }
  /** A type of Arrow only: in Parquet, an integer. */
  | { readonly kind: "duration"; readonly unit: "s" | "ms" | "us" | "ns" }
  | { readonly kind: "decimal"; readonly scale: number; readonly precision: number };

/** A column of values in the file. */
export interface Leaf {
  readonly path: readonly string[];
  /** Data type of the items that the values come from. */
  readonly dtype: DType;
  /** Offsets of the items in a row, in the order of the values. */
  readonly offsets: readonly number[];
  /** Bytes of an item in a row. */
  readonly itemSize: number;
  /** Lengths of the lists, outermost first. */
  readonly lists: readonly number[];
  /** True if NaT becomes null. */
  readonly nullable: boolean;
  readonly kind: ValueKind;
  /** Bytes of a value in the file; undefined for booleans and if values differ in length. */
  readonly width: number | undefined;
  readonly conversion: ValueConversion;
  readonly logical: Logical;
  /** Why no streams of this leaf can be copied; undefined if they can. */
  readonly whyConverted: string | undefined;
}

/** A node of the schema: a group with children, or a leaf. */
export type SchemaNode =
  | { readonly name: string; readonly leaf: Leaf }
  | { readonly name: string; readonly list?: "outer" | "inner"; readonly children: readonly SchemaNode[] };

/** Choices of the caller. */
export interface SchemaOptions {
  /** `utf8` (default): numpy strings become strings; `fixed`: they stay bytes of fixed length, including trailing zeros. */
  readonly strings?: "utf8" | "fixed" | undefined;
  /** For uint32 of zipline: a logical type instead of the plain number. */
  readonly as?: "day" | "decimal" | "double" | undefined;
  /** Floats of two bytes become floats of four, for older readers. */
  readonly widensHalves?: boolean | undefined;
  /** A struct is a row: its fields become columns. */
  readonly isRow?: boolean | undefined;
}

/** A column and its leaves, in order. */
export interface ColumnSchema {
  /** The column; of structs that are rows, a column for each field. */
  readonly nodes: readonly SchemaNode[];
  readonly leaves: readonly Leaf[];
  /** Notes for the user on what the type does not show. */
  readonly notes: readonly string[];
}

/** Most values of a row. */
const MOST_PER_ROW = 1 << 16;

/**
 * The column for rows of `shape` of a dtype.
 *
 * @throws UNSUPPORTED for types that Parquet lacks
 */
export function columnSchema(
  name: string,
  dtype: DType,
  shape: readonly number[],
  options: SchemaOptions,
  path: string,
): ColumnSchema {
  const leaves: Leaf[] = [];
  const notes: string[] = [];
  const refuse = (own: SchemaPlace, reason: string): never => {
    const summary = `column "${own.path[0] ?? name}": ${reason}`;
    throw new SuperchunkError("UNSUPPORTED", summary, { path, field: "dtype", found: formatDType(dtype) });
  };

  const listed = (
    own: SchemaPlace,
    type: DType,
    dims: readonly number[],
    inner: (place: SchemaPlace) => SchemaNode,
  ): SchemaNode => {
    const [length, ...rest] = dims;
    if (length === undefined) return inner(own);
    if (length === 0)
      return refuse(own, "rows have a dimension of length 0, and hold no values; convert it to .npy or Zarr");
    const step = elementsOf(rest) * type.itemSize;
    if (own.offsets.length * length > MOST_PER_ROW)
      return refuse(own, `rows have more than ${MOST_PER_ROW} values each`);
    const offsets = own.offsets.flatMap((from) => Array.from({ length }, (_, i) => from + i * step));
    const next = {
      name: "element",
      path: [...own.path, "list", "element"],
      offsets,
      lists: [...own.lists, length],
    };
    const element = listed(next, type, rest, inner);
    return {
      name: own.name,
      list: "outer",
      children: [{ name: "list", list: "inner", children: [element] }],
    };
  };

  const visit = (own: SchemaPlace, type: DType): SchemaNode => {
    if (type.kind === "struct") {
      if (type.fields.length === 0) return refuse(own, "a struct without fields has no values");
      const children = type.fields.map((field) => {
        const offsets = own.offsets.map((from) => from + field.offset);
        const place = { ...own, name: field.name, path: [...own.path, field.name], offsets };
        return listed(place, field.dtype, field.shape, (inner) => visit(inner, field.dtype));
      });
      return { name: own.name, children };
    }
    if (type.kind === "complex") {
      const half: DType = { kind: "float", itemSize: type.itemSize / 2, byteOrder: type.byteOrder };
      const children = ["real", "imag"].map((part, i) => {
        const offsets = own.offsets.map((from) => from + i * half.itemSize);
        return visit({ ...own, name: part, path: [...own.path, part], offsets }, half);
      });
      return { name: own.name, children };
    }
    const described = leafTypeOf(type, options);
    if (described === undefined)
      return refuse(own, `Parquet and Arrow have no type for ${JSON.stringify(formatDType(type))}`);
    const { why, note, ...facts } = described;
    if (note !== undefined) notes.push(`column "${own.path[0]}": ${note}`);
    const isPart =
      own.offsets.length === 1 ? dtype !== type : dtype.kind === "struct" || dtype.kind === "complex";
    const leaf: Leaf = {
      path: own.path,
      dtype: type,
      offsets: own.offsets,
      itemSize: type.itemSize,
      lists: own.lists,
      ...facts,
      whyConverted: isPart
        ? "fields of a struct are stored side by side, and become columns"
        : "byteOrder" in type && type.byteOrder === "big"
          ? "values are big-endian, and Parquet's are little-endian"
          : why,
    };
    leaves.push(leaf);
    return { name: own.name, leaf };
  };

  const isRow = options.isRow === true && dtype.kind === "struct" && shape.length === 0;
  const root: SchemaPlace = { name, path: isRow ? [] : [name], offsets: [0], lists: [] };
  const node = listed(root, dtype, shape, (place) => visit(place, dtype));
  const nodes = isRow && "children" in node ? node.children : [node];
  return { nodes, leaves, notes: [...new Set(notes)] };
}

interface SchemaPlace {
  readonly name: string;
  readonly path: readonly string[];
  readonly offsets: readonly number[];
  readonly lists: readonly number[];
}

/** The type of a leaf, why its values are converted, and what the type does not show. */
interface LeafType extends Pick<Leaf, "nullable" | "kind" | "width" | "conversion" | "logical"> {
  readonly why?: string;
  readonly note?: string;
}

const DIRECT: ValueConversion = { kind: "direct" };
const NONE: Logical = { kind: "none" };
const WIDENED = "floats of 2 bytes become floats of 4, which older readers know";

/** By default, the bytes of items are values. */
function typeOf(kind: ValueKind, width: number | undefined, more: Partial<LeafType> = {}): LeafType {
  return { nullable: false, kind, width, conversion: DIRECT, logical: NONE, ...more };
}

function leafTypeOf(dtype: DType, options: SchemaOptions): LeafType | undefined {
  switch (dtype.kind) {
    case "bool":
      return typeOf("bool", undefined, {
        conversion: { kind: "bool" },
        why: "booleans of Parquet have one bit",
      });
    case "int":
    case "uint":
      return integerType(dtype.kind === "int", dtype.itemSize, options);
    case "float":
      if (dtype.itemSize === 2 && options.widensHalves === true)
        return typeOf("float", 4, { conversion: { kind: "widen" }, why: WIDENED });
      if (dtype.itemSize === 2) return typeOf("half", 2, { logical: { kind: "half" } });
      if (dtype.itemSize === 4) return typeOf("float", 4);
      return dtype.itemSize === 8 ? typeOf("double", 8) : undefined;
    case "datetime":
    case "timedelta":
      return timeType(dtype);
    case "bytes":
    case "unicode":
      if (options.strings === "fixed" && dtype.itemSize > 0) return typeOf("fixed", dtype.itemSize);
      return typeOf("text", undefined, {
        conversion: { kind: "text", isUnicode: dtype.kind === "unicode" },
        logical: { kind: "string" },
        why: "strings of Parquet have a length each, and no zeros at their end",
      });
    case "void":
      return dtype.itemSize > 0 ? typeOf("fixed", dtype.itemSize) : undefined;
    default:
      return undefined;
  }
}

function integerType(signed: boolean, size: number, { as }: SchemaOptions): LeafType | undefined {
  if (!signed && size === 4 && as !== undefined) return ZIPLINE[as];
  if (size !== 1 && size !== 2 && size !== 4 && size !== 8) return undefined;
  const kind = `${signed ? "int" : "uint"}${size === 8 ? 64 : 32}` as const;
  const bits = ({ 1: 8, 2: 16, 4: 32, 8: 64 } as const)[size];
  const logical: Logical = signed && size >= 4 ? NONE : { kind: "integer", bits, signed };
  if (size >= 4) return typeOf(kind, size, { logical });
  const why = "integers of Parquet have at least four bytes";
  return typeOf(kind, 4, { conversion: { kind: "widen" }, logical, why });
}

/** zipline's tables store seconds, and prices in thousandths, as uint32. */
const ZIPLINE: { readonly [as in NonNullable<SchemaOptions["as"]>]: LeafType } = {
  day: typeOf("int32", 4, {
    conversion: { kind: "days", unit: "s", scale: 1 },
    logical: { kind: "date" },
    why: "seconds become days",
  }),
  decimal: typeOf("int64", 8, {
    conversion: { kind: "price", divisor: undefined },
    logical: { kind: "decimal", scale: 3, precision: 10 },
    why: "prices become decimals",
  }),
  double: typeOf("double", 8, {
    conversion: { kind: "price", divisor: 1000 },
    why: "prices become doubles",
  }),
};

/** The factor from a numpy unit to seconds, or to itself. */
const FACTORS: Partial<Record<TimeUnit, bigint>> = {
  W: 604_800n,
  D: 86_400n,
  h: 3600n,
  m: 60n,
  s: 1n,
  ms: 1n,
  us: 1n,
  ns: 1n,
};
const LONGER: readonly TimeUnit[] = ["Y", "M", "W", "D"];

function timeType(dtype: DType & { readonly kind: "datetime" | "timedelta" }): LeafType {
  const { unit, scale, kind } = dtype;
  const leaf = typeOf("int64", 8, { nullable: true });
  const counted = `${scale === 1 ? "" : `${scale} `}${unit === "generic" ? "units that are not named" : unit}`;
  if (kind === "datetime" && LONGER.includes(unit))
    return typeOf("int32", 4, {
      nullable: true,
      conversion: { kind: "days", unit, scale },
      logical: { kind: "date" },
      why: "dates of Parquet are days of four bytes",
    });
  const own = FACTORS[unit];
  if (own !== undefined) {
    const finer = unit === "ms" || unit === "us" || unit === "ns" ? unit : undefined;
    // Parquet has no timestamps in seconds.
    const factor = own * BigInt(scale) * (kind === "datetime" && finer === undefined ? 1000n : 1n);
    const logical: Logical =
      kind === "datetime"
        ? { kind: "timestamp", unit: finer ?? "ms" }
        : { kind: "duration", unit: finer ?? "s" };
    const what = kind === "datetime" ? "timestamps" : "durations";
    return {
      ...leaf,
      conversion: factor === 1n ? DIRECT : { kind: "multiply", factor },
      logical,
      ...(factor === 1n ? {} : { why: `there are no ${what} in ${counted}; they become ${logical.unit}` }),
    };
  }
  const what = kind === "datetime" ? "timestamps" : "durations";
  return { ...leaf, note: `there are no ${what} in ${counted}; they become integers that count them` };
}

/**
 * The elements of the schema, the root first.
 *
 * @param notText string leaves with values that are not UTF-8, which are stored as bytes
 */
export function schemaElements(columns: readonly SchemaNode[], notText: ReadonlySet<Leaf>): ThriftStruct[] {
  const out = [new ThriftStruct().binary(4, "schema").i32(5, columns.length)];
  const add = (node: SchemaNode): void => {
    if ("leaf" in node) {
      out.push(leafElement(node.name, node.leaf, notText.has(node.leaf)));
      return;
    }
    const repetition = node.list === "inner" ? REPETITION.repeated : REPETITION.required;
    const group = new ThriftStruct().i32(3, repetition).binary(4, node.name).i32(5, node.children.length);
    if (node.list === "outer")
      group.i32(6, CONVERTED.list).struct(10, new ThriftStruct().struct(3, new ThriftStruct()));
    out.push(group);
    for (const child of node.children) add(child);
  };
  for (const column of columns) add(column);
  return out;
}

export function physicalType({ kind }: Leaf): number {
  if (kind === "bool") return PHYSICAL.boolean;
  if (kind === "text") return PHYSICAL.bytes;
  if (kind === "fixed" || kind === "half") return PHYSICAL.fixed;
  if (kind === "float" || kind === "double") return PHYSICAL[kind];
  return kind === "int32" || kind === "uint32" ? PHYSICAL.int32 : PHYSICAL.int64;
}

function leafElement(name: string, leaf: Leaf, isBytes: boolean): ThriftStruct {
  const { kind, width, nullable, logical } = leaf;
  const isFixed = kind === "fixed" || kind === "half";
  const element = new ThriftStruct()
    .i32(1, physicalType(leaf))
    .i32(2, isFixed ? width : undefined)
    .i32(3, nullable ? REPETITION.optional : REPETITION.required)
    .binary(4, name);
  switch (logical.kind) {
    case "string":
      if (isBytes) return element;
      return element.i32(6, CONVERTED.utf8).struct(10, new ThriftStruct().struct(1, new ThriftStruct()));
    case "date":
      return element.i32(6, CONVERTED.date).struct(10, new ThriftStruct().struct(6, new ThriftStruct()));
    case "half":
      return element.struct(10, new ThriftStruct().struct(15, new ThriftStruct()));
    case "integer": {
      const { bits, signed } = logical;
      const type = new ThriftStruct().i8(1, bits).bool(2, signed);
      // 8, 16, 32 and 64 bits: unsigned types have numbers from 11 on, signed types from 15 on.
      const converted = (signed ? CONVERTED.int8 : CONVERTED.uint8) + Math.log2(bits) - 3;
      return element.i32(6, converted).struct(10, new ThriftStruct().struct(10, type));
    }
    case "timestamp": {
      const field = { ms: 1, us: 2, ns: 3 }[logical.unit];
      const unit = new ThriftStruct().struct(field, new ThriftStruct());
      // Without a time zone, and without a converted type: readers of the older types would assume UTC.
      const type = new ThriftStruct().bool(1, false).struct(2, unit);
      return element.struct(10, new ThriftStruct().struct(8, type));
    }
    case "decimal": {
      const { scale, precision } = logical;
      const type = new ThriftStruct().i32(1, scale).i32(2, precision);
      return element
        .i32(6, CONVERTED.decimal)
        .i32(7, scale)
        .i32(8, precision)
        .struct(10, new ThriftStruct().struct(5, type));
    }
    default:
      return element;
  }
}
