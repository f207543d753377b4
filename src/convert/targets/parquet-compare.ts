/**
 * Compares a Parquet file with its source, value by value, through hyparquet, a reader that shares nothing with the writer but
 * the decompression of streams. Must not write.
 */
import { parquetSchema } from "hyparquet";
import { openParquet } from "../../parquet/open.ts";
import type { ReadableStore } from "../../store/types.ts";
import { type FileColumn, rowCount } from "./parquet-pages.ts";
import { checkScale, differs, firstUnlikeRow } from "./table-compare.ts";

/** Approximate bytes of the rows compared at a time. */
const STEP_BYTES = 4 << 20;

/** Throws `BAD_FIELD` for the first value of a file that differs from the source's, and for another number of rows. */
export async function compareFile(
  columns: readonly FileColumn[],
  store: ReadableStore,
  key: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  const path = store.describe(key);
  const scan = await openParquet(store, key, signal);
  const rows = rowCount(columns);
  const found = scan.ranges.reduce((sum, { rowStart, rowEnd }) => sum + rowEnd - rowStart, 0);
  if (found !== rows) throw differs(path, "rows", { expected: rows, found });
  const elements = new Map(
    parquetSchema(scan.metadata).children.map(({ element }) => [element.name, element]),
  );
  for (const { column, schema, rowBytes } of columns) {
    for (const node of schema.nodes) {
      const logical = elements.get(node.name)?.logical_type;
      checkScale(path, node, logical?.type === "DECIMAL" ? logical.scale : undefined);
    }
    const step = Math.max(1, Math.floor(STEP_BYTES / rowBytes));
    for (const { rowStart, rowEnd } of scan.ranges)
      for (let first = rowStart; first < rowEnd; first += step) {
        signal?.throwIfAborted();
        const end = Math.min(rowEnd, first + step);
        const bytes = await column.rows(first, end, signal);
        for (const node of schema.nodes) {
          const values = await scan.readColumn({ column: node.name, rowStart: first, rowEnd: end });
          const row = firstUnlikeRow(node, bytes, values, end - first);
          if (row !== undefined) throw differs(path, node.name, { offset: first + row });
        }
      }
  }
}
