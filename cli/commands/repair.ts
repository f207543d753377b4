/** `superchunk repair`: an array that another program broke, brought in order, into a copy or where it lies. */
import type { Command } from "commander";
import { SuperchunkError } from "../../src/errors.ts";
import { repairArray } from "../../src/node/index.ts";
import type { Context } from "../context.ts";
import { EXIT } from "../failure.ts";
import { formatPlural } from "../input/units.ts";
import { startProgress } from "../output/progress.ts";

interface RepairFlags {
  readonly inPlace?: boolean;
  readonly dryRun?: boolean;
  readonly breakLock?: boolean;
  readonly json?: boolean;
}

/** Adds `repair ROOT [DST]`. */
export function addRepair(program: Command, context: Context): void {
  program
    .command("repair")
    .description("bring an array in order that another program or a disk broke, and say what is gone")
    .argument("<root>", "folder of an array of superchunks")
    .argument("[dst]", "folder to make for the repaired array")
    .option("--in-place", "repair it where it lies, by one commit, instead of into DST")
    .option("--dry-run", "say what is wrong, and what would be gone, and change nothing")
    .option("--break-lock", "take the lock from whoever holds it")
    .option("--json", "print JSON")
    .addHelpText(
      "after",
      `
Finds the chunks that are whole, counts the rows anew, makes new tables of
offsets. Nothing is made up: rows end where the first chunk is missing. Ends
with 3 where rows, or the attributes, are gone.

Examples:
  superchunk repair broken --dry-run
  superchunk repair broken repaired
  superchunk repair broken --in-place`,
    )
    .action((root: string, dst: string | undefined, flags: RepairFlags) => repair(root, dst, flags, context));
}

async function repair(
  root: string,
  into: string | undefined,
  { inPlace, dryRun, breakLock, json }: RepairFlags,
  context: Context,
): Promise<void> {
  if (dryRun !== true && (into === undefined) !== (inPlace === true))
    throw new SuperchunkError(
      "BAD_ARGUMENT",
      "say where the repaired array goes: a new folder as DST, or --in-place",
      { path: root, field: "dst" },
    );
  const bar = startProgress(context.io, "repair", { unit: "rows" });
  const { signal } = context;
  const options = { into, dryRun, breakLock, signal, onProgress: bar.onProgress };
  const report = await repairArray(root, options).finally(bar.finish);
  const { rows, rowsBefore, problems, lost } = report;
  if (lost.length > 0) context.note(EXIT.damaged);
  if (json === true) {
    await context.json({
      path: root,
      destination: dryRun === true ? null : (into ?? root),
      dryRun: dryRun === true,
      ...report,
      rowsBefore: rowsBefore ?? null,
    });
    return;
  }
  for (const problem of problems) context.message(`found: ${problem}`);
  for (const loss of lost) context.message(`gone: ${loss}`);
  const before = rowsBefore === undefined ? "an unknown number" : formatPlural(rowsBefore, "row");
  const verdict = problems.length + lost.length === 0 ? "nothing was wrong; " : "";
  context.message(
    dryRun === true
      ? `${root}: ${verdict}${formatPlural(rows, "row")} would be there, ${before} now`
      : `${into ?? root}: ${verdict}${formatPlural(rows, "row")} now, ${before} before`,
  );
}
