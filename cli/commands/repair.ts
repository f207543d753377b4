/** `superchunk repair`: saves the undamaged part of an archive, in a copy, or for an array of superchunks in place. */
import { Option } from "commander";
import {
  type ErrorCode,
  type Hole,
  type HolePolicy,
  isSuperchunkError,
  type JsonObject,
  type JsonValue,
  type RepairReport,
} from "../../src/index.ts";
import { repairArray } from "../../src/node/index.ts";
import type { Command, Context, Switches } from "../context.ts";
import { EXIT, wrongUse } from "../failure.ts";
import { parseValue } from "../input/array-options.ts";
import { holeLines, printSome } from "../input/damaged.ts";
import { formatCount, formatPlural, parseCount, parseShape } from "../input/units.ts";
import { noteFailures, printFailures } from "../output/convert-report.ts";
import { MOST_NAMES } from "../output/layout.ts";
import { startProgress } from "../output/progress.ts";
import { printable } from "../values/cell-text.ts";

export const HOLES: readonly HolePolicy[] = ["fill", "drop", "cut"];

interface RepairFlags extends Switches<"inPlace" | "dryRun" | "scan" | "discard" | "breakLock" | "json"> {
  readonly holes?: HolePolicy;
  readonly fill?: JsonValue;
  readonly dtype?: JsonValue;
  readonly shape?: readonly number[];
  readonly chunklen?: number;
  readonly order?: "C" | "F";
  readonly allow?: readonly string[];
}

export function addRepair(program: Command, context: Context): void {
  program
    .command("repair")
    .description("save the undamaged part of an archive, in a copy or in place, and report what is lost")
    .argument("<path>", "file, folder or URL of an archive of any dialect, or of a Zarr array or group")
    .argument("[dst]", "file or folder to create for the undamaged part, in the same dialect")
    .option("--in-place", "repair an array of superchunks in place, by one commit, instead of copying to DST")
    .option("--dry-run", "show what is damaged and what would be lost; change nothing")
    .addOption(
      new Option(
        "--holes <how>",
        "what to do if a chunk is lost: fill puts a value there, so that rows keep their positions; drop leaves its rows out, so that later rows move up; cut ends the rows there",
      ).choices(HOLES),
    )
    .option(
      "--fill <value>",
      "the value for --holes fill, as JSON (default: the array's default value, else zero)",
      parseValue,
    )
    .option("--dtype <dtype>", 'dtype of the chunks, such as "<f8", if the metadata are lost', parseValue)
    .option("--shape <n,n,...>", "shape of the array, if the metadata are lost", parseShape)
    .option("--chunklen <n>", "rows per chunk, if the metadata are lost", parseCount)
    .addOption(
      new Option(
        "--order <order>",
        "for a Bloscpack file: order of the items, if the metadata are lost (default: C)",
      ).choices(["C", "F"]),
    )
    .option("--scan", "search files for Blosc headers if nothing else says where the chunks are")
    .option("--discard", "with --in-place: remove what was replaced, after the result was read back")
    .addAllowOption()
    .option("--break-lock", "take the lock from its holder")
    .option("--json", "print JSON")
    .notes(`
Saves every chunk whose header, checksum and payload are right. If rows would be
lost, the command first writes nothing, lists the holes and exits with 3: add
--holes to say what to do with them. The exit code is 3 as well if rows, or
anything else, are lost in the result. A repair in place keeps what it replaces
in PATH/lost+found.

Examples:
  superchunk repair broken --dry-run
  superchunk repair broken repaired --holes fill
  superchunk repair broken --in-place --holes cut
  superchunk repair broken repaired --holes fill --allow /disk2/eurofx
  superchunk repair download.blp whole.blp --holes drop
  superchunk repair old.bcolz repaired.bcolz --dtype "<f8"`)
    .action((path: string, dst: string | undefined, flags: RepairFlags) => repair(path, dst, flags, context));
}

async function repair(
  path: string,
  into: string | undefined,
  flags: RepairFlags,
  context: Context,
): Promise<void> {
  const { inPlace, dryRun, json, holes, scan, fill, dtype, shape, chunklen, order } = flags;
  const { discard, breakLock, allow } = flags;
  if (dryRun !== true && (into === undefined) !== (inPlace === true))
    throw wrongUse("dst", "say where the repaired archive goes: a new file or folder as DST, or --in-place", {
      path,
    });
  if (discard === true && inPlace !== true)
    throw wrongUse("discard", "--discard belongs to --in-place: a copy replaces nothing", { path });
  const bar = startProgress(context.io, "repair", { unit: "rows" });
  const { signal } = context;
  const facts = { dtype, shape, chunklen, order, fill, holes, scan };
  const options = { ...facts, into, dryRun, discard, breakLock, allow, signal, onProgress: bar.onProgress };
  try {
    const report = await repairArray(path, options).finally(bar.finish);
    const { rows, rowsBefore, problems, lost } = report;
    if (lost.length > 0) context.note(EXIT.damaged);
    if (json === true) {
      await context.json({
        path,
        destination: dryRun === true ? null : (into ?? path),
        dryRun: dryRun === true,
        ...report,
        rowsBefore: rowsBefore ?? null,
        setAside: report.setAside ?? null,
      });
      return;
    }
    printSome("found", problems, context);
    // The holes come first among what is lost. Of many, neighbours share a line.
    const isLong = report.holes.length > MOST_NAMES;
    if (isLong) printSome("lost", holeLines(report.holes), context);
    printSome("lost", isLong ? lost.slice(report.holes.length) : lost, context);
    const filled = report.filled.reduce((sum, { from, to }) => sum + to - from, 0);
    // A Zarr array has no record of them: their chunks are not stored.
    const where =
      report.intact === undefined
        ? '"superchunk chunks --missing" lists their chunks, which are not stored'
        : "info and verify name them until they are set";
    if (filled > 0) context.message(`filled: ${formatPlural(filled, "row")}; ${where}`);
    if (report.setAside !== undefined)
      context.message(`what was replaced is in ${report.setAside}; remove it when you no longer need it`);
    if (dryRun === true && holes === undefined && report.holes.length > 0) {
      context.message(`${path}: ${refusalText(report.holes, report.policies)}`);
      return;
    }
    const before = rowsBefore === undefined ? "an unknown number" : formatPlural(rowsBefore, "row");
    const verdict = problems.length + lost.length === 0 ? "nothing was wrong; " : "";
    context.message(
      dryRun === true
        ? `${path}: ${verdict}${formatPlural(rows, "row")} would be there, ${before} now`
        : `${into ?? path}: ${verdict}${formatPlural(rows, "row")} now, ${before} before`,
    );
  } catch (error) {
    const found = refusedHoles(error);
    if (found === undefined || json === true) throw error;
    printSome("bad", holeLines(found.holes), context);
    context.message(`${path}: ${refusalText(found.holes, found.policies)}`);
    context.note(EXIT.damaged);
  }
}

/** The holes that stopped the repair, if that is what the error reports. */
function refusedHoles(error: unknown): Pick<RepairReport, "holes" | "policies"> | undefined {
  if (!isSuperchunkError(error, "INCOMPLETE") || error.details.field !== "holes") return undefined;
  const { found, expected } = error.details;
  return { holes: found as readonly Hole[], policies: expected as readonly HolePolicy[] };
}

const POLICIES: { readonly [policy in HolePolicy]: string } = {
  fill: "fill keeps the places of all rows",
  drop: "drop moves rows up",
  cut: "cut ends the rows at the first hole",
};

function refusalText(holes: readonly Hole[], policies: readonly HolePolicy[]): string {
  const rows = holes.reduce((sum, { from, to }) => sum + to - from, 0);
  const chunks = `${formatPlural(holes.length, "chunk")} ${holes.length === 1 ? "is" : "are"}`;
  return `${chunks} missing or damaged, with ${formatPlural(rows, "row")}. Nothing was written: --holes ${policies.map((policy) => POLICIES[policy]).join(", ")}`;
}

/** A line of the report of a repair plan. */
type RepairLine = { readonly path: string } & (
  | { readonly status: "whole" }
  | { readonly status: "refused"; readonly holes: number }
  | ({ readonly status: "repaired"; readonly to: string } & {
      readonly rows: number;
      readonly rowsBefore: number | null;
      /** Rows that hold a fill value. */
      readonly filled: number;
      readonly lost: readonly string[];
    })
  | { readonly status?: undefined; readonly error: { readonly code: ErrorCode; readonly message: string } }
);

/** Prints the result for each archive of a repair plan. */
export async function printRepairs(
  report: readonly JsonObject[],
  { json }: { readonly json?: boolean },
  context: Context,
): Promise<void> {
  const lines = report as unknown as readonly RepairLine[];
  const failed = lines.flatMap((line) =>
    line.status === undefined ? [{ path: line.path, ...line.error }] : [],
  );
  noteFailures(failed, context);
  const count = (status: RepairLine["status"]): number =>
    lines.filter((line) => line.status === status).length;
  if (lines.some((line) => line.status === "refused" || (line.status === "repaired" && line.lost.length > 0)))
    context.note(EXIT.damaged);
  if (json === true) return context.json({ archives: report });
  printFailures(failed, "not repaired", context);
  for (const line of lines) {
    const name = printable(line.path);
    if (line.status === "refused")
      await context.out.line(
        `${name}: ${formatPlural(line.holes, "chunk")} missing or damaged; choose with --holes what to do with their rows`,
      );
    else if (line.status === "repaired") {
      const { to, rows, rowsBefore, filled, lost } = line;
      const before = rowsBefore === null ? "" : ` of ${formatCount(rowsBefore)}`;
      const made = filled > 0 ? `, ${formatCount(filled)} hold a fill value instead` : "";
      const gone = lost.length > 0 ? "; the report lists what is lost" : "";
      await context.out.line(
        `${name}: ${formatCount(rows - filled)}${before} rows are in ${printable(to)}${made}${gone}`,
      );
    }
  }
  const refused = count("refused");
  const words = [
    `${formatCount(count("whole"))} whole`,
    `${formatCount(count("repaired"))} repaired`,
    ...(refused > 0 ? [`${formatCount(refused)} not repaired because --holes is missing`] : []),
    ...(failed.length > 0 ? [`${formatCount(failed.length)} failed`] : []),
  ];
  await context.out.line(`${formatPlural(lines.length, "archive")}: ${words.join(", ")}`);
}
