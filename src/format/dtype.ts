/** numpy dtypes as archives spell them: names, type strings, Python reprs, JSON lists. @see FORMAT.md [FD] */

import { elementsOf } from "../bytes/arrays.ts";
import { SuperchunkError } from "../errors.ts";
import { isObject } from "./json.ts";
import { parsePythonLiteral, quotePython } from "./python-literal.ts";
import type { ByteOrder, DType, Field, JsonObject, JsonValue, TimeUnit } from "./types.ts";

// Writes dtypes: as numpy's `descr`, and as its Python repr. @see FORMAT.md [FD.5]

const LETTERS = {
  bool: "b",
  int: "i",
  uint: "u",
  float: "f",
  complex: "c",
  datetime: "M",
  timedelta: "m",
  bytes: "S",
  void: "V",
} as const;

/**
 * Formats a dtype as numpy does: a type string with its byte order (`<f8`, `|b1`, `|S5`, `<M8[ns]`, `|O`). A struct becomes the list of
 * fields `[["a","<i4"],["v","<f4",[3]]]`, with padding as unnamed fields; if its fields overlap, are out of order, or have an empty name,
 * the dict of names, formats, offsets and itemsize. [FD.5-01]
 */
export function formatDType(dtype: DType): string | JsonValue {
  if (dtype.kind !== "struct") return formatScalar(dtype);
  const list = formatFields(dtype.fields, dtype.itemSize);
  if (list !== undefined) return list;
  return {
    names: dtype.fields.map((field) => field.name),
    formats: dtype.fields.map(formatOf),
    offsets: dtype.fields.map((field) => field.offset),
    itemsize: dtype.itemSize,
  };
}

/** The Python repr of the same, as bloscpack stores it: `'<f8'` in quotes, `[('a', '<i4'), ('v', '<f4', (3,))]`. */
export function pythonDType(dtype: DType): string {
  if (dtype.kind !== "struct") return quotePython(formatScalar(dtype));
  if (formatFields(dtype.fields, dtype.itemSize) !== undefined)
    return pythonFields(dtype.fields, dtype.itemSize);
  const names = dtype.fields.map((field) => quotePython(field.name)).join(", ");
  const formats = dtype.fields.map(pythonFormat).join(", ");
  const offsets = dtype.fields.map((field) => field.offset).join(", ");
  return `{'names': [${names}], 'formats': [${formats}], 'offsets': [${offsets}], 'itemsize': ${dtype.itemSize}}`;
}

function formatScalar(dtype: Exclude<DType, { kind: "struct" }>): string {
  const order = { little: "<", big: ">", none: "|" }[dtype.byteOrder];
  switch (dtype.kind) {
    case "object":
      return "|O";
    case "unicode":
      return `${order}U${dtype.itemSize / 4}`;
    case "datetime":
    case "timedelta":
      return `${order}${LETTERS[dtype.kind]}8${formatUnit(dtype.unit, dtype.scale)}`;
    default:
      return `${order}${LETTERS[dtype.kind]}${dtype.itemSize}`;
  }
}

function formatUnit(unit: string, scale: number): string {
  return unit === "generic" && scale === 1 ? "" : `[${scale === 1 ? "" : scale}${unit}]`;
}

/** One entry of a list of fields: a field, or padding of `size` bytes. */
type Entry = { readonly field: Field } | { readonly padding: number };

/** Fields with the padding between them; undefined if they overlap, are out of order, or would be mistaken for padding. */
function layOut(fields: readonly Field[], itemSize: number): Entry[] | undefined {
  const entries: Entry[] = [];
  let at = 0;
  for (const field of fields) {
    if (field.offset < at || field.name === "") return undefined;
    if (field.offset > at) entries.push({ padding: field.offset - at });
    entries.push({ field });
    at = field.offset + elementsOf(field.shape) * field.dtype.itemSize;
  }
  if (itemSize > at) entries.push({ padding: itemSize - at });
  return entries;
}

function formatFields(fields: readonly Field[], itemSize: number): JsonValue[] | undefined {
  return layOut(fields, itemSize)?.map((entry) => {
    if ("padding" in entry) return ["", `|V${entry.padding}`];
    const { name, dtype, shape } = entry.field;
    return shape.length === 0 ? [name, formatDType(dtype)] : [name, formatDType(dtype), [...shape]];
  });
}

function formatOf({ dtype, shape }: Field): JsonValue {
  return shape.length === 0 ? formatDType(dtype) : [formatDType(dtype), [...shape]];
}

function pythonFields(fields: readonly Field[], itemSize: number): string {
  const entries = layOut(fields, itemSize) ?? [];
  const parts = entries.map((entry) => {
    if ("padding" in entry) return `('', '|V${entry.padding}')`;
    const { name, dtype, shape } = entry.field;
    const rest = shape.length === 0 ? "" : `, ${pythonShape(shape)}`;
    return `(${quotePython(name)}, ${pythonDType(dtype)}${rest})`;
  });
  return `[${parts.join(", ")}]`;
}

function pythonFormat({ dtype, shape }: Field): string {
  return shape.length === 0 ? pythonDType(dtype) : `(${pythonDType(dtype)}, ${pythonShape(shape)})`;
}

function pythonShape(shape: readonly number[]): string {
  return shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`;
}

// Structured dtypes: lists of fields, like numpy's `descr`, and dicts of names, formats and offsets. @see FORMAT.md [FD.4]

/** Maximum depth of nested structs. [FD-04] */
const MAX_DTYPE_DEPTH = 32;
/** Most fields of a dtype, over all levels. [FD-04] */
const MAX_FIELDS = 65_536;
/** How many more values than bytes an item may have: overlapping fields and empty sub-arrays can have more. [FD-04] */
const MORE_VALUES = 1 << 20;
/** Most dimensions of a sub-array, as in numpy. [FD-04] */
const MAX_DIMENSIONS = 32;

type ParseDType = (value: JsonValue) => DType;

interface SubArray {
  readonly dtype: DType;
  readonly shape: readonly number[];
}

/** True for a list of fields: a list of lists, each beginning with a name. */
function isFieldList(value: JsonValue): value is readonly JsonValue[] {
  return Array.isArray(value) && value.every((entry) => Array.isArray(entry));
}

/**
 * Parses `[[name, dtype], [name, dtype, shape], …]`, with contiguous fields. A name may be `[title, name]`. An unnamed field of raw
 * bytes is padding, as numpy's `descr` writes it; other unnamed fields get numpy's names `f0`, `f1`, … [FD.4-01] [FD.4-02] [FD.4-04]
 */
function parseFieldList(list: readonly JsonValue[], path: string, parse: ParseDType): DType {
  const fields: Field[] = [];
  let offset = 0;
  list.forEach((entry, i) => {
    const parts = Array.isArray(entry) ? (entry as readonly JsonValue[]) : [];
    if (parts.length < 2 || parts.length > 3)
      throw badDType(entry, path, "fields of a name, a dtype and perhaps a shape");
    const [label = null, stored = null, shape = []] = parts;
    const name = fieldName(label, path);
    const item = { dtype: parse(stored), shape: parseShape(shape, path) };
    const padding = name === "" && item.dtype.kind === "void";
    if (!padding) fields.push({ name: name === "" ? `f${i}` : name, ...item, offset });
    offset = addSize(offset, item, path);
  });
  return structOf(fields, offset, path);
}

/** Parses `{names, formats, offsets?, itemsize?, titles?, aligned?}`: fields anywhere in the item. [FD.4-03] */
function parseFieldDict(dict: JsonObject, path: string, parse: ParseDType): DType {
  const { names, formats, offsets, itemsize } = dict;
  if (!Array.isArray(names) || !Array.isArray(formats) || names.length !== formats.length)
    throw badDType(dict, path, "as many names as formats");
  if (offsets !== undefined && (!Array.isArray(offsets) || offsets.length !== names.length))
    throw badDType(dict, path, "as many offsets as names");
  const fields: Field[] = [];
  let end = 0;
  names.forEach((label: JsonValue, i) => {
    const item = parseSubArray(formats[i] ?? null, path, parse);
    const offset = offsets === undefined ? end : parseCount(offsets[i], path, "an offset of a field");
    fields.push({ name: fieldName(label, path), ...item, offset });
    end = Math.max(offsets === undefined ? 0 : end, addSize(offset, item, path));
  });
  const itemSize = itemsize === undefined ? end : parseCount(itemsize, path, "an itemsize");
  if (itemSize < end) throw badDType(dict, path, `an itemsize of at least ${end}, where its last field ends`);
  if (dict["aligned"] === true && offsets === undefined)
    throw new SuperchunkError(
      "UNSUPPORTED",
      "the dtype is aligned but has no offsets, so its layout is unknown",
      { path, field: "dtype" },
    );
  return structOf(fields, itemSize, path);
}

/** A format of a dict: a dtype, or `[dtype, shape]` for a sub-array. */
function parseSubArray(stored: JsonValue, path: string, parse: ParseDType): SubArray {
  if (Array.isArray(stored) && stored.length === 2 && !isFieldList(stored)) {
    const [dtype = null, shape = []] = stored as readonly JsonValue[];
    return { dtype: parse(dtype), shape: parseShape(shape, path) };
  }
  return { dtype: parse(stored), shape: [] };
}

/** A name, or the second of `[title, name]`. */
function fieldName(label: JsonValue, path: string): string {
  const name = Array.isArray(label) && label.length === 2 ? (label as readonly JsonValue[])[1] : label;
  if (typeof name !== "string") throw badDType(label, path, "a name of a field");
  return name;
}

function parseShape(stored: JsonValue, path: string): number[] {
  const list = Array.isArray(stored) ? (stored as readonly JsonValue[]) : [stored];
  if (list.length > MAX_DIMENSIONS)
    throw badDType(stored, path, `a shape of at most ${MAX_DIMENSIONS} dimensions`);
  return list.map((length) => parseCount(length, path, "a shape of a field"));
}

function parseCount(value: JsonValue | undefined, path: string, what: string): number {
  if (typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= MAX_ITEM_SIZE)
    return value;
  throw badDType(value, path, `${what} from 0 to ${MAX_ITEM_SIZE}`);
}

function addSize(offset: number, { dtype, shape }: SubArray, path: string): number {
  const end = elementsOf(shape) * dtype.itemSize + offset;
  if (end <= MAX_ITEM_SIZE) return end;
  throw badDType(shape, path, `fields within ${MAX_ITEM_SIZE} bytes`);
}

function structOf(fields: readonly Field[], itemSize: number, path: string): DType {
  const names = new Set<string>();
  for (const { name } of fields) {
    if (names.has(name)) throw badDType(name, path, "names of fields that differ");
    names.add(name);
  }
  const dtype: DType = { kind: "struct", itemSize, byteOrder: "none", fields };
  const found = valuesPerItem(dtype);
  if (found <= itemSize + MORE_VALUES) return dtype;
  throw new SuperchunkError(
    "LIMIT",
    `an item of the dtype has ${itemSize} bytes, but ${found} values and lists; superchunk reads at most ${MORE_VALUES} more than bytes`,
    { path, field: "dtype", expected: itemSize + MORE_VALUES, found },
  );
}

/** Values of an item; an empty dimension of a sub-array counts as 1. */
function valuesPerItem(dtype: DType): number {
  if (dtype.kind !== "struct") return 1;
  return dtype.fields.reduce(
    (sum, field) =>
      sum + field.shape.reduce((product, n) => product * Math.max(1, n), 1) * valuesPerItem(field.dtype),
    0,
  );
}

/** How many fields a dtype may still have. */
export interface FieldBudget {
  left: number;
}

/** Counts fields before they are parsed. Throws `LIMIT` if a dtype has too many. */
function takeFields(budget: FieldBudget, count: number, path: string): void {
  budget.left -= count;
  if (budget.left >= 0) return;
  throw new SuperchunkError(
    "LIMIT",
    `the dtype has ${MAX_FIELDS - budget.left} fields or more; superchunk reads at most ${MAX_FIELDS}`,
    { path, field: "dtype", expected: `at most ${MAX_FIELDS} fields`, found: MAX_FIELDS - budget.left },
  );
}

/**
 * Parses a dtype as stored in metadata: a string (`float64`, `<f8`, `'<f8'` in Python's quotes, the repr of a list of fields or of a dict)
 * or JSON (nested lists, a dict). A type string without a byte order is little-endian. Throws `BAD_FIELD` for an invalid dtype,
 * `UNSUPPORTED` for an unknown one, `LIMIT` for one that is too deep or has too many fields.
 */
export function parseDType(stored: JsonValue, path: string): DType {
  return parseNested(stored, path, 0, { left: MAX_FIELDS });
}

function parseNested(stored: JsonValue, path: string, depth: number, budget: FieldBudget): DType {
  if (depth > MAX_DTYPE_DEPTH)
    throw new SuperchunkError(
      "LIMIT",
      `the dtype has more than ${MAX_DTYPE_DEPTH} levels, which superchunk does not read`,
      { path, field: "dtype", expected: `at most ${MAX_DTYPE_DEPTH} levels` },
    );
  const nested = (value: JsonValue): DType => parseNested(value, path, depth + 1, budget);
  if (typeof stored === "string") {
    const text = stored.trim();
    const literal = /^dtype\((.*?)(?:,\s*align=(?:True|False))?\)$/s.exec(text)?.[1] ?? text;
    if (literal !== text || /^(?:[uUbB]?['"]|[[({])/.test(text))
      return nested(parsePythonLiteral(literal, path));
    return parseScalarDType(text, path);
  }
  if (isFieldList(stored)) {
    takeFields(budget, stored.length, path);
    return parseFieldList(stored, path, nested);
  }
  if (isObject(stored)) {
    takeFields(budget, Array.isArray(stored["names"]) ? stored["names"].length : 0, path);
    return parseFieldDict(stored, path, nested);
  }
  if (Array.isArray(stored))
    throw new SuperchunkError("UNSUPPORTED", "the dtype is a sub-array by itself, which numpy never stores", {
      path,
      field: "dtype",
      found: stored,
    });
  throw badDType(stored, path, "a string, a list of fields or a dict");
}

// dtypes of one string: `float64`, `>f4`, `|S5`, `<M8[25s]`. @see FORMAT.md [FD.1] [FD.2]

/** Most bytes of an item: numpy's own limit. [FD-04] */
const MAX_ITEM_SIZE: number = 2 ** 31 - 1;

/** numpy's names of plain types. [FD.1] */
export const NAMES: Readonly<Record<string, string>> = {
  ...{ bool: "b1", bool_: "b1", object: "O", object_: "O" },
  ...{ int8: "i1", int16: "i2", int32: "i4", int64: "i8" },
  ...{ uint8: "u1", uint16: "u2", uint32: "u4", uint64: "u8" },
  ...{ float16: "f2", float32: "f4", float64: "f8", float96: "f12", float128: "f16" },
  ...{ complex64: "c8", complex128: "c16", complex192: "c24", complex256: "c32" },
};

const SIZES: Readonly<Record<"b" | "i" | "u" | "f" | "c", readonly number[]>> = {
  b: [1],
  i: [1, 2, 4, 8],
  u: [1, 2, 4, 8],
  f: [2, 4, 8, 12, 16],
  c: [8, 16, 24, 32],
};
const KINDS = { i: "int", u: "uint", f: "float", c: "complex" } as const;

const UNITS: readonly string[] = "Y M W D h m s ms us ns ps fs as generic".split(" ");

const NUMBER = /^([<>=|]?)([biufc])(\d{1,3})$/;
const STRING = /^([<>=|]?)([SaUV])(\d{0,10})$/;
const TIME = /^([<>=|]?)([Mm])8(?:\[(\d{0,10})([A-Za-zµμ]+)\])?$/;
const TIME_NAME = /^(datetime|timedelta)64(\[.*\])?$/;
const OBJECT = /^\|?O(?:[48])?$/;

/** Parses one string without quotes. Throws `BAD_FIELD`, `UNSUPPORTED`. */
function parseScalarDType(text: string, path: string): DType {
  const time = TIME_NAME.exec(text);
  const type = time === null ? shortName(text) : `${time[1] === "datetime" ? "M8" : "m8"}${time[2] ?? ""}`;
  if (/^[<>=|]?\?$/.test(type)) return { kind: "bool", itemSize: 1, byteOrder: "none" };
  if (OBJECT.test(type)) return { kind: "object", itemSize: 8, byteOrder: "none" };
  const dtype = parseNumber(type, path) ?? parseString(type, path) ?? parseTime(type, path);
  if (dtype !== undefined) return dtype;
  throw new SuperchunkError(
    "UNSUPPORTED",
    `the dtype ${JSON.stringify(text.slice(0, 80))} is not one that superchunk knows`,
    { path, field: "dtype", expected: "a numpy type", found: text },
  );
}

function shortName(name: string): string {
  return (Object.hasOwn(NAMES, name) ? NAMES[name] : undefined) ?? name;
}

function parseNumber(type: string, path: string): DType | undefined {
  const [, order = "", letter = "", digits = ""] = NUMBER.exec(type) ?? [];
  if (letter !== "b" && letter !== "i" && letter !== "u" && letter !== "f" && letter !== "c")
    return undefined;
  const itemSize = Number(digits);
  if (!SIZES[letter].includes(itemSize))
    throw badDType(type, path, `one of ${SIZES[letter].join(", ")} bytes`);
  if (letter === "b") return { kind: "bool", itemSize: 1, byteOrder: "none" };
  return { kind: KINDS[letter], itemSize, byteOrder: itemSize === 1 ? "none" : orderOf(order) };
}

function parseString(type: string, path: string): DType | undefined {
  const [, order = "", letter = "", digits = ""] = STRING.exec(type) ?? [];
  if (letter === "") return undefined;
  const itemSize = Number(digits) * (letter === "U" ? 4 : 1);
  if (itemSize > MAX_ITEM_SIZE) throw badDType(type, path, `at most ${MAX_ITEM_SIZE} bytes`);
  if (letter === "U") return { kind: "unicode", itemSize, byteOrder: orderOf(order) };
  return { kind: letter === "V" ? "void" : "bytes", itemSize, byteOrder: "none" };
}

function parseTime(type: string, path: string): DType | undefined {
  const match = TIME.exec(type);
  if (match === null) return undefined;
  const [, order = "", letter, count, name = "generic"] = match;
  const scale = count === undefined || count === "" ? 1 : Number(count);
  if (!isTimeUnit(name)) throw badDType(type, path, `a time unit of ${UNITS.join(", ")}`);
  if (scale < 1 || scale > 0x7fff_ffff)
    throw badDType(type, path, "a count of time units from 1 to 2^31 - 1");
  return {
    kind: letter === "M" ? "datetime" : "timedelta",
    itemSize: 8,
    byteOrder: orderOf(order),
    unit: name,
    scale,
  };
}

/** True for numpy's units of time. */
export function isTimeUnit(name: string): name is TimeUnit {
  return UNITS.includes(name);
}

/** Native order is little-endian: no program of this family ran on another machine. [FD-02] */
function orderOf(prefix: string): ByteOrder {
  return prefix === ">" ? "big" : "little";
}

/** The error for an invalid dtype. */
function badDType(found: unknown, path: string, expected: string): SuperchunkError {
  const text = typeof found === "string" ? found : safeText(found);
  return new SuperchunkError(
    "BAD_FIELD",
    `the dtype ${JSON.stringify(text.slice(0, 80))} is invalid: expected ${expected}. The metadata are damaged; look for another copy`,
    { path, field: "dtype", expected, found },
  );
}

export function safeText(value: unknown): string {
  return (
    JSON.stringify(value, (_, part: unknown) => (typeof part === "bigint" ? part.toString() : part)) ??
    String(value)
  );
}

/** Why this dtype cannot be read; undefined if it can. */
export function whyUnreadable(dtype: DType): string | undefined {
  if (dtype.kind === "object")
    return "dtype object holds Python pickles, which can run code; superchunk never reads them. Convert the column with the program that wrote it";
  if (dtype.kind === "struct")
    for (const field of dtype.fields) {
      const message = whyUnreadable(field.dtype);
      if (message !== undefined) return `field "${field.name}": ${message}`;
    }
  return undefined;
}
