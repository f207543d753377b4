/** Compares values that a reader of Parquet or Arrow gives with the rows that they were made of. Knows what each value has become. */

import { elementOf, listLength } from "../../arrow/schema.ts";
import { at, isEqual } from "../../bytes/arrays.ts";
import { SuperchunkError } from "../../errors.ts";
import type { Leaf, SchemaNode, ValueConversion } from "../../parquet/schema.ts";
import { swapItems } from "../../values/copy-items.ts";
import { fromHalf } from "../../values/item-bytes.ts";
import { NOT_A_TIME } from "../../values/values.ts";
import { isBigEndian, UNLESS_CHANGED } from "../run/compare.ts";

/** The error for values that differ from the source's. */
export function differs(
  path: string,
  field: string,
  { offset, ...counts }: { readonly expected?: number; readonly found?: number; readonly offset?: number },
): SuperchunkError {
  const what = offset === undefined ? "" : ` from row ${offset} on of column "${field}"`;
  return new SuperchunkError(
    "BAD_FIELD",
    `the values differ from those of the source${what}${UNLESS_CHANGED}`,
    { path, field, ...counts },
  );
}

/**
 * Throws `BAD_FIELD` for a file whose column counts thousandths, or other parts of 1, where the options make whole numbers of it, or the
 * other way around: the counts may be equal. `scale`: the digits after the point, for decimals.
 */
export function checkScale(path: string, node: SchemaNode, scale: number | undefined): void {
  const expected =
    "leaf" in node && node.leaf.logical.kind === "decimal" ? node.leaf.logical.scale : undefined;
  if (scale === expected) return;
  const textOf = (digits: number | undefined): string =>
    digits === undefined ? "no decimals" : `decimals of ${digits} digits after the point`;
  throw new SuperchunkError(
    "BAD_FIELD",
    `column "${node.name}" has ${textOf(scale)}, but with these options it has ${textOf(expected)}; give the option prices that the file was converted with`,
    { path, field: node.name, expected: textOf(expected), found: textOf(scale) },
  );
}

/**
 * The first row that differs from the source's.
 * @param bytes rows as the source has them
 * @param values what a reader returns for each row: dates as counts, strings as bytes, lists as arrays, structs as records
 */
export function firstUnlikeRow(
  node: SchemaNode,
  bytes: Uint8Array,
  values: ArrayLike<unknown>,
  rows: number,
): number | undefined {
  if (values.length !== rows) return Math.min(values.length, rows);
  const rowBytes = bytes.length / rows;
  const isPlain = "leaf" in node && node.leaf.conversion.kind === "direct" && !isBigEndian(node.leaf.dtype);
  if (isPlain && ArrayBuffer.isView(values) && values.byteLength === bytes.length) {
    const stored = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    if (isEqual(stored, bytes)) return undefined;
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let row = 0; row < rows; row++)
    if (!isSame(node, { view, row: row * rowBytes, next: new Map() }, values[row])) return row;
  return undefined;
}

/** A row of the source, and how many values of each leaf were compared. */
interface SourceRow {
  readonly view: DataView;
  readonly row: number;
  readonly next: Map<Leaf, number>;
}

function isSame(node: SchemaNode, row: SourceRow, found: unknown): boolean {
  if ("leaf" in node) {
    const { leaf } = node;
    const index = row.next.get(leaf) ?? 0;
    row.next.set(leaf, index + 1);
    return isSameValue(leaf, row.view, row.row + at(leaf.offsets, index), found);
  }
  if (node.list === "outer") {
    const element = elementOf(node);
    const isWhole = Array.isArray(found) && found.length === listLength(node, element);
    return isWhole && found.every((each) => isSame(element, row, each));
  }
  const fields = found as Readonly<Record<string, unknown>> | null | undefined;
  return fields != null && node.children.every((child) => isSame(child, row, fields[child.name]));
}

function isSameValue(leaf: Leaf, view: DataView, place: number, found: unknown): boolean {
  const { dtype, itemSize, kind, conversion, nullable } = leaf;
  const little = !isBigEndian(dtype);
  if (kind === "text" || kind === "fixed")
    return found instanceof Uint8Array && isSameText(leaf, view, place, found, little);
  if (dtype.kind === "bool") return found === (view.getUint8(place) !== 0);
  if (dtype.kind === "float") return Object.is(floatAt(view, place, itemSize, little), found);
  const value = integerAt(view, place, itemSize, dtype.kind !== "uint", little);
  if (nullable && value === NOT_A_TIME) return found === null || found === undefined;
  if (typeof found !== "number" && typeof found !== "bigint") return false;
  return isSameCount(conversion, value, found);
}

/** Compares a count of the source with the converted value, turned back. */
function isSameCount(conversion: ValueConversion, value: bigint, found: number | bigint): boolean {
  const divisor = conversion.kind === "price" ? conversion.divisor : undefined;
  if (divisor !== undefined) return Math.round(Number(found) * divisor) === Number(value);
  if (!Number.isInteger(Number(found))) return false;
  switch (conversion.kind) {
    case "multiply":
      return BigInt(found) === value * conversion.factor;
    case "days":
      return unitsOf(conversion.unit, conversion.scale, Number(found)) === value;
    default:
      return BigInt(found) === value;
  }
}

/** Converts days since 1970 to a numpy unit. */
function unitsOf(unit: string, scale: number, days: number): bigint {
  if (unit === "s") return BigInt(days) * 86_400n;
  let count = days;
  if (unit === "W") count = days / 7;
  if (unit === "M" || unit === "Y") {
    // Removes whole cycles of 400 years, which may exceed the range of Date.
    const cycles = Math.floor(days / 146_097);
    const date = new Date((days - cycles * 146_097) * 86_400_000);
    const years = date.getUTCFullYear() - 1970 + 400 * cycles;
    count = unit === "Y" ? years : 12 * years + date.getUTCMonth();
  }
  return BigInt(count / scale);
}

function floatAt(view: DataView, place: number, size: number, little: boolean): number {
  if (size === 2) return fromHalf(view.getUint16(place, little));
  return size === 4 ? view.getFloat32(place, little) : view.getFloat64(place, little);
}

function integerAt(view: DataView, place: number, size: number, signed: boolean, little: boolean): bigint {
  if (size === 8) return signed ? view.getBigInt64(place, little) : view.getBigUint64(place, little);
  const value =
    size === 4
      ? view.getUint32(place, little)
      : size === 2
        ? view.getUint16(place, little)
        : view.getUint8(place);
  return signed ? BigInt.asIntN(8 * size, BigInt(value)) : BigInt(value);
}

const ENCODER = new TextEncoder();

function isSameText(
  { dtype, itemSize, kind, conversion }: Leaf,
  view: DataView,
  place: number,
  found: Uint8Array,
  little: boolean,
): boolean {
  const bytes = new Uint8Array(view.buffer, view.byteOffset + place, itemSize);
  if (kind === "fixed") return isEqual(little ? bytes : swapItems(bytes.slice(), dtype), found);
  let text = "";
  if (conversion.kind !== "text" || conversion.isUnicode) {
    for (let i = 0; i < itemSize; i += 4) text += String.fromCodePoint(view.getUint32(place + i, little));
    return isEqual(ENCODER.encode(text.replace(/\0+$/, "")), found);
  }
  let end = itemSize;
  while (end > 0 && bytes[end - 1] === 0) end--;
  return isEqual(bytes.subarray(0, end), found);
}
