/** Types that the format layer and the layers above share. Plain data; no I/O. */
import type { JsonFloat } from "./json-float.ts";

/** The dialects of `blpk`, by the ids that `info` prints. @see FORMAT.md [F1] */
export type Dialect = "blz-superchunk" | "bloscpack-3" | "bloscpack-2" | "bloscpack-1" | "carray" | "ctable";

/** The versions of Zarr, by the ids that `info` prints. */
export type ZarrDialect = "zarr3" | "zarr2" | "zarr3-transformer" | "hdf5" | "blosc2";

export type { ChecksumName } from "../bytes/checksum.ts";

/** Values of JSON written by Python: integers beyond 2^53 are bigint, NaN and Infinity are numbers. */
export type JsonValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue };

/** A JSON object. */
export type JsonObject = { readonly [key: string]: JsonValue };

/** Values to write as JSON, with floats that stay floats even if whole. */
export type JsonInput = JsonValue | JsonFloat | readonly JsonInput[] | { readonly [key: string]: JsonInput };

/** A JSON object to write. */
export type JsonObjectInput = { readonly [key: string]: JsonInput };

/** Time units of datetime64 and timedelta64; `generic` if there is none. */
export type TimeUnit =
  | "Y"
  | "M"
  | "W"
  | "D"
  | "h"
  | "m"
  | "s"
  | "ms"
  | "us"
  | "ns"
  | "ps"
  | "fs"
  | "as"
  | "generic";

/** Byte order of the items; `none` if it has no meaning (single bytes, byte strings, structs). */
export type ByteOrder = "little" | "big" | "none";

/** A numpy data type. `itemSize` in bytes, sub-array dimensions included. @see FORMAT.md [FD] */
export type DType =
  | { readonly kind: "bool"; readonly itemSize: 1; readonly byteOrder: "none" }
  | {
      readonly kind: "int" | "uint" | "float" | "complex";
      readonly itemSize: number;
      readonly byteOrder: ByteOrder;
    }
  | {
      readonly kind: "datetime" | "timedelta";
      readonly itemSize: 8;
      readonly byteOrder: ByteOrder;
      readonly unit: TimeUnit;
      readonly scale: number;
    }
  /** `S5`: bytes, padded with zeros. */
  | { readonly kind: "bytes"; readonly itemSize: number; readonly byteOrder: "none" }
  /** `U3`: four bytes a character. */
  | { readonly kind: "unicode"; readonly itemSize: number; readonly byteOrder: ByteOrder }
  /** `V2`: raw bytes. */
  | { readonly kind: "void"; readonly itemSize: number; readonly byteOrder: "none" }
  | {
      readonly kind: "struct";
      readonly itemSize: number;
      readonly byteOrder: "none";
      readonly fields: readonly Field[];
    }
  /** Python objects: known, never read. */
  | { readonly kind: "object"; readonly itemSize: 8; readonly byteOrder: "none" };

/** A field of a structured dtype. */
export interface Field {
  readonly name: string;
  readonly dtype: DType;
  /** Dimensions of a sub-array; empty for a plain field. */
  readonly shape: readonly number[];
  /** Bytes from the start of the item. */
  readonly offset: number;
}
