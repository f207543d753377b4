/**
 * Structs that Zarr has no data type for because fields of them are sub-arrays: their fields as arrays of their own.
 *
 * Knows dtypes and how items lie; must not know chunks or stores. @see FORMAT.md [FZ]
 */
import type { DType, JsonValue } from "../../format/types.ts";
import { fieldTaker, repeatItem } from "../../values/copy-items.ts";
import { mapDType, type ZarrType } from "./zarr-dtype.ts";

/** A field of a struct that is taken out of its items, however deep it lies. */
export interface StructField {
  readonly name: string;
  readonly dtype: DType;
  /** Bytes from the start of the outermost item. */
  readonly offset: number;
  /** Dimensions of the sub-arrays that it lies in and is; an item of the field has so many values. */
  readonly shape: readonly number[];
  /** Bytes from one value to the next along each of them. */
  readonly strides: readonly number[];
  readonly fillValue: JsonValue | undefined;
}

/** Why chunks of such structs are not copied. */
export const FIELDS_APART =
  "its items have sub-arrays, which a Zarr struct does not have, so each field is an array of its own";

/** True for a struct with a field that is a sub-array, at any depth. */
export function hasSubArrays(dtype: DType): boolean {
  return (
    dtype.kind === "struct" &&
    dtype.fields.some((field) => field.shape.length > 0 || hasSubArrays(field.dtype))
  );
}

/** The fields of a struct, or those of a field that is one. */
export function fieldsIn(
  struct: DType,
  within: Pick<StructField, "offset" | "shape" | "strides" | "fillValue">,
): readonly StructField[] {
  if (struct.kind !== "struct") return [];
  const { fillValue: given } = within;
  const values = Array.isArray(given) && given.length === struct.fields.length ? given : undefined;
  return struct.fields.map(({ name, dtype, shape, offset }, i) => ({
    name,
    dtype,
    offset: within.offset + offset,
    shape: [...within.shape, ...shape],
    strides: [
      ...within.strides,
      ...shape.map((_, d) => shape.slice(d + 1).reduce((bytes, n) => bytes * n, dtype.itemSize)),
    ],
    fillValue: values === undefined ? given : (values[i] as JsonValue),
  }));
}

/** How a field is described in Zarr, its sub-arrays as further dimensions. Throws as {@link mapDType} does. */
export function mapField(struct: DType, field: StructField, path: string): ZarrType {
  const values = field.shape.reduce((product, n) => product * n, 1);
  // A sub-array of nothing is refused as an item of no bytes.
  const dtype = values === 0 ? ({ ...field.dtype, itemSize: 0 } as DType) : field.dtype;
  const type = mapDType(dtype, { path, fillValue: field.fillValue });
  const take = fieldTaker(struct.itemSize, field);
  return {
    ...type,
    itemShape: [...field.shape, ...type.itemShape],
    itemSize: values * type.itemSize,
    fill: { ...type.fill, item: repeatItem(type.fill.item, new Uint8Array(values * type.itemSize)) },
    transform: {
      reason: FIELDS_APART,
      target: type.transform?.target ?? dtype,
      apply: (items) => type.transform?.apply(take(items)) ?? take(items),
    },
  };
}
