/** `superchunk delete`: takes rows out of an array; those behind them move up. */
import { type Command, InvalidArgumentError } from "commander";
import type { DeletePlan, Editable } from "../../src/index.ts";
import { withRoot } from "../actions/writable-root.ts";
import type { Context } from "../context.ts";
import { parseSelection } from "../input/slice-text.ts";
import { formatPlural, formatSize } from "../input/units.ts";
import { startProgress } from "../output/progress.ts";

interface DeleteFlags {
  readonly rows: RowRange;
  readonly dryRun?: boolean;
  readonly breakLock?: boolean;
  readonly json?: boolean;
}

/** Rows as typed: bounds that are absent, or count from the end. */
interface RowRange {
  readonly start: number | null;
  readonly stop: number | null;
}

/** Adds `delete ROOT --rows A:B`. */
export function addDelete(program: Command, context: Context): void {
  program
    .command("delete")
    .description("take rows out of an array; the rows after them move up, and are rewritten")
    .argument("<root>", "folder of an array or a table, or Bloscpack file of an array")
    .requiredOption("--rows <a:b>", "rows from A up to, without, B; -1 is the last row", parseRows)
    .option("--dry-run", "say how much would be rewritten, and change nothing")
    .option("--break-lock", "take the lock from whoever holds it")
    .option("--json", "print JSON")
    .addHelpText(
      "after",
      `
Rows at the end cost nothing: nothing is behind them. Rows at the beginning cost
as much as writing the array.

Examples:
  superchunk delete prices --rows 1000:2000 --dry-run
  superchunk delete prices --rows 1000:2000
  superchunk delete prices --rows -10:`,
    )
    .action((root: string, flags: DeleteFlags) => remove(root, flags, context));
}

async function remove(root: string, flags: DeleteFlags, context: Context): Promise<void> {
  if (flags.dryRun === true) {
    const plan = await withRoot(root, { readOnly: true }, context, (array) =>
      array.planDelete(...boundsOf(flags.rows, array.length)),
    );
    if (flags.json === true) await context.json({ path: root, dryRun: true, ...plan, bytesWritten: 0 });
    else context.message(`${root}: ${describe(plan, "would be", "would be")}`);
    return;
  }
  const { plan, bytesWritten } = await withRoot(root, { breakLock: flags.breakLock }, context, (array) =>
    removeFrom(array, root, flags, context),
  );
  if (flags.json === true) await context.json({ path: root, dryRun: false, ...plan, bytesWritten });
  else
    context.message(
      `${root}: ${describe(plan, "was", "were")}; ${formatSize(bytesWritten)} written, ${formatPlural(plan.rows, "row")} now`,
    );
}

async function removeFrom(
  array: Editable,
  root: string,
  flags: DeleteFlags,
  context: Context,
): Promise<{ readonly plan: DeletePlan; readonly bytesWritten: number }> {
  const [start, end] = boundsOf(flags.rows, array.length);
  const plan = await array.planDelete(start, end);
  // Whoever waits is to know for what.
  if (plan.rowsRewritten > 0 && context.io.stderr.isTTY === true)
    context.message(`${root}: ${describe(plan, "is to be", "are to be")}`);
  const bar = startProgress(context.io, "delete from", { name: root });
  try {
    await array.deleteRows(start, end, { signal: context.signal, onProgress: bar.onProgress });
  } finally {
    bar.finish();
  }
  return { plan, bytesWritten: array.bytesWritten };
}

/** `one` and `many` are the verb for one row and for another number of them. */
function describe(plan: DeletePlan, one: string, many: string): string {
  const { start, end, rowsDeleted, rowsRewritten, nbytesRewritten } = plan;
  const which = rowsDeleted === 0 ? "" : rowsDeleted === 1 ? ` (${start})` : ` (${start} to ${end - 1})`;
  return `${formatPlural(rowsDeleted, "row")}${which} ${rowsDeleted === 1 ? one : many} deleted, and ${formatPlural(rowsRewritten, "row")} behind (${formatSize(nbytesRewritten)} uncompressed) rewritten`;
}

/** The bounds of typed rows, counted from the first. */
function boundsOf({ start, stop }: RowRange, rows: number): [start: number, end: number] {
  const fromEnd = (bound: number): number => (bound < 0 ? rows + bound : bound);
  return [fromEnd(start ?? 0), fromEnd(stop ?? rows)];
}

function parseRows(text: string): RowRange {
  const [entry] = parseSelection(text, 1);
  if (typeof entry === "number") return { start: entry, stop: entry === -1 ? null : entry + 1 };
  if (entry === null || entry === undefined || (entry.step ?? 1) !== 1)
    throw new InvalidArgumentError('Expected rows such as "10:20", "-5:" or "7".');
  return { start: entry.start, stop: entry.stop };
}
