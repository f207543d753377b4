/** Prints and writes the plans, results and reports of `convert`. */
import { writeFile } from "node:fs/promises";
import {
  type DamageReport,
  type DType,
  type ErrorCode,
  isSuperchunkError,
  type JsonValue,
  type OpenAnyOptions,
  parseDType,
  SuperchunkError,
  stringifyJson,
} from "../../src/index.ts";
import type { ConvertPathOptions } from "../../src/node/index.ts";
import type {
  ConversionPlan,
  ConvertFormat,
  ConvertResult,
  PlanEntry,
  PlannedArray,
} from "../../src/zarr.ts";
import type { Context, Switches } from "../context.ts";
import { EXIT, wrongUse } from "../failure.ts";
import type { Damaged } from "../input/damaged.ts";
import { formatCount, formatDuration, formatExactSize, formatPlural, formatSize } from "../input/units.ts";
import { printable } from "../values/cell-text.ts";
import { alignRows, joinNotes, shapeText } from "./layout.ts";
import { openingZarr } from "./opening-lines.ts";
import { JsonArray } from "./output.ts";

/** The options of `convert`. */
export interface ConvertFlags
  extends Switches<
    | "portable"
    | "compatible"
    | "dryRun"
    | "concat"
    | "verify"
    | "verifyOnly"
    | "resume"
    | "overwrite"
    | "breakLock"
    | "json"
  > {
  readonly to: ConvertFormat;
  readonly shardSize?: number;
  readonly chunksPerShard?: number;
  readonly grid?: "regular" | "rectilinear";
  readonly dtype?: string;
  readonly shape?: readonly number[];
  readonly dimensionNames?: readonly string[];
  readonly column?: readonly string[];
  /** False for `--no-recode`. */
  readonly recode: boolean;
  readonly statistics?: "pages" | "none";
  readonly rowGroupRows?: number;
  readonly strings?: "utf8" | "fixed";
  /** False for `--no-zipline`. */
  readonly zipline?: boolean;
  readonly prices?: "raw" | "decimal" | "double";
  readonly partition?: "rows" | "symbol" | "year";
  readonly damaged?: Damaged;
  /** Opening options for `--damaged`, and the lost data found. */
  readonly reading: Pick<OpenAnyOptions, "damaged" | "onDamage" | "allow">;
  readonly allow?: readonly string[];
  readonly gone: readonly DamageReport[];
  readonly jobs?: number;
  readonly report?: string;
}

/** The library's options. Throws `BAD_ARGUMENT` for an invalid dtype. */
export function toOptions(flags: ConvertFlags, context: Context): ConvertPathOptions {
  const { to, shardSize, chunksPerShard, grid, portable, shape, dimensionNames, column } = flags;
  const { recode, verify, verifyOnly, resume, overwrite, breakLock, jobs } = flags;
  return {
    to,
    shardSize,
    chunksPerShard,
    grid,
    portable,
    shape,
    dimensionNames,
    columns: column,
    recode,
    verify,
    verifyOnly,
    resume,
    overwrite,
    breakLock,
    jobs,
    dtype: flags.dtype === undefined ? undefined : readDType(flags.dtype),
    concat: flags.concat,
    parquet:
      to === "parquet" || to === "arrow"
        ? {
            statistics: flags.statistics !== "none",
            compatible: flags.compatible,
            rowGroupRows: flags.rowGroupRows,
            strings: flags.strings,
            zipline: flags.zipline,
            prices: flags.prices,
            partition: flags.partition,
          }
        : undefined,
    signal: context.signal,
    ...flags.reading,
  };
}

/** The lost data of the sources as a member for `--json`; absent if there are none. */
export function damageOf({ gone }: ConvertFlags): { readonly damage?: readonly DamageReport[] } {
  return gone.length === 0 ? {} : { damage: gone };
}

function readDType(text: string): DType {
  try {
    return parseDType(text, "--dtype");
  } catch (error) {
    if (!isSuperchunkError(error)) throw error;
    throw wrongUse("dtype", `${error.summary}; give for example "<f8", ">i4" or "datetime64[ns]"`, {
      path: "--dtype",
      found: text,
      cause: error,
    });
  }
}

/** Notes on many archives that are printed. */
const MOST_NOTES = 5;

/** Prints the final line of a conversion, after its notes. */
export async function printResult(
  result: ConvertResult,
  asked: {
    readonly destination: string;
    readonly flags: Pick<ConvertFlags, "to" | "dimensionNames" | "verifyOnly" | "report">;
  },
  context: Context,
): Promise<void> {
  const { destination, flags } = asked;
  if (flags.verifyOnly === true) return printCompared(result, context);
  const { to, dimensionNames } = flags;
  const { notes, renamed, failures, converted, failed } = result;
  // Archives found in a folder have a path below the destination.
  const isMany = to === "zarr" && result.entries[0]?.node !== "";
  const joined = joinNotes(notes);
  if (isMany) {
    if (joined.length > MOST_NOTES)
      context.message(`${formatPlural(notes.length, "note")}: --json lists them`);
    else for (const note of joined) context.message(`note: ${note}`);
    if (renamed.length > 0)
      context.message(`${formatPlural(renamed.length, "name")} changed: --json lists them`);
  } else {
    for (const { from, to: name } of renamed) context.message(`note: ${from} is named ${name}`);
    for (const note of joined) context.message(`note: ${note}`);
  }
  printFailures(
    result.entries.filter(({ status }) => status === "failed"),
    "not converted",
    context,
    flags.report ?? "--report FILE, or --json,",
  );
  if (isMany) {
    const rest = failed > 0 ? `, ${formatCount(failed)} failed` : "";
    await context.out.line(`${formatPlural(converted, "archive")} converted${rest}: ${zarrLine(result)}`);
  } else if (to === "zarr") {
    const left = failures.length > 0 ? `, ${formatPlural(failures.length, "array")} not converted` : "";
    await context.out.line(`${zarrLine(result)}${left}`);
  } else await context.out.line(`converted ${otherWords(result, to).join(", ")}`);
  // zarr-python does not understand the settings of an address in a bucket.
  if (to !== "zarr" || result.arrays === 0 || /^\w+:\/\/.*\?/.test(destination)) return;
  const { groups } = result;
  const isNamed = isMany && dimensionNames !== undefined;
  if (isNamed)
    context.message(
      "note: all arrays have the dimension names that were given; xarray opens a group only if those of one name have the same length",
    );
  const shape = isNamed ? "group" : isMany || groups > 1 ? "tree" : groups === 1 ? "dataset" : "array";
  const isRectilinear = notes.some((note) => note.includes("array.rectilinear_chunks"));
  context.message(`in Python: ${openingZarr(destination, shape, isRectilinear)}`);
}

/** The final line of `--verify-only`, after what is not equal. */
async function printCompared(result: ConvertResult, context: Context): Promise<void> {
  const { entries, arrays, failed, nbytes, seconds } = result;
  printFailures(
    entries.filter(({ status }) => status === "failed"),
    "not equal to its source",
    context,
  );
  const rest = failed > 0 ? `, ${formatCount(failed)} not` : "";
  const size = formatSize(nbytes);
  await context.out.line(
    `${formatPlural(arrays, "array")} equal to the source${rest}, ${size} compared, ${formatDuration(seconds)}`,
  );
}

/** `8 chunks copied, 0 recoded, 13,204 bytes (12.9 KiB), 1 shard, 0.12 seconds`. */
function zarrLine(result: ConvertResult): string {
  const { chunksCopied, chunksPadded, chunksRecoded, bytesWritten, shards, shardsKept, seconds } = result;
  const words = [
    `${formatPlural(chunksCopied, "chunk")} copied`,
    ...(chunksPadded > 0 ? [`${formatCount(chunksPadded)} padded`] : []),
    `${formatCount(chunksRecoded)} recoded`,
    formatExactSize(bytesWritten),
    `${formatPlural(shards, "shard")}${shardsKept > 0 ? ` (${formatCount(shardsKept)} kept)` : ""}`,
    formatDuration(seconds),
    ...(result.verified && result.converted > 0 ? ["verified"] : []),
  ];
  return words.join(", ");
}

function otherWords(result: ConvertResult, to: ConvertFlags["to"]): readonly string[] {
  const { arrays, nbytes, chunksCopied, chunksPadded, chunksRecoded, seconds, kept, failed } = result;
  const { chunksRestreamed = 0 } = result;
  const verified = result.verified && result.converted > 0 ? ["verified"] : [];
  const copied =
    to === "parquet" || to === "b2nd"
      ? `${formatPlural(chunksRestreamed, "chunk")} restreamed`
      : `${formatPlural(chunksCopied, "chunk")} copied`;
  if (to === "zarr3-transformer")
    return [formatPlural(arrays, "array"), copied, `${formatCount(chunksPadded)} padded`, ...verified];
  return [
    formatPlural(arrays, "array"),
    formatSize(nbytes),
    ...(chunksCopied + chunksRecoded + chunksRestreamed === 0
      ? []
      : [copied, `${formatCount(chunksRecoded)} recompressed`]),
    formatDuration(seconds),
    ...verified,
    ...(kept > 0 ? [`${formatCount(kept)} kept of an earlier run`] : []),
    ...(failed > 0 ? [`${formatCount(failed)} failed`] : []),
  ];
}

/** Writes the result for each archive. */
export async function writeReport(path: string, archives: readonly unknown[]): Promise<void> {
  const text = `${stringifyJson({ archives } as unknown as JsonValue, { indent: 2 })}\n`;
  await writeFile(path, text).catch((error: Error) => {
    throw Object.assign(error, { path }); // the system's error does not name the file
  });
}

/** Prints the plans of `--dry-run`. A refused archive counts as a failure, because the conversion would fail. */
export async function printPlans(
  entries: AsyncIterable<PlanEntry>,
  destination: string,
  flags: ConvertFlags,
  context: Context,
): Promise<void> {
  if (flags.to !== "zarr") return printColumnPlans(entries, destination, flags, context);
  let list: JsonArray | undefined;
  const sums = { archives: 0, kept: 0, refused: 0, nbytes: 0 };
  for await (const entry of entries) {
    noteEntry(entry, context);
    const { plan, notes, missingGroups } = entry;
    if (entry.kept === true) sums.kept++;
    sums.archives++;
    sums.nbytes += plan?.nbytes ?? 0;
    if (isRefused(entry)) sums.refused++;
    if (flags.json !== true)
      for (const group of missingGroups ?? [])
        context.message(`note: ${group}: the missing Zarr group will be created`);
    const isOne = entry.node === "" && plan !== undefined && list === undefined;
    if (!isOne && flags.json === true) {
      list ??= new JsonArray(context.out);
      await list.add(entry);
    } else if (!isOne || plan === undefined) await context.out.line(planLine(entry));
    else if (flags.json === true)
      await context.json({ ...plan, notes, ...(missingGroups && { missingGroups }) });
    else {
      for (const note of notes) context.message(`note: ${note}`);
      await printPlan(plan, context);
    }
  }
  await list?.end();
  if (sums.archives <= 1) return;
  const refused = sums.refused > 0 ? `, ${formatCount(sums.refused)} refused` : "";
  const kept = sums.kept > 0 ? `, ${formatCount(sums.kept)} there already` : "";
  const planned = formatPlural(sums.archives - sums.kept - sums.refused, "archive");
  context.message(
    `${planned} to convert, ${formatSize(sums.nbytes)}${kept}${refused}; only their metadata and headers were read`,
  );
}

function isRefused({ plan, kept }: PlanEntry): boolean {
  if (kept === true) return false;
  return plan === undefined || plan.arrays.some(({ action }) => action === "refuse");
}

function noteEntry(entry: PlanEntry, context: Context): void {
  noteFailures([entry, ...(entry.plan?.arrays ?? [])], context);
}

async function printPlan(plan: ConversionPlan, context: Context): Promise<void> {
  const header = ["array", "action", "shape", "chunks", "shards", "size", "data type"];
  const rows = plan.arrays.map((array) => [
    array.node === "" ? "/" : `/${printable(array.node)}`,
    array.action,
    array.shape === undefined ? "-" : shapeText(array.shape),
    formatCount(array.chunks),
    formatCount(array.shards),
    formatSize(array.nbytes),
    dataTypeText(array),
  ]);
  await context.out.lines(alignRows([header, ...rows], new Set([3, 4, 5]), context.out.columns));
  for (const { node, reason, notes } of plan.arrays) {
    const name = node === "" ? "" : `${printable(node)}: `;
    const isGiven = reason === undefined || notes.some((note) => note.includes(reason));
    for (const remark of [...(isGiven ? [] : [reason]), ...notes])
      await context.out.line(`${name}${printable(remark)}`);
  }
}

function dataTypeText({ dataType }: PlannedArray): string {
  if (dataType === undefined) return "-";
  if (typeof dataType === "string") return printable(dataType);
  const name = (dataType as { readonly name?: JsonValue } | null)?.name;
  return printable(typeof name === "string" ? name : stringifyJson(dataType));
}

/** `copy    22.1 MiB  prices.blp -> /prices.blp`, with the reason for everything that is not copied. */
function planLine({ path, node, plan, kept, code, message }: PlanEntry): string {
  const names = `${printable(path)} -> /${printable(node)}`;
  if (kept === true) return `${"keep".padEnd(7)} ${"-".padStart(10)}  ${names}`;
  if (plan === undefined)
    return `${"refuse".padEnd(7)} ${"-".padStart(10)}  ${names}: ${printable(message ?? "")} (${code})`;
  const actions = new Set(plan.arrays.map((array) => array.action));
  const action =
    (["refuse", "recode", "mixed", "copy", "empty"] as const).find((each) => actions.has(each)) ?? "empty";
  const reasons = new Set(plan.arrays.flatMap((array) => (array.reason === undefined ? [] : [array.reason])));
  const why = reasons.size === 0 ? "" : `: ${printable([...reasons].join("; "))}`;
  return `${action.padEnd(7)} ${formatSize(plan.nbytes).padStart(10)}  ${names}${why}`;
}

/** Prints the plans of files and folders in a table. */
async function printColumnPlans(
  entries: AsyncIterable<PlanEntry>,
  destination: string,
  flags: ConvertFlags,
  context: Context,
): Promise<void> {
  const all: (Omit<PlanEntry, "plan"> & { readonly arrays: readonly PlannedArray[] })[] = [];
  for await (const entry of entries) {
    noteEntry(entry, context);
    const { plan, ...rest } = entry;
    all.push({ ...rest, arrays: plan?.arrays ?? [] });
  }
  if (flags.json === true) return context.json({ destination, format: flags.to, entries: all });
  const header = ["source", "action", "shape", "chunks", "size", "destination"];
  const rows = all.flatMap(({ path, node: own, arrays, kept, code, message }) => {
    if (kept === true) return [[printable(path), "keep", "-", "-", "-", printable(own)]];
    if (code !== undefined)
      return [[printable(path), "refuse", "-", "-", "-", `${code}: ${printable(message ?? "")}`]];
    return arrays.map(({ source, action, shape, chunks, nbytes, node }) => [
      printable(source),
      action,
      shapeText(shape ?? []),
      formatCount(chunks),
      formatSize(nbytes),
      printable(node),
    ]);
  });
  await context.out.lines(alignRows([header, ...rows], new Set([3, 4]), context.out.columns));
  for (const { arrays, notes } of all) {
    for (const { source, reason } of arrays)
      if (reason !== undefined) await context.out.line(`${printable(source)}: ${printable(reason)}`);
    const own = arrays.flatMap((array) => array.notes);
    for (const note of joinNotes([...notes, ...own])) await context.out.line(printable(note));
  }
}

// Reports archives that failed while others did not: lines on stderr, and the exit code.

/** Most failures to print on stderr; the report has all of them. */
const FAILURES_PRINTED = 20;

/** Prints one line per failure; `what` says what did not happen, for example `not converted`, and `list` what has all of them. */
export function printFailures(
  failures: readonly { readonly path: string; readonly code?: ErrorCode; readonly message?: string }[],
  what: string,
  context: Context,
  list = "--json",
): void {
  for (const { path, code, message } of failures.slice(0, FAILURES_PRINTED))
    context.message(`${what}: ${withPlace(path, message ?? "")} (${code})`);
  const omitted = failures.length - FAILURES_PRINTED;
  if (omitted > 0) context.message(`and ${formatCount(omitted)} more ${what}: ${list} lists them`);
}

/** A message, preceded by its path unless it begins with that. */
export function withPlace(path: string, message: string): string {
  return message.startsWith(path) ? message : `${path}: ${message}`;
}

/** Sets the exit code for the failures. */
export function noteFailures(entries: readonly { readonly code?: ErrorCode }[], context: Context): void {
  for (const { code } of entries)
    if (code !== undefined) context.note(new SuperchunkError(code, "").isDamage ? EXIT.damaged : EXIT.failed);
}
