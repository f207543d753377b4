/**
 * Reads the header of numpy's `.npy` files, versions 1 to 3. Nothing in it is ever evaluated.
 * @see https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
 */
import { ByteReader } from "../bytes/reader.ts";
import { SuperchunkError } from "../errors.ts";
import { parseDType } from "./dtype.ts";
import { parsePythonLiteral } from "./python-literal.ts";
import type { DType, JsonValue } from "./types.ts";

const MAGIC = [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59] as const;
/** Bytes of a header that are read at most. */
const MAX_HEADER = 1 << 20;

/** Bytes that {@link npyHeaderLength} needs. */
export const NPY_START = 12;

/** What a `.npy` file says of its values. */
export interface NpyHeader {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly order: "C" | "F";
  /** Where the values start, in bytes. */
  readonly dataAt: number;
}

/** True where the bytes start as a `.npy` file does. */
export function isNpy(bytes: Uint8Array): boolean {
  return bytes.length >= MAGIC.length && MAGIC.every((byte, i) => bytes[i] === byte);
}

/**
 * Bytes in front of the values, by the first {@link NPY_START} bytes of a file.
 * Throws `BAD_MAGIC`, `TRUNCATED`, `UNSUPPORTED` (another version), `LIMIT`.
 */
export function npyHeaderLength(bytes: Uint8Array, path: string): number {
  const reader = new ByteReader(bytes, path);
  reader.need(0, 10, "the .npy header");
  if (!isNpy(bytes)) {
    throw new SuperchunkError(
      "BAD_MAGIC",
      'the file does not start with 93 "NUMPY", so it is not a .npy file',
      {
        path,
        offset: 0,
        field: "magic",
      },
    );
  }
  const version = reader.uint8(6, "version");
  if (version < 1 || version > 3) {
    throw new SuperchunkError(
      "UNSUPPORTED",
      `the .npy version at byte 6 is ${version}; versions 1 to 3 are read`,
      {
        path,
        offset: 6,
        field: "version",
        expected: "1 to 3",
        found: version,
      },
    );
  }
  const length =
    version === 1 ? 10 + reader.uint8(8) + 256 * reader.uint8(9) : 12 + reader.uint32(8, "header length");
  if (length > MAX_HEADER) {
    throw new SuperchunkError(
      "LIMIT",
      `the .npy header has ${length} bytes; at most ${MAX_HEADER} are read`,
      {
        path,
        offset: 8,
        field: "header length",
        expected: MAX_HEADER,
        found: length,
      },
    );
  }
  return length;
}

/** Decodes a whole header: the first {@link npyHeaderLength} bytes of a file. Throws as that, and `BAD_FIELD`. */
export function decodeNpyHeader(bytes: Uint8Array, path: string): NpyHeader {
  const dataAt = npyHeaderLength(bytes, path);
  new ByteReader(bytes, path).need(0, dataAt, "the .npy header");
  const start = bytes[6] === 1 ? 10 : 12;
  const text = decodeText(bytes.subarray(start, dataAt), bytes[6] === 3);
  const dict = parsePythonLiteral(text.trim(), path);
  if (typeof dict !== "object" || dict === null || Array.isArray(dict))
    throw bad(path, "header", "a dict", dict);
  const { descr, fortran_order: fortran, shape } = dict as { readonly [key: string]: JsonValue | undefined };
  if (descr === undefined) throw bad(path, "descr", "a dtype", undefined);
  if (typeof fortran !== "boolean") throw bad(path, "fortran_order", "True or False", fortran);
  if (!isShape(shape)) throw bad(path, "shape", "a tuple of lengths", shape);
  const dtype = parseDType(descr, path);
  if (dtype.kind === "object") {
    throw new SuperchunkError("UNSUPPORTED", "the .npy file holds Python pickles, which are never read", {
      path,
      field: "descr",
    });
  }
  return { dtype, shape, order: fortran ? "F" : "C", dataAt };
}

function decodeText(bytes: Uint8Array, isUtf8: boolean): string {
  if (isUtf8) return new TextDecoder().decode(bytes);
  return Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
}

function isShape(value: JsonValue | undefined): value is readonly number[] {
  return (
    Array.isArray(value) && value.every((length) => Number.isSafeInteger(length) && (length as number) >= 0)
  );
}

function bad(path: string, field: string, expected: string, found: unknown): SuperchunkError {
  return new SuperchunkError(
    "BAD_FIELD",
    `${field} in the .npy header is not ${expected}. The file is damaged; look for another copy`,
    { path, field, expected, found },
  );
}
