/** `superchunk resize`: cuts rows off the end of an array or a table, or puts default values behind them. */
import type { Command } from "commander";
import type { ResizePlan } from "../../src/index.ts";
import { withRoot } from "../actions/writable-root.ts";
import type { Context } from "../context.ts";
import { parseShape } from "../input/array-options.ts";
import { formatPlural, formatSize } from "../input/units.ts";
import { startProgress } from "../output/progress.ts";

interface ResizeFlags {
  readonly dryRun?: boolean;
  readonly breakLock?: boolean;
  readonly json?: boolean;
}

/** Adds `resize PATH ROWS`. */
export function addResize(program: Command, context: Context): void {
  program
    .command("resize")
    .description("make an array or a table so many rows long: cut rows off, or append default values")
    .argument("<path>", "folder of an array or a table")
    .argument("<rows>", "rows that it shall have, or a whole shape such as 100,3", parseShape)
    .option(
      "--dry-run",
      "say how many rows would go or come, and how much would be written again, and change nothing",
    )
    .option("--break-lock", "take the lock from whoever holds it")
    .option("--json", "print JSON")
    .addHelpText(
      "after",
      `
Examples:
  superchunk resize prices.bcolz 1000000
  superchunk resize prices.bcolz 0
  superchunk resize points 1000,4 --dry-run`,
    )
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
  const bar = startProgress(context.io, "resize", { name: path });
  const { signal } = context;
  let plan: ResizePlan;
  try {
    plan = await withRoot(path, { breakLock, readOnly: dryRun }, context, async (array) => {
      const wanted = shape.length === 1 ? [...shape, ...array.shape.slice(1)] : shape;
      const found = await array.planResize(wanted);
      if (!dryRun) await array.resize(wanted, { signal, onProgress: bar.onProgress });
      return found;
    });
  } finally {
    bar.finish();
  }
  const [rowsBefore = 0] = plan.shapeBefore;
  const [rows = 0] = plan.shape;
  if (json === true)
    return context.json({ path, dryRun, rowsBefore, rows, ...(dryRun || shape.length > 1 ? plan : {}) });
  if (shape.length > 1) {
    const verb = dryRun ? "would be" : "is";
    const cost = `${formatPlural(plan.chunksRewritten, "chunk")} (${formatSize(plan.nbytesRewritten)} uncompressed)`;
    return context.message(
      `${path}: the shape ${verb} [${plan.shape.join(", ")}], before [${plan.shapeBefore.join(", ")}]; ${cost} written again`,
    );
  }
  if (!dryRun)
    return context.message(
      `${path}: ${formatPlural(rows, "row")} now, ${formatPlural(rowsBefore, "row")} before`,
    );
  const change = rows < rowsBefore ? "cut off" : "appended with default values";
  const moved = formatPlural(Math.abs(rows - rowsBefore), "row");
  context.message(`${path}: ${moved} would be ${change}, ${formatPlural(rows, "row")} then`);
}
