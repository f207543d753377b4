/**
 * Splits structs that have no Zarr data type, because fields of them are sub-arrays, into one array for each field.
 *
 * Knows dtypes and how items are laid out; must not know chunks or stores. @see FORMAT.md [FZ]
 */
import { at, elementsOf } from "../../bytes/arrays.ts";
import type { DType, Field, JsonValue } from "../../format/types.ts";
import { repeatItem } from "../../values/copy-items.ts";
import { mapDType, type ZarrType } from "./zarr-dtype.ts";

/**
 * A field taken out of a struct's items, at any depth: `offset` is from the start of the outermost item, and `shape` has the dimensions of
 * the sub-arrays that contain it and of its own. An item of the field has one value for each position.
 */
export interface StructField extends Field {
  /** Bytes from one value to the next along each dimension. */
  readonly strides: readonly number[];
  readonly fillValue: JsonValue | undefined;
}

/** Why chunks of such structs are not copied. */
export const FIELDS_APART =
  "its items have sub-arrays, which a Zarr struct does not have, so each field becomes a separate array";

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
    strides: [...within.strides, ...shape.map((_, d) => dtype.itemSize * elementsOf(shape.slice(d + 1)))],
    fillValue: values === undefined ? given : (values[i] as JsonValue),
  }));
}

/** How a field is described in Zarr, its sub-arrays as further dimensions. Throws like {@link mapDType}. */
export function mapField(struct: DType, field: StructField, path: string): ZarrType {
  const values = elementsOf(field.shape);
  // An empty sub-array is refused like an item of no bytes.
  const dtype = values === 0 ? ({ ...field.dtype, itemSize: 0 } as DType) : field.dtype;
  const type = mapDType(dtype, { path, fillValue: field.fillValue });
  return {
    ...type,
    itemShape: [...field.shape, ...type.itemShape],
    itemSize: values * type.itemSize,
    fill: { ...type.fill, item: repeatItem(type.fill.item, new Uint8Array(values * type.fill.item.length)) },
    transform: {
      reason: FIELDS_APART,
      target: type.transform?.target ?? dtype,
      apply(items) {
        const taken = takeField(items, struct.itemSize, field);
        return type.transform?.apply(taken) ?? taken;
      },
    },
  };
}

/** The values of one field from whole items of `size` bytes, in new memory. */
function takeField(
  items: Uint8Array,
  size: number,
  { dtype: { itemSize }, offset, shape, strides }: StructField,
): Uint8Array {
  // Axes with contiguous values are copied as one run.
  let run = itemSize;
  let axes = shape.length;
  while (axes > 0 && strides[axes - 1] === run) run *= at(shape, --axes);
  const count = Math.floor(items.length / size);
  const taken = new Uint8Array(count * elementsOf(shape) * itemSize);
  let to = 0;
  const copy = (from: number, axis: number): void => {
    if (axis < axes) {
      for (let k = 0; k < at(shape, axis); k++) copy(from + k * at(strides, axis), axis + 1);
    } else if (run > 64) {
      taken.set(items.subarray(from, from + run), to);
      to += run;
    } else for (let i = 0; i < run; i++) taken[to++] = items[from + i] as number;
  };
  for (let item = 0; item < count; item++) copy(item * size + offset, 0);
  return taken;
}
