/** Scans that return messages of Arrow's IPC stream. */
import { ArrowWriter } from "../arrow/record-batch.ts";
import { checkOptions } from "../bytes/check-options.ts";
import { columnSchema } from "../parquet/schema.ts";
import type { ScanArray, ScanTable } from "./columns.ts";
import { SCAN_OPTIONS, type ScanRowsOptions, scanBytes } from "./scan.ts";

/** Options of `arrowBatches`: those of `scan`, and the form of strings. */
export interface ArrowOptions extends ScanRowsOptions {
  /** `utf8` (default): numpy strings become strings; `fixed`: they stay bytes, with their zero padding. */
  readonly strings?: "utf8" | "fixed" | undefined;
}

/**
 * Yields the schema, a message for each batch, and the end of the stream.
 *
 * @throws UNSUPPORTED for a dtype without a type in Arrow, and for a string that is not UTF-8; the codes of `scan`
 */
export async function* arrowRows(
  source: ScanTable | ScanArray,
  options: ArrowOptions = {},
): AsyncGenerator<Uint8Array> {
  checkOptions(options, `${SCAN_OPTIONS} strings`);
  const { columns, batches } = await scanBytes(source, options);
  const path = source.store.describe(source.path);
  const nodes = columns.flatMap(
    ({ name, dtype, rowShape }) =>
      columnSchema(name, dtype, rowShape, { strings: options.strings }, path).nodes,
  );
  const writer = new ArrowWriter(nodes, "stream");
  yield writer.start();
  for await (const { rows, columns: found } of batches) {
    const batch = found.flatMap(({ bytes, size }, i) => {
      const node = nodes[i];
      return node === undefined ? [] : [{ node, rows: bytes, rowBytes: size }];
    });
    yield writer.batch(batch, rows.length);
  }
  yield writer.end();
}
