/**
 * Converts rows of numpy items to a leaf's values in Parquet's plain encoding.
 *
 * Knows items and values; must not know pages or chunks. Assumes a little-endian machine; Parquet is little-endian too.
 */

import { at } from "../bytes/arrays.ts";
import { SuperchunkError } from "../errors.ts";
import type { DType } from "../format/types.ts";
import { swapItems } from "../values/copy-items.ts";
import { fromHalf } from "../values/item-bytes.ts";
import { NOT_A_TIME } from "../values/values.ts";
import type { Leaf } from "./schema.ts";

/** The values of some rows. */
export interface LeafValues {
  /** Plain encoding of the values that are not null. */
  readonly bytes: Uint8Array;
  /** Number of values that are not null. */
  readonly count: number;
  /** 1 for each value that is not null, else 0; undefined if none is null. */
  readonly present: Uint8Array | undefined;
  /** Each string; absent for values of fixed length. */
  readonly texts?: readonly Uint8Array[];
}

/** The values of a leaf in some rows. @throws BAD_FIELD for a value that the type cannot hold */
export function leafValues(leaf: Leaf, rows: Uint8Array, rowBytes: number): LeafValues {
  const items = leafItems(leaf, rows, rowBytes);
  const { conversion, dtype, itemSize } = leaf;
  switch (conversion.kind) {
    case "direct":
      return leaf.nullable ? withoutNaT(new BigInt64Array(...leavesOf(items, 8))) : whole(items, itemSize);
    case "widen":
      if (dtype.kind === "float") return whole(widenHalves(items), 4);
      return whole(bytesOf(Int32Array.from(smallIntegers(dtype, items))), 4);
    case "bool":
      return { bytes: packBits(items), count: items.length, present: undefined };
    case "text":
      return conversion.isUnicode ? unicodeTexts(leaf, items) : byteTexts(itemSize, items);
    case "days":
      if (dtype.kind === "uint")
        return whole(bytesOf(daysOfSeconds(leaf, new Uint32Array(...leavesOf(items, 4)))), 4);
      return daysOf(leaf, new BigInt64Array(...leavesOf(items, 8)), conversion);
    case "multiply":
      return multiplied(leaf, new BigInt64Array(...leavesOf(items, 8)), conversion.factor);
    case "price": {
      const prices = new Uint32Array(...leavesOf(items, 4));
      const { divisor } = conversion;
      const values =
        divisor === undefined
          ? BigInt64Array.from(prices, (value) => BigInt(value))
          : Float64Array.from(prices, (value) => value / divisor);
      return whole(bytesOf(values), 8);
    }
  }
}

export function bytesOf(values: ArrayBufferView): Uint8Array {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}

/** Arguments for a typed array of elements of `width` bytes: the bytes in place if they are aligned, else a copy. */
export function leavesOf(
  bytes: Uint8Array,
  width: number,
): readonly [buffer: ArrayBuffer, offset: number, length: number] {
  const own = bytes.byteOffset % width === 0 ? bytes : bytes.slice();
  return [own.buffer as ArrayBuffer, own.byteOffset, Math.floor(own.length / width)];
}

/** The items of a leaf, consecutive and little-endian. Rows that already are that are returned unchanged. */
export function leafItems(
  { dtype, offsets, itemSize }: Leaf,
  rows: Uint8Array,
  rowBytes: number,
): Uint8Array {
  const isBig = "byteOrder" in dtype && dtype.byteOrder === "big";
  if (offsets.length * itemSize === rowBytes) return isBig ? swapItems(rows.slice(), dtype) : rows;
  const count = rows.length / rowBytes;
  const out = new Uint8Array(count * offsets.length * itemSize);
  let to = 0;
  for (let row = 0; row < count; row++)
    for (const offset of offsets) {
      const from = row * rowBytes + offset;
      for (let i = 0; i < itemSize; i++) out[to++] = at(rows, from + i);
    }
  return isBig ? swapItems(out, dtype) : out;
}

function whole(bytes: Uint8Array, width: number): LeafValues {
  return { bytes, count: bytes.length / width, present: undefined };
}

function smallIntegers(dtype: DType, items: Uint8Array): ArrayLike<number> {
  if (dtype.itemSize === 1) return dtype.kind === "int" ? new Int8Array(...leavesOf(items, 1)) : items;
  const elements = leavesOf(items, 2);
  return dtype.kind === "int" ? new Int16Array(...elements) : new Uint16Array(...elements);
}

/** Floats of 4 bytes from those of 2. */
export function widenHalves(items: Uint8Array): Uint8Array {
  return bytesOf(Float32Array.from(new Uint16Array(...leavesOf(items, 2)), fromHalf));
}

/** Packs eight booleans into a byte, the first in the lowest bit. */
export function packBits(flags: Uint8Array): Uint8Array {
  const out = new Uint8Array(Math.ceil(flags.length / 8));
  for (let i = 0; i < flags.length; i++) if (flags[i] !== 0) out[i >> 3] = at(out, i >> 3) | (1 << (i & 7));
  return out;
}

/** The upper half of NaT; the lower one is 0. */
const NAT_HIGH = -0x8000_0000;

/** 1 for each eight-byte date that is not NaT, else 0; undefined if none is NaT. */
export function presentOf(dates: Uint8Array): Uint8Array | undefined {
  const halves = new Int32Array(...leavesOf(dates, 4));
  const count = halves.length / 2;
  let present: Uint8Array | undefined;
  for (let i = 0; i < count; i++) {
    if (halves[2 * i + 1] !== NAT_HIGH || halves[2 * i] !== 0) continue;
    present ??= new Uint8Array(count).fill(1);
    present[i] = 0;
  }
  return present;
}

function withoutNaT(values: BigInt64Array): LeafValues {
  const present = presentOf(bytesOf(values));
  if (present === undefined) return whole(bytesOf(values), 8);
  const kept = values.filter((value) => value !== NOT_A_TIME);
  return { bytes: bytesOf(kept), count: kept.length, present };
}

function multiplied(leaf: Leaf, values: BigInt64Array, factor: bigint): LeafValues {
  const present = presentOf(bytesOf(values));
  const kept = present === undefined ? values : values.filter((value) => value !== NOT_A_TIME);
  const out = new BigInt64Array(kept.length);
  for (let i = 0; i < kept.length; i++) {
    const value = at(kept, i) * factor;
    if (BigInt.asIntN(64, value) !== value) throw outOfRange(leaf, at(kept, i));
    out[i] = value;
  }
  return { bytes: bytesOf(out), count: out.length, present };
}

const SECONDS_OF_DAY = 86_400;

function daysOfSeconds({ path }: Leaf, seconds: Uint32Array): Int32Array {
  const odd = seconds.find((value) => value % SECONDS_OF_DAY !== 0);
  if (odd === undefined) return Int32Array.from(seconds, (value) => value / SECONDS_OF_DAY);
  throw new SuperchunkError(
    "UNSUPPORTED",
    `column "${at(path, 0)}" has the value ${odd}, which is not the beginning of a day; with {zipline: false} it stays a number`,
    { field: at(path, 0), found: odd },
  );
}

function daysOf(
  leaf: Leaf,
  values: BigInt64Array,
  { unit, scale }: { readonly unit: string; readonly scale: number },
): LeafValues {
  const present = presentOf(bytesOf(values));
  const kept = present === undefined ? values : values.filter((value) => value !== NOT_A_TIME);
  const out = new Int32Array(kept.length);
  for (let i = 0; i < kept.length; i++) {
    const count = Number(at(kept, i)) * scale;
    const days =
      unit === "D" ? count : unit === "W" ? 7 * count : daysOfMonth(unit === "Y" ? 12 * count : count);
    if (!(days >= -0x8000_0000 && days <= 0x7fff_ffff)) throw outOfRange(leaf, at(kept, i));
    out[i] = days;
  }
  return { bytes: bytesOf(out), count: out.length, present };
}

/** Days from 1970 to the first day of a month counted from 1970. The calendar is Gregorian before 1582 too, as in numpy. */
function daysOfMonth(months: number): number {
  const year = 1970 + Math.floor(months / 12);
  // The calendar repeats after 400 years, and Date is limited to about 270,000 years.
  const cycles = Math.floor((year - 1970) / 400);
  const date = Date.UTC(year - 400 * cycles, ((months % 12) + 12) % 12, 1);
  return date / (1000 * SECONDS_OF_DAY) + 146_097 * cycles;
}

function outOfRange({ path, logical }: Leaf, value: bigint): SuperchunkError {
  return new SuperchunkError(
    "UNSUPPORTED",
    `the value ${value} of column "${at(path, 0)}" is out of the range of the file's ${logical.kind}; leave the column out with {columns}`,
    { field: at(path, 0), found: value },
  );
}

function byteTexts(itemSize: number, items: Uint8Array): LeafValues {
  const texts: Uint8Array[] = [];
  for (let from = 0; from < items.length; from += itemSize) {
    let end = from + itemSize;
    while (end > from && items[end - 1] === 0) end--;
    texts.push(items.subarray(from, end));
  }
  return textValues(texts);
}

const ENCODER = new TextEncoder();

function unicodeTexts(leaf: Leaf, items: Uint8Array): LeafValues {
  const points = new Uint32Array(...leavesOf(items, 4));
  const width = leaf.itemSize / 4;
  const texts: Uint8Array[] = [];
  for (let from = 0; from < points.length; from += width) {
    let end = from + width;
    while (end > from && points[end - 1] === 0) end--;
    let text = "";
    for (let i = from; i < end; i++) {
      const point = at(points, i);
      if (point > 0x10_ffff || (point >= 0xd800 && point <= 0xdfff))
        throw new SuperchunkError(
          "UNSUPPORTED",
          `column "${at(leaf.path, 0)}" has a string with U+${point.toString(16).toUpperCase()}, which is not a character; strings: "fixed" (--strings fixed) keeps it`,
          { field: at(leaf.path, 0), found: point },
        );
      text += String.fromCodePoint(point);
    }
    texts.push(ENCODER.encode(text));
  }
  return textValues(texts);
}

/** Each string, preceded by its length in four bytes. */
function textValues(texts: readonly Uint8Array[]): LeafValues {
  const bytes = new Uint8Array(texts.reduce((sum, { length }) => sum + 4 + length, 0));
  const view = new DataView(bytes.buffer);
  let to = 0;
  for (const text of texts) {
    view.setUint32(to, text.length, true);
    bytes.set(text, to + 4);
    to += 4 + text.length;
  }
  return { bytes, count: texts.length, present: undefined, texts };
}

const DECODER = new TextDecoder("utf-8", { fatal: true });

/** True for bytes that are UTF-8. */
export function isText(bytes: Uint8Array): boolean {
  if (bytes.every((byte) => byte < 0x80)) return true;
  try {
    DECODER.decode(bytes);
    return true;
  } catch {
    return false;
  }
}
