/** Lines for people: aligned blocks, dtypes, shapes. Knows text; must not know where it comes from. */

import { formatDType } from "../src/format/dtype.ts";
import type { DType, JsonValue } from "../src/format/types.ts";
import { printable } from "./values/cell-text.ts";

/** Rows of cells as lines, every column as wide as its widest cell; columns in `right` are flush right. */
export function alignRows(
  rows: readonly (readonly string[])[],
  right: ReadonlySet<number> = new Set(),
): string[] {
  const widths: number[] = [];
  for (const row of rows) {
    row.forEach((cell, c) => {
      widths[c] = Math.max(widths[c] ?? 0, cell.length);
    });
  }
  return rows.map((row) =>
    row
      .map((cell, c) => (right.has(c) ? cell.padStart(widths[c] ?? 0) : cell.padEnd(widths[c] ?? 0)))
      .join("  ")
      .trimEnd(),
  );
}

/** A dtype in numpy's spelling; a structured one as its fields, `{id: <u4, v: <f4 x 3}`. */
function dtypeText(dtype: DType): string {
  if (dtype.kind !== "struct") return String(formatDType(dtype));
  const fields = dtype.fields.map(({ name, dtype: inner, shape }) => {
    const dimensions = shape.map((length) => ` x ${length}`).join("");
    return `${printable(name)}: ${dtypeText(inner)}${dimensions}`;
  });
  return `{${fields.join(", ")}}`;
}

/** A dtype for a narrow column: a structured one as the number of its fields. */
export function shortDType(dtype: DType): string {
  return dtype.kind === "struct" ? `struct(${dtype.fields.length})` : dtypeText(dtype);
}

/** A dtype for JSON: numpy's string, or the list of fields. */
export function jsonDType(dtype: DType): JsonValue {
  return formatDType(dtype);
}

/** `60 x 25`; `scalar` for no dimensions. */
export function shapeText(shape: readonly number[]): string {
  return shape.length === 0 ? "scalar" : shape.join(" x ");
}
