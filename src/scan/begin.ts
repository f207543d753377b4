/** `scan` and `arrowBatches` of tables and arrays, whose code is loaded when it is first used. */
import type { ArrowOptions } from "./arrow-batches.ts";
import type { ScanArray, ScanTable } from "./columns.ts";
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
