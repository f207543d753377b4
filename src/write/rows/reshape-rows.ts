/** Rows that get another shape: what is cut off goes, and what is added is one value. Must not know where rows lie. */
import { at } from "../../bytes/at.ts";
import { copyItems, repeatItem } from "../../values/copy-items.ts";
import { elementsOf, stridesOf } from "../../values/selection.ts";

/** The shape of a row before and after, and the item that is added. */
export interface RowReshaping {
  readonly before: readonly number[];
  readonly after: readonly number[];
  readonly fill: Uint8Array;
}

/** Whole rows as rows of the new shape: a copy. */
export function reshapeRows(rows: Uint8Array, { before, after, fill }: RowReshaping): Uint8Array {
  const itemSize = fill.length;
  const count = rows.length / (elementsOf(before) * itemSize);
  const out = repeatItem(fill, new Uint8Array(count * elementsOf(after) * itemSize));
  const common = before.map((n, d) => Math.min(n, at(after, d)));
  copyItems(
    { bytes: rows, offset: 0, strides: stridesOf([count, ...before]) },
    { bytes: out, offset: 0, strides: stridesOf([count, ...after]) },
    [count, ...common],
    itemSize,
  );
  return out;
}
