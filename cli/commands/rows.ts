/** `superchunk resize` and `superchunk delete`: cut off rows, append default rows, or delete rows in the middle. */
import { InvalidArgumentError } from "commander";
import type { DeletePlan, Editable } from "../../src/index.ts";
import { withRoot } from "../actions/writable-root.ts";
import type { Command, Context, Switches } from "../context.ts";
import { parseRowsOrShape } from "../input/array-options.ts";
import { parseSelection } from "../input/slice-text.ts";
import { countItems, formatPlural, formatSize } from "../input/units.ts";
import { withProgress } from "../output/progress.ts";

type ResizeFlags = Switches<"dryRun" | "breakLock" | "json">;

export function addResize(program: Command, context: Context): void {
  program
    .command("resize")
    .description("change the number of rows of an array or a table: cut rows off, or append default values")
    .argument("<path>", "folder of an array or a table, or Bloscpack file of an array")
    .argument("<rows>", "the new number of rows, or a whole shape such as 100,3", parseRowsOrShape)
    .option(
      "--dry-run",
      "show how many rows would be cut or added, and how much would be rewritten; change nothing",
    )
    .addLockOptions()
    .option("--json", "print JSON")
    .notes(`
Examples:
  superchunk resize prices.bcolz 1000000
  superchunk resize prices.bcolz 0
  superchunk resize points 1000,4 --dry-run`)
    .action((path: string, shape: readonly number[], flags: ResizeFlags) =>
      resize(path, shape, flags, context),
    );
}

async function resize(
  path: string,
  shape: readonly number[],
  { dryRun = false, breakLock, json }: ResizeFlags,
  context: Context,
): Promise<void> {
  const { io, signal } = context;
  const { rowBytes, ...plan } = await withProgress(io, "resize", { name: path }, (onProgress) =>
    withRoot(path, { breakLock, readOnly: dryRun }, context, async (array) => {
      const wanted = shape.length === 1 ? [...shape, ...array.shape.slice(1)] : shape;
      const found = await array.planResize(wanted);
      if (!dryRun) await array.resize(wanted, { signal, onProgress });
      return { ...found, rowBytes: countItems(found.shape.slice(1)) * array.dtype.itemSize };
    }),
  );
  const [rowsBefore = 0] = plan.shapeBefore;
  const [rows = 0] = plan.shape;
  if (json === true)
    return context.json({ path, dryRun, rowsBefore, rows, ...(dryRun || shape.length > 1 ? plan : {}) });
  if (shape.length > 1) {
    const verb = dryRun ? "would be" : "is";
    const cost = `${formatPlural(plan.chunksRewritten, "chunk")} (${formatSize(plan.nbytesRewritten)} uncompressed)`;
    return context.message(
      `${path}: the shape ${verb} [${plan.shape.join(", ")}], before [${plan.shapeBefore.join(", ")}]; ${cost} rewritten`,
    );
  }
  if (!dryRun)
    return context.message(
      `${path}: ${formatPlural(rows, "row")} now, ${formatPlural(rowsBefore, "row")} before`,
    );
  const moved = Math.abs(rows - rowsBefore);
  const change =
    rows < rowsBefore
      ? "cut off"
      : `appended with default values (${formatSize(moved * rowBytes)} uncompressed)`;
  const then = formatPlural(rows, "row");
  context.message(`${path}: ${formatPlural(moved, "row")} would be ${change}, ${then} then`);
}

interface DeleteFlags extends Switches<"dryRun" | "breakLock" | "json"> {
  readonly rows: RowRange;
}

/** A typed range; bounds may be absent, or count from the end. */
interface RowRange {
  readonly start: number | null;
  readonly stop: number | null;
}

export function addDelete(program: Command, context: Context): void {
  program
    .command("delete")
    .description("delete rows of an array or a table; the rows after them move up, and are rewritten")
    .argument("<root>", "folder of an array or a table, or Bloscpack file of an array")
    .requiredOption("--rows <a:b>", "rows A up to but not including B; -1 is the last row", parseRows)
    .option("--dry-run", "show how much would be rewritten; change nothing")
    .addLockOptions()
    .option("--json", "print JSON")
    .notes(`
Deleting rows at the end costs nothing, because no rows follow them. Deleting
rows at the beginning costs as much as writing the whole array.

Examples:
  superchunk delete prices --rows 1000:2000 --dry-run
  superchunk delete prices --rows 1000:2000
  superchunk delete prices --rows -10:`)
    .action((root: string, flags: DeleteFlags) => remove(root, flags, context));
}

async function remove(root: string, flags: DeleteFlags, context: Context): Promise<void> {
  if (flags.dryRun === true) {
    const plan = await withRoot(root, { readOnly: true }, context, (array) =>
      array.planDelete(...resolveRows(flags.rows, array.length)),
    );
    const facts = { path: root, dryRun: true, ...plan, bytesWritten: 0 };
    return context.tell(flags.json, facts, `${root}: ${describeDeletion(plan, "would be", "would be")}`);
  }
  const { plan, bytesWritten } = await withRoot(root, { breakLock: flags.breakLock }, context, (array) =>
    removeFrom(array, root, flags, context),
  );
  await context.tell(
    flags.json,
    { path: root, dryRun: false, ...plan, bytesWritten },
    `${root}: ${describeDeletion(plan, "was", "were")}; ${bytesWritten === undefined ? "" : `${formatSize(bytesWritten)} written, `}${formatPlural(plan.rows, "row")} now`,
  );
}

async function removeFrom(
  array: Editable,
  root: string,
  flags: DeleteFlags,
  context: Context,
): Promise<{ readonly plan: DeletePlan; readonly bytesWritten: number | undefined }> {
  const [start, end] = resolveRows(flags.rows, array.length);
  const plan = await array.planDelete(start, end);
  // A user who waits should know why.
  if (plan.rowsRewritten > 0 && context.io.stderr.isTTY === true)
    context.message(`${root}: ${describeDeletion(plan, "is to be", "are to be")}`);
  const { io, signal } = context;
  await withProgress(io, "delete from", { name: root }, (onProgress) =>
    array.deleteRows(start, end, { signal, onProgress }),
  );
  return { plan, bytesWritten: array.bytesWritten };
}

/** `one` and `many`: the verb for one row and for several. */
function describeDeletion(plan: DeletePlan, one: string, many: string): string {
  const { start, end, rowsDeleted, rowsRewritten, nbytesRewritten } = plan;
  const which = rowsDeleted === 0 ? "" : rowsDeleted === 1 ? ` (${start})` : ` (${start} to ${end - 1})`;
  return `${formatPlural(rowsDeleted, "row")}${which} ${rowsDeleted === 1 ? one : many} deleted, and ${formatPlural(rowsRewritten, "row")} after ${rowsDeleted === 1 ? "it" : "them"} (${formatSize(nbytesRewritten)} uncompressed) rewritten`;
}

/** The bounds of typed rows, counted from the first. */
function resolveRows({ start, stop }: RowRange, rows: number): [start: number, end: number] {
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
