/**
 * What a read returns: the values of a data type, and the result of a selection, mostly as types.
 *
 * `values.ts` makes the values.
 */
import { type Extent, stridesOf } from "./selection.ts";
import type {
  BoolArray,
  ByteStringArray,
  ComplexArray,
  RawArray,
  Scalar,
  StructArray,
  StructValue,
  TypedValues,
  UnicodeStringArray,
} from "./values.ts";

/** The values of a data type: many of them, and one. */
export interface ValueTypes {
  readonly data: TypedValues;
  readonly scalar: Scalar;
}

interface Values<Data extends TypedValues, One extends Scalar> {
  readonly data: Data;
  readonly scalar: One;
}

/** By the names of Zarr; a float16 is read as float32, which has each of its values. */
interface ValuesByName {
  readonly bool: Values<BoolArray, boolean>;
  readonly int8: Values<Int8Array, number>;
  readonly int16: Values<Int16Array, number>;
  readonly int32: Values<Int32Array, number>;
  readonly int64: Values<BigInt64Array, bigint>;
  readonly uint8: Values<Uint8Array, number>;
  readonly uint16: Values<Uint16Array, number>;
  readonly uint32: Values<Uint32Array, number>;
  readonly uint64: Values<BigUint64Array, bigint>;
  readonly float16: Values<Float32Array, number>;
  readonly float32: Values<Float32Array, number>;
  readonly float64: Values<Float64Array, number>;
  readonly complex64: Values<ComplexArray, readonly [number, number]>;
  readonly complex128: Values<ComplexArray, readonly [number, number]>;
}

/** The codes of numpy, without the byte order. */
interface NamesByCode {
  readonly b1: "bool";
  readonly i1: "int8";
  readonly i2: "int16";
  readonly i4: "int32";
  readonly i8: "int64";
  readonly u1: "uint8";
  readonly u2: "uint16";
  readonly u4: "uint32";
  readonly u8: "uint64";
  readonly f2: "float16";
  readonly f4: "float32";
  readonly f8: "float64";
  readonly c8: "complex64";
  readonly c16: "complex128";
}

type Code<Name extends string> = Name extends `${"<" | ">" | "|" | "="}${infer Rest}` ? Rest : Name;

type ValuesOfCode<Name extends string> = Name extends keyof ValuesByName
  ? ValuesByName[Name]
  : Name extends keyof NamesByCode
    ? ValuesByName[NamesByCode[Name]]
    : Name extends `${"datetime64" | "timedelta64" | "M8" | "m8"}${string}`
      ? Values<BigInt64Array, bigint>
      : Name extends `S${number}`
        ? Values<ByteStringArray, string>
        : Name extends `U${number}`
          ? Values<UnicodeStringArray, string>
          : Name extends `V${number}`
            ? Values<RawArray, Uint8Array>
            : Name extends `[${string}`
              ? Values<StructArray, StructValue>
              : ValueTypes;

/**
 * The values of a data type that is named as numpy does (`"<f8"`) or as Zarr does (`"float64"`). A name that is not known
 * while the program is compiled has {@link ValueTypes}: any of them.
 */
export type ValuesOf<Name extends string> = string extends Name ? ValueTypes : ValuesOfCode<Code<Name>>;

/** A part of an array: values in native byte order. `stride` in elements. */
export interface ArraySlice<Types extends ValueTypes = ValueTypes> {
  readonly data: Types["data"];
  readonly shape: readonly number[];
  readonly stride: readonly number[];
}

/** True where an entry is a slice or null, whatever the values of the others are. */
type KeepsDimension<Entries extends readonly unknown[]> = true extends {
  [I in keyof Entries]: [Extract<Entries[I], number>] extends [never] ? true : false;
}[number]
  ? true
  : false;

/**
 * What `get` returns for a selection: a slice for null, for `[]` and where an entry is a slice or null; a scalar where all
 * entries are integers; both for a selection whose entries are not known while the program is compiled.
 *
 * The number of dimensions is not a part of the type. A list of integers that is shorter than the shape selects a slice,
 * which the type calls a scalar: write null for each dimension that is read whole (`[7, null]`).
 */
export type Selected<Entries, Types extends ValueTypes = ValueTypes> = Entries extends readonly unknown[]
  ? number extends Entries["length"]
    ? ArraySlice<Types> | Types["scalar"]
    : Entries extends readonly []
      ? ArraySlice<Types>
      : KeepsDimension<Entries> extends true
        ? ArraySlice<Types>
        : Entries extends readonly number[]
          ? Types["scalar"]
          : ArraySlice<Types> | Types["scalar"]
  : ArraySlice<Types>;

/** What `get` returns of the values of a selection: one of them where every dimension is dropped. */
export function selectedOf<S>(data: TypedValues, extents: readonly Extent[]): Selected<S> {
  const shape = extents.filter((extent) => !extent.dropped).map((extent) => extent.count);
  const isScalar = shape.length === 0 && extents.length > 0;
  // The entries of S are those that the extents were made from.
  return (isScalar ? firstOf(data) : { data, shape, stride: stridesOf(shape) }) as Selected<S>;
}

/** The first of some values, which must have one. */
export function firstOf(data: TypedValues): Scalar {
  const first = "get" in data ? data.get(0) : data[0];
  if (first === undefined) throw new RangeError("a selection of one value has none");
  return first;
}
