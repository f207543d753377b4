/** `scan`, `arrowBatches`, `oindex` and `vindex`: members of tables and arrays, whose code is loaded when it is first used. */
import type { ArraySlice } from "../values/selection.ts";
import type { ArrowOptions } from "./arrow-batches.ts";
import type { ScanArray, ScanTable } from "./columns.ts";
import type { Indices, OuterEntry, PickOptions } from "./pick.ts";
import type { ScanBatch, ScanColumns, ScanRowsOptions } from "./scan.ts";

/** The rows of a table, or of an array, that a filter takes. */
export async function* scan<const Columns extends ScanColumns = readonly string[]>(
  this: ScanTable | ScanArray,
  options?: ScanRowsOptions<Columns>,
): AsyncGenerator<ScanBatch<Columns>> {
  yield* (await import("./scan.ts")).scanRows(this, options);
}

/** The rows of a table, or of an array, as a stream of Arrow. */
export async function* arrowBatches(
  this: ScanTable | ScanArray,
  options?: ArrowOptions,
): AsyncGenerator<Uint8Array> {
  yield* (await import("./arrow-batches.ts")).arrowRows(this, options);
}

/** Items by lists, masks and slices, a list for each dimension. */
export async function oindex(
  this: ScanArray,
  entries: readonly OuterEntry[] | null,
  options?: PickOptions,
): Promise<ArraySlice> {
  return (await import("./pick.ts")).pickOuter(this, entries, options);
}

/** Items by their coordinates. */
export async function vindex(
  this: ScanArray,
  coordinates: readonly Indices[],
  options?: PickOptions,
): Promise<ArraySlice> {
  return (await import("./pick.ts")).pickPoints(this, coordinates, options);
}
