/** `scan`, `arrowBatches`, `oindex` and `vindex`: members of tables and arrays whose code is loaded on first use. */
import type { ArraySlice } from "../values/selection.ts";
import type { ArrowOptions } from "./arrow-batches.ts";
import type { ScanArray, ScanTable } from "./columns.ts";
import type { Indices, OuterEntry, PickOptions } from "./pick.ts";
import type { ScanBatch, ScanColumns, ScanRowsOptions } from "./scan.ts";

/** The rows of a table or an array that match a filter. */
export async function* scan<const Columns extends ScanColumns = readonly string[]>(
  this: ScanTable | ScanArray,
  options?: ScanRowsOptions<Columns>,
): AsyncGenerator<ScanBatch<Columns>> {
  yield* (await import("./scan.ts")).scanRows(this, options);
}

/** The rows of a table or an array as an Arrow stream. */
export async function* arrowBatches(
  this: ScanTable | ScanArray,
  options?: ArrowOptions,
): AsyncGenerator<Uint8Array> {
  yield* (await import("./arrow-batches.ts")).arrowRows(this, options);
}

/** Selects items by lists, masks and slices, one for each dimension. */
export async function oindex(
  this: ScanArray,
  entries: readonly OuterEntry[] | null,
  options?: PickOptions,
): Promise<ArraySlice> {
  return (await import("./pick.ts")).pickOuter(this, entries, options);
}

/** Selects items by coordinates. */
export async function vindex(
  this: ScanArray,
  coordinates: readonly Indices[],
  options?: PickOptions,
): Promise<ArraySlice> {
  return (await import("./pick.ts")).pickPoints(this, coordinates, options);
}
