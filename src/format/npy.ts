/**
 * The header of numpy's `.npy` files, versions 1 to 3.
 *
 * Knows how numpy writes a dtype and a shape; must not know where the values come from.
 * @see https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
 */
import { SuperchunkError } from "../errors.ts";
import { formatDType } from "./dtype.ts";
import type { DType, Field } from "./types.ts";

const MAGIC = [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59] as const;
/** The values start at a multiple of this many bytes. */
const ALIGNMENT = 64;
/** numpy leaves room for the first dimension to grow in place, up to this many digits. */
const GROWTH_DIGITS = 21;

/**
 * The bytes in front of the values of a C-ordered array: magic, version, length, a Python dict, spaces, a line feed.
 * Version 1 where the dict is below 64 KiB and Latin-1, 2 where it is longer, 3 where names are beyond Latin-1.
 * Throws `UNSUPPORTED` for Python objects and for fields that overlap or are out of order.
 */
export function encodeNpyHeader(dtype: DType, shape: readonly number[]): Uint8Array {
  const dimensions = `(${shape.join(", ")}${shape.length === 1 ? "," : ""})`;
  const dict = `{'descr': ${describe(dtype)}, 'fortran_order': False, 'shape': ${dimensions}, }`;
  const [first] = shape;
  const growth = first === undefined ? "" : " ".repeat(Math.max(0, GROWTH_DIGITS - String(first).length));
  const latin1 = !/[\u0100-\uffff]/.test(dict);
  const text = latin1
    ? Uint8Array.from(dict + growth, (character) => character.charCodeAt(0))
    : new TextEncoder().encode(dict + growth);
  const short = latin1 && padded(text.length, 10) < 0x1_0000;
  const start = short ? 10 : 12;
  const length = padded(text.length, start);
  const header = new Uint8Array(start + length).fill(0x20);
  header.set([...MAGIC, short ? 1 : latin1 ? 2 : 3, 0]);
  const view = new DataView(header.buffer);
  if (short) view.setUint16(8, length, true);
  else view.setUint32(8, length, true);
  header.set(text, start);
  header[header.length - 1] = 0x0a;
  return header;
}

/** Length of the text with its line feed, padded so that the values are aligned behind `start` bytes. */
function padded(textLength: number, start: number): number {
  return Math.ceil((start + textLength + 1) / ALIGNMENT) * ALIGNMENT - start;
}

/** The dtype as numpy's `descr`, a Python literal; gaps between fields are nameless raw bytes, as numpy has them. */
function describe(dtype: DType): string {
  if (dtype.kind === "object") {
    throw new SuperchunkError("UNSUPPORTED", "dtype object holds Python pickles, which are never read", {
      field: "dtype",
    });
  }
  if (dtype.kind !== "struct") return quote(String(formatDType(dtype)));
  const parts: string[] = [];
  let at = 0;
  const skip = (to: number): void => {
    if (to > at) parts.push(`('', '|V${to - at}')`);
  };
  for (const field of dtype.fields) {
    if (field.offset < at) {
      throw new SuperchunkError(
        "UNSUPPORTED",
        `field "${field.name}" overlaps another or is out of order, which .npy cannot say`,
        { field: field.name },
      );
    }
    skip(field.offset);
    parts.push(describeField(field));
    at = field.offset + field.shape.reduce((product, n) => product * n, field.dtype.itemSize);
  }
  skip(dtype.itemSize);
  return `[${parts.join(", ")}]`;
}

function describeField({ name, dtype, shape }: Field): string {
  const dimensions = shape.length === 0 ? "" : `, (${shape.join(", ")}${shape.length === 1 ? "," : ""})`;
  return `(${quote(name)}, ${describe(dtype)}${dimensions})`;
}

/** A Python string literal, in the quotes that Python would take. */
function quote(text: string): string {
  const mark = text.includes("'") && !text.includes('"') ? '"' : "'";
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must be escaped
  const escaped = text.replace(/[\\'\u0000-\u001f\u007f-\u00a0\u00ad]/g, (character) => {
    if (character === "'") return mark === "'" ? "\\'" : "'";
    if (character === "\\") return "\\\\";
    return `\\x${character.charCodeAt(0).toString(16).padStart(2, "0")}`;
  });
  return `${mark}${escaped}${mark}`;
}
