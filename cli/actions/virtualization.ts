/** Runs `virtualize`: converts flags to library options, and results to lines and JSON. */

import { isSuperchunkError, type SuperchunkError } from "../../src/index.ts";
import { type FoundEntry, type VirtualizeResult, virtualize } from "../../src/node/index.ts";
import type { FailedArchive } from "../../src/zarr.ts";
import type { Context, Switches } from "../context.ts";
import { wrongUse } from "../failure.ts";
import { refuseOther } from "../input/input.ts";
import { formatCount, formatPlural } from "../input/units.ts";
import { type ConvertFlags, noteFailures, printFailures, writeReport } from "../output/convert-report.ts";
import { joinNotes } from "../output/layout.ts";
import { printable } from "../values/cell-text.ts";

export type ReferenceForm = "icechunk" | "kerchunk" | "kerchunk-parquet";

/** The options of `virtualize`. */
export interface TypedVirtualizeFlags
  extends Switches<"update" | "concat" | "shards" | "overwrite" | "oneFile" | "portable" | "json">,
    Pick<ConvertFlags, "dimensionNames" | "column" | "jobs" | "allow" | "report"> {
  readonly to?: ReferenceForm;
  readonly zarrFormat?: "2" | "3";
  readonly grid: "regular" | "rectilinear";
  readonly inline?: number;
  /** False for `--no-guard`. */
  readonly guard: boolean;
  readonly containers?: string;
  readonly message?: string;
}

/** The same with a form: the typed one, or the one that the destination's name implies. */
interface VirtualizeFlags extends TypedVirtualizeFlags {
  readonly to: ReferenceForm;
  /** Its names are among the sources. */
  readonly filesFrom?: string;
}

/**
 * Writes references to the archives: in the form that is typed, else the one that the destination's name implies, else an
 * Icechunk repository, or, if Icechunk cannot be loaded, a kerchunk set.
 */
export async function virtualizeTo(
  sources: readonly string[],
  destination: string,
  flags: TypedVirtualizeFlags,
  context: Context,
): Promise<void> {
  const named = flags.to ?? formNamed(destination);
  if (named !== undefined) return writeForm(sources, destination, { ...flags, to: named }, context);
  try {
    await writeForm(sources, destination, { ...flags, to: "icechunk" }, context);
  } catch (error) {
    const isMissing = isSuperchunkError(error, "UNSUPPORTED") && error.details.field === ICECHUNK;
    // Only Icechunk has commits.
    if (!isMissing || flags.update === true || flags.message !== undefined) throw error;
    const set = destination.replace(/(?:\.icechunk)?\/*(\?[a-z]+=.*)?$/is, ".json$1");
    context.message(
      `${error.message.replace(/\. Without it, .*$/s, "")}. Writing kerchunk references to ${printable(set)} instead`,
    );
    await writeForm(sources, set, { ...flags, to: "kerchunk" }, context);
  }
}

/** The package name, which is the field of the error if it is missing. */
const ICECHUNK = "@earthmover/icechunk";

/** The form that a destination's name implies. */
export function formNamed(destination: string): ReferenceForm | undefined {
  if (/\.json(?:\?.*)?$/i.test(destination)) return "kerchunk";
  return /\.parq(?:uet)?\/?(?:\?.*)?$/i.test(destination) ? "kerchunk-parquet" : undefined;
}

async function writeForm(
  sources: readonly string[],
  destination: string,
  flags: VirtualizeFlags,
  context: Context,
): Promise<void> {
  checkFlags(flags);
  if (flags.report !== undefined) await refuseOther(flags.report);
  let entries: readonly FoundEntry[] = [];
  const failures: FailedArchive[] = [];
  let status: "referenced" | "left out" = "left out";
  const { grid, column, zarrFormat, json: _, filesFrom: _names, report: file, ...options } = flags;
  try {
    const result = await virtualize(sources, destination, {
      ...options,
      rectilinear: grid === "rectilinear",
      columns: column,
      zarrFormat: zarrFormat === undefined ? undefined : zarrFormat === "2" ? 2 : 3,
      onFound: (found) => {
        entries = found;
      },
      onFailure: (failure) => void failures.push(failure),
      signal: context.signal,
    });
    status = "referenced";
    await printReferences(result, destination, flags, context);
  } catch (error) {
    printFailures(failures, "not referenced", context);
    throw error;
  } finally {
    if (file !== undefined) await writeReport(file, entriesOf(entries, status, failures));
  }
}

function checkFlags(flags: VirtualizeFlags): void {
  const refuse = (field: string, reason: string): SuperchunkError => wrongUse(field, `--${field} ${reason}`);
  if (flags.to !== "kerchunk" && flags.zarrFormat !== undefined)
    throw refuse("zarr-format", "is for kerchunk JSON: Icechunk has Zarr v3, kerchunk's Parquet Zarr v2");
  if (flags.grid === "rectilinear" && (flags.to === "kerchunk-parquet" || flags.zarrFormat === "2"))
    throw refuse("grid", "rectilinear needs Zarr v3: write Icechunk, or kerchunk JSON of Zarr v3");
  if (flags.to !== "kerchunk" && flags.oneFile === true)
    throw refuse("one-file", "is for kerchunk JSON: the other forms are folders");
  if (flags.shards === true) {
    if (flags.to === "kerchunk-parquet" || flags.zarrFormat === "2")
      throw refuse("shards", "needs Zarr v3: write Icechunk, or kerchunk JSON of Zarr v3");
    for (const [name, other] of [
      ["--portable", flags.portable],
      ["--column", flags.column],
      ["--inline", flags.inline],
      ["--grid rectilinear", flags.grid === "rectilinear" ? true : undefined],
    ] as const)
      if (other !== undefined) throw refuse("shards", `refers to files as they were linked, without ${name}`);
  }
  if (flags.overwrite === true && flags.to === "icechunk" && flags.update !== true)
    throw refuse(
      "overwrite",
      "is for kerchunk; an Icechunk repository is added to with --update, and with both all is referenced again",
    );
}

/** The entries of `--report`. */
function entriesOf(
  entries: readonly FoundEntry[],
  status: "referenced" | "left out",
  failures: readonly FailedArchive[],
): readonly unknown[] {
  const failed = new Set(failures.map(({ path }) => path));
  return [
    ...entries.filter(({ path }) => !failed.has(path)).map((entry) => ({ ...entry, status })),
    ...failures.map((failure) => ({ ...failure, status: "failed" })),
  ];
}

/** Prints what was written, and the lines that open it. */
export async function printReferences(
  { open: lines, failures, ...result }: VirtualizeResult,
  destination: string,
  flags: Pick<VirtualizeFlags, "to" | "guard" | "json">,
  context: Context,
): Promise<void> {
  noteFailures(failures, context);
  if (flags.json === true)
    return context.json({ destination, form: flags.to, ...result, failures, open: lines });
  printFailures(failures, "not referenced", context);
  for (const note of joinNotes(result.notes)) context.message(`note: ${note}`);
  if (!flags.guard)
    context.message(
      "note: without guards, a reader does not notice that an archive has changed, and reads wrong values",
    );
  const stored = result.padded + result.recoded + result.inlined;
  const kept = result.kept === undefined || result.kept === 0 ? "" : `, ${formatCount(result.kept)} kept`;
  const files = result.chunkFiles ?? [];
  const place = files.length === 0 ? "" : ` in ${files.map(printable).join(" and ")}`;
  const failed = failures.length > 0 ? `, ${formatCount(failures.length)} not referenced` : "";
  await context.out.line(
    `${formatPlural(result.arrays, "array")}${failed}: ${formatPlural(result.virtual, "reference")}${kept}, ` +
      `${formatPlural(stored, "chunk")} stored beside them${place}, ${formatCount(result.sampled)} read back and compared`,
  );
  if (result.snapshot !== undefined) await context.out.line(`commit ${result.snapshot}`);
  for (const [language, text] of Object.entries(lines))
    await context.out.line(`\n${language}:\n${text.replace(/^/gm, "  ")}`);
  for (const { name, prefix } of result.containers)
    await context.out.line(`\ncontainer ${name}: ${printable(prefix)}`);
}
