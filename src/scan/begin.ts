/** `scan`, `arrowBatches`, `oindex` and `vindex` of tables and arrays, whose code is loaded when it is first used. */
import type { ArraySlice } from "../values/selection.ts";
import type { ArrowOptions } from "./arrow-batches.ts";
import type { ScanArray, ScanTable } from "./columns.ts";
import type { Indices, OuterEntry, PickOptions } from "./pick.ts";
import type { ScanBatch, ScanColumns, ScanRowsOptions } from "./scan.ts";

/** The rows of a table, or of an array, that a filter takes. */
export async function* scan<const Columns extends ScanColumns>(
  source: ScanTable | ScanArray,
  options: ScanRowsOptions<Columns> | undefined,
): AsyncGenerator<ScanBatch<Columns>> {
  yield* (await import("./scan.ts")).scanRows(source, options);
}

/** The rows of a table, or of an array, as a stream of Arrow. */
export async function* arrowBatches(
  source: ScanTable | ScanArray,
  options: ArrowOptions | undefined,
): AsyncGenerator<Uint8Array> {
  yield* (await import("./arrow-batches.ts")).arrowRows(source, options);
}

/** Items by lists, masks and slices, a list for each dimension. */
export async function oindex(
  array: ScanArray,
  entries: readonly OuterEntry[] | null,
  options: PickOptions | undefined,
): Promise<ArraySlice> {
  return (await import("./pick.ts")).pickOuter(array, entries, options);
}

/** Items by their coordinates. */
export async function vindex(
  array: ScanArray,
  coordinates: readonly Indices[],
  options: PickOptions | undefined,
): Promise<ArraySlice> {
  return (await import("./pick.ts")).pickPoints(array, coordinates, options);
}
