/** `superchunk delete`: takes rows out of an array; those behind them move up. */
import { type Command, InvalidArgumentError } from "commander";
import { elementsOf } from "../../src/array/selection.ts";
import { SuperchunkError } from "../../src/errors.ts";
import type { Context } from "../context.ts";
import { parseSelection } from "../slice-text.ts";
import { formatPlural, formatSize } from "../units.ts";
import { openRoot, withRoot } from "../writable-root.ts";

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

/** What is deleted, and what it costs. */
interface Deletion {
  readonly start: number;
  readonly end: number;
  readonly rowsBefore: number;
  readonly rows: number;
  readonly rowsDeleted: number;
  /** Rows behind the deleted ones, and their uncompressed bytes. */
  readonly rowsRewritten: number;
  readonly nbytesRewritten: number;
}

/** Adds `delete ROOT --rows A:B`. */
export function addDelete(program: Command, context: Context): void {
  program
    .command("delete")
    .description("take rows out of an array; the rows behind them move up, and are written anew")
    .argument("<root>", "folder of an array of superchunks")
    .requiredOption("--rows <a:b>", "rows from A up to, without, B; -1 is the last row", parseRows)
    .option("--dry-run", "say how much would be written anew, and change nothing")
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
    const archive = await openRoot(root, context);
    const plan = planDeletion(root, flags.rows, archive.shape, archive.dtype.itemSize);
    await archive.close();
    if (flags.json === true) await context.json({ path: root, dryRun: true, ...plan, bytesWritten: 0 });
    else context.message(`${root}: ${describe(plan, "would be")}`);
    return;
  }
  const { plan, bytesWritten } = await withRoot(root, flags.breakLock, context, async (array) => {
    const found = planDeletion(root, flags.rows, array.shape, array.dtype.itemSize);
    await array.deleteRows(found.start, found.end);
    return { plan: found, bytesWritten: array.bytesWritten };
  });
  if (flags.json === true) await context.json({ path: root, dryRun: false, ...plan, bytesWritten });
  else
    context.message(
      `${root}: ${describe(plan, "were")}; ${formatSize(bytesWritten)} written, ${formatPlural(plan.rows, "row")} now`,
    );
}

function describe(plan: Deletion, verb: string): string {
  const { start, end, rowsDeleted, rowsRewritten, nbytesRewritten } = plan;
  const which = rowsDeleted === 0 ? "" : ` (${start} to ${end - 1})`;
  return `${formatPlural(rowsDeleted, "row")}${which} ${verb} deleted, and ${formatPlural(rowsRewritten, "row")} behind (${formatSize(nbytesRewritten)} uncompressed) written anew`;
}

/** Throws `BAD_ARGUMENT` for rows that are not there: what is deleted is not guessed. */
function planDeletion(path: string, range: RowRange, shape: readonly number[], itemSize: number): Deletion {
  const [rows = 0, ...rowShape] = shape;
  const fromEnd = (bound: number): number => (bound < 0 ? rows + bound : bound);
  const start = fromEnd(range.start ?? 0);
  const end = fromEnd(range.stop ?? rows);
  if (start < 0 || end < start || end > rows)
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      `rows ${start}:${end} are not within the ${formatPlural(rows, "row")} of the array`,
      { path, field: "rows", expected: `0 to ${rows}`, found: `${start}:${end}` },
    );
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

function parseRows(text: string): RowRange {
  const [entry] = parseSelection(text, 1);
  if (typeof entry === "number") return { start: entry, stop: entry === -1 ? null : entry + 1 };
  if (entry === null || entry === undefined || (entry.step ?? 1) !== 1)
    throw new InvalidArgumentError('Expected rows such as "10:20", "-5:" or "7".');
  return { start: entry.start, stop: entry.stop };
}
