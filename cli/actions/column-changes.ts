/** Changes of columns as they are typed, and what they do to a table of bcolz and to an array with column folders. */

import { InvalidArgumentError } from "commander";
import { type DType, type JsonValue, SuperchunkError } from "../../src/index.ts";
import type { Editable } from "../../src/node/index.ts";
import type { Context } from "../context.ts";
import type { Input } from "../input/input.ts";
import { drawnRows, openRawRows, openRows } from "../input/rows-input.ts";
import { rowBytesOf } from "./append-rows.ts";

/** One change, as typed. */
export type ColumnChange =
  | { readonly kind: "add"; readonly name: string; readonly file: string | undefined }
  | { readonly kind: "rename"; readonly name: string; readonly to: string }
  | { readonly kind: "delete"; readonly name: string };

/** What new columns are where no file tells it. */
export interface NewColumnFlags {
  readonly dtype?: DType;
  readonly dflt?: JsonValue;
}

/** `NAME=FILE`, or a name alone for a column of default values. Throws commander's `InvalidArgumentError`. */
export function parseAdded(text: string): ColumnChange {
  const at = text.indexOf("=");
  if (at === 0 || text === "") throw new InvalidArgumentError("Expected NAME=FILE, or NAME with --dtype.");
  const name = at < 0 ? text : text.slice(0, at);
  return { kind: "add", name, file: at < 0 ? undefined : text.slice(at + 1) };
}

/** `OLD=NEW`. Throws commander's `InvalidArgumentError`. */
export function parseRenamed(text: string): ColumnChange {
  const [name = "", to = "", ...more] = text.split("=");
  if (name === "" || to === "" || more.length > 0)
    throw new InvalidArgumentError("Expected OLD=NEW, such as prize=price.");
  return { kind: "rename", name, to };
}

/** A change in words. */
export function describeChange(change: ColumnChange): string {
  return change.kind === "rename"
    ? `rename "${change.name}" to "${change.to}"`
    : `${change.kind} "${change.name}"`;
}

/** A new column whose values have been opened. */
interface OpenedColumn {
  readonly dtype: DType;
  /** Shape of one value. */
  readonly shape: readonly number[];
  /** Absent where all values are the default. */
  readonly values: AsyncIterable<Uint8Array> | undefined;
}

/** Makes one change of a table, or of an array with column folders. */
export async function changeColumns(
  array: Editable,
  change: ColumnChange,
  flags: NewColumnFlags,
  context: Context,
): Promise<void> {
  if (change.kind === "rename") return array.renameColumn(change.name, change.to);
  if (change.kind === "delete") return array.deleteColumn(change.name);
  const { values, ...facts } = await openColumn(change, array.shape, flags, context);
  await array.addColumn({ name: change.name, ...facts, ...defaultOf(flags) }, values);
}

function defaultOf({ dflt }: NewColumnFlags): { readonly fillValue?: JsonValue } {
  return dflt === undefined ? {} : { fillValue: dflt };
}

async function openColumn(
  { name, file }: Extract<ColumnChange, { kind: "add" }>,
  [rows = 0, ...rowShape]: readonly number[],
  { dtype }: NewColumnFlags,
  context: Context,
): Promise<OpenedColumn> {
  if (file === undefined) {
    if (dtype !== undefined) return { dtype, shape: [], values: undefined };
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `the column "${name}" needs a .npy file (--add ${name}=FILE), or a dtype for default values (--dtype)`,
      { field: "dtype" },
    );
  }
  const input = dtype === undefined ? await openRows(file, false, context) : await openRawRows(file, context);
  const { npy } = input;
  const target = { verb: "add", name, outcome: "no column was added" };
  if (npy === undefined) {
    if (dtype === undefined)
      throw new SuperchunkError("BAD_ARGUMENT", "raw bytes need --dtype; a .npy file has its name end so", {
        path: input.name,
        field: "dtype",
      });
    const rowBytes = rowBytesOf(dtype, rowShape);
    checkRows(input, rowBytes === 0 ? rows : (input.size ?? rows * rowBytes) / rowBytes, rows);
    return { dtype, shape: [], values: drawnRows(input, { ...target, rowBytes }, context) };
  }
  const shape = npy.shape.slice(1 + rowShape.length);
  if (npy.shape.slice(1, 1 + rowShape.length).join() !== rowShape.join())
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `the shape is [${npy.shape.join(", ")}], but that of the other columns starts with [${[rows, ...rowShape].join(", ")}]`,
      { path: input.name, field: "shape", expected: [rows, ...rowShape], found: npy.shape },
    );
  checkRows(input, npy.shape[0] ?? 1, rows);
  const rowBytes = rowBytesOf(npy.dtype, npy.shape.slice(1));
  return { dtype: npy.dtype, shape, values: drawnRows(input, { ...target, rowBytes }, context) };
}

/** Tells another number of rows before anything is written, where it is known. */
function checkRows({ name }: Input, found: number, expected: number): void {
  if (found === expected) return;
  throw new SuperchunkError("BAD_ARGUMENT", `there are ${found} rows, but ${expected} in the other columns`, {
    path: name,
    field: "rows",
    expected,
    found,
  });
}
