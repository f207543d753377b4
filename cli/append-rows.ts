/** Rows of an input for what they are appended to: bytes that fit, or the fields of a structured `.npy` for columns. */
import { cutPieces } from "../src/array/foreign/cut-pieces.ts";
import type { ArrayArchive } from "../src/array/types.ts";
import { SuperchunkError } from "../src/errors.ts";
import { formatDType } from "../src/format/dtype.ts";
import type { DType, Field } from "../src/format/types.ts";
import type { Context } from "./context.ts";
import { type Input, openInput } from "./input.ts";

/** Items picked apart at once. */
const BATCH_ITEMS = 8192;

/** Refuses a `.npy` file whose rows are others than the array's. Throws `BAD_ARGUMENT`. */
export function checkRows(input: Input, dtype: DType, rowShape: readonly number[]): void {
  const { npy } = input;
  if (npy === undefined) return;
  const own = describeRows(dtype, rowShape);
  const found = describeRows(npy.dtype, npy.shape.slice(1));
  const isSpread = npy.order === "F" && npy.shape.length > 1;
  if (own === found && npy.shape.length > 0 && !isSpread) return;
  throw new SuperchunkError(
    "BAD_ARGUMENT",
    isSpread
      ? "the rows are in Fortran order, where they cannot be read one after the other; save them in C order"
      : `rows of ${found} cannot stand behind rows of ${own}`,
    { path: input.name, field: "dtype", expected: own, found },
  );
}

function describeRows(dtype: DType, rowShape: readonly number[]): string {
  const text = JSON.stringify(formatDType(dtype));
  return rowShape.length === 0 ? text : `${text} in [${rowShape.join(", ")}]`;
}

/** The bytes for every column: of one structured `.npy`, or of inputs given as `NAME=FILE`. Throws `BAD_ARGUMENT`. */
export async function columnInputs(
  inputs: readonly string[],
  columns: ReadonlyMap<string, ArrayArchive>,
  asBytes: boolean,
  context: Context,
): Promise<Record<string, AsyncIterable<Uint8Array>>> {
  const [only] = inputs;
  const sources: Record<string, AsyncIterable<Uint8Array>> = {};
  if (inputs.length === 1 && only !== undefined && !only.includes("=")) {
    const input = await openInput(only, asBytes, context);
    const { npy } = input;
    if (npy?.dtype.kind !== "struct" || npy.shape.length !== 1) {
      throw new SuperchunkError(
        "BAD_ARGUMENT",
        "rows of a table come from a .npy file of a structured dtype, or from NAME=FILE for each column",
        { path: only, field: "input" },
      );
    }
    const { itemSize, fields } = npy.dtype;
    for (const field of fields) {
      const column = columns.get(field.name);
      if (column !== undefined) {
        const shown = {
          ...input,
          npy: { ...npy, dtype: field.dtype, shape: [0, ...field.shape], order: "C" as const },
        };
        checkRows(shown, column.dtype, column.shape.slice(1));
      }
      sources[field.name] = fieldOf(input, field, itemSize);
    }
    return sources;
  }
  for (const text of inputs) {
    const at = text.indexOf("=");
    const name = text.slice(0, at);
    const input = await openInput(text.slice(at + 1), asBytes, context);
    const column = columns.get(name);
    if (at < 0 || input.name === "stdin") {
      throw new SuperchunkError("BAD_ARGUMENT", `"${text}" is not NAME=FILE with a file for a column`, {
        field: "input",
        found: text,
      });
    }
    if (column !== undefined) checkRows(input, column.dtype, column.shape.slice(1));
    sources[name] = input.pieces();
  }
  return sources;
}

/** The bytes of one field of all items. */
async function* fieldOf(input: Input, field: Field, itemSize: number): AsyncGenerator<Uint8Array> {
  const size = field.shape.reduce((product, length) => product * length, field.dtype.itemSize);
  for await (const items of cutPieces(input.pieces(), BATCH_ITEMS * itemSize)) {
    const count = Math.floor(items.length / itemSize);
    const bytes = new Uint8Array(count * size);
    for (let i = 0; i < count; i++) {
      const at = i * itemSize + field.offset;
      bytes.set(items.subarray(at, at + size), i * size);
    }
    yield bytes;
  }
}
