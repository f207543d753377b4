/** Spells dtypes: as numpy's `descr`, and as its Python repr. @see FORMAT.md [FD.5] */
import type { DType, Field, JsonValue } from "./types.ts";

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
 * numpy's spelling: a type string with its byte order (`<f8`, `|b1`, `|S5`, `<M8[ns]`, `|O`), for a struct the
 * list of fields `[["a","<i4"],["v","<f4",[3]]]`, with padding as unnamed fields, for a struct whose fields
 * overlap, are out of order, or have an empty name, the dict of names, formats, offsets and itemsize. [FD.5-01]
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
  if (dtype.kind !== "struct") return quote(formatScalar(dtype));
  if (formatFields(dtype.fields, dtype.itemSize) !== undefined)
    return pythonFields(dtype.fields, dtype.itemSize);
  const names = dtype.fields.map((field) => quote(field.name)).join(", ");
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

/** Fields with the padding between them; undefined where they are not in order one behind the other, or would be taken for padding. */
function layOut(fields: readonly Field[], itemSize: number): Entry[] | undefined {
  const entries: Entry[] = [];
  let at = 0;
  for (const field of fields) {
    if (field.offset < at || field.name === "") return undefined;
    if (field.offset > at) entries.push({ padding: field.offset - at });
    entries.push({ field });
    at = field.offset + field.shape.reduce((product, length) => product * length, field.dtype.itemSize);
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
    return `(${quote(name)}, ${pythonDType(dtype)}${rest})`;
  });
  return `[${parts.join(", ")}]`;
}

function pythonFormat({ dtype, shape }: Field): string {
  return shape.length === 0 ? pythonDType(dtype) : `(${pythonDType(dtype)}, ${pythonShape(shape)})`;
}

function pythonShape(shape: readonly number[]): string {
  return shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`;
}

/** A string as Python's repr has it. */
function quote(text: string): string {
  const mark = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped = Array.from(text, (character) => {
    if (character === mark || character === "\\") return `\\${character}`;
    if (character === "\n") return "\\n";
    if (character === "\r") return "\\r";
    if (character === "\t") return "\\t";
    const code = character.codePointAt(0) ?? 0;
    return code < 0x20 || (code >= 0x7f && code < 0xa1)
      ? `\\x${code.toString(16).padStart(2, "0")}`
      : character;
  });
  return `${mark}${escaped.join("")}${mark}`;
}
