/**
 * Compares an Arrow file with its source, value by value, through flechette, a reader that shares no code with the writer. Must
 * not write.
 */
import { rawValues, readBatches } from "../../arrow/read.ts";
import type { ReadableStore } from "../../store/types.ts";
import type { SchemaColumn } from "./table-columns.ts";
import { checkScale, differs, firstUnlikeRow } from "./table-compare.ts";

/** Throws `BAD_FIELD` for the first value of a file that differs from the source's, and for another number of rows. */
export async function compareArrow(
  columns: readonly SchemaColumn[],
  store: ReadableStore,
  key: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  const path = store.describe(key);
  const [rows = 1] = columns[0]?.column.shape ?? [];
  let row = 0;
  for await (const table of readBatches(store, key, signal)) {
    if (table.numRows === 0) continue;
    let place = 0;
    for (const { column, schema } of columns) {
      const bytes = await column.rows(row, Math.min(rows, row + table.numRows), signal);
      for (const node of schema.nodes) {
        const [batch] = table.getChildAt(place++).data;
        checkScale(path, node, batch && "scale" in batch.type ? batch.type.scale : undefined);
        const values = batch === undefined ? [] : rawValues(batch);
        const found = firstUnlikeRow(node, bytes, values, table.numRows);
        if (found !== undefined) throw differs(path, node.name, { offset: row + found });
      }
    }
    row += table.numRows;
  }
  if (row !== rows) throw differs(path, "rows", { expected: rows, found: row });
}
