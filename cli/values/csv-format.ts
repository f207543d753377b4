/** `cat --format csv`: RFC 4180 quoting, a header, lines that end with a line feed. */
import { type LongOptions, SuperchunkError } from "../../src/index.ts";
import type { Output } from "../output/output.ts";
import { cellColumns, csvLine, pushCells } from "./cell-text.ts";
import { readBatches, type ValueSource } from "./value-source.ts";

/**
 * One line a row under a header. Columns of a table have their names; a single array has the column `value`, or the
 * indices of its second dimension. Throws `BAD_ARGUMENT` for one array of more than two dimensions.
 */
export async function printCsv(
  out: Output,
  sources: readonly ValueSource[],
  options: LongOptions,
): Promise<void> {
  const [first] = sources;
  if (first !== undefined && sources.length === 1 && first.shape.length > 2) {
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `csv has rows and columns, the values have ${first.shape.length} dimensions; choose two of them with --slice, or use --format json or npy`,
      { field: "format", expected: "at most 2 dimensions", found: first.shape.length },
    );
  }
  const header = csvLine(sources.flatMap(headerOf));
  let begun = false;
  const rows = Math.min(...sources.map((source) => source.rows));
  for await (const batch of readBatches(sources, 0, rows, options)) {
    // Behind the first read, so that what cannot be read at all prints nothing.
    if (!begun) await out.line(header);
    begun = true;
    const count = batch.end - batch.first;
    for (let row = 0; row < count; row++) {
      const cells: string[] = [];
      sources.forEach((source, s) => {
        const list = batch.lists[s];
        const each = list === undefined ? 0 : list.length / count;
        for (let i = row * each; i < (row + 1) * each; i++) pushCells(list?.at(i), source.dtype, [], cells);
      });
      const waiting = out.line(csvLine(cells));
      if (waiting !== undefined) await waiting;
    }
  }
  if (!begun) await out.line(header);
}

function headerOf(source: ValueSource): string[] {
  const names = cellColumns(source.name, source.dtype, source.rowShape).map((column) => column.name);
  return names.map((name) => (name === "" ? "value" : name));
}
