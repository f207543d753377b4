/** What taking rows out of an array costs. Pure: knows shapes only. */
import { SuperchunkError } from "../../errors.ts";
import { elementsOf } from "../../values/selection.ts";

/** What a deletion does. */
export interface Deletion {
  /** First row to go, and the first behind them that stays. */
  readonly start: number;
  readonly end: number;
  readonly rowsBefore: number;
  /** Rows that stay. */
  readonly rows: number;
  readonly rowsDeleted: number;
  /** Rows behind the deleted ones: they are written anew. */
  readonly rowsRewritten: number;
  /** Their uncompressed bytes. */
  readonly nbytesRewritten: number;
}

/** Plans taking out the rows `[start, end)`. Throws `BAD_ARGUMENT` for rows that are not there: nothing is guessed. */
export function planDeletion(
  path: string,
  shape: readonly number[],
  itemSize: number,
  start: number,
  end: number,
): Deletion {
  const [rows = 0, ...rowShape] = shape;
  const areWhole = Number.isSafeInteger(start) && Number.isSafeInteger(end);
  if (!areWhole || start < 0 || end < start || end > rows) {
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `rows ${start}:${end} are not within the ${rows} ${rows === 1 ? "row" : "rows"} of the array`,
      { path, field: "rows", expected: `0 to ${rows}`, found: `${start}:${end}` },
    );
  }
  const rowsRewritten = end === start ? 0 : rows - end;
  return {
    start,
    end,
    rowsBefore: rows,
    rows: rows - (end - start),
    rowsDeleted: end - start,
    rowsRewritten,
    nbytesRewritten: rowsRewritten * elementsOf(rowShape) * itemSize,
  };
}
