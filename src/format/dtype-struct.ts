/** Structured dtypes: lists of fields, as numpy's `descr` has them, and dicts of names, formats and offsets. @see FORMAT.md [FD.4] */
import { SuperchunkError } from "../errors.ts";
import { badDType, MAX_ITEM_SIZE } from "./dtype-scalar.ts";
import type { DType, Field, JsonObject, JsonValue } from "./types.ts";

/** Depth of nested structs at most. [FD-04] */
export const MAX_DTYPE_DEPTH = 32;
/** Fields of a dtype at most, on all levels together. [FD-04] */
export const MAX_FIELDS = 65_536;
/** Values of an item beyond its bytes, at most: fields that overlap, and sub-arrays of nothing, have more than these. [FD-04] */
const MORE_VALUES = 1 << 20;
/** Dimensions of a sub-array at most, as in numpy. [FD-04] */
const MAX_DIMENSIONS = 32;

type ParseDType = (value: JsonValue) => DType;

interface SubArray {
  readonly dtype: DType;
  readonly shape: readonly number[];
}

/** True for a list of fields: a list whose members are lists, each with a name in front. */
export function isFieldList(value: JsonValue): value is readonly JsonValue[] {
  return Array.isArray(value) && value.every((entry) => Array.isArray(entry));
}

/**
 * Parses `[[name, dtype], [name, dtype, shape], …]`, fields back to back. A name may be `[title, name]`. An
 * unnamed field of raw bytes is padding, as numpy's `descr` writes it; other unnamed fields get numpy's names
 * `f0`, `f1`, … [FD.4-01] [FD.4-02] [FD.4-04]
 */
export function parseFieldList(list: readonly JsonValue[], path: string, parse: ParseDType): DType {
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
export function parseFieldDict(dict: JsonObject, path: string, parse: ParseDType): DType {
  const { names, formats, offsets, itemsize } = dict;
  if (!Array.isArray(names) || !Array.isArray(formats) || names.length !== formats.length) {
    throw badDType(dict, path, "as many names as formats");
  }
  if (offsets !== undefined && (!Array.isArray(offsets) || offsets.length !== names.length)) {
    throw badDType(dict, path, "as many offsets as names");
  }
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
  if (dict["aligned"] === true && offsets === undefined) {
    throw new SuperchunkError(
      "UNSUPPORTED",
      "the dtype is aligned without offsets, so its layout is not told",
      { path, field: "dtype" },
    );
  }
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
  const end = shape.reduce((product, length) => product * length, dtype.itemSize) + offset;
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
  const found = valuesOf(dtype);
  if (found <= itemSize + MORE_VALUES) return dtype;
  throw new SuperchunkError(
    "LIMIT",
    `an item of the dtype has ${itemSize} bytes, but ${found} values and lists; superchunk reads at most ${MORE_VALUES} more than bytes`,
    { path, field: "dtype", expected: itemSize + MORE_VALUES, found },
  );
}

/** Values of an item, with the lists that sub-arrays of nothing are. */
function valuesOf(dtype: DType): number {
  if (dtype.kind !== "struct") return 1;
  return dtype.fields.reduce(
    (sum, field) =>
      sum + field.shape.reduce((product, n) => product * Math.max(1, n), 1) * valuesOf(field.dtype),
    0,
  );
}

/** How many fields a dtype may still have. */
export interface FieldBudget {
  left: number;
}

/** Counts fields before they are parsed. Throws `LIMIT` where a dtype has too many. */
export function takeFields(budget: FieldBudget, count: number, path: string): void {
  budget.left -= count;
  if (budget.left >= 0) return;
  throw new SuperchunkError(
    "LIMIT",
    `the dtype has ${MAX_FIELDS - budget.left} fields or more; superchunk reads at most ${MAX_FIELDS}`,
    {
      path,
      field: "dtype",
      expected: `at most ${MAX_FIELDS} fields`,
      found: MAX_FIELDS - budget.left,
    },
  );
}
