/** The option `--damaged` of commands that read, and the report of lost data. */
import { Option } from "commander";
import type { DamageReport, Hole, OpenOptions } from "../../src/index.ts";
import type { Context } from "../context.ts";
import { EXIT } from "../failure.ts";
import { MOST_NAMES } from "../output/layout.ts";
import { formatCount, formatPlural } from "./units.ts";

/** What to do at a missing or damaged chunk. */
export const DAMAGED = ["stop", "skip", "fill"] as const;
export type Damaged = (typeof DAMAGED)[number];

export function damagedOption(): Option {
  return new Option(
    "--damaged <how>",
    "if a chunk of an archive is missing or damaged: stop with an error, or skip its rows, or fill them with the default value; skip and fill list the rows and exit with 3",
  )
    .choices(DAMAGED)
    .default("stop");
}

/** Options of opening, which collect the lost data in `reports`. */
export function readingDamaged(
  damaged: Damaged | undefined,
  reports: DamageReport[],
): Pick<OpenOptions, "damaged" | "onDamage"> {
  return { damaged, onDamage: (report) => void reports.push(report) };
}

/** Reports the lost data of each archive, and notes exit code 3 if there are any. */
export function printDamage(
  reports: readonly DamageReport[],
  damaged: Damaged | undefined,
  context: Context,
): void {
  const did = damaged === "fill" ? "filled" : "skipped";
  for (const { path, holes, lost } of reports) {
    context.note(EXIT.damaged);
    printSome(did, holeLines(holes), context, '"superchunk repair --dry-run --json" lists all');
    for (const loss of lost) context.message(`${path}: lost: ${loss}`);
    context.message(`${path}: ${formatPlural(holes.length, "chunk")} ${did}`);
  }
}

/** Prints a line for each of these; of many, only the first. */
export function printSome(
  what: string,
  lines: readonly string[],
  context: Context,
  all = "--json lists all",
): void {
  for (const line of lines.slice(0, MOST_NAMES)) context.message(`${what}: ${line}`);
  const more = lines.length - MOST_NAMES;
  if (more > 0) context.message(`${what}: ${formatCount(more)} more; ${all}`);
}

/** Lines of a list of holes. Of many, neighbours with the same code share one. */
export function holeLines(holes: readonly Hole[]): string[] {
  if (holes.length <= MOST_NAMES) return holes.map((hole) => holeText(hole));
  const runs: { readonly first: Hole; last: Hole }[] = [];
  for (const hole of holes) {
    const run = runs.at(-1);
    const isNext = run !== undefined && run.last.column === hole.column && run.last.chunk + 1 === hole.chunk;
    if (isNext && run.last.code === hole.code) run.last = hole;
    else runs.push({ first: hole, last: hole });
  }
  return runs.map(({ first, last }) => holeText(first, last));
}

/** One line for a hole, or for neighbours up to `last`: chunk, rows, file, byte, reason. */
function holeText(hole: Hole, last = hole): string {
  const { column, chunk, from, path, offset, code, reason } = hole;
  const place = offset === undefined ? path : `${path}, byte ${offset}`;
  const of = column === undefined ? "" : `column "${column}", `;
  const chunks = last === hole ? `chunk ${chunk}` : `chunks ${chunk} to ${last.chunk}`;
  const rows = last.to - from === 1 ? `row ${from}` : `rows ${from} to ${last.to - 1}`;
  return `${of}${chunks}, ${rows}${last === hole ? "" : "; the first"}: ${place === "" ? "" : `${place}: `}${code}: ${reason}`;
}
