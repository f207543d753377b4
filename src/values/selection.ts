/** Resolves a selection of an n-dimensional array: pure arithmetic on shapes, strides and byte offsets. */

import { elementsOf } from "../bytes/arrays.ts";
import { SuperchunkError } from "../errors.ts";
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

/** A slice in zarrita's form: half-open, with a step; null means "to the end". */
export interface Slice {
  readonly start: number | null;
  readonly stop: number | null;
  readonly step: number | null;
}

/** One entry for each dimension: an integer (drops the dimension), a slice, or null (all). */
export type Selection = readonly (number | Slice | null)[];

/**
 * Returns a slice from `start` to before `stop` (default: the end) in steps of `step` (default 1). Negative bounds count from the end.
 * Unlike in zarrita and in Python, a single argument is the start: `slice(5)` selects all from the sixth on.
 */
export function slice(start: number | null, stop: number | null = null, step: number | null = null): Slice {
  return { start, stop, step };
}

/** One dimension of a selection, resolved against the shape: `count` indices from `start` in steps of `step`. */
export interface Extent {
  readonly start: number;
  readonly count: number;
  readonly step: number;
  /** True if the entry was an integer: the result drops the dimension. */
  readonly dropped: boolean;
}

/**
 * Resolves a selection. Negative integers and bounds count from the end; bounds beyond it are cut off; steps are positive. Missing entries
 * at the end mean all. Throws `BAD_ARGUMENT`.
 */
export function resolveSelection(
  selection: Selection | null | undefined,
  shape: readonly number[],
): Extent[] {
  const entries: readonly (number | Slice | null)[] = selection ?? [];
  if (!Array.isArray(entries))
    throw badSelection(entries, "the selection", "a list with an entry for each dimension");
  if (entries.length > shape.length)
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `the selection has ${entries.length} entries for ${shape.length} ${shape.length === 1 ? "dimension" : "dimensions"}`,
      { field: "selection", expected: `at most ${shape.length}`, found: entries.length },
    );
  return shape.map((length, dimension) =>
    // A missing index must not become the whole dimension: `set([rows.at(9)], 0)` would change every row.
    resolveEntry(dimension < entries.length ? (entries[dimension] as Slice) : null, length, dimension),
  );
}

const SLICE_MEMBERS: ReadonlySet<string> = new Set(["start", "stop", "step"]);

function resolveEntry(entry: number | Slice | null, length: number, dimension: number): Extent {
  if (entry === null) return { start: 0, count: length, step: 1, dropped: false };
  if (typeof entry === "number" && Number.isInteger(entry)) {
    const index = entry < 0 ? entry + length : entry;
    if (index < 0 || index >= length)
      throw new SuperchunkError(
        "BAD_ARGUMENT",
        `index ${entry} is outside of dimension ${dimension}, of length ${length}`,
        { field: "selection", expected: `${-length} to ${length - 1}`, found: entry },
      );
    return { start: index, count: 1, step: 1, dropped: true };
  }
  // Anything else would be taken for a slice without bounds, which means all.
  if (typeof entry !== "object" || Array.isArray(entry))
    throw badSelection(
      entry,
      `the entry for dimension ${dimension}`,
      "an integer, { start, stop, step } or null; oindex takes lists",
    );
  for (const member of Object.keys(entry))
    if (!SLICE_MEMBERS.has(member))
      throw badSelection(
        entry,
        `the entry for dimension ${dimension}`,
        `no member "${member}", but { start, stop, step }`,
      );
  const step = entry.step ?? 1;
  if (!Number.isInteger(step) || step < 1)
    throw badSelection(step, `the step in dimension ${dimension}`, "1 or more; oindex takes negative steps");
  const start = resolveBound(entry.start ?? 0, length, dimension);
  const stop = resolveBound(entry.stop ?? length, length, dimension);
  return { start, count: Math.max(0, Math.ceil((stop - start) / step)), step, dropped: false };
}

function badSelection(found: unknown, what: string, expected: string): SuperchunkError {
  // A bigint is shown as 5n.
  const plain = (_: unknown, each: unknown): unknown => (typeof each === "bigint" ? `${each}n` : each);
  const isText = typeof found === "object" || typeof found === "string";
  const shown = isText ? JSON.stringify(found, plain) : String(plain("", found));
  return new SuperchunkError("BAD_ARGUMENT", `${what} is ${shown.slice(0, 80)}, expected ${expected}`, {
    field: "selection",
    expected,
    found,
  });
}

function resolveBound(bound: number, length: number, dimension: number): number {
  if (!Number.isInteger(bound)) throw badSelection(bound, `a bound in dimension ${dimension}`, "an integer");
  return Math.min(length, Math.max(0, bound < 0 ? bound + length : bound));
}

/** Strides in elements of a C-ordered array. */
export function stridesOf(shape: readonly number[]): number[] {
  const strides = new Array<number>(shape.length).fill(1);
  for (let d = shape.length - 2; d >= 0; d--)
    strides[d] = (strides[d + 1] as number) * (shape[d + 1] as number);
  return strides;
}

/** Contiguous runs of a selection: `count` runs of `length` elements, each from `source` to `target`. */
export interface RunBatch {
  readonly source: Float64Array;
  readonly target: Float64Array;
  /** Elements of every run of the selection. */
  readonly length: number;
  count: number;
}

const BATCH = 4096;

/**
 * The contiguous runs of a selection of a C-ordered array, in ascending order of source and target, in batches (one object,
 * refilled for each). Trailing dimensions that are selected whole are joined to one run.
 */
export function* runsOf(extents: readonly Extent[], shape: readonly number[]): Generator<RunBatch> {
  if (extents.some((extent) => extent.count === 0)) return;
  const strides = stridesOf(shape);
  let inner = extents.length;
  let length = 1;
  while (inner > 0) {
    const extent = extents[inner - 1];
    if (extent === undefined || (extent.step !== 1 && extent.count > 1)) break;
    length *= extent.count;
    inner--;
    if (extent.count !== shape[inner]) break;
  }
  let source = 0;
  extents.forEach((extent, d) => {
    source += extent.start * (strides[d] as number);
  });
  const outer = extents
    .slice(0, inner)
    .map((extent, d) => ({ count: extent.count, stride: extent.step * (strides[d] as number), at: 0 }));
  const room = Math.min(BATCH, elementsOf(outer.map(({ count }) => count)));
  const batch: RunBatch = {
    source: new Float64Array(room),
    target: new Float64Array(room),
    length,
    count: 0,
  };
  for (let target = 0; ; target += length) {
    batch.source[batch.count] = source;
    batch.target[batch.count] = target;
    if (++batch.count === room) {
      yield batch;
      batch.count = 0;
    }
    let d = outer.length - 1;
    for (; d >= 0; d--) {
      const axis = outer[d];
      if (axis === undefined) break;
      source += axis.stride;
      if (++axis.at < axis.count) break;
      source -= axis.stride * axis.count;
      axis.at = 0;
    }
    if (d < 0) break;
  }
  if (batch.count > 0) yield batch;
}

/** Copies items from F order to C order (both of `shape`, in the C sense of the result). */
export function fortranToC(source: Uint8Array, shape: readonly number[], itemSize: number): Uint8Array {
  const out = new Uint8Array(source.length);
  const fStrides = stridesOf([...shape].reverse()).reverse();
  const last = shape.length - 1;
  let at = 0;
  const walk = (dimension: number, from: number): void => {
    const count = shape[dimension] as number;
    const stride = fStrides[dimension] as number;
    for (let i = 0; i < count; i++) {
      const index = from + i * stride;
      if (dimension < last) walk(dimension + 1, index);
      else {
        const begin = index * itemSize;
        for (let b = 0; b < itemSize; b++) out[at++] = source[begin + b] as number;
      }
    }
  };
  if (shape.length === 0) return source.slice();
  walk(0, 0);
  return out;
}

// What a read returns: the values of a data type, and the result of a selection, mostly as types.
//
// `values.ts` makes the values.

/** TypeScript types of a data type: its container, and its scalar. */
export interface ValueTypes {
  readonly data: TypedValues;
  readonly scalar: Scalar;
}

interface Values<Data extends TypedValues, One extends Scalar> {
  readonly data: Data;
  readonly scalar: One;
}

/** By Zarr's names. float16 is read as float32, which can hold all its values. */
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

/** numpy's codes, without the byte order. */
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
 * Values of a data type named like numpy (`"<f8"`) or Zarr (`"float64"`). A name that is not known at compile time has {@link ValueTypes}:
 * any of them.
 */
export type ValuesOf<Name extends string> = string extends Name ? ValueTypes : ValuesOfCode<Code<Name>>;

/** A part of an array: values in native byte order, `stride` in elements. */
export interface ArraySlice<Types extends ValueTypes = ValueTypes> {
  readonly data: Types["data"];
  readonly shape: readonly number[];
  readonly stride: readonly number[];
}

/** True if an entry is a slice or null, whatever the other entries are. */
type KeepsDimension<Entries extends readonly unknown[]> = true extends {
  [I in keyof Entries]: [Extract<Entries[I], number>] extends [never] ? true : false;
}[number]
  ? true
  : false;

/**
 * What `get` returns for a selection: a slice for null, for `[]`, and if an entry is a slice or null; a scalar if all entries are integers;
 * both if the entries are not known at compile time.
 *
 * The type does not include the number of dimensions. A list of integers shorter than the shape selects a slice, which the type calls a
 * scalar: write null for each dimension that is read whole (`[7, null]`).
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

/** The result of `get` for a selection: a scalar if every dimension is dropped. */
export function selectedOf<S>(data: TypedValues, extents: readonly Extent[]): Selected<S> {
  const shape = extents.filter((extent) => !extent.dropped).map((extent) => extent.count);
  const isScalar = shape.length === 0 && extents.length > 0;
  // S describes the entries that the extents were made from.
  return (isScalar ? firstOf(data) : { data, shape, stride: stridesOf(shape) }) as Selected<S>;
}

/** The first value. There must be one. */
export function firstOf(data: TypedValues): Scalar {
  const first = "get" in data ? data.get(0) : data[0];
  if (first === undefined) throw new RangeError("a selection of one value has none");
  return first;
}
