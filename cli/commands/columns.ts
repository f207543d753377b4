/** `superchunk columns`: lists the columns of a table or an array of a nested dtype; adds, renames and deletes them. */

import { InvalidArgumentError } from "commander";
import {
  type Archive,
  type ArrayArchive,
  type DType,
  formatDType,
  type JsonValue,
  SuperchunkError,
} from "../../src/index.ts";
import { type Editable, openArchive } from "../../src/node/index.ts";
import { rowBytesOf } from "../actions/append-rows.ts";
import { withRoot } from "../actions/writable-root.ts";
import type { Command, Context, Switches } from "../context.ts";
import { wrongUse } from "../failure.ts";
import { parseDTypeText, parseValue } from "../input/array-options.ts";
import type { Input } from "../input/input.ts";
import { closing, columnNamesOf } from "../input/opening.ts";
import { drawnRows, noDType, openRawRows, openRows } from "../input/rows-input.ts";
import { formatPlural } from "../input/units.ts";
import { alignRows, shapeText } from "../output/layout.ts";
import { printable } from "../values/cell-text.ts";

interface ColumnsFlags extends Switches<"breakLock" | "json"> {
  /** Type and value of new columns that have no file. */
  readonly dtype?: DType;
  readonly dflt?: JsonValue;
}

export function addColumns(program: Command, context: Context): void {
  // Changes of all options, in the order typed.
  const changes: ColumnChange[] = [];
  const collect = (parse: (text: string) => ColumnChange) => (text: string) => void changes.push(parse(text));
  program
    .command("columns")
    .description("list, add, rename and delete the columns of a table or of an array with a structured dtype")
    .argument("<path>", "folder of a table, or of an array with a folder for each column")
    .option(
      "--add <name=file>",
      "add a column after the others, from a .npy file with as many rows, or raw bytes of --dtype; NAME alone: default values of --dtype; may be repeated",
      collect(parseAdded),
    )
    .option("--rename <old=new>", "give a column another name; may be repeated", collect(parseRenamed))
    .option(
      "--delete <name>",
      "delete a column; may be repeated",
      collect((name) => ({ kind: "delete", name })),
    )
    .option("--dtype <dtype>", "dtype of columns added without a .npy file", parseDTypeText)
    .option("--dflt <json>", "default value of added columns (default: 0, empty, NaT)", parseValue)
    .addLockOptions()
    .option("--json", "print JSON")
    .notes(`
Changes are made one by one, in the order in which you give them, each as a
whole or not at all. If the array is also a Zarr group, its view is updated
right after; readers of a column that was deleted get an error.

Examples:
  superchunk columns trades.bcolz
  superchunk columns trades.bcolz --add volume=volume.npy --delete note
  superchunk columns trades --rename prize=price --add flag --dtype bool`)
    .action((path: string, flags: ColumnsFlags) => columns(path, changes, flags, context));
}

async function columns(
  path: string,
  changes: readonly ColumnChange[],
  flags: ColumnsFlags,
  context: Context,
): Promise<void> {
  const done: ColumnChange[] = [];
  try {
    if (changes.length > 0) await change(path, changes, done, flags, context);
  } catch (error) {
    if (done.length > 0) context.message(`${path}: done before: ${done.map(describeChange).join(", ")}`);
    throw error;
  }
  const list = await reading(path, context, async (archive) => describeColumns(path, archive));
  if (flags.json === true) await context.json({ path, changes, columns: list });
  else if (changes.length > 0) context.message(`${path}: ${list.map(({ name }) => name).join(", ")}`);
  else await printList(list, context);
}

async function reading<T>(
  path: string,
  { signal, allow }: Context,
  use: (archive: Archive) => Promise<T>,
): Promise<T> {
  return closing(await openArchive(path, { signal, allow }), use);
}

async function change(
  path: string,
  changes: readonly ColumnChange[],
  done: ColumnChange[],
  flags: ColumnsFlags,
  context: Context,
): Promise<void> {
  await reading(path, context, async (archive) => {
    const hasColumns =
      archive.kind === "table" || (archive.kind === "array" && archive.dtype.kind === "struct");
    if (!hasColumns || (archive.dialect !== "blz-superchunk" && archive.dialect !== "ctable"))
      throw noColumnFolders(path, archive);
  });
  await withRoot(path, { breakLock: flags.breakLock }, context, async (array) => {
    for (const each of changes) {
      await changeColumns(array, each, flags, context);
      done.push(each);
    }
  });
}

function noColumnFolders(path: string, { dialect }: Archive): SuperchunkError {
  return new SuperchunkError(
    "UNSUPPORTED",
    "only tables, and arrays of superchunks of a structured dtype with a folder for each field, have columns",
    { path, field: "dialect", expected: "ctable or blz-superchunk", found: dialect },
  );
}

interface ColumnFacts {
  readonly name: string;
  readonly dtype: JsonValue;
  readonly shape: readonly number[];
}

function describeColumns(path: string, archive: Archive): ColumnFacts[] {
  const names = columnNamesOf(archive);
  if (names.length === 0) throw noColumnFolders(path, archive);
  return names.map((name) => {
    const { dtype, shape }: ArrayArchive = (archive as ArrayArchive).column(name);
    return { name, dtype: formatDType(dtype), shape };
  });
}

async function printList(list: readonly ColumnFacts[], context: Context): Promise<void> {
  const rows = list.map(({ name, dtype, shape }) => {
    const text = printable(typeof dtype === "string" ? dtype : JSON.stringify(dtype));
    return [printable(name), text, shapeText(shape)];
  });
  await context.out.lines(alignRows(rows, new Set(), context.out.columns));
}

// Changes of columns, as typed and as carried out.

type ColumnChange =
  | { readonly kind: "add"; readonly name: string; readonly file: string | undefined }
  | { readonly kind: "rename"; readonly name: string; readonly to: string }
  | { readonly kind: "delete"; readonly name: string };

/** `NAME=FILE`, or a name alone for a column of default values. Throws commander's `InvalidArgumentError`. */
function parseAdded(text: string): ColumnChange {
  const at = text.indexOf("=");
  if (at === 0 || text === "") throw new InvalidArgumentError("Expected NAME=FILE, or NAME with --dtype.");
  const name = at < 0 ? text : text.slice(0, at);
  return { kind: "add", name, file: at < 0 ? undefined : text.slice(at + 1) };
}

/** `OLD=NEW`. Throws commander's `InvalidArgumentError`. */
function parseRenamed(text: string): ColumnChange {
  const [name = "", to = "", ...more] = text.split("=");
  if (name === "" || to === "" || more.length > 0)
    throw new InvalidArgumentError("Expected OLD=NEW, such as prize=price.");
  return { kind: "rename", name, to };
}

function describeChange(change: ColumnChange): string {
  return change.kind === "rename"
    ? `rename "${change.name}" to "${change.to}"`
    : `${change.kind} "${change.name}"`;
}

/** A new column with its opened values. */
interface OpenedColumn {
  readonly dtype: DType;
  /** Shape of one value. */
  readonly shape: readonly number[];
  /** Undefined if all values are the default. */
  readonly values: AsyncIterable<Uint8Array> | undefined;
}

/** Makes one change of a table, or of an array with column folders. */
async function changeColumns(
  array: Editable,
  change: ColumnChange,
  flags: ColumnsFlags,
  context: Context,
): Promise<void> {
  if (change.kind === "rename") return array.renameColumn(change.name, change.to);
  if (change.kind === "delete") return array.deleteColumn(change.name);
  const { values, ...facts } = await openColumn(change, array.shape, flags, context);
  const own = flags.dflt === undefined ? {} : { fillValue: flags.dflt };
  await array.addColumn({ name: change.name, ...facts, ...own }, values);
}

async function openColumn(
  { name, file }: Extract<ColumnChange, { kind: "add" }>,
  [rows = 0, ...rowShape]: readonly number[],
  { dtype }: ColumnsFlags,
  context: Context,
): Promise<OpenedColumn> {
  if (file === undefined) {
    if (dtype !== undefined) return { dtype, shape: [], values: undefined };
    throw wrongUse(
      "dtype",
      `the column "${name}" needs a .npy file (--add ${name}=FILE), or a dtype for default values (--dtype)`,
    );
  }
  const input = dtype === undefined ? await openRows(file, false, context) : await openRawRows(file, context);
  const { npy } = input;
  const target = { verb: "add", name, outcome: "no column was added" };
  if (npy === undefined) {
    if (dtype === undefined) throw noDType(input);
    const rowBytes = rowBytesOf(dtype, rowShape);
    checkRows(input, rowBytes === 0 ? rows : (input.size ?? rows * rowBytes) / rowBytes, rows);
    return { dtype, shape: [], values: drawnRows(input, { ...target, rowBytes }, context) };
  }
  const shape = npy.shape.slice(1 + rowShape.length);
  if (npy.shape.slice(1, 1 + rowShape.length).join() !== rowShape.join())
    throw wrongUse(
      "shape",
      `the shape is [${npy.shape.join(", ")}], but that of the other columns starts with [${[rows, ...rowShape].join(", ")}]`,
      { path: input.name, expected: [rows, ...rowShape], found: npy.shape },
    );
  checkRows(input, npy.shape[0] ?? 1, rows);
  const rowBytes = rowBytesOf(npy.dtype, npy.shape.slice(1));
  return { dtype: npy.dtype, shape, values: drawnRows(input, { ...target, rowBytes }, context) };
}

/** Reports a wrong number of rows before anything is written, if the number is known. */
function checkRows({ name }: Input, found: number, expected: number): void {
  if (found === expected) return;
  throw wrongUse(
    "rows",
    `the column has ${formatPlural(found, "row")}, but the other columns have ${expected}`,
    {
      path: name,
      expected,
      found,
    },
  );
}
