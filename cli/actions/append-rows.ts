/** Converts inputs to rows for an append: bytes that fit, or the fields of a structured `.npy` for columns. */

import { type ArrayArchive, type DType, type Field, formatDType, parseDType } from "../../src/index.ts";
import type { CarryTarget, StreamCarrier } from "../../src/node/index.ts";
import type { Context } from "../context.ts";
import { wrongUse } from "../failure.ts";
import { type Input, openInput } from "../input/input.ts";
import { cutBytes, openRows, openTableRows } from "../input/rows-input.ts";
import { countItems } from "../input/units.ts";
import { startProgress } from "../output/progress.ts";
import { takeField } from "../values/value-source.ts";

/** Items that are split into columns at a time. */
const BATCH_ITEMS = 8192;

/** Refuses a `.npy` file whose rows differ from the array's. Throws `BAD_ARGUMENT`. */
export function checkRows(input: Input, dtype: DType, rowShape: readonly number[]): void {
  const { npy } = input;
  if (npy === undefined) return;
  const own = describeRows(dtype, rowShape);
  const found = describeRows(npy.dtype, npy.shape.slice(1));
  if (own === found && npy.shape.length > 0) return;
  throw wrongUse(
    "dtype",
    `rows of ${found} cannot follow rows of ${own}; convert them with numpy and try again`,
    {
      path: input.name,
      expected: own,
      found,
    },
  );
}

export function rowBytesOf(dtype: DType, rowShape: readonly number[]): number {
  return countItems(rowShape) * dtype.itemSize;
}

function describeRows(dtype: DType, rowShape: readonly number[]): string {
  const text = JSON.stringify(formatDType(dtype));
  return rowShape.length === 0 ? text : `${text} in [${rowShape.join(", ")}]`;
}

export interface ColumnInputs {
  /** The bytes of every column. */
  readonly data: Readonly<Record<string, AsyncIterable<Uint8Array>>>;
  /** Rows of all columns. Throws `BAD_ARGUMENT` if they differ. */
  rows(): number;
  /** Reads the values of a table file, which may not fit the columns, and no others. Throws `BAD_ARGUMENT`. */
  check(): Promise<void>;
  /** See {@link Input}. */
  carry(target: CarryTarget): Promise<StreamCarrier | undefined>;
  /** Clears the progress bar. */
  finish(): void;
}

/** The input of one column, and the place of its values in it. */
interface ColumnInput {
  readonly name: string;
  readonly input: Input;
  readonly rowBytes: number;
  readonly field: Field | undefined;
}

/**
 * The bytes of every column, from one structured `.npy`, or from inputs given as `NAME=FILE`. Throws `BAD_ARGUMENT` for
 * inputs that do not fit.
 *
 * @param table the one input, if it is a table that is open already
 */
export async function columnInputs(
  inputs: readonly string[],
  columns: ReadonlyMap<string, Pick<ArrayArchive, "dtype" | "shape">>,
  asBytes: boolean,
  context: Context,
  table?: Input,
): Promise<ColumnInputs> {
  const [only] = inputs;
  const isOne = inputs.length === 1 && only !== undefined && !only.includes("=");
  const opened = table ?? (isOne ? await openTableRows(only, structOf(columns), context) : undefined);
  const found = isOne
    ? fieldInputs(opened ?? (await openInput(only, false, context)), columns)
    : await fileInputs(inputs, columns, asBytes, context);
  checkNames(found, columns);
  const total = found.reduce((sum, { input }) => sum + (input.size ?? 0), 0);
  const bar = startProgress(context.io, "append");
  let done = 0;
  const onBytes = (bytes: number): void => {
    context.signal.throwIfAborted();
    done += bytes;
    bar.onProgress?.({ done, total });
  };
  return {
    data: Object.fromEntries(found.map((each) => [each.name, bytesOf(each, onBytes)])),
    rows: () => commonRows(found),
    async check() {
      if (opened !== undefined) for (const each of found) await readThrough(bytesOf(each, onBytes));
    },
    carry: async (target) => opened?.carry?.(target),
    finish: bar.finish,
  };
}

/** Reads all pieces, for the errors. */
export async function readThrough(pieces: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of pieces);
}

function checkNames(found: readonly ColumnInput[], columns: ReadonlyMap<string, unknown>): void {
  const names = [...columns.keys()];
  const unknown = found.find(({ name }) => !columns.has(name))?.name;
  const missing = names.find((name) => !found.some((each) => each.name === name));
  if (unknown === undefined && missing === undefined) return;
  throw wrongUse(
    unknown ?? missing ?? "",
    unknown === undefined
      ? `no values are given for the column "${missing}"`
      : `the table has no column "${unknown}"; it has ${names.join(", ")}`,
    { expected: names },
  );
}

function structOf(columns: ReadonlyMap<string, Pick<ArrayArchive, "dtype" | "shape">>): DType {
  const fields = [...columns].map(([name, { dtype, shape }]) => [name, formatDType(dtype), shape.slice(1)]);
  return parseDType(fields, "columns");
}

function fieldInputs(
  input: Input,
  columns: ReadonlyMap<string, Pick<ArrayArchive, "dtype" | "shape">>,
): ColumnInput[] {
  const { npy } = input;
  if (npy?.dtype.kind !== "struct" || npy.shape.length !== 1)
    throw wrongUse(
      "input",
      "rows of a table come from a .npy file of a structured dtype, from a table (.parquet, .arrow, .feather, .csv), or from NAME=FILE for each column",
      { path: input.name },
    );
  return npy.dtype.fields.map((field) => {
    const shown = { ...npy, dtype: field.dtype, shape: [0, ...field.shape], order: "C" as const };
    const column = columns.get(field.name);
    if (column !== undefined) checkRows({ ...input, npy: shown }, column.dtype, column.shape.slice(1));
    const own = input.field?.(field.name);
    if (own === undefined) return { name: field.name, input, rowBytes: npy.dtype.itemSize, field };
    return { name: field.name, input: own, rowBytes: rowBytesOf(field.dtype, field.shape), field: undefined };
  });
}

async function fileInputs(
  inputs: readonly string[],
  columns: ReadonlyMap<string, Pick<ArrayArchive, "dtype" | "shape">>,
  asBytes: boolean,
  context: Context,
): Promise<ColumnInput[]> {
  const found: ColumnInput[] = [];
  for (const text of inputs) {
    const at = text.indexOf("=");
    const name = text.slice(0, at);
    const file = text.slice(at + 1);
    if (at < 1 || file === "-")
      throw wrongUse("input", `"${text}" is not NAME=FILE with a file for a column`, { found: text });
    const input = await openRows(file, asBytes, context);
    const column = columns.get(name);
    if (column !== undefined) checkRows(input, column.dtype, column.shape.slice(1));
    const rowBytes = column === undefined ? 1 : rowBytesOf(column.dtype, column.shape.slice(1));
    found.push({ name, input, rowBytes, field: undefined });
  }
  return found;
}

function commonRows(found: readonly ColumnInput[]): number {
  const counts = found.map(({ input, rowBytes }) => (input.size ?? 0) / Math.max(1, rowBytes));
  const [rows = 0] = counts;
  const other = counts.findIndex((count) => count !== rows || !Number.isInteger(count));
  if (other < 0) return rows;
  const { name = "" } = found[other] ?? {};
  throw wrongUse(
    name,
    `the columns have different lengths, or bytes that are not whole rows: "${found[0]?.name}" ${rows} rows, "${name}" ${counts[other]}`,
    { expected: rows, found: counts[other] },
  );
}

/** The bytes of a column: its whole input, or one field of all items. */
async function* bytesOf(
  { input, field, rowBytes: itemSize }: ColumnInput,
  onBytes: (bytes: number) => void,
): AsyncGenerator<Uint8Array> {
  if (field === undefined) {
    for await (const piece of input.pieces()) {
      yield piece;
      onBytes(piece.length);
    }
    return;
  }
  for await (const items of cutBytes(input.pieces(), BATCH_ITEMS * itemSize)) {
    yield takeField(items, itemSize, field);
    onBytes(items.length);
  }
}
