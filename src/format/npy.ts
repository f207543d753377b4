/** The header of numpy's `.npy` files, read and written. Nothing in a header is ever evaluated. */

import { elementsOf, isShape, roundUp } from "../bytes/arrays.ts";
import { ByteReader } from "../bytes/fields.ts";
import { SuperchunkError } from "../errors.ts";
import { formatDType, parseDType } from "./dtype.ts";
import { isObject } from "./json.ts";
import { parsePythonLiteral, quotePython } from "./python-literal.ts";
import type { DType, Field } from "./types.ts";

// Reading, versions 1 to 3.
// @see https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html

const MAGIC = [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59] as const;
/** Most bytes of a header. */
const MAX_HEADER = 1 << 20;

/** Bytes that {@link npyHeaderLength} needs. */
export const NPY_START = 12;

/** Header of a `.npy` file. */
export interface NpyHeader {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly order: "C" | "F";
  /** Offset of the values, in bytes. */
  readonly dataAt: number;
}

/** True if the bytes start like a `.npy` file. */
export function isNpy(bytes: Uint8Array): boolean {
  return bytes.length >= MAGIC.length && MAGIC.every((byte, i) => bytes[i] === byte);
}

/**
 * Bytes before the values, given the first {@link NPY_START} bytes of a file. Throws `BAD_MAGIC`, `TRUNCATED`, `UNSUPPORTED`
 * (another version), `LIMIT`.
 */
export function npyHeaderLength(bytes: Uint8Array, path: string): number {
  const reader = new ByteReader(bytes, path);
  reader.need(0, 10, "the .npy header");
  if (!isNpy(bytes))
    throw new SuperchunkError(
      "BAD_MAGIC",
      'the file does not start with 93 "NUMPY", so it is not a .npy file',
      { path, offset: 0, field: "magic" },
    );
  const version = reader.uint8(6, "version");
  if (version < 1 || version > 3)
    throw new SuperchunkError(
      "UNSUPPORTED",
      `the .npy version at byte 6 is ${version}; versions 1 to 3 are read`,
      { path, offset: 6, field: "version", expected: "1 to 3", found: version },
    );
  const length =
    version === 1 ? 10 + reader.uint8(8) + 256 * reader.uint8(9) : 12 + reader.uint32(8, "header length");
  if (length > MAX_HEADER)
    throw new SuperchunkError(
      "LIMIT",
      `the .npy header has ${length} bytes; at most ${MAX_HEADER} are read`,
      { path, offset: 8, field: "header length", expected: MAX_HEADER, found: length },
    );
  return length;
}

/** Decodes a whole header: the first {@link npyHeaderLength} bytes of a file. Throws the same, and `BAD_FIELD`. */
export function decodeNpyHeader(bytes: Uint8Array, path: string): NpyHeader {
  const dataAt = npyHeaderLength(bytes, path);
  new ByteReader(bytes, path).need(0, dataAt, "the .npy header");
  const start = bytes[6] === 1 ? 10 : 12;
  const text = decodeText(bytes.subarray(start, dataAt), bytes[6] === 3);
  const dict = parsePythonLiteral(text.trim(), path);
  if (!isObject(dict)) throw bad(path, "header", "a dict", dict);
  const { descr, fortran_order: fortran, shape } = dict;
  if (descr === undefined) throw bad(path, "descr", "a dtype", undefined);
  if (typeof fortran !== "boolean") throw bad(path, "fortran_order", "True or False", fortran);
  if (!isShape(shape)) throw bad(path, "shape", "a tuple of lengths", shape);
  const dtype = parseDType(descr, path);
  if (dtype.kind === "object")
    throw new SuperchunkError("UNSUPPORTED", "the .npy file holds Python pickles, which are never read", {
      path,
      field: "descr",
    });
  return { dtype, shape, order: fortran ? "F" : "C", dataAt };
}

function decodeText(bytes: Uint8Array, isUtf8: boolean): string {
  if (isUtf8) return new TextDecoder().decode(bytes);
  return Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
}

function bad(path: string, field: string, expected: string, found: unknown): SuperchunkError {
  return new SuperchunkError(
    "BAD_FIELD",
    `${field} in the .npy header is not ${expected}. The file is damaged; look for another copy`,
    { path, field, expected, found },
  );
}

/** The values start at a multiple of this many bytes. */
const ALIGNMENT = 64;
/** numpy leaves space for the first dimension to grow in place, up to this many digits. */
const GROWTH_DIGITS = 21;

/**
 * Returns the bytes before the values of a C-ordered array: magic, version, length, a Python dict, spaces, a line feed. Version 1 if the
 * dict is below 64 KiB and Latin-1, 2 if it is longer, 3 if names are beyond Latin-1. Throws `UNSUPPORTED` for Python objects and for
 * fields that overlap or are out of order.
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

/** Length of the text with its line feed, padded so that the values after `start` bytes and the text are aligned. */
function padded(textLength: number, start: number): number {
  return roundUp(start + textLength + 1, ALIGNMENT) - start;
}

/** The dtype as numpy's `descr`, a Python literal; gaps between fields are unnamed raw bytes, as in numpy. */
function describe(dtype: DType): string {
  if (dtype.kind === "object")
    throw new SuperchunkError("UNSUPPORTED", "dtype object holds Python pickles, which are never read", {
      field: "dtype",
    });
  if (dtype.kind !== "struct") return quotePython(String(formatDType(dtype)));
  const parts: string[] = [];
  let at = 0;
  const skip = (to: number): void => {
    if (to > at) parts.push(`('', '|V${to - at}')`);
  };
  for (const field of dtype.fields) {
    if (field.offset < at)
      throw new SuperchunkError(
        "UNSUPPORTED",
        `field "${field.name}" overlaps another or is out of order, which .npy cannot say`,
        { field: field.name },
      );
    skip(field.offset);
    parts.push(describeField(field));
    at = field.offset + elementsOf(field.shape) * field.dtype.itemSize;
  }
  skip(dtype.itemSize);
  return `[${parts.join(", ")}]`;
}

function describeField({ name, dtype, shape }: Field): string {
  const dimensions = shape.length === 0 ? "" : `, (${shape.join(", ")}${shape.length === 1 ? "," : ""})`;
  return `(${quotePython(name)}, ${describe(dtype)}${dimensions})`;
}
