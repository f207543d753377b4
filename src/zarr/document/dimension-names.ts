/** Names of dimensions in documents that are made up for others to read. */
import type { JsonObject } from "../../format/types.ts";

/**
 * Names for the dimensions of an array that has none: xarray reads no Zarr v3 array without. The last part of
 * `node` is in them. The columns of a table
 * share their rows; other dimensions are no other array's, so that their sizes never collide.
 */
export function nameDimensions(document: JsonObject, node: string, isColumn: boolean): JsonObject {
  if (document["dimension_names"] !== undefined) return document;
  const shape = document["shape"] as readonly number[];
  const name = node.split("/").at(-1) ?? "";
  const prefix = name === "" ? "dim" : `${name}_dim`;
  const names = shape.map((_, i) => (i === 0 && isColumn ? "row" : `${prefix}_${i}`));
  return { ...document, dimension_names: names };
}
