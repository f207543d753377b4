/** `superchunk set`: changes a part of the values of an array. */

import {
  type Editable,
  type Extent,
  formatDType,
  isSuperchunkError,
  resolveSelection,
  type Selection,
  type SetPlan,
  type SuperchunkError,
} from "../../src/index.ts";
import { withRoot } from "../actions/writable-root.ts";
import type { Command, Context, Switches } from "../context.ts";
import { wrongUse } from "../failure.ts";
import { parseValue } from "../input/array-options.ts";
import type { Input } from "../input/input.ts";
import { cutBytes, drawnRows, openRows } from "../input/rows-input.ts";
import { parseSliceOption } from "../input/slice-text.ts";
import { countItems, formatPlural, formatSize } from "../input/units.ts";
import { utf8InLatin } from "../values/cell-text.ts";

/** The array to change, or a stand-in that writes nothing. */
type SetTarget = Pick<Editable, "dtype" | "shape"> & {
  set(selection: Selection, values: Uint8Array | readonly unknown[]): Promise<void>;
};

interface SetFlags extends Switches<"bytes" | "inPlace" | "dryRun" | "breakLock" | "json"> {
  readonly slice: string;
  readonly value?: string;
}

/** Bytes of values that are set at a time. */
const BATCH_BYTES = 4 << 20;

export function addSet(program: Command, context: Context): void {
  program
    .command("set")
    .description("change part of the values of an array or a table")
    .argument("<root>", "folder of an array or a table, or Bloscpack file of an array")
    .argument("[input]", '.npy file with as many values as are selected, or one value for all; "-" is stdin')
    .requiredOption("--slice <slice>", "the values to change, in numpy's syntax: 5, 0:10, ::2, 0:10,3")
    .option("--value <json>", "one value for all, instead of INPUT")
    .option("--bytes", "take INPUT as raw bytes of the array's dtype")
    .option("--in-place", "change chunks in place, protected by a journal; see below")
    .option("--dry-run", "show how much would be rewritten; change nothing")
    .addLockOptions()
    .option("--json", "print JSON")
    .notes(`
Either all values change or none, even in a crash. Changed chunks go into a new
file. With --in-place, a chunk stays where it is if it fits there, else it goes
to the end of its file. The price: if a chunk changes its length, its file gets
version 4, which Bloscpack and bcolz refuse until "superchunk compact". Open
readers of superchunk get an error (STALE) and have to open the array again.
Files with several names, such as those of a linked archive or a copy by
"cp -al", are not changed in place.

Examples:
  superchunk set prices --slice 100:200 corrected.npy
  superchunk set prices --slice ::1000 --value 0 --dry-run
  superchunk set prices --slice -1 --value 0
  superchunk set points --slice "::2,0" --value NaN
  superchunk set days --slice 7 --value 2020-01-31
  superchunk set counters --slice 17 --value 42 --in-place`)
    .action((root: string, input: string | undefined, flags: SetFlags) => set(root, input, flags, context));
}

async function set(root: string, name: string | undefined, flags: SetFlags, context: Context): Promise<void> {
  const { value } = flags;
  if ((name === undefined) === (value === undefined))
    throw wrongUse("input", "give the values either as INPUT or with --value");
  const input = name === undefined ? undefined : await openRows(name, flags.bytes === true, context);
  const dryRun = flags.dryRun === true;
  const options = {
    breakLock: flags.breakLock,
    readOnly: dryRun,
    ...(flags.inPlace === true ? { modify: "in-place" as const } : {}),
  };
  const result = await withRoot(root, options, context, async (array) => {
    const { dtype, shape } = array;
    const selection = parseSliceOption(flags.slice, shape.length, root);
    const extents = await naming(root, () => resolveSelection(selection, shape));
    const values = input === undefined ? oneValue(array, value ?? "") : undefined;
    const plan = await naming(root, () => array.planSet(selection, values));
    const target: SetTarget = dryRun ? { dtype, shape, set: async () => undefined } : array;
    if (values !== undefined) await naming(root, () => target.set(selection, values));
    else if (input !== undefined) await setFrom(target, selection, extents, input, context);
    if (dryRun) return { ...plan, bytesWritten: 0 };
    await array.flush();
    return { ...plan, bytesWritten: array.bytesWritten };
  });
  const { valuesSet, bytesWritten } = result;
  const written = bytesWritten === undefined ? "" : `, ${formatSize(bytesWritten)} written`;
  const text = dryRun ? describe(result, flags) : `${formatPlural(valuesSet, "value")} set${written}`;
  await context.tell(flags.json, { path: root, dryRun, ...result }, `${root}: ${text}`);
}

function describe(
  { valuesSet, chunksRewritten, nbytesRewritten, superchunks }: SetPlan,
  { inPlace }: SetFlags,
): string {
  const where = superchunks === undefined ? "" : ` of ${formatPlural(superchunks, "superchunk")}`;
  const chunks = `${formatPlural(chunksRewritten, "chunk")}${where} (${formatSize(nbytesRewritten)} uncompressed)`;
  const how = inPlace === true ? "changed in place" : "rewritten";
  return `${formatPlural(valuesSet, "value")} would be set, and ${chunks} ${how}`;
}

/** One value for the whole selection, as a list of one. If the dtype is text, the value needs no quotes. */
function oneValue({ dtype }: Pick<SetTarget, "dtype">, text: string): readonly unknown[] {
  const parsed = parseValue(text);
  if (Array.isArray(parsed) && /^(?:u?int|float|bool|datetime|timedelta)$/.test(dtype.kind))
    throw wrongUse(
      "value",
      "--value is one value for all that are selected; give different ones as a .npy file",
    );
  const isText = dtype.kind === "unicode" || dtype.kind === "bytes";
  const value = isText && typeof parsed !== "string" ? text : parsed;
  return [dtype.kind === "bytes" && typeof value === "string" ? utf8InLatin(value) : value];
}

/** Does what fails with errors that name the array. */
async function naming<T>(path: string, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw isSuperchunkError(error) ? error.at({ path }) : error;
  }
}

/** Sets the selected values from the input, some rows at a time. */
async function setFrom(
  array: SetTarget,
  selection: Selection,
  extents: readonly Extent[],
  input: Input,
  context: Context,
): Promise<void> {
  checkValues(array, extents, input);
  const { itemSize } = array.dtype;
  const [first, ...rest] = extents;
  const wanted = countItems(extents.map(({ count }) => count)) * itemSize;
  const rowBytes = countItems(rest.map(({ count }) => count)) * itemSize;
  const batch = Math.max(1, Math.floor(BATCH_BYTES / Math.max(1, rowBytes)));
  const { start = 0, step = 1, count = 0 } = first ?? {};
  const target = { rowBytes: 1, verb: "set", outcome: "nothing was set" };
  let done = 0;
  for await (const piece of cutBytes(
    drawnRows(input, target, context),
    Math.max(itemSize, batch * rowBytes),
  )) {
    const isOne = done === 0 && piece.length === itemSize && batch * rowBytes > itemSize;
    if (isOne && wanted !== itemSize) {
      await array.set(selection, piece);
      return;
    }
    const rows = piece.length / Math.max(1, rowBytes);
    if (!Number.isInteger(rows) || done + rows > count) throw otherNumber(input, wanted, itemSize);
    const from = start + done * step;
    const slice = { start: from, stop: from + (rows - 1) * step + 1, step };
    await array.set([slice, ...selection.slice(1)], piece);
    done += rows;
  }
  if (done * rowBytes !== wanted) throw otherNumber(input, wanted, itemSize);
}

/** Refuses a `.npy` file of another dtype or shape. A single value fits everywhere. */
function checkValues(array: SetTarget, extents: readonly Extent[], input: Input): void {
  const { npy, name, size } = input;
  const wanted = extents.flatMap(({ count, dropped }) => (dropped ? [] : [count]));
  if (npy === undefined) {
    const { itemSize } = array.dtype;
    const bytes = countItems(wanted) * itemSize;
    if (size !== undefined && size !== bytes && size !== itemSize) throw otherNumber(input, bytes, itemSize);
    return;
  }
  const own = JSON.stringify(formatDType(array.dtype));
  const found = JSON.stringify(formatDType(npy.dtype));
  if (own !== found)
    throw wrongUse(
      "dtype",
      `values of ${found} cannot be set in an array of ${own}; convert them (numpy.astype) and try again`,
      { path: name, expected: own, found },
    );
  if (countItems(npy.shape) === 1 || JSON.stringify(wanted) === JSON.stringify(npy.shape)) return;
  throw wrongUse("shape", `the shape is [${npy.shape.join(", ")}], but [${wanted.join(", ")}] is selected`, {
    path: name,
    expected: wanted,
    found: npy.shape,
  });
}

function otherNumber({ name, size }: Input, wanted: number, itemSize: number): SuperchunkError {
  const expected = wanted / itemSize;
  return wrongUse("values", `expected ${expected} values, as many as are selected, or one for all`, {
    path: name,
    expected,
    ...(size === undefined ? {} : { found: size / itemSize }),
  });
}
