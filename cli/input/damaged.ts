/** The option `--damaged` of commands that read, and the report of lost data. */
import { Option } from "commander";
import type { DamageReport, Hole, OpenOptions } from "../../src/index.ts";
import type { Context } from "../context.ts";
import { EXIT } from "../failure.ts";
import { formatPlural } from "./units.ts";

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
    for (const hole of holes) context.message(`${did}: ${holeText(hole)}`);
    for (const loss of lost) context.message(`${path}: lost: ${loss}`);
    context.message(`${path}: ${formatPlural(holes.length, "chunk")} ${did}`);
  }
}

/** One line of a list of holes: chunk, rows, file, byte, reason. */
export function holeText({ column, chunk, from, to, path, offset, code, reason }: Hole): string {
  const place = offset === undefined ? path : `${path}, byte ${offset}`;
  const of = column === undefined ? "" : `column "${column}", `;
  const rows = to - from === 1 ? `row ${from}` : `rows ${from} to ${to - 1}`;
  return `${of}chunk ${chunk}, ${rows}: ${place === "" ? "" : `${place}: `}${code}: ${reason}`;
}
